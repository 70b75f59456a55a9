"""Photos of painted walls, for tests of poses and stereo: no renderer, only plane to plane maps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

FOCAL, WIDTH, HEIGHT = 400.0, 480, 360


def texture(seed: int = 0, size: int = 1200) -> Image.Image:
    """Spots of many sizes, which features are found on."""
    random = np.random.default_rng(seed)
    total = np.zeros((size, size, 3))
    for cells in (8, 32, 128, 400):
        noise = Image.fromarray(random.integers(0, 255, (cells, cells, 3)).astype(np.uint8))
        total += np.asarray(noise.resize((size, size), Image.Resampling.BICUBIC))
    return Image.fromarray((total / 4 * 1.6 - 70).clip(0, 255).astype(np.uint8))


def rotation(axis: int, angle: float) -> np.ndarray:
    """A turn about one axis, radians."""
    c, s = np.cos(angle), np.sin(angle)
    i, j = [(1, 2), (2, 0), (0, 1)][axis]
    matrix = np.eye(3)
    matrix[i, i] = matrix[j, j] = c
    matrix[i, j], matrix[j, i] = -s, s
    return matrix


def photo_of_wall(wall: Image.Image, R: np.ndarray, t: np.ndarray) -> Image.Image:
    """The wall is the square from -1 to 1 at z = 0; R, t take it to the camera."""
    K = np.array([[FOCAL, 0, WIDTH / 2], [0, FOCAL, HEIGHT / 2], [0, 0, 1.0]])
    wall_from_pixels = np.array([[2 / wall.width, 0, -1], [0, 2 / wall.height, -1], [0, 0, 1.0]])
    inverse = np.linalg.inv(K @ np.stack([R[:, 0], R[:, 1], t], axis=1) @ wall_from_pixels)
    data = (inverse / inverse[2, 2]).ravel()[:8]
    return wall.transform((WIDTH, HEIGHT), Image.Transform.PERSPECTIVE, data, Image.Resampling.BICUBIC)


def corner(count: int, seed: int = 0) -> list[Image.Image]:
    """Photos of two walls that meet in a vertical edge, from a camera that walks past it."""
    walls = texture(seed), texture(seed + 1)
    photos = []
    for x in np.linspace(-0.5, 0.5, count):
        turn = rotation(1, 0.3 * x)
        halves = []
        for wall, side in zip(walls, (-1.0, 1.0), strict=True):
            own = rotation(1, -0.5 * side)
            halves.append(photo_of_wall(wall, turn @ own, turn @ (own @ np.array([side, 0, 0]) + [-x, 0, 2.4])))
        edge = turn @ np.array([-x, 0, 2.4])
        column = round(WIDTH / 2 + FOCAL * edge[0] / edge[2])
        photos.append(halves[0].copy())
        photos[-1].paste(halves[1].crop((column, 0, WIDTH, HEIGHT)), (column, 0))
    return photos


def write_photos(folder: Path, photos: list[Image.Image]) -> Path:
    """Save them as PNG in the order of their names."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, photo in enumerate(photos):
        photo.save(folder / f"{i:02d}.png")
    return folder
