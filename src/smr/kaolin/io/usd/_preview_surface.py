"""UsdPreviewSurface shaders: read into materials, and written from them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from pxr import Ar, Gf, Sdf, Usd, UsdShade

from ....errors import SmrError
from ....formats.names import inside_folder
from ....formats.usd_layers import is_inside
from ...render.materials.pbr import COLORSPACES, PBRMaterial
from ..utils import read_image_from_buffer
from ._stage import time_code, value_at

UNSUPPORTED_MATERIAL_INPUTS = ("transmittance",)
"""Inputs of a PBRMaterial that UsdPreviewSurface does not have."""

_TYPES = Sdf.ValueTypeNames
_INPUTS = (
    ("diffuseColor", _TYPES.Color3f, "diffuse", "diffuse_color"),
    ("roughness", _TYPES.Float, "roughness", "roughness_value"),
    ("metallic", _TYPES.Float, "metallic", "metallic_value"),
    ("clearcoat", _TYPES.Float, "clearcoat", "clearcoat_value"),
    ("clearcoatRoughness", _TYPES.Float, "clearcoat_roughness", "clearcoat_roughness_value"),
    ("opacity", _TYPES.Float, "opacity", "opacity_value"),
    ("opacityThreshold", _TYPES.Float, "", "opacity_threshold"),
    ("ior", _TYPES.Float, "ior", "ior_value"),
    ("specularColor", _TYPES.Color3f, "specular", "specular_color"),
    ("normal", _TYPES.Normal3f, "normals", ""),
    ("displacement", _TYPES.Float, "displacement", "displacement_value"),
)
_COLORS = ("diffuse", "specular", "normals")
_CHANNELS = {"r": 0, "g": 1, "b": 2, "a": 3}


def read_surface(
    shader: UsdShade.Shader, time: int | float | None, folder: str | os.PathLike[str] | None
) -> PBRMaterial:
    """The material that a shader describes. `folder`: see `io.usd.import_material`."""
    values: dict[str, Any] = {}
    for name, _, texture, value in _INPUTS:
        constant, source, output = _followed(shader.GetInput(name), time)
        if value and constant is not None:
            values[value] = _numbers(constant)
        if source is not None and texture and source.GetIdAttr().Get() == "UsdUVTexture":
            pixels = _texture(source, output, time, folder, texture)
            if pixels is not None:
                values[f"{texture}_texture"] = pixels
                values[f"{texture}_colorspace"] = _colorspace(source, time)
    workflow = value_at(shader.GetInput("useSpecularWorkflow").GetAttr(), time) if shader else None
    return PBRMaterial(**values, is_specular_workflow=bool(workflow))


def _numbers(value: Any) -> torch.Tensor:
    return torch.tensor([float(x) for x in value] if hasattr(value, "__len__") else [float(value)])


def _followed(found: UsdShade.Input, time: int | float | None) -> tuple[Any, UsdShade.Shader | None, str]:
    """The constant of an input, and the shader with the output that feeds it; interfaces are followed."""
    for _ in range(16):
        if not found:
            break
        sources = found.GetConnectedSources()[0]
        if not sources:
            return value_at(found.GetAttr(), time), None, ""
        source = sources[0]
        if source.sourceType == UsdShade.AttributeType.Output:
            feeding = UsdShade.Shader(source.source.GetPrim())
            return value_at(found.GetAttr(), time), feeding if feeding else None, str(source.sourceName)
        found = source.source.GetInput(source.sourceName)
    return None, None, ""


def _colorspace(shader: UsdShade.Shader, time: int | float | None) -> str:
    for name in ("sourceColorSpace", "colorspace"):
        found = shader.GetInput(name)
        value = str(value_at(found.GetAttr(), time)) if found else ""
        if value in COLORSPACES:
            return value
    return "auto"


def _texture(
    shader: UsdShade.Shader, output: str, time: int | float | None, folder: str | os.PathLike[str] | None, name: str
) -> torch.Tensor | None:
    """The pixels that an output of a UsdUVTexture gives; None with a warning where they cannot be had."""
    asset = _followed(shader.GetInput("file"), time)[0]
    if asset is None or not asset.path:
        return None
    try:
        data = _image_bytes(shader, asset, folder)
        image = read_image_from_buffer(data)
    except (SmrError, OSError) as error:
        warnings.warn(f"the texture {asset.path!r} of {shader.GetPath()} is left out: {error}", stacklevel=2)
        return None
    if output in _CHANNELS:
        index = _CHANNELS[output]
        if output == "a" and image.shape[-1] < 4:
            return torch.ones_like(image[..., :1])
        image = image[..., min(index, image.shape[-1] - 1)][..., None]
    else:
        image = image[..., :3].expand(-1, -1, 3) if name in _COLORS else image[..., :1]
    return _scaled(shader, image, time, name == "normals").contiguous()


def _scaled(shader: UsdShade.Shader, image: torch.Tensor, time: int | float | None, normals: bool) -> torch.Tensor:
    """The shader's `scale` and `bias`; normals without either are taken to -1..1."""
    scale = _followed(shader.GetInput("scale"), time)[0]
    bias = _followed(shader.GetInput("bias"), time)[0]
    if scale is None and bias is None:
        return image * 2.0 - 1.0 if normals else image
    count = image.shape[-1]
    factors = torch.ones(4) if scale is None else _numbers(scale)
    offsets = torch.zeros(4) if bias is None else _numbers(bias)
    return image * factors[:count] + offsets[:count]


def _image_bytes(shader: UsdShade.Shader, asset: Sdf.AssetPath, folder: str | os.PathLike[str] | None) -> bytes:
    """An image file, from the folder that the caller named, or from that of the USD file (or its package)."""
    attribute = shader.GetInput("file").GetAttr()
    stack = attribute.GetPropertyStack(Usd.TimeCode.Default())
    owner = stack[0].layer if stack else attribute.GetStage().GetRootLayer()
    root = attribute.GetStage().GetRootLayer().realPath
    if folder is not None:
        base = Path(os.path.dirname(root) or ".", folder)
        for name in (asset.path, os.path.basename(asset.path)):
            found = inside_folder(base, name)
            if found is not None and found.is_file():
                return found.read_bytes()
    if root and (
        inside_folder(Path(root).parent, asset.path) is None or not is_inside(Path(root), owner.identifier, asset.path)
    ):
        raise SmrError("it lies outside the file's folder", "Name its folder as texture_path.")
    opened = Ar.GetResolver().OpenAsset(Ar.ResolvedPath(asset.resolvedPath)) if asset.resolvedPath else None
    if opened is None:
        raise SmrError("it is not there", "Put it there, or name its folder as texture_path.")
    with opened:
        return bytes(opened.GetBuffer())


def write_surface(
    material: PBRMaterial,
    stage: Usd.Stage,
    path: Sdf.Path,
    write_texture: Callable[[torch.Tensor, str], str],
    time: int | float | None,
    complete: bool,
) -> UsdShade.Material:
    """Write a material. `complete`: see `io.usd.export_material`."""
    for name in UNSUPPORTED_MATERIAL_INPUTS:
        if any(getattr(material, f"{name}_{kind}", None) is not None for kind in ("value", "texture")):
            message = f'Warning: USD exporter does not support PBRMaterial input type: "{name}"'
            warnings.warn(message, stacklevel=2)
    code = time_code(time)
    result = UsdShade.Material.Define(stage, path)
    shader = UsdShade.Shader.Define(stage, path.AppendChild("Shader"))
    shader.CreateIdAttr("UsdPreviewSurface")
    for name, kind, texture, value in _INPUTS:
        target = shader.CreateInput(name, kind)
        number = getattr(material, value) if value else None
        if number is not None:
            target.Set(_as_usd(number), code)
        pixels = getattr(material, f"{texture}_texture") if texture else None
        if pixels is not None:
            source = _define_texture(stage, path, material, texture, kind, code, complete)
            pixels = (pixels + 1.0) / 2.0 if texture == "normals" else pixels
            source.CreateInput("file", _TYPES.Asset).Set(Sdf.AssetPath(write_texture(pixels, texture)), code)
            target.ConnectToSource(source.GetOutput("r" if kind == _TYPES.Float else "rgb"))
    shader.CreateInput("useSpecularWorkflow", _TYPES.Int).Set(int(material.is_specular_workflow), code)
    for output in ("surface", "displacement"):
        source = shader.CreateOutput(output, _TYPES.Token)
        result.CreateOutput(output, _TYPES.Token).ConnectToSource(source)
    return result


def _as_usd(value: torch.Tensor) -> Any:
    numbers = value.detach().cpu().double().reshape(-1).tolist()
    return Gf.Vec3f(*numbers) if len(numbers) == 3 else numbers[0]


def _define_texture(
    stage: Usd.Stage,
    path: Sdf.Path,
    material: PBRMaterial,
    name: str,
    kind: Any,
    code: Usd.TimeCode,
    complete: bool,
) -> UsdShade.Shader:
    shader = UsdShade.Shader.Define(stage, path.AppendChild(f"{name}_texture"))
    shader.CreateIdAttr("UsdUVTexture")
    space = getattr(material, f"{name}_colorspace")
    shader.CreateInput("sourceColorSpace" if complete else "colorspace", _TYPES.Token).Set(space, code)
    shader.CreateOutput("r", _TYPES.Float)
    if kind != _TYPES.Float:
        shader.CreateOutput("g", _TYPES.Float)
        shader.CreateOutput("b", _TYPES.Float)
        shader.CreateOutput("rgb", kind)
    if complete:
        reader = UsdShade.Shader.Define(stage, path.AppendChild("st"))
        reader.CreateIdAttr("UsdPrimvarReader_float2")
        reader.CreateInput("varname", _TYPES.String).Set("st")
        result = reader.CreateOutput("result", _TYPES.Float2)
        shader.CreateInput("st", _TYPES.Float2).ConnectToSource(result)
        for wrap in ("wrapS", "wrapT"):
            shader.CreateInput(wrap, _TYPES.Token).Set("repeat")
        if name == "normals":
            shader.CreateInput("scale", _TYPES.Float4).Set(Gf.Vec4f(2, 2, 2, 1))
            shader.CreateInput("bias", _TYPES.Float4).Set(Gf.Vec4f(-1, -1, -1, 0))
    return shader
