from __future__ import annotations

import math
import random
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smr.formats.polygons import triangulate
from smr.formats.text import NotANumberError, Tokens

FORMS = ["%.6f", "%.9g", "%.17g", "%g", "%e", "%.3f", "%+.8f"]


@given(st.lists(st.tuples(st.floats(allow_nan=False, width=64), st.sampled_from(FORMS)), min_size=1, max_size=40))
@settings(max_examples=200, deadline=None)
def test_numbers_are_read_as_python_reads_them(numbers: list[tuple[float, str]]) -> None:
    words = [form % number for number, form in numbers]
    tokens = Tokens.of(" ".join(words).encode())
    assert tokens.floats(np.arange(len(words))).tolist() == [float(word) for word in words]


@given(st.lists(st.integers(-(10**15), 10**15), min_size=1, max_size=60))
@settings(max_examples=100, deadline=None)
def test_whole_numbers(numbers: list[int]) -> None:
    tokens = Tokens.of("\n".join(map(str, numbers)).encode())
    assert tokens.ints(np.arange(len(numbers))).tolist() == numbers


def test_every_short_decimal_is_exact() -> None:
    random.seed(3)
    words = [f"{random.randrange(10**n)}.{random.randrange(10**m):0{m}d}" for n in range(1, 9) for m in range(1, 11)]
    words += [".5", "-.25", "3.", "+7", "-0", "0.0000000000000001", "9007199254740993", "99999999.99999999"]
    values = Tokens.of(" ".join(words).encode()).floats(np.arange(len(words)))
    assert [struct.pack("d", value) for value in values] == [struct.pack("d", float(word)) for word in words]


def test_words_that_are_numbers_too() -> None:
    values = Tokens.of(b"nan inf -Infinity 1e-3").floats(np.arange(4))
    assert math.isnan(values[0])
    assert values[1:].tolist() == [math.inf, -math.inf, 1e-3]


@pytest.mark.parametrize("word", ["1.2.3", "-", ".", "1-2", "abc", "1,5", "--1", "1_0", "e5", "1:2", "0x10", "1;", "٣"])
def test_words_that_are_no_numbers(word: str) -> None:
    with pytest.raises(NotANumberError, match="is not a number") as caught:
        Tokens.of(f"1 2 {word}".encode()).floats(np.arange(3))
    assert caught.value.token == 2
    assert caught.value.text == word


def area(points: np.ndarray, triangles: np.ndarray) -> float:
    a, b, c = (points[triangles[:, i]] for i in range(3))
    return float(np.cross(b - a, c - a)[:, 2].sum() / 2)


def shoelace(points: np.ndarray) -> float:
    x, y = points[:, 0], points[:, 1]
    return float((x * np.roll(y, -1) - np.roll(x, -1) * y).sum() / 2)


def signed_areas(points: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    a, b, c = (points[triangles[:, i]] for i in range(3))
    return np.cross(b - a, c - a)[:, 2]


@pytest.mark.parametrize(
    "outline",
    [
        [(0, 0), (4, 0), (4, 4), (0, 4)],
        [(0, 0), (2, 1), (4, 0), (2, 4)],  # an arrow head: corner 1 turns inwards
        [(2, 4), (0, 0), (2, 1), (4, 0)],
        [(0, 0), (4, 0), (4, 4), (2, 1), (0, 4)],
        [(0, 0), (6, 0), (6, 4), (5, 4), (5, 1), (4, 1), (4, 4), (3, 4), (3, 1), (1, 1), (1, 4), (0, 4)],  # a comb
        [(0, 0), (3, 0), (3, 3), (1, 3), (1, 2), (2, 2), (2, 1), (0, 1)],
    ],
)
@pytest.mark.parametrize("mirrored", [False, True])
def test_concave_polygons_are_covered_once(outline: list[tuple[float, float]], mirrored: bool) -> None:
    points = np.array([(x, y, 0.0) for x, y in outline])
    if mirrored:
        points = points[::-1].copy()
    count = len(points)
    corners, polygon, refused = triangulate(points, np.arange(count), np.array([count]))
    assert len(corners) == count - 2
    assert refused == 0
    assert (polygon == 0).all()
    areas = signed_areas(points, corners)
    sign = -1.0 if mirrored else 1.0
    assert (areas * sign > 0).all()  # none is turned over, so none overlaps: the areas add up
    assert area(points, corners) == pytest.approx(shoelace(points))


@given(st.integers(5, 80), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_star_shaped_polygons_in_any_plane(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    angle = np.sort(rng.random(count)) * 2 * np.pi
    radius = rng.uniform(0.2, 1.0, count)
    flat = np.stack([radius * np.cos(angle), radius * np.sin(angle), np.zeros(count)], axis=1)
    if (np.diff(np.append(angle, angle[0] + 2 * np.pi)) > 3.0).any():
        return  # does not go round its centre
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    corners, _, refused = triangulate(flat @ turn.T, np.arange(count), np.array([count]))
    assert refused == 0
    assert area(flat, corners) == pytest.approx(shoelace(flat))
    assert (signed_areas(flat, corners) > -1e-12).all()


def test_polygons_of_mixed_sizes_keep_their_order() -> None:
    points = np.random.default_rng(0).random((9, 3))
    loops = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 2, 3, 4])
    corners, polygon, _ = triangulate(points, loops, np.array([3, 4, 2, 5]))
    assert polygon.tolist() == [0, 1, 1, 3, 3, 3]
    assert corners[0].tolist() == [0, 1, 2]
    assert set(corners[1:3].ravel()) == {3, 4, 5, 6}
    assert set(corners[3:].ravel()) == {9, 10, 11, 12, 13}


def test_a_huge_concave_polygon_ends_as_a_fan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smr.formats.polygons._TESTS", 100_000)
    count = 1000
    x = np.arange(count) * 1.0
    outline = np.stack([x, (np.arange(count) % 2) * 0.5, np.zeros(count)], axis=1)
    outline = np.concatenate([outline, [[count, 9.0, 0.0], [0.0, 9.0, 0.0]]])
    corners, _, refused = triangulate(outline, np.arange(len(outline)), np.array([len(outline)]))
    assert len(corners) == len(outline) - 2
    assert refused == 1
