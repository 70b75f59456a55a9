"""`kaolin.io.usd.subset`: named parts of meshes and of points."""

from __future__ import annotations

from typing import Any

import torch
from pxr import Usd, UsdGeom

from ._stage import StageOrPath, integers_of, open_stage, prim_at, tensor_of


def add_subset(
    file_path_or_stage: StageOrPath,
    prim_or_path: Any,
    name: str,
    indices: torch.Tensor,
    family_name: str = "part",
    overwrite: bool = False,
) -> Usd.Prim:
    """Name a part of a mesh's faces, or of another prim's points.

    Args:
        file_path_or_stage: A file, which is saved, or a stage, which is not.
        prim_or_path: The mesh or the points.
        name: Name of the part's prim.
        indices: Which faces or points (N,).
        family_name: The kind of part, "materialBind" for materials.
        overwrite: Write over a part of this name.

    Returns:
        The part's prim; with a file it holds as long as somebody holds the file's stage.

    Raises:
        ValueError: There is no such prim, or a part of this name is there already.
    """
    stage = open_stage(file_path_or_stage)
    prim = prim_at(stage, prim_or_path)
    path = prim.GetPath().AppendChild(name)
    if stage.GetPrimAtPath(path):
        if not overwrite:
            raise ValueError(f"{path} already exists; overwrite=True writes over it")
        stage.RemovePrim(path)
    subset = define_subset(stage, prim, name, indices, family_name)
    if stage is not file_path_or_stage:
        stage.Save()
    return subset.GetPrim()


def define_subset(
    stage: Usd.Stage, prim: Usd.Prim, name: str, indices: torch.Tensor, family_name: str
) -> UsdGeom.Subset:
    """A part of a prim's faces, or points."""
    subset = UsdGeom.Subset.Define(stage, prim.GetPath().AppendChild(name))
    element = UsdGeom.Tokens.face if prim.IsA(UsdGeom.Mesh) else UsdGeom.Tokens.point
    subset.CreateElementTypeAttr(element)
    subset.CreateFamilyNameAttr(family_name)
    subset.CreateIndicesAttr(integers_of(indices))
    return subset


def import_subsets(
    file_path_or_stage: StageOrPath, prim_or_path: Any, family_name: str | None = None
) -> dict[str, dict[str, Any]]:
    """The parts of a prim.

    Args:
        file_path_or_stage: A file or a stage.
        prim_or_path: The mesh or the points.
        family_name: Only parts of this kind.

    Returns:
        By path, "indices" (N,) int64 and "family_name".

    Raises:
        ValueError: There is no such prim.
    """
    stage = open_stage(file_path_or_stage)
    prim = prim_at(stage, prim_or_path)
    found = {}
    for child in prim.GetChildren():
        if not child.IsA(UsdGeom.Subset):
            continue
        subset = UsdGeom.Subset(child)
        family = str(subset.GetFamilyNameAttr().Get() or "")
        if family_name is None or family == family_name:
            indices = tensor_of(subset.GetIndicesAttr().Get(), 0, torch.int64)
            empty = torch.zeros(0, dtype=torch.int64)
            found[str(child.GetPath())] = {"indices": empty if indices is None else indices, "family_name": family}
    return found
