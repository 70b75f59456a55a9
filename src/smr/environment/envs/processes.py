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
        try:
            while process.poll() is None:
                time.sleep(0.05 if time.monotonic() - started < 1 else 0.2)
                if time.monotonic() - said > _EVERY_S:
                    said = time.monotonic()
                    say(f"{what}: {progress(_end_of(log), said - started, minutes)}")
        except BaseException:
            _end(process)
            raise
    return process.returncode


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
