"""Straighter borders between charts."""

from __future__ import annotations

from typing import no_type_check

import numpy as np
import warp as wp
from jaxtyping import Int32

from ...arrays import launch_chunked
from .surface import Surface

CHUNK = 16_384
"""Faces from which on another launch is worth its while."""


def straighten(surface: Surface, labels: Int32[np.ndarray, " F"], rounds: int = 6) -> Int32[np.ndarray, " F"]:
    """Hand faces over to the neighbouring chart where that shortens the border between the two."""
    twins = wp.array(surface.twins.ravel(), dtype=wp.int32, device="cpu", copy=False)
    lengths = wp.array(surface.lengths.ravel(), dtype=wp.float64, device="cpu", copy=False)
    now = wp.array(labels, dtype=wp.int32, device="cpu")
    after = wp.empty_like(now)
    gain = wp.empty(len(labels), dtype=wp.float64, device="cpu")
    best = wp.empty_like(now)
    chunks = max(1, len(labels) // CHUNK)
    for turn in range(rounds):
        launch_chunked(
            _find_gain, len(labels), [twins, lengths, now], outputs=[gain, best], device="cpu", chunks=chunks
        )
        inputs = [twins, now, gain, best, turn]
        launch_chunked(_hand_over, len(labels), inputs, outputs=[after], device="cpu", chunks=chunks)
        now, after = after, now
    return now.numpy()


@wp.kernel(enable_backward=False)
@no_type_check
def _find_gain(
    base: int,
    twins: wp.array(dtype=wp.int32),
    lengths: wp.array(dtype=wp.float64),
    labels: wp.array(dtype=wp.int32),
    gain: wp.array(dtype=wp.float64),
    best: wp.array(dtype=wp.int32),
):
    """By how much the border shortens when a face goes to the neighbour's chart for which that is most."""
    f = base + wp.tid()
    around = wp.vec3i(-1, -1, -1)
    own = wp.float64(0.0)
    for k in range(3):
        twin = twins[3 * f + k]
        if twin >= 0 and labels[f] >= 0:
            around[k] = labels[twin // 3]
            if around[k] == labels[f]:
                own = own + lengths[3 * f + k]
    most = wp.float64(-1.0)
    where = wp.int32(-1)
    for k in range(3):
        if around[k] >= 0 and around[k] != labels[f]:
            shared = wp.float64(0.0)
            for j in range(3):
                if around[j] == around[k]:
                    shared = shared + lengths[3 * f + j]
            if where < 0 or shared - own > most:
                most = shared - own
                where = around[k]
    gain[f] = most
    best[f] = where


@wp.kernel(enable_backward=False)
@no_type_check
def _hand_over(
    base: int,
    twins: wp.array(dtype=wp.int32),
    labels: wp.array(dtype=wp.int32),
    gain: wp.array(dtype=wp.float64),
    best: wp.array(dtype=wp.int32),
    turn: int,
    after: wp.array(dtype=wp.int32),
):
    # Neighbours do not change in the same round: only those that gain more than all around them.
    f = base + wp.tid()
    rival = wp.float64(-1.0)
    for k in range(3):
        twin = twins[3 * f + k]
        if twin >= 0:
            rival = wp.max(rival, gain[twin // 3])
    leads = gain[f] > rival or (gain[f] == rival and f % 2 == turn % 2)
    after[f] = labels[f]
    if gain[f] > wp.float64(1e-9) and leads:
        after[f] = best[f]
