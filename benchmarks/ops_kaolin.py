"""The same calls of Kaolin's functions, timed with Kaolin itself or with smr.kaolin.

    KAOLIN_PYTHON benchmarks/ops_kaolin.py --device cuda          Kaolin, where it is installed
    python -m smr.kaolin benchmarks/ops_kaolin.py --device cuda   smr

One JSON line for each operation and size: median milliseconds of `repeats` after two warm-up runs, each synchronised,
and on a GPU torch's peak memory above the inputs. What an implementation refuses on a device is said in its line.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import kaolin as kal
import torch


def sphere(faces: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """A bumpy sphere of about that many faces: vertices (1, V, 3) within the unit ball, faces (F, 3)."""
    rows = max(4, int((faces / 4) ** 0.5))
    columns = 2 * rows
    latitude = torch.linspace(0, torch.pi, rows + 1, dtype=torch.float64)
    longitude = torch.arange(columns, dtype=torch.float64) * (2 * torch.pi / columns)
    lat, lon = torch.meshgrid(latitude, longitude, indexing="ij")
    radius = 0.8 + 0.05 * torch.sin(7 * lat) * torch.cos(5 * lon)
    points = torch.stack([lat.sin() * lon.cos(), lat.sin() * lon.sin(), lat.cos()], dim=-1) * radius[..., None]
    row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    a, b = row * columns + column, row * columns + (column + 1) % columns
    quads = torch.stack([a, a + columns, b + columns, b], dim=-1).reshape(-1, 4)
    triangles = torch.cat([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])
    return points.reshape(1, -1, 3).float().to(device), triangles.to(device)


def timed(run: Callable[[], Any], device: str, repeats: int) -> dict[str, Any]:
    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    try:
        for _ in range(2):
            run()
        wait()
    except (RuntimeError, NotImplementedError, ValueError, AttributeError) as error:
        return {"refused": str(error).splitlines()[0][:120]}
    found, held = [], 0
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
    for _ in range(repeats):
        begin = time.perf_counter()
        run()
        wait()
        found.append(1e3 * (time.perf_counter() - begin))
    result = {"ms": round(statistics.median(found), 4)}
    if device == "cuda":
        result["peak_mb"] = round((torch.cuda.max_memory_allocated() - held) / 1e6, 1)
    return result


def image_inputs(vertices: torch.Tensor, faces: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """A look along -z: depth (1, F, 3), places in the image (1, F, 3, 2), features (1, F, 3, 3), facing (1, F)."""
    corners = kal.ops.mesh.index_vertices_by_faces(vertices - vertices.new_tensor([0.0, 0.0, 2.5]), faces)
    image = corners[..., :2] / -corners[..., 2:] * 2.0
    normals = kal.ops.mesh.face_normals(corners, unit=True)
    return corners[..., 2].contiguous(), image.contiguous(), corners.contiguous(), normals[..., 2].contiguous()


def cases(device: str, faces: int, points: int) -> Any:
    vertices, triangles = sphere(faces, device)
    z, image, features, facing = image_inputs(vertices, triangles)
    generator = torch.Generator().manual_seed(0)
    cloud = (torch.rand(1, points, 3, generator=generator) * 2 - 1).to(device)
    near = vertices[:, torch.randint(vertices.shape[1], (points,), generator=generator).to(device)] * 1.02
    corners = kal.ops.mesh.index_vertices_by_faces(vertices, triangles)

    def soft() -> None:
        places = image.detach().requires_grad_()
        values = features.detach().requires_grad_()
        drawn, mask, _ = kal.render.mesh.dibr_rasterization(512, 512, z, places, values, facing)
        (drawn.sum() + mask.sum()).backward()

    yield "rasterize 1024x1024", lambda: kal.render.mesh.rasterize(1024, 1024, z, image, features)
    yield "dibr 512x512, forward + backward", soft
    yield "check_sign", lambda: kal.ops.mesh.check_sign(vertices, triangles, cloud)
    yield "point_to_mesh_distance", lambda: kal.metrics.trianglemesh.point_to_mesh_distance(near, corners)


def other_cases(device: str, points: int, grid: int) -> Any:
    generator = torch.Generator().manual_seed(1)
    first, second = (torch.rand(1, points, 3, generator=generator).to(device) for _ in range(2))
    vertices, triangles = sphere(82_000, device)
    axis = torch.linspace(-1, 1, grid, device=device)
    x, y, w = torch.meshgrid(axis, axis, axis, indexing="ij")
    ball = (x * x + y * y + w * w < 0.6).float()[None]
    yield f"sided_distance, {points} x {points}", lambda: kal.metrics.pointcloud.sided_distance(first, second)
    yield f"chamfer_distance, {points} x {points}", lambda: kal.metrics.pointcloud.chamfer_distance(first, second)
    yield (
        f"farthest_point_sampling, {points} to 1024",
        lambda: kal.ops.pointcloud.farthest_point_sampling(first, 1024),
    )
    to_mesh = kal.ops.conversions.voxelgrids_to_trianglemeshes
    yield f"voxelgrids_to_trianglemeshes, {grid}^3", lambda: to_mesh(ball)
    to_grid = kal.ops.conversions.trianglemeshes_to_voxelgrids
    yield f"trianglemeshes_to_voxelgrids, {grid}^3, 82 k faces", lambda: to_grid(vertices, triangles, grid)
    yield "sample_points, 82 k faces, 100 k", lambda: kal.ops.mesh.sample_points(vertices, triangles, 100_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--faces", type=int, nargs="+", default=[20_480, 81_920, 327_680])
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--grid", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=20)
    given = parser.parse_args()
    machine = torch.cuda.get_device_name() if given.device == "cuda" else "cpu"
    print(json.dumps({"of": kal.__version__, "torch": torch.__version__, "machine": machine, "command": sys.argv}))
    for faces in given.faces:
        for name, run in cases(given.device, faces, given.points):
            found = timed(run, given.device, given.repeats)
            print(json.dumps({"op": name, "faces": faces, "points": given.points, **found}), flush=True)
    for name, run in other_cases(given.device, given.points, given.grid):
        print(json.dumps({"op": name, **timed(run, given.device, given.repeats)}), flush=True)


if __name__ == "__main__":
    main()
