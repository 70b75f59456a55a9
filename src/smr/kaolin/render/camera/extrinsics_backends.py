"""How the pose of cameras is stored as parameters: a whole matrix, or six numbers that stay a rotation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import IntEnum
from typing import TypeVar

import torch
from torch import Tensor

_REGISTERED_BACKENDS: dict[str, type[ExtrinsicsRep]] = {}
Backend = TypeVar("Backend", bound="type[ExtrinsicsRep]")


def register_backend(backend_class: Backend) -> Backend:
    """A class decorator that makes a representation known by its `backend_name()`."""
    _REGISTERED_BACKENDS[backend_class.backend_name()] = backend_class
    return backend_class


class ExtrinsicsParamsDefEnum(IntEnum):
    """Parts of a pose, for `gradient_mask`."""

    R = 1
    """The rotation."""
    t = 2
    """The translation."""


class ExtrinsicsRep(ABC):
    """Parameters of C poses, (C, K), and their way from and to view matrices."""

    def __init__(
        self,
        params: Tensor,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        requires_grad: bool = False,
    ) -> None:
        self.params = params.detach().to(device=device, dtype=dtype)
        if requires_grad:
            # a leaf of its own: the caller's tensor is not what an optimiser moves
            self.params = self.params.clone().requires_grad_(True)

    @classmethod
    def from_mat(
        cls,
        mat: Tensor,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        requires_grad: bool = False,
    ) -> ExtrinsicsRep:
        """The representation of view matrices (C, 4, 4)."""
        return cls(cls.convert_from_mat(mat), dtype, device, requires_grad)

    def update(self, mat: Tensor) -> None:
        """Set the view matrices.

        Parameters that an optimiser holds (leaves that require a gradient) are changed in place.
        """
        params = self.convert_from_mat(mat)
        if self.params.requires_grad and self.params.is_leaf:
            with torch.no_grad():
                self.params.copy_(params)
        else:
            self.params = params

    @abstractmethod
    def convert_to_mat(self) -> Tensor:
        """View matrices (C, 4, 4), differentiable in the parameters."""

    @classmethod
    @abstractmethod
    def convert_from_mat(cls, mat: Tensor) -> Tensor:
        """Parameters (C, K) of view matrices (C, 4, 4)."""

    @classmethod
    @abstractmethod
    def param_idx(cls, param: ExtrinsicsParamsDefEnum) -> Sequence[int]:
        """Which of the K parameters belong to a part of the pose."""

    @classmethod
    @abstractmethod
    def backend_name(cls) -> str:
        """The representation's name."""
        raise NotImplementedError

    def to(self, *args: object, **kwargs: object) -> ExtrinsicsRep:
        """On another device or of another type, as `torch.Tensor.to` has it."""
        moved = self.params.to(*args, **kwargs)  # type: ignore[call-overload]
        return type(self)(moved, requires_grad=self.requires_grad)

    def __len__(self) -> int:
        return self.params.shape[0]

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
        if value and not self.params.is_leaf:
            return
        if not value and not self.params.is_leaf:
            self.params = self.params.detach()
        self.params.requires_grad_(value)


@register_backend
class _MatrixSE3Rep(ExtrinsicsRep):
    """The view matrix itself; optimising it may leave the rotations."""

    def convert_to_mat(self) -> Tensor:
        return self.params.reshape(-1, 4, 4)

    @classmethod
    def convert_from_mat(cls, mat: Tensor) -> Tensor:
        return mat.reshape(-1, 16)

    @classmethod
    def param_idx(cls, param: ExtrinsicsParamsDefEnum) -> Sequence[int]:
        return (0, 1, 2, 4, 5, 6, 8, 9, 10) if param == ExtrinsicsParamsDefEnum.R else (3, 7, 11)

    @classmethod
    def backend_name(cls) -> str:
        return "matrix_se3"


@register_backend
class _Matrix6DofRotationRep(ExtrinsicsRep):
    """Two rows of the rotation, made orthonormal by one Gram-Schmidt step, and the translation.

    Zhou et al.: On the continuity of rotation representations in neural networks (CVPR 2019).
    """

    def convert_to_mat(self) -> Tensor:
        first, second, t = self.params[:, 0:3], self.params[:, 3:6], self.params[:, 6:9]
        x = torch.nn.functional.normalize(first, dim=-1)
        y = torch.nn.functional.normalize(second - (x * second).sum(-1, keepdim=True) * x, dim=-1)
        rotation = torch.stack([x, y, torch.linalg.cross(x, y)], dim=1)
        top = torch.cat([rotation, t.unsqueeze(-1)], dim=-1)
        last = top.new_tensor([0.0, 0.0, 0.0, 1.0]).expand(len(top), 1, 4)
        return torch.cat([top, last], dim=1)

    @classmethod
    def convert_from_mat(cls, mat: Tensor) -> Tensor:
        return torch.cat([mat[:, 0, :3], mat[:, 1, :3], mat[:, :3, 3]], dim=-1)

    @classmethod
    def param_idx(cls, param: ExtrinsicsParamsDefEnum) -> Sequence[int]:
        return range(6) if param == ExtrinsicsParamsDefEnum.R else range(6, 9)

    @classmethod
    def backend_name(cls) -> str:
        return "matrix_6dof_rotation"
