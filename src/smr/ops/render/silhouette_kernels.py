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
def _find_crossing(
    view: View,
    k: wp.array(dtype=Any),
    vertices: wp.array(dtype=Any),
    vertex_count: int,
    faces: wp.array(dtype=wp.vec3i),
    opposites: wp.array(dtype=wp.vec3i),
    per_image: int,
    face: int,
    image: int,
    px: Any,
    py: Any,
    direction: int,
    step: Any,
):
    """The first silhouette edge of a face between its pixel and the one at `step` in a direction.

    Returns the edge (0 to 2; -1, none) and where it is, as a part of the step.
    """
    zero = type(px)(0.0)
    if face >= wp.abs(per_image):
        return -1, zero
    first = matrix_of(k, image)
    corners = face_corners(faces, face, image, per_image, vertex_count)
    low = image * vertex_count
    for corner in range(3):
        if corners[corner] < low or corners[corner] >= low + vertex_count:
            return -1, zero
    row = face
    if per_image < 0:
        row = face - image * per_image
    across = opposites[row]
    for edge in range(3):
        va = vertices[corners[(edge + 1) % 3]]
        vb = vertices[corners[(edge + 2) % 3]]
        aw = _divisor(va, view.perspective)
        bw = _divisor(vb, view.perspective)
        ax, ay = offset(va, k, first, px, py, view.perspective)
        bx, by = offset(vb, k, first, px, py, view.perspective)
        a_across = ay
        b_across = by
        wide = wp.abs(bx * aw - ax * bw)
        high = wp.abs(by * aw - ay * bw)
        steep = high >= wide
        if direction == 1:
            a_across = ax
            b_across = bx
            steep = wide > high
        if aw > zero and bw > zero and steep and (a_across <= zero) != (b_across <= zero):
            e = ax * by - ay * bx
            span = step * (aw * by - bw * ay)
            if direction == 1:
                span = step * (ax * bw - aw * bx)
            if span != zero:
                where = e / span
                if where >= zero and where <= type(px)(1.0):
                    silhouette = across[edge] < 0 or across[edge] >= vertex_count
                    if not silhouette:
                        vc = vertices[corners[edge]]
                        vo = vertices[low + across[edge]]
                        cx, cy = offset(vc, k, first, px, py, view.perspective)
                        ox, oy = offset(vo, k, first, px, py, view.perspective)
                        cw = _divisor(vc, view.perspective)
                        ow = _divisor(vo, view.perspective)
                        c_side = _other_side(ax, ay, aw, bx, by, bw, cx, cy, cw)
                        o_side = _other_side(ax, ay, aw, bx, by, bw, ox, oy, ow)
                        silhouette = (c_side > zero) == (o_side > zero)
                    if silhouette:
                        return edge, where
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
    opposites: wp.array(dtype=wp.vec3i),
    per_image: int,
    layers: int,
    pix_to_face: wp.array(dtype=wp.int64),
    zbuf: wp.array(dtype=Any),
    blends: wp.array(dtype=Any),
    edges: wp.array(dtype=wp.int8),
):
    """`edges` becomes 1 to 3 for an edge of the pixel's face, 4 to 6 for one of the neighbour's, 0 for none."""
    item = base + wp.tid()
    direction = item % 2
    pixel = item / 2
    zero = type(zbuf[0])(0.0)
    blends[item] = zero
    edges[item] = wp.int8(0)
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
    sign = type(zero)(1.0)
    mark = wp.int32(1)
    if face < 0 or (other >= 0 and zbuf[neighbour * layers] < zbuf[pixel * layers]):
        face = other
        mark = wp.int32(4)
        sign = -sign
        step = -step
        if direction == 0:
            px += type(zero)(1.0)
        else:
            py += type(zero)(1.0)
    edge, where = _find_crossing(
        view, k, vertices, vertex_count, faces, opposites, per_image, face, image, px, py, direction, step
    )
    if edge >= 0:
        blends[item] = sign * (where - type(zero)(0.5))
        edges[item] = wp.int8(mark + edge)


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
    layers: int,
    pix_to_face: wp.array(dtype=wp.int64),
    blends: wp.array(dtype=Any),
    edges: wp.array(dtype=wp.int8),
    channels: int,
    color: wp.array(dtype=Any),
    grad: wp.array(dtype=Any),
    count_bits: int,
    bounds: wp.array(dtype=int),
    sums: wp.array(dtype=wp.int64),
):
    item = base + wp.tid()
    mark = int(edges[item]) - 1
    if mark < 0:
        return
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
    if mark >= 3:
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
    corners = face_corners(faces, wp.int32(pix_to_face[inner * layers]), image, per_image, vertex_count)
    edge = mark % 3
    a = corners[(edge + 1) % 3]
    b = corners[(edge + 2) % 3]
    first = matrix_of(k, image)
    ax, ay = offset(vertices[a], k, first, px, py, view.perspective)
    bx, by = offset(vertices[b], k, first, px, py, view.perspective)
    aw = _divisor(vertices[a], view.perspective)
    bw = _divisor(vertices[b], view.perspective)
    span = step * (aw * by - bw * ay)
    if direction == 1:
        span = step * (ax * bw - aw * bx)
    de = g / span
    ds = -de * where * step
    dax = de * by
    day = -de * bx
    dbx = -de * ay
    dby = de * ax
    daw = ds * by
    dbw = -ds * ay
    if direction == 0:
        day -= ds * bw
        dby += ds * aw
    else:
        dax += ds * bw
        dbx -= ds * aw
        daw = -ds * bx
        dbw = ds * ax
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
