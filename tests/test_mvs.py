"""Dense depth: exact scenes with known depth, what is confirmed, what is kept in the folder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter, map_coordinates

from smr import mvs
from smr.captures import Decoder
from smr.config import MvsConfig
from smr.errors import SmrError
from smr.mvs.depths import in_words
from smr.mvs.store import Store
from smr.progress import Track
from smr.records import Camera, Capture, Frame, Photo
from smr.transforms import look_at

CAMERA = Camera(160, 120, 170.0, 170.0, 80.0, 60.0)
WALL = np.array([0.1, -0.2, 1.0])
"""Normal of the wall, which goes through the origin."""


def render_wall(world_from_camera: np.ndarray, texture: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Photo and depth of a painted wall, 2 m wide."""
    columns, rows = np.meshgrid(np.arange(CAMERA.width) + 0.5, np.arange(CAMERA.height) + 0.5)
    rays = np.stack(
        [(columns - CAMERA.cx) / CAMERA.fx, (rows - CAMERA.cy) / CAMERA.fy, np.ones(columns.shape)], axis=-1
    )
    turned = rays @ world_from_camera[:3, :3].T
    z = -(world_from_camera[:3, 3] @ WALL) / (turned @ WALL)
    points = world_from_camera[:3, 3] + z[..., None] * turned
    places = (points[..., :2] / 2.0 + 0.5) * np.array(texture.shape)
    grey = map_coordinates(texture, [places[..., 0].ravel(), places[..., 1].ravel()], order=1, mode="reflect")
    return grey.reshape(z.shape), z


@pytest.fixture(scope="module")
def wall(tmp_path_factory: pytest.TempPathFactory) -> tuple[Capture, list[np.ndarray]]:
    """Five photos of a painted wall, and their depth."""
    folder = tmp_path_factory.mktemp("wall")
    rng = np.random.default_rng(0)
    noise = gaussian_filter(rng.normal(size=(400, 400)), 1.5) + 2 * gaussian_filter(rng.normal(size=(400, 400)), 6)
    texture = np.clip(128 + 45 * noise / noise.std(), 0, 255)
    frames, depths = [], []
    for i, x in enumerate((-0.3, -0.15, 0.0, 0.15, 0.3)):
        pose = look_at(np.array([x, 0.05 * (-1) ** i, -1.2]), np.array([0.2 * x, 0, 0]), np.array([0.0, -1.0, 0.0]))
        grey, depth = render_wall(pose, texture)
        path = folder / f"{i}.png"
        Image.fromarray(np.repeat(np.rint(grey).astype(np.uint8)[..., None], 3, axis=2)).save(path)
        frames.append(Frame(path.name, Photo(path, CAMERA, pose), None))
        depths.append(depth)
    return Capture(folder, "test", tuple(frames)), depths


def test_a_painted_wall_has_its_depth(wall: tuple[Capture, list[np.ndarray]], tmp_path: Path) -> None:
    capture, truth = wall
    found = mvs.estimate_depths(capture, MvsConfig(quality="preview"), folder=tmp_path, device="cpu")
    decoder = Decoder()
    for frame, exact in zip(found.frames, truth, strict=True):
        assert frame.depth is not None
        depth, camera = decoder.depth(frame.depth)
        weight = decoder.weight(frame.depth)
        assert camera == CAMERA
        assert weight is not None
        np.testing.assert_array_equal(depth > 0, weight > 0)
        known = depth > 0
        assert known.mean() > 0.75
        error = np.abs(depth[known] / exact[known] - 1)
        assert np.median(error) < 0.001
        assert np.quantile(error, 0.99) < 0.006
    assert len(list(tmp_path.iterdir())) == 2 * len(capture)  # nothing but depth and weights is left


def test_maps_that_are_there_are_not_made_again(wall: tuple[Capture, list[np.ndarray]], tmp_path: Path) -> None:
    capture, _ = wall
    capture = replace(capture, frames=capture.frames[:3])
    config = MvsConfig(quality="preview", depth_size=80)
    first = mvs.estimate_depths(capture, config, folder=tmp_path, device="cpu")
    assert first.frames[0].depth is not None
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    lost = first.frames[0].depth.path
    content = lost.read_bytes()
    lost.unlink()
    mvs.estimate_depths(capture, config, folder=tmp_path, device="cpu")
    assert lost.read_bytes() == content  # the same seed, the same bytes
    assert all(path.stat().st_mtime_ns == time for path, time in kept.items() if path.stem[:5] != lost.stem[:5])
    mvs.estimate_depths(capture, replace(config, depth_size=64), folder=tmp_path, device="cpu")
    assert len(list(tmp_path.iterdir())) == 12  # other settings, other files


def test_an_interrupted_run_goes_on_where_it_was(wall: tuple[Capture, list[np.ndarray]], tmp_path: Path) -> None:
    capture, _ = wall
    capture = replace(capture, frames=capture.frames[:3])
    config = MvsConfig(quality="preview", depth_size=80)
    counts: list[int] = []

    def until(limit: int) -> Track:
        def track(items: Iterable[Any], label: str, total: int | None = None) -> Iterable[Any]:
            if "Depth" not in label:
                yield from items
                return
            assert "about 5 s" in label
            for count, item in enumerate(items):
                if count == limit:
                    raise KeyboardInterrupt
                yield item
            counts.append(count + 1)

        return track

    whole = mvs.estimate_depths(capture, config, folder=tmp_path / "whole", device="cpu", track=until(10**9))
    with pytest.raises(KeyboardInterrupt):
        mvs.estimate_depths(capture, config, folder=tmp_path / "parts", device="cpu", track=until(20))
    assert any((tmp_path / "parts").glob("*-coarse-*.npz"))
    parts = mvs.estimate_depths(capture, config, folder=tmp_path / "parts", device="cpu", track=until(10**9))
    assert counts[1] < counts[0]
    for one, other in zip(whole.frames, parts.frames, strict=True):
        assert one.depth is not None
        assert other.depth is not None
        assert one.depth.path.read_bytes() == other.depth.path.read_bytes()
    assert not list((tmp_path / "parts").glob("*.npz"))


def test_a_damaged_map_of_a_step_is_made_again(wall: tuple[Capture, list[np.ndarray]], tmp_path: Path) -> None:
    store = Store(tmp_path, "key", "cpu", 1 << 20)
    store.path("coarse", 3).write_bytes(b"PK no archive")
    assert not store.has("coarse", 3)
    with pytest.raises(SmrError, match="was written and is gone"):
        store.get("coarse", 4)


def test_a_photo_that_cannot_be_decoded_is_left_out(
    wall: tuple[Capture, list[np.ndarray]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    capture, _ = wall
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"no image")
    first = capture.frames[0]
    assert first.photo is not None
    broken = replace(first, photo=replace(first.photo, path=bad))
    capture = replace(capture, frames=(broken, *capture.frames[1:4]))
    config = MvsConfig(quality="preview", depth_size=64)
    found = mvs.estimate_depths(capture, config, folder=tmp_path / "depths", device="cpu")
    assert [frame.depth is not None for frame in found.frames] == [False, True, True, True]
    assert "bad.png" in caplog.text
    again = mvs.estimate_depths(capture, config, folder=tmp_path / "depths", device="cpu")
    assert again.frames[0].depth is None
    both = replace(capture, frames=(broken, replace(broken, name="2"), capture.frames[1]))
    with pytest.raises(SmrError, match="More than half"):
        mvs.estimate_depths(both, config, folder=tmp_path / "none", device="cpu")


def test_durations_in_words() -> None:
    assert [in_words(s) for s in (0.2, 42.0, 89.0, 91.0, 3600.0)] == [
        "about 5 s",
        "about 40 s",
        "about 90 s",
        "about 2 min",
        "about 60 min",
    ]


def test_too_few_photos(wall: tuple[Capture, list[np.ndarray]], tmp_path: Path) -> None:
    capture, _ = wall
    one = replace(capture, frames=capture.frames[:1])
    with pytest.raises(SmrError, match="1 photo with a pose; stereo needs two"):
        mvs.estimate_depths(one, MvsConfig(), folder=tmp_path, device="cpu")
    twice = replace(capture, frames=(capture.frames[0], capture.frames[0]))
    with pytest.raises(SmrError, match="No two photos"):
        mvs.estimate_depths(twice, MvsConfig(), folder=tmp_path, device="cpu")


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (MvsConfig(depth_size=8), "--depth-size is 8"),
        (MvsConfig(sources=9), "--sources is 9"),
        (MvsConfig(agreeing=0), "--agreeing is 0"),
    ],
)
def test_settings_that_mean_nothing(config: MvsConfig, text: str, tmp_path: Path) -> None:
    with pytest.raises(SmrError, match=text):
        mvs.estimate_depths(Capture(tmp_path, "test", ()), config, folder=tmp_path, device="cpu")
