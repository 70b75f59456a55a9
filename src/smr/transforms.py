"""Rigid transforms and axis conventions, in NumPy. Names read `target_from_source`; see docs/conventions.md."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

Matrix4 = Float[np.ndarray, "4 4"]

# Each matrix turns coordinates of the second frame into coordinates of the first.
OPENCV_FROM_OPENGL = np.diag([1.0, -1.0, -1.0, 1.0])
"""Camera axes: OpenGL, NeRF and ARKit (x right, y up, z backward) to OpenCV (x right, y down, z forward)."""

Y_UP_FROM_Z_UP = np.array([[1.0, 0, 0, 0], [0, 0, 1.0, 0], [0, -1.0, 0, 0], [0, 0, 0, 1.0]])
"""World axes: z up to y up, a quarter turn about x; handedness is kept."""

Y_UP_FROM_Y_DOWN = np.diag([1.0, -1.0, -1.0, 1.0])
"""World axes: y down (a world that is the first OpenCV camera) to y up, half a turn about x."""


def rigid_inverse(matrix: Float[np.ndarray, "*batch 4 4"]) -> Float[np.ndarray, "*batch 4 4"]:
    """Invert rigid transforms exactly: the transposed rotation, the turned-back translation."""
    inverse = np.zeros_like(matrix)
    rotation = np.swapaxes(matrix[..., :3, :3], -1, -2)
    inverse[..., :3, :3] = rotation
    inverse[..., :3, 3] = -np.einsum("...ij,...j->...i", rotation, matrix[..., :3, 3])
    inverse[..., 3, 3] = 1.0
    return inverse


def transform_points(
    target_from_source: Float[np.ndarray, "4 4"], points: Float[np.ndarray, "*n 3"]
) -> Float[np.ndarray, "*n 3"]:
    """Apply a 4×4 affine transform to points."""
    moved: np.ndarray = points @ target_from_source[:3, :3].T + target_from_source[:3, 3]
    return moved


def rotation_from_quat_wxyz(quat_wxyz: Float[np.ndarray, "4"]) -> Float[np.ndarray, "3 3"]:
    """Rotation matrix of a quaternion (w, x, y, z); it need not have unit length."""
    w, x, y, z = quat_wxyz / np.linalg.norm(quat_wxyz)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def matrix_from_quat_wxyz(quat_wxyz: Float[np.ndarray, "4"], translation: Float[np.ndarray, "3"]) -> Matrix4:
    """4×4 transform of a rotation and a translation that is applied after it."""
    matrix = np.eye(4)
    matrix[:3, :3] = rotation_from_quat_wxyz(quat_wxyz)
    matrix[:3, 3] = translation
    return matrix


def look_at(eye: Float[np.ndarray, "3"], target: Float[np.ndarray, "3"], up: Float[np.ndarray, "3"]) -> Matrix4:
    """`world_from_camera` of a camera (OpenCV axes) at `eye` that looks at `target` with `up` upwards in the image."""
    forward = (target - eye) / np.linalg.norm(target - eye)
    right = np.cross(forward, up)
    right /= np.linalg.norm(right)
    matrix = np.eye(4)
    matrix[:3, :3] = np.stack([right, np.cross(forward, right), forward], axis=1)
    matrix[:3, 3] = eye
    return matrix
