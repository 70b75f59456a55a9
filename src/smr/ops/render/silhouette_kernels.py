"""Where silhouettes pass between neighbouring pixels' centres, and how that moves with their vertices.

A pair is a pixel and its neighbour on the right (direction 0) or below (direction 1). Its blend is positive where the
neighbour takes that much of the pixel's colour, negative where the pixel takes of the neighbour's.
"""

from __future__ import annotations

from typing import Any, no_type_check

import warp as wp

from ...render.surface import offset
from ...render.triangles import View
from ..exact_sums import contribute
from ..launches import launchers
from .surface_kernels import corner_gradient, face_corners, matrix_of

MOST_STEPS: Any = wp.constant(32)
"""Faces that are walked over between two pixels."""


@wp.func
@no_type_check
def _other_side(ax: Any, ay: Any, aw: Any, bx: Any, by: Any, bw: Any, cx: Any, cy: Any, cw: Any):
    """Positive or negative: on which side of the edge a b the point c is in the image."""
    volume = cw * (ax * by - ay * bx) + aw * (bx * cy - by * cx) + bw * (cx * ay - cy * ax)
    if cw < type(cw)(0.0):
        return -volume
    return volume


@wp.func
@no_type_check
def _divisor(corner: Any, perspective: int):
    if perspective != 0:
        return corner[2]
    return type(corner[2])(1.0)


@wp.func
@no_type_check
def _where(ax: Any, ay: Any, aw: Any, bx: Any, by: Any, bw: Any, direction: int, step: Any):
    """Whether the line through a pixel's centre crosses the edge a b, and where, as a part of the step along it."""
    zero = type(ax)(0.0)
    span = step * (aw * by - bw * ay)
    crosses = (ay <= zero) != (by <= zero)
    if direction == 1:
        span = step * (ax * bw - aw * bx)
        crosses = (ax <= zero) != (bx <= zero)
    if not crosses or aw <= zero or bw <= zero or span == zero:
        return False, zero
    return True, (ax * by - ay * bx) / span


@wp.func
@no_type_check
def _is_steep(ax: Any, ay: Any, aw: Any, bx: Any, by: Any, bw: Any, direction: int):
    """Whether an edge is one for steps in this direction: each edge moves pixels along x or along y, not both."""
    wide = wp.abs(bx * aw - ax * bw)
    high = wp.abs(by * aw - ay * bw)
    if direction == 1:
        return wide > high
    return high >= wide


@wp.func
@no_type_check
def _find_crossing(
    view: View,
    k: wp.array(dtype=Any),
    vertices: wp.array(dtype=Any),
    vertex_count: int,
    faces: wp.array(dtype=wp.vec3i),
    neighbors: wp.array(dtype=wp.vec3i),
    per_image: int,
    start: int,
    goal: int,
    image: int,
    px: Any,
    py: Any,
    direction: int,
    step: Any,
):
    """Walk over the surface from a face in its pixel towards the next pixel until a silhouette edge, if there is one.

    Returns 3 times the face plus the edge (-1, none), and where the edge is, as a part of the step.
    """
    zero = type(px)(0.0)
    first = matrix_of(k, image)
    low = image * vertex_count
    face = start
    entry = wp.int32(-1)
    walked = wp.int32(0)
    while walked < MOST_STEPS and face != goal and face >= 0 and face < wp.abs(per_image):
        walked += 1
        corners = face_corners(faces, face, image, per_image, vertex_count)
        for corner in range(3):
            if corners[corner] < low or corners[corner] >= low + vertex_count:
                return -1, zero
        leaves = wp.int32(-1)
        where = zero
        for edge in range(3):
            va = vertices[corners[(edge + 1) % 3]]
            vb = vertices[corners[(edge + 2) % 3]]
            ax, ay = offset(va, k, first, px, py, view.perspective)
            bx, by = offset(vb, k, first, px, py, view.perspective)
            aw = _divisor(va, view.perspective)
            bw = _divisor(vb, view.perspective)
            crosses, here = _where(ax, ay, aw, bx, by, bw, direction, step)
            if crosses and edge != entry and (leaves < 0 or here > where):
                leaves = edge
                where = here
        if leaves < 0 or where > type(px)(1.0):
            return -1, zero
        va = vertices[corners[(leaves + 1) % 3]]
        vb = vertices[corners[(leaves + 2) % 3]]
        vc = vertices[corners[leaves]]
        ax, ay = offset(va, k, first, px, py, view.perspective)
        bx, by = offset(vb, k, first, px, py, view.perspective)
        cx, cy = offset(vc, k, first, px, py, view.perspective)
        aw = _divisor(va, view.perspective)
        bw = _divisor(vb, view.perspective)
        row = face
        if per_image < 0:
            row = face - image * per_image
        next = neighbors[row][leaves]
        silhouette = next < 0 or next >= 3 * wp.abs(per_image)
        if not silhouette:
            beyond = face_corners(faces, next / 3, image, per_image, vertex_count)[next % 3]
            if beyond < low or beyond >= low + vertex_count:
                return -1, zero
            vo = vertices[beyond]
            ox, oy = offset(vo, k, first, px, py, view.perspective)
            c_side = _other_side(ax, ay, aw, bx, by, bw, cx, cy, _divisor(vc, view.perspective))
            o_side = _other_side(ax, ay, aw, bx, by, bw, ox, oy, _divisor(vo, view.perspective))
            silhouette = (c_side > zero) == (o_side > zero)
        if silhouette:
            if where >= zero and _is_steep(ax, ay, aw, bx, by, bw, direction):
                return 3 * face + leaves, where
            return -1, zero
        face = next / 3
        entry = next % 3
    return -1, zero


@wp.kernel(enable_backward=False)
@no_type_check
def _find_blends(
    base: int,
    view: View,
    k: wp.array(dtype=Any),
    vertices: wp.array(dtype=Any),
    vertex_count: int,
    faces: wp.array(dtype=wp.vec3i),
    neighbors: wp.array(dtype=wp.vec3i),
    per_image: int,
    layers: int,
    pix_to_face: wp.array(dtype=wp.int64),
    zbuf: wp.array(dtype=Any),
    blends: wp.array(dtype=Any),
    edges: wp.array(dtype=int),
):
    """`edges` becomes 1 + 3 times a face + its edge; negative where the neighbour sees that surface; 0 for none."""
    item = base + wp.tid()
    direction = item % 2
    pixel = item / 2
    zero = type(zbuf[0])(0.0)
    blends[item] = zero
    edges[item] = 0
    per = view.width * view.height
    image = pixel / per
    x = pixel % per % view.width
    y = pixel % per / view.width
    neighbour = pixel + 1
    if direction == 1:
        neighbour = pixel + view.width
    if (direction == 0 and x + 1 >= view.width) or (direction == 1 and y + 1 >= view.height):
        return
    face = wp.int32(pix_to_face[pixel * layers])
    other = wp.int32(pix_to_face[neighbour * layers])
    if face == other:
        return
    px = type(zero)(x) + type(zero)(0.5)
    py = type(zero)(y) + type(zero)(0.5)
    step = type(zero)(1.0)
    sign = wp.int32(1)
    nearer = face
    farther = other
    if face < 0 or (other >= 0 and zbuf[neighbour * layers] < zbuf[pixel * layers]):
        nearer = other
        farther = face
        sign = -1
        step = -step
        if direction == 0:
            px += type(zero)(1.0)
        else:
            py += type(zero)(1.0)
    found, where = _find_crossing(
        view, k, vertices, vertex_count, faces, neighbors, per_image, nearer, farther, image, px, py, direction, step
    )
    if found >= 0:
        blends[item] = step * (where - type(zero)(0.5))
        edges[item] = sign * (1 + found)


@wp.kernel(enable_backward=False)
@no_type_check
def _blend(
    base: int,
    width: int,
    height: int,
    channels: int,
    transposed: int,
    blends: wp.array(dtype=Any),
    color: wp.array(dtype=Any),
    result: wp.array(dtype=Any),
):
    """Each pixel takes of its four neighbours; transposed, gradients go back the same ways."""
    item = base + wp.tid()
    pixel = item / channels
    x = pixel % width
    y = pixel / width % height
    here = color[item]
    value = here
    if x + 1 < width:
        value += _share(-blends[2 * pixel], transposed, here, color[item + channels])
    if x > 0:
        value += _share(blends[2 * pixel - 2], transposed, here, color[item - channels])
    if y + 1 < height:
        value += _share(-blends[2 * pixel + 1], transposed, here, color[item + width * channels])
    if y > 0:
        value += _share(blends[2 * (pixel - width) + 1], transposed, here, color[item - width * channels])
    result[item] = value


@wp.func
@no_type_check
def _share(blend: Any, transposed: int, here: Any, there: Any):
    """What a pixel gains from a neighbour of which it takes `blend` (which takes of it, where that is negative)."""
    zero = type(blend)(0.0)
    taken = wp.max(blend, zero)
    if transposed != 0:
        return wp.max(-blend, zero) * there - taken * here
    return taken * (there - here)


@wp.func
@no_type_check
def _edge_gradient(ax: Any, ay: Any, aw: Any, bx: Any, by: Any, bw: Any, direction: int, step: Any, g: Any):
    """From the gradient of where an edge is (see `_where`) to those of its ends' offsets and divisors."""
    span = step * (aw * by - bw * ay)
    if direction == 1:
        span = step * (ax * bw - aw * bx)
    de = g / span
    ds = -de * (ax * by - ay * bx) / span * step
    if direction == 1:
        return de * by + ds * bw, -de * bx, -ds * bx, -de * ay - ds * aw, de * ax, ds * ax
    return de * by, -de * bx - ds * bw, ds * by, -de * ay, de * ax + ds * aw, -ds * ay


@wp.kernel(enable_backward=False)
@no_type_check
def _blends_to_vertices(
    base: int,
    adding: int,
    view: View,
    k: wp.array(dtype=Any),
    vertices: wp.array(dtype=Any),
    vertex_count: int,
    faces: wp.array(dtype=wp.vec3i),
    per_image: int,
    blends: wp.array(dtype=Any),
    edges: wp.array(dtype=int),
    channels: int,
    color: wp.array(dtype=Any),
    grad: wp.array(dtype=Any),
    count_bits: int,
    bounds: wp.array(dtype=int),
    sums: wp.array(dtype=wp.int64),
):
    item = base + wp.tid()
    mark = edges[item]
    if mark == 0:
        return
    found = wp.abs(mark) - 1
    direction = item % 2
    pixel = item / 2
    neighbour = pixel + 1
    if direction == 1:
        neighbour = pixel + view.width
    # the gradient of where the edge is: it moves colour of the face's pixel over the other one
    zero = type(k[0])(0.0)
    one = type(k[0])(1.0)
    inner = pixel
    outer = neighbour
    step = one
    where = blends[item] + type(zero)(0.5)
    if mark < 0:
        inner = neighbour
        outer = pixel
        step = -one
        where = type(zero)(0.5) - blends[item]
    taker = inner
    if where >= type(zero)(0.5):
        taker = outer
    g = zero
    for c in range(channels):
        g += grad[taker * channels + c] * (color[inner * channels + c] - color[outer * channels + c])
    if g == zero:
        return
    per = view.width * view.height
    image = pixel / per
    px = type(zero)(inner % per % view.width) + type(zero)(0.5)
    py = type(zero)(inner % per / view.width) + type(zero)(0.5)
    corners = face_corners(faces, found / 3, image, per_image, vertex_count)
    edge = found % 3
    a = corners[(edge + 1) % 3]
    b = corners[(edge + 2) % 3]
    first = matrix_of(k, image)
    ax, ay = offset(vertices[a], k, first, px, py, view.perspective)
    bx, by = offset(vertices[b], k, first, px, py, view.perspective)
    aw = _divisor(vertices[a], view.perspective)
    bw = _divisor(vertices[b], view.perspective)
    dax, day, daw, dbx, dby, dbw = _edge_gradient(ax, ay, aw, bx, by, bw, direction, step, g)
    if view.perspective == 0:
        daw = zero
        dbw = zero
    ga = corner_gradient(dax, day, daw, k, first, px, py, view.perspective)
    gb = corner_gradient(dbx, dby, dbw, k, first, px, py, view.perspective)
    for axis in range(3):
        contribute(adding, ga[axis], a, axis, 3, count_bits, bounds, sums)
        contribute(adding, gb[axis], b, axis, 3, count_bits, bounds, sums)


FIND_BLENDS = launchers(_find_blends, scalars=("k", "zbuf", "blends"), vectors=("vertices",))
BLEND = launchers(_blend, scalars=("blends", "color", "result"))
BLENDS_TO_VERTICES = launchers(
    _blends_to_vertices, scalars=("k", "blends", "color", "grad"), vectors=("vertices",), disjoint=False
)
