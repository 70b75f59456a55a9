"""The NVIDIA driver and its GPUs, asked in other processes with time limits: a driver that hangs is a fact."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from smr.environment import tables
from smr.environment.commands import Runner, run

_QUERY = ("name", "driver_version", "compute_cap", "memory.total", "mig.mode.current")
_PROBE = """
import ctypes, json, sys
found = {"libcuda": True}
try:
    cuda = ctypes.CDLL(sys.argv[1])
except OSError as error:
    print(json.dumps({"libcuda": False, "error": str(error)[:300]})); sys.exit()
number = ctypes.c_int(0)
if cuda.cuDriverGetVersion(ctypes.byref(number)) == 0:
    found["cuda"] = "%d.%d" % (number.value // 1000, number.value % 1000 // 10)
found["cuinit"] = cuda.cuInit(0)
if found["cuinit"] == 0 and cuda.cuDeviceGetCount(ctypes.byref(number)) == 0:
    found["devices"] = []
    for index in range(min(number.value, 64)):
        device, major, minor = ctypes.c_int(0), ctypes.c_int(0), ctypes.c_int(0)
        name = ctypes.create_string_buffer(256)
        cuda.cuDeviceGet(ctypes.byref(device), index)
        cuda.cuDeviceGetName(name, 256, device)
        cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, device)
        cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, device)
        capability = "%d.%d" % (major.value, minor.value)
        found["devices"].append({"name": name.value.decode(errors="replace"), "capability": capability})
try:
    found["path"] = [line.split()[-1] for line in open("/proc/self/maps") if "libcuda.so" in line][0]
except (OSError, IndexError):
    pass
print(json.dumps(found))
"""


def driver(*, run: Runner = run, root: Path = Path("/"), limit_s: float = 10.0) -> dict[str, Any]:
    """Driver version, GPUs, and whether CUDA starts."""
    facts: dict[str, Any] = {"kernel_module": _kernel_module(root), "gpus": []}
    _ask_nvidia_smi(facts, run, limit_s)
    _ask_libcuda(facts, run, limit_s)
    if not facts.get("version"):
        facts["version"] = facts["kernel_module"]
    return facts


def _kernel_module(root: Path) -> str:
    for path, pattern in (
        ("sys/module/nvidia/version", r"([\d.]+)"),
        ("proc/driver/nvidia/version", r"Module\D*([\d.]+)"),
    ):
        try:
            found = re.search(pattern, (root / path).read_text(errors="replace"))
        except OSError:
            continue
        if found:
            return found.group(1)
    return ""


def _ask_nvidia_smi(facts: dict[str, Any], run: Runner, limit_s: float) -> None:
    outcome = run(["nvidia-smi", f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader,nounits"], limit_s=limit_s)
    if outcome.status == "exit" and "not a valid field" in outcome.stdout + outcome.stderr:
        outcome = run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], limit_s=limit_s)
    facts["nvidia_smi"] = outcome.status
    if not outcome.ok:
        facts["nvidia_smi_says"] = (
            "" if outcome.status == "missing" else (outcome.stdout + outcome.stderr).strip()[:500]
        )
        return
    for line in outcome.stdout.splitlines()[:64]:
        row = [part.strip() for part in line.split(",")]
        if len(row) < 2:
            continue
        row += [""] * (len(_QUERY) - len(row))
        capability = row[2] if re.fullmatch(r"\d+\.\d+", row[2]) else tables.capability(row[0])
        facts["version"] = row[1]
        memory = int(row[3]) if row[3].isdigit() else None
        facts["gpus"].append(
            {"name": row[0], "capability": capability, "memory_mib": memory, "mig": row[4] == "Enabled"}
        )


def _ask_libcuda(facts: dict[str, Any], run: Runner, limit_s: float) -> None:
    """Load libcuda in another process: its path, its CUDA version, and what cuInit answers."""
    if sys.platform == "darwin":
        return
    library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    outcome = run([sys.executable, "-I", "-S", "-c", _PROBE, library], limit_s=limit_s)
    facts["cuda_probe"] = outcome.status if outcome.status != "signal" else outcome.sentence()
    try:
        found = json.loads(outcome.stdout) if outcome.ok else {}
    except ValueError:
        found = {}
    facts["libcuda"] = found.get("libcuda")
    facts["libcuda_path"] = found.get("path", "")
    facts["cuda"] = found.get("cuda", "")
    facts["cuinit"] = found.get("cuinit")
    facts["visible"] = found.get("devices")
    if not facts["gpus"] and found.get("devices"):
        facts["gpus"] = [{**device, "memory_mib": None, "mig": False} for device in found["devices"]]
