"""`kaolin.ops.conversions`."""

from __future__ import annotations

from ..._lazy import reexport

__all__ = reexport(
    __name__,
    {
        "pointcloud": ("pointclouds_to_voxelgrids", "unbatched_pointcloud_to_spc"),
        "trianglemesh": ("trianglemeshes_to_voxelgrids", "unbatched_mesh_to_spc"),
        "voxelgrid": ("voxelgrids_to_cubic_meshes", "voxelgrids_to_trianglemeshes"),
        "tetmesh": ("marching_tetrahedra",),
        "flexicubes.flexicubes": ("FlexiCubes",),
        "sdf": ("sdf_to_voxelgrids",),
        "additions": ("pointcloud_to_voxelgrid", "voxelgrid_to_mesh"),
    },
)
