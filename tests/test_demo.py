"""The demo capture: its truth is what its cameras see, and its files say so."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from smr.captures import read_capture
from smr.demo import DemoScene, make_capture
from smr.demo.scene import camera_path
from smr.demo.sensor import Sensor, measure_depth, shadow, take_photo
from smr.demo.teapot import surface_net, teapot_surface
from smr.errors import SmrError
from smr.transforms import rigid_inverse, transform_points

SIZE = {"views": 4, "width": 96, "height": 72}


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> DemoScene:
    return make_capture(tmp_path_factory.mktemp("exact"), noise=False, **SIZE)


def pixels_of(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image)


def depth_of(scene: DemoScene, i: int) -> np.ndarray:
    depth = scene.capture.frames[i].depth
    assert depth is not None
    return pixels_of(depth.path).astype(float) / depth.scale


def first_hits(scene: DemoScene, i: int, pixels: np.ndarray) -> np.ndarray:
    """Depth of each pixel's ray against every triangle, in float64 (Möller and Trumbore); 0 without a hit."""
    frame = scene.capture.frames[i].depth
    assert frame is not None
    camera, pose = frame.camera, frame.world_from_camera
    a, b, c = (scene.truth.vertices[scene.truth.faces[:, k]].astype(float) for k in range(3))
    depths = []
    for x, y in pixels:
        direction = pose[:3, :3] @ [(x + 0.5 - camera.cx) / camera.fx, (y + 0.5 - camera.cy) / camera.fy, 1.0]
        normal = np.cross(b - a, c - a)
        across = np.cross(pose[:3, 3] - a, direction)
        det = -normal @ direction
        det = np.where(det == 0, np.inf, det)
        u, v = (np.einsum("ij,ij->i", c - a, across) / det, -np.einsum("ij,ij->i", b - a, across) / det)
        t = np.einsum("ij,ij->i", pose[:3, 3] - a, normal) / det
        hit = (u >= 0) & (v >= 0) & (u + v <= 1) & (t > 0)
        depths.append(t[hit].min() if hit.any() else 0.0)
    return np.array(depths)


def test_depth_without_noise_is_that_of_the_truth_mesh(exact: DemoScene) -> None:
    pixels = np.random.default_rng(1).integers(0, [96, 72], (90, 2))
    found = depth_of(exact, 2)[pixels[:, 1], pixels[:, 0]]
    true = first_hits(exact, 2, pixels)
    assert (true > 0).sum() > 20
    # A ray through an edge between two triangles may pass either side of it in float32.
    assert np.mean(np.abs(found - true) < 0.00006) > 0.98


def test_photos_show_the_colours_of_the_truth(exact: DemoScene) -> None:
    frame = exact.capture.frames[1]
    assert frame.photo is not None
    assert frame.photo.world_from_camera is not None
    assert exact.truth.colors is not None
    camera = frame.photo.camera
    table = exact.truth.vertices[:, 2] == 0.0
    points = transform_points(rigid_inverse(frame.photo.world_from_camera), exact.truth.vertices[table].astype(float))
    x = np.floor(camera.fx * points[:, 0] / points[:, 2] + camera.cx).astype(int)
    y = np.floor(camera.fy * points[:, 1] / points[:, 2] + camera.cy).astype(int)
    inside = (x >= 0) & (y >= 0) & (x < camera.width) & (y < camera.height)
    x, y, z = x[inside], y[inside], points[inside, 2]
    visible = np.abs(depth_of(exact, 1)[y, x] - z) < 0.004
    assert visible.sum() > 500
    seen = pixels_of(frame.photo.path)[y[visible], x[visible]].astype(int)
    true = exact.truth.colors[table][inside][visible].astype(int)
    assert np.median(np.abs(seen - true)) < 12  # a pixel is larger than the pattern's details


def test_the_files_have_the_form_of_the_other_sets(exact: DemoScene) -> None:
    document = json.loads((exact.folder / "cameras.json").read_text())
    camera = exact.capture.frames[0].photo.camera  # type: ignore[union-attr]
    assert (document["width"], document["height"], document["model"]) == (96, 72, "pinhole")
    assert document["cx"] == camera.cx - 0.5  # there the first pixel's centre is at (0, 0)
    assert document["cy"] == camera.cy - 0.5
    assert len(document["frames"]) == len(exact.capture) == 4
    for row, frame in zip(document["frames"], exact.capture.frames, strict=True):
        assert frame.depth is not None
        np.testing.assert_array_equal(row["camera_to_world"], frame.depth.world_from_camera)
        assert pixels_of(exact.folder / row["depth"]).dtype == np.uint16
        assert pixels_of(exact.folder / row["color"]).shape == (72, 96, 3)


def test_the_reader_finds_the_same_capture(exact: DemoScene) -> None:
    found = read_capture(exact.folder)
    assert [frame.name for frame in found.frames] == [frame.name for frame in exact.capture.frames]
    assert [finding for finding in found.findings if finding.severity != "note"] == []
    for frame, made in zip(found.frames, exact.capture.frames, strict=True):
        assert frame.photo is not None
        assert frame.depth is not None
        assert made.depth is not None
        assert frame.photo.camera == frame.depth.camera == made.depth.camera
        assert frame.depth.scale == made.depth.scale
        np.testing.assert_allclose(frame.depth.world_from_camera, made.depth.world_from_camera, atol=1e-9)


def test_the_truth_file_is_the_truth(exact: DemoScene) -> None:
    trimesh = pytest.importorskip("trimesh")
    loaded = trimesh.load(exact.truth_path, process=False)
    np.testing.assert_array_equal(loaded.vertices, exact.truth.vertices)
    np.testing.assert_array_equal(loaded.faces, exact.truth.faces)
    np.testing.assert_array_equal(loaded.visual.vertex_colors[:, :3], exact.truth.colors)


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    one, two, other = (
        make_capture(tmp_path / name, views=2, width=64, height=48, seed=seed).folder
        for name, seed in (("one", 3), ("two", 3), ("other", 4))
    )
    for name in ("cameras.json", "color/0001.jpg", "depth/0001.png", "ground_truth/mesh.ply"):
        assert (one / name).read_bytes() == (two / name).read_bytes()
    for name in ("color/0001.jpg", "depth/0001.png"):
        assert (one / name).read_bytes() != (other / name).read_bytes()


def test_progress_counts_every_view(tmp_path: Path) -> None:
    seen: dict[str, int] = {}

    def track(items, label, total=None):
        for item in items:
            seen[label] = seen.get(label, 0) + 1
            yield item

    make_capture(tmp_path, views=3, width=32, height=24, track=track)
    assert seen == {"Model the demo's object": 1, "Photograph the demo's object": 3}


def test_a_capture_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SmrError, match="--views is 0"):
        make_capture(tmp_path, views=0)
    with pytest.raises(ValueError, match="at least 8×8 pixels, not 4×480"):
        make_capture(tmp_path, width=4)


@pytest.mark.parametrize("views", [1, 6, 20, 40])
def test_cameras_look_at_the_object_from_all_sides(views: int) -> None:
    poses = np.stack(camera_path(views, 4 / 3, 0))
    np.testing.assert_allclose(
        poses[:, :3, :3] @ np.swapaxes(poses[:, :3, :3], 1, 2), np.tile(np.eye(3), (views, 1, 1)), atol=1e-12
    )
    centre = transform_points(rigid_inverse(poses[0]), np.array([[0.0, 0.0, 0.075]]))[0]
    assert np.abs(centre[:2]).max() < 0.05
    assert 0.4 < centre[2] < 0.7
    assert (poses[:, 2, 3] > 0.1).all()
    azimuth = np.sort(np.arctan2(poses[:, 1, 3], poses[:, 0, 3]))
    gaps = np.diff(np.append(azimuth, azimuth[0] + 2 * np.pi))
    assert gaps.max() < 2.2 * np.pi / max(1, views / 3)


def test_surface_net_of_a_sphere() -> None:
    grid = np.stack(np.meshgrid(*[np.linspace(-1.2, 1.2, 41)] * 3, indexing="ij"), -1)
    vertices, faces = surface_net(np.linalg.norm(grid, axis=-1) - 1.0, np.full(3, -1.2), 0.06)
    np.testing.assert_allclose(np.linalg.norm(vertices, axis=1), 1.0, atol=0.002)
    edges = np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    assert (np.unique(edges, axis=0, return_counts=True)[1] == 2).all()
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    assert np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6 == pytest.approx(4 / 3 * np.pi, rel=0.005)


def test_the_teapot_is_closed_and_faces_outwards() -> None:
    vertices, faces = teapot_surface(0.003, "cpu")
    edges = faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    forward, backward = (
        np.unique(edges, axis=0, return_counts=True),
        np.unique(edges[:, ::-1], axis=0, return_counts=True),
    )
    np.testing.assert_array_equal(forward[0], backward[0])  # each edge is used once in each direction, or twice
    np.testing.assert_array_equal(forward[1], backward[1])
    a, b, c = (vertices[faces[:, k]].astype(float) for k in range(3))
    assert 0.003 < np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6 < 0.0035  # three litres


def test_depth_noise_grows_with_the_square_of_the_distance() -> None:
    sensor = Sensor(disparity_step=1e-6)
    sigma = []
    for z in (0.5, 1.0):
        flat = np.full((200, 640), z)
        measured = measure_depth(flat, np.ones_like(flat), 560.0, sensor, np.random.default_rng(0))
        sigma.append(np.std(measured[measured > 0]))
    assert sigma[1] / sigma[0] == pytest.approx(4.0, rel=0.05)
    assert sigma[0] == pytest.approx(0.25 / (560 * sensor.baseline) * sensor.disparity_sigma, rel=0.05)


def test_depth_is_missing_where_the_surface_turns_away() -> None:
    facing = np.broadcast_to(np.linspace(0.0, 1.0, 640), (200, 640))
    measured = measure_depth(np.full((200, 640), 0.5), facing, 560.0, Sensor(), np.random.default_rng(0))
    kept = (measured > 0).mean(axis=0)
    assert kept[:50].max() == 0.0
    assert kept[200:].mean() > 0.97


def test_the_projectors_shadow_lies_left_of_what_is_near() -> None:
    depth = np.full((3, 100), 1.0)
    depth[:, 50:60] = 0.5
    # focal length × baseline 20: the near bar is lit 40 pixels further left, the wall 20, so 20 pixels are dark.
    dark = shadow(depth, 20.0)
    assert dark[:, 32:50].all()
    assert not dark[:, :30].any()
    assert not dark[:, 50:].any()


def test_exposure_changes_from_photo_to_photo() -> None:
    grey = np.full((20, 20, 3), 128.0)
    means = [take_photo(grey, Sensor(), np.random.default_rng(i)).mean() for i in range(12)]
    assert 3 < np.ptp(means) < 20
