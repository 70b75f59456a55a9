"""`kaolin.io.usd.materials`: materials of USD files, as UsdPreviewSurface."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from pxr import Sdf, Tf, Usd, UsdShade

from ...render.materials.pbr import Material, PBRMaterial
from ..materials import MaterialNotFoundError, MaterialNotSupportedError, MaterialWriteError
from ..utils import TextureExporter
from ._preview_surface import UNSUPPORTED_MATERIAL_INPUTS, read_surface, write_surface
from ._stage import StageOrPath, new_stage, open_stage, scene_path_of

__all__ = [
    "UNSUPPORTED_MATERIAL_INPUTS",
    "UsdMaterialIoManager",
    "export_material",
    "import_material",
    "read_usd_preview_surface",
    "write_usd_preview_surface",
]

WriteTexture = Callable[[torch.Tensor, str], str]


def read_usd_preview_surface(
    shader: UsdShade.Shader, time: int | float | None = None, texture_path: str | os.PathLike[str] | None = None
) -> PBRMaterial:
    """The material that a UsdPreviewSurface shader describes; see `import_material`."""
    return read_surface(shader, time, texture_path)


def write_usd_preview_surface(
    pbr_material: PBRMaterial,
    stage: Usd.Stage,
    scene_path: Any,
    write_texture_by_basename_fn: WriteTexture,
    time: int | float | None = None,
    complete: bool = False,
) -> UsdShade.Material:
    """Write a material with a UsdPreviewSurface shader.

    Args:
        pbr_material: The material.
        stage: The stage, which is not saved.
        scene_path: Where.
        write_texture_by_basename_fn: Stores an image under a name, and returns the path to refer to it by.
        time: When; None: always.
        complete: Say also how textures are looked up; see `export_material`.
    """
    return write_surface(pbr_material, stage, scene_path_of(scene_path), write_texture_by_basename_fn, time, complete)


class UsdMaterialIoManager:
    """Who reads and who writes materials, by the name of the shader."""

    _readers: ClassVar[dict[str, Callable[..., Material]]] = {"UsdPreviewSurface": read_usd_preview_surface}
    _writers: ClassVar[dict[str, Callable[..., UsdShade.Material]]] = {"UsdPreviewSurface": write_usd_preview_surface}

    @classmethod
    def register_usd_reader(cls, shader_name: str, reader: Callable[..., Material]) -> None:
        """Let `reader(shader, time)` read the materials of a shader."""
        cls._readers[shader_name] = reader

    @classmethod
    def register_usd_writer(cls, shader_name: str, writer: Callable[..., UsdShade.Material]) -> None:
        """Let `writer(material, stage, scene_path, write_texture_by_basename_fn, time)` write those of a shader."""
        cls._writers[shader_name] = writer

    @classmethod
    def read_material(
        cls,
        shader: UsdShade.Shader,
        time: int | float | None = None,
        texture_path: str | os.PathLike[str] | None = None,
    ) -> Material:
        """Read a material by its surface shader.

        Raises:
            MaterialNotSupportedError: Nobody reads such shaders.
        """
        name = str(shader.GetIdAttr().Get() or "") if shader else ""
        if name not in cls._readers:
            where = shader.GetPath() if shader else "a material"
            raise MaterialNotSupportedError(f"{where} has the shader {name!r}; read are {', '.join(cls._readers)}")
        return cls._readers[name](shader, time, **({} if texture_path is None else {"texture_path": texture_path}))

    @classmethod
    def write_material(
        cls,
        material: Material,
        stage: Usd.Stage,
        scene_path: Any,
        write_texture_by_basename_fn: WriteTexture,
        time: int | float | None = None,
        shader_name: str | None = None,
        **options: Any,
    ) -> UsdShade.Material:
        """Write a material for its shader, or for another.

        Raises:
            MaterialNotSupportedError: Nobody writes such shaders.
        """
        name = shader_name or material.shader_name
        if name not in cls._writers:
            raise MaterialNotSupportedError(f"no material is written for the shader {name!r}")
        return cls._writers[name](material, stage, scene_path, write_texture_by_basename_fn, time, **options)


def import_material(
    file_path_or_stage: StageOrPath,
    scene_path: Any,
    texture_path: str | os.PathLike[str] | None = None,
    time: int | float | None = None,
) -> Material:
    """Read a material.

    Args:
        file_path_or_stage: A file or a stage.
        scene_path: The material's prim.
        texture_path: A folder (from the file's folder on) in which its images are looked for first, by their paths
            and by their names. Images outside the file's own folder are read from there only.
        time: When; None: its values without time, or its first.

    Returns:
        A PBRMaterial whose name is the scene path. Textures are (H, W, C) float: colours and numbers in 0..1, normals
        in -1..1. An image that cannot be read is left out with a warning.

    Raises:
        MaterialNotFoundError: There is no material.
        MaterialNotSupportedError: Its shader is not UsdPreviewSurface, nor registered.
    """
    stage = open_stage(file_path_or_stage)
    material = UsdShade.Material(stage.GetPrimAtPath(scene_path_of(scene_path)))
    if not material:
        raise MaterialNotFoundError(f"there is no material at {scene_path}")
    return material_of(material, time, texture_path)


def material_of(
    material: UsdShade.Material, time: int | float | None, texture_path: str | os.PathLike[str] | None = None
) -> Material:
    """Read a material; see `import_material`."""
    result = UsdMaterialIoManager.read_material(_surface_shader(material), time, texture_path)
    result.material_name = str(material.GetPath())
    return result


def _surface_shader(material: UsdShade.Material) -> UsdShade.Shader:
    """The shader of the surface for all renderers, or for one of them where there is no other."""
    shader = material.ComputeSurfaceSource()[0]
    for output in material.GetSurfaceOutputs():
        if not shader:
            shader = material.ComputeSurfaceSource(output.GetBaseName().removesuffix("surface").rstrip(":"))[0]
    return shader


def export_material(
    pbr_material: Material,
    file_path_or_stage: StageOrPath,
    scene_path: Any = None,
    texture_path: str | os.PathLike[str] | None = None,
    bound_prims: Sequence[Usd.Prim] | None = None,
    texture_file_prefix: str | None = None,
    shader_name: str | None = None,
    time: int | float | None = None,
    overwrite_textures: bool = False,
    *,
    complete: bool = False,
) -> tuple[str, Usd.Prim]:
    """Write a material; one that is at its place already goes, except with a time.

    Args:
        pbr_material: The material.
        file_path_or_stage: A file, made where it is not there, added to and saved where it is; or a stage.
        scene_path: Where; None: the material's name where that is a path, else one that is free below /World/Looks.
        texture_path: Folder for images, from the file's folder on; None: `<name of the file>_textures`.
        bound_prims: Prims that get the material.
        texture_file_prefix: Before the names of images; None: the name of the material's prim and "_".
        shader_name: Write for another shader than the material names.
        time: When; None: always.
        overwrite_textures: Write over images of the same names instead of choosing free ones.
        complete: Say also by which texture coordinates textures are looked up, and in which colour space; Kaolin's
            files, which are written without, show textures as one colour in viewers that keep to the specification.

    Returns:
        The path in the scene, and the prim there.

    Raises:
        MaterialNotSupportedError: Nobody writes such shaders.
        MaterialWriteError: There are textures, and the stage is in memory only.
    """
    stage = file_path_or_stage
    if not isinstance(stage, Usd.Stage):
        known = os.path.exists(stage) or Sdf.Layer.Find(os.path.abspath(stage)) is not None
        stage = open_stage(stage) if known else new_stage(stage, "Y")
    path = scene_path_of(scene_path) if scene_path is not None else _free_path(stage, pbr_material.material_name)
    if time is None and stage.GetPrimAtPath(path):
        stage.RemovePrim(path)
    prefix = f"{path.name}_" if texture_file_prefix is None else texture_file_prefix
    options = {"complete": True} if complete else {}
    material = UsdMaterialIoManager.write_material(
        pbr_material,
        stage,
        path,
        _TextureWriter(stage, texture_path, prefix, overwrite_textures),
        time,
        shader_name,
        **options,
    )
    for prim in bound_prims or ():
        bind(prim, material, complete)
    if stage is not file_path_or_stage:
        stage.Save()
    return str(path), material.GetPrim()


def bind(prim: Usd.Prim, material: UsdShade.Material, complete: bool) -> None:
    """Give a prim a material."""
    api = UsdShade.MaterialBindingAPI.Apply(prim) if complete else UsdShade.MaterialBindingAPI(prim)
    api.Bind(material)


def _free_path(stage: Usd.Stage, name: str) -> Sdf.Path:
    if name.startswith("/") and Sdf.Path.IsValidPathString(name):
        return Sdf.Path(name)
    stem = Tf.MakeValidIdentifier(name) if name else "material"
    looks = Sdf.Path("/World/Looks")
    path, count = looks.AppendChild(stem if name else f"{stem}_0"), 0
    while stage.GetPrimAtPath(path):
        count += 1
        path = looks.AppendChild(f"{stem}_{count}")
    return path


class _TextureWriter:
    """Stores images beside a stage's file."""

    def __init__(self, stage: Usd.Stage, folder: str | os.PathLike[str] | None, prefix: str, overwrite: bool) -> None:
        self._file = stage.GetRootLayer().realPath
        self._folder, self._prefix, self._overwrite = folder, prefix, overwrite

    def __call__(self, image: torch.Tensor, name: str) -> str:
        if not self._file:
            raise MaterialWriteError("textures are written beside a file, and the stage is in memory only")
        base = os.path.dirname(self._file)
        folder = os.fspath(self._folder) if self._folder is not None else f"{Path(self._file).stem}_textures"
        if os.path.isabs(folder):
            folder = os.path.relpath(folder, base)
        exporter = TextureExporter(base, folder, self._prefix, overwrite_files=self._overwrite)
        return Path(exporter(image, name)).as_posix() if folder != "." else f"./{Path(exporter(image, name)).name}"
