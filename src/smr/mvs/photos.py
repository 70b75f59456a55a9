"""The photos as the matcher wants them: undistorted, grey, at the working size, in halves of it; kept on the device."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import warp as wp
from jaxtyping import Bool, Float, Float16, UInt8
from PIL import Image

from ..arrays import cpu_threads
from ..captures import Decoder, decode_usable
from ..captures.undistort import pinhole_of
from ..progress import Track
from ..records import Camera, Photo

FindMask = Callable[[UInt8[np.ndarray, "h w"]], Bool[np.ndarray, "h w"]]
Halving = tuple[Float16[np.ndarray, "_ _"], UInt8[np.ndarray, "_ _"]]
"""Grey levels of a level, and where they may be used."""
COARSEST = 256
"""Pixels; halving stops where the longer side is not longer than this."""


@dataclass(frozen=True)
class View:
    """A photo with a pose, and the pinhole camera that its depth map will have."""

    name: str
    frame: int
    """Its place in the capture."""
    photo: Photo
    camera: Camera
    world_from_camera: Float[np.ndarray, "4 4"]


@dataclass(frozen=True)
class Pyramid:
    """A photo's grey levels from the working size down, on the device."""

    images: tuple[Any, ...]
    """wp.array(float16) each, row by row."""
    masks: tuple[Any, ...]
    """wp.array(uint8) each, 0 where the photo may not be used."""
    sizes: tuple[tuple[int, int], ...]
    """Width and height of each."""


def working_camera(photo: Photo, longest: int, known: dict[Camera, Camera]) -> Camera:
    """The pinhole camera of the undistorted photo, made smaller so that no side is longer than `longest`."""
    camera = photo.camera
    if camera not in known:
        flat = camera if camera.model == "pinhole" else pinhole_of(camera)
        scale = min(1.0, longest / max(flat.width, flat.height))
        known[camera] = scaled(flat, max(1, round(flat.width * scale)), max(1, round(flat.height * scale)))
    return known[camera]


def scaled(camera: Camera, width: int, height: int) -> Camera:
    """The camera of the same image at another size."""
    sx, sy = width / camera.width, height / camera.height
    return replace(
        camera, width=width, height=height, fx=camera.fx * sx, fy=camera.fy * sy, cx=camera.cx * sx, cy=camera.cy * sy
    )


def level_sizes(camera: Camera) -> tuple[tuple[int, int], ...]:
    """Width and height of each level, the working size first."""
    sizes = [(camera.width, camera.height)]
    while max(sizes[-1]) > COARSEST:
        width, height = sizes[-1]
        sizes.append(((width + 1) // 2, (height + 1) // 2))
    return tuple(sizes)


class Photos:
    """Pyramids of the views, decoded when they are asked for; the latest stay on the device."""

    def __init__(self, device: str, limit: int, find_mask: FindMask | None = None) -> None:
        self.device = device
        self.find_mask = find_mask
        """Finds the object in the grey levels of a photo."""
        self.limit = limit
        """Bytes."""
        self._decoder = Decoder()
        self._kept: OrderedDict[int, Pyramid] = OrderedDict()
        self._bytes = 0

    def load(self, views: Sequence[View], track: Track) -> list[View]:
        """Decode photos ahead, as many as may be kept; returns the views without those that cannot be decoded.

        Raises:
            SmrError: More than half of the photos cannot be decoded.
        """
        fit = max(2, self.limit // max(4 * views[0].camera.width * views[0].camera.height, 1))
        threads, loaded = cpu_threads(), []
        decoded = decode_usable(views[:fit], self.decode, threads=threads, lookahead=2 * threads)
        for view, levels in track(decoded, "Reading photos", len(views[:fit])):
            self.keep(view, levels)
            loaded.append(view)
        return [*loaded, *views[fit:]]

    def pyramid(self, view: View) -> Pyramid:
        """The pyramid of a view.

        Raises:
            SmrError: The photo cannot be decoded.
        """
        if view.frame in self._kept:
            self._kept.move_to_end(view.frame)
            return self._kept[view.frame]
        return self.keep(view, self.decode(view))

    def decode(self, view: View) -> list[Halving]:
        """The levels of a photo; may be called from several threads."""
        return _halvings(*self._shown(view), view.camera)

    def mask(self, view: View) -> Bool[np.ndarray, "h w"] | None:
        """Which pixels of the undistorted photo show the object; None where nothing tells.

        Raises:
            SmrError: The mask or the photo cannot be decoded.
        """
        if self.find_mask is not None:
            return self._shown(view)[1]
        return None if view.photo.mask is None else self._decoder.mask(view.photo)

    def _shown(self, view: View) -> tuple[UInt8[np.ndarray, "h w"], Bool[np.ndarray, "h w"] | None]:
        pixels, _ = self._decoder.photo(view.photo)
        grey = np.asarray(Image.fromarray(pixels).convert("L"))
        mask = self._decoder.mask(view.photo)
        if self.find_mask is not None:
            found = self.find_mask(grey)
            mask = found if mask is None else mask & found
        return grey, mask

    def keep(self, view: View, decoded: list[Halving]) -> Pyramid:
        """Put a decoded photo on the device."""
        images = tuple(wp.array(one.ravel(), dtype=wp.float16, device=self.device) for one, _ in decoded)
        masks = tuple(wp.array(one.ravel(), dtype=wp.uint8, device=self.device) for _, one in decoded)
        pyramid = Pyramid(images, masks, level_sizes(view.camera))
        self._kept[view.frame] = pyramid
        self._bytes += _bytes(pyramid)
        while self._bytes > self.limit and len(self._kept) > 1:
            self._bytes -= _bytes(self._kept.popitem(last=False)[1])
        return pyramid


def _halvings(grey: UInt8[np.ndarray, "h w"], mask: Bool[np.ndarray, "h w"] | None, camera: Camera) -> list[Halving]:
    image = Image.fromarray(grey)
    hidden = None if mask is None else Image.fromarray(mask.astype(np.uint8))
    levels = []
    for size in level_sizes(camera):
        image = resized(image, size)
        shown = np.ones(size[::-1], np.uint8)
        if hidden is not None:
            shown = np.ascontiguousarray(hidden.resize(size, Image.Resampling.NEAREST))
        levels.append((np.asarray(image, np.float16), shown))
    return levels


def resized(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """The image made smaller, without aliasing."""
    if image.size == size:
        return image
    exact = image if image.mode == "F" else image.convert("F")  # whole levels would add their rounding
    return exact.resize(size, Image.Resampling.BILINEAR)


def _bytes(pyramid: Pyramid) -> int:
    return sum(3 * width * height for width, height in pyramid.sizes)
