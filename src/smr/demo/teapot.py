"""The demo's object: a teapot as a signed distance, and its surface as a triangle mesh."""

from __future__ import annotations

from typing import no_type_check

import numpy as np
import warp as wp
from jaxtyping import Float, Int32

from ..arrays import launch_chunked

LOWER = np.array([-0.175, -0.100, -0.004])
"""Lower corner of the box that the teapot fills, metres; the table's top is z = 0."""
UPPER = np.array([0.180, 0.100, 0.212])


@wp.func
@no_type_check
def smooth_min(a: float, b: float, radius: float):
    """Union of two distances with a fillet of about `radius` (quadratic polynomial)."""
    h = wp.max(radius - wp.abs(a - b), 0.0) / radius
    return wp.min(a, b) - h * h * radius * 0.25


@wp.func
@no_type_check
def _ellipsoid(p: wp.vec3, radii: wp.vec3):
    k0 = wp.length(wp.cw_div(p, radii))
    k1 = wp.length(wp.cw_div(p, wp.cw_mul(radii, radii)))
    return k0 * (k0 - 1.0) / wp.max(k1, 1.0e-6)


@wp.func
@no_type_check
def _ring(radius: float, z: float, ring_radius: float, ring_z: float, thickness: float):
    """A torus about the z axis; `radius` is the point's distance from that axis."""
    return wp.length(wp.vec2(radius - ring_radius, z - ring_z)) - thickness


@wp.func
@no_type_check
def _tapered(p: wp.vec3, a: wp.vec3, b: wp.vec3, radius_a: float, radius_b: float):
    """A segment whose thickness changes linearly from one end to the other."""
    ab = b - a
    t = wp.clamp(wp.dot(p - a, ab) / wp.dot(ab, ab), 0.0, 1.0)
    return wp.length(p - a - t * ab) - wp.lerp(radius_a, radius_b, t)


@wp.func
@no_type_check
def _stroke(x: float, y: float, ax: float, ay: float, bx: float, by: float):
    abx = bx - ax
    aby = by - ay
    t = wp.clamp(((x - ax) * abx + (y - ay) * aby) / (abx * abx + aby * aby), 0.0, 1.0)
    return wp.length(wp.vec2(x - ax - t * abx, y - ay - t * aby))


@wp.func
@no_type_check
def _arc(x: float, y: float, cx: float, cy: float, radius: float, middle: float, half: float):
    """Distance to an arc of a circle about (cx, cy): directions within `half` of the direction `middle`, radians."""
    dx = x - cx
    dy = y - cy
    turned_x = wp.cos(middle) * dx + wp.sin(middle) * dy
    turned_y = wp.abs(wp.cos(middle) * dy - wp.sin(middle) * dx)
    inside = wp.abs(wp.length(wp.vec2(dx, dy)) - radius)
    end = wp.length(wp.vec2(turned_x - radius * wp.cos(half), turned_y - radius * wp.sin(half)))
    if wp.atan2(turned_y, turned_x) <= half:
        return inside
    return end


@wp.func
@no_type_check
def lettering(x: float, y: float):
    """Distance to the middle line of the letters `smr`; their x height is 2, the word is centred."""
    s = wp.min(_arc(x, y, -2.75, 0.5, 0.5, 2.36, 2.36), _arc(x, y, -2.75, -0.5, 0.5, -0.785, 2.36))
    m = wp.min(_stroke(x, y, -1.5, -1.0, -1.5, 1.0), _arc(x, y, -0.9, 0.4, 0.6, 1.5708, 1.5708))
    m = wp.min(m, wp.min(_stroke(x, y, -0.3, -1.0, -0.3, 0.4), _arc(x, y, 0.3, 0.4, 0.6, 1.5708, 1.5708)))
    m = wp.min(m, _stroke(x, y, 0.9, -1.0, 0.9, 0.4))
    r = wp.min(_stroke(x, y, 1.9, -1.0, 1.9, 1.0), _arc(x, y, 2.6, 0.3, 0.7, 1.9, 1.2))
    return wp.min(s, wp.min(m, r))


@wp.func
@no_type_check
def letter_distance(p: wp.vec3):
    """Distance in metres to the lettering on the belly, along the surface; it is on both broad sides."""
    angle = wp.atan2(p[0], wp.abs(p[1]))  # 0 in the middle of either side
    side = -wp.sign(p[1])
    size = 0.0125
    return size * lettering(side * angle * 0.092 / size, (p[2] - 0.079) / size)


@wp.func
@no_type_check
def bead_distance(p: wp.vec3):
    """Signed distance to the nearest of the twenty beads around the shoulder."""
    radius = wp.length(wp.vec2(p[0], p[1]))
    angle = wp.atan2(p[1], p[0])
    sector = 2.0 * wp.pi / 20.0
    folded = angle - sector * wp.round(angle / sector)
    return wp.length(wp.vec3(radius * wp.cos(folded) - 0.0765, radius * wp.sin(folded), p[2] - 0.1265)) - 0.0056


@wp.func
@no_type_check
def distance(p: wp.vec3):
    """Signed distance of a point to the teapot, metres; a close bound away from the surface."""
    radius = wp.length(wp.vec2(p[0], p[1]))
    angle = wp.atan2(p[1], p[0])
    z = p[2]

    # Belly: lobes below, the lettering and a wavy line cut into it.
    lobes = wp.smoothstep(0.062, 0.02, z) * 0.0022 * wp.abs(wp.cos(9.0 * angle))
    body = _ellipsoid(p - wp.vec3(0.0, 0.0, 0.081), wp.vec3(0.095, 0.095, 0.072)) - lobes
    body += 0.0011 * wp.smoothstep(0.0030, 0.0016, letter_distance(p))
    wave = wp.abs(z - 0.1105 - 0.0022 * wp.sin(16.0 * angle))
    body += 0.0009 * wp.smoothstep(0.0022, 0.0008, wave)
    foot = wp.max(radius - 0.058 - 0.006 * wp.smoothstep(0.016, 0.0, z), z - 0.022)
    body = smooth_min(body, foot, 0.010)

    # Shoulder ring, a ring of beads, lid and knob.
    rings = wp.min(_ring(radius, z, 0.056, 0.1415, 0.0045), _ring(radius, z, 0.0155, 0.1715, 0.0030))
    body = smooth_min(body, rings, 0.003)
    body = smooth_min(body, bead_distance(p), 0.0015)
    lid = _ellipsoid(p - wp.vec3(0.0, 0.0, 0.141), wp.vec3(0.051, 0.051, 0.029))
    lid -= 0.0010 * wp.cos(14.0 * angle) * wp.smoothstep(0.012, 0.03, radius)
    body = smooth_min(body, lid, 0.002)
    body = smooth_min(body, wp.max(radius - 0.009, wp.abs(z - 0.172) - 0.012), 0.004)
    body = smooth_min(body, wp.length(p - wp.vec3(0.0, 0.0, 0.191)) - 0.0150, 0.005)

    # Spout, hollow at its end; handle.
    spout = _tapered(p, wp.vec3(0.055, 0.0, 0.055), wp.vec3(0.115, 0.0, 0.082), 0.030, 0.0185)
    spout = smooth_min(
        spout, _tapered(p, wp.vec3(0.115, 0.0, 0.082), wp.vec3(0.140, 0.0, 0.122), 0.0185, 0.0125), 0.016
    )
    spout = smooth_min(
        spout, _tapered(p, wp.vec3(0.140, 0.0, 0.122), wp.vec3(0.156, 0.0, 0.150), 0.0125, 0.0120), 0.010
    )
    pot = smooth_min(body, spout, 0.014)
    pot = -smooth_min(-pot, _tapered(p, wp.vec3(0.149, 0.0, 0.138), wp.vec3(0.166, 0.0, 0.168), 0.0070, 0.0100), 0.003)
    arc = wp.length(wp.vec2((p[0] + 0.104) / 0.052, (p[2] - 0.088) / 0.046)) - 1.0
    handle = wp.length(wp.vec2(arc * 0.048, p[1])) - (
        0.0085 + 0.0009 * wp.sin(wp.atan2(z - 0.088, p[0] + 0.104) * 26.0)
    )
    pot = smooth_min(pot, handle, 0.012)
    return wp.max(pot, -0.0015 - z)


@wp.func
@no_type_check
def gradient(p: wp.vec3):
    """Direction outwards (central differences), unit length."""
    e = 0.0003
    g = wp.vec3(
        distance(p + wp.vec3(e, 0.0, 0.0)) - distance(p - wp.vec3(e, 0.0, 0.0)),
        distance(p + wp.vec3(0.0, e, 0.0)) - distance(p - wp.vec3(0.0, e, 0.0)),
        distance(p + wp.vec3(0.0, 0.0, e)) - distance(p - wp.vec3(0.0, 0.0, e)),
    )
    return wp.normalize(g)


@wp.kernel(enable_backward=False)
@no_type_check
def _sample(base: int, lower: wp.vec3, step: float, ny: int, nz: int, field: wp.array(dtype=float)):
    column = base + wp.tid()
    i = column // ny
    j = column % ny
    for k in range(nz):
        field[column * nz + k] = distance(lower + step * wp.vec3(float(i), float(j), float(k)))


@wp.kernel(enable_backward=False)
@no_type_check
def _settle(base: int, points: wp.array(dtype=wp.vec3), settled: wp.array(dtype=wp.vec3)):
    i = base + wp.tid()
    p = points[i]
    for _step in range(3):
        p -= wp.clamp(distance(p), -0.0006, 0.0006) * gradient(p)
    settled[i] = p


def teapot_surface(step: float, device: str) -> tuple[Float[np.ndarray, "V 3"], Int32[np.ndarray, "F 3"]]:
    """A closed triangle mesh of the teapot, its edges about `step` metres long.

    Every edge belongs to two faces, but for some tens where the surface touches itself and four meet.
    """
    counts = np.ceil((UPPER - LOWER) / step).astype(int) + 1
    field = wp.empty(int(np.prod(counts)), dtype=float, device=device)
    lower = wp.vec3(*LOWER)
    columns = int(counts[0] * counts[1])
    launch_chunked(_sample, columns, [lower, step, int(counts[1]), int(counts[2])], outputs=[field], device=device)
    vertices, faces = surface_net(field.numpy().reshape(counts), LOWER, step)
    settled = wp.empty(len(vertices), dtype=wp.vec3, device=device)
    points = wp.array(vertices, dtype=wp.vec3, device=device)
    launch_chunked(_settle, len(vertices), [points], outputs=[settled], device=device)
    return settled.numpy(), faces


def surface_net(
    field: Float[np.ndarray, "x y z"], lower: Float[np.ndarray, "3"], step: float
) -> tuple[Float[np.ndarray, "V 3"], Int32[np.ndarray, "F 3"]]:
    """Mesh where a sampled field changes sign: a vertex a cell, a quad a crossed edge (Gibson 1998)."""
    inside = field < 0
    cells = np.zeros(np.array(field.shape) - 1, dtype=np.int8)
    for corner in np.ndindex(2, 2, 2):
        cells += inside[tuple(slice(c, c + n) for c, n in zip(corner, cells.shape, strict=True))]
    active = np.argwhere((cells > 0) & (cells < 8))
    number = np.full(cells.shape, -1, np.int32)
    number[tuple(active.T)] = np.arange(len(active), dtype=np.int32)

    total = np.zeros((len(active), 3))
    count = np.zeros((len(active), 1))
    quads = []
    for axis in range(3):
        one, two = (axis + 1) % 3, (axis + 2) % 3
        unit = np.eye(3, dtype=int)
        for da, db in np.ndindex(2, 2):  # the mean of the crossings on the cell's twelve edges
            start = active + da * unit[one] + db * unit[two]
            f0, f1 = field[tuple(start.T)], field[tuple((start + unit[axis]).T)]
            crossed = (f0 < 0) != (f1 < 0)
            along = np.where(crossed, f0 / np.where(crossed, f0 - f1, 1.0), 0.0)
            total += np.where(crossed[:, None], start - active + along[:, None] * unit[axis], 0.0)
            count += crossed[:, None]
        here = np.take(inside, range(field.shape[axis] - 1), axis)
        there = np.take(inside, range(1, field.shape[axis]), axis)
        edges = np.argwhere(here != there)
        leaves = here[tuple(edges.T)]
        ring = [number[tuple((edges - a * unit[one] - b * unit[two]).T)] for a, b in ((0, 0), (1, 0), (1, 1), (0, 1))]
        quad = np.stack(ring, 1)
        quads.append(np.where(leaves[:, None], quad, quad[:, ::-1]))
    quad = np.concatenate(quads)
    vertices = lower + step * (active + total / count)
    return vertices, np.concatenate([quad[:, [0, 1, 2]], quad[:, [0, 2, 3]]]).astype(np.int32)
