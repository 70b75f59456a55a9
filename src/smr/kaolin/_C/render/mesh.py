"""`kaolin._C.render.mesh`."""

from __future__ import annotations

import torch

from ....ops.render.soft_mask import soft_mask_hits


def dibr_soft_mask_forward_cuda(
    face_vertices_image: torch.Tensor,
    face_large_bboxes: torch.Tensor,
    selected_face_idx: torch.Tensor,
    sigmainv: float | int,
    knum: int,
    multiplier: float | int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Soft mask and, for each pixel, the first `knum` faces whose enlarged bounds it is in. On any device.

    Args:
        face_vertices_image: (B, F, 3, 2) corners, times the multiplier.
        face_large_bboxes: (B, F, 4) bounds (x and y from, x and y to), enlarged by one length, times the multiplier.
        selected_face_idx: (B, H, W) the face at each pixel; -1 for none.
        sigmainv: Sharpness.
        knum: How many faces are kept.
        multiplier: Of the coordinates.

    Returns:
        Soft mask (B, H, W); probability, face (int64, -1 for none) and nearest part (uint8), each (B, H, W, knum).
    """
    corners = face_vertices_image / multiplier
    grown = corners.amin(-2) - face_large_bboxes[..., :2] / multiplier
    boxlen = float(grown.median()) if grown.numel() else 0.0
    mask, hits = soft_mask_hits(corners, selected_face_idx, sigmainv=sigmainv, boxlen=max(boxlen, 0.0), knum=knum)
    return mask, hits.probability, hits.face, hits.nearest
