"""Quaternions, x y z w with the real part last; any leading batch shape."""

from __future__ import annotations

import math

import torch

from ..._devices import default_device
from .util import vector_normalize


def quat_real(quat: torch.Tensor) -> torch.Tensor:
    """Real parts (..., 1) of quaternions (..., 4)."""
    return quat[..., 3:]


def quat_imaginary(quat: torch.Tensor) -> torch.Tensor:
    """Imaginary parts (..., 3) of quaternions (..., 4)."""
    return quat[..., :3]


def quat_positive(quat: torch.Tensor) -> torch.Tensor:
    """The one of q and -q, which are the same rotation, whose real part is not negative."""
    return torch.where(quat[..., 3:] < 0, -quat, quat)


def quat_abs(quat: torch.Tensor) -> torch.Tensor:
    """Norms (..., 1) of quaternions (..., 4)."""
    return torch.linalg.vector_norm(quat, dim=-1, keepdim=True)


def quat_unit(quat: torch.Tensor) -> torch.Tensor:
    """Quaternions of norm one."""
    return vector_normalize(quat)


def quat_unit_positive(quat: torch.Tensor) -> torch.Tensor:
    """Quaternions of norm one with a real part that is not negative."""
    return quat_positive(quat_unit(quat))


def quat_identity(shape: list[int], device: torch.device | str | None = None) -> torch.Tensor:
    """Rotations that change nothing, (*shape, 4); on the GPU where there is one, unless `device` is given."""
    quat = torch.zeros([*shape, 4], device=default_device(device))
    quat[..., 3] = 1
    return quat


def quat_conjugate(quat: torch.Tensor) -> torch.Tensor:
    """Quaternions with the imaginary parts negated: the inverse rotation of a unit quaternion."""
    return torch.cat([-quat[..., :3], quat[..., 3:]], dim=-1)


def quat_inverse(quat: torch.Tensor) -> torch.Tensor:
    """The quaternion that gives the identity in a product, also where the norm is not one."""
    return quat_conjugate(quat) / (quat * quat).sum(dim=-1, keepdim=True)


def quat_mul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Hamilton's product a b of quaternions (..., 4): the rotation b, then a."""
    ax, ay, az, aw = torch.unbind(a, dim=-1)
    bx, by, bz, bw = torch.unbind(b, dim=-1)
    return torch.stack(
        [
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
            aw * bw - ax * bx - ay * by - az * bz,
        ],
        dim=-1,
    )


def quat_rotate(rotation: torch.Tensor, point: torch.Tensor) -> torch.Tensor:
    """Points (..., 3) turned by quaternions (..., 4): q p q*, which scales by the squared norm of q.

    Args:
        rotation: Quaternions, as a rule of norm one.
        point: Points; leading sizes broadcast against the quaternions'.
    """
    point = point.to(torch.promote_types(rotation.dtype, point.dtype))
    imaginary, real = rotation[..., :3], rotation[..., 3:]
    imaginary, point = torch.broadcast_tensors(imaginary, point)
    across = torch.linalg.cross(imaginary, point, dim=-1)
    along = (imaginary * point).sum(dim=-1, keepdim=True)
    size = (imaginary * imaginary).sum(dim=-1, keepdim=True)
    return (real * real - size) * point + 2 * along * imaginary + 2 * real * across


def quat_from_angle_axis(angle: torch.Tensor, axis: torch.Tensor, is_degree: bool = False) -> torch.Tensor:
    """Unit quaternions (..., 4) of turns by an angle about an axis.

    Args:
        angle: (..., 1), (...) or a scalar; radians.
        axis: (..., 3), of any length.
        is_degree: The angle is in degrees.
    """
    if angle.dim() < axis.dim():
        angle = angle.unsqueeze(-1)
    half = angle * (math.pi / 360) if is_degree else angle / 2
    imaginary = vector_normalize(axis) * torch.sin(half)
    return torch.cat([imaginary, torch.cos(half).expand_as(imaginary[..., :1])], dim=-1)


def quat_from_rot33(mat: torch.Tensor) -> torch.Tensor:
    """Unit quaternions (..., 4), real part not negative, of rotation matrices (..., 3, 3).

    The products 4 q_i q_j are sums of the matrix's entries; the row of the largest of x, y, z, w is divided by its
    root, so that nothing near zero is a divisor (Shepperd 1978).
    """
    r00, r01, r02, r10, r11, r12, r20, r21, r22 = mat.flatten(-2).unbind(-1)
    products = torch.stack(
        [
            torch.stack([1 + r00 - r11 - r22, r01 + r10, r02 + r20, r21 - r12], dim=-1),
            torch.stack([r01 + r10, 1 - r00 + r11 - r22, r12 + r21, r02 - r20], dim=-1),
            torch.stack([r02 + r20, r12 + r21, 1 - r00 - r11 + r22, r10 - r01], dim=-1),
            torch.stack([r21 - r12, r02 - r20, r10 - r01, 1 + r00 + r11 + r22], dim=-1),
        ],
        dim=-2,
    )
    squares = torch.diagonal(products, dim1=-2, dim2=-1)
    largest = squares.argmax(dim=-1, keepdim=True)
    row = torch.take_along_dim(products, largest.unsqueeze(-1), dim=-2).squeeze(-2)
    return quat_positive(row / (2 * torch.sqrt(torch.take_along_dim(squares, largest, dim=-1))))
