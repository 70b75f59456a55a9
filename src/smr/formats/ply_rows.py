"""The rows of a PLY file's elements, as columns: fixed sizes at once, lists of changing length by their shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import SmrError
from .files import damaged
from .text import NotANumberError, Tokens


@dataclass(frozen=True)
class Property:
    """A column; a list where `count` is given."""

    name: str
    kind: str
    """NumPy type without byte order."""
    count: str | None = None


@dataclass(frozen=True)
class Element:
    """A table: so many rows with these columns."""

    name: str
    count: int
    properties: list[Property]


@dataclass(frozen=True)
class Lists:
    """A column of lists: their entries one after another, and the length of each."""

    flat: np.ndarray
    sizes: np.ndarray


def scalars(columns: Columns, names: Sequence[str]) -> np.ndarray | None:
    """The named columns side by side; None where one is missing or a list."""
    found = [column for name in names if isinstance(column := columns.get(name), np.ndarray)]
    return np.stack(found, axis=1) if len(found) == len(names) else None


Columns = dict[str, "np.ndarray | Lists"]


def read_elements(path: Path, body: bytes, elements: Sequence[Element], order: str) -> dict[str, Columns]:
    """All elements of a file by name. `order` is `<`, `>` or empty for text.

    Raises:
        SmrError: The file has fewer bytes than its header promises, or a word that is no number.
    """
    if order:
        data = np.frombuffer(body, np.uint8)
        return _read(path, data, elements, order)
    tokens = Tokens.of(body)
    least = sum(element.count * len(element.properties) for element in elements)
    if least > len(tokens):
        raise _short(path, "file", least, len(tokens))
    try:
        values = tokens.floats(np.arange(len(tokens)))
    except NotANumberError as error:
        raise damaged(path, f"{error.text[:40]!r} stands where a number should") from error
    return _read(path, values.view(np.uint8), [_as_double(element) for element in elements], "=")


def _as_double(element: Element) -> Element:
    """Text is read as doubles first, so all columns have that type there."""
    doubles = [Property(entry.name, "f8", "f8" if entry.count else None) for entry in element.properties]
    return Element(element.name, element.count, doubles)


def _read(path: Path, data: np.ndarray, elements: Sequence[Element], order: str) -> dict[str, Columns]:
    columns: dict[str, Columns] = {}
    place = 0
    for element in elements:
        if not element.count:
            none = np.zeros(0)
            columns[element.name] = {
                entry.name: Lists(none, none.astype(np.int64)) if entry.count else none for entry in element.properties
            }
        elif element.properties:
            columns[element.name], place = _read_element(path, data, place, element, order)
    return columns


def _short(path: Path, name: str, wanted: int, there: int) -> SmrError:
    return damaged(path, f"its header promises {wanted} numbers of the {name}, and {there} are there")


def _row_type(element: Element, shape: Sequence[int], order: str) -> np.dtype[Any]:
    """The layout of a row whose lists have the lengths `shape`."""
    fields: list[Any] = []
    lengths = iter(shape)
    for i, entry in enumerate(element.properties):
        if entry.count is None:
            fields.append((str(i), order + entry.kind))
        else:
            fields += [(f"{i}n", order + entry.count), (str(i), order + entry.kind, (next(lengths),))]
    return np.dtype(fields)


def _read_element(path: Path, data: np.ndarray, place: int, element: Element, order: str) -> tuple[Columns, int]:
    lists = [i for i, entry in enumerate(element.properties) if entry.count is not None]
    smallest = _row_type(element, [0] * len(lists), order).itemsize
    if element.count * smallest > len(data) - place:
        raise damaged(path, f"its header promises {element.count} rows of {element.name}, and it ends before")
    shape = _shape_at(path, data, place, element, order)
    row_type = _row_type(element, shape, order)
    if element.count * row_type.itemsize <= len(data) - place:
        rows = np.frombuffer(data, row_type, element.count, place)
        if all((rows[f"{i}n"] == length).all() for i, length in zip(lists, shape, strict=True)):
            return _uniform(element, rows), place + element.count * row_type.itemsize
    starts, shapes, place = _walk(path, data, place, element, order)
    return _gather(data, element, order, starts, shapes), place


def _uniform(element: Element, rows: np.ndarray) -> Columns:
    columns: Columns = {}
    for i, entry in enumerate(element.properties):
        values = _native(rows[str(i)])
        if entry.count is None:
            columns[entry.name] = values
        else:
            columns[entry.name] = Lists(values.ravel(), np.full(len(rows), values.shape[1], np.int64))
    return columns


def _native(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values, values.dtype.newbyteorder("="))


def _shape_at(path: Path, data: np.ndarray, place: int, element: Element, order: str) -> list[int]:
    """Lengths of the lists of the row that begins at `place`."""
    shape = []
    for entry in element.properties:
        size = np.dtype(entry.kind).itemsize
        if entry.count is None:
            place += size
            continue
        kind = np.dtype(order + entry.count)
        number = data[place : place + kind.itemsize]
        value = float(number.view(kind)[0]) if len(number) == kind.itemsize else -1.0
        if not 0 <= value <= len(data) - place or value != int(value):
            raise damaged(path, f"a list of {element.name} has no valid length, or the file ends before it does")
        shape.append(int(value))
        place += kind.itemsize + size * int(value)
    return shape


def _walk(path: Path, data: np.ndarray, place: int, element: Element, order: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Where each row begins and the lengths of its lists, found row by row."""
    steps: list[tuple[int, int, int]] = []  # bytes to skip, bytes of the count, bytes an entry
    skip = 0
    for entry in element.properties:
        if entry.count is None:
            skip += np.dtype(entry.kind).itemsize
        else:
            steps.append((skip, np.dtype(entry.count).itemsize, np.dtype(entry.kind).itemsize))
            skip = 0
    kinds = [np.dtype(order + entry.count) for entry in element.properties if entry.count is not None]
    raw = data.tobytes()
    little = "big" if order == ">" else "little"
    starts, shapes = np.empty(element.count, np.int64), np.empty((element.count, len(steps)), np.int64)
    for row in range(element.count):
        starts[row] = place
        for column, (before, width, size) in enumerate(steps):
            place += before
            word = raw[place : place + width]
            if kinds[column].kind == "f":
                number = float(np.frombuffer(word, kinds[column])[0]) if len(word) == width else -1.0
                length = int(number) if number == number and 0 <= number < 2**40 else -1
            else:
                length = int.from_bytes(word, little, signed=kinds[column].kind == "i")  # type: ignore[arg-type]
            place += width + size * length
            if length < 0 or place > len(raw):
                raise damaged(path, f"it ends at row {row} of {element.count} of {element.name}")
            shapes[row, column] = length
        place += skip
    if place > len(raw):
        raise damaged(path, f"it ends within the last row of {element.name}")
    return starts, shapes, place


def _gather(data: np.ndarray, element: Element, order: str, starts: np.ndarray, shapes: np.ndarray) -> Columns:
    """Columns of rows of several shapes; rows of one shape at a time."""
    flats: dict[int, np.ndarray] = {}
    offsets = np.cumsum(shapes, axis=0) - shapes
    lists = [i for i, entry in enumerate(element.properties) if entry.count is not None]
    for i, entry in enumerate(element.properties):
        length = int(shapes[:, lists.index(i)].sum()) if i in lists else len(starts)
        flats[i] = np.empty(length, np.dtype(entry.kind))
    kinds, kind_of_row = np.unique(shapes, axis=0, return_inverse=True)
    order_of_rows = np.argsort(kind_of_row.ravel(), kind="stable")
    edges = np.searchsorted(kind_of_row.ravel()[order_of_rows], np.arange(len(kinds) + 1))
    for kind, shape in enumerate(kinds):
        chosen = order_of_rows[edges[kind] : edges[kind + 1]]
        row_type = _row_type(element, shape.tolist(), order)
        windows = np.lib.stride_tricks.sliding_window_view(data, row_type.itemsize)
        rows = np.ascontiguousarray(windows[starts[chosen]]).view(row_type)[:, 0]
        for i in range(len(element.properties)):
            if i not in lists:
                flats[i][chosen] = rows[str(i)]
            elif (length := int(shape[lists.index(i)])) > 0:
                flats[i][offsets[chosen, lists.index(i)][:, None] + np.arange(length)] = rows[str(i)]
    columns: Columns = {}
    for i, entry in enumerate(element.properties):
        columns[entry.name] = Lists(flats[i], shapes[:, lists.index(i)]) if i in lists else flats[i]
    return columns
