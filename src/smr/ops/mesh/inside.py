"""Winding numbers, inside tests and signed distances: one exact ray a point, for closed and for open meshes."""

# ruff: noqa: UP018, RUF046
# Warp: a name that changes in a loop must start as int(0), not as a constant.

from __future__ import annotations

from dataclasses import dataclass
from typing import no_type_check

import numpy as np
import torch
import warp as wp

from ...mesh.winding import winding_number as winding_number_by_tree
from ...records import Mesh
from ..tensors import launch, use_warp
from ..trees import Forest, curve_order, leaf_start, next_pending
from .distance import (
    check_mesh,
    check_points,
    plant_triangles,
    point_to_triangle_distance,
    take_triangles,
)

_MANY_EDGES = {"cpu": 1024, "cuda": 16384}
"""A surface with more boundary edges is summed up through a tree instead of edge by edge."""
_PAIRS = 2**20
"""Pairs of a point and a face that the plain-torch way looks at together."""
_GENERIC = (
    (0.5731378554489869, -0.6090066421373933, 0.5482918096085999),
    (0.7403488408604820, 0.6716445041915284, -0.0278792829479463),
    (-0.3512785121235170, 0.4219058779181122, 0.8358222520957642),
)
"""A rotation by one radian about (1, 2, 3): turns an open surface before its rays are cast, so that no point lies just
below a corner of the boundary, where the solid angles to the ray's direction are not defined."""

RULES = ("winding", "even-odd", "any")


@dataclass(frozen=True)
class Boundary:
    """Where a mesh is open."""

    edges: torch.Tensor
    """int64 (E, 2), directed edges that the faces around them do not cancel; more than once where that often."""
    is_even: bool
    """Whether every edge has an even number of faces, whichever way they are turned."""


def winding_number(vertices: torch.Tensor, faces: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """How often a surface goes around each point (Jacobson et al. 2013): float64, (N,) or (B, N).

    For a closed mesh an integer, exactly: the signed number of faces that a ray from the point leaves through. Shared
    edges are decided alike for all faces around them, so a ray through a vertex or along an edge or a face counts
    right. For an open mesh the ray's number is completed by the solid angles between its direction and the boundary,
    which is exact too (Martens and Bessmeltsev 2025): O(log F + boundary edges) a point. With more than 1024
    boundary edges (16384 on a GPU) it is the sum over a tree that is built on the CPU, with an error of up to 0.03 a
    body (`smr.mesh.winding`).

    Args:
        vertices: (V, 3) or (B, V, 3), float32 or float64.
        faces: (F, 3), counter-clockwise seen from outside. Vertices in one place count as one.
        points: (N, 3) or (B, N, 3), of the same type. A point on the surface itself may get either side's number.

    Raises:
        TypeError: Not tensors of one floating type, or faces that are no integers.
        ValueError: Other shapes, two devices, no faces, an index that is not there, or a value that is not finite.
    """
    check_mesh(vertices, faces)
    check_points(points, vertices, "vertices")
    return _winding(_batched(vertices), faces, _batched(points)).reshape(points.shape[:-1])


def is_inside(
    vertices: torch.Tensor, faces: torch.Tensor, points: torch.Tensor, *, rule: str = "winding"
) -> torch.Tensor:
    """Whether each point lies inside a mesh: bool, (N,) or (B, N); not differentiable.

    O((F + N) log F) time; see `winding_number` for open meshes.

    Args:
        vertices: (V, 3) or (B, V, 3), float32 or float64.
        faces: (F, 3), integers.
        points: (N, 3) or (B, N, 3), of the type of the vertices.
        rule: `winding`: the winding number is above one half, so that faces must look outwards, bodies that overlap
            count as one, and a body that is inside out is a cavity or nothing. `any`: its absolute value is. Or
            `even-odd`: a ray meets an odd number of faces, whichever way they look, so that the overlap of two bodies
            is outside; where some edge has an odd number of faces, and the rule has no answer, it is `any`.

    Raises:
        TypeError: Not tensors of one floating type, or faces that are no integers.
        ValueError: Other shapes, two devices, no faces, an index that is not there, a value that is not finite, or
            another rule.
    """
    check_rule(rule)
    check_mesh(vertices, faces)
    check_points(points, vertices, "vertices")
    return inside_by(rule, _batched(vertices), faces, _batched(points)).reshape(points.shape[:-1])


def signed_distance(vertices: torch.Tensor, faces: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """Distance of each point to a mesh, negative where `is_inside`: (N,) or (B, N), in the type of the points.

    Differentiable once with respect to points and vertices; at distance 0 the gradient is 0.

    Args:
        vertices: (V, 3) or (B, V, 3), float32 or float64.
        faces: (F, 3), counter-clockwise seen from outside.
        points: (N, 3) or (B, N, 3), of the type of the vertices.

    Raises:
        TypeError: Not tensors of one floating type, or faces that are no integers.
        ValueError: Other shapes, two devices, no faces, an index that is not there, or a value that is not finite.
    """
    check_mesh(vertices, faces)
    check_points(points, vertices, "vertices")
    surface = plant_triangles(take_triangles(_batched(vertices).detach(), faces)) if use_warp() else None
    inside = inside_by("winding", _batched(vertices), faces, _batched(points), surface).reshape(points.shape[:-1])
    squared = point_to_triangle_distance(
        points, take_triangles(vertices, faces), checked=True, surface=surface
    ).squared_distances
    away = squared > 0
    distance = torch.where(away, torch.where(away, squared, 1).sqrt(), 0)
    return torch.where(inside, -distance, distance)


def check_rule(rule: str) -> None:
    """Refuse a rule that is not known."""
    if rule not in RULES:
        raise ValueError(f"rule must be winding, even-odd or any, not {rule!r}")


def inside_by(
    rule: str,
    vertices: torch.Tensor,
    faces: torch.Tensor,
    points: torch.Tensor,
    surface: Forest | None = None,
) -> torch.Tensor:
    """`is_inside` for checked batches, with the tree where it is there already."""
    if rule == "even-odd":
        boundary = None if _is_closed(faces, vertices.shape[1]) else find_boundary(vertices, faces)
        if boundary is None or boundary.is_even:
            return (_cross(vertices, faces, points, surface)[1] & 1).bool()
        return _winding(vertices, faces, points, surface, boundary).abs() > 0.5
    numbers = _winding(vertices, faces, points, surface)
    return (numbers.abs() if rule == "any" else numbers) > 0.5


def _batched(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.dim() == 3 else tensor[None]


def _winding(
    vertices: torch.Tensor,
    faces: torch.Tensor,
    points: torch.Tensor,
    surface: Forest | None = None,
    boundary: Boundary | None = None,
) -> torch.Tensor:
    vertices, points = vertices.detach(), points.detach()
    if boundary is None and not _is_closed(faces, vertices.shape[1]):
        boundary = find_boundary(vertices, faces)
    if boundary is None or len(boundary.edges) == 0:
        return _cross(vertices, faces, points, surface)[0].double()
    if len(boundary.edges) > _MANY_EDGES[points.device.type]:
        return _sum_by_tree(vertices, faces, points)
    turn = torch.tensor(_GENERIC, dtype=torch.float64, device=points.device)
    vertices, points = vertices.double() @ turn, points.double() @ turn
    turns = _cross(vertices, faces, points)[0].double()
    ends = vertices[:, boundary.edges]
    if use_warp() and points.numel():
        turns = turns.contiguous()
        inputs = [points.contiguous(), ends.contiguous(), points.shape[1]]
        launch(_add_fans, turns.numel(), inputs, outputs=[turns], like=points)
        return turns
    block = max(1, _PAIRS // (ends.shape[0] * ends.shape[1]))
    parts = [fan_angles(part, ends) for part in points.split(block, dim=1)]
    return turns + torch.cat(parts, dim=1) / (4 * torch.pi)


def _sum_by_tree(vertices: torch.Tensor, faces: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    corners = faces.cpu().numpy().astype(np.int32)
    pairs = zip(vertices.cpu().numpy(), points.cpu().numpy(), strict=True)
    numbers = np.stack([winding_number_by_tree(Mesh(v, corners), p) for v, p in pairs])
    return torch.from_numpy(numbers).to(points.device)


def _is_closed(faces: torch.Tensor, count: int) -> bool:
    """Whether each edge is used as often in one direction as in the other.

    No sort: every directed edge adds a pseudo-random 64-bit number, which its opposite takes away again, so an open
    mesh comes out as closed with a chance of 1 in 2^64. On a GPU it waits for the answer.
    """
    a = faces.long()
    b = a.roll(-1, dims=1)
    key = torch.minimum(a, b) * count + torch.maximum(a, b)
    for multiplier in (-4658895280553007687, -7723592293110705685):  # the mixer of SplitMix64 (Steele et al. 2014)
        key = (key ^ ((key >> 30) & 0x3FFFFFFFF)) * multiplier
    key = key ^ ((key >> 31) & 0x1FFFFFFFF)
    return int((key * torch.sign(b - a)).sum()) == 0


def find_boundary(vertices: torch.Tensor, faces: torch.Tensor) -> Boundary:
    """Directed edges that are left over when opposite ones cancel; vertices in one place count as one."""
    count = vertices.shape[1]
    places = vertices.detach().transpose(0, 1).reshape(count, -1)
    same = torch.unique(places + 0.0, dim=0, return_inverse=True)[1]
    numbers = torch.arange(count, device=vertices.device)
    named = torch.full_like(numbers, count).scatter_reduce_(0, same, numbers, "amin")
    a = same[faces.long()]
    b = a.roll(-1, dims=1)
    low, high = torch.minimum(a, b).reshape(-1), torch.maximum(a, b).reshape(-1)
    keys, index, uses = torch.unique(low * count + high, return_inverse=True, return_counts=True)
    forward = torch.zeros_like(keys).index_add_(0, index, torch.sign(b - a).reshape(-1))
    left = torch.arange(len(keys), device=keys.device).repeat_interleave(forward.abs())
    ends = torch.stack([keys[left] // count, keys[left] % count], dim=1)
    ends = torch.where((forward[left] > 0)[:, None], ends, ends.flip(1))
    loops = keys // count == keys % count
    return Boundary(named[ends], not bool(((uses % 2 == 1) & ~loops).any()))


def _cross(
    vertices: torch.Tensor, faces: torch.Tensor, points: torch.Tensor, surface: Forest | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Signed and plain number of faces that a ray from each point meets, int32 (B, N)."""
    points = points.detach().double()
    if not use_warp():
        return _cross_all(take_triangles(vertices.detach(), faces).double(), points)
    surface = surface or plant_triangles(take_triangles(vertices.detach(), faces))
    signed = torch.empty(points.shape[:2], dtype=torch.int32, device=points.device)
    plain = torch.empty_like(signed)
    if points.numel():
        points = points.contiguous()
        inputs = [points, curve_order(points, surface), points.shape[1], *surface.as_inputs()]
        launch(_count_crossings, signed.numel(), inputs, outputs=[signed, plain], like=points)
    return signed, plain


@wp.func
@no_type_check
def _side(a: wp.vec3d, b: wp.vec3d):
    """Sign of the turn from a to b around 0 in the plane of x and y; never 0, and opposite from b to a.

    Where they are in line with 0 it is that for a 0 moved a little up, and even less to the right: a rule that all
    faces share (simulation of simplicity, Edelsbrunner and Muecke 1990). Points of one place give 1.
    """
    swap = b[1] < a[1] or (b[1] == a[1] and b[0] < a[0])
    low = a
    high = b
    sign = int(1)
    if swap:
        low = b
        high = a
        sign = int(-1)
    turn = low[0] * high[1] - low[1] * high[0]
    if turn > wp.float64(0.0) or (turn == wp.float64(0.0) and low[1] == high[1]):
        return sign
    return -sign


@wp.func
@no_type_check
def _edge(a: wp.vec3d, b: wp.vec3d):
    """How often the edge crosses the half-line from 0 along x upwards, in the plane of x and y: 1, 0 or -1."""
    zero = wp.float64(0.0)
    if (a[1] > zero) == (b[1] > zero):
        return 0
    if b[1] > zero:
        if _side(a, b) > 0:
            return 1
        return 0
    if _side(b, a) > 0:
        return -1
    return 0


@wp.kernel(enable_backward=False)
@no_type_check
def _count_crossings(
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
    turned: wp.array(dtype=int),
    met: wp.array(dtype=int),
):
    """Follows the ray along z, always upwards, so that the boundary's solid angles fit."""
    i = base + wp.tid()
    cloud = i / point_count
    item = cloud * point_count + point_order[i]
    p = points[item]
    local = p - origin[cloud]
    leaves = 1 << depth
    root = cloud * 2 * leaves
    first = cloud * count
    turns = int(0)
    meetings = int(0)
    node = int(1)
    trail = wp.uint32(1)
    zero = wp.float64(0.0)
    while node > 0:
        low = boxes[root + node, 0]
        high = boxes[root + node, 1]
        missed = (
            wp.float64(low[0]) > local[0]
            or wp.float64(high[0]) < local[0]
            or wp.float64(low[1]) > local[1]
            or wp.float64(high[1]) < local[1]
            or wp.float64(high[2]) < local[2]
        )
        if not missed:
            if node < leaves:
                node = 2 * node
                trail = (trail << wp.uint32(1)) | wp.uint32(1)
                continue
            leaf = node - leaves
            for k in range(first + leaf_start(leaf, count, depth), first + leaf_start(leaf + 1, count, depth)):
                a = triangles[k, 0] - p
                b = triangles[k, 1] - p
                c = triangles[k, 2] - p
                around = _edge(a, b) + _edge(b, c) + _edge(c, a)
                if around != 0:
                    height = wp.dot(wp.cross(b - a, c - a), a) * wp.float64(around)
                    if height > zero:
                        turns += around
                        meetings += 1
        node, trail = next_pending(node, trail)
    turned[item] = turns
    met[item] = meetings


@wp.kernel(enable_backward=False)
@no_type_check
def _add_fans(
    base: int,
    points: wp.array(dtype=wp.vec3d),
    ends: wp.array3d(dtype=wp.vec3d),
    point_count: int,
    turns: wp.array(dtype=wp.float64),
):
    """Solid angles of the triangles from the boundary to infinitely far down (van Oosterom and Strackee 1983)."""
    i = base + wp.tid()
    cloud = i / point_count
    p = points[i]
    total = wp.float64(0.0)
    for e in range(ends.shape[1]):
        a = ends[cloud, e, 0] - p
        b = ends[cloud, e, 1] - p
        x = wp.length(a)
        y = wp.length(b)
        volume = wp.abs(a[0] * b[1] - a[1] * b[0])
        if _side(a, b) > 0:
            volume = -volume
        total += wp.atan2(volume, x * y + wp.dot(a, b) - a[2] * y - b[2] * x)
    turns[i] = turns[i] + total / wp.float64(6.283185307179586)


def _sides(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """`_side` in plain torch."""
    swap = (b[..., 1] < a[..., 1]) | ((b[..., 1] == a[..., 1]) & (b[..., 0] < a[..., 0]))
    low, high = torch.where(swap[..., None], b, a), torch.where(swap[..., None], a, b)
    turn = low[..., 0] * high[..., 1] - low[..., 1] * high[..., 0]
    left = (turn > 0) | ((turn == 0) & (low[..., 1] == high[..., 1]))
    return torch.where(left != swap, 1, -1)


def _cross_all(triangles: torch.Tensor, points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The plain way: every point with every triangle."""
    block = max(1, _PAIRS // (triangles.shape[0] * triangles.shape[1]))
    signed, plain = [], []
    for part in points.split(block, dim=1):
        corners = triangles[:, None] - part[:, :, None, None]
        around = torch.zeros(corners.shape[:3], dtype=torch.int32, device=points.device)
        for k in range(3):
            a, b = corners[..., k, :], corners[..., (k + 1) % 3, :]
            rises, falls = (a[..., 1] <= 0) & (b[..., 1] > 0), (a[..., 1] > 0) & (b[..., 1] <= 0)
            around += (rises & (_sides(a, b) > 0)).int() - (falls & (_sides(b, a) > 0)).int()
        a, b, c = corners.unbind(dim=-2)
        height = (torch.linalg.cross(b - a, c - a) * a).sum(dim=-1)
        met = (around != 0) & (height * around > 0)
        signed.append((around * met).sum(dim=-1, dtype=torch.int32))
        plain.append(met.sum(dim=-1, dtype=torch.int32))
    return torch.cat(signed, dim=1), torch.cat(plain, dim=1)


def fan_angles(points: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Sum of the solid angles of the triangles from edges (B, E, 2, 3) to infinitely far down, at points (B, N, 3)."""
    a, b = (ends[:, None, :, k] - points[:, :, None] for k in (0, 1))
    x, y = a.norm(dim=-1), b.norm(dim=-1)
    volume = -_sides(a, b) * (a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]).abs()
    return 2 * torch.atan2(volume, x * y + (a * b).sum(dim=-1) - a[..., 2] * y - b[..., 2] * x).sum(dim=-1)
