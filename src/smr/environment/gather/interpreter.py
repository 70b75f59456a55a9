"""The Python interpreter, its environment, and what is installed in it; read from folders, nothing imported."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

WATCHED = frozenset(
    {
        *("torch", "torchvision", "torchaudio", "kaolin", "pytorch3d", "nvdiffrast", "gsplat", "tinycudann", "open3d"),
        *("torch-scatter", "torch-sparse", "torch-cluster", "pyg-lib", "spconv", "minkowskiengine", "flash-attn"),
        *("xformers", "triton", "warp-lang", "numpy", "scipy", "usd-core", "protobuf", "opencv-python", "ipykernel"),
        *("setuptools", "pip", "wheel", "ninja", "cmake", "cython", "pybind11", "smr3d", "mkl"),
    }
)
_DIST = re.compile(r"^(?P<name>.+?)-(?P<version>\d[^-]*?)(?:-py[\d.]+)?\.(?:dist|egg)-info$")


def interpreter(environ: Mapping[str, str]) -> dict[str, Any]:
    """Version, executable, kind of environment, and the environment that the shell has activated."""
    prefix, active = sys.prefix, environ.get("VIRTUAL_ENV") or environ.get("CONDA_PREFIX") or ""
    conda = (Path(prefix) / "conda-meta").is_dir()
    kind = "conda" if conda else "venv" if sys.prefix != sys.base_prefix else "system"
    return {
        "version": ".".join(str(part) for part in sys.version_info[:3]),
        "implementation": sys.implementation.name,
        "executable": sys.executable,
        "prefix": prefix,
        "base": sys.base_prefix,
        "kind": kind,
        "base_is_conda": (Path(sys.base_prefix) / "conda-meta").is_dir(),
        "active": active,
        "pythonpath": [part for part in environ.get("PYTHONPATH", "").split(os.pathsep) if part],
        "user_site": bool(getattr(sys.flags, "no_user_site", 0) == 0),
    }


def site_folders(path: list[str] | None = None) -> tuple[Path, ...]:
    """Folders of installed packages on the search path, in its order."""
    found = []
    for entry in sys.path if path is None else path:
        folder = Path(entry or ".")
        if folder.name in ("site-packages", "dist-packages") and folder.is_dir() and folder not in found:
            found.append(folder)
    return tuple(found)


def packages(sites: tuple[Path, ...]) -> dict[str, Any]:
    """Watched packages with version, folder and installer; and those that are there more than once."""
    copies: dict[str, list[dict[str, str]]] = {}
    unreadable = []
    for site in sites:
        try:
            names = sorted(entry.name for entry in os.scandir(site))
        except OSError as error:
            unreadable.append(f"{site}: {error.strerror}")
            continue
        for entry in names:
            match = _DIST.match(entry)
            if match:
                name = re.sub(r"[-_.]+", "-", match.group("name")).lower()
                copies.setdefault(name, []).append(
                    {"version": match.group("version"), "folder": str(site), "info": entry}
                )
    watched = {name: _first(copies[name]) for name in copies if name in WATCHED or name.startswith("nvidia-")}
    duplicates = {
        name: [f"{copy['version']} in {copy['folder']}" for copy in found]
        for name, found in copies.items()
        if len({copy["version"] for copy in found}) > 1 and name in WATCHED
    }
    return {"count": len(copies), "watched": watched, "duplicates": duplicates, "unreadable": unreadable}


def torch_facts(sites: tuple[Path, ...]) -> dict[str, Any] | None:
    """Version, CUDA and folder of the installed torch, from its version.py; None where there is none."""
    for site in sites:
        try:
            text = (site / "torch" / "version.py").read_text(errors="replace")
        except OSError:
            continue
        version = re.search(r"__version__\s*=\s*['\"]([^'\"]+)", text)
        cuda = re.search(r"^cuda\b[^=\n]*=\s*(?:['\"]([\d.]+)['\"]|None)", text, re.M)
        hip = re.search(r"^hip\b[^=\n]*=\s*['\"]([^'\"]+)", text, re.M)
        return {
            "version": version.group(1) if version else "",
            "cuda": (cuda.group(1) or "") if cuda else "",
            "hip": hip.group(1) if hip else "",
            "folder": str(site / "torch"),
        }
    return None


def _first(copies: list[dict[str, str]]) -> dict[str, str]:
    first = copies[0]
    try:
        installer = (Path(first["folder"]) / first["info"] / "INSTALLER").read_text().strip()[:20]
    except OSError:
        installer = ""
    return {"version": first["version"], "folder": first["folder"], "installer": installer}
