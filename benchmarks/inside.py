"""Inside test on spheres, and on a regular grid against a box: CPU time a point, and how many answers are right.

    python benchmarks/inside.py [--peers trimesh]

One JSON line for each mesh and each way. CPU time is user + system of one run after a small one that warms up, building
the tree included; trimesh casts rays, needs rtree, and takes minutes. Points of the spheres lie at random in the box
around them, none within 0.5 % of the surface; the grid's points are in line with edges, vertices and diagonals of the
box, none on its surface.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable

import numpy as np
import trimesh

from smr.mesh.inside import is_inside
from smr.mesh.winding import winding_number
from smr.records import Mesh


def cases() -> list[tuple[str, trimesh.Trimesh, np.ndarray, np.ndarray]]:
    """Name, mesh, points, whether each is inside."""
    steps = np.linspace(-0.99, 0.99, 10)
    grid = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(-1, 3)
    found = [("box, regular grid", trimesh.creation.box(), grid, (np.abs(grid) < 0.5).all(axis=1))]
    points = np.random.default_rng(0).uniform(-1, 1, (100_000, 3))
    radius = np.linalg.norm(points, axis=1)
    clear = np.abs(radius - 1) > 5e-3
    for detail in (3, 5, 7):
        found.append(("sphere", trimesh.creation.icosphere(detail), points[clear], radius[clear] < 1))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", nargs="*", default=[], choices=["trimesh"])
    options = parser.parse_args()
    for name, shape, points, inside in cases():
        mesh = Mesh(np.array(shape.vertices), shape.faces.astype(np.int32))

        def ours(points: np.ndarray, mesh: Mesh = mesh) -> np.ndarray:
            return is_inside(mesh, points)

        def trimeshs(points: np.ndarray, shape: trimesh.Trimesh = shape) -> np.ndarray:
            return shape.contains(points)

        ways: dict[str, Callable[[np.ndarray], np.ndarray]] = {"smr": ours}
        if "trimesh" in options.peers:
            ways["trimesh"] = trimeshs
        for way, call in ways.items():
            call(points[:10])
            begin = time.process_time()
            answer = call(points)
            cpu = time.process_time() - begin
            row = {
                "mesh": name,
                "faces": len(mesh.faces),
                "points": len(points),
                "way": way,
                "wrong": int((answer != inside).sum()),
                "cpu_s": round(cpu, 3),
                "us_per_point": round(1e6 * cpu / len(points), 2),
                "machine": f"{platform.machine()}, Python {platform.python_version()}",
            }
            if way == "smr":
                row["largest_error_of_the_winding_number"] = round(
                    float(np.abs(winding_number(mesh, points) - inside).max()), 4
                )
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
