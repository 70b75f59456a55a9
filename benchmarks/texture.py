"""Quality and cost of textures on views that were left out. Prints JSON lines.

python benchmarks/texture.py                                   # all sets, all methods
python benchmarks/texture.py --set seven_scenes --pictures DIR # and pictures: photo and rendering side by side

`smr` is `smr.texturing.bake`. Two plain methods on the same atlas and the same visibility: `average` takes the mean of
all photos that see a texel, weighted by their score, `best` the single best photo of each vertex, without harmonised
exposure, smooth choice, or alignment. On the synthetic sets the truth is the mesh and every other view is left out; on
seven_scenes the mesh is our own reconstruction at 1 cm and every 10th frame is left out.

psnr and ssim are taken after the rendering has been laid over the photo by an affine map and a gain a channel (the
photo's own pose and exposure are no better known than the others'), median_psnr is the same from the median squared
error, which occlusion errors do not dominate. sharpness is the mean absolute Laplacian over the photo's. color_error is
the mean difference in grey levels from the true colours of the objects' vertices (synthetic sets; black is 0).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import trimesh
import warp as wp
from PIL import Image
from scipy.ndimage import binary_erosion, gaussian_filter, map_coordinates

from smr import tsdf
from smr.arrays import cpu_threads, resolve_device
from smr.captures import decode_photo, read_capture
from smr.cleaning import clean
from smr.config import CleanConfig, FusionConfig, TextureConfig
from smr.mesh.unwrap import Atlas, unwrap
from smr.records import Capture, Material, Mesh, TexturedMesh
from smr.render.rasterize import rasterize
from smr.render.textured import render_textured
from smr.texturing import bake_onto
from smr.texturing.bake import GUTTER, SUPPORT_TEXELS, photo_resolution
from smr.texturing.blend import finish, list_jobs, make_canvas, paint
from smr.texturing.fill import fill_gutter, fill_vertices
from smr.texturing.shots import Shots
from smr.texturing.slots import empty_slots
from smr.texturing.support import build_support
from smr.texturing.views import BLEND, Choice
from smr.texturing.visibility import build_pyramid, look, observe
from smr.transforms import rigid_inverse, transform_points

DATA = Path(os.environ.get("SMR_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))
SETS = ("synthetic_object", "synthetic_noisy", "seven_scenes")
MAGENTA = (255, 0, 255)
GREY = np.array([0.299, 0.587, 0.114])


@dataclass(frozen=True)
class Subject:
    mesh: Mesh
    capture: Capture
    every: int
    colored_faces: int
    """The first faces, whose vertex colours are true."""


def load(name: str, device: str) -> Subject:
    capture = read_capture(DATA / name)
    if name == "seven_scenes":
        config = FusionConfig(voxel_size=0.01, depth_max=4.0)
        raw = tsdf.extract_mesh(tsdf.fuse(capture, config, device=device), config)
        return Subject(clean(raw, CleanConfig(), device=device)[0], capture, 10, 0)
    parts = [trimesh.load(DATA / name / "ground_truth" / f"{part}.ply", process=False) for part in ("objects", "table")]
    first = len(parts[0].vertices)
    mesh = Mesh(
        np.concatenate([part.vertices for part in parts]).astype(np.float32),
        np.concatenate([parts[0].faces, parts[1].faces + first]).astype(np.int32),
        colors=np.concatenate([np.asarray(part.visual.vertex_colors)[:, :3] for part in parts]).astype(np.uint8),
    )
    # the masks tell objects from the table; both are painted here
    frames = tuple(replace(frame, photo=replace(frame.photo, mask=None)) for frame in capture.frames if frame.photo)
    return Subject(mesh, replace(capture, frames=frames), 2, len(parts[0].faces))


def paint_plainly(mesh: Mesh, atlas: Atlas, shots: Shots, method: str, device: str) -> TexturedMesh:
    """Average of all photos, or the best photo of each vertex."""
    texel = 1.0 / atlas.texels_per_metre
    support = build_support(mesh, atlas.uvs, atlas.face_uvs, SUPPORT_TEXELS * texel)
    vertices = wp.array(np.asarray(mesh.vertices, np.float32), dtype=wp.vec3, device=device)
    faces = wp.array(mesh.faces, dtype=wp.vec3i, device=device)
    points = wp.array(support.vertices, dtype=wp.vec3, device=device)
    normals = wp.array(support.normals, dtype=wp.vec3, device=device)
    spacing = wp.array(support.spacing, dtype=float, device=device)
    slots, seen = empty_slots(len(points), device=device), []
    for i, shot in shots.decode(range(len(shots)), lambda items, *_: items, ""):
        seen.append(look(shot.pixels, shot.mask, shot.camera, shots.poses[i], vertices, faces, device=device))
        observe(
            seen[-1], build_pyramid(seen[-1], device=device), i, slots, points, normals, spacing, texel, device=device
        )
    view = slots.view.numpy().reshape(len(points), -1)
    score = slots.score.numpy().reshape(view.shape)
    use = view >= 0
    if method == "best":
        use &= np.arange(view.shape[1]) == np.where(use, score, -1).argmax(1)[:, None]
    weight = np.where(use, score, 0)
    mean = (weight[..., None] * slots.color.numpy().reshape(*view.shape, 3)).sum(1) / np.maximum(weight.sum(1), 1e-9)[
        :, None
    ]
    choice = Choice(
        points,
        wp.array(use.astype(np.uint8).ravel(), dtype=wp.uint8, device=device),
        wp.zeros(view.size, dtype=wp.vec3, device=device),
        wp.full(len(points) * BLEND, -1, dtype=int, device=device),
        wp.zeros(len(points) * BLEND, dtype=float, device=device),
    )
    canvas = make_canvas(support, atlas.size, texel, points, device=device)
    jobs = list_jobs(support.faces, np.where(use, view, -1), len(shots), np.arange(len(support.faces)))
    listed = wp.array(jobs.listed, dtype=int, device=device)
    for i in jobs.photos():
        paint(canvas, seen[i], i, np.ones(3), jobs, listed, slots, choice, second_round=True, device=device)
    image = finish(canvas, fill_vertices(support, mean.astype(np.float32), use.any(1)), device=device)
    fill_gutter(image, canvas.owner, canvas.size, device=device)
    texture = image.numpy().reshape(canvas.size, canvas.size, 3)
    return TexturedMesh(mesh, atlas.uvs, atlas.face_uvs, (Material(texture=texture),))


def laplacian(image: np.ndarray) -> np.ndarray:
    grey = image.astype(float) @ GREY
    inner = 4 * grey[1:-1, 1:-1] - grey[2:, 1:-1] - grey[:-2, 1:-1] - grey[1:-1, 2:] - grey[1:-1, :-2]
    return np.pad(np.abs(inner), 1)


def lay_over(image: np.ndarray, photo: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Warp a rendering onto a photo: affine map by Gauss-Newton on grey values, then a gain a channel."""
    height, width = mask.shape
    row, column = np.mgrid[0:height, 0:width].astype(float)
    basis = np.stack([np.ones_like(row), column / width - 0.5, row / height - 0.5], -1)
    move = np.zeros((2, 3))
    for sigma in (3, 3, 1.5, 1.5, 1, 1):
        source, target = gaussian_filter(image @ GREY, sigma), gaussian_filter(photo @ GREY, sigma)
        at = [row + basis @ move[1], column + basis @ move[0]]
        warped = map_coordinates(source, at, order=1, mode="nearest")
        inside = map_coordinates(mask.astype(float), at, order=1) > 0.99
        scale = (warped[inside] * target[inside]).sum() / (warped[inside] ** 2).sum()
        residual = target - scale * warped
        weight = inside / (1 + (residual / 15) ** 2) ** 2
        down, right = np.gradient(scale * warped)
        jacobian = np.concatenate([right[..., None] * basis, down[..., None] * basis], -1)
        matrix = np.einsum("hwi,hwj,hw->ij", jacobian, jacobian, weight)
        matrix += 1e-6 * np.trace(matrix) * np.eye(6)
        move += np.linalg.solve(matrix, np.einsum("hwi,hw->i", jacobian, residual * weight)).reshape(2, 3)
    at = [row + basis @ move[1], column + basis @ move[0]]
    warped = np.stack([map_coordinates(image[..., c].astype(float), at, order=1, mode="nearest") for c in range(3)], -1)
    inside = map_coordinates(mask.astype(float), at, order=1) > 0.99
    return np.clip(warped * np.median(photo[inside] / np.maximum(warped[inside], 1), axis=0), 0, 255), inside


def ssim(a: np.ndarray, b: np.ndarray, mask: np.ndarray) -> float:
    """Mean structural similarity of grey values (Wang 2004), windows of sigma 1.5, where they lie inside the mask."""
    a, b = a @ GREY, b @ GREY

    def blur(x: np.ndarray) -> np.ndarray:
        return gaussian_filter(x, 1.5)

    ma, mb = blur(a), blur(b)
    va, vb, cov = blur(a * a) - ma * ma, blur(b * b) - mb * mb, blur(a * b) - ma * mb
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    value = (2 * ma * mb + c1) * (2 * cov + c2) / ((ma * ma + mb * mb + c1) * (va + vb + c2))
    return float(value[binary_erosion(mask, iterations=5)].mean())


def color_error(model: TexturedMesh, subject: Subject, image: np.ndarray, camera, pose, device: str) -> float:
    """Mean difference from the true colours of the objects, away from their outlines."""
    points = transform_points(rigid_inverse(pose), subject.mesh.vertices.astype(float)).astype(np.float32)
    seen = rasterize(points, subject.mesh.faces, camera, device=device)
    inside = binary_erosion((seen.face >= 0) & (seen.face < subject.colored_faces), iterations=2)
    colors = subject.mesh.colors[subject.mesh.faces[seen.face[inside]]].astype(float)
    truth = np.einsum("nc,ncd->nd", seen.barycentric[inside], colors)
    return float(np.abs(truth - image[inside]).mean())


def score(model: TexturedMesh, subject: Subject, pictures: Path | None, label: str, device: str) -> dict[str, float]:
    rows = []
    for i in range(subject.every - 1, len(subject.capture), subject.every):
        photo = subject.capture.frames[i].photo
        pixels, camera = decode_photo(photo)
        image = render_textured(model, camera, photo.world_from_camera, device=device, background=MAGENTA)
        mask = ~(image == MAGENTA).all(-1)
        laid, inside = lay_over(image, pixels, mask)
        error = ((laid - pixels)[inside] ** 2).mean(-1)
        row = {
            "psnr": 10 * np.log10(255**2 / error.mean()),
            "median_psnr": 10 * np.log10(255**2 / np.median(error)),
            "ssim": ssim(laid, pixels, inside),
            "sharpness": laplacian(image)[inside].mean() / laplacian(pixels)[inside].mean(),
        }
        if subject.colored_faces:
            row["color_error"] = color_error(model, subject, image, camera, photo.world_from_camera, device)
        rows.append(row)
        if pictures is not None and len(rows) <= 6:
            pictures.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.concatenate([pixels, image], 1)).save(pictures / f"{label}_{i:04d}.png")
    return {key: round(float(np.mean([row[key] for row in rows])), 4) for key in rows[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", action="append", choices=SETS)
    parser.add_argument("--method", action="append", choices=("smr", "average", "best"))
    parser.add_argument("--size", type=int, help="side of the texture; chosen from the photos when left out")
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    device = resolve_device(options.device)
    machine = {"machine": platform.processor() or platform.machine(), "cores": cpu_threads(), "device": device}
    for name in options.set or SETS:
        subject = load(name, device)
        kept = tuple(f for i, f in enumerate(subject.capture.frames) if i % subject.every != subject.every - 1)
        capture = replace(subject.capture, frames=kept)
        plain = replace(subject.mesh, colors=None)
        start = time.process_time()
        size, texel = options.size, None if options.size else photo_resolution(plain, Shots(capture))
        atlas = unwrap(plain, size=size, texel=texel, gutter=GUTTER)
        line = {"set": name, "faces": len(plain.faces), "photos": len(kept), "size": atlas.size}
        print(json.dumps({**line, "unwrap_cpu_s": round(time.process_time() - start, 2)}), flush=True)
        for method in options.method or ("smr", "average", "best"):
            start, wall = time.process_time(), time.perf_counter()
            if method == "smr":
                bare = TexturedMesh(plain, atlas.uvs, atlas.face_uvs)
                model, report = bake_onto(bare, capture, TextureConfig(texture_size=atlas.size), device=device)
                line["seen"] = round(report.seen, 4)
            else:
                model = paint_plainly(plain, atlas, Shots(capture), method, device)
            spent = {"cpu_s": round(time.process_time() - start, 2), "wall_s": round(time.perf_counter() - wall, 2)}
            quality = score(model, subject, options.pictures, f"{name}_{method}", device)
            print(json.dumps({**line, "method": method, **quality, **spent, **machine, "argv": sys.argv}), flush=True)


if __name__ == "__main__":
    main()
