"""Poses from photos: against the truth on real and synthetic photos, and in words where there are none."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageFilter

from photo_scenes import corner, photo_of_wall, rotation, texture, write_photos
from smr import sfm
from smr.captures import read_capture
from smr.config import CaptureConfig, SfmConfig
from smr.errors import SmrError
from smr.records import Camera, Capture, DepthMap, Frame, Photo
from smr.sfm import parallax, words, world
from smr.sfm.job import Answer, Matched
from smr.sfm.process import _lines

pytest.importorskip("pycolmap")


def write(folder: Path, photos: list[Image.Image]) -> Capture:
    return read_capture(write_photos(folder, photos))


def test_no_photo_and_one_photo(tmp_path: Path) -> None:
    capture = write(tmp_path / "a", [texture(size=200)])
    with pytest.raises(
        SmrError, match=r"There is only one photo in .*; a surface needs at least two.*\n  fix: Take 20"
    ):
        sfm.find_poses(capture, SfmConfig(), folder=tmp_path)
    with pytest.raises(SmrError, match="There is no photo"):
        sfm.find_poses(replace(capture, frames=()), SfmConfig(), folder=tmp_path)


def test_one_photo_twice(tmp_path: Path) -> None:
    capture = write(tmp_path / "a", [texture(size=400)] * 2)
    with pytest.raises(SmrError, match=r"00\.png and 01\.png are one photo twice"):
        sfm.find_poses(capture, SfmConfig(), folder=tmp_path)


def test_photos_of_different_things(tmp_path: Path) -> None:
    capture = write(tmp_path / "a", [texture(i, 400) for i in range(3)])
    with pytest.raises(SmrError, match=r"No two of the 3 photos show enough .*\n  fix: They show different things"):
        sfm.find_poses(capture, SfmConfig(), folder=tmp_path)


def test_blurred_photos(tmp_path: Path) -> None:
    wall = texture()
    photos = [photo_of_wall(wall, rotation(1, a), np.array([0, 0, 2.0])) for a in (0.0, 0.1, 0.2)]
    capture = write(tmp_path / "a", [photo.filter(ImageFilter.GaussianBlur(15)) for photo in photos])
    with pytest.raises(SmrError, match=r"3 of 3 photos have almost nothing .*blurred.*\n  fix: Hold the camera still"):
        sfm.find_poses(capture, SfmConfig(), folder=tmp_path)


def test_a_camera_that_only_turns(tmp_path: Path) -> None:
    wall = texture()
    turns = [rotation(1, a) @ rotation(0, 0.5 * a * a) for a in np.linspace(-0.3, 0.3, 5)]
    capture = write(tmp_path / "a", [photo_of_wall(wall, R, R @ np.array([0, 0, 1.6])) for R in turns])
    with pytest.raises(SmrError, match=r"The camera only turned on the spot.*\n  fix: Walk around"):
        sfm.find_poses(capture, SfmConfig(), folder=tmp_path)


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Capture, Capture, sfm.SfmReport]]:
    """Six photos of a corner, one of something else; the work folder, what was given, what was found."""
    folder = tmp_path_factory.mktemp("walked")
    given = write(folder / "photos", [*corner(6), texture(9, 400)])
    solved, report = sfm.find_poses(given, SfmConfig(), folder=folder / "work")
    return folder / "work", given, solved, report


def test_a_foreign_photo_is_left_out_and_named(walked: Any) -> None:
    _, _, solved, report = walked
    assert report.kept == (0, 1, 2, 3, 4, 5)
    assert [photo.name for photo in report.left_out] == ["06.png"]
    assert "shows nothing that the photos with a pose show" in report.left_out[0].reason
    assert any("1 of 7 photos has no pose and is left out: 06.png" in finding.cause for finding in solved.findings)
    assert report.reprojection_px < 0.5


def test_the_world_is_upright_and_its_scale_said_to_be_arbitrary(walked: Any) -> None:
    _, _, solved, report = walked
    assert (solved.world_up, report.scale, report.metric) == ("z", "arbitrary", False)
    assert "The scale is arbitrary" in report.scale_words
    down = np.array([frame.photo.world_from_camera[:3, 1] for frame in solved.frames])
    np.testing.assert_allclose(down.mean(axis=0), [0, 0, -1], atol=0.05)
    points = report.points.positions
    np.testing.assert_allclose(np.median(points, axis=0), 0, atol=0.05)
    depth = [
        ((points[seen] - pose[:3, 3]) @ pose[:3, 2])
        for pose, seen in zip(report.poses, report.points.seen(6), strict=True)
    ]
    assert np.median(np.concatenate(depth)) == pytest.approx(1.0)


def test_points_project_to_where_they_were_seen(walked: Any) -> None:
    _, _, _, report = walked
    points = report.points
    camera, poses = report.cameras[0], np.linalg.inv(report.poses)
    at = np.einsum("nij,nj->ni", poses[points.track_frames, :3, :3], points.positions[points.track_points])
    at += poses[points.track_frames, :3, 3]
    from smr.captures.undistort import distort

    u, v = (
        distort(camera, at[:, :2] / at[:, 2:])
        if camera.model != "pinhole"
        else (
            camera.fx * at[:, 0] / at[:, 2] + camera.cx,
            camera.fy * at[:, 1] / at[:, 2] + camera.cy,
        )
    )
    off = np.linalg.norm(np.stack([u, v], axis=1) - points.track_xy, axis=1)
    assert off.mean() == pytest.approx(report.reprojection_px, rel=0.2)
    assert np.median(off) < 0.4


def test_the_same_again_is_the_same_and_uses_what_is_kept(walked: Any) -> None:
    folder, given, _, report = walked
    before = (folder / "sfm" / "database.db").stat().st_size
    said: list[tuple[str, int | None]] = []

    def track(items: Any, label: str, total: int | None = None) -> Any:
        said.append((label, total))
        return items

    _, again = sfm.find_poses(given, SfmConfig(), folder=folder, track=track)

    np.testing.assert_array_equal(again.poses, report.poses)
    np.testing.assert_array_equal(again.points.positions, report.points.positions)
    assert (folder / "sfm" / "database.db").stat().st_size == before
    assert ("finding features", 7) in said
    assert ("comparing photos", 21) in said


def test_a_distance_between_cameras_sets_the_scale(walked: Any) -> None:
    folder, given, _, _ = walked
    config = SfmConfig(scale_ref=("00.png", "05", "0.25"))
    _, report = sfm.find_poses(given, config, folder=folder)
    assert np.linalg.norm(report.poses[0, :3, 3] - report.poses[5, :3, 3]) == pytest.approx(0.25)
    assert (report.scale, report.metric) == ("--scale-ref", True)
    assert "0.25 m between the cameras of 00.png and 05" in report.scale_words


def test_a_distance_between_two_points_sets_the_scale(walked: Any) -> None:
    _, given, _, report = walked
    points = report.points
    both = np.flatnonzero(np.bincount(points.track_points, np.isin(points.track_frames, (0, 5))) == 2)
    a, b = both[0], both[-1]
    length = float(np.linalg.norm(points.positions[a] - points.positions[b]))

    def pixel(point: int, frame: int) -> list[str]:
        here = (points.track_points == point) & (points.track_frames == frame)
        return [str(value) for value in points.track_xy[here][0]]

    words = ("00.png", *pixel(a, 0), *pixel(b, 0), "05.png", *pixel(a, 5), *pixel(b, 5), str(3 * length))
    frames = [given.frames[i] for i in report.kept]
    scale = world.find_scale(
        frames, report.poses, report.cameras, (np.zeros(0), np.zeros(0), np.zeros((0, 2))), np.zeros((0, 3)), words
    )
    assert scale.factor == pytest.approx(3.0, rel=0.05)


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (("a", "b"), "--scale-ref has 2 words"),
        (("00", "01", "far"), "could not convert"),
        (("00", "01", "-1"), "a distance of -1 m"),
        (("00", "99", "1"), "names the photo 99, which is not among those with a pose"),
        (("00", "00", "1"), "names the photo 00 twice"),
        (("00", "1", "1", "5", "5", "01", "1", "1", "5", "5", "1"), "nearly the same direction"),
    ],
)
def test_references_of_scale_that_are_none(words: tuple[str, ...], cause: str) -> None:
    camera = Camera(10, 10, 10.0, 10.0, 5.0, 5.0)
    frames = [Frame(name, Photo(Path(f"{name}.png"), camera, None), None) for name in ("00", "01")]
    poses = np.tile(np.eye(4), (2, 1, 1))
    poses[1, 0, 3] = 1e-4
    nothing = (np.zeros(0), np.zeros(0), np.zeros((0, 2)))
    with pytest.raises(SmrError, match=cause):
        world.find_scale(frames, poses, [camera, camera], nothing, np.zeros((0, 3)), words)


def test_gps_sets_the_scale(tmp_path: Path) -> None:
    camera, frames, poses = Camera(10, 10, 10.0, 10.0, 5.0, 5.0), [], np.tile(np.eye(4), (5, 1, 1))
    for i, (east, north) in enumerate([(0, 0), (100, 0), (100, 50), (0, 50), (50, 90)]):
        exif = Image.Exif()
        gps = exif.get_ifd(0x8825)
        latitude, longitude = (
            -(10 - north / 6378137 * 180 / np.pi),
            20 + east / 6378137 * 180 / np.pi / np.cos(np.deg2rad(10)),
        )
        gps[1], gps[2] = "S", sexagesimal(-latitude)
        gps[3], gps[4] = "E", sexagesimal(longitude)
        gps[5], gps[6] = b"\x00", 7.0
        Image.new("RGB", (10, 10)).save(tmp_path / f"{i}.jpg", exif=exif)
        frames.append(Frame(str(i), Photo(tmp_path / f"{i}.jpg", camera, None), None))
        poses[i, :3, 3] = np.array([east, north, 0]) / 25.0
    nothing = (np.zeros(0), np.zeros(0), np.zeros((0, 2)))
    scale = world.find_scale(frames, poses, [camera] * 5, nothing, np.zeros((0, 3)), None)
    assert (scale.source, scale.factor) == ("GPS", pytest.approx(25.0, rel=1e-3))


def sexagesimal(degrees: float) -> tuple[float, float, float]:
    whole = int(degrees)
    minutes = int((degrees - whole) * 60)
    return float(whole), float(minutes), (degrees - whole - minutes / 60) * 3600


def test_similarities_are_found() -> None:
    random = np.random.default_rng(0)
    points = random.normal(size=(20, 3))
    turn = rotation(0, 0.3) @ rotation(2, -2.0)
    found = world.fit_similarity(points, 2.5 * points @ turn.T + [1, 2, 3])
    assert found.scale == pytest.approx(2.5)
    np.testing.assert_allclose(found.rotation, turn, atol=1e-12)
    np.testing.assert_allclose(found.translation, [1, 2, 3], atol=1e-12)


def test_what_turning_leaves(walked: Any) -> None:
    random = np.random.default_rng(0)
    rays = np.concatenate([random.uniform(-0.4, 0.4, (200, 2)), np.ones((200, 1))], axis=1)
    K = np.array([[500, 0, 320], [0, 500, 240], [0, 0, 1.0]])

    def seen(points: np.ndarray) -> np.ndarray:
        image = points @ K.T
        return image[:, :2] / image[:, 2:]

    turned = (seen(rays), seen(rays @ rotation(1, 0.2).T))
    moved_points = rays * random.uniform(1, 2, (200, 1))
    moved = (seen(moved_points), seen(moved_points @ rotation(1, 0.2).T + [0.2, 0, 0]))
    sizes = [(640, 480)]
    assert parallax.residuals_of_turning([turned], sizes, [500.0])[0] < 1e-6
    assert parallax.residuals_of_turning([turned], sizes, [None])[0] < 0.5
    assert parallax.residuals_of_turning([moved], sizes, [500.0])[0] > 5
    assert parallax.residuals_of_turning([moved], sizes, [None])[0] > 3


def test_a_crash_of_pycolmap_is_an_error(walked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, given, _, _ = walked
    for command, cause in (
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "ended by a segmentation fault"),
        ("raise SystemExit('no luck')", "failed: no luck"),
        ("raise MemoryError()", "memory of this machine was not enough"),
    ):
        script = tmp_path / "python"
        script.write_text(f'#!/bin/sh\nexec {shutil.which("python")} -c "{command}"\n')
        script.chmod(0o755)
        monkeypatch.setattr("sys.executable", str(script))
        with pytest.raises(SmrError, match=cause):
            sfm.find_poses(given, SfmConfig(), folder=tmp_path / "work")


def test_without_pycolmap(walked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, given, _, _ = walked
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SmrError, match=r"pycolmap, which is not installed here\.\n  fix: .*pip install"):
        sfm.find_poses(given, SfmConfig(), folder=tmp_path)


def test_settings_that_mean_nothing(walked: Any, tmp_path: Path) -> None:
    _, given, _, _ = walked
    with pytest.raises(SmrError, match=r"--feature-size is 3\.\n  fix: Give at least 64"):
        sfm.find_poses(given, SfmConfig(feature_size=3), folder=tmp_path)
    with pytest.raises(SmrError, match="--feature-count is 1"):
        sfm.find_poses(given, SfmConfig(feature_count=1), folder=tmp_path)


def test_progress_lines_of_others_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "said").write_text('hello\n["poses", 1, 2]\n[1]\n{}\n')
    with (tmp_path / "said").open() as said:
        assert list(_lines(said)) == [("poses", 1, 2)]


def test_a_look_at_photos_names_what_will_not_help(tmp_path: Path) -> None:
    photos = corner(6)
    photos.append(photos[2].copy())
    photos.append(texture(9, 400))
    photos.append(photos[3].filter(ImageFilter.GaussianBlur(5)))
    capture = write(tmp_path / "a", photos)

    look = sfm.look_at_photos(capture, SfmConfig(), folder=tmp_path / "work")

    assert look.twice == (("02.png", "06.png"),)
    assert look.foreign == ("07.png",)
    assert look.blurred == ("08.png",)
    causes = " ".join(finding.cause for finding in look.findings)
    assert "1 of 9 photos do not overlap" in causes
    assert "1 of 9 photos are blurred" in causes
    assert "02.png = 06.png" in causes


def without_poses(capture: Capture, intrinsics: str = "known") -> Capture:
    frames = []
    for frame in capture.frames:
        assert frame.photo is not None
        camera = replace(frame.photo.camera, intrinsics=intrinsics)
        frames.append(replace(frame, depth=None, photo=replace(frame.photo, camera=camera, world_from_camera=None)))
    return replace(capture, frames=tuple(frames))


@pytest.mark.data
def test_poses_agree_with_the_truth(data_dir: Callable[[str], Path], tmp_path: Path) -> None:
    capture = read_capture(data_dir("synthetic_noisy"), CaptureConfig(max_frames=10))
    solved, report = sfm.find_poses(without_poses(capture), SfmConfig(), folder=tmp_path)
    assert len(report.kept) == 10
    found, truth = (
        np.array([frame.photo.world_from_camera for frame in one.frames if frame.photo is not None])
        for one in (solved, capture)
    )
    fit = world.fit_similarity(found[:, :3, 3], truth[:, :3, 3])
    errors = np.linalg.norm(fit.points(found[:, :3, 3]) - truth[:, :3, 3], axis=1)
    assert np.sqrt((errors**2).mean()) < 3e-4
    relative = np.swapaxes(truth[:, :3, :3], 1, 2) @ fit.rotation @ found[:, :3, :3]
    angles = np.degrees(np.arccos(np.clip((np.trace(relative, axis1=1, axis2=2) - 1) / 2, -1, 1)))
    assert angles.max() < 0.1


@pytest.mark.data
def test_known_poses_are_kept_and_checked(data_dir: Callable[[str], Path], tmp_path: Path) -> None:
    capture = read_capture(data_dir("synthetic_noisy"), CaptureConfig(max_frames=6))
    photos = replace(capture, frames=tuple(replace(frame, depth=None) for frame in capture.frames))

    solved, report = sfm.find_poses(photos, SfmConfig(), folder=tmp_path / "a")

    assert report.known_poses
    assert (report.scale, report.findings) == ("known poses", ())
    for ours, theirs in zip(solved.frames, photos.frames, strict=True):
        assert ours.photo is not None
        assert theirs.photo is not None
        assert ours.photo.camera == theirs.photo.camera
        np.testing.assert_array_equal(ours.photo.world_from_camera, theirs.photo.world_from_camera)  # type: ignore[arg-type]
    assert len(report.points.positions) > 100

    wrong = [
        replace(f, photo=replace(f.photo, camera=replace(f.photo.camera, fx=450.0, fy=450.0))) for f in photos.frames
    ]  # type: ignore[type-var, union-attr]
    _, report = sfm.find_poses(replace(photos, frames=tuple(wrong)), SfmConfig(), folder=tmp_path / "b")
    (finding,) = report.findings
    assert "The given poses or intrinsics do not fit the photos" in finding.cause


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("mapper", ["incremental", "global"])
def test_kermit(data_dir: Callable[[str], Path], tmp_path: Path, mapper: Any) -> None:
    capture = read_capture(data_dir("kermit"))
    _, report = sfm.find_poses(capture, SfmConfig(mapper=mapper), folder=tmp_path)
    assert len(report.kept) == 11
    assert report.reprojection_px < 0.6
    assert report.cameras[0].fx == pytest.approx(695, rel=0.03)


def test_ctrl_c_stops_the_process(walked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, given, _, _ = walked
    started: list[subprocess.Popen[str]] = []
    popen = subprocess.Popen

    def start(*args: Any, **kwargs: Any) -> Any:
        started.append(popen(*args, **kwargs))
        return started[-1]

    def stop(items: Any, label: str, total: int | None = None) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(KeyboardInterrupt):
        sfm.find_poses(given, SfmConfig(), folder=tmp_path, track=stop)
    assert [process.returncode for process in started] == [-9]


def test_too_few_photos_that_belong_together(tmp_path: Path) -> None:
    others = [texture(20 + i, 300) for i in range(4)]
    capture = write(tmp_path / "a", [*corner(4)[1:3], *others])
    with pytest.raises(SmrError, match=r"Only 2 of 6 photos could be joined; most of the others: shows nothing"):
        sfm.find_poses(capture, SfmConfig(), folder=tmp_path)


def test_words_where_photos_match_and_no_poses_are_found() -> None:
    few = Matched(
        np.array([[0, 1]], np.int32),
        np.array([200], np.int32),
        np.array([20], np.float32),
        np.array([np.nan], np.float32),
        np.array([30], np.float32),
    )
    nothing = np.zeros(0, np.float32)
    answer = Answer(
        features=np.array([2000, 2000], np.int32),
        unreadable={},
        matched=few,
        models=(),
        attempts=(),
        poses=np.full((2, 3, 4), np.nan),
        cameras=(),
        points=np.zeros((0, 3)),
        errors=nothing,
        colors=np.zeros((0, 3), np.uint8),
        track_points=np.zeros(0, np.int32),
        track_photos=np.zeros(0, np.int32),
        track_xy=np.zeros((0, 2), np.float32),
    )
    said = words.nothing_found(answer, ["a.jpg", "b.jpg"])
    assert "Some of the 2 photos show the same thing, but no poses could be found" in said.cause
    assert "--mapper global" in said.cure
    assert words.only_turned(answer, 640) is None
    assert (
        "Only one of the photos can be read"
        in words.nothing_found(replace(answer, unreadable={1: "damaged"}), ["a.jpg", "b.jpg"]).cause
    )
    two_parts = words.left_out(replace(answer, models=((0,), (1,)), unreadable={}), ["a.jpg", "b.jpg"], [0])
    assert two_parts[0].reason == "belongs to another part of 1 photos, which nothing joins with the rest"


def test_depth_maps_set_the_scale(tmp_path: Path) -> None:
    camera = Camera(20, 10, 20.0, 20.0, 10.0, 5.0)
    np.save(tmp_path / "d.npy", np.full((10, 20), 3.0, np.float32))
    depth = DepthMap(tmp_path / "d.npy", camera, None, 1.0)
    frames = [Frame(name, Photo(Path("x.png"), camera, None), depth) for name in ("a", "b")]
    random = np.random.default_rng(0)
    xy = random.uniform(0, 10, (60, 2))
    points = np.column_stack([(xy - [10.0, 5.0]) / 20.0 * 0.5, np.full(60, 0.5)])
    poses = np.tile(np.eye(4), (2, 1, 1))
    seen = (np.arange(60), np.zeros(60, int), xy)
    scale = world.find_scale(frames, poses, [camera, camera], seen, points, None)
    assert (scale.source, scale.factor) == ("depth maps", pytest.approx(6.0))


def test_two_photos_are_enough(tmp_path: Path) -> None:
    write_photos(tmp_path / "a", corner(4)[1:3])
    capture = read_capture(tmp_path / "a", CaptureConfig(intrinsics=(400.0, 400.0, 240.0, 180.0)))
    solved, report = sfm.find_poses(capture, SfmConfig(), folder=tmp_path)
    assert len(solved) == 2
    assert report.cameras[0] == capture.frames[0].photo.camera  # type: ignore[union-attr]
    turn = np.linalg.inv(report.poses[1]) @ report.poses[0]
    assert np.degrees(np.arccos((np.trace(turn[:3, :3]) - 1) / 2)) == pytest.approx(np.degrees(0.1), abs=0.2)


@pytest.mark.parametrize("matching", ["sequential", "retrieval"])
def test_other_ways_of_choosing_pairs(walked: Any, tmp_path: Path, matching: Any) -> None:
    _, given, _, _ = walked
    six = replace(given, frames=given.frames[:6])
    _, report = sfm.find_poses(six, SfmConfig(matching=matching), folder=tmp_path)
    assert (report.matching, len(report.kept)) == (matching, 6)


def test_features_on_masked_pixels_are_not_used(walked: Any, tmp_path: Path) -> None:
    _, given, _, _ = walked
    mask = np.zeros((360, 480), np.uint8)
    mask[:, :240] = 255
    Image.fromarray(mask).save(tmp_path / "mask.png")
    masked = [
        replace(frame, photo=replace(frame.photo, mask=tmp_path / "mask.png"))
        for frame in given.frames[:3]
        if frame.photo is not None
    ]
    _, report = sfm.find_poses(replace(given, frames=tuple(masked)), SfmConfig(), folder=tmp_path)
    assert report.points.track_xy[:, 0].max() <= 240
