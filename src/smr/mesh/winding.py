"""Generalised winding numbers of triangle meshes, with a tree over the faces (Barill et al. 2018)."""

# ruff: noqa: UP018, RUF046
# Warp: a name that changes in a loop must start as int(0), not as a constant.

from __future__ import annotations

from dataclasses import dataclass
from typing import no_type_check

import numpy as np
import warp as wp
from jaxtyping import Float, Float64, Int, Int32

from ..arrays import launch_chunked
from ..records import Mesh

_LEAF = 4
"""Faces that a leaf of the tree has at most."""
_FAR = 3.0
"""A node is summed up in one term where it is farther away than so many of its radii."""


@dataclass(frozen=True)
class _Tree:
    """A complete binary tree in heap order: the children of node i are 2i + 1 and 2i + 2; its leaves hold the faces."""

    corners: Float64[np.ndarray, "F 3 3"]
    """Corners of the faces, in the order of the leaves."""
    first: Int32[np.ndarray, " L1"]
    """Where each leaf's faces begin, and their number."""
    spheres: Float64[np.ndarray, "M 4"]
    """Area-weighted centre of each node's faces, and the radius around it that holds them."""
    areas: Float64[np.ndarray, "M 3"]
    """Sum of the faces' normals, as long as their areas."""
    moments: Float64[np.ndarray, "M 9"]
    """Sum of (face centre - node centre) times normal: the next term of the expansion, row by row."""


def winding_number(mesh: Mesh, points: Float[np.ndarray, "N 3"], *, device: str = "cpu") -> Float64[np.ndarray, " N"]:
    """How many times the surface goes around each point: its solid angle over 4 pi (Jacobson et al. 2013).

    For a closed mesh 0 outside, 1 inside, 2 where two bodies overlap, -1 in a body that is inside out. A hole changes
    it smoothly. No ray is cast, so edges, vertices and faces in line with a point do no harm. Faces near a point count
    exactly, in double precision; those far away through their node's sum (Barill et al. 2018, with the second term),
    which leaves an error of up to 0.03 a body, most at the middle of a sphere, where all nodes err alike.

    Args:
        mesh: Closed or open, in one piece or many; faces counter-clockwise seen from outside.
        points: Positions in the mesh's frame.
        device: A Warp device: `cpu` or `cuda:N`.

    Raises:
        ValueError: The mesh has no face or names vertices that are not there, or a coordinate is not finite.
    """
    check_query(mesh, points)
    corners = mesh.vertices[mesh.faces].astype(np.float64)
    low, high = corners.min(axis=(0, 1)), corners.max(axis=(0, 1))
    origin, size = 0.5 * (low + high), float((high - low).max()) or 1.0
    tree = _build((corners - origin) / size)
    inputs = [
        wp.array(tree.corners, dtype=wp.vec3d, device=device),
        wp.array(tree.first, dtype=int, device=device),
        wp.array(tree.spheres, dtype=wp.vec4d, device=device),
        wp.array(tree.areas, dtype=wp.vec3d, device=device),
        wp.array(tree.moments.reshape(-1, 3, 3), dtype=wp.mat33d, device=device),
        wp.array((points.astype(np.float64) - origin) / size, dtype=wp.vec3d, device=device),
    ]
    result = wp.empty(len(points), dtype=wp.float64, device=device)
    launch_chunked(_sum_solid_angles, len(points), inputs, outputs=[result], device=device)
    numbers: np.ndarray = result.numpy() / (4 * np.pi)
    return numbers


def check_query(mesh: Mesh, points: Float[np.ndarray, "N 3"]) -> None:
    """Refuse a mesh or points that have no answer."""
    if len(mesh.faces) == 0:
        raise ValueError("mesh has no faces")
    if mesh.faces.min() < 0 or mesh.faces.max() >= len(mesh.vertices):
        raise ValueError(
            f"mesh: its faces name vertices {mesh.faces.min()} to {mesh.faces.max()} of {len(mesh.vertices)}"
        )
    if not np.isfinite(mesh.vertices[mesh.faces]).all():
        raise ValueError("mesh has vertices that are NaN or infinite")
    wrong = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if len(wrong):
        raise ValueError(
            f"points must be finite; {len(wrong)} are not, the first is number {wrong[0]}: {points[wrong[0]]}"
        )


def _build(corners: Float64[np.ndarray, "F 3 3"]) -> _Tree:
    """Sort faces along a space-filling curve and halve them until a leaf has few."""
    corners = corners[np.argsort(_morton(corners.mean(axis=1)), kind="stable")]
    count = len(corners)
    depth = max(0, int(np.ceil(np.log2(count / _LEAF))))
    first = (count * np.arange(2**depth + 1, dtype=np.int64) // 2**depth).astype(np.int32)

    normal = 0.5 * np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    centre = corners.mean(axis=1)
    area = np.linalg.norm(normal, axis=1) + 1e-300
    outer = (centre[:, :, None] * normal[:, None, :]).reshape(-1, 9)
    sums = np.concatenate([normal, outer, area[:, None] * centre, area[:, None]], axis=1)
    levels = [
        (
            np.add.reduceat(sums, first[:-1]),
            np.minimum.reduceat(corners.min(axis=1), first[:-1]),
            np.maximum.reduceat(corners.max(axis=1), first[:-1]),
        )
    ]
    for _ in range(depth):
        total, low, high = levels[-1]
        levels.append((total[::2] + total[1::2], np.minimum(low[::2], low[1::2]), np.maximum(high[::2], high[1::2])))
    total, low, high = (np.concatenate(parts) for parts in zip(*levels[::-1], strict=True))

    middle = total[:, 12:15] / total[:, 15:]
    radius = np.linalg.norm(np.maximum(high - middle, middle - low), axis=1)
    moments = total[:, 3:12] - (middle[:, :, None] * total[:, None, :3]).reshape(-1, 9)
    spheres = np.concatenate([middle, radius[:, None]], axis=1)
    return _Tree(corners, first, spheres, total[:, :3].copy(), moments)


def _morton(centres: Float64[np.ndarray, "F 3"]) -> Int[np.ndarray, " F"]:
    """Position along a Z-order curve through the box from -0.5 to 0.5, with 21 bits an axis."""
    cells = ((centres + 0.5).clip(0, 1) * (2**21 - 1)).astype(np.uint64)
    for shift, mask in (
        (32, 0x1F00000000FFFF),
        (16, 0x1F0000FF0000FF),
        (8, 0x100F00F00F00F00F),
        (4, 0x10C30C30C30C30C3),
        (2, 0x1249249249249249),
    ):
        cells = (cells | (cells << np.uint64(shift))) & np.uint64(mask)
    code: np.ndarray = (cells << np.arange(3, dtype=np.uint64)).sum(axis=1, dtype=np.uint64).astype(np.int64)
    return code


@wp.func
@no_type_check
def _solid_angle(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d):
    """Signed solid angle of a triangle seen from 0 (van Oosterom and Strackee 1983, equation 8)."""
    x = wp.length(a)
    y = wp.length(b)
    z = wp.length(c)
    volume = wp.dot(a, wp.cross(b, c))
    return wp.float64(2.0) * wp.atan2(volume, x * y * z + wp.dot(a, b) * z + wp.dot(b, c) * x + wp.dot(c, a) * y)


@wp.kernel(enable_backward=False)
@no_type_check
def _sum_solid_angles(
    base: int,
    corners: wp.array2d(dtype=wp.vec3d),
    first: wp.array(dtype=int),
    spheres: wp.array(dtype=wp.vec4d),
    areas: wp.array(dtype=wp.vec3d),
    moments: wp.array(dtype=wp.mat33d),
    points: wp.array(dtype=wp.vec3d),
    total: wp.array(dtype=wp.float64),
):
    i = base + wp.tid()
    point = points[i]
    leaves = first.shape[0] - 1
    angle = wp.float64(0.0)
    node = int(0)
    while node >= 0:
        sphere = spheres[node]
        away = wp.vec3d(sphere[0], sphere[1], sphere[2]) - point
        distance_sq = wp.dot(away, away)
        done = bool(True)
        if distance_sq > wp.float64(_FAR * _FAR) * sphere[3] * sphere[3]:
            # Barill et al. 2018, section 3.1: the kernel r/|r|^3 and its derivative at the node's centre.
            cube = wp.float64(1.0) / (distance_sq * wp.sqrt(distance_sq))
            moment = moments[node]
            along = wp.dot(away, moment * away) / distance_sq
            angle += cube * (wp.dot(areas[node], away) + wp.trace(moment) - wp.float64(3.0) * along)
        elif node >= leaves - 1:
            leaf = node - leaves + 1
            for face in range(first[leaf], first[leaf + 1]):
                angle += _solid_angle(corners[face, 0] - point, corners[face, 1] - point, corners[face, 2] - point)
        else:
            done = bool(False)
        if done:
            while node > 0 and (node & 1) == 0:  # a right child: its parent is done as well
                node = (node - 1) >> 1
            node = node + 1  # the sibling of a left child
            if node == 1:
                node = -1
        else:
            node = 2 * node + 1
    total[i] = angle
