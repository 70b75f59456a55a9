"""Names that tutorials use under `kaolin.ops.mesh` and that Kaolin itself does not have.

Functions that change a mesh take an object with `vertices` and `faces` (`rep.Mesh`, `rep.SurfaceMesh`) and give one of
the same class, or take `vertices, faces` and give a pair. Vertices are (V, 3) or (1, V, 3).
"""

from __future__ import annotations

from typing import Any

import torch

from ....ops import mesh as ops
from ....ops.tensors import check_whole

__all__ = [
    "auto_uv",
    "compute_face_normals",
    "fill_holes",
    "laplacian_smooth",
    "repair_mesh",
    "simplify_mesh",
    "subdivide_mesh",
    "taubin_smooth",
    "triangulate_points_2d",
]


def laplacian_smooth(
    vertices: torch.Tensor, faces: torch.Tensor, iterations: int = 1, lambda_: float = 0.5
) -> torch.Tensor:
    """Move vertices ([B,] V, 3) towards the mean of their neighbours, `iterations` times; borders along themselves."""
    return ops.laplacian_smooth(vertices, faces, iterations, lambda_)


def taubin_smooth(
    vertices: torch.Tensor, faces: torch.Tensor, iterations: int = 10, lambda_: float = 0.5, mu: float = -0.53
) -> torch.Tensor:
    """Smooth vertices ([B,] V, 3) without shrinking (Taubin 1995)."""
    return ops.taubin_smooth(vertices, faces, iterations, lambda_, mu)


def triangulate_points_2d(points: torch.Tensor) -> torch.Tensor:
    """Delaunay triangulation of points (N, 2), or of (N, 3) seen along z: faces (T, 3), counter-clockwise.

    Raises:
        ValueError: Equal points, points on one line, fewer than three, or a coordinate that is not finite.
    """
    if isinstance(points, torch.Tensor) and points.dim() == 2 and points.shape[1] == 3:
        points = points[:, :2]
    return ops.triangulate_points_2d(points)


def compute_face_normals(mesh: Any, faces: torch.Tensor | None = None) -> torch.Tensor:
    """Unit normals of the faces of a mesh, or of `vertices, faces`: ([B,] F, 3); zero for a face without area."""
    vertices, triangles = (mesh.vertices, mesh.faces) if faces is None else (mesh, faces)
    return ops.face_normals(vertices, _only(triangles, 2))


def fill_holes(mesh: Any, faces: torch.Tensor | None = None, *, max_hole_edges: int = 30) -> Any:
    """Close the holes of at most `max_hole_edges` edges; the patches continue the surface around them."""
    vertices, triangles = _parts(mesh, faces)
    return _like(mesh, faces, *ops.fill_holes(vertices, triangles, max_hole_edges))


def repair_mesh(mesh: Any, faces: torch.Tensor | None = None) -> Any:
    """Make an oriented manifold, with borders, of any triangles."""
    return _like(mesh, faces, *ops.repair(*_parts(mesh, faces)))


def simplify_mesh(
    mesh: Any, faces: torch.Tensor | None = None, *, target_number_of_vertices: int, preserve_border: bool = True
) -> Any:
    """Collapse edges until so many vertices are left. Thin shapes keep their topology: they never lose all faces."""
    vertices, triangles = _parts(mesh, faces)
    target = check_whole("target_number_of_vertices", target_number_of_vertices, least=1)
    result = ops.simplify(vertices, triangles, target_vertices=target, preserve_border=preserve_border)
    return _like(mesh, faces, *result)


def subdivide_mesh(mesh: Any, faces: torch.Tensor | None = None, *, iterations: int = 1, smooth: bool = False) -> Any:
    """Cut every triangle into four, `iterations` times: at the midpoints, or towards Loop's surface if `smooth`."""
    vertices, triangles = _parts(mesh, faces)
    subdivide = ops.subdivide_loop if smooth else ops.subdivide_midpoint
    return _like(mesh, faces, *subdivide(vertices, triangles, iterations))


def auto_uv(
    vertices: torch.Tensor,
    faces: torch.Tensor,
    chart_num: int | None = None,
    padding: float = 0.001,
    texture_size: int = 2048,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Texture coordinates without overlaps and with bounded stretch.

    Args:
        vertices: (V, 3) or (1, V, 3).
        faces: (F, 3).
        chart_num: A wish that is not followed: there are as many charts as lie flat without more than twofold stretch.
        padding: Space between charts as a share of the texture's side; at least one texel.
        texture_size: Side of the texture, pixels.

    Returns:
        Coordinates (T, 2) in [0, 1], and for each corner of each face their index, (F, 3).
    """
    if chart_num is not None and chart_num < 1:
        raise ValueError(f"chart_num must be positive, not {chart_num}")
    if not 0 <= padding < 0.5:
        raise ValueError(f"padding is a share of the texture's side, from 0 to 0.5, not {padding}")
    gutter = max(1, round(padding * texture_size))
    charts = ops.unwrap(*_parts(vertices, faces), size=texture_size, gutter=gutter)
    return charts.uvs, charts.face_uvs_idx


def _parts(mesh: Any, faces: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    if faces is None and not hasattr(mesh, "faces"):
        raise TypeError(
            f"a mesh with vertices and faces, or vertices and faces, needed, not {type(mesh).__name__} alone"
        )
    vertices, triangles = (mesh.vertices, mesh.faces) if faces is None else (mesh, faces)
    return _only(vertices, 2), _only(triangles, 2)


def _only(tensor: torch.Tensor, dims: int) -> torch.Tensor:
    """The tensor without a leading batch of one."""
    return tensor[0] if isinstance(tensor, torch.Tensor) and tensor.dim() == dims + 1 and len(tensor) == 1 else tensor


def _like(mesh: Any, faces: torch.Tensor | None, new_vertices: torch.Tensor, new_faces: torch.Tensor) -> Any:
    if faces is None:
        vertices = new_vertices[None] if mesh.vertices.dim() == 3 else new_vertices
        return type(mesh)(vertices=vertices, faces=new_faces)
    return new_vertices[None] if mesh.dim() == 3 else new_vertices, new_faces
