"""Random points on meshes, evenly by area."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ..points.neighbors import take_points
from ..tensors import FLOATS, INDICES, check_finite, check_same_device, check_tensor, check_whole
from .distance import check_mesh, take_triangles
from .faces import face_crosses

_SHARES = 2.0**52
"""The whole area in integers: sums of them do not depend on the order on a GPU."""


class SurfaceSamples(NamedTuple):
    """Points on a surface; leading axes (count,) or (B, count)."""

    points: torch.Tensor
    """(..., count, 3), differentiable with respect to the vertices."""
    faces: torch.Tensor
    """int64 (..., count), the face that each lies on."""
    barycentric: torch.Tensor
    """(..., count, 3), weights of the face's corners."""
    features: torch.Tensor | None
    """(..., count, C), interpolated features of the corners, where there were any."""


def sample_surface(
    vertices: torch.Tensor,
    faces: torch.Tensor,
    count: int,
    *,
    areas: torch.Tensor | None = None,
    face_features: torch.Tensor | None = None,
    generator: torch.Generator | None = None,
) -> SurfaceSamples:
    """Draw points independently, each face as likely as its share of the area; O(F + count log F) time.

    Works with any number of faces. The same generator state gives the same points on the same kind of device.

    Args:
        vertices: (V, 3) or (B, V, 3), float32 or float64.
        faces: (F, 3), int32 or int64.
        count: Points of each mesh.
        areas: (F,) or (B, F), weights to draw faces with, in place of their areas.
        face_features: (F, 3, C) or (B, F, 3, C), features of the faces' corners, to be interpolated.
        generator: Source of the random numbers, on the tensors' device; None is torch's own.

    Raises:
        TypeError: Not tensors of one floating type, or faces that are no integers.
        ValueError: Other shapes, two devices, no faces, an index that is not there, a value that is not finite, a
            negative count, or no face with an area.
    """
    check_mesh(vertices, faces)
    count = check_whole("count", count)
    batch = vertices.shape[:-2]
    triangles = take_triangles(vertices, faces)
    shares = _shares(triangles, areas, (*batch, len(faces)))
    ends = cumulate(shares.reshape(-1, len(faces)))
    total = ends[:, -1:]
    _refuse_empty(total)
    picked = torch.searchsorted(ends, _draw(total, count, generator), right=True).reshape(*batch, count)
    weights = draw_weights((*batch, count), vertices, generator)
    corners = take_points(triangles.reshape(*batch, len(faces), 9), picked).reshape(*batch, count, 3, 3)
    features = None
    if face_features is not None:
        check_tensor("face_features", face_features, (*batch, len(faces), 3, None), FLOATS)
        check_same_device(vertices=vertices, face_features=face_features)
        channels = face_features.shape[-1]
        found = take_points(face_features.reshape(*batch, len(faces), 3 * channels), picked)
        features = mix(weights.to(found.dtype), found.reshape(*batch, count, 3, channels))
    return SurfaceSamples(mix(weights, corners), picked, weights, features)


def sample_packed_surfaces(
    vertices: torch.Tensor,
    faces: torch.Tensor,
    face_counts: torch.Tensor,
    count: int,
    *,
    areas: torch.Tensor | None = None,
    generator: torch.Generator | None = None,
) -> SurfaceSamples:
    """Draw `count` points on each of several meshes that lie one after another in the same arrays.

    Args:
        vertices: (V, 3), float32 or float64, of all meshes.
        faces: (F, 3), int32 or int64, indices into all vertices.
        face_counts: int64 (B,), how many of the faces belong to each mesh.
        count: Points of each mesh.
        areas: (F,), weights to draw faces with, in place of their areas.
        generator: Source of the random numbers, on the tensors' device; None is torch's own.

    Returns:
        (B, count, ...); faces are numbered through all meshes.

    Raises:
        TypeError: Not tensors of these types.
        ValueError: As `sample_surface`, and where the counts do not add up to the faces.
    """
    check_tensor("vertices", vertices, (None, 3), FLOATS)
    check_mesh(vertices, faces)
    check_tensor("face_counts", face_counts, (None,), INDICES)
    count = check_whole("count", count)
    stops = face_counts.to(vertices.device).long().cumsum(dim=0)
    if len(stops) == 0 or int(stops[-1]) != len(faces) or bool((face_counts < 0).any()):
        raise ValueError(f"face_counts must add up to the {len(faces)} faces, not to {int(face_counts.sum())}")
    triangles = take_triangles(vertices, faces)
    shares = _shares(triangles, areas, (len(faces),))
    ends = cumulate(shares[None])[0]
    padded = torch.cat([ends.new_zeros(1), ends])
    low, high = padded[stops - face_counts.to(stops.device)][:, None], padded[stops][:, None]
    _refuse_empty(high - low)
    picked = torch.searchsorted(ends, low + _draw(high - low, count, generator), right=True)
    weights = draw_weights(tuple(picked.shape), vertices, generator)
    corners = take_points(triangles.reshape(-1, 9), picked).reshape(*picked.shape, 3, 3)
    return SurfaceSamples(mix(weights, corners), picked, weights, None)


def _shares(triangles: torch.Tensor, areas: torch.Tensor | None, shape: tuple[int, ...]) -> torch.Tensor:
    """The areas of triangles, or those given, checked."""
    if areas is None:
        return 0.5 * face_crosses(triangles.detach().double()).norm(dim=-1)
    check_tensor("areas", areas, shape, FLOATS)
    check_same_device(areas=areas, vertices=triangles)
    check_finite("areas", areas)
    return areas.detach()


def cumulate(shares: torch.Tensor) -> torch.Tensor:
    """Running sums (B, F) of shares, as integers up to 2^52."""
    shares = shares.double().clamp(min=0)
    total = shares.sum(dim=1, keepdim=True)
    whole = (shares / torch.where(total > 0, total, 1) * _SHARES).round().long()
    return whole.cumsum(dim=1)


def _refuse_empty(totals: torch.Tensor) -> None:
    if bool((totals <= 0).any()):
        raise ValueError("no face of the mesh has an area, so no point can be drawn on it: check vertices and faces")


def _draw(totals: torch.Tensor, count: int, generator: torch.Generator | None) -> torch.Tensor:
    """Integers (B, count) from 0 to below each of the totals (B, 1)."""
    share = torch.rand(len(totals), count, dtype=torch.float64, device=totals.device, generator=generator)
    return torch.minimum((share * totals).long(), totals - 1)


def draw_weights(shape: tuple[int, ...], like: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
    """Barycentric weights (*shape, 3), even over a triangle: the square root takes a square onto it."""
    u, v = torch.rand(2, *shape, dtype=like.dtype, device=like.device, generator=generator)
    side = u.sqrt()
    return torch.stack([1 - side, side * (1 - v), side * v], dim=-1)


def mix(weights: torch.Tensor, corners: torch.Tensor) -> torch.Tensor:
    """Weighted sum over corners: (..., 3) and (..., 3, C) to (..., C)."""
    return (weights[..., None] * corners).sum(dim=-2)
