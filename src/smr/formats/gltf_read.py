"""glTF 2.0 reader: `.glb` and `.gltf`; nodes flattened into the scene's frame, materials kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..records import Finding
from .build import build_model, no_faces
from .colors import srgb_bytes
from .files import damaged, read_bytes
from .gltf_arrays import Arrays, unsupported
from .gltf_materials import read_materials
from .gltf_nodes import entries, open_document, placed_meshes, read_triangles
from .model import Model
from .pieces import Piece, join, weld

_KNOWN = {
    "KHR_materials_pbrSpecularGlossiness", "KHR_texture_transform", "KHR_mesh_quantization", "EXT_texture_webp",
    "KHR_materials_unlit", "KHR_lights_punctual", "KHR_materials_clearcoat", "KHR_materials_transmission",
    "KHR_materials_volume", "KHR_materials_ior", "KHR_materials_sheen", "KHR_materials_specular",
    "KHR_materials_emissive_strength", "KHR_materials_iridescence", "KHR_materials_anisotropy",
    "KHR_materials_dispersion", "KHR_materials_variants",
}  # fmt: skip


@dataclass
class _Scene:
    """What was gathered on the way through the nodes."""

    arrays: Arrays
    coordinates: dict[int, int]
    """Texture coordinate set that each material uses."""
    transforms: dict[int, np.ndarray]
    """3×3 transform of the texture coordinates of each material that has one."""
    findings: list[Finding]
    pieces: list[Piece] = field(default_factory=list)
    points: int = 0
    values: int = 0

    def warn(self, text: str) -> None:
        """Add a finding once."""
        if all(finding.cause != text for finding in self.findings):
            self.findings.append(Finding("warning", text))


def read_gltf(path: Path) -> Model:
    """Read a `.glb` or `.gltf` file. The result is y up and in metres, as glTF demands.

    Raises:
        SmrError: The file is cut off, compressed, refers to what is not there, or has no triangles.
    """
    document, binary = open_document(path, read_bytes(path))
    required = document.get("extensionsRequired", [])
    for name in required if isinstance(required, list) else []:
        if name not in _KNOWN:
            raise unsupported(path, str(name)[:80])
    arrays = Arrays(path, document, binary)
    findings: list[Finding] = []
    surfaces = read_materials(arrays, findings)
    scene = _Scene(arrays, surfaces.coordinates, surfaces.transforms, findings)
    for index, matrix in placed_meshes(arrays):
        _add_mesh(scene, arrays.entry("meshes", index), matrix)
    if document.get("animations") or document.get("skins"):
        scene.warn("The file is animated; the mesh is taken as it stands at rest.")
    if not scene.pieces:
        raise no_faces(path, scene.points)
    parts = join(path, scene.pieces, surfaces.materials, scene.findings)
    parts.world_up = "y"
    weld(parts)
    return build_model(parts)


def _add_mesh(scene: _Scene, mesh: dict[str, Any], matrix: np.ndarray) -> None:
    for primitive in entries(scene.arrays, mesh.get("primitives", []), "primitives"):
        if not isinstance(primitive, dict) or not isinstance(primitive.get("attributes"), dict):
            raise damaged(scene.arrays.path, "a primitive has no attributes")
        if "KHR_draco_mesh_compression" in primitive.get("extensions", {}):
            raise unsupported(scene.arrays.path, "KHR_draco_mesh_compression")
        _add_primitive(scene, primitive, matrix)


def _add_primitive(scene: _Scene, primitive: dict[str, Any], matrix: np.ndarray) -> None:
    arrays, attributes = scene.arrays, primitive["attributes"]
    if "POSITION" not in attributes:
        return
    position = arrays.accessor(attributes["POSITION"], ("VEC3",)).astype(np.float64)
    scene.values += len(position)
    if scene.values > 500_000_000:
        raise damaged(arrays.path, "its nodes repeat meshes to more than 500 million vertices")
    mode = primitive.get("mode", 4)
    if mode not in (4, 5, 6):
        scene.points += len(position) if mode == 0 else 0
        scene.warn("Points and lines are left out.")
        return
    if "indices" in primitive:
        indices = arrays.accessor(primitive["indices"], ("SCALAR",))[:, 0].astype(np.int64)
    else:
        indices = np.arange(len(position))
    triangles = read_triangles(indices, mode)
    if len(triangles) and (triangles.max() >= len(position) or triangles.min() < 0):
        raise damaged(arrays.path, f"a face refers to vertex {triangles.max()} of {len(position)}")
    turn = matrix[:3, :3]
    if np.linalg.det(turn) < 0:  # a mirror turns the winding round
        triangles = triangles[:, [0, 2, 1]]
    material = primitive.get("material", -1)
    material = material if isinstance(material, int) and material in scene.coordinates else -1
    count, loops = len(position), triangles.ravel()
    scene.pieces.append(
        Piece(
            position @ turn.T + matrix[:3, 3],
            loops,
            np.full(len(triangles), 3, np.int64),
            uvs=_uvs(scene, attributes, material, count),
            uv_loops=loops,
            normals=_normals(scene, attributes, turn, count),
            normal_loops=loops,
            colors=_colors(scene, attributes, count),
            materials=np.full(len(triangles), material),
        )
    )


def _attribute(scene: _Scene, attributes: dict[str, Any], name: str, kinds: tuple[str, ...], count: int) -> Any:
    if name not in attributes:
        return None
    values = scene.arrays.accessor(attributes[name], kinds)
    if len(values) != count:
        raise damaged(scene.arrays.path, f"{name} has {len(values)} entries for {count} vertices")
    return values.astype(np.float64)


def _normals(scene: _Scene, attributes: dict[str, Any], turn: np.ndarray, count: int) -> np.ndarray | None:
    """Normals, turned by the inverse transposed of the node's matrix."""
    normals = _attribute(scene, attributes, "NORMAL", ("VEC3",), count)
    if normals is None:
        return None
    scale = abs(np.linalg.det(turn)) ** (1 / 3)
    if not scale > 0:
        return None
    turned: np.ndarray = normals @ np.linalg.inv(turn / scale)
    return turned


def _uvs(scene: _Scene, attributes: dict[str, Any], material: int, count: int) -> np.ndarray | None:
    name = f"TEXCOORD_{scene.coordinates.get(material, 0)}"
    uvs = _attribute(scene, attributes, name, ("VEC2",), count)
    if uvs is None:
        return None
    if material in scene.transforms:
        uvs = np.concatenate([uvs, np.ones((count, 1))], axis=1) @ scene.transforms[material].T[:, :2]
    return np.stack([uvs[:, 0], 1.0 - uvs[:, 1]], axis=1)


def _colors(scene: _Scene, attributes: dict[str, Any], count: int) -> np.ndarray | None:
    colors = _attribute(scene, attributes, "COLOR_0", ("VEC3", "VEC4"), count)
    return None if colors is None else srgb_bytes(colors[:, :3])
