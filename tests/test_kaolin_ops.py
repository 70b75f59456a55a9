"""`smr.kaolin`: ops.mesh, ops.voxelgrid, ops.conversions and the metrics of grids, masks and tetrahedra."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import smr.kaolin as kal  # noqa: E402
from smr.errors import SmrError  # noqa: E402

FACES = torch.tensor([[1, 3, 2], [1, 4, 0]])


def test_dense_matrices_are_those_of_the_sparse_ones_up_to_a_size() -> None:
    dense = kal.ops.mesh.uniform_laplacian(5, FACES)
    assert not dense.is_sparse
    assert torch.equal(dense.sum(dim=1), torch.zeros(5))
    assert torch.equal(kal.ops.mesh.adjacency_matrix(5, FACES).to_dense(), (dense > 0).float())
    with pytest.raises(
        SmrError, match="uniform_laplacian of 50000 vertices as a dense matrix would take 10 GB"
    ) as error:
        kal.ops.mesh.uniform_laplacian(50_000, FACES)
    assert "smr.ops.mesh.uniform_laplacian(faces, num_vertices), which is sparse" in error.value.cure
    with pytest.raises(SmrError, match="adjacency_matrix of 50000 vertices"):
        kal.ops.mesh.adjacency_matrix(50_000, FACES, sparse=False)
    assert kal.ops.mesh.adjacency_matrix(50_000, FACES).shape == (50_000, 50_000)


def test_the_two_ways_to_call_face_normals() -> None:
    vertices = torch.rand(2, 5, 3)
    corners = kal.ops.mesh.index_vertices_by_faces(vertices, FACES)
    unit = kal.ops.mesh.face_normals(corners, unit=True)
    torch.testing.assert_close(kal.ops.mesh.face_normals(corners, True), unit)
    torch.testing.assert_close(kal.ops.mesh.face_normals(vertices, FACES), unit)
    torch.testing.assert_close(
        kal.ops.mesh.face_normals(corners).norm(dim=2) / 2, kal.ops.mesh.face_areas(vertices, FACES)
    )
    with pytest.raises(TypeError, match="unexpected keyword argument 'units'"):
        kal.ops.mesh.face_normals(corners, units=True)
    with pytest.raises(ValueError, match=r"face_vertices must have the shape"):
        kal.ops.mesh.face_normals(vertices)


def test_half_precision_is_taken() -> None:
    vertices = torch.rand(1, 5, 3).half()
    assert kal.ops.mesh.face_areas(vertices, FACES).dtype == torch.float16
    corners = kal.ops.mesh.index_vertices_by_faces(vertices, FACES)
    assert kal.ops.mesh.compute_vertex_normals(FACES, corners).shape == (1, 5, 3)
    points, chosen = kal.ops.mesh.sample_points(vertices, FACES, 10)
    assert points.dtype == torch.float16
    assert chosen.shape == (1, 10)
    assert kal.ops.conversions.pointclouds_to_voxelgrids(vertices, 4).dtype == torch.float16


@pytest.mark.parametrize("shape", [(4, 4, 8), (3, 5, 9), (1, 1, 1), (2, 30, 2)])
def test_marching_cubes_of_grids_that_are_no_cubes(shape: tuple[int, int, int]) -> None:
    grids = torch.ones(2, *shape, dtype=torch.bool)
    vertices, faces = kal.ops.conversions.voxelgrids_to_trianglemeshes(grids)
    assert len(vertices) == len(faces) == 2
    assert faces[0].max() == len(vertices[0]) - 1
    assert torch.equal(vertices[0].amax(dim=0), torch.tensor(shape) + 0.5)
    assert torch.equal(vertices[0].amin(dim=0), torch.full((3,), 0.5))
    with pytest.raises(ValueError, match="Expected voxelgrids to have 4 dimensions but got 3 dimensions"):
        kal.ops.conversions.voxelgrids_to_trianglemeshes(grids[0])


def test_marching_cubes_has_gradients_and_keeps_double_precision() -> None:
    grid = torch.rand(1, 4, 4, 4, dtype=torch.float64, requires_grad=True)
    vertices, _ = kal.ops.conversions.voxelgrids_to_trianglemeshes(grid)
    vertices[0].sum().backward()
    assert grid.grad is not None
    assert grid.grad.abs().sum() > 0


def test_every_voxel_that_a_triangle_touches_is_found() -> None:
    vertices = torch.tensor([[[0.0, 0, 0], [1, 0.93, 0.11], [0.07, 1, 0.83]]])
    faces = torch.tensor([[0, 1, 2]])
    grid = kal.ops.conversions.trianglemeshes_to_voxelgrids(vertices, faces, 32, torch.zeros(1, 3), torch.ones(1))
    generator = torch.Generator().manual_seed(0)
    weights = torch.distributions.Exponential(1.0).sample((200_000, 3))
    del generator
    points = (weights / weights.sum(dim=1, keepdim=True)) @ vertices[0]
    hit = kal.ops.conversions.pointclouds_to_voxelgrids(points[None], 32, torch.zeros(1, 3), torch.ones(1))
    assert not ((hit > 0) & (grid == 0)).any()
    sparse = kal.ops.conversions.trianglemeshes_to_voxelgrids(
        vertices, faces, 32, torch.zeros(1, 3), torch.ones(1), return_sparse=True
    )
    assert torch.equal(sparse.to_dense(), grid)


def test_clouds_of_one_place_and_of_no_points() -> None:
    assert kal.ops.conversions.pointclouds_to_voxelgrids(torch.ones(1, 3, 3), 4).sum() == 1
    assert kal.ops.conversions.pointclouds_to_voxelgrids(torch.ones(2, 0, 3), 4).sum() == 0
    with pytest.raises(ValueError, match=r"expected positions of the shape \(B, N, 3\)"):
        kal.ops.conversions.pointclouds_to_voxelgrids(torch.ones(3, 3), 4)
    with pytest.raises(ValueError, match="resolution must be at least 1"):
        kal.ops.conversions.pointclouds_to_voxelgrids(torch.ones(1, 3, 3), 0)


def test_what_is_not_there_says_so() -> None:
    with pytest.raises(NotImplementedError, match="unbatched_mesh_to_spc is not part of smr"):
        kal.ops.conversions.unbatched_mesh_to_spc(torch.zeros(1, 3, 3), 3)


def test_losses_and_metrics() -> None:
    mask = torch.rand(2, 4, 4)
    full = torch.ones(2, 4, 4)
    torch.testing.assert_close(kal.metrics.render.mask_iou(full, full), torch.tensor(0.0))
    torch.testing.assert_close(kal.metrics.render.mask_iou(mask, full), 1 - mask.mean())
    torch.testing.assert_close(kal.metrics.render.mask_iou(0 * full, 0 * full), torch.tensor(0.0))
    with pytest.raises(ValueError, match="expected two masks of one shape"):
        kal.metrics.render.mask_iou(mask, full[:1])
    grids = torch.rand(2, 3, 3, 3) > 0.5
    torch.testing.assert_close(kal.metrics.voxelgrid.iou(grids, grids), torch.ones(2))
    torch.testing.assert_close(kal.metrics.voxelgrid.iou(grids, ~grids), torch.zeros(2))
    with pytest.raises(ValueError, match="of one shape"):
        kal.metrics.voxelgrid.iou(grids, grids[:1])
    rest = torch.randn(2, 4, 4, 3, dtype=torch.float64)
    inverse = kal.ops.mesh.inverse_vertices_offset(rest)
    turned = rest @ torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64)).Q
    torch.testing.assert_close(kal.metrics.tetmesh.amips(turned, inverse), torch.full((2, 1), 3.0, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"tet_vertices must have the shape \(B, T, 4, 3\)"):
        kal.metrics.tetmesh.tetrahedron_volume(rest[0])


def test_meshes_go_in_and_come_out_as_pairs_too() -> None:
    octahedron = torch.cat([torch.eye(3), -torch.eye(3)])
    faces = torch.tensor([[0, 1, 2], [1, 3, 2], [3, 4, 2], [4, 0, 2], [1, 0, 5], [3, 1, 5], [4, 3, 5], [0, 4, 5]])
    vertices, finer = kal.ops.mesh.subdivide_mesh(octahedron[None], faces, iterations=2)
    assert vertices.shape == (1, 66, 3)
    assert len(finer) == 128
    smooth, _ = kal.ops.mesh.subdivide_mesh(octahedron, faces, smooth=True)
    assert smooth.norm(dim=1).std() < 0.1
    with pytest.raises(TypeError, match="a mesh with vertices and faces, or vertices and faces, needed"):
        kal.ops.mesh.fill_holes(octahedron)
    twisted = faces.clone()
    twisted[3] = twisted[3].flip(0)
    _, repaired = kal.ops.mesh.repair_mesh(octahedron, twisted)
    half = torch.stack([repaired, repaired.roll(-1, 1)], 2).reshape(-1, 2)
    assert len(torch.unique(half, dim=0)) == 24  # every half-edge once: all faces turned alike
    for call, match in (
        (lambda: kal.ops.mesh.auto_uv(octahedron, faces, chart_num=0), "chart_num must be positive"),
        (lambda: kal.ops.mesh.auto_uv(octahedron, faces, padding=0.7), "padding is a share"),
        (lambda: kal.ops.mesh.fill_holes(octahedron, faces, max_hole_edges=2), "a hole has at least 3 edges"),
        (
            lambda: kal.ops.mesh.simplify_mesh(octahedron, faces, target_number_of_vertices=0),
            "target_number_of_vertices is 0",
        ),
        (lambda: kal.ops.mesh.fill_holes(octahedron / 0, faces), "all values must be finite"),
    ):
        with pytest.raises(ValueError, match=match):
            call()


@pytest.mark.parametrize(
    ("points", "match"),
    [
        ([[0, 0], [1, 1], [2, 2], [5, 5]], "all points lie on one line"),
        ([[0, 0], [1, 0], [0, 1], [1, 0]], r"points\[1\] and points\[3\] are the same"),
        ([[0, 0], [1, 0]], "at least 3 points, not 2"),
        ([[0, 0], [1, 0], [float("nan"), 1]], r"points\[2, 0\] is nan"),
        ([[0, 0, 0, 0]] * 3, r"points must have the shape \(\*, 2\)"),
    ],
)
def test_points_that_cannot_be_triangulated_are_named(points: list[list[float]], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        kal.ops.mesh.triangulate_points_2d(torch.tensor(points, dtype=torch.float32))


def test_a_triangulation_covers_the_hull_wherever_it_is() -> None:
    square = torch.tensor([[0.0, 0], [1, 0], [0, 1], [1, 1], [0.5, 0.5]], dtype=torch.float64)
    for moved in (square, square * 1e-6 + 5, square + 1e7):
        faces = kal.ops.mesh.triangulate_points_2d(moved)
        assert len(faces) == 4
        a, b, c = moved[faces].unbind(1)
        assert (((b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0]) > 0).all()
