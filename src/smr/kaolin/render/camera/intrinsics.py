"""What all lenses have in common: sizes, planes, parameters, NDC."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

Self = TypeVar("Self", bound="CameraIntrinsics")
Number = float | int


def up_to_homogeneous(vectors: Tensor) -> Tensor:
    """(..., 3) to (..., 4) with a 1 at the end."""
    return torch.nn.functional.pad(vectors, (0, 1), value=1.0)


def down_from_homogeneous(homogeneous_vectors: Tensor) -> Tensor:
    """(..., 4) to (..., 3): divided by the last."""
    return homogeneous_vectors[..., :-1] / homogeneous_vectors[..., -1:]


class CameraFOV(IntEnum):
    """Along which side of the image a field of view is measured."""

    HORIZONTAL = 0
    VERTICAL = 1
    DIAGONAL = 2


class CameraIntrinsics(ABC):
    """Lenses of C cameras of one image size. NDC: x right, y up, z from `ndc_min` (near) to `ndc_max` (far)."""

    _registry: ClassVar[dict[str, type[CameraIntrinsics]]] = {}

    def __init__(self, width: int, height: int, params: Tensor, near: Number, far: Number) -> None:
        self._width = _size(width)
        self._height = _size(height)
        self.params = params
        self._near = near
        self._far = far
        self._ndc_min = -1.0
        self._ndc_max = 1.0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        CameraIntrinsics._registry[cls.registered_name()] = cls

    # --- what a lens defines

    @classmethod
    def registered_name(cls) -> str:
        """The lens's name in `as_dict`."""
        return cls.__name__

    @property
    @abstractmethod
    def lens_type(self) -> str:
        """The lens's name in `generate_rays`."""

    @classmethod
    @abstractmethod
    def param_types(cls) -> type[IntEnum]:
        """Names of the parameters and their columns."""

    @abstractmethod
    def projection_matrix(self) -> Tensor:
        """Clip space from camera, (C, 4, 4)."""

    @abstractmethod
    def transform(self, vectors: Tensor) -> Tensor:
        """NDC (C, B, 3), or (B, 3) of one camera, from points in the camera frame, with 3 or 4 coordinates."""

    @abstractmethod
    def normalize_depth(self, depth: Tensor) -> Tensor:
        """NDC's z of distances along the axis."""

    @abstractmethod
    def zoom(self, amount: Number) -> None:
        """Show less of the scene, larger; more of it where the amount is negative."""

    # --- as records

    def as_dict(self) -> dict[str, Any]:
        """All that `from_dict` needs; numbers for one camera, else lists. It can be written as JSON."""
        values = self.params.detach().cpu()
        named = {
            kind.name: values[0, kind.value].item() if len(self) == 1 else values[:, kind.value].tolist()
            for kind in self.param_types()
        }
        return {
            "classname": self.registered_name(),
            "width": self.width,
            "height": self.height,
            "near": self.near,
            "far": self.far,
            **named,
        }

    @staticmethod
    def from_dict(in_dict: Mapping[str, Any]) -> CameraIntrinsics:
        """The intrinsics of `as_dict`, of the class that it names."""
        name = in_dict.get("classname")
        if name not in CameraIntrinsics._registry:
            known = ", ".join(CameraIntrinsics._registry)
            raise ValueError(f"the intrinsics class {name!r} is not known; these are: {known}")
        return CameraIntrinsics._registry[name].from_dict(in_dict)

    def named_params(self) -> list[dict[str, float]]:
        """Values by name of each camera."""
        rows = self.params.detach().cpu().tolist()
        return [{kind.name: row[kind.value] for kind in self.param_types()} for row in rows]

    @property
    def param_count(self) -> int:
        """How many parameters a camera has."""
        return len(self.param_types())

    def parameters(self) -> Tensor:
        """What an optimiser moves, (C, K)."""
        return self.params

    def gradient_mask(self, *args: str | IntEnum) -> Tensor:
        """True where parameters are named, of the parameters' shape."""
        mask = torch.zeros_like(self.params, dtype=torch.bool)
        for arg in args:
            mask[:, (self.param_types()[arg] if isinstance(arg, str) else arg).value] = True
        return mask

    # --- sizes and planes

    @property
    def width(self) -> int:
        """Pixels."""
        return self._width  # type: ignore[return-value]

    @width.setter
    def width(self, value: Number) -> None:
        self._width = _size(value)

    @property
    def height(self) -> int:
        """Pixels."""
        return self._height  # type: ignore[return-value]

    @height.setter
    def height(self, value: Number) -> None:
        self._height = _size(value)

    @property
    def near(self) -> Number:
        """Distance of the near plane."""
        return self._near

    @near.setter
    def near(self, value: Number) -> None:
        self._near = value

    @property
    def far(self) -> Number:
        """Distance of the far plane."""
        return self._far

    @far.setter
    def far(self, value: Number) -> None:
        self._far = value

    @property
    def ndc_min(self) -> Number:
        """NDC's z at the near plane."""
        return self._ndc_min

    @property
    def ndc_max(self) -> Number:
        """NDC's z at the far plane."""
        return self._ndc_max

    def set_ndc_range(self, ndc_min: Number, ndc_max: Number) -> None:
        """Set NDC's z at the near and at the far plane."""
        self._ndc_min, self._ndc_max = float(ndc_min), float(ndc_max)

    def aspect_ratio(self) -> Number:
        """Width by height."""
        return self.width / self.height

    def viewport_matrix(self) -> Tensor:
        """Pixels (x right, y UP, both from the lower left corner) and depth 0 to 1 from NDC, (C, 4, 4)."""
        depth = self.ndc_max - self.ndc_min
        matrix = self.params.new_tensor(
            [
                [self.width / 2, 0.0, 0.0, self.width / 2],
                [0.0, self.height / 2, 0.0, self.height / 2],
                [0.0, 0.0, 1.0 / depth, -self.ndc_min / depth],
                [0.0, 0.0, 0.0, 1.0],
            ]
        )
        return matrix.unsqueeze(0).expand(len(self), 4, 4)

    def clip_mask(self, depth: Tensor) -> Tensor:
        """Whether distances along the axis lie between the planes."""
        return (depth >= min(self.near, self.far)) & (depth <= max(self.near, self.far))

    # --- as tensors

    @property
    def device(self) -> torch.device:
        """Device of the parameters."""
        return self.params.device

    @property
    def dtype(self) -> torch.dtype:
        """Type of the parameters."""
        return self.params.dtype

    @property
    def requires_grad(self) -> bool:
        """Whether gradients of the parameters are computed."""
        return self.params.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not value and not self.params.is_leaf:
            self.params = self.params.detach()
        self.params.requires_grad_(value)

    def _like(self: Self, params: Tensor) -> Self:
        """The same lens with other parameters."""
        other = type(self)(self.width, self.height, params, self.near, self.far)
        other.set_ndc_range(self.ndc_min, self.ndc_max)
        return other

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """On another device or of another type, as `torch.Tensor.to` has it."""
        moved = self.params.to(*args, **kwargs)
        if self.params.is_leaf and moved is not self.params:
            moved = moved.detach().requires_grad_(self.requires_grad)
        return self._like(moved)

    def cpu(self: Self) -> Self:
        """On the CPU."""
        return self.to("cpu")

    def cuda(self: Self) -> Self:
        """On the current GPU."""
        return self.to("cuda")

    def half(self: Self) -> Self:
        """As float16."""
        return self.to(torch.float16)

    def float(self: Self) -> Self:
        """As float32."""
        return self.to(torch.float32)

    def double(self: Self) -> Self:
        """As float64."""
        return self.to(torch.float64)

    @classmethod
    def cat(cls, cameras: Sequence[CameraIntrinsics]) -> CameraIntrinsics:
        """All in one batch, with the first one's size and planes."""
        first = cameras[0]
        for i, camera in enumerate(cameras):
            if type(camera) is not type(first):
                raise ValueError(f"cameras[{i}] is {type(camera).__name__} and cameras[0] {type(first).__name__}")
            if (camera.width, camera.height) != (first.width, first.height):
                raise ValueError(
                    f"cameras[{i}] has {camera.width} x {camera.height} pixels and cameras[0] "
                    f"{first.width} x {first.height}; a batch has one size"
                )
        return first._like(torch.cat([camera.params for camera in cameras]))

    def __len__(self) -> int:
        return self.params.shape[0]

    def __getitem__(self: Self, item: int | slice | Tensor | Sequence[int]) -> Self:
        params = self.params[item]  # type: ignore[index]
        return self._like(params.unsqueeze(0) if isinstance(item, int) else params)

    def __iter__(self: Self) -> Iterator[Self]:
        return (self[i] for i in range(len(self)))

    def __str__(self) -> str:
        return (
            f"{type(self).__name__} of {len(self)} cameras with {self.width} x {self.height} pixels, near {self.near}, "
            f"far {self.far}: {self.named_params()}"
        )

    __repr__ = __str__

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return _allclose(*args, **(kwargs or {})) if func is torch.allclose else NotImplemented


def _allclose(
    input: CameraIntrinsics, other: CameraIntrinsics, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether class and size are the same, and planes and parameters close."""
    if type(input) is not type(other) or input.params.shape != other.params.shape:
        return False
    if (input.width, input.height) != (other.width, other.height):
        return False
    planes = [torch.tensor([lens.near, lens.far], dtype=torch.float64) for lens in (input, other)]
    tolerance: dict[str, Any] = {"rtol": rtol, "atol": atol, "equal_nan": equal_nan}
    return torch.allclose(planes[0], planes[1], **tolerance) and torch.allclose(input.params, other.params, **tolerance)


def columns(
    values: Sequence[Number | Tensor | Sequence[Number]],
    num_cameras: int,
    device: torch.device | str | None,
    dtype: torch.dtype | None,
) -> Tensor:
    """Parameters (C, K) of one value, or one a camera, for each of K."""
    tensors = [value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64) for value in values]
    if device is None:
        device = next((value.device for value in values if isinstance(value, Tensor)), torch.device("cpu"))
    dtype = torch.get_default_dtype() if dtype is None else dtype
    flat = [tensor.reshape(-1).to(device=device, dtype=dtype) for tensor in tensors]
    count = max(num_cameras, *(len(tensor) for tensor in flat))
    for i, tensor in enumerate(flat):
        if len(tensor) not in (1, count):
            raise ValueError(f"value {i} has {len(tensor)} entries for {count} cameras")
    return torch.stack([tensor.expand(count) for tensor in flat], dim=-1)


def arguments(in_dict: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a constructor from `as_dict`: lists as tensors, without the class's name."""
    given = {key: value for key, value in in_dict.items() if key != "classname"}
    return {key: torch.tensor(value) if isinstance(value, list) else value for key, value in given.items()}


def apply_matrix(matrix: Tensor, vectors: Tensor) -> Tensor:
    """`matrix @ vector` (C, B, 4), or (B, 4) of one camera and (B, D) vectors, D being 3 or 4."""
    if vectors.shape[-1] == 3:
        vectors = up_to_homogeneous(vectors)
    out = vectors @ matrix.mT
    return out.squeeze(0) if vectors.ndim == 2 and len(matrix) == 1 else out


def depth_terms(near: Number, far: Number, ndc_min: Number, ndc_max: Number) -> tuple[float, float]:
    """V and U of a perspective matrix's third row (0, 0, V, U)."""
    U = (ndc_min - ndc_max) * near * far / (far - near)
    return U / near - ndc_min, U


def _size(value: Number) -> Number:
    return int(value) if float(value).is_integer() else float(value)
