"""Closing of holes (Liepa 2003: triangulate, refine, fair)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, Int32

from ..records import Mesh
from . import patches
from .normals import face_normals, vertex_normals
from .topology import border_indices, border_loops, half_edges
from .triangulate import triangulate_loops

_RIM = 0.3  # mean cosine between the way out of the surface and the way out of the loop, from which a loop is a rim


@dataclass(frozen=True)
class Filling:
    """What `close_holes` did."""

    mesh: Mesh
    """Old vertices and faces first, in their order, then the new ones."""
    closed: int
    """Holes that were closed."""
    rims: int
    """Loops short enough that were left open because they go around a piece of surface, not around a hole."""
    failed: int
    """Loops short enough for which no triangulation was found."""


def fill_holes(mesh: Mesh, max_edges: int = 30, rounds: int = 3, *, fair: bool = True) -> Mesh:
    """Close the holes of at most `max_edges` edges.

    A hole gets the triangulation with the least bend, is refined to the triangles' size around it and bent so that it
    continues the surface; colours are interpolated. The rim of a piece of surface, such as of a sheet that floats
    alone, is no hole and stays open however short it is. Vertices and faces that were there keep their numbers.

    Args:
        mesh: A manifold with borders (`repair_non_manifold`).
        max_edges: Longest loop that is closed.
        rounds: The search is repeated at most so often, for loops that closing others made possible.
        fair: Refine and bend; otherwise the hole is closed by triangles between its border vertices alone.
    """
    return close_holes(mesh, max_edges, rounds, fair=fair).mesh


def close_holes(mesh: Mesh, max_edges: int, rounds: int, *, fair: bool = True) -> Filling:
    """Do the work of `fill_holes`, and count."""
    closed = rims = failed = 0
    for _ in range(rounds):
        holes, rims = _find_holes(mesh, max_edges)
        if not holes:
            return Filling(mesh, closed, rims, 0)
        mesh, done = _close(mesh, holes, fair)
        closed += done
        failed = len(holes) - done
        if failed == 0 or done == 0:
            break
    return Filling(mesh, closed, rims, failed)


@dataclass(frozen=True)
class _Hole:
    loop: Int32[np.ndarray, " L"]
    """Vertices in the direction of the faces that will close it."""
    outside: Float[np.ndarray, "L 3"]
    """Normal of the face outside the edge from each vertex to the next."""


def _find_holes(mesh: Mesh, max_edges: int) -> tuple[list[_Hole], int]:
    """The loops that are to be closed, and how many short ones are rims."""
    indices = border_indices(mesh.faces)
    border = half_edges(mesh.faces)[indices]
    loops = [loop[::-1] for loop in border_loops(border) if len(loop) <= max_edges]
    if not loops:
        return [], 0
    sizes = np.array([len(loop) for loop in loops])
    ends = np.cumsum(sizes)
    start = np.concatenate(loops)
    following = np.arange(1, len(start) + 1)
    following[ends - 1] = ends - sizes
    after = start[following]
    order = np.argsort(border[:, 0], kind="stable")  # a border half-edge runs from `after` to `start`
    at = indices[order[np.searchsorted(border[order, 0], after)]] // 3
    outside = face_normals(Mesh(mesh.vertices, mesh.faces[at]))
    rim = _are_rims(mesh.vertices[start].astype(np.float64), following, outside, ends - sizes)
    parts = np.split(outside, ends[:-1])
    return [_Hole(loop, part) for loop, part, is_rim in zip(loops, parts, rim, strict=True) if not is_rim], int(
        rim.sum()
    )


def _are_rims(
    corners: Float[np.ndarray, "N 3"], following: Int[np.ndarray, " N"], outside: Float[np.ndarray, "N 3"],
    starts: Int[np.ndarray, " H"],
) -> Bool[np.ndarray, " H"]:  # fmt: skip
    """Whether the surface lies inside each loop: the way out of it leads away from the loop's middle."""
    ahead = corners[following] - corners
    outward = np.cross(outside, ahead)  # as long as the edge
    sizes = np.diff(np.append(starts, len(corners)))
    middle = np.repeat(np.add.reduceat(corners, starts) / sizes[:, None], sizes, axis=0)
    arms = corners + ahead / 2 - middle
    arms /= np.maximum(np.linalg.norm(arms, axis=1, keepdims=True), 1e-300)
    away = np.add.reduceat(np.einsum("ij,ij->i", outward, arms), starts)
    rims: np.ndarray = away > _RIM * np.add.reduceat(np.linalg.norm(ahead, axis=1), starts)
    return rims


def _close(mesh: Mesh, holes: list[_Hole], fair: bool) -> tuple[Mesh, int]:
    """Close some holes; also how many succeeded."""
    loops = [hole.loop for hole in holes]
    corners = [mesh.vertices[loop].astype(np.float64) for loop in loops]
    found = triangulate_loops(corners, [hole.outside for hole in holes], _chords(mesh, loops))
    faces = [loop[part] for loop, part in zip(loops, found, strict=True) if part is not None]
    if not faces:
        return mesh, 0
    origin = mesh.vertices[0].astype(np.float64)
    on_loops = np.zeros(len(mesh.vertices), bool)
    on_loops[np.concatenate(loops)] = True
    outer = half_edges(mesh.faces)
    outer = outer[on_loops[outer].all(axis=1)]
    taken = np.unique(patches.edge_keys(outer[:, 0], outer[:, 1]))
    patch = patches.Patch(mesh.vertices - origin, np.concatenate(faces).astype(np.int32), taken)
    if fair:
        patches.refine(patch, patches.edge_scale(mesh, on_loops))
    return _attach(mesh, patch, origin), len(faces)


def _chords(mesh: Mesh, loops: list[np.ndarray]) -> list[Int32[np.ndarray, "_ 2"]]:
    """For each loop the pairs of its corners that the mesh already joins by an edge, apart from the loop itself."""
    loop_of = np.full(len(mesh.vertices), -1, np.int32)
    place_of = np.zeros(len(mesh.vertices), np.int32)
    sizes = np.array([len(loop) for loop in loops])
    for number, loop in enumerate(loops):
        loop_of[loop] = number
        place_of[loop] = np.arange(len(loop), dtype=np.int32)
    directed = half_edges(mesh.faces)
    number = loop_of[directed[:, 0]]
    directed, number = (
        directed[(number >= 0) & (number == loop_of[directed[:, 1]])],
        number[(number >= 0) & (number == loop_of[directed[:, 1]])],
    )
    pairs = np.sort(place_of[directed], axis=1)
    gap = pairs[:, 1] - pairs[:, 0]
    inner = (gap > 1) & (gap < sizes[number] - 1)
    table = np.unique(np.concatenate([number[inner, None], pairs[inner]], axis=1), axis=0).astype(np.int32)
    cuts = np.searchsorted(table[:, 0], np.arange(1, len(loops)))
    return np.split(table[:, 1:], cuts)


def _attach(mesh: Mesh, patch: patches.Patch, origin: np.ndarray) -> Mesh:
    """Add the patches to the mesh, faired and coloured."""
    old = len(mesh.vertices)
    faces = np.concatenate([mesh.faces, patch.faces])
    free = np.arange(old, len(patch.vertices), dtype=np.int32)
    colors = mesh.colors
    places = mesh.vertices
    if len(free):
        added = patches.fair(patch.vertices, faces, free) + origin
        places = np.concatenate([mesh.vertices, added.astype(mesh.vertices.dtype)])
        if colors is not None:
            known = np.zeros((len(patch.vertices), 3))
            known[:old] = colors
            values = patches.interpolate(known, patch.faces, free)
            colors = np.concatenate([colors, np.clip(np.rint(values), 0, 255).astype(np.uint8)])
    closed = Mesh(places, faces, colors=colors)
    return dataclasses.replace(closed, normals=vertex_normals(closed)) if mesh.normals is not None else closed
