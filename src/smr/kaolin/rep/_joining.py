"""Several surface meshes in one: as a batch, or as one mesh in world coordinates."""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from ._layout import SHAPES, Batching, convert
from ._packing import INDEX_OF
from .tensor_container import apply_to_tensors

if TYPE_CHECKING:
    from .surface_mesh import SurfaceMesh

_log = logging.getLogger(__name__)

_CORNERS = {"normals": "face_normals", "uvs": "face_uvs"}
_NORMALS = ("normals", "face_normals", "vertex_normals")
_TANGENTS = ("vertex_tangents", "face_tangents")


def _singles(meshes: Any) -> list[SurfaceMesh]:
    """All meshes one by one, in batching NONE."""
    batches = list(meshes) if isinstance(meshes, list | tuple) else [meshes]
    result = [batch[i] for batch in batches for i in range(len(batch))]
    if not result:
        raise ValueError("there are no meshes to join")
    return result


def _common(singles: list[SurfaceMesh]) -> list[str]:
    """Attributes that every mesh has or can compute, and at least one has; indexed ones only with their index."""
    names = [
        name
        for name in [*SHAPES, "materials"]
        if any(mesh.has_attribute(name) for mesh in singles)
        and all(mesh.has_attribute(name) or mesh.probably_can_compute_attribute(name) for mesh in singles)
    ]
    for index, values in (("face_normals_idx", "normals"), ("face_uvs_idx", "uvs")):
        corners = _CORNERS[values]
        if (index in names) != (values in names):
            names = [name for name in names if name not in (index, values)]
        if values not in names and corners not in names and any(mesh.has_attribute(values) for mesh in singles):
            names += [corners] if all(mesh.has_or_can_compute_attribute(corners) for mesh in singles) else []
    if ("materials" in names) != ("material_assignments" in names):
        names = [name for name in names if name not in ("materials", "material_assignments")]
    return names


def _values(singles: list[SurfaceMesh], name: str) -> list[Any] | None:
    values = [
        mesh.get_attribute(name) if mesh.has_attribute(name) else mesh.get_or_compute_attribute(name, False)
        for mesh in singles
    ]
    return None if any(value is None for value in values) else values


def _transforms(singles: list[SurfaceMesh]) -> torch.Tensor | None:
    if not any(mesh.has_attribute("transform") for mesh in singles):
        return None
    given = [mesh.transform if mesh.has_attribute("transform") else None for mesh in singles]
    like = next(matrix for matrix in given if matrix is not None)
    identity = torch.eye(4, dtype=like.dtype, device=like.device)
    return torch.stack([identity if matrix is None else matrix for matrix in given])


def cat(cls: type[SurfaceMesh], meshes: Sequence[SurfaceMesh], fixed_topology: bool, skip_errors: bool) -> SurfaceMesh:
    """See `SurfaceMesh.cat`."""
    singles = _singles(meshes)
    target = Batching.FIXED if fixed_topology else Batching.LIST
    names = [name for name in _common(singles) if name != "transform"]
    result: dict[str, Any] = {"transform": _transforms(singles)}
    while names:
        name = names.pop(0)
        values = _values(singles, name)
        if values is None:
            continue
        try:
            result[name] = convert(values, name, Batching.LIST, target, len(singles))
        except ValueError as error:
            values_name = INDEX_OF.get(name, name)
            if values_name in _CORNERS:
                _log.info("%s cannot be in one batch, %s are instead: %s", values_name, _CORNERS[values_name], error)
                names = [other for other in names if INDEX_OF.get(other, other) != values_name]
                result = {other: value for other, value in result.items() if INDEX_OF.get(other, other) != values_name}
                names += [_CORNERS[values_name]] if _CORNERS[values_name] not in [*names, *result] else []
            elif not skip_errors or name in ("vertices", "faces"):
                raise
            else:
                _log.warning("%s is left out: %s", name, error)
    return _made(cls, singles[0], result)


def _made(cls: type[SurfaceMesh], like: SurfaceMesh, attributes: dict[str, Any]) -> SurfaceMesh:
    settings = {name: getattr(like, name) for name in ("unset_attributes_return_none", "allow_auto_compute")}
    return cls(**attributes, **settings)


def flatten(cls: type[SurfaceMesh], meshes: Any, group_materials_by_name: bool) -> SurfaceMesh:
    """See `SurfaceMesh.flatten`."""
    singles = [as_transformed(mesh) for mesh in _singles(meshes)]
    corners = sorted({mesh.faces.shape[-1] for mesh in singles})
    if len(corners) > 1:
        raise ValueError(f"faces of {' and '.join(map(str, corners))} corners cannot be in one mesh; triangulate them")
    result: dict[str, Any] = {}
    for name in _common(singles):
        values = _values(singles, name)
        if values is None or name in ("transform", "materials", "material_assignments"):
            continue
        if name in INDEX_OF:
            values = _offset(values, [len(mesh.get_attribute(INDEX_OF[name])) for mesh in singles])
        result[name] = torch.cat(values)
    if "materials" in _common(singles):
        result.update(_joined_materials(singles, group_materials_by_name))
    return _made(cls, singles[0], result)


def _offset(values: list[torch.Tensor], counts: list[int]) -> list[torch.Tensor]:
    """Indices moved past what earlier meshes have; a negative one, which stands for none, stays."""
    starts = [sum(counts[:i]) for i in range(len(counts))]
    return [torch.where(value < 0, value, value + start) for value, start in zip(values, starts, strict=True)]


def _joined_materials(singles: list[SurfaceMesh], by_name: bool) -> dict[str, Any]:
    lists: list[list[Any]] = [mesh.__dict__["materials"] for mesh in singles]
    assignments = [mesh.__dict__["material_assignments"] for mesh in singles]
    materials = [material for each in lists for material in each]
    joined = torch.cat(_offset(assignments, [len(each) for each in lists]))
    if by_name:
        from ..io.materials import group_materials_by_name

        materials, joined = group_materials_by_name(materials, joined)
    return {"materials": materials, "material_assignments": joined}


def as_transformed(mesh: SurfaceMesh) -> SurfaceMesh:
    """See `SurfaceMesh.as_transformed`."""
    if not mesh.has_attribute("transform"):
        return mesh
    result = copy.copy(mesh)
    matrix = mesh.transform
    result.transform = None
    result.face_vertices = None
    for name, how in [("vertices", _moved), *((n, _normal) for n in _NORMALS), *((n, _tangent) for n in _TANGENTS)]:
        value = mesh.__dict__.get(name)
        if isinstance(value, list):
            each = [matrix if matrix.dim() == 2 else matrix[i] for i in range(len(value))]
            setattr(result, name, [how(item, one) for item, one in zip(value, each, strict=True)])
        elif value is not None:
            setattr(result, name, apply_to_tensors(value, lambda tensor, how=how: how(tensor, matrix)))  # type: ignore[misc]
    return result


def _linear(vectors: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    """Rows (..., 3) times a matrix's transposed one, for each mesh of a batch its own."""
    if matrix.dim() == 3:
        matrix = matrix.reshape(-1, *[1] * (vectors.dim() - 3), *matrix.shape[-2:])
    return vectors @ matrix.transpose(-1, -2)


def _moved(points: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    homogeneous = torch.cat([points, torch.ones_like(points[..., :1])], dim=-1)
    moved = _linear(homogeneous, matrix)
    return moved[..., :3] / moved[..., 3:]


def _normal(normals: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    inverse = torch.linalg.inv(matrix[..., :3, :3]).transpose(-1, -2)
    return torch.nn.functional.normalize(_linear(normals, inverse), dim=-1)


def _tangent(tangents: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.normalize(_linear(tangents, matrix[..., :3, :3]), dim=-1)
