"""Runs pycolmap in a process of its own: Ctrl-C stops it, its log goes to a file, and when it crashes we do not."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..errors import SmrError
from ..progress import Track
from .job import ANSWER, LOG, Answer, Job

LABELS = {
    "features": "finding features",
    "pairs": "comparing photos",
    "poses": "finding poses",
    "points": "finding points",
    "refining": "refining poses",
}
_SIGNALS = {-4: "an illegal instruction", -6: "an abort", -9: "being killed (memory?)", -11: "a segmentation fault"}


def check_installed() -> None:
    """Refuse early where pycolmap is not installed.

    Raises:
        SmrError: With the command that installs it.
    """
    if importlib.util.find_spec("pycolmap") is None:
        raise SmrError(
            "Poses of photos are found with pycolmap, which is not installed here.",
            "Install it: pip install 'smr3d[photos]' (or: pip install pycolmap).",
        )


def run(job: Job, folder: Path, track: Track) -> Answer:
    """Do the job in `folder`, where features and matches of an earlier try are used again.

    Raises:
        SmrError: pycolmap is not installed, or its process failed.
    """
    check_installed()
    (folder / ANSWER).unlink(missing_ok=True)
    job.write(folder)
    with (folder / LOG).open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "smr.sfm.worker", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,  # Ctrl-C reaches only us, and we stop it
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        try:
            assert process.stdout is not None
            _follow(process.stdout, track)
            code = process.wait()
        finally:
            _stop(process)
    if code != 0 or not (folder / ANSWER).is_file():
        raise _failed(code, folder / LOG)
    return Answer.read(folder)


def _stop(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _follow(said: Iterable[str], track: Track) -> None:
    """Turn lines of progress into tracked steps, one after another."""
    lines = _lines(said)
    following = next(lines, None)
    while following is not None:
        what, _, total = following
        leftover: list[tuple[str, int, int]] = []

        def counted(first: tuple[str, int, int], leftover: list[tuple[str, int, int]] = leftover) -> Iterator[None]:
            told = 0
            line: tuple[str, int, int] | None = first
            while line is not None and line[0] == first[0] and line[1] >= told:
                for _ in range(told, min(line[1], first[2])):
                    yield None
                told = max(told, line[1])
                line = next(lines, None)
            if line is not None:
                leftover.append(line)

        for _ in track(counted(following), LABELS.get(what, what), total):
            pass
        following = leftover[0] if leftover else None


def _lines(said: Iterable[str]) -> Iterator[tuple[str, int, int]]:
    for line in said:
        try:
            what, done, total = json.loads(line)
        except ValueError:  # something else that a library printed
            continue
        yield str(what), int(done), int(total)


def _failed(code: int, log: Path) -> SmrError:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    last = lines[-1][:200] if lines else "it said nothing"
    if "MemoryError" in last or "bad_alloc" in last or code == -9:
        return SmrError(
            "The memory of this machine was not enough to find the poses of the photos.",
            "Close other programs, or give a smaller --feature-size, --feature-count 4000, or fewer photos "
            "(--every 2).",
        )
    why = f"ended by {_SIGNALS.get(code, f'signal {-code}')}" if code < 0 else f"failed: {last}"
    return SmrError(
        f"The process that finds poses with pycolmap {why}.",
        f"Try again (features and matches are kept), or with --mapper global; its log is {log}.",
    )
