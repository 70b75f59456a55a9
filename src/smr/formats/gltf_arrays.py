"""Accessors of a glTF file as arrays, with each offset and count held against the bytes that are there."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import SmrError
from .files import damaged
from .names import find_companion

_COMPONENTS = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
_WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}
_MOST_VALUES = 1 << 31


@dataclass
class Arrays:
    """The buffers of a file and what points into them."""

    path: Path
    document: dict[str, Any]
    binary: bytes | None
    """The binary part of a .glb file."""
    loaded: dict[int, bytes] = field(default_factory=dict)

    def entry(self, table: str, index: Any) -> dict[str, Any]:
        """An entry of one of the document's lists.

        Raises:
            SmrError: It is not there.
        """
        rows = self.document.get(table)
        if not isinstance(rows, list) or not isinstance(index, int) or not 0 <= index < len(rows):
            raise damaged(self.path, f"it refers to entry {str(index)[:40]} of {table}, which is not there")
        if not isinstance(rows[index], dict):
            raise damaged(self.path, f"entry {index} of {table} is not an object")
        row: dict[str, Any] = rows[index]
        return row

    def number(self, entry: dict[str, Any], name: str, default: int | None = None) -> int:
        """A whole number of zero or more.

        Raises:
            SmrError: It is missing or something else.
        """
        value = entry.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
            raise damaged(self.path, f"{name} is {str(value)[:40]}, not a whole number")
        return value

    def view_bytes(self, index: Any) -> tuple[memoryview, int]:
        """The bytes of a buffer view, and its stride (0: none)."""
        view = self.entry("bufferViews", index)
        if "EXT_meshopt_compression" in view.get("extensions", {}):
            raise unsupported(self.path, "EXT_meshopt_compression")
        buffer = self._buffer(view.get("buffer"))
        begin, length = self.number(view, "byteOffset", 0), self.number(view, "byteLength")
        if begin + length > len(buffer):
            raise damaged(self.path, f"a buffer view ends at byte {begin + length} of {len(buffer)}")
        return memoryview(buffer)[begin : begin + length], self.number(view, "byteStride", 0)

    def accessor(self, index: Any, kinds: tuple[str, ...]) -> np.ndarray:
        """An accessor as rows of numbers; normalized integers as float."""
        accessor = self.entry("accessors", index)
        kind = accessor.get("type")
        if kind not in kinds or kind not in _WIDTHS or accessor.get("componentType") not in _COMPONENTS:
            raise damaged(self.path, f"accessor {index} has the type {str(kind)[:40]}, not {' or '.join(kinds)}")
        count, width = self.number(accessor, "count"), _WIDTHS[kind]
        dtype = np.dtype(_COMPONENTS[accessor["componentType"]])
        if "bufferView" in accessor:
            values = self._strided(accessor["bufferView"], self.number(accessor, "byteOffset", 0), count, width, dtype)
        else:
            self._check_virtual(count * width)
            values = np.zeros((count, width), dtype)
        if "sparse" in accessor:
            values = self._with_sparse(values, accessor["sparse"], dtype)
        if accessor.get("normalized") and dtype.kind != "f":
            top = float(np.iinfo(dtype).max)
            return np.maximum(values / top, -1.0).astype(np.float64)
        return values

    def _strided(self, view: Any, offset: int, count: int, width: int, dtype: np.dtype[Any]) -> np.ndarray:
        data, stride = self.view_bytes(view)
        row = width * dtype.itemsize
        stride = stride or row
        if stride < row or (count and offset + (count - 1) * stride + row > len(data)):
            raise damaged(self.path, f"an accessor wants {count} entries of a view with {len(data)} bytes")
        if not count:
            return np.zeros((0, width), dtype)
        return np.ndarray((count, width), dtype, data, offset, (stride, dtype.itemsize)).copy()

    def _with_sparse(self, values: np.ndarray, sparse: Any, dtype: np.dtype[Any]) -> np.ndarray:
        if not isinstance(sparse, dict):
            raise damaged(self.path, "a sparse accessor is not an object")
        places, news = sparse.get("indices"), sparse.get("values")
        if not isinstance(places, dict) or not isinstance(news, dict) or places.get("componentType") not in _COMPONENTS:
            raise damaged(self.path, "a sparse accessor has no indices or values")
        count = self.number(sparse, "count")
        place_type = np.dtype(_COMPONENTS[places["componentType"]])
        rows = self._strided(places.get("bufferView"), self.number(places, "byteOffset", 0), count, 1, place_type)[:, 0]
        if count and (rows.min() < 0 or rows.max() >= len(values)):
            raise damaged(self.path, "a sparse accessor points outside its values")
        width = values.shape[1]
        values[rows.astype(np.int64)] = self._strided(
            news.get("bufferView"), self.number(news, "byteOffset", 0), count, width, dtype
        )
        return values

    def _check_virtual(self, values: int) -> None:
        """Zeros that no buffer backs: not more than a file of this size could describe otherwise."""
        if values > 1_000_000 + sum(len(buffer) for buffer in self.loaded.values()):
            raise damaged(self.path, f"an accessor wants {values} numbers and names no buffer")

    def _buffer(self, index: Any) -> bytes:
        entry = self.entry("buffers", index)
        if index not in self.loaded:
            self.loaded[index] = self._load(entry, index)
        return self.loaded[index]

    def _load(self, entry: dict[str, Any], index: int) -> bytes:
        uri = entry.get("uri")
        if uri is None and index == 0 and self.binary is not None:
            return self.binary
        if not isinstance(uri, str):
            raise damaged(self.path, f"buffer {index} has no data")
        if uri.startswith("data:"):
            return data_uri(self.path, uri)
        found = find_companion(self.path.parent, uri)
        if found is None:
            raise SmrError(
                f"{self.path} needs {uri[:80]!r}, which is not in its folder.",
                f"Put that file beside {self.path.name}.",
            )
        try:
            return found.read_bytes()
        except OSError as error:
            raise damaged(self.path, f"{uri!r} cannot be read: {error.strerror}") from error


def data_uri(path: Path, uri: str) -> bytes:
    """The bytes that a `data:` address holds.

    Raises:
        SmrError: They are not base64.
    """
    head, _, text = uri.partition(",")
    try:
        if not head.endswith(";base64"):
            raise ValueError("not base64")
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error) as error:
        raise damaged(path, f"a data address cannot be decoded: {error}") from error


def unsupported(path: Path, extension: str) -> SmrError:
    """What to tell about a file that cannot be understood without an extension."""
    return SmrError(
        f"{path} needs the glTF extension {extension}, which is not read here.",
        "Export it without compression and without that extension.",
    )
