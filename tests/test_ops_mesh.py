"""Faces, edges, Laplacians, smoothing, subdivision and tetrahedra on tensors."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from smr.ops import mesh as ops  # noqa: E402
from smr.ops.mesh import tetrahedra as tets  # noqa: E402
from smr.ops.mesh.subdivision import split_until  # noqa: E402
from smr.ops.segments import group_rows, segment_sum, take_rows  # noqa: E402

BOTH = pytest.mark.parametrize("kernels", ["warp", "torch"])
RANDOM = torch.Generator()


@pytest.fixture(autouse=True)
def _seed() -> None:
    RANDOM.manual_seed(0)


@pytest.fixture
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SMR_KERNELS", request.param)
    return str(request.param)


def random(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, generator=RANDOM)


def octahedron(rounds: int = 0, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    """A sphere of radius 1 with 8 * 4**rounds faces."""
    vertices = torch.cat([torch.eye(3, dtype=dtype), -torch.eye(3, dtype=dtype)])
    faces = torch.tensor([[0, 1, 2], [1, 3, 2], [3, 4, 2], [4, 0, 2], [1, 0, 5], [3, 1, 5], [4, 3, 5], [0, 4, 5]])
    for _ in range(rounds):
        vertices, faces = ops.subdivide_midpoint(vertices, faces)
        vertices = vertices / vertices.norm(dim=1, keepdim=True)
    return vertices, faces


def sheet(n: int, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    """A flat square of n × n vertices."""
    x, y = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    vertices = torch.stack([x, y, 0 * x], dim=2).reshape(-1, 3).to(dtype)
    a = (x[:-1, :-1] * n + y[:-1, :-1]).reshape(-1)
    return vertices, torch.cat([torch.stack([a, a + n, a + n + 1], 1), torch.stack([a, a + n + 1, a + 1], 1)])


# sums over groups


@BOTH
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_segment_sums_are_those_of_index_add(kernels: str, dtype: torch.dtype) -> None:
    index = torch.randint(0, 7, (50,), generator=RANDOM)
    values = random(2, 50, 3).to(dtype)
    expected = torch.zeros(2, 9, 3, dtype=torch.float64).index_add(1, index, values.double())
    found = segment_sum(values, group_rows(index, 9))
    assert found.dtype == dtype
    tolerance = {torch.float16: 1e-2, torch.float32: 1e-5, torch.float64: 1e-12}[dtype]
    torch.testing.assert_close(found.double(), expected, atol=tolerance, rtol=tolerance)


@BOTH
def test_gradients_of_segment_sums_and_taken_rows(kernels: str) -> None:
    index = torch.tensor([3, 1, 3, 0, 0])
    segments = group_rows(index, 5)
    values = random(2, 5, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda v: segment_sum(v, segments), values)
    assert torch.autograd.gradcheck(lambda v: take_rows(v, index), values)
    assert torch.autograd.gradgradcheck(lambda v: take_rows(v**2, index), values)


def test_rows_of_empty_groups_and_of_no_rows_are_zero() -> None:
    nothing = group_rows(torch.zeros(0, dtype=torch.int64), 4)
    assert torch.equal(segment_sum(torch.zeros(0, 2), nothing), torch.zeros(4, 2))


# faces


def test_areas_and_normals_of_an_octahedron() -> None:
    vertices, faces = octahedron()
    torch.testing.assert_close(ops.face_areas(vertices, faces), torch.full((8,), math.sqrt(3) / 2, dtype=torch.float64))
    centres = vertices[faces].mean(dim=1)
    torch.testing.assert_close(ops.face_normals(vertices, faces), centres * math.sqrt(3))
    torch.testing.assert_close(ops.vertex_normals(vertices, faces), vertices)


@BOTH
def test_batches_are_as_loops(kernels: str) -> None:
    _, faces = octahedron(1)
    batch = random(3, 18, 3)
    smooth = ops.laplacian_smooth
    for function in (ops.face_areas, ops.face_normals, ops.vertex_normals, ops.vertex_areas, smooth, ops.taubin_smooth):
        alone = torch.stack([function(vertices, faces) for vertices in batch])
        torch.testing.assert_close(function(batch, faces), alone)
    together, _ = ops.subdivide_loop(batch, faces)
    torch.testing.assert_close(together, torch.stack([ops.subdivide_loop(vertices, faces)[0] for vertices in batch]))


@BOTH
def test_gradients_against_finite_differences(kernels: str) -> None:
    vertices, faces = octahedron()
    moved = (vertices + 0.1 * random(6, 3)).requires_grad_()
    for function in (ops.face_areas, ops.vertex_normals, ops.vertex_areas, lambda v, f: ops.taubin_smooth(v, f, 2)):
        assert torch.autograd.gradcheck(lambda v, f=function: f(v, faces), moved)
    assert torch.autograd.gradcheck(lambda v: ops.cotangent_laplacian(v, faces).to_dense(), moved)
    assert torch.autograd.gradcheck(lambda v: ops.subdivide_loop(v, faces)[0], moved)
    alpha = torch.rand(6, dtype=torch.float64, generator=RANDOM).requires_grad_()
    assert torch.autograd.gradcheck(lambda v, a: ops.subdivide_loop(v, faces, 1, a)[0], (moved, alpha))


def test_faces_without_area_have_no_normal_and_no_gradient() -> None:
    vertices = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
    faces = torch.tensor([[0, 1, 2]])
    assert torch.equal(ops.face_normals(vertices, faces), torch.zeros(1, 3, dtype=torch.float64))
    (ops.face_areas(vertices, faces).sum() + ops.vertex_normals(vertices, faces).sum()).backward()
    assert torch.equal(vertices.grad, torch.zeros_like(vertices))


def test_normals_of_tiny_and_of_distant_triangles() -> None:
    vertices, faces = octahedron(dtype=torch.float32)
    normals = ops.face_normals(vertices, faces)
    torch.testing.assert_close(ops.face_normals(vertices * 1e-15, faces), normals)
    torch.testing.assert_close(ops.face_normals(vertices * 100 + 1e7, faces), normals, atol=0.02, rtol=0)


@given(st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_turning_scaling_and_renumbering_carry_over(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    vertices, faces = octahedron(1)
    vertices = vertices + 0.2 * torch.randn(vertices.shape, dtype=torch.float64, generator=generator)
    turn = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64, generator=generator)).Q
    turn = turn * torch.linalg.det(turn)
    torch.testing.assert_close(
        ops.vertex_normals(3 * vertices @ turn.T, faces), ops.vertex_normals(vertices, faces) @ turn.T
    )
    smoothed = ops.laplacian_smooth(vertices, faces, 2)
    torch.testing.assert_close(ops.laplacian_smooth(3 * vertices @ turn.T, faces, 2), 3 * smoothed @ turn.T)
    order = torch.randperm(len(vertices), generator=generator)
    torch.testing.assert_close(ops.laplacian_smooth(vertices[order], order.argsort()[faces], 2), smoothed[order])


def test_unindexed_features_come_back() -> None:
    features = random(2, 5, 3, 4)
    values, faces = ops.unindex_vertices_by_faces(features)
    assert torch.equal(ops.index_vertices_by_faces(values, faces), features)


def test_areas_of_packed_meshes_are_those_of_each() -> None:
    first, second = octahedron(), octahedron(1)
    packed = ops.pack_meshes([first[0], second[0]], [first[1], second[1]])
    areas = ops.packed_face_areas(packed.vertices, packed.first_vertices, packed.faces, packed.face_counts)
    torch.testing.assert_close(areas, torch.cat([ops.face_areas(*first), ops.face_areas(*second)]))
    vertices, faces = packed.unpack()
    assert torch.equal(vertices[1], second[0])
    assert torch.equal(faces[1], second[1])
    torch.testing.assert_close(ops.face_areas(packed.vertices, packed.joined_faces()), areas)


def test_tangents_follow_u_on_a_flat_sheet() -> None:
    vertices, faces = sheet(4)
    normals = torch.tensor([0, 0, 1.0], dtype=torch.float64).expand(16, 3)
    tangents = ops.vertex_tangents(faces, vertices[faces], vertices[faces][..., :2], normals)
    torch.testing.assert_close(tangents, torch.tensor([1.0, 0, 0], dtype=torch.float64).expand(16, 3))


# edges and Laplacians


def test_edges_of_a_sphere_fit_eulers_formula() -> None:
    vertices, faces = octahedron(2)
    edges = ops.find_edges(faces, len(vertices))
    assert len(vertices) - len(edges.vertices) + len(faces) == 2
    assert (edges.face_counts == 2).all()
    ends = torch.stack([faces, faces.roll(-1, dims=1)], dim=2).sort(dim=2).values
    assert torch.equal(edges.vertices[edges.of_faces], ends)


def test_adjacency_is_symmetric_and_counts_neighbours() -> None:
    vertices, faces = octahedron(1)
    matrix = ops.adjacency_matrix(faces, len(vertices)).to_dense()
    assert torch.equal(matrix, matrix.T)
    assert torch.equal(matrix.sum(dim=1), torch.tensor([4.0] * 6 + [6.0] * 12))
    assert matrix.trace() == 0


def test_polygons_have_edges_too() -> None:
    matrix = ops.adjacency_matrix(torch.tensor([[0, 1, 2, 3]]), 4).to_dense()
    assert torch.equal(matrix, torch.tensor([[0, 1.0, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]]))


def test_uniform_laplacian_is_the_way_to_the_mean_and_sparse() -> None:
    vertices, faces = sheet(200)
    matrix = ops.uniform_laplacian(faces, len(vertices), torch.float64)
    assert matrix.is_sparse
    assert matrix._nnz() < 8 * len(vertices)
    torch.testing.assert_close(
        matrix @ torch.ones(len(vertices), 1, dtype=torch.float64), torch.zeros(len(vertices), 1, dtype=torch.float64)
    )
    inner = 57 * 200 + 101
    torch.testing.assert_close((matrix @ vertices)[inner], torch.zeros(3, dtype=torch.float64))
    smoothed = ops.laplacian_smooth(vertices, faces, 1, 1.0, border="free")
    torch.testing.assert_close(smoothed, vertices + matrix @ vertices)


def test_a_vertex_without_neighbours_has_an_empty_row_and_stays() -> None:
    vertices, faces = octahedron()
    lonely = torch.cat([vertices, torch.full((1, 3), 9.0, dtype=torch.float64)])
    assert not ops.uniform_laplacian(faces, 7).to_dense()[6].any()
    assert torch.equal(ops.laplacian_smooth(lonely, faces, 3)[6], lonely[6])
    assert torch.equal(ops.vertex_normals(lonely, faces)[6], torch.zeros(3, dtype=torch.float64))


def test_cotangent_laplacian_of_a_sphere_is_its_mean_curvature() -> None:
    vertices, faces = octahedron(4)
    matrix = ops.cotangent_laplacian(vertices, faces)
    dense = matrix.to_dense()
    torch.testing.assert_close(dense, dense.T)
    curvature = (matrix @ vertices) / ops.vertex_areas(vertices, faces)[:, None]  # -2 H n, with H = 1
    torch.testing.assert_close(
        (curvature * vertices).sum(dim=1).mean(), torch.tensor(-2.0, dtype=torch.float64), atol=0.02, rtol=0
    )
    flat, triangles = sheet(6)
    moved = ops.cotangent_laplacian(flat, triangles) @ flat
    assert moved.reshape(6, 6, 3)[1:-1, 1:-1].abs().max() < 1e-12


# smoothing


def test_smoothing_takes_the_noise_off_a_sphere() -> None:
    vertices, faces = octahedron(4)
    noisy = vertices * (1 + 0.02 * random(len(vertices), 1))
    laplacian = ops.laplacian_smooth(noisy, faces, 10).norm(dim=1)
    taubin = ops.taubin_smooth(noisy, faces, 10).norm(dim=1)
    assert noisy.norm(dim=1).std() > 0.019
    assert taubin.std() < 0.008
    assert abs(taubin.mean() - 1) < 0.002
    assert laplacian.mean() < 0.985  # it shrinks


def test_borders_stay_where_they_are_told_to() -> None:
    vertices, faces = sheet(7)
    vertices[:, 2] = random(49)
    edge = (vertices[:, :2] == 0).any(1) | (vertices[:, :2] == 6).any(1)
    assert torch.equal(ops.laplacian_smooth(vertices, faces, 5, border="fixed")[edge], vertices[edge])
    along = ops.laplacian_smooth(vertices, faces, 1, border="along")
    side = along.reshape(7, 7, 3)[0]
    assert (side[1:-1, 0] == 0).all()  # the straight side stays straight
    free = ops.laplacian_smooth(vertices, faces, 10, border="free")
    assert (free.reshape(7, 7, 3)[0, 1:-1, 0] > 0.2).all()


def test_smoothing_matches_the_main_jobs() -> None:
    from smr.mesh.smooth import smooth_laplacian, smooth_taubin
    from smr.records import Mesh

    vertices, faces = sheet(8)
    vertices[:, 2] = random(64)
    record = Mesh(vertices.numpy(), faces.int().numpy())
    torch.testing.assert_close(
        ops.laplacian_smooth(vertices, faces, 4), torch.from_numpy(smooth_laplacian(record, 4).vertices)
    )
    torch.testing.assert_close(
        ops.taubin_smooth(vertices, faces, 4), torch.from_numpy(smooth_taubin(record, 4).vertices)
    )


# subdivision


def test_midpoints_keep_the_surface() -> None:
    vertices, faces = octahedron()
    finer, triangles = ops.subdivide_midpoint(vertices, faces, 2)
    assert len(triangles) == 128
    torch.testing.assert_close(ops.face_areas(finer, triangles).sum(), ops.face_areas(vertices, faces).sum())
    assert torch.equal(finer[:6], vertices)
    parents = ops.face_normals(vertices, faces).repeat_interleave(16, dim=0)
    torch.testing.assert_close(ops.face_normals(finer, triangles), parents)
    assert (ops.find_edges(triangles, len(finer)).face_counts == 2).all()


def test_loop_keeps_flat_things_flat_and_straight_borders_straight() -> None:
    vertices, faces = sheet(4)
    finer, triangles = ops.subdivide_loop(vertices, faces, 2)
    assert (finer[:, 2] == 0).all()
    torch.testing.assert_close(finer.amax(dim=0), torch.tensor([3.0, 3, 0], dtype=torch.float64), atol=0.3, rtol=0)
    border = ops.find_edges(triangles, len(finer))
    ends = finer[border.vertices[border.face_counts == 1].reshape(-1)]
    along = (ends[:, :2].amin(dim=1) <= 1e-12) | (ends[:, :2].amax(dim=1) >= 3 - 1e-12)
    assert along.double().mean() > 0.5  # all but the rounded corners


def test_loop_of_zero_weights_keeps_the_vertices() -> None:
    vertices, faces = octahedron(1)
    finer, _ = ops.subdivide_loop(vertices, faces, 1, torch.zeros(18, dtype=torch.float64))
    assert torch.equal(finer[:18], vertices)


def test_split_until_no_edge_is_long() -> None:
    points = split_until(torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 0, 1]]), torch.tensor([[0, 1, 2]]), 0.25)
    assert len(points) == 45  # eight steps along each side
    assert torch.equal(points, torch.unique(points, dim=0))


# tetrahedra


UNIT = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=torch.float64)


def test_volumes_add_up_when_tetrahedra_are_cut() -> None:
    corners = torch.tensor([[0, 1, 2, 3]])
    vertices, parts, features = ops.subdivide_tetrahedra(UNIT, corners, UNIT * 2)
    assert features is not None
    assert torch.equal(features, vertices * 2)
    volumes = ops.tetrahedron_volumes(vertices[parts])
    torch.testing.assert_close(volumes.abs(), torch.full((8,), 1 / 48, dtype=torch.float64))
    torch.testing.assert_close(ops.tetrahedron_volumes(UNIT[None]), torch.full((1,), 1 / 6, dtype=torch.float64))


def test_offsets_have_an_inverse_unless_flat() -> None:
    corners = random(2, 5, 4, 3)
    product = tets.tetrahedron_offsets(corners) @ ops.inverse_offsets(corners)
    torch.testing.assert_close(product, torch.eye(3, dtype=torch.float64).expand(2, 5, 3, 3))
    corners[1, 3, :, 2] = 0
    with pytest.raises(ValueError, match=r"tetrahedron corners\[1, 3\] has no volume"):
        ops.inverse_offsets(corners)


def test_losses_of_tetrahedra() -> None:
    rest = random(2, 6, 4, 3)
    turn = torch.linalg.qr(random(3, 3)).Q
    similar = 2 * rest @ turn.T + random(3)
    torch.testing.assert_close(
        tets.amips_loss(similar, ops.inverse_offsets(rest)), torch.full((2, 1), 3.0, dtype=torch.float64)
    )
    assert (tets.amips_loss(random(2, 6, 4, 3), ops.inverse_offsets(rest)) > 3).all()
    assert tets.equal_volume_loss(UNIT.expand(1, 5, 4, 3)).item() == 0
    assert tets.equal_volume_loss(rest).min() > 0


# bad input


@pytest.mark.parametrize(
    "function",
    [
        ops.face_areas,
        ops.face_normals,
        ops.vertex_normals,
        ops.cotangent_laplacian,
        ops.laplacian_smooth,
        ops.subdivide_loop,
        ops.subdivide_midpoint,
        ops.repair,
        ops.fill_holes,
    ],
)
def test_wrong_meshes_are_named(function: object) -> None:
    assert callable(function)
    vertices, faces = octahedron(dtype=torch.float32)
    high = faces.clone()
    high[3, 1] = 6
    with pytest.raises(ValueError, match=r"faces\[3, 1\] is 6; it must be an index into 6 vertices"):
        function(vertices, high)
    high[3, 1] = -1
    with pytest.raises(ValueError, match=r"faces\[3, 1\] is -1"):
        function(vertices, high)
    with pytest.raises(TypeError, match="faces must be int32 or int64, not float32"):
        function(vertices, faces.float())
    with pytest.raises(TypeError, match="vertices must be float32 or float64 or float16, not int64"):
        function(vertices.long(), faces)
    with pytest.raises(ValueError, match=r"faces must have the shape \(\*, 3\), not \(4, 4\)"):
        function(vertices, torch.zeros(4, 4, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"vertices must have the shape"):
        function(vertices[:, :2], faces)


def test_int32_faces_strided_and_requiring_tensors_work() -> None:
    vertices, faces = octahedron(dtype=torch.float32)
    wide = torch.zeros(6, 6)
    wide[:, ::2] = vertices
    strided = wide[:, ::2].requires_grad_()
    for triangles in (faces, faces.int(), faces.T.contiguous().T):
        torch.testing.assert_close(ops.vertex_normals(strided, triangles), vertices)


def test_empty_meshes_and_batches_give_empty_results() -> None:
    none = torch.zeros(0, 3, dtype=torch.int64)
    for vertices in (torch.zeros(0, 3), torch.zeros(4, 3), torch.zeros(0, 5, 3), torch.zeros(2, 5, 3)):
        assert ops.face_areas(vertices, none).shape == (*vertices.shape[:-2], 0)
        assert ops.vertex_normals(vertices, none).shape == vertices.shape
        assert ops.laplacian_smooth(vertices, none, 2).shape == vertices.shape
        assert ops.subdivide_loop(vertices, none)[0].shape == vertices.shape
    assert ops.uniform_laplacian(none, 4)._nnz() == 0
    assert ops.cotangent_laplacian(torch.zeros(4, 3), none).shape == (4, 4)


def test_wrong_settings_are_named() -> None:
    vertices, faces = octahedron()
    with pytest.raises(ValueError, match="lambda_ must be above 0"):
        ops.laplacian_smooth(vertices, faces, lambda_=0.0)
    with pytest.raises(ValueError, match="mu < -lambda_ < 0"):
        ops.taubin_smooth(vertices, faces, mu=0.1)
    with pytest.raises(ValueError, match="iterations must be a number of steps"):
        ops.laplacian_smooth(vertices, faces, -1)
    with pytest.raises(ValueError, match="border must be along, free or fixed"):
        ops.laplacian_smooth(vertices, faces, border="no")
    with pytest.raises(ValueError, match="iterations must be a number of rounds"):
        ops.subdivide_loop(vertices, faces, -1)
    with pytest.raises(ValueError, match="alpha must have the shape"):
        ops.subdivide_loop(vertices, faces, 1, torch.zeros(3))
    with pytest.raises(ValueError, match="face_counts adds up to 7; there are 8 faces"):
        ops.packed_face_areas(vertices, torch.tensor([0, 6]), faces, torch.tensor([7]))
    with pytest.raises(ValueError, match=r"faces\[0, 2\] is 2; its mesh has 2 vertices"):
        ops.packed_face_areas(vertices, torch.tensor([0, 2, 6]), faces, torch.tensor([1, 7]))
    with pytest.raises(ValueError, match="one tensor of vertices and one of faces a mesh"):
        ops.pack_meshes([], [])
    with pytest.raises(ValueError, match="features must have the shape"):
        ops.subdivide_tetrahedra(UNIT, torch.tensor([[0, 1, 2, 3]]), torch.zeros(3, 1))
    with pytest.raises(ValueError, match=r"face_features must have the shape"):
        ops.average_at_vertices(faces, torch.zeros(2, 3, 1), 6)
    with pytest.raises(ValueError, match=r"face_features must have the shape \(\.\.\., \*, \*, \*\)"):
        ops.unindex_vertices_by_faces(torch.zeros(3, 3))
