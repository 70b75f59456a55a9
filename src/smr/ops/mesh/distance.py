"""Distances from points to the triangles of a mesh: exact, differentiable, through a tree."""

# ruff: noqa: UP018, RUF046
# Warp: a name that changes in a loop must start as int(0), not as a constant.

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple, no_type_check

import torch
import warp as wp
from torch.autograd.function import once_differentiable

from ...mesh.distance import _closest_weights
from ..points.neighbors import take_points
from ..segments import group_rows, segment_sum
from ..tensors import (
    FLOATS,
    INDICES,
    check_finite,
    check_indices,
    check_same_device,
    check_tensor,
    launch,
    use_warp,
)
from ..trees import Forest, box_distance, curve_order, leaf_start, next_pending, plant

_LEAF = 4
"""Faces of a leaf."""
_PAIRS = 2**20
"""Pairs of a point and a face that the plain-torch way looks at together."""


class SurfaceDistances(NamedTuple):
    """For each point the closest point of a surface; shapes (N,) or (B, N), and (..., N, 3) for the weights."""

    squared_distances: torch.Tensor
    """In the type of the points; differentiable once with respect to points and vertices."""
    faces: torch.Tensor
    """int64, the face that holds the closest point."""
    types: torch.Tensor
    """int32: 0 inside the face; 1, 2, 3 at its first, second, third corner; 4, 5, 6 on the edge from the first to the
    second, the second to the third, the third to the first."""
    barycentric: torch.Tensor
    """Weights of the face's corners, in the type of the points; without gradient."""


def point_to_mesh_distance(points: torch.Tensor, vertices: torch.Tensor, faces: torch.Tensor) -> SurfaceDistances:
    """Squared distance of each point to the nearest face of its mesh.

    O((N + F) log F) time for points near the surface; at a distance d from it, about d over a face's size more faces
    have to be looked at. About 200 bytes a face and 100 a point. Distances are found in double precision whatever the
    type. Of faces at one distance, as those around a shared vertex, the first one is named.

    Args:
        points: (B, N, 3) or (N, 3), float32 or float64.
        vertices: (B, V, 3) or (V, 3), of the same type: meshes of one batch share their faces.
        faces: (F, 3), int32 or int64. Faces without area count as the line or point that they are.

    Raises:
        TypeError: Not tensors of one floating type, or faces that are no integers.
        ValueError: Other shapes, two devices, no faces, an index that is not there, or a value that is not finite.
    """
    check_mesh(vertices, faces)
    check_points(points, vertices, "vertices")
    return point_to_triangle_distance(points, take_triangles(vertices, faces), checked=True)


def point_to_triangle_distance(
    points: torch.Tensor, triangles: torch.Tensor, *, checked: bool = False, surface: Forest | None = None
) -> SurfaceDistances:
    """Squared distance of each point to the nearest of loose triangles; see `point_to_mesh_distance`.

    Args:
        points: (B, N, 3) or (N, 3), float32 or float64.
        triangles: (B, F, 3, 3) or (F, 3, 3), corners of the faces, of the same type.
        checked: Leave out the checks.
        surface: The triangles' tree, where it is there already (`plant_triangles`).

    Raises:
        TypeError: Not tensors of one floating type.
        ValueError: Other shapes, two devices, no triangles, or a value that is not finite.
    """
    if not checked:
        leading = (None,) * (2 if isinstance(triangles, torch.Tensor) and triangles.dim() > 3 else 1)
        check_tensor("triangles", triangles, (*leading, 3, 3), FLOATS)
        if triangles.shape[-3] == 0:
            raise ValueError("triangles has none; a distance needs at least one")
        check_finite("triangles", triangles)
        check_points(points, triangles, "triangles")
    single = points.dim() == 2
    p, corners = (points[None], triangles[None]) if single else (points, triangles)
    squared, faces, weights = _Closest.apply(p, corners, surface)
    found = SurfaceDistances(squared, faces, corner_types(weights), weights)
    return SurfaceDistances(*(part[0] for part in found)) if single else found


def check_mesh(vertices: torch.Tensor, faces: torch.Tensor) -> None:
    """Refuse what is not a mesh with at least one face: (V, 3) or (B, V, 3) finite floats, and (F, 3) their indices."""
    leading = (None,) * (vertices.dim() - 1) if isinstance(vertices, torch.Tensor) and vertices.dim() == 3 else (None,)
    check_tensor("vertices", vertices, (*leading, 3), FLOATS)
    check_tensor("faces", faces, (None, 3), INDICES)
    check_same_device(vertices=vertices, faces=faces)
    if len(faces) == 0:
        raise ValueError("faces has none; a surface needs at least one")
    check_indices("faces", faces, vertices.shape[-2])
    check_finite("vertices", vertices)


def check_points(points: torch.Tensor, surface: torch.Tensor, name: str) -> None:
    """Refuse points that do not go with a surface's tensor of that name."""
    batch = surface.shape[: surface.dim() - (2 if name == "vertices" else 3)]
    check_tensor("points", points, (*batch, None, 3), FLOATS)
    if points.dtype != surface.dtype:
        raise TypeError(f"points and {name} must be of one type, not {points.dtype} and {surface.dtype}")
    check_same_device(points=points, **{name: surface})
    check_finite("points", points)


def take_triangles(vertices: torch.Tensor, faces: torch.Tensor) -> torch.Tensor:
    """Corners of all faces, (..., F, 3, 3)."""
    faces = faces.long()
    return take_points(vertices, faces if vertices.dim() == 2 else faces.expand(len(vertices), *faces.shape))


def corner_types(weights: torch.Tensor) -> torch.Tensor:
    """Where on its face a point lies, from which weights are exactly zero."""
    return _types_of_zeros(weights.device)[((weights == 0) * _places(weights.device)).sum(dim=-1)]


@lru_cache(maxsize=8)
def _places(device: torch.device) -> torch.Tensor:
    return torch.tensor([1, 2, 4], device=device)


@lru_cache(maxsize=8)
def _types_of_zeros(device: torch.device) -> torch.Tensor:
    """By which weights are zero, the first counting 1, the second 2, the third 4."""
    return torch.tensor([0, 5, 6, 3, 4, 2, 1, 3], dtype=torch.int32, device=device)


def plant_triangles(triangles: torch.Tensor) -> Forest:
    """Trees over (B, F, 3, 3), for many calls."""
    return plant(triangles, leaf_size=_LEAF)


class _Closest(torch.autograd.Function):
    """Squared distances, faces and weights; the closest point moves along the face, so its weights need no gradient."""

    @staticmethod
    def forward(
        ctx: Any, points: torch.Tensor, triangles: torch.Tensor, surface: Forest | None
    ) -> tuple[torch.Tensor, ...]:
        find = find_closest if use_warp() else compare_all
        offset, faces, weights = find(points, triangles, surface)
        ctx.save_for_backward(offset, faces, weights)
        ctx.shape = triangles.shape
        squared = offset.square().sum(dim=-1).to(points.dtype)
        faces, weights = faces.long(), weights.to(points.dtype)
        ctx.mark_non_differentiable(faces, weights)
        return squared, faces, weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        offset, faces, weights = ctx.saved_tensors
        to_points = 2 * grads[0][..., None].double() * offset
        to_triangles = None
        if ctx.needs_input_grad[1]:
            clouds, count = ctx.shape[:2]
            rows = faces.long() + count * torch.arange(clouds, device=faces.device)[:, None]
            each = (-to_points[..., None, :] * weights[..., None]).reshape(-1, 9)
            to_triangles = segment_sum(each, group_rows(rows, clouds * count)).reshape(ctx.shape).to(grads[0].dtype)
        return to_points.to(grads[0].dtype), to_triangles, None


def find_closest(
    points: torch.Tensor, triangles: torch.Tensor | None, surface: Forest | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """From the closest point of the surface to each of (B, N, 3); its face, int32; its weights. float64, unchecked."""
    if surface is None:
        assert triangles is not None
        surface = plant_triangles(triangles)
    p = points.detach().double().contiguous()
    offset = torch.empty_like(p)
    faces = torch.empty(p.shape[:2], dtype=torch.int32, device=p.device)
    weights = torch.empty_like(p)
    if p.numel():
        inputs = [p, curve_order(p, surface), p.shape[1], *surface.as_inputs()]
        launch(_find_closest, faces.numel(), inputs, outputs=[offset, faces, weights], like=p)
    return offset, faces, weights


@wp.kernel(enable_backward=False)
@no_type_check
def _find_closest(
    base: int,
    points: wp.array(dtype=wp.vec3d),
    point_order: wp.array(dtype=int),
    point_count: int,
    triangles: wp.array2d(dtype=wp.vec3d),
    order: wp.array(dtype=int),
    boxes: wp.array2d(dtype=wp.vec3),
    origin: wp.array(dtype=wp.vec3d),
    count: int,
    depth: int,
    offsets: wp.array(dtype=wp.vec3d),
    faces: wp.array(dtype=int),
    weights: wp.array(dtype=wp.vec3d),
):
    i = base + wp.tid()
    cloud = i / point_count
    item = cloud * point_count + point_order[i]
    p = points[item]
    local = p - origin[cloud]
    leaves = 1 << depth
    root = cloud * 2 * leaves
    first = cloud * count
    best = wp.float64(1.0e300)
    best_face = int(0)
    best_offset = wp.vec3d()
    best_weight = wp.vec3d()
    node = int(1)
    trail = wp.uint32(1)
    while node > 0:
        if node >= leaves:
            leaf = node - leaves
            for k in range(first + leaf_start(leaf, count, depth), first + leaf_start(leaf + 1, count, depth)):
                a = triangles[k, 0]
                b = triangles[k, 1]
                c = triangles[k, 2]
                weight = _closest_weights(p, a, b, c)
                offset = weight[0] * (p - a) + weight[1] * (p - b) + weight[2] * (p - c)
                distance = wp.dot(offset, offset)
                if distance < best or (distance == best and order[k] < best_face):
                    best = distance
                    best_face = order[k]
                    best_offset = offset
                    best_weight = weight
        else:
            left = box_distance(boxes, root + 2 * node, local)
            right = box_distance(boxes, root + 2 * node + 1, local)
            if wp.min(left, right) <= best:
                node = 2 * node
                if right < left:
                    node = node + 1
                trail = trail << wp.uint32(1)
                if wp.max(left, right) <= best:
                    trail = trail | wp.uint32(1)
                continue
        node, trail = next_pending(node, trail)
        while node > 0 and box_distance(boxes, root + node, local) > best:
            node, trail = next_pending(node, trail)
    offsets[item] = best_offset
    faces[item] = best_face
    weights[item] = best_weight


def compare_all(
    points: torch.Tensor, triangles: torch.Tensor, surface: Forest | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The plain way: every point with every triangle."""
    p, corners = points.detach().double(), triangles.detach().double()
    block = max(1, _PAIRS // (corners.shape[0] * corners.shape[1]))
    offsets, faces, weights = [], [], []
    for part in p.split(block, dim=1):
        weight = closest_weights(part[:, :, None], corners[:, None])
        offset = (weight[..., None] * (part[:, :, None, None] - corners[:, None])).sum(dim=-2)
        face = offset.square().sum(dim=-1).min(dim=-1).indices
        at = face[..., None, None].expand(*face.shape, 1, 3)
        offsets.append(offset.gather(2, at)[:, :, 0])
        weights.append(weight.gather(2, at)[:, :, 0])
        faces.append(face)
    return torch.cat(offsets, dim=1), torch.cat(faces, dim=1).int(), torch.cat(weights, dim=1)


def closest_weights(points: torch.Tensor, triangles: torch.Tensor) -> torch.Tensor:
    """Weights (..., 3) of the closest point of triangles (..., 3, 3) to points (..., 3), in plain torch.

    The same cases in the same order as the kernel's (Ericson 2005, Real-Time Collision Detection, 5.1.5).
    """
    a, b, c = triangles.unbind(dim=-2)
    ab, ac = b - a, c - a
    d1, d2 = (ab * (points - a)).sum(dim=-1), (ac * (points - a)).sum(dim=-1)
    d3, d4 = (ab * (points - b)).sum(dim=-1), (ac * (points - b)).sum(dim=-1)
    d5, d6 = (ab * (points - c)).sum(dim=-1), (ac * (points - c)).sum(dim=-1)
    va, vb, vc = d3 * d6 - d5 * d4, d5 * d2 - d1 * d6, d1 * d4 - d3 * d2
    zero, one = torch.zeros_like(va), torch.ones_like(va)
    along_ab = d1 / (d1 - d3)
    along_ac = d2 / (d2 - d6)
    along_bc = (d4 - d3) / ((d4 - d3) + (d5 - d6))
    total = va + vb + vc
    cases = [
        ((d1 <= 0) & (d2 <= 0), (one, zero, zero)),
        ((d3 >= 0) & (d4 <= d3), (zero, one, zero)),
        ((vc <= 0) & (d1 >= 0) & (d3 <= 0), (one - along_ab, along_ab, zero)),
        ((d6 >= 0) & (d5 <= d6), (zero, zero, one)),
        ((vb <= 0) & (d2 >= 0) & (d6 <= 0), (one - along_ac, zero, along_ac)),
        ((va <= 0) & (d4 >= d3) & (d5 >= d6), (zero, one - along_bc, along_bc)),
    ]
    weights = torch.stack((va / total, vb / total, vc / total), dim=-1)
    for condition, values in reversed(cases):
        weights = torch.where(condition[..., None], torch.stack(values, dim=-1), weights)
    return weights
