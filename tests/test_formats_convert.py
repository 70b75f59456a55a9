from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from format_samples import colored_mesh, corner_rows, picture, textured_mesh
from smr.errors import SmrError
from smr.formats import FORMATS, convert, read_mesh, read_model, write_mesh
from smr.formats.model import Y_UP_FROM, geometry
from smr.records import TexturedMesh

ENDINGS = [".usdz", ".glb", ".obj", ".ply", ".stl", ".off"]


@pytest.mark.parametrize("first", ENDINGS)
@pytest.mark.parametrize("second", [".usdz", ".glb", ".ply"])
def test_upright_stays_upright(tmp_path: Path, first: str, second: str) -> None:
    """A z-up model written as any format and converted to any other is upright where that format's up is."""
    original = colored_mesh()
    write_mesh(original, tmp_path / f"a{first}", world_up="z")
    done = convert(tmp_path / f"a{first}", tmp_path / f"b{second}")
    up = "y" if {first, second} & {".usdz", ".glb", ".gltf"} else "z"
    assert done.world_up == up
    turn = np.eye(3) if up == "z" else Y_UP_FROM["z"]
    expected = (original.vertices @ turn.T)[original.faces].reshape(-1, 9)
    found = read_model(tmp_path / f"b{second}")
    assert found.world_up == up
    np.testing.assert_array_equal(corner_rows(geometry(found.mesh)), expected.astype(np.float32))
    np.testing.assert_array_equal(corner_rows(geometry(done.mesh)), expected.astype(np.float32))


def test_files_that_state_no_axis_are_kept_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "a.obj").write_text("v 1 2 3\nv 1 2 4\nv 1 3 3\nf 1 2 3\n")
    convert(tmp_path / "a.obj", tmp_path / "a.glb")
    assert geometry(read_mesh(tmp_path / "a.glb")).vertices.tolist() == [[1, 2, 3], [1, 2, 4], [1, 3, 3]]
    convert(tmp_path / "a.obj", tmp_path / "a.glb", up="z")
    assert geometry(read_mesh(tmp_path / "a.glb")).vertices.tolist() == [[1, 3, -2], [1, 4, -2], [1, 3, -3]]
    convert(tmp_path / "a.obj", tmp_path / "a.ply", up="z")
    assert geometry(read_mesh(tmp_path / "a.ply")).vertices.tolist() == [[1, 2, 3], [1, 2, 4], [1, 3, 3]]


def test_up_corrects_a_file_that_states_the_wrong_axis(tmp_path: Path) -> None:
    write_mesh(colored_mesh(), tmp_path / "a.glb", world_up="y")  # it was z up, and its writer did not know
    convert(tmp_path / "a.glb", tmp_path / "b.glb", up="z")
    expected = colored_mesh().vertices @ Y_UP_FROM["z"].T
    np.testing.assert_array_equal(geometry(read_mesh(tmp_path / "b.glb")).vertices, expected.astype(np.float32))


def test_scale(tmp_path: Path) -> None:
    write_mesh(textured_mesh(), tmp_path / "a.obj")
    convert(tmp_path / "a.obj", tmp_path / "b.ply", scale=0.001)
    found = geometry(read_mesh(tmp_path / "b.ply")).vertices
    np.testing.assert_allclose(found, textured_mesh().mesh.vertices * 0.001, rtol=1e-6)
    for scale in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(SmrError, match="The scale is") as caught:
            convert(tmp_path / "a.obj", tmp_path / "c.ply", scale=scale)
        assert "0.001 for a file in millimetres" in caught.value.cure


def test_names_may_be_text(tmp_path: Path) -> None:
    """As people type them in Python: `smr.read_mesh("scan.ply")`."""
    assert write_mesh(colored_mesh(), str(tmp_path / "a.ply")) == tmp_path / "a.ply"
    assert convert(str(tmp_path / "a.ply"), str(tmp_path / "b.obj")).path == tmp_path / "b.obj"
    found = geometry(read_mesh(str(tmp_path / "b.obj")))
    np.testing.assert_array_equal(found.faces, geometry(read_mesh(tmp_path / "a.ply")).faces)


def test_what_the_target_cannot_hold_is_said(tmp_path: Path) -> None:
    write_mesh(textured_mesh(), tmp_path / "a.glb")
    done = convert(tmp_path / "a.glb", tmp_path / "a.stl")
    assert [finding.cause for finding in done.findings] == [
        "STL holds no textures: they are left out.",
        "STL holds no vertex normals: they are left out.",
    ]
    write_mesh(colored_mesh(), tmp_path / "c.ply")
    assert "STL holds no vertex colours" in convert(tmp_path / "c.ply", tmp_path / "c.stl").findings[0].cause
    assert not convert(tmp_path / "a.glb", tmp_path / "a.obj").findings


def test_onto_itself(tmp_path: Path) -> None:
    write_mesh(textured_mesh(1), tmp_path / "a.obj")
    convert(tmp_path / "a.obj", tmp_path / "a.obj")
    model = read_mesh(tmp_path / "a.obj")
    assert isinstance(model, TexturedMesh)
    np.testing.assert_array_equal(model.materials[0].texture, picture())


def test_unknown_target_is_refused_before_reading(tmp_path: Path) -> None:
    with pytest.raises(SmrError, match=r"b\.fbx ends in \.fbx"):
        convert(tmp_path / "missing.obj", tmp_path / "b.fbx")


def test_list_of_formats() -> None:
    endings = [ending for form in FORMATS for ending in form.endings]
    assert len(set(endings)) == len(endings)
    assert {".usdz", ".usda", ".usdc", ".usd", ".glb", ".gltf", ".obj", ".ply", ".stl", ".off"} == set(endings)


@pytest.mark.data
@pytest.mark.parametrize("second", [".usdz", ".glb", ".obj", ".ply"])
@pytest.mark.parametrize("name", ["Duck.glb", "CesiumMilkTruck.glb", "fuze.obj", "spot.obj", "far_away.obj"])
def test_real_models_there_and_back(tmp_path: Path, data_dir: Any, name: str, second: str) -> None:
    original = read_mesh(data_dir("hard_meshes") / name)
    convert(data_dir("hard_meshes") / name, tmp_path / f"b{second}")
    found = read_mesh(tmp_path / f"b{second}")
    size = float(np.ptp(geometry(original).vertices, axis=0).max())
    np.testing.assert_allclose(corner_rows(found)[:, :9], corner_rows(original)[:, :9], rtol=0, atol=1e-6 * size)
    if isinstance(original, TexturedMesh):
        np.testing.assert_allclose(corner_rows(found)[:, 9:], corner_rows(original)[:, 9:], atol=1e-6)
        assert isinstance(found, TexturedMesh)
        for ours, theirs in zip(found.materials, original.materials, strict=True):
            if theirs.texture is not None:
                np.testing.assert_array_equal(ours.texture, theirs.texture)
