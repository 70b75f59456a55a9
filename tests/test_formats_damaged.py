"""Files cut at any place and with flipped bytes: read, or refused with an SmrError; never a crash, never a hang."""

from __future__ import annotations

import random
import warnings
from pathlib import Path

import numpy as np
import pytest

from format_samples import colored_mesh, textured_mesh
from smr.errors import SmrError
from smr.formats import read_model, write_mesh
from smr.formats.model import geometry
from smr.records import Mesh

USD_ENDINGS = [".usdz", ".usdc", ".usda"]
ENDINGS = [".glb", ".gltf", ".obj", ".ply", ".stl", ".off"]
ASCII_PLY = """ply
format ascii 1.0
element vertex 4
property float x
property float y
property float z
property uchar red
property uchar green
property uchar blue
element face 3
property list uchar int vertex_indices
property list uchar float texcoord
end_header
0 0 0 1 2 3
1 0 0 4 5 6
1 1 0 7 8 9
0 1 0 1 1 1
3 0 1 2 6 0 0 1 0 1 1
4 0 1 2 3 8 0 0 1 0 1 1 0 1
3 0 2 3 0
"""


def samples(tmp_path: Path, ending: str) -> list[bytes]:
    found = []
    for name, model in (("a", colored_mesh()), ("b", textured_mesh())):
        found.append(write_mesh(model, tmp_path / f"{name}{ending}").read_bytes())
    if ending == ".ply":
        found += [ASCII_PLY.encode(), mixed_binary_ply()]
    if ending == ".stl":
        vertices = colored_mesh().vertices.astype(np.float64) + 1e6  # as text
        found.append(write_mesh(Mesh(vertices, colored_mesh().faces), tmp_path / "c.stl").read_bytes())
    return found


def mixed_binary_ply() -> bytes:
    header = (
        "ply\nformat binary_little_endian 1.0\nelement vertex 4\nproperty float x\nproperty float y\nproperty float z\n"
        "element face 2\nproperty list uchar int vertex_indices\nend_header\n"
    )
    points = np.array([(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)], "<f4").tobytes()
    polygons = b"\3" + np.array([0, 1, 2], "<i4").tobytes() + b"\4" + np.array([0, 1, 2, 3], "<i4").tobytes()
    return header.encode() + points + polygons


def try_to_read(path: Path, data: bytes) -> str:
    """The reason of the refusal; empty where a mesh came out."""
    path.write_bytes(data)
    refusal = None
    try:
        mesh = geometry(read_model(path).mesh)
    except SmrError as error:
        refusal = error
    if refusal is not None:
        assert refusal.cure
        assert path.name in refusal.cause
        return refusal.cause
    assert len(mesh.faces)
    assert np.isfinite(mesh.vertices).all()
    assert mesh.faces.min() >= 0
    assert mesh.faces.max() < len(mesh.vertices)
    return ""


@pytest.mark.parametrize("ending", ENDINGS)
def test_cut_files(tmp_path: Path, ending: str) -> None:
    for data in samples(tmp_path, ending):
        whole = try_to_read(tmp_path / f"x{ending}", data)
        assert whole == ""
        places = sorted(
            {*range(0, min(len(data), 120), 3), *range(0, len(data), max(len(data) // 40, 1)), len(data) - 1}
        )
        for place in places:
            reason = try_to_read(tmp_path / f"x{ending}", data[:place])
            if ending == ".glb" or b"binary" in data or b"\0" in data[:90]:  # their lengths are stated
                assert reason, f"cut at {place} of {len(data)}"


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("seed", range(4))
def test_flipped_bytes(tmp_path: Path, ending: str, seed: int) -> None:
    chance = random.Random(f"{seed}{ending}")
    for data in samples(tmp_path, ending):
        for _ in range(25):
            broken = bytearray(data)
            for _ in range(chance.choice([1, 1, 3, 20])):
                near_head = chance.random() < 0.5
                place = chance.randrange(min(len(data), 400) if near_head else len(data))
                broken[place] = chance.choice([0, 255, 32, 45, 57, chance.randrange(256)])
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                try_to_read(tmp_path / f"x{ending}", bytes(broken))


@pytest.mark.parametrize("ending", [".obj", ".ply", ".off", ".stl", ".gltf"])
def test_text_with_words_swapped(tmp_path: Path, ending: str) -> None:
    chance = random.Random(ending)
    words = ["-1", "0", "1e400", "nan", "-inf", "99999999999999999999", "f", "v", "//", "1//", "{", "3.5", "é", ""]
    texts = [data for data in samples(tmp_path, ending) if b"\0" not in data]
    for data in texts:
        pieces = data.decode("utf-8", "replace").split(" ")
        for _ in range(60):
            changed = list(pieces)
            for _ in range(chance.choice([1, 2, 5])):
                changed[chance.randrange(len(changed))] = chance.choice(words)
            try_to_read(tmp_path / f"x{ending}", " ".join(changed).encode())


@pytest.mark.parametrize("ending", ENDINGS)
def test_other_formats_under_a_wrong_name(tmp_path: Path, ending: str) -> None:
    for other in (*ENDINGS, ".usdz", ".usda"):
        if other != ending and {other, ending} != {".glb", ".gltf"}:
            data = write_mesh(colored_mesh(), tmp_path / f"a{other}").read_bytes()
            assert try_to_read(tmp_path / f"x{ending}", data), f"{other} as {ending}"
    for data in (b"\0" * 1000, b"\xff" * 1000, b"\n" * 1000, bytes(range(256)) * 4, b"{" * 1000, "汉".encode() * 400):
        assert try_to_read(tmp_path / f"x{ending}", data)


def broken_usd(tmp_path: Path, ending: str, seed: int) -> bytes:
    """One of our USD files, cut or with flipped bytes."""
    chance = random.Random(f"{seed}{ending}")
    data = bytearray(write_mesh(chance.choice([colored_mesh(), textured_mesh()]), tmp_path / f"a{ending}").read_bytes())
    if seed % 3 == 0:
        return bytes(data[: chance.randrange(len(data))])
    for _ in range(chance.choice([1, 3, 20])):
        near_end = chance.random() < 0.5  # there .usdc has its tables
        data[chance.randrange(len(data) - 3000 if near_end else 0, len(data))] = chance.choice([0, 255, 9, 57])
    return bytes(data)


@pytest.mark.parametrize("ending", USD_ENDINGS)
@pytest.mark.parametrize("seed", range(2))
def test_damaged_usd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, seed: int) -> None:
    monkeypatch.setattr("smr.formats.usd_read._SECONDS", 10)
    try_to_read(tmp_path / f"x{ending}", broken_usd(tmp_path, ending, seed))


@pytest.mark.slow
@pytest.mark.parametrize("ending", USD_ENDINGS)
@pytest.mark.parametrize("seed", range(2, 24))
def test_more_damaged_usd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, seed: int) -> None:
    monkeypatch.setattr("smr.formats.usd_read._SECONDS", 10)
    try_to_read(tmp_path / f"x{ending}", broken_usd(tmp_path, ending, seed))


def test_usd_that_crashes_or_hangs_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_mesh(colored_mesh(), tmp_path / "a.usdc")
    monkeypatch.setattr("smr.formats.usd_read._CHILD", "import os; os.abort()")
    with pytest.raises(SmrError, match=r"a\.usdc: USD fails on it, or needs more than 60 s or 4 GB"):
        read_model(path)
    monkeypatch.setattr("smr.formats.usd_read._CHILD", "import time; time.sleep(60)")
    monkeypatch.setattr("smr.formats.usd_read._SECONDS", 0.05)
    with pytest.raises(SmrError, match=r"does not finish reading it within 0\.5 seconds"):
        read_model(path)


def test_texts_that_are_no_usd(tmp_path: Path) -> None:
    for ending in USD_ENDINGS:
        for data in (b"\0" * 1000, b"{" * 1000, b"ply\n"):
            assert "does not begin as a USD file" in try_to_read(tmp_path / f"x{ending}", data)
