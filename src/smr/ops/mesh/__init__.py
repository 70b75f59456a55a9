"""Operations on triangle and tetrahedral meshes."""

from .connectivity import (
    Edges,
    adjacency_matrix,
    cotangent_laplacian,
    cotangent_weights,
    find_edges,
    find_neighbours,
    uniform_laplacian,
    vertex_areas,
)
from .delaunay import triangulate_points_2d
from .distance import SurfaceDistances, point_to_mesh_distance, point_to_triangle_distance
from .faces import (
    average_at_vertices,
    face_areas,
    face_normals,
    index_vertices_by_faces,
    packed_face_areas,
    unindex_vertices_by_faces,
    vertex_normals,
    vertex_tangents,
)
from .inside import is_inside, signed_distance, winding_number
from .packing import PackedMeshes, pack_meshes
from .processing import Charts, fill_holes, repair, simplify, unwrap
from .sample import SurfaceSamples, sample_packed_surfaces, sample_surface
from .sdf import SdfGrid, mesh_to_sdf, refine_occupancy
from .smoothing import laplacian_smooth, taubin_smooth
from .subdivision import subdivide_loop, subdivide_midpoint
from .tetrahedra import inverse_offsets, subdivide_tetrahedra, tetrahedron_volumes

__all__ = [
    "Charts",
    "Edges",
    "PackedMeshes",
    "SdfGrid",
    "SurfaceDistances",
    "SurfaceSamples",
    "adjacency_matrix",
    "average_at_vertices",
    "cotangent_laplacian",
    "cotangent_weights",
    "face_areas",
    "face_normals",
    "fill_holes",
    "find_edges",
    "find_neighbours",
    "index_vertices_by_faces",
    "inverse_offsets",
    "is_inside",
    "laplacian_smooth",
    "mesh_to_sdf",
    "pack_meshes",
    "packed_face_areas",
    "point_to_mesh_distance",
    "point_to_triangle_distance",
    "refine_occupancy",
    "repair",
    "sample_packed_surfaces",
    "sample_surface",
    "signed_distance",
    "simplify",
    "subdivide_loop",
    "subdivide_midpoint",
    "subdivide_tetrahedra",
    "taubin_smooth",
    "tetrahedron_volumes",
    "triangulate_points_2d",
    "uniform_laplacian",
    "unindex_vertices_by_faces",
    "unwrap",
    "vertex_areas",
    "vertex_normals",
    "vertex_tangents",
    "winding_number",
]
