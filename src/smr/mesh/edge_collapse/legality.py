"""Which collapses keep the topology and turn no face over."""

from typing import no_type_check

import warp as wp

from .quadric import ZERO
from .state import BORDER, TICK, Surface, after

MAX_TURN = wp.constant(wp.float64(0.04))
"""Square of the cosine of the largest turn of a face's normal in one collapse."""
MIN_QUALITY = wp.constant(wp.float64(0.01 / 12.0))
"""Square of the least 4 sqrt(3) area / sum of squared edges, over 12."""


@wp.func
@no_type_check
def ring_is_sound(m: Surface, v: wp.int32, other: wp.int32, x: wp.vec3d):
    """Whether no face around v, but for those that vanish with `other`, turns over or becomes a sliver."""
    p = m.position[v]
    c = m.first_corner[v]
    sound = wp.bool(True)
    while c >= 0 and sound:
        d = after(c)
        u = m.corner[d]
        w = m.corner[after(d)]
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
def keeps_topology(m: Surface, a: wp.int32, b: wp.int32):
    """Link condition (Dey et al. 1999): a and b share no neighbours but the tips of the faces at their edge."""
    tick = m.state[TICK] + 4
    m.state[TICK] = tick
    shared = wp.int32(0)
    tip0 = wp.int32(-1)
    tip1 = wp.int32(-1)
    c = m.first_corner[a]
    while c >= 0:
        if m.corner[c] == a:
            u = m.corner[after(c)]
            w = m.corner[after(after(c))]
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
            u = m.corner[after(c)]
            w = m.corner[after(after(c))]
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
                u = m.corner[after(c)]
                w = m.corner[after(after(c))]
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
