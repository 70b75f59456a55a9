"""Runs other programs with a time limit and a bound on their output. A crash or a hang is an answer, not an error."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Protocol, runtime_checkable

MAX_OUTPUT = 256 << 10


@dataclass(frozen=True)
class Outcome:
    """How a program ended."""

    status: str
    """`ok`, `exit` (a code other than 0), `signal`, `timeout`, or `missing` (could not be started)."""
    detail: str
    """Exit code, signal name, or why it could not be started."""
    stdout: str
    stderr: str

    @property
    def ok(self) -> bool:
        """Whether it ended with exit code 0."""
        return self.status == "ok"

    def sentence(self) -> str:
        """What happened in words: `died with SIGSEGV`."""
        words = {
            "ok": "ended well",
            "exit": f"ended with exit code {self.detail}",
            "signal": f"died with {self.detail}",
        }
        words["timeout"] = f"did not answer within {self.detail} s"
        return words.get(self.status, f"could not be started: {self.detail}")


@runtime_checkable
class Runner(Protocol):
    """How programs are run; tests hand in another one."""

    def __call__(self, argv: Sequence[str], *, limit_s: float = 10.0, text: str = "") -> Outcome:
        """Run a program with a time limit."""
        ...


def run(
    argv: Sequence[str], *, limit_s: float = 10.0, text: str = "", environ: Mapping[str, str] | None = None
) -> Outcome:
    """Run a program; `text` is its standard input. What it prints beyond 256 KiB is dropped."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as feed:
        feed.write(text.encode())
        feed.seek(0)
        try:
            process = subprocess.Popen(
                list(argv), stdin=feed, stdout=out, stderr=err, env=environ, start_new_session=os.name == "posix"
            )
        except OSError as error:
            return Outcome("missing", error.strerror or str(error), "", "")
        try:
            code = process.wait(limit_s)
            status, detail = _ending(code)
        except subprocess.TimeoutExpired:
            status, detail = "timeout", f"{limit_s:g}"
        finally:
            _end(process)
        return Outcome(status, detail, _head(out), _head(err))


def _ending(code: int) -> tuple[str, str]:
    if code >= 0:
        return ("ok" if code == 0 else "exit"), str(code)
    try:
        return "signal", signal.Signals(-code).name
    except ValueError:
        return "signal", f"signal {-code}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program and what it started; one stuck inside a driver call cannot be ended and is left behind."""
    if process.poll() is None:
        try:
            if sys.platform == "win32":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
        except OSError:
            process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(2)


def _head(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(MAX_OUTPUT).decode("utf-8", "replace")
