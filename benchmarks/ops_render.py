"""The differentiable rasterizer on torch tensors: median time by number of faces, stages apart.

    python benchmarks/ops_render.py --device cuda                  # the sizes of the targets, then growth to 10 M faces
    python benchmarks/ops_render.py --device cuda --kernels        # adds the time of each kernel, by torch's profiler
    python benchmarks/ops_render.py --device cpu --repeats 7       # 640 x 480, growth to 1 M faces

One JSON line for each operation and size:
`ms`         median of `repeats` after warm-up, the device synchronised before and after each;
`unchecked_ms`  the same with SMR_CHECKS=0 (no look at whether vertices are finite and indices in range);
`host_ms`    until the call returns, the device idle before it, SMR_CHECKS=0: what the host spends on it;
`graph_ms`   a CUDA graph of it replayed, SMR_CHECKS=0: what the device spends on it;
`cpu_ms`     user + system time of all threads (on a CPU);
`floor_ms`   reading the inputs and writing the results once at the given bandwidth.
Meshes are spheres that fill three quarters of a square picture's height; half of their faces look away, none is culled.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

from smr.ops.render import (
    antialias,
    face_neighbors,
    interpolate,
    rasterize,
    screen_derivatives,
    texture,
)

TARGETS = {5: 20_480, 6: 81_920, 7: 327_680}
"""Icospheres by their subdivisions."""
GROWTH = (10_000, 100_000, 1_000_000, 10_000_000)


def icosphere(subdivisions: int) -> tuple[np.ndarray, np.ndarray]:
    """Unit sphere of 20 * 4^n faces."""
    g = (1 + 5**0.5) / 2
    points = [[s, t * g, 0] for s in (-1, 1) for t in (1, -1)]
    points += [[0, s, t * g] for s in (-1, 1) for t in (1, -1)]
    points += [[t * g, 0, s] for s in (-1, 1) for t in (1, -1)]
    vertices = np.array(points, float)
    far = np.linalg.norm(vertices[:, None] - vertices, axis=2)
    near = np.isclose(far, 2)
    faces = np.array(
        [(i, j, k) for i in range(12) for j in range(i) for k in range(j) if near[i, j] and near[j, k] and near[k, i]]
    )
    for _ in range(subdivisions):
        edges = np.sort(np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]), axis=1)
        unique, inverse = np.unique(edges, axis=0, return_inverse=True)
        ab, bc, ca = (inverse.reshape(3, -1) + len(vertices)).astype(np.int64)
        a, b, c = faces.T
        vertices = np.concatenate([vertices, vertices[unique].mean(1)])
        faces = np.concatenate([np.stack(f, 1) for f in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))])
    return vertices / np.linalg.norm(vertices, axis=1, keepdims=True), faces


def grid_sphere(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Unit sphere of about `count` faces, by latitude and longitude."""
    n = round((count / 4) ** 0.5)
    theta, phi = np.meshgrid(np.linspace(0, np.pi, n + 1), np.linspace(0, 2 * np.pi, 2 * n + 1), indexing="ij")
    vertices = np.stack([np.sin(theta) * np.cos(phi), np.cos(theta), np.sin(theta) * np.sin(phi)], -1).reshape(-1, 3)
    a = (np.arange(n)[:, None] * (2 * n + 1) + np.arange(2 * n)).ravel()
    faces = np.concatenate([np.stack([a, a + 1, a + 2 * n + 2], 1), np.stack([a, a + 2 * n + 2, a + 2 * n + 1], 1)])
    return vertices, faces


class Case:
    """A mesh before a camera, and the operations on it."""

    def __init__(self, mesh: tuple[np.ndarray, np.ndarray], height: int, width: int, batch: int, device: str) -> None:
        vertices, faces = mesh
        moved = torch.tensor(vertices, dtype=torch.float32, device=device) + torch.tensor([0.0, 0, 3], device=device)
        self.vertices = moved.expand(batch, -1, -1).contiguous().requires_grad_()
        self.faces = torch.tensor(faces, dtype=torch.int32, device=device)
        f = 0.375 * height * 8**0.5  # the outline, at a tangent of 1 / sqrt(8), reaches three quarters
        camera = [[f, 0, width / 2], [0, f, height / 2], [0, 0, 1]]
        self.camera = torch.tensor(camera, dtype=torch.float32, device=device)
        self.size = (height, width)
        self.features = torch.rand(len(vertices), 3, device=device).requires_grad_()
        self.uv = torch.rand(len(vertices), 2, device=device)
        self.image = torch.rand(1024, 1024, 3, device=device).requires_grad_()
        self.batch = batch
        with torch.no_grad():
            self.fragments = self.rasterize()
            self.shaded = interpolate(self.features, self.fragments, self.faces)[..., 0, :].contiguous()
            self.places = interpolate(self.uv, self.fragments, self.faces)
            self.neighbors = face_neighbors(self.faces)
            scene = (self.fragments, self.vertices, self.faces, self.camera)
            self.derivatives = screen_derivatives(self.uv, *scene)
        self.ones = torch.ones_like(self.shaded)

    def rasterize(self, layers: int = 1):
        return rasterize(self.vertices, self.faces, self.camera, image_size=self.size, layers=layers)

    def forward(self) -> None:
        with torch.no_grad():
            self.rasterize()

    def layers(self) -> None:
        with torch.no_grad():
            self.rasterize(4)

    def features_forward(self) -> None:
        with torch.no_grad():
            interpolate(self.features, self.fragments, self.faces)

    def there_and_back(self) -> None:
        fragments = self.rasterize()
        shaded = interpolate(self.features, fragments, self.faces)
        torch.autograd.grad(shaded, (self.vertices, self.features), self.ones[..., None, :])

    def bilinear(self) -> None:
        found = texture(self.image, self.places)
        torch.autograd.grad(found, self.image, self.ones[..., None, :])

    def trilinear(self) -> None:
        found = texture(self.image, self.places, derivatives=self.derivatives)
        torch.autograd.grad(found, self.image, self.ones[..., None, :])

    def smooth(self) -> None:
        scene = (self.fragments, self.vertices, self.faces, self.camera)
        found = antialias(self.shaded, *scene, neighbors=self.neighbors)
        torch.autograd.grad(found, self.vertices, self.ones)

    def find_neighbors(self) -> None:
        face_neighbors(self.faces)

    def floor_bytes(self, name: str) -> int:
        """Bytes that must pass through memory."""
        pixels = self.batch * self.size[0] * self.size[1]
        mesh = self.vertices.numel() * 4 + self.faces.numel() * 4
        found, features = pixels * 24, pixels * 12
        return {
            "rasterize": mesh + found,
            "rasterize, 4 layers": mesh + 4 * found,
            "interpolate 3 features": found + features + self.features.numel() * 4,
            "rasterize + 3 features, forward + backward": 3 * mesh + 2 * (found + features) + found,
            "texture, bilinear, forward + backward": pixels * 8 * 2 + features * 2 + self.image.numel() * 8,
            "texture, trilinear, forward + backward": pixels * 24 * 2 + features * 2 + self.image.numel() * 8,
            "antialias, forward + backward": mesh + 4 * features + 2 * pixels * 12,
            "face neighbors": self.faces.numel() * 8,
        }[name]


OPERATIONS: dict[str, Callable[[Case], None]] = {
    "rasterize": Case.forward,
    "rasterize, 4 layers": Case.layers,
    "interpolate 3 features": Case.features_forward,
    "rasterize + 3 features, forward + backward": Case.there_and_back,
    "texture, bilinear, forward + backward": Case.bilinear,
    "texture, trilinear, forward + backward": Case.trilinear,
    "antialias, forward + backward": Case.smooth,
    "face neighbors": Case.find_neighbors,
}


def timed(call: Callable[[], None], cuda: bool, repeats: int, *, wait: bool = True) -> tuple[float, float]:
    """Median wall and CPU milliseconds."""
    wall, cpu = [], []
    for _ in range(repeats):
        if cuda:
            torch.cuda.synchronize()
        begin, used = time.perf_counter(), time.process_time()
        call()
        if cuda and wait:
            torch.cuda.synchronize()
        wall.append(time.perf_counter() - begin)
        cpu.append(time.process_time() - used)
    if cuda:
        torch.cuda.synchronize()
    return 1e3 * statistics.median(wall), 1e3 * statistics.median(cpu)


def graph_ms(call: Callable[[], None], repeats: int) -> float | str:
    """What the device alone takes, or why it could not be found."""
    stream = torch.cuda.Stream()
    try:
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                call()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            call()
    except RuntimeError as error:
        return str(error).splitlines()[0]
    graph.replay()
    return round(timed(graph.replay, True, repeats)[0], 4)


def kernel_times(call: Callable[[], None]) -> dict[str, float]:
    """Microseconds of each kernel in one call."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(10):
            call()
        torch.cuda.synchronize()
    rows = [(e.key, e.device_time_total / 10) for e in profile.key_averages() if e.device_type.name == "CUDA"]
    return {name[:70]: round(us, 1) for name, us in sorted(rows, key=lambda row: -row[1])[:12]}


def report(case: Case, faces: int, names: list[str], options: argparse.Namespace) -> None:
    cuda = options.device.startswith("cuda")
    for name in names:

        def call(name: str = name) -> None:
            OPERATIONS[name](case)

        for _ in range(3):
            call()
        ms, cpu = timed(call, cuda, options.repeats)
        line = {
            "op": name,
            "faces": faces,
            "image": list(case.size),
            "batch": case.batch,
            "device": options.device,
            "ms": round(ms, 4),
            "floor_ms": round(case.floor_bytes(name) / options.bandwidth / 1e6, 4),
        }
        os.environ["SMR_CHECKS"] = "0"
        line["unchecked_ms"] = round(timed(call, cuda, options.repeats)[0], 4)
        if cuda:
            line["host_ms"] = round(timed(call, cuda, options.repeats, wait=False)[0], 4)
            line["graph_ms"] = graph_ms(call, options.repeats)
            if options.kernels:
                line["kernels_us"] = kernel_times(call)
        else:
            line["cpu_ms"] = round(cpu, 3)
        del os.environ["SMR_CHECKS"]
        print(json.dumps(line), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--bandwidth", type=float, help="GB/s, for the floors; left out: 4200 on a GPU, 10")
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--largest", type=int, default=0, help="faces; left out: 10 M on a GPU, 1 M on a CPU")
    options = parser.parse_args()
    cuda = options.device.startswith("cuda")
    options.bandwidth = options.bandwidth or (4200.0 if cuda else 10.0)
    machine = torch.cuda.get_device_name() if cuda else f"{platform.machine()}, {os.cpu_count()} cores"
    print(json.dumps({"machine": machine, "torch": torch.__version__, "command": " ".join(sys.argv)}), flush=True)
    everything = list(OPERATIONS)
    if cuda:
        for subdivisions, faces in TARGETS.items():
            report(Case(icosphere(subdivisions), 1024, 1024, 1, options.device), faces, everything, options)
        batch = Case(icosphere(5), 512, 512, 16, options.device)
        report(batch, TARGETS[5], [everything[0], everything[3]], options)
        two = (np.array([[-1.0, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]]), np.array([[0, 1, 2], [0, 2, 3]]))
        report(Case(two, 1024, 1024, 1, options.device), 2, [everything[0], everything[3]], options)
    else:
        report(Case(grid_sphere(100_000), 480, 640, 1, options.device), 100_000, everything, options)
    size = (1024, 1024) if cuda else (480, 640)
    for faces in GROWTH:
        if faces <= (options.largest or (10_000_000 if cuda else 1_000_000)):
            case = Case(grid_sphere(faces), *size, 1, options.device)
            report(case, faces, [everything[0], everything[3]], options)


if __name__ == "__main__":
    main()
