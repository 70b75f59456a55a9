"""Files opened with an answer for each thing that can be wrong with them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ..errors import SmrError
from ..records import UpAxis


def read_bytes(path: Path) -> bytes:
    """All of a mesh file.

    Raises:
        SmrError: It is missing, a folder, not a plain file, not readable, or empty.
    """
    try:
        if path.is_dir():
            raise SmrError(f"{path} is a folder.", "Name the mesh file in it.")
        if path.exists() and not path.is_file():
            raise SmrError(f"{path} is not a plain file.", "Name a mesh file.")
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise SmrError(f"{path} is not there.", "Check the path.") from error
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error)
        raise SmrError(f"{path} cannot be read: {reason}.", "Check the file and its permissions.") from error
    if not data:
        raise SmrError(f"{path} is an empty file.", "Export or copy it again.")
    return data


def damaged(path: Path, what: str) -> SmrError:
    """A file that does not hold together."""
    return SmrError(f"{path}: {what}.", "The file is damaged or cut off: export or copy it again.")


_UP = re.compile(rb"up axis: (-?[xyz])\b")


def stated_up(head: bytes) -> UpAxis | None:
    """The up axis that our own writers state in a comment."""
    found = _UP.search(head)
    return found.group(1).decode() if found else None  # type: ignore[return-value]
