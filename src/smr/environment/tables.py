"""Compatibility tables (sources: `tools/environment_tables`) and the questions asked of them."""

from __future__ import annotations

import json
import pkgutil
from functools import lru_cache
from typing import Any

from smr.environment import versions


@lru_cache(maxsize=8)
def table(name: str) -> Any:
    """One of the shipped tables: `compat`, `kaolin`, `torch_symbols`. Also works from inside a .pyz file."""
    data = pkgutil.get_data("smr.environment", f"tables/{name}.json")
    assert data is not None, name
    return json.loads(data)


def toolkit_driver(cuda: object) -> str:
    """Linux driver that came with a CUDA toolkit (the first of that minor version); empty where unknown."""
    rows = table("compat")["cuda_driver"]["toolkit_driver"]
    wanted = versions.minor(cuda)
    return next((row["linux"] for version, row in rows.items() if versions.minor(version) == wanted), "")


def oldest_driver(cuda: object) -> str:
    """Oldest Linux driver that runs compiled kernels of any toolkit of this major version; empty where unknown."""
    rows = table("compat")["cuda_driver"]["minor_version_compat"]
    version = versions.parse(cuda)
    if not version:
        return ""
    for key in (versions.minor(cuda), f"{version[0]}.x"):
        if isinstance(rows.get(key), dict):
            return str(rows[key]["linux"])
    return toolkit_driver(cuda)


def driver_cuda(driver: object) -> str:
    """Newest CUDA toolkit whose own driver is not newer than this one: what `nvidia-smi` calls "CUDA Version"."""
    rows = table("compat")["cuda_driver"]["toolkit_driver"]
    fitting = [versions.minor(version) for version, row in rows.items() if versions.at_least(driver, row["linux"])]
    return max(fitting, key=versions.parse, default="")


def toolkit_archs(cuda: object) -> tuple[int, int]:
    """Lowest and highest architecture that a toolkit's nvcc knows, as (50, 120); (0, 0) where unknown."""
    wanted = versions.minor(cuda)
    for rows in (table("compat")["cuda_arch"]["supported"], table("compat")["cuda_arch"]["older"]):
        if wanted in rows:
            return int(rows[wanted]["min"][3:]), int(rows[wanted]["max"][3:])
    return 0, 0


def arch_lifetime(arch: int) -> tuple[str, str]:
    """First and last toolkit that knows an architecture (`("8.0", "12.9")`; last empty: still known)."""
    first, last = table("compat")["cuda_arch"]["lifetime"].get(str(arch), ("", ""))
    return first, last


def newest_compiler(cuda: object, compiler: str = "gcc") -> int:
    """Newest major version of gcc or clang that a toolkit's nvcc accepts; 0 where unknown."""
    host = table("compat")["cuda_host_compiler"]
    version = versions.parse(cuda)
    wanted = [versions.minor(cuda)]
    if version[:2] == (11, 4):
        wanted = ["11.4.0" if version[2:3] in ((0,), (48,)) else "11.4.1"]
    for rows in (host["max"], host["older"]):
        for key in wanted:
            if isinstance(rows.get(key), dict):
                return int(rows[key].get(compiler, 0))
    return 0


def torch_release(version: object) -> dict[str, Any]:
    """What is known of a torch release (the row of the same minor version); empty where unknown."""
    rows = {k: v for k, v in table("compat")["torch"].items() if isinstance(v, dict)}
    wanted = versions.minor(version)
    return next((row for key, row in rows.items() if versions.minor(key) == wanted), {})


def capability(gpu: str) -> str:
    """Compute capability of a GPU by its name (`"NVIDIA GeForce RTX 3090"` gives `"8.6"`); empty where unknown."""
    gpus = table("compat")["gpu"]
    known = {**gpus["cc_unlisted"]["cc"], **gpus["cc_older_copies"]["cc"], **gpus["cc"]}
    wanted = _words(gpu)
    best = ""
    for name in known:
        words = _words(name) - {"GEFORCE", "TESLA", "QUADRO"}
        if words <= wanted and len(words) > len(_words(best) - {"GEFORCE", "TESLA", "QUADRO"}):
            best = name
    return str(known[best]) if best else ""


def package_of(soname: str) -> str:
    """Package of the index that carries a CUDA library (`libcudart.so.12`); empty where unknown."""
    row = table("compat")["soname_pip"].get(soname)
    return str(row["pip"]) if isinstance(row, dict) else ""


def kaolin_release(version: object) -> dict[str, Any]:
    """What a Kaolin release accepts; empty where the release is unknown."""
    wanted = ".".join(str(part) for part in versions.parse(version)[:3])
    return dict(table("kaolin").get(wanted, {}))


def kaolin_python(version: object) -> tuple[str, str]:
    """Lowest and highest Python that a Kaolin release documents (`("3.9", "3.12")`); empty where unknown."""
    numbers = [part.strip(" ,<>=") for part in str(kaolin_release(version).get("docs_python", "")).split()]
    found = [number for number in numbers if number.startswith("3.")]
    return (found[0], found[-1]) if found else ("", "")


def _words(name: str) -> set[str]:
    return set(name.upper().replace("(", " ").replace(")", " ").replace("-", " ").split()) - {"NVIDIA", "GPU", "LAPTOP"}
