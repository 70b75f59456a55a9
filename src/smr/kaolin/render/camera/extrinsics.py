"""Poses of cameras: view matrices in a representation of choice, and the ways to move a camera."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .extrinsics_backends import _REGISTERED_BACKENDS, ExtrinsicsParamsDefEnum, ExtrinsicsRep, register_backend

__all__ = ["CameraExtrinsics", "ExtrinsicsParamsDefEnum", "ExtrinsicsRep", "register_backend"]

_DEFAULT = "matrix_se3"
_DEFAULT_DIFFERENTIABLE = "matrix_6dof_rotation"
Number = float | int
ArrayLike = Tensor | np.ndarray | Sequence[Number]


class CameraExtrinsics:
    """Poses of C cameras, kept as view matrices (world to camera; y up, looking along -z).

    Parameters are stored by a backend: `matrix_se3` (the matrix) or `matrix_6dof_rotation` (stays a rotation while it
    is optimised). Unless one is asked for, the second is used where gradients are.
    """

    def __init__(self, backend: ExtrinsicsRep, shared_fields: dict[str, Any] | None = None) -> None:
        self._backend = backend
        self._shared_fields: dict[str, Any] = {
            "base_change_matrix": None,
            "user_requested_backend": False,
            **(shared_fields or {}),
        }

    @classmethod
    def _internal_from_view_matrix(
        cls,
        view_matrix: Tensor,
        dtype: torch.dtype | None,
        device: torch.device | str | None,
        requires_grad: bool,
        backend_name: str | None,
    ) -> CameraExtrinsics:
        name = backend_name or (_DEFAULT_DIFFERENTIABLE if requires_grad else _DEFAULT)
        rep = _backend_class(name).from_mat(view_matrix, dtype, device, requires_grad)
        return cls(rep, {"user_requested_backend": backend_name is not None})

    @classmethod
    def from_lookat(
        cls,
        eye: ArrayLike,
        at: ArrayLike,
        up: ArrayLike,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        requires_grad: bool = False,
        backend: str | None = None,
    ) -> CameraExtrinsics:
        """Cameras at `eye` that look at `at`; `up` is upwards in the image.

        Args:
            eye: (3,), (3, 1), (C, 3) or (C, 3, 1).
            at: The same.
            up: The same; need not be of unit length.
            dtype: Type of the parameters; None: that of `eye`.
            device: Their device; None: that of `eye`.
            requires_grad: Whether they are to be optimised.
            backend: Name of the representation; None: chosen by `requires_grad`.
        """
        eye, at, up = (_vectors(value, dtype, device) for value in (eye, at, up))
        backward = torch.nn.functional.normalize(eye - at, dim=-1)
        right = torch.nn.functional.normalize(torch.linalg.cross(up.expand_as(backward), backward), dim=-1)
        upward = torch.linalg.cross(backward, right)
        rotation = torch.stack([right, upward, backward], dim=-2)
        return cls._from_rotation(rotation, eye, requires_grad, backend)

    @classmethod
    def from_camera_pose(
        cls,
        cam_pos: ArrayLike,
        cam_dir: ArrayLike,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        requires_grad: bool = False,
        backend: str | None = None,
    ) -> CameraExtrinsics:
        """Cameras of position and axes in the world.

        Args:
            cam_pos: (3,), (3, 1), (C, 3) or (C, 3, 1).
            cam_dir: (3, 3) or (C, 3, 3); the columns are right, up and backward.
            dtype: Type of the parameters; None: that of `cam_pos`.
            device: Their device; None: that of `cam_pos`.
            requires_grad: Whether they are to be optimised.
            backend: Name of the representation; None: chosen by `requires_grad`.
        """
        position = _vectors(cam_pos, dtype, device)
        axes = _tensor(cam_dir, dtype, device).to(position)
        axes = axes.unsqueeze(0) if axes.ndim == 2 else axes
        return cls._from_rotation(axes.mT, position, requires_grad, backend)

    @classmethod
    def from_view_matrix(
        cls,
        view_matrix: ArrayLike,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        requires_grad: bool = False,
        backend: str | None = None,
    ) -> CameraExtrinsics:
        """Cameras of view matrices (world to camera), (4, 4) or (C, 4, 4)."""
        matrix = _tensor(view_matrix, dtype, device)
        matrix = matrix.unsqueeze(0) if matrix.ndim == 2 else matrix
        if matrix.ndim != 3 or matrix.shape[1:] != (4, 4):
            raise ValueError(f"view_matrix must have the shape (4, 4) or (C, 4, 4), not {tuple(matrix.shape)}")
        return cls._internal_from_view_matrix(matrix, dtype, device, requires_grad, backend)

    @classmethod
    def _from_rotation(
        cls, rotation: Tensor, position: Tensor, requires_grad: bool, backend: str | None
    ) -> CameraExtrinsics:
        count = max(len(rotation), len(position))
        rotation, position = rotation.expand(count, 3, 3), position.expand(count, 3)
        matrix = _rigid(rotation, -(rotation @ position.unsqueeze(-1)))
        return cls._internal_from_view_matrix(matrix, None, None, requires_grad, backend)

    @classmethod
    def from_dict(cls, in_dict: Mapping[str, Any]) -> CameraExtrinsics:
        """The cameras of `as_dict`."""
        return cls.from_view_matrix(torch.as_tensor(in_dict["view_matrix"], dtype=torch.get_default_dtype()))

    def as_dict(self) -> dict[str, Any]:
        """`view_matrix` as nested lists, of 4 rows for one camera; it can be written as JSON."""
        matrices = self.view_matrix().detach().cpu().tolist()
        return {"view_matrix": matrices[0] if len(self) == 1 else matrices}

    @classmethod
    def available_backends(cls) -> Sequence[str]:
        """Names of the representations."""
        return list(_REGISTERED_BACKENDS)

    def switch_backend(self, backend_name: str) -> None:
        """Store the parameters in another representation from now on, even where another suits gradients better."""
        self._shared_fields["user_requested_backend"] = True
        self._switch_backend(backend_name)

    def _switch_backend(self, backend_name: str) -> None:
        with torch.no_grad():
            matrix = self.view_matrix()
        self._backend = _backend_class(backend_name).from_mat(
            matrix, self.dtype, self.device, requires_grad=self.requires_grad
        )

    @property
    def R(self) -> Tensor:
        """Rotations from world to camera axes, (C, 3, 3)."""
        return self.view_matrix()[:, :3, :3]

    @R.setter
    def R(self, value: Tensor) -> None:
        matrix = self.view_matrix()
        self.update(_rigid(value.reshape(-1, 3, 3).expand(len(self), 3, 3).to(matrix), matrix[:, :3, 3:]))

    @property
    def t(self) -> Tensor:
        """Where the world's origin is in the camera frame, (C, 3, 1)."""
        return self.view_matrix()[:, :3, 3:]

    @t.setter
    def t(self, value: Tensor) -> None:
        matrix = self.view_matrix()
        self.update(_rigid(matrix[:, :3, :3], value.reshape(-1, 3, 1).expand(len(self), 3, 1).to(matrix)))

    def view_matrix(self) -> Tensor:
        """World to camera, (C, 4, 4)."""
        return self._backend.convert_to_mat()

    def inv_view_matrix(self) -> Tensor:
        """Camera to world, (C, 4, 4)."""
        matrix = self.view_matrix()
        turned = matrix[:, :3, :3].mT
        return _rigid(turned, -(turned @ matrix[:, :3, 3:]))

    def update(self, mat: Tensor) -> None:
        """Set the view matrices, (C, 4, 4)."""
        self._backend.update(mat)

    def cam_pos(self) -> Tensor:
        """Positions in the world, (C, 3, 1)."""
        matrix = self.view_matrix()
        return -(matrix[:, :3, :3].mT @ matrix[:, :3, 3:])

    def cam_right(self) -> Tensor:
        """Direction to the right in the world, (C, 3, 1)."""
        return self.R[:, 0, :].unsqueeze(-1)

    def cam_up(self) -> Tensor:
        """Direction upwards in the world, (C, 3, 1)."""
        return self.R[:, 1, :].unsqueeze(-1)

    def cam_forward(self) -> Tensor:
        """The camera's z axis in the world, (C, 3, 1): it points BACKWARDS, from what is seen to the camera."""
        return self.R[:, 2, :].unsqueeze(-1)

    def transform(self, vectors: Tensor) -> Tensor:
        """Points from world to camera: (B, 3) or (C, B, 3) to (C, B, 3)."""
        matrix = self.view_matrix()
        vectors = vectors.unsqueeze(0) if vectors.ndim == 2 else vectors
        return vectors @ matrix[:, :3, :3].mT + matrix[:, :3, 3].unsqueeze(1)

    def inv_transform_rays(self, ray_orig: Tensor, ray_dir: Tensor) -> tuple[Tensor, Tensor]:
        """Rays from camera to world: origins and directions (B, 3) or (C, B, 3) to (C, B, 3)."""
        matrix = self.view_matrix()
        rotation = matrix[:, :3, :3]
        ray_orig = ray_orig.unsqueeze(0) if ray_orig.ndim == 2 else ray_orig
        ray_dir = ray_dir.unsqueeze(0) if ray_dir.ndim == 2 else ray_dir
        return (ray_orig - matrix[:, :3, 3].unsqueeze(1)) @ rotation, ray_dir @ rotation

    def translate(self, t: Tensor) -> None:
        """Move the cameras by `t`, (3,), (C, 3) or (C, 3, 1), in the world's axes."""
        matrix = self.view_matrix()
        t = torch.as_tensor(t).to(matrix)
        self.t = matrix[:, :3, 3:] - matrix[:, :3, :3] @ t.reshape(-1, 3, 1)

    def rotate(
        self,
        yaw: Number | Tensor | None = None,
        pitch: Number | Tensor | None = None,
        roll: Number | Tensor | None = None,
    ) -> None:
        """Turn the cameras on the spot about their own axes: first yaw, then pitch, then roll.

        Args:
            yaw: Radians about the camera's y axis; a number, or a tensor of one a camera.
            pitch: Radians about its x axis.
            roll: Radians about its z axis.
        """
        matrix = self.view_matrix()
        turn = torch.eye(4, dtype=matrix.dtype, device=matrix.device).expand_as(matrix)
        for angle, (i, j) in ((yaw, (2, 0)), (pitch, (1, 2)), (roll, (0, 1))):
            if angle is not None:
                turn = _plane_rotation(angle, i, j, matrix) @ turn
        self.update(turn @ matrix)

    def move_right(self, amount: Number | Tensor) -> None:
        """Move along the camera's x axis."""
        self._move(0, amount)

    def move_up(self, amount: Number | Tensor) -> None:
        """Move along the camera's y axis."""
        self._move(1, amount)

    def move_forward(self, amount: Number | Tensor) -> None:
        """Move along the camera's z axis (`cam_forward`): a positive amount moves AWAY from what is seen."""
        self._move(2, amount)

    def _move(self, axis: int, amount: Number | Tensor) -> None:
        t = self.t.clone()
        t[:, axis, 0] = t[:, axis, 0] - torch.as_tensor(amount).to(t).reshape(-1)
        self.t = t

    def change_coordinate_system(self, basis_change: Tensor | np.ndarray) -> None:
        """Take the world to be in other axes: a world point p is `basis_change @ p` from now on.

        Args:
            basis_change: (3, 3), a permutation and reflections of the axes.
        """
        matrix = self.view_matrix()
        change = torch.as_tensor(basis_change).to(matrix)
        self.update(_rigid(matrix[:, :3, :3] @ change.T, matrix[:, :3, 3:]))
        self._shared_fields["base_change_matrix"] = change @ self.basis_change_matrix

    def reset_coordinate_system(self) -> None:
        """Take all changes of the world's axes back."""
        self.change_coordinate_system(self.basis_change_matrix.T)
        self._shared_fields["base_change_matrix"] = None

    @property
    def basis_change_matrix(self) -> Tensor:
        """All changes of the world's axes so far, (3, 3)."""
        stored = self._shared_fields["base_change_matrix"]
        if stored is None:
            return torch.eye(3, dtype=self.dtype, device=self.device)
        matrix: Tensor = stored
        return matrix.to(device=self.device, dtype=self.dtype)

    @basis_change_matrix.setter
    def basis_change_matrix(self, value: Tensor) -> None:
        self._shared_fields["base_change_matrix"] = torch.as_tensor(value)

    def parameters(self) -> Tensor:
        """What an optimiser moves, (C, K); K depends on the backend."""
        return self._backend.params

    def param_count(self) -> int:
        """K."""
        return self._backend.params.shape[-1]

    def named_params(self) -> list[dict[str, Tensor]]:
        """`R` and `t` of each camera."""
        return [{"R": R, "t": t} for R, t in zip(self.R, self.t, strict=True)]

    def gradient_mask(self, *args: str | ExtrinsicsParamsDefEnum) -> Tensor:
        """True where parameters belong to one of the named parts (`'R'`, `'t'`), of the parameters' shape."""
        mask = torch.zeros_like(self.parameters(), dtype=torch.bool)
        for arg in args:
            part = ExtrinsicsParamsDefEnum[arg] if isinstance(arg, str) else ExtrinsicsParamsDefEnum(arg)
            mask[:, list(self._backend.param_idx(part))] = True
        return mask.detach()

    @property
    def requires_grad(self) -> bool:
        """Whether gradients of the parameters are computed; setting it picks the backend that suits."""
        return self._backend.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not self._shared_fields["user_requested_backend"] and value != self.requires_grad:
            self._switch_backend(_DEFAULT_DIFFERENTIABLE if value else _DEFAULT)
        self._backend.requires_grad = value

    @property
    def backend_name(self) -> str:
        """Name of the representation in use."""
        return type(self._backend).backend_name()

    @property
    def device(self) -> torch.device:
        """Device of the parameters."""
        return self._backend.device

    @property
    def dtype(self) -> torch.dtype:
        """Type of the parameters."""
        return self._backend.dtype

    def to(self, *args: Any, **kwargs: Any) -> CameraExtrinsics:
        """On another device or of another type, as `torch.Tensor.to` has it."""
        return CameraExtrinsics(self._backend.to(*args, **kwargs), dict(self._shared_fields))

    def cpu(self) -> CameraExtrinsics:
        """On the CPU."""
        return self.to("cpu")

    def cuda(self) -> CameraExtrinsics:
        """On the current GPU."""
        return self.to("cuda")

    def half(self) -> CameraExtrinsics:
        """As float16."""
        return self.to(torch.float16)

    def float(self) -> CameraExtrinsics:
        """As float32."""
        return self.to(torch.float32)

    def double(self) -> CameraExtrinsics:
        """As float64."""
        return self.to(torch.float64)

    @classmethod
    def cat(cls, cameras: Sequence[CameraExtrinsics]) -> CameraExtrinsics:
        """All in one batch, in the first one's backend."""
        first = cameras[0]
        matrices = torch.cat([camera.view_matrix() for camera in cameras])
        rep = type(first._backend).from_mat(matrices, requires_grad=any(c.requires_grad for c in cameras))
        return cls(rep, dict(first._shared_fields))

    def __len__(self) -> int:
        return len(self._backend)

    def __getitem__(self, item: int | slice | Tensor | Sequence[int]) -> CameraExtrinsics:
        params = self._backend.params[item]  # type: ignore[index]
        params = params.unsqueeze(0) if isinstance(item, int) else params
        rep = type(self._backend)(params, requires_grad=self.requires_grad)
        return CameraExtrinsics(rep, dict(self._shared_fields))

    def __iter__(self) -> Iterator[CameraExtrinsics]:
        return (self[i] for i in range(len(self)))

    def __str__(self) -> str:
        return f"CameraExtrinsics of {len(self)} cameras ({self.backend_name}), view matrices:\n{self.view_matrix()}"

    __repr__ = __str__

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return _allclose(*args, **(kwargs or {})) if func is torch.allclose else NotImplemented


def _allclose(
    input: CameraExtrinsics,
    other: CameraExtrinsics,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> bool:
    """Whether the parameters are close; never in different backends."""
    if type(input) is not type(other) or input.backend_name != other.backend_name:
        return False
    one, two = input.parameters(), other.parameters()
    return one.shape == two.shape and torch.allclose(one, two, rtol=rtol, atol=atol, equal_nan=equal_nan)


def _backend_class(name: str) -> type[ExtrinsicsRep]:
    if name not in _REGISTERED_BACKENDS:
        raise ValueError(f"the backend {name!r} is not known; these are: {', '.join(_REGISTERED_BACKENDS)}")
    return _REGISTERED_BACKENDS[name]


def _tensor(value: ArrayLike, dtype: torch.dtype | None, device: torch.device | str | None) -> Tensor:
    tensor = torch.as_tensor(value)
    if dtype is None and not tensor.is_floating_point():
        dtype = torch.get_default_dtype()
    return tensor.to(device=device, dtype=dtype)


def _vectors(value: ArrayLike, dtype: torch.dtype | None, device: torch.device | str | None) -> Tensor:
    """(C, 3) of one of the shapes that are taken."""
    tensor = _tensor(value, dtype, device)
    if tensor.ndim >= 2 and tensor.shape[-1] == 1:
        tensor = tensor.squeeze(-1)
    tensor = tensor.unsqueeze(0) if tensor.ndim == 1 else tensor
    if tensor.ndim != 2 or tensor.shape[-1] != 3:
        raise ValueError(
            f"positions and directions have the shape (3,) or (C, 3), not {tuple(torch.as_tensor(value).shape)}"
        )
    return tensor


def _rigid(rotation: Tensor, t: Tensor) -> Tensor:
    top = torch.cat([rotation, t], dim=-1)
    last = top.new_tensor([0.0, 0.0, 0.0, 1.0]).expand(len(top), 1, 4)
    return torch.cat([top, last], dim=1)


def _plane_rotation(angle: Number | Tensor, i: int, j: int, like: Tensor) -> Tensor:
    """(C, 4, 4): cosines at (i, i) and (j, j), the sine at (i, j), its negative at (j, i)."""
    if not isinstance(angle, Tensor):
        angle = torch.tensor(math.fmod(float(angle), math.tau))
    angle = angle.to(like).reshape(-1).expand(len(like))
    turn = torch.eye(4, dtype=like.dtype, device=like.device).repeat(len(like), 1, 1)
    turn[:, i, i] = turn[:, j, j] = angle.cos()
    turn[:, i, j], turn[:, j, i] = angle.sin(), -angle.sin()
    return turn
