"""A surface through oriented points: the Poisson equation, solved by Fourier transforms on a grid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32
from scipy import fft, sparse
from scipy.spatial import cKDTree

from ..arrays import cpu_threads
from ..mesh.repair import keep_faces
from ..progress import Track, untracked
from ..records import Mesh
from ..tsdf import marching_cubes

_PADDING = 0.15
"""Empty share of the grid's side around the points: the Fourier transform repeats the grid beyond it."""
_SMOOTHING = 1.5
"""Standard deviation of the Gaussian that normals are spread with, in voxels, where points are dense."""
_NEIGHBORS = 8
"""Points that decide about the local density."""
_ROUNDS = 10
"""Rounds of conjugate gradients that pull the surface to the points."""
_SLACK = 0.3
"""How far the points may be missed, in voxels: the inverse of the weight of the screening term."""
_REACH = 3.0
"""Surface farther from all points than so many voxels, or spacings of the points there, is cut off."""

Spectrum = Callable[[Float[np.ndarray, "..."]], Float[np.ndarray, "..."]]


def poisson(
    points: Float[np.ndarray, "N 3"],
    normals: Float[np.ndarray, "M 3"],
    *,
    resolution: int = 128,
    trim: bool = True,
    device: str = "cpu",
    track: Track = untracked,
) -> Mesh:
    """Surface of a body from points on it and their normals (Kazhdan et al. 2006, solved as by Peng et al. 2021).

    A function whose gradient follows the normals is found on a cubic grid with Fourier transforms. As in the screened
    method (Kazhdan and Hoppe 2013) it is then pulled to 0 at the points. The surface is smooth over about two voxels,
    or over the distance between points where that is larger; what is thinner than about four voxels blurs or is lost.
    All of the grid has one resolution, so a scene that is large beside its details needs a large one; memory grows with
    its cube (0.1 GB at 128, 0.5 GB at 256, 3.5 GB at 512). The transforms run on the CPU.

    Args:
        points: Positions, metres.
        normals: Directions out of the body, one a point, of any length.
        resolution: Voxels along the grid's side, 16 to 512; the points' box takes 77 % of it.
        trim: Cut off the surface that no point is near, so that a gap in the points stays a hole. Else the surface is
            closed, except where it leaves the grid.
        device: Where the surface is extracted, `cpu` or `cuda:N`.
        track: Progress of the rounds.

    Returns:
        A mesh whose faces look along the normals, with unit normals.

    Raises:
        ValueError: `points` and `normals` are not of one length, are too few (under 10) or not finite; the points have
            no extent, a normal has no direction, or `resolution` is out of range.
    """
    check_points(points, normals, resolution)
    tree = cKDTree(points)
    spacing = np.sqrt(np.pi / _NEIGHBORS) * tree.query(points, _NEIGHBORS + 1)[0][:, -1]
    low, high = points.min(axis=0).astype(np.float64), points.max(axis=0).astype(np.float64)
    voxel = float((high - low).max()) * (1 + 2 * _PADDING) / resolution
    origin = 0.5 * (low + high) - 0.5 * voxel * resolution

    unit = normals / np.linalg.norm(normals, axis=1, keepdims=True)
    smoothing = max(_SMOOTHING, float(np.median(spacing)) / voxel)
    solver = _solver((points - origin) / voxel, (spacing / voxel) ** 2, resolution, smoothing)
    values = solver.solve(unit, track)

    corner = (float(origin[0]), float(origin[1]), float(origin[2]))
    mesh = marching_cubes(values, spacing=voxel, origin=corner, device=device)
    if trim:
        mesh = _supported(mesh, tree, _REACH * np.maximum(spacing, voxel))
    return mesh


def check_points(points: Float[np.ndarray, "N 3"], normals: Float[np.ndarray, "M 3"], resolution: int) -> None:
    """Refuse what has no surface."""
    if len(points) != len(normals):
        raise ValueError(f"points and normals must be of one length, not {len(points)} and {len(normals)}")
    if len(points) < 10:
        raise ValueError(f"points: a surface needs at least 10, not {len(points)}")
    for name, array in (("points", points), ("normals", normals)):
        wrong = np.flatnonzero(~np.isfinite(array).all(axis=1))
        if len(wrong):
            raise ValueError(f"{name} must be finite; {len(wrong)} are not, the first is number {wrong[0]}")
    if not np.ptp(points, axis=0).max() > 0:
        raise ValueError("points all lie in one place")
    lost = np.flatnonzero(~(np.linalg.norm(normals, axis=1) > 0))
    if len(lost):
        raise ValueError(f"normals must have a direction; {len(lost)} are zero, the first is number {lost[0]}")
    if not 16 <= resolution <= 512:
        raise ValueError(f"resolution must be from 16 to 512, not {resolution}")


def _supported(mesh: Mesh, tree: cKDTree, reach: Float[np.ndarray, " N"]) -> Mesh:
    """The faces whose corners are all within reach of the point nearest to them."""
    if not len(mesh.faces):
        return mesh
    distance, nearest = tree.query(mesh.vertices)
    near: Bool[np.ndarray, " V"] = distance <= reach[nearest]
    return mesh if near.all() else keep_faces(mesh, near[mesh.faces].all(axis=1))


@dataclass(frozen=True)
class _Solver:
    """The Poisson equation on a periodic grid of unit voxels, with points on it."""

    size: int
    at_points: sparse.csr_matrix
    """N by size³: trilinear interpolation of a grid at the points; its transpose spreads values onto the grid."""
    areas: Float32[np.ndarray, " N"]
    """Share of the surface that a point stands for, square voxels."""
    waves: tuple[Float32[np.ndarray, "..."], ...]
    """Angular frequencies along x, y and z."""
    once: Float32[np.ndarray, "n n m"]
    """Spectrum that smooths and inverts the negative Laplacian."""
    twice: Float32[np.ndarray, "n n m"]
    """The same with twice the variance: the covariance of the smoothed solution."""

    def solve(self, unit: Float[np.ndarray, "N 3"], track: Track) -> Float32[np.ndarray, "n n n"]:
        """Values that rise along the normals by 1 through the surface, and are near 0 at the points."""
        divergence = sum(1j * self.waves[k] * self._spread(self.areas * unit[:, k]) for k in range(3))
        spectrum = -self.once * divergence
        pulled = self._pull(self._sample(spectrum), track)
        spectrum -= self.twice * self._spread(pulled)
        values = self._grid(spectrum)
        level = np.average(self.at_points @ values.ravel(), weights=self.areas)
        return values - np.float32(level)

    def _pull(self, values: Float[np.ndarray, " N"], track: Track) -> Float[np.ndarray, " N"]:
        """Sources at the points that bring `values` there to a common level (conjugate gradients).

        Solves (P W S K Sᵀ W P + slack) c = P W values, where S samples at the points, K is `twice`, W holds the roots
        of the areas and P takes the common level out. It is the dual of: |smoothed gradient - normals|² + 1/slack
        times the integral of values² over the surface.
        """
        root = np.sqrt(self.areas)
        common = root / np.linalg.norm(root)

        def project(vector: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
            return vector - common * (common @ vector)

        residual = project(root * values)
        solution = np.zeros_like(residual)
        direction = residual.copy()
        square = residual @ residual
        for _ in track(range(_ROUNDS), "Poisson", _ROUNDS):
            if not square > 0:
                break
            applied = self._sample(self.twice * self._spread(root * direction))
            applied = project(root * applied) + np.float32(_SLACK) * direction
            step = square / (direction @ applied)
            solution += step * direction
            residual -= step * applied
            previous, square = square, residual @ residual
            direction = residual + square / previous * direction
        return root * solution

    def _spread(self, values: Float[np.ndarray, " N"]) -> np.ndarray:
        """Spectrum of values at the points."""
        grid = (self.at_points.T @ values.astype(np.float32)).reshape((self.size,) * 3)
        spectrum: np.ndarray = fft.rfftn(grid, workers=cpu_threads())
        return spectrum

    def _grid(self, spectrum: np.ndarray) -> Float32[np.ndarray, "n n n"]:
        values: np.ndarray = fft.irfftn(spectrum, s=(self.size,) * 3, workers=cpu_threads())
        return values

    def _sample(self, spectrum: np.ndarray) -> Float32[np.ndarray, " N"]:
        values: np.ndarray = self.at_points @ self._grid(spectrum).ravel()
        return values


def _solver(places: Float[np.ndarray, "N 3"], areas: Float[np.ndarray, " N"], size: int, smoothing: float) -> _Solver:
    """Prepare the grid; `places` in voxels, `smoothing` the Gaussian's standard deviation in voxels."""
    wave = (2 * np.pi * fft.fftfreq(size)).astype(np.float32)
    half = np.abs(wave[: size // 2 + 1])
    waves = (wave[:, None, None], wave[None, :, None], half[None, None, :])
    square = waves[0] ** 2 + waves[1] ** 2 + waves[2] ** 2
    square[0, 0, 0] = np.inf  # the mean is free
    # Trilinear spreading and sampling blur by a hat each; what smooths the result is the Gaussian alone.
    hat = np.prod(np.broadcast_arrays(*(np.sinc(w / (2 * np.pi)) ** 2 for w in waves)), axis=0)
    gauss = np.exp(-0.5 * smoothing**2 * np.where(np.isinf(square), 0, square))
    once = (gauss / hat / square).astype(np.float32)
    twice = (gauss**2 / hat**2 / square).astype(np.float32)
    return _Solver(size, _interpolation(places, size), areas.astype(np.float32), waves, once, twice)


def _interpolation(places: Float[np.ndarray, "N 3"], size: int) -> sparse.csr_matrix:
    """Trilinear weights of the eight voxels around each place."""
    cell = np.floor(places).astype(np.int64)
    part = (places - cell).astype(np.float32)
    columns, weights = [], []
    for corner in np.ndindex(2, 2, 2):
        index = (cell + corner) % size
        columns.append(((index[:, 0] * size + index[:, 1]) * size + index[:, 2]).astype(np.int32))
        weights.append(np.where(corner, part, 1 - part).prod(axis=1))
    starts = 8 * np.arange(len(places) + 1)
    return sparse.csr_matrix(
        (np.stack(weights, axis=1).ravel(), np.stack(columns, axis=1).ravel(), starts), (len(places), size**3)
    )
