"""Matrices and projections of cameras without a camera object."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = [
    "generate_perspective_projection",
    "generate_rotate_translate_matrices",
    "generate_transformation_matrix",
    "perspective_camera",
    "rotate_translate_points",
]


def rotate_translate_points(points: Tensor, camera_rot: Tensor, camera_trans: Tensor) -> Tensor:
    """Points in the camera frame, (B, N, 3): `R (p - t)`.

    Args:
        points: (B, N, 3), in the world.
        camera_rot: R, (B, 3, 3).
        camera_trans: t, the camera's position, (B, 3).
    """
    return (points - camera_trans.view(-1, 1, 3)) @ camera_rot.mT


def generate_rotate_translate_matrices(
    camera_position: Tensor, look_at: Tensor, camera_up_direction: Tensor
) -> tuple[Tensor, Tensor]:
    """R (B, 3, 3) and t (B, 3) for `rotate_translate_points`, of cameras (x right, y up, z backward).

    Args:
        camera_position: (B, 3).
        look_at: (B, 3).
        camera_up_direction: (B, 3).
    """
    backward = torch.nn.functional.normalize(camera_position - look_at, dim=-1)
    right = torch.nn.functional.normalize(torch.linalg.cross(camera_up_direction, backward), dim=-1)
    rotation = torch.stack([right, torch.linalg.cross(backward, right), backward], dim=-2)
    return rotation, camera_position


def generate_transformation_matrix(camera_position: Tensor, look_at: Tensor, camera_up_direction: Tensor) -> Tensor:
    """The same in one matrix (B, 4, 3): `(x, y, z, 1) @ matrix` is the point in the camera frame."""
    rotation, position = generate_rotate_translate_matrices(camera_position, look_at, camera_up_direction)
    shift = -(position.unsqueeze(-2) @ rotation.mT)
    return torch.cat([rotation.mT, shift], dim=-2)


def perspective_camera(points: Tensor, camera_proj: Tensor) -> Tensor:
    """Image coordinates (B, N, 2), -1 to 1 with y up, of points in the camera frame.

    Args:
        points: (B, N, 3).
        camera_proj: (3, 1) or (B, 3, 1), of `generate_perspective_projection`.
    """
    projected = points * camera_proj.reshape(-1, 1, 3)
    return projected[..., :2] / projected[..., 2:]


def generate_perspective_projection(
    fovyangle: float | int, ratio: float | int = 1.0, dtype: torch.dtype = torch.float
) -> Tensor:
    """What points in the camera frame are multiplied with before x and y are divided by z, (3, 1).

    Args:
        fovyangle: Vertical field of view, radians.
        ratio: Width by height of the image.
        dtype: Type of the result.
    """
    tangent = math.tan(fovyangle / 2.0)
    return torch.tensor([[1.0 / (ratio * tangent)], [1.0 / tangent], [-1.0]], dtype=dtype)
