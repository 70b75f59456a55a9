"""`kaolin.render.easy_render.common`: a camera, lights and a material to start with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from ..lighting.sg import SgLightingParameters, sg_direction_from_azimuth_elevation
from ..materials.pbr import PBRMaterial

if TYPE_CHECKING:
    from ..camera.camera import Camera


def default_lighting() -> SgLightingParameters:
    """One broad light from above, on the right of `default_camera`, on the CPU."""
    direction = sg_direction_from_azimuth_elevation(math.pi / 4.0, math.pi / 3.0)
    return SgLightingParameters(amplitude=3.0, direction=direction, sharpness=5.0)


def default_camera(resolution: int = 512) -> Camera:
    """A pinhole camera at (1, 1, 1) that looks at the origin, on the CPU; 45 degrees wide, `resolution` pixels square.

    It sees all of an object in -0.5..0.5.
    """
    from ..camera.camera import Camera

    return Camera.from_args(
        eye=torch.ones(3),
        at=torch.zeros(3),
        up=torch.tensor([0.0, 1.0, 0.0]),
        fov=math.pi * 45.0 / 180.0,
        width=resolution,
        height=resolution,
    )


def default_material(diffuse_color: Sequence[float] | torch.Tensor | None = None) -> PBRMaterial:
    """A matt material, light grey where no colour is given, on the CPU."""
    color = (0.7, 0.7, 0.7) if diffuse_color is None else diffuse_color
    if not isinstance(color, torch.Tensor):
        color = torch.tensor(color, dtype=torch.float32)
    return PBRMaterial(
        diffuse_color=color.float(), roughness_value=0.5, metallic_value=0.0, material_name="default_material"
    )
