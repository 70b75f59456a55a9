"""Rasterizing in the image, soft masks and faces behind points: milliseconds against faces, beside bandwidth floors.

python benchmarks/ops_screen_space.py --device cuda [--peer]      prints a JSON line for each measurement

The scene is a bumpy sphere that fills 60 % of the image, in 20 480, 81 920 and 327 680 faces. `--peer` measures Kaolin
in the same process where it is installed. `floor_ms` is the time that reading the faces and writing the results takes
at 4.8 TB/s (H200) or 20 GB/s (a laptop's CPU); memory is torch's peak above what the inputs take, on a GPU.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import statistics
import time
from collections.abc import Callable
from importlib import import_module

import torch

from smr.ops.render.screen_space import find_faces, rasterize
from smr.ops.render.soft_mask import soft_mask
from smr.ops.render.sparse_rays import render_points


def bumpy_sphere(faces: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """A sphere of rows and columns, seen in perspective: z (1, F, 3) and image positions (1, F, 3, 2)."""
    rows = max(2, round(math.sqrt(faces / 4)))
    columns = max(3, round(faces / (2 * rows)))
    v, u = torch.meshgrid(
        torch.linspace(0, math.pi, rows + 1, dtype=torch.float64),
        torch.linspace(0, 2 * math.pi, columns + 1, dtype=torch.float64),
        indexing="ij",
    )
    radius = 1 + 0.05 * torch.sin(9 * u) * torch.sin(7 * v)
    points = radius[..., None] * torch.stack([v.sin() * u.cos(), v.cos(), v.sin() * u.sin()], -1)
    corner = torch.arange((rows + 1) * (columns + 1)).reshape(rows + 1, columns + 1)
    a, b, c, d = corner[:-1, :-1], corner[:-1, 1:], corner[1:, 1:], corner[1:, :-1]
    index = torch.stack([torch.stack([a, b, c], -1), torch.stack([a, c, d], -1)], 2).reshape(-1, 3)
    seen = points.reshape(-1, 3)[index] - torch.tensor([0.0, 0.0, 3.5], dtype=torch.float64)
    image = 2.9 * seen[..., :2] / -seen[..., 2:]
    return seen[None, ..., 2].float().to(device), image[None].float().to(device)


def median_ms(work: Callable[[], object], device: str, runs: int) -> float:
    """Median of runs after three to warm up: synchronised wall time on a GPU, user + system time on a CPU."""
    clock = time.perf_counter if device == "cuda" else time.process_time
    times = []
    for i in range(runs + 3):
        if device == "cuda":
            torch.cuda.synchronize()
        begin = clock()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        if i >= 3:
            times.append(1e3 * (clock() - begin))
    return statistics.median(times)


def report(op: str, size: str, work: Callable[[], object], floor_bytes: float, runs: int, device: str) -> None:
    """Measure and print."""
    more: dict[str, object] = {}
    if device == "cuda":
        name, bandwidth = torch.cuda.get_device_name(), 4.8e12
        work()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    else:
        name, bandwidth = f"{platform.machine()}, {torch.get_num_threads()} threads, CPU time", 20e9
    ms = round(median_ms(work, device, runs), 3)
    if device == "cuda":
        more["peak_mb"] = round((torch.cuda.max_memory_allocated() - before) / 1e6, 1)
    floor = {"floor_ms": round(1e3 * floor_bytes / bandwidth, 4)} if floor_bytes else {}
    print(json.dumps({"op": op, "size": size, "device": name, "ms": ms, **floor, **more}), flush=True)


class Scene:
    """The sphere, its features, and gradients to send back."""

    def __init__(self, faces: int, side: int, device: str) -> None:
        """`side` of the rasterized image; soft masks have half of it."""
        self.side, self.half = side, side // 2
        self.z, self.image = bumpy_sphere(faces, device)
        self.count = self.z.shape[1]
        self.features = torch.rand((1, self.count, 3, 3), device=device)
        self.selected = find_faces(self.half, self.half, self.z, self.image)
        self.grad = torch.rand((1, side, side, 3), device=device)
        self.mask_grad = torch.rand((1, self.half, self.half), device=device)
        self.moving = self.image.clone().requires_grad_()
        self.shades = self.features.clone().requires_grad_()
        self.points = torch.rand((1, 10_000, 2), device=device) * 2 - 1
        self.ranges = torch.tensor([-10.0, 0.0], device=device).expand(1, 10_000, 2)

    def both(self) -> None:
        self.moving.grad = self.shades.grad = None
        rasterize(self.side, self.side, self.z, self.moving, self.shades)[0].backward(self.grad)

    def batch(self) -> None:
        tensors = (tensor.expand(4, *tensor.shape[1:]) for tensor in (self.z, self.image, self.features))
        rasterize(self.side, self.side, *tensors)

    def mask_both(self, mask: Callable[..., torch.Tensor] = soft_mask) -> None:
        self.moving.grad = None
        mask(self.moving, self.selected).backward(self.mask_grad)

    def dibr(self) -> None:
        self.moving.grad = self.shades.grad = None
        found, face_idx = rasterize(self.half, self.half, self.z, self.moving, self.shades)
        (found.sum() + soft_mask(self.moving, face_idx).sum()).backward()


def measure(s: Scene, runs: int, device: str, peer: bool) -> None:
    """All operations on one scene."""
    both = "forward and backward"
    pixels, few = s.side**2, s.half**2
    size, small = f"{s.count} faces, {s.side}x{s.side}", f"{s.count} faces, {s.half}x{s.half}"
    cases: list[tuple[str, str, Callable[[], object], float]] = [
        ("find_faces", size, lambda: find_faces(s.side, s.side, s.z, s.image), 36 * s.count + 8 * pixels),
        ("rasterize", size, lambda: rasterize(s.side, s.side, s.z, s.image, s.features), 72 * s.count + 20 * pixels),
        (f"rasterize, {both}", size, s.both, 204 * s.count + 52 * pixels),
        ("rasterize, batch of 4", size, s.batch, 4 * (72 * s.count + 20 * pixels)),
        ("soft_mask", small, lambda: soft_mask(s.image, s.selected), 24 * s.count + 12 * few),
        (f"soft_mask, {both}", small, s.mask_both, 72 * s.count + 28 * few),
        (f"dibr: rasterize and soft mask, {both}", small, s.dibr, 276 * s.count + 80 * few),
        (
            "render_points, knum 30",
            f"{s.count} faces, 10000 points",
            lambda: render_points(s.points, s.ranges, s.z, s.image, s.features, knum=30),
            36 * s.count,
        ),
    ]
    if peer:
        theirs, name = import_module("kaolin.render.mesh"), "kaolin"
        cases += [
            (f"{name} rasterize", size, lambda: theirs.rasterize(s.side, s.side, s.z, s.image, s.features), 0),
            (f"{name} soft mask, {both}", small, lambda: s.mask_both(theirs.dibr_soft_mask), 0),
        ]
    for op, of, work, floor_bytes in cases:
        report(op, of, work, floor_bytes, runs, device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--faces", type=int, nargs="*", default=[20_480, 81_920, 327_680])
    parser.add_argument("--side", type=int, default=0, help="pixels; 1024 on a GPU, 512 on a CPU where left out")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--peer", action="store_true", help="measure Kaolin too")
    options = parser.parse_args()
    side = options.side or (1024 if options.device == "cuda" else 512)
    for faces in options.faces:
        measure(Scene(faces, side, options.device), options.runs, options.device, options.peer)


if __name__ == "__main__":
    main()
