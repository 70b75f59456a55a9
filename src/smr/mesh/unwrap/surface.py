"""What the unwrap needs to know of a mesh: twin edges, areas, normals, triangles laid flat, and cuts into charts."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int32, Int64

from ..half_edges import pair_components

SLIVER = 0.05
"""A triangle whose height is below this part of its longest edge counts as degenerate,"""
SPECK = 1e-3
"""and so does one whose area is below this part of the mean area."""


@dataclass(frozen=True)
class Surface:
    """A mesh in units of its mean edge, with what the later steps ask of it again and again."""

    faces: Int32[np.ndarray, "F 3"]
    twins: Int32[np.ndarray, "F 3"]
    """Edge 3 f + k runs from corner k of face f to corner k + 1. Here the same edge as the face across sees it; -1 at
    borders, at edges of more than two faces, and where two faces do not agree on what is outside."""
    lengths: Float64[np.ndarray, "F 3"]
    areas: Float64[np.ndarray, " F"]
    normals: Float64[np.ndarray, "F 3"]
    """Unit; zero for faces without area."""
    flat: Float64[np.ndarray, "F 3 2"]
    """Each triangle laid in the plane, counter-clockwise, slivers thickened to `SLIVER`."""
    regular: Bool[np.ndarray, " F"]
    """False for slivers, specks, and faces without area."""
    vertices: Float64[np.ndarray, "V 3"]
    scale: float
    """Metres per unit."""


def build_surface(vertices: Float64[np.ndarray, "V 3"], faces: Int32[np.ndarray, "F 3"]) -> Surface:
    """Measure a mesh. It may have edges of many faces, faces without area, and any orientation."""
    centred = vertices - (vertices.min(axis=0) + vertices.max(axis=0)) / 2
    corners = centred[faces]
    scale = float(np.linalg.norm(np.roll(corners, -1, axis=1) - corners, axis=2).mean()) or 1.0
    corners /= scale
    edges = np.roll(corners, -1, axis=1) - corners
    lengths = np.linalg.norm(edges, axis=2)
    normals = np.cross(edges[:, 0], -edges[:, 2])
    doubled = np.linalg.norm(normals, axis=1)
    longest = lengths.max(axis=1)
    normals = np.divide(normals, doubled[:, None], out=np.zeros_like(normals), where=doubled[:, None] > 1e-18)
    return Surface(
        faces=faces,
        twins=twin_edges(faces, len(vertices)),
        lengths=lengths,
        areas=doubled / 2,
        normals=normals,
        flat=_lay_flat(lengths, doubled),
        regular=(doubled >= SLIVER * longest**2) & (doubled > SPECK * doubled.mean()),
        vertices=centred / scale,
        scale=scale,
    )


def twin_edges(faces: Int32[np.ndarray, "F 3"], vertices: int) -> Int32[np.ndarray, "F 3"]:
    """The same edge in the face across it; -1 where there is no face, more than one, or one that winds otherwise."""
    start, end = faces.ravel().astype(np.int64), np.roll(faces, -1, axis=1).ravel().astype(np.int64)
    whole = (faces != np.roll(faces, -1, axis=1)).all(axis=1).repeat(3)  # a face that names a vertex twice is none
    edges = np.flatnonzero(whole)
    key = (np.minimum(start, end) * vertices + np.maximum(start, end))[edges]
    order = np.argsort(key, kind="stable")
    edges, key = edges[order], key[order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    pair = first[np.diff(first, append=len(key)) == 2]
    a, b = edges[pair], edges[pair + 1]
    opposed = start[a] == end[b]
    a, b = a[opposed], b[opposed]
    twins = np.full(faces.size, -1, np.int32)
    twins[a], twins[b] = b, a
    return twins.reshape(-1, 3)


def _lay_flat(lengths: Float64[np.ndarray, "F 3"], doubled: Float64[np.ndarray, " F"]) -> Float64[np.ndarray, "F 3 2"]:
    """Isometric copies in the plane, the longest edge on the first axis."""
    base_edge = lengths.argmax(axis=1)
    row = np.arange(len(lengths))
    base, side, last = (lengths[row, (base_edge + k) % 3] for k in range(3))
    base = np.maximum(base, 1e-4)
    flat = np.zeros((len(lengths), 3, 2))
    flat[row, (base_edge + 1) % 3, 0] = base
    flat[row, (base_edge + 2) % 3, 0] = np.clip((base**2 + last**2 - side**2) / (2 * base), 0, base)
    flat[row, (base_edge + 2) % 3, 1] = np.maximum(doubled / base, SLIVER * base)
    return flat


def part_of(surface: Surface, chosen: Int64[np.ndarray, " G"]) -> Surface:
    """The chosen faces alone, in their order; edges to others become borders, vertices stay."""
    place = np.full(len(surface.faces), -1, np.int32)
    place[chosen] = np.arange(len(chosen), dtype=np.int32)
    twins = surface.twins[chosen]
    across = place[twins // 3]
    return dataclasses.replace(
        surface,
        faces=surface.faces[chosen],
        twins=np.where((twins >= 0) & (across >= 0), 3 * across + twins % 3, np.int32(-1)),
        lengths=surface.lengths[chosen],
        areas=surface.areas[chosen],
        normals=surface.normals[chosen],
        flat=surface.flat[chosen],
        regular=surface.regular[chosen],
    )


def triangle_areas(corners: Float64[np.ndarray, "F 3 2"]) -> Float64[np.ndarray, " F"]:
    """Signed areas, positive counter-clockwise."""
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    area: np.ndarray = (a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]) / 2
    return area


@dataclass(frozen=True)
class Cut:
    """Faces of several charts, cut along the seams: every chart is a manifold of its own, with its own vertices."""

    faces: Int32[np.ndarray, "G 3"]
    """Indices into the charts' vertices."""
    twins: Int32[np.ndarray, "G 3"]
    """Twin edges inside the charts, in the numbering of these faces; -1 at the charts' borders."""
    charts: Int32[np.ndarray, " G"]
    """Chart of each face, 0 to `count` - 1."""
    vertex_charts: Int32[np.ndarray, " U"]
    count: int


def cut_charts(
    twins: Int32[np.ndarray, "F 3"], labels: Int32[np.ndarray, " F"], chosen: Int64[np.ndarray, " G"]
) -> Cut:
    """Cut the chosen faces along the borders between labels.

    Corners are one vertex where edges inside the chart join them; a vertex at which a chart merely touches itself is
    doubled. A label whose faces do not hang together by edges becomes several charts. Charts are numbered by their
    first face.
    """
    n = len(chosen)
    place = np.full(len(labels), -1, np.int32)
    place[chosen] = np.arange(n, dtype=np.int32)
    twin = twins[chosen]
    across = twin // 3
    inside = (twin >= 0) & (labels[across] == labels[chosen][:, None]) & (place[across] >= 0)
    local = np.where(inside, 3 * place[across] + twin % 3, np.int32(-1))
    edge = np.flatnonzero(local.ravel() > np.arange(3 * n)).astype(np.int32)  # the first of each pair of twins
    back = local.ravel()[edge]
    edge_end, back_end = edge - edge % 3 + (edge + 1) % 3, back - back % 3 + (back + 1) % 3
    vertices, corner_vertex = pair_components(3 * n, np.stack([edge, edge_end]), np.stack([back_end, back]))
    count, charts = pair_components(n, edge // 3, back // 3)
    vertex_charts = np.zeros(vertices, np.int32)
    vertex_charts[corner_vertex] = np.repeat(charts, 3)
    return Cut(corner_vertex.reshape(n, 3), local, charts, vertex_charts, count)
