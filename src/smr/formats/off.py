"""OFF writer: text; COFF with vertex colours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .. import __version__
from ..atomic import atomic_path
from .model import AnyMesh, WriteOptions, geometry
from .obj_write import text_rows


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
