"""`kaolin.render.mesh.dibr`."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ....ops.render.soft_mask import soft_mask
from .rasterization import rasterize


def dibr_soft_mask(
    face_vertices_image: torch.Tensor,
    selected_face_idx: torch.Tensor,
    sigmainv: float | int = 7000,
    boxlen: float | int = 0.02,
    knum: int = 30,
    multiplier: float | int = 1000.0,
) -> torch.Tensor:
    """Soft silhouette, differentiable in the corners; see `smr.ops.render.soft_mask`.

    `multiplier` scales coordinates and distances alike in Kaolin, so that it changes nothing but rounding; here it is
    not needed.

    Returns:
        (B, H, W), 1 where a face is selected.
    """
    del multiplier
    return soft_mask(face_vertices_image, selected_face_idx, sigmainv=sigmainv, boxlen=boxlen, knum=knum)


def dibr_rasterization(
    height: int,
    width: int,
    face_vertices_z: torch.Tensor,
    face_vertices_image: torch.Tensor,
    face_features: torch.Tensor | Sequence[torch.Tensor],
    face_normals_z: torch.Tensor,
    sigmainv: float | int = 7000,
    boxlen: float | int = 0.02,
    knum: int = 30,
    multiplier: float | int | None = None,
    eps: float | int | None = None,
    rast_backend: str = "cuda",
) -> tuple[torch.Tensor | tuple[torch.Tensor, ...], torch.Tensor, torch.Tensor]:
    """Rasterize the faces that are turned to the camera (`face_normals_z` >= 0), with their soft silhouette.

    Returns:
        Features (B, H, W, D) or a tuple of them, soft mask (B, H, W), faces (B, H, W) int64.
    """
    features, face_idx = rasterize(
        height,
        width,
        face_vertices_z,
        face_vertices_image,
        face_features,
        face_normals_z >= 0.0,
        multiplier,
        eps,
        rast_backend,
    )
    return features, dibr_soft_mask(face_vertices_image, face_idx, sigmainv, boxlen, knum), face_idx
