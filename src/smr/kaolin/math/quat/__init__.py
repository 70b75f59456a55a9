"""Rotations and rigid motions: quaternions (x y z w), matrices, angle and axis; any leading batch shape."""

from __future__ import annotations

from ..._lazy import reexport

__all__ = reexport(
    __name__,
    {
        "angle_axis": ("angle_axis_from_quat", "angle_axis_from_rot33"),
        "euclidean": (
            "euclidean_from_rotation_translation", "euclidean_identity", "euclidean_inverse",
            "euclidean_rotation_matrix", "euclidean_translation_vector", "is_euclidean_valid",
        ),
        "matrix44": ("rot44_from_quat", "scale_to_mat44", "translation_to_mat44"),
        "quaternion": (
            "quat_abs", "quat_conjugate", "quat_from_angle_axis", "quat_from_rot33", "quat_identity",
            "quat_imaginary", "quat_inverse", "quat_mul", "quat_positive", "quat_real", "quat_rotate", "quat_unit",
            "quat_unit_positive",
        ),
        "rotation33": (
            "is_rot33_valid", "rot33_from_angle_axis", "rot33_from_quat", "rot33_identity", "rot33_inverse",
            "rot33_rotate", "translation_identity",
        ),
        "transform": (
            "transform_apply", "transform_from_euclidean", "transform_from_rotation_translation",
            "transform_identity", "transform_inverse", "transform_mul", "transform_rotation",
            "transform_translation",
        ),
        "util": ("pad_mat33_to_mat44", "vector_normalize"),
    },
)  # fmt: skip
