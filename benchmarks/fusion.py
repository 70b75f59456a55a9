"""CPU time of fusion and of extraction, decoding left out. Prints JSON lines.

python benchmarks/fusion.py --set seven_scenes --voxel 0.01
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import sys
import time

import numpy as np
import warp as wp
from fusion_data import load

from smr.arrays import cpu_threads, resolve_device
from smr.config import FusionConfig
from smr.tsdf import extract_mesh, fuse_images


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", default="seven_scenes")
    parser.add_argument("--voxel", type=float, default=0.01)
    parser.add_argument("--depth-max", type=float, default=6.0)
    parser.add_argument("--frames", type=int)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--no-color", action="store_true")
    parser.add_argument("--out", help="npz file for the mesh")
    args = parser.parse_args()
    device = resolve_device(args.device)
    config = FusionConfig(voxel_size=args.voxel, depth_max=args.depth_max)
    frames = load(args.set, args.frames)
    if args.no_color:
        frames = [type(f)(f.depth, f.camera, f.world_from_camera) for f in frames]
    if device != "cpu":
        frames = [
            type(f)(
                wp.array(f.depth, dtype=wp.float32, device=device), f.camera, f.world_from_camera,
                None if f.color is None else wp.array(f.color, dtype=wp.uint8, device=device),
                f.color_camera, f.world_from_color,
            )
            for f in frames
        ]  # fmt: skip
    extract_mesh(fuse_images(frames[:2], config, device=device), config)  # compiles
    for _ in range(args.repeat):
        wp.synchronize()
        start, wall = time.process_time(), time.perf_counter()
        volume = fuse_images(frames, config, device=device)
        wp.synchronize()
        fused, fused_wall = time.process_time(), time.perf_counter()
        mesh = extract_mesh(volume, config)
        done, done_wall = time.process_time(), time.perf_counter()
        line = {
            "command": " ".join(sys.argv),
            "machine": f"{platform.processor() or platform.machine()}, {cpu_threads()} threads, {device}",
            "frames": len(frames),
            "fuse_cpu_ms_per_frame": round(1e3 * (fused - start) / len(frames), 2),
            "fuse_wall_ms_per_frame": round(1e3 * (fused_wall - wall) / len(frames), 3),
            "frames_per_second": round(len(frames) / (fused_wall - wall), 1),
            "extract_cpu_s": round(done - fused, 3),
            "extract_wall_s": round(done_wall - fused_wall, 3),
            "blocks": volume.blocks,
            "volume_MB": round(volume.bytes / 1e6, 1),
            "vertices": len(mesh.vertices),
            "faces": len(mesh.faces),
            "peak_rss_MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3),
        }
        print(json.dumps(line), flush=True)
    if args.out:
        np.savez(args.out, vertices=mesh.vertices, faces=mesh.faces, colors=mesh.colors, normals=mesh.normals)


if __name__ == "__main__":
    main()
