"""Everything that could be chosen, and the rules of the packages themselves: which combinations exist at all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from smr.environment import tables, versions
from smr.environment.envs.recipes import Recipe, Release, bundled

PYTHONS = tuple(f"3.{minor}" for minor in range(6, 16))


@dataclass(frozen=True)
class Candidate:
    """One combination."""

    release: Release
    torch: str
    build: str
    """Build of torch: `cu121`, or `cpu`."""
    method: str
    """`wheel` or `source`."""
    python: str

    @property
    def cuda(self) -> str:
        """CUDA version, `12.1`; empty for the CPU."""
        return _cuda_of(self.build)

    @property
    def offered(self) -> bool:
        """Whether this build is among those that torch's own index is known to offer."""
        return self.build in builds_of(self.torch)


@lru_cache(maxsize=16)
def candidates(recipe: Recipe, *, ignore_range: bool = False) -> tuple[Candidate, ...]:
    """All combinations that the packages themselves allow."""
    return tuple(_combinations(recipe, ignore_range))


def why_not(recipe: Recipe, candidate: Candidate, *, ignore_range: bool = False) -> str:
    """The rule of the packages that a combination breaks; empty where it breaks none."""
    release, torch = candidate.release, candidate.torch
    checks = (
        _range(recipe, release, torch, candidate.method, ignore_range),
        _build(release, torch, candidate.build),
        _method(release, torch, candidate.build, candidate.method),
        _python(release, torch, candidate.python),
    )
    return next((words for words in checks if words), "")


def torch_versions(recipe: Recipe) -> list[str]:
    """Every torch that the tables or the recipe's wheels name, newest first."""
    known = {key for key, row in tables.table("compat")["torch"].items() if isinstance(row, dict)}
    known.update(torch for release in recipe.releases for torch in release.wheels)
    return sorted(known, key=versions.parse, reverse=True)


@lru_cache(maxsize=256)
def builds_of(torch: str) -> tuple[str, ...]:
    """Builds of a torch release that its index offers; those that the tables only guess (`cu100?`) are left out."""
    row = tables.torch_release(torch)
    named = [str(build) for build in row.get("builds", ())]
    default = str(row.get("default_cuda", "")).replace(".", "")
    sure = [build for build in named if not build.endswith("?")]
    if default and f"cu{default}" not in sure and f"cu{default}?" in named:
        sure.append(f"cu{default}")
    return (*sure, "cpu")


@lru_cache(maxsize=512)
def torch_archs(torch: str, cuda: str, architecture: str = "x86_64") -> str:
    """Architectures inside a torch build; empty where unknown."""
    wanted = versions.minor(torch)
    for row in bundled("torch")["archs"]:
        low, high = row["torch"]
        if versions.at_least(wanted, low) and versions.at_least(high, wanted):
            if architecture != "x86_64":
                return str(row.get("aarch64", "")) if versions.at_least(cuda, "13") else ""
            return str(row["cuda"].get(cuda, ""))
    return ""


@lru_cache(maxsize=256)
def torch_pythons(torch: str) -> tuple[str, str]:
    """Lowest and highest Python of a torch release; those marked partly or experimental are left out."""
    text = re.sub(r"\(.*?\)", "", str(tables.torch_release(torch).get("python", "")))
    low, _, high = text.partition("-")
    return low.split("/")[-1].strip(), high.strip()


@lru_cache(maxsize=256)
def _cuda_of(build: str) -> str:
    return versions.cuda_of_tag(build)


def _combinations(recipe: Recipe, ignore_range: bool) -> Iterator[Candidate]:
    for release in recipe.releases:
        for torch in torch_versions(recipe):
            compiles = not _range(recipe, release, torch, "source", ignore_range)
            wheels = release.wheels.get(torch, ())
            if not compiles and not wheels:
                continue
            pythons = [python for python in PYTHONS if not _python(release, torch, python)]
            for build in dict.fromkeys((*builds_of(torch), *wheels)):
                methods = [name for name, there in (("wheel", True), ("source", compiles)) if there]
                for method in methods:
                    if not (_build(release, torch, build) or _method(release, torch, build, method)):
                        yield from (Candidate(release, torch, build, method, python) for python in pythons)


def _range(recipe: Recipe, release: Release, torch: str, method: str, ignore_range: bool) -> str:
    if method == "wheel":
        return ""
    name = f"{recipe.name} {release.version}"
    ignored = ignore_range and release.can_ignore_range
    if release.torch_min and versions.below(torch, release.torch_min) and not ignored:
        return f"{name} needs torch {release.torch_min} or newer ({release.source})"
    if release.torch_max and versions.below(release.torch_max, torch) and not ignored:
        return f"{name} accepts torch up to {release.torch_max} ({release.source})"
    broken = recipe.broken_by(torch)
    return f"{name} does not compile with torch {torch}: {broken}" if broken else ""


def _build(release: Release, torch: str, build: str) -> str:
    if build not in builds_of(torch) and build not in release.wheels.get(torch, ()):
        return f"torch {torch} has no {build} build (it has {', '.join(builds_of(torch))})"
    if build == "cpu" and release.cuda_only:
        return "this package is built for CUDA alone"
    return ""


def _method(release: Release, torch: str, build: str, method: str) -> str:
    if method == "wheel" and build not in release.wheels.get(torch, ()):
        there = release.wheels.get(torch, ())
        return f"no wheel of {release.version} for torch {torch} and {build}" + (
            f" (there is {', '.join(there)})" if there else ""
        )
    if method == "source" and build not in builds_of(torch):
        return f"torch {torch} is not offered for {build}"
    return ""


def _python(release: Release, torch: str, python: str) -> str:
    for name, (low, high) in ((release.version, release.python), (f"torch {torch}", torch_pythons(torch))):
        if low and versions.below(python, low):
            return f"{name} starts at Python {low}"
        if high and versions.below(high, python):
            return f"{name} ends at Python {high}"
    return ""
