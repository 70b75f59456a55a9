"""Repair, hole filling, simplification and texture coordinates for tensors: `smr.mesh` behind tensors in and out.

These change the connectivity and are not differentiable. They run on the CPU, whatever the device of the tensors; the
results come back to that device. Time grows with F log F (simplification, charts) or F (repair, holes).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ...mesh.holes import fill_holes as fill_holes_of
from ...mesh.repair import drop_invalid_faces, keep_used_vertices, repair_non_manifold
from ...mesh.simplify import simplify as simplify_of
from ...mesh.unwrap import unwrap as unwrap_of
from ...records import Mesh
from ..tensors import check_number, check_whole
from .faces import check_mesh


def to_record(vertices: torch.Tensor, faces: torch.Tensor) -> Mesh:
    """A `smr.records.Mesh` of tensors (V, 3) and (F, 3), checked.

    Raises:
        TypeError: Wrong types.
        ValueError: Wrong shapes, an index out of range, a coordinate that is not finite.
    """
    check_mesh(vertices, faces, finite=True)
    if vertices.dim() != 2:
        raise ValueError(f"vertices must have the shape (*, 3), not {tuple(vertices.shape)}; treat each mesh alone")
    places = vertices.detach().cpu()
    wide = places.float() if places.dtype == torch.float16 else places
    return Mesh(wide.contiguous().numpy(), faces.detach().cpu().to(torch.int32).contiguous().numpy())


def from_record(mesh: Mesh, vertices: torch.Tensor, faces: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Tensors of a record, with the types and devices of two tensors."""
    places = torch.from_numpy(np.ascontiguousarray(mesh.vertices)).to(vertices.device, vertices.dtype)
    return places, torch.from_numpy(np.ascontiguousarray(mesh.faces)).to(faces.device, faces.dtype)


def repair(vertices: torch.Tensor, faces: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Make an oriented manifold, with borders, of any triangles.

    Faces without area and doubles are dropped, faces that disagree with their neighbours turned, edges with more than
    two faces and vertices with more than one fan of faces taken apart, vertices without a face dropped.

    Args:
        vertices: (V, 3).
        faces: (F, 3).

    Returns:
        New vertices and faces.

    Raises:
        TypeError: Wrong types.
        ValueError: Wrong shapes, an index out of range, a coordinate that is not finite.
    """
    sound, _ = drop_invalid_faces(to_record(vertices, faces))
    return from_record(keep_used_vertices(repair_non_manifold(sound)), vertices, faces)


def fill_holes(
    vertices: torch.Tensor, faces: torch.Tensor, max_hole_edges: int = 30, *, fair: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    """Close the holes of at most `max_hole_edges` edges (Liepa 2003); see `smr.mesh.holes.fill_holes`.

    Vertices and faces that were there keep their numbers, where the mesh is a manifold; one that is not is repaired
    first. The rim of a piece that floats alone is no hole.

    Args:
        vertices: (V, 3).
        faces: (F, 3).
        max_hole_edges: Longest loop that is closed.
        fair: Refine the patches and bend them so that they continue the surface.

    Returns:
        New vertices and faces.

    Raises:
        TypeError: Wrong types.
        ValueError: Wrong shapes, an index out of range, a coordinate that is not finite, fewer than 3 edges.
    """
    if check_whole("max_hole_edges", max_hole_edges) < 3:
        raise ValueError(f"a hole has at least 3 edges; max_hole_edges is {max_hole_edges}")
    mesh = _manifold(to_record(vertices, faces))
    return from_record(fill_holes_of(mesh, max_hole_edges, fair=fair), vertices, faces)


def _manifold(mesh: Mesh) -> Mesh:
    """The mesh itself, with its numbers, where repair would change nothing but drop vertices without a face.

    Faces that name a vertex twice are dropped in any case.
    """
    distinct = (mesh.faces != np.roll(mesh.faces, 1, axis=1)).all(axis=1)
    if not distinct.all():
        mesh = Mesh(mesh.vertices, mesh.faces[distinct])
    repaired = repair_non_manifold(mesh)
    same_places = len(repaired.faces) == len(mesh.faces) and np.array_equal(
        repaired.vertices[repaired.faces], mesh.vertices[mesh.faces]
    )
    same_vertices = len(np.unique(repaired.faces)) == len(np.unique(mesh.faces))
    return mesh if same_places and same_vertices else repaired


def simplify(
    vertices: torch.Tensor,
    faces: torch.Tensor,
    *,
    target_vertices: int | None = None,
    target_faces: int | None = None,
    max_error: float | None = None,
    preserve_border: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Collapse edges, those first that change the surface least (Garland, Heckbert 1997).

    Topology stays: no piece vanishes and thin shapes do not collapse into lines, so that the result can be larger than
    asked for. See `smr.mesh.simplify.simplify`.

    Args:
        vertices: (V, 3).
        faces: (F, 3).
        target_vertices: Stop at this many vertices.
        target_faces: Stop at this many faces.
        max_error: Largest distance between the two surfaces.
        preserve_border: Weigh movement away from a border ten times as much as off the surface.

    Returns:
        New vertices and faces; vertices without a face are dropped.

    Raises:
        TypeError: Wrong types.
        ValueError: Wrong shapes, an index out of range, a coordinate that is not finite, no goal, one that is not
            positive.
    """
    mesh = keep_used_vertices(to_record(vertices, faces))
    for name, target in (("target_vertices", target_vertices), ("target_faces", target_faces)):
        if target is not None:
            check_whole(name, target, least=1)
    if max_error is not None:
        check_number("max_error", max_error)
    if target_vertices is None and target_faces is None and max_error is None:
        raise ValueError("simplify needs a goal: target_vertices, target_faces or max_error")
    goal = {"vertices": target_vertices, "faces": target_faces, "max_error": max_error}
    return from_record(simplify_of(mesh, **goal, preserve_border=preserve_border), vertices, faces)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Charts:
    """Texture coordinates of a mesh."""

    uvs: torch.Tensor
    """(T, 2) in [0, 1]; (0, 0) is the texture's bottom left corner."""
    face_uvs_idx: torch.Tensor
    """(F, 3) int64 indices into `uvs`."""
    face_charts: torch.Tensor
    """(F,) int64, the chart of each face."""
    size: int
    """Side of the square texture for which the space between charts was chosen, pixels."""
    texels_per_unit: float
    """Texels on a unit of length, the same in every chart."""


def unwrap(vertices: torch.Tensor, faces: torch.Tensor, *, size: int = 2048, gutter: int = 4) -> Charts:
    """Lay a mesh flat into a square texture, without overlaps, whatever the mesh is like; see `smr.mesh.unwrap`.

    Args:
        vertices: (V, 3).
        faces: (F, 3).
        size: Side of the texture, pixels.
        gutter: Free pixels between charts.

    Raises:
        TypeError: Wrong types.
        ValueError: Wrong shapes, an index out of range, a coordinate that is not finite, a size above 2^15.
        SmrError: No faces, or a texture too small for the number of charts.
    """
    size, gutter = check_whole("size", size, least=1, most=2**15), check_whole("gutter", gutter)
    atlas = unwrap_of(to_record(vertices, faces), size=size, gutter=gutter)
    return Charts(
        torch.from_numpy(atlas.uvs).to(vertices.device, vertices.dtype),
        torch.from_numpy(atlas.face_uvs).to(vertices.device, torch.int64),
        torch.from_numpy(atlas.face_charts).to(vertices.device, torch.int64),
        atlas.size,
        atlas.texels_per_metre,
    )
