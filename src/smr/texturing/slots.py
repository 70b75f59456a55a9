"""What each support vertex remembers of the photos: its best views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, no_type_check

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


@wp.func
@no_type_check
def clipped(color: wp.vec3):
    """0 for a colour whose channels the sensor could measure, up to 1 where one of them is at its end."""
    return wp.clamp((wp.max(color) - 235.0) / 20.0, 0.0, 1.0)


@wp.func
@no_type_check
def exposed(gain: wp.vec3, color: wp.vec3):
    """A photo's colour at the common exposure; all channels scaled alike where it was clipped and its hue is lost."""
    t = clipped(color)
    mean = (gain[0] + gain[1] + gain[2]) / 3.0
    return wp.cw_mul(gain * (1.0 - t) + wp.vec3(mean, mean, mean) * t, color)
