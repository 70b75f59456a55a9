"""Closing of 40 holes punched into a sphere of 100 000 faces: CPU time, what stays open, distance to the sphere.

    python benchmarks/holes.py [--peers pymeshlab trimesh]

One JSON line for each way. CPU time is user + system time, the median of five runs after one that warms up; making the
library's mesh object is not counted. `error` is the largest distance of an added face's centre to the unit sphere.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from importlib import import_module

import numpy as np
import trimesh

from smr.mesh.holes import fill_holes
from smr.mesh.repair import drop_small_components, keep_faces, repair_non_manifold
from smr.mesh.topology import border_half_edges, boundary_loops
from smr.records import Mesh


def punched_sphere() -> Mesh:
    sphere = trimesh.creation.uv_sphere(count=[160, 160])
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(40, 3))
    directions[:, 2] *= 0.5  # off the poles, where the triangles are needles
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    keep = (sphere.triangles_center @ directions.T < np.cos(rng.uniform(0.03, 0.06, 40))).all(axis=1)
    mesh = keep_faces(Mesh(np.asarray(sphere.vertices, np.float32), sphere.faces.astype(np.int32)), keep)
    return drop_small_components(repair_non_manifold(mesh), 1000, 1.0)


def _smr(mesh: Mesh, fair: bool) -> Callable[[], Mesh]:
    return lambda: fill_holes(mesh, 1000, fair=fair)


def _pymeshlab(mesh: Mesh) -> Callable[[], Mesh]:
    module = import_module("pymeshlab")
    meshes = module.MeshSet()

    def run() -> Mesh:
        meshes.clear()
        meshes.add_mesh(module.Mesh(mesh.vertices.astype(np.float64), mesh.faces))
        begin = time.process_time()
        meshes.meshing_close_holes(maxholesize=1000)
        run.cpu = time.process_time() - begin  # type: ignore[attr-defined]
        result = meshes.current_mesh()
        return Mesh(result.vertex_matrix(), result.face_matrix().astype(np.int32))

    return run


def _trimesh(mesh: Mesh) -> Callable[[], Mesh]:
    def run() -> Mesh:
        shape = trimesh.Trimesh(mesh.vertices, mesh.faces, process=False)
        begin = time.process_time()
        trimesh.repair.fill_holes(shape)
        run.cpu = time.process_time() - begin  # type: ignore[attr-defined]
        return Mesh(np.asarray(shape.vertices), shape.faces.astype(np.int32))

    return run


def measure(name: str, call: Callable[[], Mesh], mesh: Mesh) -> dict[str, object]:
    times = []
    for _ in range(6):
        begin = time.process_time()
        result = call()
        times.append(getattr(call, "cpu", time.process_time() - begin))
    added = result.vertices[result.faces[len(mesh.faces) :]].mean(axis=1)
    error = np.abs(np.linalg.norm(added, axis=1) - 1).max() if len(added) else None
    return {
        "way": name,
        "faces_in": len(mesh.faces),
        "holes": len(boundary_loops(mesh)),
        "border_edges_before": len(border_half_edges(mesh.faces)),
        "border_edges_after": len(border_half_edges(result.faces)),
        "cpu_s": round(statistics.median(times[1:]), 4),
        "error": None if error is None else float(f"{error:.3g}"),
        "machine": f"{platform.machine()}, {platform.processor() or 'CPU'}, Python {platform.python_version()}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", nargs="*", default=[], choices=["pymeshlab", "trimesh"])
    options = parser.parse_args()
    mesh = punched_sphere()
    for fair in (False, True):
        print(json.dumps(measure("smr" if fair else "smr, fair=False", _smr(mesh, fair), mesh)), flush=True)
    for name, make in (("pymeshlab", _pymeshlab), ("trimesh", _trimesh)):
        if name in options.peers:
            try:
                print(json.dumps(measure(name, make(mesh), mesh)), flush=True)
            except ImportError as error:
                print(f"{name} is left out: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
