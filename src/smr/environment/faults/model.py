"""A fault: one kind of root cause, what it looks like, why it happens, and what cures it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One thing to type, or to do where there is nothing to type.

    What stands in round brackets after two spaces is a remark. `{torch}`, `{torch_cuda}`, `{cu}`, `{package}` and the
    like are filled in from what is known of the machine.
    """

    type: str
    cost: str
    """Time, download and rights: `seconds`, `2 GB, minutes`, `root, reboot`."""


@dataclass(frozen=True)
class Fault:
    """One root cause kind."""

    kind: str
    page: int
    """Which of the twelve frequent faults it belongs to."""
    title: str
    """As the user meets it."""
    why: str
    cure: tuple[Step, ...]
    """Smallest first."""
    source: str = "public failure reports"


_UNKNOWN = {
    "torch": "TORCH_VERSION",
    "torch_cuda": "TORCH_CUDA",
    "built_for": "VERSION",
    "cu": "cuXYZ",
    "package": "PACKAGE",
    "arch": "X.Y",
    "driver": "DRIVER",
    "pip": "PACKAGE",
    "python": "3.11",
    "newest_gcc": "N",
    "toolkit_driver": "see NVIDIA's release notes",
    "jobs": "2",
}


def filled(fault: Fault, values: Mapping[str, str]) -> tuple[str, ...]:
    """The cure as lines to paste, each with its cost behind a `#`; unknown values stay in capitals."""
    known = {**_UNKNOWN, **{key: value for key, value in values.items() if value}}
    if values.get("torch_cuda"):
        known["cu"] = "cu" + values["torch_cuda"].replace(".", "")
    return tuple(_line(step, known) for step in fault.cure)


def _line(step: Step, known: Mapping[str, str]) -> str:
    command, _, note = step.type.partition("  (")
    return (f"{command}  # {note[:-1]}; {step.cost}" if note else f"{command}  # {step.cost}").format_map(known)
