"""From photos alone to files: the whole way, at a small size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from photo_scenes import corner, write_photos
from smr.config import CleanConfig, MvsConfig, PipelineConfig, TextureConfig
from smr.errors import SmrError
from smr.inspection import inspect
from smr.pipeline import reconstruct

pytest.importorskip("pycolmap")
SMALL = PipelineConfig(
    mvs=MvsConfig(quality="preview", depth_size=240),
    clean=CleanConfig(vertices=5000),
    texture=TextureConfig(texture_size=256, align_photos=False),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The folder of photos, the folder of results, and the result."""
    folder = tmp_path_factory.mktemp("corner")
    photos = write_photos(folder / "photos", corner(5))
    result = reconstruct(photos, [folder / "model.ply", folder / "model.glb"], SMALL, device="cpu")
    return photos, folder, result


def test_two_walls_meet_at_their_angle(made: Any) -> None:
    _, _, result = made
    mesh = result.model.mesh
    vertices = np.asarray(mesh.vertices, np.float64)
    corners = vertices[mesh.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    areas = np.linalg.norm(normals, axis=1)
    normals /= np.maximum(areas, 1e-12)[:, None]
    heading = np.degrees(np.arctan2(normals[:, 1], normals[:, 0]))
    upright = np.abs(normals[:, 2]) < 0.2
    assert areas[upright].sum() > 0.9 * areas.sum()  # walls, and up is up
    middle = np.average(heading[upright], weights=areas[upright])
    left, right = (heading[upright & ((heading > middle) == side)] for side in (False, True))
    assert np.median(right) - np.median(left) == pytest.approx(2 * np.degrees(0.5), abs=3)


def test_the_report_tells_poses_scale_stereo_and_support(made: Any) -> None:
    _, folder, result = made
    report = json.loads((folder / "model.smr" / "run.json").read_text())
    assert report == json.loads(json.dumps(result.report))
    assert (report["poses"]["registered"], report["poses"]["photos"]) == (5, 5)
    assert report["poses"]["scale"] == "arbitrary"
    assert report["survey"]["depth_maps"] == 5
    assert report["support"]["median_views"] >= 2
    assert [stage["stage"] for stage in report["stages"]][:3] == ["poses", "depths", "survey"]


def test_the_files_say_that_the_scale_is_arbitrary(made: Any) -> None:
    _, folder, _ = made
    assert b"comment The scale is arbitrary" in (folder / "model.ply").read_bytes()[:2000]
    assert b"The scale is arbitrary" in (folder / "model.glb").read_bytes()


def test_the_same_command_again_reuses_everything(made: Any) -> None:
    photos, folder, first = made
    again = reconstruct(photos, folder / "model.ply", SMALL, device="cpu")
    reused = {stage["stage"]: stage["reused"] for stage in again.report["stages"] if stage["stage"] != "depths"}
    assert all(reused.values()), reused
    np.testing.assert_array_equal(again.model.mesh.vertices, first.model.mesh.vertices)


def test_inspecting_photos(made: Any) -> None:
    photos, _, _ = made
    found = inspect(photos)
    assert found.refusal is None
    assert found.photos is not None
    assert (found.photos.photos, found.photos.pairs, found.photos.foreign) == (5, 10, ())
    assert not [finding for finding in found.findings if finding.severity == "error"]
    assert json.loads(json.dumps(found.as_dict()))["photos"]["overlapping"] >= 4


def test_inspecting_one_photo(tmp_path: Path) -> None:
    found = inspect(write_photos(tmp_path, corner(1)))
    assert isinstance(found.refusal, SmrError)
