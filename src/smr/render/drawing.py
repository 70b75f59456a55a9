"""Kernels that find the nearest face at every pixel's centre, for any number of images at once.

Edges are exact: corners are snapped to 1/256 of a pixel and edge functions are integers, with the top-left rule
(Pineda 1988), so that faces which share an edge leave no crack and cover no pixel twice. A pixel holds a 64-bit key,
what orders depths above, the face below, and keeps the largest: the result does not depend on the order of drawing.
Of two faces at the same depth the one of lower index is seen. A key of 0 is an empty pixel.

On the CPU the faces are sorted into bands of rows and each thread owns a band. On a GPU a thread draws a small face;
large ones go to a list, whose tiles of 32 by 32 pixels a fixed number of warps share, so that the host never waits for
a size. Faces are indexed by `item`: image times faces of an image plus face. Indices out of range are never followed.
"""

from __future__ import annotations

from typing import Any, no_type_check

import warp as wp

from .triangles import SUBPIXELS, Triangle, View, edge, owned, pieces, snap, triangle, whole_triangle

BAND_ROWS = 16
_SMALL_AREA: Any = wp.constant(192)
_SIGN: Any = wp.constant(wp.uint32(0x80000000))
_TILE: Any = wp.constant(32)
_PIECE_BITS: Any = wp.constant(wp.uint64(34))
LARGE_WARPS = 8192


@wp.kernel(enable_backward=False)
@no_type_check
def project(
    base: int,
    view: View,
    vertices: wp.array(dtype=Any),
    per_image: int,
    intrinsics: wp.array(dtype=Any),
    points: wp.array(dtype=wp.vec3d),
    snapped: wp.array(dtype=wp.vec3i),
    faults: wp.array(dtype=int),
):
    """Vertices in camera coordinates to the image, homogeneous and snapped.

    `intrinsics` holds one 3 by 3 matrix or one for each image. `faults[0]` becomes 1 where a vertex is not finite.
    """
    i = base + wp.tid()
    v = vertices[i]
    k = wp.int32(0)
    if intrinsics.shape[0] > 9:
        k = i / per_image * 9
    x = wp.float64(v[0])
    y = wp.float64(v[1])
    z = wp.float64(v[2])
    w = wp.float64(1.0)
    if view.perspective != 0:
        w = z
    point = wp.vec3d(
        wp.float64(intrinsics[k]) * x + wp.float64(intrinsics[k + 1]) * y + wp.float64(intrinsics[k + 2]) * w,
        wp.float64(intrinsics[k + 3]) * x + wp.float64(intrinsics[k + 4]) * y + wp.float64(intrinsics[k + 5]) * w,
        z,
    )
    points[i] = point
    snapped[i] = snap(view, point)
    if not (wp.isfinite(point[0]) and wp.isfinite(point[1]) and wp.isfinite(z)):
        faults[0] = 1


PROJECT = {
    wp.float32: wp.overload(project, {"vertices": wp.array(dtype=wp.vec3), "intrinsics": wp.array(dtype=wp.float32)}),
    wp.float64: wp.overload(project, {"vertices": wp.array(dtype=wp.vec3d), "intrinsics": wp.array(dtype=wp.float64)}),
}
"""`project` for each type of vertices."""


@wp.func
@no_type_check
def _corners(faces: wp.array(dtype=wp.vec3i), item: int, per_image: int, vertices: int):
    """Indices of a face's corners among all images' vertices; (-1, -1, -1) where one is out of range."""
    first = wp.int32(0)
    row = item
    if per_image > 0:  # faces that all images share
        first = item / per_image * vertices
        row = item % per_image
    else:
        first = item / -per_image * vertices
    face = faces[row]
    for k in range(3):
        if face[k] < 0 or face[k] >= vertices:
            return wp.vec3i(-1, -1, -1)
    return wp.vec3i(first + face[0], first + face[1], first + face[2])


@wp.func
@no_type_check
def _ordered(value: float):
    """Bits that compare like the numbers."""
    bits = wp.cast(value, wp.uint32)
    if (bits & _SIGN) != wp.uint32(0):
        return ~bits
    return bits | _SIGN


@wp.func
@no_type_check
def key_value(key: wp.uint64):
    """1 / depth, or -depth of an orthographic view."""
    bits = wp.uint32(key >> wp.uint64(32))
    if (bits & _SIGN) != wp.uint32(0):
        return wp.cast(bits & wp.uint32(0x7FFFFFFF), wp.float32)
    return wp.cast(~bits, wp.float32)


@wp.func
@no_type_check
def key_face(key: wp.uint64):
    """The face in a key that is not 0."""
    return int(wp.uint64(0xFFFFFFFF) - (key & wp.uint64(0xFFFFFFFF)))


@wp.func
@no_type_check
def _draw(
    t: Triangle,
    face: int,
    left: int,
    right: int,
    top: int,
    bottom: int,
    first: wp.int64,
    width: int,
    before: wp.array(dtype=wp.uint64),
    keys: wp.array(dtype=wp.uint64),
):
    """Draw what falls into a rectangle of pixels, behind what `before` holds (nothing, where it is empty)."""
    scale = 1.0 / float(t.area)
    sub = wp.int64(SUBPIXELS)
    zero = wp.int64(0)
    bias0 = owned(t.x2 - t.x1, t.y2 - t.y1)
    bias1 = owned(t.x0 - t.x2, t.y0 - t.y2)
    bias2 = owned(t.x1 - t.x0, t.y1 - t.y0)
    low = wp.uint64(0xFFFFFFFF) - wp.uint64(face)
    px = wp.int64(left) * sub + sub / wp.int64(2)
    for row in range(top, bottom + 1):
        py = wp.int64(row) * sub + sub / wp.int64(2)
        e0 = edge(t.x1, t.y1, t.x2, t.y2, px, py)
        e1 = edge(t.x2, t.y2, t.x0, t.y0, px, py)
        e2 = edge(t.x0, t.y0, t.x1, t.y1, px, py)
        pixel = first + wp.int64(row) * wp.int64(width) + wp.int64(left)
        for _column in range(left, right + 1):
            if ((e0 + bias0) | (e1 + bias1) | (e2 + bias2)) >= zero:
                w = (float(e0) * t.w0 + float(e1) * t.w1 + float(e2) * t.w2) * scale
                key = wp.uint64(_ordered(w)) << wp.uint64(32) | low
                seen = True
                if before.shape[0] > 0:
                    seen = key < before[pixel]
                if seen:
                    wp.atomic_max(keys, pixel, key)
            e0 -= (t.y2 - t.y1) * sub
            e1 -= (t.y0 - t.y2) * sub
            e2 -= (t.y1 - t.y0) * sub
            pixel += wp.int64(1)


@wp.kernel(enable_backward=False)
@no_type_check
def find_rows(
    base: int,
    view: View,
    snapped: wp.array(dtype=wp.vec3i),
    points: wp.array(dtype=wp.vec3d),
    vertices: int,
    faces: wp.array(dtype=wp.vec3i),
    per_image: int,
    bands: int,
    rows: wp.array(dtype=wp.vec2i),
    faults: wp.array(dtype=int),
):
    """First and last band that a face reaches; `faults[1]` becomes 1 where an index is out of range."""
    item = base + wp.tid()
    corners = _corners(faces, item, per_image, vertices)
    if corners[0] < 0:
        faults[1] = 1
    top = wp.int32(view.height)
    bottom = wp.int32(-1)
    count = pieces(snapped, corners)
    for piece in range(count):
        t = triangle(view, snapped, points, corners, piece, count)
        if t.area > wp.int64(0):
            top = wp.min(top, t.top)
            bottom = wp.max(bottom, t.bottom)
    if bottom < 0:
        rows[item] = wp.vec2i(0, -1)
    else:
        first = item / wp.abs(per_image) * bands
        rows[item] = wp.vec2i(first + top / BAND_ROWS, first + bottom / BAND_ROWS)


@wp.kernel(enable_backward=False)
@no_type_check
def sort_into_bands(rows: wp.array(dtype=wp.vec2i), start: wp.array(dtype=int), fill: int, items: wp.array(dtype=int)):
    """Sequential. First call (fill 0) counts into `start`; the second spreads the items and moves `start` along."""
    for item in range(rows.shape[0]):
        span = rows[item]
        for band in range(span[0], span[1] + 1):
            if fill == 1:
                items[start[band]] = item
            start[band] = start[band] + 1


@wp.kernel(enable_backward=False)
@no_type_check
def draw_bands(
    base: int,
    view: View,
    snapped: wp.array(dtype=wp.vec3i),
    points: wp.array(dtype=wp.vec3d),
    vertices: int,
    faces: wp.array(dtype=wp.vec3i),
    per_image: int,
    bands: int,
    end: wp.array(dtype=int),
    items: wp.array(dtype=int),
    before: wp.array(dtype=wp.uint64),
    keys: wp.array(dtype=wp.uint64),
):
    """A thread draws all faces that reach a band of rows."""
    band = base + wp.tid()
    image = band / bands
    top = (band % bands) * BAND_ROWS
    bottom = wp.min(top + BAND_ROWS, view.height) - 1
    first = wp.int64(image) * wp.int64(view.width) * wp.int64(view.height)
    begin = wp.int32(0)
    if band > 0:
        begin = end[band - 1]
    for i in range(begin, end[band]):
        item = items[i]
        corners = _corners(faces, item, per_image, vertices)
        count = pieces(snapped, corners)
        face = item % wp.abs(per_image)
        for piece in range(count):
            t = triangle(view, snapped, points, corners, piece, count)
            if t.area > wp.int64(0):
                low = wp.max(t.top, top)
                high = wp.min(t.bottom, bottom)
                _draw(t, face, t.left, t.right, low, high, first, view.width, before, keys)


@wp.kernel(enable_backward=False, cuda_max_registers=80)
@no_type_check
def draw_small(
    base: int,
    view: View,
    snapped: wp.array(dtype=wp.vec3i),
    vertices: int,
    faces: wp.array(dtype=wp.vec3i),
    per_image: int,
    most_tiles: int,
    before: wp.array(dtype=wp.uint64),
    keys: wp.array(dtype=wp.uint64),
    counter: wp.array(dtype=wp.uint64),
    large: wp.array(dtype=int),
    start: wp.array(dtype=wp.int64),
    faults: wp.array(dtype=int),
):
    """A thread draws its face, or, where that is large, puts it on the list.

    `counter[0]` holds the number of listed faces above and of their tiles below, so that both grow at once.
    """
    item = base + wp.tid()
    corners = _corners(faces, item, per_image, vertices)
    if corners[0] < 0:
        faults[1] = 1
        return
    per = wp.abs(per_image)
    tiles = wp.int32(0)
    t = Triangle()
    if pieces(snapped, corners) > 1:
        tiles = _tiles(view, 0, view.width - 1, 0, view.height - 1)
    else:
        t = whole_triangle(view, snapped, corners)
    if t.area > wp.int64(0):
        if wp.int64(t.right - t.left + 1) * wp.int64(t.bottom - t.top + 1) <= wp.int64(_SMALL_AREA):
            first = wp.int64(item / per) * wp.int64(view.width) * wp.int64(view.height)
            _draw(t, item % per, t.left, t.right, t.top, t.bottom, first, view.width, before, keys)
        else:
            tiles = _tiles(view, t.left, t.right, t.top, t.bottom)
    if tiles > 0:
        tiles = wp.min(tiles, most_tiles)
        old = wp.atomic_add(counter, 0, (wp.uint64(1) << _PIECE_BITS) + wp.uint64(tiles))
        slot = wp.int32(old >> _PIECE_BITS)
        large[slot] = item
        start[slot] = wp.int64(old & ((wp.uint64(1) << _PIECE_BITS) - wp.uint64(1)))


@wp.func
@no_type_check
def _tiles(view: View, left: int, right: int, top: int, bottom: int):
    return (right / _TILE - left / _TILE + 1) * (bottom / _TILE - top / _TILE + 1)


@wp.func
@no_type_check
def _touches(t: Triangle, left: int, right: int, top: int, bottom: int):
    """Whether a triangle may own a pixel's centre in a rectangle: no edge has all of it outside."""
    sub = wp.int64(SUBPIXELS)
    half = sub / wp.int64(2)
    x0 = wp.int64(left) * sub + half
    x1 = wp.int64(right) * sub + half
    y0 = wp.int64(top) * sub + half
    y1 = wp.int64(bottom) * sub + half
    return (
        _reaches(t.x1, t.y1, t.x2, t.y2, x0, y0, x1, y1)
        and _reaches(t.x2, t.y2, t.x0, t.y0, x0, y0, x1, y1)
        and _reaches(t.x0, t.y0, t.x1, t.y1, x0, y0, x1, y1)
    )


@wp.func
@no_type_check
def _reaches(
    ax: wp.int64,
    ay: wp.int64,
    bx: wp.int64,
    by: wp.int64,
    x0: wp.int64,
    y0: wp.int64,
    x1: wp.int64,
    y1: wp.int64,
):
    x = x1
    if by > ay:
        x = x0
    y = y0
    if bx > ax:
        y = y1
    return edge(ax, ay, bx, by, x, y) >= wp.int64(0)


@wp.kernel(enable_backward=False, cuda_max_registers=128)
@no_type_check
def draw_large(
    base: int,
    view: View,
    snapped: wp.array(dtype=wp.vec3i),
    points: wp.array(dtype=wp.vec3d),
    vertices: int,
    faces: wp.array(dtype=wp.vec3i),
    per_image: int,
    most_tiles: int,
    before: wp.array(dtype=wp.uint64),
    counter: wp.array(dtype=wp.uint64),
    large: wp.array(dtype=int),
    start: wp.array(dtype=wp.int64),
    keys: wp.array(dtype=wp.uint64),
):
    """Warps share the tiles of the listed faces evenly, each a run of the list; a lane draws a column of a tile."""
    thread = base + wp.tid()
    warp = wp.int64(thread / 32)
    lane = thread % 32
    listed = wp.int32(counter[0] >> _PIECE_BITS)
    total = wp.int64(counter[0] & ((wp.uint64(1) << _PIECE_BITS) - wp.uint64(1)))
    next = total * warp / wp.int64(LARGE_WARPS)
    stop = total * (warp + wp.int64(1)) / wp.int64(LARGE_WARPS)
    if next >= stop:
        return
    slot = wp.int32(0)
    high = listed - 1
    while slot < high:
        middle = (slot + high + 1) / 2
        if start[middle] <= next:
            slot = middle
        else:
            high = middle - 1
    per = wp.abs(per_image)
    while next < stop:
        item = large[slot]
        begin = start[slot]
        end = total
        if slot + 1 < listed:
            end = start[slot + 1]
        stride = wp.int32(end - begin)
        corners = _corners(faces, item, per_image, vertices)
        count = pieces(snapped, corners)
        first = wp.int64(item / per) * wp.int64(view.width) * wp.int64(view.height)
        last = wp.min(stop, end)
        for piece in range(count):
            t = triangle(view, snapped, points, corners, piece, count)
            left = wp.int32(0)
            top = wp.int32(0)
            columns = (view.width - 1) / _TILE + 1
            tiles = _tiles(view, 0, view.width - 1, 0, view.height - 1)
            if count == 1:
                left = t.left / _TILE
                top = t.top / _TILE
                columns = t.right / _TILE - left + 1
                tiles = _tiles(view, t.left, t.right, t.top, t.bottom)
            if t.area > wp.int64(0):
                tile = wp.int32(next - begin)
                while tile < wp.int32(last - begin):
                    # a face that has more tiles than the list may hold gives several to one place of the list
                    one = tile
                    while one < tiles:
                        _draw_tile(
                            view, t, item % per, left + one % columns, top + one / columns, lane, first, before, keys
                        )
                        one += stride
                    tile += 1
        next = last
        slot += 1


@wp.func
@no_type_check
def _draw_tile(
    view: View,
    t: Triangle,
    face: int,
    column: int,
    row: int,
    lane: int,
    first: wp.int64,
    before: wp.array(dtype=wp.uint64),
    keys: wp.array(dtype=wp.uint64),
):
    left = wp.max(t.left, column * _TILE)
    right = wp.min(t.right, column * _TILE + _TILE - 1)
    top = wp.max(t.top, row * _TILE)
    bottom = wp.min(t.bottom, row * _TILE + _TILE - 1)
    x = column * _TILE + lane
    if left <= right and top <= bottom and x >= left and x <= right and _touches(t, left, right, top, bottom):
        _draw(t, face, x, x, top, bottom, first, view.width, before, keys)
