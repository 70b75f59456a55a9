"""The mesh under collapse, and the numbers that its kernels share."""
# mypy: disable-error-code="valid-type"

from typing import Any, no_type_check

import warp as wp

from .quadric import Quadric

BUCKETS = wp.constant(65536)

# Slots of `Surface.state`.
VERTICES = wp.constant(0)
FACES = wp.constant(1)
LOWEST = wp.constant(2)
FREE = wp.constant(3)
TICK = wp.constant(4)
STATUS = wp.constant(5)
COLLAPSES = wp.constant(6)

# Values of `state[STATUS]`.
RUNNING = wp.constant(0)
REACHED = wp.constant(1)
EMPTY_QUEUE = wp.constant(2)
FULL_QUEUE = wp.constant(3)
WAITING = wp.constant(4)
"""What is left costs more than the limit."""

# Values of `kind`.
INTERIOR = wp.constant(0)
BORDER = wp.constant(1)
LOCKED = wp.constant(2)

DEAD = wp.constant(-(1 << 30))
"""Version of a vertex that is gone, or never had a face."""


class SurfaceFields:
    """A mesh under collapse."""

    position: wp.array(dtype=wp.vec3d)
    color: wp.array(dtype=wp.vec3f)
    quadric: wp.array(dtype=Quadric)
    version: wp.array(dtype=wp.int32)
    kind: wp.array(dtype=wp.int32)
    first_corner: wp.array(dtype=wp.int32)
    next_corner: wp.array(dtype=wp.int32)
    corner: wp.array(dtype=wp.int32)
    mark: wp.array(dtype=wp.int32)
    entry: wp.array(dtype=wp.vec4i)
    head: wp.array(dtype=wp.int32)
    state: wp.array(dtype=wp.int32)
    original: wp.array(dtype=wp.vec3d)
    original_corner: wp.array(dtype=wp.int32)
    original_first: wp.array(dtype=wp.int32)
    original_next: wp.array(dtype=wp.int32)
    first_point: wp.array(dtype=wp.int32)
    next_point: wp.array(dtype=wp.int32)


Surface: Any = wp.struct(SurfaceFields)  # not as a decorator: checkers of annotations take its class for a function


@wp.func
@no_type_check
def after(c: wp.int32):
    """The next corner of the same face."""
    return wp.where(c % 3 == 2, c - 2, c + 1)
