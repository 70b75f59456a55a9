"""From any triangles to an oriented manifold: every edge has at most two faces, every vertex one fan of faces."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import no_type_check

import numpy as np
import warp as wp
from jaxtyping import Bool, Float, Int, Int32, UInt64
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import breadth_first_order
from scipy.sparse.csgraph import connected_components as graph_components

from ..arrays import launch_chunked
from ..records import Mesh
from .half_edges import HalfEdges, all_different, fan_leads, group_half_edges
from .normals import face_areas, face_normals
from .topology import Faces, connected_components, half_edges

_MIX = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: spreads keys
_ROUNDS = 8  # of cutting; each cuts or removes something, and one is nearly always enough


@dataclass(frozen=True)
class InvalidFaces:
    """Counts of what `drop_invalid_faces` took away."""

    out_of_range: int
    not_finite: int
    degenerate: int
    duplicate: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.out_of_range + self.not_finite + self.degenerate + self.duplicate


def keep_faces(mesh: Mesh, keep: Bool[np.ndarray, " F"]) -> Mesh:
    """Select faces, and the vertices that they use."""
    return keep_used_vertices(dataclasses.replace(mesh, faces=mesh.faces[keep]))


def keep_used_vertices(mesh: Mesh) -> Mesh:
    """Drop the vertices that no face uses; the order of the others stays."""
    used = np.zeros(len(mesh.vertices), bool)
    used[mesh.faces.ravel()] = True
    if used.all():
        return mesh
    number = np.cumsum(used, dtype=np.int32) - np.int32(1)
    return take_vertices(mesh, np.flatnonzero(used), number[mesh.faces])


def take_vertices(mesh: Mesh, source: Int[np.ndarray, " W"], faces: Faces) -> Mesh:
    """A mesh whose vertex i is `source[i]` of this one, with everything that a vertex carries."""
    return Mesh(
        mesh.vertices[source],
        faces,
        normals=None if mesh.normals is None else mesh.normals[source],
        colors=None if mesh.colors is None else mesh.colors[source],
    )


def drop_invalid_faces(mesh: Mesh) -> tuple[Mesh, InvalidFaces]:
    """Drop faces with missing or non-finite vertices, without area, or with the vertices of an earlier face."""
    faces = mesh.faces
    inside = ((faces >= 0) & (faces < len(mesh.vertices))).all(axis=1)
    faces = faces[inside]
    finite = np.isfinite(mesh.vertices).all(axis=1)[faces].all(axis=1)
    faces = faces[finite]
    vertices = np.where(np.isfinite(mesh.vertices), mesh.vertices, 0).astype(mesh.vertices.dtype)
    clean = dataclasses.replace(mesh, vertices=vertices, faces=faces)
    solid = _has_area(clean)
    faces = faces[solid]
    single = _first_of_its_kind(faces, len(vertices))
    counts = InvalidFaces(*(int((~kept).sum()) for kept in (inside, finite, solid, single)))
    return keep_used_vertices(dataclasses.replace(clean, faces=faces[single])), counts


def _has_area(mesh: Mesh) -> Bool[np.ndarray, " F"]:
    """Faces whose height is more than rounding of their coordinates."""
    faces = np.ascontiguousarray(mesh.faces)
    solid = wp.empty(len(faces), dtype=wp.bool, device="cpu")
    inputs = [
        wp.array(mesh.vertices, dtype=wp.vec3d, device="cpu"),
        wp.array(faces, dtype=wp.vec3i, device="cpu", copy=False),
    ]
    launch_chunked(_find_area, len(faces), inputs, outputs=[solid], device="cpu")
    return solid.numpy()


def _first_of_its_kind(faces: Faces, vertex_count: int) -> Bool[np.ndarray, " F"]:
    """Faces that no earlier face has the same three vertices as, in any order."""
    low, high = faces.min(axis=1).astype(np.uint64), faces.max(axis=1).astype(np.uint64)
    if all_different((low << np.uint64(32) | high) + faces.sum(axis=1, dtype=np.uint64) * _MIX):
        return np.ones(len(faces), bool)
    first = np.zeros(len(faces), bool)
    if len(faces):
        low, middle, high = np.sort(faces, axis=1).T
        order = np.lexsort((high, (low.astype(np.int64) << 32) | middle))
        keys = np.stack([low, middle, high], axis=1)[order]
        starts = np.ones(len(faces), bool)
        starts[1:] = (keys[1:] != keys[:-1]).any(axis=1)
        first[order[starts]] = True  # lexsort is stable: the first of a run is the earliest face
    return first


def merge_equal_vertices(mesh: Mesh) -> Mesh:
    """Join vertices at exactly the same place, which closes textured files' seams; the first one's colour stays."""
    places = mesh.vertices + np.zeros((), mesh.vertices.dtype)  # -0.0 becomes 0.0
    if all_different(_hash(places)):
        return mesh
    order = np.lexsort(places.T)
    starts = np.ones(len(order), bool)
    starts[1:] = (places[order[1:]] != places[order[:-1]]).any(axis=1)
    if starts.all():
        return mesh
    leader = np.empty(len(order), np.int64)
    leader[order] = np.minimum.reduceat(order, np.flatnonzero(starts))[np.cumsum(starts) - 1]
    return keep_used_vertices(dataclasses.replace(mesh, faces=leader[mesh.faces].astype(np.int32)))


def _hash(places: Float[np.ndarray, "V 3"]) -> UInt64[np.ndarray, " V"]:
    """A number that is the same for equal places, and hardly ever for others."""
    bits = np.ascontiguousarray(places.astype(np.float64)).view(np.uint64)
    mixed = np.zeros(len(places), np.uint64)
    for k in range(3):
        mixed = (mixed ^ bits[:, k]) * _MIX
        mixed ^= mixed >> np.uint64(29)
    return mixed


def drop_small_components(mesh: Mesh, min_faces: int, min_extent: float) -> Mesh:
    """Drop components that have both fewer faces than `min_faces` and a shorter box diagonal than `min_extent`, metres.

    So a long thin wire of few faces stays, as does a small dense ball; the largest component always stays.
    """
    return keep_faces(mesh, ~small_components(mesh, min_faces, min_extent))


def small_components(mesh: Mesh, min_faces: int, min_extent: float) -> Bool[np.ndarray, " F"]:
    """Mark the faces that `drop_small_components` drops."""
    count, labels = connected_components(mesh)
    if count < 2:
        return np.zeros(len(mesh.faces), bool)
    faces = np.bincount(labels, minlength=count)
    low, high = component_boxes(mesh, count, labels)
    small = (faces < min_faces) & (np.linalg.norm(high - low, axis=1) < min_extent)
    small[np.argmax(faces)] = False
    return small[labels]


def component_boxes(mesh: Mesh, count: int, labels: Int32[np.ndarray, " F"]) -> tuple[np.ndarray, np.ndarray]:
    """Least and largest coordinates of every component, in double precision."""
    low = wp.full(count, wp.vec3d(np.inf, np.inf, np.inf), dtype=wp.vec3d, device="cpu")
    high = wp.full(count, wp.vec3d(-np.inf, -np.inf, -np.inf), dtype=wp.vec3d, device="cpu")
    inputs = [
        wp.array(mesh.vertices, dtype=wp.vec3d, device="cpu"),
        wp.array(np.ascontiguousarray(mesh.faces), dtype=wp.vec3i, device="cpu", copy=False),
        wp.array(labels, dtype=wp.int32, device="cpu", copy=False),
    ]
    wp.launch(_find_boxes, 1, inputs=inputs, outputs=[low, high], device="cpu")
    return low.numpy(), high.numpy()


def repair_non_manifold(mesh: Mesh) -> Mesh:
    """Make an oriented manifold, with borders, of any triangles.

    Faces that disagree with their neighbours are turned. At an edge with more than two faces the two that continue
    each other best stay connected. Vertices are then split so that each has one fan of faces. Where an edge would
    still have more than two faces, the smallest are dropped (rare: two tunnels that touch along an edge).
    """
    if not len(mesh.faces):
        return mesh
    found = group_half_edges(mesh.faces, len(mesh.vertices))
    if _is_oriented_manifold(mesh.faces, found):
        return _split_fans(mesh, found.mates)  # nothing else can be wrong, and no edge gets a third face
    pairs = _pair_faces(mesh, found)
    mesh, pairs = _orient(mesh, pairs)
    for _ in range(_ROUNDS):
        mesh = _split_fans(mesh, _mates(pairs, mesh.faces.size))
        over = _crowded_edges(mesh)
        if not over.any():
            return mesh
        pairs = _pair_faces(mesh)
        pairs = pairs[~over[pairs[:, 0]]]
        split = _split_fans(mesh, _mates(pairs, mesh.faces.size))
        mesh = keep_faces(split, ~_excess_faces(split, _crowded_edges(split)))
        pairs = _pair_faces(mesh)
    return keep_faces(mesh, ~np.isin(np.arange(len(mesh.faces)), np.flatnonzero(_crowded_edges(mesh)) // 3))


def _is_oriented_manifold(faces: Faces, found: HalfEdges) -> bool:
    """Whether no edge has more than two faces, and both faces of each run along it in opposite ways."""
    if found.counts.max() > 2:
        return False
    corners = faces.reshape(-1)
    first = np.flatnonzero(found.mates >= 0)
    return bool((corners[first] != corners[found.mates[first]]).all())


def _mates(pairs: Int[np.ndarray, "P 2"], count: int) -> Int32[np.ndarray, " H"]:
    """For each half-edge the one that it is paired with, or -1."""
    mates = np.full(count, -1, np.int32)
    mates[pairs[:, 0]], mates[pairs[:, 1]] = pairs[:, 1], pairs[:, 0]
    return mates


def _crowded_edges(mesh: Mesh) -> Bool[np.ndarray, " H"]:
    """Half-edges whose edge has more than two faces, or two that run the same way."""
    found = group_half_edges(mesh.faces, len(mesh.vertices))
    corners = mesh.faces.reshape(-1)
    same_way: np.ndarray = (found.mates >= 0) & (corners == corners[found.mates])
    return (found.counts > 2) | same_way


def _pair_faces(mesh: Mesh, found: HalfEdges | None = None) -> Int[np.ndarray, "P 2"]:
    """Half-edges that continue each other: both of an edge with two faces, the best fitting of one with more."""
    found = found or group_half_edges(mesh.faces, len(mesh.vertices))
    directed = half_edges(mesh.faces)
    forward = directed[:, 0] < directed[:, 1]
    order, starts, sizes = found.order, found.starts, found.sizes
    simple = starts[sizes == 2]
    pairs = [np.stack([order[simple], order[simple + 1]], axis=1)]
    crowded = np.flatnonzero(sizes > 2)
    if len(crowded):
        normals = face_normals(mesh)
        for group in crowded:
            members = order[starts[group] : starts[group] + sizes[group]]
            pairs.append(_best_pairs(members, forward, normals))
    return np.concatenate(pairs)


def _best_pairs(members: np.ndarray, forward: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """Greedily pair half-edges of opposite ways whose faces have the most similar normals."""
    there, back = members[forward[members]], members[~forward[members]]
    likeness = normals[there // 3] @ normals[back // 3].T
    ranked = np.argsort(-np.round(likeness, 9), axis=None, kind="stable")
    found: list[tuple[int, int]] = []
    taken: set[int] = set()
    for index in ranked:
        a, b = int(there[index // len(back)]), int(back[index % len(back)])
        if a not in taken and b not in taken:
            taken |= {a, b}
            found.append((a, b))
    return np.array(found, np.int64).reshape(-1, 2)


def _orient(mesh: Mesh, pairs: Int[np.ndarray, "P 2"]) -> tuple[Mesh, Int[np.ndarray, "Q 2"]]:
    """Turn faces so that paired ones agree; the majority of a component stays. Pairs that cannot agree are cut."""
    directed = half_edges(mesh.faces)
    same_way = directed[pairs[:, 0], 0] == directed[pairs[:, 1], 0]
    if not same_way.any():
        return mesh, pairs
    count = len(mesh.faces)
    a, b = pairs[:, 0] // 3, pairs[:, 1] // 3
    graph = coo_matrix((np.ones(len(a), np.int8), (a, b)), (count, count)).tocsr()
    parts, labels = graph_components(graph, directed=False)
    # A root above one face of every component lets one search visit them all.
    first = np.unique(labels, return_index=True)[1]
    rows, columns = np.r_[a, np.full(parts, count)], np.r_[b, first]
    rooted = coo_matrix((np.ones(len(rows), np.int8), (rows, columns)), (count + 1, count + 1)).tocsr()
    _, parent = breadth_first_order(rooted, count, directed=False)
    turned = _parity_from_root(parent, a, b, same_way, count)
    most = np.bincount(labels, turned, parts) > np.bincount(labels, minlength=parts) / 2
    turned ^= most[labels]
    faces = mesh.faces.copy()
    faces[turned] = faces[turned][:, ::-1]
    # Half-edge 3 f + i of a turned face (c, b, a) is where (a, b, c) had 3 f + (1, 0, 2)[i].
    pairs = np.where(turned[pairs // 3], pairs // 3 * 3 + np.array([1, 0, 2])[pairs % 3], pairs)
    directed = half_edges(faces)
    agree = directed[pairs[:, 0], 0] != directed[pairs[:, 1], 0]
    return dataclasses.replace(mesh, faces=faces), pairs[agree]


def _parity_from_root(
    parent: np.ndarray, a: np.ndarray, b: np.ndarray, same_way: np.ndarray, count: int
) -> Bool[np.ndarray, " F"]:
    """Whether the way from the root to a face passes an odd number of disagreeing pairs (pointer doubling)."""
    odd = np.zeros(count + 1, bool)
    for child, other in ((a, b), (b, a)):
        of_tree = parent[child] == other
        odd[child[of_tree]] = same_way[of_tree]
    above = np.where(parent < 0, count, parent)
    above[count] = count
    while (above != count).any():
        odd = odd ^ odd[above]
        above = above[above]
    return odd[:count]


def _split_fans(mesh: Mesh, mates: Int32[np.ndarray, " H"]) -> Mesh:
    """Give each fan of faces, connected across the mated half-edges, a vertex of its own."""
    leads, by_vertex = fan_leads(mesh.faces, len(mesh.vertices), mates)
    corners = mesh.faces.reshape(-1)
    # The fans are numbered by vertex, then by their first corner, so that an intact mesh keeps its order.
    first = by_vertex[leads[by_vertex] == by_vertex]
    source = corners[first]
    if len(first) == len(mesh.vertices) and (source[1:] != source[:-1]).all():
        return mesh
    rank = np.empty(len(corners), np.int32)
    rank[first] = np.arange(len(first), dtype=np.int32)
    return take_vertices(mesh, source, rank[leads].reshape(-1, 3))


def _excess_faces(mesh: Mesh, over: Bool[np.ndarray, " H"]) -> Bool[np.ndarray, " F"]:
    """Mark, at each edge with too many faces, all but the largest face of either way."""
    excess = np.zeros(len(mesh.faces), bool)
    if over.any():
        areas = face_areas(mesh)
        chosen = np.flatnonzero(over)
        directed = half_edges(mesh.faces)[chosen]
        order = np.lexsort((chosen, -areas[chosen // 3], directed[:, 1], directed[:, 0]))
        repeated = np.r_[False, (directed[order[1:]] == directed[order[:-1]]).all(axis=1)]
        excess[chosen[order[repeated]] // 3] = True
    return excess


@wp.kernel(enable_backward=False)
@no_type_check
def _find_area(
    base: int, vertices: wp.array(dtype=wp.vec3d), faces: wp.array(dtype=wp.vec3i), solid: wp.array(dtype=wp.bool)
):
    f = base + wp.tid()
    face = faces[f]
    p = vertices[face[0]]
    q = vertices[face[1]]
    r = vertices[face[2]]
    longest_sq = wp.max(wp.length_sq(q - p), wp.max(wp.length_sq(r - q), wp.length_sq(p - r)))
    height = wp.length(wp.cross(q - p, r - p))  # times the longest side
    distinct = face[0] != face[1] and face[1] != face[2] and face[2] != face[0]
    solid[f] = distinct and height > wp.float64(1e-12) * longest_sq


@wp.kernel(enable_backward=False)
@no_type_check
def _find_boxes(
    vertices: wp.array(dtype=wp.vec3d),
    faces: wp.array(dtype=wp.vec3i),
    labels: wp.array(dtype=wp.int32),
    low: wp.array(dtype=wp.vec3d),
    high: wp.array(dtype=wp.vec3d),
):
    # A serial program: launch with dim=1.
    for f in range(faces.shape[0]):
        label = labels[f]
        for k in range(3):
            p = vertices[faces[f][k]]
            low[label] = wp.min(low[label], p)
            high[label] = wp.max(high[label], p)
