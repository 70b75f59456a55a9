from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smr.arrays import resolve_device
from smr.records import Camera
from smr.render.rasterize import rasterize

CAMERA = Camera(64, 48, 50.0, 52.0, 31.3, 23.8)


def _rasterize_twin(vertices, faces, camera):
    """Plain loops over faces in front of the camera, whole numbers of 1/256 pixel as in the kernel."""
    w = np.float32(1.0) / vertices[:, 2].astype(np.float32)
    x = np.rint(256 * (np.float32(camera.fx) * (vertices[:, 0] * w) + np.float32(camera.cx)).astype(float)).astype(int)
    y = np.rint(256 * (np.float32(camera.fy) * (vertices[:, 1] * w) + np.float32(camera.cy)).astype(float)).astype(int)
    px, py = np.meshgrid(np.arange(camera.width) * 256 + 128, np.arange(camera.height) * 256 + 128)
    face_of = np.full(px.shape, -1, np.int32)
    inverse = np.zeros(px.shape)
    for f, corners in enumerate(faces):
        (x0, x1, x2), (y0, y1, y2) = x[corners], y[corners]
        area = int((x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0))
        if area == 0:
            continue
        a, b, c = corners if area > 0 else corners[[0, 2, 1]]
        inside = np.ones(px.shape, bool)
        depth = np.zeros(px.shape)
        for i, j, k in ((b, c, a), (c, a, b), (a, b, c)):
            dx, dy = x[j] - x[i], y[j] - y[i]
            e = dx * (py - y[i]) - dy * (px - x[i])
            inside &= (e > 0) | ((e == 0) & (dy < 0 or (dy == 0 and dx > 0)))
            depth += e * float(w[k]) / abs(area)
        inside &= depth > inverse
        face_of[inside] = f
        inverse[inside] = depth[inside]
    return face_of, inverse


def _soup(rng, count):
    centres = np.column_stack(
        [rng.uniform(-1.5, 1.5, count), rng.uniform(-1.2, 1.2, count), rng.uniform(1.5, 4, count)]
    )
    vertices = (centres[:, None] + rng.normal(0, 0.3, (count, 3, 3))).reshape(-1, 3).astype(np.float32)
    vertices[:, 2] = np.maximum(vertices[:, 2], 0.5)
    return vertices, np.arange(3 * count, dtype=np.int32).reshape(-1, 3)


@pytest.mark.parametrize("count", [1, 7, 200])
def test_agrees_with_the_numpy_twin(device, count):
    vertices, faces = _soup(np.random.default_rng(count), count)
    face_of, inverse = _rasterize_twin(vertices, faces, CAMERA)
    got = rasterize(vertices, faces, CAMERA, device=device)
    assert (got.face == face_of).mean() > 0.999  # only where two faces meet at one depth may they differ
    same = (got.face == face_of) & (face_of >= 0)
    np.testing.assert_allclose(got.depth[same], 1 / inverse[same], rtol=1e-4)
    assert not got.depth[got.face < 0].any()
    assert not got.barycentric[got.face < 0].any()


def test_barycentrics_give_back_the_point_that_the_pixel_sees(device):
    vertices, faces = _soup(np.random.default_rng(5), 80)
    got = rasterize(vertices, faces, CAMERA, device=device)
    row, column = np.nonzero(got.face >= 0)
    points = np.einsum("nc,ncd->nd", got.barycentric[row, column], vertices[faces[got.face[row, column]]])
    image = points[:, :2] / points[:, 2:] * [CAMERA.fx, CAMERA.fy] + [CAMERA.cx, CAMERA.cy]
    # corners snap by up to 1/512 of a pixel, so at a face's edge the point may lie that far from the centre
    error = np.abs(image - np.column_stack([column + 0.5, row + 0.5])).max(1)
    assert np.percentile(error, 95) < 1e-3
    np.testing.assert_allclose(got.barycentric[row, column].sum(1), 1, atol=1e-6)
    assert got.barycentric.min() >= 0


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**31), snapped=st.booleans())
def test_faces_that_share_edges_leave_no_crack_and_no_double_pixel(seed, snapped):
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(np.arange(9.0), np.arange(7.0)), -1).reshape(-1, 2)
    # snapped: edges run through pixel centres
    xy = grid * [8, 8] + (0.5 if snapped else rng.uniform(-1.9, 1.9, grid.shape))
    a = (np.arange(6)[:, None] * 9 + np.arange(8)).ravel()
    quads = np.column_stack([a, a + 1, a + 10, a + 9])
    faces = np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]]).astype(np.int32)
    flip = rng.random(len(faces)) < 0.5
    faces[flip] = faces[flip][:, [0, 2, 1]]
    camera = Camera(70, 60, 1.0, 1.0, 0.0, 0.0)
    vertices = np.column_stack([xy, np.ones(len(xy))]).astype(np.float32)
    device = resolve_device("cpu")
    together = rasterize(vertices, faces, camera, device=device).face >= 0
    alone = sum(
        (rasterize(vertices, faces[i : i + 1], camera, device=device).face >= 0).astype(int) for i in range(len(faces))
    )
    assert alone.max() == 1
    np.testing.assert_array_equal(together, alone == 1)
    inside = (slice(5, 43), slice(5, 59))
    assert together[inside].all()


def test_top_and_left_edges_own_their_pixels(device):
    camera = Camera(8, 8, 1.0, 1.0, 0.0, 0.0)
    square = np.array([[1.5, 1.5, 1], [4.5, 1.5, 1], [4.5, 4.5, 1], [1.5, 4.5, 1]], np.float32)
    got = rasterize(square, np.array([[0, 1, 2], [0, 2, 3]], np.int32), camera, device=device).face >= 0
    expected = np.zeros((8, 8), bool)
    expected[1:4, 1:4] = True
    np.testing.assert_array_equal(got, expected)


def test_a_floor_that_reaches_behind_the_camera_is_cut_not_lost(device):
    # two triangles, 1 m below the camera, from 50 m before it to 50 m behind it
    floor = np.array([[-50, 1, -50], [50, 1, -50], [50, 1, 50], [-50, 1, 50]], np.float32)
    got = rasterize(floor, np.array([[0, 1, 2], [0, 2, 3]], np.int32), CAMERA, device=device)
    row = np.arange(CAMERA.height) + 0.5
    depth = CAMERA.fy / np.maximum(row - CAMERA.cy, 1e-9)
    column = np.abs((np.arange(CAMERA.width) + 0.5 - CAMERA.cx) / CAMERA.fx)
    seen = (depth[:, None] < 49.9) & (depth[:, None] * column < 49.9)
    hidden = depth[:, None] > 50.1 + 0 * column
    assert seen.sum() > 1000
    assert (got.face[seen] >= 0).all()
    assert (got.face[hidden] == -1).all()
    np.testing.assert_allclose(got.depth[seen], np.broadcast_to(depth[:, None], seen.shape)[seen], rtol=2e-3)


@pytest.mark.parametrize("behind", [0, 1, 2, 3])
def test_every_way_to_cross_the_near_plane(device, behind):
    for turn in range(3):
        corners = np.array([[0.3, -0.2, 1.0], [-0.4, -0.1, 1.2], [0.1, 0.5, 0.9]], np.float32)
        corners[:behind, 2] = -0.4
        corners = np.roll(corners, turn, axis=0)
        got = rasterize(corners, np.array([[0, 1, 2]], np.int32), CAMERA, device=device, near=0.05)
        rays = np.stack(
            np.meshgrid((np.arange(64) + 0.5 - CAMERA.cx) / CAMERA.fx, (np.arange(48) + 0.5 - CAMERA.cy) / CAMERA.fy),
            -1,
        )
        rays = np.concatenate([rays, np.ones((48, 64, 1))], -1)
        weights = rays @ np.linalg.inv(corners.astype(float))  # rays = weights @ corners, up to scale
        with np.errstate(divide="ignore"):
            depth = 1 / weights.sum(-1)
        clear = np.abs(weights).min(-1) > 2e-2
        expected = (weights > 0).all(-1) & (depth > 0.05)
        np.testing.assert_array_equal((got.face == 0)[clear], expected[clear])
        both = (got.face == 0) & expected & clear
        np.testing.assert_allclose(got.depth[both], depth[both], rtol=2e-3)


def test_the_lower_face_wins_at_equal_depth_and_the_nearer_one_otherwise(device):
    triangle = np.array([[-1, -1, 2], [1, -1, 2], [0, 1, 2]], np.float32)
    twice = np.concatenate([triangle, triangle, triangle * 0.9])
    faces = np.arange(9, dtype=np.int32).reshape(3, 3)
    got = rasterize(twice[:6], faces[:2], CAMERA, device=device)
    assert set(np.unique(got.face)) == {-1, 0}
    assert set(np.unique(rasterize(twice, faces, CAMERA, device=device).face)) == {-1, 2}


def test_nothing_to_draw(device):
    empty = rasterize(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.int32), CAMERA, device=device)
    assert (empty.face == -1).all()
    line = np.array([[0, 0, 1], [1, 1, 1], [0.5, 0.5, 1], [np.nan, 0, 1]], np.float32)
    got = rasterize(line, np.array([[0, 1, 2], [0, 0, 1], [0, 1, 3]], np.int32), CAMERA, device=device, near=0.1)
    assert (got.face == -1).all()


def test_distortion_is_refused():
    camera = Camera(64, 48, 50.0, 50.0, 32.0, 24.0, "opencv", (0.1, 0.0, 0.0, 0.0))
    with pytest.raises(ValueError, match="undistort the image first"):
        rasterize(np.zeros((3, 3), np.float32), np.zeros((1, 3), np.int32), camera, device="cpu")


def test_same_bits_every_time(device):
    vertices, faces = _soup(np.random.default_rng(9), 300)
    first = rasterize(vertices, faces, CAMERA, device=device)
    again = rasterize(vertices, faces, CAMERA, device=device)
    np.testing.assert_array_equal(first.face, again.face)
    np.testing.assert_array_equal(first.depth, again.depth)
    np.testing.assert_array_equal(first.barycentric, again.barycentric)
