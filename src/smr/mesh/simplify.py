"""Simplification by edge collapse with quadric errors (Garland, Heckbert 1997)."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

import numpy as np
import warp as wp

from ..progress import Track, untracked
from ..records import Mesh
from . import collapse as kernels
from .normals import vertex_normals

log = logging.getLogger(__name__)

_CHUNK = 50_000  # collapses between two reports of progress: about a third of a second
NOISE = 3e-3
BORDER_WEIGHT = 1000.0


def simplify(
    mesh: Mesh,
    *,
    vertices: int | None = None,
    faces: int | None = None,
    max_error: float | None = None,
    preserve_border: bool = True,
    track: Track = untracked,
) -> Mesh:
    """Collapse edges."""
    if vertices is None and faces is None and max_error is None:
        raise ValueError("simplify needs a goal: vertices, faces or max_error")
    surface, centre, scale = _surface(mesh)
    wp.launch(kernels.start, 1, inputs=[surface, NOISE, BORDER_WEIGHT if preserve_border else 1.0], device="cpu")
    wp.launch(kernels.fill_queue, 1, inputs=[surface], device="cpu")
    state = surface.state.numpy()
    queued_at = -1
    while state[kernels.STATUS] != kernels.REACHED:
        if state[kernels.STATUS] != kernels.RUNNING:
            if state[kernels.COLLAPSES] == queued_at:
                break
            queued_at = int(state[kernels.COLLAPSES])
            wp.launch(kernels.fill_queue, 1, inputs=[surface], device="cpu")
        wp.launch(kernels.collapse, 1, inputs=[surface, vertices or 0, faces or 0, _CHUNK], device="cpu")
    log.debug("%d collapses, %d put off", state[kernels.COLLAPSES], state[7])
    return _gather(mesh, surface, centre, scale)


def _surface(mesh: Mesh) -> tuple[Any, np.ndarray, float]:
    """Arrays of the collapse; positions relative to the middle of the mesh and in units of its size."""
    low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
    centre = low + (high - low) / 2
    scale = float((high - low).max()) or 1.0
    count, corners = len(mesh.vertices), mesh.faces.reshape(-1)
    surface = kernels.Surface()

    def array(data: np.ndarray, dtype: Any) -> Any:
        return wp.array(np.ascontiguousarray(data), dtype=dtype, device="cpu")

    surface.position = array((mesh.vertices.astype(np.float64) - centre) / scale, wp.vec3d)
    colors = mesh.colors if mesh.colors is not None else np.zeros((count, 3))
    surface.color = array(colors.astype(np.float32), wp.vec3f)
    surface.quadric = wp.zeros(count, dtype=kernels.Quadric, device="cpu")
    surface.version = wp.zeros(count, dtype=wp.int32, device="cpu")
    surface.kind = wp.zeros(count, dtype=wp.int32, device="cpu")
    surface.first_corner = wp.full(count, -1, dtype=wp.int32, device="cpu")
    surface.next_corner = wp.zeros(len(corners), dtype=wp.int32, device="cpu")
    surface.corner = array(corners, wp.int32)
    surface.mark = wp.zeros(count, dtype=wp.int32, device="cpu")
    surface.entry = wp.zeros(len(corners) + 4096, dtype=wp.vec4i, device="cpu")
    surface.head = wp.zeros(int(kernels.BUCKETS), dtype=wp.int32, device="cpu")
    state = np.zeros(8, np.int32)
    state[kernels.VERTICES] = len(np.unique(corners))
    state[kernels.FACES] = len(mesh.faces)
    surface.state = array(state, wp.int32)
    return surface, centre, scale


def _gather(mesh: Mesh, surface: Any, centre: np.ndarray, scale: float) -> Mesh:
    faces = surface.corner.numpy().reshape(-1, 3)
    faces = faces[faces[:, 0] >= 0]
    used = np.zeros(len(mesh.vertices), bool)
    used[faces.ravel()] = True
    number = np.cumsum(used, dtype=np.int32) - 1
    positions = (surface.position.numpy()[used] * scale + centre).astype(mesh.vertices.dtype)
    colors = None
    if mesh.colors is not None:
        colors = np.clip(np.rint(surface.color.numpy()[used]), 0, 255).astype(np.uint8)
    result = Mesh(positions, number[faces].astype(np.int32), colors=colors)
    return dataclasses.replace(result, normals=vertex_normals(result)) if mesh.normals is not None else result
