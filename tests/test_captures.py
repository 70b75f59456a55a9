"""Reading captures: every format gives the same scene, and real captures are recognised."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import capture_writers as writers
from smr.captures import Decoder, read_capture
from smr.records import Capture


def write(name: str, folder: Path) -> Path:
    """Write the scene in a format; return what the user would name."""
    writers.WRITERS[name][0](folder)
    return folder / "scan.r3d" if name == "r3d" else folder


@pytest.mark.parametrize("name", writers.WRITERS)
def test_every_format_reads_back_to_the_rendered_points(name: str, tmp_path: Path) -> None:
    """Given the scene in a format, when it is read and decoded, then its points are where they were rendered."""
    source = write(name, tmp_path)
    _, format, unit = writers.WRITERS[name]
    camera = writers.ICL_CAMERA if name == "icl" else writers.DEPTH_CAMERA

    capture = read_capture(source)

    assert capture.format == format
    assert len(capture) == (2 * writers.FRAMES if name == "seven_scenes_sequences" else writers.FRAMES)
    decoder = Decoder()
    for frame, shot in zip(capture.frames, writers.shots(camera, camera), strict=False):
        assert frame.depth is not None
        assert frame.depth.world_from_camera is not None
        depth, found = decoder.depth(frame.depth)
        points = writers.unproject(depth.astype(np.float64), found, frame.depth.world_from_camera)
        truth = writers.unproject(shot.depth, camera, shot.world_from_camera)
        both = (depth > 0) & (shot.depth > 0)
        assert both.sum() > 0.9 * (shot.depth > 0).sum()  # all but the row without confidence
        assert np.abs(points - truth)[both].max() < 0.75 * unit + 1e-4


@pytest.mark.parametrize("name", [name for name in writers.WRITERS if name != "r3d"])
def test_every_format_keeps_its_photos_and_their_cameras(name: str, tmp_path: Path) -> None:
    """Then each photo's pixels are those rendered, for a camera that sees the same points as the depth camera."""
    capture = read_capture(write(name, tmp_path))
    photo_camera = writers.ICL_CAMERA if name == "icl" else writers.DEPTH_CAMERA
    if name in ("record3d", "polycam", "scanner_app", "stray"):
        photo_camera = writers.COLOR_CAMERA

    for frame, pose in zip(capture.frames, writers.poses(), strict=False):
        if name == "scanner_app" and frame.photo is None:
            continue
        assert frame.photo is not None
        assert frame.photo.world_from_camera is not None
        pixels, camera = Decoder().photo(frame.photo)
        np.testing.assert_allclose(camera.K, photo_camera.K, atol=1e-6)
        np.testing.assert_allclose(frame.photo.world_from_camera, pose, atol=1e-6)
        if frame.photo.path.suffix == ".png":
            np.testing.assert_array_equal(pixels, writers.render(photo_camera, pose)[1])


def test_phones_say_which_way_is_up(tmp_path: Path) -> None:
    for name in ("polycam", "scanner_app", "stray", "record3d"):
        (tmp_path / name).mkdir()
        assert read_capture(write(name, tmp_path / name)).world_up == "y"


def test_confidence_of_zero_drops_depth(tmp_path: Path) -> None:
    capture = read_capture(write("stray", tmp_path))
    depth_map = capture.frames[0].depth
    assert depth_map is not None

    depth, _ = Decoder().depth(depth_map)

    assert not depth[0].any()
    assert depth[10:].any()


@pytest.mark.parametrize("lens", [writers.BARREL, writers.FISHEYE], ids=["opencv", "fisheye"])
@pytest.mark.parametrize("writer", [writers.write_transforms, writers.write_colmap_text, writers.write_colmap_binary])
def test_distorted_depth_lies_on_the_surfaces_after_undistortion(lens, writer, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Given images through a lens, then undistorted depth lies on the scene and covers most of the image."""
    writer(tmp_path, lens)

    capture = read_capture(tmp_path)

    decoder = Decoder()
    for frame in capture.frames[:3]:
        assert frame.depth is not None
        assert frame.depth.world_from_camera is not None
        depth, camera = decoder.depth(frame.depth)
        assert camera.model == "pinhole"
        points = writers.unproject(depth.astype(np.float64), camera, frame.depth.world_from_camera)[depth > 0]
        distance = writers.surface_distance(points)
        unit = 1e-3 if writer is writers.write_transforms else 0.0
        assert np.median(distance) < 5e-5 + unit / 2
        assert np.percentile(distance, 97) < 1e-3 + unit / 2  # the rest is at edges: the nearest pixel is taken
        truth, color = writers.render(camera, frame.depth.world_from_camera)
        agree = (depth > 0) & (truth > 0)
        assert agree.sum() > 0.97 * (truth > 0).sum()
        assert frame.photo is not None
        pixels, _ = decoder.photo(frame.photo)
        inner = np.abs(pixels.astype(int) - color).max(axis=2) < 30
        assert inner.mean() > 0.9  # all but the borders of checks


REAL = {
    "seven_scenes": ("7-Scenes", 140),
    "real_room_five": ("7-Scenes", 5),
    "living_room": ("cameras.json", 80),
    "icl_nuim_four": ("cameras.json", 4),
    "synthetic_noisy": ("cameras.json", 30),
    "synthetic_fisheye": ("cameras.json", 12),
    "fountain": ("cameras.json", 4),
    "temple_sparse_ring": ("cameras.json", 16),
    "fox": ("transforms.json", 50),
    "sceaux_castle": ("photos", 11),
}


@pytest.mark.data
@pytest.mark.parametrize("name", REAL)
def test_real_captures_are_recognised_and_decode(data_dir: Callable[[str], Path], name: str) -> None:
    capture = read_capture(data_dir(name))

    assert (capture.format, len(capture)) == REAL[name]
    photo = capture.frames[0].photo
    assert photo is not None
    pixels, camera = Decoder().photo(photo)
    assert pixels.shape == (camera.height, camera.width, 3)
    assert camera.model == "pinhole"
    depth_map = capture.frames[0].depth
    if depth_map is not None:
        depth, depth_camera = Decoder().depth(depth_map)
        assert depth.shape == (depth_camera.height, depth_camera.width)
        assert 0.1 < np.median(depth[depth > 0]) < 5


def _linked(source: Path, folder: Path, left_out: set[str]) -> Path:
    """A folder of symbolic links to the files of another, without some."""
    folder.mkdir(parents=True)
    for path in source.iterdir():
        if path.name not in left_out:
            (folder / path.name).symlink_to(path)
    return folder


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "format"),
    [("living_room", "Redwood / Open3D"), ("icl_nuim_four", "ICL-NUIM"), ("seven_scenes", "7-Scenes")],
)
def test_own_formats_agree_with_cameras_json(
    data_dir: Callable[[str], Path], tmp_path: Path, name: str, format: str
) -> None:
    """Given a set described twice, then its own files and cameras.json give the same cameras and poses."""
    folder = data_dir(name)
    own = read_capture(_linked(folder, tmp_path / "own 一", {"cameras.json"}))
    described = read_capture(_linked(folder, tmp_path / "described", {"trajectory.log", "pose.txt"}))

    assert own.format == format
    for a, b in zip(own.frames, described.frames, strict=True):
        assert a.depth is not None
        assert b.depth is not None
        assert a.depth.camera == b.depth.camera
        assert a.depth.scale == b.depth.scale
        np.testing.assert_allclose(a.depth.world_from_camera, b.depth.world_from_camera, atol=1e-6)  # type: ignore[arg-type]


def test_a_capture_names_its_frames_in_order(tmp_path: Path) -> None:
    capture: Capture = read_capture(write("icl", tmp_path))

    assert [frame.name for frame in capture.frames] == [str(i + 1) for i in range(writers.FRAMES)]
