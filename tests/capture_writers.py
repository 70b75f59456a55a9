"""One small scene, a sphere and a box on a floor, written as a capture in every format that is read.

The scene is analytic, so depth is exact: what is read back must lie on its surfaces, and on the very points that were
rendered where the format keeps the camera.
"""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image

from smr.captures.undistort import distort
from smr.records import Camera
from smr.transforms import OPENCV_FROM_OPENGL, look_at, rigid_inverse

SPHERE = (np.array([0.25, 0.1, 0.3]), 0.3)
BOX = (np.array([-0.6, -0.5, 0.0]), np.array([-0.1, 0.05, 0.45]))
FLOOR = 1.4
"""Half side of the floor, at z = 0."""
DEPTH_CAMERA = Camera(96, 72, 80.0, 78.0, 47.3, 36.9)
COLOR_CAMERA = Camera(192, 144, 160.0, 156.0, 94.6, 73.8)
"""The same view at twice the size."""
FRAMES = 8


def poses(count: int = FRAMES) -> list[np.ndarray]:
    """Cameras on an arc around the scene, world z up."""
    angles = np.linspace(0.2, 2.2, count)
    eyes = [np.array([1.7 * np.cos(a), 1.7 * np.sin(a), 1.1 + 0.1 * np.sin(3 * a)]) for a in angles]
    return [look_at(eye, np.array([0.0, 0.0, 0.15]), np.array([0.0, 0.0, 1.0])) for eye in eyes]


def pixel_directions(camera: Camera) -> np.ndarray:
    """h×w×3 directions with z = 1 of the pixels' centres; distortion is inverted by iteration."""
    u, v = np.meshgrid(np.arange(camera.width) + 0.5, np.arange(camera.height) + 0.5)
    wanted = np.stack([(u - camera.cx) / camera.fx, (v - camera.cy) / camera.fy], axis=-1)
    found = wanted.copy()
    for _ in range(0 if camera.model == "pinhole" else 60):
        x, y = distort(camera, found)
        found += wanted - np.stack([(x - camera.cx) / camera.fx, (y - camera.cy) / camera.fy], axis=-1)
    return np.concatenate([found, np.ones((*u.shape, 1))], axis=-1)


def render(camera: Camera, world_from_camera: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Exact depth along z (0 = nothing) and colour by position, of a camera with or without distortion."""
    directions = pixel_directions(camera) @ world_from_camera[:3, :3].T
    eye = world_from_camera[:3, 3]
    with np.errstate(divide="ignore", invalid="ignore"):
        floor = -eye[2] / directions[..., 2]
        at = eye + floor[..., None] * directions
        floor = np.where((floor > 0) & (np.abs(at[..., :2]) < FLOOR).all(axis=-1), floor, np.inf)
        center, radius = SPHERE
        a, b = (directions**2).sum(axis=-1), directions @ (eye - center)
        root = b * b - a * ((eye - center) @ (eye - center) - radius**2)
        sphere = np.where(root > 0, (-b - np.sqrt(np.maximum(root, 0))) / a, np.inf)
        low, high = (BOX[0] - eye) / directions, (BOX[1] - eye) / directions
        enter, leave = np.minimum(low, high).max(axis=-1), np.maximum(low, high).min(axis=-1)
        box = np.where((enter > 0) & (enter < leave), enter, np.inf)
    depth = np.minimum(np.minimum(floor, sphere), box)
    hit = np.isfinite(depth)
    points = eye + np.where(hit, depth, 0.0)[..., None] * directions
    checks = (np.floor(points * 8).astype(int).sum(axis=-1) % 2)[..., None]
    what = np.stack([sphere <= depth, box <= depth, floor <= depth], axis=-1)
    color = np.where(hit[..., None], 60 + 110 * what + 60 * checks, 20)
    return np.where(hit, depth, 0.0), color.clip(0, 255).astype(np.uint8)


def surface_distance(points: np.ndarray) -> np.ndarray:
    """Distance of points to the nearest surface of the scene."""
    sphere = np.abs(np.linalg.norm(points - SPHERE[0], axis=-1) - SPHERE[1])
    middle, half = (BOX[0] + BOX[1]) / 2, (BOX[1] - BOX[0]) / 2
    q = np.abs(points - middle) - half
    box = np.linalg.norm(np.maximum(q, 0), axis=-1) + np.minimum(q.max(axis=-1), 0)
    return np.minimum(np.minimum(sphere, np.abs(box)), np.abs(points[..., 2]))


def unproject(depth: np.ndarray, camera: Camera, world_from_camera: np.ndarray) -> np.ndarray:
    """h×w×3 points in the world, of a pinhole camera."""
    points = pixel_directions(camera) * depth[..., None]
    moved: np.ndarray = points @ world_from_camera[:3, :3].T + world_from_camera[:3, 3]
    return moved


@dataclass(frozen=True)
class Shot:
    """A rendered frame."""

    index: int
    world_from_camera: np.ndarray
    depth: np.ndarray
    color: np.ndarray


@lru_cache(maxsize=8)
def _taken(depth_camera: Camera, color_camera: Camera, count: int) -> tuple[Shot, ...]:
    return tuple(
        Shot(i, pose, render(depth_camera, pose)[0], render(color_camera, pose)[1])
        for i, pose in enumerate(poses(count))
    )


def shots(
    depth_camera: Camera = DEPTH_CAMERA, color_camera: Camera = DEPTH_CAMERA, count: int = FRAMES
) -> Iterator[Shot]:
    yield from _taken(depth_camera, color_camera, count)


def save_depth(path: Path, depth: np.ndarray, scale: float = 1000.0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.round(depth * scale).astype(np.uint16)).save(path)


def save_color(path: Path, color: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(color).save(path)


def save_confidence(path: Path, depth: np.ndarray) -> None:
    """2 everywhere but in the first row, which is 0."""
    confidence = np.full(depth.shape, 2, np.uint8)
    confidence[0] = 0
    save_color(path, confidence)


def quat_xyzw(rotation: np.ndarray) -> np.ndarray:
    """By the largest component (Shepperd 1978)."""
    m = rotation
    candidates = np.array([1 + m[0, 0] - m[1, 1] - m[2, 2], 1 - m[0, 0] + m[1, 1] - m[2, 2],
                           1 - m[0, 0] - m[1, 1] + m[2, 2], 1 + np.trace(m)])  # fmt: skip
    i = int(candidates.argmax())
    rows = (
        (candidates[0], m[0, 1] + m[1, 0], m[0, 2] + m[2, 0], m[2, 1] - m[1, 2]),
        (m[0, 1] + m[1, 0], candidates[1], m[1, 2] + m[2, 1], m[0, 2] - m[2, 0]),
        (m[0, 2] + m[2, 0], m[1, 2] + m[2, 1], candidates[2], m[1, 0] - m[0, 1]),
        (m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1], candidates[3]),
    )
    q = np.array(rows[i])
    return q / np.linalg.norm(q)


def tum_row(pose: np.ndarray) -> str:
    return " ".join(f"{value:.9f}" for value in (*pose[:3, 3], *quat_xyzw(pose[:3, :3])))


def K_text(camera: Camera, half: float = 0.5) -> str:
    return f"{camera.fx} 0 {camera.cx - half}\n0 {camera.fy} {camera.cy - half}\n0 0 1\n"


def write_seven_scenes(folder: Path, name: str = "frame-{:06d}") -> None:
    for shot in shots():
        stem = folder / name.format(shot.index)
        save_depth(stem.with_name(stem.name + ".depth.png"), shot.depth)
        save_color(stem.with_name(stem.name + ".color.png"), shot.color)
        np.savetxt(stem.with_name(stem.name + ".pose.txt"), shot.world_from_camera)
    (folder / "camera-intrinsics.txt").write_text(K_text(DEPTH_CAMERA))


def write_cameras_json(folder: Path) -> None:
    c = DEPTH_CAMERA
    frames = []
    for shot in shots():
        save_depth(folder / f"depth/{shot.index:04d}.png", shot.depth, 10000)
        save_color(folder / f"color/{shot.index:04d}.png", shot.color)
        frames.append(
            {
                "color": f"color/{shot.index:04d}.png",
                "depth": f"depth/{shot.index:04d}.png",
                "camera_to_world": shot.world_from_camera.tolist(),
            }
        )
    said = {"width": c.width, "height": c.height, "model": "pinhole", "fx": c.fx, "fy": c.fy, "cx": c.cx - 0.5}
    said |= {"cy": c.cy - 0.5, "distortion": [], "depth_scale": 10000, "frames": frames}
    (folder / "cameras.json").write_text(json.dumps(said))


def write_tum(folder: Path) -> None:
    colors, depths, truth = ["# color images"], ["# depth maps"], ["# ground truth"]
    for shot in shots():
        time = 1305031102.0 + shot.index
        save_depth(folder / f"depth/{time:.6f}.png", shot.depth, 5000)
        save_color(folder / f"rgb/{time + 0.01:.6f}.png", shot.color)
        depths.append(f"{time:.6f} depth/{time:.6f}.png")
        colors.append(f"{time + 0.01:.6f} rgb/{time + 0.01:.6f}.png")
        truth += [f"{time + offset:.4f} {tum_row(shot.world_from_camera)}" for offset in (-0.005, 0.005, 0.015)]
    for name, lines in (("rgb", colors), ("depth", depths), ("groundtruth", truth)):
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
    (folder / "camera-intrinsics.txt").write_text(K_text(DEPTH_CAMERA))


def _redwood_images(folder: Path) -> list[Shot]:
    taken = list(shots())
    for shot in taken:
        save_depth(folder / f"depth/{shot.index:05d}.png", shot.depth)
        save_color(folder / f"image/{shot.index:05d}.png", shot.color)
    return taken


def _open3d_camera() -> dict[str, object]:
    c = DEPTH_CAMERA
    K = [c.fx, 0, 0, 0, c.fy, 0, c.cx - 0.5, c.cy - 0.5, 1]
    return {"width": c.width, "height": c.height, "intrinsic_matrix": K}


def write_redwood_log(folder: Path) -> None:
    lines = []
    for shot in _redwood_images(folder):
        lines.append(f"{shot.index} {shot.index} {shot.index + 1}")
        lines += [" ".join(f"{value:.9f}" for value in row) for row in shot.world_from_camera]
    (folder / "trajectory.log").write_text("\n".join(lines) + "\n")
    (folder / "camera_primesense.json").write_text(json.dumps(_open3d_camera()))


def write_redwood_json(folder: Path) -> None:
    entries = [
        {"extrinsic": rigid_inverse(shot.world_from_camera).T.ravel().tolist(), "intrinsic": _open3d_camera()}
        for shot in _redwood_images(folder)
    ]
    (folder / "trajectory.json").write_text(json.dumps({"parameters": entries}))


def write_transforms(folder: Path, camera: Camera = DEPTH_CAMERA, *, per_frame: bool = False) -> None:
    lens = {
        "w": camera.width,
        "h": camera.height,
        "fl_x": camera.fx,
        "fl_y": camera.fy,
        "cx": camera.cx,
        "cy": camera.cy,
    }
    names = ("k1", "k2", "k3", "k4") if camera.model == "opencv_fisheye" else ("k1", "k2", "p1", "p2", "k3")
    lens |= dict(zip(names, camera.distortion, strict=False))  # type: ignore[arg-type]
    frames = []
    for shot in shots(camera, camera):
        save_depth(folder / f"depths/frame_{shot.index:05d}.png", shot.depth)
        save_color(folder / f"images/frame_{shot.index:05d}.png", shot.color)
        frames.append(
            {
                "file_path": f"images/frame_{shot.index:05d}.png",
                "depth_file_path": f"./depths/frame_{shot.index:05d}.png",
                "transform_matrix": (shot.world_from_camera @ OPENCV_FROM_OPENGL).tolist(),
                **(lens if per_frame else {}),
            }
        )
    model = {"pinhole": "PINHOLE", "opencv": "OPENCV", "opencv_fisheye": "OPENCV_FISHEYE"}[camera.model]
    said = {"camera_model": model, **({} if per_frame else lens), "frames": frames}
    (folder / "transforms.json").write_text(json.dumps(said))


def _colmap_images(folder: Path, camera: Camera) -> list[Shot]:
    taken = list(shots(camera, camera))
    for shot in taken:
        save_color(folder / f"images/view {shot.index}.png", shot.color)
        (folder / "depth").mkdir(exist_ok=True)
        np.save(folder / f"depth/view {shot.index}.npy", shot.depth.astype(np.float32))
    return taken


def _colmap_parameters(camera: Camera) -> tuple[str, int, list[float]]:
    K = [camera.fx, camera.fy, camera.cx, camera.cy]
    if camera.model == "pinhole":
        return "PINHOLE", 1, K
    name, number = ("OPENCV", 4) if camera.model == "opencv" else ("OPENCV_FISHEYE", 5)
    return name, number, [*K, *camera.distortion[:4]]


def write_colmap_text(folder: Path, camera: Camera = DEPTH_CAMERA) -> None:
    name, _, parameters = _colmap_parameters(camera)
    model = folder / "sparse/0"
    model.mkdir(parents=True)
    words = " ".join(str(value) for value in parameters)
    (model / "cameras.txt").write_text(f"# Camera list\n3 {name} {camera.width} {camera.height} {words}\n")
    lines = ["# Image list"]
    for shot in _colmap_images(folder, camera):
        pose = rigid_inverse(shot.world_from_camera)
        x, y, z, w = quat_xyzw(pose[:3, :3])
        numbers = " ".join(f"{value:.12f}" for value in (w, x, y, z, *pose[:3, 3]))
        lines += [f"{shot.index + 1} {numbers} 3 view {shot.index}.png", "10.5 20.5 -1" if shot.index % 2 else ""]
    (model / "images.txt").write_text("\n".join(lines) + "\n")


def write_colmap_binary(folder: Path, camera: Camera = DEPTH_CAMERA) -> None:
    _, number, parameters = _colmap_parameters(camera)
    cameras = struct.pack("<QiiQQ", 1, 3, number, camera.width, camera.height)
    (folder / "cameras.bin").write_bytes(cameras + struct.pack(f"<{len(parameters)}d", *parameters))
    taken = _colmap_images(folder, camera)
    content = struct.pack("<Q", len(taken))
    for shot in taken:
        pose = rigid_inverse(shot.world_from_camera)
        x, y, z, w = quat_xyzw(pose[:3, :3])
        content += struct.pack("<I7di", shot.index + 1, w, x, y, z, *pose[:3, 3], 3)
        content += f"view {shot.index}.png".encode() + b"\0" + struct.pack("<Q", shot.index)
        content += struct.pack("<ddq", 1.0, 2.0, -1) * shot.index
    (folder / "images.bin").write_bytes(content)


def exr_bytes(image: np.ndarray, compression: str = "ZIP", channel: str = "R") -> bytes:
    """A scan-line OpenEXR file with one channel, float32 or float16."""
    kind = {np.dtype(np.float16): 1, np.dtype(np.float32): 2}[image.dtype]
    height, width = image.shape

    def attribute(name: str, kind: str, value: bytes) -> bytes:
        return name.encode() + b"\0" + kind.encode() + b"\0" + struct.pack("<i", len(value)) + value

    number = {"none": 0, "RLE": 1, "ZIPS": 2, "ZIP": 3, "PIZ": 4}[compression]
    window = struct.pack("<4i", 0, 0, width - 1, height - 1)
    channels = channel.encode() + b"\0" + struct.pack("<iIii", kind, 0, 1, 1) + b"\0"
    header = b"\x76\x2f\x31\x01\x02\0\0\0" + attribute("channels", "chlist", channels)
    header += attribute("compression", "compression", bytes([number])) + attribute("dataWindow", "box2i", window)
    header += attribute("displayWindow", "box2i", window) + attribute("lineOrder", "lineOrder", b"\0") + b"\0"
    lines = 16 if compression == "ZIP" else 1
    chunks = []
    for top in range(0, height, lines):
        raw = image[top : top + lines].tobytes()
        packed = _exr_packed(raw, compression)
        chunks.append(struct.pack("<iI", top, len(packed)) + packed)
    offsets, at = [], len(header) + 8 * len(chunks)
    for chunk in chunks:
        offsets.append(at)
        at += len(chunk)
    return header + struct.pack(f"<{len(offsets)}Q", *offsets) + b"".join(chunks)


def _exr_packed(raw: bytes, compression: str) -> bytes:
    if compression == "none":
        return raw
    bytes_in = np.frombuffer(raw, np.uint8)
    parted = np.concatenate([bytes_in[0::2], bytes_in[1::2]])
    deltas = parted.astype(np.int64)
    deltas[1:] = parted[1:].astype(np.int64) - parted[:-1] + 128
    predicted = deltas.astype(np.uint8).tobytes()
    if compression == "RLE":
        packed = b"".join(bytes([256 - len(part)]) + part for part in _parts(predicted, 100))
    else:
        packed = zlib.compress(predicted)
    return packed if len(packed) < len(raw) else raw


def _parts(content: bytes, size: int) -> list[bytes]:
    return [content[i : i + size] for i in range(0, len(content), size)]


def lzfse_stored(raw: bytes) -> bytes:
    """An LZFSE stream of one uncompressed block."""
    return b"bvx-" + struct.pack("<I", len(raw)) + raw + b"bvx$"


def _record3d_metadata(taken: list[Shot]) -> dict[str, object]:
    c = COLOR_CAMERA
    rows = [shot.world_from_camera @ OPENCV_FROM_OPENGL for shot in taken]
    return {
        "w": c.width,
        "h": c.height,
        "K": [c.fx, 0, 0, 0, c.fy, 0, c.cx, c.cy, 1],
        "fps": 30,
        "poses": [[*quat_xyzw(row[:3, :3]).tolist(), *row[:3, 3].tolist()] for row in rows],
    }


def write_record3d(folder: Path) -> None:
    taken = list(shots(color_camera=COLOR_CAMERA))
    for shot in taken:
        save_color(folder / f"rgb/{shot.index}.png", shot.color)
        (folder / "depth").mkdir(exist_ok=True)
        compression = ("none", "RLE", "ZIPS", "ZIP")[shot.index % 4]
        (folder / f"depth/{shot.index}.exr").write_bytes(exr_bytes(shot.depth.astype(np.float32), compression))
    (folder / "metadata.json").write_text(json.dumps(_record3d_metadata(taken)))


def write_r3d(folder: Path) -> None:
    """A .r3d file in `folder`."""
    taken = list(shots(color_camera=COLOR_CAMERA))
    metadata = _record3d_metadata(taken) | {"dw": DEPTH_CAMERA.width, "dh": DEPTH_CAMERA.height}
    with zipfile.ZipFile(folder / "scan.r3d", "w") as archive:
        archive.writestr("metadata", json.dumps(metadata))
        for shot in taken:
            color = folder / "color.jpg"
            Image.fromarray(shot.color).save(color, quality=95)
            archive.write(color, f"rgbd/{shot.index}.jpg")
            confidence = np.full(shot.depth.shape, 2, np.uint8)
            archive.writestr(f"rgbd/{shot.index}.depth", lzfse_stored(shot.depth.astype("<f4").tobytes()))
            archive.writestr(f"rgbd/{shot.index}.conf", lzfse_stored(confidence.tobytes()))
    (folder / "color.jpg").unlink()


def write_polycam(folder: Path) -> None:
    c = COLOR_CAMERA
    for shot in shots(color_camera=c):
        stem = str(7_000_000 + shot.index)
        save_color(folder / f"keyframes/corrected_images/{stem}.png", shot.color)
        save_depth(folder / f"keyframes/depth/{stem}.png", shot.depth)
        save_confidence(folder / f"keyframes/confidence/{stem}.png", shot.depth)
        pose = shot.world_from_camera @ OPENCV_FROM_OPENGL
        said = {f"t_{i}{j}": pose[i, j] for i in range(3) for j in range(4)}
        said |= {"fx": c.fx, "fy": c.fy, "cx": c.cx, "cy": c.cy, "width": c.width, "height": c.height}
        path = folder / f"keyframes/corrected_cameras/{stem}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(said))


def write_scanner_app(folder: Path) -> None:
    c = COLOR_CAMERA
    for shot in shots(color_camera=c):
        if shot.index % 2 == 0:  # only some frames have a photo
            save_color(folder / f"frame_{shot.index:05d}.jpg", shot.color)
        save_depth(folder / f"depth_{shot.index:05d}.png", shot.depth)
        save_confidence(folder / f"conf_{shot.index:05d}.png", shot.depth)
        said = {
            "cameraPoseARFrame": (shot.world_from_camera @ OPENCV_FROM_OPENGL).ravel().tolist(),
            "intrinsics": [c.fx, 0, c.cx, 0, c.fy, c.cy, 0, 0, 1],
            "time": 10.0 + shot.index,
        }
        (folder / f"frame_{shot.index:05d}.json").write_text(json.dumps(said))


def write_stray(folder: Path) -> None:
    c = COLOR_CAMERA
    lines = ["timestamp, frame, x, y, z, qx, qy, qz, qw"]
    for shot in shots(color_camera=c):
        save_color(folder / f"rgb/{shot.index:06d}.png", shot.color)
        save_depth(folder / f"depth/{shot.index:06d}.png", shot.depth)
        save_confidence(folder / f"confidence/{shot.index:06d}.png", shot.depth)
        lines.append(f"{shot.index / 60:.6f}, {shot.index:06d}, {', '.join(tum_row(shot.world_from_camera).split())}")
    (folder / "odometry.csv").write_text("\n".join(lines) + "\n")
    (folder / "camera_matrix.csv").write_text(f"{c.fx}, 0.0, {c.cx}\n0.0, {c.fy}, {c.cy}\n0.0, 0.0, 1.0\n")


ICL_CAMERA = Camera(96, 72, 481.2 * 0.15, 480 * 0.15, 320 * 0.15, 240 * 0.15)
"""The set's camera at 0.15 of its size."""


def write_icl(folder: Path) -> None:
    flip = np.diag([1.0, -1.0, 1.0, 1.0])
    lines = []
    for shot in shots(ICL_CAMERA, ICL_CAMERA):
        save_depth(folder / f"depth/{shot.index + 1}.png", shot.depth, 5000)
        save_color(folder / f"rgb/{shot.index + 1}.png", shot.color)
        lines.append(f"{shot.index + 1} {tum_row(flip @ shot.world_from_camera @ flip)}")
    (folder / "livingRoom2.gt.freiburg").write_text("\n".join(lines) + "\n")


BARREL = Camera(288, 216, 240.0, 234.0, 141.9, 110.7, "opencv", (-0.12, 0.03, 0.001, -0.002, 0.0))
FISHEYE = Camera(288, 216, 165.0, 162.0, 141.9, 110.7, "opencv_fisheye", (0.02, -0.006, 0.001, 0.0))

WRITERS: dict[str, tuple[Callable[[Path], None], str, float]] = {
    "seven_scenes": (write_seven_scenes, "7-Scenes", 1e-3),
    "seven_scenes_sequences": (lambda folder: _sequences(folder), "7-Scenes", 1e-3),
    "cameras_json": (write_cameras_json, "cameras.json", 1e-4),
    "tum": (write_tum, "TUM RGB-D", 2e-4),
    "redwood_log": (write_redwood_log, "Redwood / Open3D", 1e-3),
    "redwood_json": (write_redwood_json, "Redwood / Open3D", 1e-3),
    "transforms": (write_transforms, "transforms.json", 1e-3),
    "transforms_per_frame": (lambda folder: write_transforms(folder, per_frame=True), "transforms.json", 1e-3),
    "colmap_text": (write_colmap_text, "COLMAP", 0.0),
    "colmap_binary": (write_colmap_binary, "COLMAP", 0.0),
    "record3d": (write_record3d, "Record3D", 0.0),
    "r3d": (write_r3d, "Record3D", 0.0),
    "polycam": (write_polycam, "Polycam", 1e-3),
    "scanner_app": (write_scanner_app, "3d Scanner App", 1e-3),
    "stray": (write_stray, "Stray Scanner", 1e-3),
    "icl": (write_icl, "ICL-NUIM", 2e-4),
}
"""Name to writer, the format that must be found, and the unit of its depth in metres (0: floating point)."""


def _sequences(folder: Path) -> None:
    for number in (1, 2):
        part = folder / f"seq-0{number}"
        part.mkdir()
        write_seven_scenes(part)
        (part / "camera-intrinsics.txt").unlink()
    (folder / "camera-intrinsics.txt").write_text(K_text(DEPTH_CAMERA))
