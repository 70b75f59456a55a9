"""`kaolin.ops.mesh`."""

from __future__ import annotations

from ..._lazy import reexport

__all__ = reexport(
    __name__,
    {
        "mesh": (
            "adjacency_matrix",
            "average_face_vertex_features",
            "compute_vertex_normals",
            "index_vertices_by_faces",
            "unindex_vertices_by_faces",
            "uniform_laplacian",
        ),
        "trianglemesh": (
            "face_areas",
            "face_normals",
            "packed_face_areas",
            "packed_sample_points",
            "sample_points",
            "subdivide_trianglemesh",
            "vertex_tangents",
        ),
        "tetmesh": ("inverse_vertices_offset", "subdivide_tetmesh"),
        "check_sign": ("check_sign",),
        "additions": (
            "auto_uv",
            "compute_face_normals",
            "fill_holes",
            "laplacian_smooth",
            "repair_mesh",
            "simplify_mesh",
            "subdivide_mesh",
            "taubin_smooth",
            "triangulate_points_2d",
        ),
    },
)
