"""Reads the text to explain and the facts of its machine, of any size and encoding, in bounded time and memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from smr.errors import SmrError

WHOLE = 8 << 20
"""Logs up to this size are read whole; of larger ones the ends, and between them lines that speak of errors."""
END = 2 << 20
CHUNK = 8 << 20
LINES_A_KEY = 200
MAX_LINE = 4096
MAX_JUDGED = 1500
KEYS = (
    b"rror:",
    b"rror ",
    b"ERROR",
    b"undefined symbol",
    b"cannot open shared",
    b"not found",
    b"fatal",
    b"Killed",
    b"No module",
    b"mismatch",
    b"too old",
    b"no kernel image",
    b"unsupported",
    b"cannot find -l",
    b"INTERNAL ASSERT",
)
CONDENSED = 96 << 10
_SPEAKING = re.compile(
    r"error|undefined symbol|not found|cannot|fatal|killed|no module|mismatch|too old|unsupported|fail|not compiled|"
    r"exception|denied|missing|no kernel|not (?:set|available|compatible)|died|IndexError|\bFalse\b|warning",
    re.IGNORECASE,
)
_PROGRESS = re.compile(
    r"^\s*(?:Collecting |Requirement already satisfied|Downloading |Using cached |Successfully |Installing collected|"
    r"Building wheels? for|Running setup\.py|Attempting uninstall|Found existing|Uninstalling |Get:\d|Setting up |"
    r"Unpacking |Selecting previously|Preparing |Stored in|Created wheel|Allowing ninja|For debugging consider|"
    r"CUDA kernel errors might be|Compile with `TORCH_USE_CUDA_DSA|(?:\[\d+/\d+\] )?\S*(?:nvcc|c\+\+|"
    r"g\+\+|gcc|cc)(?:\.exe)?\s+-)"
    r"|(?:has a minor version mismatch|There are no \S+ version bounds|setuptools\S*DeprecationWarning)",
    re.IGNORECASE,
)
"""Lines that tools print when all is well; names in them say nothing."""
_TROUBLE = re.compile(
    r"error\b|no module|not found|no such|\bfail|fatal|cannot|could not|undefined|killed", re.IGNORECASE
)
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
_CONTEXT_LINE = re.compile(r"^\s*[\"']?([A-Za-z][\w ]{0,30}?)[\"']?\s*[:=]\s*(.+?)\s*,?\s*$")


@runtime_checkable
class Readable(Protocol):
    """What is asked of a file."""

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes, at most `size`."""
        ...


def read_log(file: Readable) -> str:
    """Text of a log of any size.

    Terminal colours and binary garbage are taken out, UTF-16 of Windows shells is understood, lines are cut at 4 KiB.
    """
    head = file.read(WHOLE + 1)
    if len(head) <= WHOLE:
        return _text(head)
    lines: dict[bytes, int] = {}
    parts = [head[:END], b"\n"]
    tail = head
    for chunk in _chunks(file, head[END:]):
        parts += [line + b"\n" for line in _speaking(chunk, lines)]
        tail = (tail + chunk)[-END:]
    return _text(b"".join([*parts, tail]))


def condensed(text: str) -> str:
    """A text of any length cut to what is worth judging: lines that speak of errors, and the end."""
    if len(text) <= CONDENSED:
        return text
    lines: dict[str, str] = {}
    for line in text.split("\n"):
        if _SPEAKING.search(line):
            lines.setdefault(re.sub(r"\d+", "0", line), line[:MAX_JUDGED])
    speaking = "\n".join(lines.values())
    if len(speaking) > CONDENSED // 2:
        speaking = speaking[: CONDENSED // 4] + "\n" + speaking[-CONDENSED // 4 :]
    end = "\n".join(line[:MAX_JUDGED] for line in text[-CONDENSED // 2 :].split("\n"))
    return f"{speaking}\n{end}"


def without_progress(text: str) -> str:
    """A text without the lines that tools print when all is well."""
    return "\n".join(line for line in text.split("\n") if not _PROGRESS.search(line) or _TROUBLE.search(line))


def read_context(path: Path) -> dict[str, Any]:
    """Flat facts of a machine from a file: a JSON object, or lines `key: value`.

    Raises:
        SmrError: The file cannot be read or holds neither.
    """
    try:
        with path.open("rb") as file:
            text = _text(file.read(WHOLE))
    except OSError as error:
        raise SmrError(
            f"cannot read the context {path}: {error.strerror}", "give the path of a readable file"
        ) from error
    try:
        given = json.loads(text)
    except ValueError:
        given = {
            m.group(1).strip().lower().replace(" ", "_"): m.group(2).strip("\"' ")
            for m in map(_CONTEXT_LINE.match, text.splitlines())
            if m
        }
    if not isinstance(given, dict) or not given:
        raise SmrError(
            f"{path} holds no facts",
            'write a JSON object such as {"torch": "2.4.0+cu121", "nvcc": "12.1", "python": "3.10"}, or lines '
            "`torch: 2.4.0`",
        )
    return {str(key): value for key, value in given.items() if isinstance(value, (str, int, float, bool))}


def _chunks(file: Readable, first: bytes) -> Iterator[bytes]:
    chunk = first
    while chunk:
        yield chunk
        chunk = file.read(CHUNK)


def _speaking(chunk: bytes, counts: dict[bytes, int]) -> Iterator[bytes]:
    """Lines of a chunk that hold one of the keys, each key a bounded number of times over the whole file."""
    for key in KEYS:
        place = chunk.find(key)
        while place >= 0 and counts.get(key, 0) < LINES_A_KEY:
            counts[key] = counts.get(key, 0) + 1
            start = chunk.rfind(b"\n", max(0, place - MAX_LINE), place) + 1 or max(0, place - MAX_LINE)
            end = chunk.find(b"\n", place, place + MAX_LINE)
            end = end if end >= 0 else min(len(chunk), place + MAX_LINE)
            yield chunk[start:end]
            place = chunk.find(key, end)


def _text(data: bytes) -> str:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = data.decode("utf-16", "replace")
    else:
        text = data.decode("utf-8", "replace")
    text = _ESCAPES.sub("", text).replace("\0", "")
    return "\n".join(line[:MAX_LINE] for line in text.split("\n"))
