"""Texture coordinates: CPU time, charts, utilisation, stretch, and whether anything overlaps. Prints JSON lines.

python benchmarks/unwrap.py                          # made-up meshes
python benchmarks/unwrap.py --scan                   # and 7-Scenes, fused at 2 cm and simplified to 80 000 faces
python benchmarks/unwrap.py --mesh scan.npz          # and a mesh: .npz with vertices and faces, or .ply, .obj
python benchmarks/unwrap.py --peer 300               # and xatlas (its defaults) on each, killed after 300 s of CPU

`twice` counts texel centres that lie inside two triangles; `too_near` counts texels with a texel of another chart
within the gutter. `stretch` is of lengths, relative to the mean density: the 99th percentile and the largest of
max(longest, 1 / shortest) over all triangles that are not slivers or specks; `l2` is the root of the area-weighted
mean of (longest² + shortest²) / 2 of texture to surface (Sander et al. 2001; 1 is none).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import trimesh
import warp as wp
from scipy.ndimage import gaussian_filter, maximum_filter, minimum_filter

from smr.arrays import resolve_device
from smr.mesh.unwrap import unwrap
from smr.mesh.unwrap.flatten import singular_values
from smr.mesh.unwrap.surface import build_surface, triangle_areas
from smr.records import Mesh

DATA = Path(os.environ.get("SMR_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))
SIZE, GUTTER = 4096, 4
XATLAS = """
import sys, time, json, resource, numpy as np, xatlas
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[2]), int(sys.argv[2]) + 5))
z = np.load(sys.argv[1])
start = time.process_time()
atlas = xatlas.Atlas()
atlas.add_mesh(z["vertices"].astype(np.float32), z["faces"].astype(np.uint32))
pack = xatlas.PackOptions()
pack.resolution, pack.padding = int(sys.argv[3]), int(sys.argv[4])
atlas.generate(pack_options=pack)
print(json.dumps({"cpu_s": round(time.process_time() - start, 2), "charts": atlas.chart_count,
                  "utilisation": round(float(atlas.utilization), 3), "width": atlas.width, "height": atlas.height}))
"""


def meshes(scan: bool, paths: list[Path]) -> dict[str, Mesh]:
    rng = np.random.default_rng(0)
    ball = trimesh.creation.icosphere(6)
    direction = np.array(ball.vertices)
    bumps = 1 + 0.05 * np.sin(9 * direction).prod(axis=1) + rng.normal(size=len(direction)) * 0.002
    i = np.arange(201 * 201).reshape(201, 201)
    corners = [i[:-1, :-1], i[1:, :-1], i[1:, 1:], i[:-1, :-1], i[1:, 1:], i[:-1, 1:]]
    x, y = np.meshgrid(np.arange(201.0), np.arange(201.0), indexing="ij")
    z = gaussian_filter(rng.normal(size=x.shape), 12) * 250 + gaussian_filter(rng.normal(size=x.shape), 1) * 1.2
    loose = rng.normal(size=(100_000, 1, 3)) * 10 + rng.normal(size=(100_000, 3, 3)) * 0.1
    found = {
        "bumpy, noisy sphere": Mesh(direction * bumps[:, None], np.array(ball.faces, np.int32)),
        "noisy height field": Mesh(
            np.stack([x, y, z], axis=-1).reshape(-1, 3) * 0.01,
            np.stack(corners, axis=-1).reshape(-1, 3).astype(np.int32),
        ),
        "100 000 loose triangles": Mesh(loose.reshape(-1, 3), np.arange(300_000, dtype=np.int32).reshape(-1, 3)),
    }
    if scan:
        found["7-Scenes, 2 cm, 80 000 faces"] = seven_scenes(80_000)
    for path in paths:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as stored:
                found[path.name] = Mesh(stored["vertices"], stored["faces"].astype(np.int32))
        else:
            shape = trimesh.load(path, process=False, force="mesh")
            shape.merge_vertices(merge_tex=True, merge_norm=True)
            found[path.name] = Mesh(np.array(shape.vertices), np.array(shape.faces, np.int32))
    return found


def seven_scenes(faces: int) -> Mesh:
    from smr.captures import read_capture
    from smr.cleaning import clean
    from smr.config import CleanConfig, FusionConfig
    from smr.tsdf import extract_mesh, fuse

    config = FusionConfig(voxel_size=0.02, depth_max=6.0)
    raw = extract_mesh(fuse(read_capture(DATA / "seven_scenes"), config, device="cpu"), config)
    mesh, vertices = raw, faces * 6 // 10
    while len(mesh.faces) > faces:
        mesh, _ = clean(raw, CleanConfig(vertices=vertices))
        vertices = min(vertices - 1, int(vertices * faces / len(mesh.faces)))
    return mesh


@wp.kernel(enable_backward=False)
def _cover(
    corners: wp.array2d(dtype=wp.vec2d),
    charts: wp.array(dtype=int),
    count: wp.array2d(dtype=int),
    owner: wp.array2d(dtype=int),
):
    f = wp.tid()
    a = corners[f, 0]
    b = corners[f, 1]
    c = corners[f, 2]
    low = wp.min(a, wp.min(b, c))
    high = wp.max(a, wp.max(b, c))
    for y in range(int(wp.floor(low[1])), wp.min(int(high[1]), count.shape[0] - 1) + 1):
        for x in range(int(wp.floor(low[0])), wp.min(int(high[0]), count.shape[1] - 1) + 1):
            p = wp.vec2d(wp.float64(x) + wp.float64(0.5), wp.float64(y) + wp.float64(0.5))
            d = (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0])
            e = (c[0] - b[0]) * (p[1] - b[1]) - (c[1] - b[1]) * (p[0] - b[0])
            g = (a[0] - c[0]) * (p[1] - c[1]) - (a[1] - c[1]) * (p[0] - c[0])
            near = wp.float64(1e-3)
            inside = d > near * wp.length(b - a) and e > near * wp.length(c - b) and g > near * wp.length(a - c)
            if inside:
                count[y, x] = count[y, x] + 1
                owner[y, x] = charts[f]


def measure(mesh: Mesh) -> dict[str, object]:
    unwrap(Mesh(np.eye(3), np.array([[0, 1, 2]], np.int32)), size=64)  # compiles
    start, wall = time.process_time(), time.perf_counter()
    atlas = unwrap(mesh, size=SIZE, gutter=GUTTER)
    cpu, wall = time.process_time() - start, time.perf_counter() - wall
    pixels = atlas.uvs.astype(np.float64)[atlas.face_uvs] * atlas.size
    count = wp.zeros((SIZE, SIZE), dtype=int, device="cpu")
    owner = wp.full((SIZE, SIZE), -1, dtype=int, device="cpu")
    charts = wp.array(atlas.face_charts, dtype=int, device="cpu")
    inputs = [wp.array(pixels, dtype=wp.vec2d, device="cpu"), charts]
    wp.launch(_cover, dim=len(pixels), inputs=inputs, outputs=[count, owner], device="cpu")
    owners, window = owner.numpy(), {"size": 2 * GUTTER + 1, "mode": "nearest"}
    lowest = minimum_filter(np.where(owners < 0, atlas.charts, owners), **window)
    crowded = (owners >= 0) & ((maximum_filter(owners, **window) != owners) | (lowest != owners))
    surface = build_surface(mesh.vertices.astype(np.float64), mesh.faces)
    values = singular_values(surface.flat, pixels / atlas.texels_per_metre / surface.scale)[surface.regular]
    stretch = np.maximum(values[:, 0], 1 / np.maximum(values[:, 1], 1e-9))
    weight = surface.areas[surface.regular]
    return {
        "faces": len(mesh.faces),
        "cpu_s": round(cpu, 2),
        "wall_s": round(wall, 2),
        "charts": atlas.charts,
        "utilisation": round(atlas.utilisation, 3),
        "folded": int((triangle_areas(pixels) < 0).sum()),
        "twice": int((count.numpy() > 1).sum()),
        "too_near": int(crowded.sum()),
        "stretch_p99": round(float(np.percentile(stretch, 99)), 3),
        "stretch_max": round(float(stretch.max()), 3),
        "l2": round(float(np.sqrt(((values**2).sum(axis=1) / 2 * weight).sum() / weight.sum())), 4),
        "not_regular": int((~surface.regular).sum()),
    }


def peer(mesh: Mesh, seconds: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        stored = Path(folder) / "mesh.npz"
        np.savez(stored, vertices=mesh.vertices, faces=mesh.faces)
        command = [sys.executable, "-c", XATLAS, str(stored), str(seconds), str(SIZE), str(GUTTER)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return {"failed": done.stderr.strip()[-200:] or f"ended by signal {-done.returncode}, limit {seconds} s of CPU"}
    figures: dict[str, object] = json.loads(done.stdout)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scan", action="store_true")
    parser.add_argument("--mesh", type=Path, action="append", default=[])
    parser.add_argument("--peer", type=int, default=0)
    arguments = parser.parse_args()
    resolve_device("cpu")
    machine = {"machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores", "command": sys.argv}
    for name, mesh in meshes(arguments.scan, arguments.mesh).items():
        print(json.dumps({"mesh": name, "who": "smr", **measure(mesh), **machine}), flush=True)
        if arguments.peer:
            print(json.dumps({"mesh": name, "who": "xatlas", **peer(mesh, arguments.peer), **machine}), flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(json.dumps({"peak_gb": round(peak, 2), **machine}))


if __name__ == "__main__":
    main()
