"""Captures that are broken, foreign or hostile: refused with a true sentence, or read without their bad frames."""

from __future__ import annotations

import json
import os
import re
import struct
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

import capture_writers as writers
from smr.captures import Decoder, read_capture
from smr.config import CaptureConfig
from smr.errors import SmrError
from smr.records import Capture


def said(capture: Capture) -> str:
    return " ".join(f"{finding.cause} {finding.cure}" for finding in capture.findings)


@pytest.fixture
def seven(tmp_path: Path) -> Path:
    writers.write_seven_scenes(tmp_path)
    return tmp_path


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SmrError, match="is not there"):
        read_capture(tmp_path / "nowhere")


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(SmrError, match=r"is empty\.\n  fix: .*7-Scenes.*COLMAP"):
        read_capture(tmp_path)


def test_a_folder_of_other_things(tmp_path: Path) -> None:
    (tmp_path / "letter.docx").write_text("dear")
    with pytest.raises(SmrError, match=r"no capture that is known here; it holds letter\.docx"):
        read_capture(tmp_path)


def test_holiday_photos_are_photos_without_poses(tmp_path: Path) -> None:
    for i in range(3):
        exif = Image.Exif()
        exif.get_ifd(0x8769)[0xA405] = 27
        Image.new("RGB", (120, 80), (i * 50, 90, 200)).save(tmp_path / f"Urlaub {i}.jpg", exif=exif)

    capture = read_capture(tmp_path)

    assert capture.format == "photos"
    assert [frame.photo.world_from_camera for frame in capture.frames if frame.photo] == [None] * 3
    assert "3 photos without camera poses and without depth" in said(capture)
    assert capture.frames[0].photo is not None
    assert capture.frames[0].photo.camera.fx == pytest.approx(120 * 27 / 36)


def test_photos_without_a_focal_length_say_that_it_is_assumed(tmp_path: Path) -> None:
    Image.new("RGB", (120, 80)).save(tmp_path / "a.png")
    assert "1 of 1 photos do not say their focal length" in said(read_capture(tmp_path))


def test_heic_photos(tmp_path: Path) -> None:
    pytest.importorskip("pillow_heif")
    (tmp_path / "IMG_1.HEIC").write_bytes(b"x")
    with pytest.raises(SmrError, match="no usable frame is left"):
        read_capture(tmp_path)


def test_color_and_depth_without_poses(tmp_path: Path) -> None:
    writers.write_redwood_log(tmp_path)
    (tmp_path / "trajectory.log").unlink()
    with pytest.raises(SmrError, match="colour and depth images, but no poses"):
        read_capture(tmp_path)


def test_the_first_image_may_be_the_broken_one(seven: Path) -> None:
    (seven / "frame-000000.depth.png").write_bytes(b"")
    (seven / "frame-000000.color.png").write_bytes(b"\x89PNG")
    assert len(read_capture(seven)) == writers.FRAMES - 1


def test_no_image_can_be_read(seven: Path) -> None:
    for path in seven.glob("*.png"):
        path.write_bytes(b"")
    with pytest.raises(SmrError, match=r"frame-000000\.color\.png cannot be decoded: it is empty"):
        read_capture(seven)


@pytest.mark.parametrize("ending", ["depth.png", "color.png"])
def test_a_truncated_image_is_left_out_and_named(seven: Path, ending: str) -> None:
    path = seven / f"frame-000003.{ending}"
    path.write_bytes(path.read_bytes()[:200])

    capture = read_capture(seven)

    assert len(capture) == writers.FRAMES
    frame = capture.frames[3]
    assert (frame.depth is None, frame.photo is None) == (ending == "depth.png", ending == "color.png")
    assert f"1 {'depth' if 'depth' in ending else 'colour'} image is truncated or damaged: {path.name}" in said(capture)


def test_a_truncated_jpeg_is_left_out(tmp_path: Path) -> None:
    writers.write_scanner_app(tmp_path)
    path = tmp_path / "frame_00002.jpg"
    path.write_bytes(path.read_bytes()[:-400])

    capture = read_capture(tmp_path)

    assert "1 colour image is truncated or damaged: frame_00002.jpg" in said(capture)
    assert capture.frames[2].photo is None


def test_a_jpeg_with_something_after_its_end_is_whole(tmp_path: Path) -> None:
    writers.write_scanner_app(tmp_path)
    path = tmp_path / "frame_00002.jpg"
    path.write_bytes(path.read_bytes() + bytes(5000))

    assert read_capture(tmp_path).frames[2].photo is not None


def test_one_pose_file_too_few(seven: Path) -> None:
    (seven / "frame-000002.pose.txt").unlink()

    capture = read_capture(seven)

    assert len(capture) == writers.FRAMES - 1
    assert "1 of 8 frames have no pose and are left out: frame-000002" in said(capture)


@pytest.mark.parametrize("bad", ["inf", "nan", "-inf"])
def test_a_pose_that_is_not_finite(seven: Path, bad: str) -> None:
    (seven / "frame-000001.pose.txt").write_text(" ".join([bad] * 16))

    capture = read_capture(seven)

    assert len(capture) == writers.FRAMES - 1
    assert "inf, NaN or a wrong last row and are left out: frame-000001" in said(capture)


def test_a_camera_that_lies_kilometres_away(seven: Path) -> None:
    pose = np.eye(4)
    pose[0, 3] = 1e6
    np.savetxt(seven / "frame-000001.pose.txt", pose)

    capture = read_capture(seven)

    assert len(capture) == writers.FRAMES - 1
    assert "1 of 8 frames have a pose that lies kilometres from all others and are left out: frame-000001" in said(
        capture
    )


def test_a_capture_far_from_the_origin_is_not_astray(seven: Path) -> None:
    """Geographic coordinates: all cameras are thousands of kilometres from the origin, and near each other."""
    for path in seven.glob("*.pose.txt"):
        pose = np.loadtxt(path)
        pose[:2, 3] += (500_000, 5_000_000)
        np.savetxt(path, pose)
    assert len(read_capture(seven)) == writers.FRAMES


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
@pytest.mark.parametrize("ending", ["depth.png", "color.png", "pose.txt"])
def test_a_pipe_is_not_waited_for(seven: Path, ending: str) -> None:
    for frame in (0, 3):
        path = seven / f"frame-{frame:06d}.{ending}"
        path.unlink()
        os.mkfifo(path)
    assert f"2 {'of 8 frames have no pose' if ending == 'pose.txt' else ''}" in said(read_capture(seven))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_a_pipe_in_place_of_a_text(seven: Path) -> None:
    (seven / "camera-intrinsics.txt").unlink()
    os.mkfifo(seven / "camera-intrinsics.txt")
    with pytest.raises(SmrError, match=r"camera-intrinsics\.txt is no ordinary file"):
        read_capture(seven)


def test_a_link_to_itself(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(SmrError, match="is a link to what is not there, or to itself"):
        read_capture(tmp_path / "loop")


def test_half_a_pose_file(seven: Path) -> None:
    (seven / "frame-000001.pose.txt").write_text("1 0 0")
    assert "have no pose and are left out: frame-000001" in said(read_capture(seven))


def test_a_slightly_wrong_rotation_is_made_a_rotation(seven: Path) -> None:
    path = seven / "frame-000001.pose.txt"
    pose = np.loadtxt(path)
    truth = pose.copy()
    pose[:3, :3] *= 1.01
    np.savetxt(path, pose)

    capture = read_capture(seven)

    assert "orthonormalised: frame-000001" in said(capture)
    assert capture.frames[1].depth is not None
    np.testing.assert_allclose(capture.frames[1].depth.world_from_camera, truth, atol=1e-6)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "words"),
    [(np.diag([3.0, 3, 3, 1]), "far from a rotation"), (np.diag([1.0, 1, -1, 1]), "mirrors")],
)
def test_a_grossly_wrong_rotation_is_left_out(seven: Path, change: np.ndarray, words: str) -> None:
    path = seven / "frame-000001.pose.txt"
    np.savetxt(path, np.loadtxt(path) @ change)

    capture = read_capture(seven)

    assert len(capture) == writers.FRAMES - 1
    assert words in said(capture)


def test_nothing_left_is_an_error(seven: Path) -> None:
    for path in seven.glob("*.pose.txt"):
        path.write_text(" ".join(["nan"] * 16))
    with pytest.raises(SmrError, match=r"no usable frame is left. 8 of 8 frames have a pose with inf, NaN"):
        read_capture(seven)


def test_poses_without_images(tmp_path: Path) -> None:
    (tmp_path / "frame-000000.pose.txt").write_text("1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1")
    with pytest.raises(SmrError, match="no images beside them"):
        read_capture(tmp_path)


def test_intrinsics_of_another_resolution(seven: Path) -> None:
    (seven / "camera-intrinsics.txt").write_text("585 0 320\n0 585 240\n0 0 1")
    with pytest.raises(SmrError, match=r"those of another resolution.\n  fix: Scaled .*--intrinsics 87\.6 87\.6 48"):
        read_capture(seven)


def test_intrinsics_that_the_user_gives(seven: Path) -> None:
    capture = read_capture(seven, CaptureConfig(intrinsics=(81.0, 82.0, 48.0, 36.0)))
    assert capture.frames[0].depth is not None
    camera = capture.frames[0].depth.camera
    assert (camera.fx, camera.fy, camera.cx, camera.cy) == (81.0, 82.0, 48.0, 36.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("585 0 320 0 585 240", "holds 6 numbers"),
        ("a b c", "is no number"),
        ("-9 0 48 0 9 36 0 0 1", "focal lengths -9"),
    ],
)
def test_intrinsics_that_are_none(seven: Path, text: str, words: str) -> None:
    (seven / "camera-intrinsics.txt").write_text(text)
    with pytest.raises(SmrError, match=words):
        read_capture(seven)


def test_images_of_another_shape_than_the_camera(tmp_path: Path) -> None:
    writers.write_transforms(tmp_path)
    document = json.loads((tmp_path / "transforms.json").read_text())
    (tmp_path / "transforms.json").write_text(json.dumps(document | {"w": 96, "h": 90}))
    with pytest.raises(SmrError, match="another shape"):
        read_capture(tmp_path)


def test_intrinsics_of_larger_images_of_the_same_shape_are_scaled_and_said(tmp_path: Path) -> None:
    writers.write_transforms(tmp_path)
    document = json.loads((tmp_path / "transforms.json").read_text())
    scaled = {key: 2 * document[key] for key in ("w", "h", "fl_x", "fl_y", "cx", "cy")}
    (tmp_path / "transforms.json").write_text(json.dumps(document | scaled))

    capture = read_capture(tmp_path)

    assert "the intrinsics are scaled" in said(capture)
    assert capture.frames[0].photo is not None
    assert capture.frames[0].photo.camera.fx == pytest.approx(writers.DEPTH_CAMERA.fx)


def test_the_default_camera_of_seven_scenes_is_said(seven: Path) -> None:
    (seven / "camera-intrinsics.txt").unlink()
    capture = read_capture(seven)
    assert "the depth camera of 7-Scenes is assumed (585 pixels" in said(capture)
    assert capture.frames[0].depth is not None
    assert capture.frames[0].depth.camera.fx == pytest.approx(585 * 96 / 640)


def test_whole_numbers_without_a_unit_ask_for_the_scale(tmp_path: Path) -> None:
    writers.write_colmap_text(tmp_path)
    for path in (tmp_path / "depth").glob("*.npy"):
        np.save(path, (np.load(path) * 500).astype(np.uint16))

    with pytest.raises(SmrError, match=r"nothing says its unit .*\n  fix: Give --depth-scale"):
        read_capture(tmp_path)
    capture = read_capture(tmp_path, CaptureConfig(depth_scale=500.0))
    assert capture.frames[0].depth is not None
    depth, _ = Decoder().depth(capture.frames[0].depth)
    truth = next(iter(writers.shots())).depth
    assert np.abs(depth - truth).max() < 2.1e-3


def test_depth_of_8_bits_asks_for_the_scale(seven: Path) -> None:
    for path in seven.glob("*.depth.png"):
        Image.fromarray((np.asarray(Image.open(path)) // 16).astype(np.uint8)).save(path)
    with pytest.raises(SmrError, match="only 8 bits"):
        read_capture(seven)
    assert len(read_capture(seven, CaptureConfig(depth_scale=62.5))) == writers.FRAMES


@pytest.mark.parametrize("scale", [0.0, -1000.0, float("nan"), 1e-300, 1e300, float("inf")])
def test_a_scale_that_is_none(seven: Path, scale: float) -> None:
    with pytest.raises(SmrError, match="--depth-scale is"):
        read_capture(seven, CaptureConfig(depth_scale=scale))


def test_selection(seven: Path) -> None:
    assert [f.name[-1] for f in read_capture(seven, CaptureConfig(every=3)).frames] == ["0", "3", "6"]
    assert [f.name[-1] for f in read_capture(seven, CaptureConfig(max_frames=3)).frames] == ["0", "4", "7"]
    with pytest.raises(SmrError, match="--every is 0"):
        read_capture(seven, CaptureConfig(every=0))
    with pytest.raises(SmrError, match="--max-frames is 0"):
        read_capture(seven, CaptureConfig(max_frames=0))


@pytest.mark.parametrize("name", ["../secret.png", "/etc/passwd", "images/../../secret.png", "..\\secret.png", "a\0b"])
@pytest.mark.parametrize("key", ["file_path", "depth_file_path", "mask_path"])
def test_paths_do_not_leave_the_folder(tmp_path: Path, name: str, key: str) -> None:
    folder = tmp_path / "capture"
    folder.mkdir()
    writers.write_transforms(folder)
    document = json.loads((folder / "transforms.json").read_text())
    document["frames"][1][key] = name
    (folder / "transforms.json").write_text(json.dumps(document))
    with pytest.raises(SmrError, match="lies outside the capture's folder"):
        read_capture(folder)


def test_paths_in_other_formats_do_not_leave_the_folder(tmp_path: Path) -> None:
    for name, file in (("tum", "depth.txt"), ("cameras_json", "cameras.json"), ("colmap_text", "sparse/0/images.txt")):
        folder = tmp_path / name
        folder.mkdir()
        writers.WRITERS[name][0](folder)
        text = (folder / file).read_text()
        (folder / file).write_text(text.replace("depth/", "../../").replace("view 1", "../../../x"))
        with pytest.raises(SmrError, match="outside the capture's folder"):
            read_capture(folder)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "[1, 2]", '{"frames": 3}', '{"frames": [1]}', "\x00\xff"])
def test_json_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "transforms.json").write_text(text)
    with pytest.raises(SmrError, match=r"not valid JSON|no list of frames"):
        read_capture(tmp_path)


def test_an_unknown_lens_is_named(tmp_path: Path) -> None:
    writers.write_transforms(tmp_path)
    document = json.loads((tmp_path / "transforms.json").read_text())
    (tmp_path / "transforms.json").write_text(json.dumps(document | {"camera_model": "FISHEYE624"}))
    with pytest.raises(SmrError, match="camera model FISHEYE624, which has no counterpart"):
        read_capture(tmp_path)


def test_k4_of_a_lens_that_has_none(tmp_path: Path) -> None:
    writers.write_transforms(tmp_path)
    document = json.loads((tmp_path / "transforms.json").read_text())
    (tmp_path / "transforms.json").write_text(json.dumps(document | {"camera_model": "OPENCV", "k4": 0.1}))
    with pytest.raises(SmrError, match=r"k4 = 0\.1 for a camera OPENCV"):
        read_capture(tmp_path)


def test_an_unknown_lens_of_colmap_is_named(tmp_path: Path) -> None:
    writers.write_colmap_text(tmp_path)
    path = tmp_path / "sparse/0/cameras.txt"
    path.write_text("3 FOV 96 72 80 78 47.3 36.9 0.1\n")
    with pytest.raises(SmrError, match="camera model FOV, which has no counterpart"):
        read_capture(tmp_path)


@pytest.mark.parametrize("file", ["cameras.bin", "images.bin"])
@pytest.mark.parametrize("keep", [0, 7, 20, 60, 100])
def test_a_truncated_colmap_model(tmp_path: Path, file: str, keep: int) -> None:
    writers.write_colmap_binary(tmp_path)
    path = tmp_path / file
    path.write_bytes(path.read_bytes()[: min(keep, path.stat().st_size - 1)])
    with pytest.raises(SmrError, match="part of a COLMAP model: it is truncated"):
        read_capture(tmp_path)


def test_a_colmap_model_that_claims_billions(tmp_path: Path) -> None:
    writers.write_colmap_binary(tmp_path)
    (tmp_path / "images.bin").write_bytes(struct.pack("<Q", 1 << 60) + bytes(200))
    with pytest.raises(SmrError, match="truncated"):
        read_capture(tmp_path)


def test_a_video_in_place_of_frames(tmp_path: Path) -> None:
    writers.write_stray(tmp_path)
    for path in (tmp_path / "rgb").iterdir():
        path.unlink()
    (tmp_path / "rgb").rmdir()
    (tmp_path / "rgb.mp4").write_bytes(b"video")
    with pytest.raises(SmrError, match=r"ffmpeg -noautorotate -i \".*rgb.mp4\" .*rgb/%06d.jpg"):
        read_capture(tmp_path)
    pytest.importorskip("av")
    with pytest.raises(SmrError, match=r"rgb\.mp4 cannot be decoded"):
        read_capture(tmp_path / "rgb.mp4")


def test_a_damaged_odometry(tmp_path: Path) -> None:
    writers.write_stray(tmp_path)
    text = (tmp_path / "odometry.csv").read_text()
    (tmp_path / "odometry.csv").write_text(text[:-40])
    with pytest.raises(SmrError, match=r"Line 9 of .*odometry.csv is no row of numbers"):
        read_capture(tmp_path)
    (tmp_path / "odometry.csv").write_text("timestamp, frame\n")
    with pytest.raises(SmrError, match="lacks the columns x, y, z, qx"):
        read_capture(tmp_path)


def test_the_selfie_camera_has_no_poses(tmp_path: Path) -> None:
    writers.write_record3d(tmp_path)
    document = json.loads((tmp_path / "metadata.json").read_text())
    document["poses"] = [[0, 0, 0, 1, 0, 0, 0]] * writers.FRAMES
    (tmp_path / "metadata.json").write_text(json.dumps(document))
    with pytest.raises(SmrError, match="selfie camera"):
        read_capture(tmp_path)


@pytest.mark.parametrize("name", ["../out.png", "/tmp/out.png", "a/../../out.png"])
def test_archives_do_not_write_outside(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "scan.zip", "w") as archive:
        archive.writestr("metadata", "{}")
        archive.writestr(name, "x")
    with pytest.raises(SmrError, match="names a file outside itself"):
        read_capture(tmp_path / "scan.zip")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["scan.zip"]


def test_a_damaged_archive(tmp_path: Path) -> None:
    writers.write_r3d(tmp_path)
    path = tmp_path / "scan.r3d"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)
    with pytest.raises(SmrError, match="cannot be unpacked: Bad CRC-32"):
        read_capture(path)
    path.write_bytes(content[:1000])
    with pytest.raises(SmrError, match="cannot be unpacked: File is not a zip file"):
        read_capture(path)
    assert [p.name for p in tmp_path.iterdir()] == ["scan.r3d"]


def test_an_archive_that_claims_more_than_the_disk_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writers.write_r3d(tmp_path)
    monkeypatch.setattr("smr.captures.archive.BYTE_LIMIT", 1000)
    with pytest.raises(SmrError, match="unpacks to 25 files"):
        read_capture(tmp_path / "scan.r3d")


def test_a_capture_in_the_only_folder_below_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "Küche 厨房" / "EXR_RGBD"
    folder.mkdir(parents=True)
    writers.write_record3d(folder)

    capture = read_capture(folder.parent)

    assert len(capture) == writers.FRAMES
    assert "lies in the folder EXR_RGBD below" in said(capture)


def test_several_captures_below_are_named(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        writers.write_cameras_json(tmp_path / name)
    with pytest.raises(SmrError, match="holds 2 captures: a, b"):
        read_capture(tmp_path)


def test_names_with_spaces_and_chinese_characters_and_links(tmp_path: Path) -> None:
    real = tmp_path / "elsewhere"
    real.mkdir()
    writers.write_transforms(real)
    folder = tmp_path / "我的 扫描 (1)"
    (folder / "图像 一").mkdir(parents=True)
    document = json.loads((real / "transforms.json").read_text())
    for i, frame in enumerate(document["frames"]):
        link = folder / "图像 一" / f"照片 {i}.png"
        link.symlink_to(real / frame["file_path"])
        frame["file_path"] = f"图像 一/照片 {i}.png"
        (folder / "图像 一" / f"深度 {i}.png").symlink_to(real / frame["depth_file_path"])
        frame["depth_file_path"] = f"图像 一/深度 {i}.png"
    (folder / "transforms.json").write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")

    capture = read_capture(folder)

    assert len(capture) == writers.FRAMES
    assert capture.frames[0].photo is not None
    assert Decoder().photo(capture.frames[0].photo)[0].shape == (72, 96, 3)


def test_ten_thousand_frames_are_listed(tmp_path: Path) -> None:
    """Hard links to two files: a listing must not decode them."""
    writers.write_seven_scenes(tmp_path)
    for i in range(writers.FRAMES, 10_000):
        for ending in ("depth.png", "pose.txt"):
            os.link(tmp_path / f"frame-000000.{ending}", tmp_path / f"frame-{i:06d}.{ending}")

    start = time.process_time()
    capture = read_capture(tmp_path)

    assert len(capture) == 10_000
    assert time.process_time() - start < 60  # a hang, not a speed: it takes about 2


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("depth.txt", "1.0\n", "Line 1 of .*depth.txt"),
        ("groundtruth.txt", "1 2 3\n", "no multiple of 8"),
        ("depth.txt", "# nothing\n", "lists no images"),
    ],
)
def test_damaged_lists_of_tum(tmp_path: Path, file: str, text: str, words: str) -> None:
    writers.write_tum(tmp_path)
    (tmp_path / file).write_text(text)
    with pytest.raises(SmrError, match=words):
        read_capture(tmp_path)


def test_tum_without_a_trajectory(tmp_path: Path) -> None:
    writers.write_tum(tmp_path)
    (tmp_path / "groundtruth.txt").unlink()
    with pytest.raises(SmrError, match=r"no groundtruth\.txt"):
        read_capture(tmp_path)


def test_tum_joins_by_time(tmp_path: Path) -> None:
    """A photo 30 ms away is no partner; a frame outside the trajectory has no pose."""
    writers.write_tum(tmp_path)
    colors = (tmp_path / "rgb.txt").read_text().splitlines()
    colors[1] = colors[1].replace("1305031102.01", "1305031102.03", 1)
    (tmp_path / "rgb.txt").write_text("\n".join(colors))
    truth = (tmp_path / "groundtruth.txt").read_text().splitlines()
    (tmp_path / "groundtruth.txt").write_text("\n".join(truth[:-3]))

    capture = read_capture(tmp_path)

    assert len(capture) == writers.FRAMES - 1
    assert capture.frames[0].photo is None
    assert capture.frames[1].photo is not None
    assert "1 of 8 frames have no pose" in said(capture)


def test_a_redwood_trajectory_that_is_none(tmp_path: Path) -> None:
    writers.write_redwood_log(tmp_path)
    (tmp_path / "trajectory.log").write_text("0 0 1\na b c d\n" * 5)
    with pytest.raises(SmrError, match=r"no trajectory in the \.log form"):
        read_capture(tmp_path)


def test_a_redwood_trajectory_one_pose_too_few(tmp_path: Path) -> None:
    writers.write_redwood_log(tmp_path)
    lines = (tmp_path / "trajectory.log").read_text().splitlines()
    (tmp_path / "trajectory.log").write_text("\n".join(lines[:-5]))

    capture = read_capture(tmp_path)

    assert len(capture) == writers.FRAMES - 1
    assert "8 depth images, 7 poses, 8 colour images" in said(capture)


def test_a_calibration_puts_the_color_camera_beside(seven: Path) -> None:
    calibration = {
        "fx": 70.0,
        "fy": 71.0,
        "cx": 46.0,
        "cy": 35.0,
        "depth_to_color_rotation": np.eye(3).tolist(),
        "depth_to_color_translation": [-0.03, 0.0, 0.01],
    }
    (seven / "color_calibration.json").write_text(json.dumps(calibration))

    frame = read_capture(seven).frames[2]

    assert frame.photo is not None
    assert frame.depth is not None
    assert frame.photo.camera.fx == 70.0
    assert frame.photo.camera.cx == 46.5
    X = np.array([0.1, 0.2, 1.5, 1.0])  # in the depth camera
    in_color = np.linalg.inv(frame.photo.world_from_camera) @ frame.depth.world_from_camera @ X  # type: ignore[arg-type]
    np.testing.assert_allclose(in_color[:3], X[:3] + np.array([-0.03, 0.0, 0.01]), atol=1e-6)


@pytest.mark.parametrize(
    ("text", "words"),
    [("{}", "is no colour calibration"), ('{"fx": 1}', "is no colour calibration"), ("[]", "is no colour calibration")],
)
def test_a_calibration_that_is_none(seven: Path, tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(SmrError, match=words):
        read_capture(seven, CaptureConfig(color_calibration=str(path)))


def test_a_calibration_that_is_no_rotation(seven: Path) -> None:
    calibration = {"fx": 70, "fy": 71, "cx": 46, "cy": 35, "depth_to_color_translation": [0, 0, 0]}
    calibration["depth_to_color_rotation"] = [[2, 0, 0], [0, 1, 0], [0, 0, 1]]
    (seven / "color_calibration.json").write_text(json.dumps(calibration))
    with pytest.raises(SmrError, match="depth_to_color_rotation is no rotation"):
        read_capture(seven)


def test_colmap_text_with_a_camera_that_is_not_there(tmp_path: Path) -> None:
    writers.write_colmap_text(tmp_path)
    path = tmp_path / "sparse/0/images.txt"
    path.write_text(path.read_text().replace(" 3 view 0.png", " 9 view 0.png"))
    with pytest.raises(SmrError, match=r"view 0.png has camera 9"):
        read_capture(tmp_path)


def test_blender_sets_have_no_endings_and_alpha_masks(tmp_path: Path) -> None:
    """Given camera_angle_x, names without an ending and RGBA images, then alpha is the mask."""
    frames = []
    for shot in writers.shots():
        alpha = np.dstack([shot.color, np.where(shot.depth > 0, 255, 0).astype(np.uint8)])
        writers.save_color(tmp_path / f"train/r_{shot.index}.png", alpha)
        pose = shot.world_from_camera @ np.diag([1.0, -1, -1, 1])
        frames.append({"file_path": f"./train/r_{shot.index}", "transform_matrix": pose.tolist()})
    document = {"camera_angle_x": 2 * np.arctan(48 / 80), "frames": frames}
    (tmp_path / "transforms_train.json").write_text(json.dumps(document))

    capture = read_capture(tmp_path, CaptureConfig(use_masks=True))

    photo = capture.frames[0].photo
    assert photo is not None
    assert photo.camera.fx == pytest.approx(80)
    mask = Decoder().mask(photo)
    assert mask is not None
    np.testing.assert_array_equal(mask, next(iter(writers.shots())).depth > 0)


_TABLES = (".json", ".txt", ".csv", ".log", ".bin", ".freiburg")
_JUNK = (
    "",
    "nan",
    "inf",
    "-1",
    "0",
    "1e999",
    "9" * 400,
    "null",
    "[]",
    "{}",
    '"x"',
    "-",
    "\x00",
    "é",
    "1 2",
    "\n",
    "../..",
)


@pytest.fixture(scope="module")
def every_format(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folders = {}
    for name in writers.WRITERS:
        if name != "r3d":
            folders[name] = tmp_path_factory.mktemp(name)
            writers.WRITERS[name][0](folders[name])
    return folders


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", [name for name in writers.WRITERS if name != "r3d"])
@given(data=st.data())
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_tables_are_refused_or_read_and_never_crash(
    every_format: dict[str, Path], name: str, data: st.DataObject
) -> None:
    """Given a table of a capture with a number replaced by junk, or cut, then it is read or refused by name."""
    folder = every_format[name]
    tables = sorted(path for path in folder.rglob("*") if path.suffix in _TABLES)
    path = data.draw(st.sampled_from(tables))
    content = path.read_bytes()
    spots = [m.span() for m in re.finditer(rb"[-\w.]+", content)][:400] or [(0, 0)]
    start, end = data.draw(st.sampled_from(spots))
    junk = data.draw(st.sampled_from(_JUNK)).encode()
    damaged = content[:start] + (junk + content[end:] if data.draw(st.booleans()) else b"")
    try:
        path.write_bytes(damaged)
        capture = read_capture(folder)
        assert all(frame.photo or frame.depth for frame in capture.frames)
    except SmrError as error:
        named = folder.name in str(error)
        assert named
    finally:
        path.write_bytes(content)
