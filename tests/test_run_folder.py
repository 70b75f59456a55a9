from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from smr.errors import SmrError
from smr.records import Camera, Capture, DepthMap, Frame, Material, Mesh, Photo, TexturedMesh
from smr.run_folder import KEPT, RunFolder, capture_fingerprint, fingerprint

CLASSES = (TexturedMesh, Mesh, Material)


def textured() -> TexturedMesh:
    mesh = Mesh(np.eye(3, dtype=np.float32), np.array([[0, 1, 2]], np.int32))
    image = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    return TexturedMesh(
        mesh, np.eye(3, 2, dtype=np.float32), np.array([[0, 1, 2]], np.int32), (Material("a", texture=image),)
    )


def test_a_stored_record_comes_back_equal_and_is_not_computed_again(tmp_path):
    calls = []

    def compute():
        calls.append(1)
        return textured()

    with RunFolder(tmp_path) as run:
        run.stage("texture", "k", compute, CLASSES)
    with RunFolder(tmp_path) as run:
        again = run.stage("texture", "k", compute, CLASSES)
        assert run.stages[0]["reused"]

    assert calls == [1]
    np.testing.assert_array_equal(again.mesh.vertices, np.eye(3))
    np.testing.assert_array_equal(again.materials[0].texture, textured().materials[0].texture)
    assert again.materials[0].name == "a"
    assert again.face_materials is None


@pytest.mark.parametrize("keep", [0, 1, 100, 400])
def test_a_truncated_record_is_computed_again(tmp_path, keep):
    with RunFolder(tmp_path) as run:
        run.stage("texture", "k", textured, CLASSES)
    path = tmp_path / "texture-k.npz"
    path.write_bytes(path.read_bytes()[:keep])

    with RunFolder(tmp_path) as run:
        again = run.stage("texture", "k", textured, CLASSES)

    assert not run.stages[0]["reused"]
    np.testing.assert_array_equal(again.mesh.vertices, np.eye(3))


def test_a_failing_stage_leaves_no_record(tmp_path):
    def fail():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), RunFolder(tmp_path) as run:
        run.stage("texture", "k", fail, CLASSES)
    assert [p.name for p in tmp_path.iterdir()] == ["lock"]


def test_a_folder_holds_one_run_at_a_time(tmp_path):
    with RunFolder(tmp_path), pytest.raises(SmrError, match="Another run is using"), RunFolder(tmp_path):
        pass
    with RunFolder(tmp_path):
        pass


def test_a_folder_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SmrError, match=r"cannot be made.*"), RunFolder(tmp_path / "file" / "run"):
        pass


def test_only_the_newest_records_of_a_stage_stay(tmp_path):
    with RunFolder(tmp_path) as run:
        for key in "abcdef":
            run.stage("texture", key, textured, CLASSES)
            os.utime(tmp_path / f"texture-{key}.npz", (ord(key), ord(key)))
    assert sorted(p.stem for p in tmp_path.glob("*.npz")) == ["texture-d", "texture-e", "texture-f"][-KEPT:]


@dataclass(frozen=True)
class Settings:
    size: float = 1.0
    names: tuple[str, ...] = ()


def test_a_fingerprint_tells_every_difference():
    same = fingerprint(Settings(), np.arange(3))
    assert same == fingerprint(Settings(), np.arange(3))
    others = [
        fingerprint(Settings(1.5), np.arange(3)),
        fingerprint(Settings(names=("1.0",)), np.arange(3)),
        fingerprint(Settings(), np.arange(3).astype(np.int32)),
        fingerprint(Settings(), np.arange(3)[:, None]),
        fingerprint(Settings(), np.array([0, 1, 3])),
    ]
    assert len({same, *others}) == 6


def test_a_fingerprint_is_the_same_in_every_process():
    code = "from smr.run_folder import fingerprint; print(fingerprint(('a', 1.5, None), {}))"
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1


def test_a_capture_fingerprint_follows_files_cameras_and_poses_but_not_the_folder(tmp_path):
    def capture(folder: Path, pose=None, fx=100.0) -> Capture:
        pose = np.eye(4) if pose is None else pose
        camera = Camera(4, 3, fx, 100.0, 2.0, 1.5)
        folder.mkdir(exist_ok=True)
        for name in ("c.png", "d.png"):
            (folder / name).write_bytes(b"x")
            os.utime(folder / name, ns=(1, 1))
        photo = Photo(folder / "c.png", camera, pose)
        return Capture(folder, "test", (Frame("0", photo, DepthMap(folder / "d.png", camera, pose, 1000.0)),))

    first = capture_fingerprint(capture(tmp_path / "a"))
    assert capture_fingerprint(capture(tmp_path / "b")) == first
    moved = np.eye(4)
    moved[0, 3] = 1e-6
    assert capture_fingerprint(capture(tmp_path / "a", pose=moved)) != first
    assert capture_fingerprint(capture(tmp_path / "a", fx=100.1)) != first
    changed = capture(tmp_path / "a")
    (tmp_path / "a" / "d.png").write_bytes(b"xy")
    assert capture_fingerprint(changed) != first
    assert capture_fingerprint(replace(changed, frames=())) != first
