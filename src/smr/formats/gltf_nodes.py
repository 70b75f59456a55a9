"""What a glTF file is: its document, its nodes with their places, and the triangles of a primitive."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..transforms import matrix_from_quat_wxyz
from .files import damaged
from .gltf_arrays import Arrays

_MOST_NODES = 100_000
_DEEPEST = 512


def open_document(path: Path, data: bytes) -> tuple[dict[str, Any], bytes | None]:
    """The JSON document of a file's bytes, and the binary part of a .glb file.

    Raises:
        SmrError: It is cut off, or no glTF of version 2.
    """
    binary = None
    text = data
    if data[:4] == b"glTF":
        if len(data) < 20:
            raise damaged(path, "it ends within its header")
        version, total, length, kind = struct.unpack("<III4s", data[4:20])
        if version != 2:
            raise damaged(path, f"it is version {version} of glTF; version 2 is read")
        if kind != b"JSON" or total > len(data) or 20 + length > len(data):
            raise damaged(path, f"its header promises {total} bytes, and it has {len(data)}")
        text = data[20 : 20 + length]
        place = 20 + length
        if place + 8 <= total:
            length, kind = struct.unpack("<I4s", data[place : place + 8])
            if place + 8 + length > len(data):
                raise damaged(path, "it ends within its binary part")
            binary = data[place + 8 : place + 8 + length] if kind == b"BIN\0" else None
    elif path.suffix.lower() == ".glb":
        raise damaged(path, "it does not begin with the word glTF")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"its JSON part cannot be read: {str(error)[:120]}") from error
    if not isinstance(document, dict) or not isinstance(document.get("asset"), dict):
        raise damaged(path, "it holds JSON that is no glTF")
    if not str(document["asset"].get("version", "")).startswith("2"):
        raise damaged(path, f"it is version {str(document['asset'].get('version'))[:20]} of glTF; version 2 is read")
    return document, binary


def placed_meshes(arrays: Arrays, scene: int | None = None) -> Iterator[tuple[Any, np.ndarray]]:
    """The mesh (its entry in `meshes`) and the 4×4 place of each node of a scene; None: of the file's own choice."""
    document = arrays.document
    if document.get("scenes"):
        roots = arrays.entry("scenes", document.get("scene", 0) if scene is None else scene).get("nodes", [])
    else:
        roots = _roots(document)
    waiting = [(index, np.eye(4), 0) for index in entries(arrays, roots, "nodes")][::-1]
    visited = 0
    while waiting:
        index, parent, depth = waiting.pop()
        node = arrays.entry("nodes", index)
        visited += 1
        if depth > _DEEPEST or visited > _MOST_NODES:
            raise damaged(arrays.path, "its nodes form a circle, or there are more than 100000")
        matrix = parent @ _matrix(arrays, node)
        if "mesh" in node:
            yield node["mesh"], matrix
        waiting += [(child, matrix, depth + 1) for child in entries(arrays, node.get("children", []), "children")][::-1]


def _roots(document: dict[str, Any]) -> list[int]:
    nodes = document.get("nodes", [])
    nodes = nodes if isinstance(nodes, list) else []
    children = {
        child
        for node in nodes
        if isinstance(node, dict) and isinstance(node.get("children"), list)
        for child in node["children"]
        if isinstance(child, int)
    }
    return [index for index in range(len(nodes)) if index not in children]


def entries(arrays: Arrays, value: Any, name: str) -> list[Any]:
    """A list of the document.

    Raises:
        SmrError: It is something else.
    """
    if not isinstance(value, list):
        raise damaged(arrays.path, f"{name} is not a list")
    return value


def _numbers(arrays: Arrays, node: dict[str, Any], name: str, default: list[float]) -> np.ndarray:
    values = node.get(name, default)
    numeric = isinstance(values, list) and all(
        isinstance(x, (int, float)) and abs(x) < 1e300
        for x in values  # not-a-number fails the comparison
    )
    if not numeric or len(values) != len(default):
        raise damaged(arrays.path, f"a node's {name} is not {len(default)} numbers")
    return np.array(values, np.float64)


def _matrix(arrays: Arrays, node: dict[str, Any]) -> np.ndarray:
    if "matrix" in node:
        return _numbers(arrays, node, "matrix", [0.0] * 16).reshape(4, 4).T  # stored by columns
    x, y, z, w = _numbers(arrays, node, "rotation", [0.0, 0.0, 0.0, 1.0])
    if not x * x + y * y + z * z + w * w > 0:
        x, y, z, w = 0.0, 0.0, 0.0, 1.0
    matrix = matrix_from_quat_wxyz(np.array([w, x, y, z]), _numbers(arrays, node, "translation", [0.0, 0.0, 0.0]))
    matrix[:3, :3] *= _numbers(arrays, node, "scale", [1.0, 1.0, 1.0])
    return matrix


def read_triangles(indices: np.ndarray, mode: int) -> np.ndarray:
    """Triangles of a list (4), a strip (5) or a fan (6)."""
    if mode == 4:
        return indices[: len(indices) // 3 * 3].reshape(-1, 3)
    count = max(len(indices) - 2, 0)
    step = np.arange(count)
    if mode == 6:
        return np.stack([np.broadcast_to(indices[:1], count), indices[step + 1], indices[step + 2]], axis=1)
    odd = step % 2
    return np.stack([indices[step], indices[step + 1 + odd], indices[step + 2 - odd]], axis=1)
