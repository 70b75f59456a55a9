"""Which faces and vertices of a triangle mesh are connected, and where its surface ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int, Int32

from ..records import Mesh
from .half_edges import component_labels, group_half_edges, rank_by_first

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


def edges(faces: Faces) -> Edges:
    """Find the undirected edges; linear but for one sort."""
    found = group_half_edges(faces, _vertex_count(faces))
    first = found.order[found.starts]
    vertices = np.sort(half_edges(faces)[first], axis=1)
    sizes = found.counts[first]
    of_faces = np.empty(faces.size, np.int64)
    of_faces[found.order] = np.repeat(np.arange(len(first)), sizes)
    return Edges(vertices, of_faces.reshape(-1, 3), sizes.astype(np.int64))


def border_indices(faces: Faces) -> Int[np.ndarray, " B"]:
    """Rows of `half_edges(faces)` that have no second face; row h belongs to face h // 3."""
    return np.flatnonzero(group_half_edges(faces, _vertex_count(faces)).counts == 1)


def _vertex_count(faces: Faces) -> int:
    return int(faces.max(initial=-1)) + 1


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
    count, labels = component_labels(mesh.faces, len(mesh.vertices))
    return rank_by_first(labels[mesh.faces[:, 0]], count)


def is_edge_manifold(mesh: Mesh) -> bool:
    """Whether no edge has more than two faces."""
    return not len(mesh.faces) or bool(edges(mesh.faces).face_counts.max() <= 2)


def border_vertices(mesh: Mesh) -> Bool[np.ndarray, " V"]:
    """Mark the vertices that lie on a border."""
    marked = np.zeros(len(mesh.vertices), bool)
    marked[border_half_edges(mesh.faces).ravel()] = True
    return marked
