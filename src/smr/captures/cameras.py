"""Cameras from what files say: half pixels, image sizes that differ, names of lens models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..errors import SmrError
from ..records import Camera

_LARGEST = 1_000_000
HALF = 0.5
"""Added to cx and cy of formats that put the first pixel's centre at (0, 0)."""


def camera_of_K(numbers: Sequence[float], size: tuple[int, int], path: Path, *, half_pixel: bool = True) -> Camera:
    """A pinhole camera from a 3×3 matrix in a row of 9 (or a 4×4 in a row of 16).

    Raises:
        SmrError: It is no such matrix.
    """
    rows = {9: 3, 16: 4}.get(len(numbers))
    if rows is None:
        raise SmrError(
            f"{path} holds {len(numbers)} numbers; a 3 x 3 matrix of intrinsics has 9.",
            "Write it as three lines: fx 0 cx, 0 fy cy, 0 0 1; or give --intrinsics FX FY CX CY.",
        )
    fx, cx, fy, cy = numbers[0], numbers[2], numbers[rows + 1], numbers[rows + 2]
    half = HALF if half_pixel else 0.0
    return checked(Camera(size[0], size[1], fx, fy, cx + half, cy + half), path)


def checked(camera: Camera, said_by: Path) -> Camera:
    """The camera, if it can be one of an image of its size.

    Raises:
        SmrError: A focal length is not positive, a size is none, or the principal point says that the
            intrinsics belong to images of another size.
    """
    if not (0 < camera.width < _LARGEST and 0 < camera.height < _LARGEST):
        raise SmrError(
            f"{said_by} says that images have {camera.width} x {camera.height} pixels.",
            "Correct width and height in it.",
        )
    if not (0 < camera.fx < 1e7 and 0 < camera.fy < 1e7):
        raise SmrError(
            f"{said_by} gives the focal lengths {camera.fx:g} and {camera.fy:g} pixels.",
            "Both must be positive: correct them, or give --intrinsics FX FY CX CY.",
        )
    x, y = camera.cx / camera.width, camera.cy / camera.height
    if not (0.3 < x < 0.7 and 0.3 < y < 0.7):
        factor = 0.5 / x if x > 0 else 0.0
        hint = (
            f"Scaled to this size they would be about --intrinsics {camera.fx * factor:.1f} {camera.fy * factor:.1f} "
            f"{camera.cx * factor:.1f} {camera.cy * factor:.1f}."
            if 0.1 < factor < 10 and abs(y * factor - 0.5) < 0.1
            else "Give --intrinsics FX FY CX CY."
        )
        raise SmrError(
            f"{said_by}: the principal point ({camera.cx:.1f}, {camera.cy:.1f}) is far from the middle of images of "
            f"{camera.width} x {camera.height} pixels: the intrinsics are those of another resolution.",
            hint,
        )
    return camera


def resized(camera: Camera, size: tuple[int, int], said_by: Path) -> Camera:
    """The same camera for images of another size and the same shape.

    Raises:
        SmrError: The shapes differ.
    """
    width, height = size
    sx, sy = width / camera.width, height / camera.height
    if abs(sx / sy - 1) > 0.01:
        raise SmrError(
            f"{said_by} describes a camera of {camera.width} x {camera.height} pixels, and the images have "
            f"{width} x {height}: another shape, so they cannot belong together.",
            "Use the images that belong to these intrinsics, or give --intrinsics FX FY CX CY.",
        )
    return replace(
        camera, width=width, height=height, fx=camera.fx * sx, fy=camera.fy * sy, cx=camera.cx * sx, cy=camera.cy * sy
    )


def overridden(camera: Camera, intrinsics: tuple[float, float, float, float] | None) -> Camera:
    """The camera with the user's fx, fy, cx, cy in place of its own; lens distortion is kept."""
    if intrinsics is None:
        return camera
    fx, fy, cx, cy = intrinsics
    return checked(replace(camera, fx=fx, fy=fy, cx=cx, cy=cy), Path("--intrinsics"))
