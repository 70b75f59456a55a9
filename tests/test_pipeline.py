"""The main job end to end, on a small capture with known truth."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from smr.captures import read_capture
from smr.cli.main import main
from smr.config import CaptureConfig, CleanConfig, FusionConfig, PipelineConfig, TextureConfig
from smr.demo import DemoScene, make_capture
from smr.errors import SmrError
from smr.formats import read_mesh
from smr.formats.model import geometry
from smr.metrics import evaluate
from smr.pipeline import reconstruct
from smr.records import Mesh, TexturedMesh
from smr.tsdf import extract_mesh, fuse

SMALL = PipelineConfig(fusion=FusionConfig(voxel_size=0.006), clean=CleanConfig(vertices=6000))


@pytest.fixture(scope="module")
def scene(tmp_path_factory) -> DemoScene:
    return make_capture(tmp_path_factory.mktemp("scene with a space, 茶壶"), views=14, width=160, height=120)


@pytest.fixture(scope="module")
def result(scene, tmp_path_factory):
    folder = tmp_path_factory.mktemp("out")
    outputs = [folder / f"model{ending}" for ending in (".usdz", ".glb", ".obj", ".ply")]
    return reconstruct(scene.folder, outputs, SMALL, device="cpu")


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_model_lies_on_the_truth(scene, result):
    found = evaluate(result.model.mesh, scene.truth, seen_by=scene.capture, samples=40_000)
    assert found.accuracy.mean < 0.0015  # a quarter of a voxel
    assert found.scores[-1].f_score > 0.95  # at 5 mm


def test_the_model_is_textured_and_every_file_holds_it(result):
    assert [path.suffix for path in result.files] == [".usdz", ".glb", ".obj", ".ply"]
    assert result.model.materials[0].texture is not None
    for path in result.files:
        assert len(geometry(read_mesh(path)).faces) == len(result.model.mesh.faces)


def test_the_report_has_what_was_done(result):
    report = json.loads((result.files[0].parent / "model.smr" / "run.json").read_text())
    assert report["version"] == 1
    assert [stage["stage"] for stage in report["stages"]] == ["survey", "surface", "trim", "clean", "texture"]
    assert report["plan"]["voxel_size"] == 0.006
    assert report["agreement"]["explained"] > 0.9
    assert report["clean"]["vertices"] <= 6000


def test_the_same_command_gives_the_same_bytes_and_a_changed_option_reruns_what_depends_on_it(scene, result, tmp_path):
    again = reconstruct(scene.folder, tmp_path / "model.usdz", SMALL, device="cpu")
    assert digest(again.files[0]) == digest(result.files[0])

    changed = replace(SMALL, texture=TextureConfig(texture_size=512))
    third = reconstruct(scene.folder, tmp_path / "model.usdz", changed, device="cpu")
    assert [stage["reused"] for stage in third.report["stages"]] == [True, True, True, True, False]
    assert third.model.materials[0].texture.shape[:2] == (512, 512)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_was_stopped_again_and_again_ends_like_one_undisturbed(scene, result, tmp_path, kind):
    """The process is stopped at growing delays, so that every stage is hit; each time the same command goes on."""
    command = [
        sys.executable, "-m", "smr", "reconstruct", str(scene.folder), "--out", str(tmp_path / "model.usdz"),
        "--voxel-size", "0.006", "--vertices", "6000", "--device", "cpu",
    ]  # fmt: skip
    for attempt in range(60):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.8 + 0.25 * attempt)
        if process.poll() is not None:
            break
        process.send_signal(kind)
        code = process.wait(timeout=30)
        assert code in (-kind, 130, 0)
        if (tmp_path / "model.usdz").exists():
            assert digest(tmp_path / "model.usdz") == digest(result.files[0])
    assert process.returncode == 0
    assert digest(tmp_path / "model.usdz") == digest(result.files[0])
    left = [path.name for path in tmp_path.iterdir()]
    assert sorted(left) == ["model.smr", "model.usdz"] or kind == signal.SIGKILL


def test_a_full_disk_is_said_and_the_same_command_continues(scene, tmp_path, capsys, monkeypatch):
    import smr.run_folder as run_folder

    real = run_folder.np.savez

    def full(file, **arrays):
        raise OSError(28, "No space left on device", "clean.npz")

    command = ["reconstruct", str(scene.folder), "--out", str(tmp_path / "m.glb"), "--voxel-size", "0.008",
               "--vertices", "2000", "--device", "cpu"]  # fmt: skip
    monkeypatch.setattr(run_folder.np, "savez", full)
    assert main(command) == 1
    said = capsys.readouterr().err
    assert "no space left" in said.lower()
    assert "fix: " in said
    assert list((tmp_path / "m.smr").glob("*.npz")) == []

    monkeypatch.setattr(run_folder.np, "savez", real)
    assert main(command) == 0
    assert (tmp_path / "m.glb").exists()


def test_an_output_that_cannot_be_is_refused_before_the_work(scene, tmp_path):
    with pytest.raises(SmrError, match=r"ends in \.xyz"):
        reconstruct(scene.folder, tmp_path / "model.xyz", SMALL)
    (tmp_path / "file").write_text("")
    with pytest.raises(SmrError, match="cannot be written"):
        reconstruct(scene.folder, tmp_path / "file" / "model.usdz", SMALL)


def test_a_voxel_size_that_needs_more_memory_than_there_is_is_refused_with_one_that_fits(scene, tmp_path):
    config = replace(SMALL, fusion=FusionConfig(voxel_size=0.00002, memory=0.2))
    with pytest.raises(SmrError, match="needs about") as refused:
        reconstruct(scene.folder, tmp_path / "model.usdz", config, device="cpu")
    assert "--voxel-size" in refused.value.cure


def test_photos_too_far_apart_are_refused_with_a_true_sentence(scene, tmp_path):
    pytest.importorskip("pycolmap")
    shutil.copytree(scene.folder / "color", tmp_path / "photos")
    with pytest.raises(SmrError, match=r"(Only 2 of \d+ photos could be joined|No two of the)"):
        reconstruct(tmp_path / "photos", tmp_path / "model.usdz")


def test_depth_alone_gives_a_bare_mesh(scene, tmp_path):
    folder = tmp_path / "depth only"
    shutil.copytree(scene.folder, folder)
    cameras = json.loads((folder / "cameras.json").read_text())
    for frame in cameras["frames"]:
        del frame["color"]
    (folder / "cameras.json").write_text(json.dumps(cameras))
    result = reconstruct(folder, tmp_path / "bare.ply", SMALL, device="cpu")
    assert isinstance(result.model, Mesh)
    assert result.report["texture"] is None
    assert len(geometry(read_mesh(tmp_path / "bare.ply")).faces) == len(result.model.faces)


def test_one_damaged_photo_does_not_cost_the_run(scene, tmp_path, caplog):
    folder = tmp_path / "damaged"
    shutil.copytree(scene.folder, folder)
    photo = sorted((folder / "color").glob("*.jpg"))[5]
    data = photo.read_bytes()
    photo.write_bytes(data[: len(data) // 2] + bytes(len(data) // 2))
    result = reconstruct(folder, tmp_path / "model.glb", SMALL, device="cpu")
    assert isinstance(result.model, TexturedMesh)


def test_an_output_that_cannot_be_written_is_said_before_the_work(scene, tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "touch", lambda self, **_: (_ for _ in ()).throw(OSError(30, "Read-only file system")))
    with pytest.raises(SmrError, match="cannot be written"):
        reconstruct(scene.folder, tmp_path / "model.usdz", SMALL, work=tmp_path / "work")
    assert not (tmp_path / "work").exists()


def test_a_model_in_a_y_up_file_is_textured_again_in_its_capture(scene, result, tmp_path, capsys):
    glb = next(str(path) for path in result.files if path.suffix == ".glb")
    command = ["texture", glb, str(scene.folder), "--out", str(tmp_path / "again.ply"), "--device", "cpu", "--json"]
    assert main(command) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["texture"]["seen"] > 0.8
    again = geometry(read_mesh(tmp_path / "again.ply"))
    np.testing.assert_allclose(again.vertices.mean(0), result.model.mesh.vertices.mean(0), atol=0.01)


def test_two_frames_are_enough(scene, tmp_path):
    config = replace(SMALL, capture=replace(SMALL.capture, max_frames=2))
    model = reconstruct(scene.folder, tmp_path / "model.glb", config, device="cpu").model
    assert len(model.mesh.faces) > 100
    assert len(read_capture(scene.folder, config.capture)) == 2


@pytest.mark.data
def test_a_real_capture_whose_colour_is_not_registered(data_dir, tmp_path):
    config = PipelineConfig(
        capture=replace(SMALL.capture, every=7), fusion=FusionConfig(voxel_size=0.03), clean=CleanConfig(vertices=8000)
    )
    result = reconstruct(data_dir("seven_scenes"), tmp_path / "kitchen.usdz", config, device="cpu")
    assert result.report["agreement"]["explained"] > 0.9
    assert np.isfinite(result.model.mesh.vertices).all()


def test_interrupted_by_the_keyboard_ends_with_130(scene, tmp_path, monkeypatch, capsys):
    import smr.pipeline as pipeline

    def stop(*args, **kwargs):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)

    monkeypatch.setattr(pipeline, "bake", stop)
    code = main(["reconstruct", str(scene.folder), "--out", str(tmp_path / "m.glb"), "--voxel-size", "0.01",
                 "--vertices", "1000", "--device", "cpu"])  # fmt: skip
    assert code == 130
    assert "the same command continues" in capsys.readouterr().err


def test_masks_restrict_the_reconstruction_only_where_asked(scene, tmp_path):
    folder = tmp_path / "masked"
    shutil.copytree(scene.folder, folder)
    cameras = json.loads((folder / "cameras.json").read_text())
    (folder / "mask").mkdir()
    for index, frame in enumerate(cameras["frames"]):
        mask = np.zeros((120, 160), np.uint8)
        mask[50:70, 72:88] = 255
        Image.fromarray(mask).save(folder / "mask" / f"{index}.png")
        frame["mask"] = f"mask/{index}.png"
    (folder / "cameras.json").write_text(json.dumps(cameras))
    config = FusionConfig(voxel_size=0.006, depth_max=2.0)

    plain, said = read_capture(scene.folder), read_capture(folder)
    assert "14 photos have a mask, which is not used." in [finding.cause for finding in said.findings]
    meshes = [
        extract_mesh(fuse(capture, config, device="cpu"), config)
        for capture in (plain, said, read_capture(folder, CaptureConfig(use_masks=True)))
    ]
    assert len(meshes[0].faces) == len(meshes[1].faces)
    assert len(meshes[2].faces) < 0.8 * len(meshes[0].faces)
