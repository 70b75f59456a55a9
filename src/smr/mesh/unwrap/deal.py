"""Charts dealt to launches that run in parallel, so that each gets about as much work."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int, Int32

PILES = 64
"""Chunks of a launch over dealt charts."""


def deal(sizes: Int[np.ndarray, " C"]) -> Int32[np.ndarray, " N"]:
    """Deal charts, the largest first, to `PILES` piles of equal count, one pile after the other; -1 fills up."""
    piles = min(PILES, max(len(sizes), 1))
    ranked = np.argsort(-sizes, kind="stable")
    dealt = np.full((-(-len(sizes) // piles), piles), -1, np.int32)
    dealt.reshape(-1)[: len(sizes)] = ranked
    return dealt.T.reshape(-1)
