"""Kernels of `soft_mask`: faces into tiles, pixels along the lists of tiles, gradients back along the same pairs."""

from typing import Any, no_type_check

import warp as wp

from .screen_triangles import column_centre, columns_between, least, most, row_centre, rows_between

wp.set_module_options({"fuse_fp": False})

TILE: Any = wp.constant(16)


@wp.func
@no_type_check
def _enlarged(corners: wp.array2d(dtype=Any), slot: int, boxlen: Any):
    x0, x1, x2 = corners[slot, 0], corners[slot, 2], corners[slot, 4]
    y0, y1, y2 = corners[slot, 1], corners[slot, 3], corners[slot, 5]
    return (
        least(x0, x1, x2) - boxlen,
        most(x0, x1, x2) + boxlen,
        least(y0, y1, y2) - boxlen,
        most(y0, y1, y2) + boxlen,
    )


@wp.func
@no_type_check
def _along(ax: Any, ay: Any, bx: Any, by: Any, px: Any, py: Any):
    """Where on the edge a b the point is that is nearest to p, 0 at a and 1 at b, and its squared distance."""
    dx = bx - ax
    dy = by - ay
    length2 = dx * dx + dy * dy
    t = type(ax)(0.0)
    if length2 > type(ax)(0.0):
        t = wp.clamp(((px - ax) * dx + (py - ay) * dy) / length2, type(ax)(0.0), type(ax)(1.0))
    rx = px - (ax + t * dx)
    ry = py - (ay + t * dy)
    return t, rx * rx + ry * ry


@wp.func
@no_type_check
def _nearest(corners: wp.array2d(dtype=Any), slot: int, px: Any, py: Any):
    """The nearest edge (0, 1, 2 for 01, 12, 20; of equals the first), where on it, and the squared distance."""
    edge = wp.int32(0)
    t, best = _along(corners[slot, 0], corners[slot, 1], corners[slot, 2], corners[slot, 3], px, py)
    t1, distance1 = _along(corners[slot, 2], corners[slot, 3], corners[slot, 4], corners[slot, 5], px, py)
    if distance1 < best:
        best = distance1
        t = t1
        edge = wp.int32(1)
    t2, distance2 = _along(corners[slot, 4], corners[slot, 5], corners[slot, 0], corners[slot, 1], px, py)
    if distance2 < best:
        best = distance2
        t = t2
        edge = wp.int32(2)
    return edge, t, best


@wp.func
@no_type_check
def _one_minus_exp(u: Any):
    """1 - exp(-u), exact where u is small."""
    one = type(u)(1.0)
    if u < type(u)(0.01):
        return u * (
            one - u / type(u)(2.0) * (one - u / type(u)(3.0) * (one - u / type(u)(4.0) * (one - u / type(u)(5.0))))
        )
    return one - wp.exp(-u)


@wp.func
@no_type_check
def _tiles_of(corners: wp.array2d(dtype=Any), slot: int, boxlen: Any, width: int, height: int):
    """Pixels in the enlarged bounds, then tiles: left, right, top, bottom of each."""
    x_low, x_high, y_low, y_high = _enlarged(corners, slot, boxlen)
    left, right = columns_between(x_low, x_high, width)
    top, bottom = rows_between(y_low, y_high, height)
    if left > right or top > bottom:
        return wp.vec4i(1, 0, 1, 0)
    return wp.vec4i(left, right, top, bottom)


@wp.kernel(enable_backward=False)
@no_type_check
def count_tiles(
    base: int,
    corners: wp.array2d(dtype=Any),
    is_open: wp.array3d(dtype=wp.bool),
    count: int,
    width: int,
    height: int,
    boxlen: Any,
    tiles: wp.array(dtype=int),
):
    """How many open tiles a face's enlarged bounds touch."""
    slot = base + wp.tid()
    box = _tiles_of(corners, slot, boxlen, width, height)
    found = wp.int32(0)
    for row in range(box[2] / TILE, box[3] / TILE + 1):
        for column in range(box[0] / TILE, box[1] / TILE + 1):
            if box[0] <= box[1] and is_open[slot / count, row, column]:
                found += 1
    tiles[slot] = found


@wp.kernel(enable_backward=False)
@no_type_check
def list_tiles(
    base: int,
    corners: wp.array2d(dtype=Any),
    is_open: wp.array3d(dtype=wp.bool),
    count: int,
    width: int,
    height: int,
    boxlen: Any,
    tiles: wp.array(dtype=int),
    ends: wp.array(dtype=wp.int64),
    slots: wp.array(dtype=int),
    tile_of: wp.array(dtype=int),
):
    """Pairs of a face and an open tile, in the order of the faces."""
    slot = base + wp.tid()
    if tiles[slot] == 0:
        return
    box = _tiles_of(corners, slot, boxlen, width, height)
    image = slot / count
    place = ends[slot] - wp.int64(tiles[slot])
    for row in range(box[2] / TILE, box[3] / TILE + 1):
        for column in range(box[0] / TILE, box[1] / TILE + 1):
            if is_open[image, row, column]:
                slots[place] = slot
                tile_of[place] = (image * is_open.shape[1] + row) * is_open.shape[2] + column
                place += wp.int64(1)


@wp.kernel(enable_backward=False)
@no_type_check
def feel(
    base: int,
    corners: wp.array2d(dtype=Any),
    selected: wp.array3d(dtype=wp.int64),
    slots: wp.array(dtype=int),
    order: wp.array(dtype=int),
    start: wp.array(dtype=wp.int64),
    tiles_down: int,
    tiles_across: int,
    count: int,
    knum: int,
    sigmainv: Any,
    boxlen: Any,
    left_over: wp.array3d(dtype=Any),
    last: wp.array3d(dtype=int),
    probability: wp.array2d(dtype=Any),
    face: wp.array2d(dtype=wp.int64),
    nearest: wp.array2d(dtype=wp.uint8),
):
    """A pixel, 256 to a tile: the product of 1 - probability, and the last face that counts (-1 where covered)."""
    item = base + wp.tid()
    tile = item / (TILE * TILE)
    within = item % (TILE * TILE)
    image = tile / (tiles_down * tiles_across)
    row = (tile / tiles_across) % tiles_down * TILE + within / TILE
    column = tile % tiles_across * TILE + within % TILE
    height = selected.shape[1]
    width = selected.shape[2]
    if row >= height or column >= width:
        return
    if selected[image, row, column] >= wp.int64(0):
        left_over[image, row, column] = type(sigmainv)(0.0)
        last[image, row, column] = -1
        return
    px = column_centre(column, width, sigmainv)
    py = row_centre(row, height, sigmainv)
    product = type(sigmainv)(1.0)
    hits = wp.int32(0)
    final = wp.int32(count)
    i = start[tile]
    while i < start[tile + 1] and hits < knum:
        slot = slots[order[i]]
        x_low, x_high, y_low, y_high = _enlarged(corners, slot, boxlen)
        if px >= x_low and px < x_high and py >= y_low and py < y_high:
            edge, t, distance = _nearest(corners, slot, px, py)
            product = product * _one_minus_exp(sigmainv * distance)
            if probability.shape[0] > 0:
                pixel = (image * height + row) * width + column
                probability[pixel, hits] = wp.exp(-sigmainv * distance)
                face[pixel, hits] = wp.int64(slot - image * count)
                kind = edge + 1
                if t == type(t)(0.0):
                    kind = edge + 4
                if t == type(t)(1.0):
                    kind = (edge + 1) % 3 + 4
                nearest[pixel, hits] = wp.uint8(kind)
            hits += 1
            if hits == knum:
                final = slot - image * count
        i += wp.int64(1)
    left_over[image, row, column] = product
    last[image, row, column] = final


@wp.kernel(enable_backward=False)
@no_type_check
def pull(
    base: int,
    corners: wp.array2d(dtype=Any),
    slots: wp.array(dtype=int),
    tile_of: wp.array(dtype=int),
    tiles_down: int,
    tiles_across: int,
    count: int,
    sigmainv: Any,
    boxlen: Any,
    left_over: wp.array3d(dtype=Any),
    last: wp.array3d(dtype=int),
    grad: wp.array3d(dtype=Any),
    sums: wp.array2d(dtype=Any),
):
    """Gradient of a face's corners from the pixels of one tile."""
    pair = base + wp.tid()
    slot = slots[pair]
    tile = tile_of[pair]
    face = slot % count
    image = tile / (tiles_down * tiles_across)
    height = last.shape[1]
    width = last.shape[2]
    first_row = (tile / tiles_across) % tiles_down * TILE
    first_column = tile % tiles_across * TILE
    box = _tiles_of(corners, slot, boxlen, width, height)
    x_low, x_high, y_low, y_high = _enlarged(corners, slot, boxlen)
    zero = type(sigmainv)(0.0)
    gx0 = type(sigmainv)(0.0)
    gy0 = type(sigmainv)(0.0)
    gx1 = type(sigmainv)(0.0)
    gy1 = type(sigmainv)(0.0)
    gx2 = type(sigmainv)(0.0)
    gy2 = type(sigmainv)(0.0)
    for row in range(wp.max(box[2], first_row), wp.min(box[3], first_row + TILE - 1) + 1):
        py = row_centre(row, height, sigmainv)
        for column in range(wp.max(box[0], first_column), wp.min(box[1], first_column + TILE - 1) + 1):
            px = column_centre(column, width, sigmainv)
            if face <= last[image, row, column] and px >= x_low and px < x_high and py >= y_low and py < y_high:
                edge, t, distance = _nearest(corners, slot, px, py)
                missing = _one_minus_exp(sigmainv * distance)
                if missing > zero:
                    begin = 2 * edge
                    end = 2 * ((edge + 1) % 3)
                    ax, ay = corners[slot, begin], corners[slot, begin + 1]
                    bx, by = corners[slot, end], corners[slot, end + 1]
                    others = left_over[image, row, column] / missing
                    scale = type(sigmainv)(2.0) * sigmainv * wp.exp(-sigmainv * distance) * others
                    scale = scale * grad[image, row, column]
                    rx = scale * (px - (ax + t * (bx - ax)))
                    ry = scale * (py - (ay + t * (by - ay)))
                    s = type(t)(1.0) - t
                    if edge == 0:
                        gx0 += s * rx
                        gy0 += s * ry
                        gx1 += t * rx
                        gy1 += t * ry
                    elif edge == 1:
                        gx1 += s * rx
                        gy1 += s * ry
                        gx2 += t * rx
                        gy2 += t * ry
                    else:
                        gx2 += s * rx
                        gy2 += s * ry
                        gx0 += t * rx
                        gy0 += t * ry
    sums[pair, 0] = gx0
    sums[pair, 1] = gy0
    sums[pair, 2] = gx1
    sums[pair, 3] = gy1
    sums[pair, 4] = gx2
    sums[pair, 5] = gy2


@wp.kernel(enable_backward=False)
@no_type_check
def join(
    base: int,
    tiles: wp.array(dtype=int),
    ends: wp.array(dtype=wp.int64),
    sums: wp.array2d(dtype=Any),
    out: wp.array2d(dtype=Any),
):
    """One value of a face: the sum over its tiles, in their order."""
    item = base + wp.tid()
    slot = item / 6
    value = item % 6
    total = type(sums[0, 0])(0.0)
    for pair in range(int(ends[slot]) - tiles[slot], int(ends[slot])):
        total += sums[pair, value]
    out[slot, value] = total
