"""Subdivision of triangles into four: at the midpoints, or to Loop's smooth surface; differentiable.

One round is O(F log F) in time for the edges and O(F) in memory; each makes four times as many faces.
"""

from __future__ import annotations

import math

import torch

from ..segments import group_rows, segment_sum, take_rows
from .connectivity import Edges, find_edges, find_neighbours
from .faces import check_mesh
from .smoothing import mean_of_neighbours


def subdivide_midpoint(
    vertices: torch.Tensor, faces: torch.Tensor, iterations: int = 1
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cut every triangle into four at the midpoints of its edges; the surface stays as it is.

    Args:
        vertices: (..., V, C): positions, or any features of vertices.
        faces: (F, 3).
        iterations: Rounds.

    Returns:
        (..., V + E, C), the old vertices first, then one an edge in the order of `find_edges`; (4 F, 3) int64.

    Raises:
        TypeError: Wrong types.
        ValueError: Wrong shapes, an index out of range, or fewer than 0 iterations.
    """
    _check(vertices, faces, iterations)
    faces = faces.long()
    for _ in range(iterations):
        edges = find_edges(faces, vertices.shape[-2])
        ends = take_rows(vertices, edges.vertices.reshape(-1)).unflatten(-2, (-1, 2))
        faces = cut_in_four(faces, edges, vertices.shape[-2])
        vertices = torch.cat([vertices, ends.mean(dim=-2)], dim=-2)
    return vertices, faces


def subdivide_loop(
    vertices: torch.Tensor, faces: torch.Tensor, iterations: int = 1, alpha: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Subdivide towards Loop's smooth surface (Loop 1987); borders become cubic splines of their own.

    Args:
        vertices: (..., V, 3).
        faces: (F, 3).
        iterations: Rounds.
        alpha: (..., V), how far each old vertex moves towards the mean of its neighbours; None: Loop's weights, and
            (6, 1, 1) / 8 along borders. New vertices get the mean of their edge's.

    Returns:
        (..., V + E, 3), the old vertices first, then one an edge in the order of `find_edges`; (4 F, 3) int64.

    Raises:
        TypeError: Wrong types.
        ValueError: Wrong shapes, an index out of range, or fewer than 0 iterations.
    """
    _check(vertices, faces, iterations)
    if alpha is not None and alpha.shape != vertices.shape[:-1]:
        raise ValueError(f"alpha must have the shape {tuple(vertices.shape[:-1])}, not {tuple(alpha.shape)}")
    faces = faces.long()
    for _ in range(iterations):
        edges = find_edges(faces, vertices.shape[-2])
        new = _edge_points(vertices, faces, edges)
        old = _moved(vertices, faces, edges, alpha)
        if alpha is not None:
            ends = take_rows(alpha.unsqueeze(-1), edges.vertices.reshape(-1)).unflatten(-2, (-1, 2))
            alpha = torch.cat([alpha, ends.mean(dim=-2)[..., 0]], dim=-1)
        faces = cut_in_four(faces, edges, vertices.shape[-2])
        vertices = torch.cat([old, new], dim=-2)
    return vertices, faces


def cut_in_four(faces: torch.Tensor, edges: Edges, first: int) -> torch.Tensor:
    """Faces at corner 1, corner 0, corner 2 and in the middle of each triangle; edge e has the vertex `first + e`."""
    a, b, c = faces.unbind(1)
    ab, bc, ca = (first + edges.of_faces).unbind(1)
    parts = [[b, bc, ab], [a, ab, ca], [c, ca, bc], [ca, ab, bc]]
    return torch.stack([torch.stack(part, dim=1) for part in parts], dim=1).reshape(-1, 3)


def split_until(vertices: torch.Tensor, faces: torch.Tensor, longest: float) -> torch.Tensor:
    """All corners of triangles that are cut in four until no edge is longer than `longest`: (P, 3), sorted, unique."""
    corners = vertices[faces.long()]
    found = [vertices]
    while True:
        squared = ((corners - corners.roll(-1, dims=1)) ** 2).sum(dim=2).amax(dim=1)
        corners = corners[squared > longest**2]
        if not len(corners):
            return torch.unique(torch.cat(found), dim=0)
        middles = 0.5 * (corners + corners.roll(-1, dims=1))  # of the edges ab, bc, ca
        ab, bc, ca = middles.unbind(1)
        a, b, c = corners.unbind(1)
        found.append(torch.unique(middles.reshape(-1, 3), dim=0))
        parts = [[a, ab, ca], [ab, b, bc], [ca, bc, c], [ab, bc, ca]]
        corners = torch.cat([torch.stack(part, dim=1) for part in parts])


def _check(vertices: torch.Tensor, faces: torch.Tensor, iterations: int) -> None:
    check_mesh(vertices, faces)
    if isinstance(iterations, bool) or not isinstance(iterations, int) or iterations < 0:
        raise ValueError(f"iterations must be a number of rounds, not {iterations!r}")


def _edge_points(vertices: torch.Tensor, faces: torch.Tensor, edges: Edges) -> torch.Tensor:
    """3/8 of each end and 1/8 of each corner across; the midpoint at an edge that has not two faces."""
    across = faces.roll(1, dims=1).reshape(-1, 1)  # the edge from corner k to k + 1 lies opposite corner k - 1
    ends = take_rows(vertices, edges.vertices.reshape(-1)).unflatten(-2, (-1, 2)).sum(dim=-2)
    of_edge = group_rows(edges.of_faces, len(edges.vertices))
    tips = segment_sum(take_rows(vertices, across[:, 0]), of_edge)
    inner = (of_edge.sizes == 2)[:, None]
    return torch.where(inner, 0.375 * ends + 0.125 * tips, 0.5 * ends)


def _moved(vertices: torch.Tensor, faces: torch.Tensor, edges: Edges, alpha: torch.Tensor | None) -> torch.Tensor:
    count = vertices.shape[-2]
    pairs = find_neighbours(faces, count, along_borders=alpha is None)
    around = group_rows(pairs[0], count)
    mean = mean_of_neighbours(vertices, pairs, around)
    if alpha is None:
        border = torch.zeros(count, dtype=torch.bool, device=faces.device)
        border[edges.vertices[edges.face_counts == 1].reshape(-1)] = True
        angle = 2 * math.pi / around.sizes.clamp_min(1).to(vertices.dtype)
        inner = 0.625 - (0.375 + 0.25 * torch.cos(angle)) ** 2
        weight = torch.where(border, torch.where(around.sizes == 2, 0.25, 0.0), inner)
    else:
        weight = alpha
    weight = torch.where(around.sizes > 0, weight, torch.zeros_like(weight)).to(vertices.dtype)[..., None]
    return (1 - weight) * vertices + weight * mean
