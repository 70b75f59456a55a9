"""`kaolin.io.gltf`: meshes of glTF 2.0 files, `.gltf` and `.glb`."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...errors import SmrError
from ...formats.files import damaged, read_bytes
from ...formats.gltf_arrays import Arrays, data_uri, unsupported
from ...formats.gltf_nodes import entries, open_document, placed_meshes, read_triangles
from ...formats.names import find_companion
from ..render.materials.pbr import PBRMaterial
from ..rep.surface_mesh import SurfaceMesh
from .utils import read_image_from_buffer

_MOST_MATERIALS = 30_000  # assignments are int16
_UNREADABLE = ("KHR_draco_mesh_compression", "EXT_meshopt_compression")


def import_mesh(path: str | os.PathLike[str], scene: int | None = None) -> SurfaceMesh:
    """All meshes of a scene as one, in the scene's coordinates.

    Args:
        path: The file.
        scene: Which scene; None: the one that the file names.

    Returns:
        A mesh with `vertices`, `faces`, what all its parts have of `vertex_normals`, `vertex_tangents` and `uvs`, and
        all materials of the file. Texture coordinates have (0, 0) at the image's top left corner.

    Raises:
        FileNotFoundError: There is no such file.
        SmrError: The file is damaged, compressed, or has no triangles.
    """
    arrays = _open(path)
    parts = []
    for index, matrix in placed_meshes(arrays, scene):
        parts += [_placed(part, matrix) for part in _primitives(arrays, arrays.entry("meshes", index))]
    return _joined(arrays, parts, _materials(arrays))


def import_meshes(path: str | os.PathLike[str]) -> list[SurfaceMesh]:
    """The meshes of a file one by one, in their own coordinates; each has all materials of the file.

    Raises:
        FileNotFoundError: There is no such file.
        SmrError: The file is damaged, compressed, or a mesh has no triangles.
    """
    arrays = _open(path)
    materials = _materials(arrays)
    count = len(entries(arrays, arrays.document.get("meshes", []), "meshes"))
    return [_joined(arrays, _primitives(arrays, arrays.entry("meshes", i)), materials) for i in range(count)]


def _open(path: str | os.PathLike[str]) -> Arrays:
    file = Path(path)
    if not file.exists():
        raise FileNotFoundError(f"{file} is not there")
    document, binary = open_document(file, read_bytes(file))
    required = document.get("extensionsRequired", [])
    for name in _UNREADABLE:
        if isinstance(required, list) and name in required:
            raise unsupported(file, name)
    return Arrays(file, document, binary)


def _primitives(arrays: Arrays, mesh: dict[str, Any]) -> list[dict[str, torch.Tensor]]:
    """The parts of a mesh that have triangles."""
    parts = []
    for primitive in entries(arrays, mesh.get("primitives", []), "primitives"):
        if not isinstance(primitive, dict) or not isinstance(primitive.get("attributes"), dict):
            raise damaged(arrays.path, "a primitive has no attributes")
        if "KHR_draco_mesh_compression" in primitive.get("extensions", {}):
            raise unsupported(arrays.path, "KHR_draco_mesh_compression")
        if primitive.get("mode", 4) in (4, 5, 6) and "POSITION" in primitive["attributes"]:
            parts.append(_primitive(arrays, primitive))
    return parts


def _primitive(arrays: Arrays, primitive: dict[str, Any]) -> dict[str, torch.Tensor]:
    attributes = primitive["attributes"]
    found: dict[str, torch.Tensor] = {}
    for name, key, kinds, width in (
        ("vertices", "POSITION", ("VEC3",), 3),
        ("vertex_normals", "NORMAL", ("VEC3",), 3),
        ("vertex_tangents", "TANGENT", ("VEC4",), 3),
        ("uvs", "TEXCOORD_0", ("VEC2",), 2),
        ("vertex_colors", "COLOR_0", ("VEC3", "VEC4"), 4),
    ):
        if key in attributes:
            values = arrays.accessor(attributes[key], kinds)[:, :width]
            found[name] = torch.from_numpy(np.ascontiguousarray(values, np.float32))
    count = len(found["vertices"])
    short = next((name for name, values in found.items() if len(values) != count), None)
    if short is not None:
        raise damaged(arrays.path, f"{short} has {len(found[short])} entries for {count} vertices")
    if "indices" in primitive:
        indices = arrays.accessor(primitive["indices"], ("SCALAR",))[:, 0].astype(np.int64)
    else:
        indices = np.arange(count)
    triangles = read_triangles(indices, primitive.get("mode", 4))
    if len(triangles) and (triangles.max() >= count or triangles.min() < 0):
        raise damaged(arrays.path, f"a face refers to vertex {triangles.max()} of {count}")
    found["faces"] = torch.from_numpy(np.ascontiguousarray(triangles))
    material = primitive.get("material", -1)
    known = len(arrays.document.get("materials", []))
    material = material if isinstance(material, int) and 0 <= material < known else -1
    found["material_assignments"] = torch.full((len(triangles),), material, dtype=torch.int16)
    return found


def _placed(part: dict[str, torch.Tensor], matrix: np.ndarray) -> dict[str, torch.Tensor]:
    """A part in the scene's coordinates."""
    if np.array_equal(matrix, np.eye(4)):
        return part
    turn, shift = torch.from_numpy(matrix[:3, :3]), torch.from_numpy(matrix[:3, 3])
    result = dict(part)
    result["vertices"] = (part["vertices"].double() @ turn.T + shift).float()
    for name, change in (("vertex_normals", torch.linalg.pinv(turn)), ("vertex_tangents", turn.T)):
        if name in part:
            result[name] = torch.nn.functional.normalize(part[name].double() @ change, dim=1).float()
    if torch.linalg.det(turn) < 0:  # a mirror turns the winding round
        result["faces"] = part["faces"][:, [0, 2, 1]]
    return result


def _joined(arrays: Arrays, parts: list[dict[str, torch.Tensor]], materials: list[PBRMaterial]) -> SurfaceMesh:
    if not sum(len(part["faces"]) for part in parts):
        raise damaged(arrays.path, "it has no triangles")
    names = [name for name in parts[0] if all(name in part for part in parts)]
    offset = 0
    faces = []
    for part in parts:
        faces.append(part["faces"] + offset)
        offset += len(part["vertices"])
    fields: dict[str, Any] = {
        name: torch.cat([part[name] for part in parts]) for name in names if name not in ("faces", "vertex_colors")
    }
    if "vertex_colors" in names and len({part["vertex_colors"].shape[1] for part in parts}) == 1:
        fields["vertex_colors"] = torch.cat([part["vertex_colors"] for part in parts])
    joined = torch.cat(faces)
    if "uvs" in fields:
        fields["face_uvs_idx"] = joined.clone()
    return SurfaceMesh(faces=joined, materials=materials, **fields)


def _materials(arrays: Arrays) -> list[PBRMaterial]:
    listed = entries(arrays, arrays.document.get("materials", []), "materials")
    if len(listed) > _MOST_MATERIALS:
        raise damaged(arrays.path, f"it has {len(listed)} materials; {_MOST_MATERIALS} are read")
    images: dict[Any, torch.Tensor | None] = {}
    return [_material(arrays, arrays.entry("materials", i), i, images) for i in range(len(listed))]


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _factor(entry: dict[str, Any], name: str, default: Any) -> torch.Tensor:
    value = entry.get(name, default)
    numbers = value if isinstance(value, list) else [value]
    usable = all(isinstance(x, int | float) and not isinstance(x, bool) for x in numbers)
    wanted = default if isinstance(default, list) else [default]
    return torch.tensor([float(x) for x in (numbers if usable and len(numbers) == len(wanted) else wanted)])


def _material(arrays: Arrays, entry: dict[str, Any], index: int, images: dict[Any, Any]) -> PBRMaterial:
    surface = _dict(entry.get("pbrMetallicRoughness"))
    extensions = _dict(entry.get("extensions"))
    name = entry.get("name")
    values: dict[str, Any] = {"material_name": name if isinstance(name, str) and name else f"material_{index}"}

    def add(kind: str, holder: dict[str, Any], texture: str, factor: torch.Tensor, channel: int | None) -> None:
        """A texture times the factor, or the factor alone."""
        pixels = _pixels(arrays, holder.get(texture), images)
        if pixels is None:
            values[f"{kind}_color" if kind == "diffuse" else f"{kind}_value"] = factor
            return
        pixels = pixels[..., :3] if channel is None else pixels[..., min(channel, pixels.shape[-1] - 1)][..., None]
        values[f"{kind}_texture"] = pixels if bool((factor == 1.0).all()) else pixels * factor
        values[f"{kind}_colorspace"] = "sRGB" if kind == "diffuse" else "raw"

    base = _factor(surface, "baseColorFactor", [1.0, 1.0, 1.0, 1.0])
    add("diffuse", surface, "baseColorTexture", base[:3], None)
    add("roughness", surface, "metallicRoughnessTexture", _factor(surface, "roughnessFactor", 1.0), 1)
    add("metallic", surface, "metallicRoughnessTexture", _factor(surface, "metallicFactor", 1.0), 2)
    _add_opacity(arrays, entry, surface, base[3:], values, images)
    if "KHR_materials_transmission" in extensions:
        part = _dict(extensions["KHR_materials_transmission"])
        add("transmittance", part, "transmissionTexture", _factor(part, "transmissionFactor", 0.0), 0)
    if "KHR_materials_clearcoat" in extensions:
        part = _dict(extensions["KHR_materials_clearcoat"])
        add("clearcoat", part, "clearcoatTexture", _factor(part, "clearcoatFactor", 0.0), 0)
        roughness = _factor(part, "clearcoatRoughnessFactor", 0.0)
        add("clearcoat_roughness", part, "clearcoatRoughnessTexture", roughness, 1)
    if "KHR_materials_ior" in extensions:
        values["ior_value"] = _factor(_dict(extensions["KHR_materials_ior"]), "ior", 1.5)
    normals = _pixels(arrays, entry.get("normalTexture"), images)
    if normals is not None:
        values["normals_texture"] = normals[..., :3] * 2.0 - 1.0
        values["normals_colorspace"] = "raw"
    return PBRMaterial(**values)


def _add_opacity(
    arrays: Arrays,
    entry: dict[str, Any],
    surface: dict[str, Any],
    factor: torch.Tensor,
    values: dict[str, Any],
    images: dict[Any, Any],
) -> None:
    """Opacity, where the file says that it counts."""
    mode = entry.get("alphaMode", "OPAQUE")
    if mode not in ("MASK", "BLEND"):
        return
    pixels = _pixels(arrays, surface.get("baseColorTexture"), images)
    if pixels is not None and pixels.shape[-1] == 4:
        values["opacity_texture"], values["opacity_colorspace"] = pixels[..., 3:] * factor, "raw"
    else:
        values["opacity_value"] = factor
    if mode == "MASK":
        values["opacity_threshold"] = _factor(entry, "alphaCutoff", 0.5)


def _pixels(arrays: Arrays, texture: Any, images: dict[Any, Any]) -> torch.Tensor | None:
    """An image in 0..1; None, with a warning where it is named and cannot be read."""
    if not isinstance(texture, dict):
        return None
    entry = arrays.entry("textures", texture.get("index"))
    source = _dict(_dict(entry.get("extensions")).get("EXT_texture_webp")).get("source", entry.get("source"))
    if source not in images:
        images[source] = None
        try:
            images[source] = read_image_from_buffer(_image_bytes(arrays, source))
        except (SmrError, OSError) as error:
            warnings.warn(f"{arrays.path}: image {source} is left out: {error}", stacklevel=2)
    found: torch.Tensor | None = images[source]
    return found


def _image_bytes(arrays: Arrays, source: Any) -> bytes:
    entry = arrays.entry("images", source)
    if "bufferView" in entry:
        return bytes(arrays.view_bytes(entry["bufferView"])[0])
    uri = entry.get("uri")
    if not isinstance(uri, str):
        raise damaged(arrays.path, f"image {source} has no data")
    if uri.startswith("data:"):
        return data_uri(arrays.path, uri)
    found = find_companion(arrays.path.parent, uri)
    if found is None:
        raise SmrError(f"{uri[:80]!r} is not beside it", "Put it there.")
    return found.read_bytes()
