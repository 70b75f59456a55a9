"""The sparse volume: its record, what it costs in memory, and how much memory there is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import warp as wp
from jaxtyping import Float

BLOCK = 8
"""Voxels along each side of a block."""
BLOCK_VOXELS = BLOCK**3
VOXEL_BYTES = 18
"""Distance and weight, 4 each, before and behind a surface; directions and number of observations 2."""
COLOR_BYTES = 16
"""Red, green, blue and their weight, 4 each."""


@dataclass(frozen=True)
class Volume:
    """A truncated signed distance field in blocks of 8×8×8 voxels, on one device.

    Voxel `(i, j, k)` of the grid has its centre at `origin + voxel_size * (i, j, k)`. Inside a block the voxel
    `(x, y, z)` is stored at `x + 8 y + 64 z`. Distances and colours are kept as weighted sums.
    """

    voxel_size: float
    """Metres."""
    origin: Float[np.ndarray, "3"]
    """Position of voxel (0, 0, 0) in the world, metres, float64."""
    blocks: int
    """Blocks in use; the arrays may be longer."""
    keys: wp.array
    """int64, a packed block index per block."""
    front: wp.array
    """vec2f, 512 a block: sums of weight × (distance in metres, 1) over frames that saw the voxel before a surface."""
    back: wp.array
    """vec2f, 512 a block: the same of the frames that saw it behind one; distances are negative."""
    state: wp.array
    """uint16, 512 a block: bits 0 to 2, the direction (-x, +x, -y, +y, -z, +z) of the surface that the voxel was seen
    before, 3 to 5 the lead of that vote; 6 to 11 the same for behind; above, the number of observations, up to 15."""
    color: wp.array | None
    """vec4f, 512 a block: sums of weight × (r, g, b, 1) in 8-bit levels; None: the frames had no colour."""
    device: str

    @property
    def bytes(self) -> int:
        """Bytes of the blocks in use."""
        return volume_bytes(self.blocks, color=self.color is not None)


def volume_bytes(blocks: int, *, color: bool = True) -> int:
    """Bytes that a volume of this many blocks takes: 34 a voxel with colour, 18 without, and 36 a block."""
    return blocks * (BLOCK_VOXELS * (VOXEL_BYTES + (COLOR_BYTES if color else 0)) + 36)


def free_bytes(device: str) -> int:
    """Bytes of memory that are free on a device; a container's limit counts."""
    if device != "cpu":
        return int(wp.get_device(device).free_memory)
    free = _machine_free()
    limit, used = _cgroup_limit(Path("/sys/fs/cgroup"))
    return min(free, max(0, limit - used))


def _machine_free() -> int:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return 4 << 30  # Windows without a way to ask: a modest laptop


def _cgroup_limit(folder: Path) -> tuple[int, int]:
    """(limit, used) of the control group that the process runs in; no limit: a very large number."""
    try:
        limit = (folder / "memory.max").read_text(encoding="ascii").strip()
        used = (folder / "memory.current").read_text(encoding="ascii").strip()
        return (1 << 62 if limit == "max" else int(limit)), int(used)
    except (OSError, ValueError):
        return 1 << 62, 0
