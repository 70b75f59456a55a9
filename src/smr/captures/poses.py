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


def interpolated(
    times: Float[np.ndarray, " N"],
    poses: Float[np.ndarray, "N 4 4"],
    wanted: Float[np.ndarray, " M"],
    *,
    nearest: float,
    gap: float,
) -> Float[np.ndarray, "M 4 4"]:
    """Poses at the wanted times: between two neighbours (spherically, Shoemake 1985), else the nearest, else NaN.

    Args:
        times: Seconds, ascending.
        poses: The pose at each time; ones that are not finite are passed over.
        wanted: Seconds.
        nearest: A pose this close in time may stand in for one that cannot be interpolated, seconds.
        gap: Neighbours further apart than this are not interpolated between, seconds.
    """
    good = np.isfinite(poses).all(axis=(1, 2)) & np.isfinite(times)
    times, poses = times[good], poses[good]
    out = np.full((len(wanted), 4, 4), np.nan)
    if len(times) == 0:
        return out
    after = np.clip(np.searchsorted(times, wanted), 1, max(len(times) - 1, 1))
    for i, (time, right) in enumerate(zip(wanted, after, strict=True)):
        left = right - 1
        right = min(right, len(times) - 1)
        span = times[right] - times[left]
        if 0 < span <= gap and times[left] <= time <= times[right]:
            out[i] = _between(poses[left], poses[right], float((time - times[left]) / span))
        else:
            closest = min((left, right), key=lambda j: abs(times[j] - time))
            if abs(times[closest] - time) <= nearest:
                out[i] = poses[closest]
    return out


def _between(a: Float[np.ndarray, "4 4"], b: Float[np.ndarray, "4 4"], part: float) -> Float[np.ndarray, "4 4"]:
    """The pose `part` of the way from a to b: the rotation about one axis, the place on a line."""
    relative = a[:3, :3].T @ b[:3, :3]
    axis = np.array([relative[2, 1] - relative[1, 2], relative[0, 2] - relative[2, 0], relative[1, 0] - relative[0, 1]])
    sine = np.linalg.norm(axis) / 2
    angle = np.arctan2(sine, (np.trace(relative) - 1) / 2)
    out = a.copy()
    if sine > 1e-9:
        x, y, z = axis / (2 * sine)
        cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
        turn = part * angle
        out[:3, :3] = a[:3, :3] @ (np.eye(3) + np.sin(turn) * cross + (1 - np.cos(turn)) * cross @ cross)
    out[:3, 3] = (1 - part) * a[:3, 3] + part * b[:3, 3]
    return out


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
