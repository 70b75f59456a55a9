"""Cameras: a pose and a lens each, in batches."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .extrinsics import CameraExtrinsics
from .intrinsics import CameraIntrinsics, Number
from .intrinsics_ortho import OrthographicIntrinsics
from .intrinsics_pinhole import PinholeIntrinsics
from .raygen import generate_rays

__all__ = ["Camera", "allclose"]

_POSES = (CameraExtrinsics.from_lookat, CameraExtrinsics.from_camera_pose, CameraExtrinsics.from_view_matrix)
_LENSES = (PinholeIntrinsics.from_focal, PinholeIntrinsics.from_fov, OrthographicIntrinsics.from_frustum)
_SHARED = ("device", "dtype")


class Camera:
    """C cameras of one image size: `extrinsics` (where they are) and `intrinsics` (how they see).

    What either of the two can do, the camera can: `camera.view_matrix()`, `camera.focal_x`, `camera.width = 400`.
    """

    extrinsics: CameraExtrinsics
    intrinsics: CameraIntrinsics

    def __init__(self, extrinsics: CameraExtrinsics, intrinsics: CameraIntrinsics) -> None:
        if len(extrinsics) != len(intrinsics):
            raise AssertionError(f"there are {len(extrinsics)} extrinsics and {len(intrinsics)} intrinsics")
        if torch.device(extrinsics.device) != torch.device(intrinsics.device):
            raise AssertionError(f"extrinsics are on {extrinsics.device} and intrinsics on {intrinsics.device}")
        object.__setattr__(self, "extrinsics", extrinsics)
        object.__setattr__(self, "intrinsics", intrinsics)

    @classmethod
    def from_args(cls, **kwargs: Any) -> Camera:
        """Cameras of the arguments of any constructor of a pose and any of a lens, together.

        Poses: `eye, at, up`; `cam_pos, cam_dir`; `view_matrix`. Lenses: `focal_x[, focal_y, x0, y0]`;
        `fov[, fov_direction, x0, y0]`; else orthographic with `fov_distance`. All: `width, height[, near, far]`,
        `dtype, device, requires_grad, backend`.

        Raises:
            ValueError: The arguments say no pose, or some belong to none of the constructors.
        """
        kwargs.setdefault("dtype", torch.get_default_dtype())
        kwargs.setdefault("device", "cpu")
        make_pose = _constructor(_POSES, kwargs)
        if make_pose is None:
            raise ValueError("a camera needs eye, at and up, or cam_pos and cam_dir, or view_matrix")
        make_lens = _constructor(_LENSES, kwargs) or OrthographicIntrinsics.from_frustum
        known = {*inspect.signature(make_pose).parameters, *inspect.signature(make_lens).parameters}
        unknown = sorted(set(kwargs) - known)
        if unknown:
            raise ValueError(f"no constructor takes {', '.join(unknown)} together with {', '.join(sorted(kwargs))}")
        extrinsics = make_pose(**_taken(make_pose, kwargs))
        intrinsics = make_lens(**{"num_cameras": len(extrinsics), **_taken(make_lens, kwargs)})
        if len(extrinsics) == 1 and len(intrinsics) > 1:  # one pose, many lenses
            extrinsics = CameraExtrinsics.cat([extrinsics] * len(intrinsics))
        intrinsics.requires_grad = bool(kwargs.get("requires_grad", False))
        return cls(extrinsics, intrinsics)

    @classmethod
    def from_dict(cls, in_dict: Mapping[str, Any]) -> Camera:
        """The cameras of `as_dict`."""
        return cls(CameraExtrinsics.from_dict(in_dict["extrinsics"]), CameraIntrinsics.from_dict(in_dict["intrinsics"]))

    def as_dict(self) -> dict[str, Any]:
        """`extrinsics` and `intrinsics` as dictionaries of numbers and lists; they can be written as JSON."""
        return {"extrinsics": self.extrinsics.as_dict(), "intrinsics": self.intrinsics.as_dict()}

    # --- what both parts do together

    def transform(self, vectors: Tensor) -> Tensor:
        """NDC of points in the world: (C, B, 3), or (B, 3) of one camera and points (B, 3)."""
        ndc = self.intrinsics.transform(self.extrinsics.transform(vectors))
        return ndc.squeeze(0) if vectors.ndim == 2 and len(self) == 1 else ndc

    def view_projection_matrix(self) -> Tensor:
        """Clip space from the world, (C, 4, 4)."""
        return self.intrinsics.projection_matrix() @ self.extrinsics.view_matrix()

    def generate_rays(self, coords_grid: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Origins and directions of the rays of one camera's pixels; see `raygen.generate_rays`."""
        return generate_rays(self, coords_grid)

    def parameters(self) -> tuple[Tensor, Tensor]:
        """What an optimiser moves: of the extrinsics and of the intrinsics."""
        return self.extrinsics.parameters(), self.intrinsics.parameters()

    def named_params(self) -> list[dict[str, Any]]:
        """Values by name of each camera."""
        pairs = zip(self.extrinsics.named_params(), self.intrinsics.named_params(), strict=True)
        return [{**pose, **lens} for pose, lens in pairs]

    def gradient_mask(self, *args: str) -> tuple[Tensor, Tensor]:
        """Masks of the extrinsics' and the intrinsics' parameters, True where they are named (`'t'`, `'focal_x'`)."""
        lens_names = set(self.intrinsics.param_types().__members__)
        of_lens = [arg for arg in args if (arg if isinstance(arg, str) else getattr(arg, "name", "")) in lens_names]
        of_pose = [arg for arg in args if arg not in of_lens]
        return self.extrinsics.gradient_mask(*of_pose), self.intrinsics.gradient_mask(*of_lens)

    def requires_grad_(self, val: bool) -> None:
        """Switch gradients of all parameters on or off."""
        self.extrinsics.requires_grad = val
        self.intrinsics.requires_grad = val

    # --- as tensors

    @property
    def width(self) -> int:
        """Pixels."""
        return self.intrinsics.width

    @width.setter
    def width(self, value: Number) -> None:
        self.intrinsics.width = value  # type: ignore[assignment]

    @property
    def height(self) -> int:
        """Pixels."""
        return self.intrinsics.height

    @height.setter
    def height(self, value: Number) -> None:
        self.intrinsics.height = value  # type: ignore[assignment]

    @property
    def lens_type(self) -> str:
        """`pinhole` or `ortho`."""
        return self.intrinsics.lens_type

    @property
    def device(self) -> torch.device:
        """Device of all parameters."""
        return self.extrinsics.device

    @property
    def dtype(self) -> torch.dtype:
        """Type of the poses' parameters."""
        return self.extrinsics.dtype

    def to(self, *args: Any, **kwargs: Any) -> Camera:
        """On another device or of another type, as `torch.Tensor.to` has it."""
        return Camera(self.extrinsics.to(*args, **kwargs), self.intrinsics.to(*args, **kwargs))

    def cpu(self) -> Camera:
        """On the CPU."""
        return self.to("cpu")

    def cuda(self) -> Camera:
        """On the current GPU."""
        return self.to("cuda")

    def half(self) -> Camera:
        """As float16."""
        return self.to(torch.float16)

    def float(self) -> Camera:
        """As float32."""
        return self.to(torch.float32)

    def double(self) -> Camera:
        """As float64."""
        return self.to(torch.float64)

    @classmethod
    def cat(cls, cameras: Sequence[Camera]) -> Camera:
        """All in one batch; they must have one lens class and one image size."""
        return cls(
            CameraExtrinsics.cat([camera.extrinsics for camera in cameras]),
            CameraIntrinsics.cat([camera.intrinsics for camera in cameras]),
        )

    def __len__(self) -> int:
        return len(self.extrinsics)

    def __getitem__(self, item: int | slice | Tensor | Sequence[int]) -> Camera:
        return Camera(self.extrinsics[item], self.intrinsics[item])

    def __iter__(self) -> Iterator[Camera]:
        return (self[i] for i in range(len(self)))

    # --- the parts' names are the camera's

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("extrinsics", "intrinsics"):
            raise AttributeError(name)
        for part in (self.extrinsics, self.intrinsics):
            if hasattr(part, name):
                return getattr(part, name)
        raise AttributeError(
            f"neither {type(self.extrinsics).__name__} nor {type(self.intrinsics).__name__} has {name!r}"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("extrinsics", "intrinsics") or isinstance(getattr(type(self), name, None), property):
            object.__setattr__(self, name, value)
            return
        for part in (self.extrinsics, self.intrinsics):
            if hasattr(part, name):
                setattr(part, name, value)
                return
        object.__setattr__(self, name, value)

    def __str__(self) -> str:
        return f"Camera of {self.extrinsics}\nand {self.intrinsics}"

    __repr__ = __str__

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return allclose(*args, **(kwargs or {})) if func is torch.allclose else NotImplemented


def allclose(input: Camera, other: Camera, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether poses and lenses are close, as `torch.allclose(camera, other)` has it."""
    tolerance: dict[str, Any] = {"rtol": rtol, "atol": atol, "equal_nan": equal_nan}
    parts = ((input.extrinsics, other.extrinsics), (input.intrinsics, other.intrinsics))
    return all(bool(torch.allclose(one, two, **tolerance)) for one, two in parts)  # type: ignore[arg-type]


def _constructor(candidates: Sequence[Callable[..., Any]], kwargs: Mapping[str, Any]) -> Callable[..., Any] | None:
    """The first whose required arguments of its own are all given."""
    for candidate in candidates:
        parameters = inspect.signature(candidate).parameters.values()
        own = [p.name for p in parameters if p.default is p.empty and p.name not in ("width", "height")]
        if own and all(name in kwargs for name in own):
            return candidate
    return None


def _taken(function: Callable[..., Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    names = inspect.signature(function).parameters
    return {name: value for name, value in kwargs.items() if name in names}
