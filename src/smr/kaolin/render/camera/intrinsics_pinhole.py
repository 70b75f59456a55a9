"""Pinhole lenses: focal lengths and principal point in pixels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor

from .intrinsics import (
    CameraFOV,
    CameraIntrinsics,
    Number,
    apply_matrix,
    arguments,
    columns,
    depth_terms,
    down_from_homogeneous,
)

__all__ = ["PinholeIntrinsics", "PinholeParamsDefEnum"]


class PinholeParamsDefEnum(IntEnum):
    """Columns of the parameters."""

    x0 = 0
    """The principal point from the image's middle, pixels, to the right."""
    y0 = 1
    """The principal point from the image's middle, pixels, upwards."""
    focal_x = 2
    """Pixels."""
    focal_y = 3
    """Pixels."""


class PinholeIntrinsics(CameraIntrinsics):
    """Pinhole lenses of C cameras. Camera axes x right, y up, z backward."""

    DEFAULT_NEAR = 1e-2
    DEFAULT_FAR = 1e2

    def __init__(
        self, width: int, height: int, params: Tensor, near: Number = DEFAULT_NEAR, far: Number = DEFAULT_FAR
    ) -> None:
        super().__init__(width, height, params, near, far)

    @classmethod
    def registered_name(cls) -> str:
        """`pinhole`."""
        return "pinhole"

    @classmethod
    def param_types(cls) -> type[IntEnum]:
        """x0, y0, focal_x, focal_y."""
        return PinholeParamsDefEnum

    @property
    def lens_type(self) -> str:
        """`pinhole`."""
        return "pinhole"

    @classmethod
    def from_focal(
        cls,
        width: int,
        height: int,
        focal_x: Number | Tensor,
        focal_y: Number | Tensor | None = None,
        x0: Number | Tensor | None = None,
        y0: Number | Tensor | None = None,
        near: Number = DEFAULT_NEAR,
        far: Number = DEFAULT_FAR,
        num_cameras: int = 1,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> PinholeIntrinsics:
        """Lenses of focal lengths in pixels; each value is a number or (C,)."""
        focal_y = focal_x if focal_y is None else focal_y
        values = [0.0 if x0 is None else x0, 0.0 if y0 is None else y0, focal_x, focal_y]
        return cls(width, height, columns(values, num_cameras, device, dtype), near, far)

    @classmethod
    def from_fov(
        cls,
        width: int,
        height: int,
        fov: Number | Tensor,
        fov_direction: CameraFOV = CameraFOV.VERTICAL,
        x0: Number | Tensor = 0.0,
        y0: Number | Tensor = 0.0,
        near: Number = DEFAULT_NEAR,
        far: Number = DEFAULT_FAR,
        num_cameras: int = 1,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> PinholeIntrinsics:
        """Lenses of a field of view in radians along a side of the image; pixels are square."""
        if isinstance(fov, Tensor):
            dtype = fov.dtype if dtype is None and fov.is_floating_point() else dtype
            device = fov.device if device is None else device
            half = fov.double() / 2
        else:
            half = torch.tensor(fov, dtype=torch.float64) / 2
        side = {
            CameraFOV.HORIZONTAL: float(width),
            CameraFOV.VERTICAL: float(height),
            CameraFOV.DIAGONAL: math.hypot(width, height),
        }[CameraFOV(fov_direction)]
        focal = side / 2 / half.tan()
        device = torch.device("cpu") if device is None else device
        return cls.from_focal(width, height, focal, focal, x0, y0, near, far, num_cameras, device, dtype)

    @classmethod
    def from_dict(cls, in_dict: Mapping[str, Any]) -> PinholeIntrinsics:
        """The lenses of `as_dict`."""
        return cls.from_focal(**arguments(in_dict))

    # --- matrices

    def perspective_matrix(self) -> Tensor:
        """Pixels from the image's middle (homogeneous) from camera, (C, 4, 4), without near and far."""
        x0, y0, focal_x, focal_y = self.params.unbind(-1)
        zero, one = torch.zeros_like(x0), torch.ones_like(x0)
        entries = [
            focal_x, zero, -x0, zero,
            zero, focal_y, -y0, zero,
            zero, zero, zero, one,
            zero, zero, one, zero,
        ]  # fmt: skip
        return torch.stack(entries, -1).reshape(-1, 4, 4)

    def ndc_matrix(self, left: Number, right: Number, bottom: Number, top: Number, near: Number, far: Number) -> Tensor:
        """NDC from what `perspective_matrix` gives, (C, 4, 4), of a frustum through a rectangle of pixels."""
        V, U = depth_terms(near, far, self.ndc_min, self.ndc_max)
        matrix = self.params.new_tensor(
            [
                [2 / (right - left), 0.0, 0.0, (right + left) / (right - left)],
                [0.0, 2 / (top - bottom), 0.0, (top + bottom) / (top - bottom)],
                [0.0, 0.0, U, V],
                [0.0, 0.0, 0.0, -1.0],
            ]
        )
        return matrix.unsqueeze(0).expand(len(self), 4, 4)

    def projection_matrix(self) -> Tensor:
        """Clip space from camera, (C, 4, 4)."""
        right, top = self.width / 2, self.height / 2
        return self.ndc_matrix(-right, right, -top, top, self.near, self.far) @ self.perspective_matrix()

    def project(self, vectors: Tensor) -> Tensor:
        """Homogeneous clip coordinates (C, B, 4), or (B, 4) of one camera, of points in the camera frame."""
        return apply_matrix(self.projection_matrix(), vectors)

    def transform(self, vectors: Tensor) -> Tensor:
        """NDC (C, B, 3), or (B, 3) of one camera, of points in the camera frame, with 3 or 4 coordinates."""
        return down_from_homogeneous(self.project(vectors))

    def normalize_depth(self, depth: Tensor) -> Tensor:
        """NDC's z of positive distances along the axis."""
        V, U = depth_terms(self.near, self.far, self.ndc_min, self.ndc_max)
        return U / depth - V

    # --- parameters

    def _get(self, kind: PinholeParamsDefEnum) -> Tensor:
        return self.params[:, kind.value]

    def _set(self, kind: PinholeParamsDefEnum, value: Number | Tensor) -> None:
        column = torch.as_tensor(value).to(self.params).reshape(-1).expand(len(self))
        if self.params.requires_grad and self.params.is_leaf:
            with torch.no_grad():
                self.params[:, kind.value] = column
            return
        rest = list(self.params.unbind(-1))
        rest[kind.value] = column
        self.params = torch.stack(rest, -1)

    @property
    def x0(self) -> Tensor:
        """The principal point from the image's middle, pixels, to the right, (C,)."""
        return self._get(PinholeParamsDefEnum.x0)

    @x0.setter
    def x0(self, value: Number | Tensor) -> None:
        self._set(PinholeParamsDefEnum.x0, value)

    @property
    def y0(self) -> Tensor:
        """The principal point from the image's middle, pixels, upwards, (C,)."""
        return self._get(PinholeParamsDefEnum.y0)

    @y0.setter
    def y0(self, value: Number | Tensor) -> None:
        self._set(PinholeParamsDefEnum.y0, value)

    @property
    def cx(self) -> Tensor:
        """The principal point from the image's left edge, pixels, (C,)."""
        return self.width / 2.0 + self.x0

    @property
    def cy(self) -> Tensor:
        """The principal point from the image's LOWER edge, pixels, (C,)."""
        return self.height / 2.0 + self.y0

    @property
    def focal_x(self) -> Tensor:
        """Pixels, (C,)."""
        return self._get(PinholeParamsDefEnum.focal_x)

    @focal_x.setter
    def focal_x(self, value: Number | Tensor) -> None:
        self._set(PinholeParamsDefEnum.focal_x, value)

    @property
    def focal_y(self) -> Tensor:
        """Pixels, (C,)."""
        return self._get(PinholeParamsDefEnum.focal_y)

    @focal_y.setter
    def focal_y(self, value: Number | Tensor) -> None:
        self._set(PinholeParamsDefEnum.focal_y, value)

    @property
    def width(self) -> int:
        """Pixels; setting it scales focal_x and x0, so that the same part of the scene is seen."""
        return super().width

    @width.setter
    def width(self, value: Number) -> None:
        ratio = value / self.width
        self.focal_x, self.x0 = self.focal_x * ratio, self.x0 * ratio
        CameraIntrinsics.width.fset(self, value)  # type: ignore[attr-defined]

    @property
    def height(self) -> int:
        """Pixels; setting it scales focal_y and y0, so that the same part of the scene is seen."""
        return super().height

    @height.setter
    def height(self, value: Number) -> None:
        ratio = value / self.height
        self.focal_y, self.y0 = self.focal_y * ratio, self.y0 * ratio
        CameraIntrinsics.height.fset(self, value)  # type: ignore[attr-defined]

    # --- fields of view

    def tan_half_fov(self, camera_fov_direction: CameraFOV = CameraFOV.VERTICAL) -> Tensor:
        """Tangent of half the field of view along a side of the image, (C,)."""
        x, y = self.width / 2 / self.focal_x, self.height / 2 / self.focal_y
        direction = CameraFOV(camera_fov_direction)
        if direction is CameraFOV.DIAGONAL:
            return torch.hypot(x, y)
        return x if direction is CameraFOV.HORIZONTAL else y

    def fov(self, camera_fov_direction: CameraFOV = CameraFOV.VERTICAL, in_degrees: bool = True) -> Tensor:
        """Field of view along a side of the image, degrees or radians, (C,)."""
        radians = 2 * self.tan_half_fov(camera_fov_direction).atan()
        return torch.rad2deg(radians) if in_degrees else radians

    @property
    def fov_x(self) -> Tensor:
        """Horizontal field of view, degrees, (C,)."""
        return self.fov(CameraFOV.HORIZONTAL)

    @fov_x.setter
    def fov_x(self, value: Number | Tensor) -> None:
        half = torch.deg2rad(torch.as_tensor(value).to(self.params)) / 2
        self.focal_x = self.width / 2 / half.tan()

    @property
    def fov_y(self) -> Tensor:
        """Vertical field of view, degrees, (C,)."""
        return self.fov(CameraFOV.VERTICAL)

    @fov_y.setter
    def fov_y(self, value: Number | Tensor) -> None:
        half = torch.deg2rad(torch.as_tensor(value).to(self.params)) / 2
        self.focal_y = self.height / 2 / half.tan()

    def zoom(self, amount: Number) -> None:
        """Take `amount` degrees off the vertical field of view; the shape of pixels stays."""
        ratio = self.focal_x / self.focal_y
        # a field of view stays between 0 and 180 degrees, however far one turns the wheel
        self.fov_y = (self.fov_y - amount).clamp(1e-3, 180 - 1e-3)
        self.focal_x = self.focal_y * ratio
