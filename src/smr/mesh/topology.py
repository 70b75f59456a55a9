"""Which faces and vertices of a triangle mesh are connected, and where its surface ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int, Int32
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components as _graph_components

from ..records import Mesh

Faces = Int32[np.ndarray, "F 3"]


@dataclass(frozen=True)
class Edges:
    """The undirected edges of some faces."""

    vertices: Int32[np.ndarray, "E 2"]
    """Smaller index first; sorted."""
    of_faces: Int[np.ndarray, "F 3"]
    """Edge of a face's corners (0, 1), (1, 2) and (2, 0)."""
    face_counts: Int[np.ndarray, " E"]
    """Faces at an edge: 1 on a border, 2 inside a manifold."""


def half_edges(faces: Faces) -> Int32[np.ndarray, "H 2"]:
    """Directed edges (0, 1), (1, 2), (2, 0) of every face, face after face."""
    return np.stack([faces, np.roll(faces, -1, axis=1)], axis=2).reshape(-1, 2)


def _edge_keys(directed: Int32[np.ndarray, "H 2"]) -> Int[np.ndarray, " H"]:
    low = np.minimum(directed[:, 0], directed[:, 1]).astype(np.int64)
    return (low << 32) | np.maximum(directed[:, 0], directed[:, 1])


def edges(faces: Faces) -> Edges:
    """Find the undirected edges; linear but for one sort."""
    keys, inverse, counts = np.unique(_edge_keys(half_edges(faces)), return_inverse=True, return_counts=True)
    vertices = np.stack([keys >> 32, keys & 0xFFFFFFFF], axis=1).astype(np.int32)
    return Edges(vertices, inverse.reshape(-1, 3), counts)


def border_indices(faces: Faces) -> Int[np.ndarray, " B"]:
    """Rows of `half_edges(faces)` that have no second face; row h belongs to face h // 3."""
    keys = _edge_keys(half_edges(faces))
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    lonely = np.ones(len(keys), bool)
    same = ordered[1:] == ordered[:-1]
    lonely[1:] &= ~same
    lonely[:-1] &= ~same
    return np.sort(order[lonely])


def border_half_edges(faces: Faces) -> Int32[np.ndarray, "B 2"]:
    """Directed edges that have no second face, in the direction of their own face."""
    return half_edges(faces)[border_indices(faces)]


def boundary_loops(mesh: Mesh) -> list[Int32[np.ndarray, " _"]]:
    """Closed chains of border vertices, each in the direction of the faces beside it.

    Seen from outside, the missing surface lies to the right of a loop. Where a border passes twice through one vertex
    (`repair_non_manifold` prevents that) the chain has no unique order and is left out.

    Returns:
        Loops in the order of their smallest vertex index, each starting there.
    """
    return border_loops(border_half_edges(mesh.faces))


def border_loops(border: Int32[np.ndarray, "B 2"]) -> list[Int32[np.ndarray, " _"]]:
    """Order border half-edges into the loops that `boundary_loops` returns."""
    following = dict(zip(border[:, 0].tolist(), border[:, 1].tolist(), strict=True))
    leaving = np.bincount(border[:, 0], minlength=1)
    arriving = np.bincount(border[:, 1], minlength=len(leaving))
    unclear = set(np.flatnonzero(leaving > 1).tolist()) | set(np.flatnonzero(arriving > 1).tolist())
    loops = []
    seen: set[int] = set()
    for start in sorted(following):
        if start in seen:
            continue
        chain = _follow(following, start, seen)
        if chain is not None and unclear.isdisjoint(chain):
            loops.append(np.array(chain, np.int32))
    return loops


def _follow(following: dict[int, int], start: int, seen: set[int]) -> list[int] | None:
    """Vertices from `start` until it is reached again; None where the chain ends elsewhere."""
    chain = []
    vertex = start
    while vertex not in seen:
        seen.add(vertex)
        chain.append(vertex)
        if vertex not in following:
            return None
        vertex = following[vertex]
    return chain if vertex == start else None


def connected_components(mesh: Mesh) -> tuple[int, Int32[np.ndarray, " F"]]:
    """Label faces that hang together through shared vertices.

    Returns:
        Number of components, and every face's component; components are numbered in the order of their first face.
    """
    labels = vertex_components(mesh.faces, len(mesh.vertices))[1]
    of_faces = labels[mesh.faces[:, 0]] if len(mesh.faces) else np.zeros(0, np.int32)
    used, first, inverse = np.unique(of_faces, return_index=True, return_inverse=True)
    rank = np.empty(len(used), np.int32)
    rank[np.argsort(first)] = np.arange(len(used), dtype=np.int32)
    return len(used), rank[inverse]


def vertex_components(faces: Faces, vertex_count: int) -> tuple[int, Int32[np.ndarray, " V"]]:
    """Label vertices that are connected by edges; a vertex without a face is a component of its own."""
    start = faces[:, [0, 1]].ravel()
    end = faces[:, [1, 2]].ravel()
    graph = coo_matrix((np.ones(len(start), np.int8), (start, end)), (vertex_count, vertex_count))
    count, labels = _graph_components(graph, directed=False)
    return int(count), labels.astype(np.int32)


def is_edge_manifold(mesh: Mesh) -> bool:
    """Whether no edge has more than two faces."""
    return not len(mesh.faces) or bool(edges(mesh.faces).face_counts.max() <= 2)


def border_vertices(mesh: Mesh) -> Bool[np.ndarray, " V"]:
    """Mark the vertices that lie on a border."""
    marked = np.zeros(len(mesh.vertices), bool)
    marked[border_half_edges(mesh.faces).ravel()] = True
    return marked
