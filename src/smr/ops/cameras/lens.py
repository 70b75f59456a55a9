"""Lens distortion of a plane: forward, and its inverse with exact derivatives.

One map serves both lens families of OpenCV:

    f(x, y) = (x, y) U(s) / D(s) + tangential(x, y; p1, p2),   s = x² + y²
    U = 1 + a1 s + a2 s² + a3 s³ + a4 s⁴,   D = 1 + b1 s + b2 s² + b3 s³

- Brown-Conrady with OpenCV's rational terms: (x, y) is (X/Z, Y/Z), a = (k1, k2, k3, 0), b = (k4, k5, k6).
- Kannala-Brandt (OpenCV's fisheye): (x, y) is the direction in the image times the angle off the axis in radians,
  a = (k1, k2, k3, k4), b = 0, p = 0.

The polynomials are calibrated on the part of the image that was seen. Where the radius no longer grows the map folds
back on itself; what lies beyond that radius is no image of this lens. `radial_limit` finds it.

J. Kannala, S. Brandt: A generic camera model and calibration method (PAMI 2006); D. Brown: Close-range camera
calibration (1971).
"""

from __future__ import annotations

from typing import Any, no_type_check

import torch
import warp as wp
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from ..tensors import as_warp, launch, use_warp

LARGEST_TANGENT = 1e8
"""Radius that stands for infinity when a lens without a fold is inverted."""
_RADIAL_STEPS = 60
_PLANAR_STEPS = 12
_SAMPLES = 256
_FINER = 32
_REFINEMENTS = 5
_NEAREST_ONE = 1e-12
"""Stands for 1 - t at t = 1, where the radius is infinite."""

Coefficients = Float[Tensor, "... 9"]
"""a1 a2 a3 a4 b1 b2 b3 p1 p2."""


def brown_conrady(distortion: Float[Tensor, "... 8"]) -> Coefficients:
    """Coefficients from OpenCV's k1 k2 p1 p2 k3 k4 k5 k6."""
    k1, k2, p1, p2, k3, k4, k5, k6 = distortion.unbind(-1)
    return torch.stack([k1, k2, k3, torch.zeros_like(k1), k4, k5, k6, p1, p2], -1)


def kannala_brandt(distortion: Float[Tensor, "... 4"]) -> Coefficients:
    """Coefficients from OpenCV's fisheye k1 k2 k3 k4."""
    return torch.nn.functional.pad(distortion, (0, 5))


def distort(xy: Float[Tensor, "... 2"], coefficients: Coefficients) -> Float[Tensor, "... 2"]:
    """The map f; differentiable, without any check of the fold."""
    x, y = xy.unbind(-1)
    s = x * x + y * y
    up, down, _, _ = _polynomials(s, coefficients)
    p1, p2 = coefficients[..., 7], coefficients[..., 8]
    radial = up / down
    return torch.stack(
        [
            x * radial + 2 * p1 * x * y + p2 * (s + 2 * x * x),
            y * radial + p1 * (s + 2 * y * y) + 2 * p2 * x * y,
        ],
        -1,
    )


def undistort(
    xy: Float[Tensor, "... 2"], coefficients: Coefficients, limit: Float[Tensor, "..."]
) -> tuple[Float[Tensor, "... 2"], Bool[Tensor, "..."]]:
    """The inverse of f on the part inside the fold.

    Its derivatives, of any order, come from the implicit function theorem, not from the iterations.

    Args:
        xy: Points after distortion, `(*batch, n, 2)`.
        coefficients: `(*batch, 9)`, a row a camera.
        limit: Largest radius before distortion, `(*batch,)` (`radial_limit`).

    Returns:
        Points before distortion and whether there is one; (0, 0) where there is none.
    """
    out: tuple[Tensor, Tensor] = _Undistort.apply(xy, coefficients, limit)
    return out


@torch.no_grad()
def radial_limit(coefficients: Coefficients, largest: float) -> Float64[Tensor, "..."]:
    """The radius at which the lens folds: the first zero of d(r U/D)/dr or of D; at most `largest`.

    It is found on a grid that is refined, on the tensors' device and without waiting for it.
    """
    c = coefficients.double()
    limits = _limit_warp(c) if use_warp() else _limit_torch(c)
    return limits.clamp_max(largest)


def _limit_torch(coefficients: Tensor) -> Tensor:
    """The first of the samples that folds, then the first of finer samples before it, and so on."""
    c = coefficients[..., None, :]
    # t in [0, 1) to s in [0, inf): half of the samples lie below s = 1
    low = torch.zeros(c.shape[:-1], dtype=torch.float64, device=c.device)
    width = 1.0
    never = torch.zeros_like(low, dtype=torch.bool)
    for step in range(1 + _REFINEMENTS):
        samples = _SAMPLES if step == 0 else _FINER
        t = low + width / samples * torch.arange(1, samples + 1, dtype=torch.float64, device=c.device)
        s = t / (1 - t).clamp_min(_NEAREST_ONE)
        up, down, up_slope, down_slope = _polynomials(s, c)
        grows = (up * down + 2 * s * (up_slope * down - up * down_slope) > 0) & (down > 0)
        first = torch.where(grows, samples, torch.arange(samples, device=c.device)).amin(-1, keepdim=True)
        if step == 0:
            never = first == samples
        width = width / samples
        low = low + width * first
    s = low / (1 - low).clamp_min(_NEAREST_ONE)
    return torch.where(never, torch.inf, s.sqrt()).squeeze(-1)


def _limit_warp(coefficients: Tensor) -> Tensor:
    limits = torch.empty(coefficients.shape[:-1], dtype=torch.float64, device=coefficients.device)
    if limits.numel():
        inputs = [as_warp(coefficients.reshape(-1, 9)), _SAMPLES, _FINER, _REFINEMENTS, _NEAREST_ONE]
        launch(_find_fold, limits.numel(), inputs, outputs=[as_warp(limits.view(-1))], like=coefficients)
    return limits


def _polynomials(s: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """U, D and their derivatives by s."""
    a1, a2, a3, a4, b1, b2, b3 = c[..., :7].unbind(-1)
    up = 1 + s * (a1 + s * (a2 + s * (a3 + s * a4)))
    down = 1 + s * (b1 + s * (b2 + s * b3))
    return up, down, a1 + s * (2 * a2 + s * (3 * a3 + s * 4 * a4)), b1 + s * (2 * b2 + s * 3 * b3)


def _jacobian(xy: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """df1/dx, df1/dy, df2/dx, df2/dy."""
    x, y = xy.unbind(-1)
    s = x * x + y * y
    up, down, up_slope, down_slope = _polynomials(s, c)
    p1, p2 = c[..., 7], c[..., 8]
    radial, slope = up / down, 2 * (up_slope * down - up * down_slope) / (down * down)
    mixed = x * y * slope + 2 * p1 * x + 2 * p2 * y
    return (
        radial + x * x * slope + 2 * p1 * y + 6 * p2 * x,
        mixed,
        mixed,
        radial + y * y * slope + 6 * p1 * y + 2 * p2 * x,
    )


class _Undistort(torch.autograd.Function):
    """The inverse of f; `backward` is made of differentiable operations on its own output."""

    @staticmethod
    def forward(ctx: Any, xy: Tensor, coefficients: Tensor, limit: Tensor) -> tuple[Tensor, Tensor]:
        """Solve in float64."""
        solve = _solve_warp if use_warp() else _solve_torch
        found, valid = solve(xy.double(), coefficients.double(), limit.double())
        undistorted = found.to(xy.dtype)
        ctx.save_for_backward(undistorted, coefficients, valid)
        ctx.mark_non_differentiable(valid)
        return undistorted, valid

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        """With J = df/d(x, y): the gradient of the input is w = J⁻ᵀ g, that of the coefficients -wᵀ df/dc."""
        xy, coefficients, valid = ctx.saved_tensors
        c = coefficients[..., None, :]
        g1, g2 = torch.where(valid[..., None], gradients[0], 0.0).unbind(-1)
        j11, j12, j21, j22 = _jacobian(xy, c)
        determinant = torch.where(valid, j11 * j22 - j12 * j21, 1.0)
        w1, w2 = (j22 * g1 - j21 * g2) / determinant, (j11 * g2 - j12 * g1) / determinant
        x, y = xy.unbind(-1)
        s = x * x + y * y
        up, down, _, _ = _polynomials(s, c)
        by_up = -(w1 * x + w2 * y) * s / down
        by_down = -by_up * up / down
        by_c = [by_up, by_up * s, by_up * s * s, by_up * s * s * s, by_down, by_down * s, by_down * s * s]
        by_c.append(-(w1 * 2 * x * y + w2 * (s + 2 * y * y)))
        by_c.append(-(w1 * (s + 2 * x * x) + w2 * 2 * x * y))
        return torch.stack([w1, w2], -1), torch.stack(by_c, -1).sum(-2), None


def _solve_torch(xy: Tensor, coefficients: Tensor, limit: Tensor) -> tuple[Tensor, Tensor]:
    """Newton for the radius between bounds, then Newton in the plane for the tangential part."""
    c, limit = coefficients[..., None, :], limit[..., None]
    target = xy.norm(dim=-1)
    low, high = torch.zeros_like(target), limit.clamp_max(LARGEST_TANGENT).expand_as(target)
    r = torch.minimum(target, high)
    for _ in range(_RADIAL_STEPS):
        up, down, up_slope, down_slope = _polynomials(r * r, c)
        excess = r * up / down - target
        slope = up / down + 2 * r * r * (up_slope * down - up * down_slope) / (down * down)
        low, high = torch.where(excess < 0, r, low), torch.where(excess >= 0, r, high)
        newton = r - excess / slope
        inside = (newton >= low) & (newton <= high)
        r = torch.where(inside, newton, torch.minimum((low + high) / 2, 2 * low + 1))
    found = xy * (r / target.clamp_min(1e-300))[..., None]
    for _ in range(_PLANAR_STEPS):
        found = found - _newton_step(found, xy, c)
    error = (distort(found, c) - xy).norm(dim=-1)
    j11, j12, j21, j22 = _jacobian(found, c)
    valid = (error <= 1e-9 * (1 + target)) & (found.norm(dim=-1) <= limit * (1 + 1e-9)) & (j11 * j22 > j12 * j21)
    return torch.where(valid[..., None], found, 0.0), valid


def _newton_step(found: Tensor, xy: Tensor, c: Tensor) -> Tensor:
    e1, e2 = (distort(found, c) - xy).unbind(-1)
    j11, j12, j21, j22 = _jacobian(found, c)
    determinant = j11 * j22 - j12 * j21
    return torch.stack([(j22 * e1 - j12 * e2) / determinant, (j11 * e2 - j21 * e1) / determinant], -1)


def _solve_warp(xy: Tensor, coefficients: Tensor, limit: Tensor) -> tuple[Tensor, Tensor]:
    found = torch.empty(xy.shape, dtype=xy.dtype, device=xy.device)
    valid = torch.empty(xy.shape[:-1], dtype=torch.bool, device=xy.device)
    if valid.numel() == 0:
        return found, valid
    points = as_warp(xy.reshape(-1, 2), wp.vec2d)
    inputs = [points, as_warp(coefficients.reshape(-1, 9)), as_warp(limit.reshape(-1)), xy.shape[-2]]
    outputs = [as_warp(found.view(-1, 2), wp.vec2d), as_warp(valid.view(-1))]
    launch(_undistort, valid.numel(), [*inputs, _RADIAL_STEPS, _PLANAR_STEPS], outputs=outputs, like=xy)
    return found, valid


@wp.func
@no_type_check
def _up(c: wp.array2d(dtype=wp.float64), row: int, s: wp.float64) -> wp.float64:
    return wp.float64(1.0) + s * (c[row, 0] + s * (c[row, 1] + s * (c[row, 2] + s * c[row, 3])))


@wp.func
@no_type_check
def _up_slope(c: wp.array2d(dtype=wp.float64), row: int, s: wp.float64) -> wp.float64:
    return c[row, 0] + s * (
        wp.float64(2.0) * c[row, 1] + s * (wp.float64(3.0) * c[row, 2] + s * wp.float64(4.0) * c[row, 3])
    )


@wp.func
@no_type_check
def _down(c: wp.array2d(dtype=wp.float64), row: int, s: wp.float64) -> wp.float64:
    return wp.float64(1.0) + s * (c[row, 4] + s * (c[row, 5] + s * c[row, 6]))


@wp.func
@no_type_check
def _down_slope(c: wp.array2d(dtype=wp.float64), row: int, s: wp.float64) -> wp.float64:
    return c[row, 4] + s * (wp.float64(2.0) * c[row, 5] + s * wp.float64(3.0) * c[row, 6])


@wp.func
@no_type_check
def _bend(c: wp.array2d(dtype=wp.float64), row: int, s: wp.float64) -> wp.float64:
    """d(U/D)/ds times two."""
    down = _down(c, row, s)
    return wp.float64(2.0) * (_up_slope(c, row, s) * down - _up(c, row, s) * _down_slope(c, row, s)) / (down * down)


@wp.func
@no_type_check
def _excess(c: wp.array2d(dtype=wp.float64), row: int, p: wp.vec2d, xy: wp.vec2d) -> wp.vec2d:
    """f(p) - xy."""
    two = wp.float64(2.0)
    s = wp.dot(p, p)
    radial = _up(c, row, s) / _down(c, row, s)
    p1 = c[row, 7]
    p2 = c[row, 8]
    return wp.vec2d(
        p[0] * radial + two * p1 * p[0] * p[1] + p2 * (s + two * p[0] * p[0]) - xy[0],
        p[1] * radial + p1 * (s + two * p[1] * p[1]) + two * p2 * p[0] * p[1] - xy[1],
    )


@wp.func
@no_type_check
def _slopes(c: wp.array2d(dtype=wp.float64), row: int, p: wp.vec2d) -> wp.mat22d:
    two = wp.float64(2.0)
    six = wp.float64(6.0)
    s = wp.dot(p, p)
    radial = _up(c, row, s) / _down(c, row, s)
    bend = _bend(c, row, s)
    p1 = c[row, 7]
    p2 = c[row, 8]
    mixed = p[0] * p[1] * bend + two * p1 * p[0] + two * p2 * p[1]
    return wp.mat22d(
        radial + p[0] * p[0] * bend + two * p1 * p[1] + six * p2 * p[0],
        mixed,
        mixed,
        radial + p[1] * p[1] * bend + six * p1 * p[1] + two * p2 * p[0],
    )


@wp.func
@no_type_check
def _solve_radius(
    c: wp.array2d(dtype=wp.float64), row: int, target: wp.float64, limit: wp.float64, steps: int
) -> wp.float64:
    """The r of r U/D = target by Newton's method between bounds."""
    low = wp.float64(0.0)
    high = limit
    r = wp.min(target, high)
    for _ in range(steps):
        s = r * r
        radial = _up(c, row, s) / _down(c, row, s)
        excess = r * radial - target
        if excess < wp.float64(0.0):
            low = r
        else:
            high = r
        newton = r - excess / (radial + s * _bend(c, row, s))
        if newton >= low and newton <= high:
            if wp.abs(newton - r) <= wp.float64(1e-15) * r:
                return newton
            r = newton
        else:
            r = wp.min(wp.float64(0.5) * (low + high), wp.float64(2.0) * low + wp.float64(1.0))
    return r


@wp.func
@no_type_check
def _first_fold(
    c: wp.array2d(dtype=wp.float64), row: int, low: wp.float64, width: wp.float64, samples: int, nearest_one: wp.float64
) -> int:
    """The first of equal steps from `low` at whose end the radius no longer grows; `samples` where it always does."""
    one = wp.float64(1.0)
    for i in range(samples):
        t = low + width * wp.float64(i + 1)
        s = t / wp.max(one - t, nearest_one)
        up = _up(c, row, s)
        down = _down(c, row, s)
        slope = up * down + wp.float64(2.0) * s * (_up_slope(c, row, s) * down - up * _down_slope(c, row, s))
        if not (slope > wp.float64(0.0) and down > wp.float64(0.0)):
            return i
    return samples


@wp.kernel(enable_backward=False)
@no_type_check
def _find_fold(
    base: int,
    c: wp.array2d(dtype=wp.float64),
    samples: int,
    finer: int,
    refinements: int,
    nearest_one: wp.float64,
    limits: wp.array(dtype=wp.float64),
):
    row = base + wp.tid()
    one = wp.float64(1.0)
    width = one / wp.float64(samples)
    first = _first_fold(c, row, wp.float64(0.0), width, samples, nearest_one)
    if first == samples:
        limits[row] = wp.float64(wp.inf)
        return
    low = width * wp.float64(first)
    for _ in range(refinements):
        width = width / wp.float64(finer)
        low += width * wp.float64(_first_fold(c, row, low, width, finer, nearest_one))
    limits[row] = wp.sqrt(low / wp.max(one - low, nearest_one))


@wp.kernel(enable_backward=False)
@no_type_check
def _undistort(
    base: int,
    points: wp.array(dtype=wp.vec2d),
    c: wp.array2d(dtype=wp.float64),
    limits: wp.array(dtype=wp.float64),
    points_per_camera: int,
    radial_steps: int,
    planar_steps: int,
    found: wp.array(dtype=wp.vec2d),
    valid: wp.array(dtype=wp.bool),
):
    item = base + wp.tid()
    row = item // points_per_camera
    xy = points[item]
    target = wp.length(xy)
    limit = limits[row]
    r = _solve_radius(c, row, target, wp.min(limit, wp.float64(1.0e8)), radial_steps)
    p = xy * (r / wp.max(target, wp.float64(1e-300)))
    if c[row, 7] != wp.float64(0.0) or c[row, 8] != wp.float64(0.0):
        for _ in range(planar_steps):
            step = wp.inverse(_slopes(c, row, p)) * _excess(c, row, p, xy)
            p -= step
            if wp.length(step) <= wp.float64(1e-15) * wp.length(p):
                break
    error = wp.length(_excess(c, row, p, xy))
    ok = (
        error <= wp.float64(1e-9) * (wp.float64(1.0) + target)
        and wp.length(p) <= limit * wp.float64(1.0 + 1e-9)
        and wp.determinant(_slopes(c, row, p)) > wp.float64(0.0)
    )
    valid[item] = ok
    if ok:
        found[item] = p
    else:
        found[item] = wp.vec2d(wp.float64(0.0), wp.float64(0.0))
