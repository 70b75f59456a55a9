"""Attributes of a surface mesh that follow from others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ..ops.mesh.mesh import average_face_vertex_features, index_vertices_by_faces
from ..ops.mesh.trianglemesh import face_normals, vertex_tangents
from ._layout import Batching, convert
from ._packing import INDEX_OF, pack

if TYPE_CHECKING:
    from .surface_mesh import SurfaceMesh

REQUIREMENTS: dict[str, list[list[str]]] = {
    "face_vertices": [["faces", "vertices"]],
    "face_normals": [["normals", "face_normals_idx"], ["vertex_normals", "faces"], ["vertices", "faces"]],
    "face_uvs": [["uvs", "face_uvs_idx"]],
    "vertex_normals": [["faces", "face_normals"]],
    "vertex_tangents": [["faces", "face_vertices", "face_uvs", "vertex_normals"]],
    "vertex_colors": [["faces", "face_colors"]],
    "vertex_features": [["faces", "face_features"]],
    "face_tangents": [["faces", "vertex_tangents"]],
    "face_colors": [["faces", "vertex_colors"]],
    "face_features": [["faces", "vertex_features"]],
}
"""What each attribute can be computed from; the first list that is to be had is taken."""

TRIANGLES_ONLY = {("face_normals", "vertices"), ("vertex_tangents", "faces")}
"""Attributes, with the first name of the list, that are computed for triangles only."""

Values = dict[str, torch.Tensor]


def _corners(features: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Features at corners: (B, V, C) and (F, S), or (1, V, C) and (1, F, S), to (B, F, S, C)."""
    return index_vertices_by_faces(features, indices if indices.dim() == 2 else indices[0])


def _at_vertices(values: Values, name: str) -> torch.Tensor:
    count = values["vertices"].shape[-2]
    return average_face_vertex_features(values["faces"], values[name], count)


def _face_normals(values: Values) -> torch.Tensor:
    normals = face_normals(values["face_vertices"], unit=True)
    return normals.unsqueeze(-2).expand(*normals.shape[:-1], 3, 3)


def _vertex_tangents(values: Values) -> torch.Tensor:
    corners = (values[name][0] for name in ("face_vertices", "face_uvs", "vertex_normals"))
    return vertex_tangents(values["faces"], *corners).unsqueeze(0)


_COMPUTE: dict[tuple[str, str], Callable[[Values], Any]] = {
    ("face_vertices", "faces"): lambda values: _corners(values["vertices"], values["faces"]),
    ("face_normals", "normals"): lambda values: _corners(values["normals"], values["face_normals_idx"]),
    ("face_normals", "vertex_normals"): lambda values: _corners(values["vertex_normals"], values["faces"]),
    ("face_normals", "vertices"): _face_normals,
    ("face_uvs", "uvs"): lambda values: _corners(values["uvs"], values["face_uvs_idx"]),
    ("vertex_normals", "faces"): lambda values: _at_vertices(values, "face_normals"),
    ("vertex_tangents", "faces"): _vertex_tangents,
    ("vertex_colors", "faces"): lambda values: _at_vertices(values, "face_colors"),
    ("vertex_features", "faces"): lambda values: _at_vertices(values, "face_features"),
    ("face_tangents", "faces"): lambda values: _corners(values["vertex_tangents"], values["faces"]),
    ("face_colors", "faces"): lambda values: _corners(values["vertex_colors"], values["faces"]),
    ("face_features", "faces"): lambda values: _corners(values["vertex_features"], values["faces"]),
}


def _inputs_of(name: str, requirements: list[str]) -> list[str]:
    """Attributes that a computation reads: the requirements, and what stands for or beside them."""
    if name == "face_normals" and requirements[0] == "vertices":
        return ["faces", "face_vertices"]
    if name.startswith("vertex_") and name != "vertex_tangents":
        return [*requirements, "vertices"]
    return requirements


def requirements_at_hand(mesh: SurfaceMesh, name: str, above: frozenset[str] = frozenset()) -> list[str] | None:
    """The first list of requirements of an attribute that is to be had, or None; nothing is computed.

    Args:
        mesh: The mesh.
        name: The attribute.
        above: Attributes that are computed from this one, and so cannot be what it is computed from.
    """
    below = above | {name}
    for requirements in REQUIREMENTS.get(name, []):
        fits = (name, requirements[0]) not in TRIANGLES_ONLY or mesh.is_triangular()
        if fits and all(
            mesh.has_attribute(other) or (other not in below and requirements_at_hand(mesh, other, below) is not None)
            for other in requirements
        ):
            return requirements
    return None


def look_up(
    mesh: SurfaceMesh, name: str, should_cache: bool | None, above: frozenset[str] = frozenset()
) -> tuple[Any, bool]:
    """An attribute, set or computed, and whether something it depends on needs a gradient.

    Args:
        mesh: The mesh.
        name: The attribute.
        should_cache: Keep what is computed; None keeps it unless a gradient is needed.
        above: Attributes that are computed from this one.

    Returns:
        The value, None where it cannot be had.
    """
    present = mesh.__dict__.get(name)
    if present is not None:
        return present, needs_grad(present)
    requirements = requirements_at_hand(mesh, name, above)
    if requirements is None or not _corners_have_vertices(mesh, name):
        return None, False
    inputs, needs = {}, False
    for other in _inputs_of(name, requirements):
        inputs[other], one_needs = look_up(mesh, other, should_cache, above | {name})
        needs |= one_needs
        if inputs[other] is None:
            return None, False
    value = _computed(mesh, name, requirements, inputs)
    if should_cache or (should_cache is None and not needs):
        setattr(mesh, name, value)
    return value, needs


def needs_grad(value: Any) -> bool:
    """Whether a tensor, or one of a list, needs a gradient."""
    return any(tensor.requires_grad for tensor in (value if isinstance(value, list | tuple) else [value]))


def _corners_have_vertices(mesh: SurfaceMesh, name: str) -> bool:
    """False where faces point into no vertices at all: nothing at corners can be computed."""
    vertices, faces = mesh.__dict__["vertices"], mesh.__dict__["faces"]
    if not name.startswith("face_"):
        return True
    if isinstance(vertices, torch.Tensor):
        vertices, faces = [vertices], [faces]
    return all(v.shape[-2] > 0 or len(f) == 0 for v, f in zip(vertices, faces, strict=True))


def _computed(mesh: SurfaceMesh, name: str, requirements: list[str], inputs: dict[str, Any]) -> Any:
    function = _COMPUTE[name, requirements[0]]
    if mesh.batching == Batching.FIXED and name != "vertex_tangents" and not any("_idx" in other for other in inputs):
        return function(inputs)
    count = len(mesh)
    lists = {other: convert(value, other, mesh.batching, Batching.LIST, count) for other, value in inputs.items()}
    vertices = [len(one) for one in mesh.getattr_batched("vertices", Batching.LIST)]
    index = next(other for other in lists if other in INDEX_OF)
    rows = vertices if name.startswith("vertex_") else [len(one) for one in lists[index]]
    if len({one.shape[-1] for one in lists[index]}) == 1:
        results = list(function(pack(lists, vertices))[0].split(rows))
    else:  # triangles and quads do not fit into one tensor
        each = [{other: [values[i]] for other, values in lists.items()} for i in range(count)]
        results = [function(pack(one, vertices[i : i + 1]))[0] for i, one in enumerate(each)]
    return convert(results, name, Batching.LIST, mesh.batching, count)
