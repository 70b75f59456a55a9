"""From and to the cameras of INRIA's Gaussian splatting (its class `scene.cameras.Camera` is an argument)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

from .camera import Camera
from .intrinsics import CameraFOV

__all__ = [
    "gsplat_inria_camera_to_kaolin",
    "gsplats_camera_to_kaolin",
    "kaolin_camera_to_gsplat_inria",
    "kaolin_camera_to_gsplats",
]


def kaolin_camera_to_gsplat_inria(kal_camera: Camera, gs_cam_cls: Any) -> Any:
    """A camera of INRIA's class: OpenCV axes, R transposed, fields of view in radians, an empty image.

    Raises:
        ValueError: A batch, another lens than a pinhole, or a principal point off the middle, which the class lacks.
    """
    if len(kal_camera) != 1:
        raise ValueError(f"INRIA's class holds one camera; this is a batch of {len(kal_camera)}: index it first")
    if kal_camera.lens_type != "pinhole":
        raise ValueError(f"INRIA's class holds pinhole cameras, not {kal_camera.lens_type}")
    if bool((kal_camera.x0 != 0).any()) or bool((kal_camera.y0 != 0).any()):
        raise ValueError("INRIA's class has its principal point in the middle; this camera's x0 or y0 is not 0")
    view = kal_camera.extrinsics.view_matrix()[0].detach().cpu().numpy()
    view = np.diag([1.0, -1.0, -1.0, 1.0]).astype(view.dtype) @ view
    lens = kal_camera.intrinsics
    return gs_cam_cls(
        colmap_id=0,
        R=view[:3, :3].T,
        T=view[:3, 3],
        FoVx=lens.fov(CameraFOV.HORIZONTAL, in_degrees=False).detach().cpu(),  # type: ignore[attr-defined]
        FoVy=lens.fov(CameraFOV.VERTICAL, in_degrees=False).detach().cpu(),  # type: ignore[attr-defined]
        image=torch.zeros(3, lens.height, lens.width),
        gt_alpha_mask=None,
        image_name="kaolin",
        uid=0,
        data_device=str(kal_camera.device),
    )


def gsplat_inria_camera_to_kaolin(gs_camera: Any) -> Camera:
    """The camera of one of INRIA's class."""
    view = np.eye(4)
    view[:3, :3], view[:3, 3] = np.asarray(gs_camera.R).T, np.asarray(gs_camera.T)
    view = np.diag([1.0, -1.0, -1.0, 1.0]) @ view
    width, height = int(gs_camera.image_width), int(gs_camera.image_height)
    half_x, half_y = (torch.as_tensor(fov).double() / 2 for fov in (gs_camera.FoVx, gs_camera.FoVy))
    return Camera.from_args(
        view_matrix=torch.from_numpy(view),
        width=width,
        height=height,
        focal_x=width / 2 / half_x.tan(),
        focal_y=height / 2 / half_y.tan(),
        near=float(gs_camera.znear),
        far=float(gs_camera.zfar),
        device=str(getattr(gs_camera, "data_device", "cpu")),
    )


def kaolin_camera_to_gsplats(kal_camera: Camera, gs_cam_cls: Any) -> Any:
    """The earlier name of `kaolin_camera_to_gsplat_inria`."""
    warnings.warn("use kaolin_camera_to_gsplat_inria", DeprecationWarning, stacklevel=2)
    return kaolin_camera_to_gsplat_inria(kal_camera, gs_cam_cls)


def gsplats_camera_to_kaolin(gs_camera: Any) -> Camera:
    """The earlier name of `gsplat_inria_camera_to_kaolin`."""
    warnings.warn("use gsplat_inria_camera_to_kaolin", DeprecationWarning, stacklevel=2)
    return gsplat_inria_camera_to_kaolin(gs_camera)
