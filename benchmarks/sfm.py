"""Poses from photos against the truth: camera centres and rotations after alignment.

    python benchmarks/sfm.py --data FOLDER [--sets fountain synthetic_object] [--intrinsics given|found]

Prints a JSON line a set. `given`: the capture's intrinsics are kept; `found`: they are left out and found with the
poses. Centres are compared after the similarity that fits them best, rotations after the rotation that fits them best.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from smr import sfm
from smr.captures import read_capture
from smr.config import CaptureConfig, SfmConfig
from smr.records import Capture
from smr.sfm.world import fit_similarity

TRUE = ("fountain", "synthetic_object", "synthetic_noisy", "temple_sparse_ring", "fox")
PHOTOS_ONLY = ("kermit", "sceaux_castle")


def without_cameras(capture: Capture, *, guess: bool) -> Capture:
    """The capture's photos alone, as a folder of photos would be read."""
    frames = []
    for frame in capture.frames:
        assert frame.photo is not None
        camera = frame.photo.camera
        if guess:
            f = 1.2 * max(camera.width, camera.height)
            camera = replace(
                camera,
                fx=f,
                fy=f,
                cx=camera.width / 2,
                cy=camera.height / 2,
                model="pinhole",
                distortion=(),
                intrinsics="guess",
            )
        frames.append(replace(frame, depth=None, photo=replace(frame.photo, camera=camera, world_from_camera=None)))
    return replace(capture, frames=tuple(frames))


def measure(name: str, data: Path, intrinsics: str, config: SfmConfig) -> dict[str, Any]:
    """Find the poses of one set and compare them with the truth."""
    capture = read_capture(data / name, CaptureConfig())
    truth = {f.name: f.photo.world_from_camera for f in capture.frames if f.photo is not None}
    if name not in PHOTOS_ONLY:
        capture = without_cameras(capture, guess=intrinsics == "found")
    with tempfile.TemporaryDirectory() as folder:
        start, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        solved, report = sfm.find_poses(capture, config, folder=Path(folder))
        seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    line: dict[str, Any] = {
        "set": name,
        "intrinsics": intrinsics if name not in PHOTOS_ONLY else "found",
        "registered": f"{len(report.kept)} of {report.photos}",
        "points": len(report.points.positions),
        "reprojection_px": round(report.reprojection_px, 3),
        "focal_px": report.as_dict()["focal_px"],
        "matching": report.matching,
        "pairs": report.pairs,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime, 1),
        "peak_mb": round(after.ru_maxrss / 1024),
    }
    if name not in PHOTOS_ONLY:
        line |= compare(solved, truth, millimetres=name != "fox")
    return line


def compare(solved: Capture, truth: dict[str, Any], *, millimetres: bool) -> dict[str, float]:
    """Errors of centres and rotations after alignment."""
    found = np.array([f.photo.world_from_camera for f in solved.frames if f.photo is not None])
    true = np.array([truth[f.name] for f in solved.frames])
    fit = fit_similarity(found[:, :3, 3], true[:, :3, 3])
    error = np.linalg.norm(fit.points(found[:, :3, 3]) - true[:, :3, 3], axis=1)
    u, _, vt = np.linalg.svd(np.einsum("nij,nkj->ik", true[:, :3, :3], found[:, :3, :3]))
    turn = u @ np.diag([1, 1, np.sign(np.linalg.det(u @ vt))]) @ vt
    apart = np.swapaxes(true[:, :3, :3], 1, 2) @ turn @ found[:, :3, :3]
    angles = np.degrees(np.arccos(np.clip((np.trace(apart, axis1=1, axis2=2) - 1) / 2, -1, 1)))
    rms = float(np.sqrt((error**2).mean()))
    size = float(np.sqrt(((true[:, :3, 3] - true[:, :3, 3].mean(axis=0)) ** 2).sum(axis=1).mean()))
    centers = (
        {"centers_rms_mm": round(1000 * rms, 4)} if millimetres else {"centers_rms_of_spread": round(rms / size, 6)}
    )
    return {
        **centers,
        "rotation_mean_deg": round(float(angles.mean()), 4),
        "rotation_max_deg": round(float(angles.max()), 4),
    }


def main() -> None:
    """Measure each set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="*", default=[*TRUE, *PHOTOS_ONLY])
    parser.add_argument("--intrinsics", choices=("given", "found"), nargs="*", default=["given", "found"])
    parser.add_argument("--mapper", choices=("incremental", "global"), default="incremental")
    parser.add_argument("--feature-size", type=int)
    options = parser.parse_args()
    config = SfmConfig(mapper=options.mapper, feature_size=options.feature_size)
    for name in options.sets:
        for intrinsics in options.intrinsics if name not in PHOTOS_ONLY else ["found"]:
            line = measure(name, options.data, intrinsics, config)
            print(json.dumps({**line, "cores": os.cpu_count(), "python": platform.python_version()}), flush=True)


if __name__ == "__main__":
    main()
