"""From and to the camera arguments of nerfstudio's gsplat (`gsplat.rendering.rasterization`)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .camera import Camera
from .intrinsics_ortho import OrthographicIntrinsics
from .intrinsics_pinhole import PinholeIntrinsics

__all__ = ["gsplat_nerfstudio_camera_to_kaolin", "kaolin_camera_to_gsplat_nerfstudio"]


def kaolin_camera_to_gsplat_nerfstudio(kal_camera: Camera) -> dict[str, Any]:
    """Keyword arguments of `gsplat.rendering.rasterization`.

    `viewmats` (C, 4, 4, OpenCV axes), `Ks` (C, 3, 3, pixels from the upper left corner), `width`, `height`,
    `camera_model`, `near_plane`, `far_plane`.
    """
    lens = kal_camera.intrinsics
    view = kal_camera.extrinsics.view_matrix()
    viewmats = view * view.new_tensor([1.0, -1.0, -1.0, 1.0]).unsqueeze(-1)
    Ks = torch.zeros(len(kal_camera), 3, 3, dtype=lens.dtype, device=lens.device)
    Ks[:, 0, 2], Ks[:, 1, 2], Ks[:, 2, 2] = lens.width / 2, lens.height / 2, 1.0
    if isinstance(lens, PinholeIntrinsics):
        Ks[:, 0, 0], Ks[:, 1, 1] = lens.focal_x, lens.focal_y
        Ks[:, 0, 2] = Ks[:, 0, 2] + lens.x0
        Ks[:, 1, 2] = Ks[:, 1, 2] - lens.y0
    elif isinstance(lens, OrthographicIntrinsics):
        Ks[:, 0, 0] = Ks[:, 1, 1] = lens.height / 2 / lens.fov_distance[:, 0]
    else:
        raise ValueError(f"gsplat has no camera model for the lens {lens.lens_type!r}")
    return {
        "viewmats": viewmats,
        "Ks": Ks,
        "width": lens.width,
        "height": lens.height,
        "camera_model": lens.lens_type,
        "near_plane": lens.near,
        "far_plane": lens.far,
    }


def gsplat_nerfstudio_camera_to_kaolin(
    Ks: Tensor,
    viewmats: Tensor,
    width: int | None = None,
    height: int | None = None,
    camera_model: str = "pinhole",
    near_plane: float = 0.01,
    far_plane: float = 100.0,
) -> Camera:
    """The cameras of arguments of `gsplat.rendering.rasterization`.

    Args:
        Ks: (C, 3, 3) or (3, 3), pixels.
        viewmats: (C, 4, 4) or (4, 4), OpenCV axes.
        width: Pixels; None: twice the principal point.
        height: Pixels; None: twice the principal point.
        camera_model: `pinhole` or `ortho`.
        near_plane: Distance.
        far_plane: Distance.

    Raises:
        ValueError: Another camera model.
    """
    Ks, viewmats = Ks.reshape(-1, 3, 3), viewmats.reshape(-1, 4, 4)
    width = round(2 * Ks[0, 0, 2].item()) if width is None else width
    height = round(2 * Ks[0, 1, 2].item()) if height is None else height
    view = viewmats * viewmats.new_tensor([1.0, -1.0, -1.0, 1.0]).unsqueeze(-1)
    args: dict[str, Any] = {
        "view_matrix": view,
        "width": width,
        "height": height,
        "near": near_plane,
        "far": far_plane,
        "dtype": viewmats.dtype,
        "device": viewmats.device,
    }
    if camera_model == "pinhole":
        x0, y0 = Ks[:, 0, 2] - width / 2, height / 2 - Ks[:, 1, 2]
        return Camera.from_args(**args, focal_x=Ks[:, 0, 0], focal_y=Ks[:, 1, 1], x0=x0, y0=y0)
    if camera_model == "ortho":
        return Camera.from_args(**args, fov_distance=height / 2 / Ks[:, 1, 1])
    raise ValueError(f"the camera model {camera_model!r} has no counterpart; these have: pinhole, ortho")
