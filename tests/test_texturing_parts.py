"""The parts of the texture stage against plain NumPy, and what must hold for each."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import distance_transform_cdt
from scipy.spatial.transform import Rotation

import painted
from painted import CAMERA, capture_of, photograph, plane, poses_around, waves
from smr.arrays import resolve_device
from smr.mesh.topology import edges
from smr.progress import untracked
from smr.records import Camera, Mesh
from smr.texturing import align as align_module
from smr.texturing.align import align
from smr.texturing.blend import make_canvas
from smr.texturing.exposure import solve_gains
from smr.texturing.fill import fill_gutter, fill_vertices, nearest_known
from smr.texturing.shots import Shots
from smr.texturing.slots import Slots
from smr.texturing.support import build_support
from smr.texturing.views import choose
from smr.texturing.visibility import build_pyramid, depth_camera, look, sharpness


def _support(mesh, longest):
    return build_support(mesh, mesh.vertices[:, :2].astype(np.float32), mesh.faces, longest)


@settings(max_examples=20, deadline=None)
@given(longest=st.floats(0.03, 2.0), seed=st.integers(0, 1000))
def test_splitting_edges_keeps_the_surface_closed_and_its_area(longest, seed):
    rng = np.random.default_rng(seed)
    mesh = painted.box((0, 0, 0), rng.uniform(0.1, 1.0, 3))
    support = _support(mesh, longest)
    corners = support.vertices[support.faces].astype(float)
    assert np.linalg.norm(corners - np.roll(corners, -1, axis=1), axis=2).max() <= longest * (1 + 1e-5)
    assert (edges(support.faces).face_counts == 2).all()
    area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1) / 2
    whole = mesh.vertices[mesh.faces].astype(float)
    expected = np.linalg.norm(np.cross(whole[:, 1] - whole[:, 0], whole[:, 2] - whole[:, 0]), axis=1) / 2
    np.testing.assert_allclose(np.bincount(support.parents, area, 12), expected, rtol=1e-4)


def test_texture_coordinates_and_colours_are_split_with_the_edges():
    mesh = plane(1.0, 1)
    mesh = Mesh(
        mesh.vertices, mesh.faces, colors=np.array([[0, 0, 0], [200, 0, 0], [0, 100, 0], [200, 100, 0]], np.uint8)
    )
    support = _support(mesh, 0.1)
    at_corners = support.vertices[support.faces]
    np.testing.assert_allclose(support.face_uvs, at_corners[..., :2], atol=1e-6)
    np.testing.assert_allclose(support.colors[:, 0], 200 * (support.vertices[:, 0] + 0.5), atol=1e-3)


def test_vertices_at_one_place_are_welded():
    mesh = plane()
    soup = Mesh(mesh.vertices[mesh.faces].reshape(-1, 3), np.arange(3 * len(mesh.faces), dtype=np.int32).reshape(-1, 3))
    assert len(_support(soup, 1.0).vertices) == len(mesh.vertices)
    assert _support(soup, 1.0).neighbours.nnz == _support(mesh, 1.0).neighbours.nnz


def _look(mesh, image, mask, camera, pose, device):
    vertices = wp.array(mesh.vertices, dtype=wp.vec3, device=device)
    faces = wp.array(mesh.faces, dtype=wp.vec3i, device=device)
    return look(image, mask, camera, pose, vertices, faces, device=device)


def test_clearance_is_the_distance_to_the_nearest_depth_edge(device):
    mesh = painted.join(plane(4.0), painted.box((-0.1, -0.1, 0.3), (0.1, 0.1, 0.4)))
    pose = poses_around(1, 0.4, 1.0)[0]
    mask = np.ones((CAMERA.height, CAMERA.width), bool)
    mask[10:20, 30:40] = False
    image = np.zeros((CAMERA.height, CAMERA.width, 3), np.uint8)
    seen = _look(mesh, image, mask, CAMERA, pose, device)
    clearance = seen.clearance.numpy().reshape(CAMERA.height, CAMERA.width)
    w = seen.inverse_depth.numpy().reshape(clearance.shape)
    edge = ~mask | (w == 0)
    bound = 5.0 / CAMERA.fx * w
    edge[:, 1:-1] |= np.abs(w[:, :-2] - 2 * w[:, 1:-1] + w[:, 2:]) > bound[:, 1:-1]
    edge[1:-1] |= np.abs(w[:-2] - 2 * w[1:-1] + w[2:]) > bound[1:-1]
    expected = np.minimum(distance_transform_cdt(~edge, "taxicab"), 255)
    np.testing.assert_array_equal(clearance, expected)
    # a slope is not an edge: the only edges are the box's outline and the mask
    assert 150 < edge.sum() < 600


def test_pyramid_levels_are_means_of_four(device):
    rng = np.random.default_rng(0)
    image = rng.integers(0, 255, (37, 50, 3), dtype=np.uint8)
    camera = Camera(50, 37, 40.0, 40.0, 25.0, 18.5)
    seen = _look(plane(), image, None, camera, poses_around(1, 0.4, 1.0)[0], device)
    pyramid = build_pyramid(seen, device=device)
    values, expected = pyramid.values.numpy(), image.astype(float)
    for offset, width, height in pyramid.sizes:
        even = expected[: height * 2, : width * 2]
        expected = (even[::2, ::2] + even[1::2, ::2] + even[::2, 1::2] + even[1::2, 1::2]) / 4
        np.testing.assert_allclose(
            values[offset : offset + width * height].reshape(height, width, 3), expected, rtol=1e-5
        )
        if offset == 0:
            grey = expected @ [0.299, 0.587, 0.114]
            inner = grey[1:-1, :-2] + grey[1:-1, 2:] + grey[:-2, 1:-1] + grey[2:, 1:-1] - 4 * grey[1:-1, 1:-1]
            assert sharpness(pyramid, device=device) == pytest.approx(inner.var(), rel=1e-3)


def test_the_depth_map_of_a_large_photo_is_smaller_and_sees_the_same():
    camera = Camera(4000, 3000, 3000.0, 3010.0, 1990.0, 1510.0)
    small = depth_camera(camera)
    assert small.width * small.height < 1_600_000
    assert small.fx / small.width == pytest.approx(camera.fx / camera.width)
    assert small.cy / small.height == pytest.approx(camera.cy / camera.height)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), outliers=st.floats(0, 0.2))
def test_gains_are_found_in_spite_of_outliers(seed, outliers):
    rng = np.random.default_rng(seed)
    views, points, slots = 9, 3000, 6
    gains = np.exp(rng.normal(0, 0.15, (views, 3)))
    gains /= np.exp(np.log(gains).mean(0))
    seen = np.argsort(rng.random((points, views)), axis=1)[:, :slots].astype(np.int32)
    colors = rng.uniform(40, 150, (points, 1, 3)) * gains[seen] + rng.normal(0, 1, (points, slots, 3))
    wrong = rng.random((points, slots)) < outliers
    colors[wrong] = rng.uniform(20, 230, (int(wrong.sum()), 3))
    seen[rng.random(seen.shape) < 0.2] = -1
    got = solve_gains(seen, colors.astype(np.float32), views)
    np.testing.assert_allclose(got * gains, 1, atol=0.02)


def test_gains_of_photos_that_share_nothing_are_one():
    seen = np.array([[0, -1], [1, -1]], np.int32)
    np.testing.assert_allclose(solve_gains(seen, np.full((2, 2, 3), 90, np.float32), 3), 1)


def _consensus_twin(view, score, color, bound):
    used = view >= 0
    if not used.any():
        return np.array([-1.0, 0, 0]), used
    names = np.nonzero(used)[0]
    distance = np.linalg.norm(color[names, None] - color[None, names], axis=-1) * 0.57735
    center = color[names[(score[names] * np.minimum(distance, bound)).sum(1).argmin()]]
    for _ in range(3):
        d = np.linalg.norm(color[names] - center, axis=1) * 0.57735 / bound
        weight = np.where(d < 1, score[names] * (1 - d * d) ** 2, 0)
        if weight.sum() > 0:
            center = (weight[:, None] * color[names]).sum(0) / weight.sum()
    agrees = np.zeros(len(view), bool)
    agrees[names] = np.linalg.norm(color[names] - center, axis=1) * 0.57735 < bound
    return center, agrees


def test_views_agree_as_in_the_numpy_twin_and_one_is_chosen_among_them(device):
    mesh = plane(1.0, 8)
    support = _support(mesh, 1.0)
    rng = np.random.default_rng(4)
    count, slots, views = len(support.vertices), 16, 20
    view = np.stack([rng.permutation(views)[:slots] for _ in range(count)]).astype(np.int32)
    view[rng.random(view.shape) < 0.3] = -1
    view[5] = -1
    score = rng.uniform(0.1, 1, view.shape).astype(np.float32)
    color = (np.array([120, 90, 60]) + rng.normal(0, 2, (*view.shape, 3))).astype(np.float32)
    wrong = rng.random(view.shape) < 0.15
    color[wrong] += rng.choice([-60, 60], (int(wrong.sum()), 3))
    on_device = Slots(
        slots,
        wp.array(view.ravel(), dtype=int, device=device),
        wp.array(score.ravel(), dtype=float, device=device),
        wp.array(color.reshape(-1, 3), dtype=wp.vec3, device=device),
    )
    choice = choose(on_device, support, np.ones((views, 3)), device=device)
    agrees = choice.agrees.numpy().reshape(view.shape) > 0
    lowered = on_device.score.numpy().reshape(view.shape)
    for i in range(count):
        center, expected = _consensus_twin(view[i], lowered[i].astype(float), color[i].astype(float), 16.0)
        np.testing.assert_allclose(choice.consensus.numpy()[i], center, atol=0.02)
        np.testing.assert_array_equal(agrees[i], expected)
    chosen, weight = choice.view.numpy().reshape(count, -1), choice.weight.numpy().reshape(count, -1)
    np.testing.assert_allclose(weight.sum(1)[np.arange(count) != 5], 1, atol=1e-5)
    assert (chosen[5] == -1).all()
    for i in range(count):
        assert set(chosen[i][chosen[i] >= 0]) <= set(view[i][agrees[i]])


def test_harmonic_fill_continues_a_slope():
    mesh = plane(1.0, 20)
    support = _support(mesh, 1.0)
    x, y = support.vertices[:, 0], support.vertices[:, 1]
    known = (np.abs(x) > 0.2) | (np.abs(y) > 0.2)
    truth = np.stack([100 + 80 * x, np.full_like(x, 70), 120 - 60 * x], axis=1)
    filled = fill_vertices(support, np.where(known[:, None], truth, 0).astype(np.float32), known)
    np.testing.assert_allclose(filled[known], truth[known], atol=1e-4)
    assert np.abs(filled - truth).max() < 3


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), share=st.floats(0.0, 0.2))
def test_gutter_takes_the_nearest_colour(seed, share):
    rng, size, device = np.random.default_rng(seed), 23, resolve_device("cpu")
    inside = rng.random((size, size)) < share
    owner = wp.array(np.where(inside, 0, -1).astype(np.int32).ravel(), dtype=int, device=device)
    colors = rng.integers(1, 255, (size, size, 3), dtype=np.uint8) * inside[..., None].astype(np.uint8)
    image = wp.array(colors.ravel(), dtype=wp.uint8, device=device)
    fill_gutter(image, owner, size, device=device)
    got = image.numpy().reshape(size, size, 3)
    np.testing.assert_array_equal(got[inside], colors[inside])
    known = wp.array(inside.astype(np.uint8).ravel(), dtype=wp.uint8, device=device)
    seed_of = nearest_known(known, size, device=device).numpy().reshape(size, size)
    if not inside.any():
        assert (seed_of == -1).all()
        return
    row, column = np.indices((size, size))
    steps = np.abs(seed_of // size - row) + np.abs(seed_of % size - column)
    np.testing.assert_array_equal(steps, distance_transform_cdt(~inside, "taxicab"))
    np.testing.assert_array_equal(got, colors.reshape(-1, 3)[seed_of])


def test_faces_smaller_than_a_texel_own_one():
    mesh = plane(1.0, 40)
    uvs = (mesh.vertices[:, :2] + 0.5).astype(np.float32)
    support = build_support(mesh, uvs, mesh.faces, 1.0)
    points = wp.array(support.vertices, dtype=wp.vec3, device=resolve_device("cpu"))
    canvas = make_canvas(support, 16, 1 / 16, points, device=resolve_device("cpu"))
    assert (canvas.owner.numpy() >= 0).all()
    lonely = build_support(plane(1.0, 1), np.full((4, 2), 0.53, np.float32), plane(1.0, 1).faces, 2.0)
    canvas = make_canvas(lonely, 16, 1 / 16, points, device=resolve_device("cpu"))
    assert (canvas.owner.numpy() >= 0).sum() == 1


def _bumpy(device_folder, poses):
    mesh = painted.join(plane(1.2, 6), painted.box((-0.2, -0.15, 0.0), (0.1, 0.2, 0.25)))
    cameras = [CAMERA] * len(poses)
    images = [photograph(mesh, lambda p, f: waves(1.7 * p), CAMERA, pose) for pose in poses]
    return mesh, images, cameras


def _align(folder, mesh, images, cameras, poses):
    device = resolve_device("cpu")
    shots = Shots(capture_of(folder, images, cameras, poses))
    vertices = wp.array(mesh.vertices, dtype=wp.vec3, device=device)
    faces = wp.array(mesh.faces, dtype=wp.vec3i, device=device)
    return align(mesh, shots, vertices, faces, device=device, track=untracked)


def _image_error(poses, truth):
    """Median distance in pixels between where points lie and where they should."""
    points = np.random.default_rng(0).uniform([-0.4, -0.4, 0], [0.4, 0.4, 0.2], (200, 3))
    errors = []
    for pose, right in zip(poses, truth, strict=True):
        places = []
        for matrix in (pose, right):
            local = (points - matrix[:3, 3]) @ matrix[:3, :3]
            places.append(local[:, :2] / local[:, 2:] * CAMERA.fx)
        errors.append(np.median(np.linalg.norm(places[0] - places[1], axis=1)))
    return np.array(errors)


def test_alignment_leaves_exact_poses_and_repairs_wrong_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(align_module, "_POINTS", 30_000)
    truth = poses_around(8, 0.8, 0.9)
    mesh, images, cameras = _bumpy(tmp_path, truth)
    kept = _align(tmp_path, mesh, images, cameras, truth)
    assert _image_error(kept, truth).max() < 0.25
    rng = np.random.default_rng(1)
    wrong = []
    for pose in truth:
        moved = pose.copy()
        moved[:3, :3] = Rotation.from_rotvec(rng.normal(0, 0.004, 3)).as_matrix() @ pose[:3, :3]
        moved[:3, 3] += rng.normal(0, 0.004, 3)
        wrong.append(moved)
    before = _image_error(wrong, truth)
    after = _image_error(_align(tmp_path, mesh, images, cameras, wrong), truth)
    assert np.median(after) < 0.5 * np.median(before)
    assert after.max() < before.max()


def test_alignment_of_a_single_photo_changes_nothing(tmp_path):
    truth = poses_around(1, 0.8, 0.9)
    mesh, images, cameras = _bumpy(tmp_path, truth)
    np.testing.assert_allclose(_align(tmp_path, mesh, images, cameras, truth), truth, atol=1e-12)
