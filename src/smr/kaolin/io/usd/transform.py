"""`kaolin.io.usd.transform`: where prims are in the world."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from pxr import Gf, Usd, UsdGeom

from ._stage import StageOrPath, open_stage, prim_at, time_code


def set_local_to_world_transform(
    file_path_or_stage: StageOrPath, prim_or_path: Any, local_to_world: torch.Tensor, time: int | float | None = None
) -> None:
    """Move a prim; its own transform becomes what takes it there below its parents.

    Args:
        file_path_or_stage: A file, which is saved, or a stage, which is not.
        prim_or_path: The prim.
        local_to_world: (4, 4), the translation in the last column.
        time: When; None: always.

    Raises:
        ValueError: There is no such prim, it cannot be moved, or the shape is another.
    """
    stage = open_stage(file_path_or_stage)
    prim = prim_at(stage, prim_or_path)
    place_prim(prim, local_to_world, time)
    if stage is not file_path_or_stage:
        stage.Save()


def place_prim(prim: Usd.Prim, local_to_world: torch.Tensor, time: int | float | None) -> None:
    """Move a prim; see `set_local_to_world_transform`."""
    if tuple(local_to_world.shape) != (4, 4):
        raise ValueError(f"local_to_world must be (4, 4), not {tuple(local_to_world.shape)}")
    if not prim.IsA(UsdGeom.Xformable):
        raise ValueError(f"{prim.GetPath()} is of the type {prim.GetTypeName()!r}, which has no transform")
    code = time_code(time)
    parent = UsdGeom.Xformable(prim.GetParent())
    world = Gf.Matrix4d(*local_to_world.detach().cpu().double().numpy().T.reshape(-1).tolist())
    above = parent.ComputeLocalToWorldTransform(code) if parent else Gf.Matrix4d(1.0)
    if above.GetDeterminant() == 0.0:
        raise ValueError(f"what is above {prim.GetPath()} is squeezed flat: nothing can be placed below it")
    UsdGeom.Xformable(prim).MakeMatrixXform().Set(world * above.GetInverse(), code)


def get_local_to_world_transform(
    file_path_or_stage: StageOrPath, prim_or_path: Any, time: int | float | None = None
) -> torch.Tensor | None:
    """Where a prim is: (4, 4) float64, the translation in the last column; None where that is the identity.

    Args:
        file_path_or_stage: A file or a stage.
        prim_or_path: The prim.
        time: When; None: its place without time, or its first.

    Raises:
        ValueError: There is no such prim.
    """
    stage = open_stage(file_path_or_stage)
    return place_of(prim_at(stage, prim_or_path), time)


def place_of(prim: Usd.Prim, time: int | float | None) -> torch.Tensor | None:
    """Where a prim is; see `get_local_to_world_transform`."""
    code = Usd.TimeCode.EarliestTime() if time is None else Usd.TimeCode(time)
    matrix = np.array(UsdGeom.XformCache(code).GetLocalToWorldTransform(prim), np.float64).T
    return None if np.array_equal(matrix, np.eye(4)) else torch.from_numpy(np.ascontiguousarray(matrix))
