"""Meshes of tetrahedra: offsets, volumes, subdivision, and the losses of deformable tetrahedral meshes; O(T)."""

from __future__ import annotations

import torch

from ..segments import take_rows
from ..tensors import FLOATS, INDICES, check_finite, check_indices, check_same_device, check_tensor
from .faces import ANY_FLOAT

_PAIRS = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
_PARTS = (
    (0, 4, 5, 6),
    (1, 7, 4, 8),
    (2, 5, 7, 9),
    (3, 6, 9, 8),
    (4, 5, 6, 8),
    (4, 5, 8, 7),
    (9, 5, 8, 6),
    (9, 5, 7, 8),
)
"""Corners of the eight parts: 0 to 3 of the tetrahedron, 4 to 9 the midpoints of `_PAIRS`."""


def check_corners(corners: torch.Tensor, dtypes: tuple[torch.dtype, ...] = ANY_FLOAT) -> None:
    """Raise where corners of tetrahedra have not the shape (..., T, 4, 3)."""
    check_tensor("corners", corners, (None, 4, 3), dtypes, batched=True)


def tetrahedron_offsets(corners: torch.Tensor) -> torch.Tensor:
    """Edges from corner 0 to the three others, as rows: (..., 4, 3) to (..., 3, 3)."""
    return corners[..., 1:, :] - corners[..., :1, :]


def inverse_offsets(corners: torch.Tensor) -> torch.Tensor:
    """Inverse of `tetrahedron_offsets`: (..., T, 4, 3) to (..., T, 3, 3).

    Raises:
        TypeError: Wrong type.
        ValueError: Wrong shape, a coordinate that is not finite, or a tetrahedron without volume.
    """
    check_corners(corners, FLOATS)
    check_finite("corners", corners)
    inverse, info = torch.linalg.inv_ex(tetrahedron_offsets(corners))
    if bool(info.any()):
        raise ValueError(f"the tetrahedron corners{info.nonzero()[0].tolist()} has no volume, so there is no inverse")
    return inverse


def tetrahedron_volumes(corners: torch.Tensor) -> torch.Tensor:
    """Signed volumes: (..., T, 4, 3) to (..., T).

    Positive where corners 1, 2, 3 run clockwise as seen from corner 0, as they do for (0, 0, 0) and the unit vectors.

    Raises:
        TypeError: Wrong type.
        ValueError: Wrong shape.
    """
    check_corners(corners)
    a, b, c = tetrahedron_offsets(corners).unbind(-2)
    return (a * torch.linalg.cross(b, c)).sum(dim=-1) / 6


def equal_volume_loss(
    corners: torch.Tensor, mean: torch.Tensor | float | None = None, power: float = 4
) -> torch.Tensor:
    """Mean difference between sizes of volumes and their mean, to a power (Gao et al. 2020): (B, T, 4, 3) to (B, 1)."""
    volumes = tetrahedron_volumes(corners).abs()
    target = volumes.mean(dim=-1, keepdim=True) if mean is None else mean
    return (volumes - target).abs().pow(power).mean(dim=-1, keepdim=True)


def amips_loss(corners: torch.Tensor, inverse_rest: torch.Tensor) -> torch.Tensor:
    """Mean distortion against rest shapes (Fu, Liu, Guo 2015): trace(JᵀJ) / det(J)^(2/3), (B, T, 4, 3) to (B, 1).

    It does not change when either shape is turned, moved or scaled, and is least, 3, where they are similar.

    Args:
        corners: Tetrahedra now.
        inverse_rest: (B, T, 3, 3), `inverse_offsets` of the rest shapes.
    """
    check_corners(corners)
    jacobian = inverse_rest @ tetrahedron_offsets(corners)
    determinant = torch.linalg.det(jacobian).square().clamp_min(torch.finfo(corners.dtype).tiny)
    return (jacobian.square().sum(dim=(-2, -1)) / determinant.pow(1 / 3)).mean(dim=-1, keepdim=True)


def subdivide_tetrahedra(
    vertices: torch.Tensor, tetrahedra: torch.Tensor, features: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Cut every tetrahedron into eight at the midpoints of its edges.

    Args:
        vertices: (..., V, 3).
        tetrahedra: (T, 4).
        features: (..., V, C), carried along.

    Returns:
        (..., V + E, 3), the old vertices first, then one an edge, sorted by its ends; (8 T, 4) int64, all first parts,
        then all second ones; (..., V + E, C) or None.

    Raises:
        TypeError: Wrong types.
        ValueError: Wrong shapes or an index out of range.
    """
    check_tensor("vertices", vertices, (None, 3), ANY_FLOAT, batched=True)
    check_tensor("tetrahedra", tetrahedra, (None, 4), INDICES)
    count = vertices.shape[-2]
    if features is not None:
        check_tensor("features", features, (count, None), ANY_FLOAT, batched=True)
    check_same_device(vertices=vertices, tetrahedra=tetrahedra, features=features)
    check_indices("tetrahedra", tetrahedra, count)
    tetrahedra = tetrahedra.long()
    ends = tetrahedra[:, _PAIRS].sort(dim=2).values
    keys, of_pair = torch.unique(ends[..., 0] * count + ends[..., 1], return_inverse=True)
    middles = torch.stack([keys // max(count, 1), keys % max(count, 1)], dim=1)
    corners = torch.cat([tetrahedra, count + of_pair.reshape(-1, 6)], dim=1)
    parts = corners[:, _PARTS].transpose(0, 1).reshape(-1, 4)

    def grown(rows: torch.Tensor) -> torch.Tensor:
        pairs = take_rows(rows, middles.reshape(-1)).unflatten(-2, (-1, 2))
        return torch.cat([rows, pairs.mean(dim=-2)], dim=-2)

    return grown(vertices), parts, None if features is None else grown(features)
