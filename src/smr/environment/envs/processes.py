"""Runs long programs: output goes to a log that is kept, progress is read from its end, an interrupt ends the group."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from smr.errors import SmrError

Say = Callable[[str], None]
_COUNT = re.compile(rb"\[(\d{1,5})/(\d{1,5})\]")
_TAIL = 4096
_EVERY_S = 1.5


def run_logged(
    argv: Sequence[str], *, log: Path, environ: Mapping[str, str], cwd: Path, say: Say, what: str, minutes: float = 0.0
) -> int:
    """Run a program and return its exit code.

    Args:
        argv: The program with its arguments; no shell sees them.
        log: File for everything that it prints; an older one is kept as `.1`.
        environ: Its whole environment.
        cwd: The folder that it runs in.
        say: Told what is going on every second or two.
        what: What to call it.
        minutes: About how long it takes, where nothing in its output says how far it is.

    Raises:
        SmrError: It cannot be started.
    """
    if log.exists():
        os.replace(log, log.with_suffix(f"{log.suffix}.1"))
    started = said = time.monotonic()
    with log.open("wb") as file:
        file.write(f"$ {' '.join(argv)}\n".encode())
        file.flush()
        try:
            process = subprocess.Popen(
                list(argv), stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, cwd=cwd,
                env=dict(environ), start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise SmrError(f"{argv[0]} cannot be started: {error.strerror}", "see whether it is installed") from error
        mark = log.with_suffix(".pid")
        mark.write_text(str(process.pid))
        try:
            while process.poll() is None:
                time.sleep(0.05 if time.monotonic() - started < 1 else 0.2)
                if time.monotonic() - said > _EVERY_S:
                    said = time.monotonic()
                    say(f"{what}: {progress(_end_of(log), said - started, minutes)}")
        except BaseException:
            _end(process)
            raise
        finally:
            mark.unlink(missing_ok=True)
    return process.returncode


def end_leftovers(logs: Path, folder: Path) -> int:
    """End what a killed call of ours left running, and tell how many processes that were.

    A program of `run_logged` leads a session of its own, whose number stands beside its log while it runs. Of that
    session only processes that work inside `folder` are ended, since numbers are used again. Linux alone.
    """
    ended = 0
    for mark in logs.glob("*.pid"):
        text = mark.read_text()
        for process in Path("/proc").glob("[0-9]*") if text.isdigit() else ():
            try:
                session = (process / "stat").read_text().rpartition(")")[2].split()[3]
                if session == text and (process / "cwd").resolve(strict=True).is_relative_to(folder.resolve()):
                    os.kill(int(process.name), signal.SIGKILL)
                    ended += 1
            except (OSError, IndexError):  # it has ended, or is not ours
                continue
        mark.unlink(missing_ok=True)
    return ended


def progress(tail: bytes, elapsed: float, minutes: float = 0.0) -> str:
    """Elapsed and left: from ninja's `[7/23]`, else from what such a build takes."""
    counts = _COUNT.findall(tail)
    words = f"{clock(elapsed)}"
    if counts:
        done, whole = map(int, counts[-1])
        if 0 < done <= whole:
            return f"{words}, {done} of {whole}, about {clock(elapsed * (whole - done) / done)} left"
    if minutes:
        return f"{words} of about {clock(60 * minutes)}"
    return words


def clock(seconds: float) -> str:
    """`75` as `1:15`."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _end_of(log: Path) -> bytes:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL))
        return file.read()


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(5)
        except (OSError, subprocess.TimeoutExpired):
            continue
        return
