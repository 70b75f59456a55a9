"""Dense depth from photos with known poses: time, completeness and error of maps and of the surface. JSON lines.

python benchmarks/mvs.py                                        # synthetic sets at preview, and the temple
python benchmarks/mvs.py --set synthetic_object --peer          # also points of pycolmap with Poisson
python benchmarks/mvs.py --set synthetic_object --frames 3      # three views
python benchmarks/mvs.py --set temple_sparse_ring --held-out 4 --background dark --quality normal   # views left out
python benchmarks/mvs.py --set fox --quality normal --depth-size 1920 --maps-only --device cuda     # speed

Maps: `complete` is the share of the truth's pixels that have depth; `right_1pct` (`right_05pct`) the share that has it
to within 1 % (0.5 %); `precision_1pct` the share of the found depth that is right; `error_mm` its mean error. The
surface: as in benchmarks/accuracy.py, over what the views saw. The first run on a machine compiles kernels: `--warm`
makes two small maps before the clock starts.

`--held-out 4` leaves out every fourth photo, makes the textured model from the others, and renders it where those were
taken: `seen` is the share of the photo (with a dark backdrop: of the object) that the model covers, `psnr` the likeness
of colours there, in dB, over all those photos; `silhouette_iou` compares the outline of the object before a dark
backdrop with the model's. The outline's truth is a fixed grey level, not the mask that the method uses.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import trimesh
import warp as wp
from PIL import Image
from scipy import ndimage
from scipy.spatial import cKDTree

from smr import mvs
from smr.arrays import resolve_device
from smr.captures import Decoder, read_capture, survey
from smr.cleaning import clean
from smr.config import CaptureConfig, MvsConfig, PipelineConfig, TextureConfig
from smr.formats import write_mesh
from smr.metrics import evaluate
from smr.plan import plan
from smr.points.poisson import poisson
from smr.records import Capture, Mesh, Photo, TexturedMesh
from smr.render.rasterize import rasterize
from smr.render.textured import render_textured
from smr.run_folder import peak_memory_bytes
from smr.texturing import bake
from smr.transforms import rigid_inverse, transform_points
from smr.tsdf import extract_mesh, fuse

DATA = Path(os.environ.get("SMR_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))
BRIGHT = 64
"""Grey level above which a pixel before a dark backdrop is the object; the temple's backdrop reaches 60."""


def truth_of(name: str) -> Mesh | None:
    folder = DATA / name / "ground_truth"
    if not folder.is_dir():
        return None
    both = trimesh.util.concatenate([trimesh.load(folder / f"{p}.ply", process=False) for p in ("objects", "table")])
    return Mesh(np.asarray(both.vertices), np.asarray(both.faces, dtype=np.int32))


def map_figures(found: Capture, truth: Capture) -> dict:
    """Means over the maps, at the size of the found maps."""
    decoder, rows = Decoder(), []
    for ours, exact in zip(found.frames, truth.frames, strict=True):
        if ours.depth is None or exact.depth is None:
            continue
        depth, _ = decoder.depth(ours.depth)
        metres, _ = decoder.depth(exact.depth)
        places = [((np.arange(n) + 0.5) * m / n).astype(int) for n, m in zip(depth.shape, metres.shape, strict=True)]
        metres = metres[places[0][:, None], places[1][None]]
        both = (depth > 0) & (metres > 0)
        error = np.abs(depth - metres)[both]
        relative = error / metres[both]
        known = (metres > 0).sum()
        rows.append(
            {
                "complete": both.sum() / known,
                "right_1pct": (relative < 0.01).sum() / known,
                "right_05pct": (relative < 0.005).sum() / known,
                "precision_1pct": (relative < 0.01).mean(),
                "precision_05pct": (relative < 0.005).mean(),
                "error_mm": 1000 * error.mean(),
                "median_error_mm": 1000 * np.median(error),
            }
        )
    return {key: round(float(np.mean([row[key] for row in rows])), 4) for key in rows[0]} if rows else {}


def surface_figures(mesh: Mesh, truth: Mesh, seen: Capture, device: str) -> dict:
    found = evaluate(mesh, truth, seen_by=seen, samples=200_000, device=device)
    return {
        "accuracy_mm": round(1000 * found.accuracy.mean, 3),
        "accuracy_p95_mm": round(1000 * found.accuracy.p95, 3),
        "completeness_mm": round(1000 * found.completeness.mean, 3),
        **{f"precision_{1000 * s.distance:g}mm": round(s.precision, 4) for s in found.scores},
        **{f"recall_{1000 * s.distance:g}mm": round(s.recall, 4) for s in found.scores},
        **{f"F{1000 * s.distance:g}mm": round(s.f_score, 4) for s in found.scores},
    }


def surface(capture: Capture, device: str) -> Mesh:
    """What the pipeline makes of the maps."""
    config = PipelineConfig()
    choice = plan(survey(capture), capture, config)
    fusion = choice.fusion
    return clean(extract_mesh(fuse(capture, fusion, device=device), fusion), config.clean, device=device)[0]


def peer_surface(capture: Capture, folder: Path) -> tuple[Mesh, int]:
    """Poisson through the points that pycolmap triangulates with the known poses, and their number.

    Points in fewer than three photos or off by two pixels are left out, as they would spoil the surface.
    """
    import pycolmap

    pycolmap.logging.minloglevel = 2
    images = folder / "images"
    images.mkdir()
    database = folder / "peer.db"
    model = pycolmap.Reconstruction()
    first = capture.frames[0].photo
    assert first is not None
    c = first.camera
    for frame in capture.frames:
        assert frame.photo is not None
        os.symlink(frame.photo.path.resolve(), images / frame.photo.path.name)
    reader = pycolmap.ImageReaderOptions()
    reader.camera_model, reader.camera_params = "PINHOLE", f"{c.fx},{c.fy},{c.cx},{c.cy}"
    pycolmap.extract_features(database, images, camera_mode=pycolmap.CameraMode.SINGLE, reader_options=reader)
    pycolmap.match_exhaustive(database)
    with pycolmap.Database.open(database) as stored:
        cameras, stored_images = stored.read_all_cameras(), stored.read_all_images()
    for camera in cameras:
        model.add_camera_with_trivial_rig(camera)
    poses = {f.photo.path.name: f.photo.world_from_camera for f in capture.frames if f.photo is not None}
    for image in stored_images:
        inverse = rigid_inverse(poses[image.name])
        pose = pycolmap.Rigid3d(pycolmap.Rotation3d(inverse[:3, :3]), inverse[:3, 3])
        fresh = pycolmap.Image(image_id=image.image_id, camera_id=image.camera_id, name=image.name)
        model.add_image_with_trivial_frame(fresh, pose)
    (folder / "sparse").mkdir()
    model = pycolmap.triangulate_points(model, database, images, folder / "sparse")
    sure = [point for point in model.points3D.values() if point.track.length() >= 3 and point.error < 2]
    points = np.array([point.xyz for point in sure])
    centers = {i: image.projection_center() for i, image in model.images.items()}
    towards = np.array([np.mean([centers[e.image_id] for e in p.track.elements], axis=0) - p.xyz for p in sure])
    near = points[cKDTree(points).query(points, 12)[1]]
    spread = near - near.mean(axis=1, keepdims=True)
    normals = np.linalg.eigh(np.einsum("nki,nkj->nij", spread, spread))[1][:, :, 0]
    normals *= np.sign((normals * towards).sum(axis=1, keepdims=True))
    return poisson(points, normals, resolution=256), len(points)


def object_before_dark(pixels: np.ndarray) -> np.ndarray:
    """The truth of a silhouette: the largest bright piece, with dark spots of up to 200 pixels."""
    labels, count = ndimage.label(ndimage.median_filter(pixels.max(axis=2), 3) > BRIGHT)
    bright = labels == 1 + np.bincount(labels.ravel(), minlength=count + 1)[1:].argmax()
    labels, count = ndimage.label(~bright)
    return bright | (np.bincount(labels.ravel(), minlength=count + 1) <= 200)[labels] & ~bright


def held_out_figures(
    model: TexturedMesh, photos: Sequence[Photo], background: str, save: Path | None, device: str
) -> dict:
    """The textured model against photos that it was not made from."""
    decoder, squared, shares, overlaps, rows = Decoder(), [], [], [], []
    for photo in photos:
        pose = photo.world_from_camera
        assert pose is not None
        pixels, camera = decoder.photo(photo)
        usable = decoder.mask(photo)
        points = transform_points(rigid_inverse(pose), np.asarray(model.mesh.vertices, np.float64))
        covered = rasterize(points, model.mesh.faces, camera, device=device).face >= 0
        wanted = np.ones(covered.shape, dtype=bool) if usable is None else usable
        if background == "dark":
            wanted = object_before_dark(pixels)
            overlaps.append((covered & wanted).sum() / (covered | wanted).sum())
        image = render_textured(model, camera, pose, device=device, background=(0, 0, 0))
        both = covered & wanted
        squared.append(np.square(image.astype(np.float32) - pixels)[both].ravel())
        shares.append(both.sum() / wanted.sum())
        rows.append(np.concatenate([pixels, image], axis=1))
    if save is not None:
        Image.fromarray(np.concatenate(rows, axis=0)).save(save)
    found = {"views": len(photos), "seen": round(float(np.mean(shares)), 4)}
    found["psnr"] = round(float(10 * np.log10(255**2 / np.concatenate(squared).mean())), 2)
    if overlaps:
        found["silhouette_iou"] = round(float(np.mean(overlaps)), 4)
        found["silhouette_iou_least"] = round(float(np.min(overlaps)), 4)
    return found


def held_out(name: str, full: Capture, config: MvsConfig, args: argparse.Namespace, device: str) -> None:
    """Leave photos out, make the model, look at it from there."""
    left_out = set(range(args.held_out // 2, len(full.frames), args.held_out))
    used = tuple(replace(frame, depth=None) for i, frame in enumerate(full.frames) if i not in left_out)
    photos = [frame.photo for i, frame in enumerate(full.frames) if i in left_out and frame.photo is not None]
    cpu = time.process_time()
    with tempfile.TemporaryDirectory() as temporary:
        found = mvs.estimate_depths(replace(full, frames=used), config, folder=Path(temporary), device=device)
        model, _ = bake(surface(found, device), found, TextureConfig(), device=device)
    row = {"set": name, "quality": args.quality, "used": len(used), "cpu_s": round(time.process_time() - cpu, 2)}
    picture = None
    if args.save is not None:
        args.save.mkdir(parents=True, exist_ok=True)
        picture = args.save / f"{name}_held_out.png"
        write_mesh(model, args.save / f"{name}_held_out.glb")
    print(json.dumps({**row, **held_out_figures(model, photos, args.background, picture, device)}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", nargs="+", default=["synthetic_object", "synthetic_noisy", "temple_sparse_ring"])
    parser.add_argument("--quality", default="preview", choices=["preview", "normal", "high"])
    parser.add_argument("--depth-size", type=int)
    parser.add_argument("--sources", type=int)
    parser.add_argument("--frames", type=int, help="use the first so many photos only")
    parser.add_argument("--masks", action="store_true", help="use the set's masks, and their visual hull")
    parser.add_argument("--background", default="scene", choices=["scene", "dark"])
    parser.add_argument("--every", type=int, default=1, help="use every n-th photo only")
    parser.add_argument("--held-out", type=int, help="leave out every n-th photo, and compare the model with it")
    parser.add_argument("--maps-only", action="store_true", help="no surface")
    parser.add_argument("--peer", action="store_true", help="also Poisson through pycolmap's points")
    parser.add_argument("--warm", action="store_true", help="compile kernels before the clock starts")
    parser.add_argument("--save", type=Path, help="folder for the meshes")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    device = resolve_device(args.device)
    machine = {"machine": f"{platform.machine()}, {os.cpu_count()} cores", "device": device, "warp": wp.__version__}
    print(json.dumps({**machine, "command": " ".join(["python", *sys.argv])}))
    config = MvsConfig(args.quality, args.depth_size, args.sources, background=args.background)
    for name in args.set:
        full = read_capture(DATA / name, CaptureConfig(use_masks=args.masks, every=args.every))
        full = replace(full, frames=full.frames[: args.frames])
        if args.held_out:
            held_out(name, full, config, args, device)
            continue
        photos = replace(full, frames=tuple(replace(frame, depth=None) for frame in full.frames))
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            if args.warm:
                few = replace(photos, frames=photos.frames[:3])
                small = replace(config, depth_size=300)
                mvs.estimate_depths(few, small, folder=folder / "warm", device=device)
            wall, cpu = time.perf_counter(), time.process_time()
            found = mvs.estimate_depths(photos, config, folder=folder / "depths", device=device)
            maps = [frame.depth for frame in found.frames if frame.depth is not None]
            row = {
                "set": name,
                "quality": args.quality,
                "maps": len(maps),
                "size": [maps[0].camera.width, maps[0].camera.height],
                "wall_s": round(time.perf_counter() - wall, 2),
                "cpu_s": round(time.process_time() - cpu, 2),
                "peak_memory_mb": (peak_memory_bytes() or 0) >> 20,
            }
            print(json.dumps({**row, **map_figures(found, full)}), flush=True)
            if args.maps_only:
                continue
            truth = truth_of(name)
            surfaces = {"smr": lambda found=found: (surface(found, device), None)}
            if args.peer:
                surfaces["pycolmap + Poisson"] = lambda full=full, folder=folder: peer_surface(full, folder)
            for system, make in surfaces.items():
                cpu = time.process_time()
                mesh, points = make()
                row = {"set": name, "system": system, "vertices": len(mesh.vertices), "points": points}
                row["cpu_s"] = round(time.process_time() - cpu, 2)
                if truth is not None:
                    row |= surface_figures(mesh, truth, full, device)
                print(json.dumps(row), flush=True)
                if args.save is not None:
                    args.save.mkdir(parents=True, exist_ok=True)
                    write_mesh(mesh, args.save / f"{name}_{system.split()[0]}.ply")


if __name__ == "__main__":
    main()
