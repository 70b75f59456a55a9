"""Edges, neighbours and Laplacians of meshes, sparse: O(F log F) time for one sort, O(E) memory."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..segments import group_rows, segment_sum
from ..tensors import INDICES, check_indices, check_same_device, check_tensor, check_whole
from .faces import check_mesh, face_areas, index_vertices_by_faces


@dataclass(frozen=True)
class Edges:
    """The undirected edges of some polygons."""

    vertices: torch.Tensor
    """(E, 2) int64, the smaller index first; sorted."""
    of_faces: torch.Tensor
    """(F, S) int64: the edge from each corner of a face to the next."""

    @property
    def face_counts(self) -> torch.Tensor:
        """(E,) int64: faces at each edge; 1 on a border, 2 inside a manifold."""
        return torch.bincount(self.of_faces.reshape(-1), minlength=len(self.vertices))


def find_edges(faces: torch.Tensor, num_vertices: int) -> Edges:
    """Find the undirected edges of polygons.

    Args:
        faces: (F, S).
        num_vertices: V.

    Raises:
        TypeError: Wrong types.
        ValueError: Wrong shapes or an index out of range.
    """
    check_tensor("faces", faces, (None, None), INDICES)
    num_vertices = check_whole("num_vertices", num_vertices)
    check_indices("faces", faces, num_vertices)
    start = faces.long()
    end = start.roll(-1, dims=1)
    keys = torch.minimum(start, end) * num_vertices + torch.maximum(start, end)
    unique, of_faces = torch.unique(keys, return_inverse=True)
    vertices = torch.stack([unique // max(num_vertices, 1), unique % max(num_vertices, 1)], dim=1)
    return Edges(vertices, of_faces.reshape(faces.shape))


def find_neighbours(faces: torch.Tensor, num_vertices: int, *, along_borders: bool = False) -> torch.Tensor:
    """Pairs (vertex, neighbour) for all neighbours of all vertices: (2, N) int64, sorted.

    Args:
        faces: (F, S).
        num_vertices: V.
        along_borders: Leave to a vertex at a border only its neighbours along the border.
    """
    edges = find_edges(faces, num_vertices)
    ends = edges.vertices[edges.vertices[:, 0] != edges.vertices[:, 1]]
    pairs = torch.cat([ends, ends.flip(1)])
    if along_borders:
        border = edges.vertices[edges.face_counts == 1]
        on_border = torch.zeros(num_vertices, dtype=torch.bool, device=faces.device)
        on_border[border.reshape(-1)] = True
        inner = pairs[~on_border[pairs[:, 0]]]
        pairs = torch.cat([inner, border, border.flip(1)])
    keys = torch.sort(pairs[:, 0] * num_vertices + pairs[:, 1]).values
    return torch.stack([keys // max(num_vertices, 1), keys % max(num_vertices, 1)])


def adjacency_matrix(faces: torch.Tensor, num_vertices: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Sparse V×V matrix with a one for every pair of vertices that an edge joins.

    Args:
        faces: (F, S).
        num_vertices: V.
        dtype: Of the ones.

    Returns:
        A coalesced COO tensor.

    Raises:
        TypeError: Wrong types.
        ValueError: Wrong shapes or an index out of range.
    """
    pairs = find_neighbours(faces, num_vertices)
    return _sparse(pairs, torch.ones(pairs.shape[1], dtype=dtype, device=faces.device), num_vertices)


def uniform_laplacian(faces: torch.Tensor, num_vertices: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Sparse V×V matrix that takes positions to the way from each vertex to the mean of its neighbours.

    Rows add up to zero: -1 on the diagonal, one over the number of neighbours beside it; a vertex without neighbours
    has an empty row. About 7 V numbers for a closed mesh, where the dense matrix has V².

    Args:
        faces: (F, S).
        num_vertices: V.
        dtype: Of the weights.

    Returns:
        A coalesced COO tensor.

    Raises:
        TypeError: Wrong types.
        ValueError: Wrong shapes or an index out of range.
    """
    pairs = find_neighbours(faces, num_vertices)
    degrees = torch.bincount(pairs[0], minlength=num_vertices)
    used = degrees.nonzero()[:, 0]
    weights = degrees[pairs[0]].to(dtype).reciprocal()
    diagonal = torch.full((len(used),), -1.0, dtype=dtype, device=faces.device)
    return _sparse(torch.cat([pairs, used.expand(2, -1)], dim=1), torch.cat([weights, diagonal]), num_vertices)


def cotangent_weights(vertices: torch.Tensor, faces: torch.Tensor, edges: Edges) -> torch.Tensor:
    """Half the sum of the cotangents of the angles opposite each edge: (E,), differentiable.

    Angles without a sine (faces without area) count as right angles.

    Args:
        vertices: (..., V, 3).
        faces: (F, 3).
        edges: `find_edges` of these faces.

    Raises:
        TypeError: Wrong types.
        ValueError: Wrong shapes, an index out of range, a coordinate that is not finite, or edges of other faces.
    """
    check_mesh(vertices, faces, finite=True)
    if not isinstance(edges, Edges):
        raise TypeError(f"edges must be what find_edges returns, not {type(edges).__name__}")
    check_tensor("edges.vertices", edges.vertices, (None, 2), INDICES)
    check_tensor("edges.of_faces", edges.of_faces, tuple(faces.shape), INDICES)
    check_same_device(faces=faces, edges=edges.of_faces)
    check_indices("edges.of_faces", edges.of_faces, len(edges.vertices), "edges")
    corners = index_vertices_by_faces(vertices, faces)
    after, before = corners.roll(-1, dims=-2) - corners, corners.roll(1, dims=-2) - corners
    cosine = (after * before).sum(dim=-1)
    sine = torch.linalg.vector_norm(torch.linalg.cross(after, before), dim=-1)
    cotangents = torch.where(sine > 0, cosine / torch.where(sine > 0, sine, torch.ones_like(sine)), 0.0)
    opposite = edges.of_faces.roll(-1, dims=1)  # of corner k: the edge from corner k + 1 to k + 2
    return 0.5 * segment_sum(cotangents.reshape(-1, 1), group_rows(opposite, len(edges.vertices)))[:, 0]


def cotangent_laplacian(vertices: torch.Tensor, faces: torch.Tensor) -> torch.Tensor:
    """Sparse V×V cotangent Laplacian (Pinkall and Polthier 1993), differentiable with respect to the vertices.

    Rows add up to zero, off the diagonal stand the weights of `cotangent_weights`. Times the positions, and over a
    third of the area around each vertex (`vertex_areas`), it gives the mean curvature normal, inwards, twice.

    Args:
        vertices: (V, 3).
        faces: (F, 3).

    Returns:
        A coalesced, symmetric COO tensor.

    Raises:
        TypeError: Wrong types.
        ValueError: Wrong shapes, an index out of range, or a coordinate that is not finite.
    """
    check_mesh(vertices, faces, finite=True)
    if vertices.dim() != 2:
        raise ValueError(f"vertices must have the shape (*, 3), not {tuple(vertices.shape)}")
    count = len(vertices)
    edges = find_edges(faces, count)
    weights = cotangent_weights(vertices, faces, edges)[:, None]
    ends = torch.cat([edges.vertices, edges.vertices.flip(1)])
    diagonal = segment_sum(torch.cat([weights, weights]), group_rows(ends[:, 0], count))
    every = torch.arange(count, device=faces.device).expand(2, -1)
    return _sparse(torch.cat([ends.T, every], dim=1), torch.cat([weights, weights, -diagonal])[:, 0], count)


def vertex_areas(vertices: torch.Tensor, faces: torch.Tensor) -> torch.Tensor:
    """A third of the area of the faces around each vertex: (..., V, 3) and (F, 3) to (..., V)."""
    thirds = face_areas(vertices, faces)[..., None] / 3
    corners = thirds.expand(*thirds.shape[:-1], 3).reshape(*thirds.shape[:-2], -1, 1)
    return segment_sum(corners, group_rows(faces, vertices.shape[-2]))[..., 0]


def _sparse(indices: torch.Tensor, values: torch.Tensor, size: int) -> torch.Tensor:
    return torch.sparse_coo_tensor(indices, values, (size, size), check_invariants=False).coalesce()
