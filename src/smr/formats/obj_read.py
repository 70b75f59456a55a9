"""Wavefront OBJ reader: NumPy over blocks of lines."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import SmrError
from ..records import Finding
from .build import Parts, build_model
from .files import damaged, read_bytes, stated_up
from .images import TextureReader
from .model import Model
from .mtl import find_texture_beside, read_library
from .text import NotANumberError, Tokens, integers

if TYPE_CHECKING:
    from .obj_fast import Block

_BLOCK = 1 << 20  # stays in the cache
_LARGE = 4 << 20  # from here on what machine code saves is more than what it takes to load it
_COMMENT = re.compile(rb"(?m)(^|(?<=[ \t]))#[^\n]*")
_SLASH = 47
_V, _T, _N, _F = ord("v"), ord("t"), ord("n"), ord("f")


@dataclass
class Collected:
    """What the lines of an OBJ say, before anything is made of it."""

    path: Path
    vertices: list[np.ndarray] = field(default_factory=list)
    uvs: list[np.ndarray] = field(default_factory=list)
    normals: list[np.ndarray] = field(default_factory=list)
    corners: list[np.ndarray] = field(default_factory=list)
    """C×3: vertex, texture coordinate, normal; counted from 0, -1 where there is none."""
    sizes: list[np.ndarray] = field(default_factory=list)
    libraries: list[str] = field(default_factory=list)
    uses: list[tuple[int, str]] = field(default_factory=list)
    """First face and name of each `usemtl`."""
    counts: dict[str, int] = field(default_factory=lambda: {"v": 0, "vt": 0, "vn": 0, "f": 0})

    def faces(self) -> tuple[np.ndarray, np.ndarray]:
        """All corners, C×3, and the number of corners of each face, F."""
        return _together(self.corners, (0, 3)), _together(self.sizes, (0,))


def _together(blocks: list[np.ndarray], empty: tuple[int, ...]) -> np.ndarray:
    """Blocks one after another; not copied where they lie so already, as parts of one array."""
    if not blocks:
        return np.zeros(empty, np.int64)
    base = blocks[0].base
    length = sum(map(len, blocks))
    if base is not None and len(base) == length and all(block.base is base for block in blocks):
        return base
    return np.concatenate(blocks)


def read_obj(path: Path) -> Model:
    """Read an OBJ with its materials and textures.

    Raises:
        SmrError: A line is not what it should be, a face refers to a missing vertex, or there are no faces.
    """
    text = read_bytes(path)
    return build_model(_parts(collect_obj(path, text), stated_up(text[:1024])))


def collect_obj(path: Path, text: bytes, large: int = _LARGE) -> Collected:
    """Read the lines of an OBJ's text; `path` names it in errors. From `large` bytes on machine code reads them.

    Raises:
        SmrError: It is not text, or a line is not what it should be.
    """
    if b"\0" in text[:4096]:
        raise damaged(path, "it is not text, as OBJ is")
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if b"\\" in text and b"\\\n" in text:
        text = text.replace(b"\\\n", b"  ")  # a line that goes on
    found = Collected(path)
    edges = _edges(text)
    if len(text) < large:
        for begin, end in pairwise(edges):
            _read_block(found, text, begin, end)
        return found
    from .obj_fast import blocks  # Warp takes a second to start

    for block in blocks(text, np.array(edges)):
        if block.plain:
            _add_block(found, text, block)
        else:
            _read_block(found, text, block.begin, block.end)
    return found


def _edges(text: bytes) -> list[int]:
    """Where blocks of whole lines begin, and the end of the last."""
    edges = [0]
    while edges[-1] < len(text):
        reach = edges[-1] + _BLOCK
        edges.append(len(text) if reach >= len(text) else text.find(b"\n", reach) + 1 or len(text))
    return edges


def _add_block(found: Collected, text: bytes, block: Block) -> None:
    """Add what was read of a block."""
    for name, target in (("v", found.vertices), ("vt", found.uvs), ("vn", found.normals)):
        if name in block.rows:
            target.append(block.rows[name])
            found.counts[name] += len(block.rows[name])
    if len(block.sizes):
        found.corners.append(block.corners)
        found.sizes.append(block.sizes)
    for begin, end, faces in block.uses:
        tokens = Tokens.of(_COMMENT.sub(b"", text[begin:end]))
        _read_keyword(found, tokens, 0, len(tokens), faces)
    found.counts["f"] += len(block.sizes)


def _read_block(found: Collected, text: bytes, begin: int, end: int) -> None:
    block = text[begin:end]
    if b"#" in block:
        block = _COMMENT.sub(b"", block)
    tokens = Tokens.of(block)
    first, last = tokens.lines()
    used = last > first
    first, last = first[used], last[used]
    length = (tokens.ends - tokens.starts)[first]
    initial, second = tokens.data[tokens.starts[first]], tokens.data[tokens.starts[first] + 1]
    is_v = (initial == _V) & (length == 1)
    is_t = (initial == _V) & (length == 2) & (second == _T)
    is_n = (initial == _V) & (length == 2) & (second == _N)
    is_f = (initial == _F) & (length == 1)
    kinds = {"v": is_v, "vt": is_t, "vn": is_n}
    try:
        if is_f.any():
            so_far = [(np.cumsum(mask) + found.counts[name])[is_f] for name, mask in kinds.items()]
            _read_faces(found, tokens, first[is_f], last[is_f], np.stack(so_far, axis=1))
        for mask, name, target, least, most in (
            (is_v, "v", found.vertices, 3, 7),
            (is_t, "vt", found.uvs, 1, 2),
            (is_n, "vn", found.normals, 3, 3),
        ):
            if mask.any():
                target.append(_read_rows(tokens, first[mask], last[mask], least, most))
                found.counts[name] += int(mask.sum())
    except NotANumberError as error:
        raise _at_line(found.path, text, block, begin, error) from error
    for line in np.flatnonzero(~(is_v | is_t | is_n | is_f)):
        _read_keyword(found, tokens, int(first[line]), int(last[line]), int(is_f[:line].sum()))
    found.counts["f"] += int(is_f.sum())


def _read_rows(tokens: Tokens, first: np.ndarray, last: np.ndarray, least: int, most: int) -> np.ndarray:
    """The numbers of lines as rows of `most` columns; not-a-number where a line has fewer."""
    count = last - first - 1
    short = np.flatnonzero(count < least)
    if len(short):
        raise NotANumberError(int(first[short[0]]), tokens.line_text(int(first[short[0]])))
    widest = int(min(count.max(), most))
    rows = np.full((len(first), widest), np.nan)
    for width in np.unique(np.minimum(count, widest)):
        chosen = np.minimum(count, widest) == width
        rows[chosen, :width] = tokens.floats(first[chosen, None] + 1 + np.arange(width))
    return rows


def _read_faces(found: Collected, tokens: Tokens, first: np.ndarray, last: np.ndarray, before: np.ndarray) -> None:
    """Corners `v`, `v/t`, `v//n`, `v/t/n`; negative numbers count back from the line (`before`: F×3 counts so far)."""
    sizes = last - first - 1
    offset = np.cumsum(sizes) - sizes
    corner = np.arange(int(sizes.sum())) + np.repeat(first + 1 - offset, sizes)
    starts, ends = tokens.starts[corner], tokens.ends[corner]
    slash = np.append(np.flatnonzero(tokens.data == _SLASH), [len(tokens.data)] * 2)
    at = np.searchsorted(slash, starts)
    one = np.minimum(slash[at], ends)
    two = np.minimum(slash[np.minimum(at + 1, len(slash) - 1)], ends)
    columns = [
        integers(tokens.data, starts, one),
        integers(tokens.data, np.minimum(one + 1, two), two),
        integers(tokens.data, np.minimum(two + 1, ends), ends),
    ]
    values = np.stack(columns, axis=1)
    if (values[:, 0] == 0).any():
        bad = int(np.flatnonzero(values[:, 0] == 0)[0])
        raise NotANumberError(int(corner[bad]), tokens[int(corner[bad])].decode("utf-8", "replace"))
    if (values < 0).any():
        back = np.repeat(before, sizes, axis=0) + values
        values = np.where(values < 0, np.where(back < 0, 2**40, back), values - 1)  # 2^40: refused as out of range
    else:
        values -= 1
    found.corners.append(values)
    found.sizes.append(sizes)


def _read_keyword(found: Collected, tokens: Tokens, first: int, last: int, faces: int) -> None:
    keyword = tokens[first]
    if last - first < 2:
        return
    if keyword == b"usemtl":
        found.uses.append((found.counts["f"] + faces, tokens.line_text(first + 1)))
    elif keyword == b"mtllib" and len(found.libraries) < 64:
        found.libraries.append(tokens.line_text(first + 1))


def _at_line(path: Path, text: bytes, block: bytes, begin: int, error: NotANumberError) -> SmrError:
    """The same complaint with the line it stands in."""
    place = block.find(error.text.encode("utf-8", "surrogateescape"))
    line = text.count(b"\n", 0, begin) + block.count(b"\n", 0, max(place, 0)) + 1
    return damaged(path, f"{error.text[:60]!r} near line {line} is not what OBJ has there")


def _parts(found: Collected, world_up: str | None) -> Parts:
    vertices, colors = _vertices(found)
    corners, sizes = found.faces()
    parts = Parts(found.path, vertices, corners[:, 0], sizes, colors=colors)
    parts.world_up = world_up  # type: ignore[assignment]
    if found.uvs and (corners[:, 1] >= 0).any():
        parts.uvs = joined(found.uvs, 2)
        parts.uv_loops = corners[:, 1]
    if found.normals and (corners[:, 2] >= 0).any():
        parts.normals, parts.normal_loops = joined(found.normals, 3), corners[:, 2]
    _add_materials(parts, found, len(sizes))
    return parts


def joined(blocks: list[np.ndarray], width: int) -> np.ndarray:
    """Rows of `width` columns; zeros where a block has fewer."""
    rows = np.zeros((sum(len(block) for block in blocks), width))
    begin = 0
    for block in blocks:
        columns = min(width, block.shape[1])
        rows[begin : begin + len(block), :columns] = block[:, :columns]
        begin += len(block)
    return rows


def _vertices(found: Collected) -> tuple[np.ndarray, np.ndarray | None]:
    """Positions, and the colours that may follow them: red, green, blue from 0 to 1, or from 0 to 255."""
    if not found.vertices:
        return np.zeros((0, 3)), None
    vertices = np.concatenate([block[:, :3] for block in found.vertices])
    if not any(block.shape[1] >= 6 for block in found.vertices):
        return vertices, None
    values = np.concatenate(
        [block[:, 3:6] if block.shape[1] >= 6 else np.ones((len(block), 3)) for block in found.vertices]
    )
    scale = 255.0 if np.nanmax(values, initial=0.0) <= 1.0 else 1.0
    return vertices, np.clip(np.nan_to_num(np.round(values * scale)), 0, 255).astype(np.uint8)


def _add_materials(parts: Parts, found: Collected, faces: int) -> None:
    """The materials in use, in the order of their first use."""
    textures = TextureReader(parts.findings)
    library = {}
    for name in found.libraries:
        library.update(read_library(found.path, name, textures))
    if not found.libraries and parts.uvs is not None:
        material = find_texture_beside(found.path, textures)
        if material is not None:
            parts.materials = (material,)
        return
    names = list(dict.fromkeys(name for _, name in found.uses if name in library))
    missing = {name for _, name in found.uses if name not in library}
    if library and missing:
        listed = ", ".join(sorted(missing)[:5])
        parts.findings.append(Finding("warning", f"Materials are used and nowhere defined: {listed}."))
    if not names:
        parts.materials = tuple(library.values())[:1] if len(library) == 1 and not found.uses else ()
        return
    index = {name: i for i, name in enumerate(names)}
    edges = [face for face, _ in found.uses] + [faces]
    chosen = np.array([-1, *(index.get(name, -1) for _, name in found.uses)])
    runs = np.diff([0, *edges])
    parts.materials = tuple(library[name] for name in names)
    parts.polygon_materials = np.repeat(chosen, runs)
