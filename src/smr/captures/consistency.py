"""Do the depth maps agree under the poses? If not: would another unit of depth or another pose convention agree?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32

from ..records import Camera
from ..transforms import OPENCV_FROM_OPENGL, rigid_inverse

TOLERANCE = 0.02
"""Part of the depth by which two frames may differ and still agree."""
STRIDE = 6
PAIRS = 24
"""Pairs of frames, spread evenly, on which other readings are tried."""
_FLIP_Y = np.diag([1.0, -1.0, 1.0, 1.0])


@dataclass(frozen=True)
class View:
    """A decoded depth map with its pinhole camera and pose."""

    name: str
    depth: Float32[np.ndarray, "h w"]
    camera: Camera
    world_from_camera: Float[np.ndarray, "4 4"]


@dataclass(frozen=True)
class Hypothesis:
    """What might be wrong with a capture."""

    pose_fix: str
    """A value of `CaptureConfig.pose_fix`."""
    scale: float
    """Depth is multiplied by this."""


def fixed_pose(world_from_camera: Float[np.ndarray, "4 4"], pose_fix: str) -> Float[np.ndarray, "4 4"]:
    """The pose under another reading of what its file says."""
    inverse = rigid_inverse(world_from_camera)
    fixes = {
        "none": world_from_camera,
        "opengl": world_from_camera @ OPENCV_FROM_OPENGL,
        "world_to_camera": inverse,
        "world_to_camera_opengl": rigid_inverse(OPENCV_FROM_OPENGL @ world_from_camera),
        "left_handed": _FLIP_Y @ world_from_camera @ _FLIP_Y,
    }
    return fixes[pose_fix]


POSE_FIXES = ("none", "opengl", "world_to_camera", "world_to_camera_opengl", "left_handed")


def points_in_camera(view: View, stride: int = STRIDE) -> Float[np.ndarray, "N 3"]:
    """Unprojected pixels with depth, one in `stride`² of them."""
    depth = view.depth[stride // 2 :: stride, stride // 2 :: stride].astype(np.float64)
    rows, columns = np.nonzero(depth)
    z = depth[rows, columns]
    x = ((columns * stride + stride // 2 + 0.5) - view.camera.cx) / view.camera.fx * z
    y = ((rows * stride + stride // 2 + 0.5) - view.camera.cy) / view.camera.fy * z
    return np.stack([x, y, z], axis=1)


def differences(a: View, b: View, hypothesis: Hypothesis) -> tuple[Float[np.ndarray, " N"], int]:
    """Signed relative depth differences in `b` of the points of `a` that `b` sees, and how many points `a` has."""
    points = points_in_camera(a) * hypothesis.scale
    world_from_a = fixed_pose(a.world_from_camera, hypothesis.pose_fix)
    b_from_world = rigid_inverse(fixed_pose(b.world_from_camera, hypothesis.pose_fix))
    b_from_a = b_from_world @ world_from_a
    moved = points @ b_from_a[:3, :3].T + b_from_a[:3, 3]
    moved = moved[moved[:, 2] > 1e-6]
    u = b.camera.fx * moved[:, 0] / moved[:, 2] + b.camera.cx
    v = b.camera.fy * moved[:, 1] / moved[:, 2] + b.camera.cy
    inside = (u >= 0) & (v >= 0) & (u < b.camera.width) & (v < b.camera.height)
    seen = b.depth[v[inside].astype(int), u[inside].astype(int)].astype(np.float64) * hypothesis.scale
    predicted = moved[inside, 2][seen > 0]
    return (predicted - seen[seen > 0]) / seen[seen > 0], len(points)


def agreement(pairs: list[tuple[View, View]], hypothesis: Hypothesis) -> float:
    """Share of depth, over all pairs, that the other frame of the pair confirms."""
    confirmed = total = 0
    for a, b in pairs:
        difference, count = differences(a, b, hypothesis)
        confirmed += int((np.abs(difference) < TOLERANCE).sum())
        total += count
    return confirmed / total if total else 0.0


def typical_difference(pairs: list[tuple[View, View]]) -> float:
    """Median distance along z between what two frames measured of the same surface, metres; of agreeing pixels."""
    found = []
    for a, b in pairs:
        difference, _ = differences(a, b, Hypothesis("none", 1.0))
        near = np.abs(difference) < 3 * TOLERANCE
        if near.sum() > 50:
            found.append(np.median(np.abs(difference[near])) * np.median(a.depth[a.depth > 0]))
    return float(np.median(found)) if found else 0.0


def best_hypothesis(pairs: list[tuple[View, View]], factors: list[float]) -> tuple[Hypothesis, float]:
    """The reading of poses and unit under which most depth agrees; the plain one unless another is clearly better."""
    pairs = pairs[:: -(-len(pairs) // PAIRS) or 1]
    plain = Hypothesis("none", 1.0)
    best, best_score = plain, agreement(pairs, plain)
    for pose_fix in POSE_FIXES:
        for factor in [1.0, *factors]:
            hypothesis = Hypothesis(pose_fix, factor)
            score = agreement(pairs, hypothesis)
            if score > best_score + 0.02:
                best, best_score = hypothesis, score
    return best, best_score
