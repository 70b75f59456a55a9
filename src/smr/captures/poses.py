"""Camera poses as files write them: parsed, interpolated, checked."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from ..transforms import rotation_from_quat_wxyz

SLIGHT = 1e-3
"""A rotation whose R^T R is off the identity by more than this is said to have been orthonormalised."""
GROSS = 0.1
"""One that is off by more than this is no rotation; the frame is dropped."""


def matrices_from_tum(rows: Float[np.ndarray, "N 7"]) -> Float[np.ndarray, "N 4 4"]:
    """`tx ty tz qx qy qz qw` to 4×4 matrices; a quaternion that is none gives NaN."""
    matrices = np.tile(np.eye(4), (len(rows), 1, 1))
    matrices[:, :3, 3] = rows[:, :3]
    for matrix, (x, y, z, w) in zip(matrices, rows[:, 3:], strict=True):
        norm = np.linalg.norm([w, x, y, z])
        if np.isfinite(norm) and norm > 1e-6:
            matrix[:3, :3] = rotation_from_quat_wxyz(np.array([w, x, y, z]))
        else:
            matrix[:] = np.nan
    return matrices


def sound_rotations(
    matrices: Float[np.ndarray, "N 4 4"],
) -> tuple[Float[np.ndarray, "N 4 4"], Float[np.ndarray, " N"], Bool[np.ndarray, " N"]]:
    """Turn each rotation into the nearest true one.

    Returns:
        The corrected matrices; how far each R^T R was off the identity (infinite where a number is not finite, the
        last row is wrong or R mirrors); whether each mirrors.
    """
    finite = np.isfinite(matrices).all(axis=(1, 2)) & (np.abs(np.nan_to_num(matrices, posinf=0)) < 1e9).all(axis=(1, 2))
    safe = np.where(finite[:, None, None], matrices, np.eye(4))
    rotation = safe[:, :3, :3]
    with np.errstate(over="ignore"):
        off = np.abs(np.swapaxes(rotation, 1, 2) @ rotation - np.eye(3)).max(axis=(1, 2))
    mirrors = finite & (np.linalg.det(rotation) < 0)
    last_row = np.abs(safe[:, 3] - [0, 0, 0, 1]).max(axis=1) > 1e-3
    off = np.where(finite & ~mirrors & ~last_row, off, np.inf)
    u, _, vt = np.linalg.svd(rotation)
    fixed = np.tile(np.eye(4), (len(matrices), 1, 1))
    fixed[:, :3, :3] = u @ vt
    fixed[:, :3, 3] = safe[:, :3, 3]
    return fixed, off, mirrors
