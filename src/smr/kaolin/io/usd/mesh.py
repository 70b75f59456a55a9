"""`kaolin.io.usd.mesh`: meshes of USD files and packages."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from pxr import Sdf, Usd, UsdGeom

from ....atomic import atomic_path
from ....formats.usd_write import write_package
from ...rep.surface_mesh import SurfaceMesh
from ._mesh_read import get_mesh_prim_materials, get_raw_mesh_prim_geometry, read_mesh
from ._mesh_write import add_mesh, write_mesh
from ._stage import (
    StageOrPath,
    check_free,
    exporting,
    new_stage,
    open_stage,
    paths_below,
    per_item,
    scene_path_of,
    transform_per_item,
)

__all__ = [
    "add_mesh",
    "export_mesh",
    "export_meshes",
    "get_mesh_prim_materials",
    "get_mesh_scene_paths",
    "get_raw_mesh_prim_geometry",
    "import_mesh",
    "import_meshes",
]


def get_mesh_scene_paths(file_path_or_stage: StageOrPath, scene_path: Any = None) -> list[Sdf.Path]:
    """Paths of the meshes, in the order of the scene.

    Args:
        file_path_or_stage: A file or a stage.
        scene_path: Only those at, or below, this path.

    Raises:
        FileNotFoundError: There is no such file.
        SmrError: USD cannot read it.
    """
    stage = open_stage(file_path_or_stage)
    prims = stage.Traverse(Usd.TraverseInstanceProxies())
    return paths_below([prim.GetPath() for prim in prims if prim.IsA(UsdGeom.Mesh)], scene_path)


def import_mesh(
    file_path_or_stage: StageOrPath,
    scene_path: Any = None,
    with_materials: bool = False,
    with_normals: bool = False,
    heterogeneous_mesh_handler: Callable[..., Any] | None = None,
    time: int | float | None = None,
    triangulate: bool = False,
) -> SurfaceMesh | None:
    """All meshes as one, in the scene's coordinates.

    Args:
        file_path_or_stage: A file (.usd, .usda, .usdc, .usdz), or a stage.
        scene_path: Only meshes at, or below, this path.
        with_materials: Read materials, too; those of one path become one.
        with_normals: Read normals, too.
        heterogeneous_mesh_handler: Called where the faces of a mesh differ in size, see `io.utils`; None: an error.
        time: When; None: the values without time, or the first.
        triangulate: Cut larger faces into fans of triangles.

    Returns:
        A mesh in batching NONE without a transform. None where the handler left all meshes out.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: There is no mesh.
        NonHomogeneousMeshError: Faces of a mesh differ in size, and nobody handles it.
        SmrError: USD cannot read the file, or it does not hold together.
    """
    stage = open_stage(file_path_or_stage)
    paths = get_mesh_scene_paths(stage, scene_path)
    if not paths:
        raise ValueError(f"there is no mesh in {_name(stage)}" + (f" below {scene_path}" if scene_path else ""))
    meshes = import_meshes(
        stage,
        paths,
        with_materials,
        with_normals,
        heterogeneous_mesh_handler,
        [time] * len(paths),
        triangulate,
    )
    if not meshes:
        return None
    if len(meshes) == 1:
        return meshes[0].as_transformed()
    return SurfaceMesh.flatten(meshes, group_materials_by_name=True)


def _name(stage: Usd.Stage) -> str:
    return stage.GetRootLayer().realPath or "the stage"


def import_meshes(
    file_path_or_stage: StageOrPath,
    scene_paths: Sequence[Any] | None = None,
    with_materials: bool = False,
    with_normals: bool = False,
    heterogeneous_mesh_handler: Callable[..., Any] | None = None,
    times: Sequence[int | float | None] | None = None,
    triangulate: bool = False,
    return_list: bool = True,
) -> Any:
    """Meshes one by one, each in its own coordinates, with its place in the scene as `transform`.

    Args:
        file_path_or_stage: A file or a stage.
        scene_paths: Which; None: all.
        with_materials: Read materials, too.
        with_normals: Read normals, too.
        heterogeneous_mesh_handler: As for `import_mesh`; meshes for which it returns None are left out.
        times: When, for each path.
        triangulate: Cut larger faces into fans of triangles.
        return_list: A list; else a dict by path.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: There is no mesh at a path, or another number of times.
        NonHomogeneousMeshError: Faces of a mesh differ in size, and nobody handles it.
        SmrError: USD cannot read the file, or it does not hold together.
    """
    stage = open_stage(file_path_or_stage)
    paths = get_mesh_scene_paths(stage) if scene_paths is None else [scene_path_of(path) for path in scene_paths]
    known: dict[str, Any] = {}
    meshes: dict[str, SurfaceMesh] = {}
    for path, time in zip(paths, per_item(times, len(paths), "times"), strict=True):
        prim = stage.GetPrimAtPath(path)
        if not prim or not prim.IsA(UsdGeom.Mesh):
            raise ValueError(f"there is no mesh at {path} in {_name(stage)}")
        materials = known if with_materials else None
        mesh = read_mesh(prim, time, with_normals, materials, heterogeneous_mesh_handler, triangulate)
        if mesh is not None:
            meshes[str(path)] = mesh
    return list(meshes.values()) if return_list else meshes


def export_mesh(
    file_path: str | os.PathLike[str],
    scene_path: Any = "/World/Meshes/mesh_0",
    vertices: torch.Tensor | None = None,
    faces: torch.Tensor | None = None,
    uvs: torch.Tensor | None = None,
    face_uvs_idx: torch.Tensor | None = None,
    face_normals: torch.Tensor | None = None,
    material_assignments: torch.Tensor | None = None,
    materials: Sequence[Any] | None = None,
    local_to_world: torch.Tensor | None = None,
    up_axis: str = "Y",
    time: int | float | None = None,
    overwrite_textures: bool = False,
    overwrite: bool = False,
    *,
    time_samples: Sequence[float] | None = None,
    complete: bool = False,
) -> Usd.Stage:
    """Write one mesh to a file of its own.

    Args:
        file_path: A .usd, .usda, .usdc file, with images beside it, or a .usdz package, with images in it.
        scene_path: Where in the scene. A mesh (anything with `vertices` and `faces`) may stand here instead, and
            gives all that is not given otherwise; or vertices and, after them, faces.
        vertices: (V, 3).
        faces: (F, FSz).
        uvs: (U, 2), (0, 0) is the image's top left corner.
        face_uvs_idx: (F, FSz); None: a coordinate for each vertex, corner or face, as their number says.
        face_normals: (F, FSz, 3).
        material_assignments: (F,), -1 for none.
        materials: The materials.
        local_to_world: (4, 4), the translation in the last column.
        up_axis: "Y" or "Z".
        time: When; None: always.
        overwrite_textures: Write over images of the same names instead of choosing free ones.
        overwrite: Write over the file.
        time_samples: The time, as a list of one.
        complete: Write also what viewers need: that the mesh is not to be subdivided, its extent, metres, and how
            textures are looked up. Kaolin leaves that out; packages always have it.

    Returns:
        The stage.

    Raises:
        FileExistsError: The file is there, and `overwrite` is False.
        ValueError: A shape or the ending is not as it should be.
        SmrError: The file cannot be written.
    """
    time = _only_time(time, time_samples)
    if isinstance(scene_path, torch.Tensor):
        faces = faces if vertices is None else vertices
        vertices, scene_path = scene_path, "/World/Meshes/mesh_0"
    if hasattr(scene_path, "vertices"):
        mesh, scene_path = scene_path, "/World/Meshes/mesh_0"
        vertices, faces, uvs, face_uvs_idx, face_normals, material_assignments, materials = _parts_of(
            mesh, (vertices, faces, uvs, face_uvs_idx, face_normals, material_assignments, materials)
        )

    def alone(value: Any) -> list[Any] | None:
        return None if value is None else [value]

    return export_meshes(
        file_path,
        [scene_path],
        alone(vertices),
        alone(faces),
        alone(uvs),
        alone(face_uvs_idx),
        alone(face_normals),
        alone(material_assignments),
        alone(materials),
        local_to_world,
        up_axis,
        [time],
        overwrite_textures,
        overwrite,
        complete=complete,
    )


def _only_time(time: float | None, time_samples: Sequence[float] | None) -> float | None:
    """The one time at which a mesh is written, given in either way."""
    if time_samples is None:
        return time
    if time is not None or len(time_samples) != 1:
        raise ValueError(f"time_samples must be one time, and time left out, not {list(time_samples)} and {time}")
    return float(time_samples[0])


def _parts_of(mesh: Any, given: Sequence[Any]) -> list[Any]:
    names = (
        "vertices",
        "faces",
        "uvs",
        "face_uvs_idx",
        "face_normals",
        "material_assignments",
        "materials",
    )
    has = mesh.has_attribute if hasattr(mesh, "has_attribute") else lambda name: getattr(mesh, name, None) is not None
    return [getattr(mesh, name) if one is None and has(name) else one for name, one in zip(names, given, strict=True)]


def export_meshes(
    file_path: str | os.PathLike[str],
    scene_paths: Sequence[Any] | None = None,
    vertices: Sequence[torch.Tensor] | None = None,
    faces: Sequence[torch.Tensor] | None = None,
    uvs: Sequence[torch.Tensor] | None = None,
    face_uvs_idx: Sequence[torch.Tensor] | None = None,
    face_normals: Sequence[torch.Tensor] | None = None,
    material_assignments: Sequence[torch.Tensor] | None = None,
    materials: Sequence[Sequence[Any]] | None = None,
    local_to_world: Any = None,
    up_axis: str = "Y",
    times: Sequence[int | float | None] | None = None,
    overwrite_textures: bool = False,
    overwrite: bool = False,
    *,
    complete: bool = False,
) -> Usd.Stage:
    """Write meshes to a file of their own; each list has one item a mesh. See `export_mesh`.

    Args:
        file_path: As for `export_mesh`.
        scene_paths: None: /World/Meshes/mesh_0, mesh_1, ...
        vertices: (V, 3) each.
        faces: (F, FSz) each.
        uvs: (U, 2) each.
        face_uvs_idx: (F, FSz) each.
        face_normals: (F, FSz, 3) each.
        material_assignments: (F,) each.
        materials: A list of materials each.
        local_to_world: (4, 4) for all, or (N, 4, 4).
        up_axis: "Y" or "Z".
        times: When, for each.
        overwrite_textures: As for `export_mesh`.
        overwrite: Write over the file.
        complete: As for `export_mesh`.

    Raises:
        FileExistsError: The file is there, and `overwrite` is False.
        ValueError: Lists have different lengths, or a shape or the ending is not as it should be.
        SmrError: The file cannot be written.
    """
    lists = {
        "vertices": vertices,
        "faces": faces,
        "uvs": uvs,
        "face_uvs_idx": face_uvs_idx,
        "face_normals": face_normals,
        "material_assignments": material_assignments,
        "materials": materials,
    }
    given = [scene_paths, *lists.values()]
    count = next((len(values) for values in given if values is not None), 0)
    paths = [f"/World/Meshes/mesh_{i}" for i in range(count)] if scene_paths is None else list(scene_paths)
    items = {name: per_item(values, count, name) for name, values in lists.items()}
    items["local_to_world"] = transform_per_item(local_to_world, count)
    items["time"] = per_item(times, count, "times")

    def write(stage: Usd.Stage, complete: bool) -> None:
        for i, path in enumerate(paths):
            one = {name: values[i] for name, values in items.items()}
            write_mesh(stage, path, **one, overwrite_textures=overwrite_textures, complete=complete)

    if Path(file_path).suffix.lower() == ".usdz":
        return _export_package(Path(file_path), up_axis, overwrite, write)
    with exporting(file_path, up_axis, overwrite) as stage:
        write(stage, complete)
    return stage


def _export_package(path: Path, up_axis: str, overwrite: bool, write: Callable[[Usd.Stage, bool], None]) -> Usd.Stage:
    """Write the scene to a folder, and that as a package: the layer first, then its images."""
    check_free(path, overwrite)
    with tempfile.TemporaryDirectory(prefix="smr-") as folder:
        stage = new_stage(Path(folder) / "model.usdc", up_axis)
        UsdGeom.SetStageMetersPerUnit(stage, 1.0)
        write(stage, True)
        stage.Save()
        del stage
        images = sorted(file for file in Path(folder).rglob("*") if file.is_file() and file.name != "model.usdc")
        files = [(file.relative_to(folder).as_posix(), file.read_bytes()) for file in images]
        files.insert(0, ("model.usdc", (Path(folder) / "model.usdc").read_bytes()))
        with atomic_path(path) as temporary:
            write_package(files, temporary)
    return open_stage(path)
