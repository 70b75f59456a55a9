"""What all cameras have in common: pose, pixels, shapes of batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..tensors import FLOATS, check_same_device, check_tensor, check_whole, checks_values

ROTATION_TOLERANCE = 1e-3
"""How far the rows of a rotation may be from orthonormal."""

Self = TypeVar("Self", bound="Camera")


class Projection(NamedTuple):
    """Where points appear in the image."""

    pixels: Float[Tensor, "... 2"]
    """x, y; the first pixel's centre is (0.5, 0.5). NaN where not valid; no gradient flows from there."""
    depth: Float[Tensor, "..."]
    """Along the camera's z axis, metres; given for points that are not valid too."""
    valid: Bool[Tensor, "..."]
    """The lens forms an image of the point. It may lie outside the image's border: see `Camera.in_image`."""


class Points(NamedTuple):
    """Points in the world that pixels see."""

    points: Float[Tensor, "... 3"]
    """NaN where not valid."""
    valid: Bool[Tensor, "..."]
    """The pixel sees something (it lies inside the image circle), at a distance that was given and is positive."""


class Rays(NamedTuple):
    """What pixels look along."""

    origins: Float[Tensor, "... 3"]
    """In the world frame."""
    directions: Float[Tensor, "... 3"]
    """Unit vectors in the world frame; NaN where not valid."""
    valid: Bool[Tensor, "..."]
    """The pixel lies inside the image circle."""


class _LocalRays(NamedTuple):
    """Rays in the camera frame: shapes `(*batch, n, 3)` and `(*batch, n)`."""

    origins: Tensor | None
    directions: Tensor
    valid: Tensor


@dataclass(frozen=True, eq=False)
class Camera(ABC):
    """A camera, or a batch of cameras of one image size, on torch tensors.

    Camera axes are x right, y down, z forward; the first pixel's centre is (0.5, 0.5). All tensors have one type
    (float32 or float64) and one device, and their leading axes, the batch, broadcast.

    Methods take points and pixels whose LEADING axes are the camera's batch axes (or 1), with any further axes after
    them: cameras of batch (B,) take `(B, 3)`, `(B, n, 3)`, `(B, h, w, 3)`; points that all cameras share are
    `points[None]`. A single camera, of batch (), takes any `(..., 3)`.

    Everything is differentiable in points, pixels, depths and in each of the camera's tensors.
    """

    width: int
    height: int
    focal: Float[Tensor, "... 2"]
    """x, y. Perspective: pixels at a tangent of 1. Fisheye, equirectangular: pixels per radian. Orthographic: pixels
    per metre."""
    center: Float[Tensor, "... 2"]
    """The pixel (x, y) on the optical axis."""
    world_from_camera: Float[Tensor, "... 4 4"] | None = None
    """A rotation and a translation, metres; None: the world is the camera frame."""

    def __post_init__(self) -> None:
        width, height = check_whole("width", self.width, least=-1), check_whole("height", self.height, least=-1)
        if width < 1 or height < 1:
            raise ValueError(f"width and height: a camera needs at least one pixel, not {width} x {height}")
        sizes = {"focal": self.focal, "center": self.center, **self._tensors()}
        for name, tensor in sizes.items():
            core = (4, 4) if name == "world_from_camera" else (self._sizes()[name],)
            check_tensor(name, tensor, core, FLOATS, batched=True)
            if tensor.dtype != self.focal.dtype:
                raise TypeError(f"{name} is {tensor.dtype} and focal {self.focal.dtype}; they must be of one type")
        check_same_device(**sizes)
        try:
            _ = self.batch_shape
        except RuntimeError:
            shapes = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in sizes.items())
            raise ValueError(f"the batches of a camera's tensors do not broadcast: {shapes}") from None
        if checks_values():
            self._check_values()

    def _sizes(self) -> dict[str, int]:
        """Sizes of the last axes of the tensors but the pose."""
        return {"focal": 2, "center": 2}

    def _tensors(self) -> dict[str, Tensor]:
        tensors = {field.name: getattr(self, field.name) for field in fields(self)[2:]}
        return {name: tensor for name, tensor in tensors.items() if tensor is not None}

    def _check_values(self) -> None:
        """One look at all values; the reason is searched only where something is wrong."""
        with torch.no_grad():
            fine = [torch.isfinite(tensor).all() for tensor in self._tensors().values()]
            fine.append((self.focal > 0).all())
            pose = self.world_from_camera
            if pose is not None:
                fine.append(_rotation_error(pose) <= ROTATION_TOLERANCE)
                fine.append((torch.linalg.det(pose[..., :3, :3]) > 0).all())
            if bool(torch.stack(fine).all()):
                return
            for name, tensor in self._tensors().items():
                bad = (~torch.isfinite(tensor)).nonzero()
                if len(bad):
                    raise ValueError(f"{name}{bad[0].tolist()} is {float(tensor[tuple(bad[0])])}; it must be finite")
            if not bool((self.focal > 0).all()):
                place = (~(self.focal > 0)).nonzero()[0].tolist()
                raise ValueError(f"focal{place} is {float(self.focal[tuple(place)]):g}; it must be positive")
            raise ValueError(
                "world_from_camera must hold a rotation and a translation; its 3 x 3 part is not orthonormal or mirrors"
            )

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the batch of cameras; () for one."""
        return torch.broadcast_shapes(
            *(t.shape[: -2 if name == "world_from_camera" else -1] for name, t in self._tensors().items())
        )

    @property
    def dtype(self) -> torch.dtype:
        """Type of all tensors."""
        return self.focal.dtype

    @property
    def device(self) -> torch.device:
        """Device of all tensors."""
        return self.focal.device

    @property
    def camera_from_world(self) -> Float[Tensor, "... 4 4"]:
        """The inverse of the pose."""
        pose = self._pose()
        turned = pose[..., :3, :3].mT
        top = torch.cat([turned, -turned @ pose[..., :3, 3:]], -1)
        return torch.cat([top, pose[..., 3:, :]], -2)

    def to(self: Self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Self:
        """The camera on another device or of another type."""
        moved: dict[str, Any] = {name: t.to(device=device, dtype=dtype) for name, t in self._tensors().items()}
        return replace(self, **moved)

    def __getitem__(self: Self, index: int | slice | Tensor) -> Self:
        """A camera, or some, of a batch with one axis or more."""
        batch = self.batch_shape
        if not batch:
            raise IndexError("this is a single camera, not a batch")
        core = {name: 2 if name == "world_from_camera" else 1 for name in self._tensors()}
        whole = {n: t.expand(*batch, *t.shape[t.dim() - core[n] :]) for n, t in self._tensors().items()}
        chosen: dict[str, Any] = {name: tensor[index] for name, tensor in whole.items()}
        return replace(self, **chosen)

    def project(self, points: Float[Tensor, "... 3"]) -> Projection:
        """Pixels of points in the world; see `Projection` for what is valid."""
        flat, shape = self._flat("points", points, 3)
        finite = torch.isfinite(flat).all(-1)
        local = self._to_camera(safe(finite[..., None], flat, 0.0))
        pixels, valid = self._project(local)
        valid = valid & finite
        pixels = torch.where(valid[..., None], pixels, torch.nan)
        depth = torch.where(finite, local[..., 2], torch.nan)
        return Projection(pixels.reshape(*shape, 2), depth.reshape(shape), valid.reshape(shape))

    def unproject(
        self,
        pixels: Float[Tensor, "... 2"],
        *,
        depth: Float[Tensor, "..."] | None = None,
        distance: Float[Tensor, "..."] | None = None,
    ) -> Points:
        """Points in the world at pixels, at a depth along the z axis or at a distance along the ray.

        A depth says nothing about a ray at 90 degrees to the axis, and is negative beyond: use the distance for
        fisheye and equirectangular cameras.

        Args:
            pixels: `(*batch, ..., 2)`.
            depth: Metres along the camera's z axis, of the pixels' shape or one that broadcasts to it.
            distance: Metres along the ray. One of the two.
        """
        if (depth is None) == (distance is None):
            raise ValueError("unproject takes either depth or distance")
        flat, shape = self._flat("pixels", pixels, 2)
        along = depth if depth is not None else distance
        assert along is not None
        name = "depth" if depth is not None else "distance"
        self._check_like(name, along)
        ends = zip(reversed(along.shape), reversed(shape), strict=False)
        if along.dim() > len(shape) or any(given not in (1, wanted) for given, wanted in ends):
            raise ValueError(f"{name} must broadcast to the pixels' shape {tuple(shape)}, not {tuple(along.shape)}")
        along = along.expand(shape).reshape(flat.shape[:-1])
        rays = self._rays(flat)
        if depth is not None:
            z = rays.directions[..., 2]
            valid = rays.valid & (along * z > 0)
            along = along / torch.where(valid, z, 1.0)
        else:
            valid = rays.valid & (along > 0)
        local = rays.directions * along[..., None]
        local = self._to_world(local if rays.origins is None else local + rays.origins)
        points = torch.where(valid[..., None], local, torch.nan)
        return Points(points.reshape(*shape, 3), valid.reshape(shape))

    def rays(self, pixels: Float[Tensor, "... 2"] | None = None) -> Rays:
        """Origins and unit directions in the world.

        Args:
            pixels: `(*batch, ..., 2)`; None: the centres of all pixels, `(*batch, height, width, 2)`.
        """
        if pixels is None:
            pixels = self.pixel_centers().expand(*self.batch_shape, self.height, self.width, 2)
        flat, shape = self._flat("pixels", pixels, 2)
        local = self._rays(flat)
        valid = local.valid
        directions = torch.where(valid[..., None], self._turn(local.directions), torch.nan)
        origins = torch.zeros_like(local.directions) if local.origins is None else local.origins
        origins = self._to_world(origins)
        return Rays(origins.reshape(*shape, 3), directions.reshape(*shape, 3), valid.reshape(shape))

    def pixel_centers(self) -> Float[Tensor, "h w 2"]:
        """Centres of all pixels, from (0.5, 0.5) on."""
        x = torch.arange(self.width, dtype=self.dtype, device=self.device) + 0.5
        y = torch.arange(self.height, dtype=self.dtype, device=self.device) + 0.5
        return torch.stack(torch.meshgrid(x, y, indexing="xy"), -1)

    def in_image(self, pixels: Float[Tensor, "... 2"]) -> Bool[Tensor, "..."]:
        """Whether pixels lie within the image's border; False for NaN."""
        x, y = pixels.unbind(-1)
        return (x >= 0) & (y >= 0) & (x < self.width) & (y < self.height)

    @abstractmethod
    def _project(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Pixels and validity of points in the camera frame, `(*batch, n, 3)`."""

    @abstractmethod
    def _rays(self, pixels: Tensor) -> _LocalRays:
        """Rays in the camera frame of pixels, `(*batch, n, 2)`; finite where not valid."""

    def _on_plane(self, pixels: Tensor) -> Tensor:
        """(pixel - center) / focal."""
        return (pixels - self.center[..., None, :]) / self.focal[..., None, :]

    def _on_image(self, plane: Tensor) -> Tensor:
        return plane * self.focal[..., None, :] + self.center[..., None, :]

    def _pose(self) -> Tensor:
        if self.world_from_camera is None:
            return torch.eye(4, dtype=self.dtype, device=self.device)
        return self.world_from_camera

    def _to_camera(self, points: Tensor) -> Tensor:
        if self.world_from_camera is None:
            return points
        return (points - self.world_from_camera[..., None, :3, 3]) @ self.world_from_camera[..., :3, :3]

    def _turn(self, directions: Tensor) -> Tensor:
        if self.world_from_camera is None:
            return directions
        return directions @ self.world_from_camera[..., :3, :3].mT

    def _to_world(self, points: Tensor) -> Tensor:
        if self.world_from_camera is None:
            return points
        return self._turn(points) + self.world_from_camera[..., None, :3, 3]

    def _check_like(self, name: str, tensor: Tensor) -> None:
        check_tensor(name, tensor, (), FLOATS, batched=True)
        if tensor.dtype != self.dtype:
            raise TypeError(f"{name} is {tensor.dtype} and the camera {self.dtype}")
        if tensor.device != self.device:
            raise ValueError(f"{name} is on {tensor.device} and the camera on {self.device}")

    def _flat(self, name: str, tensor: Tensor, size: int) -> tuple[Tensor, torch.Size]:
        """The tensor as `(*batch, n, size)`, and the shape of results without their last axis."""
        self._check_like(name, tensor)
        batch = self.batch_shape
        if tensor.dim() <= len(batch) or tensor.shape[-1] != size:
            wanted = "".join(f"{n}, " for n in batch)
            raise ValueError(f"{name} must have the shape ({wanted}..., {size}), not {tuple(tensor.shape)}")
        lead, rest = tensor.shape[: len(batch)], tensor.shape[len(batch) : -1]
        if any(got not in (1, want) for got, want in zip(lead, batch, strict=True)):
            raise ValueError(
                f"{name} has the shape {tuple(tensor.shape)}; its first axes must be the cameras' {tuple(batch)}, or 1"
            )
        whole = tensor.expand(*batch, *rest, size)
        return whole.reshape(*batch, rest.numel(), size), torch.Size([*batch, *rest])


def check_camera(camera: Camera, name: str = "camera") -> None:
    """Raise TypeError where an argument is no camera of this package."""
    if not isinstance(camera, Camera):
        raise TypeError(f"{name} must be one of smr.ops.cameras, not {type(camera).__name__}")


def _rotation_error(pose: Tensor) -> Tensor:
    rotation = pose[..., :3, :3]
    eye = torch.eye(3, dtype=pose.dtype, device=pose.device)
    last = torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=pose.dtype, device=pose.device)
    return torch.maximum((rotation.mT @ rotation - eye).abs().max(), (pose[..., 3, :] - last).abs().max())


def safe(condition: Tensor, value: Tensor, otherwise: float) -> Tensor:
    """`value` where the condition holds, else a constant: keeps what follows, and its gradient, finite."""
    return torch.where(condition, value, otherwise)
