"""Makes the pictures of README.md from the demo: `python docs/make_pictures.py [FOLDER]` (default: demo).

Runs the demo in FOLDER if it is not there. The capture is procedural, so the pictures are ours to ship.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from smr.captures import decode_depth, decode_photo, read_capture
from smr.cli.demo import run_demo
from smr.formats import read_mesh
from smr.formats.model import geometry
from smr.mesh.normals import face_normals
from smr.metrics import colored_error_mesh
from smr.progress import untracked
from smr.records import Camera, Mesh, TexturedMesh
from smr.render.rasterize import rasterize
from smr.render.textured import render_textured
from smr.transforms import look_at, rigid_inverse, transform_points

PICTURES = Path(__file__).parent / "pictures"
SIZE = (560, 480)


def main(folder: Path) -> None:
    run_demo(folder, views=40, seed=0, device="auto", track=untracked)
    capture = read_capture(folder / "capture")
    model = read_mesh(folder / "model.ply")
    truth = geometry(read_mesh(folder / "capture" / "ground_truth" / "mesh.ply"))
    assert isinstance(model, TexturedMesh)

    photo, _ = decode_photo(capture.frames[3].photo)
    depth, _ = decode_depth(capture.frames[3].depth)
    save("input.jpg", [photo, depth_picture(depth)])

    pose = view(model.mesh, azimuth_deg=255)
    save("result.jpg", [textured(model, pose), shaded(model.mesh, pose), errors(model.mesh, truth, pose)])
    save("around.jpg", [textured(model, view(model.mesh, azimuth_deg=angle)) for angle in (15, 135, 315)])


def camera() -> Camera:
    width, height = SIZE
    return Camera(width, height, 1.55 * width, 1.55 * width, width / 2, height / 2)


def view(mesh: Mesh, azimuth_deg: float) -> np.ndarray:
    """A camera around the middle of the mesh, z up."""
    low, high = np.percentile(mesh.vertices, [1, 99], axis=0)
    middle, size = (low + high) / 2, np.linalg.norm(high - low)
    angle = np.radians(azimuth_deg)
    return look_at(
        middle + size * 1.25 * np.array([np.cos(angle), np.sin(angle), 0.6]), middle, np.array([0.0, 0.0, 1.0])
    )


def textured(model: TexturedMesh, pose: np.ndarray) -> np.ndarray:
    return render_textured(model, camera(), pose, device="cpu")


def shaded(mesh: Mesh, pose: np.ndarray) -> np.ndarray:
    """The bare geometry under a lamp at the camera and some light from above."""
    n = 2
    fine = replace(camera(), **{key: n * getattr(camera(), key) for key in ("width", "height", "fx", "fy", "cx", "cy")})
    points = transform_points(rigid_inverse(pose), mesh.vertices.astype(np.float64)).astype(np.float32)
    seen = rasterize(points, mesh.faces, fine, device="cpu")
    normals = face_normals(mesh)[np.maximum(seen.face, 0)]
    light = 0.25 + 0.5 * np.abs(normals @ pose[:3, 2]) + 0.25 * np.clip(normals[..., 2], 0, 1)
    image = np.where(seen.face >= 0, 235 * light, 255)
    small = image.reshape(fine.height // n, n, fine.width // n, n).mean((1, 3))
    return np.repeat(small[..., None], 3, axis=2).astype(np.uint8)


def errors(mesh: Mesh, truth: Mesh, pose: np.ndarray) -> np.ndarray:
    """Dark blue: no error; red: half a millimetre."""
    colored = colored_error_mesh(mesh, truth, 0.0005)
    zeros = np.zeros((1, 2), np.float32)
    bare = TexturedMesh(colored, zeros, np.zeros_like(mesh.faces), ())
    return render_textured(bare, camera(), pose, device="cpu")


def depth_picture(depth: np.ndarray) -> np.ndarray:
    near, far = np.percentile(depth[depth > 0], [1, 99])
    grey = np.where(depth > 0, 255 - 200 * np.clip((depth - near) / (far - near), 0, 1), 0)
    return np.repeat(grey[..., None], 3, axis=2).astype(np.uint8)


def cropped(picture: np.ndarray, margin: int = 12) -> np.ndarray:
    """Without the white around the object."""
    rows, columns = np.nonzero((picture < 250).any(axis=2))
    top, left = max(rows.min() - margin, 0), max(columns.min() - margin, 0)
    return picture[top : rows.max() + margin, left : columns.max() + margin]


def save(name: str, pictures: list[np.ndarray]) -> None:
    pictures = [cropped(picture) for picture in pictures]
    height = min(picture.shape[0] for picture in pictures)
    row = [Image.fromarray(p).resize((p.shape[1] * height // p.shape[0], height), Image.LANCZOS) for p in pictures]
    PICTURES.mkdir(exist_ok=True)
    Image.fromarray(np.concatenate([np.asarray(p) for p in row], axis=1)).save(PICTURES / name, quality=88)
    print(PICTURES / name)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
