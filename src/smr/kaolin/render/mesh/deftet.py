"""`kaolin.render.mesh.deftet`."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ....ops.render.face_samples import interpolate_with_torch
from ....ops.render.sparse_rays import find_faces_with_torch, render_points
from .rasterization import area_epsilon, cut, joined


def deftet_sparse_render(
    pixel_coords: torch.Tensor,
    render_ranges: torch.Tensor,
    face_vertices_z: torch.Tensor,
    face_vertices_image: torch.Tensor,
    face_features: torch.Tensor | Sequence[torch.Tensor],
    knum: int = 300,
    eps: float = 1e-8,
) -> tuple[torch.Tensor | tuple[torch.Tensor, ...], torch.Tensor]:
    """Features of all faces behind the given pixels, nearest first.

    Where more than `knum` faces are hit, the `knum` nearest are kept (Kaolin's kernel keeps the first in the order of
    the faces).

    Args:
        pixel_coords: (B, P, 2) positions in the image, -1..1, y up.
        render_ranges: (B, P, 2) lowest and highest depth that is rendered.
        face_vertices_z: (B, F, 3) depth of the corners.
        face_vertices_image: (B, F, 3, 2) corners in the image; receives gradients.
        face_features: (B, F, 3, D) or a list of such; receives gradients.
        knum: How many faces at most.
        eps: A millionth of it is added to the doubled areas that are divided by, as `rasterize` does: small faces have
            exact weights (in Kaolin all of it is added).

    Returns:
        Features (B, P, knum, D) or a tuple of them, and faces (B, P, knum) int64, -1 for none.
    """
    features, sizes = joined(face_features)
    found, face_idx = render_points(
        pixel_coords,
        render_ranges,
        face_vertices_z,
        face_vertices_image,
        features,
        knum=knum,
        eps=area_epsilon(None, eps),
    )
    return cut(found, sizes), face_idx


def _naive_deftet_sparse_render(
    pixel_coords: torch.Tensor,
    render_ranges: torch.Tensor,
    face_vertices_z: torch.Tensor,
    face_vertices_image: torch.Tensor,
    face_features: torch.Tensor | Sequence[torch.Tensor],
    knum: int,
    eps: float = 1e-8,
    valid_faces: torch.Tensor | None = None,
) -> tuple[torch.Tensor | tuple[torch.Tensor, ...], torch.Tensor]:
    """`deftet_sparse_render` in plain torch, every face against every pixel; Kaolin's tests call it."""
    features, sizes = joined(face_features)
    valid = torch.zeros(0, dtype=torch.bool, device=face_vertices_z.device) if valid_faces is None else valid_faces
    eps = area_epsilon(None, eps)
    corners, points = face_vertices_image.detach(), pixel_coords.detach()
    face_idx = find_faces_with_torch(
        corners, face_vertices_z.detach(), valid, points, render_ranges.detach(), knum, eps
    )
    found = interpolate_with_torch(face_idx, face_vertices_image, features, points, eps)
    return cut(found, sizes), face_idx
