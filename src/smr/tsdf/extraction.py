"""The surface of a volume."""

from __future__ import annotations

from typing import no_type_check

import numpy as np
import warp as wp

from ..arrays import launch_chunked
from ..config import FusionConfig
from ..errors import SmrError
from ..records import Mesh
from .marching_cubes import UNSEEN, BlockGrid, polygonize
from .volume import BLOCK_VOXELS, Volume

wp.set_module_options({"enable_backward": False})

_UNSEEN = wp.constant(UNSEEN)


@wp.kernel(enable_backward=False)
@no_type_check
def _gather_values(
    base: int,
    order: wp.array(dtype=wp.int32),
    distance: wp.array(dtype=wp.float32),
    weight: wp.array(dtype=wp.float32),
    count: wp.array(dtype=wp.uint8),
    least: int,
    values: wp.array(dtype=wp.float32),
):
    """Mean distances, in the order of the keys; a kernel item is 8 voxels."""
    item = base + wp.tid()
    start = order[item >> 6] * 512 + (item & 63) * 8
    for k in range(8):
        value = float(_UNSEEN)
        if weight[start + k] > 0.0 and int(count[start + k]) >= least:
            value = distance[start + k] / weight[start + k]
        values[item * 8 + k] = value


def extract_mesh(volume: Volume, config: FusionConfig) -> Mesh:
    """Mesh of the surface in a volume.

    Args:
        volume: What `fuse` made.
        config: `min_observations` frames must have measured all eight corners of a cell.

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
        order_d = wp.array(order.astype(np.int32), dtype=wp.int32, device=device)
        values = wp.empty(len(keys) * BLOCK_VOXELS, dtype=wp.float32, device=device)
        inputs = [order_d, volume.distance, volume.weight, volume.count, config.min_observations]
        launch_chunked(_gather_values, len(keys) * 64, inputs, outputs=[values], device=device)
        grid = BlockGrid(wp.array(keys[order], dtype=wp.int64, device=device), values, volume.color, order_d)
        mesh = polygonize(grid, volume.origin, np.full(3, volume.voxel_size), device=device)
    if mesh is None or len(mesh.faces) == 0:
        raise SmrError(
            f"The fused volume ({volume.blocks} blocks at {volume.voxel_size:g} m) holds no surface.",
            "Check with `smr inspect` that the frames have depth within the depth range, and that the scale is right.",
        )
    return mesh
