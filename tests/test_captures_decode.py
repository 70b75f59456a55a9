"""From files to pixels: every kind of depth image, undistortion, decoding ahead, and damaged files."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

import capture_writers as writers
from smr.captures import Decoder, decode_ahead, decode_depth, decode_mask, decode_photo, decode_usable
from smr.captures.images import image_size, read_depth_image
from smr.captures.lzfse import decompress, read_lzfse_image
from smr.captures.undistort import DEPTH_JUMP, RemapTable, distort, pinhole_of, remap_color, remap_depth, remap_table
from smr.errors import SmrError
from smr.records import Camera, DepthMap, Photo

WAVE = Path(__file__).parent / "wave.lzfse"
"""64×48 float32, compressed with the reference implementation of LZFSE."""


def wave() -> np.ndarray:
    y, x = np.mgrid[:48, :64]
    depth = np.round(1 + 0.3 * np.sin(x / 9) + 0.2 * np.cos(y / 7), 2).astype(np.float32)
    depth[np.random.default_rng(5).random(depth.shape) < 0.1] = 0
    return depth


def save(path: Path, values: np.ndarray) -> None:
    ending = path.suffix
    if ending == ".npy":
        np.save(path, values)
    elif ending == ".exr":
        path.write_bytes(writers.exr_bytes(values))
    elif ending == ".pgm":
        top = 65535 if values.dtype.itemsize == 2 else 255
        header = f"P5\n# made by hand\n{values.shape[1]} {values.shape[0]}\n{top}\n".encode()
        path.write_bytes(header + values.astype(values.dtype.newbyteorder(">")).tobytes())
    else:
        Image.fromarray(values).save(path)


def depth_map(path: Path, size: tuple[int, int], scale: float, **more: object) -> DepthMap:
    camera = Camera(*size, 50.0, 50.0, size[0] / 2, size[1] / 2)
    return DepthMap(path, camera, None, scale, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ending", "kind", "scale"),
    [
        (".png", np.uint16, 1000.0),
        (".png", np.uint8, 50.0),
        (".pgm", np.uint16, 5000.0),
        (".pgm", np.uint8, 50.0),
        (".tif", np.uint16, 1000.0),
        (".tiff", np.float32, 1.0),
        (".exr", np.float32, 1.0),
        (".exr", np.float16, 1.0),
        (".npy", np.float32, 1.0),
        (".npy", np.float64, 1.0),
        (".npy", np.uint16, 1000.0),
        (".npy", np.int32, 1000.0),
    ],
)
def test_depth_files_give_metres(tmp_path: Path, ending: str, kind: type, scale: float) -> None:
    metres = wave()
    path = tmp_path / f"tiefe 深度{ending}"
    save(path, (metres * scale).astype(kind))

    decoded, camera = decode_depth(depth_map(path, (64, 48), scale))

    assert image_size(path) == (64, 48)
    assert decoded.dtype == np.float32
    np.testing.assert_allclose(decoded, metres, atol=1.01 / scale if np.issubdtype(kind, np.integer) else 1e-3)
    np.testing.assert_array_equal(decoded == 0, metres == 0)
    assert camera.width == 64


@pytest.mark.parametrize("compression", ["none", "RLE", "ZIPS", "ZIP"])
@pytest.mark.parametrize("kind", [np.float16, np.float32])
@pytest.mark.parametrize("height", [1, 15, 16, 17, 48])
def test_exr_of_every_compression(tmp_path: Path, compression: str, kind: type, height: int) -> None:
    values = wave()[:height].astype(kind)
    path = tmp_path / "a.exr"
    path.write_bytes(writers.exr_bytes(values, compression, channel="Z"))
    np.testing.assert_array_equal(read_depth_image(path), values.astype(np.float32))


def test_exr_of_another_compression_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.exr"
    path.write_bytes(writers.exr_bytes(wave(), "PIZ"))
    with pytest.raises(SmrError, match="has PIZ compression, which is not read here"):
        read_depth_image(path)


def test_values_that_are_no_measurement_become_zero(tmp_path: Path) -> None:
    save(tmp_path / "a.png", np.array([[0, 65535, 1500]], np.uint16))
    save(tmp_path / "a.npy", np.array([[np.nan, np.inf, -1.0, 1.5]], np.float32))
    assert decode_depth(depth_map(tmp_path / "a.png", (3, 1), 1000.0))[0].tolist() == [[0, 0, 1.5]]
    assert decode_depth(depth_map(tmp_path / "a.npy", (4, 1), 1.0))[0].tolist() == [[0, 0, 0, 1.5]]


def test_sun3d_bits_are_rotated_back(tmp_path: Path) -> None:
    millimetres = np.arange(1, 8001, dtype=np.uint16).reshape(80, 100)
    save(tmp_path / "a.png", (millimetres << 3) | (millimetres >> 13))
    decoded, _ = decode_depth(depth_map(tmp_path / "a.png", (100, 80), 1000.0, encoding="sun3d"))
    np.testing.assert_allclose(decoded, millimetres / 1000, rtol=1e-6)


@pytest.mark.parametrize("swapped", [False, True])
def test_kinect_disparity(tmp_path: Path, swapped: bool) -> None:
    raw = np.array([[980, 600, 1091, 2047, 1093]], np.uint16)
    save(tmp_path / "a.pgm", raw.byteswap() if swapped else raw)
    decoded, _ = decode_depth(depth_map(tmp_path / "a.pgm", (5, 1), 1.0, encoding="kinect_disparity"))
    np.testing.assert_allclose(decoded, [[351.3 / 112.5, 351.3 / 492.5, 351.3 / 1.5, 0, 0]], rtol=1e-6)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "scale", "encoding", "median"),
    [
        ("TUM_depth.png", 5000.0, "linear", 2.3),
        ("SUN_depth.png", 1000.0, "sun3d", 2.3),
        ("NYU_depth.pgm", 1.0, "kinect_disparity", 3.2),
    ],
)
def test_real_encodings(data_dir: Callable[[str], Path], name: str, scale: float, encoding: str, median: float) -> None:
    path = data_dir("rgbd_formats") / name
    decoded, _ = decode_depth(depth_map(path, image_size(path), scale, encoding=encoding))
    assert np.median(decoded) == pytest.approx(median, abs=0.1)


def test_encodings_need_16_bits(tmp_path: Path) -> None:
    save(tmp_path / "a.npy", wave())
    with pytest.raises(SmrError, match="the sun3d encoding is for 16-bit images"):
        decode_depth(depth_map(tmp_path / "a.npy", (64, 48), 1.0, encoding="sun3d"))


def test_photos_of_every_mode_become_rgb(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rgb = rng.integers(0, 256, (48, 64, 3)).astype(np.uint8)
    camera = Camera(64, 48, 50.0, 50.0, 32.0, 24.0)
    for mode in ("RGB", "RGBA", "L", "P", "1", "CMYK", "LA"):
        path = tmp_path / f"{mode}.{'tif' if mode == 'CMYK' else 'png'}"
        Image.fromarray(rgb).convert(mode).save(path)
        pixels, _ = decode_photo(Photo(path, camera, None))
        assert pixels.shape == (48, 64, 3)
        np.testing.assert_array_equal(pixels, np.asarray(Image.open(path).convert("RGB")))
    Image.fromarray(rgb[..., 0].astype(np.uint16) * 257).save(tmp_path / "deep.png")
    pixels, _ = decode_photo(Photo(tmp_path / "deep.png", camera, None))
    np.testing.assert_array_equal(pixels, np.repeat(rgb[..., :1], 3, axis=2))


def test_a_picture_of_depth_is_refused(tmp_path: Path) -> None:
    Image.new("RGB", (64, 48)).save(tmp_path / "a.png")
    with pytest.raises(SmrError, match="has mode RGB, not one channel of depth"):
        decode_depth(depth_map(tmp_path / "a.png", (64, 48), 1000.0))


def test_another_size_than_the_camera_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "a.png", np.ones((48, 60), np.uint16))
    with pytest.raises(SmrError, match="has 60 x 48 pixels, and its camera 64 x 48"):
        decode_depth(depth_map(tmp_path / "a.png", (64, 48), 1000.0))


@pytest.mark.parametrize("offset", [2**64 - 1, 2**63, 2**40])
def test_an_offset_past_any_size_is_named(tmp_path: Path, offset: int) -> None:
    path = tmp_path / "a.exr"
    save(path, wave().astype(np.float32))
    content = bytearray(path.read_bytes())
    rows = range(len(content) - 8)  # the table of 48 / 16 offsets ends where the first of them points to
    table = next(row for row in rows if int.from_bytes(content[row : row + 8], "little") == row + 8 * 3)
    content[table : table + 8] = offset.to_bytes(8, "little")
    path.write_bytes(content)
    with pytest.raises(SmrError, match="cannot be decoded: a block of lines lies outside"):
        decode_depth(depth_map(path, (64, 48), 1000.0))


@pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow's, of damaged tags
@pytest.mark.parametrize("ending", [".png", ".jpg", ".tif", ".exr", ".npy", ".pgm", ".bmp"])
@given(data=st.data())
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_files_are_named_and_never_crash(tmp_path: Path, ending: str, data: st.DataObject) -> None:
    """Given a file that is cut or has bytes changed, then it decodes to its size or the error names it."""
    path = tmp_path / f"a{ending}"
    save(path, (wave() * 100).astype(np.uint8) if ending in (".jpg", ".bmp") else wave().astype(np.float32)
         if ending in (".exr", ".npy") else (wave() * 1000).astype(np.uint16))  # fmt: skip
    content = bytearray(path.read_bytes())
    content = content[: data.draw(st.integers(0, len(content)))]
    for _ in range(data.draw(st.integers(0, 4))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)

    try:
        if ending in (".jpg", ".bmp"):
            decode_photo(Photo(path, Camera(64, 48, 50.0, 50.0, 32.0, 24.0), None))
        else:
            decode_depth(depth_map(path, (64, 48), 1000.0))
    except SmrError as error:
        named = str(path) in error.cause
        assert named


def test_missing_and_empty_files_are_named(tmp_path: Path) -> None:
    for ending in (".png", ".npy", ".exr", ".pgm"):
        path = tmp_path / f"a{ending}"
        with pytest.raises(SmrError, match=f"a{ending}"):
            decode_depth(depth_map(path, (64, 48), 1000.0))
        path.write_bytes(b"")
        with pytest.raises(SmrError, match=f"a{ending} cannot be decoded"):
            decode_depth(depth_map(path, (64, 48), 1000.0))


def test_an_image_that_claims_to_be_huge(tmp_path: Path) -> None:
    (tmp_path / "a.pgm").write_bytes(b"P5 1000000 1000000 65535\n")
    with pytest.raises(SmrError, match="no sane PGM header"):
        read_depth_image(tmp_path / "a.pgm")
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(SmrError, match="cannot be decoded"):
        read_depth_image(tmp_path / "a.npy")


def test_lzfse_of_the_reference_implementation() -> None:
    decoded = read_lzfse_image(WAVE, (64, 48), np.dtype("<f4"))
    np.testing.assert_array_equal(decoded, wave())
    assert WAVE.read_bytes()[:4] == b"bvx2"
    with pytest.raises(SmrError, match="holds more than 4096 bytes"):
        read_lzfse_image(WAVE, (32, 32), np.dtype("<f4"))
    with pytest.raises(SmrError, match="holds 12288 bytes, and 64 x 64 values need 16384"):
        read_lzfse_image(WAVE, (64, 64), np.dtype("<f4"))


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_damaged_lzfse_never_crashes(data: st.DataObject) -> None:
    content = bytearray(WAVE.read_bytes())
    content = content[: data.draw(st.integers(0, len(content)))]
    for _ in range(data.draw(st.integers(0, 6))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        assert len(decompress(bytes(content), 1 << 16)) <= 1 << 16


def test_lzfse_stored_blocks() -> None:
    assert decompress(writers.lzfse_stored(b"depth")) == b"depth"
    with pytest.raises(ValueError, match="no LZFSE stream"):
        decompress(b"PNG")
    with pytest.raises(ValueError, match="truncated"):
        decompress(writers.lzfse_stored(b"depth")[:-6])


LENSES = [
    writers.BARREL,
    writers.FISHEYE,
    Camera(160, 120, 120.0, 121.0, 79.0, 61.0, "opencv", (0.2, -0.3, 0.001, 0.002, 0.1, 0.05, -0.02, 0.01)),
    Camera(160, 120, 150.0, 150.0, 80.0, 60.0, "opencv", (0.05, -0.08)),
]


@pytest.mark.parametrize("lens", LENSES, ids=["barrel", "fisheye", "rational", "pincushion"])
def test_undistorted_images_have_a_source_everywhere(lens: Camera) -> None:
    table = remap_table(lens)
    assert table.camera.model == "pinhole"
    assert np.isfinite(table.source_xy).all()
    assert (table.source_xy >= -0.5 - 1e-3).all()


@pytest.mark.parametrize("lens", LENSES, ids=["barrel", "fisheye", "rational", "pincushion"])
def test_remapping_agrees_with_numpy(lens: Camera) -> None:
    """The kernels against plain NumPy."""
    rng = np.random.default_rng(1)
    table = remap_table(lens)
    image = rng.integers(0, 256, (lens.height, lens.width, 3)).astype(np.uint8)
    depth = (1 + 0.02 * rng.random((lens.height, lens.width)) + (rng.random((lens.height, lens.width)) < 0.1)).astype(
        np.float32
    )
    depth[rng.random(depth.shape) < 0.05] = 0

    difference = np.abs(remap_color(image, table).astype(int) - _numpy_color(image, table).astype(int))
    assert difference.max() <= 1
    assert (difference > 0).mean() < 1e-3
    np.testing.assert_allclose(remap_depth(depth, table), _numpy_depth(depth, table), rtol=1e-5)


def _corners(image: np.ndarray, table: RemapTable) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    limit = np.array([image.shape[1] - 1, image.shape[0] - 1], np.float32)
    xy = np.clip(table.source_xy, 0, limit)
    x0, y0 = xy.astype(int)[..., 0], xy.astype(int)[..., 1]
    x1, y1 = np.minimum(x0 + 1, image.shape[1] - 1), np.minimum(y0 + 1, image.shape[0] - 1)
    part = xy - np.floor(xy)
    return [image[y0, x0], image[y0, x1], image[y1, x0], image[y1, x1]], part[..., 0], part[..., 1]


def _numpy_color(image: np.ndarray, table: RemapTable) -> np.ndarray:
    (d00, d10, d01, d11), a, b = _corners(image.astype(np.float64), table)
    a, b = a[..., None], b[..., None]
    mixed = (1 - b) * ((1 - a) * d00 + a * d10) + b * ((1 - a) * d01 + a * d11)
    return (mixed + 0.5).astype(np.uint8)


def _numpy_depth(depth: np.ndarray, table: RemapTable) -> np.ndarray:
    corners, a, b = _corners(depth, table)
    d00, d10, d01, d11 = corners
    low, high = np.min(corners, axis=0), np.max(corners, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mixed = 1 / ((1 - b) * ((1 - a) / d00 + a / d10) + b * ((1 - a) / d01 + a / d11))
    nearest = np.where(b < 0.5, np.where(a < 0.5, d00, d10), np.where(a < 0.5, d01, d11))
    return np.where((low > 0) & (high - low <= np.float32(DEPTH_JUMP) * low), mixed, nearest)


@given(
    k=st.tuples(*[st.floats(-0.05, 0.05)] * 4),
    x=st.floats(-0.4, 0.4),
    y=st.floats(-0.3, 0.3),
)
@settings(max_examples=50, deadline=None)
def test_distortion_follows_its_definition(k: tuple[float, ...], x: float, y: float) -> None:
    """One point by the textbook formulas."""
    base = Camera(100, 80, 60.0, 61.0, 50.0, 40.0, "opencv", k)
    r2 = x * x + y * y
    radial = 1 + k[0] * r2 + k[1] * r2**2
    (u,), (v,) = distort(base, np.array([[x, y]]))
    assert u == pytest.approx(60 * (x * radial + 2 * k[2] * x * y + k[3] * (r2 + 2 * x * x)) + 50)
    assert v == pytest.approx(61 * (y * radial + k[2] * (r2 + 2 * y * y) + 2 * k[3] * x * y) + 40)
    fisheye = Camera(100, 80, 60.0, 61.0, 50.0, 40.0, "opencv_fisheye", k)
    theta = np.arctan(np.sqrt(r2))
    bent = theta * (1 + k[0] * theta**2 + k[1] * theta**4 + k[2] * theta**6 + k[3] * theta**8)
    (u,), (v,) = distort(fisheye, np.array([[x, y]]))
    factor = bent / np.sqrt(r2) if r2 > 1e-18 else 1.0
    assert (u, v) == (pytest.approx(60 * x * factor + 50), pytest.approx(61 * y * factor + 40))


def test_a_lens_that_folds_back_has_no_source_there() -> None:
    lens = Camera(100, 80, 40.0, 40.0, 50.0, 40.0, "opencv", (-0.5, 0.0))
    u, _ = distort(lens, np.array([[0.1, 0.0], [2.0, 0.0]]))
    assert np.isfinite(u[0])
    assert np.isnan(u[1])
    assert pinhole_of(lens).model == "pinhole"


def test_masks_are_undistorted_with_the_photo(tmp_path: Path) -> None:
    """Given a mask of the scene's objects, then its undistorted form is the mask that a pinhole camera would have."""
    pose = writers.poses()[0]
    save(tmp_path / "mask.png", np.where(writers.render(writers.BARREL, pose)[0] > 1.6, 255, 0).astype(np.uint8))
    mask = decode_mask(Photo(tmp_path / "x.png", writers.BARREL, pose, tmp_path / "mask.png"))
    truth = writers.render(pinhole_of(writers.BARREL), pose)[0] > 1.6
    assert mask is not None
    assert (mask == truth).mean() > 0.99


def test_a_mask_of_another_size_is_fitted(tmp_path: Path) -> None:
    save(tmp_path / "mask.png", np.kron([[0, 255]], np.ones((24, 16))).astype(np.uint8))
    camera = Camera(64, 48, 50.0, 50.0, 32.0, 24.0)
    mask = decode_mask(Photo(tmp_path / "x.png", camera, None, tmp_path / "mask.png"))
    np.testing.assert_array_equal(mask, np.repeat([[False, True]], 32, axis=1).repeat(48, axis=0))
    assert decode_mask(Photo(tmp_path / "x.png", camera, None)) is None


def test_a_decoder_makes_each_table_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = []
    monkeypatch.setattr("smr.captures.decode.remap_table", lambda camera: made.append(camera) or remap_table(camera))
    save(tmp_path / "a.png", np.zeros((216, 288, 3), np.uint8))
    decoder = Decoder()
    for _ in range(3):
        decoder.photo(Photo(tmp_path / "a.png", writers.BARREL, None))
    assert made == [writers.BARREL]


def test_decoding_ahead_keeps_order_and_bounds() -> None:
    begun: list[int] = []
    lock = threading.Lock()

    def decode(i: int) -> int:
        with lock:
            begun.append(i)
        time.sleep(0.002 * (i % 3))
        return i * i

    results = decode_ahead(range(30), decode, threads=3, lookahead=4)
    seen = []
    for k, value in enumerate(results):
        assert len(begun) <= k + 1 + 4 + 3
        seen.append(value)
    assert seen == [i * i for i in range(30)]


def test_an_exception_arrives_at_its_item() -> None:
    def decode(i: int) -> int:
        if i == 3:
            raise SmrError("three", "four")
        return i

    results = decode_ahead(range(10), decode, threads=2, lookahead=3)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(SmrError, match="three"):
        next(results)


@pytest.mark.parametrize("bad", [(), (0,), (4, 5), (9,), (0, 2, 4, 6, 8)])
def test_items_that_cannot_be_decoded_are_left_out(bad: tuple[int, ...], caplog: pytest.LogCaptureFixture) -> None:
    def decode(i: int) -> int:
        if i in bad:
            raise SmrError(f"depth-{i}.png cannot be decoded.", "Copy it again.")
        return i * i

    found = list(decode_usable(range(10), decode, threads=2, lookahead=3))

    assert found == [(i, i * i) for i in range(10) if i not in bad]
    assert [record.getMessage() for record in caplog.records] == [
        f"A frame is left out: depth-{i}.png cannot be decoded." for i in bad
    ]


def test_more_than_half_of_the_items_cannot_be_decoded() -> None:
    def decode(i: int) -> int:
        if i > 3:
            raise SmrError(f"depth-{i}.png cannot be decoded.", "Copy it again.")
        return i

    with pytest.raises(SmrError, match=r"More than half of the 10 .* first of them: depth-4\.png.*\n  fix: Copy"):
        list(decode_usable(range(10), decode))


def test_leaving_early_stops_the_work() -> None:
    begun: list[int] = []

    def decode(i: int) -> int:
        begun.append(i)
        time.sleep(0.005)
        return i

    for value in decode_ahead(range(1000), decode, threads=2, lookahead=4):
        if value == 2:
            break
    assert len(begun) < 20
    with pytest.raises(ValueError, match="at least 1"):
        list(decode_ahead([1], decode, threads=0))
