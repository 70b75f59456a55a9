"""Accuracy of raw fusion against exact truth, over what the views saw. Prints JSON lines.

python benchmarks/fusion_accuracy.py --set synthetic_object --voxel 0.002
"""

from __future__ import annotations

import argparse
import json
import sys

import numpy as np
import trimesh
from fusion_data import DATA

from smr.arrays import resolve_device
from smr.captures import read_capture
from smr.config import FusionConfig
from smr.metrics import evaluate
from smr.records import Mesh
from smr.tsdf import extract_mesh, fuse


def truth(name: str) -> Mesh:
    parts = [trimesh.load(DATA / name / "ground_truth" / f"{part}.ply", process=False) for part in ("objects", "table")]
    whole = trimesh.util.concatenate(parts)
    return Mesh(np.asarray(whole.vertices), np.asarray(whole.faces, dtype=np.int32))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", nargs="+", default=["synthetic_object", "synthetic_noisy", "synthetic_thin"])
    parser.add_argument("--voxel", type=float, default=0.002)
    parser.add_argument("--depth-max", type=float, default=3.0)
    parser.add_argument("--truncation", type=float, default=FusionConfig.truncation)
    parser.add_argument("--min-observations", type=int, default=FusionConfig.min_observations)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", help="folder for the meshes as npz")
    parser.add_argument("--mesh", help="measure this npz file (vertices, faces) of the first set instead of fusing")
    args = parser.parse_args()
    device = resolve_device(args.device)
    config = FusionConfig(
        voxel_size=args.voxel, depth_max=args.depth_max, truncation=args.truncation,
        min_observations=args.min_observations,
    )  # fmt: skip
    for name in args.set[:1] if args.mesh else args.set:
        capture = read_capture(DATA / name)
        if args.mesh:
            stored = np.load(args.mesh, allow_pickle=False)
            mesh = Mesh(stored["vertices"], stored["faces"])
        else:
            mesh = extract_mesh(fuse(capture, config, device=device), config)
        found = evaluate(mesh, truth(name), seen_by=capture, device=device)
        line = {
            "command": " ".join(sys.argv),
            "set": name,
            "accuracy_mm": round(1e3 * found.accuracy.mean, 4),
            "completeness_mm": round(1e3 * found.completeness.mean, 4),
            "accuracy_p95_mm": round(1e3 * found.accuracy.p95, 3),
            "completeness_p95_mm": round(1e3 * found.completeness.p95, 3),
            "scores": {s.distance: [round(x, 4) for x in (s.precision, s.recall, s.f_score)] for s in found.scores},
            "normal_consistency": round(found.normal_consistency, 4),
            "beyond_reference": found.beyond_reference,
            "faces": len(mesh.faces),
        }
        print(json.dumps(line), flush=True)
        if args.out:
            np.savez(
                f"{args.out}/raw_{name}_{1e3 * args.voxel:g}mm.npz",
                vertices=mesh.vertices, faces=mesh.faces, colors=mesh.colors, normals=mesh.normals,
            )  # fmt: skip


if __name__ == "__main__":
    main()
