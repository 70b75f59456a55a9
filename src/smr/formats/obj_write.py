"""Wavefront OBJ writer: the mesh, a .mtl with its materials, and their textures beside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from .. import __version__
from ..atomic import atomic_paths
from ..records import TexturedMesh
from .images import encode_texture, flattened_texture
from .model import AnyMesh, WriteOptions, faces_by_material, geometry, material_list
from .names import companion_name, texture_name

_CHUNK = 65_536


def write_obj(model: AnyMesh, path: Path, options: WriteOptions) -> None:
    """Write an OBJ; vertices that are float64 with all their digits, vertex colours after the coordinates."""
    files: list[tuple[Path, Iterable[bytes]]] = []
    header = [f"# smr {__version__}\n# up axis: {options.world_up}\n"]
    if options.remark:
        header.append(f"# {options.remark}\n")
    if isinstance(model, TexturedMesh):
        library = path.with_name(companion_name(path, ".mtl"))
        files += _textures(model, path, options)
        files.append((library, [_material_text(model, [name.name for name, _ in files]).encode()]))
        header.append(f"mtllib {library.name}\n")
    files.append((path, _lines(model, "".join(header))))
    with atomic_paths([name for name, _ in files]) as temporary:
        for name, (_, parts) in zip(temporary, files, strict=True):
            with open(name, "wb") as file:
                file.writelines(parts)


def _textures(model: TexturedMesh, path: Path, options: WriteOptions) -> list[tuple[Path, Iterable[bytes]]]:
    files: list[tuple[Path, Iterable[bytes]]] = []
    for index, material in enumerate(material_list(model)):
        if material.texture is not None:
            data, ending = encode_texture(flattened_texture(material), options.jpeg_quality)
            files.append((path.with_name(texture_name(path, index, ending)), [data]))
    return files


def _material_text(model: TexturedMesh, textures: list[str]) -> str:
    """The .mtl: classic entries for every reader, Pr and Pm for those that know roughness and metalness."""
    lines = [f"# smr {__version__}"]
    remaining = iter(textures)
    for index, material in enumerate(material_list(model)):
        red, green, blue, opacity = material.base_color
        if material.texture is not None:  # readers differ on the product of Kd and map_Kd: it is in the image
            red = green = blue = 1.0
        lines += [
            f"newmtl material_{index}",
            "Ka 0 0 0",
            f"Kd {red:.6g} {green:.6g} {blue:.6g}",
            "Ks 0 0 0",
            f"d {opacity:.6g}",
            "illum 1",
            f"Pr {material.roughness:.6g}",
            f"Pm {material.metallic:.6g}",
        ]
        if material.texture is not None:
            name = next(remaining)
            lines.append(f"map_Kd {name}")
            if material.texture.shape[2] == 4:
                lines.append(f"map_d {name}")
    return "\n".join(lines) + "\n"


def _lines(model: AnyMesh, header: str) -> Iterator[bytes]:
    mesh = geometry(model)
    yield header.encode()
    number = "%.9g" if mesh.vertices.dtype == np.float32 else "%.17g"
    if mesh.colors is None:
        yield from text_rows(f"v {number} {number} {number}\n", mesh.vertices)
    else:
        colored = np.concatenate([mesh.vertices.astype(np.float64), mesh.colors / 255.0], axis=1)
        yield from text_rows(f"v {number} {number} {number} %.4f %.4f %.4f\n", colored)
    if isinstance(model, TexturedMesh):
        yield from text_rows("vt %.9g %.9g\n", model.uvs)
    if mesh.normals is not None:
        yield from text_rows("vn %.6f %.6f %.6f\n", mesh.normals)
    yield from _face_lines(model)


def _face_lines(model: AnyMesh) -> Iterator[bytes]:
    mesh = geometry(model)
    columns = [mesh.faces + 1]
    if isinstance(model, TexturedMesh):
        columns.append(model.face_uvs + 1)
    if mesh.normals is not None:
        columns.append(mesh.faces + 1)
    corner = {
        (False, False): "%d",
        (True, False): "%d/%d",
        (False, True): "%d//%d",
        (True, True): "%d/%d/%d",
    }[isinstance(model, TexturedMesh), mesh.normals is not None]
    corners = np.stack(columns, axis=2).reshape(len(mesh.faces), -1)
    line = f"f {corner} {corner} {corner}\n"
    if not isinstance(model, TexturedMesh):
        yield from text_rows(line, corners)
        return
    for index, group in enumerate(faces_by_material(model)):
        if len(group):
            yield f"usemtl material_{index}\n".encode()
            yield from text_rows(line, corners[group])


def text_rows(line: str, rows: np.ndarray) -> Iterator[bytes]:
    """Lines of text, each `line` filled with a row of numbers."""
    for start in range(0, len(rows), _CHUNK):
        part = rows[start : start + _CHUNK]
        yield (line * len(part) % tuple(part.ravel().tolist())).encode()
