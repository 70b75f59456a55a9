"""Patches that close holes: refined to the size of the triangles around them, and bent to continue the surface."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Bool, Float, Int, Int32
from scipy.sparse import csc_array, csr_array, sparray
from scipy.sparse.linalg import splu

from ..records import Mesh
from .topology import Faces, edges, half_edges

_REFINE_ROUNDS = 12
_FLIP_ROUNDS = 20
_SPREAD = np.sqrt(2.0)  # alpha of Liepa 2003: how far a centroid is from the corners of a triangle that is split


@dataclasses.dataclass
class Patch:
    """Faces over old and new vertices; the new ones are numbered behind the old."""

    vertices: Float[np.ndarray, "V 3"]
    """Old and new vertices, double precision."""
    faces: Faces
    """Faces of the patches alone."""
    taken: Int[np.ndarray, " K"]
    """Keys of edges outside the patches that a flip must not make again; sorted."""


def edge_keys(start: np.ndarray, end: np.ndarray) -> Int[np.ndarray, " E"]:
    """One number for an undirected edge."""
    return (np.minimum(start, end).astype(np.int64) << 32) | np.maximum(start, end)


def edge_scale(mesh: Mesh, wanted: Bool[np.ndarray, " V"]) -> Float[np.ndarray, " V"]:
    """Mean length of the edges at the wanted vertices, metres; 0 at the others."""
    directed = half_edges(mesh.faces[wanted[mesh.faces].any(axis=1)])
    ends = mesh.vertices[directed].astype(np.float64)
    length = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)
    corners = directed.ravel()
    total = np.bincount(corners, np.repeat(length, 2), len(mesh.vertices))
    mean: np.ndarray = total / np.maximum(np.bincount(corners, minlength=len(mesh.vertices)), 1)
    return np.where(wanted, mean, 0.0)


def refine(patch: Patch, scale: Float[np.ndarray, " V"]) -> None:
    """Split triangles at their centroids until they are as small as those around (Liepa 2003, section 4), in place."""
    for _ in range(_REFINE_ROUNDS):
        corners = patch.vertices[patch.faces]
        centroid = corners.mean(axis=1)
        size = scale[patch.faces]
        reach = _SPREAD * np.linalg.norm(corners - centroid[:, None], axis=2)
        mean = size.mean(axis=1)
        split = ((reach > mean[:, None]) & (reach > size)).all(axis=1)
        if not split.any():
            return
        number = len(patch.vertices) + np.arange(split.sum(), dtype=np.int32)
        a, b, c = patch.faces[split].T
        parts = [np.stack(part, axis=1) for part in ((a, b, number), (b, c, number), (c, a, number))]
        patch.vertices = np.concatenate([patch.vertices, centroid[split]])
        scale = np.concatenate([scale, mean[split]])
        patch.faces = np.concatenate([patch.faces[~split], *parts]).astype(np.int32)
        relax(patch)


def relax(patch: Patch) -> None:
    """Flip edges inside the patches until the angles opposite each sum to at most 180 degrees, in place."""
    for _ in range(_FLIP_ROUNDS):
        flips = _flips(patch)
        if not len(flips):
            return
        first, second, a, b, c, d = flips.T
        patch.faces[first] = np.stack([a, d, c], axis=1)
        patch.faces[second] = np.stack([d, b, c], axis=1)


def _flips(patch: Patch) -> Int[np.ndarray, "N 6"]:
    """Independent flips: the two faces (a, b, c) and (b, a, d) of each, and a, b, c, d."""
    directed = half_edges(patch.faces)
    keys = edge_keys(directed[:, 0], directed[:, 1])
    order = np.argsort(keys, kind="stable")
    at = np.flatnonzero(keys[order[1:]] == keys[order[:-1]])
    one, two = order[at], order[at + 1]
    tip = patch.faces[:, [2, 0, 1]].ravel()
    a, b, c, d = directed[one, 0], directed[one, 1], tip[one], tip[two]
    cot = _cotangent(patch.vertices, c, a, b) + _cotangent(patch.vertices, d, b, a)
    wanted = cot < -1e-6
    made = edge_keys(c, d)
    wanted &= ~np.isin(made, patch.taken) & ~np.isin(made, keys) & (c != d)
    x = patch.vertices
    before = np.cross(x[b] - x[a], x[c] - x[a]) + np.cross(x[a] - x[b], x[d] - x[b])
    for p, q, r in ((a, d, c), (d, b, c)):
        wanted &= np.einsum("ij,ij->i", np.cross(x[q] - x[p], x[r] - x[p]), before) > 0
    chosen = np.flatnonzero(wanted)
    chosen = chosen[np.lexsort((chosen, cot[chosen]))]
    chosen = chosen[np.sort(np.unique(made[chosen], return_index=True)[1])]
    rank = np.arange(len(chosen))
    best = np.full(len(patch.faces), len(chosen))
    np.minimum.at(best, one[chosen] // 3, rank)
    np.minimum.at(best, two[chosen] // 3, rank)
    chosen = chosen[(best[one[chosen] // 3] == rank) & (best[two[chosen] // 3] == rank)]
    columns = (one[chosen] // 3, two[chosen] // 3, a[chosen], b[chosen], c[chosen], d[chosen])
    return np.stack(columns, axis=1)


def _cotangent(x: np.ndarray, apex: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    u, v = x[left] - x[apex], x[right] - x[apex]
    sine = np.linalg.norm(np.cross(u, v), axis=1)
    cotangent: np.ndarray = np.einsum("ij,ij->i", u, v) / np.maximum(sine, 1e-12 * (u * u).sum(axis=1) + 1e-300)
    return cotangent


def laplacian_rows(faces: Faces, rows: Int[np.ndarray, " R"], count: int) -> csr_array:
    """Rows of (mean of the neighbours) - (vertex itself), for the vertices in `rows`."""
    near = np.zeros(count, bool)
    near[rows] = True
    found = edges(faces[near[faces].any(axis=1)]).vertices
    start, end = np.concatenate([found, found[:, ::-1]]).T
    kept = near[start]
    start, end = start[kept], end[kept]
    row = np.zeros(count, np.int64)
    row[rows] = np.arange(len(rows))
    degree = np.bincount(row[start], minlength=len(rows))
    values = np.concatenate([1.0 / degree[row[start]], -np.ones(len(rows))])
    where = (np.concatenate([row[start], np.arange(len(rows))]), np.concatenate([end, rows]))
    return csr_array((values, where), (len(rows), count))


def fair(vertices: Float[np.ndarray, "V 3"], faces: Faces, free: Int32[np.ndarray, " N"]) -> Float[np.ndarray, "N 3"]:
    """Places of the free vertices at which the squared Laplacians, theirs and their fixed neighbours', are least.

    The thin-plate surface that continues position and tangent of the surface around (Kobbelt et al. 1998).
    """
    touched = np.zeros(len(vertices), bool)
    touched[free] = True
    touched[faces[touched[faces].any(axis=1)].ravel()] = True
    rows = laplacian_rows(faces, np.flatnonzero(touched), len(vertices))
    fixed = np.ones(len(vertices), bool)
    fixed[free] = False
    inner = rows[:, free]
    right = -rows @ np.where(fixed[:, None], vertices, 0)
    return _solve(inner.T @ inner, inner.T @ right)


def interpolate(
    values: Float[np.ndarray, "V n"], faces: Faces, free: Int32[np.ndarray, " N"]
) -> Float[np.ndarray, "N n"]:
    """Values of the free vertices that are each the mean of their neighbours' (harmonic); theirs are 0 on entry."""
    rows = laplacian_rows(faces, free, len(values))
    return _solve(-rows[:, free], rows @ values)


def _solve(matrix: sparray, right: np.ndarray) -> np.ndarray:
    solved: np.ndarray = splu(csc_array(matrix), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True}).solve(
        right
    )
    return solved
