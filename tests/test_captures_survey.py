"""Surveys: what is measured, and what is found wrong, on captures with known faults."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import capture_writers as writers
from smr.captures import SURVEY_RECORDS, Survey, read_capture, survey
from smr.captures.consistency import POSE_FIXES, Hypothesis, View, agreement, best_hypothesis, fixed_pose
from smr.captures.depth_quality import flying_pixels, plane_noise, quantisation, sharpness
from smr.config import CaptureConfig
from smr.records import Camera
from smr.run_folder import RunFolder


def said(seen: Survey) -> str:
    return " ".join(f"{finding.cause} {finding.cure}" for finding in seen.findings)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    folder = tmp_path_factory.mktemp("good")
    writers.write_cameras_json(folder)
    return survey(read_capture(folder))


def test_a_good_capture_has_no_findings(good: Survey) -> None:
    assert good.findings == ()
    assert (good.frames, good.photos, good.depth_maps) == (8, 8, 8)
    assert good.depth_size == (96, 72)
    assert good.agreement > 0.3  # frames 15 degrees apart; the rest is hidden or outside


def test_measures_are_those_of_the_scene(good: Survey) -> None:
    depths = np.concatenate([shot.depth[shot.depth > 0] for shot in writers.shots()])
    assert good.depth_percentiles[2] == pytest.approx(np.median(depths), rel=0.02)
    assert good.valid_depth == pytest.approx(np.mean([(shot.depth > 0).mean() for shot in writers.shots()]), abs=1e-3)
    assert good.ground_sample_distance == pytest.approx(np.median(depths) / 80, rel=0.02)
    assert good.extent is not None
    low, high = good.extent
    assert np.abs(np.array(low[:2])).max() < writers.FLOOR
    assert low[2] == pytest.approx(0, abs=2e-3)
    assert 0.4 < high[2] < 0.61  # the sphere's top
    assert good.world_up == "z"
    assert good.world_up_estimated
    assert (writers.surface_distance(good.points) < 1e-3).all()
    np.testing.assert_allclose(np.linalg.norm(good.rays, axis=1), 1, atol=1e-5)


def test_a_survey_is_json_and_a_record(good: Survey, tmp_path: Path) -> None:
    document = json.loads(json.dumps(good.as_dict()))
    assert document["world_up"] == "z"
    with RunFolder(tmp_path) as run:
        run.stage("survey", "k", lambda: good, SURVEY_RECORDS)
        back = run.stage("survey", "k", lambda: pytest.fail("not stored"), SURVEY_RECORDS)
    assert back.as_dict() == good.as_dict()


@pytest.mark.parametrize(
    ("given", "factor", "words"),
    [
        (10.0, 1000, r"1000 times too far; 10000 would agree .*--depth-scale 10000"),
        (1e7, 1 / 1000, r"1000 times too near; 10000 would agree .*--depth-scale 10000"),
        (50000.0, 0.2, r"5 times too near; 10000 would agree"),
    ],
)
def test_a_wrong_depth_scale_is_found(tmp_path: Path, given: float, factor: float, words: str) -> None:
    writers.write_cameras_json(tmp_path)
    seen = survey(read_capture(tmp_path, CaptureConfig(depth_scale=given)))
    assert seen.findings[0].severity == "error"
    assert re.search(words, said(seen)), said(seen)


@pytest.mark.parametrize("fix", [fix for fix in POSE_FIXES if fix != "none"])
def test_poses_of_another_convention_are_found_and_can_be_fixed(tmp_path: Path, fix: str) -> None:
    """Given poses that need a fix, then the survey names it, and with it there is nothing to say."""
    writers.write_cameras_json(tmp_path)
    document = json.loads((tmp_path / "cameras.json").read_text())
    for frame in document["frames"]:
        pose = np.array(frame["camera_to_world"])
        frame["camera_to_world"] = _broken(pose, fix).tolist()
    (tmp_path / "cameras.json").write_text(json.dumps(document))

    seen = survey(read_capture(tmp_path))
    fixed = survey(read_capture(tmp_path, CaptureConfig(pose_fix=fix)))  # type: ignore[arg-type]

    assert f"Give --pose-fix {fix}." in said(seen)
    assert fixed.findings == ()


def _broken(pose: np.ndarray, fix: str) -> np.ndarray:
    """What a file would hold if its poses needed this fix; each fix undoes itself but one."""
    if fix == "world_to_camera_opengl":
        return np.diag([1.0, -1, -1, 1]) @ np.linalg.inv(pose)
    return fixed_pose(pose, fix)


@pytest.mark.parametrize("fix", POSE_FIXES)
def test_pose_fixes_undo_what_was_wrong(fix: str) -> None:
    pose = writers.poses()[3]
    np.testing.assert_allclose(fixed_pose(_broken(pose, fix), fix), pose, atol=1e-12)


def test_a_right_reading_is_never_called_wrong(good: Survey) -> None:
    """On exact depth no other reading agrees better than the plain one."""
    views = [View(str(s.index), s.depth.astype(np.float32), writers.DEPTH_CAMERA, s.world_from_camera)
             for s in writers.shots()]  # fmt: skip
    pairs = list(pairwise(views))
    best, score = best_hypothesis(pairs, [0.001, 0.1, 0.2, 5.0, 10.0, 1000.0])
    assert best == Hypothesis("none", 1.0)
    assert score == agreement(pairs, best)


def test_frames_without_overlap(tmp_path: Path) -> None:
    writers.write_cameras_json(tmp_path)
    document = json.loads((tmp_path / "cameras.json").read_text())
    for i, frame in enumerate(document["frames"]):
        frame["camera_to_world"][0][3] += 50.0 * i
    (tmp_path / "cameras.json").write_text(json.dumps(document))
    assert "Frames do not overlap, or their poses are wrong: only 0.0%" in said(survey(read_capture(tmp_path)))


def test_frames_far_apart_do_not_make_the_unit_wrong(tmp_path: Path) -> None:
    """From 200 m further the same image would fit a scene 1000 times larger; nobody scans at that range."""
    writers.write_cameras_json(tmp_path)
    document = json.loads((tmp_path / "cameras.json").read_text())
    first = np.array(document["frames"][0]["camera_to_world"])
    for i, frame in enumerate(document["frames"]):
        moved = first.copy()
        moved[0, 3] += 200.0 * i
        frame["camera_to_world"] = moved.tolist()
        frame["depth"] = document["frames"][0]["depth"]
    (tmp_path / "cameras.json").write_text(json.dumps(document))
    seen = said(survey(read_capture(tmp_path)))
    assert "Frames do not overlap, or their poses are wrong: only 0.0%" in seen
    assert "depth scale" not in seen


def test_two_frames_only(tmp_path: Path) -> None:
    writers.write_cameras_json(tmp_path)
    seen = survey(read_capture(tmp_path, CaptureConfig(max_frames=2)))
    assert "There are only two frames" in said(seen)
    assert "There is only one frame" in said(survey(read_capture(tmp_path, CaptureConfig(max_frames=1))))


def test_a_camera_that_never_moved(tmp_path: Path) -> None:
    writers.write_cameras_json(tmp_path)
    document = json.loads((tmp_path / "cameras.json").read_text())
    for frame in document["frames"]:
        frame["camera_to_world"] = document["frames"][0]["camera_to_world"]
    (tmp_path / "cameras.json").write_text(json.dumps(document))
    assert "All 8 poses are the same" in said(survey(read_capture(tmp_path)))


def test_photos_only(tmp_path: Path) -> None:
    Image.new("RGB", (64, 48)).save(tmp_path / "a.png")
    seen = survey(read_capture(tmp_path))
    assert "have no depth" in said(seen)
    assert "No frame has a pose" in said(seen)
    assert seen.extent is None


def test_depth_of_8_bits(tmp_path: Path) -> None:
    writers.write_cameras_json(tmp_path)
    for path in (tmp_path / "depth").iterdir():
        Image.fromarray((np.asarray(Image.open(path)) // 100).astype(np.uint8)).save(path)
    assert "Depth has only 8 bits" in said(survey(read_capture(tmp_path, CaptureConfig(depth_scale=100.0))))


def test_depth_of_12_bits(tmp_path: Path) -> None:
    """Twelve bits shifted up are multiples of 16; twelve bits at 0.5 mm are clipped at 4095."""
    writers.write_cameras_json(tmp_path)
    stored = {path: np.asarray(Image.open(path)) for path in (tmp_path / "depth").iterdir()}
    for path, values in stored.items():
        Image.fromarray((values // 1000 * 1000).astype(np.uint16)).save(path)
    assert "quantised in steps of 100 mm" in said(survey(read_capture(tmp_path)))
    for path, values in stored.items():
        Image.fromarray(np.minimum(values // 5, 4095).astype(np.uint16)).save(path)
    assert "has the largest value, 4095: it was clipped to 12 bits" in said(
        survey(read_capture(tmp_path, CaptureConfig(depth_scale=2000.0)))
    )


def test_a_frame_that_breaks_only_when_decoded(tmp_path: Path) -> None:
    writers.write_cameras_json(tmp_path)
    path = tmp_path / "depth/0003.png"
    content = bytearray(path.read_bytes())
    middle = content.index(b"IDAT") + 40
    content[middle : middle + 20] = bytes(20)
    path.write_bytes(content)
    seen = survey(read_capture(tmp_path))
    assert "1 of 8 sampled frames cannot be decoded: color/0003.png" in said(seen)
    assert "0003.png cannot be decoded" in said(seen)


def test_no_frame_can_be_decoded(tmp_path: Path) -> None:
    """The finding has the files' own cure, and is an error."""
    writers.write_cameras_json(tmp_path)
    for path in (tmp_path / "depth").iterdir():
        Image.new("RGB", (96, 72)).save(path)
    finding = survey(read_capture(tmp_path)).findings[0]
    assert finding.severity == "error"
    assert "8 of 8 sampled frames cannot be decoded" in finding.cause
    assert "has mode RGB, not one channel of depth" in finding.cause
    assert finding.cure == "Export depth as 16-bit PNG, float TIFF, EXR or NPY."


def test_little_depth(tmp_path: Path) -> None:
    writers.write_cameras_json(tmp_path)
    for path in (tmp_path / "depth").iterdir():
        values = np.asarray(Image.open(path)).copy()
        values[:, 15:] = 0
        Image.fromarray(values).save(path)
    assert "of the pixels have depth" in said(survey(read_capture(tmp_path)))


def test_blurred_photos_are_named(tmp_path: Path) -> None:
    from PIL import ImageFilter

    writers.write_cameras_json(tmp_path)
    path = tmp_path / "color/0005.png"
    Image.open(path).filter(ImageFilter.GaussianBlur(4)).save(path)
    seen = survey(read_capture(tmp_path))
    assert seen.blurred == ("color/0005.png",)
    assert "1 of 8 sampled photos are blurred: color/0005.png" in said(seen)


def test_varying_exposure(tmp_path: Path) -> None:
    writers.write_cameras_json(tmp_path)
    for i, path in enumerate(sorted((tmp_path / "color").iterdir())):
        pixels = np.asarray(Image.open(path)).astype(float) * (0.6 if i % 2 else 1.0)
        Image.fromarray(pixels.astype(np.uint8)).save(path)
    seen = survey(read_capture(tmp_path))
    assert seen.exposure_spread is not None
    assert 0.4 < seen.exposure_spread < 1.5
    assert "Exposure varies by" in said(seen)


def test_noise_is_measured() -> None:
    """A slanted plane with known noise along z."""
    camera = Camera(320, 240, 280.0, 280.0, 160.0, 120.0)
    rays = writers.pixel_directions(camera)
    normal = np.array([0.3, -0.2, 1.0])
    depth = 1.5 / (rays @ normal)
    rng = np.random.default_rng(0)
    noisy = (depth + rng.normal(0, 0.003, depth.shape)).astype(np.float32)
    assert np.median(plane_noise(noisy, rng).noise) == pytest.approx(0.003, rel=0.05)
    assert np.median(plane_noise(depth.astype(np.float32), rng).noise) < 1e-6


def test_flying_pixels_are_those_between_surfaces() -> None:
    depth = np.full((20, 30), 2.0, np.float32)
    depth[:, :10] = 1.0
    depth[5:9, 10] = 1.4
    depth[0, 20] = 0.0
    expected = np.zeros(depth.shape, dtype=bool)
    expected[5:9, 10] = True
    np.testing.assert_array_equal(flying_pixels(depth), expected)


def test_quantisation() -> None:
    assert quantisation(np.array([[0, 16, 48, 65535]], np.uint16)) == (16, 0.5)
    assert quantisation(np.array([[0.5, 1.0]], np.float32)) == (0, 0.0)
    assert quantisation(np.zeros((2, 2), np.uint16)) == (0, 0.0)


def test_sharpness_does_not_depend_on_contrast() -> None:
    image = np.random.default_rng(0).random((40, 40)).astype(np.float32) * 100
    assert sharpness(image) == pytest.approx(sharpness(image * 2 + 10), rel=1e-4)


def _without(source: Path, folder: Path, left_out: set[str]) -> Path:
    folder.mkdir()
    for path in source.iterdir():
        if path.name not in left_out:
            (folder / path.name).symlink_to(path)
    return folder


@pytest.mark.data
def test_unregistered_color_is_found_with_its_size(data_dir: Callable[[str], Path], tmp_path: Path) -> None:
    """seven_scenes without its calibration: 20 to 40 pixels; with it: none."""
    source = data_dir("seven_scenes")
    folder = _without(source, tmp_path / "bare", {"color_calibration_estimate.json", "cameras.json"})

    bare = survey(read_capture(folder))
    assert bare.color_offset is not None
    assert 15 < bare.color_offset.pixels < 45
    assert bare.color_offset.scale == pytest.approx(526.8 / 585, abs=0.02)
    assert "Colour is not registered to depth: edges lie about" in said(bare)

    calibrated = survey(read_capture(source))
    assert calibrated.color_offset is not None
    assert calibrated.color_offset.pixels <= 4
    assert "not registered" not in said(calibrated)


@pytest.mark.data
@pytest.mark.parametrize(
    "name",
    [
        "real_room_five",
        "icl_nuim_four",
        "synthetic_noisy",
        pytest.param("living_room", marks=pytest.mark.slow),
        pytest.param("synthetic_object", marks=pytest.mark.slow),
        pytest.param("synthetic_thin", marks=pytest.mark.slow),
    ],
)
def test_registered_captures_raise_no_alarm(data_dir: Callable[[str], Path], name: str) -> None:
    seen = survey(read_capture(data_dir(name)))
    assert [finding.cause for finding in seen.findings if finding.severity != "note"] == []
    assert seen.world_up == {"real_room_five": "y", "living_room": "-y", "icl_nuim_four": "-y"}.get(name, "z")
