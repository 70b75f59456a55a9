"""Machine code and NumPy read the same of an OBJ, and complain in the same words; what is kept in a cache."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from smr.errors import SmrError
from smr.formats import obj_fast, obj_read
from smr.formats.obj_cache import collect_cached
from smr.formats.obj_read import Collected, collect_obj

PATH = Path("mesh.obj")


def outcome(text: bytes, large: int) -> Collected | str:
    try:
        return collect_obj(PATH, text, large)
    except SmrError as error:
        return str(error)


def assert_same(one: Collected | str, other: Collected | str) -> None:
    if isinstance(one, str) or isinstance(other, str):
        assert one == other
        return
    for name in ("vertices", "uvs", "normals", "corners", "sizes"):
        blocks, others = getattr(one, name), getattr(other, name)
        assert len(blocks) == len(others), name
        for block, another in zip(blocks, others, strict=True):
            assert block.dtype == another.dtype
            np.testing.assert_array_equal(block, another)
            np.testing.assert_array_equal(np.signbit(block), np.signbit(another))
    assert (one.libraries, one.uses, one.counts) == (other.libraries, other.uses, other.counts)


def assert_readers_agree(text: bytes) -> None:
    assert_same(outcome(text, large=0), outcome(text, large=len(text) + 1))


FLOATS = st.one_of(
    st.floats(width=32).map(repr),
    st.floats().map(repr),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda x: f"{x:.6f}"),
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(
        [
            "1.",
            ".5",
            "-.5",
            "+3",
            "-0",
            "0.1e5",
            "1E-5",
            "1e22",
            "1e23",
            "9007199254740993",
            "1e",
            "e5",
            ".",
            "-",
            "nan",
            "0x1",
            "1_0",
            "1.2.3",
            "--1",
            "inf",
            "1e400",
            "1,5",
            "½",
            "0.00000000000000000000001",
            "123456789012345678",
            "00000000000000000000.5",
        ]
    ),
)
INDICES = st.one_of(st.integers(-4, 9).map(str), st.sampled_from(["", "+1", "1_0", "12345678901", "x", "--1", "-"]))
CORNERS = st.one_of(
    INDICES, st.lists(INDICES, min_size=2, max_size=4).map("/".join), st.sampled_from(["1/2/3", "1//2", "-1/-1/-1"])
)
WORDS = st.sampled_from(["a", "steel#2", "#x", "two", "Größe", "\u00a0"])


def line(keyword: str, words: st.SearchStrategy[str], least: int, most: int) -> st.SearchStrategy[str]:
    return st.lists(words, min_size=least, max_size=most).map(lambda found: " ".join([keyword, *found]))


LINES = st.one_of(
    line("v", FLOATS, 0, 9),
    line("vt", FLOATS, 0, 4),
    line("vn", FLOATS, 2, 4),
    line("f", CORNERS, 0, 5),
    line("usemtl", WORDS, 0, 3),
    line("mtllib", WORDS, 0, 2),
    st.sampled_from(
        ["", " ", "# v 1 2 3", "v 0 0 0", "vt 0 1", "vn 0 0 1", "f 1 2 3", "s off", "g x", "l 1 2", "vp 1 2", "V 1 2 3"]
    ),
    st.sampled_from(
        ["\tv 1\t2  3 # four", "v 1 2 3#4", "f 1 2 3 \\", "v 1 2 \\", "usemtl a # b", "  f  1   2 3 ", "usemtlx a"]
    ),
)
TEXTS = st.lists(LINES, max_size=14).flatmap(
    lambda lines: st.sampled_from(["\n", "\r\n", "\r", "\n\n", "\x0b\n"]).map(lambda end: end.join(lines))
)


@given(TEXTS)
@example("v 1 2 3\nv 1 2")
@example("#\nv 0 0 0\n#f 1")
@example("v -0 -0.0 0\nf 0 0 0")
@settings(max_examples=200, deadline=None)
def test_any_text_is_read_alike(text: str) -> None:
    assert_readers_agree(text.encode())


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=60))
@settings(max_examples=100, deadline=None)
def test_numbers_are_rounded_as_python_rounds_them(values: list[float]) -> None:
    rows = [f"v {value!r} {value:.9g} {value:.17e}" for value in values]
    found = collect_obj(PATH, "\n".join(rows).encode(), large=0)
    expected = [[float(word) for word in row.split()[1:]] for row in rows]
    np.testing.assert_array_equal(np.concatenate(found.vertices), expected)


@given(st.lists(LINES, min_size=1, max_size=40), st.integers(1, 60))
@settings(max_examples=100, deadline=None)
def test_any_blocks_are_read_alike(lines: list[str], size: int) -> None:
    """Blocks that are plain beside blocks that are not; indices count back into earlier blocks and segments."""
    text = "\n".join(lines).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(obj_read, "_BLOCK", size)
        patch.setattr(obj_fast, "_SEGMENT", 2 * size)
        assert_readers_agree(text)


@pytest.mark.parametrize("count", [3, 20_000])
def test_errors_name_the_line(count: int) -> None:
    """Also where it is deep in a file of several blocks."""
    good = b"v 0.125 1e-3 2\n" * count
    with pytest.raises(SmrError, match=rf"'x3' near line {count + 1} is not what OBJ has there"):
        collect_obj(PATH, good + b"v 1 x3 2\n" + good, large=0)
    with pytest.raises(SmrError, match=rf"'3/4' near line {count + 1} is not"):
        collect_obj(PATH, good + b"f 1/2/3/4 2 3\n" + good, large=0)


@pytest.mark.data
def test_hard_files_are_read_alike(data_dir) -> None:
    for path in sorted(data_dir("hard_meshes").glob("*.obj")):
        assert_readers_agree(path.read_bytes())


# The cache

TEXT = b"mtllib a.mtl\nv 0 0 0\nv 1 0 0 1 0 0\nv 0 1 0\nvt 0 0\nvn 0 0 1\nusemtl red\nf 1/1/1 2 3\nf 1 2 3\n"


@given(TEXTS)
@settings(max_examples=60, deadline=None)
def test_a_cache_gives_what_was_read(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.mktemp("cache")
    data = text.encode()
    expected = outcome(data, 1 << 40)
    for _ in range(2):
        try:
            found: Collected | str = collect_cached(PATH, data, folder)
        except SmrError as error:
            found = str(error)
        if isinstance(found, Collected) and isinstance(expected, Collected):
            found.corners = [np.concatenate(found.corners)] if found.corners else []
            found.sizes = [np.concatenate(found.sizes)] if found.sizes else []
            expected.corners = [np.concatenate(expected.corners)] if expected.corners else []
            expected.sizes = [np.concatenate(expected.sizes)] if expected.sizes else []
        assert_same(found, expected)


def test_the_second_time_nothing_is_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = collect_cached(PATH, TEXT, tmp_path)
    (kept,) = tmp_path.iterdir()
    monkeypatch.setattr("smr.formats.obj_cache.collect_obj", None)
    assert_same(collect_cached(PATH, TEXT, tmp_path), first)
    assert list(tmp_path.iterdir()) == [kept]


def test_another_content_is_read_anew(tmp_path: Path) -> None:
    collect_cached(PATH, TEXT, tmp_path)
    other = collect_cached(PATH, TEXT.replace(b"0 1 0", b"0 2 0"), tmp_path)
    assert other.vertices[0][2, 1] == 2
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "text", "other", "pickle"])
def test_a_damaged_cache_is_ignored(tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    expected = collect_cached(PATH, TEXT, tmp_path)
    (kept,) = tmp_path.iterdir()
    data = bytearray(kept.read_bytes())
    if damage == "empty":
        data = bytearray()
    elif damage == "cut":
        data = data[: len(data) // 2]
    elif damage == "flipped":
        data[data.index(np.float64(1.0).tobytes())] ^= 1
    elif damage == "text":
        data = bytearray(b"hello")
    elif damage == "other":
        collect_cached(PATH, TEXT + b"v 5 5 5\n", tmp_path)
        data = bytearray(next(path for path in tmp_path.iterdir() if path != kept).read_bytes())
    if damage == "pickle":
        np.savez(kept, about=np.array([{"key": kept.stem}], dtype=object))
    else:
        kept.write_bytes(data)
    with caplog.at_level(logging.INFO):
        assert_same(collect_cached(PATH, TEXT, tmp_path), expected)
    assert "is of no use" in caplog.text
    assert_same(collect_cached(PATH, TEXT, tmp_path), expected)


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "file"
    folder.write_text("in the way")
    with caplog.at_level(logging.INFO):
        assert len(collect_cached(PATH, TEXT, folder).sizes[0]) == 2
    assert "nothing is kept" in caplog.text
