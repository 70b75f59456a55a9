"""Triangulation of closed loops in space, without new vertices."""

from typing import no_type_check

import numpy as np
import warp as wp
from jaxtyping import Float, Int32

from ..arrays import launch_chunked

TABLE_EDGES = 100
"""Longest loop that is triangulated by dynamic programming, whose time grows with the cube of the edges."""

_FORBIDDEN = wp.constant(-2)
_NEVER = wp.constant(1.0e30)


def triangulate_loops(
    loops: list[Float[np.ndarray, "_ 3"]],
    outside: list[Float[np.ndarray, "_ 3"]],
    forbidden: list[Int32[np.ndarray, "_ 2"]],
) -> list[Int32[np.ndarray, "_ 3"] | None]:
    """Triangulate each loop with the least bend between neighbouring triangles and, of equals, the least area.

    Dynamic programming over stretches of the loop (Barequet and Sharir 1995) with the weight of Liepa 2003, for loops
    up to `TABLE_EDGES`; the sharpest ear first for longer ones.

    Args:
        loops: Corners of every loop in the order that the triangles shall have along it, metres.
        outside: Unit normals of the surface outside every edge (corner i to i + 1).
        forbidden: Pairs of corners (smaller first) between which no triangle may have a side.

    Returns:
        Corners of the triangles, L - 2 of them; None where the forbidden sides leave no way.
    """
    sizes = np.array([len(loop) for loop in loops], np.int32)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    tables = np.concatenate([[0], np.cumsum(np.where(sizes <= TABLE_EDGES, sizes.astype(np.int64) ** 2, 0))])
    bans = np.concatenate([[0], np.cumsum([len(pairs) for pairs in forbidden])]).astype(np.int32)
    local = [(loop - loop.mean(axis=0)) for loop in loops]

    def array(parts: list[np.ndarray], dtype: object) -> wp.array:
        return wp.array(np.concatenate(parts), dtype=dtype, device="cpu")

    points, normals = (
        array([p.astype(np.float32) for p in local], wp.vec3f),
        array([n.astype(np.float32) for n in outside], wp.vec3f),
    )
    banned = array([*forbidden, np.zeros((1, 2), np.int32)], wp.vec2i)
    bend = wp.zeros(int(tables[-1]) + 1, dtype=wp.float32, device="cpu")
    area = wp.zeros(int(tables[-1]) + 1, dtype=wp.float32, device="cpu")
    middle = wp.zeros(int(tables[-1]) + 1, dtype=wp.int32, device="cpu")
    triangles = wp.full(int(starts[-1]), wp.vec3i(-1, -1, -1), dtype=wp.vec3i, device="cpu")
    stack = wp.zeros(int(starts[-1]) + 2 * len(loops), dtype=wp.vec2i, device="cpu")
    offsets = [wp.array(o.astype(np.int32), dtype=wp.int32, device="cpu") for o in (starts, tables, bans)]
    launch_chunked(
        _triangulate, len(loops), [points, normals, *offsets, banned, bend, area, middle, stack],
        outputs=[triangles], device="cpu",
    )  # fmt: skip
    found = triangles.numpy()
    result: list[np.ndarray | None] = []
    for start, size in zip(starts, sizes, strict=False):
        own = found[start : start + size - 2]
        result.append(None if own[0, 0] < 0 else own)
    return result


@wp.func
@no_type_check
def _normal(a: wp.vec3f, b: wp.vec3f, c: wp.vec3f):
    return wp.cross(b - a, c - a)


@wp.func
@no_type_check
def _bend(n: wp.vec3f, m: wp.vec3f):
    """0 for a flat continuation, 2 for a fold back on itself."""
    product = wp.length(n) * wp.length(m)
    bend = wp.float32(2.0)
    if product > 0.0:
        bend = 1.0 - wp.dot(n, m) / product
    return bend


@wp.func
@no_type_check
def _is_banned(banned: wp.array(dtype=wp.vec2i), start: wp.int32, end: wp.int32, i: wp.int32, k: wp.int32):
    found = wp.bool(False)
    low = wp.min(i, k)
    high = wp.max(i, k)
    for j in range(start, end):
        if banned[j][0] == low and banned[j][1] == high:
            found = True
    return found


@wp.func
@no_type_check
def _fill_tables(
    points: wp.array(dtype=wp.vec3f), normals: wp.array(dtype=wp.vec3f), start: wp.int32, n: wp.int32, table: wp.int32,
    bend: wp.array(dtype=wp.float32), area: wp.array(dtype=wp.float32), middle: wp.array(dtype=wp.int32),
):  # fmt: skip
    """Best triangulation of each stretch i..k of the loop, short stretches first."""
    for i in range(n - 1):
        middle[table + i * n + i + 1] = -1
    for span in range(2, n):
        for i in range(n - span):
            k = i + span
            at = table + i * n + k
            best_bend = wp.float32(_NEVER)
            best_area = wp.float32(_NEVER)
            best = wp.int32(_FORBIDDEN)
            if middle[at] != _FORBIDDEN:
                pi = points[start + i]
                pk = points[start + k]
                for m in range(i + 1, k):
                    left = table + i * n + m
                    right = table + m * n + k
                    if middle[left] != _FORBIDDEN and middle[right] != _FORBIDDEN:
                        pm = points[start + m]
                        own = _normal(pi, pm, pk)
                        across = normals[start + i]
                        if m > i + 1:
                            across = _normal(pi, points[start + middle[left]], pm)
                        worst = wp.max(wp.max(bend[left], bend[right]), _bend(own, across))
                        across = normals[start + m]
                        if k > m + 1:
                            across = _normal(pm, points[start + middle[right]], pk)
                        worst = wp.max(worst, _bend(own, across))
                        if i == 0 and k == n - 1:
                            worst = wp.max(worst, _bend(own, normals[start + k]))
                        whole = area[left] + area[right] + wp.length(own)
                        if worst < best_bend or (worst == best_bend and whole < best_area):
                            best_bend = worst
                            best_area = whole
                            best = m
            bend[at] = best_bend
            area[at] = best_area
            middle[at] = best


@wp.func
@no_type_check
def _read_tables(
    start: wp.int32, n: wp.int32, table: wp.int32, stack_start: wp.int32, middle: wp.array(dtype=wp.int32),
    stack: wp.array(dtype=wp.vec2i), triangles: wp.array(dtype=wp.vec3i),
):  # fmt: skip
    count = wp.int32(0)
    if middle[table + n - 1] >= 0:
        stack[stack_start] = wp.vec2i(0, n - 1)
        depth = wp.int32(1)
        while depth > 0:
            depth -= 1
            stretch = stack[stack_start + depth]
            i = stretch[0]
            k = stretch[1]
            m = middle[table + i * n + k]
            triangles[start + count] = wp.vec3i(i, m, k)
            count += 1
            if m > i + 1:
                stack[stack_start + depth] = wp.vec2i(i, m)
                depth += 1
            if k > m + 1:
                stack[stack_start + depth] = wp.vec2i(m, k)
                depth += 1


@wp.func
@no_type_check
def _clip_ears(
    points: wp.array(dtype=wp.vec3f), start: wp.int32, n: wp.int32, stack_start: wp.int32,
    banned: wp.array(dtype=wp.vec2i), ban: wp.int32, ban_end: wp.int32,
    links: wp.array(dtype=wp.vec2i), triangles: wp.array(dtype=wp.vec3i),
):  # fmt: skip
    """Cut off the corner with the least angle that bulges outwards, again and again."""
    up = wp.vec3f(0.0, 0.0, 0.0)
    for i in range(n):
        up += wp.cross(points[start + i], points[start + (i + 1) % n])
        links[stack_start + i] = wp.vec2i((i + n - 1) % n, (i + 1) % n)
    first = wp.int32(0)
    count = wp.int32(0)
    stuck = wp.bool(False)
    while count < n - 2 and not stuck:
        best = wp.int32(-1)
        least = wp.float32(_NEVER)
        j = first
        for _step in range(n - count):
            around = links[stack_start + j]
            a = points[start + around[0]] - points[start + j]
            b = points[start + around[1]] - points[start + j]
            cost = 1.0 - wp.dot(wp.normalize(a), wp.normalize(b))
            if wp.dot(wp.cross(b, a), up) < 0.0:
                cost = 4.0 - cost
            last = count == n - 3
            if cost < least and (last or not _is_banned(banned, ban, ban_end, around[0], around[1])):
                least = cost
                best = j
            j = around[1]
        stuck = best < 0
        if not stuck:
            around = links[stack_start + best]
            triangles[start + count] = wp.vec3i(around[0], best, around[1])
            count += 1
            links[stack_start + around[0]] = wp.vec2i(links[stack_start + around[0]][0], around[1])
            links[stack_start + around[1]] = wp.vec2i(around[0], links[stack_start + around[1]][1])
            first = around[1]
    if stuck:
        triangles[start] = wp.vec3i(-1, -1, -1)


@wp.kernel(enable_backward=False)
@no_type_check
def _triangulate(
    base: wp.int32, points: wp.array(dtype=wp.vec3f), normals: wp.array(dtype=wp.vec3f),
    starts: wp.array(dtype=wp.int32), tables: wp.array(dtype=wp.int32), bans: wp.array(dtype=wp.int32),
    banned: wp.array(dtype=wp.vec2i), bend: wp.array(dtype=wp.float32), area: wp.array(dtype=wp.float32),
    middle: wp.array(dtype=wp.int32), stack: wp.array(dtype=wp.vec2i), triangles: wp.array(dtype=wp.vec3i),
):  # fmt: skip
    loop = base + wp.tid()
    start = starts[loop]
    n = starts[loop + 1] - start
    table = tables[loop]
    own_stack = start + 2 * loop
    if tables[loop + 1] > table:
        for j in range(bans[loop], bans[loop + 1]):
            middle[table + banned[j][0] * n + banned[j][1]] = _FORBIDDEN
        _fill_tables(points, normals, start, n, table, bend, area, middle)
        _read_tables(start, n, table, own_stack, middle, stack, triangles)
    else:
        _clip_ears(points, start, n, own_stack, banned, bans[loop], bans[loop + 1], stack, triangles)
