"""Kernels of `screen_space`: faces into bands or queues, and into pixels."""

from typing import Any, no_type_check

import warp as wp

from .screen_triangles import column_centre, columns_between, edge, least, most, row_centre, rows_between, with_sign

wp.set_module_options({"fuse_fp": False})

_SMALL: Any = wp.constant(64)
"""Largest number of pixels in the bounds of a face that one thread draws."""
_PIECES: Any = wp.constant(1024)
"""Largest number of squares into which a face is cut."""

PACKED: Any = wp.constant(0)
DEPTH: Any = wp.constant(1)
FACE: Any = wp.constant(2)


@wp.func
@no_type_check
def _ordered(z: wp.float32):
    """An integer that grows with z; above 0."""
    bits = wp.cast(z, wp.uint32)
    if (bits >> wp.uint32(31)) == wp.uint32(1):
        bits = ~bits
    else:
        bits = bits | (wp.uint32(1) << wp.uint32(31))
    return wp.uint64(bits) << wp.uint64(32)


@wp.func  # type: ignore[no-redef]  # an overload
@no_type_check
def _ordered(z: wp.float64):
    bits = wp.cast(z, wp.uint64)
    if (bits >> wp.uint64(63)) == wp.uint64(1):
        return ~bits
    return bits | (wp.uint64(1) << wp.uint64(63))


@wp.func
@no_type_check
def _bounds(corners: wp.array2d(dtype=Any), slot: int, width: int, height: int):
    """First and last column, first and last row of the pixels that may be covered."""
    x0, x1, x2 = corners[slot, 0], corners[slot, 2], corners[slot, 4]
    y0, y1, y2 = corners[slot, 1], corners[slot, 3], corners[slot, 5]
    left, right = columns_between(least(x0, x1, x2), most(x0, x1, x2), width)
    top, bottom = rows_between(least(y0, y1, y2), most(y0, y1, y2), height)
    if left > right or top > bottom or edge(x0, y0, x1, y1, x2, y2) == type(x0)(0.0):
        return 1, 0, 1, 0
    return left, right, top, bottom


@wp.func
@no_type_check
def _draw(
    corners: wp.array2d(dtype=Any),
    depths: wp.array2d(dtype=Any),
    slot: int,
    face: int,
    box: wp.vec4i,
    first_pixel: int,
    sizes: wp.vec3i,
    eps: Any,
    keys: wp.array(dtype=wp.uint64),
    faces: wp.array(dtype=int),
    best: wp.array(dtype=Any),
):
    """Draw the part of a face that lies in a box of pixels (left, right, top, bottom).

    `sizes` is width, height and what to write: keys of depth and face together, keys of depth, or the lowest face among
    those of the pixel's depth; any other number writes depth and face at once, for a caller that is alone.
    """
    x0, y0 = corners[slot, 0], corners[slot, 1]
    x1, y1 = corners[slot, 2], corners[slot, 3]
    x2, y2 = corners[slot, 4], corners[slot, 5]
    z0, z1, z2 = depths[slot, 0], depths[slot, 1], depths[slot, 2]
    left, right = least(x0, x1, x2), most(x0, x1, x2)
    low, high = least(y0, y1, y2), most(y0, y1, y2)
    zero = type(eps)(0.0)
    for row in range(box[2], box[3] + 1):
        py = row_centre(row, sizes[1], eps)
        if py >= low and py < high:
            for column in range(box[0], box[1] + 1):
                px = column_centre(column, sizes[0], eps)
                e0 = edge(x1, y1, x2, y2, px, py)
                e1 = edge(x2, y2, x0, y0, px, py)
                e2 = edge(x0, y0, x1, y1, px, py)
                inside = (e0 >= zero and e1 >= zero and e2 >= zero) or (e0 <= zero and e1 <= zero and e2 <= zero)
                if inside and px >= left and px < right:
                    total = with_sign(e0 + e1 + e2, eps)
                    z = (e0 / total) * z0 + (e1 / total) * z1 + (e2 / total) * z2
                    pixel = first_pixel + row * sizes[0] + column
                    if z == z:
                        if sizes[2] == PACKED:
                            key = _ordered(z) | (wp.uint64(0xFFFFFFFF) - wp.uint64(face))
                            if key > keys[pixel]:  # a stale value is too low, never too high
                                wp.atomic_max(keys, pixel, key)
                        elif sizes[2] == DEPTH:
                            wp.atomic_max(keys, pixel, _ordered(z))
                        elif sizes[2] == FACE:
                            if _ordered(z) == keys[pixel]:
                                wp.atomic_min(faces, pixel, face)
                        elif z > best[pixel]:
                            best[pixel] = z
                            faces[pixel] = face


@wp.func
@no_type_check
def _square_edge(columns: int, rows: int):
    """Edge of the squares into which bounds are cut: 8 doubled until they are few enough."""
    size = wp.int32(8)
    while ((columns + size - 1) / size) * ((rows + size - 1) / size) > _PIECES:
        size *= 2
    return size


@wp.kernel(enable_backward=False)
@no_type_check
def draw_small(
    base: int,
    corners: wp.array2d(dtype=Any),
    depths: wp.array2d(dtype=Any),
    valid: wp.array(dtype=wp.bool),
    count: int,
    sizes: wp.vec3i,
    eps: Any,
    keys: wp.array(dtype=wp.uint64),
    faces: wp.array(dtype=int),
    waiting: wp.array(dtype=int),
    queue: wp.array(dtype=wp.vec2i),
):
    """A thread draws a small face, or puts the squares of a large one into the queue; where that is full, it draws."""
    slot = base + wp.tid()
    if valid.shape[0] > 0:  # noqa: SIM102  Warp evaluates both sides of `and`
        if not valid[slot]:
            return
    left, right, top, bottom = _bounds(corners, slot, sizes[0], sizes[1])
    if left > right:
        return
    columns = right - left + 1
    rows = bottom - top + 1
    image = (slot / count) * sizes[0] * sizes[1]
    size = wp.int32(8)
    first = queue.shape[0]
    pieces = wp.int32(0)
    if columns > _SMALL / rows:
        size = _square_edge(columns, rows)
        pieces = ((columns + size - 1) / size) * ((rows + size - 1) / size)
        if waiting[0] < queue.shape[0]:  # a full queue is not counted up further
            first = wp.atomic_add(waiting, 0, pieces)
    fitting = wp.clamp(queue.shape[0] - first, 0, pieces)
    for piece in range(fitting):
        queue[first + piece] = wp.vec2i(slot, piece)
    if fitting == pieces and pieces > 0:
        return
    across = (columns + size - 1) / size
    if pieces == 0:
        box = wp.vec4i(left, right, top, bottom)
        _draw(corners, depths, slot, slot % count, box, image, sizes, eps, keys, faces, depths[0])
    for piece in range(fitting, pieces):
        x = left + (piece % across) * size
        y = top + (piece / across) * size
        box = wp.vec4i(x, wp.min(right, x + size - 1), y, wp.min(bottom, y + size - 1))
        _draw(corners, depths, slot, slot % count, box, image, sizes, eps, keys, faces, depths[0])


@wp.kernel(enable_backward=False)
@no_type_check
def draw_queue(
    base: int,
    threads: int,
    corners: wp.array2d(dtype=Any),
    depths: wp.array2d(dtype=Any),
    count: int,
    sizes: wp.vec3i,
    eps: Any,
    keys: wp.array(dtype=wp.uint64),
    faces: wp.array(dtype=int),
    waiting: wp.array(dtype=int),
    queue: wp.array(dtype=wp.vec2i),
):
    """Threads share the squares of the large faces."""
    i = base + wp.tid()
    while i < wp.min(waiting[0], queue.shape[0]):
        slot = queue[i][0]
        left, right, top, bottom = _bounds(corners, slot, sizes[0], sizes[1])
        size = _square_edge(right - left + 1, bottom - top + 1)
        across = (right - left + size) / size
        x = left + (queue[i][1] % across) * size
        y = top + (queue[i][1] / across) * size
        box = wp.vec4i(x, wp.min(right, x + size - 1), y, wp.min(bottom, y + size - 1))
        image = (slot / count) * sizes[0] * sizes[1]
        _draw(corners, depths, slot, slot % count, box, image, sizes, eps, keys, faces, depths[0])
        i += threads


@wp.kernel(enable_backward=False)
@no_type_check
def unpack(base: int, keys: wp.array(dtype=wp.uint64), faces: wp.array(dtype=int), face_idx: wp.array(dtype=wp.int64)):
    """The face of each pixel, from its key or beside it."""
    pixel = base + wp.tid()
    key = keys[pixel]
    if key == wp.uint64(0):
        face_idx[pixel] = wp.int64(-1)
    elif faces.shape[0] > 0:
        face_idx[pixel] = wp.int64(faces[pixel])
    else:
        face_idx[pixel] = wp.int64(wp.uint64(0xFFFFFFFF) - (key & wp.uint64(0xFFFFFFFF)))


@wp.kernel(enable_backward=False)
@no_type_check
def find_bands(
    base: int,
    corners: wp.array2d(dtype=Any),
    valid: wp.array(dtype=wp.bool),
    count: int,
    sizes: wp.vec3i,
    boxes: wp.array(dtype=wp.vec4i),
    bands: wp.array(dtype=int),
):
    """Bounds of each face, and in how many bands of rows it lies."""
    slot = base + wp.tid()
    left, right, top, bottom = _bounds(corners, slot, sizes[0], sizes[1])
    if valid.shape[0] > 0:  # noqa: SIM102  Warp evaluates both sides of `and`
        if not valid[slot]:
            left, right = 1, 0
    boxes[slot] = wp.vec4i(left, right, top, bottom)
    bands[slot] = 0
    if left <= right:
        bands[slot] = bottom / sizes[2] - top / sizes[2] + 1


@wp.kernel(enable_backward=False)
@no_type_check
def list_bands(
    base: int,
    boxes: wp.array(dtype=wp.vec4i),
    bands: wp.array(dtype=int),
    ends: wp.array(dtype=wp.int64),
    count: int,
    band_rows: int,
    bands_of_image: int,
    slots: wp.array(dtype=int),
    band_of: wp.array(dtype=int),
):
    """Pairs of a face and a band, in the order of the faces."""
    slot = base + wp.tid()
    begin = ends[slot] - wp.int64(bands[slot])
    for i in range(bands[slot]):
        slots[begin + wp.int64(i)] = slot
        band_of[begin + wp.int64(i)] = (slot / count) * bands_of_image + boxes[slot][2] / band_rows + i


@wp.kernel(enable_backward=False)
@no_type_check
def draw_bands(
    base: int,
    corners: wp.array2d(dtype=Any),
    depths: wp.array2d(dtype=Any),
    boxes: wp.array(dtype=wp.vec4i),
    slots: wp.array(dtype=int),
    order: wp.array(dtype=int),
    start: wp.array(dtype=int),
    count: int,
    bands_of_image: int,
    band_rows: int,
    sizes: wp.vec3i,
    eps: Any,
    keys: wp.array(dtype=wp.uint64),
    faces: wp.array(dtype=int),
    best: wp.array(dtype=Any),
):
    """All faces of a band, in their order: the first of those at the same depth stays."""
    band = base + wp.tid()
    first_row = (band % bands_of_image) * band_rows
    image = (band / bands_of_image) * sizes[0] * sizes[1]
    for i in range(start[band], start[band + 1]):
        slot = slots[order[i]]
        box = boxes[slot]
        box[2] = wp.max(box[2], first_row)
        box[3] = wp.min(box[3], first_row + band_rows - 1)
        _draw(corners, depths, slot, slot % count, box, image, sizes, eps, keys, faces, best)
