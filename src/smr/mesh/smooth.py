"""Smoothing that keeps the connectivity."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import no_type_check

import numpy as np
import warp as wp
from jaxtyping import Bool, Float, Float64

from ..arrays import launch_chunked
from ..records import Mesh
from .half_edges import sort_by_bucket
from .normals import vertex_normals
from .topology import edges

_WHITE_NOISE_GAIN = 1.36
_SIGMA_OF_MEDIAN = 1.4826
_NOISE_ROUNDS = 6  # averages of the squared roughness over neighbours: a neighbourhood of about two rings
_NOISE_CAP = 2.0
_SINC_TERMS = 20


@dataclass(frozen=True)
class Neighbours:
    """The neighbours over which each vertex is averaged; on a border the border neighbours alone."""

    start: wp.array
    """Where each vertex's neighbours begin in `others`, and the end."""
    others: wp.array
    movable: Bool[np.ndarray, " V"]
    """False for a vertex without neighbours, and where borders meet."""

    def mean(self, values: Float64[np.ndarray, " V"] | Float64[np.ndarray, "V 3"]) -> np.ndarray:
        """Mean of the neighbours' values; 0 for a vertex without any."""
        dtype = wp.vec3d if values.ndim == 2 else wp.float64
        result = wp.empty(len(values), dtype=dtype, device="cpu")
        inputs = [self.start, self.others, wp.array(values, dtype=dtype, device="cpu", copy=False)]
        kernel = _average_points if values.ndim == 2 else _average_numbers
        launch_chunked(kernel, len(values), inputs, outputs=[result], device="cpu")
        return result.numpy()


def find_neighbours(mesh: Mesh) -> Neighbours:
    """List the neighbours of each vertex."""
    found = edges(mesh.faces)
    count = len(mesh.vertices)
    border = found.face_counts == 1
    on_border = np.zeros(count, bool)
    on_border[found.vertices[border].ravel()] = True
    start, end = np.concatenate([found.vertices, found.vertices[:, ::-1]]).T
    counts = ~on_border[start] | np.r_[border, border]
    start, end = start[counts], end[counts]
    first, order = sort_by_bucket(start, count)
    degree = np.diff(first)
    movable = (degree > 0) & (~on_border | (degree == 2))
    start_of, others = (wp.array(part, dtype=wp.int32, device="cpu") for part in (first, end[order]))
    return Neighbours(start_of, others, movable)


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
    around = find_neighbours(mesh)
    places = start.copy()
    for factor in factors:
        places += (factor * around.movable)[:, None] * (around.mean(places) - places)
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


def estimate_noise(mesh: Mesh, around: Neighbours | None = None) -> Noise:
    """Estimate the noise of a dense mesh, such as marching cubes make.

    The offset of a vertex from the mean of its neighbours, less the mean of its neighbours' offsets, cancels what is
    flat or evenly curved. What remains has 1.36 times the standard deviation of independent noise on a regular mesh.
    Sharp edges and thin parts count as noise where they are; they are few, so `typical` does not see them.
    """
    around = around or find_neighbours(mesh)
    normals = vertex_normals(mesh)
    places = mesh.vertices.astype(np.float64) - mesh.vertices[:1]
    offset = np.einsum("ij,ij->i", around.mean(places) - places, normals)
    rough = (offset - around.mean(offset)) / _WHITE_NOISE_GAIN
    square = rough * rough
    for _ in range(_NOISE_ROUNDS):
        square = (square + around.mean(square)) / 2
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
    around = find_neighbours(mesh)
    noise = estimate_noise(mesh, around)
    places = mesh.vertices.astype(np.float64) - mesh.vertices[:1]
    steps = _windowed_sinc(around, places, pass_band) - places
    longest = limit * np.minimum(noise.of_vertices, _NOISE_CAP * noise.typical)
    length = np.linalg.norm(steps, axis=1)
    return _moved(mesh, steps * np.minimum(1, longest / np.maximum(length, 1e-300))[:, None]), noise


def _windowed_sinc(
    around: Neighbours, places: Float64[np.ndarray, "V 3"], pass_band: float
) -> Float64[np.ndarray, "V 3"]:
    """Sum of Chebyshev polynomials of the averaging matrix that passes low frequencies; Hamming window."""
    angle = np.arccos(1 - pass_band)
    n = np.arange(1, _SINC_TERMS + 1)
    weights = 2 * np.sin(n * angle) / (n * np.pi) * (0.54 + 0.46 * np.cos(n * np.pi / (_SINC_TERMS + 1)))
    weights = np.concatenate([[angle / np.pi], weights])
    weights /= weights.sum()  # what is constant stays

    before, now, total = (wp.array(places, dtype=wp.vec3d, device="cpu") for _ in range(3))
    movable = wp.array(around.movable, dtype=wp.bool, device="cpu")
    for term, weight in enumerate(weights):
        inputs = [around.start, around.others, movable, now, min(term, 2), weight]
        launch_chunked(_add_term, len(places), inputs, outputs=[before, total], device="cpu")
        before, now = now, before
    return total.numpy()


@wp.kernel(enable_backward=False)
@no_type_check
def _average_points(
    base: int, start: wp.array(dtype=int), others: wp.array(dtype=int), values: wp.array(dtype=wp.vec3d),
    result: wp.array(dtype=wp.vec3d),
):  # fmt: skip
    v = base + wp.tid()
    total = wp.vec3d()
    for i in range(start[v], start[v + 1]):
        total = total + values[others[i]]
    result[v] = total / wp.float64(wp.max(start[v + 1] - start[v], 1))


@wp.kernel(enable_backward=False)
@no_type_check
def _average_numbers(
    base: int, start: wp.array(dtype=int), others: wp.array(dtype=int), values: wp.array(dtype=wp.float64),
    result: wp.array(dtype=wp.float64),
):  # fmt: skip
    v = base + wp.tid()
    total = wp.float64(0.0)
    for i in range(start[v], start[v + 1]):
        total = total + values[others[i]]
    result[v] = total / wp.float64(wp.max(start[v + 1] - start[v], 1))


@wp.kernel(enable_backward=False)
@no_type_check
def _add_term(
    base: int,
    start: wp.array(dtype=int),
    others: wp.array(dtype=int),
    movable: wp.array(dtype=wp.bool),
    now: wp.array(dtype=wp.vec3d),
    term: int,
    weight: wp.float64,
    before: wp.array(dtype=wp.vec3d),
    total: wp.array(dtype=wp.vec3d),
):
    # T0 x = x, T1 x = A x, T(n+1) x = 2 A Tn x - T(n-1) x: each takes the place of the last but one.
    v = base + wp.tid()
    if term == 0:
        before[v] = now[v]
        total[v] = now[v] * weight
        return
    mean = now[v]
    if movable[v]:
        mean = wp.vec3d()
        for i in range(start[v], start[v + 1]):
            mean = mean + now[others[i]]
        mean = mean / wp.float64(start[v + 1] - start[v])
    result = mean
    if term == 2:
        result = mean * wp.float64(2.0) - before[v]
    before[v] = result
    total[v] = total[v] + result * weight
