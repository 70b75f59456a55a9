"""Sets the demo's scene, walks a camera around it and writes what it sees as a capture."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int32
from PIL import Image

from ..errors import SmrError
from ..formats import write_mesh
from ..mesh.normals import vertex_normals
from ..progress import Track, step, untracked
from ..records import Camera, Capture, DepthMap, Frame, Mesh, Photo
from ..transforms import look_at
from .paint import TABLE_RADIUS
from .render import Stage, View, render, set_stage
from .sensor import Sensor, measure_depth, take_photo
from .teapot import teapot_surface

DEPTH_SCALE = 10_000.0
"""Stored depth / this = metres: steps of 0.1 mm."""
_TABLE_THICKNESS = 0.016


@dataclass(frozen=True)
class DemoScene:
    """A capture on disk and the truth about it."""

    folder: Path
    capture: Capture
    """The frames as a reader finds them."""
    truth: Mesh
    """The surface that was looked at, with the colour that every camera sees there; metres, z up, table top z = 0."""

    @property
    def truth_path(self) -> Path:
        """The same as a PLY file."""
        return self.folder / "ground_truth" / "mesh.ply"


def make_capture(
    folder: Path | str,
    *,
    views: int = 40,
    width: int = 640,
    height: int = 480,
    noise: bool = True,
    seed: int = 0,
    device: str = "cpu",
    track: Track = untracked,
) -> DemoScene:
    """Render an RGB-D capture of a painted teapot on a round table and write it with its truth.

    The folder gets `cameras.json`, `color/NNNN.jpg`, `depth/NNNN.png` (16 bit, 0.1 mm) and `ground_truth/mesh.ply`.
    The depth is that of the truth mesh itself, so a reconstruction can be measured against it exactly. The same
    arguments and the same device give the same files.

    Args:
        folder: Made if it is not there; files of the same names are replaced.
        views: Number of frames, on a walk around the table that rises from near the table to above the lid.
        width: Image width in pixels; smaller images get a coarser truth mesh, to be quick.
        height: Image height in pixels.
        noise: Errors of a real camera: noise, steps and holes in depth, flying pixels, grain, changing exposure.
            Without it depth is exact to 0.05 mm and colours to the JPEG.
        seed: Start of the random numbers.
        device: Warp device of the renderer.
        track: Progress.

    Raises:
        SmrError: No view is asked for.
    """
    folder = Path(folder)
    if views < 1:
        raise SmrError(f"--views is {views}.", "Give at least 1; 40 make a whole object.")
    if width < 8 or height < 8:
        raise ValueError(f"a capture needs images of at least 8×8 pixels, not {width}×{height}")
    for name in ("color", "depth", "ground_truth"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    with step(track, "Model the demo's object"):
        stage, truth = _set_scene(0.0013 * max(1.0, 480.0 / width), seed, device)
        write_mesh(truth, folder / "ground_truth" / "mesh.ply")
    focal = 0.875 * width
    camera = Camera(width, height, focal, 0.998 * focal, 0.505 * width, 0.49 * height)
    frames = []
    for i, pose in enumerate(track(camera_path(views, width / height, seed), "Photograph the demo's object", views)):
        rng = np.random.default_rng([seed, i])
        frame = _frame(folder, i, camera, pose)
        _write_frame(frame, render(stage, camera, pose), Sensor() if noise else None, rng)
        frames.append(frame)
    _write_cameras(folder / "cameras.json", camera, frames)
    return DemoScene(folder, Capture(folder, "cameras.json", tuple(frames), world_up="z"), truth)


def camera_path(views: int, aspect: float, seed: int) -> list[Float[np.ndarray, "4 4"]]:
    """Poses (world from camera) of a hand-held walk around the table; few views alternate between two heights."""
    rng = np.random.default_rng([seed, 1])
    turns = 1 if views < 12 else 2 if views < 30 else 3
    poses = []
    for i in range(views):
        along = i / views
        azimuth = 2.0 * np.pi * turns * along + 0.4
        rising = along + 0.5 / views if turns > 1 else (i % 2) * 0.6 + 0.1
        elevation = np.radians(7.0 + 55.0 * rising**1.6) + rng.normal(0.0, 0.015)
        distance = (0.54 + 0.02 * rng.normal()) * max(1.0, 4.0 / 3.0 / aspect)
        target = np.array([0.0, 0.0, 0.075]) + rng.normal(0.0, 0.008, 3)
        around = np.array([np.cos(azimuth), np.sin(azimuth)])
        eye = np.array([0.0, 0.0, 0.075]) + distance * np.array([*(np.cos(elevation) * around), np.sin(elevation)])
        poses.append(look_at(eye, target, np.array([0.0, 0.0, 1.0]) + rng.normal(0.0, 0.02, 3)))
    return poses


def _set_scene(edge: float, seed: int, device: str) -> tuple[Stage, Mesh]:
    """The teapot and the table as one mesh, its edges about `edge` metres long on the teapot."""
    pot, pot_faces = teapot_surface(edge, device)
    table, table_faces = _table(2.0 * edge)
    vertices = np.concatenate([pot, table]).astype(np.float32)
    faces = np.concatenate([pot_faces, table_faces + np.int32(len(pot))])
    normals = vertex_normals(Mesh(vertices, faces))
    counts = (len(pot), len(pot_faces))
    stage, colors = set_stage(vertices, normals, faces, counts, seed=seed, device=device)
    return stage, Mesh(vertices, faces, normals, colors)


def _table(edge: float) -> tuple[Float[np.ndarray, "V 3"], Int32[np.ndarray, "F 3"]]:
    """A round table top with a rounded rim; its underside is left open."""
    round_off = 0.004
    flat = np.linspace(0.0, TABLE_RADIUS - round_off, max(8, round(TABLE_RADIUS / edge)))[1:]
    angles = np.linspace(0.0, np.pi / 2, 6)[1:]
    radius = np.concatenate([flat, TABLE_RADIUS - round_off + round_off * np.sin(angles), [TABLE_RADIUS]])
    z = np.concatenate([0.0 * flat, round_off * (np.cos(angles) - 1.0), [-_TABLE_THICKNESS]])
    count = max(24, round(2.0 * np.pi * TABLE_RADIUS / edge))
    around = 2.0 * np.pi * np.arange(count) / count
    rings = np.stack(
        [np.outer(radius, np.cos(around)), np.outer(radius, np.sin(around)), np.outer(z, np.ones(count))], -1
    )
    j = np.arange(count)
    after = (j + 1) % count
    fan = np.stack([np.zeros_like(j), 1 + j, 1 + after], 1)
    inner = 1 + count * np.arange(len(radius) - 1)[:, None]
    a, b, c, d = (x.ravel() for x in (inner + j, inner + count + j, inner + count + after, inner + after))
    faces = np.concatenate([fan, np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
    return np.concatenate([np.zeros((1, 3)), rings.reshape(-1, 3)]), faces.astype(np.int32)


def _frame(folder: Path, i: int, camera: Camera, pose: Float[np.ndarray, "4 4"]) -> Frame:
    photo = Photo(folder / "color" / f"{i:04d}.jpg", camera, pose)
    return Frame(f"color/{i:04d}.jpg", photo, DepthMap(folder / "depth" / f"{i:04d}.png", camera, pose, DEPTH_SCALE))


def _write_frame(frame: Frame, view: View, sensor: Sensor | None, rng: np.random.Generator) -> None:
    assert frame.photo is not None
    assert frame.depth is not None
    depth, color = view.depth.astype(np.float64), np.rint(view.color).astype(np.uint8)
    if sensor is not None:
        depth = measure_depth(depth, view.facing.astype(np.float64), frame.depth.camera.fx, sensor, rng)
        color = take_photo(view.color, sensor, rng)
    stored = np.clip(np.rint(depth * DEPTH_SCALE), 0, 65535).astype(np.uint16)
    Image.fromarray(stored).save(frame.depth.path, compress_level=1)
    Image.fromarray(color).save(frame.photo.path, quality=92, subsampling=0)


def _write_cameras(path: Path, camera: Camera, frames: list[Frame]) -> None:
    """The form that has pixel centres at whole numbers, so half a pixel is taken off cx and cy."""
    rows = [
        {
            "color": frame.name,
            "depth": f"depth/{frame.depth.path.name}",
            "camera_to_world": frame.photo.world_from_camera.tolist(),
        }
        for frame in frames
        if frame.photo is not None and frame.photo.world_from_camera is not None and frame.depth is not None
    ]
    document = {
        "width": camera.width,
        "height": camera.height,
        "model": camera.model,
        "fx": camera.fx,
        "fy": camera.fy,
        "cx": camera.cx - 0.5,
        "cy": camera.cy - 0.5,
        "distortion": [],
        "pose_convention": "camera_to_world, OpenCV axes (x right, y down, z forward), metres",
        "depth_scale": DEPTH_SCALE,
        "frames": rows,
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
