"""Cameras of a reference and its sources, in the form that the kernels want."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp
from jaxtyping import Float

from ..records import Camera
from ..transforms import rigid_inverse
from .cost import Level, Source
from .neighbours import Neighbourhood
from .photos import View, scaled


def make_level(camera: Camera, side: int, sources: int, around: Neighbourhood, geometric: float, device: str) -> Any:
    """`Level`: the reference at the size of `camera`; on a GPU the patches of neighbouring pixels lie side by side."""
    level = Level()
    level.width, level.height = camera.width, camera.height
    level.fx, level.fy, level.cx, level.cy = camera.fx, camera.fy, camera.cx, camera.cy
    level.side, level.sources, level.geometric = side, sources, geometric
    level.low, level.high = 1.0 / around.far, 1.0 / around.near
    level.pixel_step, level.sample_step = (side * side, 1) if device == "cpu" else (1, camera.width * camera.height)
    return level


def make_sources(
    view: View,
    camera: Camera,
    sources: Sequence[View],
    sizes: Sequence[tuple[int, int]],
    map_sizes: Sequence[tuple[int, int]],
    device: str,
) -> Any:
    """wp.array(Source): where the reference's pixels lie in each source's image and depth map.

    Args:
        view: The reference.
        camera: Its camera at the level.
        sources: The sources.
        sizes: Width and height of each source's image at the level.
        map_sizes: The same of the depth maps.
        device: A Warp device.
    """
    made, first, map_first = [], 0, 0
    for other, size, map_size in zip(sources, sizes, map_sizes, strict=True):
        source = Source()
        relative = rigid_inverse(other.world_from_camera) @ view.world_from_camera
        image, depth = scaled(other.camera, *size), scaled(other.camera, *map_size)
        turn, shift = _between(camera, image, relative)
        source.turn, source.shift = wp.mat33(turn), wp.vec3(*shift)
        source.first, source.width, source.height = first, *size
        turn, shift = _between(camera, depth, relative)
        source.map_turn, source.map_shift = wp.mat33(turn), wp.vec3(*shift)
        source.map_first, source.map_width, source.map_height = map_first, *map_size
        turn, shift = _between(depth, camera, rigid_inverse(relative))
        source.back_turn, source.back_shift = wp.mat33(turn), wp.vec3(*shift)
        made.append(source)
        first += size[0] * size[1]
        map_first += map_size[0] * map_size[1]
    return wp.array(made, dtype=Source, device=device)


def _between(
    reference: Camera, source: Camera, source_from_reference: Float[np.ndarray, "4 4"]
) -> tuple[Float[np.ndarray, "3 3"], Float[np.ndarray, "3"]]:
    """A and m of q = A (u, v, 1) + m / z."""
    turn = source.K @ source_from_reference[:3, :3] @ np.linalg.inv(reference.K)
    return turn, source.K @ source_from_reference[:3, 3]


def relative_geometry(view: View, sources: Sequence[View]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Centres of the sources in the reference's camera frame, rotations to their axes, and fx, fy, cx, cy of theirs."""
    relative = [rigid_inverse(view.world_from_camera) @ other.world_from_camera for other in sources]
    centers = np.array([pose[:3, 3] for pose in relative]).reshape(-1, 3)
    turns = np.array([pose[:3, :3].T for pose in relative]).reshape(-1, 3, 3)
    cameras = [other.camera for other in sources]
    return centers, turns, np.array([[c.fx, c.fy, c.cx, c.cy] for c in cameras]).reshape(-1, 4)
