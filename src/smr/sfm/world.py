"""From the model's own frame to a world: which way is up, where zero is, and how long a metre is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float
from PIL import Image

from ..captures.decode import Decoder
from ..captures.undistort import distort
from ..errors import SmrError
from ..records import Camera, Frame
from .report import ScaleSource

GPS_SPREAD = 15.0
"""Metres; photos must lie farther apart than this for their GPS to give a scale."""
_GPS_FOLDER = 0x8825
_EARTH = 6378137.0


@dataclass(frozen=True)
class Similarity:
    """world = scale * rotation @ model + translation."""

    scale: float
    rotation: Float[np.ndarray, "3 3"]
    translation: Float[np.ndarray, "3"]

    def points(self, points: Float[np.ndarray, "N 3"]) -> Float[np.ndarray, "N 3"]:
        """Moved points."""
        moved: np.ndarray = self.scale * points @ self.rotation.T + self.translation
        return moved

    def poses(self, poses: Float[np.ndarray, "N 4 4"]) -> Float[np.ndarray, "N 4 4"]:
        """Moved cameras."""
        moved = poses.copy()
        moved[:, :3, :3] = self.rotation @ poses[:, :3, :3]
        moved[:, :3, 3] = self.points(poses[:, :3, 3])
        return moved


def fit_similarity(source: Float[np.ndarray, "N 3"], target: Float[np.ndarray, "N 3"]) -> Similarity:
    """The similarity that takes points to others with the least squared distance (Umeyama 1991)."""
    a, b = source.mean(axis=0), target.mean(axis=0)
    u, d, vt = np.linalg.svd((target - b).T @ (source - a))
    sign = np.array([1.0, 1.0, np.sign(np.linalg.det(u @ vt))])
    rotation = u * sign @ vt
    scale = float((d * sign).sum() / max(((source - a) ** 2).sum(), 1e-300))
    return Similarity(scale, rotation, b - scale * rotation @ a)


def upright(poses: Float[np.ndarray, "N 4 4"]) -> Float[np.ndarray, "3 3"]:
    """The rotation to a world whose z axis is up.

    People hold cameras level: the images' x axes lie in the horizontal plane, so that up is the direction most nearly
    perpendicular to all of them. Where they hardly turn (all x axes alike), the mean upward direction of the images.
    """
    right, down = poses[:, :3, 0], poses[:, :3, 1]
    mean_up = -down.mean(axis=0)
    values, vectors = np.linalg.eigh(right.T @ right / len(right))
    up = vectors[:, 0] * (1.0 if vectors[:, 0] @ mean_up >= 0 else -1.0)
    agree = float(up @ mean_up) / max(float(np.linalg.norm(mean_up)), 1e-12)
    if values[1] < 0.05 or agree < 0.5 or np.linalg.norm(mean_up) < 0.05:
        up = mean_up
    if np.linalg.norm(up) < 1e-6:
        up = -down[0]
    up = up / np.linalg.norm(up)
    forward = poses[0, :3, 2] - (poses[0, :3, 2] @ up) * up
    if np.linalg.norm(forward) < 1e-3:
        forward = np.eye(3)[np.abs(up).argmin()] - up[np.abs(up).argmin()] * up
    y = forward / np.linalg.norm(forward)
    return np.stack([np.cross(y, up), y, up])


@dataclass(frozen=True)
class Scale:
    """Metres for one unit of the model, and what says so."""

    factor: float
    source: ScaleSource
    words: str


def find_scale(
    frames: Sequence[Frame],
    poses: Float[np.ndarray, "N 4 4"],
    cameras: Sequence[Camera],
    observations: tuple[np.ndarray, np.ndarray, np.ndarray],
    points: Float[np.ndarray, "M 3"],
    scale_ref: tuple[str, ...] | None,
) -> Scale:
    """The length of the model's unit: the user's word, depth maps, GPS, or a choice.

    Args:
        frames: The registered frames.
        poses: world_from_camera in the model's frame.
        cameras: Camera of each.
        observations: Point, frame and pixel of each observation.
        points: In the model's frame.
        scale_ref: What the user said.

    Raises:
        SmrError: The reference is none.
    """
    if scale_ref:
        return _of_reference(scale_ref, frames, poses, cameras)
    for found in (_of_depth(frames, poses, observations, points), _of_gps(frames, poses)):
        if found is not None:
            return found
    owners, viewers, _ = observations
    depth = _depths(poses, points)(owners, viewers) if len(owners) else np.ones(1)
    return Scale(
        1.0 / max(float(np.median(depth)), 1e-9),
        "arbitrary",
        "The scale is arbitrary: photos alone do not tell it. The median distance from camera to surface is called "
        "1 m.",
    )


def _depths(poses: Float[np.ndarray, "N 4 4"], points: Float[np.ndarray, "M 3"]):  # type: ignore[no-untyped-def]
    """Depth of points in cameras, by their indices."""
    axes, centers = poses[:, :3, 2], poses[:, :3, 3]
    return lambda owners, viewers: ((points[owners] - centers[viewers]) * axes[viewers]).sum(axis=1)


def _of_depth(
    frames: Sequence[Frame],
    poses: Float[np.ndarray, "N 4 4"],
    observations: tuple[np.ndarray, np.ndarray, np.ndarray],
    points: Float[np.ndarray, "M 3"],
) -> Scale | None:
    """The median ratio of measured depth and the points' depth, in frames whose depth shows the photo's view."""
    owners, viewers, xy = observations
    ratios = []
    decoder = Decoder()
    with_depth = [i for i, frame in enumerate(frames) if frame.depth is not None and frame.photo is not None]
    for i in with_depth[:: max(1, len(with_depth) // 24)]:
        depth, photo = frames[i].depth, frames[i].photo
        here = viewers == i
        if depth is None or photo is None or not here.any():
            continue
        metres, camera = decoder.depth(depth)
        columns = (xy[here, 0] * camera.width / photo.camera.width).astype(int).clip(0, camera.width - 1)
        rows = (xy[here, 1] * camera.height / photo.camera.height).astype(int).clip(0, camera.height - 1)
        measured = metres[rows, columns]
        model = _depths(poses, points)(owners[here], viewers[here])
        good = (measured > 0) & (model > 0)
        ratios.append(measured[good] / model[good])
    every = np.concatenate(ratios) if ratios else np.zeros(0)
    if len(every) < 20:
        return None
    factor = float(np.median(every))
    spread = float(np.median(np.abs(every / factor - 1)))
    return Scale(factor, "depth maps", f"The scale is that of the depth maps, which agree within {spread:.1%}.")


def _of_gps(frames: Sequence[Frame], poses: Float[np.ndarray, "N 4 4"]) -> Scale | None:
    """The scale between the cameras' places and what GPS says of them."""
    places = [None if frame.photo is None else gps_of(frame.photo.path) for frame in frames]
    chosen = [i for i, place in enumerate(places) if place is not None]
    if len(chosen) < 4:
        return None
    east_north_up = np.array([places[i] for i in chosen])
    origin = east_north_up[0].copy()
    north = (east_north_up[:, 0] - origin[0]) * np.pi / 180 * _EARTH
    east = (east_north_up[:, 1] - origin[1]) * np.pi / 180 * _EARTH * np.cos(np.deg2rad(origin[0]))
    truth = np.stack([east, north, east_north_up[:, 2] - origin[2]], axis=1)
    if np.linalg.norm(truth - truth.mean(axis=0), axis=1).max() < GPS_SPREAD:
        return None
    fit = fit_similarity(poses[chosen, :3, 3], truth)
    residual = float(np.sqrt(((fit.points(poses[chosen, :3, 3]) - truth) ** 2).sum(axis=1).mean()))
    return Scale(
        fit.scale, "GPS", f"The scale is from the photos' GPS, which the poses fit within {residual:.1f} m (rms)."
    )


def gps_of(path: Path) -> tuple[float, float, float] | None:
    """Latitude and longitude in degrees and altitude in metres, from EXIF."""
    try:
        with Image.open(path) as image:
            said = image.getexif().get_ifd(_GPS_FOLDER)
        values = []
        for reference, key, negative in ((1, 2, "S"), (3, 4, "W")):
            degrees, minutes, seconds = (float(value) for value in said[key])
            value = degrees + minutes / 60 + seconds / 3600
            values.append(-value if str(said[reference]).upper().startswith(negative) else value)
        altitude = float(said.get(6, 0.0)) * (-1.0 if said.get(5) in (1, b"\x01") else 1.0)
    except (OSError, ValueError, SyntaxError, KeyError, TypeError, ZeroDivisionError, Image.DecompressionBombError):
        return None
    place = (values[0], values[1], altitude)
    return place if np.isfinite(place).all() and (values[0], values[1]) != (0.0, 0.0) else None


def _of_reference(
    words: tuple[str, ...],
    frames: Sequence[Frame],
    poses: Float[np.ndarray, "N 4 4"],
    cameras: Sequence[Camera],
) -> Scale:
    """`PHOTO_A PHOTO_B METRES`, or `PHOTO_A x1 y1 x2 y2 PHOTO_B x1 y1 x2 y2 METRES`."""
    form = (
        "Give --scale-ref PHOTO_A PHOTO_B METRES (how far apart the two cameras were), or --scale-ref PHOTO_A X1 Y1 X2 "
        "Y2 PHOTO_B X1 Y1 X2 Y2 METRES (two points, in pixels of both photos, and how far apart they are)."
    )
    said = " ".join(words)
    if len(words) not in (3, 11):
        raise SmrError(f"--scale-ref has {len(words)} words: {said}.", form)
    names = (words[0], words[1]) if len(words) == 3 else (words[0], words[5])
    try:
        metres = float(words[-1])
        pixels = np.array([float(word) for word in (*words[1:5], *words[6:10])]) if len(words) == 11 else np.zeros(0)
    except ValueError as error:
        raise SmrError(f"--scale-ref {said}: {error}.", form) from None
    if not (np.isfinite(metres) and metres > 0):
        raise SmrError(f"--scale-ref gives a distance of {words[-1]} m.", form)
    a, b = (_frame_named(name, frames) for name in names)
    if a == b:
        raise SmrError(f"--scale-ref names the photo {names[0]} twice.", form)
    if len(words) == 3:
        length = float(np.linalg.norm(poses[a, :3, 3] - poses[b, :3, 3]))
        what = f"the {metres:g} m between the cameras of {names[0]} and {names[1]}"
    else:
        both = (cameras[a], cameras[b])
        ends = [_midpoint(poses[[a, b]], both, pixels.reshape(2, 2, 2)[:, k]) for k in (0, 1)]
        length = float(np.linalg.norm(ends[0] - ends[1]))
        what = f"the {metres:g} m between two points in {names[0]} and {names[1]}"
    if not length > 1e-9:
        raise SmrError("The two ends of --scale-ref fall together in the model.", "Choose two places farther apart.")
    return Scale(metres / length, "--scale-ref", f"The scale is from {what}.")


def _frame_named(name: str, frames: Sequence[Frame]) -> int:
    for i, frame in enumerate(frames):
        photo = frame.photo
        if photo is not None and name in (photo.path.name, photo.path.stem, frame.name):
            return i
    some = ", ".join(frame.photo.path.name for frame in frames[:3] if frame.photo is not None)
    raise SmrError(
        f"--scale-ref names the photo {name}, which is not among those with a pose.",
        f"Name one of them, such as {some}.",
    )


def _midpoint(
    poses: Float[np.ndarray, "2 4 4"], cameras: tuple[Camera, Camera], pixels: Float[np.ndarray, "2 2"]
) -> Float[np.ndarray, "3"]:
    """The point nearest to the two rays of a place in two photos.

    Raises:
        SmrError: The rays are parallel.
    """
    rays = []
    for pose, camera, xy in zip(poses, cameras, pixels, strict=True):
        ray = pose[:3, :3] @ _ray(camera, xy)
        rays.append(ray / np.linalg.norm(ray))
    if np.linalg.norm(np.cross(rays[0], rays[1])) < 0.01:
        raise SmrError(
            "The two photos of --scale-ref see the point from nearly the same direction.",
            "Choose photos that were taken farther apart.",
        )
    normal = [np.eye(3) - np.outer(ray, ray) for ray in rays]
    place: np.ndarray = np.linalg.solve(
        normal[0] + normal[1], normal[0] @ poses[0, :3, 3] + normal[1] @ poses[1, :3, 3]
    )
    return place


def _ray(camera: Camera, xy: Float[np.ndarray, "2"]) -> Float[np.ndarray, "3"]:
    """The direction that a pixel of the photo as taken looks in; the lens is inverted by iteration."""
    at = np.array([[(xy[0] - camera.cx) / camera.fx, (xy[1] - camera.cy) / camera.fy]])
    if camera.model != "pinhole":
        for _ in range(50):
            u, v = distort(camera, at)
            off = np.stack([(u - xy[0]) / camera.fx, (v - xy[1]) / camera.fy], axis=1)
            if not np.isfinite(off).all():
                raise SmrError(
                    f"--scale-ref gives the pixel ({xy[0]:g}, {xy[1]:g}), which the lens does not see.",
                    "Choose a place nearer to the middle of the photo.",
                )
            at = at - off
    return np.array([at[0, 0], at[0, 1], 1.0])
