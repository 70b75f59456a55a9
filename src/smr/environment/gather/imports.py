"""Imports a package in another process, with a time limit: a crash or a hang there is a fact."""

from __future__ import annotations

import sys
from typing import Any

from smr.environment.commands import Runner, run

LIMIT_S = 120.0
_LAST_LINES = 12


def imports(modules: tuple[str, ...], *, run: Runner = run, limit_s: float = LIMIT_S) -> list[dict[str, Any]]:
    """How the import of each module ends: `ok`, `exit` (an exception), `signal`, or `timeout`."""
    found = []
    for module in modules:
        outcome = run([sys.executable, "-X", "faulthandler", "-c", f"import {module}"], limit_s=limit_s)
        said = "\n".join(outcome.stderr.strip().splitlines()[-_LAST_LINES:])
        found.append(
            {
                "module": module,
                "status": outcome.status,
                "sentence": outcome.sentence(),
                "says": "" if outcome.ok else said,
            }
        )
    return found
