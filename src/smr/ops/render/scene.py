"""Meshes on their way through the kernels that find what each pixel sees."""

from __future__ import annotations

from typing import Any

import torch
import warp as wp
from torch import Tensor

from ...render.drawing import LARGE_WARPS, PROJECT, draw_large, draw_small
from ...render.rasterize import Drawing, draw_on_cpu
from ..launches import Launcher
from ..tensors import as_warp, check_finite, check_indices, checks_values

_PROJECT = {torch.float32: Launcher(PROJECT[wp.float32]), torch.float64: Launcher(PROJECT[wp.float64])}
_DRAW_SMALL = Launcher(draw_small, block_dim=128, disjoint=False)
_DRAW_LARGE = Launcher(draw_large, block_dim=128, disjoint=False)


class Scene:
    """Projected vertices and faces of a batch of meshes, and room for what goes wrong with them."""

    def __init__(self, vertices: Tensor, camera: Tensor, rows: Tensor, per_image: int, view: Any) -> None:
        """Projects the vertices.

        Args:
            vertices: (B, V, 3), contiguous.
            camera: (1, 3, 3) or (B, 3, 3), contiguous.
            rows: Faces, int32, contiguous; all meshes' where `per_image` is negative.
            per_image: Faces of a mesh, negative where each mesh has its own.
            view: A View of the kernels.
        """
        self._images, self._count = vertices.shape[:2]
        self._device = vertices.device
        self._rows, self._per_image, self._view = rows, per_image, view
        self._pixels = self._images * view.width * view.height
        memory = torch.zeros(self._pixels + 2, dtype=torch.int64, device=self._device)
        self._zeros: Tensor | None = memory
        self._faults = memory[self._pixels + 1 :].view(torch.int32)
        self._points = torch.empty((self._images * self._count, 3), dtype=torch.float64, device=self._device)
        self._snapped = torch.empty((self._images * self._count, 3), dtype=torch.int32, device=self._device)
        arguments = (view, vertices, self._count, camera, self._points, self._snapped, self._faults)
        _PROJECT[vertices.dtype](self._images * self._count, *arguments, like=vertices)

    def draw(self, before: Tensor) -> Tensor:
        """Keys (see `smr.render.drawing`) of the nearest faces behind those of `before`, which may be empty."""
        if self._zeros is None:
            memory = torch.zeros(self._pixels + 2, dtype=torch.int64, device=self._device)
        else:
            memory, self._zeros = self._zeros, None
        keys = memory[: self._pixels]
        items = self._images * abs(self._per_image)
        if items == 0 or self._count == 0:
            if items:
                self._faults[1] = 1
            return keys
        if _in_bands(self._device):
            draw_on_cpu(self._drawing(), _keys(before), _keys(keys))
            return keys
        large = torch.empty(items, dtype=torch.int32, device=self._device)
        start = torch.empty(items, dtype=torch.int64, device=self._device)
        counter = memory[self._pixels :][:1]
        most_tiles = Drawing.most_tiles_of(items)
        faces = (self._count, self._rows, self._per_image, most_tiles, before)
        seen = (self._view, self._snapped)
        _DRAW_SMALL(items, *seen, *faces, keys, counter, large, start, self._faults, like=keys)
        _DRAW_LARGE(32 * LARGE_WARPS, *seen, self._points, *faces, counter, large, start, keys, like=keys)
        return keys

    def _drawing(self) -> Drawing:
        snapped, points = as_warp(self._snapped, wp.vec3i), as_warp(self._points, wp.vec3d)
        rows, faults = as_warp(self._rows, wp.vec3i), as_warp(self._faults)
        return Drawing(self._view, self._images, snapped, points, self._count, rows, self._per_image, faults)

    def watch(self) -> tuple[Tensor, Any] | None:
        """Begin to bring the faults to the host; None where values are not checked (or cannot be, in a CUDA graph)."""
        if not checks_values():
            return None
        if self._device.type == "cpu":
            return self._faults, None
        if torch.cuda.is_current_stream_capturing():
            return None
        host = torch.empty(2, dtype=torch.int32, pin_memory=True)
        host.copy_(self._faults, non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record(torch.cuda.current_stream(self._device))
        return host, arrived

    @staticmethod
    def raise_faults(watched: tuple[Tensor, Any] | None, vertices: Tensor, camera: Tensor, faces: Tensor) -> None:
        """Wait for what `watch` brings, not for the work after it, and raise ValueError where something is wrong."""
        if watched is None:
            return
        host, arrived = watched
        if arrived is not None:
            arrived.synchronize()
        bad_vertex, bad_index = host.tolist()
        if bad_vertex:
            check_finite("camera", camera)
            check_finite("vertices", vertices)
            raise ValueError("vertices and camera together are too large to be projected")
        if bad_index:
            check_indices("faces", faces, vertices.shape[1])


def _in_bands(device: torch.device) -> bool:
    """Whether faces are sorted into bands of rows for the cores of a CPU; else a GPU's way, which any device can go."""
    return device.type == "cpu"


def _keys(tensor: Tensor) -> wp.array:
    return as_warp(tensor, wp.uint64)
