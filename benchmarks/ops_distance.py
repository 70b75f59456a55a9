"""Distances, inside tests and sampling on torch tensors: median time by size, with growth, against peers on the CPU.

    python benchmarks/ops_distance.py --device cuda            # 10 k, 100 k, 1 M
    python benchmarks/ops_distance.py --device cpu --sizes 10000 100000 --repeats 5

One JSON line for each operation and size: median milliseconds of `repeats` after two warm-up runs, each synchronised,
the trees' building included; `floor_ms` is the time that reading the inputs and writing the results once would take at
the given bandwidth. On the CPU `cpu_ms` is user + system time of all threads, and Chamfer has a line for scipy's
KD-tree. Points lie at random near the surface (within 5 % of its size) and, for the inside test, in the box around it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from scipy.spatial import cKDTree

from smr.ops.mesh.distance import point_to_mesh_distance
from smr.ops.mesh.inside import is_inside, signed_distance
from smr.ops.mesh.sample import sample_surface
from smr.ops.mesh.sdf import mesh_to_sdf
from smr.ops.points import (
    chamfer_distance,
    estimate_normals,
    nearest_neighbors,
    sample_farthest_points,
    statistical_inliers,
    voxel_downsample,
)


def bumpy_torus(faces: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """A closed surface with `faces` faces to within a per cent, counter-clockwise from outside."""
    across = round((faces / 4) ** 0.5)
    along = round(faces / 2 / across)
    u, v = np.meshgrid(np.arange(along) * 2 * np.pi / along, np.arange(across) * 2 * np.pi / across, indexing="ij")
    tube = 0.35 * (1 + 0.1 * np.sin(7 * u) * np.cos(5 * v))
    ring = 1 + tube * np.cos(v)
    vertices = np.stack([ring * np.cos(u), ring * np.sin(u), tube * np.sin(v)], axis=-1).reshape(-1, 3)
    i, j = np.meshgrid(np.arange(along), np.arange(across), indexing="ij")
    a, b, c, d = (
        (((i + di) % along) * across + (j + dj) % across).ravel() for di, dj in ((0, 0), (1, 0), (1, 1), (0, 1))
    )
    corners = np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])
    return torch.from_numpy(vertices).float().to(device), torch.from_numpy(corners).to(device)


def cloud(count: int, seed: int, device: str) -> torch.Tensor:
    """Points within 5 % of the torus."""
    vertices, faces = bumpy_torus(10_000, "cpu")
    generator = torch.Generator().manual_seed(seed)
    points = sample_surface(vertices, faces, count, generator=generator).points
    return (points + 0.05 * torch.randn(count, 3, generator=generator)).to(device)


def measure(call: Callable[[], object], device: str, repeats: int) -> tuple[float, float, float]:
    """Median wall and processor milliseconds, and peak memory in MB on a GPU."""

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    for _ in range(2):
        call()
    wait()
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated() if device == "cuda" else 0
    walls, processors = [], []
    for _ in range(repeats):
        wait()
        begin, processor = time.perf_counter(), time.process_time()
        call()
        wait()
        walls.append(1e3 * (time.perf_counter() - begin))
        processors.append(1e3 * (time.process_time() - processor))
    peak = (torch.cuda.max_memory_allocated() - before) / 1e6 if device == "cuda" else float("nan")
    return statistics.median(walls), statistics.median(processors), peak


def backward(call: Callable[[], torch.Tensor], *inputs: torch.Tensor) -> Callable[[], object]:
    """The call with the gradients of its sum."""

    def run() -> object:
        return torch.autograd.grad(call().sum(), inputs)

    return run


def cases(size: int, device: str) -> list[tuple[str, int, int, Callable[[], object]]]:
    """Name, faces or second cloud's points, bytes read and written once, call."""
    points, other = cloud(size, 1, device), cloud(size, 2, device)
    faces_wanted = 328_000 if size == 100_000 else size
    vertices, faces = bumpy_torus(faces_wanted, device)
    box = 2 * (torch.rand(size, 3, generator=torch.Generator().manual_seed(3)) - 0.5).to(device) * 1.4
    mesh_bytes = 12 * len(vertices) + 24 * len(faces)
    grads = [t.clone().requires_grad_() for t in (points, other, vertices)]
    tasks: list[tuple[str, int, int, Callable[[], object]]] = [
        ("inside", len(faces), mesh_bytes + 13 * size, lambda: is_inside(vertices, faces, box)),
        ("inside, 20 faces missing", len(faces), mesh_bytes + 13 * size, lambda: is_inside(vertices, faces[20:], box)),
        ("point to mesh", len(faces), mesh_bytes + 36 * size, lambda: point_to_mesh_distance(points, vertices, faces)),
        (
            "point to mesh, gradients",
            len(faces),
            2 * (mesh_bytes + 24 * size),
            backward(lambda: point_to_mesh_distance(grads[0], grads[2], faces)[0], grads[0], grads[2]),
        ),
        ("signed distance", len(faces), mesh_bytes + 16 * size, lambda: signed_distance(vertices, faces, points)),
        ("nearest", size, 36 * size, lambda: nearest_neighbors(points, other)),
        ("16 nearest", size, 12 * size + 16 * 12 * size, lambda: nearest_neighbors(points, other, 16)),
        ("chamfer", size, 24 * size, lambda: chamfer_distance(points, other)),
        (
            "chamfer, gradients",
            size,
            48 * size,
            backward(lambda: chamfer_distance(grads[0], grads[1]), grads[0], grads[1]),
        ),
        ("farthest points, 1024", size, 12 * size, lambda: sample_farthest_points(points, 1024)),
        ("statistical inliers", size, 13 * size, lambda: statistical_inliers(points)),
        ("normals, not oriented", size, 24 * size, lambda: estimate_normals(points, orient=False)),
        ("voxel downsample", size, 24 * size, lambda: voxel_downsample(points, 0.02)),
        ("sample surface", len(faces), mesh_bytes + 32 * size, lambda: sample_surface(vertices, faces, size)),
    ]
    if size == 100_000:
        # The ratio of points to faces of the CPU's target.
        plain = bumpy_torus(100_000, device)
        tasks += [
            ("inside", len(plain[1]), 13 * size, lambda: is_inside(*plain, box)),
            ("point to mesh", len(plain[1]), 36 * size, lambda: point_to_mesh_distance(points, *plain)),
            ("mesh to sdf, 64", len(plain[1]), 4 * 64**3, lambda: mesh_to_sdf(*plain, 64)),
        ]
    if device == "cpu":

        def scipy_chamfer() -> None:
            a, b = points.numpy(), other.numpy()
            cKDTree(b).query(a, workers=2)
            cKDTree(a).query(b, workers=2)

        tasks.append(("chamfer, scipy's KD-tree with two workers", size, 24 * size, scipy_chamfer))
    return tasks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--bandwidth", type=float, help="GB/s, for the floor; 4800 on cuda (H200), 20 on cpu")
    parser.add_argument("--only", default="", help="only operations whose name begins so")
    options = parser.parse_args()
    bandwidth = options.bandwidth or (4800 if options.device == "cuda" else 20)
    machine = (
        torch.cuda.get_device_name() if options.device == "cuda" else f"{platform.machine()}, {os.cpu_count()} CPUs"
    )
    for size in options.sizes:
        for name, other, touched, call in cases(size, options.device):
            if not name.startswith(options.only):
                continue
            wall, processor, peak = measure(call, options.device, options.repeats)
            row = {
                "op": name,
                "points": size,
                "against": other,
                "device": options.device,
                "median_ms": round(wall, 3),
                "cpu_ms": round(processor, 1),
                "floor_ms": round(1e3 * touched / bandwidth / 1e9, 4),
                "machine": f"{machine}, torch {torch.__version__}",
            }
            if options.device == "cuda":
                row["peak_mb"] = round(peak, 1)
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
