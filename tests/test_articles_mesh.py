"""The mesh and voxel code that two tutorials on Kaolin print works as it is printed there."""

from __future__ import annotations

import logging
import math

import pytest

torch = pytest.importorskip("torch")

import smr.kaolin as kal  # noqa: E402


def room(count: int = 60_000) -> torch.Tensor:
    """Points on the walls of a box of 1.2 × 1 × 0.8 m, as a depth camera would see it."""
    generator = torch.Generator().manual_seed(0)
    size = torch.tensor([1.2, 1.0, 0.8])
    points = torch.rand(count, 3, generator=generator) * size
    side = torch.randint(0, 6, (count,), generator=generator)
    points[torch.arange(count), side % 3] = (side // 3) * size[side % 3]
    return points


def dented_ball() -> tuple[torch.Tensor, torch.Tensor]:
    """Marching cubes of a ball of 12 voxels radius."""
    x = torch.arange(32) - 15.5
    inside = (x[:, None, None] ** 2 + x[None, :, None] ** 2 + x[None, None] ** 2).sqrt()
    return kal.ops.conversions.voxelgrid_to_mesh(12.0 - inside, iso_value=0.0)


def euler(mesh: object) -> int:
    vertices, faces = mesh.vertices, mesh.faces  # type: ignore[attr-defined]
    used = len(torch.unique(faces))
    ends = torch.stack([faces, faces.roll(-1, 1)], 2).sort(2).values.reshape(-1, 2)
    assert len(vertices) >= used
    return used - len(torch.unique(ends, dim=0)) + len(faces)


# sparse multi-view reconstruction


def test_smoothing_of_a_batch_of_one() -> None:
    vertices, faces = dented_ball()
    smoothed = kal.ops.mesh.laplacian_smooth(vertices.unsqueeze(0), faces, iterations=3)[0]
    assert smoothed.shape == vertices.shape
    radius = (smoothed - 16.5).norm(dim=1)
    assert radius.std() < (vertices - 16.5).norm(dim=1).std() + 0.02
    assert abs(radius.mean() - 12) < 0.3


def test_points_of_a_height_field_are_triangulated_in_the_plane_and_lifted() -> None:
    generator = torch.Generator().manual_seed(1)
    points = torch.rand(300, 2, generator=generator)
    faces = kal.ops.mesh.triangulate_points_2d(points)
    lifted = torch.cat([points, (points**2).sum(dim=1, keepdim=True)], dim=1)
    normals = kal.ops.mesh.face_normals(lifted, faces)
    assert (normals[:, 2] > 0).all()
    assert torch.equal(kal.ops.mesh.triangulate_points_2d(lifted), faces)


def test_a_checked_operation_says_what_is_wrong() -> None:
    vertices, faces = dented_ball()

    def safe_mesh_op(vertices: torch.Tensor, faces: torch.Tensor) -> torch.Tensor:
        assert not torch.isnan(vertices).any(), "Vertices contain NaN"
        assert not torch.isinf(vertices).any(), "Vertices contain Inf"
        assert faces.min() >= 0, "Face index < 0"
        assert faces.max() < vertices.shape[0], "Face index >= vertex count"
        return kal.ops.mesh.face_normals(vertices, faces)

    normals = safe_mesh_op(vertices, faces)
    torch.testing.assert_close(normals.norm(dim=1), torch.ones(len(faces)))
    broken = vertices.clone()
    broken[0] = float("nan")
    with pytest.raises(AssertionError, match="Vertices contain NaN"):
        safe_mesh_op(broken, faces)
    # and without the wrapper there is an error too, where Kaolin crashes
    beyond = faces.clone()
    beyond[5, 2] = 999_999
    with pytest.raises(ValueError, match=r"faces\[5, 2\] is 999999"):
        kal.ops.mesh.face_normals(vertices, beyond)


# spatial mapping and reconstruction


def test_from_points_to_a_mesh_with_texture_coordinates() -> None:
    openni_to_opengl = torch.tensor([[1, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1]], dtype=torch.float32)
    pointcloud = room()
    homogeneous = torch.cat([pointcloud, torch.ones(pointcloud.shape[0], 1)], dim=1)
    pointcloud = (openni_to_opengl @ homogeneous.T).T[:, :3]

    grid = kal.ops.conversions.pointcloud_to_voxelgrid(
        pointcloud.unsqueeze(0), voxel_size=0.04, grid_shape=[40, 40, 40]
    )
    assert grid.shape == (1, 40, 40, 40)
    assert set(grid.unique().tolist()) == {0.0, 1.0}
    vertices, faces = kal.ops.conversions.voxelgrid_to_mesh(grid.squeeze(0), iso_value=0.5, smooth=False)
    mesh = kal.rep.Mesh(vertices, faces)

    for _ in range(3):
        mesh = kal.ops.mesh.fill_holes(mesh, max_hole_edges=30)
    simplified = kal.ops.mesh.simplify_mesh(mesh, target_number_of_vertices=2000, preserve_border=True)
    assert isinstance(simplified, kal.rep.Mesh)
    assert len(simplified.vertices) <= 2000
    assert euler(simplified) == euler(mesh)

    uvs, face_uvs_idx = kal.ops.mesh.auto_uv(simplified.vertices, simplified.faces, chart_num=100, padding=0.001)
    assert face_uvs_idx.shape == simplified.faces.shape
    assert (uvs >= 0).all()
    assert (uvs <= 1).all()
    corners = uvs[face_uvs_idx]
    across, along = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    areas = across[:, 0] * along[:, 1] - across[:, 1] * along[:, 0]
    assert (areas > 0).float().mean() > 0.99  # no triangle is turned over
    assert 0.3 < 0.5 * areas.sum() < 1


def test_holes_are_closed_and_the_rest_stays() -> None:
    vertices, faces = dented_ball()
    near = (vertices - torch.tensor([16.5, 16.5, 28.5])).norm(dim=1) < 2
    holed = faces[~near[faces].any(dim=1)]
    mesh = kal.ops.mesh.fill_holes(kal.rep.Mesh(vertices, holed), max_hole_edges=40)
    assert torch.equal(mesh.faces[: len(holed)], holed)
    assert euler(mesh) == 2
    same = kal.ops.mesh.fill_holes(kal.rep.Mesh(vertices, holed), max_hole_edges=5)
    assert len(same.faces) == len(holed)


def test_thin_shapes_are_not_simplified_away() -> None:
    turn = torch.linspace(0, 2 * math.pi, 13)[:-1]
    rings = torch.stack([0.01 * turn.cos(), 0.01 * turn.sin()], dim=1)
    vertices = torch.cat([torch.cat([rings, torch.full((12, 1), 0.02 * k)], dim=1) for k in range(100)])
    k, i = torch.meshgrid(torch.arange(99), torch.arange(12), indexing="ij")
    a, b = (12 * k + i).reshape(-1), (12 * k + (i + 1) % 12).reshape(-1)
    faces = torch.cat([torch.stack([a, b, b + 12], 1), torch.stack([a, b + 12, a + 12], 1)])
    pipe = kal.rep.Mesh(vertices, faces)
    few = kal.ops.mesh.simplify_mesh(pipe, target_number_of_vertices=30)
    assert len(few.faces) > 0
    assert euler(few) == 0  # a pipe still
    finer = kal.ops.mesh.subdivide_mesh(pipe)
    assert len(finer.faces) == 4 * len(faces)
    assert len(kal.ops.mesh.simplify_mesh(finer, target_number_of_vertices=30).faces) > 0
    assert kal.ops.mesh.compute_face_normals(few).shape == few.faces.shape


def test_the_grid_in_plain_torch_is_ours() -> None:
    def plain(points: torch.Tensor, grid_shape: tuple[int, int, int]) -> torch.Tensor:
        scaled = (points - points.min(0)[0]) / (points.max(0)[0] - points.min(0)[0])
        size = torch.tensor(grid_shape)
        indices = torch.minimum((scaled * size).long(), size - 1)
        grid = torch.zeros(grid_shape)
        grid[indices[:, 0], indices[:, 1], indices[:, 2]] = 1.0
        return grid.unsqueeze(0)

    generator = torch.Generator().manual_seed(3)
    points = torch.rand(5000, 3, generator=generator)
    points = torch.cat([points, torch.zeros(1, 3), torch.ones(1, 3)])  # the unit cube, filled
    ours = kal.ops.conversions.pointcloud_to_voxelgrid(points.unsqueeze(0), grid_shape=(20, 20, 20))
    assert torch.equal(ours, plain(points, (20, 20, 20)))


def test_points_beside_the_grid_are_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        kal.ops.conversions.pointcloud_to_voxelgrid(room().unsqueeze(0), voxel_size=0.02, grid_shape=[50, 50, 50])
    assert "points lie beside the grid of 50×50×50 voxels; choose a larger voxel_size or grid_shape" in caplog.text
