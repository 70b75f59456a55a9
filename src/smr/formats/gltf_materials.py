"""Materials of a glTF file: base colour, its texture, and which texture coordinates it uses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..records import Finding, Material
from .colors import srgb_from_linear
from .files import damaged
from .gltf_arrays import Arrays, data_uri
from .images import TextureReader
from .mtl import missing_file
from .names import find_companion

_MOST_MATERIALS = 65_536


@dataclass
class Surfaces:
    """Materials and what their textures need."""

    materials: list[Material] = field(default_factory=list)
    coordinates: dict[int, int] = field(default_factory=dict)
    """Texture coordinate set of each material."""
    transforms: dict[int, np.ndarray] = field(default_factory=dict)
    """KHR_texture_transform, 3×3, of the materials that have one."""


def read_materials(arrays: Arrays, findings: list[Finding]) -> Surfaces:
    """Read the materials; textures that cannot be read become findings."""
    surfaces = Surfaces()
    textures = TextureReader(findings)
    images: dict[Any, Any] = {}
    entries = arrays.document.get("materials", [])
    if not isinstance(entries, list) or len(entries) > _MOST_MATERIALS:
        raise damaged(arrays.path, "materials is not a list of at most 65536")
    for index in range(len(entries)):
        entry = arrays.entry("materials", index)
        surface, texture_name, factor_name = _surface(entry)
        factor = _factor(surface.get(factor_name, [1.0, 1.0, 1.0, 1.0]))
        texture = surface.get(texture_name)
        pixels = None
        surfaces.coordinates[index] = 0
        if isinstance(texture, dict):
            pixels = _pixels(arrays, texture, textures, images)
            extension = _dict(_dict(texture.get("extensions")).get("KHR_texture_transform"))
            chosen = extension.get("texCoord", texture.get("texCoord", 0))
            surfaces.coordinates[index] = chosen if isinstance(chosen, int) and 0 <= chosen < 64 else 0
            if extension:
                surfaces.transforms[index] = _transform(extension)
        mode = entry.get("alphaMode", "OPAQUE")
        if mode == "OPAQUE":  # opacity is to be ignored
            factor = (*factor[:3], 1.0)
            pixels = pixels if pixels is None else pixels[..., :3]
        name = entry.get("name")
        surfaces.materials.append(
            Material(
                name if isinstance(name, str) and name else f"material_{index}",
                factor,
                None if pixels is None else np.ascontiguousarray(pixels),
                _unit(surface.get("roughnessFactor", 1.0)),
                _unit(surface.get("metallicFactor", 1.0)) if factor_name == "baseColorFactor" else 0.0,
            )
        )
    return surfaces


def _surface(entry: dict[str, Any]) -> tuple[dict[str, Any], str, str]:
    """The part of a material that holds its colour, and what colour and texture are called in it."""
    old = _dict(entry.get("extensions")).get("KHR_materials_pbrSpecularGlossiness")
    if isinstance(old, dict) and "pbrMetallicRoughness" not in entry:
        return old, "diffuseTexture", "diffuseFactor"
    return _dict(entry.get("pbrMetallicRoughness")), "baseColorTexture", "baseColorFactor"


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _unit(value: Any) -> float:
    return float(min(max(value, 0.0), 1.0)) if isinstance(value, (int, float)) and value == value else 1.0


def _factor(values: Any) -> tuple[float, float, float, float]:
    if not isinstance(values, list) or len(values) != 4:
        return (1.0, 1.0, 1.0, 1.0)
    linear = np.array([_unit(value) for value in values])
    red, green, blue = (round(float(x), 7) for x in srgb_from_linear(linear[:3]))
    return (red, green, blue, float(linear[3]))


def _transform(extension: dict[str, Any]) -> np.ndarray:
    """Scale, then rotation, then offset (KHR_texture_transform)."""

    def pair(name: str, default: float) -> tuple[float, float]:
        value = extension.get(name)
        usable = isinstance(value, list) and len(value) == 2 and all(isinstance(x, (int, float)) for x in value)
        return (float(value[0]), float(value[1])) if usable and isinstance(value, list) else (default, default)

    (u, v), (width, height) = pair("offset", 0.0), pair("scale", 1.0)
    angle = extension.get("rotation", 0.0)
    angle = float(angle) if isinstance(angle, (int, float)) else 0.0
    cos, sin = np.cos(angle), np.sin(angle)
    return np.array([[cos * width, sin * height, u], [-sin * width, cos * height, v], [0, 0, 1]])


def _pixels(arrays: Arrays, texture: dict[str, Any], textures: TextureReader, images: dict[Any, Any]) -> Any:
    entry = arrays.entry("textures", texture.get("index"))
    webp = _dict(_dict(entry.get("extensions")).get("EXT_texture_webp"))
    source = webp.get("source", entry.get("source"))
    if source is None:
        textures.findings.append(Finding("warning", "A texture is in a format that is not read here; it is left out."))
        return None
    if source not in images:
        images[source] = _image(arrays, arrays.entry("images", source), source, textures)
    return images[source]


def _image(arrays: Arrays, entry: dict[str, Any], index: Any, textures: TextureReader) -> Any:
    if "bufferView" in entry:
        return textures.decode(bytes(arrays.view_bytes(entry["bufferView"])[0]), f"image {index}")
    uri = entry.get("uri")
    if not isinstance(uri, str):
        raise damaged(arrays.path, f"image {index} has no data")
    if uri.startswith("data:"):
        return textures.decode(data_uri(arrays.path, uri), f"image {index}")
    found = find_companion(arrays.path.parent, uri)
    if found is None:
        textures.findings.append(missing_file(arrays.path, uri, "texture", "it is left out"))
        return None
    return textures.open(found)
