"""Texture coordinates for any mesh, in time that its size bounds: charts that lie flat, packed into a square.

1. `segment`: faces grow into charts along their normals; charts that do not lie flat are split, neighbours that lie
   flat as one are joined.
2. `flatten`, `check`: as rigid as possible, without folds, overlaps, or stretch above 2.
3. `pack`: charts as rasters, the largest first, into the gaps, at the largest scale that fits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Int32, Int64

from ...errors import SmrError
from ...progress import Track, step, untracked
from ...records import Mesh
from .check import MAX_STRETCH
from .grid import Grid, choose_grid
from .outlines import Outlines, turn_upright
from .pack import MANY, Packing, apply, fill, pack
from .segment import segment
from .surface import Surface, build_surface, cut_charts, triangle_areas

__all__ = ["MAX_SIZE", "MAX_STRETCH", "Atlas", "unwrap"]

MAX_SIZE = 8192
"""Largest texture side, pixels."""
DEFAULT_SIZE = 2048
POSES = 2
"""Angles, between quarter turns, at which the packing tries a chart."""


@dataclass(frozen=True)
class Atlas:
    """Texture coordinates of a mesh and the texture they are meant for."""

    uvs: Float32[np.ndarray, "T 2"]
    """In [0, 1]; (0, 0) is the texture's bottom left corner."""
    face_uvs: Int32[np.ndarray, "F 3"]
    """Indices into `uvs`, a corner each; corners of one chart share them."""
    face_charts: Int32[np.ndarray, " F"]
    """Chart of each face."""
    charts: int
    size: int
    """Side of the square texture, pixels."""
    utilisation: float
    """Part of the texture that triangles cover."""
    texels_per_metre: float
    """The same in every chart; a triangle's own texels differ from it by its stretch."""


def unwrap(
    mesh: Mesh,
    *,
    size: int | None = None,
    gutter: int = 4,
    texel: float | None = None,
    seed: int = 0,
    track: Track = untracked,
) -> Atlas:
    """Lay a mesh flat into a square texture, without overlaps, whatever the mesh is like.

    Every triangle that is not a sliver keeps its lengths within a factor of `MAX_STRETCH` in every direction, and every
    chart its area. Faces without area get coordinates too.

    Args:
        mesh: Any triangle mesh: open, closed, of many parts, with edges of many faces, loose triangles.
        size: Side of the texture in pixels; the density follows. 2048 if neither this nor `texel` is given.
        gutter: Free pixels between charts; half as many along the texture's edge.
        texel: Side of a texel on the surface in metres; the size follows, a multiple of 256 (or 64, 128) and at most
            8192. If 8192 is not enough, the density is reduced to what fits, as the result says.
        seed: Not used by this method, which has no random step.
        track: Progress.

    Raises:
        SmrError: No faces, coordinates that are not finite, or a texture too small for the number of charts.
        ValueError: Both `size` and `texel`, or values that are not positive.
    """
    _check_arguments(mesh, size, gutter, texel)
    surface = build_surface(mesh.vertices.astype(np.float64), mesh.faces)
    labels, corners = segment(surface, track)
    guests, hosts = _guests(surface, labels)
    chosen = np.setdiff1d(np.arange(len(labels)), guests)
    cut = cut_charts(surface.twins, labels, chosen)
    outlines = turn_upright(cut, corners[chosen], POSES if cut.count < MANY else 1)
    with step(track, "packing charts"):
        grid, packing = _pack(outlines, surface.scale, size, gutter, texel)
    pixels = apply(outlines, grid, packing)
    uvs = np.zeros((len(cut.vertex_charts), 2))
    uvs[cut.faces[outlines.order]] = pixels / grid.size
    face_uvs, face_charts = np.zeros((len(labels), 3), np.int32), np.zeros(len(labels), np.int32)
    face_uvs[chosen], face_charts[chosen] = cut.faces, cut.charts
    face_uvs[guests], face_charts[guests] = face_uvs.ravel()[hosts][:, None], face_charts[hosts // 3]
    return Atlas(
        uvs=np.clip(uvs, 0, 1).astype(np.float32),
        face_uvs=face_uvs,
        face_charts=face_charts,
        charts=cut.count,
        size=grid.size,
        utilisation=float(triangle_areas(pixels).sum() / grid.size**2),
        texels_per_metre=packing.scale / surface.scale,
    )


def _guests(
    surface: Surface, labels: Int32[np.ndarray, " F"]
) -> tuple[Int64[np.ndarray, " N"], Int64[np.ndarray, " N"]]:
    """Faces without area that hang together with nothing, and corners of others at a vertex of theirs.

    They take the point of that corner, and no room in the texture.
    """
    lone = (surface.areas <= 1e-9) & (np.bincount(labels)[labels] == 1)
    corner_at = np.full(len(surface.vertices), -1, np.int64)
    others = np.flatnonzero(~lone)
    corner_at[surface.faces[others].ravel()] = (3 * others[:, None] + np.arange(3)).ravel()
    guests = np.flatnonzero(lone)
    hosts = corner_at[surface.faces[guests]].max(axis=1)
    return guests[hosts >= 0], hosts[hosts >= 0]


def _check_arguments(mesh: Mesh, size: int | None, gutter: int, texel: float | None) -> None:
    if size is not None and texel is not None:
        raise ValueError("give the texture's size or the texel's, not both")
    if size is not None and not 0 < size <= MAX_SIZE:
        raise ValueError(f"size must be from 1 to {MAX_SIZE} pixels, not {size}")
    if gutter < 0:
        raise ValueError(f"gutter must not be negative, not {gutter}")
    if texel is not None and not (np.isfinite(texel) and texel > 0):
        raise ValueError(f"texel must be a positive length in metres, not {texel}")
    if len(mesh.faces) == 0:
        raise SmrError("The mesh has no faces to unwrap.", "Check that the file holds triangles, not only points.")
    if mesh.faces.min() < 0 or mesh.faces.max() >= len(mesh.vertices):
        raise ValueError(f"faces name vertex {mesh.faces.min()} to {mesh.faces.max()} of {len(mesh.vertices)}")
    used = mesh.vertices[mesh.faces.ravel()]
    if not np.isfinite(used).all():
        bad = int(mesh.faces.ravel()[np.flatnonzero(~np.isfinite(used).all(axis=1))[0]])
        raise SmrError(
            f"Vertex {bad} of the mesh is at {mesh.vertices[bad].tolist()}.", "Clean the mesh first: smr clean MESH."
        )


def _pack(
    outlines: Outlines, metres: float, size: int | None, gutter: int, texel: float | None
) -> tuple[Grid, Packing]:
    charts = len(outlines.face_start) - 1
    if texel is None:
        return _fill(outlines, choose_grid(size or DEFAULT_SIZE, gutter, charts))
    scale = metres / texel
    needed = max(np.sqrt(outlines.area / 0.85) * scale, float(outlines.extent[0].max()) * scale / 1.4)
    while True:
        grid = choose_grid(_round_size(needed), gutter, charts)
        if needed > MAX_SIZE:
            grid = choose_grid(MAX_SIZE, gutter, charts)
            packing = pack(outlines, grid, scale, grid.side)
            return (grid, packing) if packing else _fill(outlines, grid)
        packing = pack(outlines, grid, scale, grid.side) if grid.side > 0 else None
        if packing is not None:
            return grid, packing
        needed = max(grid.size * 1.04, grid.size + 1)


def _round_size(pixels: float) -> int:
    """The next allowed side: 64, 128, or a multiple of 256."""
    for small in (64, 128):
        if pixels <= small:
            return small
    return min(int(np.ceil(pixels / 256)) * 256, MAX_SIZE)


def _fill(outlines: Outlines, grid: Grid) -> tuple[Grid, Packing]:
    """The largest scale that fits, if each chart can have a pixel of its own."""
    charts = len(outlines.face_start) - 1
    packing = fill(outlines, grid) if grid.side > 0 and charts * grid.pitch**2 < grid.size**2 else None
    if packing is not None:
        return grid, packing
    needed = _round_size(1.1 * np.sqrt(charts) * (grid.pitch + 1) + 2 * grid.margin * grid.cell)
    cure = f"Use a texture of at least {needed} pixels."
    if charts * grid.pitch**2 > 0.8 * MAX_SIZE**2:
        cure = "Clean the mesh first: smr clean MESH. It is in too many pieces for any texture."
    raise SmrError(
        f"The mesh needs {charts} charts, too many for a texture of {grid.size} pixels with {grid.gutter_pixels} pixels"
        " between charts.",
        cure,
    )
