"""Surfaces of known colour, and the photos that cameras take of them; used by the texture tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from smr.arrays import resolve_device
from smr.records import Camera, Capture, Frame, Mesh, Photo, TexturedMesh
from smr.render.rasterize import rasterize
from smr.transforms import look_at, rigid_inverse, transform_points

CAMERA = Camera(200, 150, 180.0, 182.0, 99.2, 76.1)
BACKGROUND = (255, 0, 255)


def waves(points: np.ndarray) -> np.ndarray:
    """A colour at each point of space, N×3; changes by less than two grey levels a millimetre."""
    x, y, z = points.T
    return np.stack(
        [
            130 + 55 * np.sin(23 * x + 5 * y + 3 * z),
            120 + 50 * np.cos(19 * y - 7 * z + 2 * x),
            125 + 45 * np.sin(17 * z + 11 * x - 13 * y),
        ],
        axis=1,
    )


def plane(side: float = 1.0, cells: int = 6) -> Mesh:
    """A square in z = 0 around the origin, seen from z > 0."""
    steps = np.linspace(-side / 2, side / 2, cells + 1)
    x, y = np.meshgrid(steps, steps)
    vertices = np.column_stack([x.ravel(), y.ravel(), np.zeros(x.size)]).astype(np.float32)
    a = (np.arange(cells)[:, None] * (cells + 1) + np.arange(cells)).ravel()
    b, c, d = a + 1, a + cells + 2, a + cells + 1
    return Mesh(vertices, np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)]).astype(np.int32))


def box(low: Sequence[float], high: Sequence[float]) -> Mesh:
    """Twelve large triangles."""
    corners = np.array([[(low, high)[i >> a & 1][a] for a in range(3)] for i in range(8)], np.float32)
    quads = [[0, 2, 3, 1], [4, 5, 7, 6], [0, 1, 5, 4], [2, 6, 7, 3], [0, 4, 6, 2], [1, 3, 7, 5]]
    faces = [[q[i], q[j], q[k]] for q in quads for i, j, k in ((0, 1, 2), (0, 2, 3))]
    return Mesh(corners, np.array(faces, np.int32))


def join(first: Mesh, second: Mesh) -> Mesh:
    return Mesh(
        np.concatenate([first.vertices, second.vertices]),
        np.concatenate([first.faces, second.faces + len(first.vertices)]).astype(np.int32),
    )


def poses_around(count: int, distance: float, height: float, target: Sequence[float] = (0, 0, 0)) -> list[np.ndarray]:
    angles = 2 * np.pi * np.arange(count) / count + 0.3
    eyes = [np.array([distance * np.cos(a), distance * np.sin(a), height]) for a in angles]
    return [look_at(eye, np.array(target, float), np.array([0.0, 0.0, 1.0])) for eye in eyes]


def photograph(
    mesh: Mesh, colors: Callable[[np.ndarray, np.ndarray], np.ndarray], camera: Camera, pose: np.ndarray
) -> np.ndarray:
    """What a camera sees where `colors(points, faces)` is the colour of points on the surface."""
    points = transform_points(rigid_inverse(pose), mesh.vertices.astype(float)).astype(np.float32)
    seen = rasterize(points, mesh.faces, camera, device=resolve_device("cpu"))
    image = np.empty((camera.height, camera.width, 3))
    image[:] = BACKGROUND
    hit = seen.face >= 0
    corners = mesh.vertices[mesh.faces[seen.face[hit]]].astype(float)
    image[hit] = colors(np.einsum("nc,ncd->nd", seen.barycentric[hit], corners), seen.face[hit])
    return np.clip(np.rint(image), 0, 255).astype(np.uint8)


def capture_of(
    folder: Path,
    images: Sequence[np.ndarray],
    cameras: Sequence[Camera],
    poses: Sequence[np.ndarray | None],
    masks: Sequence[np.ndarray | None] | None = None,
) -> Capture:
    """Photos on disk, without depth."""
    frames = []
    for i, (image, camera, pose) in enumerate(zip(images, cameras, poses, strict=True)):
        path, mask_path = folder / f"{i:03d}.png", None
        Image.fromarray(image).save(path)
        if masks is not None and masks[i] is not None:
            mask_path = folder / f"mask_{i:03d}.png"
            Image.fromarray((masks[i] * 255).astype(np.uint8)).save(mask_path)
        frames.append(Frame(f"{i:03d}", Photo(path, camera, pose, mask_path), None))
    return Capture(folder, "test", tuple(frames))


def texture_at(model: TexturedMesh, per_face: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points spread over every face: their place, the texture's colour there (bilinear), their face."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet([1, 1, 1], (len(model.mesh.faces), per_face))
    face = np.repeat(np.arange(len(model.mesh.faces)), per_face)
    points = np.einsum("fnc,fcd->fnd", weights, model.mesh.vertices[model.mesh.faces].astype(float)).reshape(-1, 3)
    uvs = np.einsum("fnc,fcd->fnd", weights, model.uvs[model.face_uvs].astype(float)).reshape(-1, 2)
    texture = model.materials[0].texture
    assert texture is not None
    height, width = texture.shape[:2]
    x, y = (
        np.clip(uvs[:, 0] * width - 0.5, 0, width - 1.001),
        np.clip((1 - uvs[:, 1]) * height - 0.5, 0, height - 1.001),
    )
    i, j = x.astype(int), y.astype(int)
    a, b = (x - i)[:, None], (y - j)[:, None]
    upper = texture[j, i] * (1 - a) + texture[j, i + 1] * a
    lower = texture[j + 1, i] * (1 - a) + texture[j + 1, i + 1] * a
    return points, upper * (1 - b) + lower * b, face
