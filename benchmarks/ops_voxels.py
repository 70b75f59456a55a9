"""Voxel operations on torch tensors: median time by size, with memory and the bandwidth floor.

    python benchmarks/ops_voxels.py --device cuda
    python benchmarks/ops_voxels.py --device cpu --sizes 64 128 --repeats 5

One JSON line for each operation and size: median milliseconds of `repeats` after two warm-up runs, each synchronised;
`floor_ms` is the time that reading the inputs and writing the results once would take at the given bandwidth;
`peak_mb` is the memory taken on a GPU beyond the inputs. On the CPU `cpu_ms` is user + system time of all threads.
Marching cubes runs over a gyroid (surface everywhere) and a sphere; meshes are bumpy tori that fill the grid.
"""

from __future__ import annotations

import argparse
import json
import math
import platform

import torch
from ops_distance import bumpy_torus, measure

from smr.ops import voxels

FACES = (20_000, 82_000, 328_000, 1_000_000)


def gyroid(size: int, device: str) -> torch.Tensor:
    """Four periods of the gyroid."""
    x = torch.linspace(0, 8 * math.pi, size, device=device)
    x, y, z = x[:, None, None], x[None, :, None], x[None, None]
    return x.sin() * y.cos() + y.sin() * z.cos() + z.sin() * x.cos()


def sphere(size: int, device: str) -> torch.Tensor:
    x = torch.linspace(-1, 1, size, device=device)
    return (x[:, None, None] ** 2 + x[None, :, None] ** 2 + x[None, None] ** 2).sqrt() - 0.8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 128, 256, 512])
    parser.add_argument("--faces", type=int, nargs="+", default=list(FACES))
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--bandwidth", type=float, help="GB/s; 4800 for an H200, 20 for two shared cores")
    options = parser.parse_args()
    device = options.device
    rate = (options.bandwidth or (4800 if device == "cuda" else 20)) * 1e6  # bytes a millisecond
    name = torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine()

    def report(op: str, size: str, floor_bytes: float, call: object, **facts: object) -> None:
        wall, processor, peak = measure(call, device, options.repeats)  # type: ignore[arg-type]
        line = {"op": op, "size": size, "device": name, "median_ms": round(wall, 3)}
        line |= {"peak_mb": round(peak, 1)} if device == "cuda" else {"cpu_ms": round(processor, 1)}
        print(json.dumps(line | {"floor_ms": round(floor_bytes / rate, 4)} | facts), flush=True)

    for size in options.sizes:
        shape = f"{size}³"
        for label, grid in (("sphere", sphere(size, device)), ("gyroid", gyroid(size, device))):
            vertices, faces = voxels.marching_cubes(grid)
            moved = 4 * grid.numel() + 12 * len(vertices) + 24 * len(faces)
            report(f"marching_cubes {label}", shape, moved, lambda g=grid: voxels.marching_cubes(g), faces=len(faces))
            if label == "gyroid":
                wanted = grid.clone().requires_grad_()

                def both(g: torch.Tensor = wanted) -> None:
                    voxels.marching_cubes(g)[0].sum().backward()

                report("marching_cubes gyroid forward + backward", shape, moved + 4 * grid.numel(), both)
        filled = (sphere(size, device) < 0)[None]
        count = filled.numel()
        floats = filled.float()
        report("downsample by 2", shape, 4 * count * 9 / 8, lambda f=floats: voxels.downsample(f, (2, 2, 2)))
        report("extract_surface", shape, 2 * count, lambda f=filled: voxels.extract_surface(f))
        report("extract_odms", shape, count, lambda f=filled: voxels.extract_odms(f))
        odms = voxels.extract_odms(filled)
        report("project_odms", shape, count, lambda o=odms: voxels.project_odms(o))
        report("cubic_mesh", shape, count, lambda f=filled: voxels.cubic_mesh(f[0]))
        points = torch.rand(1_000_000, 3, device=device) * (size - 1)
        floor = 12e6 + count
        report(
            "voxelize_points", f"1 M to {shape}", floor, lambda p=points, n=size: voxels.voxelize_points(p, (n,) * 3)
        )
    size = max(min(256, max(options.sizes)), min(options.sizes))
    for wish in options.faces:
        vertices, faces = bumpy_torus(wish, device)
        low, high = vertices.amin(0), vertices.amax(0)
        places = (vertices - low) / (high - low).max() * (size - 1)
        label = f"{len(faces)} faces to {size}³"
        floor = 12 * len(vertices) + faces.numel() * faces.element_size() + size**3
        args = (places, faces, (size,) * 3)
        filled = int(voxels.voxelize_surface(*args).sum())
        report("voxelize_surface", label, floor, lambda a=args: voxels.voxelize_surface(*a), voxels=filled)
        report("voxelize_solid", label, floor, lambda a=args: voxels.voxelize_solid(*a))
    box = torch.tensor([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], device=device) * (size - 1.0)
    quads = torch.tensor([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]])
    faces = torch.cat([quads[:, :3], quads[:, [0, 2, 3]]]).to(device)
    call = lambda: voxels.voxelize_surface(box, faces, (size,) * 3)  # noqa: E731
    report("voxelize_surface", f"12 faces to {size}³", size**3, call)


if __name__ == "__main__":
    main()
