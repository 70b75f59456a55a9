"""Fisheye and 360-degree photos as pinhole views: several virtual cameras at one place that together see all it saw.

A single pinhole image cannot hold a view of 180 degrees. Stages that need pinhole cameras get several: the seen part of
the sphere is cut into tiles of 45 degrees and more to each side, and each tile gets a camera that looks at its middle,
with the photo's own resolution there. Neighbours overlap.

    views = split_camera(camera)                      # once a camera: the tables
    for view in views:
        image, mask = view.of(photo).render(pixels)   # view.of(photo).world_from_camera is the view's pose
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, UInt8

from ..records import Camera, Photo
from .undistort import RemapTable, distort, remap_color, remap_mask

OVERLAP = 0.06
"""Width of the rim that a view shares with its neighbours, as tangent: about 3 degrees."""
_STEP = math.radians(0.5)
_WIDEST = math.radians(100)
"""Largest extent of a tile; a pinhole image of it is 2.4 times as fine at its rim as in its middle."""


@dataclass(frozen=True)
class SplitView:
    """A pinhole view of a part of a photo."""

    camera: Camera
    """The pinhole camera of the view."""
    photo_from_view: Float[np.ndarray, "3 3"]
    """Rotation from the view's camera axes to the photo's; both cameras are at one place."""
    world_from_camera: Float[np.ndarray, "4 4"] | None
    """Pose of the view; None where the photo's is not known."""
    table: RemapTable
    """Where each pixel (`samples` × `samples` of them a pixel) lies in the photo."""
    samples: int = 1
    """Samples a pixel in each direction; more than one where the photo is finer than the view."""
    photo_size: tuple[int, int] = (0, 0)
    """Width and height of the photo."""
    closed: bool = False
    """The photo is a panorama all around: its left edge goes on at the right."""

    def of(self, photo: Photo) -> SplitView:
        """The same view of another photo of the same camera."""
        return replace(self, world_from_camera=_placed(photo.world_from_camera, self.photo_from_view))

    def render(
        self, image: UInt8[np.ndarray, "h w 3"], mask: Bool[np.ndarray, "h w"] | None = None
    ) -> tuple[UInt8[np.ndarray, "h2 w2 3"], Bool[np.ndarray, "h2 w2"]]:
        """The photo's pixels as this view sees them, bilinear, and where the photo saw anything.

        Args:
            image: The photo, as taken.
            mask: Its usable pixels.

        Raises:
            ValueError: The image or mask has another size than the photo's camera.
        """
        for name, given in (("image", image), ("mask", mask)):
            if given is not None and given.shape[:2] != self.photo_size[::-1]:
                raise ValueError(
                    f"the {name} has {given.shape[1]} x {given.shape[0]} pixels, and the photo's camera "
                    f"{self.photo_size[0]} x {self.photo_size[1]}"
                )
        table = self.table
        seen = ~np.isnan(table.source_xy[..., 0])
        if mask is not None:
            seen &= remap_mask(mask, table)
        if self.closed:  # the left edge of the image goes on at the right
            image = np.concatenate([image[:, -1:], image, image[:, :1]], axis=1)
            table = replace(table, source_xy=table.source_xy + np.array([1.0, 0.0], np.float32))
        pixels = remap_color(image, table)
        if self.samples == 1:
            pixels[~seen] = 0
            return pixels, seen
        return _average(pixels, seen, self.samples)


def split_photo(
    photo: Photo, pixels_per_radian: float | None = None, *, max_angle_deg: float = 180.0
) -> list[SplitView]:
    """Pinhole views that together see all that a photo saw.

    Args:
        photo: Of any camera; `opencv_fisheye` and `equirectangular` are what this is for.
        pixels_per_radian: Focal length of the views, pixels; None: that of the photo.
        max_angle_deg: Leave out what is further off the photo's axis, for lenses whose image circle ends before the
            image does (`image_circle_deg` finds it).
    """
    views = split_camera(photo.camera, pixels_per_radian, max_angle_deg=max_angle_deg)
    return [view.of(photo) for view in views]


def split_camera(
    camera: Camera, pixels_per_radian: float | None = None, *, max_angle_deg: float = 180.0
) -> list[SplitView]:
    """The views of `split_photo` without a pose, for all photos of one camera.

    Raises:
        ValueError: A resolution or an angle that is not positive, or a camera that sees nothing.
    """
    if pixels_per_radian is not None and not 1 <= pixels_per_radian < 1e6:
        raise ValueError(f"pixels_per_radian is {pixels_per_radian:g}; it must be at least 1")
    if not 0 < max_angle_deg <= 180:
        raise ValueError(f"max_angle_deg is {max_angle_deg:g}; it must be above 0 and at most 180")
    own = math.sqrt(camera.fx * camera.fy)
    focal = own if pixels_per_radian is None else float(pixels_per_radian)
    samples = max(1, math.ceil(own / focal - 1e-6))
    closed = camera.model == "equirectangular" and abs(math.tau * camera.fx - camera.width) < 0.5
    directions = _sphere()
    source, seen = project_directions(camera, directions)
    seen &= directions[:, 2] >= math.cos(math.radians(max_angle_deg)) - 1e-12
    seen &= _inside(camera, source)
    if not seen.any():
        raise ValueError(f"the camera {camera} sees nothing within {max_angle_deg:g} degrees of its axis")
    views = []
    for rotation, tile in _tiles(directions[seen]):
        view = _pinhole(rotation, tile, directions[seen], focal)
        table = _table(camera, _finer(view, samples), rotation, math.radians(max_angle_deg))
        views.append(SplitView(view, rotation, None, table, samples, (camera.width, camera.height), closed))
    return views


def project_directions(
    camera: Camera, directions: Float[np.ndarray, "*n 3"]
) -> tuple[Float[np.ndarray, "*n 2"], Bool[np.ndarray, "*n"]]:
    """Image coordinates of directions in the camera frame, of any lens and on any side, and whether it shows them.

    Unlike `undistort.distort` this goes beyond 90 degrees off the axis, and ends where the lens model first folds.
    """
    x, y, z = directions[..., 0], directions[..., 1], directions[..., 2]
    across = np.hypot(x, y)
    if camera.model == "equirectangular":
        longitude, latitude = np.arctan2(x, z), np.arctan2(y, np.hypot(x, z))
        xy = np.stack([camera.fx * longitude + camera.cx, camera.fy * latitude + camera.cy], axis=-1)
        return xy, across + np.abs(z) > 0
    if camera.model == "opencv_fisheye":
        k = (*camera.distortion, *(0.0,) * (4 - len(camera.distortion)))
        theta = np.arctan2(across, z)
        t2 = theta * theta
        radius = theta * (1 + t2 * (k[0] + t2 * (k[1] + t2 * (k[2] + t2 * k[3]))))
        scale = np.divide(radius, across, out=np.zeros_like(radius), where=across > 0)
        xy = np.stack([camera.fx * x * scale + camera.cx, camera.fy * y * scale + camera.cy], axis=-1)
        return xy, theta < fisheye_fold(camera.distortion)
    ahead = z > 1e-9
    safe_z = np.where(ahead, z, 1.0)
    u, v = distort(camera, np.stack([x / safe_z, y / safe_z], axis=-1))
    return np.stack([u, v], axis=-1), ahead & ~np.isnan(u)


def fisheye_fold(distortion: tuple[float, ...]) -> float:
    """The angle off the axis, radians, at which a Kannala-Brandt lens stops growing; pi where it never does."""
    odd = [(2 * n + 1) * k for n, k in enumerate((1.0, *distortion))]
    roots = np.roots(np.trim_zeros(odd[::-1], "f")) if any(odd[1:]) else np.empty(0)
    squares = roots.real[(np.abs(roots.imag) < 1e-9) & (roots.real > 0)]
    return min(math.pi, float(np.sqrt(squares.min()))) if len(squares) else math.pi


def image_circle_deg(image: UInt8[np.ndarray, "h w 3"], camera: Camera, *, dark: int = 12) -> float:
    """How far off the axis the photo shows anything: where the black around a fisheye's image circle begins.

    Args:
        image: The photo, as taken; a bright one, or the brightest of many at each pixel, tells it best.
        camera: Its camera.
        dark: Values up to this are black.

    Returns:
        Degrees, for `max_angle_deg`; as far as the image goes where there is no black around.
    """
    directions = _sphere()
    source, seen = project_directions(camera, directions)
    seen &= _inside(camera, source)
    columns, rows = np.floor(source[seen]).astype(int).T
    bright = image[rows.clip(0, camera.height - 1), columns.clip(0, camera.width - 1)].max(axis=-1) > dark
    degrees = np.degrees(np.arccos(np.clip(directions[seen, 2], -1, 1)))
    rings = np.floor(degrees).astype(int)
    share = np.bincount(rings, bright) / np.maximum(np.bincount(rings), 1)
    lit = np.flatnonzero(share >= 0.5)
    return min(180.0, float(lit[-1] + 1)) if len(lit) else 180.0


def _sphere() -> Float[np.ndarray, "n 3"]:
    """Directions all over, half a degree apart and closer at the poles, which are up and down."""
    elevation = np.arange(-math.pi / 2, math.pi / 2 + _STEP / 2, _STEP)
    azimuth = np.arange(-math.pi, math.pi - _STEP / 2, _STEP)
    e, a = np.meshgrid(elevation, azimuth, indexing="ij")
    return np.stack([np.cos(e) * np.sin(a), np.sin(e), np.cos(e) * np.cos(a)], axis=-1).reshape(-1, 3)


def _tiles(seen: Float[np.ndarray, "n 3"]) -> Iterator[tuple[Float[np.ndarray, "3 3"], Float[np.ndarray, "m 3"]]]:
    """Disjoint parts of the seen directions, each with the rotation of a camera that looks at its middle.

    What lies around the photo's axis, mostly what it was taken of, stays in one view.
    """
    yaw, pitch = np.arctan2(seen[:, 0], seen[:, 2]), np.arcsin(np.clip(seen[:, 1], -1, 1))
    low, high = float(pitch.min()), float(pitch.max())
    if high - low > _WIDEST:
        yield from _cube_faces(seen)
        return
    left, right = float(yaw.min()), float(yaw.max())
    pieces = max(1, math.ceil((right - left) / _WIDEST - 1e-9))
    pieces += pieces % 2 == 0  # a border would cut the middle
    edges = np.linspace(left, right, pieces + 1)
    tile = np.clip(np.searchsorted(edges, yaw, side="right") - 1, 0, pieces - 1)
    for i in range(pieces):
        if (tile == i).any():
            yield _rotation(float(edges[i] + edges[i + 1]) / 2, (low + high) / 2), seen[tile == i]


def _cube_faces(seen: Float[np.ndarray, "n 3"]) -> Iterator[tuple[Float[np.ndarray, "3 3"], Float[np.ndarray, "m 3"]]]:
    """The six faces of a cube around the photo's axes; the cameras look at the middle of what was seen of each."""
    axis = np.abs(seen).argmax(axis=1)
    positive = np.take_along_axis(seen, axis[:, None], axis=1)[:, 0] > 0
    for which, sign in ((2, True), (0, False), (0, True), (1, False), (1, True), (2, False)):
        part = seen[(axis == which) & (positive == sign)]
        if not len(part):
            continue
        if which == 2:
            yield _rotation(0.0 if sign else math.pi, 0.0), part
            continue
        # from 45 degrees off the axis to as far as was seen
        furthest = math.acos(max(-1.0, float(part[:, 2].min())))
        furthest = min(furthest, math.radians(135))
        middle = (math.radians(45) + max(furthest, math.radians(90))) / 2
        side = middle if sign else -middle
        yield (_rotation(side, 0.0) if which == 0 else _rotation(0.0, side)), part


def _rotation(yaw: float, pitch: float) -> Float[np.ndarray, "3 3"]:
    """Photo from view: the view looks `yaw` to the right and `pitch` down; its x axis stays level."""
    cy, sy, cp, sp = math.cos(yaw), math.sin(yaw), math.cos(pitch), math.sin(pitch)
    turn = np.array([[cy, 0.0, sy], [0.0, 1.0, 0.0], [-sy, 0.0, cy]])
    nod = np.array([[1.0, 0.0, 0.0], [0.0, cp, sp], [0.0, -sp, cp]])
    return turn @ nod


def _pinhole(
    rotation: Float[np.ndarray, "3 3"], tile: Float[np.ndarray, "m 3"], seen: Float[np.ndarray, "n 3"], focal: float
) -> Camera:
    """The smallest camera that sees the tile and a rim around it, as far as anything was seen there."""
    local = tile @ rotation
    plane = local[:, :2] / local[:, 2:]
    rim = OVERLAP + math.tan(_STEP)
    low, high = plane.min(axis=0) - rim, plane.max(axis=0) + rim
    around = seen @ rotation
    around = around[around[:, 2] > 0.1]
    near = around[:, :2] / around[:, 2:]
    near = near[((near >= low) & (near <= high)).all(axis=1)]
    half_step = math.tan(_STEP)
    low, high = np.maximum(low, near.min(axis=0) - half_step), np.minimum(high, near.max(axis=0) + half_step)
    corner = np.floor(low * focal)
    width, height = (np.ceil(high * focal) - corner).astype(int).tolist()
    return Camera(max(width, 1), max(height, 1), focal, focal, -float(corner[0]), -float(corner[1]))


def _finer(view: Camera, samples: int) -> Camera:
    """The same view with more pixels."""
    size = (view.width * samples, view.height * samples)
    return Camera(*size, view.fx * samples, view.fy * samples, view.cx * samples, view.cy * samples)


def _table(camera: Camera, view: Camera, photo_from_view: Float[np.ndarray, "3 3"], max_angle: float) -> RemapTable:
    x = (np.arange(view.width) + 0.5 - view.cx) / view.fx
    y = (np.arange(view.height) + 0.5 - view.cy) / view.fy
    rays = np.stack([*np.meshgrid(x, y), np.ones((view.height, view.width))], axis=-1)
    directions = rays @ photo_from_view.T
    source, valid = project_directions(camera, directions)
    valid &= _inside(camera, source)
    valid &= directions[..., 2] >= math.cos(max_angle) * np.linalg.norm(rays, axis=-1) - 1e-12
    source[~valid] = np.nan
    return RemapTable(view, (source - 0.5).astype(np.float32))


def _inside(camera: Camera, xy: Float[np.ndarray, "*n 2"]) -> Bool[np.ndarray, "*n"]:
    with np.errstate(invalid="ignore"):
        return np.all((xy >= 0) & (xy <= [camera.width, camera.height]), axis=-1)


def _placed(
    world_from_photo: Float[np.ndarray, "4 4"] | None, photo_from_view: Float[np.ndarray, "3 3"]
) -> Float[np.ndarray, "4 4"] | None:
    if world_from_photo is None:
        return None
    world_from_view = world_from_photo.copy()
    world_from_view[:3, :3] = world_from_photo[:3, :3] @ photo_from_view
    return world_from_view


def _average(
    pixels: UInt8[np.ndarray, "h w 3"], seen: Bool[np.ndarray, "h w"], samples: int
) -> tuple[UInt8[np.ndarray, "h2 w2 3"], Bool[np.ndarray, "h2 w2"]]:
    """Means over blocks, of what was seen; seen is a block of which at least half was."""
    height, width = seen.shape[0] // samples, seen.shape[1] // samples
    counts = seen.reshape(height, samples, width, samples).sum(axis=(1, 3))
    pixels[~seen] = 0
    sums = pixels.reshape(height, samples, width, samples, 3).sum(axis=(1, 3), dtype=np.int64)
    mostly = 2 * counts >= samples * samples
    means = (sums + counts[..., None] // 2) // np.maximum(counts, 1)[..., None]
    return np.where(mostly[..., None], means, 0).astype(np.uint8), mostly
