"""The mesh between two collapses as plain arrays, and parts of it made ready for the kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp
from jaxtyping import Bool, Float32, Float64, Int, Int32

from ...arrays import launch_chunked
from ..half_edges import group_half_edges, sort_by_bucket
from . import kernels
from . import state as slots
from .quadric import Quadric


@dataclass
class Work:
    """A mesh under collapse. What a vertex carries is updated in place; `faces` become fewer."""

    position: Float64[np.ndarray, "V 3"]
    """Relative to the middle of the mesh and in units of its size."""
    color: Float32[np.ndarray, "V 3"]
    quadric: Float64[np.ndarray, "V 11"]
    kind: Int32[np.ndarray, " V"]
    """`INTERIOR`, `BORDER` or `LOCKED`."""
    faces: Int32[np.ndarray, "F 3"]


def start_work(
    position: Float64[np.ndarray, "V 3"], color: Float32[np.ndarray, "V 3"], faces: Int32[np.ndarray, "F 3"],
    noise: float, border_weight: float,
) -> Work:  # fmt: skip
    """Find borders, and sum the quadrics of the planes around each vertex."""
    faces = np.ascontiguousarray(faces[(faces != np.roll(faces, 1, axis=1)).all(axis=1)])
    count = len(position)
    start, order = sort_by_bucket(faces.reshape(-1), count)
    edge_faces = group_half_edges(faces, count).counts
    inputs = [_ints(part) for part in (faces.reshape(-1), start, order, edge_faces)]
    kind = wp.zeros(count, dtype=wp.int32, device="cpu")
    quadric = wp.zeros(count, dtype=Quadric, device="cpu")
    launch_chunked(
        kernels.measure, count, [*inputs, wp.array(position, dtype=wp.vec3d, device="cpu"), noise, border_weight],
        outputs=[kind, quadric], device="cpu",
    )  # fmt: skip
    return Work(position, color, quadric.numpy(), kind.numpy(), faces)


@dataclass(frozen=True)
class Part:
    """Some of the faces, with arrays of their own that the kernels change."""

    surface: Any
    vertices: Int[np.ndarray, " W"]
    """The work's vertices that the part's are."""
    held: Bool[np.ndarray, " W"]
    """Vertices that other faces use as well; the part leaves them where they are."""

    @property
    def state(self) -> Int32[np.ndarray, " 8"]:
        """The kernels' own numbers; writable."""
        numbers: np.ndarray = self.surface.state.numpy()
        return numbers

    def put_back(self, work: Work) -> Int32[np.ndarray, "G 3"]:
        """Write the vertices back; the faces that are left, in the work's numbers."""
        own = ~self.held
        for ours, theirs in (
            (self.surface.position, work.position),
            (self.surface.color, work.color),
            (self.surface.quadric, work.quadric),
            (self.surface.kind, work.kind),
        ):
            theirs[self.vertices[own]] = ours.numpy()[own]
        faces = self.surface.corner.numpy().reshape(-1, 3)
        left: np.ndarray = self.vertices[faces[faces[:, 0] >= 0]].astype(np.int32)
        return left


def take_part(
    work: Work, faces: Int32[np.ndarray, "G 3"], shared: Bool[np.ndarray, " V"] | None = None, *, points: bool = False
) -> Part:
    """Copy some faces and their vertices, with an empty queue.

    Args:
        work: The whole.
        faces: The part's faces.
        shared: Vertices that other parts use as well.
        points: Keep the original places, so that a bound can be checked.
    """
    used = np.zeros(len(work.position), bool)
    used[faces.reshape(-1)] = True
    vertices = np.flatnonzero(used)
    number = np.cumsum(used, dtype=np.int32) - np.int32(1)
    corners = number[faces.reshape(-1)]
    held = shared[vertices] if shared is not None else np.zeros(len(vertices), bool)
    count = len(vertices)
    surface = slots.Surface()
    surface.position = wp.array(work.position[vertices], dtype=wp.vec3d, device="cpu")
    surface.color = wp.array(work.color[vertices], dtype=wp.vec3f, device="cpu")
    surface.quadric = wp.array(work.quadric[vertices], dtype=Quadric, device="cpu")
    surface.kind = _ints(np.where(held, slots.LOCKED, work.kind[vertices]))
    surface.version = wp.zeros(count, dtype=wp.int32, device="cpu")
    surface.first_corner = wp.full(count, -1, dtype=wp.int32, device="cpu")
    surface.next_corner = wp.zeros(len(corners), dtype=wp.int32, device="cpu")
    surface.corner = _ints(corners)
    surface.mark = wp.zeros(count, dtype=wp.int32, device="cpu")
    surface.entry = wp.empty(len(corners) + 4096, dtype=wp.vec4i, device="cpu")
    surface.head = wp.empty(int(slots.BUCKETS), dtype=wp.int32, device="cpu")
    state = np.zeros(8, np.int32)
    state[slots.VERTICES] = count
    state[slots.FACES] = len(faces)
    state[slots.STATUS] = slots.EMPTY_QUEUE
    surface.state = _ints(state)
    wp.launch(kernels.link, 1, inputs=[surface], device="cpu")
    _keep_points(surface, count if points else 0)
    return Part(surface, vertices, held)


def _keep_points(surface: Any, points: int) -> None:
    """Remember the original faces and places, each listed at the vertex that stands for it."""
    surface.original = wp.array(surface.position.numpy()[:points], dtype=wp.vec3d, device="cpu")
    surface.first_point = _ints(np.arange(points))
    surface.next_point = _ints(np.full(points, -1))
    if points:
        surface.original_corner = wp.clone(surface.corner)
        surface.original_first = wp.clone(surface.first_corner)
        surface.original_next = wp.clone(surface.next_corner)


def _ints(values: np.ndarray) -> wp.array:
    return wp.array(values, dtype=wp.int32, device="cpu")
