"""`kaolin.rep.Mesh`: a surface mesh that also takes a batch of faces."""

from __future__ import annotations

from typing import Any

import torch

from .surface_mesh import SurfaceMesh


class Mesh(SurfaceMesh):
    """A `SurfaceMesh` whose faces may have a batch dimension, as in `Mesh(torch.rand(1, V, 3), faces of (1, F, 3))`.

    Meshes with the same faces are held in batching FIXED, others in LIST. The other arguments are `SurfaceMesh`'s.
    """

    def __init__(self, vertices: Any, faces: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(faces, torch.Tensor) and faces.dim() == 3:
            if len(faces) and bool((faces == faces[:1]).all()):
                faces = faces[0]
            else:
                vertices, faces = list(vertices), list(faces)
        super().__init__(vertices, faces, *args, **kwargs)

    @classmethod
    def from_pointcloud(cls, points: torch.Tensor, **options: Any) -> Mesh:
        """A closed surface through points (V, 3) by Poisson reconstruction.

        Args:
            points: (V, 3), or (1, V, 3).
            **options: As for `kaolin.ops.points.poisson_surface_reconstruction`.
        """
        from ..ops.points import poisson_surface_reconstruction

        batch = points if points.dim() == 3 else points.unsqueeze(0)
        surface = poisson_surface_reconstruction(batch, **options)[0]
        return cls(surface.vertices, surface.faces)
