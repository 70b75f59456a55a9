"""FlexiCubes: dual marching cubes with weights, and its class in `smr.kaolin`."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import smr.kaolin as kal  # noqa: E402
from smr.ops import mesh, voxels  # noqa: E402
from smr.ops.voxels.dual_tables import EDGES, dual_tables  # noqa: E402


def grid(n: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    corners, cells = kal.ops.conversions.FlexiCubes("cpu").construct_voxel_grid(n)
    return corners.to(dtype), cells


def noise(n: int, seed: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Values at the corners of n³ cells, outside at the border."""
    values = torch.randn(n + 1, n + 1, n + 1, dtype=dtype, generator=torch.Generator().manual_seed(seed))
    for axis in range(3):
        values.select(axis, 0).fill_(1.0)
        values.select(axis, n).fill_(1.0)
    return values.reshape(-1)


def test_every_crossed_edge_has_a_vertex() -> None:
    tables = dual_tables()
    for case in range(256):
        crossed = [(case >> a ^ case >> b) & 1 == 1 for a, b in EDGES]
        for row in (case, case + 256):
            assert [number >= 0 for number in tables.of_edges[row]] == crossed
            assert set(tables.of_edges[row].tolist()) - {-1} == set(range(tables.counts[row]))
    assert tables.counts[:256].max() == 4


@pytest.mark.parametrize("seed", range(8))
def test_surfaces_of_noise_are_closed_manifolds(seed: int) -> None:
    corners, cells = grid(7)
    surface = voxels.flexicubes(corners, noise(7, seed), cells)
    for faces in (voxels.cut_squares(surface), voxels.fan_squares(surface, surface.vertices)[1]):
        half = torch.stack([faces, faces.roll(-1, 1)], dim=2).reshape(-1, 2)
        assert len(torch.unique(half, dim=0)) == len(half)
        assert torch.equal(torch.unique(half, dim=0), torch.unique(half.flip(1), dim=0))


def test_vertices_lie_in_their_cells_and_on_a_sphere() -> None:
    corners, cells = grid(24, torch.float64)
    surface = voxels.flexicubes(corners, corners.norm(dim=1) - 0.4, cells, features=2 * corners)
    assert (surface.vertices.norm(dim=1) - 0.4).abs().max() < 2e-3
    low, high = corners[cells[surface.cells]].aminmax(dim=1)
    assert ((surface.vertices >= low) & (surface.vertices <= high)).all()
    torch.testing.assert_close(surface.features, 2 * surface.vertices)
    faces = voxels.cut_squares(surface)
    outwards = (mesh.face_normals(surface.vertices, faces) * surface.vertices[faces].mean(dim=1)).sum(dim=1)
    assert (outwards > 0.35).all()


def test_planes_meet_in_the_edges_of_a_box() -> None:
    corners, cells = grid(9, torch.float64)
    box = torch.tensor([5 / 18, 3 / 18, 7 / 18], dtype=torch.float64) + 0.04  # as far from samples along each axis

    def normals(places: torch.Tensor) -> torch.Tensor:
        axis = (places.abs() - box).argmax(dim=1)
        return torch.nn.functional.one_hot(axis, 3).double() * places.sign()

    surface = voxels.flexicubes(corners, (corners.abs() - box).amax(dim=1), cells, gradients=normals)
    assert ((surface.vertices.abs() - box).amax(dim=1)).abs().max() < 1e-4
    reach = surface.vertices.abs().amax(dim=0)
    torch.testing.assert_close(reach, box, atol=1e-4, rtol=0)
    tips = ((surface.vertices.abs() - box).abs() < 1e-4).all(dim=1)
    assert tips.sum() == 8


def test_gradients_against_finite_differences() -> None:
    corners, cells = grid(3, torch.float64)
    values = noise(3, 4, torch.float64)
    generator = torch.Generator().manual_seed(5)
    weights = [torch.rand(27, n, dtype=torch.float64, generator=generator) + 0.5 for n in (8, 12, 1)]
    inputs = [tensor.clone().requires_grad_() for tensor in (corners, values, *weights)]

    def extract(*tensors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        corners, values, alpha, beta, gamma = tensors
        cell_weights = voxels.CellWeights(alpha, beta, gamma[:, 0])
        surface = voxels.flexicubes(corners, values, cells, cell_weights)
        return voxels.fan_squares(surface, surface.vertices)[0], surface.deviations

    assert torch.autograd.gradcheck(extract, inputs, fast_mode=True)


@pytest.mark.parametrize("training", [False, True])
def test_tetrahedra_fill_the_surface(training: bool) -> None:
    extract = kal.ops.conversions.FlexiCubes("cpu")
    corners, cells = grid(12, torch.float64)
    values = corners.norm(dim=1) - 0.35
    vertices, faces, loss = extract(corners, values, cells, 12, training=training)
    assert (loss >= 0).all()
    a, b, c = vertices[faces].unbind(1)
    volume = (a * torch.linalg.cross(b, c)).sum() / 6
    places, tetrahedra, _ = extract(corners, values, cells, 12, training=training, output_tetmesh=True)
    volumes = kal.metrics.tetmesh.tetrahedron_volume(places[tetrahedra][None])[0]
    torch.testing.assert_close(volumes.sum(), volume)
    assert (volumes > -2e-5).all()  # of cells of 6e-4
    assert (volumes < 0).double().mean() < 0.02


def test_weights_near_the_ends_of_their_range_keep_the_surface_closed() -> None:
    extract = kal.ops.conversions.FlexiCubes("cpu")
    corners, cells = grid(6)
    values = noise(6, 1)
    generator = torch.Generator().manual_seed(2)
    alpha, beta, gamma = (50 * torch.randn(len(cells), n, generator=generator) for n in (8, 12, 1))
    vertices, faces, _, features = extract(
        corners, values, cells, 6, alpha=alpha, beta=beta, gamma_f=gamma[:, 0], voxelgrid_features=corners
    )
    assert torch.isfinite(vertices).all()
    torch.testing.assert_close(features, vertices)
    half = torch.stack([faces, faces.roll(-1, 1)], dim=2).reshape(-1, 2)
    assert torch.equal(torch.unique(half, dim=0), torch.unique(half.flip(1), dim=0))


def test_what_is_wrong_is_named() -> None:
    corners, cells = grid(2)
    values = noise(2, 0)
    with pytest.raises(ValueError, match=r"cells\[0, 3\] is 99; it must be an index into 27 corners"):
        voxels.flexicubes(corners, values, torch.where(cells == cells[0, 3], 99, cells))
    with pytest.raises(ValueError, match=r"values\[13\] is nan"):
        voxels.flexicubes(corners, torch.where(torch.arange(27) == 13, torch.nan, values), cells)
    with pytest.raises(ValueError, match="values must have the shape"):
        voxels.flexicubes(corners, values[:5], cells)
    with pytest.raises(ValueError, match="resolution must be one or three positive numbers"):
        kal.ops.conversions.FlexiCubes("cpu").construct_voxel_grid(0)
    empty = voxels.flexicubes(corners, torch.ones(27), cells)
    assert len(empty.vertices) == len(empty.squares) == 0
    assert len(voxels.flexicubes(corners, values, cells[:0]).vertices) == 0
