"""Names of the files beside a mesh file: derived when written, checked when read."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path, PurePosixPath, PureWindowsPath
from urllib.parse import unquote


def companion_name(path: Path, suffix: str) -> str:
    """A name for a file that belongs to `path`, without what OBJ, MTL, PLY or USD could misread (spaces, @, brackets).

    Letters of any script stay. Where something had to be replaced, a short hash keeps `a b.obj` and `a_b.obj` apart.
    """
    safe = re.sub(r"[^\w.-]", "_", path.stem)
    if safe != path.stem:
        safe += "-" + hashlib.sha256(path.stem.encode("utf-8", "surrogateescape")).hexdigest()[:6]
    return safe + suffix


def texture_name(path: Path, index: int, ending: str) -> str:
    """The name of the texture of material `index` beside the mesh file `path`."""
    return companion_name(path, "_texture" + (f"_{index}" if index else "") + ending)


def inside_folder(folder: Path, name: str) -> Path | None:
    """The file `name` under `folder`; None where the name is absolute, leads out of the folder or is a web address.

    Symbolic links count by where they point to.
    """
    name = name.strip().replace("\\", "/")
    if not name or "\0" in name or re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", name):
        return None
    if PurePosixPath(name).is_absolute() or PureWindowsPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        return None
    path = folder / name
    try:
        return path if path.resolve().is_relative_to(folder.resolve()) else None
    except (OSError, RuntimeError):  # a loop of links
        return None


def find_companion(folder: Path, name: str) -> Path | None:
    """The file that a mesh file calls `name`, as it stands or with %20 and the like decoded; None where it is not."""
    for candidate in dict.fromkeys((name, unquote(name))):
        path = inside_folder(folder, candidate)
        try:
            if path is not None and path.is_file():
                return path
        except OSError:  # a name too long
            return None
    return None
