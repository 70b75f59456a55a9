"""Several meshes of different sizes in one tensor each, and back: O(V + F), one copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..tensors import check_same_device, check_tensor
from .faces import check_mesh, unpack_faces


@dataclass(frozen=True)
class PackedMeshes:
    """Meshes one behind the other."""

    vertices: torch.Tensor
    """(V, 3), of all meshes."""
    faces: torch.Tensor
    """(F, 3), of all meshes; indices into the vertices of their own mesh."""
    first_vertices: torch.Tensor
    """(B + 1,) int64 on the CPU, where each mesh's vertices begin, and the end."""
    face_counts: torch.Tensor
    """(B,) int64 on the CPU."""

    def joined_faces(self) -> torch.Tensor:
        """(F, 3): indices into the vertices of all, so that the meshes are one mesh of several pieces."""
        return unpack_faces(self.first_vertices, self.faces, self.face_counts)

    def unpack(self) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """The vertices and the faces of each mesh, as views."""
        vertices = self.vertices.split(self.first_vertices.diff().tolist())
        return list(vertices), list(self.faces.split(self.face_counts.tolist()))


def pack_meshes(vertices: Sequence[torch.Tensor], faces: Sequence[torch.Tensor]) -> PackedMeshes:
    """Put meshes one behind the other.

    Args:
        vertices: (V, 3) each.
        faces: (F, 3) each.

    Raises:
        TypeError: Wrong types.
        ValueError: No mesh, lists of different length, wrong shapes, an index out of range.
    """
    if not vertices or len(vertices) != len(faces):
        raise ValueError(f"one tensor of vertices and one of faces a mesh needed, not {len(vertices)} and {len(faces)}")
    for i, (places, triangles) in enumerate(zip(vertices, faces, strict=True)):
        check_mesh(places, triangles)
        check_tensor(f"vertices[{i}]", places, (None, 3), (vertices[0].dtype,))
        check_tensor(f"faces[{i}]", triangles, (None, 3), (faces[0].dtype,))
        check_same_device(**{"vertices[0]": vertices[0], f"vertices[{i}]": places})
    counts = torch.tensor([0, *(len(places) for places in vertices)])
    face_counts = torch.tensor([len(triangles) for triangles in faces])
    return PackedMeshes(torch.cat(list(vertices)), torch.cat(list(faces)), counts.cumsum(0), face_counts)
