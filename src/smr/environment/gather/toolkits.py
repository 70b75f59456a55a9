"""CUDA toolkits, C++ compilers and build tools, and which of them a build of a torch extension would take."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smr.environment import tables, versions
from smr.environment.commands import Runner, run

HEADERS = ("cuda_runtime.h", "cusparse.h", "cublas_v2.h", "cusolverDn.h", "curand.h", "cub/cub.cuh", "thrust/version.h")


def toolkits(environ: Mapping[str, str], *, run: Runner = run, sites: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Every toolkit found, and the one a torch build takes: CUDA_HOME, else nvcc of PATH, else /usr/local/cuda."""
    found: dict[str, dict[str, Any]] = {}
    for how, root in _candidates(environ, sites):
        real = str(root.resolve())
        if real in found:
            found[real]["how"].append(how)
        elif (root / "bin").is_dir():
            found[real] = {"root": str(root), "how": [how], **_describe(root, run)}
    return {"found": list(found.values()), "build": _build_choice(environ)}


def compilers(environ: Mapping[str, str], *, run: Runner = run) -> dict[str, Any]:
    """Host compilers, ninja, cmake, git, and whether Python's headers are there."""
    facts: dict[str, Any] = {}
    for name in ("gcc", "g++", "clang"):
        path = shutil.which(name, path=environ.get("PATH"))
        outcome = run([path, "-dumpfullversion", "-dumpversion"], limit_s=5.0) if path else None
        facts[name] = {"path": path or "", "version": outcome.stdout.strip()[:20] if outcome and outcome.ok else ""}
    chosen = environ.get("CXX") or environ.get("NVCC_CCBIN") or ""
    facts["chosen"] = Path(chosen.split()[0]).name if chosen.split() else ""
    for tool in ("ninja", "cmake", "git", "cl", "make"):
        facts[tool] = bool(shutil.which(tool, path=environ.get("PATH")))
    include = sysconfig.get_paths().get("include", "")
    facts["python_h"] = (Path(include) / "Python.h").is_file()
    facts["max_jobs"] = environ.get("MAX_JOBS", "")
    facts["arch_list"] = environ.get("TORCH_CUDA_ARCH_LIST", "")
    facts["cub_home"] = environ.get("CUB_HOME", "")
    return facts


def _candidates(environ: Mapping[str, str], sites: tuple[Path, ...]) -> list[tuple[str, Path]]:
    found = [(name, Path(environ[name])) for name in ("CUDA_HOME", "CUDA_PATH") if environ.get(name)]
    for folder in environ.get("PATH", "").split(os.pathsep):
        nvcc = Path(folder) / ("nvcc.exe" if sys.platform == "win32" else "nvcc")
        if folder and nvcc.is_file():
            found.append(("PATH", _root_of(nvcc)))
    local = Path("/usr/local")
    if local.is_dir():
        found += [("/usr/local", path) for path in sorted(local.glob("cuda*"))[:40]]
    for prefix in {environ.get("CONDA_PREFIX", ""), sys.prefix} - {""}:
        if (Path(prefix) / "bin" / "nvcc").is_file():
            found.append(("conda" if environ.get("CONDA_PREFIX") == prefix else "environment", Path(prefix)))
    for site in sites:
        found += [("package", path.parent.parent) for path in sorted(site.glob("nvidia/*/bin/nvcc"))[:4]]
        found += [("package", path.parent.parent) for path in sorted(site.glob("nvidia/*/bin/ptxas"))[:4]]
    return found


def _root_of(nvcc: Path) -> Path:
    """Toolkit of an nvcc, through links and the small wrapper scripts that some systems have."""
    real = nvcc.resolve()
    try:
        with real.open("rb") as file:
            head = file.read(512)
    except OSError:
        return real.parent.parent
    if head[:2] == b"#!":
        inner = re.search(rb"(/[\w./-]+)/bin/nvcc", head)
        if inner:
            return Path(inner.group(1).decode()).resolve()
    return real.parent.parent


def _describe(root: Path, run: Runner) -> dict[str, Any]:
    nvcc = root / "bin" / ("nvcc.exe" if sys.platform == "win32" else "nvcc")
    version = _version(root) or (_version_of_nvcc(nvcc, run) if nvcc.is_file() else "")
    includes = [
        root / "include",
        *root.glob("targets/*/include"),
        *root.glob("include/cccl"),
        *root.glob("targets/*/include/cccl"),
    ]
    lowest, highest = tables.toolkit_archs(version)
    return {
        "version": version,
        "nvcc": nvcc.is_file(),
        "headers": {name: any((folder / name).is_file() for folder in includes) for name in HEADERS},
        "newest_gcc": tables.newest_compiler(version, "gcc") or None,
        "newest_clang": tables.newest_compiler(version, "clang") or None,
        "archs": [f"sm_{lowest}", f"sm_{highest}"] if lowest else [],
    }


def _version(root: Path) -> str:
    try:
        found = json.loads((root / "version.json").read_text())["cuda"]["version"]
        return str(found)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    for header in [root / "include/cuda.h", *root.glob("targets/*/include/cuda.h")]:
        try:
            number = re.search(r"#define\s+CUDA_VERSION\s+(\d+)", header.read_text(errors="replace"))
        except OSError:
            continue
        if number:
            return f"{int(number.group(1)) // 1000}.{int(number.group(1)) % 1000 // 10}"
    return ""


def _version_of_nvcc(nvcc: Path, run: Runner) -> str:
    outcome = run([str(nvcc), "--version"], limit_s=10.0)
    found = re.search(r"release [\d.]+, V([\d.]+)", outcome.stdout)
    return found.group(1) if found else ""


def _build_choice(environ: Mapping[str, str]) -> dict[str, str]:
    """The rule of torch.utils.cpp_extension."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if environ.get(name):
            return {"root": environ[name], "why": name, "exists": str((Path(environ[name]) / "bin").is_dir()).lower()}
    nvcc = shutil.which("nvcc", path=environ.get("PATH"))
    if nvcc:
        return {"root": str(_root_of(Path(nvcc))), "why": f"nvcc on PATH ({nvcc})", "exists": "true"}
    if Path("/usr/local/cuda").exists():
        return {"root": "/usr/local/cuda", "why": "default folder", "exists": "true"}
    return {"root": "", "why": "none found", "exists": "false"}


def same_minor(one: object, other: object) -> bool:
    """Whether two versions agree in major and minor."""
    return bool(versions.minor(one)) and versions.minor(one) == versions.minor(other)
