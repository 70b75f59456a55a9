"""PLY writer: binary little endian; textures in the way that MeshLab reads them (`comment TextureFile`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..atomic import atomic_paths
from ..records import TexturedMesh
from .images import encode_texture, flattened_texture
from .model import AnyMesh, WriteOptions, geometry, material_list
from .names import texture_name

_NAMES = {"<f4": "float", "<f8": "double", "<i4": "int", "u1": "uchar"}


def write_ply(model: AnyMesh, path: Path, options: WriteOptions) -> None:
    """Write a PLY; float64 vertices as double, texture coordinates a corner, vertex normals, colours and support."""
    files: list[tuple[Path, list[bytes]]] = []
    comments = [f"smr {__version__}", f"up axis: {options.world_up}"]
    if options.remark:
        comments.append(options.remark)
    if isinstance(model, TexturedMesh) and model.materials:
        for index, material in enumerate(model.materials):
            data, ending = encode_texture(flattened_texture(material), options.jpeg_quality)
            files.append((path.with_name(texture_name(path, index, ending)), [data]))
            comments.append(f"TextureFile {files[-1][0].name}")
    vertices = _vertex_rows(model)
    faces, face_lines = _face_rows(model)
    header = ["ply", "format binary_little_endian 1.0", *(f"comment {comment}" for comment in comments)]
    header += [f"element vertex {len(vertices)}", *_scalar_lines(vertices.dtype)]
    header += [f"element face {len(faces)}", *face_lines, "end_header"]
    files.append((path, [("\n".join(header) + "\n").encode(), vertices.tobytes(), faces.tobytes()]))
    with atomic_paths([name for name, _ in files]) as temporary:
        for name, (_, parts) in zip(temporary, files, strict=True):
            with open(name, "wb") as file:
                file.writelines(parts)


def _vertex_rows(model: AnyMesh) -> np.ndarray:
    mesh = geometry(model)
    number = "<f8" if mesh.vertices.dtype == np.float64 else "<f4"
    fields: list[tuple[str, str]] = [(axis, number) for axis in "xyz"]
    columns: list[np.ndarray] = list(mesh.vertices.T)
    if mesh.normals is not None:
        fields += [("nx", "<f4"), ("ny", "<f4"), ("nz", "<f4")]
        columns += list(mesh.normals.T)
    if mesh.colors is not None:
        fields += [("red", "u1"), ("green", "u1"), ("blue", "u1")]
        columns += list(mesh.colors.T)
    if mesh.support is not None:
        fields.append(("support", "<i4"))
        columns.append(mesh.support)
    rows = np.empty(len(mesh.vertices), np.dtype(fields))
    for (name, _), column in zip(fields, columns, strict=True):
        rows[name] = column
    return rows


def _face_rows(model: AnyMesh) -> tuple[np.ndarray, list[str]]:
    mesh = geometry(model)
    fields: list[Any] = [("count", "u1"), ("corners", "<i4", 3)]
    lines = ["property list uchar int vertex_indices"]
    if isinstance(model, TexturedMesh):
        fields += [("uv_count", "u1"), ("uvs", "<f4", 6)]
        lines.append("property list uchar float texcoord")
        if len(material_list(model)) > 1:
            fields.append(("texture", "<i4"))
            lines.append("property int texnumber")
    rows = np.empty(len(mesh.faces), np.dtype(fields))
    rows["count"] = 3
    rows["corners"] = mesh.faces
    if isinstance(model, TexturedMesh):
        rows["uv_count"] = 6
        rows["uvs"] = model.uvs[model.face_uvs].reshape(-1, 6)
        if "texture" in (rows.dtype.names or ()):
            rows["texture"] = 0 if model.face_materials is None else model.face_materials
    return rows, lines


def _scalar_lines(dtype: np.dtype[Any]) -> list[str]:
    names = {np.dtype(code): name for code, name in _NAMES.items()}
    return [f"property {names[dtype[name]]} {name}" for name in dtype.names or ()]
