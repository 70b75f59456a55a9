"""`kaolin.ops.mesh.check_sign`: whether points lie inside a mesh."""

from __future__ import annotations

import torch

from ....ops.mesh.inside import is_inside

__all__ = ["_unbatched_check_sign_cuda", "check_sign"]


def check_sign(
    verts: torch.Tensor, faces: torch.Tensor, points: torch.Tensor, hash_resolution: int = 512
) -> torch.Tensor:
    """Whether points (B, N, 3) lie inside closed meshes of vertices (B, V, 3) and faces (F, 3): bool (B, N).

    Right for points in line with vertices, edges and faces, too. Where some edge has an odd number of faces, so that
    the mesh is not closed, by the winding number. `hash_resolution` has no effect: there is no grid.
    """
    if faces.dtype != torch.int64:
        raise TypeError(f"Expected faces entries to be torch.int64 but got {faces.dtype}.")
    if not isinstance(hash_resolution, int):
        raise TypeError(f"Expected hash_resolution to be int but got {type(hash_resolution)}.")
    for name, tensor, dims, last, what in (
        ("verts", verts, 3, 3, "coordinates"),
        ("faces", faces, 2, 3, "vertices"),
        ("points", points, 3, 3, "coordinates"),
    ):
        if tensor.dim() != dims:
            raise ValueError(f"Expected {name} to have {dims} dimensions but got {tensor.dim()} dimensions.")
        if tensor.shape[-1] != last:
            raise ValueError(f"Expected {name} to have {last} {what} but got {tensor.shape[-1]} {what}.")
    return is_inside(verts, faces, points.to(verts.dtype), rule="even-odd")


def _unbatched_check_sign_cuda(verts: torch.Tensor, faces: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """`check_sign` of one mesh: (V, 3), (F, 3), (N, 3) to bool (N,)."""
    return is_inside(verts, faces, points.to(verts.dtype), rule="even-odd")
