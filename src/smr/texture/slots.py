"""What each support vertex remembers of the photos: its best views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import warp as wp

SLOTS = 16
"""Views that a vertex remembers."""


@dataclass(frozen=True)
class Slots:
    """The best views of each support vertex, on the device; `count` entries a vertex."""

    count: int
    view: Any
    """wp.array(int32), -1 for none."""
    score: Any
    """wp.array(float32)."""
    color: Any
    """wp.array(vec3), grey levels 0 to 255 as the photo has them."""


def empty_slots(vertices: int, *, device: str) -> Slots:
    """No view has seen anything yet."""
    count = vertices * SLOTS
    return Slots(
        SLOTS,
        wp.full(count, -1, dtype=int, device=device),
        wp.zeros(count, dtype=float, device=device),
        wp.zeros(count, dtype=wp.vec3, device=device),
    )
