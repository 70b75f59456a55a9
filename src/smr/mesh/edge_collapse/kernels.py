"""The queue of edges and the loop that collapses them."""

from typing import no_type_check

import warp as wp

from .bound import inherit_points, stays_near
from .legality import keeps_topology, ring_is_sound
from .quadric import HALF, TWO, ZERO, Quadric, best_place, cost, plane
from .state import (
    BORDER,
    BUCKETS,
    COLLAPSES,
    DEAD,
    EMPTY_QUEUE,
    FACES,
    FREE,
    FULL_QUEUE,
    INTERIOR,
    LOCKED,
    LOWEST,
    REACHED,
    RUNNING,
    STATUS,
    TICK,
    VERTICES,
    WAITING,
    Surface,
    after,
)

BUCKET_SHIFT = wp.constant(15)
DELAY = wp.constant(512)
"""Buckets by which an edge that cannot be collapsed now is put off: a factor of 4 of its cost."""


@wp.func
@no_type_check
def _insert(m: Surface, a: wp.int32, b: wp.int32, bucket: wp.int32):
    slot = m.state[FREE]
    if slot < 0:
        m.state[STATUS] = FULL_QUEUE
    else:
        m.state[FREE] = m.entry[slot][3]
        m.entry[slot] = wp.vec4i(a, b, m.version[a] + m.version[b], m.head[bucket])
        m.head[bucket] = slot
        if bucket < m.state[LOWEST]:
            m.state[LOWEST] = bucket


@wp.func
@no_type_check
def _push(m: Surface, a: wp.int32, b: wp.int32):
    q = m.quadric[a] + m.quadric[b]
    x = best_place(q, m.position[a], m.position[b])
    _insert(m, a, b, wp.cast(wp.float32(cost(q, x)), wp.int32) >> BUCKET_SHIFT)


@wp.func
@no_type_check
def _push_ring(m: Surface, v: wp.int32, only_larger: wp.bool):
    """Queue the edges at v; each once when called for all vertices with `only_larger`."""
    tick = m.state[TICK] + 4
    m.state[TICK] = tick
    c = m.first_corner[v]
    while c >= 0:
        if m.corner[c] == v:
            d = after(c)
            for _side in range(2):
                u = m.corner[d]
                if m.mark[u] != tick and (u > v or not only_larger):
                    m.mark[u] = tick
                    if m.kind[u] != LOCKED and m.kind[v] != LOCKED:
                        _push(m, v, u)
                d = after(d)
        c = m.next_corner[c]


@wp.func
@no_type_check
def _border_plane(a: wp.vec3d, b: wp.vec3d, n: wp.vec3d, weight: wp.float64, noise: wp.float64):
    """Quadric of the plane through a border edge at right angles to its face, whose unit normal is n."""
    outward = wp.cross(b - a, n)
    length = wp.length(outward)
    q = Quadric()
    if length > ZERO:
        q = plane(outward / length, a, weight * length * length, ZERO, noise)
    return q


@wp.func
@no_type_check
def _join(m: Surface, a: wp.int32, b: wp.int32, x: wp.vec3d):
    """Move a to x, give it b's faces, drop the faces that held both."""
    pa = m.position[a]
    pb = m.position[b]
    along = pb - pa
    t = wp.float32(
        wp.clamp(wp.dot(x - pa, along) / wp.max(wp.dot(along, along), wp.float64(1.0e-300)), ZERO, TWO * HALF)
    )
    m.color[a] = m.color[a] * (1.0 - t) + m.color[b] * t
    m.position[a] = x
    m.quadric[a] = m.quadric[a] + m.quadric[b]
    m.kind[a] = wp.max(m.kind[a], m.kind[b])
    m.version[a] = m.version[a] + 1
    m.version[b] = DEAD
    chain = wp.int32(-1)
    for side in range(2):
        v = wp.where(side == 0, b, a)
        c = m.first_corner[v]
        while c >= 0:
            following = m.next_corner[c]
            if m.corner[c] == v:
                d = after(c)
                e = after(d)
                if side == 0 and (m.corner[d] == a or m.corner[e] == a):
                    m.corner[c] = -1
                    m.corner[d] = -1
                    m.corner[e] = -1
                    m.state[FACES] = m.state[FACES] - 1
                else:
                    m.corner[c] = a
                    m.next_corner[c] = chain
                    chain = c
            c = following
    m.first_corner[a] = chain
    m.first_corner[b] = -1
    m.state[VERTICES] = m.state[VERTICES] - 1
    m.state[COLLAPSES] = m.state[COLLAPSES] + 1


@wp.kernel(enable_backward=False)
@no_type_check
def measure(
    base: int,
    corners: wp.array(dtype=wp.int32),
    corner_start: wp.array(dtype=wp.int32),
    corners_at: wp.array(dtype=wp.int32),
    edge_faces: wp.array(dtype=wp.int32),
    position: wp.array(dtype=wp.vec3d),
    noise: wp.float64,
    border_weight: wp.float64,
    kind: wp.array(dtype=wp.int32),
    quadric: wp.array(dtype=Quadric),
):
    """Find borders, and sum the quadrics of the planes around each vertex."""
    v = base + wp.tid()
    p = position[v]
    sum = Quadric()
    kind[v] = INTERIOR
    for i in range(corner_start[v], corner_start[v + 1]):
        c = corners_at[i]
        d = after(c)
        e = after(d)
        pd = position[corners[d]]
        pe = position[corners[e]]
        if edge_faces[c] == 1 or edge_faces[e] == 1:
            kind[v] = wp.max(kind[v], BORDER)
        if edge_faces[c] > 2 or edge_faces[e] > 2:
            kind[v] = LOCKED
        n = wp.cross(pd - p, pe - p)
        double_area = wp.length(n)
        if double_area > ZERO:
            n = n / double_area
            area = double_area * HALF
            sum = sum + plane(n, (p + pd + pe) / wp.float64(3.0), area, area, noise)
            if edge_faces[c] == 1:
                sum = sum + _border_plane(p, pd, n, border_weight, noise)
            if edge_faces[e] == 1:
                sum = sum + _border_plane(pe, p, n, border_weight, noise)
    quadric[v] = sum


@wp.kernel(enable_backward=False)
@no_type_check
def link(m: Surface):
    """List the corners at every vertex."""
    for c in range(m.corner.shape[0]):
        v = m.corner[c]
        m.next_corner[c] = m.first_corner[v]
        m.first_corner[v] = c


@wp.kernel(enable_backward=False)
@no_type_check
def fill_queue(m: Surface):
    """Queue every edge."""
    for i in range(m.head.shape[0]):
        m.head[i] = -1
    for i in range(m.entry.shape[0]):
        m.entry[i] = wp.vec4i(0, 0, 0, i + 1)
    m.entry[m.entry.shape[0] - 1] = wp.vec4i(0, 0, 0, -1)
    m.state[FREE] = 0
    m.state[LOWEST] = BUCKETS
    m.state[STATUS] = RUNNING
    for v in range(m.position.shape[0]):
        if m.version[v] >= 0:
            _push_ring(m, v, True)


@wp.kernel(enable_backward=False)
@no_type_check
def collapse(
    m: Surface, vertices: wp.int32, faces: wp.int32, limit: wp.int32, bound: wp.float64, budget: wp.int32
):  # fmt: skip
    """Collapse the cheapest edges until a count is reached, the queue is empty, or `budget` edges are gone.

    Edges from the bucket `limit` on wait. A `bound` above 0 keeps the original vertices within that distance.
    """
    goal = m.state[COLLAPSES] + budget
    while m.state[STATUS] == RUNNING and m.state[COLLAPSES] < goal:
        bucket = m.state[LOWEST]
        while bucket < BUCKETS and m.head[bucket] < 0:
            bucket += 1
        m.state[LOWEST] = bucket
        if m.state[VERTICES] <= vertices or m.state[FACES] <= faces:
            m.state[STATUS] = REACHED
        elif bucket >= BUCKETS:
            m.state[STATUS] = EMPTY_QUEUE
        elif bucket >= limit:
            m.state[STATUS] = WAITING
        else:
            slot = m.head[bucket]
            item = m.entry[slot]
            m.head[bucket] = item[3]
            m.entry[slot] = wp.vec4i(0, 0, 0, m.state[FREE])
            m.state[FREE] = slot
            a = item[0]
            b = item[1]
            if m.version[a] >= 0 and m.version[b] >= 0 and m.version[a] + m.version[b] == item[2]:
                x = best_place(m.quadric[a] + m.quadric[b], m.position[a], m.position[b])
                if not (keeps_topology(m, a, b) and ring_is_sound(m, a, b, x) and ring_is_sound(m, b, a, x)):
                    if bucket + DELAY < BUCKETS:
                        _insert(m, a, b, bucket + DELAY)
                elif bound <= ZERO or stays_near(m, a, b, x, bound):
                    if bound > ZERO:
                        inherit_points(m, a, b)
                    _join(m, a, b, x)
                    _push_ring(m, a, False)
