"""What an environment is, exactly: every wheel with version and hash, and what the built one was made from."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smr import __version__
from smr.atomic import write_bytes_atomic
from smr.environment import versions
from smr.environment.envs.inside import facts_inside, versions_inside
from smr.environment.envs.over import look_at
from smr.environment.envs.pip import wheels_in
from smr.environment.envs.prefix import Track
from smr.environment.envs.recipes import normal
from smr.environment.rules import Facts
from smr.errors import SmrError

VERSION = 1
_SEEDED = {"pip", "setuptools", "wheel"}
"""What comes with an empty environment."""


def make_lock(track: Track, given: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The lock of an environment, also written into its folder.

    Raises:
        SmrError: What is installed is not what its wheels are.
    """
    environ = dict(os.environ if given is None else given)
    plan = track.plan
    wheels = wheels_in(track.wheels)
    below = dict(look_at(plan.over, environ).packages) if plan.over else {}
    _same_as_installed({wheel.name: wheel.version for wheel in wheels}, versions_inside(track, environ), below)
    module = plan.imports[0].split(".")[0] if plan.imports else plan.package
    facts = Facts(facts_inside(track, module, environ))
    extensions = facts.groups("extensions")
    lock = {
        "version": VERSION,
        "smr": __version__,
        "plan": plan.document(),
        "packages": [vars(wheel) for wheel in wheels],
        **({"over": {"python": plan.over, "packages": dict(sorted(below.items()))}} if plan.over else {}),
        "extension": {
            "files": [Path(one.text("path")).name for one in extensions],
            "cubins": sorted({str(name) for one in extensions for name in one.items("code.cubins")}),
            "ptx": sorted({str(name) for one in extensions for name in one.items("code.ptx")}),
            "source": _json(track.folder / "source.json"),
            "made": _json(track.folder / "made.json"),
        },
        "needs": {
            "os": facts.text("system.os"),
            "machine": facts.text("system.machine"),
            "python": facts.text("python.version"),
            "glibc": _newest([plan.glibc, *(one.text("floors.GLIBC") for one in extensions)]),
            "driver": plan.driver,
            "cuda": plan.cuda,
        },
        "made_on": {key: facts.text(f"system.{key}") for key in ("distribution", "kernel", "glibc")},
    }
    write_bytes_atomic(track.lock_file, json.dumps(lock, indent=1).encode() + b"\n")
    return lock


def _same_as_installed(locked: Mapping[str, str], installed: Mapping[str, str], below: Mapping[str, str]) -> None:
    there = {normal(name): version for name, version in installed.items()}
    for name, version in locked.items():
        if there.get(name) != version and versions.parse(there.get(name)) != versions.parse(version):
            what = f"{name} {there.get(name, '(none)')} is installed, the wheel of this environment is {version}"
            raise SmrError(what, "somebody changed it by hand: build it again into a new --prefix")
    extra = sorted(set(there) - set(locked) - set(map(normal, below)) - _SEEDED)
    if extra:
        what = f"{', '.join(extra[:5])} was installed by hand and is not in the plan"
        raise SmrError(what, "pip uninstall it there, or name it in a recipe of yours (requires)")


def _newest(found: list[str]) -> str:
    return max((text for text in found if text), key=versions.parse, default="")


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
