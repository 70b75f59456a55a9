"""Meshes of USD prims."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from pxr import Usd, UsdGeom, UsdShade

from ....formats.files import damaged
from ...rep.surface_mesh import SurfaceMesh
from ..materials import MaterialNotSupportedError, process_materials_and_assignments
from ..obj import default_error_handler
from ..utils import NonHomogeneousMeshError, mesh_handler_naive_triangulate
from ._stage import tensor_of, value_at
from .materials import material_of
from .transform import place_of


def get_raw_mesh_prim_geometry(
    mesh_prim: Usd.Prim, time: int | float | None = None, with_normals: bool = False, with_uvs: bool = False
) -> dict[str, Any]:
    """What a mesh's prim says, as it says it.

    Args:
        mesh_prim: The prim.
        time: When; None: the values without time, or the first.
        with_normals: Read normals, too.
        with_uvs: Read texture coordinates, too.

    Returns:
        `vertices` (V, 3), `faces`: the corners of all faces one after another, `face_sizes` (F,), each None where it is
        not set. With texture coordinates `uvs` ((0, 0) is the image's bottom left corner, unlike elsewhere in
        Kaolin), `face_uvs_idx` and `uvs_interpolation`; with normals `normals`, `face_normals_idx` and
        `normals_interpolation`.
    """
    mesh = UsdGeom.Mesh(mesh_prim)
    result: dict[str, Any] = {
        "vertices": tensor_of(value_at(mesh.GetPointsAttr(), time), 3, torch.float32),
        "faces": tensor_of(value_at(mesh.GetFaceVertexIndicesAttr(), time), 0, torch.int64),
        "face_sizes": tensor_of(value_at(mesh.GetFaceVertexCountsAttr(), time), 0, torch.int64),
    }
    if with_uvs:
        values, index, interpolation = _primvar(_coordinates(mesh), 2, time)
        result.update(uvs=values, face_uvs_idx=index, uvs_interpolation=interpolation)
    if with_normals:
        values, index, interpolation = _primvar(UsdGeom.PrimvarsAPI(mesh).GetPrimvar("normals"), 3, time)
        if values is None:
            values = tensor_of(value_at(mesh.GetNormalsAttr(), time), 3, torch.float32)
            index, interpolation = None, str(mesh.GetNormalsInterpolation())
        result.update(normals=values, face_normals_idx=index, normals_interpolation=interpolation)
    return result


def _coordinates(mesh: UsdGeom.Mesh) -> Any:
    """The primvar with texture coordinates: `st`, else the first of that type."""
    api = UsdGeom.PrimvarsAPI(mesh)
    known = [api.GetPrimvar(name) for name in ("st", "UVMap", "st0")]
    typed = [one for one in api.GetPrimvarsWithValues() if "texCoord2" in str(one.GetTypeName())]
    return next((one for one in [*known, *typed] if one and one.HasValue()), None)


def _primvar(primvar: Any, width: int, time: int | float | None) -> tuple[Any, Any, str]:
    if not primvar or not primvar.HasValue():
        return None, None, ""
    values = tensor_of(value_at(primvar.GetAttr(), time), width, torch.float32)
    index = tensor_of(value_at(primvar.GetIndicesAttr(), time), 0, torch.int64) if primvar.IsIndexed() else None
    return values, index, str(primvar.GetInterpolation())


def get_mesh_prim_materials(
    mesh_prim: Usd.Prim, time: int | float | None = None, known: dict[str, Any] | None = None
) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """The materials of a mesh and of parts of it.

    Args:
        mesh_prim: The prim.
        time: When; None: the values without time, or the first.
        known: Materials read before, by path; new ones are added.

    Returns:
        The materials by path, and the faces that have each, (n,) int64.
    """
    known = {} if known is None else known
    sizes = value_at(UsdGeom.Mesh(mesh_prim).GetFaceVertexCountsAttr(), time)
    chosen = torch.full((0 if sizes is None else len(sizes),), -1, dtype=torch.int64)
    bound: list[UsdShade.Material] = []
    whole = UsdShade.MaterialBindingAPI(mesh_prim).ComputeBoundMaterial()[0]
    covered = torch.zeros(len(chosen), dtype=torch.bool)
    for subset in UsdShade.MaterialBindingAPI(mesh_prim).GetMaterialBindSubsets():
        material = UsdShade.MaterialBindingAPI(subset.GetPrim()).ComputeBoundMaterial()[0]
        faces = tensor_of(value_at(subset.GetIndicesAttr(), time), 0, torch.int64)
        if material and faces is not None:
            faces = faces[(faces >= 0) & (faces < len(chosen))]
            chosen[faces], covered[faces] = len(bound), True
            bound.append(material)
    if whole and (not bound or not bool(covered.all())):
        chosen[~covered] = len(bound)
        bound.append(whole)
    materials: dict[str, Any] = {}
    assigned: dict[str, list[torch.Tensor]] = {}
    for i, material in enumerate(bound):
        path = str(material.GetPath())
        if path not in known:
            known[path] = _material(material, time)
        if known[path] is None:
            continue
        materials[path] = known[path]
        assigned.setdefault(path, []).append(torch.nonzero(chosen == i).reshape(-1))
    return materials, {path: torch.cat(faces) for path, faces in assigned.items()}


def _material(material: UsdShade.Material, time: int | float | None) -> Any:
    """A material; None with a warning where its shader is not known."""
    try:
        return material_of(material, time)
    except MaterialNotSupportedError as error:
        warnings.warn(f"a material is left out: {error}", stacklevel=2)
        return None


def read_mesh(
    prim: Usd.Prim,
    time: int | float | None,
    with_normals: bool,
    materials: dict[str, Any] | None,
    handler: Callable[..., Any] | None,
    triangulate: bool,
) -> SurfaceMesh | None:
    """A mesh in its own coordinates; `materials`: those read before, None reads none. See `io.usd.import_meshes`."""
    raw = get_raw_mesh_prim_geometry(prim, time, with_normals, True)
    vertices = torch.zeros(0, 3) if raw["vertices"] is None else raw["vertices"]
    loops = torch.zeros(0, dtype=torch.int64) if raw["faces"] is None else raw["faces"]
    sizes = torch.zeros(0, dtype=torch.int64) if raw["face_sizes"] is None else raw["face_sizes"]
    _check(prim, vertices if raw["vertices"] is not None else None, loops, sizes)
    uv_loops = _corner_values(
        prim, "texture coordinates", raw["uvs"], raw["face_uvs_idx"], raw["uvs_interpolation"], loops, sizes
    )
    fields: dict[str, Any] = {}
    normal_loops = None
    if with_normals and raw["normals"] is not None:
        if raw["normals_interpolation"] in ("vertex", "varying") and raw["face_normals_idx"] is None:
            fields["vertex_normals"] = raw["normals"] if len(raw["normals"]) == len(vertices) else None
        else:
            normal_loops = _corner_values(
                prim, "normals", raw["normals"], raw["face_normals_idx"], raw["normals_interpolation"], loops, sizes
            )
            if not len(sizes):
                fields["face_normals"] = raw["normals"][None]
    listed, assigned = ({}, {}) if materials is None else get_mesh_prim_materials(prim, time, materials)
    corners = _wound(prim, sizes)
    features = [None if one is None else one[corners] for one in (loops, uv_loops, normal_loops)]
    result = _of_one_size(prim, vertices, sizes, features, assigned, handler, triangulate)
    if result is None:
        return None
    vertices, features, assigned = result
    if raw["uvs"] is not None:
        flipped = raw["uvs"].clone()
        flipped[:, 1] = 1.0 - flipped[:, 1]
        fields.update(uvs=flipped, face_uvs_idx=features[1])
    if features[2] is not None:
        fields["face_normals"] = raw["normals"][features[2]]
    if materials is not None:
        where = str(prim.GetPath())
        fields["materials"], fields["material_assignments"] = process_materials_and_assignments(
            listed, assigned, default_error_handler, len(features[0]), where
        )
    place = place_of(prim, time)
    return SurfaceMesh(
        vertices=vertices,
        faces=features[0],
        strict_checks=bool(len(sizes)) and bool(len(vertices)),
        **fields,
        transform=None if place is None else place.float(),
    )


def _name(prim: Usd.Prim) -> Path:
    return Path(prim.GetStage().GetRootLayer().realPath or "the stage")


def _check(prim: Usd.Prim, vertices: torch.Tensor | None, loops: torch.Tensor, sizes: torch.Tensor) -> None:
    if (len(sizes) and int(sizes.min()) < 0) or int(sizes.sum()) != len(loops):
        raise damaged(_name(prim), f"the faces of {prim.GetPath()} do not fit its indices")
    if vertices is not None and len(loops) and (int(loops.min()) < 0 or int(loops.max()) >= len(vertices)):
        raise damaged(_name(prim), f"a face of {prim.GetPath()} refers to vertex {int(loops.max())} of {len(vertices)}")


def _corner_values(
    prim: Usd.Prim,
    what: str,
    values: torch.Tensor | None,
    index: torch.Tensor | None,
    interpolation: str,
    loops: torch.Tensor,
    sizes: torch.Tensor,
) -> torch.Tensor | None:
    """For each corner its row of `values`; None where they belong to no corners.

    Raises:
        SmrError: A row is not there.
    """
    if values is None or not len(sizes):
        return None
    if interpolation == UsdGeom.Tokens.faceVarying:
        rows = torch.arange(len(loops))
    elif interpolation in (UsdGeom.Tokens.vertex, UsdGeom.Tokens.varying):
        rows = loops
    elif interpolation == UsdGeom.Tokens.uniform:
        rows = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
    elif len(values) == 1:
        rows = torch.zeros(len(loops), dtype=torch.int64)
    else:
        return None
    if index is not None:
        if len(rows) and int(rows.max()) >= len(index):
            raise damaged(_name(prim), f"{prim.GetPath()} has too few indices of {what}")
        rows = index[rows]
    if len(rows) and (int(rows.min()) < 0 or int(rows.max()) >= len(values)):
        raise damaged(_name(prim), f"{prim.GetPath()} has {len(values)} {what}, and more are in use")
    return rows


def _wound(prim: Usd.Prim, sizes: torch.Tensor) -> torch.Tensor:
    """All corners in an order that winds faces counter-clockwise."""
    corners = torch.arange(int(sizes.sum()))
    if UsdGeom.Gprim(prim).GetOrientationAttr().Get() != UsdGeom.Tokens.leftHanded:
        return corners
    first = sizes.cumsum(0) - sizes
    return torch.repeat_interleave(2 * first + sizes - 1, sizes) - corners


def _of_one_size(
    prim: Usd.Prim,
    vertices: torch.Tensor,
    sizes: torch.Tensor,
    features: list[torch.Tensor | None],
    assigned: dict[str, torch.Tensor],
    handler: Callable[..., Any] | None,
    triangulate: bool,
) -> tuple[torch.Tensor, list[Any], dict[str, torch.Tensor]] | None:
    """Vertices, features (F, FSz) and assignments of faces of one size; None where the mesh is left out."""
    same = len(sizes) == 0 or bool((sizes == sizes[0]).all())
    if not same and handler is None and not triangulate:
        counts = ", ".join(map(str, sorted(set(sizes.tolist()))))
        raise NonHomogeneousMeshError(
            f"{prim.GetPath()} in {_name(prim)} has faces of {counts} corners; give triangulate=True, or a "
            f"heterogeneous_mesh_handler"
        )
    if same and not (triangulate and len(sizes) and int(sizes[0]) > 3):
        width = int(sizes[0]) if len(sizes) else 3
        return vertices, [None if one is None else one.reshape(len(sizes), width) for one in features], assigned
    chosen = handler if handler is not None and not same else mesh_handler_naive_triangulate
    result = chosen(vertices, sizes, *features, face_assignments=assigned)
    if result is None:
        return None
    vertices, _, *features, assigned = result
    return vertices, features, assigned
