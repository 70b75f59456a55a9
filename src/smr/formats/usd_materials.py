"""Materials of a USD stage: UsdPreviewSurface with its colour and texture, per mesh or per subset of its faces."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pxr import Ar, Usd, UsdGeom, UsdShade

from ..records import Finding, Material
from .colors import srgb_from_linear
from .images import TextureReader
from .names import inside_folder
from .usd_layers import is_inside

_WHEN = Usd.TimeCode.EarliestTime()
_MOST_MATERIALS = 65_536


@dataclass
class Binding:
    """Which materials a mesh has."""

    polygons: np.ndarray | None
    """Index of the material of each polygon, -1 for none; None where the whole mesh has none."""
    primvar: str
    """Name of the primvar with the texture coordinates."""


class MaterialReader:
    """Reads each material of a stage once."""

    def __init__(self, path: Path, findings: list[Finding]) -> None:
        self.path = path
        self.findings = findings
        self.materials: list[Material] = []
        self._textures = TextureReader(findings)
        self._index: dict[str, tuple[int, str]] = {}
        self._pixels: dict[str, Any] = {}

    def bind(self, mesh: UsdGeom.Mesh, polygons: int) -> Binding:
        """The materials bound to a mesh and to the subsets of its faces."""
        whole, primvar = self._bound(mesh.GetPrim())
        chosen = np.full(polygons, whole, np.int64)
        for subset in UsdShade.MaterialBindingAPI(mesh).GetMaterialBindSubsets():
            index, name = self._bound(subset.GetPrim())
            faces = subset.GetIndicesAttr().Get(_WHEN)
            faces = np.zeros(0, np.int64) if faces is None or not len(faces) else np.array(faces, np.int64)
            chosen[faces[(faces >= 0) & (faces < polygons)]] = index
            primvar = primvar or name
        return Binding(None if (chosen < 0).all() else chosen, primvar or "st")

    def _bound(self, prim: Usd.Prim) -> tuple[int, str]:
        material = UsdShade.MaterialBindingAPI(prim).ComputeBoundMaterial()[0]
        if not material:
            return -1, ""
        key = str(material.GetPath())
        if key not in self._index:
            if len(self.materials) >= _MOST_MATERIALS:
                return -1, ""
            read, primvar = self._read(material)
            self._index[key] = (len(self.materials), primvar)
            self.materials.append(read)
        return self._index[key]

    def _read(self, material: UsdShade.Material) -> tuple[Material, str]:
        prim = material.GetPrim()
        name = prim.GetDisplayName() or prim.GetName()
        shader = material.ComputeSurfaceSource()[0]
        if not shader or shader.GetIdAttr().Get() != "UsdPreviewSurface":
            self.findings.append(Finding("warning", f"The material {name} is no UsdPreviewSurface: it is white here."))
            return Material(name), ""
        color, source = _input(shader, "diffuseColor")
        factor = [1.0, 1.0, 1.0] if source is not None else _numbers(color, [0.18, 0.18, 0.18])
        opacity_value, opacity_source = _input(shader, "opacity")
        opacity = 1.0 if opacity_source is not None else _numbers(opacity_value, [1.0])[0]
        pixels, primvar = None, ""
        if source is not None and source.GetIdAttr().Get() == "UsdUVTexture":
            pixels = self._texture(source)
            primvar = _primvar_name(source)
            scale = _numbers(_input(source, "scale")[0], [1.0, 1.0, 1.0, 1.0])
            factor = scale[:3]
            if pixels is not None and opacity_source is None:
                pixels = np.ascontiguousarray(pixels[..., :3])
            elif opacity_source is not None:
                opacity = scale[3]
        red, green, blue = (round(float(x), 7) for x in srgb_from_linear(np.clip(np.array(factor), 0.0, 1.0)))
        roughness = _numbers(_input(shader, "roughness")[0], [0.5])[0]
        metallic = _numbers(_input(shader, "metallic")[0], [0.0])[0]
        return Material(name, (red, green, blue, float(np.clip(opacity, 0, 1))), pixels, roughness, metallic), primvar

    def _texture(self, shader: UsdShade.Shader) -> Any:
        """The pixels of a UsdUVTexture; None with a finding where they cannot be had."""
        asset = _input(shader, "file")[0]
        name = getattr(asset, "path", "")
        if not name:
            return None
        if name not in self._pixels:
            self._pixels[name] = self._open(shader, asset)
        return self._pixels[name]

    def _open(self, shader: UsdShade.Shader, asset: Any) -> Any:
        name, resolved = asset.path, asset.resolvedPath
        owner = _owner(shader)
        if inside_folder(self.path.parent, name) is None or not is_inside(self.path, owner, name):
            said = f"The texture {name!r} lies outside the folder of {self.path.name}: it is not opened."
            self.findings.append(Finding("warning", said, f"Put it beside {self.path.name}."))
            return None
        opened = Ar.GetResolver().OpenAsset(Ar.ResolvedPath(resolved)) if resolved else None
        if opened is None:
            said = f"The texture {name!r} is not beside {self.path.name}; it is left out."
            self.findings.append(Finding("warning", said, f"Put it into {self.path.parent}."))
            return None
        with opened:
            return self._textures.decode(bytes(opened.GetBuffer()), name)


def _owner(shader: UsdShade.Shader) -> str:
    """The layer that names a shader's texture file."""
    attribute = shader.GetInput("file").GetAttr()
    stack = attribute.GetPropertyStack(_WHEN)
    return str(stack[0].layer.identifier) if stack else ""


def _input(shader: UsdShade.Shader, name: str) -> tuple[Any, UsdShade.Shader | None]:
    """The constant of an input, or the shader that feeds it; interfaces of materials are followed."""
    found = shader.GetInput(name)
    for _ in range(16):
        if not found:
            return None, None
        sources = found.GetConnectedSources()[0]
        if not sources:
            return found.Get(_WHEN), None
        source = sources[0]
        if source.sourceType == UsdShade.AttributeType.Output:
            feeding = UsdShade.Shader(source.source.GetPrim())
            return None, feeding if feeding else None
        found = source.source.GetInput(source.sourceName)
    return None, None


def _numbers(value: Any, default: list[float]) -> list[float]:
    try:
        numbers = [float(x) for x in value] if hasattr(value, "__len__") else [float(value)]
    except (TypeError, ValueError):
        return default
    finite = len(numbers) == len(default) and bool(np.isfinite(numbers).all())
    return numbers if finite else default


def _primvar_name(texture: UsdShade.Shader) -> str:
    """The primvar that a texture's `st` input reads, through a UsdTransform2d if there is one."""
    source = _input(texture, "st")[1]
    for _ in range(4):
        if source is None:
            return ""
        kind = source.GetIdAttr().Get()
        if kind == "UsdPrimvarReader_float2":
            return str(_input(source, "varname")[0] or "")
        source = _input(source, "in")[1]
    return ""
