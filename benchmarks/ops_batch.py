"""Packed and padded batches, surface meshes in batches: JSON lines.

    python benchmarks/ops_batch.py [--device cpu|cuda] [--repeat 20]

Each line: operation, size, device, median milliseconds after a warm-up, and the milliseconds that reading and writing
its data once takes at the measured rate of a copy (`floor_ms`).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator

import torch

from smr.kaolin.ops import batch, reduction
from smr.kaolin.rep import SurfaceMesh

Case = tuple[str, str, int, Callable[[], object]]


def median_ms(function: Callable[[], object], device: str, repeat: int) -> float:
    times = []
    for i in range(repeat + 3):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        function()
        if device == "cuda":
            torch.cuda.synchronize()
        if i >= 3:
            times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def packed_cases(device: str) -> Iterator[Case]:
    for tensors, rows in ((100, 1_000_000), (10_000, 1_000_000)):
        generator = torch.Generator().manual_seed(0)
        cuts = torch.randint(0, rows + 1, (tensors - 1,), generator=generator).sort().values
        numel = torch.diff(torch.cat([torch.tensor([0]), cuts, torch.tensor([rows])]))
        values = torch.rand(tensors, device=device)
        packed = torch.rand(rows, 1, device=device)
        size = f"{tensors} tensors, {rows} rows"
        yield "tile_to_packed", size, 4 * rows, lambda v=values, n=numel: batch.tile_to_packed(v, n)
        yield "packed_simple_sum", size, 4 * rows, lambda p=packed, n=numel: reduction.packed_simple_sum(p, n)
    sizes = torch.randint(1, 2000, (1000,), generator=torch.Generator().manual_seed(0)).tolist()
    points = [torch.rand(size, 3, device=device) for size in sizes]
    padded, shapes = batch.list_to_padded(points, 0.0)
    size = f"{len(points)} tensors, {sum(sizes)} rows"
    moved = 12 * (sum(sizes) + len(points) * max(sizes))
    yield "list_to_padded", size, moved, lambda: batch.list_to_padded(points, 0.0)
    yield "padded_to_packed", size, 24 * sum(sizes), lambda: batch.padded_to_packed(padded, shapes)


def mesh_cases(device: str) -> Iterator[Case]:
    for meshes, vertices in ((1, 100_000), (100, 1000), (1000, 100)):
        faces = [torch.randint(0, vertices, (2 * vertices, 3), device=device) for _ in range(meshes)]
        places = [torch.rand(vertices, 3, device=device) for _ in range(meshes)]
        mesh = SurfaceMesh(places, faces)
        corners = 2 * vertices * 3 * meshes
        moved = corners * 8 + 2 * corners * 12
        for name in ("face_vertices", "face_normals", "vertex_normals"):
            size = f"{meshes} meshes of {2 * vertices} faces, as a list"
            compute = mesh.get_or_compute_attribute
            yield name, size, moved, lambda n=name, c=compute: c(n, should_cache=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--repeat", type=int, default=20)
    options = parser.parse_args()
    source = torch.rand(50_000_000, device=options.device)
    target = torch.empty_like(source)
    rate = 2 * source.numel() * 4 / (median_ms(lambda: target.copy_(source), options.device, 5) * 1e-3)
    for cases in (packed_cases, mesh_cases):
        for name, size, moved, function in cases(options.device):
            result = {"op": name, "size": size, "device": options.device}
            result["ms"] = round(median_ms(function, options.device, options.repeat), 3)
            print(json.dumps({**result, "floor_ms": round(moved / rate * 1e3, 4)}), flush=True)


if __name__ == "__main__":
    main()
