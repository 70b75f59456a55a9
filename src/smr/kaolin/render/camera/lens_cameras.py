"""`PinholeCamera` and `FisheyeCamera`: cameras of a matrix K and a pose, as tutorials write them.

Kaolin has neither name. These are thin: the work is done by `smr.ops.cameras`. Camera axes are OpenCV's (x right,
y down, z forward), unlike those of `Camera`; K is in pixels and the first pixel's centre is (0.5, 0.5).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from ....ops.cameras import Camera, Fisheye, Pinhole, Rays

__all__ = ["FisheyeCamera", "PinholeCamera"]

Self = TypeVar("Self", bound="_MatrixCamera")


@dataclass(frozen=True, eq=False)
class _MatrixCamera(ABC):
    """C cameras of one image size, which may be given later (`image_size`)."""

    K: Tensor
    """(3, 3) or (C, 3, 3), pixels."""
    world_2_cam: Tensor
    """Camera from world, (4, 4) or (C, 4, 4); OpenCV axes."""
    distortion: Tensor | None = None
    """Coefficients in OpenCV's order, (n,) or (C, n); None: none."""
    width: int | None = None
    height: int | None = None

    def __post_init__(self) -> None:
        for name, size in (("K", 3), ("world_2_cam", 4)):
            tensor = getattr(self, name)
            if not isinstance(tensor, Tensor):
                raise TypeError(f"{name} must be a torch tensor, not {type(tensor).__name__}")
            if tensor.ndim not in (2, 3) or tensor.shape[-2:] != (size, size):
                raise ValueError(f"{name} must have the shape (C, {size}, {size}), not {tuple(tensor.shape)}")
            if tensor.ndim == 2:
                object.__setattr__(self, name, tensor.unsqueeze(0))
        if len({len(self.K), len(self.world_2_cam)} - {1}) > 1:
            raise ValueError(f"there are {len(self.K)} K and {len(self.world_2_cam)} world_2_cam")
        if bool((self.K[:, 0, 1] != 0).any()):
            raise ValueError("K has skew (K[0, 1] is not 0), which no camera model here has")

    @abstractmethod
    def lens(self, image_size: int | tuple[int, int] | None = None) -> Camera:
        """The cameras of `smr.ops.cameras`, batch (C,)."""

    def project(self, points: Tensor) -> Tensor:
        """Pixels (C, N, 2) of points in the world, (N, 3) or (C, N, 3); NaN where a camera cannot see them."""
        points = points.unsqueeze(0) if points.ndim == 2 else points
        return self.lens(None if self.width else 1).project(points).pixels

    def generate_rays(self, image_size: int | tuple[int, int] | None = None) -> Rays:
        """Rays of all pixels, (C, height, width, 3) each.

        Args:
            image_size: Side of a square image, or (height, width); None: the camera's own.
        """
        return self.lens(image_size).rays()

    @property
    def device(self) -> torch.device:
        """Device of the tensors."""
        return self.K.device

    @property
    def dtype(self) -> torch.dtype:
        """Type of the tensors."""
        return self.K.dtype

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """On another device or of another type, as `torch.Tensor.to` has it."""
        distortion = None if self.distortion is None else self.distortion.to(*args, **kwargs)
        return replace(
            self, K=self.K.to(*args, **kwargs), world_2_cam=self.world_2_cam.to(*args, **kwargs), distortion=distortion
        )

    def __len__(self) -> int:
        return max(len(self.K), len(self.world_2_cam))

    def _parts(self, image_size: int | tuple[int, int] | None) -> tuple[int, int, Tensor, Tensor, Tensor]:
        """Width, height, focal, center, world_from_camera."""
        if image_size is None:
            if self.width is None or self.height is None:
                raise ValueError("the camera has no image size; give width and height, or image_size in the call")
            height, width = self.height, self.width
        else:
            height, width = (image_size, image_size) if isinstance(image_size, int) else image_size
        count = len(self)
        K, view = self.K.expand(count, 3, 3), self.world_2_cam.expand(count, 4, 4)
        turned = view[:, :3, :3].mT
        top = torch.cat([turned, -turned @ view[:, :3, 3:]], -1)
        pose = torch.cat([top, view[:, 3:]], -2)
        return width, height, torch.stack([K[:, 0, 0], K[:, 1, 1]], -1), K[:, :2, 2], pose

    def _coefficients(self, size: int, accepted: tuple[int, ...]) -> Tensor | None:
        if self.distortion is None:
            return None
        given = self.distortion.shape[-1]
        if given not in accepted:
            raise ValueError(f"distortion has {given} coefficients; it must have {' or '.join(map(str, accepted))}")
        return torch.nn.functional.pad(self.distortion, (0, size - given))


@dataclass(frozen=True, eq=False)
class PinholeCamera(_MatrixCamera):
    """Pinhole cameras of K and pose, with OpenCV's distortion (k1 k2 p1 p2[ k3[ k4 k5 k6]]) or without any."""

    def lens(self, image_size: int | tuple[int, int] | None = None) -> Pinhole:
        """The cameras of `smr.ops.cameras`, batch (C,)."""
        return Pinhole(*self._parts(image_size), self._coefficients(8, (4, 5, 8)))


@dataclass(frozen=True, eq=False)
class FisheyeCamera(_MatrixCamera):
    """Fisheye cameras of K, pose and the coefficients k1 k2 k3 k4 of Kannala and Brandt (`cv2.fisheye`)."""

    def lens(self, image_size: int | tuple[int, int] | None = None) -> Fisheye:
        """The cameras of `smr.ops.cameras`, batch (C,)."""
        return Fisheye(*self._parts(image_size), self._coefficients(4, (4,)))
