"""Smoothing of vertices over their neighbours, differentiable: O(E) time and memory a step, after one sort."""

from __future__ import annotations

import torch

from ..segments import Segments, group_rows, segment_sum, take_rows
from .connectivity import find_edges, find_neighbours
from .faces import check_mesh


def laplacian_smooth(
    vertices: torch.Tensor,
    faces: torch.Tensor,
    iterations: int = 1,
    lambda_: float = 0.5,
    *,
    border: str = "along",
) -> torch.Tensor:
    """Move every vertex towards the mean of its neighbours by the factor `lambda_`, `iterations` times.

    Closed shapes shrink; `taubin_smooth` does not.

    Args:
        vertices: (..., V, 3).
        faces: (F, 3).
        iterations: Steps.
        lambda_: From 0 to 1.
        border: `along`: vertices at a border move along it; `free`: like all others, so that the border shrinks;
            `fixed`: they stay.

    Returns:
        (..., V, 3), differentiable with respect to the vertices.

    Raises:
        TypeError: Wrong types.
        ValueError: Wrong shapes or values.
    """
    if not 0 < lambda_ <= 1:
        raise ValueError(f"lambda_ must be above 0 and at most 1, not {lambda_}")
    return _filter(vertices, faces, [lambda_] * _count(iterations), border)


def taubin_smooth(
    vertices: torch.Tensor,
    faces: torch.Tensor,
    iterations: int = 10,
    lambda_: float = 0.5,
    mu: float = -0.53,
    *,
    border: str = "along",
) -> torch.Tensor:
    """Smooth without shrinking (Taubin 1995): a step towards the mean of the neighbours, then a longer one back.

    Args:
        vertices: (..., V, 3).
        faces: (F, 3).
        iterations: Pairs of steps.
        lambda_: Factor of the first step.
        mu: Factor of the second; less than `-lambda_`.
        border: As in `laplacian_smooth`.

    Returns:
        (..., V, 3), differentiable with respect to the vertices.

    Raises:
        TypeError: Wrong types.
        ValueError: Wrong shapes or values.
    """
    if not mu < -lambda_ < 0:
        raise ValueError(f"Taubin smoothing needs mu < -lambda_ < 0, not lambda_ = {lambda_} and mu = {mu}")
    return _filter(vertices, faces, [lambda_, mu] * _count(iterations), border)


def _count(iterations: int) -> int:
    if isinstance(iterations, bool) or not isinstance(iterations, int) or iterations < 0:
        raise ValueError(f"iterations must be a number of steps, not {iterations!r}")
    return iterations


def _filter(vertices: torch.Tensor, faces: torch.Tensor, factors: list[float], border: str) -> torch.Tensor:
    if border not in ("along", "free", "fixed"):
        raise ValueError(f"border must be along, free or fixed, not {border!r}")
    check_mesh(vertices, faces)
    count = vertices.shape[-2]
    pairs = find_neighbours(faces, count, along_borders=border != "free")
    around = group_rows(pairs[0], count)
    movable = _movable(pairs, around, faces, border).to(vertices.dtype)[:, None]
    for factor in factors:
        vertices = vertices + factor * movable * (mean_of_neighbours(vertices, pairs, around) - vertices)
    return vertices


def _movable(pairs: torch.Tensor, around: Segments, faces: torch.Tensor, border: str) -> torch.Tensor:
    """False for a vertex without neighbours and, but for free borders, where borders meet or are fixed."""
    movable = around.sizes > 0
    if border == "free":
        return movable
    on_border = _border_vertices(faces, around.count)
    return movable & ~on_border if border == "fixed" else movable & (~on_border | (around.sizes == 2))


def _border_vertices(faces: torch.Tensor, count: int) -> torch.Tensor:
    edges = find_edges(faces, count)
    result = torch.zeros(count, dtype=torch.bool, device=faces.device)
    result[edges.vertices[edges.face_counts == 1].reshape(-1)] = True
    return result


def mean_of_neighbours(features: torch.Tensor, pairs: torch.Tensor, around: Segments) -> torch.Tensor:
    """Mean of the neighbours' features: (..., V, C); zero where there are none.

    Args:
        features: (..., V, C).
        pairs: (2, N), from `find_neighbours`.
        around: `group_rows(pairs[0], V)`.
    """
    sums = segment_sum(take_rows(features, pairs[1]), around)
    return sums / around.sizes.clamp_min(1).to(sums.dtype)[:, None]
