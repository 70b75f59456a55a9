"""Blocks of 8×8×8 voxels: their packed keys, and a hash table of keys that grows and never drops one.

After voxel hashing (Nießner et al. 2013), with open addressing. A key packs the block's index along x, y and z in 21
bits each, so a grid reaches a million blocks from its origin to every side. Insertion is the same kernel on a GPU,
where the first to compare-and-swap wins, and on the CPU, where one launch runs on one thread. The order in which blocks
are found may vary on a GPU; new keys are sorted before they get their places, so the result does not.
"""

# ruff: noqa: UP018, RUF046, SIM102
# Warp: a name that changes in a loop must start as int(0), not as a constant, and `and` evaluates both sides.

from __future__ import annotations

from typing import Any, no_type_check

import numpy as np
import warp as wp
from jaxtyping import Int64

from ..arrays import launch_chunked

REACH = 1 << 20
"""Blocks from the origin to each side."""
_FIRST_CAPACITY = 1 << 16

wp.set_module_options({"enable_backward": False})

_EMPTY = wp.constant(wp.int64(-1))
_BIAS = wp.constant(wp.int64(1 << 20))
_LOW = wp.constant(wp.int64((1 << 21) - 1))
_GOLDEN = wp.constant(wp.uint64(0x9E3779B97F4A7C15))  # 2^64 / golden ratio: Fibonacci hashing


@wp.func
@no_type_check
def pack(x: int, y: int, z: int) -> wp.int64:
    """Key of a block index."""
    return ((wp.int64(x) + _BIAS) << wp.int64(42)) | ((wp.int64(y) + _BIAS) << wp.int64(21)) | (wp.int64(z) + _BIAS)


@wp.func
@no_type_check
def unpack(key: wp.int64) -> wp.vec3i:
    """Block index of a key."""
    x = (key >> wp.int64(42)) - _BIAS
    y = ((key >> wp.int64(21)) & _LOW) - _BIAS
    z = (key & _LOW) - _BIAS
    return wp.vec3i(wp.int32(x), wp.int32(y), wp.int32(z))


def pack_keys(index: Int64[np.ndarray, "n 3"]) -> Int64[np.ndarray, " n"]:
    """Keys of block indices."""
    biased = index + REACH
    keys: np.ndarray = biased[:, 0] << 42 | biased[:, 1] << 21 | biased[:, 2]
    return keys


@wp.func
@no_type_check
def _place(key: wp.int64, mask: int) -> int:
    return int((wp.uint64(key) * _GOLDEN) >> wp.uint64(32)) & mask


@wp.kernel(enable_backward=False)
@no_type_check
def _insert_lists(
    counts: wp.array(dtype=wp.int32),
    lists: wp.array(dtype=wp.int64),
    length: int,
    lists_a_frame: int,
    first_frame: int,
    limit: int,
    table: wp.array(dtype=wp.int64),
    births: wp.array(dtype=wp.int32),
    found: wp.array(dtype=wp.int64),
    found_count: wp.array(dtype=wp.int32),
):
    tid = wp.tid()
    frame = first_frame + tid // lists_a_frame
    mask = table.shape[0] - 1
    for k in range(counts[tid]):
        if found_count[0] > limit:
            return  # the host grows the table and starts again
        key = lists[tid * length + k]
        place = _place(key, mask)
        for _probe in range(table.shape[0]):
            held = table[place]
            if held == _EMPTY:
                held = wp.atomic_cas(table, place, _EMPTY, key)
                if held == _EMPTY:
                    n = wp.atomic_add(found_count, 0, 1)
                    if n < limit:
                        found[n] = key
                    held = key
            if held == key:
                if births[place] > frame:
                    wp.atomic_min(births, place, frame)
                break
            place = (place + 1) & mask


@wp.kernel(enable_backward=False)
@no_type_check
def _insert_known(
    keys: wp.array(dtype=wp.int64),
    known_births: wp.array(dtype=wp.int32),
    table: wp.array(dtype=wp.int64),
    births: wp.array(dtype=wp.int32),
):
    tid = wp.tid()
    key = keys[tid]
    mask = table.shape[0] - 1
    place = _place(key, mask)
    while wp.atomic_cas(table, place, _EMPTY, key) != _EMPTY:
        place = (place + 1) & mask
    births[place] = known_births[tid]


@wp.kernel(enable_backward=False)
@no_type_check
def _look_up_births(
    keys: wp.array(dtype=wp.int64),
    table: wp.array(dtype=wp.int64),
    births: wp.array(dtype=wp.int32),
    out: wp.array(dtype=wp.int32),
):
    tid = wp.tid()
    mask = table.shape[0] - 1
    place = _place(keys[tid], mask)
    while table[place] != keys[tid]:
        place = (place + 1) & mask
    out[tid] = births[place]


class BlockTable:
    """The set of block keys, with the first frame that touched each.

    Attributes:
        count: Blocks so far.
        keys: int64, the key of every block in the order of its place in the volume.
        births: int32, the first frame that touched it.
    """

    def __init__(self, device: str, capacity: int = _FIRST_CAPACITY) -> None:
        """Make an empty table; `capacity` is a power of two."""
        self.device = device
        self.count = 0
        self.keys = wp.empty(capacity // 2, dtype=wp.int64, device=device)
        self.births = wp.empty(capacity // 2, dtype=wp.int32, device=device)
        self._found_count = wp.zeros(1, dtype=wp.int32, device=device)
        self._allocate(capacity)

    def _allocate(self, capacity: int) -> None:
        self._table = wp.full(capacity, -1, dtype=wp.int64, device=self.device)
        self._births = wp.full(capacity, 2**31 - 1, dtype=wp.int32, device=self.device)
        self._found = wp.empty(capacity // 2, dtype=wp.int64, device=self.device)

    def insert(self, counts: Any, lists: Any, length: int, lists_a_frame: int, first_frame: int) -> int:
        """Add the keys of many short lists; return how many were new.

        Args:
            counts: int32, the number of keys in each list.
            lists: int64, `length` places for each list.
            length: Places of a list.
            lists_a_frame: Consecutive lists that belong to one frame.
            first_frame: Frame of the first list.
        """
        while True:
            limit = self._table.shape[0] // 2 - self.count  # never more than half full
            self._found_count.zero_()
            wp.launch(
                _insert_lists,
                dim=counts.shape[0],
                inputs=[counts, lists, length, lists_a_frame, first_frame, limit],
                outputs=[self._table, self._births, self._found, self._found_count],
                device=self.device,
            )
            new = int(self._found_count.numpy()[0])  # the one round trip to the GPU of a batch
            if new <= limit:
                break
            self._grow()
        if new:
            self._append(new)
        return new

    def _grow(self) -> None:
        """Double the table and put back what has a place; what the failed insertion added is added again later."""
        self._allocate(self._table.shape[0] * 2)
        for name in ("keys", "births"):
            old = getattr(self, name)
            longer = wp.empty(self._table.shape[0] // 2, dtype=old.dtype, device=self.device)
            wp.copy(longer, old, count=self.count)
            setattr(self, name, longer)
        if self.count:
            known = [self.keys, self.births]
            wp.launch(_insert_known, self.count, inputs=known, outputs=[self._table, self._births], device=self.device)

    def _append(self, new: int) -> None:
        keys = wp.array(np.sort(self._found[:new].numpy()), dtype=wp.int64, device=self.device)
        births = self.births[self.count : self.count + new]
        wp.copy(self.keys, keys, dest_offset=self.count)
        wp.launch(_look_up_births, new, inputs=[keys, self._table, self._births], outputs=[births], device=self.device)
        self.count += new


@wp.kernel(enable_backward=False)
@no_type_check
def _find_neighbors(base: int, keys: wp.array(dtype=wp.int64), count: int, out: wp.array(dtype=wp.int32)):
    i = base + wp.tid()
    block = i // 27
    step = i - block * 27
    index = unpack(keys[block])
    wanted = pack(index[0] + step % 3 - 1, index[1] + (step // 3) % 3 - 1, index[2] + step // 9 - 1)
    low = int(0)
    high = int(count)
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    slot = int(-1)
    if low < count:
        if keys[low] == wanted:
            slot = low
    out[i] = slot


def find_neighbors(keys: wp.array, count: int, device: str) -> wp.array:
    """For each of `count` blocks with SORTED keys the places of the 27 blocks around it, -1 where there is none.

    The neighbour at step `(dx, dy, dz)` is at `27 block + (dx + 1) + 3 (dy + 1) + 9 (dz + 1)`.
    """
    out = wp.empty(count * 27, dtype=wp.int32, device=device)
    launch_chunked(_find_neighbors, count * 27, [keys, count], outputs=[out], device=device)
    return out
