"""Opening, making and reading USD stages: what all modules of `io.usd` share."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from pxr import Sdf, Tf, Usd, UsdGeom, Vt

from ....errors import SmrError
from ....formats.files import damaged
from ....formats.usd_errors import usd_reason
from ....formats.usd_layers import open_layer

StageOrPath: TypeAlias = "str | os.PathLike[str] | Any"
"""A file, or a Usd.Stage."""


def open_stage(file_path_or_stage: StageOrPath) -> Usd.Stage:
    """A stage as it is, or that of a file (.usda, .usdc, .usd, .usdz), with all it refers to in its folder.

    Raises:
        FileNotFoundError: There is no such file.
        SmrError: USD cannot read it, or it refers to files outside its folder.
    """
    if isinstance(file_path_or_stage, Usd.Stage):
        return file_path_or_stage
    path = Path(file_path_or_stage)
    if not path.exists() and Sdf.Layer.Find(str(path.absolute())) is None:
        raise FileNotFoundError(f"{path} is not there")
    try:
        stage = Usd.Stage.Open(open_layer(path))
    except Tf.ErrorException as error:
        raise damaged(path, f"USD cannot read it ({usd_reason(error)})") from error
    if stage is None:
        raise damaged(path, "USD cannot read it")
    return stage


def new_stage(path: str | os.PathLike[str], up_axis: str) -> Usd.Stage:
    """An empty stage for a file, in place of what is there; its default prim is the transform `/World`.

    Raises:
        ValueError: The ending is none that USD writes, or `up_axis` is neither Y nor Z.
        SmrError: The file cannot be made.
    """
    target = Path(path).absolute()
    if target.suffix.lower() not in (".usd", ".usda", ".usdc"):
        raise ValueError(f"a stage is kept in a .usd, .usda or .usdc file, not in {target.name}")
    if up_axis.upper() not in ("Y", "Z"):
        raise ValueError(f"up_axis must be 'Y' or 'Z', not {up_axis!r}")
    try:
        layer = Sdf.Layer.Find(str(target))  # still open somewhere: USD makes no second one
        if layer is None:
            layer = Sdf.Layer.CreateNew(str(target))
        else:
            layer.Clear()
        stage = Usd.Stage.Open(layer)
    except Tf.ErrorException as error:
        raise SmrError(f"{target} cannot be written: {usd_reason(error)}.", "Check the folder.") from error
    stage.SetDefaultPrim(UsdGeom.Xform.Define(stage, "/World").GetPrim())
    UsdGeom.SetStageUpAxis(stage, up_axis.upper())
    return stage


@contextmanager
def exporting(path: str | os.PathLike[str], up_axis: str, overwrite: bool) -> Iterator[Usd.Stage]:
    """An empty stage for a file, saved at the end of the block; a new file goes where the block fails.

    Raises:
        FileExistsError: The file is there, and `overwrite` is False.
        ValueError: As `new_stage`.
        SmrError: As `new_stage`.
    """
    check_free(path, overwrite)
    fresh = not os.path.exists(path)
    stage = new_stage(path, up_axis)
    try:
        yield stage
    except BaseException:
        if fresh:
            Path(path).unlink(missing_ok=True)
        raise
    stage.Save()


def check_free(path: str | os.PathLike[str], overwrite: bool) -> None:
    """Nothing is at a path, or it may be written over.

    Raises:
        FileExistsError: The file is there, and `overwrite` is False.
    """
    if os.path.exists(path) and not overwrite:
        raise FileExistsError(f"{path} is there already; overwrite=True writes over it")


def prim_at(stage: Usd.Stage, prim_or_path: Any) -> Usd.Prim:
    """The prim at a path, or the prim itself.

    Raises:
        ValueError: There is none.
    """
    if isinstance(prim_or_path, Usd.Prim):
        return prim_or_path
    prim = stage.GetPrimAtPath(scene_path_of(prim_or_path))
    if not prim:
        raise ValueError(f"No prim found at path {prim_or_path}")
    return prim


def scene_path_of(path: Any) -> Sdf.Path:
    """A path in a scene.

    Raises:
        ValueError: It is no absolute path of USD.
    """
    text = str(path)
    if not Sdf.Path.IsValidPathString(text) or not text.startswith("/"):
        raise ValueError(f"{text!r} is no absolute path of a USD scene, such as '/World/mesh_0'")
    return Sdf.Path(text)


def time_code(time: int | float | None) -> Usd.TimeCode:
    """The time to write at; None is the value without time."""
    return Usd.TimeCode.Default() if time is None else Usd.TimeCode(time)


def value_at(attribute: Usd.Attribute, time: int | float | None) -> Any:
    """An attribute's value at a time; None where it has none. Without a time its first, where it changes over time."""
    if not attribute:
        return None
    if time is not None:
        return attribute.Get(Usd.TimeCode(time))
    value = attribute.Get()
    return attribute.Get(Usd.TimeCode.EarliestTime()) if value is None else value


def tensor_of(value: Any, width: int, dtype: torch.dtype) -> torch.Tensor | None:
    """A USD array as a tensor (N, width), or (N,) for width 0; None where it is not set.

    Raises:
        ValueError: Its elements have another width.
    """
    if value is None:
        return None
    kind = np.float32 if dtype.is_floating_point else np.int64
    rows = np.array(value, kind).reshape(len(value), -1 if len(value) else max(width, 1))
    found = int(rows.size / len(rows)) if len(rows) else width
    if found != max(width, 1) and len(rows):
        raise ValueError(f"a USD array has elements of {found} numbers, and {max(width, 1)} are read")
    return torch.from_numpy(rows if width else rows.reshape(-1)).to(dtype)


def points_of(values: torch.Tensor) -> Vt.Vec3fArray:
    """A tensor (..., 3) for USD."""
    return Vt.Vec3fArray.FromNumpy(_array(values, np.float32).reshape(-1, 3))


def coordinates_of(values: torch.Tensor) -> Vt.Vec2fArray:
    """A tensor (..., 2) for USD."""
    return Vt.Vec2fArray.FromNumpy(_array(values, np.float32).reshape(-1, 2))


def integers_of(values: torch.Tensor) -> Vt.IntArray:
    """A tensor of whole numbers for USD, flat."""
    return Vt.IntArray.FromNumpy(_array(values, np.int32).reshape(-1))


def _array(values: torch.Tensor, kind: Any) -> np.ndarray:
    return np.ascontiguousarray(values.detach().cpu().numpy(), kind)


def per_item(values: Any, count: int, name: str) -> list[Any]:
    """A value for each of several things: the list given, or None for each.

    Raises:
        ValueError: The list has another length.
    """
    if values is None:
        return [None] * count
    if len(values) != count:
        raise ValueError(f"{name} has {len(values)} items, and there are {count}")
    return list(values)


def transform_per_item(local_to_world: Any, count: int) -> list[Any]:
    """A transform for each of several things: one (4, 4) for all, (N, 4, 4), or a list.

    Raises:
        ValueError: There are more or fewer.
    """
    if isinstance(local_to_world, torch.Tensor) and local_to_world.dim() == 2:
        return [local_to_world] * count
    return per_item(local_to_world, count, "local_to_world")


def paths_below(paths: Sequence[Sdf.Path], scene_path: Any) -> list[Sdf.Path]:
    """Those of the paths that are at, or below, another."""
    return [path for path in paths if scene_path is None or path.HasPrefix(scene_path_of(scene_path))]
