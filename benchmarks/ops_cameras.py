"""Cameras on tensors: projecting and unprojecting, forward and with gradients, beside bandwidth floors.

python benchmarks/ops_cameras.py --device cuda        prints a JSON line for each measurement

The points are those of a 640 x 480 image's pixels, repeated to the size; the cameras are a pinhole with all eight
coefficients of OpenCV and a fisheye with four. `floor_ms` is the time that reading the points and writing the pixels
(or the other way) takes at 4.8 TB/s (H200) or 20 GB/s (a laptop's CPU), for forward + backward three times that.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable

import torch

from smr.ops.cameras import Camera, Fisheye, Pinhole


def cameras(device: str) -> dict[str, Camera]:
    def tensor(*values: float) -> torch.Tensor:
        return torch.tensor(values, device=device)

    size, center, pose = (640, 480), tensor(319.0, 241.0), torch.eye(4, device=device)
    bent = tensor(-0.28, 0.09, 0.0012, -0.0008, 0.004, 0.011, -0.02, 0.003)
    return {
        "pinhole": Pinhole(*size, tensor(520.0, 515.0), center, pose),
        "pinhole, distorted": Pinhole(*size, tensor(520.0, 515.0), center, pose, bent),
        "fisheye": Fisheye(*size, tensor(205.0, 204.0), center, pose, tensor(0.021, -0.0065, 0.0012, -0.0001)),
    }


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


def measure(name: str, camera: Camera, count: int, device: str, runs: int) -> None:
    pixels = camera.pixel_centers().reshape(-1, 2)
    pixels = pixels.repeat(-(-count // len(pixels)), 1)[:count].contiguous()
    distance = torch.full((count,), 2.0, device=device)
    points = camera.unproject(pixels, distance=distance).points.detach()
    learned = points.clone().requires_grad_()
    moved = pixels.clone().requires_grad_()

    def backward(run: Callable[[], torch.Tensor], leaf: torch.Tensor) -> None:
        leaf.grad = None
        run().sum().backward()

    bytes_once = 4 * count * 5
    works: dict[str, tuple[Callable[[], object], int]] = {
        "project": (lambda: camera.project(points), 1),
        "project + backward": (lambda: backward(lambda: camera.project(learned).pixels, learned), 3),
        "unproject": (lambda: camera.unproject(pixels, distance=distance), 1),
        "unproject + backward": (
            lambda: backward(lambda: camera.unproject(moved, distance=distance).points, moved),
            3,
        ),
    }
    bandwidth = 4.8e12 if device == "cuda" else 20e9
    where = torch.cuda.get_device_name() if device == "cuda" else f"{platform.machine()}, CPU time"
    for op, (work, passes) in works.items():
        row = {
            "op": f"{op}, {name}",
            "size": count,
            "device": where,
            "kernels": os.environ.get("SMR_KERNELS", "warp"),
            "ms": round(median_ms(work, device, runs), 3),
            "floor_ms": round(1e3 * passes * bytes_once / bandwidth, 4),
        }
        print(json.dumps(row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    options = parser.parse_args()
    for count in options.sizes:
        for name, camera in cameras(options.device).items():
            measure(name, camera, count, options.device, options.runs)


if __name__ == "__main__":
    main()
