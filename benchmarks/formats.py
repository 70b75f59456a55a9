"""CPU seconds and megabytes a second of reading and writing mesh files, beside trimesh.

    python benchmarks/formats.py --faces 1000000

Prints one JSON line a measurement. Times are CPU seconds of this process and its children, the best of two.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import trimesh

from smr.formats import read_mesh, write_mesh
from smr.records import Material, Mesh, TexturedMesh


def cpu_seconds() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def best_of_two(work: Callable[[], object]) -> float:
    times = []
    for _ in range(2):
        begin = cpu_seconds()
        work()
        times.append(cpu_seconds() - begin)
    return min(times)


def grid(faces: int) -> TexturedMesh:
    """A bumpy surface of so many triangles with normals, texture coordinates and a small texture."""
    side = int(np.sqrt(faces / 2)) + 1
    y, x = np.mgrid[0:side, 0:side] / (side - 1)
    vertices = np.stack([x, y, 0.1 * np.sin(9 * x) * np.cos(7 * y)], axis=2).reshape(-1, 3).astype(np.float32)
    corner = (np.arange(side - 1)[:, None] * side + np.arange(side - 1)).ravel()
    quads = np.stack([corner, corner + 1, corner + side + 1, corner + side], axis=1)
    triangles = np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]]).astype(np.int32)
    normals = np.tile(np.array([[0, 0, 1]], np.float32), (len(vertices), 1))
    uvs = np.stack([x, y], axis=2).reshape(-1, 2).astype(np.float32)
    texture = np.zeros((64, 64, 3), np.uint8)
    return TexturedMesh(Mesh(vertices, triangles, normals), uvs, triangles, (Material(texture=texture),))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faces", type=int, default=1_000_000)
    parser.add_argument("--endings", nargs="*", default=[".obj", ".ply", ".glb", ".usdz", ".stl", ".off"])
    options = parser.parse_args()
    model = grid(options.faces)
    base = {"machine": platform.processor() or platform.machine(), "cores": os.cpu_count(), "command": sys.argv}
    base["faces"] = len(model.mesh.faces)
    with tempfile.TemporaryDirectory() as folder:
        for ending in options.endings:
            path = Path(folder) / f"a{ending}"
            line = base | {"format": ending}
            line["write_s"] = round(best_of_two(lambda path=path: write_mesh(model, path)), 3)
            size = path.stat().st_size / 1e6
            line["read_s"] = round(best_of_two(lambda path=path: read_mesh(path)), 3)
            line["size_mb"] = round(size, 1)
            line["read_mb_per_s"] = round(size / line["read_s"], 1)
            if ending != ".usdz":
                peer = best_of_two(lambda path=path: trimesh.load(path, process=False, force="mesh"))
                line["trimesh_read_s"] = round(peer, 3)
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
