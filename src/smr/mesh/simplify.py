"""Simplification by edge collapse with quadric errors (Garland, Heckbert 1997)."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator

import numpy as np
import warp as wp

from ..progress import Track, untracked
from ..records import Mesh
from .distance import index_surface
from .edge_collapse import kernels
from .edge_collapse import state as slots
from .edge_collapse.parts import Work, start_work, take_part
from .edge_collapse.regions import collapse_regions
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
    than two faces stay. Regions of a large mesh are collapsed in parallel as far as one queue for all would surely go
    (not with `max_error`); the same input gives the same bytes, on however many cores.

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
        mesh = self.mesh
        color = np.zeros((len(mesh.vertices), 3)) if mesh.colors is None else mesh.colors
        work = start_work(
            (mesh.vertices - centre) / scale, color.astype(np.float32), mesh.faces, _NORMAL_NOISE, self.border_weight
        )
        count = int(np.bincount(work.faces.ravel(), minlength=1).astype(bool).sum())
        share = max(self.vertices / max(count, 1), self.faces / max(len(work.faces), 1))
        excess = max(int((1 - share) * count), 1)
        for _ in self.track(self._chunks(work, share, bound / scale), "simplifying", -(-excess // _CHUNK)):
            pass
        return _gather(self.mesh, work, centre, scale)

    def _chunks(self, work: Work, share: float, bound: float) -> Iterator[int]:
        """Collapse regions in parallel, then the whole; yield after every `_CHUNK` collapses."""
        reported = 0
        for done in collapse_regions(work, share) if bound == 0 else ():
            yield from range(reported, done // _CHUNK)
            reported = done // _CHUNK
        part = take_part(work, work.faces, points=bound > 0)
        state = part.state
        goal = 0
        while state[slots.STATUS] != slots.REACHED:
            if state[slots.STATUS] != slots.RUNNING:  # empty or full: queue all edges again while that helps
                if state[slots.COLLAPSES] < goal:
                    break
                goal = int(state[slots.COLLAPSES]) + 1 + int(_WORTHWHILE * state[slots.VERTICES])
                wp.launch(kernels.fill_queue, 1, inputs=[part.surface], device="cpu")
            inputs = [part.surface, self.vertices, self.faces, slots.BUCKETS, bound, _CHUNK]
            wp.launch(kernels.collapse, 1, inputs=inputs, device="cpu")
            yield int(state[slots.COLLAPSES])
        work.faces = part.put_back(work)


def _gather(mesh: Mesh, work: Work, centre: np.ndarray, scale: float) -> Mesh:
    """The faces that are left, and their vertices in the order that they had."""
    used = np.zeros(len(mesh.vertices), bool)
    used[work.faces.ravel()] = True
    number = np.cumsum(used, dtype=np.int32) - np.int32(1)
    positions = (work.position[used] * scale + centre).astype(mesh.vertices.dtype)
    colors = None
    if mesh.colors is not None:
        colors = np.clip(np.rint(work.color[used]), 0, 255).astype(np.uint8)
    result = Mesh(positions, number[work.faces], colors=colors)
    return dataclasses.replace(result, normals=vertex_normals(result)) if mesh.normals is not None else result
