"""What no photo saw: colours spread over the surface, and texels around charts so that nothing else bleeds in."""

from __future__ import annotations

from typing import Any, no_type_check

import numpy as np
import warp as wp
from jaxtyping import Bool, Float, Float32
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import cg

from ..arrays import launch_chunked
from .support import Support


def fill_vertices(
    support: Support, colors: Float32[np.ndarray, "V 3"], known: Bool[np.ndarray, " V"]
) -> Float32[np.ndarray, "V 3"]:
    """Colours for the vertices that no photo saw: a smooth continuation over the surface of what is around.

    Where the mesh has vertex colours, their difference from the photos is continued and added to them, so that their
    detail stays. A part of the surface of which no photo saw anything takes its vertex colours, or the mean colour.
    """
    guide = support.colors if support.colors is not None else np.zeros_like(colors)
    offset = np.where(known[:, None], colors - guide, 0.0)
    if known.any() and support.colors is None:
        offset[~known] = np.median(colors[known], axis=0)
    elif not known.any() and support.colors is None:
        offset[:] = 128.0
    unknown = ~known
    _, part = csgraph.connected_components(support.neighbours, directed=False)
    reached = np.zeros(int(part.max(initial=-1)) + 1, bool)
    reached[part[known]] = True
    solve = unknown & reached[part]
    if solve.any():
        offset[solve] = _harmonic(support.neighbours, offset, solve)
    return np.clip(guide + offset, 0.0, 255.0).astype(np.float32)


def _harmonic(neighbours: Any, values: Float[np.ndarray, "V 3"], solve: Bool[np.ndarray, " V"]) -> np.ndarray:
    """Each unknown value the mean of its neighbours; solved to a grey level, which the eye cannot tell from exact."""
    rows = neighbours[solve]
    inner = rows[:, solve]
    degree = np.asarray(rows.sum(axis=1), np.float64).ravel()
    scale = 1.0 / np.sqrt(np.maximum(degree, 1.0))
    normalized = sparse.diags_array(scale) @ inner @ sparse.diags_array(scale)
    matrix = sparse.eye_array(len(degree)) - normalized
    right = (rows[:, ~solve] @ values[~solve]) * scale[:, None]
    start = np.median(values[~solve], axis=0)
    solution = [
        cg(matrix, right[:, c], x0=start[c] / scale, rtol=1e-4, maxiter=400)[0] * scale for c in range(values.shape[1])
    ]
    return np.stack(solution, axis=1)


@wp.kernel(enable_backward=False)
@no_type_check
def _seed_rows(base: int, size: int, known: wp.array(dtype=wp.uint8), seed: wp.array(dtype=int)):
    """The nearest known texel in the same row; -1 where the row has none."""
    y = base + wp.tid()
    last = wp.int32(-1)
    for x in range(size):
        i = y * size + x
        if known[i] == wp.uint8(1):
            last = i
        seed[i] = last
    last = wp.int32(-1)
    for k in range(size):
        x = size - 1 - k
        i = y * size + x
        if known[i] == wp.uint8(1):
            last = i
        if last >= 0 and (seed[i] < 0 or last - i < i - seed[i]):
            seed[i] = last


@wp.func
@no_type_check
def steps_between(seed: int, x: int, y: int, size: int):
    """L1 distance from a texel's index to a place; very large where the index is -1."""
    if seed < 0:
        return wp.int32(1 << 30)
    return wp.abs(seed % size - x) + wp.abs(seed / size - y)


@wp.kernel(enable_backward=False)
@no_type_check
def _seed_columns(base: int, size: int, seed: wp.array(dtype=int)):
    """The nearest known texel in steps along rows and columns, exact after both passes."""
    x = base + wp.tid()
    last = wp.int32(-1)
    for y in range(size):
        i = y * size + x
        if steps_between(last, x, y, size) < steps_between(seed[i], x, y, size):
            seed[i] = last
        last = seed[i]
    last = wp.int32(-1)
    for k in range(size):
        y = size - 1 - k
        i = y * size + x
        if steps_between(last, x, y, size) < steps_between(seed[i], x, y, size):
            seed[i] = last
        last = seed[i]


@wp.kernel(enable_backward=False)
@no_type_check
def _mark_owned(base: int, size: int, owner: wp.array(dtype=int), known: wp.array(dtype=wp.uint8)):
    y = base + wp.tid()
    for x in range(size):
        known[y * size + x] = wp.uint8(int(owner[y * size + x] >= 0))


def nearest_known(known: Any, size: int, *, device: str) -> Any:
    """For each texel the index of the nearest one with `known` 1 (L1 distance); -1 if there is none.

    Args:
        known: wp.array(uint8), row by row.
        size: Side of the texture.
        device: Where the array is.
    """
    seed = wp.empty(size * size, dtype=int, device=device)
    launch_chunked(_seed_rows, size, [size, known], outputs=[seed], device=device)
    launch_chunked(_seed_columns, size, [size], outputs=[seed], device=device)
    return seed


@wp.kernel(enable_backward=False)
@no_type_check
def _copy_from_seed(
    base: int, size: int, owner: wp.array(dtype=int), seed: wp.array(dtype=int), image: wp.array(dtype=wp.uint8)
):
    y = base + wp.tid()
    for x in range(size):
        i = y * size + x
        if owner[i] < 0 and seed[i] >= 0:
            for k in range(3):
                image[3 * i + k] = image[3 * seed[i] + k]


def fill_gutter(image: Any, owner: Any, size: int, *, device: str) -> None:
    """Give every texel outside the charts the colour of the nearest texel inside one, in place.

    No background is left that could bleed into a chart in any reduced size of the texture.

    Args:
        image: wp.array(uint8), three a texel.
        owner: wp.array(int32): -1 outside the charts.
        size: Side of the texture.
        device: Where the arrays are.
    """
    known = wp.empty(size * size, dtype=wp.uint8, device=device)
    launch_chunked(_mark_owned, size, [size, owner], outputs=[known], device=device)
    seed = nearest_known(known, size, device=device)
    launch_chunked(_copy_from_seed, size, [size, owner, seed], outputs=[image], device=device)
