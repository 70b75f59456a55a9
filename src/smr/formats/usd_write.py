"""USD writer: `.usda`, `.usdc` and `.usd` with textures beside, and the `.usdz` package for phones.

Apple's rules for USDZ (Pixar, "Usdz File Format Specification" 1.3): the first file of the archive is the root layer,
files are stored, each starts at a multiple of 64 bytes, textures are PNG or JPEG.
"""

from __future__ import annotations

import struct
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from pxr import Gf, Sdf, Tf, Usd, UsdGeom, UsdShade, Vt

from .. import __version__
from ..atomic import atomic_path, atomic_paths
from ..errors import SmrError
from ..records import Material, Mesh, TexturedMesh
from .colors import LINEAR_FROM_BYTE, linear_from_srgb
from .gltf_write import unit_normals
from .images import encode_texture, opacity_mode
from .model import AnyMesh, WriteOptions, faces_by_material, geometry, local_frame, material_list
from .names import texture_name
from .usd_errors import usd_reason

_ROOT = "/Model"
_ALIGNMENT = 64
_PADDING_ID = 0x1986  # the id that Pixar's writer gives the padding
_LARGEST = 2**32 - 1
_WRITE_CURE = "Free some space on that disk, or write to another one."


def write_usd(model: AnyMesh, path: Path, options: WriteOptions) -> None:
    """Write a y-up model as a USD layer with its textures beside it."""
    files: list[tuple[Path, bytes]] = []

    def add_texture(index: int, data: bytes, ending: str) -> str:
        name = texture_name(path, index, ending)
        files.append((path.with_name(name), data))
        return f"./{name}"

    stage = _stage(model, options, add_texture)
    with atomic_paths([*(name for name, _ in files), path]) as temporary:
        for name, (_, data) in zip(temporary[:-1], files, strict=True):
            name.write_bytes(data)
        _export(stage, temporary[-1], path)


def write_usdz(model: AnyMesh, path: Path, options: WriteOptions) -> None:
    """Write a y-up model as a USDZ package that Apple's viewers accept."""
    files: list[tuple[str, bytes]] = []

    def add_texture(index: int, data: bytes, ending: str) -> str:
        files.append((f"textures/texture_{index}{ending}", data))
        return files[-1][0]

    stage = _stage(model, options, add_texture)
    with atomic_path(path) as temporary:
        with tempfile.TemporaryDirectory(prefix=".smr-", dir=temporary.parent) as folder:
            layer = Path(folder) / "model.usdc"
            _export(stage, layer, path)
            files.insert(0, ("model.usdc", layer.read_bytes()))
        if sum(len(data) for _, data in files) > _LARGEST - 2**20:
            raise SmrError(
                f"{path} would be larger than 4.3 GB, where USDZ ends.",
                "Simplify the mesh (`smr clean --vertices`), make the texture smaller, or write USDC.",
            )
        write_package(files, temporary)


def write_package(files: list[tuple[str, bytes]], path: Path) -> None:
    """Write a stored zip whose members' bytes start at multiples of 64; the same files give the same bytes."""
    with open(path, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, data in files:
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            start = file.tell() + 30 + len(name.encode()) + 4  # local header, name, head of the padding field
            padding = -start % _ALIGNMENT
            entry.extra = struct.pack("<HH", _PADDING_ID, padding) + b"\0" * padding
            archive.writestr(entry, data)


def _export(stage: Usd.Stage, path: Path, final: Path) -> None:
    try:
        written = stage.GetRootLayer().Export(str(path))
    except Tf.ErrorException as error:
        raise SmrError(f"{final} cannot be written: {usd_reason(error)}.", _WRITE_CURE) from error
    if not written:
        raise SmrError(f"{final} cannot be written.", _WRITE_CURE)


def _stage(model: AnyMesh, options: WriteOptions, add_texture: Callable[[int, bytes, str], str]) -> Usd.Stage:
    """The model as a stage in memory; `add_texture` stores an image file and returns the path to refer to it by."""
    stage = Usd.Stage.CreateInMemory()
    stage.SetMetadata("comment", f"smr {__version__}" + (f"\n{options.remark}" if options.remark else ""))
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.y)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    root = UsdGeom.Xform.Define(stage, _ROOT)
    stage.SetDefaultPrim(root.GetPrim())
    Usd.ModelAPI(root).SetKind("component")
    prim = _define_mesh(stage, geometry(model))
    UsdGeom.Scope.Define(stage, f"{_ROOT}/Materials")
    if not isinstance(model, TexturedMesh):
        material = _define_material(stage, 0, Material(), None, with_colors=geometry(model).colors is not None)
        UsdShade.MaterialBindingAPI.Apply(prim.GetPrim()).Bind(material)
        return stage
    _add_uvs(prim, model)
    shaders = []
    for index, material in enumerate(material_list(model)):
        texture = None
        if material.texture is not None:
            texture = add_texture(index, *encode_texture(material.texture, options.jpeg_quality))
        with_colors = texture is None and geometry(model).colors is not None
        shaders.append(_define_material(stage, index, material, texture, with_colors=with_colors))
    _bind(prim, model, shaders)
    return stage


def _define_mesh(stage: Usd.Stage, mesh: Mesh) -> UsdGeom.Mesh:
    points, translation = local_frame(mesh.vertices)
    prim = UsdGeom.Mesh.Define(stage, f"{_ROOT}/Mesh")
    if translation is not None:
        prim.AddTranslateOp(UsdGeom.XformOp.PrecisionDouble).Set(Gf.Vec3d(*(float(x) for x in translation)))
    prim.CreatePointsAttr(Vt.Vec3fArray.FromNumpy(np.ascontiguousarray(points)))
    prim.CreateFaceVertexCountsAttr(Vt.IntArray.FromNumpy(np.full(len(mesh.faces), 3, np.int32)))
    prim.CreateFaceVertexIndicesAttr(Vt.IntArray.FromNumpy(mesh.faces.astype(np.int32).ravel()))
    prim.CreateExtentAttr(Vt.Vec3fArray.FromNumpy(np.stack([points.min(axis=0), points.max(axis=0)])))
    prim.CreateSubdivisionSchemeAttr(UsdGeom.Tokens.none)
    prim.CreateDoubleSidedAttr(True)
    if mesh.normals is not None:
        prim.CreateNormalsAttr(Vt.Vec3fArray.FromNumpy(unit_normals(mesh.normals)))
        prim.SetNormalsInterpolation(UsdGeom.Tokens.vertex)
    if mesh.colors is not None:
        linear = LINEAR_FROM_BYTE.astype(np.float32)[mesh.colors]
        primvar = prim.CreateDisplayColorPrimvar(UsdGeom.Tokens.vertex)
        primvar.Set(Vt.Vec3fArray.FromNumpy(np.ascontiguousarray(linear)))
    return prim


def _add_uvs(prim: UsdGeom.Mesh, model: TexturedMesh) -> None:
    primvar = UsdGeom.PrimvarsAPI(prim).CreatePrimvar(
        "st", Sdf.ValueTypeNames.TexCoord2fArray, UsdGeom.Tokens.faceVarying
    )
    primvar.Set(Vt.Vec2fArray.FromNumpy(np.ascontiguousarray(model.uvs, np.float32)))
    primvar.SetIndices(Vt.IntArray.FromNumpy(model.face_uvs.astype(np.int32).ravel()))


def _bind(prim: UsdGeom.Mesh, model: TexturedMesh, shaders: list[UsdShade.Material]) -> None:
    """One material for the whole mesh, or a subset of its faces for each material."""
    groups = faces_by_material(model)
    used = [index for index, group in enumerate(groups) if len(group)]
    api = UsdShade.MaterialBindingAPI.Apply(prim.GetPrim())
    if len(used) == 1:
        api.Bind(shaders[used[0]])
        return
    for index in used:
        faces = Vt.IntArray.FromNumpy(np.sort(groups[index]).astype(np.int32))
        subset = api.CreateMaterialBindSubset(f"material_{index}", faces)
        UsdShade.MaterialBindingAPI.Apply(subset.GetPrim()).Bind(shaders[index])
    api.SetMaterialBindSubsetsFamilyType(UsdGeom.Tokens.partition)


def _define_material(
    stage: Usd.Stage, index: int, material: Material, texture: str | None, *, with_colors: bool
) -> UsdShade.Material:
    """A UsdPreviewSurface; its colour comes from the texture, from the vertices' displayColor, or is constant."""
    path = f"{_ROOT}/Materials/material_{index}"
    prim = UsdShade.Material.Define(stage, path)
    prim.GetPrim().SetDisplayName(material.name)
    surface = UsdShade.Shader.Define(stage, f"{path}/surface")
    surface.CreateIdAttr("UsdPreviewSurface")
    surface.CreateInput("roughness", Sdf.ValueTypeNames.Float).Set(float(material.roughness))
    surface.CreateInput("metallic", Sdf.ValueTypeNames.Float).Set(float(material.metallic))
    color = surface.CreateInput("diffuseColor", Sdf.ValueTypeNames.Color3f)
    opacity = surface.CreateInput("opacity", Sdf.ValueTypeNames.Float)
    factor = np.clip(np.array(material.base_color, np.float64), 0.0, 1.0)
    factor[:3] = linear_from_srgb(factor[:3])
    opacity.Set(float(factor[3]))
    if texture is not None:
        shader = _texture_shader(stage, path, texture, factor)
        color.ConnectToSource(shader.CreateOutput("rgb", Sdf.ValueTypeNames.Float3))
        mode = opacity_mode(material)
        if mode != "OPAQUE" and material.texture is not None and material.texture.shape[2] == 4:
            opacity.ConnectToSource(shader.CreateOutput("a", Sdf.ValueTypeNames.Float))
        if mode == "MASK":
            surface.CreateInput("opacityThreshold", Sdf.ValueTypeNames.Float).Set(0.5)
    elif with_colors:
        reader = UsdShade.Shader.Define(stage, f"{path}/vertex_color")
        reader.CreateIdAttr("UsdPrimvarReader_float3")
        reader.CreateInput("varname", Sdf.ValueTypeNames.String).Set("displayColor")
        color.ConnectToSource(reader.CreateOutput("result", Sdf.ValueTypeNames.Float3))
    else:
        color.Set(Gf.Vec3f(*(float(x) for x in factor[:3])))
    prim.CreateSurfaceOutput().ConnectToSource(surface.CreateOutput("surface", Sdf.ValueTypeNames.Token))
    return prim


def _texture_shader(stage: Usd.Stage, path: str, texture: str, factor: np.ndarray) -> UsdShade.Shader:
    reader = UsdShade.Shader.Define(stage, f"{path}/st")
    reader.CreateIdAttr("UsdPrimvarReader_float2")
    reader.CreateInput("varname", Sdf.ValueTypeNames.String).Set("st")
    shader = UsdShade.Shader.Define(stage, f"{path}/texture")
    shader.CreateIdAttr("UsdUVTexture")
    shader.CreateInput("file", Sdf.ValueTypeNames.Asset).Set(Sdf.AssetPath(texture))
    shader.CreateInput("sourceColorSpace", Sdf.ValueTypeNames.Token).Set("sRGB")
    shader.CreateInput("wrapS", Sdf.ValueTypeNames.Token).Set("repeat")
    shader.CreateInput("wrapT", Sdf.ValueTypeNames.Token).Set("repeat")
    if (factor != 1.0).any():
        shader.CreateInput("scale", Sdf.ValueTypeNames.Float4).Set(Gf.Vec4f(*(float(x) for x in factor)))
    result = reader.CreateOutput("result", Sdf.ValueTypeNames.Float2)
    shader.CreateInput("st", Sdf.ValueTypeNames.Float2).ConnectToSource(result)
    return shader
