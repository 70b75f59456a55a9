"""`smr.kaolin`: metrics, check_sign, point clouds, functions to voxel grids, and the names that articles use."""

from __future__ import annotations

from inspect import unwrap

import pytest
import torch
import trimesh

import smr.kaolin as kaolin
from smr.kaolin.metrics import pointcloud, trianglemesh
from smr.kaolin.ops.conversions.sdf import sdf_to_voxelgrids
from smr.kaolin.ops.points import poisson_surface_reconstruction, sample_farthest_points


def sphere(detail: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    shape = trimesh.creation.icosphere(detail)
    return torch.tensor(shape.vertices, dtype=dtype), torch.tensor(shape.faces)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64, torch.int32])
def test_sided_distance_takes_all_number_types(dtype: torch.dtype) -> None:
    a = torch.tensor([[[0, 0, 0], [4, 0, 0]]], dtype=dtype)
    b = torch.tensor([[[1, 0, 0], [4, 2, 0], [9, 9, 9]]], dtype=dtype)
    distance, index = pointcloud.sided_distance(a, b)
    assert distance.dtype == dtype
    assert index.dtype == torch.int64
    assert distance.tolist() == [[1, 4]]
    assert index.tolist() == [[0, 1]]
    assert torch.equal(pointcloud._sided_distance(a, b), distance)


def test_chamfer_and_f_score_have_a_value_for_each_cloud() -> None:
    a, b = torch.rand(3, 20, 3), torch.rand(3, 30, 3)
    assert pointcloud.chamfer_distance(a, b).shape == (3,)
    torch.testing.assert_close(
        pointcloud.chamfer_distance(a, b, w1=0.0), pointcloud.sided_distance(b, a)[0].mean(dim=1)
    )
    assert pointcloud.f_score(a, a).tolist() == pytest.approx([1.0] * 3)


def test_wrong_clouds_raise_what_kaolin_raises() -> None:
    with pytest.raises(RuntimeError, match="Expected 3-dimensional tensor, but got 2-dimensional tensor for"):
        pointcloud.sided_distance(torch.zeros(4, 3), torch.zeros(4, 3))
    with pytest.raises(RuntimeError, match=r"Expected tensor of size \[2, 4, 3\], but got tensor of size \[1, 4, 3\]"):
        pointcloud.chamfer_distance(torch.zeros(2, 4, 3), torch.zeros(1, 4, 3))


def test_point_to_mesh_distance_by_three_names() -> None:
    generator = torch.Generator().manual_seed(0)
    points, triangles = torch.randn(2, 90, 3, generator=generator), torch.randn(2, 40, 3, 3, generator=generator)
    found = trianglemesh.point_to_mesh_distance(points, triangles)
    assert [part.dtype for part in found] == [torch.float32, torch.int64, torch.int32]
    for b in range(2):
        alone = trianglemesh._UnbatchedTriangleDistanceCuda.apply(points[b], triangles[b])
        plainly = trianglemesh._unbatched_naive_point_to_mesh_distance(points[b], triangles[b])
        for whole, one, plain in zip(found, alone, plainly, strict=True):
            assert torch.equal(whole[b], one)
            torch.testing.assert_close(one, plain)


def test_edge_lengths_and_smoothing() -> None:
    vertices = torch.tensor([[[3.0, 0, 0], [0, 4, 0], [0, 0, 5]]])
    faces = torch.tensor([[0, 1, 2]])
    mean = (5 + 34**0.5 + 41**0.5) / 3
    torch.testing.assert_close(trianglemesh.average_edge_length(vertices, faces), torch.tensor([[mean]]))
    smooth = trianglemesh.uniform_laplacian_smoothing(vertices, faces)
    torch.testing.assert_close(smooth[0, 0], 0.5 * (vertices[0, 1] + vertices[0, 2]))


def test_check_sign_is_right_on_every_point_of_a_regular_grid() -> None:
    shape = trimesh.creation.box()
    vertices, faces = torch.tensor(shape.vertices, dtype=torch.float32)[None], torch.tensor(shape.faces)
    steps = torch.linspace(-0.99, 0.99, 10)
    points = torch.cartesian_prod(steps, steps, steps)[None]
    expected = (points.abs() < 0.5).all(dim=2)
    assert torch.equal(kaolin.ops.mesh.check_sign(vertices, faces, points), expected)
    assert torch.equal(kaolin.ops.mesh.check_sign(vertices, faces.flip(1), points, 16), expected)


def test_check_sign_refuses_what_kaolin_refuses() -> None:
    vertices, faces = sphere(0)
    check = unwrap(kaolin.ops.mesh.check_sign)
    with pytest.raises(TypeError, match=r"Expected faces entries to be torch.int64 but got torch.int32\."):
        check(vertices[None], faces.int(), vertices[None])
    with pytest.raises(TypeError, match="Expected hash_resolution to be int but got <class 'float'>"):
        check(vertices[None], faces, vertices[None], 1.0)
    with pytest.raises(ValueError, match="Expected verts to have 3 dimensions but got 2 dimensions"):
        check(vertices, faces, vertices[None])
    with pytest.raises(ValueError, match="Expected points to have 3 coordinates but got 2 coordinates"):
        check(vertices[None], faces, vertices[None, :, :2])
    with pytest.raises(ValueError, match=r"faces\[0, 0\] is 99"):
        check(vertices[None], torch.tensor([[99, 1, 2]]), vertices[None])


def test_farthest_points() -> None:
    points = torch.rand(2, 200, 3)
    assert kaolin.ops.pointcloud.farthest_point_sampling(points, 12).shape == (2, 12)
    with pytest.raises(AssertionError, match=r"k \(=201\) must be <= num_points \(=200\)"):
        kaolin.ops.pointcloud.farthest_point_sampling(points, 201)
    with pytest.raises(ValueError, match=r"points must have the shape \(B, N, 3\), not \(200, 3\)"):
        kaolin.ops.pointcloud.farthest_point_sampling(points[0], 2)


def test_farthest_points_with_lengths() -> None:
    points = torch.rand(2, 30, 3)
    chosen, index = sample_farthest_points(points, K=5)
    assert index[:, 0].tolist() == [0, 0]
    assert torch.equal(chosen[1], points[1, index[1]])
    chosen, index = sample_farthest_points(points, lengths=torch.tensor([3, 30]), K=5)
    assert index[0, 3:].tolist() == [-1, -1]
    assert sorted(index[0, :3].tolist()) == [0, 1, 2]
    assert (chosen[0, 3:] == 0).all()
    torch.manual_seed(1)
    starts = {sample_farthest_points(points, K=2, random_start_point=True)[1][0, 0].item() for _ in range(9)}
    assert len(starts) > 1
    with pytest.raises(ValueError, match="lengths must be 2 numbers from 0 to 30"):
        sample_farthest_points(points, lengths=torch.tensor([3, 31]), K=5)
    with pytest.raises(ValueError, match="points must have the shape"):
        sample_farthest_points(points[0], K=5)


def test_functions_become_voxel_grids() -> None:
    def ball(points: torch.Tensor) -> torch.Tensor:
        return points.norm(dim=1) - 0.4

    coarse = sdf_to_voxelgrids([ball, ball], init_res=8)
    assert coarse.shape == (2, 9, 9, 9)
    fine = sdf_to_voxelgrids([ball], init_res=8, upsampling_steps=2)
    places = torch.cartesian_prod(*(torch.arange(33),) * 3).float() / 32 - 0.5
    assert torch.equal(fine.reshape(-1), (ball(places) <= 0).float())
    shifted = sdf_to_voxelgrids([lambda p: ball(p - 3)], bbox_center=3.0, bbox_dim=2.0, init_res=8)
    assert 0 < shifted.sum() < coarse[0].sum()
    for arguments, text in (
        ((0,), "Expected sdf to be list but got <class 'int'>"),
        (([0],), r"Expected sdf\[0\] to be callable"),
        (([ball], " "), "Expected bbox_center to be int or float"),
        (([ball], 0.0, 1.0, 0.5), "Expected init_res to be int"),
    ):
        with pytest.raises(TypeError, match=text):
            unwrap(sdf_to_voxelgrids)(*arguments)


def test_poisson_surface_of_a_sphere() -> None:
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(1, 3000, 3, generator=generator)
    points = points / points.norm(dim=-1, keepdim=True)
    for normals in (None, points):
        mesh = poisson_surface_reconstruction(points, normals=normals, grid_resolution=48, max_points_per_voxel=4)[0]
        assert (mesh.vertices.norm(dim=1) - 1).abs().max() < 0.05
        assert mesh.faces.dtype == torch.int64
        assert mesh.vertices.dtype == torch.float32
        outwards = kaolin.ops.mesh.check_sign(mesh.vertices[None], mesh.faces, torch.zeros(1, 1, 3))
        assert outwards.all()
    with pytest.raises(ValueError, match="normals must have the shape of points"):
        poisson_surface_reconstruction(points, normals=points[:, :5])
    with pytest.raises(ValueError, match="points must have the shape"):
        poisson_surface_reconstruction(points[0])
    with pytest.raises(kaolin.ops.points.SmrError, match="all lie in one place"):
        poisson_surface_reconstruction(torch.zeros(1, 20, 3))


def test_the_first_steps_of_a_sparse_reconstruction_run_as_printed() -> None:
    torch.manual_seed(0)
    points_3d = torch.randn(500, 3) * 0.5
    mesh = kaolin.ops.points.poisson_surface_reconstruction(
        points_3d.unsqueeze(0),
        normals=None,
        grid_resolution=128,
        max_points_per_voxel=10,
    )[0]
    assert mesh.vertices.shape[0] > 100
    assert mesh.faces.shape[0] > 100
    smoothed_vertices = kaolin.ops.mesh.laplacian_smooth(mesh.vertices.unsqueeze(0), mesh.faces, iterations=3)[0]
    assert smoothed_vertices.shape == mesh.vertices.shape
    chosen, _ = kaolin.ops.points.sample_farthest_points(points_3d.unsqueeze(0), K=64)
    assert chosen.shape == (1, 64, 3)
