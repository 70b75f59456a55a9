"""PLY reader: text and binary, polygons, strips, textures as MeshLab writes them.

Turk, "The PLY Polygon File Format", 1994. Nothing is allocated on the word of the header: counts are first held
against the bytes that are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..records import Finding, Material
from .build import Parts, build_model
from .corners import equal_rows
from .files import damaged, read_bytes, stated_up
from .images import TextureReader
from .model import Model
from .mtl import missing_file
from .names import find_companion
from .ply_rows import Columns, Element, Lists, Property, read_elements, scalars

_LONGEST_HEADER = 1 << 16
_MOST_COUNT = 1 << 40
_TYPES = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "float": "f4",
    "double": "f8", "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4",
    "float32": "f4", "float64": "f8", "int64": "i8", "uint64": "u8",
}  # fmt: skip
_FORMATS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}
_COLORS = (("red", "green", "blue"), ("diffuse_red", "diffuse_green", "diffuse_blue"), ("r", "g", "b"))
_UVS = (("s", "t"), ("u", "v"), ("texture_u", "texture_v"), ("texture_s", "texture_t"))


@dataclass
class _Header:
    order: str
    elements: list[Element]
    textures: list[str]
    size: int


def read_ply(path: Path) -> Model:
    """Read a PLY.

    Raises:
        SmrError: The header or a count is wrong, the file is cut off, or there are no faces.
    """
    data = read_bytes(path)
    header = _read_header(path, data)
    columns = read_elements(path, data[header.size :], header.elements, header.order)
    vertex = columns.get("vertex", {})
    vertices = scalars(vertex, "xyz")
    if vertices is None:
        raise damaged(path, "it has no vertices with x, y and z")
    if vertices.dtype.kind != "f":
        vertices = vertices.astype(np.float64)
    findings: list[Finding] = []
    face = columns.get("face", {})
    loops = face.get("vertex_indices", face.get("vertex_index"))
    if isinstance(loops, Lists):
        indices, sizes = loops.flat.astype(np.int64), loops.sizes
    else:
        indices, sizes = _strips(columns.get("tristrips", {}))
    parts = Parts(path, vertices, indices, sizes, findings=findings, world_up=stated_up(data[: header.size]))
    kinds = {
        entry.name: entry.kind for table in header.elements if table.name == "vertex" for entry in table.properties
    }
    parts.colors = _colors(vertex, kinds)
    parts.normals = scalars(vertex, ("nx", "ny", "nz"))
    parts.normal_loops = indices
    _add_uvs(parts, vertex, face)
    if parts.uvs is not None:
        _add_materials(parts, header.textures, face)
    return build_model(parts)


def _read_header(path: Path, data: bytes) -> _Header:
    if not data.startswith((b"ply\n", b"ply\r")):
        raise damaged(path, "it does not begin with the word ply")
    end = data.find(b"end_header", 0, _LONGEST_HEADER)
    if end < 0:
        raise damaged(path, "its header has no end within 64 KB")
    stop = end + len(b"end_header")
    stop += 2 if data[stop : stop + 2] == b"\r\n" else 1
    header = _Header("?", [], [], stop)
    for line in data[:end].decode("utf-8", "replace").replace("\r", "\n").split("\n")[1:]:
        words = line.split()
        if not words or words[0] in ("obj_info",):
            continue
        if words[0] == "comment":
            if len(words) > 2 and words[1].lower() == "texturefile":
                header.textures.append(line.split(None, 2)[2].strip())
        elif words[0] == "format" and len(words) >= 2 and words[1] in _FORMATS:
            header.order = _FORMATS[words[1]]
        elif words[0] == "element" and len(words) == 3 and words[2].isdecimal() and int(words[2]) < _MOST_COUNT:
            header.elements.append(Element(words[1], int(words[2]), []))
        elif words[0] == "property" and header.elements and (entry := _property(words)):
            header.elements[-1].properties.append(entry)
        else:
            raise damaged(path, f"the header line {line[:80]!r} is not understood")
    if header.order == "?":
        raise damaged(path, "its header names no format")
    return header


def _property(words: list[str]) -> Property | None:
    if len(words) == 3 and words[1] in _TYPES:
        return Property(words[2], _TYPES[words[1]])
    if len(words) == 5 and words[1] == "list" and words[2] in _TYPES and words[3] in _TYPES:
        return Property(words[4], _TYPES[words[3]], _TYPES[words[2]]) if _TYPES[words[2]][0] != "f" else None
    return None


def _colors(vertex: Columns, kinds: dict[str, str]) -> np.ndarray | None:
    for names in _COLORS:
        values = scalars(vertex, names)
        if values is None:
            continue
        if kinds[names[0]] in ("f4", "f8"):  # float colours run from 0 to 1
            values = np.nan_to_num(values * 255.0).round()
        elif kinds[names[0]] == "u2":
            values = values // 257
        return np.clip(values, 0, 255).astype(np.uint8)
    return None


def _strips(element: Columns) -> tuple[np.ndarray, np.ndarray]:
    """Triangles of strips (Stanford's large scans): -1 ends a strip, every second triangle is turned."""
    strips = element.get("vertex_indices", element.get("vertex_index"))
    if not isinstance(strips, Lists) or not len(strips.flat):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    ends = np.zeros(len(strips.flat) + 1, bool)
    ends[np.cumsum(strips.sizes)] = True
    indices = strips.flat.astype(np.int64)
    window = np.lib.stride_tricks.sliding_window_view(indices, 3) if len(indices) >= 3 else indices[:0].reshape(0, 3)
    whole = (window >= 0).all(axis=1) & ~ends[1 : len(window) + 1] & ~ends[2 : len(window) + 2]
    start = np.where((indices < 0) | ends[:-1], np.arange(len(indices)), 0)
    first = np.maximum.accumulate(np.where(indices < 0, start + 1, start))
    place = np.flatnonzero(whole)
    odd = (place - first[place]) % 2 == 1
    triangles = window[place].copy()
    triangles[odd] = triangles[odd][:, [1, 0, 2]]
    return triangles.ravel(), np.full(len(triangles), 3, np.int64)


def _add_uvs(parts: Parts, vertex: Columns, face: Columns) -> None:
    """Texture coordinates a corner (`texcoord`), or a vertex (`s t` and the like)."""
    texcoord = face.get("texcoord")
    if isinstance(texcoord, Lists) and len(texcoord.flat) >= 2 and len(texcoord.sizes) == len(parts.sizes):
        offset = np.cumsum(texcoord.sizes) - texcoord.sizes
        begin = np.cumsum(parts.sizes) - parts.sizes
        usable = (texcoord.sizes == 2 * parts.sizes) & (offset % 2 == 0)
        within = np.arange(len(parts.loops)) - np.repeat(begin, parts.sizes)
        place = np.repeat(offset // 2, parts.sizes) + within
        pairs = texcoord.flat[: len(texcoord.flat) // 2 * 2].reshape(-1, 2)
        valid = np.repeat(usable, parts.sizes)
        corner_uvs = np.where(valid[:, None], pairs[np.where(valid, place, 0)], 0)
        first, group = equal_rows(parts.loops[:, None], corner_uvs.astype(np.float32))
        parts.uvs, parts.uv_loops = corner_uvs[first], np.where(valid, group, -1)
        return
    for names in _UVS:
        parts.uvs, parts.uv_loops = scalars(vertex, names), parts.loops
        if parts.uvs is not None:
            return


def _add_materials(parts: Parts, names: list[str], face: Columns) -> None:
    textures = TextureReader(parts.findings)
    materials = []
    for name in names[:4096]:
        image = find_companion(parts.path.parent, name)
        if image is None:
            parts.findings.append(missing_file(parts.path, name, "texture", "it is left out"))
        pixels = None if image is None else textures.open(image)
        materials.append(Material(Path(name).stem, texture=pixels))
    parts.materials = materials
    number = face.get("texnumber")
    if isinstance(number, np.ndarray) and len(materials) > 1 and len(number) == len(parts.sizes):
        parts.polygon_materials = np.where((number >= 0) & (number < len(materials)), number, -1).astype(np.int64)
