"""Voxel grids: surfaces of them, and voxels of meshes and points."""

from .flexicubes import CellWeights, DualSurface, cut_squares, fan_squares, flexicubes
from .grids import downsample, extract_odms, extract_surface, fill, project_odms
from .marching_cubes import marching_cubes
from .marching_tetrahedra import marching_tetrahedra
from .points import cubic_mesh, voxelize_points
from .voxelize import voxelize_solid, voxelize_surface

__all__ = [
    "CellWeights",
    "DualSurface",
    "cubic_mesh",
    "cut_squares",
    "downsample",
    "extract_odms",
    "extract_surface",
    "fan_squares",
    "fill",
    "flexicubes",
    "marching_cubes",
    "marching_tetrahedra",
    "project_odms",
    "voxelize_points",
    "voxelize_solid",
    "voxelize_surface",
]
