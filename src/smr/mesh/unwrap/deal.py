"""Charts dealt to launches that run in parallel, so that each gets about as much work."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int, Int32

PILES = 32
PILE_SIZE = 1000
"""Faces from which on another pile is worth a launch."""


def deal(sizes: Int[np.ndarray, " C"]) -> Int32[np.ndarray, "P N"]:
    """Deal charts of so many faces, the largest first, to at most `PILES` piles of equal count; -1 fills up."""
    piles = max(1, min(PILES, len(sizes), int(sizes.sum()) // PILE_SIZE))
    dealt = np.full((-(-len(sizes) // piles), piles), -1, np.int32)
    dealt.reshape(-1)[: len(sizes)] = np.argsort(-sizes, kind="stable")
    return np.ascontiguousarray(dealt.T)
