"""Before a source build: the variables that it runs with, and every rule of the doctor that speaks of building."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smr.environment import versions
from smr.environment.envs.options import Options
from smr.environment.envs.plan import Plan
from smr.environment.envs.prefix import Track
from smr.environment.rules import Facts, building
from smr.environment.rules.finding import BLOCKS, Finding, merged
from smr.errors import SmrError

_OTHER_SWITCHES = ("TORCH_CUDA_ARCH_LIST", "FORCE_CUDA", "FORCE_ONLY_CPU", "IGNORE_TORCH_VER", "MAX_JOBS", "NVCC_FLAGS")
_CUDA_KINDS = ("cuda_build_mismatch", "nvcc_missing", "missing_cuda_headers", "conda_cudatoolkit_without_nvcc")
_OF_CUDA = (*_CUDA_KINDS, "nvcc_unsupported_arch", "nvcc_removed_arch", "arch_list_empty_no_gpu", "cub_conflict")
_NAMES = ("gcc", "g++", "cc", "c++")


@dataclass(frozen=True)
class Settings:
    """The variables of a build."""

    variables: Mapping[str, str]
    removed: tuple[str, ...]
    """Variables that would change the build and are not the plan's."""
    jobs: int
    compiler_cache: str
    words: str
    headers_of_wheels: bool
    """Whether torch's own wheels bring the library headers that the toolkit lacks."""


def build_settings(
    plan: Plan, facts: Mapping[str, Any], track: Track, options: Options, cache: Path, path: str
) -> Settings:
    """Everything set explicitly: switches, toolkit, jobs, compiler cache; `path` is the environment's PATH."""
    known = Facts(facts)
    variables = dict(plan.switches)
    jobs = options.jobs or fitting_jobs(known, plan.gb_a_job)
    variables["MAX_JOBS"] = str(jobs)
    nvcc = ""
    if plan.cuda:
        root = _toolkit(known, plan.cuda)
        if root:
            variables["CUDA_HOME"] = root
            path = f"{root}/bin:{path}"
            nvcc = f"{root}/bin/nvcc"
    lent = _headers_of_wheels(known, plan, track)
    if lent:
        variables["CPATH"] = os.pathsep.join(lent)
    variables["PATH"] = path
    cached = _compiler_cache(options.compiler_cache)
    if cached:
        variables.update(_cached(cached, track, path, cache, options))
        if nvcc and not re.search(r"\s", cached + nvcc):
            variables["PYTORCH_NVCC"] = f"{cached} {nvcc}"
    removed = tuple(name for name in _OTHER_SWITCHES if name not in variables)
    shown = " ".join(
        f"{name}={variables[name]}" for name in (*plan.switches, "CUDA_HOME", "CPATH", "MAX_JOBS") if name in variables
    )
    name = Path(cached).name if cached else ""
    return Settings(variables, removed, jobs, name, f"{shown}{', ' + name if name else ''}", bool(lent))


def fitting_jobs(facts: Facts, gb_a_job: float) -> int:
    """Compilers at once: as many as there are cores, and as fit into memory."""
    cores, memory = facts.number("system.cores") or 1, facts.number("system.memory_gb") or gb_a_job
    return max(1, min(int(cores), int(memory / gb_a_job)))


def _headers_of_wheels(facts: Facts, plan: Plan, track: Track) -> list[str]:
    """Folders of torch's CUDA wheels with the library headers that a bare toolkit (nvcc and runtime alone) lacks.

    The wheels are those that this very torch runs with, so their versions fit. The toolkit's own headers come first.
    """
    if not plan.cuda:
        return []
    root = _toolkit(facts, plan.cuda)
    lacking = [name for name in building.LIBRARY_HEADERS if root and not (Path(root) / "include" / name).is_file()]
    folders = sorted(track.env.glob("lib/python*/site-packages/nvidia/*/include"))
    holding = [str(folder) for folder in folders if any((folder / name).is_file() for name in lacking)]
    complete = all(any((Path(folder) / name).is_file() for folder in holding) for name in lacking)
    return holding if lacking and complete else []


def preflight(plan: Plan, facts: Mapping[str, Any], *, lent_headers: bool = False) -> Iterator[str]:
    """Notes on what slows the build; what stops it is raised.

    Raises:
        SmrError: With the doctor's finding and cure.
    """
    known = Facts(facts)
    if not (known.text("compilers.g++.version") or known.text("compilers.clang.version")):
        raise SmrError("there is no C++ compiler", "apt-get install g++  (or your system's package), or set CXX")
    gcc = known.text("compilers.g++.version")
    if plan.gcc and plan.gcc[0] and gcc and versions.below(gcc, plan.gcc[0]):
        raise SmrError(
            f"gcc {gcc} is too old: torch {plan.torch} needs {plan.gcc[0]}", f"install gcc {plan.gcc[0]} or newer"
        )
    for finding in _findings(plan, known):
        if lent_headers and finding.kind == "missing_cuda_headers":
            yield f"note: {finding.what}; those of torch's own wheels are used"
            continue
        stops = finding.level == BLOCKS or finding.kind == "cuda_build_mismatch"
        if stops:
            cure = "\n       ".join((*finding.cure, "then the same command goes on from here"))
            raise SmrError(f"{finding.what} [{finding.kind}]", cure)
        yield f"note: {finding.what}"


def _findings(plan: Plan, facts: Facts) -> list[Finding]:
    found = merged(finding for rule in building.RULES for finding in rule(facts))
    left_out = set(_OF_CUDA if not plan.cuda else ())
    if not plan.cuda:
        left_out.add("host_compiler_unsupported")
    if plan.architectures:  # built for the plan's GPUs, not for those that are here
        left_out.update(("nvcc_unsupported_arch", "nvcc_removed_arch"))
    return [finding for finding in found if finding.kind not in left_out and finding.kind != "oom_build"]


def _toolkit(facts: Facts, cuda: str) -> str:
    """A whole toolkit of exactly this version."""
    for one in facts.groups("toolkits.found"):
        if one.flag("nvcc") and versions.minor(one.text("version")) == cuda:
            return one.text("root")
    return ""


def _compiler_cache(asked: str) -> str:
    """Path of ccache or sccache."""
    if asked == "none":
        return ""
    for name in ("ccache", "sccache") if asked == "auto" else (asked,):
        found = shutil.which(name)
        if found:
            return found
    if asked != "auto":
        raise SmrError(f"there is no {asked} on PATH", f"install {asked}, or leave --compiler-cache out")
    return ""


def _cached(program: str, track: Track, path: str, cache: Path, options: Options) -> dict[str, str]:
    """Names of the compilers, first on PATH, that stand for the cache; its folder is the one that was asked for.

    ccache is linked under those names and finds the compiler behind itself. A script in its place would be hashed as
    the compiler by torch's own use of ccache, and nothing would be found again. sccache needs the script.
    """
    folder = track.folder / "compilers"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    elsewhere = ":".join(part for part in path.split(":") if part != str(folder))
    linked = Path(program).name == "ccache"
    for name in _NAMES:
        compiler = shutil.which(name, path=elsewhere)
        if compiler and linked:
            (folder / name).symlink_to(program)
        elif compiler:
            (folder / name).write_text(f'#!/bin/sh\nexec {shlex.quote(program)} {shlex.quote(compiler)} "$@"\n')
            (folder / name).chmod(0o755)
    variables = {"PATH": f"{folder}:{elsewhere}"}
    if linked:
        where = {"CCACHE_DIR": str(cache / "ccache"), "CCACHE_MAXSIZE": options.cache_size}
        return {**variables, **where, "CCACHE_BASEDIR": str(track.folder), "CCACHE_NOHASHDIR": "1"}
    where = {"SCCACHE_DIR": str(cache / "sccache"), "SCCACHE_CACHE_SIZE": options.cache_size}
    return {**variables, **where, "CCACHE_DISABLE": "1"}
