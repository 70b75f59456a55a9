"""What an environment says of itself: programs run by its own interpreter, with the loader environment it will have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import smr
from smr.environment.commands import Outcome, run
from smr.environment.envs.launch import environment
from smr.environment.envs.prefix import Track
from smr.errors import SmrError

LIMIT_S = 300.0
_FACTS = """
import json, sys
root, package, scan = sys.argv[1:4]
sys.path.insert(0, root)
from smr.environment.gather.collect import collect
sys.path.remove(root)
json.dump(collect(package=package, scan=scan == "scan"), sys.stdout)
"""
_VERSIONS = """
import json, sys
from importlib.metadata import distributions
names = {}
for d in distributions():  # the first on the path is the one that is imported
    if d.metadata and d.metadata["Name"]:
        names.setdefault(d.metadata["Name"], d.version)
json.dump(names, sys.stdout)
"""


def run_inside(track: Track, argv: list[str], given: Mapping[str, str], *, limit_s: float = LIMIT_S) -> Outcome:
    """Run the environment's interpreter; what it prints is bounded, and it may not hang."""
    return run([str(track.python), *argv], limit_s=limit_s, environ=environment(track, given))


def facts_inside(track: Track, package: str, given: Mapping[str, str], *, scan: bool = True) -> dict[str, Any]:
    """The doctor's facts, gathered inside an environment.

    Raises:
        SmrError: Its interpreter does not answer.
    """
    root = str(Path(smr.__file__).resolve().parents[1])
    outcome = run_inside(track, ["-I", "-c", _FACTS, root, package, "scan" if scan else "no"], given)
    return _loaded(track, outcome)


def versions_inside(track: Track, given: Mapping[str, str]) -> dict[str, str]:
    """Name and version of every installed distribution.

    Raises:
        SmrError: Its interpreter does not answer.
    """
    return {str(k): str(v) for k, v in _loaded(track, run_inside(track, ["-I", "-c", _VERSIONS], given)).items()}


def _loaded(track: Track, outcome: Outcome) -> dict[str, Any]:
    try:
        found = json.loads(outcome.stdout) if outcome.ok else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        last = outcome.stderr.strip().splitlines()[-1:] or [outcome.sentence()]
        cure = "build or restore it again into a new --prefix"
        raise SmrError(f"the interpreter of {track.env} does not answer: {last[0][:300]}", cure)
    return found
