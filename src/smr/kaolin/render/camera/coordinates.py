"""World axes of other programs, for `CameraExtrinsics.change_coordinate_system`."""

from __future__ import annotations

import torch


def blender_coords() -> torch.Tensor:
    """From y up to Blender's world: right-handed, x right, y into the scene, z up."""
    return torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])


def opengl_coords() -> torch.Tensor:
    """Kaolin's own: right-handed, x right, y up, z out of the screen."""
    return torch.eye(3)
