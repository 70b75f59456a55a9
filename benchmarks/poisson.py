"""Poisson surfaces of 100 000 oriented points on a bumpy shape of unit size: CPU time, distance to the true one.

    python benchmarks/poisson.py [--resolutions 128 256] [--open3d PYTHON]

One JSON line for each set of points and each way. `PYTHON` is an interpreter with Open3D; it gets the same points.
CPU time is user + system, of the first run after a small one that warms up. Errors are distances of the vertices to the
true surface (to first order, as its level set has it), in units of the shape's size, which is about 1.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

_OPEN3D = """
import resource, sys, time
import numpy as np, open3d as o3d
data = np.load(sys.argv[1])
cloud = o3d.geometry.PointCloud(o3d.utility.Vector3dVector(data["points"]))
cloud.normals = o3d.utility.Vector3dVector(data["normals"])
begin = time.process_time()
mesh, _ = o3d.geometry.TriangleMesh.create_from_point_cloud_poisson(cloud, depth=int(sys.argv[2]))
cpu = time.process_time() - begin
np.savez(sys.argv[3], vertices=np.asarray(mesh.vertices), faces=len(mesh.triangles), cpu=cpu)
"""


def radius(directions: np.ndarray) -> np.ndarray:
    """Distance of the surface from the middle in unit directions; between 0.37 and 0.47."""
    x, y, z = directions.T
    return 0.42 * (1 + 0.08 * np.sin(5 * x) * np.cos(4 * y) + 0.05 * np.sin(7 * z))


def _slope(directions: np.ndarray) -> np.ndarray:
    """Outward normal (not of unit length) of the surface: x / |x| - tangential gradient of radius / radius."""
    step = 1e-5 * np.eye(3)
    gradient = np.stack([(radius(directions + s) - radius(directions - s)) / 2e-5 for s in step], axis=1)
    tangential = gradient - (gradient * directions).sum(axis=1, keepdims=True) * directions
    return directions - tangential / radius(directions)[:, None]


def bumpy(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points spread evenly by area, at random, and their unit normals."""
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(3 * count, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    slope, r = _slope(directions), radius(directions)
    area = r**2 * np.linalg.norm(slope, axis=1)
    kept = np.flatnonzero(rng.random(len(r)) < area / area.max())[:count]
    return (directions * r[:, None])[kept], (slope / np.linalg.norm(slope, axis=1, keepdims=True))[kept]


def error(points: np.ndarray) -> np.ndarray:
    """Distance of points near the surface to it, to first order."""
    r = np.linalg.norm(points, axis=1)
    directions = points / r[:, None]
    return np.abs(r - radius(directions)) / np.linalg.norm(_slope(directions), axis=1)


def samples() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The sets of points: exact, noisy, uneven, few."""
    points, normals = bumpy(100_000)
    rng = np.random.default_rng(1)
    turned = normals + 0.12 * rng.normal(size=normals.shape)
    noise = rng.normal(size=points.shape)
    uneven = rng.random(len(points)) < np.where(points[:, 0] > 0, 1.0, 0.1)
    return {
        "exact": (points, normals),
        "noise 0.001": (points + 0.001 * noise, normals),
        "noise 0.005": (points + 0.005 * noise, normals),
        "normals off by 10 degrees": (points, turned / np.linalg.norm(turned, axis=1, keepdims=True)),
        "a tenth of the density on one side": (points[uneven], normals[uneven]),
        "2 000 points": (points[:2000], normals[:2000]),
    }


def _open3d(python: str, points: np.ndarray, normals: np.ndarray, depth: int) -> tuple[np.ndarray, int, float]:
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder) / "given.npz", Path(folder) / "made.npz"
        np.savez(given, points=points, normals=normals)
        subprocess.run(
            [python, "-c", _OPEN3D, str(given), str(depth), str(made)], check=True, stdout=subprocess.DEVNULL
        )
        result = np.load(made)
        return result["vertices"], int(result["faces"]), float(result["cpu"])


def _smr(points: np.ndarray, normals: np.ndarray, resolution: int) -> tuple[np.ndarray, int, float]:
    from smr.points.poisson import poisson

    begin = time.process_time()
    mesh = poisson(points, normals, resolution=resolution)
    return mesh.vertices.astype(np.float64), len(mesh.faces), time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resolutions", type=int, nargs="*", default=[128, 256])
    parser.add_argument("--open3d", metavar="PYTHON", help="an interpreter with Open3D")
    parser.add_argument("--depth", type=int, default=8, help="Open3D's depth")
    options = parser.parse_args()
    _smr(*bumpy(1000), 16)
    for name, (points, normals) in samples().items():
        ways = [(f"smr, resolution {n}", _smr, (points, normals, n)) for n in options.resolutions]
        if options.open3d:
            ways.append((f"Open3D, depth {options.depth}", _open3d, (options.open3d, points, normals, options.depth)))
        for way, call, arguments in ways:
            vertices, faces, cpu = call(*arguments)
            miss = error(vertices)
            row = {
                "points": name,
                "way": way,
                "faces": faces,
                "mean": float(f"{miss.mean():.3g}"),
                "p99": float(f"{np.quantile(miss, 0.99):.3g}"),
                "max": float(f"{miss.max():.3g}"),
                "cpu_s": round(cpu, 2),
                "machine": f"{platform.machine()}, Python {platform.python_version()}",
            }
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
