"""The cameras: pinhole with distortion, orthographic, fisheye, equirectangular."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from . import lens
from .base import Camera, _LocalRays, safe

_SMALL = 1e-4
"""Squared radius below which series stand for quotients that are 0 / 0 on the axis; their error is below 1e-17."""


@dataclass(frozen=True, eq=False)
class Pinhole(Camera):
    """A perspective camera, with OpenCV's lens distortion or without any.

    Valid are points in front of the camera that lie inside the radius at which the distortion folds back.
    """

    distortion: Float[Tensor, "... 8"] | None = None
    """OpenCV's k1 k2 p1 p2 k3 k4 k5 k6; None: no distortion."""

    def _sizes(self) -> dict[str, int]:
        return {**super()._sizes(), "distortion": 8}

    @property
    def fold(self) -> Float64[Tensor, "..."]:
        """Tangent of the angle off the axis at which the distortion folds back; infinite where it never does."""
        if self.distortion is None:
            return torch.full(self.batch_shape, math.inf, dtype=torch.float64, device=self.device)
        return lens.radial_limit(lens.brown_conrady(self.distortion), math.inf)

    def _project(self, points: Tensor) -> tuple[Tensor, Tensor]:
        z = points[..., 2:]
        valid = z[..., 0] > 0
        plane = points[..., :2] / safe(valid[..., None], z, 1.0)
        if self.distortion is not None:
            c = lens.brown_conrady(self.distortion)
            valid = valid & (plane.detach().norm(dim=-1) < lens.radial_limit(c, math.inf)[..., None])
            plane = lens.distort(safe(valid[..., None], plane, 0.0), c[..., None, :])
        return self._on_image(plane), valid

    def _rays(self, pixels: Tensor) -> _LocalRays:
        plane = self._on_plane(pixels)
        valid = torch.isfinite(plane).all(-1)
        if self.distortion is not None:
            c = lens.brown_conrady(self.distortion).expand(*plane.shape[:-2], 9)
            plane, found = lens.undistort(plane, c, lens.radial_limit(c, math.inf))
            valid = valid & found
        plane = safe(valid[..., None], plane, 0.0)
        return _LocalRays(None, torch.nn.functional.normalize(_with_z(plane), dim=-1), valid)


@dataclass(frozen=True, eq=False)
class Orthographic(Camera):
    """A parallel projection: `pixel = focal · (x, y) + center`. Rays start in the plane z = 0 of the camera."""

    def _project(self, points: Tensor) -> tuple[Tensor, Tensor]:
        return self._on_image(points[..., :2]), points[..., 2] > 0

    def _rays(self, pixels: Tensor) -> _LocalRays:
        plane = self._on_plane(pixels)
        valid = torch.isfinite(plane).all(-1)
        origins = torch.nn.functional.pad(safe(valid[..., None], plane, 0.0), (0, 1))
        forward = torch.zeros_like(origins)
        forward[..., 2] = 1.0
        return _LocalRays(origins, forward, valid)


@dataclass(frozen=True, eq=False)
class Fisheye(Camera):
    """A fisheye lens: OpenCV's model of Kannala and Brandt, right at and beyond 90 degrees off the axis.

    A direction at the angle theta off the axis appears at the radius theta (1 + k1 theta² + k2 theta⁴ + k3 theta⁶ +
    k4 theta⁸). Valid is each direction up to the angle at which that radius stops growing, 180 degrees at most.
    `Projection.depth` is along the axis and negative beyond 90 degrees.
    """

    distortion: Float[Tensor, "... 4"] | None = None
    """k1 k2 k3 k4; None: zeros, the equidistant lens."""

    def _sizes(self) -> dict[str, int]:
        return {**super()._sizes(), "distortion": 4}

    @property
    def fold(self) -> Float64[Tensor, "..."]:
        """The largest angle off the axis that the lens shows, radians; at most pi."""
        if self.distortion is None:
            return torch.full(self.batch_shape, math.pi, dtype=torch.float64, device=self.device)
        return lens.radial_limit(lens.kannala_brandt(self.distortion), math.pi)

    def _project(self, points: Tensor) -> tuple[Tensor, Tensor]:
        angular = _angle_vector(points)
        valid = (points.detach() != 0).any(-1)
        valid = valid & (angular.detach().norm(dim=-1) < self.fold[..., None])
        angular = safe(valid[..., None], angular, 0.0)
        if self.distortion is not None:
            angular = lens.distort(angular, lens.kannala_brandt(self.distortion)[..., None, :])
        return self._on_image(angular), valid

    def _rays(self, pixels: Tensor) -> _LocalRays:
        angular = self._on_plane(pixels)
        valid = torch.isfinite(angular).all(-1)
        if self.distortion is None:
            valid = valid & (angular.detach().norm(dim=-1) <= math.pi)
        else:
            c = lens.kannala_brandt(self.distortion).expand(*angular.shape[:-2], 9)
            angular, found = lens.undistort(angular, c, lens.radial_limit(c, math.pi))
            valid = valid & found
        return _LocalRays(None, _direction(safe(valid[..., None], angular, 0.0)), valid)


@dataclass(frozen=True, eq=False)
class Equirectangular(Camera):
    """A panorama: columns are longitudes, rows latitudes.

    The centre looks along z; longitude grows to the right (towards x), latitude downwards (towards y), both in radians
    times `focal`. `whole_sphere` makes the usual one of 360 by 180 degrees. The left and right edge of such an image
    are one meridian; a point there has the pixel at either edge. Pixels beyond the poles or more than half a turn from
    the centre are not valid.
    """

    @staticmethod
    def whole_sphere(
        width: int, height: int, world_from_camera: Tensor | None = None, *, like: Tensor | None = None
    ) -> Equirectangular:
        """The camera of a whole panorama; its tensors are like `like` or the pose, or float32 on the CPU."""
        like = world_from_camera if like is None else like
        like = torch.zeros(()) if like is None else like
        focal = torch.tensor([width / (2 * math.pi), height / math.pi], dtype=like.dtype, device=like.device)
        center = torch.tensor([width / 2, height / 2], dtype=like.dtype, device=like.device)
        return Equirectangular(width, height, focal, center, world_from_camera)

    def _project(self, points: Tensor) -> tuple[Tensor, Tensor]:
        x, y, z = points.unbind(-1)
        across = x * x + z * z
        # on the poles the longitude is anything: 0, without a gradient
        off_pole = across > 0
        longitude = torch.atan2(safe(off_pole, x, 0.0), safe(off_pole, z, 1.0))
        level = torch.where(off_pole, safe(off_pole, across, 1.0).sqrt(), 0.0)
        valid = (points.detach() != 0).any(-1)
        latitude = torch.atan2(safe(valid, y, 0.0), safe(valid, level, 1.0))
        return self._on_image(torch.stack([longitude, latitude], -1)), valid

    def _rays(self, pixels: Tensor) -> _LocalRays:
        angles = self._on_plane(pixels)
        ends = torch.tensor([math.pi, math.pi / 2], dtype=self.dtype, device=self.device)
        valid = (angles.detach().abs() <= ends * (1 + 4 * torch.finfo(self.dtype).eps)).all(-1)
        longitude, latitude = safe(valid[..., None], angles, 0.0).unbind(-1)
        level = latitude.cos()
        directions = torch.stack([longitude.sin() * level, latitude.sin(), longitude.cos() * level], -1)
        return _LocalRays(None, directions, valid)


def _with_z(plane: Tensor) -> Tensor:
    return torch.nn.functional.pad(plane, (0, 1), value=1.0)


def _angle_vector(points: Tensor) -> Tensor:
    """(x, y) scaled so that its length is the angle off the z axis, in radians."""
    x, y, z = points.unbind(-1)
    across = x * x + y * y
    near_axis = (across < _SMALL * z * z) & (z > 0)
    z_safe = safe(near_axis, z, 1.0)
    q = safe(near_axis, across, 0.0) / (z_safe * z_safe)
    series = (1 - q * (1 / 3 - q * (1 / 5 - q * (1 / 7 - q / 9)))) / z_safe
    far = ~near_axis & (across > 0)
    radius = safe(far, across, 1.0).sqrt()
    quotient = torch.atan2(radius, safe(far, z, 1.0)) / radius
    # behind the camera and on the axis every direction of the image would do: it counts as the end of x
    behind = ~near_axis & ~far
    scaled = points[..., :2] * torch.where(near_axis, series, quotient)[..., None]
    end = torch.tensor([math.pi, 0.0], dtype=points.dtype, device=points.device)
    return torch.where(behind[..., None], end, scaled)


def _direction(angular: Tensor) -> Tensor:
    """The unit vector whose angle off the z axis is the length of `angular`; smooth on the axis."""
    s = (angular * angular).sum(-1)
    near_axis = s < _SMALL
    theta = safe(~near_axis, s, 1.0).sqrt()
    t = safe(near_axis, s, 0.0)
    sinc = torch.where(near_axis, 1 - t / 6 * (1 - t / 20 * (1 - t / 42)), theta.sin() / theta)
    z = torch.where(near_axis, 1 - t / 2 * (1 - t / 12 * (1 - t / 30)), theta.cos())
    return torch.cat([angular * sinc[..., None], z[..., None]], -1)
