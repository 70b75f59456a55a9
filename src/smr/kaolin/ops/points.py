"""`kaolin.ops.points`: names that are widely quoted for Kaolin but that no version of it has.

`sample_farthest_points` has PyTorch3D's signature; `poisson_surface_reconstruction` is a first, dense version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ...errors import SmrError
from ...ops.points.farthest import pick_farthest
from ...ops.points.farthest import sample_farthest_points as pick
from ...ops.points.neighbors import take_points
from ...ops.points.normals import estimate_normals
from ...ops.points.voxels import keep_per_voxel
from ...points.poisson import poisson

if TYPE_CHECKING:
    from ..rep.mesh import Mesh

__all__ = ["poisson_surface_reconstruction", "sample_farthest_points"]


def sample_farthest_points(
    points: torch.Tensor,
    lengths: torch.Tensor | None = None,
    K: int = 50,
    random_start_point: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Farthest points of each cloud, and their indices: (B, K, 3) and int64 (B, K).

    Args:
        points: (B, N, 3).
        lengths: (B,), how many of a cloud's points count; None counts all.
        K: How many to choose; a cloud with fewer points gives them all, then index -1 and the point 0.
        random_start_point: Begin at a random point and not at the first.
    """
    if points.dim() != 3:
        raise ValueError(f"points must have the shape (B, N, 3), not {tuple(points.shape)}")
    sizes = [points.shape[1]] * len(points) if lengths is None else [int(size) for size in lengths]
    if len(sizes) != len(points) or not all(0 <= size <= points.shape[1] for size in sizes):
        raise ValueError(f"lengths must be {len(points)} numbers from 0 to {points.shape[1]}, not {sizes}")
    starts = [int(torch.randint(max(size, 1), ())) if random_start_point else 0 for size in sizes]
    if len(set(sizes)) == 1 and len(set(starts)) == 1 and sizes[0] >= K:
        indices = pick(points[:, : sizes[0]], K, start=starts[0])
        return take_points(points, indices), indices
    indices = torch.full((len(points), K), -1, device=points.device)
    for b, (size, start) in enumerate(zip(sizes, starts, strict=True)):
        found = pick_farthest(points[b, :size], min(K, size), start=start)
        indices[b, : len(found)] = found
    chosen = take_points(points, indices.clamp(min=0))
    return torch.where(indices[..., None] >= 0, chosen, 0), indices


def poisson_surface_reconstruction(
    points: torch.Tensor,
    normals: torch.Tensor | None = None,
    grid_resolution: int = 128,
    max_points_per_voxel: int = 10,
) -> list[Mesh]:
    """A surface through each cloud (B, N, 3), by the spectral Poisson method (Peng et al. 2021) on a dense grid.

    Points that lie on no surface, such as a random cloud, give one all the same, that means nothing.

    Args:
        points: Positions.
        normals: (B, N, 3) outward directions of any length; None estimates them from 16 neighbours.
        grid_resolution: Voxels along the grid's side, 16 to 512.
        max_points_per_voxel: More points than that in one voxel are thinned out.

    Returns:
        A mesh for each cloud, on the device of the points. Not differentiable.
    """
    from ..rep.mesh import Mesh

    if points.dim() != 3 or points.shape[-1] != 3:
        raise ValueError(f"points must have the shape (B, N, 3), not {tuple(points.shape)}")
    if normals is not None and normals.shape != points.shape:
        raise ValueError(f"normals must have the shape of points, {tuple(points.shape)}, not {tuple(normals.shape)}")
    meshes = []
    for b, cloud in enumerate(points.detach()):
        directions = estimate_normals(cloud) if normals is None else normals[b].detach()
        side = float((cloud.amax(dim=0) - cloud.amin(dim=0)).amax())
        if not side > 0:
            raise SmrError(f"The points of cloud {b} all lie in one place.", "Give points of a surface.")
        kept = keep_per_voxel(cloud, side / grid_resolution, max_points_per_voxel)
        arrays = [part[kept].double().cpu().numpy() for part in (cloud, directions)]
        mesh = poisson(arrays[0], arrays[1], resolution=grid_resolution)
        meshes.append(
            Mesh(
                torch.from_numpy(mesh.vertices).to(points),
                torch.from_numpy(mesh.faces).to(points.device, torch.int64),
            )
        )
    return meshes
