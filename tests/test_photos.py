"""Photos as files: how they are turned, how large, what their EXIF says; videos; calibrated sets."""

from __future__ import annotations

import struct
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from smr.captures import Decoder, read_capture
from smr.captures import photos as photos_reader
from smr.captures.wide import split_wide
from smr.config import CaptureConfig
from smr.errors import SmrError
from smr.records import Camera, Capture, Frame, Photo

ORIENTATION = 0x0112


def picture(width: int = 60, height: int = 40, seed: int = 0) -> np.ndarray:
    """A smooth picture, so that JPEG keeps its values."""
    random = np.random.default_rng(seed)
    small = random.integers(0, 255, (4, 6, 3)).astype(np.uint8)
    return np.asarray(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC))


def said(capture: Capture) -> str:
    return " ".join(finding.cause for finding in capture.findings)


def only(capture: Capture) -> Photo:
    (frame,) = capture.frames
    assert frame.photo is not None
    return frame.photo


@pytest.mark.parametrize("orientation", range(1, 9))
def test_photos_are_used_as_they_are_shown(tmp_path: Path, orientation: int) -> None:
    shown = picture()
    turns = {2: 0, 3: 1, 4: 2, 5: 3, 6: 4, 7: 5, 8: 6}  # how the stored pixels come from the shown ones
    undo = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    stored = Image.fromarray(shown) if orientation not in turns else Image.fromarray(shown).transpose(undo[orientation])
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    stored.save(tmp_path / "a.png", exif=exif)

    photo = only(read_capture(tmp_path))
    pixels, camera = Decoder().photo(photo)

    np.testing.assert_array_equal(pixels, shown)
    assert (camera.width, camera.height) == (60, 40)


def test_alpha_is_turned_with_its_photo(tmp_path: Path) -> None:
    alpha = np.zeros((40, 60), np.uint8)
    alpha[:10, :20] = 255
    stored = Image.fromarray(np.dstack([picture(), alpha])).transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    stored.save(tmp_path / "a.png", exif=exif)

    mask = Decoder().mask(only(read_capture(tmp_path, CaptureConfig(use_masks=True))))

    assert mask is not None
    np.testing.assert_array_equal(mask, alpha > 0)


@pytest.mark.parametrize("ending", ["jpg", "png", "tif", "webp", "bmp"])
def test_formats_of_photos(tmp_path: Path, ending: str) -> None:
    Image.fromarray(picture()).save(tmp_path / f"a.{ending}")
    pixels, _ = Decoder().photo(only(read_capture(tmp_path)))
    assert np.abs(pixels.astype(int) - picture()).mean() < 4


def test_heic(tmp_path: Path) -> None:
    pytest.importorskip("pillow_heif").register_heif_opener()
    Image.fromarray(picture(64, 48)).save(tmp_path / "a.heic", quality=95)
    pixels, _ = Decoder().photo(only(read_capture(tmp_path)))
    assert np.abs(pixels.astype(int) - picture(64, 48)).mean() < 6


def test_heic_without_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.heic").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SmrError, match=r"HEIC, which needs pillow-heif.*\n  fix: Install it: pip install"):
        read_capture(tmp_path)


def test_cmyk_grey_and_16_bit(tmp_path: Path) -> None:
    Image.fromarray(picture()).convert("CMYK").save(tmp_path / "cmyk.jpg", quality=95)
    grey = picture()[..., 1]
    Image.fromarray(grey.astype(np.uint16) * 257).save(tmp_path / "grey16.png")
    write_tiff_16(tmp_path / "rgb16.tif", picture().astype(np.uint16) * 257)

    decoded = {f.name: Decoder().photo(f.photo)[0] for f in read_capture(tmp_path).frames if f.photo is not None}

    assert np.abs(decoded["cmyk"].astype(int) - picture()).mean() < 6
    np.testing.assert_array_equal(decoded["grey16"][..., 0], grey)
    assert np.abs(decoded["rgb16"].astype(int) - picture()).max() <= 1


def write_tiff_16(path: Path, pixels: np.ndarray) -> None:
    """Three channels of 16 bits, as raw converters write them and Pillow does not."""
    height, width, _ = pixels.shape
    content = pixels.astype("<u2").tobytes()
    tags = [(256, width), (257, height), (259, 1), (262, 2), (277, 3), (278, height), (279, len(content)), (284, 1)]
    after = 8 + 2 + 12 * (len(tags) + 2) + 4
    tags = sorted([*tags, (273, after + 6), (258, after)])
    out = b"II*\0" + struct.pack("<IH", 8, len(tags))
    for tag, value in tags:
        out += struct.pack("<HHII", tag, 3 if tag == 258 else 4, 3 if tag == 258 else 1, value)
    path.write_bytes(out + struct.pack("<I", 0) + struct.pack("<HHH", 16, 16, 16) + content)


def test_huge_photos_are_used_smaller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(photos_reader, "LARGEST", 1000)
    for name in ("a.jpg", "b.png"):
        Image.fromarray(picture(121, 81)).save(tmp_path / name, **({"quality": 95} if name == "a.jpg" else {}))

    capture = read_capture(tmp_path)

    assert "2 photos have more than 0 megapixels and are used at 1/4 of their width" in said(capture)
    for frame in capture.frames:
        assert frame.photo is not None
        pixels, camera = Decoder().photo(frame.photo)
        assert pixels.shape == (21, 31, 3) == (camera.height, camera.width, 3)
        assert np.abs(pixels[5:15, 5:25].astype(int) - picture(121, 81)[22:62:4, 22:102:4]).mean() < 8


def test_a_photo_of_100_megapixels_is_no_bomb(tmp_path: Path) -> None:
    Image.new("L", (10_400, 10_000)).save(tmp_path / "a.png")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        photo = only(read_capture(tmp_path))
    assert (photo.shrink, photo.camera.width) == (2, 5200)


def test_focal_lengths_of_exif(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif.get_ifd(0x8769)[0xA405] = 28
    Image.fromarray(picture()).save(tmp_path / "a.jpg", exif=exif)
    exif = Image.Exif()
    lens = exif.get_ifd(0x8769)
    lens[0x920A], lens[0xA20E], lens[0xA210] = 5.0, 254.0, 2  # 10 pixels a mm
    Image.fromarray(picture()).save(tmp_path / "b.jpg", exif=exif)
    Image.fromarray(picture()).save(tmp_path / "c.jpg")

    cameras = [frame.photo.camera for frame in read_capture(tmp_path).frames if frame.photo is not None]

    assert [camera.intrinsics for camera in cameras] == ["exif", "exif", "guess"]
    assert [camera.fx for camera in cameras] == pytest.approx([60 * 28 / 36, 50.0, 72.0])


def test_given_intrinsics_are_known(tmp_path: Path) -> None:
    Image.fromarray(picture()).save(tmp_path / "a.png")
    photo = only(read_capture(tmp_path, CaptureConfig(intrinsics=(50.0, 51.0, 30.0, 20.0))))
    assert (photo.camera.fy, photo.camera.intrinsics) == (51.0, "known")


@pytest.mark.parametrize("name", ["a.png", "a.jpg.png"])
def test_masks_beside_photos(tmp_path: Path, name: str) -> None:
    mask = np.zeros((40, 60), np.uint8)
    mask[10:20] = 255
    (tmp_path / "masks").mkdir()
    Image.fromarray(mask).save(tmp_path / "masks" / name)
    Image.fromarray(picture()).save(tmp_path / "a.jpg")

    found = Decoder().mask(only(read_capture(tmp_path, CaptureConfig(use_masks=True))))

    assert found is not None
    np.testing.assert_array_equal(found, mask > 0)


def test_a_corrupt_photo_among_good_ones(tmp_path: Path) -> None:
    for i in range(3):
        Image.fromarray(picture(seed=i)).save(tmp_path / f"good{i}.jpg")
    whole = (tmp_path / "good0.jpg").read_bytes()
    (tmp_path / "bad.jpg").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "empty.jpg").write_bytes(b"")

    capture = read_capture(tmp_path)

    assert [frame.name for frame in capture.frames] == ["good0", "good1", "good2"]
    assert "bad.jpg" in said(capture)
    assert "empty.jpg" in said(capture)


def write_video(path: Path, frames: list[np.ndarray], rate: int = 10) -> None:
    av = pytest.importorskip("av")
    with av.open(str(path), "w") as out:
        stream = out.add_stream("mpeg4", rate=rate)
        stream.width, stream.height, stream.pix_fmt = frames[0].shape[1], frames[0].shape[0], "yuv420p"
        stream.bit_rate = 8_000_000
        for pixels in frames:
            out.mux(stream.encode(av.VideoFrame.from_ndarray(pixels)))
        out.mux(stream.encode())


def test_the_sharpest_frame_of_each_half_second_of_a_video(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    sharp = (random.integers(0, 2, (6, 8, 1)) * np.full(3, 200)).astype(np.uint8).repeat(8, axis=0).repeat(8, axis=1)
    flat = np.full((48, 64, 3), 100, np.uint8)
    write_video(tmp_path / "v.mp4", [flat, flat, sharp, flat, flat, sharp, flat, flat, flat, flat])

    capture = read_capture(tmp_path / "v.mp4", folder=tmp_path / "work")

    assert capture.format == "video"
    assert [frame.timestamp for frame in capture.frames] == pytest.approx([0.2, 0.5])
    assert "2 photos: the sharpest frame of each 0.5 s" in said(capture)
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "work").rglob("*.jpg")}
    read_capture(tmp_path / "v.mp4", folder=tmp_path / "work")
    assert files == {path: path.stat().st_mtime_ns for path in (tmp_path / "work").rglob("*.jpg")}
    assert len(read_capture(tmp_path / "v.mp4", CaptureConfig(every=3), folder=tmp_path / "work")) == 4


def test_no_video(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("av")
    (tmp_path / "v.mp4").write_bytes(b"no video")
    with pytest.raises(SmrError, match=r"v\.mp4 cannot be decoded: .*\n  fix: Copy it again"):
        read_capture(tmp_path / "v.mp4")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SmrError, match=r"needs PyAV to be decoded\.\n  fix: Install it: pip install .*ffmpeg -i"):
        read_capture(tmp_path / "v.mp4")


def cameras_of(capture: Capture) -> list[tuple[np.ndarray, np.ndarray]]:
    return [
        (f.photo.camera.K, f.photo.world_from_camera)
        for f in capture.frames
        if f.photo is not None and f.photo.world_from_camera is not None
    ]


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "format_"), [("temple_sparse_ring", "Middlebury"), ("fountain", "Strecha")], ids=lambda value: str(value)
)
def test_calibrated_sets(tmp_path: Path, data_dir: Callable[[str], Path], name: str, format_: str) -> None:
    source = data_dir(name)
    for path in source.rglob("*"):
        if path.is_file() and path.name not in ("cameras.json", "README.md"):
            link = tmp_path / path.relative_to(source)
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(path)

    capture = read_capture(tmp_path)

    assert capture.format == format_
    for (K, pose), (true_K, true_pose) in zip(cameras_of(capture), cameras_of(read_capture(source)), strict=True):
        np.testing.assert_allclose(K, true_K)
        np.testing.assert_allclose(pose, true_pose, atol=1e-9)


def test_bundler(tmp_path: Path) -> None:
    for name in ("a.jpg", "b.jpg", "c.jpg"):
        Image.fromarray(picture()).save(tmp_path / name)
    (tmp_path / "list.txt").write_text("./a.jpg 0 50.0\n./b.jpg\n./c.jpg\n")
    rotation = "1 0 0\n0 1 0\n0 0 1\n"
    cameras = f"55 0.1 -0.2\n{rotation}1 2 3\n" + "0 0 0\n" * 5 + f"50 0 0\n{rotation}0 0 -4\n"
    (tmp_path / "bundle.out").write_text(f"# Bundle file v0.3\n3 0\n{cameras}")

    capture = read_capture(tmp_path)

    assert capture.format == "Bundler"
    assert [frame.name for frame in capture.frames] == ["a", "c"]
    first, second = (frame.photo for frame in capture.frames)
    assert first is not None
    assert second is not None
    assert first.world_from_camera is not None
    assert second.world_from_camera is not None
    assert (first.camera.fx, first.camera.cx, first.camera.distortion) == (55.0, 30.0, (0.1, -0.2, 0.0, 0.0))
    np.testing.assert_allclose(first.world_from_camera[:3, 3], [-1, -2, -3])
    np.testing.assert_allclose(second.world_from_camera, [[1, 0, 0, 0], [0, -1, 0, 0], [0, 0, -1, 4], [0, 0, 0, 1]])


def test_damaged_calibrations(tmp_path: Path) -> None:
    Image.fromarray(picture()).save(tmp_path / "a.png")
    (tmp_path / "x_par.txt").write_text("1\na.png 1 2 three\n")
    with pytest.raises(SmrError, match=r"Line 2 of .*x_par\.txt is no name and 21 numbers"):
        read_capture(tmp_path)
    (tmp_path / "x_par.txt").unlink()
    (tmp_path / "a.png.camera").write_text("1 0 0")
    with pytest.raises(SmrError, match=r"a\.png\.camera holds 3 numbers"):
        read_capture(tmp_path)
    (tmp_path / "a.png.camera").unlink()
    (tmp_path / "list.txt").write_text("a.png\n")
    (tmp_path / "bundle.out").write_text("# Bundle file v0.3\n2 0\n")
    with pytest.raises(SmrError, match="they do not belong together"):
        read_capture(tmp_path)


def test_wide_photos_become_pinhole_views(tmp_path: Path) -> None:
    Image.fromarray(picture(160, 120)).save(tmp_path / "a.png")
    pose = np.eye(4)
    pose[:3, 3] = 1, 2, 3
    fisheye = Camera(160, 120, 50.0, 50.0, 80.0, 60.0, "opencv_fisheye", (0.0, 0.0, 0.0, 0.0))
    flat = Frame("flat", Photo(tmp_path / "a.png", Camera(160, 120, 100.0, 100.0, 80.0, 60.0), pose), None)
    wide = Frame("wide", Photo(tmp_path / "a.png", fisheye, pose), None)
    capture = Capture(tmp_path, "photos", (flat, wide))

    split = split_wide(capture, tmp_path / "views")

    assert split.frames[0] is flat
    assert len(split.frames) > 2
    assert "1 wide photos are used as" in said(split)
    for frame in split.frames[1:]:
        photo = frame.photo
        assert photo is not None
        assert photo.camera.model == "pinhole"
        assert photo.world_from_camera is not None
        np.testing.assert_allclose(photo.world_from_camera[:3, 3], [1, 2, 3])
        pixels, _ = Decoder().photo(photo)
        mask = Decoder().mask(photo)
        assert mask is not None
        assert mask.any()
        assert pixels[~mask].max(initial=0) == 0
    times = [path.stat().st_mtime_ns for path in sorted((tmp_path / "views").iterdir())]
    split_wide(capture, tmp_path / "views")
    assert times == [path.stat().st_mtime_ns for path in sorted((tmp_path / "views").iterdir())]
    assert split_wide(replace(capture, frames=(flat,)), tmp_path / "views").frames == (flat,)


def test_photos_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    Image.fromarray(picture()).save(tmp_path / "good.webp")
    (tmp_path / "bad.webp").write_bytes(b"RIFF")
    assert "1 of 2 photos cannot be read and is left out: bad.webp" in said(read_capture(tmp_path))
