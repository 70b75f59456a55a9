"""STL writer: binary; as text where float32 would lose the shape."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .. import __version__
from ..atomic import atomic_path
from .model import AnyMesh, WriteOptions, compact, geometry

_TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
_CHUNK = 16_384


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
