"""Smoothing that keeps the connectivity."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.sparse import csr_array, diags_array

from ..records import Mesh
from .normals import vertex_normals
from .topology import edges

_WHITE_NOISE_GAIN = 1.36
_SIGMA_OF_MEDIAN = 1.4826
_NOISE_ROUNDS = 6  # averages of the squared roughness over neighbours: a neighbourhood of about two rings
_NOISE_CAP = 2.0
_SINC_TERMS = 20


def neighbour_mean(mesh: Mesh) -> tuple[csr_array, np.ndarray]:
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
    matrix = csr_array((np.ones(len(start)), (start, end)), (count, count))
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


@dataclass(frozen=True)
class Noise:
    """How far vertices are off a smooth surface, along their normals; standard deviations in metres."""

    typical: float
    """Median over the mesh."""
    of_vertices: Float[np.ndarray, " V"]
    """Around every vertex."""


def estimate_noise(mesh: Mesh, mean: csr_array | None = None) -> Noise:
    """Estimate the noise of a dense mesh, such as marching cubes make.

    The offset of a vertex from the mean of its neighbours, less the mean of its neighbours' offsets, cancels what is
    flat or evenly curved. What remains has 1.36 times the standard deviation of independent noise on a regular mesh.
    Sharp edges and thin parts count as noise where they are; they are few, so `typical` does not see them.
    """
    mean = neighbour_mean(mesh)[0] if mean is None else mean
    normals = vertex_normals(mesh)
    places = mesh.vertices.astype(np.float64) - mesh.vertices[:1]
    offset = np.einsum("ij,ij->i", mean @ places - places, normals)
    rough = (offset - mean @ offset) / _WHITE_NOISE_GAIN
    square = rough * rough
    for _ in range(_NOISE_ROUNDS):
        square = (square + mean @ square) / 2
    typical = float(_SIGMA_OF_MEDIAN * np.median(np.abs(rough))) if len(rough) else 0.0
    return Noise(typical, np.sqrt(square))


def smooth_noise(mesh: Mesh, limit: float = 3.0, pass_band: float = 0.15) -> tuple[Mesh, Noise]:
    """Smooth as far as the noise goes, and not where there is none.

    A low-pass filter (windowed sinc, Taubin et al. 1996) of which each vertex takes at most `limit` times the noise
    around it, and no more than twice that of the whole mesh: exact surfaces and thin parts stay as they are.

    Args:
        mesh: A dense mesh.
        limit: Farthest move in units of the noise.
        pass_band: What the filter keeps, as an eigenvalue of the Laplacian between 0 and 2; 0.15 is about seven edges.

    Returns:
        The mesh, and the noise before.
    """
    mean, movable = neighbour_mean(mesh)
    noise = estimate_noise(mesh, mean)
    places = mesh.vertices.astype(np.float64) - mesh.vertices[:1]
    steps = _windowed_sinc(mean, movable, places, pass_band) - places
    longest = limit * np.minimum(noise.of_vertices, _NOISE_CAP * noise.typical)
    length = np.linalg.norm(steps, axis=1)
    return _moved(mesh, steps * np.minimum(1, longest / np.maximum(length, 1e-300))[:, None]), noise


def _windowed_sinc(
    mean: csr_array, movable: np.ndarray, places: Float[np.ndarray, "V 3"], pass_band: float
) -> Float[np.ndarray, "V 3"]:
    """Sum of Chebyshev polynomials of the averaging matrix that passes low frequencies; Hamming window."""
    angle = np.arccos(1 - pass_band)
    n = np.arange(1, _SINC_TERMS + 1)
    weights = 2 * np.sin(n * angle) / (n * np.pi) * (0.54 + 0.46 * np.cos(n * np.pi / (_SINC_TERMS + 1)))
    weights = np.concatenate([[angle / np.pi], weights])
    weights /= weights.sum()  # what is constant stays

    def average(x: np.ndarray) -> np.ndarray:
        return np.where(movable[:, None], mean @ x, x)

    before, now = places, average(places)
    total: np.ndarray = weights[0] * before + weights[1] * now
    for weight in weights[2:]:
        before, now = now, 2 * average(now) - before
        total += weight * now
    return total
