"""The catalogue of faults: what each kind of root cause is, and what cures it; rules and explanations share it."""

from __future__ import annotations

from smr.environment.faults import binary, build, machine
from smr.environment.faults.model import Fault, Step, filled

FAULTS: dict[str, Fault] = {fault.kind: fault for fault in (*binary.FAULTS, *build.FAULTS, *machine.FAULTS)}
"""Every fault by its kind."""

__all__ = ["FAULTS", "Fault", "Step", "filled"]
