"""Meshes on their way through the kernels that find what each pixel sees."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import torch
import warp as wp
from torch import Tensor

from ...render.drawing import LARGE_WARPS, PROJECT, draw_large, draw_small
from ...render.rasterize import Drawing, draw_on_cpu
from ..launches import Launcher, Part
from ..tensors import as_warp, check_finite, check_indices, checks_values

_PROJECT = {torch.float32: Launcher(PROJECT[wp.float32]), torch.float64: Launcher(PROJECT[wp.float64])}
_DRAW_SMALL = Launcher(draw_small, block_dim=128, disjoint=False)
_DRAW_LARGE = Launcher(draw_large, block_dim=128, disjoint=False)
_NOTHING = Part(0, 0)


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
        self._items = self._images * abs(per_image)
        self._zeros: Tensor | None = torch.zeros(self._pixels + 2, dtype=torch.int64, device=self._device)
        # one allocation: points (24 bytes), places of large faces (8), snapped points (12), large faces (4)
        corners = self._images * self._count
        self._room = torch.empty(5 * corners + (3 * self._items + 1) // 2, dtype=torch.int64, device=self._device)
        begin = self._room.data_ptr()
        self._points = Part(begin, 3 * corners)
        self._start = Part(begin + 24 * corners, self._items)
        self._snapped = Part(self._start.pointer + 8 * self._items, 3 * corners)
        self._large = Part(self._snapped.pointer + 12 * corners, self._items)
        self._alarm = _alarm(self._device)
        self._faults = self._alarm.room if self._alarm else Part(self._zeros.data_ptr() + 8 * self._pixels + 8, 2)
        arguments = (view, vertices, self._count, camera, self._points, self._snapped, self._faults)
        _PROJECT[vertices.dtype](corners, *arguments, like=vertices)

    def draw(self, before: Tensor | None) -> Tensor:
        """Keys (see `smr.render.drawing`) of the nearest faces, behind those of `before` if that is given."""
        memory, self._zeros = self._zeros, None
        if memory is None:
            memory = torch.zeros(self._pixels + 2, dtype=torch.int64, device=self._device)
        keys = memory[: self._pixels]
        if self._items == 0 or self._count == 0:
            return keys
        if _in_bands(self._device):
            draw_on_cpu(self._drawing(), _keys(keys[:0] if before is None else before), _keys(keys))
            return keys
        counter = Part(memory.data_ptr() + 8 * self._pixels, 1)
        most_tiles = Drawing.most_tiles_of(self._items)
        behind = _NOTHING if before is None else before
        faces = (self._count, self._rows, self._per_image, most_tiles, behind)
        seen = (self._view, self._snapped)
        _DRAW_SMALL(self._items, *seen, *faces, keys, counter, self._large, self._start, self._faults, like=keys)
        last = (counter, self._large, self._start, keys)
        _DRAW_LARGE(32 * LARGE_WARPS, *seen, self._points, *faces, *last, like=keys)
        return keys

    def _drawing(self) -> Drawing:
        snapped, points = _array(self._snapped, wp.vec3i), _array(self._points, wp.vec3d)
        rows, faults = as_warp(self._rows, wp.vec3i), _array(self._faults, wp.int32)
        return Drawing(self._view, self._images, snapped, points, self._count, rows, self._per_image, faults)

    def watch(self) -> None:
        """Mark the place in the stream's work where all faults will have been found."""
        if self._alarm is not None:
            self._alarm.arm()

    def raise_faults(self, vertices: Tensor, camera: Tensor, faces: Tensor) -> None:
        """Wait until that place is reached, not for the work after it, and raise ValueError where something is wrong.

        Nothing is raised where values are not checked, or cannot be, in a CUDA graph.
        """
        if self._alarm is None:
            return
        bad_vertex, bad_index = self._alarm.wait()
        if bad_vertex:
            check_finite("camera", camera)
            check_finite("vertices", vertices)
            raise ValueError("vertices and camera together are too large to be projected")
        if bad_index or (self._items and not self._count):
            check_indices("faces", faces, vertices.shape[1])


class _Alarm:
    """Two numbers in the host's memory that kernels of one thread set where something is wrong: nothing is copied."""

    def __init__(self, device: torch.device) -> None:
        on_gpu = device.type == "cuda"
        self._device = device
        self._memory = torch.zeros(2, dtype=torch.int32, pin_memory=on_gpu)
        self._event = torch.cuda.Event() if on_gpu else None
        self._numbers = (ctypes.c_int32 * 2).from_address(self._memory.data_ptr())
        self.room = Part(self._memory.data_ptr(), 2)

    def clear(self) -> None:
        self._numbers[0] = self._numbers[1] = 0

    def arm(self) -> None:
        if self._event is not None:
            self._event.record(torch.cuda.current_stream(self._device))

    def wait(self) -> tuple[int, int]:
        if self._event is not None:
            self._event.synchronize()
        return self._numbers[0], self._numbers[1]


class _Alarms(threading.local):
    def __init__(self) -> None:
        self.of_device: dict[torch.device, _Alarm] = {}


_ALARMS = _Alarms()


def _alarm(device: torch.device) -> _Alarm | None:
    """This thread's, cleared; None where values are not checked, or cannot be."""
    if not checks_values() or (device.type == "cuda" and torch.cuda.is_current_stream_capturing()):
        return None
    alarm = _ALARMS.of_device.get(device)
    if alarm is None:
        alarm = _ALARMS.of_device[device] = _Alarm(device)
    alarm.clear()
    return alarm


def _in_bands(device: torch.device) -> bool:
    """Whether faces are sorted into bands of rows for the cores of a CPU; else a GPU's way, which any device can go."""
    return device.type == "cpu"


def _keys(tensor: Tensor) -> wp.array:
    return as_warp(tensor, wp.uint64)


def _array(part: Part, dtype: Any) -> wp.array:
    """A Warp array on the CPU."""
    shape = part.numbers // (3 if dtype != wp.int32 else 1)
    return wp.array(ptr=part.pointer or None, shape=shape, dtype=dtype, device="cpu")
