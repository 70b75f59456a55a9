"""Edge collapse by quadric error as one sequential Warp kernel. Used by `simplify`; not public.

A launch with one item runs as plain serial code, so this is the place for linked lists and a queue. Faces around a
vertex are a linked list of corners, which two vertices' collapse joins in constant time. The queue has 256 buckets for
each power of two of the cost, which is a heap in all but name: the order differs from a true heap's by 0.4 % of the
cost at most, and both push and pop take constant time. An entry is out of date when its vertices' versions moved on.
"""
# mypy: disable-error-code="valid-type"

from typing import no_type_check

import warp as wp

Quadric = wp.types.vector(length=11, dtype=wp.float64)
"""Symmetric 3×3 matrix A (six entries), vector b, constant c of x·Ax + 2 b·x + c, and the area that it stands for."""

BUCKETS = wp.constant(65536)
BUCKET_SHIFT = wp.constant(15)

DELAY = wp.constant(512)
"""Buckets by which an edge that cannot be collapsed now is put off: a factor of 4 of its cost."""

# Slots of `Surface.state`.
VERTICES = wp.constant(0)
FACES = wp.constant(1)
LOWEST = wp.constant(2)
FREE = wp.constant(3)
TICK = wp.constant(4)
STATUS = wp.constant(5)
COLLAPSES = wp.constant(6)

# Values of `state[STATUS]`.
RUNNING = wp.constant(0)
REACHED = wp.constant(1)
EMPTY_QUEUE = wp.constant(2)
FULL_QUEUE = wp.constant(3)

# Values of `kind`.
INTERIOR = wp.constant(0)
BORDER = wp.constant(1)
LOCKED = wp.constant(2)

ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))
TWO = wp.constant(wp.float64(2.0))
MAX_TURN = wp.constant(wp.float64(0.04))
"""Square of the cosine of the largest turn of a face's normal in one collapse."""
MIN_QUALITY = wp.constant(wp.float64(0.01 / 12.0))
"""Square of the least 4 sqrt(3) area / sum of squared edges, over 12."""


@wp.struct
class Surface:
    """A mesh under collapse."""

    position: wp.array(dtype=wp.vec3d)
    color: wp.array(dtype=wp.vec3f)
    quadric: wp.array(dtype=Quadric)
    version: wp.array(dtype=wp.int32)
    kind: wp.array(dtype=wp.int32)
    first_corner: wp.array(dtype=wp.int32)
    next_corner: wp.array(dtype=wp.int32)
    corner: wp.array(dtype=wp.int32)
    mark: wp.array(dtype=wp.int32)
    entry: wp.array(dtype=wp.vec4i)
    head: wp.array(dtype=wp.int32)
    state: wp.array(dtype=wp.int32)


@wp.func
@no_type_check
def _after(c: wp.int32):
    return wp.where(c % 3 == 2, c - 2, c + 1)


@wp.func
@no_type_check
def _plane(n: wp.vec3d, p: wp.vec3d, weight: wp.float64, area: wp.float64, noise: wp.float64):
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
def _cost(q: Quadric, x: wp.vec3d):
    b = wp.vec3d(q[6], q[7], q[8])
    return wp.max(wp.dot(x, _times(q, x) + b * TWO) + q[9], ZERO)


@wp.func
@no_type_check
def _best_place(q: Quadric, a: wp.vec3d, b: wp.vec3d):
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
        least = _cost(q, middle)
        if _cost(q, a) < least:
            least = _cost(q, a)
            best = a
        if _cost(q, b) < least:
            best = b
    return best


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
    x = _best_place(q, m.position[a], m.position[b])
    _insert(m, a, b, wp.cast(wp.float32(_cost(q, x)), wp.int32) >> BUCKET_SHIFT)


@wp.func
@no_type_check
def _ring_is_sound(m: Surface, v: wp.int32, other: wp.int32, x: wp.vec3d):
    """Whether no face around v, but for those that vanish with `other`, turns over or becomes a sliver."""
    p = m.position[v]
    c = m.first_corner[v]
    sound = wp.bool(True)
    while c >= 0 and sound:
        d = _after(c)
        u = m.corner[d]
        w = m.corner[_after(d)]
        if m.corner[c] == v and u != other and w != other:
            pu = m.position[u]
            pw = m.position[w]
            old = wp.cross(pu - p, pw - p)
            new = wp.cross(pu - x, pw - x)
            turn = wp.dot(old, new)
            old2 = wp.dot(old, old)
            new2 = wp.dot(new, new)
            side = wp.dot(pw - pu, pw - pu)
            spread = wp.dot(pu - x, pu - x) + wp.dot(pw - x, pw - x) + side
            before = wp.dot(pu - p, pu - p) + wp.dot(pw - p, pw - p) + side
            turns = old2 > ZERO and (turn <= ZERO or turn * turn < MAX_TURN * old2 * new2)
            thins = new2 < MIN_QUALITY * spread * spread and old2 >= MIN_QUALITY * before * before
            sound = not turns and not thins
        c = m.next_corner[c]
    return sound


@wp.func
@no_type_check
def _keeps_topology(m: Surface, a: wp.int32, b: wp.int32):
    """Link condition (Dey et al. 1999): a and b share no neighbours but the tips of the faces at their edge."""
    tick = m.state[TICK] + 4
    m.state[TICK] = tick
    shared = wp.int32(0)
    tip0 = wp.int32(-1)
    tip1 = wp.int32(-1)
    c = m.first_corner[a]
    while c >= 0:
        if m.corner[c] == a:
            u = m.corner[_after(c)]
            w = m.corner[_after(_after(c))]
            if u == b or w == b:
                tip1 = tip0
                tip0 = wp.where(u == b, w, u)
                shared += 1
            m.mark[u] = tick
            m.mark[w] = tick
        c = m.next_corner[c]
    common = wp.int32(0)
    tip_faces = wp.int32(0)  # faces of a, and then of b, at the only tip of a border edge, or at both tips of another
    c = m.first_corner[b]
    while c >= 0:
        if m.corner[c] == b:
            u = m.corner[_after(c)]
            w = m.corner[_after(_after(c))]
            if m.mark[u] == tick:
                common += 1
                m.mark[u] = tick + 1
            if m.mark[w] == tick:
                common += 1
                m.mark[w] = tick + 1
            if shared == 1:
                tip_faces += wp.where(u == tip0 or w == tip0, 1, 0)
            elif (u == tip0 and w == tip1) or (u == tip1 and w == tip0):
                tip_faces += 1
        c = m.next_corner[c]
    sound = common == shared and shared >= 1 and shared <= 2
    if sound and shared == 2 and m.kind[a] == BORDER and m.kind[b] == BORDER:
        sound = False
    if sound and (shared == 1 or tip_faces > 0):
        c = m.first_corner[a]
        own = wp.int32(0)
        while c >= 0:
            if m.corner[c] == a:
                u = m.corner[_after(c)]
                w = m.corner[_after(_after(c))]
                if shared == 1:
                    own += wp.where(u == tip0 or w == tip0, 1, 0)
                elif (u == tip0 and w == tip1) or (u == tip1 and w == tip0):
                    own += 1
            c = m.next_corner[c]
        if shared == 1 and own == 1 and tip_faces == 1:
            sound = False  # a triangle on its own
        if shared == 2 and own > 0:
            sound = False  # a tetrahedron
    return sound


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
    m.version[b] = -(1 << 30)
    chain = wp.int32(-1)
    for side in range(2):
        v = wp.where(side == 0, b, a)
        c = m.first_corner[v]
        while c >= 0:
            following = m.next_corner[c]
            if m.corner[c] == v:
                d = _after(c)
                e = _after(d)
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


@wp.func
@no_type_check
def _push_ring(m: Surface, v: wp.int32, only_larger: wp.bool):
    """Queue the edges at v; each once when called for all vertices with `only_larger`."""
    tick = m.state[TICK] + 4
    m.state[TICK] = tick
    c = m.first_corner[v]
    while c >= 0:
        if m.corner[c] == v:
            d = _after(c)
            for _side in range(2):
                u = m.corner[d]
                if m.mark[u] != tick and (u > v or not only_larger):
                    m.mark[u] = tick
                    if m.kind[u] != LOCKED and m.kind[v] != LOCKED:
                        _push(m, v, u)
                d = _after(d)
        c = m.next_corner[c]


@wp.kernel(enable_backward=False)
@no_type_check
def start(m: Surface, noise: wp.float64, border_weight: wp.float64):
    """Link the corners, find borders, sum the quadrics of the planes around every vertex."""
    for c in range(m.corner.shape[0]):
        v = m.corner[c]
        m.next_corner[c] = m.first_corner[v]
        m.first_corner[v] = c
    for v in range(m.position.shape[0]):
        c = m.first_corner[v]
        while c >= 0:  # marks count the faces that a neighbour shares with v: 8 v + count
            d = _after(c)
            e = _after(d)
            m.mark[m.corner[d]] = wp.max(m.mark[m.corner[d]], 8 * v) + 1
            m.mark[m.corner[e]] = wp.max(m.mark[m.corner[e]], 8 * v) + 1
            c = m.next_corner[c]
        c = m.first_corner[v]
        while c >= 0:
            d = _after(c)
            e = _after(d)
            p = m.position[v]
            pd = m.position[m.corner[d]]
            n = wp.cross(pd - p, m.position[m.corner[e]] - p)
            double_area = wp.length(n)
            if double_area > ZERO:
                n = n / double_area
                if c % 3 == 0:
                    q = _plane(
                        n,
                        (p + pd + m.position[m.corner[e]]) / wp.float64(3.0),
                        double_area * HALF,
                        double_area * HALF,
                        noise,
                    )
                    m.quadric[v] = m.quadric[v] + q
                    m.quadric[m.corner[d]] = m.quadric[m.corner[d]] + q
                    m.quadric[m.corner[e]] = m.quadric[m.corner[e]] + q
            single = m.mark[m.corner[d]] == 8 * v + 1
            if single or m.mark[m.corner[e]] == 8 * v + 1:
                m.kind[v] = wp.max(m.kind[v], BORDER)
            if m.mark[m.corner[d]] > 8 * v + 2:
                m.kind[v] = LOCKED
            if single and double_area > ZERO:
                outward = wp.cross(pd - p, n)
                length = wp.length(outward)
                if length > ZERO:
                    q = _plane(outward / length, p, border_weight * length * length, ZERO, noise)
                    m.quadric[v] = m.quadric[v] + q
                    m.quadric[m.corner[d]] = m.quadric[m.corner[d]] + q
            c = m.next_corner[c]
    m.state[TICK] = 8 * m.position.shape[0]


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
def collapse(m: Surface, vertices: wp.int32, faces: wp.int32, budget: wp.int32):
    """Collapse the cheapest edges until a count is reached, the queue is empty, or `budget` edges are gone."""
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
        else:
            slot = m.head[bucket]
            item = m.entry[slot]
            m.head[bucket] = item[3]
            m.entry[slot] = wp.vec4i(0, 0, 0, m.state[FREE])
            m.state[FREE] = slot
            a = item[0]
            b = item[1]
            if m.version[a] >= 0 and m.version[b] >= 0 and m.version[a] + m.version[b] == item[2]:
                x = _best_place(m.quadric[a] + m.quadric[b], m.position[a], m.position[b])
                if _keeps_topology(m, a, b) and _ring_is_sound(m, a, b, x) and _ring_is_sound(m, b, a, x):
                    _join(m, a, b, x)
                    _push_ring(m, a, False)
                elif bucket + DELAY < BUCKETS:
                    m.state[7] = m.state[7] + 1
                    _insert(m, a, b, bucket + DELAY)
