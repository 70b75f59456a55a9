"""Operating system, memory and place: container, WSL, batch job, notebook."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_CONTAINER_MARKS = {"/.dockerenv": "docker", "/run/.containerenv": "podman", "/.singularity.d": "singularity"}


def system() -> dict[str, Any]:
    """Kernel, distribution, C library, memory, cores."""
    return {
        "os": sys.platform,
        "machine": platform.machine(),
        "kernel": platform.release(),
        "distribution": _distribution(Path("/etc/os-release")),
        "glibc": _glibc(),
        "memory_gb": _memory_gb(Path("/proc/meminfo"), Path("/sys/fs/cgroup/memory.max")),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    }


def place(environ: Mapping[str, str], root: Path = Path("/")) -> dict[str, Any]:
    """What kind of place this process runs in."""
    kernel = _read(root / "proc/sys/kernel/osrelease").lower()
    wsl = "microsoft" in kernel
    return {
        "wsl": wsl,
        "wsl_libcuda": (root / "usr/lib/wsl/lib/libcuda.so.1").exists() if wsl else None,
        "container": _container(environ, root),
        "slurm": _slurm(environ),
        "jupyter": {
            "inside": "JPY_PARENT_PID" in environ or "JPY_SESSION_NAME" in environ,
            "kernels": _kernels(environ),
        },
        "cuda_visible_devices": environ.get("CUDA_VISIBLE_DEVICES"),
        "nvidia_visible_devices": environ.get("NVIDIA_VISIBLE_DEVICES"),
        "device_files": sorted(path.name for path in _listing(root / "dev") if path.name.startswith("nvidia"))[:40],
        "pci_nvidia": _pci_nvidia(root),
    }


def _distribution(path: Path) -> str:
    fields = dict(line.split("=", 1) for line in _read(path).splitlines() if "=" in line)
    return f"{fields.get('ID', '')} {fields.get('VERSION_ID', '')}".replace('"', "").strip()


def _glibc() -> str:
    try:
        return str(os.confstr("CS_GNU_LIBC_VERSION") or "").replace("glibc", "").strip()
    except (AttributeError, ValueError, OSError):
        return ""


def _memory_gb(meminfo: Path, limit: Path) -> float | None:
    found = [line.split()[1] for line in _read(meminfo).splitlines() if line.startswith("MemTotal:")]
    total = int(found[0]) * 1024 if found else None
    allowed = _read(limit).strip()
    if allowed.isdigit():
        total = min(total or int(allowed), int(allowed))
    return None if total is None else round(total / 2**30, 1)


def _container(environ: Mapping[str, str], root: Path) -> str:
    for mark, name in _CONTAINER_MARKS.items():
        if (root / mark.lstrip("/")).exists():
            return name
    if environ.get("APPTAINER_CONTAINER") or environ.get("SINGULARITY_CONTAINER"):
        return "singularity"
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    groups = _read(root / "proc/1/cgroup")
    return next((name for name in ("docker", "kubepods", "libpod", "lxc") if name in groups), "")


def _slurm(environ: Mapping[str, str]) -> dict[str, Any] | None:
    if "SLURM_JOB_ID" not in environ:
        return None
    gpus = environ.get("SLURM_JOB_GPUS") or environ.get("SLURM_GPUS_ON_NODE") or environ.get("SLURM_GPUS")
    return {"job": True, "gpus": gpus or "", "partition_is_set": "SLURM_JOB_PARTITION" in environ}


def _kernels(environ: Mapping[str, str]) -> list[dict[str, str]]:
    """Interpreters of the registered Jupyter kernels."""
    home = Path(environ.get("HOME", "~")).expanduser()
    folders = [home / ".local/share/jupyter/kernels", Path(sys.prefix) / "share/jupyter/kernels"]
    found = []
    for spec in [path / "kernel.json" for folder in folders for path in _listing(folder)][:50]:
        try:
            argv = json.loads(spec.read_text()).get("argv", [])
        except (OSError, ValueError, AttributeError):
            continue
        if argv and isinstance(argv[0], str):
            found.append({"name": spec.parent.name, "python": argv[0]})
    return found


def _pci_nvidia(root: Path) -> int:
    """NVIDIA display devices on the bus, with or without a driver."""
    count = 0
    for device in _listing(root / "sys/bus/pci/devices")[:512]:
        if _read(device / "vendor").strip() == "0x10de" and _read(device / "class").startswith("0x03"):
            count += 1
    return count


def _listing(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(1 << 16).decode("utf-8", "replace")
    except OSError:
        return ""
