"""From wishes and a machine to a plan: the choice, and everything that follows from it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from smr.environment import tables, versions
from smr.environment.envs.candidates import Candidate, torch_archs
from smr.environment.envs.choose import Choice, choose
from smr.environment.envs.demands import Wishes, build_arch, demands_of, oldest_gcc
from smr.environment.envs.machine import Machine, covers
from smr.environment.envs.plan import Plan
from smr.environment.envs.recipes import Recipe, bundled
from smr.environment.vitals import VITALS


@dataclass(frozen=True)
class Planned:
    """A plan with its reasons."""

    plan: Plan | None
    """The plan, or the nearest that works where the wishes exclude each other."""
    choice: Choice
    machine: Machine

    @property
    def possible(self) -> bool:
        """Whether every wish is met."""
        return self.plan is not None and not self.choice.given_up

    def document(self) -> dict[str, Any]:
        """The documented JSON form."""
        return {
            "version": 1,
            "possible": self.possible,
            "plan": self.plan and self.plan.document(),
            "conflict": list(self.choice.conflict),
            "given_up": [{"wish": name, "why": why} for name, why in self.choice.given_up],
            "rejected": [
                {"variable": r.variable, "value": r.value, "rule": r.rule or "works too, preferred less"}
                for r in self.choice.rejected
            ],
            "machine": asdict(self.machine),
        }


def make_plan(
    recipe: Recipe,
    wishes: Wishes,
    machine: Machine,
    *,
    ignore_range: bool = False,
    own_index: bool = False,
    over: str = "",
) -> Planned:
    """Choose, and derive what follows.

    Args:
        recipe: The package.
        wishes: What was asked for.
        machine: The machine that it is for.
        ignore_range: Let the source build try a torch beyond the range that the package accepts.
        own_index: Take torch from the index that pip is set to, not from torch's own.
        over: Interpreter whose torch stays; the wishes name that torch.
    """
    choice = choose(recipe, demands_of(wishes, machine), machine, ignore_range=ignore_range)
    if choice.candidate is None:
        return Planned(None, choice, machine)
    plan = _plan(recipe, choice.candidate, wishes, machine, ignore_range, own_index or bool(over))
    return Planned(replace(plan, over=over), choice, machine)


def _plan(
    recipe: Recipe, one: Candidate, wishes: Wishes, machine: Machine, ignore_range: bool, own_index: bool
) -> Plan:
    release, source = one.release, one.method == "source"
    archs = _architectures(one, machine)
    git = recipe.group("source")
    fill = {"torch": one.torch, "torch_minor": versions.minor(one.torch), "build": one.build}
    return Plan(
        package=recipe.name,
        package_version=release.version,
        method=one.method,
        python=one.python,
        torch=one.torch,
        build=one.build,
        torch_index="" if own_index else _index(one),
        wheel_page="" if source else release.wheel_page.format(**fill),
        source_git=str(git.get("git", "")) if source else "",
        source_tag=release.tag if source else "",
        source_folder=str(git.get("subdirectory", "")) if source else "",
        submodules=_submodules(git, one) if source else (),
        companions=_companions(recipe, one),
        requires=(*release.requires, *_numpy(one)),
        build_requires=_build_tools(recipe, one) if source else (),
        architectures=archs,
        gcc=(oldest_gcc(one.torch), str(tables.newest_compiler(one.cuda) or "") if one.cuda else "") if source else (),
        driver=tables.oldest_driver(one.cuda) if one.cuda else "",
        glibc=str(tables.torch_release(one.torch).get("glibc_floor", "")),
        imports=recipe.imports,
        gb_a_job=float(recipe.data.get("gb_a_job", 4.0)),
        cpu_minutes=_minutes(recipe, one, archs) if source else 0,
        notes=tuple(_notes(recipe, one, machine)),
        switches=_switches(recipe, one, archs, ignore_range) if source else {},
        signs=_signs(recipe),
        wishes={**{k: v for k, v in asdict(wishes).items() if v}, **_of_machine(machine)},
    )


def _architectures(one: Candidate, machine: Machine) -> tuple[str, ...]:
    """The GPUs' own, or, where no GPU is named, all that torch's build has and its toolkit makes."""
    if not one.cuda:
        return ()
    if one.method == "wheel":
        return machine.gpus
    if machine.gpus:
        return tuple(sorted({build_arch(gpu, one.cuda) for gpu in machine.gpus} - {""}, key=versions.parse))
    known = torch_archs(one.torch, one.cuda, machine.architecture).replace("+PTX", "").split(";")
    return tuple(sorted((arch for arch in known if arch), key=versions.parse))


def _index(one: Candidate) -> str:
    """Torch's own index, except for the build that the package index itself has."""
    default = versions.minor(tables.torch_release(one.torch).get("default_cuda", ""))
    return "" if one.cuda and one.cuda == default else bundled("torch")["index"].format(build=one.build)


def _submodules(git: Any, one: Candidate) -> tuple[str, ...]:
    limit = git.get("needs_submodules_below_cuda", "")
    if limit and not (one.cuda and versions.below(one.cuda, limit)):
        return ()
    return tuple(git.get("submodules", ()))


def _companions(recipe: Recipe, one: Candidate) -> tuple[str, ...]:
    first = recipe.text("torchvision_from")
    if not first or not (one.release.head or versions.at_least(one.release.version, first)):
        return ()
    pairs, minor = bundled("torch")["torchvision"], versions.minor(one.torch)
    major, number = (*versions.parse(one.torch), 0)[:2]
    wanted = pairs.get(minor) or (f"0.{pairs['2'] + number}" if major == 2 else "")
    return (f"torchvision=={wanted}.*" if wanted else "torchvision",)


def _numpy(one: Candidate) -> tuple[str, ...]:
    return ("numpy<2",) if versions.below(one.torch, bundled("torch")["numpy_below_2_until_torch"]) else ()


def _build_tools(recipe: Recipe, one: Candidate) -> tuple[str, ...]:
    named = {text.split("=")[0].split("<")[0].split(">")[0].strip().lower() for text in one.release.build_requires}
    tools = [f"setuptools=={_setuptools(one)}", "wheel", "ninja", *one.release.build_requires]
    if recipe.data.get("numpy_at_build") and "numpy" not in named:
        tools.append("numpy")
    return tuple(tools)


def _setuptools(one: Candidate) -> str:
    if one.release.setuptools:
        return one.release.setuptools
    for row in bundled("torch")["setuptools"]:
        torch, python = row.get("torch_below", ""), row.get("python_below", "")
        if (not torch or versions.below(one.torch, torch)) and (not python or versions.below(one.python, python)):
            return str(row["pin"])
    raise AssertionError("the last row has no condition")


def _switches(recipe: Recipe, one: Candidate, archs: tuple[str, ...], ignore_range: bool) -> dict[str, str]:
    rows = recipe.group("switches").get("cuda" if one.cuda else "cpu", {})
    values = {"archs": ";".join(archs), "numbers": ";".join(arch.replace(".", "") for arch in archs)}
    found = {name: str(text).format(**values) for name, text in rows.items()}
    switch = recipe.text("ignore_range_switch")
    if ignore_range and switch and one.release.can_ignore_range:
        found[switch] = "1"
    return found


def _minutes(recipe: Recipe, one: Candidate, archs: tuple[str, ...]) -> int:
    """About: measured for one architecture (or the CPU); further ones cost about two thirds each."""
    costs = recipe.group("cpu_minutes")
    if not one.cuda:
        return int(costs.get("cpu", 0))
    return round(float(costs.get("arch", 0)) * (1 + 0.65 * max(0, len(archs) - 1)))


def _signs(recipe: Recipe) -> dict[str, str]:
    named = recipe.data.get("signs", ())
    return {
        **{vital.name: vital.code for vital in VITALS if vital.name in named},
        **{str(name): str(code) for name, code in recipe.group("signs_code").items()},
    }


def _notes(recipe: Recipe, one: Candidate, machine: Machine) -> list[str]:
    found = [recipe.text("note")] if recipe.text("note") else []
    if not one.offered:
        found.append(
            f"the package's page names a wheel for torch {one.torch} and {one.build}, but torch's own index is not "
            f"known to have that build"
        )
    if one.cuda and not machine.driver:
        found.append(f"the driver is not known: CUDA {one.cuda} needs {tables.oldest_driver(one.cuda)} or newer")
    if one.cuda and not machine.gpus:
        found.append("no GPU is known: what its architecture needs is not checked")
    if one.cuda and not torch_archs(one.torch, one.cuda, machine.architecture):
        found.append(f"which GPUs torch {one.torch} for {one.build} has code for is not confirmed")
    if one.method == "source" and one.cuda and one.cuda not in machine.toolkits:
        found.append(f"the build needs the whole toolkit of CUDA {one.cuda} (nvcc and headers)")
    if machine.python and one.python != machine.python:
        found.append(f"Python {one.python} has to be there; {machine.origin} has {machine.python}")
    if recipe.text("cub_home_below_cuda") and one.cuda and versions.below(one.cuda, recipe.text("cub_home_below_cuda")):
        found.append("set CUB_HOME to a copy of CUB: this CUDA needs it")
    return found


def _of_machine(machine: Machine) -> dict[str, str]:
    """What the plan knew of the machine, so that the next version can be planned for the same one."""
    found = {
        "gpus": ",".join(machine.gpus) or ("none" if machine.no_gpu else ""),
        "driver": machine.driver,
        "glibc": machine.glibc,
        "gcc": machine.gcc,
        "machine_python": machine.python,
        "architecture": machine.architecture,
    }
    return {key: value for key, value in found.items() if value}


def serves(plan: Plan, capability: str) -> bool:
    """Whether what the plan compiles for runs on a GPU."""
    return not plan.architectures or bool(covers(";".join(plan.architectures), capability))
