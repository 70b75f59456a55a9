"""Meshes written as USD prims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from pxr import Sdf, Usd, UsdGeom, UsdShade

from ._stage import coordinates_of, integers_of, points_of, scene_path_of, time_code, value_at
from .materials import bind, export_material
from .subset import define_subset
from .transform import place_prim


def add_mesh(
    stage: Usd.Stage,
    scene_path: Any,
    vertices: torch.Tensor | None = None,
    faces: torch.Tensor | None = None,
    uvs: torch.Tensor | None = None,
    face_uvs_idx: torch.Tensor | None = None,
    face_normals: torch.Tensor | None = None,
    material_assignments: torch.Tensor | None = None,
    materials: Sequence[Any] | None = None,
    local_to_world: torch.Tensor | None = None,
    time: int | float | None = None,
    overwrite_textures: bool = False,
) -> Usd.Prim:
    """Add a mesh to a stage, or a time to one that is there; what is None stays as it is.

    Args:
        stage: The stage, which is not saved.
        scene_path: Where.
        vertices: (V, 3).
        faces: (F, FSz).
        uvs: (U, 2), (0, 0) is the image's top left corner.
        face_uvs_idx: (F, FSz); None: a coordinate for each vertex, corner or face, as their number says.
        face_normals: (F, FSz, 3).
        material_assignments: (F,), -1 for none.
        materials: The materials; they are written below the mesh.
        local_to_world: (4, 4), the translation in the last column.
        time: When; None: always.
        overwrite_textures: Write over images of the same names instead of choosing free ones.

    Raises:
        ValueError: The path is none, a shape is not as it should be, or several materials are given and not assigned.
    """
    return write_mesh(
        stage,
        scene_path,
        vertices,
        faces,
        uvs,
        face_uvs_idx,
        face_normals,
        material_assignments,
        materials,
        local_to_world,
        time,
        overwrite_textures,
    )


def write_mesh(
    stage: Usd.Stage,
    scene_path: Any,
    vertices: torch.Tensor | None,
    faces: torch.Tensor | None,
    uvs: torch.Tensor | None,
    face_uvs_idx: torch.Tensor | None,
    face_normals: torch.Tensor | None,
    material_assignments: torch.Tensor | None,
    materials: Sequence[Any] | None,
    local_to_world: torch.Tensor | None,
    time: int | float | None,
    overwrite_textures: bool,
    complete: bool = False,
) -> Usd.Prim:
    """Add a mesh to a stage. `complete`: see `io.usd.export_mesh`."""
    code = time_code(time)
    mesh = UsdGeom.Mesh.Define(stage, scene_path_of(scene_path))
    if faces is not None:
        _check(faces, "faces", 2, None)
        counts = torch.full((len(faces),), faces.shape[1])
        mesh.GetFaceVertexCountsAttr().Set(integers_of(counts), code)
        mesh.GetFaceVertexIndicesAttr().Set(integers_of(faces), code)
    if vertices is not None:
        _check(vertices, "vertices", 2, 3)
        mesh.GetPointsAttr().Set(points_of(vertices), code)
    if face_normals is not None:
        _check(face_normals, "face_normals", None, 3)
        mesh.GetNormalsAttr().Set(points_of(face_normals), code)
        mesh.SetNormalsInterpolation(UsdGeom.Tokens.faceVarying)
    _write_coordinates(mesh, uvs, face_uvs_idx, time)
    if complete:
        mesh.CreateSubdivisionSchemeAttr(UsdGeom.Tokens.none)
        if vertices is not None and len(vertices):
            ends = torch.stack([vertices.amin(dim=0), vertices.amax(dim=0)])
            mesh.CreateExtentAttr().Set(points_of(ends), code)
    if local_to_world is not None:
        place_prim(mesh.GetPrim(), local_to_world, time)
    if materials:
        _write_materials(stage, mesh, material_assignments, list(materials), time, overwrite_textures, complete)
    return mesh.GetPrim()


def _check(values: torch.Tensor, name: str, dimensions: int | None, width: int | None) -> None:
    if (dimensions is not None and values.dim() != dimensions) or (width is not None and values.shape[-1] != width):
        wanted = "(F, FSz)" if width is None else f"(..., {width})"
        raise ValueError(f"{name} must be {wanted}, not {tuple(values.shape)}")


def _write_coordinates(
    mesh: UsdGeom.Mesh, uvs: torch.Tensor | None, index: torch.Tensor | None, time: int | float | None
) -> None:
    code = time_code(time)
    api = UsdGeom.PrimvarsAPI(mesh)
    if uvs is not None:
        flat = uvs.reshape(-1, 2)
        interpolation = UsdGeom.Tokens.faceVarying if index is not None else _interpolation(mesh, len(flat), time)
        primvar = api.CreatePrimvar("st", Sdf.ValueTypeNames.Float2Array, interpolation)
        turned = torch.stack([flat[:, 0], 1.0 - flat[:, 1]], dim=1)
        primvar.Set(coordinates_of(turned), code)
    if index is not None and api.HasPrimvar("st"):
        api.GetPrimvar("st").SetIndices(integers_of(index), code)


def _interpolation(mesh: UsdGeom.Mesh, count: int, time: int | float | None) -> str:
    """What texture coordinates belong to, by their number: vertices, corners or faces."""
    lengths = [
        0 if value is None else len(value)
        for value in (
            value_at(attribute, time)
            for attribute in (mesh.GetPointsAttr(), mesh.GetFaceVertexIndicesAttr(), mesh.GetFaceVertexCountsAttr())
        )
    ]
    names = (UsdGeom.Tokens.vertex, UsdGeom.Tokens.faceVarying, UsdGeom.Tokens.uniform)
    return next((str(name) for name, length in zip(names, lengths, strict=True) if length == count), "constant")


def _write_materials(
    stage: Usd.Stage,
    mesh: UsdGeom.Mesh,
    assigned: torch.Tensor | None,
    materials: list[Any],
    time: int | float | None,
    overwrite_textures: bool,
    complete: bool,
) -> None:
    """Materials below the mesh, and a subset of its faces for each; also for one that no face has."""
    if assigned is None and len(materials) > 1:
        raise ValueError(f"{len(materials)} materials need material_assignments")
    looks = mesh.GetPath().AppendChild("Looks")
    UsdGeom.Scope.Define(stage, looks)
    digits = len(str(len(materials) - 1))  # names in the order of the list
    paths = [looks.AppendChild(f"material_{i:0{digits}}") for i in range(len(materials))]
    folder = "textures" if complete else None
    for material, path in zip(materials, paths, strict=True):
        export_material(
            material,
            stage,
            path,
            texture_path=folder,
            time=time,
            overwrite_textures=overwrite_textures,
            complete=complete,
        )
    if assigned is None:
        bind(mesh.GetPrim(), UsdShade.Material(stage.GetPrimAtPath(paths[0])), complete)
        return
    for i, path in enumerate(paths):
        subset = define_subset(
            stage, mesh.GetPrim(), f"subset_{i}", torch.nonzero(assigned == i), UsdShade.Tokens.materialBind
        )
        bind(subset.GetPrim(), UsdShade.Material(stage.GetPrimAtPath(path)), complete)
    if complete:
        UsdShade.MaterialBindingAPI(mesh.GetPrim()).SetMaterialBindSubsetsFamilyType(UsdGeom.Tokens.nonOverlapping)
