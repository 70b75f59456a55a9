"""OFF: vertices and polygons as text; COFF with vertex colours, NOFF with normals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .. import __version__
from ..atomic import atomic_path
from ..errors import SmrError
from .build import Parts, build_model
from .files import damaged, read_bytes, stated_up
from .model import AnyMesh, Model, WriteOptions, geometry
from .obj_write import text_rows
from .text import NotANumberError, Tokens

_COMMENT = re.compile(rb"#[^\n]*")
# Some files of ModelNet have their counts right behind the word.
_HEADER = re.compile(rb"\s*(ST)?(C)?(N)?(4)?(n)?OFF(?![A-Za-z_])[ \t]*(BINARY)?", re.ASCII)


def write_off(model: AnyMesh, path: Path, options: WriteOptions) -> None:
    """Write vertices and faces as text, colours as four numbers from 0 to 255 after the coordinates."""
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        file.writelines(_lines(model, options))


def _lines(model: AnyMesh, options: WriteOptions) -> Iterator[bytes]:
    mesh = geometry(model)
    title = "OFF" if mesh.colors is None else "COFF"
    yield f"{title}\n# smr {__version__}\n# up axis: {options.world_up}\n".encode()
    yield f"{len(mesh.vertices)} {len(mesh.faces)} 0\n".encode()
    number = "%.9g" if mesh.vertices.dtype == np.float32 else "%.17g"
    point = f"{number} {number} {number}"
    if mesh.colors is None:
        yield from text_rows(point + "\n", mesh.vertices)
    else:
        yield from text_rows(point + " %d %d %d 255\n", np.concatenate([mesh.vertices, mesh.colors], axis=1))
    yield from text_rows("3 %d %d %d\n", mesh.faces)


def read_off(path: Path) -> Model:
    """Read an OFF, COFF or NOFF text file; colours of faces are left out.

    Raises:
        SmrError: It is another kind of OFF, cut off, has a word that is no number, or no faces.
    """
    return build_model(read_parts(path)[0])


def read_parts(path: Path) -> tuple[Parts, np.ndarray | None]:
    """What the file says, and the colours of its faces, F×3 as they stand there; None where not all faces have one.

    Raises:
        SmrError: It is another kind of OFF, cut off, or has a word that is no number.
    """
    data = read_bytes(path)
    text = _COMMENT.sub(b"", data.replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
    header = _HEADER.match(text)
    if header is None:
        raise damaged(path, "it does not begin with the word OFF")
    if header.group(4) or header.group(5) or header.group(6):
        raise SmrError(f"{path} is a binary or more than three-dimensional OFF file.", "Export it as plain text OFF.")
    tokens = Tokens.of(text[header.end() :])
    first, last = tokens.lines()
    first, last = first[last > first], last[last > first]
    try:
        if not len(first) or last[0] - first[0] < 2:
            raise damaged(path, "the line with the numbers of vertices and faces is missing")
        vertices, faces = (int(x) for x in tokens.ints(first[0] + np.arange(2)))
        if vertices < 0 or faces < 0 or vertices + faces > len(first) - 1:
            more = len(first) - 1
            raise damaged(path, f"it promises {vertices} vertices and {faces} faces, and {more} lines follow")
        middle = 1 + vertices
        parts = _read_vertices(path, tokens, first[1:middle], last[1:middle], header)
        colors = _read_faces(parts, tokens, first[middle : middle + faces], last[middle : middle + faces])
    except NotANumberError as error:
        raise damaged(path, f"{error.text[:40]!r} stands where a number should") from error
    parts.world_up = stated_up(data[:512])
    return parts, colors


def _read_vertices(path: Path, tokens: Tokens, first: np.ndarray, last: np.ndarray, header: re.Match[bytes]) -> Parts:
    none = np.zeros(0, np.int64)
    count = int((last - first).min()) if len(first) else 0
    if not len(first):
        return Parts(path, np.zeros((0, 3)), none, none)
    if count < 3:
        raise damaged(path, "a vertex has fewer than three numbers")
    rows = tokens.floats(first[:, None] + np.arange(count))
    parts = Parts(path, rows[:, :3], none, none)
    column = 3
    if header.group(3) and count >= 6:
        parts.normals, column = rows[:, 3:6], 6
    if header.group(2) and count >= column + 3:
        values = rows[:, column : column + 3]
        scale = 255.0 if np.nanmax(values, initial=0.0) <= 1.0 and (values % 1 != 0).any() else 1.0
        parts.colors = np.clip(np.nan_to_num(np.round(values * scale)), 0, 255).astype(np.uint8)
    return parts


def _read_faces(parts: Parts, tokens: Tokens, first: np.ndarray, last: np.ndarray) -> np.ndarray | None:
    sizes = tokens.ints(first)
    if ((sizes < 0) | (sizes > last - first - 1)).any():
        raise damaged(parts.path, "a face has fewer numbers than it says")
    offset = np.cumsum(sizes) - sizes
    corner = np.arange(int(sizes.sum())) + np.repeat(first + 1 - offset, sizes)
    parts.loops, parts.sizes = tokens.ints(corner), sizes
    if parts.normals is not None:
        parts.normal_loops = parts.loops
    behind = first + 1 + sizes
    if not len(first) or (last - behind < 3).any():
        return None
    return tokens.floats(behind[:, None] + np.arange(3))
