"""`kaolin.io.usd.utils`: what is in a USD file, and making one."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

from pxr import Sdf, Usd

from ._stage import StageOrPath, new_stage, open_stage


def get_scene_paths(
    file_path_or_stage: StageOrPath,
    scene_path_regex: str | None = None,
    prim_types: str | Sequence[str] | None = None,
    conditional: Callable[[Usd.Prim], bool] = lambda prim: True,
) -> list[Sdf.Path]:
    """Paths of prims, in the order of the scene; also of those within instances.

    Args:
        file_path_or_stage: A file or a stage.
        scene_path_regex: A regular expression that a path must match from its beginning.
        prim_types: The type, or the types, that a prim must have, such as "Mesh"; capitals do not matter.
        conditional: Says of a prim whether it is wanted.

    Raises:
        FileNotFoundError: There is no such file.
        SmrError: USD cannot read it.
    """
    types = [prim_types] if isinstance(prim_types, str) else prim_types
    wanted = None if types is None else {name.lower() for name in types}
    pattern = re.compile(scene_path_regex or "")
    stage = open_stage(file_path_or_stage)  # held: prims end with their stage
    return [
        prim.GetPath()
        for prim in stage.Traverse(Usd.TraverseInstanceProxies())
        if pattern.match(str(prim.GetPath()))
        and (wanted is None or str(prim.GetTypeName()).lower() in wanted)
        and conditional(prim)
    ]


def get_authored_time_samples(file_path_or_stage: StageOrPath) -> list[float]:
    """The times at which any attribute has a value, ascending.

    Raises:
        FileNotFoundError: There is no such file.
        SmrError: USD cannot read it.
    """
    stage = open_stage(file_path_or_stage)
    return sorted({time for prim in stage.Traverse() for one in prim.GetAttributes() for time in one.GetTimeSamples()})


def create_stage(file_path: str | os.PathLike[str], up_axis: str = "Y") -> Usd.Stage:
    """An empty stage for a file, in place of what is there; `Save()` writes it.

    Args:
        file_path: A .usd, .usda or .usdc file. For a .usdz package see `export_mesh`.
        up_axis: "Y" or "Z".

    Raises:
        ValueError: Another ending, or another axis.
        SmrError: The file cannot be made.
    """
    return new_stage(file_path, up_axis)
