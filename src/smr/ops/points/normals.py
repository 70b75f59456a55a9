"""Normals of clouds by principal components, and their orientation."""

from __future__ import annotations

from typing import no_type_check

import numpy as np
import torch
import warp as wp
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree

from ..tensors import as_warp, check_finite, check_same_device, check_tensor, check_whole, launch, use_warp
from .neighbors import as_batch, check_clouds, find_nearest, take_points


def estimate_normals(
    points: torch.Tensor, *, neighbors: int = 16, views: torch.Tensor | None = None, orient: bool = True
) -> torch.Tensor:
    """Unit normals: the direction in which a point's neighbours spread least (Hoppe et al. 1992).

    They are oriented towards `views` where given; else, with `orient`, alike along a minimum spanning tree of the
    neighbours, whose edges prefer parallel normals, away from the cloud's middle at the outermost point of each part.
    The spanning tree is found on the CPU, in about 1 s per 100 000 points; all else runs on the points' device. Not
    differentiable.

    Args:
        points: (B, N, 3) or (N, 3), float32 or float64, at least 3 of them.
        neighbors: Points that decide about a normal, itself among them; fewer where there are fewer points.
        views: (3,) or (..., N, 3), from where each point was seen; in the type of the points.
        orient: Whether to orient at all, where no views are given.

    Returns:
        As the points. (0, 0, 1) where the neighbours spread in no direction.

    Raises:
        TypeError: Not floating tensors of one type.
        ValueError: Another shape, fewer than 3 points or neighbours, two devices, or a value that is not finite.
    """
    check_clouds(points=points)
    neighbors = check_whole("neighbors", neighbors, least=-1)
    if points.shape[-2] < 3 or neighbors < 3:
        raise ValueError(f"a normal needs 3 points; there are {points.shape[-2]}, and neighbors is {neighbors}")
    clouds = as_batch(points.detach())
    k = min(neighbors, clouds.shape[1])
    found = find_nearest(clouds, clouds, k)
    normals = principal_normals(clouds, found)
    if views is not None:
        normals = _face_views(points, normals.reshape(points.shape), views)
    elif orient:
        normals = torch.stack([orient_along_tree(*one) for one in zip(clouds, normals, found, strict=True)])
    return normals.reshape(points.shape).to(points.dtype)


def _face_views(points: torch.Tensor, normals: torch.Tensor, views: torch.Tensor) -> torch.Tensor:
    if isinstance(views, torch.Tensor) and views.dim() == 1:
        check_tensor("views", views, (3,), (points.dtype,))
    else:
        check_tensor("views", views, tuple(points.shape), (points.dtype,))
    check_same_device(points=points, views=views)
    check_finite("views", views)
    away = (normals * (views - points).double()).sum(dim=-1, keepdim=True) < 0
    return torch.where(away, -normals, normals)


def principal_normals(clouds: torch.Tensor, neighbors: torch.Tensor) -> torch.Tensor:
    """Direction of least spread of each point's neighbours: float64 (B, N, 3), of either sign."""
    around = take_points(clouds.double(), neighbors)
    around = around - around.mean(dim=-2, keepdim=True)
    spread = around.transpose(-1, -2) @ around
    if not use_warp():
        return torch.linalg.eigh(spread).eigenvectors[..., 0]
    normals = torch.empty(clouds.shape, dtype=torch.float64, device=clouds.device)
    inputs = [as_warp(spread.reshape(-1, 3, 3), wp.mat33d)]
    launch(_least, normals.shape[0] * normals.shape[1], inputs, outputs=[_vectors(normals)], like=clouds)
    return normals


def _vectors(tensor: torch.Tensor) -> wp.array:
    return as_warp(tensor.reshape(-1, 3), wp.vec3d)


@wp.kernel(enable_backward=False)
@no_type_check
def _least(base: int, spread: wp.array(dtype=wp.mat33d), normals: wp.array(dtype=wp.vec3d)):
    i = base + wp.tid()
    matrix = spread[i]
    scale = wp.trace(matrix)
    normal = wp.vec3d(wp.float64(0.0), wp.float64(0.0), wp.float64(1.0))
    if scale > wp.float64(0.0):
        axes, values = wp.eig3(matrix / scale)
        least = wp.argmin(values)
        normal = wp.normalize(wp.vec3d(axes[0, least], axes[1, least], axes[2, least]))
    normals[i] = normal


def orient_along_tree(points: torch.Tensor, normals: torch.Tensor, neighbors: torch.Tensor) -> torch.Tensor:
    """Turn normals (N, 3) alike along a minimum spanning tree of the neighbours (N, k); computed on the CPU."""
    place, normal = points.double().cpu().numpy(), normals.cpu().numpy()
    near = neighbors.cpu().numpy()
    count = len(place)
    start = np.repeat(np.arange(count), near.shape[1])
    stop = near.reshape(-1)
    kept = start != stop
    start, stop = start[kept], stop[kept]
    # The cost of Hoppe et al. 1992, 1 - |cosine|, shifted, since the graph takes 0 for no edge.
    cost = 1.0 + 1e-3 - np.abs(np.einsum("ij,ij->i", normal[start], normal[stop]))
    # One entry a pair: where both name each other the costs are the same, and only one is kept.
    low, high = np.minimum(start, stop), np.maximum(start, stop)
    pairs, first = np.unique(low * count + high, return_index=True)
    graph = coo_matrix((cost[first], (pairs // count, pairs % count)), shape=(count, count)).tocsr()
    tree = minimum_spanning_tree(graph)
    signs = np.ones(count)
    parts, part = connected_components(tree, directed=False)
    away = np.square(place - place.mean(axis=0)).sum(axis=1)
    for number in range(parts):
        members = np.flatnonzero(part == number)
        seed = members[np.argmax(away[members])]
        signs[seed] = 1.0 if normal[seed] @ (place[seed] - place.mean(axis=0)) >= 0 else -1.0
        order, before = breadth_first_order(tree, seed, directed=False)
        _spread_signs(signs, normal, order, before)
    return torch.from_numpy(normal * signs[:, None]).to(normals.device)


def _spread_signs(signs: np.ndarray, normals: np.ndarray, order: np.ndarray, before: np.ndarray) -> None:
    """From each point of a tree to those that follow it; a level of the tree at a time."""
    later = order[1:]
    agree = np.where(np.einsum("ij,ij->i", normals[later], normals[before[later]]) < 0, -1.0, 1.0)
    for point, sign in zip(later.tolist(), agree.tolist(), strict=True):
        signs[point] = signs[before[point]] * sign
