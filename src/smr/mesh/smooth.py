"""Smoothing that keeps the connectivity."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float
from scipy.sparse import csr_matrix, diags_array

from ..records import Mesh
from .normals import vertex_normals
from .topology import edges


def neighbour_mean(mesh: Mesh) -> tuple[csr_matrix, np.ndarray]:
    """Matrix that averages over a vertex's neighbours; on a border over the border neighbours alone.

    Also whether each vertex may move: one without neighbours, and one where borders meet, may not.
    """
    found = edges(mesh.faces)
    count = len(mesh.vertices)
    border = found.face_counts == 1
    on_border = np.zeros(count, bool)
    on_border[found.vertices[border].ravel()] = True
    start, end = np.r_[found.vertices, found.vertices[:, ::-1]].T
    counts = ~on_border[start] | np.r_[border, border]
    start, end = start[counts], end[counts]
    matrix = csr_matrix((np.ones(len(start)), (start, end)), (count, count))
    degree = np.bincount(start, minlength=count)
    movable = (degree > 0) & (~on_border | (degree == 2))
    return (diags_array(1.0 / np.maximum(degree, 1)) @ matrix).tocsr(), movable


def smooth_laplacian(mesh: Mesh, iterations: int = 10, lambda_: float = 0.5) -> Mesh:
    """Move every vertex towards the mean of its neighbours by the factor `lambda_`, `iterations` times.

    Borders are smoothed along themselves. Closed shapes shrink; `smooth_taubin` does not.
    """
    return _moved(mesh, _filter(mesh, [lambda_] * iterations))


def smooth_taubin(mesh: Mesh, iterations: int = 10, lambda_: float = 0.5, mu: float = -0.53) -> Mesh:
    """Smooth without shrinking (Taubin 1995): a step towards the mean of the neighbours, then a longer one back.

    Args:
        mesh: Any mesh; borders are smoothed along themselves.
        iterations: Pairs of steps.
        lambda_: Factor of the first step, between 0 and 1.
        mu: Factor of the second; less than `-lambda_`.

    Raises:
        ValueError: `mu` is not below `-lambda_`.
    """
    if not mu < -lambda_ < 0:
        raise ValueError(f"Taubin smoothing needs mu < -lambda_ < 0, not lambda_ = {lambda_} and mu = {mu}")
    return _moved(mesh, _filter(mesh, [lambda_, mu] * iterations))


def _filter(mesh: Mesh, factors: list[float]) -> Float[np.ndarray, "V 3"]:
    """Displacements of the vertices after a step by each factor; double precision, relative to a vertex."""
    origin = mesh.vertices[:1].astype(np.float64)
    start = mesh.vertices.astype(np.float64) - origin
    mean, movable = neighbour_mean(mesh)
    places = start.copy()
    for factor in factors:
        places += (factor * movable)[:, None] * (mean @ places - places)
    return places - start


def _moved(mesh: Mesh, steps: Float[np.ndarray, "V 3"]) -> Mesh:
    vertices = (mesh.vertices.astype(np.float64) + steps).astype(mesh.vertices.dtype)
    moved = dataclasses.replace(mesh, vertices=vertices)
    return dataclasses.replace(moved, normals=vertex_normals(moved)) if mesh.normals is not None else moved


def noise_level(mesh: Mesh) -> float:
    """Estimate the noise of the vertices along their normals, metres.

    1.48 times the median distance of a vertex from the mean of its neighbours, along the normal. What is flat or
    smooth contributes only its noise; curvature adds a little (an eighth of the square of the edge length, times the
    curvature).
    """
    if not len(mesh.faces):
        return 0.0
    normals = vertex_normals(mesh)
    mean, movable = neighbour_mean(mesh)
    places = mesh.vertices.astype(np.float64) - mesh.vertices[:1]
    off = np.abs(np.einsum("ij,ij->i", mean @ places - places, normals))[movable]
    return float(1.4826 * np.median(off)) if len(off) else 0.0


def smooth_within(mesh: Mesh, iterations: int, limit: float) -> Mesh:
    """Taubin smoothing that moves no vertex by more than `limit`, metres, so that small real shapes stay."""
    steps = _filter(mesh, [0.5, -0.53] * iterations)
    length = np.linalg.norm(steps, axis=1, keepdims=True)
    return _moved(mesh, steps * (limit / np.maximum(length, max(limit, 1e-300))))
