"""Large OBJ files: the same as `obj_read` collects, by machine code on all cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import warp as wp

from ..arrays import launch_chunked
from . import obj_kernels as kernels

_SEGMENT = 1 << 29
"""Bytes that are read together: places in them fit 32 bits."""

ReadBlock = Callable[[int, int], None]
AddBlock = Callable[["Block"], None]


class Block:
    """What the lines of one block say, as views of arrays that blocks share; see `obj_read.Collected`."""

    def __init__(self, begin: int, end: int, rows: dict[str, np.ndarray], corners: np.ndarray, sizes: np.ndarray):
        self.begin, self.end = begin, end
        self.rows = rows
        """Numbers of the lines `v`, `vt` and `vn`; not-a-number where a line has fewer than others of its block."""
        self.corners, self.sizes = corners, sizes
        self.uses: list[tuple[int, int, int]] = []
        """Where a line with `usemtl` or `mtllib` begins and ends, and how many faces of the block are before it."""
        self.plain = True
        """Whether the rest may be used; else the block is to be read again."""


def blocks(text: bytes, edges: np.ndarray) -> Iterator[Block]:
    """Read blocks of lines.

    Args:
        text: The file.
        edges: Where each block begins, and the end of the last; each begins a line.

    Yields:
        The blocks in order.
    """
    first = 0
    totals = np.zeros(3, np.int64)
    while first < len(edges) - 1:
        last = max(int(np.searchsorted(edges, edges[first] + _SEGMENT, side="right")) - 1, first + 1)
        yield from _read_segment(text, edges[first : last + 1], totals)
        first = last


def _bytes(data: bytes, begin: int, end: int) -> wp.array:
    view = np.frombuffer(data, np.uint8)[begin:end]
    return wp.array(ptr=view.ctypes.data, dtype=wp.uint8, shape=view.shape, device="cpu", copy=False)


def _read_segment(text: bytes, edges: np.ndarray, totals: np.ndarray) -> Iterator[Block]:
    """Blocks that lie together; `totals`: lines `v`, `vt` and `vn` before them, counted on."""
    count = len(edges) - 1
    data = _bytes(text, int(edges[0]), int(edges[-1]))
    words = [_bytes(word, 0, len(word)) for word in (b"usemtl", b"mtllib")]
    places = wp.array(edges - edges[0], dtype=int, device="cpu")
    counted = np.zeros((count, 10), np.int32)
    counts = wp.array(counted, dtype=int, device="cpu", copy=False)
    launch_chunked(kernels.count_lines, count, [data, places, *words], outputs=[counts], device="cpu", chunks=count)
    lengths = counted[:, [0, 1, 2, 3, 4, 8]].astype(np.int64)
    lengths[:, :3] *= counted[:, 5:8]
    ends = np.cumsum(lengths, axis=0)
    starts = np.zeros((count, 10), np.int32)
    starts[:, [0, 1, 2, 3, 4, 8]] = ends - lengths
    before = totals + np.cumsum(counted[:, :3], axis=0) - counted[:, :3]
    totals += counted[:, :3].sum(axis=0)
    numbers = [np.empty(int(ends[-1, i])) for i in range(3)]
    corners, sizes = np.empty((int(ends[-1, 4]), 3), np.int64), np.empty(int(ends[-1, 3]), np.int64)
    uses, rough = np.zeros((int(ends[-1, 5]), 3), np.int32), np.zeros(count, np.int32)
    inputs = [data, places, *words, wp.array(kernels.POWERS, dtype=wp.float64, device="cpu"), counts]
    inputs += [wp.array(values, dtype=int, device="cpu") for values in (starts, np.minimum(before, 2**31 - 1))]
    outputs = [_shared(values, wp.float64) for values in numbers]
    outputs += [_shared(corners, wp.int64), _shared(sizes, wp.int64), _shared(uses, int), _shared(rough, int)]
    launch_chunked(kernels.read_lines, count, inputs, outputs=outputs, device="cpu", chunks=count)
    for i in range(count):
        rows = {}
        for column, name in enumerate(("v", "vt", "vn")):
            part = numbers[column][starts[i, column] : ends[i, column]]
            if len(part):
                rows[name] = part.reshape(counted[i, column], counted[i, 5 + column])
        block = Block(
            int(edges[i]),
            int(edges[i + 1]),
            rows,
            corners[starts[i, 4] : ends[i, 4]],
            sizes[starts[i, 3] : ends[i, 3]],
        )
        origin = int(edges[0])
        block.uses = [
            (origin + int(begin), origin + int(end), int(faces))
            for begin, end, faces in uses[starts[i, 8] : ends[i, 5]]
        ]
        block.plain = not rough[i]
        yield block


def _shared(values: np.ndarray, dtype: type) -> wp.array:
    return wp.array(values, dtype=dtype, device="cpu", copy=False)
