"""Lens distortion: where a pixel of the undistorted image lies in the image as taken, and resampling there.

Models: OpenCV's radial-tangential with up to eight coefficients (rational), and Kannala-Brandt (OpenCV fisheye).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, no_type_check

import numpy as np
import warp as wp
from jaxtyping import Bool, Float, Float32, UInt8

from ..arrays import launch_chunked
from ..records import Camera

MAX_ZOOM = 1.6
"""The undistorted image is enlarged by at most this to leave no pixel without a source."""
DEPTH_JUMP = 0.03
"""Depths that differ by more than this part are not averaged when resampled."""


@dataclass(frozen=True)
class RemapTable:
    """For each pixel of the undistorted image, where it lies in the image as taken."""

    camera: Camera
    """The pinhole camera of the undistorted image."""
    source_xy: Float32[np.ndarray, "h w 2"]
    """Pixels of the distorted image, the first pixel's centre at (0, 0); NaN where there is no source."""


def distort(
    camera: Camera, points: Float[np.ndarray, "*n 2"]
) -> tuple[Float[np.ndarray, "*n"], Float[np.ndarray, "*n"]]:
    """Image coordinates (x, y) of directions (X/Z, Y/Z) through the camera's lens, and nothing else.

    Where the lens model folds back (a radius that no longer grows), the result is NaN.

    Raises:
        ValueError: A panorama, which no single pinhole image can hold.
    """
    if camera.model == "equirectangular":
        raise ValueError("a panorama has no single pinhole image; split_views.split_photo makes several")
    x, y = points[..., 0], points[..., 1]
    if camera.model == "opencv_fisheye":
        factor, fold = _fisheye_factor(camera.distortion, np.hypot(x, y))
        dx, dy = x * factor, y * factor
    else:
        dx, dy, fold = _radial_tangential(camera.distortion, x, y)
    u, v = camera.fx * dx + camera.cx, camera.fy * dy + camera.cy
    return np.where(fold, np.nan, u), np.where(fold, np.nan, v)


def _radial_tangential(k: tuple[float, ...], x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """OpenCV's model: k1 k2 p1 p2 k3 k4 k5 k6."""
    k1, k2, p1, p2, k3, k4, k5, k6 = (*k, *(0.0,) * (8 - len(k)))
    r2 = x * x + y * y
    up, down = 1 + r2 * (k1 + r2 * (k2 + r2 * k3)), 1 + r2 * (k4 + r2 * (k5 + r2 * k6))
    with np.errstate(divide="ignore", invalid="ignore"):
        radial = up / down
        up_slope, down_slope = k1 + r2 * (2 * k2 + r2 * 3 * k3), k4 + r2 * (2 * k5 + r2 * 3 * k6)
        slope = radial + 2 * r2 * (up_slope * down - up * down_slope) / (down * down)  # d(r radial)/dr
    dx = x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x)
    dy = y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y
    return dx, dy, ~(slope > 0)


def _fisheye_factor(k: tuple[float, ...], r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Kannala-Brandt: theta_d = theta (1 + k1 theta^2 + k2 theta^4 + ...); what r is multiplied by."""
    k1, k2, k3, k4 = (*k, *(0.0,) * (4 - len(k)))
    theta = np.arctan(r)
    t2 = theta * theta
    distorted = theta * (1 + t2 * (k1 + t2 * (k2 + t2 * (k3 + t2 * k4))))
    slope = 1 + t2 * (3 * k1 + t2 * (5 * k2 + t2 * (7 * k3 + t2 * 9 * k4)))
    small = r < 1e-9
    return np.where(small, 1.0, distorted / np.where(small, 1.0, r)), ~(slope > 0)


def _pixel_rays(camera: Camera, step: int = 1) -> Float[np.ndarray, "h w 2"]:
    x = (np.arange(0, camera.width, step) + 0.5 - camera.cx) / camera.fx
    y = (np.arange(0, camera.height, step) + 0.5 - camera.cy) / camera.fy
    return np.stack(np.meshgrid(x, y), axis=-1)


def pinhole_of(camera: Camera) -> Camera:
    """The pinhole camera of the undistorted image: same size and centre, enlarged only as far as no pixel is empty."""
    flat = replace(camera, model="pinhole", distortion=())
    zoomed = flat
    for zoom in np.linspace(1.0, MAX_ZOOM, 61):
        zoomed = replace(flat, fx=camera.fx * float(zoom), fy=camera.fy * float(zoom))
        if _inside(camera, _border(zoomed)).all():
            return zoomed
    return flat


def _border(camera: Camera) -> Float[np.ndarray, "n 2"]:
    rays = _pixel_rays(camera)
    return np.concatenate([rays[0], rays[-1], rays[:, 0], rays[:, -1]])


def _inside(camera: Camera, rays: Float[np.ndarray, "n 2"]) -> Bool[np.ndarray, " n"]:
    u, v = distort(camera, rays)
    with np.errstate(invalid="ignore"):
        return (u >= 0) & (v >= 0) & (u <= camera.width) & (v <= camera.height)


def remap_table(camera: Camera) -> RemapTable:
    """Where each pixel of the undistorted image comes from."""
    pinhole = pinhole_of(camera)
    u, v = distort(camera, _pixel_rays(pinhole))
    with np.errstate(invalid="ignore"):
        inside = (u >= 0) & (v >= 0) & (u <= camera.width) & (v <= camera.height)
    source = np.stack([u, v], axis=-1) - 0.5
    source[~inside] = np.nan
    return RemapTable(pinhole, source.astype(np.float32))


def remap_color(pixels: UInt8[np.ndarray, "h w 3"], table: RemapTable) -> UInt8[np.ndarray, "h2 w2 3"]:
    """The undistorted image, bilinear; black where there is no source."""
    out = np.zeros((table.camera.height, table.camera.width, 3), np.uint8)
    _launch(_remap_color, pixels, table, out, [])
    return out


def remap_depth(metres: Float32[np.ndarray, "h w"], table: RemapTable) -> Float32[np.ndarray, "h2 w2"]:
    """The undistorted depth: bilinear (of the inverse) where four neighbours agree, else the nearest; 0 is none."""
    out = np.zeros((table.camera.height, table.camera.width), np.float32)
    _launch(_remap_depth, metres, table, out, [DEPTH_JUMP])
    return out


def remap_mask(mask: Bool[np.ndarray, "h w"], table: RemapTable) -> Bool[np.ndarray, "h2 w2"]:
    """The undistorted mask, nearest; False where there is no source."""
    known = ~np.isnan(table.source_xy[..., 0])
    nearest = np.where(known[..., None], np.rint(table.source_xy), 0).astype(int)
    x, y = np.clip(nearest[..., 0], 0, mask.shape[1] - 1), np.clip(nearest[..., 1], 0, mask.shape[0] - 1)
    return mask[y, x] & known


def _launch(kernel: Any, image: np.ndarray, table: RemapTable, out: np.ndarray, more: list[float]) -> None:
    """On the CPU, whose arrays Warp shares with NumPy."""
    inputs = [
        wp.array(np.ascontiguousarray(image), device="cpu", copy=False),
        wp.array(table.source_xy, dtype=wp.vec2, device="cpu", copy=False),
        table.camera.width,
        *more,
    ]
    shared = wp.array(out, device="cpu", copy=False)
    launch_chunked(kernel, out.shape[0] * out.shape[1], inputs, outputs=[shared], device="cpu")


@wp.kernel(enable_backward=False)
@no_type_check
def _remap_color(
    base: int,
    image: wp.array3d(dtype=wp.uint8),
    source_xy: wp.array2d(dtype=wp.vec2),
    width: int,
    out: wp.array3d(dtype=wp.uint8),
):
    item = base + wp.tid()
    row = item // width
    column = item % width
    xy = source_xy[row, column]
    if not wp.isnan(xy[0]):
        last_x = image.shape[1] - 1
        last_y = image.shape[0] - 1
        x = wp.clamp(xy[0], 0.0, float(last_x))
        y = wp.clamp(xy[1], 0.0, float(last_y))
        x0 = int(x)
        y0 = int(y)
        x1 = wp.min(x0 + 1, last_x)
        y1 = wp.min(y0 + 1, last_y)
        a = x - float(x0)
        b = y - float(y0)
        for c in range(3):
            top = (1.0 - a) * float(image[y0, x0, c]) + a * float(image[y0, x1, c])
            bottom = (1.0 - a) * float(image[y1, x0, c]) + a * float(image[y1, x1, c])
            out[row, column, c] = wp.uint8((1.0 - b) * top + b * bottom + 0.5)


@wp.kernel(enable_backward=False)
@no_type_check
def _remap_depth(
    base: int,
    depth: wp.array2d(dtype=wp.float32),
    source_xy: wp.array2d(dtype=wp.vec2),
    width: int,
    jump: float,
    out: wp.array2d(dtype=wp.float32),
):
    item = base + wp.tid()
    row = item // width
    column = item % width
    xy = source_xy[row, column]
    if not wp.isnan(xy[0]):
        last_x = depth.shape[1] - 1
        last_y = depth.shape[0] - 1
        x = wp.clamp(xy[0], 0.0, float(last_x))
        y = wp.clamp(xy[1], 0.0, float(last_y))
        x0 = int(x)
        y0 = int(y)
        x1 = wp.min(x0 + 1, last_x)
        y1 = wp.min(y0 + 1, last_y)
        a = x - float(x0)
        b = y - float(y0)
        d00 = depth[y0, x0]
        d10 = depth[y0, x1]
        d01 = depth[y1, x0]
        d11 = depth[y1, x1]
        low = wp.min(wp.min(d00, d10), wp.min(d01, d11))
        high = wp.max(wp.max(d00, d10), wp.max(d01, d11))
        if low > 0.0 and high - low <= jump * low:
            # of a plane, it is the inverse depth that is linear in the image
            inverse = (1.0 - b) * ((1.0 - a) / d00 + a / d10) + b * ((1.0 - a) / d01 + a / d11)
            out[row, column] = 1.0 / inverse
        else:
            out[row, column] = depth[wp.where(b < 0.5, y0, y1), wp.where(a < 0.5, x0, x1)]
