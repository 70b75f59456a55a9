"""Orthographic lenses."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor

from .intrinsics import CameraIntrinsics, Number, apply_matrix, arguments, columns, down_from_homogeneous

__all__ = ["OrthoParamsDefEnum", "OrthographicIntrinsics"]


class OrthoParamsDefEnum(IntEnum):
    """Columns of the parameters."""

    fov_distance = 0
    """Half of what is seen from bottom to top, in the world's unit."""


class OrthographicIntrinsics(CameraIntrinsics):
    """Parallel projections of C cameras. Camera axes x right, y up, z backward."""

    DEFAULT_NEAR = 1e-2
    DEFAULT_FAR = 1e2

    def __init__(
        self, width: int, height: int, params: Tensor, near: Number = DEFAULT_NEAR, far: Number = DEFAULT_FAR
    ) -> None:
        super().__init__(width, height, params, near, far)

    @classmethod
    def registered_name(cls) -> str:
        """`orthographic`."""
        return "orthographic"

    @classmethod
    def param_types(cls) -> type[IntEnum]:
        """fov_distance."""
        return OrthoParamsDefEnum

    @property
    def lens_type(self) -> str:
        """`ortho`."""
        return "ortho"

    @classmethod
    def from_frustum(
        cls,
        width: int,
        height: int,
        fov_distance: Number | Tensor = 1.0,
        near: Number = DEFAULT_NEAR,
        far: Number = DEFAULT_FAR,
        num_cameras: int = 1,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> OrthographicIntrinsics:
        """Lenses that see `2 fov_distance` of the scene from bottom to top; a number or (C,)."""
        return cls(width, height, columns([fov_distance], num_cameras, device, dtype), near, far)

    @classmethod
    def from_dict(cls, in_dict: Mapping[str, Any]) -> OrthographicIntrinsics:
        """The lenses of `as_dict`."""
        return cls.from_frustum(**arguments(in_dict))

    def orthographic_matrix(
        self,
        left: Number | Tensor,
        right: Number | Tensor,
        bottom: Number | Tensor,
        top: Number | Tensor,
        near: Number,
        far: Number,
    ) -> Tensor:
        """NDC from camera, (C, 4, 4), of a box."""
        left, right, bottom, top = (
            torch.as_tensor(value).to(self.params).reshape(-1).expand(len(self)) for value in (left, right, bottom, top)
        )
        zero, one = torch.zeros_like(left), torch.ones_like(left)
        depth = (self.ndc_max - self.ndc_min) / (far - near)
        entries = [
            2 / (right - left), zero, zero, -(right + left) / (right - left),
            zero, 2 / (top - bottom), zero, -(top + bottom) / (top - bottom),
            zero, zero, -depth * one, (self.ndc_min - depth * near) * one,
            zero, zero, zero, one,
        ]  # fmt: skip
        return torch.stack(entries, -1).reshape(-1, 4, 4)

    def projection_matrix(self) -> Tensor:
        """Clip space from camera, (C, 4, 4)."""
        top = self.fov_distance.reshape(-1)
        right = top * self.aspect_ratio()
        return self.orthographic_matrix(-right, right, -top, top, self.near, self.far)

    def transform(self, vectors: Tensor) -> Tensor:
        """NDC (C, B, 3), or (B, 3) of one camera, of points in the camera frame, with 3 or 4 coordinates."""
        return down_from_homogeneous(apply_matrix(self.projection_matrix(), vectors))

    def normalize_depth(self, depth: Tensor) -> Tensor:
        """NDC's z of distances along the axis."""
        return self.ndc_min + (depth - self.near) * ((self.ndc_max - self.ndc_min) / (self.far - self.near))

    @property
    def fov_distance(self) -> Tensor:
        """Half of what is seen from bottom to top, (C, 1)."""
        return self.params[:, OrthoParamsDefEnum.fov_distance.value :][:, :1]

    @fov_distance.setter
    def fov_distance(self, value: Number | Tensor) -> None:
        column = torch.as_tensor(value).to(self.params).reshape(-1, 1).expand(len(self), 1)
        if self.params.requires_grad and self.params.is_leaf:
            with torch.no_grad():
                self.params.copy_(column)
        else:
            self.params = column.clone()

    def zoom(self, amount: Number) -> None:
        """Take `amount` off `fov_distance`."""
        self.fov_distance = (self.fov_distance - amount).clamp_min(1e-6)
