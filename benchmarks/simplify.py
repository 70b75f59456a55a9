"""Simplification of a bumpy sphere: CPU time, distance to the input, triangle quality.

    python benchmarks/simplify.py [--faces 80000] [--grid 292] [--mesh raw.npz] [--peers fast_simplification pymeshlab]

One JSON line for each library. CPU time is user + system time of the call, the median of `--repeat` runs after one
that warms up. Distances are exact, from 200 000 area-weighted samples of each surface to the other, in units of the
unit box, or in those of --mesh. Peers that are not installed are left out with a word.
"""
# mypy: disable-error-code="valid-type"

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version

import numpy as np
import warp as wp

from smr import __version__
from smr.mesh.distance import index_surface
from smr.mesh.simplify import simplify
from smr.mesh.topology import edges
from smr.records import Mesh


def bumpy_sphere(grid: int) -> Mesh:
    """Marching cubes of a sphere with smooth bumps, in the unit box."""
    axis = np.linspace(-1, 1, grid)
    x, y, z = np.meshgrid(axis, axis, axis, indexing="ij", sparse=True)
    r = np.sqrt(x * x + y * y + z * z) + 1e-9
    u, v, w = x / r, y / r, z / r
    bumps = 0.05 * np.sin(6 * u + 1) * np.sin(5 * v) * np.sin(7 * w + 0.5) + 0.03 * np.sin(11 * u) * np.sin(13 * v + 1)
    field = wp.array((r - 0.8 - bumps).astype(np.float32), dtype=wp.float32, device="cpu")
    vertices, indices = wp.MarchingCubes.extract_surface_marching_cubes(field, wp.float32(0.0))
    vertices, faces = vertices.numpy() / (grid - 1), indices.numpy().reshape(-1, 3).astype(np.int32)
    crosses = np.cross(vertices[faces[:, 1]] - vertices[faces[:, 0]], vertices[faces[:, 2]] - vertices[faces[:, 0]])
    if np.einsum("ij,ij->", crosses, vertices[faces[:, 0]] - 0.5) < 0:
        faces = faces[:, ::-1].copy()
    return Mesh(vertices, faces)


def distances(points: np.ndarray, mesh: Mesh) -> np.ndarray:
    return index_surface(mesh).nearest(points).distances


def samples(mesh: Mesh, count: int = 200_000) -> np.ndarray:
    rng = np.random.default_rng(0)
    corners = mesh.vertices[mesh.faces].astype(np.float64)
    area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    face = rng.choice(len(area), count, p=area / area.sum())
    r = np.sqrt(rng.random((count, 1)))
    s = rng.random((count, 1))
    c = corners[face]
    return (1 - r) * c[:, 0] + r * (1 - s) * c[:, 1] + r * s * c[:, 2]


def quality(mesh: Mesh) -> np.ndarray:
    """4 sqrt(3) area / sum of squared edges: 1 for an equilateral triangle."""
    c = mesh.vertices[mesh.faces].astype(np.float64)
    area = np.linalg.norm(np.cross(c[:, 1] - c[:, 0], c[:, 2] - c[:, 0]), axis=1) / 2
    return 4 * np.sqrt(3) * area / ((c - np.roll(c, 1, axis=1)) ** 2).sum(axis=(1, 2))


def _smr(mesh: Mesh, faces: int) -> Mesh:
    return simplify(mesh, faces=faces)


def _fast_simplification(mesh: Mesh, faces: int) -> Mesh:
    module = import_module("fast_simplification")
    return Mesh(*module.simplify(mesh.vertices, mesh.faces, target_count=faces, agg=7))


def _meshoptimizer(mesh: Mesh, faces: int) -> Mesh:
    module = import_module("meshoptimizer")
    out = np.zeros(mesh.faces.size, np.uint32)
    indices = np.ascontiguousarray(mesh.faces.ravel(), np.uint32)
    count = module.simplify(out, indices, np.ascontiguousarray(mesh.vertices, np.float32), target_index_count=3 * faces)
    return Mesh(mesh.vertices, out[:count].reshape(-1, 3).astype(np.int32))


def _pymeshlab(mesh: Mesh, faces: int) -> Mesh:
    module = import_module("pymeshlab")
    meshes = module.MeshSet()
    meshes.add_mesh(module.Mesh(mesh.vertices.astype(np.float64), mesh.faces))
    meshes.meshing_decimation_quadric_edge_collapse(targetfacenum=faces, preservenormal=True)
    result = meshes.current_mesh()
    return Mesh(result.vertex_matrix(), result.face_matrix().astype(np.int32))


LIBRARIES: dict[str, Callable[[Mesh, int], Mesh]] = {
    "smr": _smr,
    "fast_simplification": _fast_simplification,
    "meshoptimizer": _meshoptimizer,
    "pymeshlab": _pymeshlab,
}


def measure(name: str, mesh: Mesh, faces: int, repeat: int) -> dict[str, object]:
    call = LIBRARIES[name]
    if name == "smr":
        call(bumpy_sphere(24), 500)
    times, walls = [], []
    for _ in range(repeat):
        begin, wall = time.process_time(), time.perf_counter()
        result = call(mesh, faces)
        times.append(time.process_time() - begin)
        walls.append(time.perf_counter() - wall)
    there, back = distances(samples(result), mesh), distances(samples(mesh), result)
    q = quality(result)
    return {
        "library": name,
        "version": __version__ if name == "smr" else version(name.replace("_", "-")),
        "faces_in": len(mesh.faces),
        "faces": len(result.faces),
        "cpu_s": round(statistics.median(times), 3),
        "wall_s": round(statistics.median(walls), 3),
        "mean_error": float(f"{(there.mean() + back.mean()) / 2:.3g}"),
        "max_error": float(f"{max(there.max(), back.max()):.3g}"),
        "centre_mean_error": float(f"{distances(result.vertices[result.faces].mean(axis=1), mesh).mean():.3g}"),
        "quality_mean": round(float(q.mean()), 3),
        "quality_p1": round(float(np.percentile(q, 1)), 3),
        "non_manifold_or_open_edges": int((edges(result.faces).face_counts != 2).sum()),
        "machine": f"{platform.machine()}, {wp.get_device('cpu').name}, Python {platform.python_version()}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faces", type=int, default=80_000)
    parser.add_argument("--grid", type=int, default=292)
    parser.add_argument("--mesh", help="npz file with vertices and faces in place of the bumpy sphere")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--peers", nargs="*", default=[], choices=sorted(set(LIBRARIES) - {"smr"}))
    options = parser.parse_args()
    if options.mesh:
        stored = np.load(options.mesh, allow_pickle=False)
        mesh = Mesh(stored["vertices"], stored["faces"].astype(np.int32))
    else:
        mesh = bumpy_sphere(options.grid)
    for name in ["smr", *options.peers]:
        try:
            print(json.dumps(measure(name, mesh, options.faces, options.repeat)), flush=True)
        except ImportError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
