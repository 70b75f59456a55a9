"""The second track: the next version beside the current one, measured with the same jobs; then promoted, or not."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from smr.environment.envs.build import build_track
from smr.environment.envs.check import Row, check, passed
from smr.environment.envs.demands import Wishes
from smr.environment.envs.launch import environment
from smr.environment.envs.machine import Machine
from smr.environment.envs.options import Options
from smr.environment.envs.plan import Plan
from smr.environment.envs.planning import Planned, make_plan
from smr.environment.envs.prefix import Prefix, Track, only_one
from smr.environment.envs.recipes import Recipe
from smr.errors import SmrError

Say = Callable[[str], None]


@dataclass(frozen=True)
class Trial:
    """How one track did."""

    track: str
    title: str
    rows: tuple[Row, ...]
    command: Mapping[str, Any]
    """Exit code, seconds, CPU seconds, peak MB, SHA-256 of what it printed; empty where no command was given."""

    @property
    def healthy(self) -> bool:
        """Whether every check passes and the command ended well."""
        return passed(list(self.rows)) and self.command.get("exit_code", 0) == 0


def plan_next(recipe: Recipe, version: str, current: Plan) -> Planned:
    """Plan another version for the machine that the current plan was for."""
    wishes = current.wishes
    gpus = tuple(part for part in wishes.get("gpus", "").split(",") if part and part != "none")
    machine = Machine(
        gpus=gpus,
        gpu_names=gpus,
        no_gpu=wishes.get("gpus") == "none" or current.build == "cpu",
        driver=wishes.get("driver", ""),
        glibc=wishes.get("glibc", ""),
        gcc=wishes.get("gcc", ""),
        python=current.python,
        architecture=wishes.get("architecture", "x86_64"),
        origin="the current plan",
    )
    cuda = "cpu" if current.build == "cpu" else wishes.get("cuda", "")
    return make_plan(recipe, Wishes(package=version, cuda=cuda), machine, own_index=not current.torch_index)


def try_plan(
    prefix: Prefix, current: Track, plan: Plan, options: Options, command: str, *, say: Say = lambda text: None
) -> tuple[Trial, Trial]:
    """Build a plan beside the current environment and let both do the same.

    Raises:
        SmrError: It cannot be built; nothing changes for the current one.
    """
    with only_one(prefix):
        candidate = build_track(prefix, plan, options, dict(os.environ), say)
    trials = []
    for track in (current, candidate):
        say(f"vital signs of {track.name}")
        rows = check(track, say=say)
        trials.append(
            Trial(track.name, track.plan.title, tuple(rows), measure(track, shlex.split(command)) if command else {})
        )
    if trials[1].healthy:
        candidate.record("finished", plan.digest)
    return trials[0], trials[1]


def measure(track: Track, argv: Sequence[str]) -> dict[str, Any]:
    """Run the user's command in a track: exit code, time, peak memory, and what it printed."""
    log = track.logs / "command.log"
    started = time.monotonic()
    with log.open("wb") as file:
        try:
            process = subprocess.Popen(
                list(argv), stdout=file, stderr=subprocess.STDOUT, env=environment(track, os.environ)
            )
        except OSError as error:
            raise SmrError(
                f"{argv[0]} cannot be started: {error.strerror}", "name a program: --with 'python job.py'"
            ) from error
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return {
        "exit_code": process.returncode,
        "seconds": round(time.monotonic() - started, 2),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_mb": round(usage.ru_maxrss / 1024),
        "output_sha256": hashlib.sha256(log.read_bytes()).hexdigest(),
        "log": str(log),
    }


def verdict(current: Trial, candidate: Trial) -> str:
    """Whether upgrading gains anything."""
    if not candidate.healthy:
        return "stay: the candidate is not healthy"
    if not candidate.command:
        return "the candidate is healthy; give --with 'CMD' to see whether your own job gains"
    same = candidate.command["output_sha256"] == current.command["output_sha256"]
    before, after = current.command["cpu_seconds"], candidate.command["cpu_seconds"]
    change = (
        f"{before} s of CPU before, {after} s after; {current.command['peak_mb']} and {candidate.command['peak_mb']} MB"
    )
    words = "the same output" if same else "another output (compare the logs)"
    if same and after < 0.9 * before:
        return f"upgrading gains time: {words}; {change}"
    return f"{'nothing is gained' if same else 'look before you upgrade'}: {words}; {change}"


def promote(prefix: Prefix, name: str) -> Track:
    """Make a finished track the current one; the one before stays for `rollback`.

    Raises:
        SmrError: There is no such track, or more than one could be meant.
    """
    current = prefix.linked()
    others = [track for track in prefix.tracks() if current is None or track.name != current.name]
    wanted = [track for track in others if not name or name in track.name]
    if len(wanted) != 1:
        there = ", ".join(track.name for track in others) or "none"
        what = "no finished track" if not wanted else "more than one finished track"
        raise SmrError(
            f"{what} {f'has {name!r} in its name' if name else 'waits'}; there: {there}", "smr env promote DIR NAME"
        )
    with only_one(prefix):
        prefix.switch(wanted[0])
    return wanted[0]


def rollback(prefix: Prefix) -> Track:
    """Make the track that was in use before the current one again.

    Raises:
        SmrError: There is none.
    """
    before = prefix.linked("previous")
    if before is None:
        raise SmrError(f"nothing was in use in {prefix.folder} before", "smr env promote DIR NAME chooses a track")
    with only_one(prefix):
        prefix.switch(before)
    return before
