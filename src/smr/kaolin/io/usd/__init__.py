"""`kaolin.io.usd`: meshes, materials, point clouds and voxel grids of USD files and stages."""

from __future__ import annotations

from ..._absent import GAUSSIANS, PHYSICS
from ..._lazy import reexport

__all__ = reexport(
    __name__,
    {
        "materials": ("export_material", "import_material"),
        "mesh": (
            "add_mesh",
            "export_mesh",
            "export_meshes",
            "get_mesh_prim_materials",
            "get_mesh_scene_paths",
            "get_raw_mesh_prim_geometry",
            "import_mesh",
            "import_meshes",
        ),
        "pointcloud": (
            "add_pointcloud",
            "export_pointcloud",
            "export_pointclouds",
            "get_pointcloud_bracketing_time_samples",
            "get_pointcloud_scene_paths",
            "import_pointcloud",
            "import_pointclouds",
        ),
        "subset": ("add_subset", "import_subsets"),
        "transform": ("get_local_to_world_transform", "set_local_to_world_transform"),
        "utils": ("create_stage", "get_authored_time_samples", "get_scene_paths"),
        "voxelgrid": (
            "add_voxelgrid",
            "export_voxelgrid",
            "export_voxelgrids",
            "import_voxelgrid",
            "import_voxelgrids",
        ),
    },
    {
        "add_gaussiancloud": GAUSSIANS,
        "export_gaussiancloud": GAUSSIANS,
        "export_gaussianclouds": GAUSSIANS,
        "get_gaussiancloud_scene_paths": GAUSSIANS,
        "import_gaussiancloud": GAUSSIANS,
        "import_gaussianclouds": GAUSSIANS,
        "add_physics_material": PHYSICS,
        "add_skinned_physics": PHYSICS,
        "get_all_physics_materials": PHYSICS,
        "get_all_skinned_physics": PHYSICS,
        "get_physics_material": PHYSICS,
        "get_physics_materials_instance_names": PHYSICS,
        "get_skinned_physics": PHYSICS,
        "get_skinned_physics_instance_names": PHYSICS,
    },
)
