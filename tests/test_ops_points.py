"""Points on tensors: neighbours, Chamfer, farthest points, normals, outliers, voxels, surface samples."""

from __future__ import annotations

import math

import pytest
import torch
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st

from smr.ops import trees
from smr.ops.mesh.sample import sample_packed_surfaces, sample_surface
from smr.ops.points import (
    center_points,
    chamfer_distance,
    estimate_normals,
    f_score,
    nearest_neighbors,
    radius_inliers,
    sample_farthest_points,
    sided_distance,
    statistical_inliers,
    voxel_downsample,
)
from smr.ops.points.farthest import pick_farthest
from smr.ops.points.neighbors import compare_all, count_within, plant_points, walk_forest
from smr.ops.points.voxels import keep_per_voxel


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def on_sphere(count: int, seed: int = 0) -> torch.Tensor:
    points = torch.randn(count, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return points / points.norm(dim=1, keepdim=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shift", [0.0, 1000.0])
@pytest.mark.parametrize("k", [1, 5, 60])
def test_all_ways_find_the_same_neighbours(dtype: torch.dtype, shift: float, k: int) -> None:
    points, targets = random(2, 300, 3, dtype=dtype) + shift, random(2, 60, 3, seed=1, dtype=dtype) + shift
    plainly = compare_all(points, targets, k)
    assert torch.equal(walk_forest(points, k, plant_points(targets)), plainly)
    assert torch.equal(nearest_neighbors(points, targets, k).indices, plainly)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 60), cells=st.integers(1, 4))
def test_distances_are_right_where_points_coincide(seed: int, count: int, cells: int) -> None:
    points, targets = ((random(n, 3, seed=seed + n) * cells).round() for n in (20, count))
    k = min(3, count)
    exact = torch.cdist(points, targets).square().sort(dim=1).values[:, :k]
    by_tree = walk_forest(points[None], k, plant_points(targets[None]))[0]
    for indices in (by_tree, nearest_neighbors(points, targets, k).indices):
        torch.testing.assert_close((points[:, None] - targets[indices]).square().sum(dim=-1), exact)
        assert all(len(row.unique()) == k for row in indices)


def test_neighbours_of_many_identical_points_are_found_at_once() -> None:
    targets = torch.zeros(1, 50_000, 3)
    targets[0, 7] = 1
    found = walk_forest(
        torch.tensor([[[0.9, 0.9, 0.9], [0.2, 0.1, 0.3]]]).repeat(1, 10_000, 1), 1, plant_points(targets)
    )
    assert (found[0, ::2] == 7).all()
    assert (found[0, 1::2] != 7).all()


def test_counts_within_a_radius(monkeypatch: pytest.MonkeyPatch) -> None:
    points, targets = random(2, 200, 3), random(2, 300, 3, seed=1)
    exact = (torch.cdist(points, targets) <= 0.2).sum(dim=2)
    assert torch.equal(count_within(points, targets, 0.2, 1000), exact)
    assert torch.equal(count_within(points, targets, 0.2, 4), exact.clamp(max=4))
    monkeypatch.setenv("SMR_KERNELS", "torch")
    assert torch.equal(count_within(points, targets, 0.2, 4), exact.clamp(max=4))


def test_chamfer_and_f_score_of_known_clouds() -> None:
    a = torch.tensor([[0.0, 0, 0], [1, 0, 0]])
    b = torch.tensor([[0.0, 0, 2], [1, 0, 0], [1, 0, 0.5]])
    assert chamfer_distance(a, b).item() == pytest.approx((1 + 0) / 2 + (4 + 0 + 0.25) / 3)
    assert chamfer_distance(a, b, squared=False, weights=(2.0, 1.0)).item() == pytest.approx(
        2 * 1 / 2 + (2 + 0 + 0.5) / 3
    )
    assert f_score(a, b, 0.6).item() == pytest.approx(2 * (2 / 3) * 0.5 / (2 / 3 + 0.5))
    assert f_score(a, a + 5, 0.1).item() == 0
    assert sided_distance(a, b).indices.tolist() == [1, 1]


def test_gradients_of_distances() -> None:
    a, b = random(2, 9, 3).requires_grad_(), random(2, 7, 3, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(chamfer_distance, (a, b))
    assert torch.autograd.gradcheck(lambda p, q: chamfer_distance(p, q, squared=False), (a, b))
    assert torch.autograd.gradcheck(lambda p, q: nearest_neighbors(p, q, 3)[0], (a, b), fast_mode=True)
    same = a.detach().clone().requires_grad_()
    chamfer_distance(same, same.detach(), squared=False).sum().backward()
    assert same.grad is not None
    assert (same.grad == 0).all()


def test_a_batch_is_its_members() -> None:
    a, b = random(3, 40, 3), random(3, 30, 3, seed=1)
    for k in range(3):
        assert chamfer_distance(a, b)[k].item() == pytest.approx(chamfer_distance(a[k], b[k]).item())
        assert torch.equal(sample_farthest_points(a, 9)[k], sample_farthest_points(a[k], 9))
        assert torch.equal(statistical_inliers(a)[k], statistical_inliers(a[k]))


def check_farthest(points: torch.Tensor, chosen: torch.Tensor) -> None:
    assert len(chosen.unique()) == len(chosen)
    nearest = torch.cdist(points, points[chosen])
    for step in range(1, len(chosen)):
        away = nearest[:, :step].amin(dim=1)
        away[chosen[:step]] = -1
        assert away[chosen[step]].item() == pytest.approx(away.max().item(), abs=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_farthest_points_are_the_farthest(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = torch.arange(7, dtype=dtype)
    lumps = random(1000, 3, dtype=dtype)
    lumps[1:500] = lumps[0]
    for cloud, count in (
        (random(2, 700, 3, dtype=dtype), 60),
        (torch.cartesian_prod(steps, steps, steps), 343),
        (lumps, 800),
    ):
        monkeypatch.setenv("SMR_KERNELS", "warp")
        chosen = sample_farthest_points(cloud, count)
        monkeypatch.setenv("SMR_KERNELS", "torch")
        assert torch.equal(sample_farthest_points(cloud, count), chosen)
        one = cloud.reshape(-1, *cloud.shape[-2:])[0].double()
        check_farthest(one, chosen.reshape(-1, count)[0])
        middle = (one - one.mean(dim=0)).norm(dim=1)
        assert middle[chosen.reshape(-1, count)[0, 0]] == middle.max()


def test_farthest_points_begin_where_asked_and_take_what_is_not_finite_last() -> None:
    cloud = random(100, 3)
    assert sample_farthest_points(cloud, 5, start=42)[0] == 42
    assert sample_farthest_points(cloud, 0).shape == (0,)
    cloud[10:60] = torch.nan
    chosen = pick_farthest(cloud, 70)
    assert (chosen[:50] < 10).logical_or(chosen[:50] >= 60).all()
    assert len(chosen.unique()) == 70


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([2.0**-20, 4.0, 2.0**20]))
def test_farthest_points_move_with_the_cloud(seed: int, scale: float) -> None:
    cloud = random(200, 3, seed=seed)
    order = torch.randperm(200, generator=torch.Generator().manual_seed(seed))
    chosen = sample_farthest_points(cloud, 30)
    assert torch.equal(sample_farthest_points(cloud * scale, 30), chosen)
    assert torch.equal(order[sample_farthest_points(cloud[order], 30)], chosen)


@pytest.mark.parametrize("kernels", ["warp", "torch"])
def test_normals_of_a_sphere_and_a_plane(kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMR_KERNELS", kernels)
    points = on_sphere(800)
    assert ((estimate_normals(points) * points).sum(dim=1) > 0.98).all()
    inwards = estimate_normals(points, views=torch.zeros(3, dtype=torch.float64))
    assert ((inwards * points).sum(dim=1) < -0.98).all()
    each = estimate_normals(points, views=2 * points)
    assert ((each * points).sum(dim=1) > 0.98).all()
    plane = torch.cat([random(200, 2), torch.zeros(200, 1, dtype=torch.float64)], dim=1).float()
    flat = estimate_normals(plane, orient=False)
    assert flat.dtype == torch.float32
    torch.testing.assert_close(flat[:, 2].abs(), torch.ones(200))


def test_normals_are_oriented_in_each_part_and_stay_turned_with_the_cloud() -> None:
    points = torch.cat([on_sphere(400), on_sphere(400, seed=1) * 0.5 + 10])
    middles = torch.tensor([[0.0, 0, 0], [10, 10, 10]], dtype=torch.float64).repeat_interleave(400, dim=0)
    normals = estimate_normals(points)
    agree = (normals * (points - middles)).sum(dim=1) > 0
    assert agree[:400].unique().numel() == agree[400:].unique().numel() == 1
    turn = torch.linalg.qr(random(3, 3))[0]
    turned = estimate_normals(points @ turn) @ turn.T
    assert ((turned * normals).sum(dim=1) > 1 - 1e-9).all()


def test_outliers_are_found() -> None:
    points = torch.cat([on_sphere(1000), torch.tensor([[3.0, 0, 0], [0, -4, 1]], dtype=torch.float64)])
    assert not statistical_inliers(points)[1000:].any()
    assert statistical_inliers(points)[:1000].float().mean() > 0.99
    assert radius_inliers(points, 0.3).tolist() == [True] * 1000 + [False] * 2
    assert radius_inliers(points, 0.0, neighbors=0).all()
    assert statistical_inliers(points[:1]).all()


def test_voxels_hold_the_means_of_their_points() -> None:
    points = torch.tensor([[0.1, 0.1, 0.1], [0.3, 0.1, 0.1], [1.5, 0.5, 0.5], [-0.5, 0.5, 0.5]], dtype=torch.float64)
    found = voxel_downsample(points, 1.0, torch.arange(8.0).reshape(4, 2))
    torch.testing.assert_close(found.points, torch.stack([points[3], points[:2].mean(dim=0), points[2]]))
    assert found.features is not None
    assert found.features.tolist() == [[6, 7], [1, 2], [4, 5]]
    assert found.voxels.tolist() == [1, 1, 2, 0]
    assert found.counts.tolist() == [1, 2, 1]
    cloud = random(30, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda p: voxel_downsample(p, 0.4).points, (cloud,))
    assert voxel_downsample(torch.zeros(0, 3), 1.0).points.shape == (0, 3)
    kept = keep_per_voxel(torch.cat([points, points, points]), 1.0, 3)
    assert kept.tolist() == [True] * 5 + [False, True, True, False, False, True, True]


def test_clouds_are_centred_and_scaled() -> None:
    cloud = random(2, 50, 3) * torch.tensor([3.0, 1, 2]) + 7
    moved = center_points(cloud, normalize=True)
    low, high = moved.amin(dim=1), moved.amax(dim=1)
    torch.testing.assert_close(low, -high)
    torch.testing.assert_close((high - low).amax(dim=1), torch.ones(2, dtype=torch.float64))
    assert (center_points(torch.ones(4, 3), normalize=True) == 0).all()
    assert torch.autograd.gradcheck(lambda p: center_points(p, normalize=True), (random(5, 3).requires_grad_(),))


def test_samples_lie_evenly_on_their_faces() -> None:
    shape = trimesh.creation.box(extents=(1, 2, 3))
    vertices, faces = torch.tensor(shape.vertices), torch.tensor(shape.faces)
    count = 60_000
    found = sample_surface(vertices, faces, count, generator=torch.Generator().manual_seed(0))
    again = sample_surface(vertices, faces, count, generator=torch.Generator().manual_seed(0))
    assert torch.equal(found.points, again.points)
    share = torch.tensor(shape.area_faces) / shape.area
    deviation = (found.faces.bincount(minlength=12) - count * share) / (count * share * (1 - share)).sqrt()
    assert deviation.abs().max() < 5
    torch.testing.assert_close((found.barycentric[..., None] * vertices[faces[found.faces]]).sum(dim=1), found.points)
    # the middle of the points of a face is its middle, to within five standard deviations
    for face in range(12):
        mine = found.barycentric[found.faces == face]
        assert ((mine.mean(dim=0) - 1 / 3).abs() < 5 * math.sqrt(1 / 18 / len(mine))).all()


def test_samples_skip_faces_without_area_and_carry_features_and_gradients() -> None:
    vertices = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [5, 5, 5]], dtype=torch.float64, requires_grad=True)
    faces = torch.tensor([[3, 3, 3], [0, 1, 2], [0, 0, 1]])
    features = vertices.detach()[faces] * 2 + 1

    def draw(v: torch.Tensor) -> torch.Tensor:
        return sample_surface(v, faces, 20, generator=torch.Generator().manual_seed(0)).points

    found = sample_surface(vertices, faces, 50, face_features=features, generator=torch.Generator().manual_seed(3))
    assert (found.faces == 1).all()
    assert found.features is not None
    torch.testing.assert_close(found.features, 2 * found.points + 1)
    areas = torch.tensor([0.0, 0, 1], dtype=torch.float64)
    assert (sample_surface(vertices, faces, 10, areas=areas).faces == 2).all()
    assert torch.autograd.gradcheck(draw, (vertices,))


def test_packed_samples_stay_on_their_meshes() -> None:
    shape = trimesh.creation.icosphere(1)
    vertices, faces = torch.tensor(shape.vertices), torch.tensor(shape.faces)
    joined = torch.cat([vertices, 3 * vertices])
    every = torch.cat([faces, faces[:7] + len(vertices)])
    found = sample_packed_surfaces(joined, every, torch.tensor([80, 7]), 500)
    assert found.points.shape == (2, 500, 3)
    assert (found.faces[0] < 80).all()
    assert found.faces[1].unique().tolist() == list(range(80, 87))
    assert (found.points[1].norm(dim=1) > 2.5).all()


def test_wrong_input_is_named() -> None:
    good = torch.zeros(5, 3)
    faces = torch.tensor([[0, 1, 2]])
    for call, text in (
        (lambda: nearest_neighbors(good, good, 6), "k is 6; it must be from 1 to the 5 targets"),
        (lambda: nearest_neighbors(good[None], torch.zeros(2, 5, 3)), "must be batches of one size"),
        (lambda: nearest_neighbors(good[:, :2], good), r"points must have the shape"),
        (lambda: chamfer_distance(good, good[:0]), "the second cloud has no points"),
        (lambda: chamfer_distance(good * torch.nan, good), r"first\[0, 0\] is nan"),
        (lambda: f_score(good, good, -1.0), "distance is -1.0"),
        (lambda: sample_farthest_points(good, 6), "count is 6; it must be from 0 to the 5 points"),
        (lambda: sample_farthest_points(good, 2, start=5), "start is 5"),
        (lambda: estimate_normals(good[:2]), "a normal needs 3 points; there are 2"),
        (lambda: statistical_inliers(good, neighbors=0), "neighbors is 0"),
        (lambda: radius_inliers(good, -1.0), "radius -1.0"),
        (lambda: voxel_downsample(good, 0.0), "size is 0.0; a voxel's side must be above 0"),
        (lambda: voxel_downsample(torch.tensor([[0.0, 0, 0], [1e9, 0, 0]]), 1.0), "at most 1048576 are possible"),
        (lambda: keep_per_voxel(good, 1.0, 0), "at least one point must be kept"),
        (lambda: center_points(good[:0]), "points has none"),
        (lambda: sample_surface(good, faces, 3), "no face of the mesh has an area"),
        (lambda: sample_surface(good, faces, -1), "count is -1"),
        (lambda: sample_packed_surfaces(good, faces, torch.tensor([2]), 3), "face_counts must add up to the 1 faces"),
        (lambda: sample_packed_surfaces(good, faces, torch.tensor([1]), -3), "count is -3"),
    ):
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.raises(TypeError, match=r"first and second must be of one type"):
        chamfer_distance(good, good.double())
    with pytest.raises(TypeError, match=r"points must be float32 or float64, not float16"):
        sample_farthest_points(good.half(), 2)


def test_batches_too_large_for_one_call_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "_MOST", 100)
    with pytest.raises(ValueError, match="101 points or faces in a batch are too many for one call; at most 100"):
        sample_farthest_points(random(101, 3), 2)
    with pytest.raises(ValueError, match="200 points or faces in a batch"):
        nearest_neighbors(random(2, 100, 3), random(2, 9, 3))


def test_without_checks_nothing_crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMR_CHECKS", "0")
    points = random(50, 3)
    points[3] = torch.nan
    for k in (1, 3):
        found = walk_forest(points[None], k, plant_points(random(1, 20, 3)))
        assert ((found >= 0) & (found < 20)).all()
