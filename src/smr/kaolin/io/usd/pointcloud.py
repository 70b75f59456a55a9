"""`kaolin.io.usd.pointcloud`: point clouds as points, or as small spheres."""

from __future__ import annotations

import os
import warnings
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import torch
from pxr import Sdf, Usd, UsdGeom

from ._stage import (
    StageOrPath,
    exporting,
    integers_of,
    open_stage,
    paths_below,
    per_item,
    points_of,
    prim_at,
    scene_path_of,
    tensor_of,
    time_code,
    transform_per_item,
    value_at,
)
from .transform import place_of, place_prim
from .voxelgrid import is_voxelgrid

pointcloud_return_type = namedtuple("pointcloud_return_type", ["points", "colors", "normals", "transform"])

_FIRST = "/World/PointClouds/pointcloud_0"
_TYPES = ("point_instancer", "usd_geom_points")


def get_pointcloud_scene_paths(file_path_or_stage: StageOrPath, scene_path: Any = None) -> list[Sdf.Path]:
    """Paths of the point clouds; `scene_path`: only those at, or below, this path.

    Raises:
        FileNotFoundError: There is no such file.
        SmrError: USD cannot read it.
    """
    stage = open_stage(file_path_or_stage)
    return paths_below([prim.GetPath() for prim in stage.Traverse() if _is_pointcloud(prim)], scene_path)


def _is_pointcloud(prim: Usd.Prim) -> bool:
    return bool(prim.IsA(UsdGeom.Points) or (prim.IsA(UsdGeom.PointInstancer) and not is_voxelgrid(prim)))


def get_pointcloud_bracketing_time_samples(
    stage: StageOrPath, scene_path: Any, target_time: int | float
) -> tuple[float, ...]:
    """The times before and after another at which a point cloud's points are given.

    Raises:
        ValueError: There is no such prim.
    """
    opened = open_stage(stage)
    return tuple(_points_attribute(prim_at(opened, scene_path)).GetBracketingTimeSamples(target_time))


def _points_attribute(prim: Usd.Prim) -> Usd.Attribute:
    if prim.IsA(UsdGeom.Points):
        return UsdGeom.Points(prim).GetPointsAttr()
    return UsdGeom.PointInstancer(prim).GetPositionsAttr()


def import_pointcloud(
    file_path_or_stage: StageOrPath, scene_path: Any = None, time: int | float | None = None
) -> pointcloud_return_type:
    """All point clouds as one, in the scene's coordinates.

    Args:
        file_path_or_stage: A file or a stage.
        scene_path: Only those at, or below, this path.
        time: When; None: the values without time, or the first.

    Returns:
        `points` (N, 3), `colors` and `normals` (N, 3) where all have them, else None, and `transform`, which is None.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: There is no point cloud.
    """
    stage = open_stage(file_path_or_stage)
    paths = get_pointcloud_scene_paths(stage, scene_path)
    if not paths:
        raise ValueError("there is no point cloud" + (f" below {scene_path}" if scene_path else ""))
    clouds = [_placed(_read(stage.GetPrimAtPath(path), time)) for path in paths]

    def joined(name: str) -> torch.Tensor | None:
        values = [getattr(cloud, name) for cloud in clouds]
        return None if any(value is None for value in values) else torch.cat(values)

    return pointcloud_return_type(joined("points"), joined("colors"), joined("normals"), None)


def _placed(cloud: pointcloud_return_type) -> pointcloud_return_type:
    """A point cloud in the scene's coordinates."""
    if cloud.transform is None:
        return cloud
    turn, shift = cloud.transform[:3, :3], cloud.transform[:3, 3]
    normals = cloud.normals
    if normals is not None:
        normals = torch.nn.functional.normalize(normals @ torch.linalg.pinv(turn), dim=1)
    return cloud._replace(points=cloud.points @ turn.T + shift, normals=normals, transform=None)


def import_pointclouds(
    file_path_or_stage: StageOrPath,
    scene_paths: Sequence[Any] | None = None,
    times: Sequence[int | float | None] | None = None,
    return_list: bool = True,
) -> Any:
    """Point clouds one by one, each in its own coordinates, with its place in the scene as `transform`.

    Args:
        file_path_or_stage: A file or a stage.
        scene_paths: Which; None: all.
        times: When, for each.
        return_list: A list; else a dict by path.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: There is no point cloud at a path, or another number of times.
    """
    stage = open_stage(file_path_or_stage)
    paths = get_pointcloud_scene_paths(stage) if scene_paths is None else list(scene_paths)
    clouds = {}
    for path, time in zip(paths, per_item(times, len(paths), "times"), strict=True):
        prim = prim_at(stage, path)
        if not _is_pointcloud(prim):
            raise ValueError(f"{path} is no point cloud")
        clouds[str(path)] = _read(prim, time)
    return list(clouds.values()) if return_list else clouds


def _read(prim: Usd.Prim, time: int | float | None) -> pointcloud_return_type:
    found = tensor_of(value_at(_points_attribute(prim), time), 3, torch.float32)
    points = torch.zeros(0, 3) if found is None else found
    colors, normals = None, None
    primvar = UsdGeom.Gprim(prim).GetDisplayColorPrimvar() if prim.IsA(UsdGeom.Gprim) else None
    if primvar and primvar.HasValue():
        time_of = Usd.TimeCode.EarliestTime() if time is None else Usd.TimeCode(time)
        colors = tensor_of(primvar.ComputeFlattened(time_of), 3, torch.float32)
    if prim.IsA(UsdGeom.Points):
        normals = tensor_of(value_at(UsdGeom.Points(prim).GetNormalsAttr(), time), 3, torch.float32)
    place = place_of(prim, time)
    return pointcloud_return_type(
        points, _per_point(colors, points), _per_point(normals, points), None if place is None else place.float()
    )


def _per_point(values: torch.Tensor | None, points: torch.Tensor) -> torch.Tensor | None:
    if values is not None and len(values) == 1:
        values = values.expand(len(points), -1)
    return values if values is not None and len(values) == len(points) else None


def add_pointcloud(
    stage: Usd.Stage,
    scene_path: Any,
    points: torch.Tensor | None = None,
    colors: torch.Tensor | None = None,
    local_to_world: torch.Tensor | None = None,
    time: int | float | None = None,
    overwrite: bool = False,
    points_type: str = "point_instancer",
) -> Usd.Prim:
    """Add a point cloud to a stage, or a time to one that is there.

    Args:
        stage: The stage, which is not saved.
        scene_path: Where.
        points: (N, 3).
        colors: (N, 3) in 0..1; only "usd_geom_points" have them.
        local_to_world: (4, 4), the translation in the last column.
        time: When; None: always.
        overwrite: Take away what is there first.
        points_type: "point_instancer" (small spheres), or "usd_geom_points".

    Raises:
        ValueError: A shape or the type is not as it should be.
    """
    if isinstance(scene_path, torch.Tensor):
        _warn("the positional argument order (stage, points, scene_path) is old: give (stage, scene_path, points)")
        scene_path, points = points, scene_path
    if points_type not in _TYPES:
        raise ValueError(f"points_type must be one of {_TYPES}, not {points_type!r}")
    for name, values in (("points", points), ("colors", colors)):
        if values is not None and (values.dim() != 2 or values.shape[1] != 3):
            raise ValueError(f"{name} must be (N, 3), not {tuple(values.shape)}")
    path = scene_path_of(scene_path)
    if overwrite and stage.GetPrimAtPath(path):
        stage.RemovePrim(path)
    prim = _write_points(stage, path, points, colors, time, points_type == "point_instancer")
    if local_to_world is not None:
        place_prim(prim, local_to_world, time)
    return prim


def _write_points(
    stage: Usd.Stage,
    path: Sdf.Path,
    points: torch.Tensor | None,
    colors: torch.Tensor | None,
    time: int | float | None,
    instancer: bool,
) -> Usd.Prim:
    code = time_code(time)
    sizes = None if points is None else torch.full((len(points),), _spacing(points))
    if not instancer:
        cloud = UsdGeom.Points.Define(stage, path)
        if points is not None and sizes is not None:
            cloud.CreatePointsAttr().Set(points_of(points), code)
            cloud.CreateWidthsAttr().Set(sizes.numpy(), code)
        if colors is not None:
            cloud.GetDisplayColorAttr().Set(points_of(colors), code)
        return cloud.GetPrim()
    if colors is not None:
        warnings.warn("colors are written with points_type='usd_geom_points' only", stacklevel=4)
    spheres = UsdGeom.PointInstancer.Define(stage, path)
    if points is not None and sizes is not None:
        spheres.CreatePositionsAttr().Set(points_of(points), code)
        spheres.CreateProtoIndicesAttr().Set(integers_of(torch.zeros(len(points))), code)
        spheres.CreateScalesAttr().Set(points_of(sizes[:, None].expand(-1, 3)), code)
    sphere = UsdGeom.Sphere.Define(stage, path.AppendChild("sphere"))
    sphere.CreateRadiusAttr(0.5)
    spheres.CreatePrototypesRel().SetTargets([sphere.GetPath()])
    return spheres.GetPrim()


def _spacing(points: torch.Tensor) -> float:
    """A size for points: the smallest side of what they fill, over the cube root of their number."""
    if not len(points):
        return 1.0
    sides = (points.amax(dim=0) - points.amin(dim=0)).detach().float()
    sides = sides[sides > 0]
    return float(sides.min() / len(points) ** (1 / 3)) if len(sides) else 1.0


def _warn(text: str) -> None:
    warnings.warn(text, DeprecationWarning, stacklevel=3)


def export_pointcloud(
    file_path: str | os.PathLike[str],
    scene_path: Any = _FIRST,
    points: torch.Tensor | None = None,
    colors: torch.Tensor | None = None,
    local_to_world: torch.Tensor | None = None,
    up_axis: str = "Y",
    time: int | float | None = None,
    points_type: str = "point_instancer",
    overwrite: bool = False,
    pointcloud: torch.Tensor | None = None,
    color: torch.Tensor | None = None,
) -> Usd.Stage:
    """Write a point cloud to a file of its own; see `add_pointcloud`.

    `pointcloud` and `color` are old names of `points` and `colors`.

    Raises:
        FileExistsError: The file is there, and `overwrite` is False.
        ValueError: A shape or the type is not as it should be.
    """
    if isinstance(scene_path, torch.Tensor):
        _warn("points as the second positional argument are old: give points=")
        scene_path, points = (_FIRST if points is None else points), scene_path
    if pointcloud is not None:
        _warn("pointcloud= is the old name of points=")
        points = pointcloud
    if color is not None:
        _warn("color= is the old name of colors=")
        colors = color
    with exporting(file_path, up_axis, overwrite) as stage:
        add_pointcloud(stage, scene_path, points, colors, local_to_world, time, False, points_type)
    return stage


def export_pointclouds(
    file_path: str | os.PathLike[str],
    scene_paths: Sequence[Any] | None = None,
    points: Sequence[torch.Tensor] | None = None,
    colors: Sequence[torch.Tensor] | None = None,
    local_to_world: Any = None,
    up_axis: str = "Y",
    times: Sequence[int | float | None] | None = None,
    points_type: str = "point_instancer",
    overwrite: bool = False,
    pointclouds: Sequence[torch.Tensor] | None = None,
) -> Usd.Stage:
    """Write point clouds to a file of their own; see `add_pointcloud`. `pointclouds` is an old name of `points`.

    Raises:
        FileExistsError: The file is there, and `overwrite` is False.
        ValueError: Lists have different lengths, or a shape or the type is not as it should be.
    """
    if scene_paths is not None and len(scene_paths) and isinstance(scene_paths[0], torch.Tensor):
        _warn("points as the second positional argument are old: give points=")
        scene_paths, points = points, scene_paths  # type: ignore[assignment]
    if pointclouds is not None:
        _warn("pointclouds= is the old name of points=")
        points = pointclouds
    count = len(next((values for values in (scene_paths, points, colors) if values is not None), ()))
    paths = [f"/World/PointClouds/pointcloud_{i}" for i in range(count)] if scene_paths is None else scene_paths
    columns = [
        per_item(paths, count, "scene_paths"),
        per_item(points, count, "points"),
        per_item(colors, count, "colors"),
        transform_per_item(local_to_world, count),
        per_item(times, count, "times"),
    ]
    with exporting(file_path, up_axis, overwrite) as stage:
        for path, cloud, color, place, time in zip(*columns, strict=True):
            add_pointcloud(stage, path, cloud, color, place, time, False, points_type)
    return stage
