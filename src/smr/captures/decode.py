"""From files to pixels: photos as RGB, depth as metres, both undistorted to a pinhole camera."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float32, Shaped, UInt8

from ..errors import SmrError
from ..records import Camera, DepthMap, Photo
from .images import read_depth_image, read_mask, read_photo
from .lzfse import read_lzfse_image
from .undistort import RemapTable, remap_color, remap_depth, remap_mask, remap_table

TABLES = 8
"""Remap tables that a decoder keeps; a capture with a lens of its own for each frame makes each anew."""


class Decoder:
    """Decodes photos, depth maps and masks; keeps the remap tables of the distorted cameras that it met.

    May be used from several threads.
    """

    def __init__(self) -> None:
        self._tables: OrderedDict[Camera, RemapTable] = OrderedDict()
        self._lock = threading.Lock()

    def photo(self, photo: Photo) -> tuple[UInt8[np.ndarray, "h w 3"], Camera]:
        """The image, and the pinhole camera that it is an image of.

        Raises:
            SmrError: The file cannot be decoded, or its size is not the camera's.
        """
        pixels = read_photo(photo.path, orientation=photo.orientation, shrink=photo.shrink)
        _check_size(pixels, photo.camera, photo)
        if photo.camera.model == "pinhole":
            return pixels, photo.camera
        table = self._table(photo.camera)
        return remap_color(pixels, table), table.camera

    def depth(self, depth: DepthMap) -> tuple[Float32[np.ndarray, "h w"], Camera]:
        """Depth along z in metres, 0 where there is none, and its pinhole camera.

        Raises:
            SmrError: The file cannot be decoded, or its size is not the camera's.
        """
        metres = _metres(read_depth_image(depth.path, (depth.camera.width, depth.camera.height)), depth)
        _check_size(metres, depth.camera, depth)
        if depth.confidence is not None:
            metres[~_confident(depth, metres.shape)] = 0.0
        if depth.camera.model == "pinhole":
            return metres, depth.camera
        table = self._table(depth.camera)
        return remap_depth(metres, table), table.camera

    def weight(self, depth: DepthMap) -> Float32[np.ndarray, "h w"] | None:
        """How much each pixel of a pinhole camera's depth map counts, 0 to 1; None where all count alike.

        Raises:
            SmrError: The file cannot be decoded, or its size is not the camera's.
        """
        if depth.confidence is None or depth.confidence.suffix.lower() != ".npy" or depth.camera.model != "pinhole":
            return None
        stored = read_depth_image(depth.confidence)
        if stored.dtype.kind != "f":
            return None
        _check_size(stored, depth.camera, replace(depth, path=depth.confidence))
        return np.clip(np.nan_to_num(stored, nan=0.0), 0.0, 1.0).astype(np.float32)

    def mask(self, photo: Photo) -> Bool[np.ndarray, "h w"] | None:
        """Where the photo, as `photo` gives it, may be used; None where everywhere.

        Raises:
            SmrError: The file cannot be decoded, or its size is not the camera's.
        """
        if photo.mask is None and photo.camera.model == "pinhole":
            return None
        if photo.mask is None:
            mask = np.ones((photo.camera.height, photo.camera.width), dtype=bool)
        else:
            mask = read_mask(photo.mask, orientation=photo.orientation if photo.mask == photo.path else 1)
            if mask.shape != (photo.camera.height, photo.camera.width):
                mask = _nearest(mask, (photo.camera.height, photo.camera.width))
        if photo.camera.model == "pinhole":
            return mask
        undistorted = remap_mask(mask, self._table(photo.camera))
        return None if undistorted.all() else undistorted

    def _table(self, camera: Camera) -> RemapTable:
        with self._lock:
            if camera not in self._tables:
                self._tables[camera] = remap_table(camera)
                if len(self._tables) > TABLES:
                    self._tables.popitem(last=False)
            self._tables.move_to_end(camera)
            return self._tables[camera]


def decode_photo(photo: Photo) -> tuple[UInt8[np.ndarray, "h w 3"], Camera]:
    """One photo as RGB, undistorted; for many, a `Decoder` keeps the tables."""
    return Decoder().photo(photo)


def decode_depth(depth: DepthMap) -> tuple[Float32[np.ndarray, "h w"], Camera]:
    """One depth map in metres, 0 = none, undistorted; for many, a `Decoder` keeps the tables."""
    return Decoder().depth(depth)


def decode_mask(photo: Photo) -> Bool[np.ndarray, "h w"] | None:
    """Where one photo may be used, undistorted; None where everywhere."""
    return Decoder().mask(photo)


def _check_size(pixels: np.ndarray, camera: Camera, source: Photo | DepthMap) -> None:
    height, width = pixels.shape[:2]
    if (width, height) != (camera.width, camera.height):
        raise SmrError(
            f"{source.path} has {width} x {height} pixels, and its camera {camera.width} x {camera.height}.",
            "Use images of one size, or the intrinsics that belong to this size.",
        )


def _metres(stored: Shaped[np.ndarray, "h w"], depth: DepthMap) -> Float32[np.ndarray, "h w"]:
    """Stored numbers to metres: encodings undone; saturated, negative and not finite values become 0."""
    if depth.encoding != "linear" and stored.dtype != np.uint16:
        raise SmrError(
            f"{depth.path} has {stored.dtype} values; the {depth.encoding} encoding is for 16-bit images.",
            "Read it as ordinary depth, or export it again.",
        )
    if depth.encoding == "kinect_disparity":
        return _metres_of_kinect_disparity(stored, depth.scale)
    if depth.encoding == "sun3d":  # Open3D's rule: the bits are rotated left by three
        stored = (stored >> 3) | (stored << 13)
    if stored.dtype.kind == "f":
        metres = (stored / depth.scale).astype(np.float32)
        metres[~(np.isfinite(metres) & (metres > 0))] = 0.0
        return metres
    metres = stored.astype(np.float32)
    metres /= np.float32(depth.scale)
    if stored.dtype == np.uint16:
        metres[stored == 65535] = 0.0  # saturated, or "none" in 7-Scenes
    elif stored.dtype.kind == "i":
        np.maximum(metres, 0.0, out=metres)
    return metres


def _metres_of_kinect_disparity(stored: Shaped[np.ndarray, "h w"], scale: float) -> Float32[np.ndarray, "h w"]:
    """Raw disparity of 11 bits, as NYU Depth V2 stores it: 351.3 / (1092.5 - v) metres; 2047 is none."""
    disparity = stored.byteswap() if stored.max(initial=0) > 2047 else stored
    metres = np.zeros(stored.shape, np.float32)
    known = disparity < 1092
    metres[known] = 351.3 / (1092.5 - disparity[known].astype(np.float32)) / scale
    return metres


def _confident(depth: DepthMap, shape: tuple[int, ...]) -> Bool[np.ndarray, "h w"]:
    assert depth.confidence is not None
    if depth.confidence.suffix.lower() == ".conf":  # Record3D's own
        return read_lzfse_image(depth.confidence, (shape[1], shape[0]), np.dtype(np.uint8)) > 0
    if depth.confidence.suffix.lower() == ".npy":  # our own
        confident = read_depth_image(depth.confidence) > 0
    else:
        confident = read_mask(depth.confidence)
    return confident if confident.shape == shape else _nearest(confident, (shape[0], shape[1]))


def _nearest(mask: Bool[np.ndarray, "h w"], shape: tuple[int, int]) -> Bool[np.ndarray, "h2 w2"]:
    """The mask at another size."""
    rows = (np.arange(shape[0]) + 0.5) * mask.shape[0] / shape[0]
    columns = (np.arange(shape[1]) + 0.5) * mask.shape[1] / shape[1]
    return mask[rows.astype(int)[:, None], columns.astype(int)[None, :]]
