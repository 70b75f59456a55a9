"""STL: triangles without anything else; binary, or as text where float32 would lose the shape."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .. import __version__
from ..atomic import atomic_path
from ..records import Finding
from .build import Parts, build_model
from .corners import equal_rows
from .files import damaged, read_bytes, stated_up
from .model import AnyMesh, Model, WriteOptions, compact, geometry
from .text import NotANumberError, Tokens

_TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
_CHUNK = 16_384
_BLOCK = 1 << 20


def write_stl(model: AnyMesh, path: Path, options: WriteOptions) -> None:
    """Write the triangles. Binary STL holds float32 only: coordinates that need more digits are written as text."""
    mesh = geometry(model)
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        if compact(mesh.vertices).dtype == np.float64:
            file.writelines(_text(mesh.vertices[mesh.faces], options))
            return
        rows = np.zeros(len(mesh.faces), _TRIANGLE)
        rows["corners"] = mesh.vertices[mesh.faces]
        rows["normal"] = _face_normals(rows["corners"].astype(np.float64))
        title = f"smr {__version__} up axis: {options.world_up}".encode()
        file.write(title.ljust(80, b"\0") + np.uint32(len(rows)).astype("<u4").tobytes())
        file.write(rows.tobytes())


def _text(corners: np.ndarray, options: WriteOptions) -> Iterator[bytes]:
    yield f"solid smr {__version__} up axis: {options.world_up}\n".encode()
    facet = "facet normal %.6g %.6g %.6g\nouter loop\n" + "vertex %.17g %.17g %.17g\n" * 3 + "endloop\nendfacet\n"
    rows = np.concatenate([_face_normals(corners), corners.reshape(-1, 9)], axis=1)
    for start in range(0, len(rows), _CHUNK):
        part = rows[start : start + _CHUNK]
        yield (facet * len(part) % tuple(part.ravel().tolist())).encode()
    yield b"endsolid smr\n"


def _face_normals(corners: np.ndarray) -> np.ndarray:
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    unit: np.ndarray = normals / np.where(length > 0, length, 1.0)
    return unit


def read_stl(path: Path) -> Model:
    """Read an STL, binary or text; corners at exactly the same place become one vertex.

    Raises:
        SmrError: The file is cut off, neither text nor binary STL, or has no triangles.
    """
    data = read_bytes(path)
    findings: list[Finding] = []
    count = int.from_bytes(data[80:84], "little") if len(data) >= 84 else -1
    size = 84 + 50 * count
    if count >= 0 and (len(data) == size or (len(data) > size and not _is_text(data))):
        if len(data) > size:
            findings.append(Finding("note", f"{len(data) - size} bytes after the last triangle are left out."))
        corners = np.frombuffer(data, _TRIANGLE, count, 84)["corners"].reshape(-1, 3)
    elif _is_text(data):
        corners = _read_text(path, data)
    elif count >= 0:
        raise damaged(path, f"its header promises {count} triangles ({size} bytes), and it has {len(data)} bytes")
    else:
        raise damaged(path, "it is neither a text nor a binary STL file")
    first, loops = equal_rows(corners)
    sizes = np.full(len(corners) // 3, 3, np.int64)
    parts = Parts(path, corners[first], loops, sizes, findings=findings, world_up=stated_up(data[:256]))
    return build_model(parts)


def _is_text(data: bytes) -> bool:
    return data.lstrip()[:5].lower() == b"solid" and b"\0" not in data[:512]


def _read_text(path: Path, data: bytes) -> np.ndarray:
    """Corners of the triangles: what follows the word `vertex` at the beginning of a line."""
    found = [np.zeros((0, 3))]
    begin = 0
    while begin < len(data):
        end = data.find(b"\n", begin + _BLOCK) + 1 or len(data)
        tokens = Tokens.of(data[begin:end])
        first, last = tokens.lines()
        first, last = first[last > first], last[last > first]
        is_vertex = (tokens.ends - tokens.starts)[first] == 6
        is_vertex &= (tokens.data[tokens.starts[first]] | 32) == ord("v")
        if (last[is_vertex] - first[is_vertex] != 4).any():
            raise damaged(path, "a vertex has not three numbers")
        try:
            found.append(tokens.floats(first[is_vertex, None] + np.arange(1, 4)))
        except NotANumberError as error:
            raise damaged(path, f"{error.text[:40]!r} stands where a number should") from error
        begin = end
    corners = np.concatenate(found)
    if len(corners) % 3 or (len(corners) and b"endsolid" not in data[-4096:].lower()):
        raise damaged(path, "it ends within a triangle or before the word endsolid")
    return corners
