"""`kaolin.io.mesh`: a mesh of any file that is read."""

from __future__ import annotations

import os
from pathlib import Path

from ..rep.surface_mesh import SurfaceMesh


def import_mesh(filename: str | os.PathLike[str], triangulate: bool = False) -> SurfaceMesh:
    """All meshes of a file as one, with materials and normals.

    Args:
        filename: An .obj, .usd, .usda, .usdc, .usdz, .gltf or .glb file.
        triangulate: Cut larger faces into fans of triangles.

    Raises:
        ValueError: Another ending, or there is no mesh.
        FileNotFoundError: There is no such file.
        NonHomogeneousMeshError: Faces differ in size, and `triangulate` is False.
        SmrError: The file is damaged.
    """
    ending = Path(filename).suffix.lower()
    mesh: SurfaceMesh | None
    if ending == ".obj":
        from .obj import import_mesh as import_obj

        mesh = import_obj(
            filename, with_materials=True, with_normals=True, triangulate=triangulate, raw_materials=False
        )
    elif ending in (".usd", ".usda", ".usdc", ".usdz"):
        from .usd.mesh import import_mesh as import_usd

        mesh = import_usd(filename, with_materials=True, with_normals=True, triangulate=triangulate)
    elif ending in (".gltf", ".glb"):
        from .gltf import import_mesh as import_gltf

        mesh = import_gltf(filename)
    else:
        raise ValueError(f"{filename}: meshes are read of .obj, .usd, .usda, .usdc, .usdz, .gltf and .glb files")
    assert mesh is not None
    return mesh
