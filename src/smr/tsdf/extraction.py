"""The surface of a volume."""

from __future__ import annotations

from typing import no_type_check

import numpy as np
import warp as wp

from ..arrays import launch_chunked
from ..config import FusionConfig
from ..errors import SmrError
from ..progress import Track, step, untracked
from ..records import Mesh
from .marching_cubes import UNSEEN, BlockGrid, polygonize
from .volume import BLOCK_VOXELS, Volume

wp.set_module_options({"enable_backward": False})

_UNSEEN = wp.constant(UNSEEN)
_LEAD = wp.constant(3)  # votes by which a direction must lead before it is believed


@wp.func
@no_type_check
def _distance(front: wp.vec2f, back: wp.vec2f, state: int, voxel: float) -> float:
    """Signed distance of a voxel that was seen, perhaps before one surface and behind another.

    The mean, as a rule. But if the two look in opposite directions, the voxel lies before one side of something thin
    and behind the other. If its thickness t is less than a voxel, the sides are set a voxel apart about their middle,
    lest no voxel is inside: with p before one side and p + t behind the other, the distance is p - (voxel - t) / 2.
    """
    value = (front[0] + back[0]) / (front[1] + back[1])
    sure = ((state >> 3) & 7) >= _LEAD and ((state >> 9) & 7) >= _LEAD
    opposite = (state & 7) == (((state >> 6) & 7) ^ 1)
    if sure and opposite and front[1] > 0.0 and back[1] > 0.0:
        before = front[0] / front[1]
        behind = -back[0] / back[1]
        value = wp.min(before, 0.5 * (before + behind - voxel))
    return value


@wp.kernel(enable_backward=False)
@no_type_check
def _gather_values(
    base: int,
    order: wp.array(dtype=wp.int32),
    front: wp.array(dtype=wp.vec2f),
    back: wp.array(dtype=wp.vec2f),
    state: wp.array(dtype=wp.uint16),
    least: int,
    voxel: float,
    values: wp.array(dtype=wp.float32),
):
    """Distances, in the order of the keys; a kernel item is 8 voxels."""
    item = base + wp.tid()
    start = order[item >> 6] * 512 + (item & 63) * 8
    for k in range(8):
        value = float(_UNSEEN)
        bits = int(state[start + k])
        if front[start + k][1] + back[start + k][1] > 0.0 and (bits >> 12) >= least:
            value = _distance(front[start + k], back[start + k], bits, voxel)
        values[item * 8 + k] = value


def extract_mesh(volume: Volume, config: FusionConfig, *, track: Track = untracked) -> Mesh:
    """Mesh of the surface in a volume.

    Args:
        volume: What `fuse` made.
        config: `min_observations` frames must have measured all eight corners of a cell.
        track: Progress.

    Returns:
        A mesh in the world frame, with unit normals and, if the frames had photos, colours. Every edge has two faces,
        except at the border of what was seen. The same volume gives the same bytes, however its frames were batched.

    Raises:
        SmrError: There is no surface in the volume.
    """
    keys = volume.keys[: volume.blocks].numpy() if volume.blocks else np.zeros(0, np.int64)
    order = np.argsort(keys)
    device = volume.device
    mesh = None
    if len(keys):
        with step(track, "Extracting the surface"):
            order_d = wp.array(order.astype(np.int32), dtype=wp.int32, device=device)
            values = wp.empty(len(keys) * BLOCK_VOXELS, dtype=wp.float32, device=device)
            inputs = [order_d, volume.front, volume.back, volume.state, config.min_observations, volume.voxel_size]
            launch_chunked(_gather_values, len(keys) * 64, inputs, outputs=[values], device=device)
            grid = BlockGrid(wp.array(keys[order], dtype=wp.int64, device=device), values, volume.color, order_d)
            mesh = polygonize(grid, volume.origin, np.full(3, volume.voxel_size), device=device)
    if mesh is None or len(mesh.faces) == 0:
        raise SmrError(
            f"The fused volume ({volume.blocks} blocks at {volume.voxel_size:g} m) holds no surface.",
            "Check with `smr inspect` that the frames have depth within the depth range, and that the scale is right.",
        )
    return mesh
