"""Aligning one surface to another: iterative closest points, point to plane, in both directions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations, product

import numpy as np
from jaxtyping import Float

from ..errors import SmrError
from ..mesh.distance import SurfaceIndex, index_surface
from ..progress import Track, untracked
from ..records import Mesh
from .sample import sample_surface

_TRIMMED = 0.6
"""Share of the samples, the closest ones, that the final distance counts; the rest may have no partner."""
_CAPPED = 0.02
"""When starts are compared, no distance counts for more than this share of the reference's size."""
_GOOD = 0.001
"""A mean capped distance below this share of the reference's size needs no other start."""
_NEAR = 0.003
"""A distance below this share of the reference's size is never trimmed."""
_FAILED = 0.015
"""Above this the surfaces do not lie on each other."""


@dataclass(frozen=True)
class Alignment:
    """How a mesh was moved onto a reference."""

    reference_from_mesh: Float[np.ndarray, "4 4"]
    """Takes the mesh's coordinates to the reference's; its 3×3 part is `scale` times a rotation."""
    scale: float
    rms: float
    """Root mean square distance of the closest 60 % of samples, in both directions, metres."""


@dataclass(frozen=True)
class _Pair:
    """Two surfaces and points on each, all centred near zero."""

    mesh: SurfaceIndex
    reference: SurfaceIndex
    on_mesh: Float[np.ndarray, "N 3"]
    on_reference: Float[np.ndarray, "N 3"]


Similarity = tuple[float, Float[np.ndarray, "3 3"], Float[np.ndarray, "3"]]
"""Scale, rotation, translation: x -> s R x + t."""


def align_surfaces(
    mesh: Mesh,
    reference: Mesh,
    *,
    scale: bool = False,
    seed: int = 0,
    device: str = "cpu",
    track: Track = untracked,
) -> Alignment:
    """Find the rigid (or, with `scale`, similarity) transform that lays `mesh` onto `reference`.

    Starts from the frames as given; only if that does not lead onto the reference, from all turns of one surface's
    principal axes onto the other's. Each start is refined by iterative closest points (point to plane, Chen and
    Medioni 1991; both directions, so that a scale cannot shrink to nothing; trimmed, Chetverikov 2002).

    Raises:
        SmrError: No start leads to surfaces that lie on each other.
    """
    origins = [0.5 * (m.vertices.min(axis=0).astype(float) + m.vertices.max(axis=0)) for m in (mesh, reference)]
    local = [replace(m, vertices=m.vertices - o) for m, o in zip((mesh, reference), origins, strict=True)]
    indices = [index_surface(m, device=device) for m in local]
    few, some, many = (
        _Pair(
            indices[0],
            indices[1],
            sample_surface(local[0], count, seed=seed).points,
            sample_surface(local[1], count, seed=seed + 1).points,
        )
        for count in (300, 1_200, 8_000)
    )
    size = float(np.linalg.norm(np.ptp(local[1].vertices, axis=0)))

    as_given = (1.0, np.eye(3), origins[0] - origins[1])
    best = _refine(some, as_given, scale, 30, 1e-5)
    if _cost(some, best, size) > _GOOD * size:
        starts = [as_given, *_starts(many, scale)]
        rough = [_refine(few, start, scale, 12, 1e-3) for start in track(starts, "Align", len(starts))]
        rough.sort(key=lambda state: _cost(few, state, size))
        fine = [best, *(_refine(some, state, scale, 30, 1e-5) for state in _distinct(rough)[:5])]
        best = min(fine, key=lambda state: _cost(some, state, size))
    best = _refine(many, best, scale, 40)
    rms = _rms(many, best)
    if not rms < _FAILED * size:
        raise SmrError(
            f"No alignment was found: at best the mesh and the reference are {rms:.4g} m apart "
            f"({100 * rms / size:.1f} % of the reference's size).",
            "Check that both show the same object; "
            + ("cut both to the same part, or " if scale else "use --align similarity if their units differ, or ")
            + "move the mesh roughly into place first.",
        )
    s, rotation, translation = best
    matrix = np.eye(4)
    matrix[:3, :3] = s * rotation
    matrix[:3, 3] = translation + origins[1] - s * rotation @ origins[0]
    return Alignment(matrix, s, rms)


def _starts(pair: _Pair, scale: bool) -> list[Similarity]:
    """The frames as they are with middles (and sizes) made equal, then every turn of principal axes onto axes."""
    middles = [points.mean(axis=0) for points in (pair.on_mesh, pair.on_reference)]
    spread = [np.cov((points - m).T) for points, m in zip((pair.on_mesh, pair.on_reference), middles, strict=True)]
    s = float(np.sqrt(np.trace(spread[1]) / np.trace(spread[0]))) if scale else 1.0
    axes = [np.linalg.eigh(covariance)[1] for covariance in spread]
    rotations = [np.eye(3)]
    for order, signs in product(permutations(range(3)), product((1.0, -1.0), repeat=3)):
        rotation = axes[1] @ (np.eye(3)[list(order)] * np.array(signs)[:, None]) @ axes[0].T
        if np.linalg.det(rotation) > 0:
            rotations.append(rotation)
    return [(s, rotation, middles[1] - s * rotation @ middles[0]) for rotation in rotations]


def _distinct(states: list[Similarity]) -> list[Similarity]:
    """The states without those that are turned by less than ten degrees from an earlier one."""
    kept: list[Similarity] = []
    for state in states:
        cosines = [0.5 * (np.trace(state[1].T @ other[1]) - 1.0) for other in kept]
        if not cosines or max(cosines) < np.cos(np.radians(10.0)):
            kept.append(state)
    return kept


def _correspondences(pair: _Pair, state: Similarity) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """For either direction: moved mesh points, their partners on or from the reference, the plane's normals."""
    s, rotation, translation = state
    moved = s * pair.on_mesh @ rotation.T + translation
    onto = pair.reference.nearest(moved)
    back = pair.mesh.nearest((pair.on_reference - translation) @ rotation / s)
    found = s * back.points @ rotation.T + translation
    return [
        (moved, onto.points, pair.reference.normals[onto.faces]),
        (found, pair.on_reference, pair.mesh.normals[back.faces] @ rotation.T),
    ]


def _distances(moved: np.ndarray, partners: np.ndarray) -> np.ndarray:
    length: np.ndarray = np.linalg.norm(moved - partners, axis=1)
    return length


def _trimmed(distances: np.ndarray) -> float:
    """Root mean square of the closest share."""
    kept = np.partition(distances, int(_TRIMMED * (len(distances) - 1)))[: int(_TRIMMED * len(distances))]
    return float(np.sqrt(np.mean(kept**2)))


def _cost(pair: _Pair, state: Similarity, size: float) -> float:
    """Mean distance, capped: low only where all of what overlaps fits, such as a handle on the right side."""
    both = [_distances(moved, partners) for moved, partners, _ in _correspondences(pair, state)]
    return float(np.mean(np.minimum(np.concatenate(both), _CAPPED * size)))


def _rms(pair: _Pair, state: Similarity) -> float:
    both = [_trimmed(_distances(moved, partners)) for moved, partners, _ in _correspondences(pair, state)]
    return float(np.sqrt(np.mean(np.square(both))))


def _refine(pair: _Pair, state: Similarity, scale: bool, iterations: int, enough: float = 1e-7) -> Similarity:
    """Gauss-Newton on trimmed point-to-plane distances; correspondences are found anew in every step.

    Ends when a step moves the surface by less than `enough` of its size.
    """
    size = float(np.sqrt(np.mean(pair.on_reference**2)))
    extent = float(np.linalg.norm(np.ptp(pair.on_reference, axis=0)))
    for _ in range(iterations):
        rows, residuals = [], []
        middle = state[2]
        for moved, partners, normals in _correspondences(pair, state):
            distances = _distances(moved, partners)
            # The floor keeps what is small but decides, such as a handle, once all the rest lies exactly.
            limit = max(3.0 * float(np.median(distances)), _NEAR * extent)
            kept = distances <= limit
            arm, normal = (moved - middle)[kept], normals[kept]
            columns = [np.cross(arm, normal) / size, normal]
            if scale:
                columns.append(np.einsum("ij,ij->i", arm, normal)[:, None] / size)
            rows.append(np.concatenate(columns, axis=1) / np.sqrt(kept.sum()))
            residuals.append(np.einsum("ij,ij->i", (partners - moved)[kept], normal) / np.sqrt(kept.sum()))
        a, b = np.concatenate(rows), np.concatenate(residuals)
        # Directions that the surfaces leave free (a sphere's rotation) are not moved along.
        step = np.linalg.lstsq(a.T @ a, a.T @ b, rcond=1e-7)[0]
        turn = _rotation(step[:3] / size)
        growth = float(np.exp(np.clip(step[6] / size, -0.5, 0.5))) if scale else 1.0
        s, rotation, translation = state
        state = (s * growth, turn @ rotation, translation + step[3:6])
        if np.linalg.norm(step) < enough * size:
            break
    return state


def _rotation(vector: Float[np.ndarray, "3"]) -> Float[np.ndarray, "3 3"]:
    """Rotation by |vector| about its direction (Rodrigues)."""
    angle = float(np.linalg.norm(vector))
    x, y, z = vector
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    a = np.sinc(angle / np.pi)
    b = 0.5 * np.sinc(angle / (2 * np.pi)) ** 2
    rotation: np.ndarray = np.eye(3) + a * cross + b * cross @ cross
    return rotation
