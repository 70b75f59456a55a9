"""The peer of `fusion.py`: Open3D's VoxelBlockGrid on the same decoded frames. Prints JSON lines.

Run it with a Python that has open3d (and this package's NumPy and Pillow); it does not import smr.

    OMP_NUM_THREADS=2 python benchmarks/fusion_open3d.py --set seven_scenes --voxel 0.01 --out mesh.npz
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import open3d as o3d
from PIL import Image

DATA = Path(os.environ.get("SMR_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))


def load(name: str) -> tuple[list, np.ndarray, float, float]:
    """(depth, color, world_from_camera) of each frame; K with the first pixel's centre at 0.5, which is better here."""
    folder = DATA / name
    if name == "seven_scenes":
        files = [str(path) for path in sorted(folder.glob("*.pose.txt"))]
        parts = [(f.replace("pose.txt", "depth.png"), f.replace("pose.txt", "color.jpg"), np.loadtxt(f)) for f in files]
        K = np.array([[585, 0, 320.5], [0, 585, 240.5], [0, 0, 1]])
        return [_decode(*part) for part in parts], K, 1000.0, 6.0
    meta = json.loads((folder / "cameras.json").read_text())
    K = np.array([[meta["fx"], 0, meta["cx"] + 0.5], [0, meta["fy"], meta["cy"] + 0.5], [0, 0, 1]])
    parts = [(folder / f["depth"], folder / f["color"], np.array(f["camera_to_world"])) for f in meta["frames"]]
    return [_decode(*part) for part in parts], K, float(meta["depth_scale"]), 3.0


def _decode(depth: Path | str, color: Path | str, pose: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rgb = np.asarray(Image.open(color).convert("RGB")).astype(np.float32) / 255
    return np.asarray(Image.open(depth)).astype(np.float32), rgb, pose


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", default="seven_scenes")
    parser.add_argument("--voxel", type=float, default=0.01)
    parser.add_argument("--blocks", type=int, default=15000)
    parser.add_argument("--weight", type=float, default=3.0, help="Open3D's own default; 1 keeps more")
    parser.add_argument("--out", help="npz file for the mesh")
    args = parser.parse_args()
    frames, K, scale, depth_max = load(args.set)
    f32, core = o3d.core.float32, o3d.core
    device = core.Device("CPU:0")
    grid = o3d.t.geometry.VoxelBlockGrid(
        ("tsdf", "weight", "color"), (f32, f32, f32), ((1), (1), (3)), args.voxel, 16, args.blocks, device
    )
    intrinsic = core.Tensor(K)
    start = time.process_time()
    for depth, color, pose in frames:
        image, photo = o3d.t.geometry.Image(core.Tensor(depth)), o3d.t.geometry.Image(core.Tensor(color))
        extrinsic = core.Tensor(np.linalg.inv(pose))
        blocks = grid.compute_unique_block_coordinates(image, intrinsic, extrinsic, scale, depth_max, 4.0)
        grid.integrate(blocks, image, photo, intrinsic, extrinsic, scale, depth_max, 4.0)
    fused = time.process_time()
    mesh = grid.extract_triangle_mesh(args.weight)
    done = time.process_time()
    line = {
        "command": " ".join(sys.argv),
        "peer": f"Open3D {o3d.__version__}",
        "frames": len(frames),
        "fuse_cpu_ms_per_frame": round(1e3 * (fused - start) / len(frames), 2),
        "extract_cpu_s": round(done - fused, 3),
        "faces": len(mesh.triangle.indices),
    }
    print(json.dumps(line))
    if args.out:
        faces = mesh.triangle.indices.numpy().astype(np.int32)
        np.savez(args.out, vertices=mesh.vertex.positions.numpy(), faces=faces)


if __name__ == "__main__":
    main()
