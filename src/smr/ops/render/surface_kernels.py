"""From the nearest faces to depths and barycentric coordinates, and back from their gradients to vertices."""

from __future__ import annotations

from typing import Any, no_type_check

import warp as wp

from ...render.drawing import key_face
from ...render.surface import areas, offset
from ...render.triangles import View
from ..exact_sums import contribute
from ..launches import launchers

RUN: Any = wp.constant(8)
"""Neighbouring pixels whose gradients a thread adds up before it passes them on, as long as they see one face."""


@wp.func
@no_type_check
def matrix_of(intrinsics: wp.array(dtype=Any), image: int):
    """Where an image's matrix begins."""
    if intrinsics.shape[0] > 9:
        return 9 * image
    return 0


@wp.func
@no_type_check
def face_corners(faces: wp.array(dtype=wp.vec3i), face: int, image: int, per_image: int, vertices: int):
    """Indices among all images' vertices; faces are shared where `per_image` is positive."""
    row = face
    if per_image < 0:
        row = face - image * per_image
    corners = faces[row]
    first = image * vertices
    return wp.vec3i(first + corners[0], first + corners[1], first + corners[2])


@wp.func
@no_type_check
def _double(v: Any):
    return wp.vec3d(wp.float64(v[0]), wp.float64(v[1]), wp.float64(v[2]))


@wp.func
@no_type_check
def _offset(corner: wp.vec3d, k: wp.array(dtype=Any), first: int, px: wp.float64, py: wp.float64, perspective: int):
    """`offset` in double precision."""
    w = wp.float64(1.0)
    if perspective != 0:
        w = corner[2]
    x = wp.float64(k[first]) * corner[0] + wp.float64(k[first + 1]) * corner[1] + (wp.float64(k[first + 2]) - px) * w
    y = wp.float64(k[first + 3]) * corner[0] + wp.float64(k[first + 4]) * corner[1]
    y += (wp.float64(k[first + 5]) - py) * w
    return x, y


@wp.kernel(enable_backward=False)
@no_type_check
def _resolve(
    base: int,
    view: View,
    intrinsics: wp.array(dtype=Any),
    vertices: wp.array(dtype=Any),
    vertex_count: int,
    faces: wp.array(dtype=wp.vec3i),
    per_image: int,
    keys: wp.array(dtype=wp.uint64),
    layer: int,
    layers: int,
    pix_to_face: wp.array(dtype=wp.int64),
    zbuf: wp.array(dtype=Any),
    bary_coords: wp.array(dtype=Any),
):
    i = base + wp.tid()
    fragment = wp.int64(i) * wp.int64(layers) + wp.int64(layer)
    key = keys[i]
    if key == wp.uint64(0):
        one = type(intrinsics[0])(1.0)
        pix_to_face[fragment] = wp.int64(-1)
        zbuf[fragment] = -one
        bary_coords[fragment] = type(vertices[0])(-one, -one, -one)
        return
    pixels = view.width * view.height
    image = i / pixels
    px = wp.float64(i % pixels % view.width) + wp.float64(0.5)
    py = wp.float64(i % pixels / view.width) + wp.float64(0.5)
    face = key_face(key)
    corners = face_corners(faces, face, image, per_image, vertex_count)
    k = matrix_of(intrinsics, image)
    # in double precision: what is left of coordinates a million times larger must still have digits
    v0 = _double(vertices[corners[0]])
    v1 = _double(vertices[corners[1]])
    v2 = _double(vertices[corners[2]])
    ax, ay = _offset(v0, intrinsics, k, px, py, view.perspective)
    bx, by = _offset(v1, intrinsics, k, px, py, view.perspective)
    cx, cy = _offset(v2, intrinsics, k, px, py, view.perspective)
    a, b, c, _sign = areas(ax, ay, bx, by, cx, cy)
    total = a + b + c
    if total > wp.float64(0.0):
        a = a / total
        b = b / total
        c = c / total
    else:
        a = wp.float64(1.0)
    pix_to_face[fragment] = wp.int64(face)
    zbuf[fragment] = type(zbuf[fragment])(a * v0[2] + b * v1[2] + c * v2[2])
    bary_coords[fragment] = type(vertices[0])(type(intrinsics[0])(a), type(intrinsics[0])(b), type(intrinsics[0])(c))


@wp.func
@no_type_check
def corner_gradient(dx: Any, dy: Any, dz: Any, k: wp.array(dtype=Any), first: int, px: Any, py: Any, perspective: int):
    """From the gradient of a corner's offset, and of its depth as such, to that of the corner."""
    z = dz
    if perspective != 0:
        z += (k[first + 2] - px) * dx + (k[first + 5] - py) * dy
    return wp.vec3d(
        wp.float64(k[first] * dx + k[first + 3] * dy),
        wp.float64(k[first + 1] * dx + k[first + 4] * dy),
        wp.float64(z),
    )


@wp.func
@no_type_check
def _offset_gradients(
    ax: Any, ay: Any, bx: Any, by: Any, cx: Any, cy: Any, a: Any, b: Any, c: Any, sign: Any, s0: Any, s1: Any, s2: Any
):
    """From the gradients s of barycentric coordinates to those of the corners' offsets; `areas` gave a, b, c."""
    zero = type(ax)(0.0)
    total = a + b + c
    mean = (s0 * a + s1 * b + s2 * c) / total
    n0 = zero
    n1 = zero
    n2 = zero
    if a > zero:
        n0 = sign * (s0 - mean) / total
    if b > zero:
        n1 = sign * (s1 - mean) / total
    if c > zero:
        n2 = sign * (s2 - mean) / total
    return (
        n2 * by - n1 * cy,
        n1 * cx - n2 * bx,
        n0 * cy - n2 * ay,
        n2 * ax - n0 * cx,
        n1 * ay - n0 * by,
        n0 * bx - n1 * ax,
    )


@wp.func
@no_type_check
def _contribute(
    adding: int,
    g0: wp.vec3d,
    g1: wp.vec3d,
    g2: wp.vec3d,
    corners: wp.vec3i,
    count_bits: int,
    bounds: wp.array(dtype=int),
    sums: wp.array(dtype=wp.int64),
):
    for axis in range(3):
        contribute(adding, g0[axis], corners[0], axis, 3, count_bits, bounds, sums)
        contribute(adding, g1[axis], corners[1], axis, 3, count_bits, bounds, sums)
        contribute(adding, g2[axis], corners[2], axis, 3, count_bits, bounds, sums)


@wp.kernel(enable_backward=False)
@no_type_check
def _to_vertices(
    base: int,
    adding: int,
    view: View,
    intrinsics: wp.array(dtype=Any),
    vertices: wp.array(dtype=Any),
    vertex_count: int,
    faces: wp.array(dtype=wp.vec3i),
    per_image: int,
    layers: int,
    pix_to_face: wp.array(dtype=wp.int64),
    grad_zbuf: wp.array(dtype=Any),
    grad_bary: wp.array(dtype=Any),
    count_bits: int,
    bounds: wp.array(dtype=int),
    sums: wp.array(dtype=wp.int64),
):
    """A thread takes a run of pixels of one layer. Gradients that are left out are empty arrays."""
    item = base + wp.tid()
    layer = item % layers
    all_pixels = pix_to_face.shape[0] / layers
    begin = item / layers * RUN
    pixels = view.width * view.height
    zero = type(intrinsics[0])(0.0)
    half = type(intrinsics[0])(0.5)
    held = wp.vec3i()
    held_face = wp.int32(-1)
    held_image = wp.int32(-1)
    g0 = wp.vec3d()
    g1 = wp.vec3d()
    g2 = wp.vec3d()
    for i in range(begin, wp.min(begin + RUN, all_pixels)):
        fragment = i * layers + layer
        face = wp.int32(pix_to_face[fragment])
        if face >= 0:
            image = i / pixels
            corners = face_corners(faces, face, image, per_image, vertex_count)
            if face != held_face or image != held_image:
                if held_face >= 0:
                    _contribute(adding, g0, g1, g2, held, count_bits, bounds, sums)
                held = corners
                held_face = face
                held_image = image
                g0 = wp.vec3d()
                g1 = wp.vec3d()
                g2 = wp.vec3d()
            k = matrix_of(intrinsics, image)
            px = type(intrinsics[0])(i % pixels % view.width) + half
            py = type(intrinsics[0])(i % pixels / view.width) + half
            v0 = vertices[corners[0]]
            v1 = vertices[corners[1]]
            v2 = vertices[corners[2]]
            ax, ay = offset(v0, intrinsics, k, px, py, view.perspective)
            bx, by = offset(v1, intrinsics, k, px, py, view.perspective)
            cx, cy = offset(v2, intrinsics, k, px, py, view.perspective)
            a, b, c, sign = areas(ax, ay, bx, by, cx, cy)
            total = a + b + c
            if total > zero:
                gz = zero
                if grad_zbuf.shape[0] > 0:
                    gz = grad_zbuf[fragment]
                s0 = gz * v0[2]
                s1 = gz * v1[2]
                s2 = gz * v2[2]
                if grad_bary.shape[0] > 0:
                    s0 += grad_bary[fragment][0]
                    s1 += grad_bary[fragment][1]
                    s2 += grad_bary[fragment][2]
                dax, day, dbx, dby, dcx, dcy = _offset_gradients(ax, ay, bx, by, cx, cy, a, b, c, sign, s0, s1, s2)
                g0 += corner_gradient(dax, day, gz * a / total, intrinsics, k, px, py, view.perspective)
                g1 += corner_gradient(dbx, dby, gz * b / total, intrinsics, k, px, py, view.perspective)
                g2 += corner_gradient(dcx, dcy, gz * c / total, intrinsics, k, px, py, view.perspective)
    if held_face >= 0:
        _contribute(adding, g0, g1, g2, held, count_bits, bounds, sums)


RESOLVE = launchers(_resolve, scalars=("intrinsics", "zbuf"), vectors=("vertices", "bary_coords"))
TO_VERTICES = launchers(
    _to_vertices, scalars=("intrinsics", "grad_zbuf"), vectors=("vertices", "grad_bary"), disjoint=False
)
