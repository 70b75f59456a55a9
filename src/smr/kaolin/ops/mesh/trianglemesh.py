"""`kaolin.ops.mesh.trianglemesh`."""

from __future__ import annotations

import torch

from ....ops import mesh as ops
from ....ops.mesh.faces import face_crosses, unit, unpack_faces
from ....ops.mesh.sample import sample_packed_surfaces, sample_surface
from ....ops.mesh.subdivision import split_until

__all__ = [
    "face_areas",
    "face_normals",
    "packed_face_areas",
    "packed_sample_points",
    "sample_points",
    "subdivide_trianglemesh",
    "vertex_tangents",
]


def face_areas(vertices: torch.Tensor, faces: torch.Tensor) -> torch.Tensor:
    """Areas: (B, V, 3) and (F, 3) to (B, F)."""
    return ops.face_areas(vertices, faces)


def packed_face_areas(
    vertices: torch.Tensor, first_idx_vertices: torch.Tensor, faces: torch.Tensor, num_faces_per_mesh: torch.Tensor
) -> torch.Tensor:
    """Areas of the faces of packed meshes: (F,)."""
    return ops.packed_face_areas(vertices, first_idx_vertices, faces, num_faces_per_mesh)


def face_normals(
    face_vertices: torch.Tensor, unit_or_faces: bool | torch.Tensor = False, **options: bool
) -> torch.Tensor:
    """Normals of faces from their corners (B, F, 3, 3): `face_normals(face_vertices, unit=False)`.

    `face_normals(vertices, faces)`, with vertices ([B,] V, 3) and faces (F, 3), gives unit normals, and raises at
    indices that are out of range.
    """
    if isinstance(unit_or_faces, torch.Tensor):
        return ops.face_normals(face_vertices, unit_or_faces, normalized=options.pop("unit", True))
    normalized = options.pop("unit", unit_or_faces)
    if options:
        raise TypeError(f"face_normals() got an unexpected keyword argument {next(iter(options))!r}")
    if face_vertices.shape[-2:] != (3, 3):
        raise ValueError(f"face_vertices must have the shape (..., F, 3, 3), not {tuple(face_vertices.shape)}")
    crosses = face_crosses(face_vertices)
    return unit(crosses) if normalized else crosses


def sample_points(
    vertices: torch.Tensor,
    faces: torch.Tensor,
    num_samples: int,
    areas: torch.Tensor | None = None,
    face_features: torch.Tensor | None = None,
) -> tuple[torch.Tensor, ...]:
    """Points spread evenly over surfaces, from torch's random numbers.

    Args:
        vertices: (B, V, 3).
        faces: (F, 3).
        num_samples: N.
        areas: (B, F), to save their computation.
        face_features: (B, F, 3, C), interpolated.

    Returns:
        Points (B, N, 3), their faces (B, N) and, if given, features (B, N, C).
    """
    weights = None if areas is None else _widened(areas)
    features = None if face_features is None else _widened(face_features)
    found = sample_surface(_widened(vertices), faces, num_samples, areas=weights, face_features=features)
    points = found.points.to(vertices.dtype)
    if face_features is None or found.features is None:
        return points, found.faces
    return points, found.faces, found.features.to(face_features.dtype)


def packed_sample_points(
    vertices: torch.Tensor,
    first_idx_vertices: torch.Tensor,
    faces: torch.Tensor,
    num_faces_per_mesh: torch.Tensor,
    num_samples: int,
    areas: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Points spread evenly over each of several packed surfaces, from torch's random numbers.

    Returns:
        Points (B, N, 3) and their faces (B, N), numbered over all meshes.
    """
    joined = unpack_faces(first_idx_vertices, faces, num_faces_per_mesh)
    weights = None if areas is None else _widened(areas)
    found = sample_packed_surfaces(_widened(vertices), joined, num_faces_per_mesh, num_samples, areas=weights)
    return found.points.to(vertices.dtype), found.faces


def subdivide_trianglemesh(
    vertices: torch.Tensor, faces: torch.Tensor, iterations: int, alpha: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Subdivide towards Loop's surface: (B, V, 3) and (F, 3) to new vertices and 4^iterations F faces.

    `alpha` (B, V) says how far each vertex moves towards the mean of its neighbours; None: as Loop has it.
    """
    return ops.subdivide_loop(vertices, faces, iterations, alpha)


def vertex_tangents(
    faces: torch.Tensor, face_vertices: torch.Tensor, face_uvs: torch.Tensor, vertex_normals: torch.Tensor
) -> torch.Tensor:
    """Unit tangents at vertices: (F, 3), (F, 3, 3), (F, 3, 2) and (V, 3) to (V, 3)."""
    return ops.vertex_tangents(faces, face_vertices, face_uvs, vertex_normals)


def _unbatched_subdivide_vertices(vertices: torch.Tensor, faces: torch.Tensor, resolution: int) -> torch.Tensor:
    """Corners of triangles cut in four until no edge is longer than (resolution - 1) / resolution²."""
    return split_until(vertices, faces, (resolution - 1) / resolution**2)


def _widened(values: torch.Tensor) -> torch.Tensor:
    return values.float() if values.dtype == torch.float16 else values
