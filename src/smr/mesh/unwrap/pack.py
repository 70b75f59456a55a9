"""Charts into one square: each goes, in the turn that ends lowest, to the first place where its raster fits.

The raster's cell is a few pixels at most. A table keeps, for every cell, how far the free (or taken) cells reach to the
right, so a search along a row leaps from gap to gap, and holes inside and between charts are filled by smaller ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import no_type_check

import numpy as np
import warp as wp
from jaxtyping import Float64, Int32

from ...arrays import launch_chunked
from .grid import Grid
from .outlines import Outlines

SEARCH_BUDGET = 400_000_000
"""Look-ups that one packing may spend on gaps; what is left after that goes on top."""
MANY = 2000
"""From so many charts on, a search begins where the last one for a chart of like size ended."""


@dataclass(frozen=True)
class Packing:
    """Where each chart's box lies, in cells from the texture's lower left corner inside the margin."""

    place: Int32[np.ndarray, "C 3"]
    """Column, row, 4 × pose + quarter turns."""
    box: Int32[np.ndarray, "P C 2"]
    """Width and height in cells before the quarter turns."""
    scale: float
    """Pixels per unit."""
    top: int
    """Rows in use."""


def pack(outlines: Outlines, grid: Grid, scale: float, rows: int) -> Packing | None:
    """Pack at a scale (pixels per unit) into the grid's width and so many rows; None if it does not fit."""
    poses, count = outlines.extent.shape[:2]
    per_cell = scale / grid.cell
    box = np.maximum(np.ceil(outlines.extent * per_cell - 1e-9), 1).astype(np.int64)
    upright = box[0]
    if outlines.area * per_cell**2 > grid.side * rows or upright.prod(axis=1).sum() > 8 * grid.side * rows:
        return None
    start = np.concatenate([[0], np.cumsum(box.prod(axis=2).ravel())])
    bitmap = wp.zeros(int(start[-1]), dtype=wp.uint8, device="cpu")
    corners = wp.array(outlines.corners.reshape(-1, 3, 2) * per_cell, dtype=wp.vec2d, device="cpu")
    face_start = wp.array(outlines.face_start.astype(np.int32), dtype=wp.int32, device="cpu")
    boxes = wp.array(box.reshape(-1, 2).astype(np.int32), dtype=wp.int32, device="cpu")
    starts = wp.array(start, dtype=wp.int64, device="cpu")
    launch_chunked(_rasterise, poses * count, [corners, face_start, boxes, starts], outputs=[bitmap], device="cpu")
    order = np.lexsort((np.arange(count), -upright.prod(axis=1), -upright.max(axis=1))).astype(np.int32)
    longest, cells = int(box.max()), int(box.prod(axis=2).max())
    place = wp.full((count, 3), -1, dtype=wp.int32, device="cpu")
    top = wp.zeros(1, dtype=wp.int32, device="cpu")
    inputs = [
        wp.array(order, dtype=wp.int32, device="cpu"),
        boxes,
        starts,
        bitmap,
        grid.gutter,
        int(count >= MANY),
        wp.int64(SEARCH_BUDGET),
        wp.zeros((2, longest + 1), dtype=wp.int32, device="cpu"),
        wp.zeros((2, cells), dtype=wp.vec2i, device="cpu"),
        wp.zeros((64, 64), dtype=wp.int32, device="cpu"),
        wp.zeros((rows, grid.side), dtype=wp.int16, device="cpu"),
    ]
    wp.launch(_place, dim=1, inputs=inputs, outputs=[place, top], device="cpu")
    if top.numpy()[0] < 0:
        return None
    return Packing(place.numpy(), box.astype(np.int32), scale, int(top.numpy()[0]))


def fill(outlines: Outlines, grid: Grid, rounds: int = 6) -> Packing | None:
    """Pack at the largest scale that is found to fit the square; None if none does."""
    scale = _first_guess(outlines, grid)
    best: Packing | None = None
    lowest_failure = np.inf
    for _ in range(40):
        packing = pack(outlines, grid, scale, grid.side * 5 // 4)
        if packing is None or packing.top > grid.side:
            lowest_failure = min(lowest_failure, scale)
        if packing is None:
            scale *= 0.85
        elif packing.top <= grid.side and (best is None or scale > best.scale):
            best = packing
        if packing is not None:
            rounds -= 1
            guess = scale * np.sqrt(grid.side / packing.top)
            if packing.top > grid.side:
                guess *= 0.995
            if best is not None:
                if lowest_failure / best.scale < 1.006:
                    break
                low, high = best.scale, min(lowest_failure, best.scale * 1.1)
                guess = float(np.clip(guess, low + 0.2 * (high - low), high - 0.2 * (high - low)))
            scale = float(guess)
        if rounds <= 0 and best is not None:
            break
    return best


def _first_guess(outlines: Outlines, grid: Grid) -> float:
    """Scale at which the charts with their gutters would have three quarters of the room."""
    width, height = outlines.extent[0].T
    loss = grid.pitch  # to the gutter and the cells' edges
    filled = outlines.area / max(float((width * height).sum()), 1e-12)
    a, b = max(outlines.area, 1e-12), filled * loss * float((width + height).sum())
    c = filled * loss**2 * len(width) - 0.75 * (grid.side * grid.cell) ** 2
    scale = 2 * max(-c, 1.0) / (b + np.sqrt(b**2 + 4 * a * max(-c, 1.0)))
    return float(min(scale, 1.4 * grid.side * grid.cell / max(float(outlines.extent[0].max()), 1e-12)))


def apply(outlines: Outlines, grid: Grid, packing: Packing) -> Float64[np.ndarray, "F 3 2"]:
    """Corners in pixels from the texture's lower left corner."""
    chart = np.repeat(np.arange(len(packing.place)), np.diff(outlines.face_start))
    pose, turn = packing.place[chart, 2] // 4, packing.place[chart, 2][:, None] % 4
    x, y = np.moveaxis(outlines.corners[pose, np.arange(len(chart))] * packing.scale, 2, 0)
    width, height = (packing.box[pose, chart].T * grid.cell)[:, :, None]
    turned = np.stack(
        [
            np.choose(turn, [x, height - y, width - x, y]),
            np.choose(turn, [y, x, height - y, width - x]),
        ],
        axis=2,
    )
    corner = (packing.place[chart, :2] + grid.margin) * grid.cell
    pixels: np.ndarray = turned + corner[:, None, :]
    return pixels


@wp.kernel(enable_backward=False)
@no_type_check
def _rasterise(
    base: int,
    corners: wp.array2d(dtype=wp.vec2d),
    face_start: wp.array(dtype=wp.int32),
    box: wp.array2d(dtype=wp.int32),
    start: wp.array(dtype=wp.int64),
    bitmap: wp.array(dtype=wp.uint8),
):
    # Every cell that a triangle touches.
    chart = base + wp.tid()
    width = box[chart, 0]
    height = box[chart, 1]
    count = face_start.shape[0] - 1
    first = (chart // count) * face_start[count]
    for f in range(first + face_start[chart % count], first + face_start[chart % count + 1]):
        low = wp.min(corners[f, 0], wp.min(corners[f, 1], corners[f, 2]))
        high = wp.max(corners[f, 0], wp.max(corners[f, 1], corners[f, 2]))
        for y in range(
            wp.clamp(wp.int32(wp.floor(low[1])), 0, height - 1),
            wp.clamp(wp.int32(wp.floor(high[1])), 0, height - 1) + 1,
        ):
            below = wp.float64(y)
            above = below + wp.float64(1.0)
            left = wp.float64(1e30)
            right = wp.float64(-1e30)
            for k in range(3):
                p = corners[f, k]
                q = corners[f, (k + 1) % 3]
                if p[1] > q[1]:
                    p = corners[f, (k + 1) % 3]
                    q = corners[f, k]
                if q[1] >= below and p[1] <= above:
                    rise = q[1] - p[1]
                    s = wp.float64(0.0)
                    t = wp.float64(1.0)
                    if rise > wp.float64(1e-12):
                        s = wp.clamp((below - p[1]) / rise, wp.float64(0.0), wp.float64(1.0))
                        t = wp.clamp((above - p[1]) / rise, wp.float64(0.0), wp.float64(1.0))
                    xs = p[0] + s * (q[0] - p[0])
                    xt = p[0] + t * (q[0] - p[0])
                    left = wp.min(left, wp.min(xs, xt))
                    right = wp.max(right, wp.max(xs, xt))
            if left <= right:
                row = start[chart] + wp.int64(y) * wp.int64(width)
                for x in range(
                    wp.clamp(wp.int32(wp.floor(left)), 0, width - 1),
                    wp.clamp(wp.int32(wp.floor(right)), 0, width - 1) + 1,
                ):
                    bitmap[row + wp.int64(x)] = wp.uint8(1)


@wp.func
@no_type_check
def _find_runs(
    bitmap: wp.array(dtype=wp.uint8),
    start: wp.int64,
    rows: int,
    columns: int,
    row_step: int,
    column_step: int,
    which: int,
    row_start: wp.array2d(dtype=wp.int32),
    runs: wp.array2d(dtype=wp.vec2i),
):
    count = wp.int32(0)
    for r in range(rows):
        row_start[which, r] = count
        begin = wp.int32(-1)
        for c in range(columns):
            if bitmap[start + wp.int64(r * row_step + c * column_step)] != wp.uint8(0):
                if begin < 0:
                    begin = wp.int32(c)
            elif begin >= 0:
                runs[which, count] = wp.vec2i(begin, c)
                count = count + 1
                begin = wp.int32(-1)
        if begin >= 0:
            runs[which, count] = wp.vec2i(begin, columns)
            count = count + 1
    row_start[which, rows] = count


@wp.func
@no_type_check
def _leap(
    gap: wp.array2d(dtype=wp.int16),
    x: int,
    y: int,
    row: int,
    width: int,
    mirror: wp.bool,
    which: int,
    row_start: wp.array2d(dtype=wp.int32),
    runs: wp.array2d(dtype=wp.vec2i),
):
    """How far the chart must move right before this row of it may fit; 0 where it does."""
    for i in range(row_start[which, row], row_start[which, row + 1]):
        run = runs[which, i]
        begin = run[0]
        if mirror:
            begin = width - run[1]
        free = wp.int32(gap[y, x + begin])
        if free < 0:
            return -free
        if free < run[1] - run[0]:
            return free - wp.int32(gap[y, x + begin + free])
    return 0


@wp.func
@no_type_check
def _take(gap: wp.array2d(dtype=wp.int16), y: int, begin: int, end: int):
    """Mark cells of a row as taken."""
    a = wp.max(begin, 0)
    b = wp.min(end, gap.shape[1])
    taken = wp.int32(0)
    if b < gap.shape[1]:
        taken = wp.max(-wp.int32(gap[y, b]), 0)
    x = wp.int32(b - 1)
    while x >= a:
        taken = taken + 1
        gap[y, x] = wp.int16(-taken)
        x = x - 1
    free = wp.int32(0)
    while x >= 0:
        if gap[y, x] < wp.int16(0):
            break
        free = free + 1
        gap[y, x] = wp.int16(free)
        x = x - 1


@wp.func
@no_type_check
def _search(
    gap: wp.array2d(dtype=wp.int16),
    box: wp.array2d(dtype=wp.int32),
    posed: int,
    turn: int,
    floor: int,
    below: int,
    row_start: wp.array2d(dtype=wp.int32),
    runs: wp.array2d(dtype=wp.vec2i),
):
    """The lowest, then leftmost place that ends under `below`: column, row, end, look-ups; end is `below` if none."""
    rows = gap.shape[0]
    which = turn % 2
    w = box[posed, which]
    h = box[posed, 1 - which]
    mirror = turn == 1 or turn == 2
    work = wp.int32(0)
    hot = wp.int32(0)
    y = wp.int32(floor)
    while y + h < below and y + h <= rows:
        x = wp.int32(0)
        while x + w <= gap.shape[1]:
            r = wp.int32(hot)
            tried = wp.int32(0)
            leap = wp.int32(0)
            while tried < h and leap == 0:
                row = wp.int32(r)
                if turn >= 2:
                    row = h - 1 - r
                leap = _leap(gap, x, y + r, row, w, mirror, which, row_start, runs)
                tried = tried + 1
                if leap == 0:
                    r = r + 1
                    if r == h:
                        r = wp.int32(0)
            work = work + tried
            if leap == 0:
                return wp.vec4i(x, y, y + h, work)
            hot = wp.int32(r)  # the row that was in the way likely is again
            x = x + leap
        y = y + 1
    return wp.vec4i(-1, -1, below, work)


@wp.func
@no_type_check
def _settle(
    gap: wp.array2d(dtype=wp.int16),
    x: int,
    y: int,
    box: wp.array2d(dtype=wp.int32),
    posed: int,
    turn: int,
    gutter: int,
    row_start: wp.array2d(dtype=wp.int32),
    runs: wp.array2d(dtype=wp.vec2i),
):
    """Mark the chart's cells and its gutter as taken."""
    which = turn % 2
    w = box[posed, which]
    h = box[posed, 1 - which]
    for r in range(h):
        row = wp.int32(r)
        if turn >= 2:
            row = h - 1 - r
        for j in range(row_start[which, row], row_start[which, row + 1]):
            run = runs[which, j]
            begin = wp.int32(run[0])
            if turn == 1 or turn == 2:
                begin = w - run[1]
            for line in range(wp.max(y + r - gutter, 0), wp.min(y + r + gutter, gap.shape[0] - 1) + 1):
                _take(gap, line, x + begin - gutter, x + begin + run[1] - run[0] + gutter)


@wp.func
@no_type_check
def _size_class(length: int):
    return wp.min(wp.int32(3.0 * wp.log2(float(length))), 63)


@wp.kernel(enable_backward=False)
@no_type_check
def _place(
    order: wp.array(dtype=wp.int32),
    box: wp.array2d(dtype=wp.int32),
    start: wp.array(dtype=wp.int64),
    bitmap: wp.array(dtype=wp.uint8),
    gutter: int,
    many: int,
    budget: wp.int64,
    row_start: wp.array2d(dtype=wp.int32),
    runs: wp.array2d(dtype=wp.vec2i),
    pointer: wp.array2d(dtype=wp.int32),
    gap: wp.array2d(dtype=wp.int16),
    place: wp.array2d(dtype=wp.int32),
    top: wp.array(dtype=wp.int32),
):
    # A serial program: launch with dim=1.
    rows = gap.shape[0]
    side = gap.shape[1]
    for y in range(rows):
        for x in range(side):
            gap[y, x] = wp.int16(side - x)
    work = wp.int64(0)
    highest = wp.int32(0)
    count = order.shape[0]
    poses = box.shape[0] // count
    for i in range(count):
        chart = order[i]
        short = _size_class(wp.min(box[chart, 0], box[chart, 1]))
        long = _size_class(wp.max(box[chart, 0], box[chart, 1]))
        floor = wp.int32(0)
        if many != 0:
            floor = pointer[short, long]
        if work > budget:
            floor = wp.max(floor, highest - wp.max(box[chart, 0], box[chart, 1]))
        best = wp.int32(rows + 1)
        for pose in range(poses):
            posed = pose * count + chart
            _find_runs(bitmap, start[posed], box[posed, 1], box[posed, 0], box[posed, 0], 1, 0, row_start, runs)
            _find_runs(bitmap, start[posed], box[posed, 0], box[posed, 1], 1, box[posed, 0], 1, row_start, runs)
            for turn in range(4):
                found = _search(gap, box, posed, turn, floor, best, row_start, runs)
                work = work + wp.int64(found[3])
                if found[2] < best:
                    best = found[2]
                    place[chart, 0] = found[0]
                    place[chart, 1] = found[1]
                    place[chart, 2] = 4 * pose + turn
        if best > rows:
            top[0] = -1
            return
        highest = wp.max(highest, best)
        if many != 0:
            pointer[short, long] = place[chart, 1]
        posed = (place[chart, 2] // 4) * count + chart
        turn = place[chart, 2] % 4
        if turn % 2 == 0:
            _find_runs(bitmap, start[posed], box[posed, 1], box[posed, 0], box[posed, 0], 1, 0, row_start, runs)
        else:
            _find_runs(bitmap, start[posed], box[posed, 0], box[posed, 1], 1, box[posed, 0], 1, row_start, runs)
        _settle(gap, place[chart, 0], place[chart, 1], box, posed, turn, gutter, row_start, runs)
    top[0] = highest
