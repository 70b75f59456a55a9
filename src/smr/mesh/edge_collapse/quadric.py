"""The squared distance to planes as a quadratic form (Garland, Heckbert 1997)."""

from typing import no_type_check

import warp as wp

Quadric = wp.types.vector(length=11, dtype=wp.float64)
"""Symmetric 3×3 matrix A (six entries), vector b, constant c of x·Ax + 2 b·x + c, and the area that it stands for."""

ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))
TWO = wp.constant(wp.float64(2.0))


@wp.func
@no_type_check
def plane(n: wp.vec3d, p: wp.vec3d, weight: wp.float64, area: wp.float64, noise: wp.float64):
    """Quadric of the plane through p with unit normal n whose direction is uncertain (Trettner, Kobbelt 2020)."""
    d = wp.dot(n, p)
    own = noise * noise
    b = -(n * d + p * own)
    return Quadric(
        weight * (n[0] * n[0] + own), weight * n[0] * n[1], weight * n[0] * n[2], weight * (n[1] * n[1] + own),
        weight * n[1] * n[2], weight * (n[2] * n[2] + own), weight * b[0], weight * b[1], weight * b[2],
        weight * (d * d + own * wp.dot(p, p)), area,
    )  # fmt: skip


@wp.func
@no_type_check
def _times(q: Quadric, x: wp.vec3d):
    return wp.vec3d(
        q[0] * x[0] + q[1] * x[1] + q[2] * x[2],
        q[1] * x[0] + q[3] * x[1] + q[4] * x[2],
        q[2] * x[0] + q[4] * x[1] + q[5] * x[2],
    )


@wp.func
@no_type_check
def cost(q: Quadric, x: wp.vec3d):
    """Sum of squared distances of x to the planes, times their weights."""
    b = wp.vec3d(q[6], q[7], q[8])
    return wp.max(wp.dot(x, _times(q, x) + b * TWO) + q[9], ZERO)


@wp.func
@no_type_check
def best_place(q: Quadric, a: wp.vec3d, b: wp.vec3d):
    """Where the quadric is least; the better end or the middle where that is ill-defined or far away."""
    middle = (a + b) * HALF
    right = -(_times(q, middle) + wp.vec3d(q[6], q[7], q[8]))
    c0 = wp.vec3d(q[3] * q[5] - q[4] * q[4], q[2] * q[4] - q[1] * q[5], q[1] * q[4] - q[2] * q[3])
    c1 = wp.vec3d(c0[1], q[0] * q[5] - q[2] * q[2], q[1] * q[2] - q[0] * q[4])
    c2 = wp.vec3d(c0[2], c1[2], q[0] * q[3] - q[1] * q[1])
    determinant = q[0] * c0[0] + q[1] * c0[1] + q[2] * c0[2]
    trace = q[0] + q[3] + q[5]
    best = middle
    solved = wp.bool(False)
    if determinant > wp.float64(1.0e-13) * trace * trace * trace:
        step = wp.vec3d(wp.dot(c0, right), wp.dot(c1, right), wp.dot(c2, right)) / determinant
        if wp.dot(step, step) <= wp.float64(4.0) * wp.dot(b - a, b - a):
            best = middle + step
            solved = True
    if not solved:
        least = cost(q, middle)
        if cost(q, a) < least:
            least = cost(q, a)
            best = a
        if cost(q, b) < least:
            best = b
    return best
