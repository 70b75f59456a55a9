"""`kaolin.io.off`: meshes of OFF files."""

from __future__ import annotations

import os
import warnings
from collections import namedtuple
from pathlib import Path

import numpy as np
import torch

from ...formats.off import read_parts
from .utils import NonHomogeneousMeshError

__all__ = ["import_mesh", "return_type"]

return_type = namedtuple("return_type", ["vertices", "faces", "face_colors"])


def import_mesh(path: str | os.PathLike[str], with_face_colors: bool = False) -> return_type:
    """Read an OFF file.

    Args:
        path: The file.
        with_face_colors: Read colours of faces, too.

    Returns:
        `vertices` (V, 3) float32, `faces` (F, FSz) int64 as they stand in the file, and, where asked for,
        `face_colors` (F, 3) int64 from 0 to 255, black where the file has none; else None.

    Raises:
        FileNotFoundError: There is no such file.
        NonHomogeneousMeshError: Faces differ in size.
        SmrError: The file is damaged.
    """
    file = Path(path)
    if not file.exists():
        raise FileNotFoundError(f"{file} is not there")
    parts, colors = read_parts(file)
    sizes = np.asarray(parts.sizes)
    if len(sizes) and (sizes != sizes[0]).any():
        raise NonHomogeneousMeshError(f"{file} has faces of {', '.join(map(str, np.unique(sizes)))} corners")
    faces = np.asarray(parts.loops, np.int64).reshape(len(sizes), int(sizes[0]) if len(sizes) else 3)
    if faces.size and (faces.min() < 0 or faces.max() >= len(parts.vertices)):
        warnings.warn(f"{file} has {len(parts.vertices)} vertices, and a face names {faces.max()}", stacklevel=2)
    found = None
    if with_face_colors:
        values = np.zeros((len(faces), 3)) if colors is None else colors
        if np.nanmax(values, initial=0.0) <= 1.0 and (values % 1 != 0).any():
            values = np.round(values * 255.0)
        found = torch.from_numpy(np.nan_to_num(values).astype(np.int64))
    return return_type(torch.from_numpy(parts.vertices.astype(np.float32)), torch.from_numpy(faces), found)
