"""Rules about what is installed in this environment, and whether it is the one that is meant."""

from __future__ import annotations

from collections.abc import Iterator

from smr.environment import tables, versions
from smr.environment.rules.finding import BLOCKS, DEGRADES, NOTE, Facts, Finding


def cpu_torch(facts: Facts) -> Iterator[Finding]:
    """A CPU build of torch beside a GPU."""
    version = facts.text("torch.version")
    if version and not facts.text("torch.cuda") and not facts.text("torch.hip") and facts.items("driver.gpus"):
        gpu = facts.groups("driver.gpus")[0].text("name")
        what = f"torch {version} is a CPU build, and there is a {gpu}"
        values = {**facts.values, "torch_cuda": _cuda_for(facts)}
        yield Finding(
            "torch_cpu_only", BLOCKS, what, ("torch/version.py: cuda is None",), ("kaolin", "build"), values=values
        )


def interpreter(facts: Facts) -> Iterator[Finding]:
    """The shell's active environment is not the one that runs."""
    active, prefix = facts.text("python.active"), facts.text("python.prefix")
    if (
        active
        and prefix
        and active.rstrip("/") != prefix.rstrip("/")
        and facts.text("python.base").rstrip("/") != active.rstrip("/")
    ):
        what = f"the active environment is {active}, and this python belongs to {prefix}"
        yield Finding("wrong_interpreter", DEGRADES, what, (facts.text("python.executable"),))


def duplicates(facts: Facts) -> Iterator[Finding]:
    """One package in two versions on the search path."""
    for name, copies in sorted(facts.group("packages.duplicates").items()):
        if isinstance(copies, list):
            what = f"{name} is installed {len(copies)} times"
            yield Finding("duplicate_packages", DEGRADES, what, tuple(map(str, copies)), values={"package": str(name)})


def unreadable(facts: Facts) -> Iterator[Finding]:
    """Folders of packages that may not be read."""
    for folder in facts.items("packages.unreadable"):
        yield Finding("unreadable_folder", DEGRADES, f"cannot be read: {folder}", sure="certain")


def mixed(facts: Facts) -> Iterator[Finding]:
    """Torch from conda and an extension from pip, or the other way round."""
    installers = {
        name: str(facts.group(f"packages.watched.{name}").get("installer", ""))
        for name in ("torch", "kaolin", "pytorch3d", "torchvision")
    }
    torch = installers.pop("torch")
    others = {name: one for name, one in installers.items() if one and "conda" in (one, torch) and one != torch}
    if torch and others and facts.text("python.kind") == "conda":
        name, installer = sorted(others.items())[0]
        what = f"torch comes from {torch}, {name} from {installer}: their builds may differ"
        yield Finding("mixed_pip_conda", NOTE, what, sure="possible", values={**facts.values, "package": name})


def numpy(facts: Facts) -> Iterator[Finding]:
    """NumPy 2 beside a torch compiled for NumPy 1."""
    version, torch = facts.version("numpy"), facts.text("torch.version")
    if versions.at_least(version, "2") and versions.below(torch, "2.3"):
        what = f"NumPy {version} with torch {torch}, which was compiled for NumPy 1"
        yield Finding(
            "numpy2_abi", BLOCKS, what, (f"numpy {version}",), ("kaolin",), values={**facts.values, "package": "torch"}
        )


def usd(facts: Facts) -> Iterator[Finding]:
    """No USD, or more than one."""
    copies = facts.groups("usd.copies")
    if "usd" in facts.document and not copies and facts.version("smr3d"):
        yield Finding(
            "usd_core_python", DEGRADES, "no USD for Python: USDZ cannot be written", ("no pxr on the search path",)
        )
    if len(copies) > 1:
        what = f"{len(copies)} copies of USD are on the search path"
        yield Finding(
            "usd_boost_conflict", DEGRADES, what, tuple(copy.text("folder") for copy in copies), sure="likely"
        )


def jupyter(facts: Facts) -> Iterator[Finding]:
    """Kernels registered for another interpreter than this environment's."""
    prefix = facts.text("python.prefix")
    for kernel in facts.groups("place.jupyter.kernels"):
        python = kernel.text("python")
        if python.startswith("/") and prefix and not python.startswith(prefix) and facts.flag("place.jupyter.inside"):
            what = f"the kernel {kernel.text('name')} runs {python}, not the python of {prefix}"
            yield Finding("jupyter_wrong_env", NOTE, what, (python,), sure="possible")


def kaolin(facts: Facts) -> Iterator[Finding]:
    """Kaolin is not there, and what stands in the way of its wheels."""
    version = facts.version("kaolin")
    torch, cuda = facts.text("torch.version"), facts.text("torch.cuda")
    if versions.parse(version) and versions.below(version, "0.2"):
        what = f"kaolin {version} is the index's placeholder, not Kaolin"
        yield Finding("no_wheel_for_torch_cuda", BLOCKS, what, (f"kaolin {version}",), ("kaolin",), values=facts.values)
        return
    if version:
        ceiling = str(tables.kaolin_release(version).get("setup_torch_max", ""))
        if ceiling and torch and versions.minor(torch) and versions.below(ceiling, versions.minor(torch)):
            what = f"kaolin {version} is made for torch up to {ceiling}, installed is {torch}"
            yield Finding(
                "kaolin_torch_range", NOTE, what, (), ("kaolin",), "likely", {**facts.values, "package": "kaolin"}
            )
        return
    python = versions.minor(facts.text("python.version"))
    newest = tables.kaolin_python("0.18.0")[1]
    if versions.below(newest, python):
        what = f"Kaolin is not installed, and its wheels end at Python {newest} (this is {python})"
        yield Finding("no_wheel_for_python", BLOCKS, what, (), ("kaolin",), values=facts.values)
    else:
        pair = f"torch {torch} and CUDA {cuda}" if cuda else f"torch {torch or '(none)'} without CUDA"
        what = f"Kaolin is not installed; wheels are for certain pairs, here it would be {pair}"
        yield Finding("kaolin_missing", BLOCKS, what, (), ("kaolin",), values=facts.values)


def _cuda_for(facts: Facts) -> str:
    """Newest CUDA of torch's builds that the driver runs."""
    driver = facts.text("driver.version")
    builds = ("13.0", "12.8", "12.6", "11.8")
    return next((cuda for cuda in builds if versions.at_least(driver, tables.oldest_driver(cuda))), "12.6")


RULES = (cpu_torch, interpreter, duplicates, unreadable, mixed, numpy, usd, jupyter, kaolin)
