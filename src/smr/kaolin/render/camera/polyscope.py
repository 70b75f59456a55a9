"""From and to polyscope's camera parameters. Needs polyscope (`pip install polyscope`)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from ....errors import SmrError
from .camera import Camera
from .intrinsics import CameraFOV

__all__ = ["kaolin_camera_to_polyscope", "polyscope_camera_to_kaolin"]


def polyscope_camera_to_kaolin(
    ps_camera: Any,
    width: int,
    height: int,
    near: float = 1e-2,
    far: float = 1e2,
    dtype: torch.dtype | None = None,
    device: torch.device | str = "cpu",
) -> Camera:
    """The camera of `polyscope.CameraParameters`.

    Args:
        ps_camera: polyscope's camera.
        width: Pixels.
        height: Pixels.
        near: Distance.
        far: Distance.
        dtype: Type of the parameters; None: torch's default.
        device: Their device.
    """
    focal = height / 2 / math.tan(math.radians(ps_camera.get_fov_vertical_deg()) / 2)
    focal_x = width / 2 / (math.tan(math.radians(ps_camera.get_fov_vertical_deg()) / 2) * ps_camera.get_aspect())
    return Camera.from_args(
        view_matrix=torch.from_numpy(np.array(ps_camera.get_view_mat(), dtype=np.float64)),
        width=width,
        height=height,
        focal_x=focal_x,
        focal_y=focal,
        near=near,
        far=far,
        dtype=torch.get_default_dtype() if dtype is None else dtype,
        device=device,
    )


def kaolin_camera_to_polyscope(camera: Camera) -> Any:
    """`polyscope.CameraParameters` of one pinhole camera whose principal point is in the middle.

    Raises:
        SmrError: polyscope is not installed.
        ValueError: A batch or another lens.
    """
    try:
        import polyscope  # type: ignore[import-not-found]
    except ImportError:
        raise SmrError("polyscope is not installed.", "pip install polyscope") from None
    if len(camera) != 1:
        raise ValueError(f"polyscope has one camera; this is a batch of {len(camera)}: index it first")
    if camera.lens_type != "pinhole":
        raise ValueError(f"polyscope takes a pinhole camera here, not {camera.lens_type}")
    vertical = camera.intrinsics.tan_half_fov(CameraFOV.VERTICAL).detach().double().item()  # type: ignore[attr-defined]
    across = camera.intrinsics.tan_half_fov(CameraFOV.HORIZONTAL).detach().double().item()  # type: ignore[attr-defined]
    intrinsics = polyscope.CameraIntrinsics(
        fov_vertical_deg=math.degrees(2 * math.atan(vertical)), aspect=across / vertical
    )
    extrinsics = polyscope.CameraExtrinsics(mat=camera.extrinsics.view_matrix()[0].detach().cpu().numpy())
    return polyscope.CameraParameters(intrinsics, extrinsics)
