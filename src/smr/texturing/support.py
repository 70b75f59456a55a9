"""The points on the surface where views are compared: the mesh, welded, with its long edges split.

Everything that is decided about views (who sees what, how well, how bright) is decided at these vertices and
interpolated between them, so it is continuous over the surface, across chart borders included, and its cost depends on
the texture's resolution, not on how the mesh was triangulated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32, Int, Int32
from scipy import sparse

from ..records import Mesh

_ROUNDS = 24


@dataclass(frozen=True)
class Support:
    """A finer copy of the mesh; what is interpolated linearly over it is continuous over the surface."""

    vertices: Float32[np.ndarray, "V 3"]
    faces: Int32[np.ndarray, "F 3"]
    face_uvs: Float32[np.ndarray, "F 3 2"]
    """Texture coordinates a corner."""
    parents: Int32[np.ndarray, " F"]
    """The face of the mesh that each face lies in."""
    normals: Float32[np.ndarray, "V 3"]
    """Unit normals; 0 at vertices of faces without area only."""
    spacing: Float32[np.ndarray, " V"]
    """Mean length of a vertex's edges, metres."""
    colors: Float32[np.ndarray, "V 3"] | None
    """The mesh's own vertex colours."""
    neighbours: sparse.csr_array
    """V×V; 1 where two vertices share an edge."""


def build_support(
    mesh: Mesh, uvs: Float[np.ndarray, "T 2"], face_uvs: Int32[np.ndarray, "F 3"], longest: float
) -> Support:
    """Weld vertices at equal places, then halve edges until none is longer than `longest` (metres)."""
    positions, corners = _weld(mesh)
    attributes = (
        positions if mesh.colors is None else np.hstack([positions, _mean_colors(mesh, corners, len(positions))])
    )
    attributes, faces, corner_uvs, parents = _split_long_edges(
        attributes, corners, np.asarray(uvs, np.float64)[face_uvs], longest
    )
    vertices = attributes[:, :3]
    neighbours = _adjacency(faces, len(vertices))
    return Support(
        vertices.astype(np.float32),
        faces.astype(np.int32),
        corner_uvs.astype(np.float32),
        parents.astype(np.int32),
        _normals(vertices, faces),
        _spacing(vertices, neighbours),
        None if mesh.colors is None else attributes[:, 3:].astype(np.float32),
        neighbours,
    )


def _weld(mesh: Mesh) -> tuple[Float[np.ndarray, "W 3"], Int[np.ndarray, "F 3"]]:
    vertices = np.asarray(mesh.vertices, np.float64)
    order = np.lexsort(vertices.T)
    new = np.ones(len(vertices), bool)
    new[1:] = (vertices[order][1:] != vertices[order][:-1]).any(1)
    index = np.empty(len(vertices), np.int64)
    index[order] = np.cumsum(new) - 1
    return vertices[order][new], index[mesh.faces]


def _mean_colors(mesh: Mesh, corners: Int[np.ndarray, "F 3"], count: int) -> Float[np.ndarray, "W 3"]:
    assert mesh.colors is not None
    index = np.zeros(len(mesh.vertices), np.int64)
    index[mesh.faces.ravel()] = corners.ravel()
    used = np.zeros(len(mesh.vertices), bool)
    used[mesh.faces.ravel()] = True
    total = np.maximum(np.bincount(index[used], minlength=count), 1)
    return np.stack(
        [np.bincount(index[used], mesh.colors[used, c].astype(float), count) / total for c in range(3)], axis=1
    )


def _split_long_edges(
    attributes: Float[np.ndarray, "W A"],
    faces: Int[np.ndarray, "F 3"],
    corner_uvs: Float[np.ndarray, "F 3 2"],
    longest: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Split edges at their middle; an edge is split for both its faces or for none, so nothing tears."""
    parents = np.arange(len(faces))
    done: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for _ in range(_ROUNDS):
        ends = attributes[faces, :3]
        long = ((np.roll(ends, -1, axis=1) - ends) ** 2).sum(-1) > longest * longest  # edge i: corner i to i + 1
        short = ~long.any(1)
        done.append((faces[short], corner_uvs[short], parents[short]))
        faces, corner_uvs, parents, long = faces[~short], corner_uvs[~short], parents[~short], long[~short]
        if not len(faces):
            break
        attributes, faces, corner_uvs, parents = _split(attributes, faces, corner_uvs, parents, long)
    done.append((faces, corner_uvs, parents))
    return (
        attributes,
        np.concatenate([part[0] for part in done]),
        np.concatenate([part[1] for part in done]),
        np.concatenate([part[2] for part in done]),
    )


def _split(
    attributes: np.ndarray, faces: np.ndarray, corner_uvs: np.ndarray, parents: np.ndarray, long: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """One round: faces with one, two or three long edges become two, three or four."""
    following = np.roll(faces, -1, axis=1)
    keys = np.minimum(faces, following).astype(np.int64) * len(attributes) + np.maximum(faces, following)
    edges, index = np.unique(keys[long], return_inverse=True)
    middle = np.full(faces.shape, -1, np.int64)
    middle[long] = len(attributes) + index
    halves = (attributes[edges // len(attributes)] + attributes[edges % len(attributes)]) / 2
    corners = np.concatenate([faces, middle], axis=1)  # 0 1 2: corners; 3 4 5: middles of edges 01, 12, 20
    uvs = np.concatenate([corner_uvs, (corner_uvs + np.roll(corner_uvs, -1, axis=1)) / 2], axis=1)
    count = long.sum(1)
    # turn each face so that its only long edge is 01, or its only short edge is 20
    turn = np.where(count == 1, long.argmax(1), np.where(count == 2, ((~long).argmax(1) + 1) % 3, 0))
    order = (turn[:, None] + np.arange(3)) % 3
    order = np.concatenate([order, order + 3], axis=1)
    corners = np.take_along_axis(corners, order, axis=1)
    uvs = np.take_along_axis(uvs, order[..., None], axis=1)
    patterns = {
        1: [[0, 3, 2], [3, 1, 2]],
        2: [[3, 1, 4], [0, 3, 4], [0, 4, 2]],
        3: [[0, 3, 5], [3, 1, 4], [5, 4, 2], [3, 4, 5]],
    }
    parts = [(count == n, pattern) for n, triangles in patterns.items() for pattern in triangles]
    return (
        np.concatenate([attributes, halves]),
        np.concatenate([corners[chosen][:, pattern] for chosen, pattern in parts]),
        np.concatenate([uvs[chosen][:, pattern] for chosen, pattern in parts]),
        np.concatenate([parents[chosen] for chosen, _ in parts]),
    )


def _adjacency(faces: np.ndarray, count: int) -> sparse.csr_array:
    a = faces.ravel()
    b = np.roll(faces, -1, axis=1).ravel()
    keys = np.unique(np.concatenate([a * np.int64(count) + b, b * np.int64(count) + a]))
    row, column = keys // count, keys % count
    inside = row != column
    start = np.concatenate([[0], np.cumsum(np.bincount(row[inside], minlength=count))])
    return sparse.csr_array(
        (np.ones(int(inside.sum()), np.float32), column[inside].astype(np.int32), start.astype(np.int32)),
        shape=(count, count),
    )


def _normals(vertices: np.ndarray, faces: np.ndarray) -> Float32[np.ndarray, "V 3"]:
    a, b, c = (vertices[faces[:, i]] for i in range(3))
    crosses = np.cross(b - a, c - a)
    normals = np.zeros_like(vertices)
    for axis in range(3):
        for corner in range(3):
            normals[:, axis] += np.bincount(faces[:, corner], crosses[:, axis], len(vertices))
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    return np.divide(normals, length, out=np.zeros_like(normals), where=length > 0).astype(np.float32)


def _spacing(vertices: np.ndarray, neighbours: sparse.csr_array) -> Float32[np.ndarray, " V"]:
    count = np.diff(neighbours.indptr)
    row = np.repeat(np.arange(len(vertices)), count)
    lengths = np.linalg.norm(vertices[row] - vertices[neighbours.indices], axis=1)
    return (np.bincount(row, lengths, len(vertices)) / np.maximum(count, 1)).astype(np.float32)
