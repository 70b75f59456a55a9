"""From what a reader collected to a checked model. Every reader ends here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..errors import SmrError
from ..records import Finding, Material, Mesh, TexturedMesh, UpAxis
from .corners import equal_rows
from .model import Model, compact
from .polygons import triangulate

_SAME_NORMAL = 1e-3


@dataclass
class Parts:
    """What a file holds, as it stands there. Corner arrays have one entry a polygon corner; -1: has none."""

    path: Path
    vertices: np.ndarray
    """V×3, any float type."""
    loops: np.ndarray
    """Vertex of each corner, polygon after polygon."""
    sizes: np.ndarray
    """Corners of each polygon."""
    uvs: np.ndarray | None = None
    """T×2; (0, 0) is the image's bottom left corner."""
    uv_loops: np.ndarray | None = None
    normals: np.ndarray | None = None
    """N×3."""
    normal_loops: np.ndarray | None = None
    colors: np.ndarray | None = None
    """V×3 uint8, sRGB."""
    materials: Sequence[Material] = ()
    polygon_materials: np.ndarray | None = None
    """Index into `materials` a polygon; -1: has none."""
    world_up: UpAxis | None = None
    findings: list[Finding] = field(default_factory=list)


def no_faces(path: Path, vertices: int) -> SmrError:
    """What to tell about a file without triangles."""
    if vertices:
        return SmrError(
            f"{path} has {vertices} points and has no faces: a point cloud.",
            "Make a surface of it first (Poisson reconstruction, for example), or name a mesh.",
        )
    return SmrError(f"{path} has no vertices and no faces: it is empty.", "Name a file that holds a mesh.")


def build_model(parts: Parts) -> Model:
    """Triangulate, check and join.

    Raises:
        SmrError: There are no faces, or a face refers to a vertex that is not there.
    """
    parts.vertices = np.ascontiguousarray(parts.vertices)
    _check_loops(parts)
    corners, polygon = _triangles(parts)
    if not len(corners):
        raise no_faces(parts.path, len(parts.vertices))
    faces = parts.loops[corners].astype(np.int32)
    normal_faces = None if parts.normal_loops is None else parts.normal_loops[corners]
    vertices, faces, normals, rows = _with_normals(parts, faces, normal_faces)
    colors = None if parts.colors is None else parts.colors[rows]
    mesh = Mesh(compact(vertices), faces, normals, colors)
    face_materials, materials = _materials(parts, polygon, tuple(parts.materials))
    if parts.uvs is None and all(_is_plain(material) for material in materials):
        return Model(mesh, parts.world_up, tuple(parts.findings))
    uvs, face_uvs = _uvs(parts, corners, _has_texture(materials, face_materials, len(corners)))
    textured = TexturedMesh(mesh, uvs, face_uvs, materials, face_materials)
    return Model(textured, parts.world_up, tuple(parts.findings))


def _check_loops(parts: Parts) -> None:
    loops = parts.loops
    if not len(loops):
        return
    low, high = int(loops.min()), int(loops.max())
    if low < 0 or high >= len(parts.vertices):
        wrong = low if low < 0 else high
        raise SmrError(
            f"{parts.path}: a face refers to vertex {wrong} (counted from 0) of {len(parts.vertices)}.",
            "The file is damaged or cut off: export or copy it again.",
        )


def _triangles(parts: Parts) -> tuple[np.ndarray, np.ndarray]:
    """Corners and polygon of each triangle; without those that touch vertices that are not finite."""
    few = int((parts.sizes < 3).sum())
    if few:
        parts.findings.append(Finding("note", f"{few} faces with fewer than three corners are left out."))
    corners, polygon, fans = triangulate(parts.vertices, parts.loops, parts.sizes)
    if fans:
        parts.findings.append(
            Finding("warning", f"{fans} large concave polygons are cut as a fan and may overlap.", "Triangulate them.")
        )
    finite = np.isfinite(parts.vertices).all(axis=1)
    if finite.all():
        return corners, polygon
    keep = finite[parts.loops[corners]].all(axis=1)
    lost, bad = int((~keep).sum()), int((~finite).sum())
    parts.findings.append(
        Finding("warning", f"{bad} vertices are not finite numbers; they and their {lost} faces are left out.")
    )
    renumbered = np.cumsum(finite) - 1
    parts.loops = np.where(finite[parts.loops], renumbered[parts.loops], 0)
    parts.vertices = parts.vertices[finite]
    parts.colors = None if parts.colors is None else parts.colors[finite]
    return corners[keep], polygon[keep]


def _with_normals(
    parts: Parts, faces: np.ndarray, normal_faces: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray]:
    """Vertices, faces, vertex normals, and the old index of each vertex; split where a vertex has several normals."""
    rows = np.arange(len(parts.vertices))
    if parts.normals is None or normal_faces is None or (normal_faces < 0).any():
        return parts.vertices, faces, None, rows
    if normal_faces.max() >= len(parts.normals):
        parts.findings.append(Finding("warning", "Faces refer to normals that are not there; normals are left out."))
        return parts.vertices, faces, None, rows
    normals = _unit(parts.normals)
    if not np.isfinite(normals).all():
        return parts.vertices, faces, None, rows
    one = np.zeros(len(rows), np.int64)
    one[faces] = normal_faces
    if (np.abs(normals[one[faces]] - normals[normal_faces]) <= _SAME_NORMAL).all():
        return parts.vertices, faces, normals[one].astype(np.float32), rows
    _, group = equal_rows(np.round(normals / _SAME_NORMAL).astype(np.int64))
    key = faces.astype(np.int64) * (int(group.max()) + 1) + group[normal_faces]
    _, first, corner = np.unique(key.ravel(), return_index=True, return_inverse=True)
    rows = faces.ravel()[first]
    new_normals = normals[normal_faces.ravel()[first]].astype(np.float32)
    return parts.vertices[rows], corner.reshape(-1, 3).astype(np.int32), new_normals, rows


def _unit(normals: np.ndarray) -> np.ndarray:
    """Normals of length one; not-a-number where one has no direction."""
    wide = normals.astype(np.float64)
    length = np.linalg.norm(wide, axis=1, keepdims=True)
    unit: np.ndarray = np.where(length > 0, wide / np.where(length > 0, length, 1.0), np.nan)
    return unit


def _has_texture(materials: tuple[Material, ...], chosen: np.ndarray | None, faces: int) -> np.ndarray:
    """Whether each face's material has a texture."""
    has = np.array([material.texture is not None for material in materials] or [False])
    return np.broadcast_to(has[0], faces) if chosen is None else has[chosen]


def _uvs(parts: Parts, corners: np.ndarray, needed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Texture coordinates with an entry (0, 0) at the end for corners that have none."""
    if parts.uvs is None or parts.uv_loops is None or not len(parts.uvs):
        return np.zeros((1, 2), np.float32), np.zeros(corners.shape, np.int32)
    uvs = parts.uvs.astype(np.float32)
    bad = ~np.isfinite(uvs).all(axis=1)
    uvs[bad] = 0.0
    face_uvs = parts.uv_loops[corners]
    outside = (face_uvs < 0) | (face_uvs >= len(uvs))
    if outside.any():
        count = int((outside.any(axis=1) & needed).sum())
        if count:
            said = f"{count} of {len(corners)} faces have a texture and no texture coordinates."
            parts.findings.append(Finding("warning", said))
        face_uvs = np.where(outside, len(uvs), face_uvs)
        uvs = np.concatenate([uvs, np.zeros((1, 2), np.float32)])
    return uvs, face_uvs.astype(np.int32)


def _materials(
    parts: Parts, polygon: np.ndarray, materials: tuple[Material, ...]
) -> tuple[np.ndarray | None, tuple[Material, ...]]:
    """Material of each triangle, and those in use; triangles that name none get a plain one at the end."""
    if not materials or parts.polygon_materials is None:
        return None, materials
    chosen = parts.polygon_materials[polygon]
    used, place = np.unique(np.where(chosen < 0, len(materials), chosen), return_inverse=True)
    kept = tuple((*materials, Material("none"))[i] for i in used)
    return (None if len(kept) == 1 else place.astype(np.int32)), kept


def _is_plain(material: Material) -> bool:
    return material.texture is None and material.base_color == (1.0, 1.0, 1.0, 1.0)
