"""Small models for the tests of the file formats, and what to compare them by."""

from __future__ import annotations

import numpy as np

from smr.formats.model import geometry
from smr.records import Material, Mesh, TexturedMesh


def sphere(subdivisions: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (float32) and faces of an octahedron, subdivided and pushed to an ellipsoid without symmetry."""
    vertices = [(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)]
    faces = [(0, 2, 4), (2, 1, 4), (1, 3, 4), (3, 0, 4), (2, 0, 5), (1, 2, 5), (3, 1, 5), (0, 3, 5)]
    points = [np.array(v, float) for v in vertices]
    for _ in range(subdivisions):
        middle: dict[tuple[int, int], int] = {}

        def halve(a: int, b: int, middle: dict[tuple[int, int], int] = middle) -> int:
            key = (min(a, b), max(a, b))
            if key not in middle:
                center = points[a] + points[b]
                points.append(center / np.linalg.norm(center))
                middle[key] = len(points) - 1
            return middle[key]

        finer = []
        for a, b, c in faces:
            ab, bc, ca = halve(a, b), halve(b, c), halve(c, a)
            finer += [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
        faces = finer
    shaped = np.array(points) * [0.3, 0.2, 0.5] + [0.11, -0.07, 0.23]
    return shaped.astype(np.float32), np.array(faces, np.int32)


def colored_mesh() -> Mesh:
    """A closed mesh with normals and vertex colours."""
    vertices, faces = sphere()
    normals = vertices - vertices.mean(axis=0)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    colors = np.random.default_rng(1).integers(0, 256, vertices.shape).astype(np.uint8)
    return Mesh(vertices, faces, normals.astype(np.float32), colors)


def picture(height: int = 24, width: int = 32) -> np.ndarray:
    """A texture that differs under each mirror and turn; smooth, so that JPEG keeps it."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([255 * x / (width - 1), 255 * y / (height - 1), 40 + 0 * x], axis=2).astype(np.uint8)


def textured_mesh(materials: int = 2) -> TexturedMesh:
    """A closed mesh whose texture coordinates differ from corner to corner: every edge is a seam."""
    mesh = colored_mesh()
    count = len(mesh.faces)
    uvs = np.random.default_rng(2).random((3 * count, 2)).astype(np.float32)
    face_uvs = np.arange(3 * count, dtype=np.int32).reshape(-1, 3)
    surfaces = (
        Material("first", texture=picture(), roughness=0.75),
        Material("second", base_color=(0.5, 0.25, 0.125, 1.0), metallic=0.5),
    )[:materials]
    chosen = (np.arange(count) % 2).astype(np.int32) if materials > 1 else None
    plain = Mesh(mesh.vertices, mesh.faces, mesh.normals)
    return TexturedMesh(plain, uvs, face_uvs, surfaces, chosen)


def material_of_faces(model: TexturedMesh) -> np.ndarray:
    return np.zeros(len(model.mesh.faces), int) if model.face_materials is None else model.face_materials


def corner_rows(model: Mesh | TexturedMesh) -> np.ndarray:
    """Positions, then texture coordinates of the corners of each face, faces in the order of their materials."""
    mesh = geometry(model)
    rows = mesh.vertices[mesh.faces].reshape(len(mesh.faces), 9).astype(np.float64)
    if not isinstance(model, TexturedMesh):
        return rows
    rows = np.concatenate([rows, model.uvs[model.face_uvs].reshape(len(rows), 6)], axis=1)
    return rows[np.argsort(material_of_faces(model), kind="stable")]


def corner_normals(model: Mesh | TexturedMesh) -> np.ndarray:
    mesh = geometry(model)
    assert mesh.normals is not None
    rows = mesh.normals[mesh.faces].reshape(-1, 9)
    if isinstance(model, TexturedMesh):
        rows = rows[np.argsort(material_of_faces(model), kind="stable")]
    return rows


def is_closed(mesh: Mesh) -> bool:
    """Whether each edge has one face on each side."""
    edges = np.concatenate([mesh.faces[:, [0, 1]], mesh.faces[:, [1, 2]], mesh.faces[:, [2, 0]]])
    ways = {(int(a), int(b)) for a, b in edges}
    return len(ways) == len(edges) and all((b, a) in ways for a, b in ways)
