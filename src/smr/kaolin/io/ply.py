"""`kaolin.io.ply`: Gaussians, which smr does not have, and meshes, which Kaolin does not read of PLY files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch

from ...formats import read_mesh
from ...formats.model import geometry
from .._absent import GAUSSIANS, absent
from ..rep.surface_mesh import SurfaceMesh

__all__ = ["export_gaussiancloud", "import_gaussiancloud", "import_mesh"]

import_gaussiancloud = absent("kaolin.io.ply.import_gaussiancloud", GAUSSIANS)
export_gaussiancloud = absent("kaolin.io.ply.export_gaussiancloud", GAUSSIANS)


def import_mesh(path: str | os.PathLike[str]) -> SurfaceMesh:
    """Read the mesh of a PLY file, with its vertices' colours in 0..1 and normals where it has them.

    Raises:
        FileNotFoundError: There is no such file.
        SmrError: The file is damaged, or has no faces.
    """
    file = Path(path)
    if not file.exists():
        raise FileNotFoundError(f"{file} is not there")
    mesh = geometry(read_mesh(file))
    colors = None if mesh.colors is None else torch.from_numpy(mesh.colors.astype(np.float32) / 255.0)
    normals = None if mesh.normals is None else torch.from_numpy(mesh.normals.astype(np.float32))
    return SurfaceMesh(
        vertices=torch.from_numpy(mesh.vertices.astype(np.float32)),
        faces=torch.from_numpy(mesh.faces.astype(np.int64)),
        vertex_colors=colors,
        vertex_normals=normals,
    )
