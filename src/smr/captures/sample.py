"""A sample of a capture's frames, decoded and measured: what a survey is made from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Float32, Shaped

from ..errors import SmrError
from ..progress import Track
from ..records import Capture, Frame, Photo
from ..transforms import rigid_inverse
from .ahead import decode_ahead
from .color_offset import EdgePair, edge_pair
from .consistency import View, points_in_camera
from .decode import Decoder
from .depth_quality import NoiseSample, flying_pixels, luminance, plane_noise, quantisation, sharpness
from .images import read_depth_image

FRAMES = 24
"""Frames that are looked at closely; each one's successor is decoded too, to compare depth."""


@dataclass(frozen=True)
class Look:
    """What was measured in one frame."""

    name: str
    view: View | None = None
    valid: float = 0.0
    """Share of pixels with depth."""
    flying: float = 0.0
    """Share of the pixels with depth that hang between two surfaces."""
    noise: NoiseSample | None = None
    step: int = 0
    """Stored depths are multiples of this; 0 for floating point."""
    saturated: float = 0.0
    """Share of the pixels with depth that have the largest stored value."""
    top: int = 0
    """Largest stored value."""
    bits: int = 0
    """Bits of the stored type."""
    sharpness: float | None = None
    grey: Float32[np.ndarray, "h w"] | None = None
    photo: Photo | None = None
    edges: EdgePair | None = None
    error: SmrError | None = None
    """Why the frame could not be decoded."""


@dataclass(frozen=True)
class Sample:
    """The frames looked at, and pairs of depth maps to compare."""

    looks: tuple[Look, ...]
    pairs: tuple[tuple[View, View], ...] = field(default=())


def take_sample(capture: Capture, *, track: Track, seed: int = 0) -> Sample:
    """Decode and measure frames spread evenly over the capture, and pair them with their neighbours."""
    count = len(capture)
    chosen = np.unique(np.linspace(0, count - 1, min(FRAMES, count)).round().astype(int)).tolist()
    needed = sorted({*chosen, *(i + 1 for i in chosen if i + 1 < count)})
    decoder = Decoder()
    close = set(chosen)

    def look(i: int) -> Look:
        return _look(capture.frames[i], decoder, np.random.default_rng((seed, i)), closely=i in close)

    looks: dict[int, Look] = {}
    decoded: Iterator[Look] = decode_ahead(needed, look, threads=2, lookahead=4)
    for i, seen in zip(needed, track(decoded, "looking at frames", len(needed)), strict=True):
        looks[i] = seen
    if count <= 8:
        places = [(i, j) for i in needed for j in needed if i < j]
    else:
        places = sorted({*((i, i + 1) for i in chosen if i + 1 < count), *pairwise(chosen)})
    pairs = []
    for i, j in places:
        a, b = looks[i].view, looks[j].view
        if a is not None and b is not None:
            pairs.append((a, b))
    return Sample(tuple(looks[i] for i in chosen), tuple(pairs))


def _look(frame: Frame, decoder: Decoder, rng: np.random.Generator, *, closely: bool) -> Look:
    try:
        depth = _look_at_depth(frame, decoder, rng, closely)
        return depth if not closely or frame.photo is None else _look_at_photo(frame.photo, decoder, depth)
    except SmrError as error:
        return Look(frame.name, error=error)


def _look_at_depth(frame: Frame, decoder: Decoder, rng: np.random.Generator, closely: bool) -> Look:
    if frame.depth is None:
        return Look(frame.name)
    depth, camera = decoder.depth(frame.depth)
    pose = frame.depth.world_from_camera
    view = None if pose is None else View(frame.name, depth, camera, pose)
    valid = int((depth > 0).sum())
    if not closely:
        return Look(frame.name, view)
    size = (frame.depth.camera.width, frame.depth.camera.height)
    stored: Shaped[np.ndarray, "h w"] = read_depth_image(frame.depth.path, size)
    step, saturated = quantisation(stored)
    return Look(
        frame.name,
        view,
        valid=valid / depth.size,
        flying=float(flying_pixels(depth).sum()) / max(valid, 1),
        noise=plane_noise(depth, rng),
        step=step,
        saturated=saturated,
        top=int(stored[stored < 65535].max(initial=0)) if stored.dtype.kind in "ui" else 0,
        bits=8 * stored.dtype.itemsize,
    )


def _look_at_photo(photo: Photo, decoder: Decoder, look: Look) -> Look:
    pixels, camera = decoder.photo(photo)
    grey = luminance(pixels)
    edges = None
    if look.view is not None and photo.world_from_camera is not None:
        edges = edge_pair(look.view, pixels, camera, photo.world_from_camera)
    known = Photo(photo.path, camera, photo.world_from_camera)
    return replace(look, sharpness=sharpness(grey), grey=grey, photo=known, edges=edges)


def brightness_ratio(a: Look, b: Look) -> float | None:
    """Median brightness of the surface that both photos show, second over first; None where too little is shared."""
    if a.view is None or a.grey is None or b.grey is None or a.photo is None or b.photo is None:
        return None
    points = points_in_camera(a.view) @ a.view.world_from_camera[:3, :3].T + a.view.world_from_camera[:3, 3]
    first, second = _grey_at(points, a), _grey_at(points, b)
    both = (first > 8) & (first < 247) & (second > 8) & (second < 247)
    if both.sum() < 50:
        return None
    return float(np.median(second[both] / first[both]))


def _grey_at(points_in_world: Float[np.ndarray, "N 3"], look: Look) -> Float[np.ndarray, " N"]:
    """Grey level at points where they fall into the photo, else 0; occlusion is not looked at."""
    assert look.photo is not None
    assert look.photo.world_from_camera is not None
    assert look.grey is not None
    camera_from_world = rigid_inverse(look.photo.world_from_camera)
    points = points_in_world @ camera_from_world[:3, :3].T + camera_from_world[:3, 3]
    camera, (height, width) = look.photo.camera, look.grey.shape
    z = np.where(points[:, 2] > 1e-6, points[:, 2], np.nan)
    u = (camera.fx * points[:, 0] / z + camera.cx) * width / camera.width
    v = (camera.fy * points[:, 1] / z + camera.cy) * height / camera.height
    inside = (u >= 0) & (v >= 0) & (u < width) & (v < height)
    grey = np.zeros(len(points))
    grey[inside] = look.grey[v[inside].astype(int), u[inside].astype(int)]
    return grey
