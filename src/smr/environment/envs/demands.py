"""What is asked of a plan: the user's wishes and what the machine is. Each is a named test that says why it fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from smr.environment import tables, versions
from smr.environment.envs.candidates import Candidate, builds_of, torch_archs
from smr.environment.envs.machine import Machine, covers

Test = Callable[[Candidate], str]
OLDEST_GCC = {"2.2": "9.3", "2.0": "7", "1.5": "5"}
"""Oldest gcc by the torch it starts with. 9.3: spack's torch package; the others: C++17 and C++14 of its headers."""


@dataclass(frozen=True)
class Wishes:
    """What the user typed; empty texts are free."""

    package: str = ""
    torch: str = ""
    cuda: str = ""
    """A CUDA version, or `cpu`."""
    python: str = ""
    method: str = ""


@dataclass(frozen=True)
class Demand:
    """One demand."""

    name: str
    """As it is shown: `--torch 2.5`, `driver 470.82 (this machine)`."""
    test: Test
    cost: int
    """How hard it is to give up: a version wish 1, another compiler 2, a driver 4, a system 8, a GPU 16."""


def demands_of(wishes: Wishes, machine: Machine) -> list[Demand]:
    """All demands, those that are easy to give up first."""
    found = [*_of_wishes(wishes), *_of_machine(machine)]
    return sorted(found, key=lambda demand: demand.cost)


def _of_wishes(wishes: Wishes) -> list[Demand]:
    found = []
    if wishes.cuda:
        found.append(Demand(f"--cuda {wishes.cuda}", lambda c: _cuda(c, wishes.cuda), 1))
    if wishes.python:
        found.append(Demand(f"--python {wishes.python}", lambda c: _same(c.python, wishes.python), 1))
    if wishes.method:
        found.append(Demand(f"--{wishes.method}", lambda c: _same(c.method, wishes.method), 1))
    if wishes.torch:
        found.append(Demand(f"--torch {wishes.torch}", lambda c: _same(c.torch, wishes.torch), 2))
    if wishes.package:
        found.append(Demand(f"version {wishes.package}", lambda c: _release(c, wishes.package), 3))
    return found


def _of_machine(machine: Machine) -> list[Demand]:
    at = f" ({machine.origin})" if machine.origin != "options" else ""
    found = []
    if machine.gcc:
        found.append(Demand(f"gcc {machine.gcc}{at}", lambda c: _gcc(c, machine.gcc), 2))
    if machine.driver:
        found.append(Demand(f"driver {machine.driver}{at}", lambda c: _driver(c, machine.driver), 4))
    if machine.glibc:
        where = f" of {machine.distribution}" if machine.distribution else ""
        found.append(Demand(f"glibc {machine.glibc}{where}{at}", lambda c: _glibc(c.torch, machine.glibc), 8))
    for index, capability in enumerate(machine.gpus):
        name = machine.gpu_names[index] if index < len(machine.gpu_names) else ""
        shown = f"GPU {name} ({capability})" if name and name != capability else f"GPU {capability}"
        found.append(Demand(f"{shown}{at}", _gpu_test(machine, capability), 16))
    if machine.architecture != "x86_64":
        found.append(Demand(f"{machine.architecture}{at}", lambda c: _architecture(c, machine), 32))
    if machine.os != "linux":
        found.append(Demand(f"{machine.os}{at}", lambda c: _system(c, machine.os), 32))
    return found


def _same(found: str, wanted: str) -> str:
    """A wish of `2.5` is met by 2.5.1."""
    if found == wanted or found.startswith(f"{wanted}."):
        return ""
    return "another was asked for"


def _release(candidate: Candidate, wanted: str) -> str:
    return _same(candidate.release.version, wanted)


def _cuda(candidate: Candidate, wanted: str) -> str:
    if wanted == "cpu":
        return "" if candidate.build == "cpu" else "the CPU build was asked for"
    if versions.minor(candidate.cuda) == versions.minor(wanted):
        return ""
    return "another was asked for"


def _driver(candidate: Candidate, driver: str) -> str:
    return _driver_for(candidate.cuda, driver) if candidate.cuda else ""


@lru_cache(maxsize=256)
def _driver_for(cuda: str, driver: str) -> str:
    """Compiled kernels run from the oldest driver of the major version on."""
    floor = tables.oldest_driver(cuda)
    if not floor or not versions.below(driver, floor):
        return ""
    return f"CUDA {cuda} needs driver {floor}, this one runs CUDA up to {tables.driver_cuda(driver)}"


@lru_cache(maxsize=256)
def _glibc(torch: str, glibc: str) -> str:
    floor = str(tables.torch_release(torch).get("glibc_floor", ""))
    return f"torch {torch} needs glibc {floor}" if floor and versions.below(glibc, floor) else ""


def _gcc(candidate: Candidate, gcc: str) -> str:
    if candidate.method == "wheel":
        return ""
    newest = tables.newest_compiler(candidate.cuda) if candidate.cuda else 0
    if newest and versions.parse(gcc)[0] > newest:
        return f"CUDA {candidate.cuda} compiles with gcc up to {newest}"
    oldest = oldest_gcc(candidate.torch)
    if oldest and versions.below(gcc, oldest):
        return f"the headers of torch {candidate.torch} need gcc {oldest}"
    return ""


def oldest_gcc(torch: str) -> str:
    """Oldest gcc that takes a torch's headers; empty where unknown."""
    return next((gcc for first, gcc in OLDEST_GCC.items() if versions.at_least(torch, first)), "")


def _gpu_test(machine: Machine, capability: str) -> Test:
    def test(candidate: Candidate) -> str:
        if candidate.build == "cpu":
            return "a CPU build does not use it"
        return _covered(candidate, machine, capability)

    return test


def _covered(candidate: Candidate, machine: Machine, capability: str) -> str:
    """Whether torch and the package both have code for a GPU; what is not known is let through (and said)."""
    cuda = candidate.cuda
    why = _torch_covers(candidate.torch, candidate.build, capability, machine.architecture, machine.driver)
    if why:
        return why
    if candidate.method == "wheel":
        wheel = candidate.release.archs.get(cuda, "")
        if wheel and not covers(wheel, capability, ptx=_compiles_ptx(machine.driver, cuda)):
            return f"its wheel for {candidate.build} has code for {wheel}"
        return ""
    return "" if build_arch(capability, cuda) else f"the compiler of CUDA {cuda} makes no code for {capability}"


@lru_cache(maxsize=2048)
def _torch_covers(torch: str, build: str, capability: str, architecture: str, driver: str) -> str:
    cuda = versions.cuda_of_tag(build)
    archs = torch_archs(torch, cuda, architecture)
    if archs:
        there = covers(archs, capability, ptx=_compiles_ptx(driver, cuda))
        return "" if there else f"torch {torch} for {build} has code for {archs}"
    if build not in builds_of(torch):
        return f"torch's own index is not known to have {torch} for {build}"
    return "" if build_arch(capability, cuda) else f"CUDA {cuda} has no code for {capability}"


@lru_cache(maxsize=256)
def _compiles_ptx(driver: str, cuda: str) -> bool:
    """Whether a driver knows the PTX of a toolkit: from the toolkit's own driver on."""
    return not driver or versions.at_least(driver, tables.toolkit_driver(cuda) or "0")


@lru_cache(maxsize=1024)
def build_arch(capability: str, cuda: str) -> str:
    """The architecture to compile for, so that a GPU runs it: its own, or the nearest below that CUDA knows."""
    known = []
    lifetimes = {key: row for key, row in tables.table("compat")["cuda_arch"]["lifetime"].items() if key.isdigit()}
    for number, (first, last) in lifetimes.items():
        arch = f"{number[:-1]}.{number[-1]}"
        if versions.at_least(cuda, first) and not (last and versions.below(last, cuda)) and covers(arch, capability):
            known.append(arch)
    return max(known, key=versions.parse, default="")


def _architecture(candidate: Candidate, machine: Machine) -> str:
    if candidate.method == "wheel":
        return f"wheels are for x86_64, this is {machine.architecture}"
    if candidate.build != "cpu" and not torch_archs(candidate.torch, candidate.cuda, machine.architecture):
        return f"no CUDA build of torch {candidate.torch} for {machine.architecture} is known on its index"
    return ""


def _system(candidate: Candidate, os: str) -> str:
    if candidate.method == "wheel" and os == "win32":
        return ""
    if candidate.build == "cpu":
        return ""
    return f"CUDA packages are built here on Linux, not on {os}"
