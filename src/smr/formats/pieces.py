"""Meshes of several nodes joined into one, for the formats that have nodes (glTF, USD)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..records import Finding, Material
from .build import Parts
from .corners import equal_rows


@dataclass
class Piece:
    """One mesh in the scene's frame. Corner arrays have one entry a polygon corner; -1: has none."""

    vertices: np.ndarray
    loops: np.ndarray
    sizes: np.ndarray
    uvs: np.ndarray | None = None
    uv_loops: np.ndarray | None = None
    normals: np.ndarray | None = None
    normal_loops: np.ndarray | None = None
    colors: np.ndarray | None = None
    """V×3 uint8, sRGB."""
    materials: np.ndarray | None = None
    """Index into the file's materials a polygon; -1: has none."""


def join(path: Path, pieces: Sequence[Piece], materials: Sequence[Material], findings: list[Finding]) -> Parts:
    """All pieces as one; normals only where all have them, white where a piece has no colours and others do."""
    vertices, loops = _stack([piece.vertices for piece in pieces], [piece.loops for piece in pieces])
    parts = Parts(path, vertices, loops, np.concatenate([piece.sizes for piece in pieces]), findings=findings)
    if any(piece.uvs is not None for piece in pieces):
        parts.uvs, parts.uv_loops = _stack(
            [np.zeros((0, 2)) if piece.uvs is None else piece.uvs for piece in pieces],
            [_or_none(piece.uv_loops if piece.uvs is not None else None, len(piece.loops)) for piece in pieces],
        )
    if all(piece.normals is not None for piece in pieces):
        parts.normals, parts.normal_loops = _stack(
            [piece.normals for piece in pieces if piece.normals is not None],
            [_or_none(piece.normal_loops, len(piece.loops)) for piece in pieces],
        )
    if any(piece.colors is not None for piece in pieces):
        white = [np.full((len(piece.vertices), 3), 255, np.uint8) for piece in pieces]
        parts.colors = np.concatenate(
            [blank if piece.colors is None else piece.colors for piece, blank in zip(pieces, white, strict=True)]
        )
    parts.materials = materials
    parts.polygon_materials = np.concatenate([_or_none(piece.materials, len(piece.sizes)) for piece in pieces])
    return parts


def weld(parts: Parts) -> None:
    """Make vertices one that are equal to the bit, as formats split them that have one texture coordinate a vertex."""
    keys = [parts.vertices] if parts.colors is None else [parts.vertices, parts.colors]
    first, group = equal_rows(*keys)
    if len(first) == len(group):
        return
    if parts.uvs is not None and parts.uv_loops is not None and len(parts.uvs):
        entry_vertex = np.zeros(len(parts.uvs), np.int64)
        has = parts.uv_loops >= 0
        entry_vertex[parts.uv_loops[has]] = group[parts.loops[has]]
        uv_first, uv_group = equal_rows(entry_vertex[:, None], parts.uvs.astype(np.float32))
        parts.uvs, parts.uv_loops = parts.uvs[uv_first], np.where(has, uv_group[parts.uv_loops], -1)
    parts.vertices, parts.loops = parts.vertices[first], group[parts.loops]
    parts.colors = None if parts.colors is None else parts.colors[first]


def _or_none(values: np.ndarray | None, count: int) -> np.ndarray:
    return np.full(count, -1, np.int64) if values is None else values


def _stack(tables: Sequence[np.ndarray], indices: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Tables below one another, and the indices into each as indices into all."""
    offsets = np.cumsum([0, *(len(table) for table in tables)])
    moved = [np.where(index < 0, -1, index + offset) for index, offset in zip(indices, offsets, strict=False)]
    return np.concatenate(tables), np.concatenate(moved)
