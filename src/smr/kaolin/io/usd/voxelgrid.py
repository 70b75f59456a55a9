"""`kaolin.io.usd.voxelgrid`: voxel grids as cubes at the filled cells."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch
from pxr import Gf, Sdf, Usd, UsdGeom

from ._stage import (
    StageOrPath,
    exporting,
    integers_of,
    open_stage,
    per_item,
    points_of,
    prim_at,
    scene_path_of,
    tensor_of,
    time_code,
    value_at,
)

_KIND = "VoxelGrid"


def is_voxelgrid(prim: Usd.Prim) -> bool:
    """Whether a prim was written as a voxel grid."""
    if not prim.IsA(UsdGeom.PointInstancer):
        return False
    primvar = UsdGeom.PrimvarsAPI(prim).GetPrimvar("kaolin_type")
    return bool(primvar) and primvar.Get() == _KIND


def import_voxelgrid(file_path_or_stage: StageOrPath, scene_path: Any, time: int | float | None = None) -> torch.Tensor:
    """A voxel grid as a bool tensor (N, N, N).

    Args:
        file_path_or_stage: A file or a stage.
        scene_path: The grid's prim.
        time: When; None: the values without time, or the first.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: There is no voxel grid, or a cell lies outside it.
    """
    stage = open_stage(file_path_or_stage)
    prim = prim_at(stage, scene_path)
    if not is_voxelgrid(prim):
        raise ValueError(f"{scene_path} is no voxel grid")
    size = UsdGeom.PrimvarsAPI(prim).GetPrimvar("grid_size").Get()
    if not isinstance(size, int) or not 0 < size <= 2048:
        raise ValueError(f"{scene_path} has the size {size}; grids of 1 to 2048 cells a side are read")
    grid = torch.zeros((size, size, size), dtype=torch.bool)
    cells = tensor_of(value_at(UsdGeom.PointInstancer(prim).GetPositionsAttr(), time), 3, torch.float32)
    if cells is not None and len(cells):
        place = cells.long()
        if bool(((place < 0) | (place >= size)).any()):
            raise ValueError(f"{scene_path} has a cell outside its {size} cells a side")
        grid[place[:, 0], place[:, 1], place[:, 2]] = True
    return grid


def import_voxelgrids(
    file_path_or_stage: StageOrPath,
    scene_paths: Sequence[Any] | None = None,
    times: Sequence[int | float | None] | None = None,
) -> list[torch.Tensor]:
    """Voxel grids one by one; None: all there are. See `import_voxelgrid`."""
    stage = open_stage(file_path_or_stage)
    paths = scene_paths
    if paths is None:
        paths = [prim.GetPath() for prim in stage.Traverse() if is_voxelgrid(prim)]
    when = per_item(times, len(paths), "times")
    return [import_voxelgrid(stage, path, time) for path, time in zip(paths, when, strict=True)]


def add_voxelgrid(
    stage: Usd.Stage, voxelgrid: torch.Tensor, scene_path: Any, time: int | float | None = None
) -> Usd.Prim:
    """Add a voxel grid to a stage, or a time to one that is there.

    Args:
        stage: The stage, which is not saved.
        voxelgrid: (N, N, N) bool; it fills the cube from -0.5 to 0.5, in cells of 1/(N-1).
        scene_path: Where.
        time: When; None: always.

    Raises:
        ValueError: The grid is no cube.
    """
    size = voxelgrid.shape[0]
    if voxelgrid.dim() != 3 or tuple(voxelgrid.shape) != (size, size, size):
        raise ValueError(f"a voxel grid must be a cube (N, N, N), not {tuple(voxelgrid.shape)}")
    code = time_code(time)
    cells = voxelgrid.detach().cpu().nonzero()
    instancer = UsdGeom.PointInstancer.Define(stage, scene_path_of(scene_path))
    cube = UsdGeom.Cube.Define(stage, instancer.GetPath().AppendChild("cube"))
    cube.CreateSizeAttr(1.0)
    instancer.CreatePrototypesRel().SetTargets([cube.GetPath()])
    instancer.CreatePositionsAttr().Set(points_of(cells), code)
    instancer.CreateProtoIndicesAttr().Set(integers_of(torch.zeros(len(cells))), code)
    instancer.CreateScalesAttr().Set(points_of(torch.ones(len(cells), 3)), code)
    api = UsdGeom.PrimvarsAPI(instancer)
    api.CreatePrimvar("grid_size", Sdf.ValueTypeNames.Int).Set(size)
    api.CreatePrimvar("kaolin_type", Sdf.ValueTypeNames.String).Set(_KIND)
    instancer.ClearXformOpOrder()
    instancer.AddScaleOp().Set(Gf.Vec3f(1.0 / max(size - 1, 1)))
    instancer.AddTranslateOp().Set(Gf.Vec3d(-0.5))
    return instancer.GetPrim()


def export_voxelgrid(
    file_path: str | os.PathLike[str],
    voxelgrid: torch.Tensor,
    scene_path: Any = "/World/VoxelGrids/voxelgrid_0",
    time: int | float | None = None,
    overwrite: bool = False,
) -> Usd.Stage:
    """Write a voxel grid to a file of its own; see `add_voxelgrid`.

    Raises:
        FileExistsError: The file is there, and `overwrite` is False.
        ValueError: The grid is no cube.
    """
    return export_voxelgrids(file_path, [voxelgrid], [scene_path], [time], overwrite)


def export_voxelgrids(
    file_path: str | os.PathLike[str],
    voxelgrids: Sequence[torch.Tensor],
    scene_paths: Sequence[Any] | None = None,
    times: Sequence[int | float | None] | None = None,
    overwrite: bool = False,
) -> Usd.Stage:
    """Write voxel grids to a file of their own; see `add_voxelgrid`.

    Raises:
        FileExistsError: The file is there, and `overwrite` is False.
        ValueError: Lists have different lengths, or a grid is no cube.
    """
    count = len(voxelgrids)
    paths = [f"/World/VoxelGrids/voxelgrid_{i}" for i in range(count)] if scene_paths is None else scene_paths
    times = per_item(times, count, "times")
    with exporting(file_path, "Y", overwrite) as stage:
        for grid, path, time in zip(voxelgrids, per_item(paths, count, "scene_paths"), times, strict=True):
            add_voxelgrid(stage, grid, path, time)
    return stage
