"""glTF 2.0 writer: `.glb` (one file) and `.gltf` (JSON with a .bin and images beside).

Khronos, "glTF 2.0 Specification", 2021: y up, metres, texture coordinates from the top left, factors and vertex
colours in linear light.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..atomic import atomic_paths
from ..errors import SmrError
from ..records import Material, TexturedMesh
from .colors import LINEAR_FROM_BYTE, linear_from_srgb
from .corners import split_corners
from .images import encode_texture, opacity_mode
from .model import AnyMesh, WriteOptions, faces_by_material, geometry, local_frame, material_list
from .names import companion_name, texture_name

FLOAT, UINT16, UINT32 = 5126, 5123, 5125
_ARRAY_BUFFER, _ELEMENT_BUFFER = 34962, 34963
_REPEAT_LINEAR = {"magFilter": 9729, "minFilter": 9987, "wrapS": 10497, "wrapT": 10497}
_LARGEST = 2**32 - 1


@dataclass
class _Buffer:
    """The binary part while it grows, and the views and accessors that point into it."""

    parts: list[bytes] = field(default_factory=list)
    length: int = 0
    views: list[dict[str, Any]] = field(default_factory=list)
    accessors: list[dict[str, Any]] = field(default_factory=list)

    def view(self, data: bytes, target: int | None = None) -> int:
        """Append bytes at the next multiple of four."""
        view = {"buffer": 0, "byteOffset": self.length, "byteLength": len(data)}
        self.views.append(view if target is None else view | {"target": target})
        padding = -len(data) % 4
        self.parts += [data, b"\0" * padding]
        self.length += len(data) + padding
        return len(self.views) - 1

    def accessor(self, array: np.ndarray, kind: str, component: int, target: int, **more: Any) -> int:
        """Append an array."""
        view = self.view(array.tobytes(), target)
        entry = {"bufferView": view, "componentType": component, "count": len(array), "type": kind}
        self.accessors.append(entry | more)
        return len(self.accessors) - 1


def write_glb(model: AnyMesh, path: Path, options: WriteOptions) -> None:
    """Write a y-up model as binary glTF."""
    buffer = _Buffer()
    document = _document(model, buffer, options)
    _add_materials(document, model, options, lambda index, data, ending: {
        "bufferView": buffer.view(data), "mimeType": _mime(ending)
    })  # fmt: skip
    document |= {"buffers": [{"byteLength": buffer.length}], "bufferViews": buffer.views}
    document["accessors"] = buffer.accessors
    text = _json(document)
    text += b" " * (-len(text) % 4)
    total = 12 + 8 + len(text) + 8 + buffer.length
    if total > _LARGEST:
        raise SmrError(
            f"{path} would have {total / 1e9:.1f} GB; GLB files end at 4.3 GB.",
            "Simplify the mesh (`smr clean --vertices`), make the texture smaller, or write PLY.",
        )
    with atomic_paths([path]) as (temporary,), open(temporary, "wb") as file:
        file.write(struct.pack("<4sII", b"glTF", 2, total))
        file.write(struct.pack("<I4s", len(text), b"JSON") + text)
        file.write(struct.pack("<I4s", buffer.length, b"BIN\0"))
        file.writelines(buffer.parts)


def write_gltf(model: AnyMesh, path: Path, options: WriteOptions) -> None:
    """Write a y-up model as glTF in JSON, with the arrays and images in files beside it."""
    buffer = _Buffer()
    document = _document(model, buffer, options)
    beside: list[tuple[Path, list[bytes]]] = []

    def add_image(index: int, data: bytes, ending: str) -> dict[str, Any]:
        beside.append((path.with_name(texture_name(path, index, ending)), [data]))
        return {"uri": beside[-1][0].name}

    _add_materials(document, model, options, add_image)
    binary = path.with_name(companion_name(path, ".bin"))
    beside.append((binary, buffer.parts))
    document |= {"buffers": [{"byteLength": buffer.length, "uri": binary.name}], "bufferViews": buffer.views}
    document["accessors"] = buffer.accessors
    beside.append((path, [_json(document)]))
    with atomic_paths([name for name, _ in beside]) as temporary:
        for name, (_, parts) in zip(temporary, beside, strict=True):
            with open(name, "wb") as file:
                file.writelines(parts)


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _mime(ending: str) -> str:
    return "image/png" if ending == ".png" else "image/jpeg"


def _document(model: AnyMesh, buffer: _Buffer, options: WriteOptions) -> dict[str, Any]:
    """Scene, node and mesh; fills `buffer` with the geometry."""
    vertices, translation = local_frame(geometry(model).vertices)
    if isinstance(model, TexturedMesh):
        faces, rows, uv_rows = split_corners(model)
        groups = faces_by_material(model)
    else:
        faces, rows, uv_rows = model.faces, np.arange(len(vertices)), None
        groups = [np.arange(len(faces))]
    primitives = []
    for material, group in enumerate(groups):
        if len(group) == len(faces):
            primitive = _primitive(model, vertices, faces, rows, uv_rows, buffer)
        elif len(group):  # vertices of its own, so that no reader loads all vertices for each material
            used, local = np.unique(faces[group], return_inverse=True)
            part = None if uv_rows is None else uv_rows[used]
            primitive = _primitive(model, vertices, local.reshape(-1, 3), rows[used], part, buffer)
        else:
            continue
        primitives.append(primitive | {"material": material})
    node: dict[str, Any] = {"mesh": 0, "name": "model"}
    if translation is not None:
        node["translation"] = [float(x) for x in translation]
    return {
        "asset": {
            "version": "2.0",
            "generator": f"smr {__version__}",
            **({"extras": {"remark": options.remark}} if options.remark else {}),
        },
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [node],
        "meshes": [{"primitives": primitives, "name": "model"}],
    }


def _primitive(
    model: AnyMesh,
    vertices: np.ndarray,
    faces: np.ndarray,
    rows: np.ndarray,
    uv_rows: np.ndarray | None,
    buffer: _Buffer,
) -> dict[str, Any]:
    """Store one vertex for each of `rows`, and `faces` over them."""
    mesh = geometry(model)
    points = vertices[rows]
    low, high = ([float(x) for x in corner] for corner in (points.min(axis=0), points.max(axis=0)))
    attributes = {"POSITION": buffer.accessor(points, "VEC3", FLOAT, _ARRAY_BUFFER, min=low, max=high)}
    if mesh.normals is not None:
        normals = unit_normals(mesh.normals[rows])
        attributes["NORMAL"] = buffer.accessor(normals, "VEC3", FLOAT, _ARRAY_BUFFER)
    if isinstance(model, TexturedMesh) and uv_rows is not None:
        uvs = model.uvs[uv_rows].astype(np.float64)
        flipped = np.stack([uvs[:, 0], 1 - uvs[:, 1]], axis=1).astype(np.float32)
        attributes["TEXCOORD_0"] = buffer.accessor(flipped, "VEC2", FLOAT, _ARRAY_BUFFER)
    if mesh.colors is not None:
        colors = np.full((len(rows), 4), 65535, np.uint16)  # 16 bits: 8 bits of linear light show steps in the dark
        colors[:, :3] = np.round(LINEAR_FROM_BYTE * 65535).astype(np.uint16)[mesh.colors[rows]]
        attributes["COLOR_0"] = buffer.accessor(colors, "VEC4", UINT16, _ARRAY_BUFFER, normalized=True)
    if mesh.support is not None:  # a name of our own begins with an underscore
        support = mesh.support[rows].astype(np.float32)
        attributes["_SUPPORT"] = buffer.accessor(support, "SCALAR", FLOAT, _ARRAY_BUFFER)
    short = len(points) < 65535  # the last index of 16 bits is reserved
    indices = faces.astype(np.uint16 if short else np.uint32).ravel()
    index = buffer.accessor(indices, "SCALAR", UINT16 if short else UINT32, _ELEMENT_BUFFER)
    return {"attributes": attributes, "indices": index}


def _add_materials(document: dict[str, Any], model: AnyMesh, options: WriteOptions, add_image: Any) -> None:
    """Materials of the primitives; `add_image` puts an image file's bytes somewhere and returns its entry."""
    materials = material_list(model) if isinstance(model, TexturedMesh) else (Material(),)
    images: list[dict[str, Any]] = []
    document["materials"] = []
    for index, material in enumerate(materials):
        surface: dict[str, Any] = {
            "baseColorFactor": _linear_factor(material),
            "metallicFactor": material.metallic,
            "roughnessFactor": material.roughness,
        }
        if material.texture is not None:
            surface["baseColorTexture"] = {"index": len(images)}
            images.append(add_image(index, *encode_texture(material.texture, options.jpeg_quality)))
        entry = {"name": material.name, "pbrMetallicRoughness": surface, "doubleSided": True}
        mode = opacity_mode(material)
        document["materials"].append(entry if mode == "OPAQUE" else entry | {"alphaMode": mode})
    if images:
        document["images"] = images
        document["samplers"] = [_REPEAT_LINEAR]
        document["textures"] = [{"sampler": 0, "source": index} for index in range(len(images))]


def _linear_factor(material: Material) -> list[float]:
    color = np.clip(np.array(material.base_color, np.float64), 0.0, 1.0)
    return [*(float(x) for x in linear_from_srgb(color[:3])), float(color[3])]


def unit_normals(normals: np.ndarray) -> np.ndarray:
    """float32 normals of length one, as the validators of glTF and USD want; those without length point up."""
    length = np.linalg.norm(normals.astype(np.float64), axis=1, keepdims=True)
    usable = np.isfinite(length) & (length > 0)
    unit: np.ndarray = np.where(usable, normals / np.where(usable, length, 1.0), [0.0, 1.0, 0.0]).astype(np.float32)
    return unit
