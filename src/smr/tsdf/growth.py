"""A volume while it is filled: it grows with the blocks, within a budget of memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import warp as wp
from jaxtyping import Float

from ..errors import SmrError
from .blocks import BlockTable
from .volume import BLOCK_VOXELS, Volume, free_bytes, volume_bytes

FIRST_BLOCKS = 16384
"""Room that is made at first; on the CPU it costs memory only as it fills."""


class GrowingVolume:
    """Block table and voxels; see `Volume` for the arrays."""

    def __init__(self, voxel: float, origin: Float[np.ndarray, "3"], memory: float | None, device: str) -> None:
        """Make an empty volume that may use `memory` gigabytes, or half of what is free."""
        self.voxel = voxel
        self.origin = origin
        self.device = device
        self.budget = int(memory * 1e9) if memory is not None else free_bytes(device) // 2
        self.table = BlockTable(device)
        self.has_color = False
        self.capacity = 0
        self.front = wp.zeros(0, dtype=wp.vec2f, device=device)
        self.back = wp.zeros(0, dtype=wp.vec2f, device=device)
        self.state = wp.zeros(0, dtype=wp.uint16, device=device)
        self.color = wp.zeros(0, dtype=wp.vec4f, device=device)

    def add_color(self) -> None:
        """From now on voxels have colour."""
        if not self.has_color:
            self.has_color = True
            self._lengthen("color", self.capacity)

    def reserve(self, frames: int, total: int | None) -> None:
        """Make room for all blocks of the table after `frames` of `total` frames.

        Raises:
            SmrError: They do not fit into the budget.
        """
        blocks = self.table.count
        most = self.budget // volume_bytes(1, color=self.has_color)
        if blocks > most:
            self._refuse(blocks, most, frames, max(total or frames, frames))
        if blocks > self.capacity:
            self.capacity = min(most, max(2 * blocks, FIRST_BLOCKS))
            for name in ("front", "back", "state", "color"):
                if name != "color" or self.has_color:
                    self._lengthen(name, self.capacity)

    def _refuse(self, blocks: int, most: int, frames: int, total: int) -> None:
        # The surface seen grows at most as the frames do, its blocks about as 1 / voxel size squared.
        fits = self.voxel * (1.3 * blocks / max(most, 1) * total / frames) ** 0.5
        needed = volume_bytes(blocks, color=self.has_color) / 1e9
        raise SmrError(
            f"The volume takes {needed:.3g} GB after {frames} of {total} frames at a voxel size of {self.voxel:g} m; "
            f"{self.budget / 1e9:.3g} GB may be used.",
            f"Use --voxel-size {_round_up(fits):g} or larger, a smaller --depth-max, or allow more with --memory.",
        )

    def _lengthen(self, name: str, capacity: int) -> None:
        """One array at a time, so that only one is there twice."""
        old = getattr(self, name)
        longer = _zeros(capacity * BLOCK_VOXELS, old.dtype, self.device)
        if old.shape[0]:
            wp.copy(longer, old, count=old.shape[0])
        setattr(self, name, longer)

    def record(self) -> Volume:
        """What was fused so far."""
        return Volume(
            voxel_size=self.voxel,
            origin=self.origin,
            blocks=self.table.count,
            keys=self.table.keys,
            front=self.front,
            back=self.back,
            state=self.state,
            color=self.color if self.has_color else None,
            device=self.device,
        )


def _zeros(size: int, dtype: Any, device: str) -> wp.array:
    """Zeros; on the CPU as memory that is taken only when it is written to."""
    if device != "cpu":
        return wp.zeros(size, dtype=dtype, device=device)
    if dtype is wp.uint16:
        values = np.zeros(size, np.uint16)
    else:
        values = np.zeros((size, wp.types.type_size_in_bytes(dtype) // 4), np.float32)
    array = wp.array(values, dtype=dtype, device="cpu", copy=False)
    assert array.shape == (size,)
    return array


def _round_up(value: float) -> float:
    """To two significant digits."""
    step = 10.0 ** (np.floor(np.log10(value)) - 1)
    return float(np.ceil(value / step) * step)
