"""The machine that a plan is for: this one, one in a facts file, or one that options alone describe."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from smr.environment import tables, versions
from smr.environment.rules.building import chosen_toolkit
from smr.environment.rules.finding import Facts
from smr.errors import SmrError


@dataclass(frozen=True)
class Machine:
    """What matters of a machine; empty texts are unknown."""

    gpus: tuple[str, ...] = ()
    """Compute capabilities, `("8.9",)`."""
    gpu_names: tuple[str, ...] = ()
    no_gpu: bool = False
    """It is known that there is none."""
    driver: str = ""
    glibc: str = ""
    gcc: str = ""
    python: str = ""
    architecture: str = "x86_64"
    os: str = "linux"
    distribution: str = ""
    toolkits: tuple[str, ...] = ()
    """CUDA versions with an nvcc."""
    origin: str = "options"
    """Where this is known from: `options`, `this machine`, or the name of a facts file."""


def machine_of(document: Mapping[str, Any], origin: str) -> Machine:
    """The machine of a facts document (`smr doctor --save-facts`)."""
    facts = Facts(document)
    gpus = facts.groups("driver.gpus")
    toolkits = [one.text("version") for one in facts.groups("toolkits.found") if one.flag("nvcc")]
    first = chosen_toolkit(facts)
    if first is not None and first.flag("nvcc"):
        toolkits.insert(0, first.text("version"))
    return Machine(
        gpus=tuple(dict.fromkeys(facts.capabilities)),
        gpu_names=tuple(dict.fromkeys(gpu.text("name") for gpu in gpus if gpu.text("name"))),
        no_gpu=not gpus and not facts.text("driver.version"),
        driver=facts.text("driver.version"),
        glibc=facts.text("system.glibc"),
        gcc=facts.text("compilers.g++.version") or facts.text("compilers.gcc.version"),
        python=versions.minor(facts.text("python.version")),
        architecture=facts.text("system.machine") or "x86_64",
        os=facts.text("system.os") or "linux",
        distribution=facts.text("system.distribution"),
        toolkits=tuple(dict.fromkeys(versions.minor(text) for text in toolkits if text)),
        origin=origin,
    )


def with_gpus(machine: Machine, words: tuple[str, ...]) -> Machine:
    """The same machine with these GPUs: names (`RTX 4090`), capabilities (`8.9`), or `none`.

    Raises:
        SmrError: A name is not known.
    """
    if words == ("none",):
        return replace(machine, gpus=(), gpu_names=(), no_gpu=True)
    found = []
    for word in words:
        capability = word if re.fullmatch(r"\d{1,2}\.\d", word) else tables.capability(word)
        if not capability:
            cure = "give its compute capability, such as --gpu 8.9 (`nvidia-smi --query-gpu=compute_cap --format=csv`)"
            raise SmrError(f"no GPU is known by the name {word!r}", cure)
        found.append(capability)
    return replace(machine, gpus=tuple(dict.fromkeys(found)), gpu_names=words, no_gpu=False)


def with_distribution(machine: Machine, name: str) -> Machine:
    """The same machine with the C library and the compiler of a distribution (`ubuntu-22.04`).

    Raises:
        SmrError: The distribution is not in the table.
    """
    rows = {key: row for key, row in tables.table("compat")["distro"].items() if isinstance(row, dict)}
    for key, row in rows.items():
        if name.lower() in [part.strip() for part in key.split("/")]:
            glibc, gcc = (str(row[what]).split(" ")[0] for what in ("glibc", "gcc"))
            known = [value if versions.parse(value) else "" for value in (glibc, gcc)]
            return replace(machine, distribution=name, glibc=known[0], gcc=known[1])
    names = ", ".join(key for key in rows if "/" not in key)
    raise SmrError(f"no distribution is known by the name {name!r}", f"give --glibc and --gcc, or one of {names}")


def covers(archs: str, capability: str, *, cuda: str = "", ptx: bool = True) -> str:
    """How a list of architectures (`"7.5;8.6+PTX"`) serves a GPU: `cubin`, `ptx`, or empty.

    The rule is the one that torch ships: a cubin runs on devices of the same major version and the same or a later
    minor one, except for the small computers (5.3, 6.2, 7.2, 8.7), which share only with themselves.
    """
    device = versions.parse(capability)
    if len(device) < 2:
        return ""
    answer = ""
    for text in re.split(r"[;, ]+", archs.strip()):
        arch = versions.parse(text)
        if len(arch) < 2:
            continue
        alone = {(5, 3), (6, 2), (7, 2), (8, 7), (10, 1)}
        related = arch[0] == device[0] and arch[1] <= device[1]
        if arch == device or (related and arch not in alone and device not in alone):
            return "cubin"
        if "+PTX" in text and ptx and arch <= device:
            answer = "ptx"
    return answer
