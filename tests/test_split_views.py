"""Fisheye and 360-degree photos as pinhole views: all is covered, nothing moves, colours stay."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jaxtyping
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smr.captures import read_capture
from smr.captures.images import read_photo
from smr.captures.split_views import (
    SplitView,
    fisheye_fold,
    image_circle_deg,
    project_directions,
    split_camera,
    split_photo,
)
from smr.captures.undistort import remap_table
from smr.formats.ply_read import read_ply
from smr.records import Camera, Photo
from smr.render.rasterize import rasterize
from smr.transforms import look_at, rigid_inverse, transform_points

FISHEYE = Camera(640, 480, 205.0, 204.6, 321.9, 238.8, "opencv_fisheye", (0.021, -0.0065, 0.0012, -0.0001))
CIRCULAR = Camera(600, 600, 155.0, 155.0, 300.0, 300.0, "opencv_fisheye", (0.01,))
PANORAMA = Camera(720, 360, 720 / math.tau, 360 / math.pi, 360.0, 180.0, "equirectangular")
PHONE = Camera(320, 240, 300.0, 300.0, 160.0, 120.0, "opencv", (-0.1, 0.02, 0.001, 0.0))


def directions_everywhere(count: int = 4000) -> np.ndarray:
    d = np.random.default_rng(0).normal(size=(count, 3))
    unit: np.ndarray = d / np.linalg.norm(d, axis=1, keepdims=True)
    return unit


def pixels_of(view: SplitView, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the view's pinhole camera sees directions of the photo's camera, and whether inside its image."""
    local = directions @ view.photo_from_view
    ahead = local[:, 2] > 1e-6
    plane = local[:, :2] / np.where(ahead, local[:, 2], 1.0)[:, None]
    xy = plane * view.camera.fx + [view.camera.cx, view.camera.cy]
    return xy, ahead & (xy >= 0).all(axis=1) & (xy <= [view.camera.width, view.camera.height]).all(axis=1)


def source_at(view: SplitView, xy: np.ndarray) -> np.ndarray:
    """The table between the pixels' centres, in photo pixels; NaN at the border of what was seen."""
    table = view.table.source_xy.astype(float) + 0.5
    x, y = xy[:, 0] - 0.5, xy[:, 1] - 0.5
    x0 = np.clip(np.floor(x), 0, table.shape[1] - 2).astype(int)
    y0 = np.clip(np.floor(y), 0, table.shape[0] - 2).astype(int)
    a, b = (x - x0)[:, None], (y - y0)[:, None]
    top = (1 - a) * table[y0, x0] + a * table[y0, x0 + 1]
    found: np.ndarray = (1 - b) * top + b * ((1 - a) * table[y0 + 1, x0] + a * table[y0 + 1, x0 + 1])
    return found


def colour_of(directions: np.ndarray) -> np.ndarray:
    """A smooth colour for each direction."""
    unit = directions / np.linalg.norm(directions, axis=-1, keepdims=True)
    return 128 + 100 * np.sin(3 * unit + [0.0, 1.0, 2.0])


def panorama_image() -> np.ndarray:
    longitude = ((np.arange(720) + 0.5) - 360) / PANORAMA.fx
    latitude = ((np.arange(360) + 0.5) - 180) / PANORAMA.fy
    lon, lat = np.meshgrid(longitude, latitude)
    d = np.stack([np.cos(lat) * np.sin(lon), np.sin(lat), np.cos(lat) * np.cos(lon)], axis=-1)
    return np.rint(colour_of(d)).astype(np.uint8)


@pytest.mark.parametrize("camera", [FISHEYE, CIRCULAR, PANORAMA, PHONE], ids=["fisheye", "circular", "360", "phone"])
@pytest.mark.parametrize("max_angle", [180.0, 92.0, 40.0])
def test_all_that_the_photo_saw_is_in_a_view(camera: Camera, max_angle: float) -> None:
    directions = directions_everywhere()
    source, seen = project_directions(camera, directions)
    seen &= ((source >= 0) & (source <= [camera.width, camera.height])).all(axis=1)
    seen &= directions[:, 2] > math.cos(math.radians(max_angle)) + 1e-9
    covered = np.zeros(len(directions), bool)
    for view in split_camera(camera, max_angle_deg=max_angle):
        covered |= pixels_of(view, directions)[1]
    assert seen.any()
    assert covered[seen].all()


@settings(max_examples=6, deadline=None)
@given(st.integers(200, 400), st.integers(200, 400), st.floats(60, 200), st.floats(-0.03, 0.03), st.floats(0.4, 0.6))
def test_every_view_pixel_lies_where_its_direction_is_seen(w: int, h: int, f: float, k: float, c: float) -> None:
    camera = Camera(w, h, f, f * 1.02, w * c, h * (1 - c), "opencv_fisheye", (k, 0.001))
    for view in split_camera(camera):
        rows, columns = np.mgrid[0 : view.camera.height : 17, 0 : view.camera.width : 13]
        x = (columns + 0.5 - view.camera.cx) / view.camera.fx
        y = (rows + 0.5 - view.camera.cy) / view.camera.fy
        d = np.stack([x, y, np.ones_like(x)], axis=-1) @ view.photo_from_view.T
        theta = np.arctan2(np.hypot(d[..., 0], d[..., 1]), d[..., 2])
        radius = theta * (1 + k * theta**2 + 0.001 * theta**4) / np.hypot(d[..., 0], d[..., 1])
        expected = d[..., :2] * radius[..., None] * [camera.fx, camera.fy] + [camera.cx, camera.cy]
        found = view.table.source_xy[rows, columns] + 0.5
        known = ~np.isnan(found[..., 0])
        np.testing.assert_allclose(found[known], expected[known], atol=2e-4)
        fold = fisheye_fold(camera.distortion)
        seen = ((expected > 0.01) & (expected < [w - 0.01, h - 0.01])).all(axis=-1) & (theta < fold - 1e-6)
        assert known[seen].all()
        assert not known[
            ~(((expected >= -0.01) & (expected <= [w + 0.01, h + 0.01])).all(axis=-1) & (theta < fold))
        ].any()


def test_a_panoramas_colours_are_those_of_the_directions_also_over_its_seam() -> None:
    image = panorama_image()
    views = split_camera(PANORAMA)
    assert len(views) == 6
    for view in views:
        pixels, mask = view.render(image)
        assert mask.all()
        x = (np.arange(view.camera.width) + 0.5 - view.camera.cx) / view.camera.fx
        y = (np.arange(view.camera.height) + 0.5 - view.camera.cy) / view.camera.fy
        rays = np.stack([*np.meshgrid(x, y), np.ones((view.camera.height, view.camera.width))], axis=-1)
        error = np.abs(pixels - colour_of(rays @ view.photo_from_view.T))
        assert error.max() < 1.2, f"{error.max()} grey levels"


def test_views_coarser_than_the_photo_average_it() -> None:
    noise = np.random.default_rng(1).integers(0, 256, (360, 720, 3)).astype(np.uint8)
    fine = split_camera(PANORAMA)[0].render(noise)[0]
    coarse_view = split_camera(PANORAMA, 25.0)[0]
    assert coarse_view.samples == 5
    coarse, mask = coarse_view.render(noise)
    assert mask.all()
    assert coarse_view.camera.fx == 25.0
    assert coarse.std() < 0.5 * fine.std()
    assert abs(float(coarse.mean()) - 127.5) < 5
    flat, _ = coarse_view.render(np.full((360, 720, 3), 77, np.uint8))
    assert (flat == 77).all()


def test_masked_pixels_of_the_photo_are_not_seen_by_the_view() -> None:
    usable = np.ones((600, 600), bool)
    usable[:, :300] = False
    for view in split_camera(CIRCULAR, max_angle_deg=80.0):
        pixels, mask = view.render(np.full((600, 600, 3), 50, np.uint8), usable)
        source = view.table.source_xy[..., 0]
        assert not mask[source < 299].any()
        assert mask[source > 300.5].all()
        assert (pixels[mask] == 50).all()
    image, mask = split_camera(CIRCULAR, 40.0, max_angle_deg=80.0)[0].render(
        np.full((600, 600, 3), 50, np.uint8), usable
    )
    assert (image[mask] == 50).all()
    assert (image[~mask] == 0).all()


def test_one_view_is_enough_for_a_narrow_lens() -> None:
    (view,) = split_camera(PHONE)
    np.testing.assert_allclose(view.photo_from_view, np.eye(3), atol=0.02)
    assert view.camera.model == "pinhole"


def test_poses_of_the_views() -> None:
    pose = look_at(np.array([1.0, 2, 3]), np.array([0.0, 0, 0]), np.array([0.0, 0, 1]))
    photo = Photo(Path("x.jpg"), FISHEYE, pose)
    views = split_photo(photo)
    point = np.array([0.3, -0.2, 0.1])
    direction = transform_points(rigid_inverse(pose), point)
    expected = project_directions(FISHEYE, direction[None])[0][0]
    seen = 0
    for view in views:
        assert view.world_from_camera is not None
        local = transform_points(rigid_inverse(view.world_from_camera), point)
        if local[2] > 0:
            xy = local[:2] / local[2] * view.camera.fx + [view.camera.cx, view.camera.cy]
            if (xy > 1).all() and (xy < [view.camera.width - 1, view.camera.height - 1]).all():
                np.testing.assert_allclose(source_at(view, xy[None])[0], expected, atol=2e-3)
                seen += 1
    assert seen
    assert split_photo(replace(photo, world_from_camera=None))[0].world_from_camera is None


def test_fold_of_a_fisheye() -> None:
    assert fisheye_fold(()) == math.pi
    assert fisheye_fold((0.1, 0.0, 0.0, 0.0)) == math.pi
    assert fisheye_fold((-0.1, 0.0, 0.0, 0.0)) == pytest.approx(math.sqrt(1 / 0.3))
    assert fisheye_fold(FISHEYE.distortion) == pytest.approx(2.8381, abs=1e-4)


def test_image_circle_is_found() -> None:
    rows, columns = np.mgrid[0:600, 0:600] + 0.5
    theta = np.hypot(columns - 300, rows - 300) / 155.0
    image = np.where(theta[..., None] < math.radians(85), 90, 3).astype(np.uint8).repeat(3, axis=-1)
    assert image_circle_deg(image, replace(CIRCULAR, distortion=())) == pytest.approx(85, abs=1)
    assert image_circle_deg(np.full((480, 640, 3), 90, np.uint8), FISHEYE) > 105
    assert image_circle_deg(np.zeros((480, 640, 3), np.uint8), FISHEYE) == 180.0


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"pixels_per_radian": 0.0}, "pixels_per_radian is 0; it must be at least 1"),
        ({"pixels_per_radian": math.nan}, "pixels_per_radian is nan"),
        ({"max_angle_deg": 0.0}, "max_angle_deg is 0; it must be above 0"),
        ({"max_angle_deg": 181.0}, "max_angle_deg is 181"),
    ],
)
def test_wrong_settings(kwargs: dict[str, float], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        split_camera(FISHEYE, **kwargs)


def test_a_camera_that_sees_nothing() -> None:
    aside = replace(FISHEYE, cx=9000.0, cy=-9000.0)
    with pytest.raises(ValueError, match="sees nothing within 10 degrees"):
        split_camera(aside, max_angle_deg=10.0)


def test_images_of_another_size() -> None:
    view = split_camera(CIRCULAR, 50.0, max_angle_deg=40.0)[0]
    with pytest.raises(ValueError, match="the image has 30 x 20 pixels, and the photo's camera 600 x 600"):
        view.render(np.zeros((20, 30, 3), np.uint8))
    jaxtyping.config.update("jaxtyping_disable", True)  # what users see
    with pytest.raises(ValueError, match="the mask has 30 x 20 pixels"):
        view.render(np.zeros((600, 600, 3), np.uint8), np.zeros((20, 30), bool))
    jaxtyping.config.update("jaxtyping_disable", False)


def test_a_panorama_has_no_single_pinhole_image() -> None:
    with pytest.raises(ValueError, match=r"a panorama has no single pinhole image; split_views\.split_photo makes"):
        remap_table(PANORAMA)


@pytest.mark.data
def test_views_of_rendered_fisheye_photos_show_the_mesh_where_it_is(data_dir: Callable[[str], Path]) -> None:
    capture = read_capture(data_dir("synthetic_fisheye"))
    mesh = read_ply(data_dir("synthetic_noisy") / "ground_truth" / "objects.ply").mesh
    assert mesh.colors is not None
    compared, error = 0, 0.0
    views = split_camera(capture.frames[0].photo.camera, max_angle_deg=92.0)  # type: ignore[union-attr]
    for frame in capture.frames[::6]:
        photo = frame.photo
        assert photo is not None
        assert photo.world_from_camera is not None
        in_photo, _ = project_directions(
            photo.camera, transform_points(rigid_inverse(photo.world_from_camera), mesh.vertices)
        )
        pixels = read_photo(photo.path)
        for view in (view.of(photo) for view in views):
            assert view.world_from_camera is not None
            local = transform_points(rigid_inverse(view.world_from_camera), mesh.vertices)
            xy, inside = pixels_of(replace(view, photo_from_view=np.eye(3)), local)
            # both ways to the photo's pixels: straight through the lens, and through the view and its table
            through = source_at(view, xy[inside])
            known = ~np.isnan(through[:, 0])
            np.testing.assert_allclose(through[known], in_photo[inside][known], atol=3e-3)
            # and the view shows the colours that the mesh has there
            image, mask = view.render(pixels)
            fragments = rasterize(local.astype(np.float32), mesh.faces, view.camera, device="cpu")
            hit = (fragments.face >= 0) & mask
            # silhouettes mix with the background
            hit[1:-1, 1:-1] &= hit[:-2, 1:-1] & hit[2:, 1:-1] & hit[1:-1, :-2] & hit[1:-1, 2:]
            corners = mesh.colors[mesh.faces[fragments.face[hit]]].astype(float)
            expected = (corners * fragments.barycentric[hit][:, :, None]).sum(axis=1)
            error += float(np.abs(image[hit] - expected).sum())
            compared += 3 * int(hit.sum())
    assert compared > 10000
    assert error / compared < 6.0
