"""Collapses that stay within a distance of the original surface (after Klein, Liebich, Straßer 1996).

Each original vertex is listed at the vertex that stands for it and is within the bound of one of that one's faces.
"""

from typing import no_type_check

import warp as wp

from .quadric import ZERO
from .state import TICK, Surface, after


@wp.func
@no_type_check
def _square_distance(p: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d):
    """From a point to a triangle, squared (Ericson 2004, section 5.1.5)."""
    ab = b - a
    ac = c - a
    ap = p - a
    d1 = wp.dot(ab, ap)
    d2 = wp.dot(ac, ap)
    d3 = wp.dot(ab, p - b)
    d4 = wp.dot(ac, p - b)
    d5 = wp.dot(ab, p - c)
    d6 = wp.dot(ac, p - c)
    va = d3 * d6 - d5 * d4
    vb = d5 * d2 - d1 * d6
    vc = d1 * d4 - d3 * d2
    nearest = a
    if d1 <= ZERO and d2 <= ZERO:
        nearest = a
    elif d3 >= ZERO and d4 <= d3:
        nearest = b
    elif d6 >= ZERO and d5 <= d6:
        nearest = c
    elif vc <= ZERO and d1 >= ZERO and d3 <= ZERO:
        nearest = a + ab * (d1 / (d1 - d3))
    elif vb <= ZERO and d2 >= ZERO and d6 <= ZERO:
        nearest = a + ac * (d2 / (d2 - d6))
    elif va <= ZERO and d4 - d3 >= ZERO and d5 - d6 >= ZERO:
        nearest = b + (c - b) * ((d4 - d3) / (d4 - d3 + d5 - d6))
    else:
        nearest = a + ab * (vb / (va + vb + vc)) + ac * (vc / (va + vb + vc))
    return wp.length_sq(p - nearest)


@wp.func
@no_type_check
def _place(m: Surface, v: wp.int32, a: wp.int32, b: wp.int32, x: wp.vec3d):
    place = m.position[v]
    if v == a or v == b:  # noqa: SIM109  kernels have no tuples to search
        place = x
    return place


@wp.func
@no_type_check
def _near_star(m: Surface, p: wp.vec3d, v: wp.int32, a: wp.int32, b: wp.int32, x: wp.vec3d, bound: wp.float64):
    """Whether p is within `bound` of the faces that v will have once a and b are at x."""
    near = wp.bool(False)
    c = m.first_corner[v]
    while c >= 0 and not near:
        u = m.corner[after(c)]
        w = m.corner[after(after(c))]
        gone = (v == a or u == a or w == a) and (v == b or u == b or w == b)
        if m.corner[c] == v and not gone:
            pv = _place(m, v, a, b, x)
            pu = _place(m, u, a, b, x)
            pw = _place(m, w, a, b, x)
            near = _square_distance(p, pv, pu, pw) <= bound * bound
        c = m.next_corner[c]
    return near


@wp.func
@no_type_check
def _points_stay_near(m: Surface, v: wp.int32, a: wp.int32, b: wp.int32, x: wp.vec3d, bound: wp.float64):
    near = wp.bool(True)
    point = m.first_point[v]
    while point >= 0 and near:
        p = m.original[point]
        near = _near_star(m, p, v, a, b, x, bound)
        if not near and v == a:
            near = _near_star(m, p, b, a, b, x, bound)
        if not near and v == b:
            near = _near_star(m, p, a, a, b, x, bound)
        point = m.next_point[point]
    return near


@wp.func
@no_type_check
def _nearer_point(m: Surface, v: wp.int32, x: wp.vec3d, best: wp.int32):
    """The nearest to x of the original vertices that v stands for and `best`."""
    nearest = best
    point = m.first_point[v]
    while point >= 0:
        if nearest < 0 or wp.length_sq(m.original[point] - x) < wp.length_sq(m.original[nearest] - x):
            nearest = point
        point = m.next_point[point]
    return nearest


@wp.func
@no_type_check
def _is_near_original(m: Surface, x: wp.vec3d, point: wp.int32, bound: wp.float64):
    """Whether x is within `bound` of the original faces around an original vertex."""
    near = wp.bool(False)
    c = m.original_first[point]
    while c >= 0 and not near:
        pu = m.original[m.original_corner[after(c)]]
        pw = m.original[m.original_corner[after(after(c))]]
        near = _square_distance(x, m.original[point], pu, pw) <= bound * bound
        c = m.original_next[c]
    return near


@wp.func
@no_type_check
def _centres_are_near(m: Surface, v: wp.int32, other: wp.int32, x: wp.vec3d, own: wp.int32, bound: wp.float64):
    """Whether the centres of v's faces, once it is at x, are within `bound` of original faces."""
    near = wp.bool(True)
    c = m.first_corner[v]
    while c >= 0 and near:
        u = m.corner[after(c)]
        w = m.corner[after(after(c))]
        if m.corner[c] == v and u != other and w != other:
            centre = (x + m.position[u] + m.position[w]) / wp.float64(3.0)
            point = _nearer_point(m, v, centre, _nearer_point(m, other, centre, -1))
            point = _nearer_point(m, w, centre, _nearer_point(m, u, centre, point))
            near = _is_near_original(m, centre, point, bound)
        c = m.next_corner[c]
    return near


@wp.func
@no_type_check
def stays_near(m: Surface, a: wp.int32, b: wp.int32, x: wp.vec3d, bound: wp.float64):
    """Whether every original vertex stays within `bound` of a face of the vertex that stands for it (Klein 1996)."""
    own = _nearer_point(m, b, x, _nearer_point(m, a, x, -1))
    near = _is_near_original(m, x, own, bound)
    near = near and _centres_are_near(m, a, b, x, own, bound) and _centres_are_near(m, b, a, x, own, bound)
    near = near and _points_stay_near(m, a, a, b, x, bound) and _points_stay_near(m, b, a, b, x, bound)
    tick = m.state[TICK] + 4
    m.state[TICK] = tick
    for side in range(2):
        v = wp.where(side == 0, a, b)
        c = m.first_corner[v]
        while c >= 0 and near:
            if m.corner[c] == v:
                d = after(c)
                for _step in range(2):
                    u = m.corner[d]
                    if near and u != a and u != b and m.mark[u] != tick:
                        m.mark[u] = tick
                        near = _points_stay_near(m, u, a, b, x, bound)
                    d = after(d)
            c = m.next_corner[c]
    return near


@wp.func
@no_type_check
def inherit_points(m: Surface, a: wp.int32, b: wp.int32):
    """Give a the original vertices that b stands for."""
    last = m.first_point[b]
    while m.next_point[last] >= 0:
        last = m.next_point[last]
    m.next_point[last] = m.first_point[a]
    m.first_point[a] = m.first_point[b]
