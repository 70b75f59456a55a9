"""Accuracy of surfaces against exact truth, or against the depth maps where there is no truth. Prints JSON lines.

python benchmarks/accuracy.py                                     # raw fusion, all sets
python benchmarks/accuracy.py --set synthetic_thin --job          # and at the end of the job: cleaned, 80 000 vertices
python benchmarks/accuracy.py --peer /tmp/o3d/bin/python          # and Open3D, as its users run it and corrected

The peer is the Python of an environment with open3d-cpu. It gets the same decoded frames, voxel size and truncation.
Its VoxelBlockGrid cuts pixel coordinates off to whole numbers, which shifts the image by half a pixel: `open3d` is
given the principal point that its users have (first pixel's centre at 0), `open3d_corrected` one that undoes the shift.

Accuracy and completeness are in mm, over what the views saw (see `smr.metrics.evaluate`). `agreement` is the median
difference along the viewing axis, in mm, between the depth maps and the rendered surface, `explained` the share of
the measured pixels within the tolerance.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import trimesh
import warp as wp

from smr.agreement import measure_agreement
from smr.arrays import resolve_device
from smr.captures import Decoder, read_capture
from smr.cleaning import clean
from smr.config import CleanConfig, FusionConfig, TrimConfig
from smr.demo import make_capture
from smr.formats import write_mesh
from smr.metrics import Evaluation, colored_error_mesh, evaluate
from smr.records import Camera, Capture, DepthMap, Frame, Mesh
from smr.render.rasterize import rasterize
from smr.transforms import look_at, rigid_inverse, transform_points
from smr.trimming import trim
from smr.tsdf import extract_mesh, fuse

DATA = Path(os.environ.get("SMR_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))


@dataclass(frozen=True)
class Subject:
    """What is reconstructed, and how."""

    capture: Capture
    truth: Mesh | None
    voxel: float
    depth_max: float


def synthetic(name: str) -> Subject:
    folder = DATA / name
    parts = [trimesh.load(folder / "ground_truth" / f"{part}.ply", process=False) for part in ("objects", "table")]
    return Subject(read_capture(folder), mesh_of(trimesh.util.concatenate(parts)), 0.002, 3.0)


def room(name: str) -> Subject:
    return Subject(read_capture(DATA / name), None, 0.01, 6.0)


def demo(folder: Path) -> Subject:
    scene = make_capture(folder)
    return Subject(scene.capture, scene.truth, 0.002, 3.0)


def bunny(folder: Path) -> Subject:
    """The two range scans, meshed along their grids and seen by a camera where the scanner was."""
    poses = json.loads((DATA / "bunny_scans" / "poses.json").read_text())
    camera = Camera(640, 480, 1400.0, 1400.0, 320.0, 240.0)
    frames = []
    for name in ("bun000.ply", "bun045.ply"):
        scan, world_from_scan = range_scan(DATA / "bunny_scans" / name), np.array(poses[name])
        middle = 0.5 * (scan.vertices.min(axis=0) + scan.vertices.max(axis=0))
        scan_from_camera = look_at(middle + np.array([0, 0, 0.5]), middle, np.array([0.0, 1.0, 0.0]))
        seen = rasterize(
            transform_points(rigid_inverse(scan_from_camera), scan.vertices), scan.faces, camera, device="cpu"
        )
        path = folder / f"{name}.npy"
        np.save(path, np.where(seen.face >= 0, seen.depth, 0).astype(np.float32))
        frames.append(Frame(name, None, DepthMap(path, camera, world_from_scan @ scan_from_camera, 1.0)))
    truth = mesh_of(trimesh.load(DATA / "bunny_scans" / "bunny.obj", process=False))
    return Subject(Capture(folder, "range scans", tuple(frames)), truth, 0.0005, 2.0)


def range_scan(path: Path) -> Mesh:
    """Triangles between neighbours of the scanner's grid that are less than 2 mm apart."""
    header, body = path.read_text().split("end_header\n")
    count = int(header.split("element vertex ")[1].split()[0])
    lines = body.splitlines()
    vertices = np.array([line.split()[:3] for line in lines[:count]], dtype=float)
    cells = np.array([int(line.split()[1]) if line[0] == "1" else -1 for line in lines[count : count + 512 * 400]])
    grid = cells.reshape(400, 512)
    a, b, c, d = grid[:-1, :-1], grid[:-1, 1:], grid[1:, 1:], grid[1:, :-1]
    faces = np.concatenate([np.stack([a, b, c], -1).reshape(-1, 3), np.stack([a, c, d], -1).reshape(-1, 3)])
    faces = faces[(faces >= 0).all(axis=1)]
    corners = vertices[faces]
    longest = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).max(axis=1)
    return Mesh(vertices, faces[longest < 0.002].astype(np.int32))


def mesh_of(loaded: trimesh.Trimesh) -> Mesh:
    return Mesh(np.asarray(loaded.vertices), np.asarray(loaded.faces, dtype=np.int32))


SETS: dict[str, Callable[[Path], Subject]] = {
    "synthetic_object": lambda _: synthetic("synthetic_object"),
    "synthetic_noisy": lambda _: synthetic("synthetic_noisy"),
    "synthetic_thin": lambda _: synthetic("synthetic_thin"),
    "demo": demo,
    "bunny_scans": bunny,
    "living_room": lambda _: room("living_room"),
    "icl_nuim_four": lambda _: room("icl_nuim_four"),
    "real_room_five": lambda _: room("real_room_five"),
}


def fuse_with_peer(subject: Subject, python: str, shift: float, folder: Path) -> tuple[Mesh, float]:
    """Open3D's mesh of the same decoded frames, and its CPU time for fusion and extraction."""
    frames = folder / "frames.npz"
    if not frames.exists():
        decoder = Decoder()
        depths, colors, matrices, poses = [], [], [], []
        for frame in subject.capture.frames:
            if frame.depth is None or frame.depth.world_from_camera is None:
                continue
            depth, camera = decoder.depth(frame.depth)
            color = decoder.photo(frame.photo)[0] if frame.photo is not None else np.zeros((*depth.shape, 3), np.uint8)
            K = camera.K
            K[:2, 2] -= 0.5
            for rows, row in zip(
                (depths, colors, matrices, poses), (depth, color, K, frame.depth.world_from_camera), strict=True
            ):
                rows.append(row)
        np.savez(frames, depth=depths, color=colors, K=matrices, world_from_camera=poses)
    out = folder / "mesh.npz"
    script = Path(__file__).with_name("open3d_fuse.py")
    numbers = (subject.voxel, FusionConfig.truncation, subject.depth_max, shift)
    subprocess.run([python, str(script), str(frames), str(out), *map(str, numbers)], check=True, stdout=sys.stderr)
    found = np.load(out)
    return Mesh(found["vertices"].astype(np.float64), found["faces"]), float(found["cpu_s"])


def judged(mesh: Mesh, subject: Subject, device: str, samples: int) -> dict:
    if subject.truth is None:
        tolerance = 2 * subject.voxel
        found = measure_agreement(
            mesh, subject.capture, tolerance=tolerance, depth_max=subject.depth_max, device=device
        )
        return {} if found is None else {
            "agreement": round(1000 * found.median, 3),
            "agreement_p90": round(1000 * found.p90, 3),
            "explained": round(found.explained, 4),
            "tolerance": 1000 * tolerance,
        }  # fmt: skip
    return figures(evaluate(mesh, subject.truth, seen_by=subject.capture, samples=samples, device=device))


def figures(found: Evaluation) -> dict:
    return {
        "accuracy": round(1000 * found.accuracy.mean, 4),
        "accuracy_p95": round(1000 * found.accuracy.p95, 4),
        "accuracy_max": round(1000 * found.accuracy.max, 3),
        "completeness": round(1000 * found.completeness.mean, 4),
        "completeness_p95": round(1000 * found.completeness.p95, 4),
        **{f"F{1000 * s.distance:g}mm": round(s.f_score, 4) for s in found.scores},
        "normal_consistency": round(found.normal_consistency, 4),
        "beyond_reference": found.beyond_reference,
        "seen_share": round(found.seen_share, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--voxel", type=float, help="metres; 0.002 for objects, 0.01 for rooms, 0.0005 for the bunny")
    parser.add_argument("--job", action="store_true", help="also trim, clean and simplify to 80 000 vertices")
    parser.add_argument("--peer", help="Python of an environment with open3d-cpu")
    parser.add_argument("--samples", type=int, default=300_000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--errors", type=Path, help="folder for meshes coloured by their error, red at 2 mm")
    args = parser.parse_args()
    device = resolve_device(args.device)
    machine = {"machine": f"{platform.machine()}, {os.cpu_count()} cores", "device": device, "warp": wp.__version__}
    print(json.dumps({**machine, "command": " ".join(["python", *sys.argv]), "unit": "mm"}))
    for name in args.set:
        with tempfile.TemporaryDirectory() as temporary:
            subject = SETS[name](Path(temporary))
            if args.voxel:
                subject = Subject(subject.capture, subject.truth, args.voxel, subject.depth_max)

            def report(system: str, mesh: Mesh, seconds: float, name: str = name, subject: Subject = subject) -> None:
                row = {"set": name, "system": system, "voxel": 1000 * subject.voxel, "vertices": len(mesh.vertices)}
                print(json.dumps({**row, "cpu_s": round(seconds, 2), **judged(mesh, subject, device, args.samples)}))
                sys.stdout.flush()
                if args.errors is not None and subject.truth is not None:
                    args.errors.mkdir(parents=True, exist_ok=True)
                    write_mesh(colored_error_mesh(mesh, subject.truth, 0.002), args.errors / f"{name}_{system}.ply")

            began = time.process_time()
            config = FusionConfig(voxel_size=subject.voxel, depth_max=subject.depth_max)
            mesh = extract_mesh(fuse(subject.capture, config, device=device), config)
            report("smr", mesh, time.process_time() - began)
            if args.job:
                began = time.process_time()
                shown, dropped = trim(mesh, subject.capture, TrimConfig(), voxel_size=subject.voxel, device=device)
                report("smr_trimmed", shown, time.process_time() - began)
                print(json.dumps({"set": name, "unseen_faces": dropped.unseen_faces, "faces": len(mesh.faces)}))
                began = time.process_time()
                report("smr_cleaned", clean(shown, CleanConfig())[0], time.process_time() - began)
            for system, shift in (("open3d", 0.0), ("open3d_corrected", 0.5)) if args.peer else ():
                report(system, *fuse_with_peer(subject, args.peer, shift, Path(temporary)))


if __name__ == "__main__":
    main()
