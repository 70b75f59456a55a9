"""Fuses decoded frames with Open3D's VoxelBlockGrid. Run by accuracy.py with the Python of Open3D's own environment.

python open3d_fuse.py FRAMES.npz MESH.npz VOXEL TRUNCATION_VOXELS DEPTH_MAX SHIFT_PX
"""

from __future__ import annotations

import sys
import time

import numpy as np
import open3d as o3d
import open3d.core as o3c


def main() -> None:
    source, out = sys.argv[1:3]
    voxel, truncation, depth_max, shift = map(float, sys.argv[3:])
    frames = np.load(source)
    device = o3c.Device("CPU:0")
    grid = o3d.t.geometry.VoxelBlockGrid(
        attr_names=("tsdf", "weight", "color"),
        attr_dtypes=(o3c.float32, o3c.float32, o3c.float32),
        attr_channels=((1), (1), (3)),
        voxel_size=voxel,
        block_resolution=16,
        block_count=20000,
        device=device,
    )
    began = time.process_time()
    for depth, color, K, world_from_camera in zip(
        frames["depth"], frames["color"], frames["K"], frames["world_from_camera"], strict=True
    ):
        shifted = K.copy()
        shifted[:2, 2] += shift
        intrinsic, extrinsic = o3c.Tensor(shifted), o3c.Tensor(np.linalg.inv(world_from_camera))
        image = o3d.t.geometry.Image(np.ascontiguousarray(depth))
        photo = o3d.t.geometry.Image(np.ascontiguousarray(color).astype(np.float32))
        blocks = grid.compute_unique_block_coordinates(image, intrinsic, extrinsic, 1.0, depth_max, truncation)
        grid.integrate(blocks, image, photo, intrinsic, intrinsic, extrinsic, 1.0, depth_max, truncation)
    mesh = grid.extract_triangle_mesh(weight_threshold=1.0)
    seconds = time.process_time() - began
    np.savez(
        out,
        vertices=mesh.vertex.positions.numpy(),
        faces=mesh.triangle.indices.numpy().astype(np.int32),
        cpu_s=seconds,
        version=o3d.__version__,
    )


if __name__ == "__main__":
    main()
