"""Simplification by edge collapse with quadric errors (Garland, Heckbert 1997)."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import warp as wp

from ..progress import Track, untracked
from ..records import Mesh
from .distance import index_surface
from .edge_collapse import kernels
from .edge_collapse import state as slots
from .edge_collapse.quadric import Quadric
from .normals import vertex_normals

log = logging.getLogger(__name__)

_CHUNK = 50_000  # collapses between two reports of progress: about a third of a second
_NORMAL_NOISE = 3e-3
"""Standard deviation of a plane's direction, radians. It makes flat places well-defined and their triangles even; ten
times less gives the same error and thinner triangles, three times more costs 15 % of error."""
_BORDER_WEIGHT = 10.0
"""Against 1 off the surface. On a Kinect scan with ragged borders 1000 (COLMAP's) spends so many vertices on them that
the surface is 15 % worse and the border itself no better."""
_WORTHWHILE = 0.01  # share of the vertices that must go before the queue is filled once more
_ROUNDING = 1e-3  # of float32 results, taken off the bound


def simplify(
    mesh: Mesh,
    *,
    vertices: int | None = None,
    faces: int | None = None,
    max_error: float | None = None,
    preserve_border: bool = True,
    track: Track = untracked,
) -> Mesh:
    """Collapse edges, those first that change the surface least, until a goal is reached.

    Topology stays: a manifold stays one, with the same pieces, handles and holes, and no piece vanishes, so that the
    result can be larger than asked for. No face turns over. Vertices move to where the sum of squared distances to
    the planes that they stand for is least; colours are interpolated along the edges. Vertices at edges with more
    than two faces stay. The same input gives the same bytes.

    Args:
        mesh: Any mesh; manifold for best results (`repair_non_manifold`).
        vertices: Stop at this many vertices.
        faces: Stop at this many faces.
        max_error: Leave out collapses after which a vertex of the mesh would be farther than this from the result, or a
            vertex or face centre of the result from the mesh, metres.
        preserve_border: Weigh movement away from a border ten times as much as off the surface, instead of as much.
        track: Progress.

    Raises:
        ValueError: No goal is given, or one is not positive.
    """
    goals = {"vertices": vertices, "faces": faces, "max_error": max_error}
    if all(goal is None for goal in goals.values()):
        raise ValueError("simplify needs a goal: vertices, faces or max_error")
    for name, goal in goals.items():
        if goal is not None and not goal > 0:
            raise ValueError(f"{name} must be positive, not {goal}")
    if not len(mesh.faces):
        return mesh
    run = _Run(mesh, vertices or 0, faces or 0, _BORDER_WEIGHT if preserve_border else 1.0, track)
    return run.collapse((1 - _ROUNDING) * max_error if max_error is not None else 0.0)


def deviation(before: Mesh, after: Mesh, samples: int | None = None, *, device: str = "cpu") -> tuple[float, float]:
    """Mean and largest distance between two surfaces, metres.

    Measured from the vertices of `before` to `after`, and from the vertices and face centres of `after` to `before`.

    Args:
        before: A mesh.
        after: Another.
        samples: Use at most so many points of each kind, evenly through their order; None uses all.
        device: Where to compute.
    """
    centres = after.vertices[after.faces].mean(axis=1, dtype=np.float64)
    there = [_thin_out(before.vertices, samples)]
    back = [_thin_out(after.vertices, samples), _thin_out(centres, samples)]
    distances = [index_surface(after, device=device).nearest(np.concatenate(there)).distances]
    distances.append(index_surface(before, device=device).nearest(np.concatenate(back)).distances)
    return float(np.mean([part.mean() for part in distances])), float(max(part.max() for part in distances))


def _thin_out(points: np.ndarray, count: int | None) -> np.ndarray:
    step = 1 if count is None else max(1, -(-len(points) // count))
    return points[::step].astype(np.float64)


@dataclasses.dataclass(frozen=True)
class _Run:
    mesh: Mesh
    vertices: int
    faces: int
    border_weight: float
    track: Track

    def collapse(self, bound: float) -> Mesh:
        """Collapse edges while the original vertices stay within `bound`, metres; 0 is no bound."""
        low, high = (
            extreme.astype(np.float64) for extreme in (self.mesh.vertices.min(axis=0), self.mesh.vertices.max(axis=0))
        )
        centre, scale = (low + high) / 2, float((high - low).max()) or 1.0
        surface = _surface(self.mesh, centre, scale, bound > 0)
        wp.launch(kernels.start, 1, inputs=[surface, _NORMAL_NOISE, self.border_weight], device="cpu")
        if bound > 0:
            surface.original_corner = wp.clone(surface.corner)
            surface.original_first = wp.clone(surface.first_corner)
            surface.original_next = wp.clone(surface.next_corner)
        state = surface.state.numpy()
        excess = max(int(state[slots.VERTICES]) - self.vertices, 1)
        for _ in self.track(self._chunks(surface, state, bound / scale), "simplifying", -(-excess // _CHUNK)):
            pass
        return _gather(self.mesh, surface, centre, scale)

    def _chunks(self, surface: Any, state: np.ndarray, bound: float) -> Iterator[int]:
        goal = 0
        while state[slots.STATUS] != slots.REACHED:
            if state[slots.STATUS] != slots.RUNNING:  # empty or full: queue all edges again while that helps
                if state[slots.COLLAPSES] < goal:
                    return
                goal = int(state[slots.COLLAPSES]) + 1 + int(_WORTHWHILE * state[slots.VERTICES])
                wp.launch(kernels.fill_queue, 1, inputs=[surface], device="cpu")
            wp.launch(kernels.collapse, 1, inputs=[surface, self.vertices, self.faces, bound, _CHUNK], device="cpu")
            yield int(state[slots.COLLAPSES])


def _surface(mesh: Mesh, centre: np.ndarray, scale: float, with_points: bool) -> Any:
    """Arrays of the collapse; positions relative to the middle of the mesh and in units of its size."""
    count = len(mesh.vertices)
    distinct = (mesh.faces != np.roll(mesh.faces, 1, axis=1)).all(axis=1)
    corners = mesh.faces[distinct].reshape(-1)
    used = np.zeros(count, bool)
    used[corners] = True
    surface = slots.Surface()

    def array(data: np.ndarray, dtype: Any) -> Any:
        return wp.array(np.ascontiguousarray(data), dtype=dtype, device="cpu")

    surface.position = array((mesh.vertices - centre) / scale, wp.vec3d)
    colors = mesh.colors if mesh.colors is not None else np.zeros((count, 3))
    surface.color = array(colors.astype(np.float32), wp.vec3f)
    surface.quadric = wp.zeros(count, dtype=Quadric, device="cpu")
    surface.version = array(np.where(used, 0, slots.DEAD), wp.int32)
    surface.kind = wp.zeros(count, dtype=wp.int32, device="cpu")
    surface.first_corner = wp.full(count, -1, dtype=wp.int32, device="cpu")
    surface.next_corner = wp.zeros(len(corners), dtype=wp.int32, device="cpu")
    surface.corner = array(corners, wp.int32)
    surface.mark = wp.zeros(count, dtype=wp.int32, device="cpu")
    surface.entry = wp.zeros(len(corners) + 4096, dtype=wp.vec4i, device="cpu")
    surface.head = wp.zeros(int(slots.BUCKETS), dtype=wp.int32, device="cpu")
    points = count if with_points else 0
    surface.original = array(surface.position.numpy()[:points], wp.vec3d)
    surface.first_point = array(np.arange(points), wp.int32)
    surface.next_point = array(np.full(points, -1), wp.int32)
    state = np.zeros(8, np.int32)
    state[slots.VERTICES] = used.sum()
    state[slots.FACES] = len(corners) // 3
    state[slots.STATUS] = slots.EMPTY_QUEUE
    surface.state = array(state, wp.int32)
    return surface


def _gather(mesh: Mesh, surface: Any, centre: np.ndarray, scale: float) -> Mesh:
    """The faces that are left, and their vertices in the order that they had."""
    faces = surface.corner.numpy().reshape(-1, 3)
    faces = faces[faces[:, 0] >= 0]
    used = np.zeros(len(mesh.vertices), bool)
    used[faces.ravel()] = True
    number = np.cumsum(used, dtype=np.int32) - np.int32(1)
    positions = (surface.position.numpy()[used] * scale + centre).astype(mesh.vertices.dtype)
    colors = None
    if mesh.colors is not None:
        colors = np.clip(np.rint(surface.color.numpy()[used]), 0, 255).astype(np.uint8)
    result = Mesh(positions, number[faces].astype(np.int32), colors=colors)
    return dataclasses.replace(result, normals=vertex_normals(result)) if mesh.normals is not None else result
