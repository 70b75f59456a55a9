"""Marching cubes and tetrahedra, voxels of meshes and points, operations on grids."""

from __future__ import annotations

import logging

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from smr.ops import mesh, voxels  # noqa: E402
from smr.ops.voxels.cube_order import OWNED, cube_tables  # noqa: E402
from smr.tsdf.cube_table import FACES, triangle_table  # noqa: E402


def noise(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def ball(n: int, radius: float = 0.7) -> torch.Tensor:
    """Signed distance to a sphere, in a grid from -1 to 1."""
    x = torch.linspace(-1, 1, n)
    return (x[:, None, None] ** 2 + x[None, :, None] ** 2 + x[None, None] ** 2).sqrt() - radius


def is_closed(faces: torch.Tensor) -> bool:
    """Every half-edge has exactly one that runs the other way."""
    half = torch.cat([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    size = int(faces.max()) + 1
    there, back = half[:, 0] * size + half[:, 1], half[:, 1] * size + half[:, 0]
    return len(there.unique()) == len(there) and torch.equal(there.sort().values, back.sort().values)


def both(monkeypatch: pytest.MonkeyPatch, function: object, *args: object, **options: object) -> list[object]:
    assert callable(function)
    results = []
    for kernels in ("torch", "warp"):
        monkeypatch.setenv("SMR_KERNELS", kernels)
        results.append(function(*args, **options))
    return results


# the tables


def test_cases_have_the_polygons_of_the_derived_table() -> None:
    tables, (first, edges) = cube_tables(), triangle_table()

    def rim(corners: list[int]) -> set[tuple[int, int]]:
        sides = {(corners[k + i], corners[k + (i + 1) % 3]) for k in range(0, len(corners), 3) for i in range(3)}
        return {(a, b) for a, b in sides if (b, a) not in sides}

    for case in range(256):
        start, size = 3 * (int(first[case]) >> 4), 3 * int(tables.counts[case])
        ours = tables.corners[case, :size].tolist()
        assert rim(ours) == rim(edges[start : start + size].tolist()), case


def test_no_diagonal_lies_in_a_side_of_the_cell() -> None:
    tables = cube_tables()
    ends = [{edge // 3, edge // 3 + (1 << edge % 3)} for edge in range(24)]
    for case in range(256):
        corners = tables.corners[case, : 3 * tables.counts[case]].reshape(-1, 3).tolist()
        sides = [(t[i], t[(i + 1) % 3]) for t in corners for i in range(3)]
        inner = [(a, b) for a, b in sides if (b, a) in sides]
        assert not any(ends[a] | ends[b] <= set(face) for a, b in inner for face in FACES), case


def test_ranks_number_the_crossed_edges_of_a_cell() -> None:
    for packed in cube_tables().ranks.tolist():
        assert sorted(packed >> 2 * axis & 3 for axis in range(3)) == [0, 1, 2]
    assert OWNED == (6, 4, 11)


# marching cubes


@pytest.mark.parametrize(
    "shape", [(2, 2, 2), (3, 4, 5), (5, 1, 7), (1, 1, 1), (4, 4, 8), (2, 3, 70), (9, 33, 31), (3, 2, 62), (3, 2, 30)]
)
@pytest.mark.parametrize("outside", [None, -1.0, 1.0])
@pytest.mark.parametrize("inside", ["below", "above"])
def test_kernels_are_as_plain_torch(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int, int], outside: float | None, inside: str
) -> None:
    values = noise(*shape)
    plain, kernels = both(monkeypatch, voxels.marching_cubes, values, 0.1, inside=inside, outside=outside)
    torch.testing.assert_close(kernels[0], plain[0])
    assert torch.equal(kernels[1], plain[1])
    if outside is not None and len(kernels[1]):
        assert is_closed(kernels[1])


@given(st.integers(0, 10_000), st.tuples(*[st.integers(1, 9)] * 3))
@settings(max_examples=25, deadline=None)
def test_surfaces_of_noise_are_closed_and_part_the_samples(seed: int, shape: tuple[int, int, int]) -> None:
    values = noise(*shape, seed=seed)
    vertices, faces = voxels.marching_cubes(values, outside=1.0)
    if not len(faces):
        assert not (values < 0).any()
        return
    assert is_closed(faces)
    assert torch.equal(voxels.voxelize_solid(vertices, faces, shape), values < 0)


@pytest.mark.parametrize("inside", ["below", "above"])
def test_faces_of_a_sphere_look_outwards_and_lie_on_it(inside: str) -> None:
    values = ball(40).double()
    vertices, faces = voxels.marching_cubes(values if inside == "below" else -values, inside=inside)
    places = vertices / 19.5 - 1
    assert (places.norm(dim=1) - 0.7).abs().max() < 1e-3
    centres = places[faces].mean(dim=1)
    assert ((mesh.face_normals(places, faces) * centres).sum(dim=1) > 0.6).all()
    assert len(vertices) - 3 * len(faces) / 2 + len(faces) == 2
    assert is_closed(faces)


def test_it_is_the_surface_of_the_main_job() -> None:
    from smr.tsdf.marching_cubes import marching_cubes

    values = ball(20) + 0.05 * noise(20, 20, 20)
    ours, record = voxels.marching_cubes(values), marching_cubes(values.numpy())
    assert len(ours[0]) == len(record.vertices)
    assert len(ours[1]) == len(record.faces)
    near = np.abs(np.sort(ours[0].numpy(), axis=0) - np.sort(record.vertices, axis=0))
    assert near.max() < 0.01  # which keeps vertices off the samples


def test_grids_beyond_eight_million_voxels_lose_nothing() -> None:
    values = torch.zeros(40, 400, 530)  # 8.5 million
    values[-1, -1, -1] = values[-1, -2, -3] = values[0, 0, 0] = 1
    vertices, faces = voxels.marching_cubes(values, 0.5, inside="above", outside=0.0)
    assert len(faces) == 24
    assert torch.equal(vertices.amax(dim=0), torch.tensor([39.5, 399.5, 529.5]))
    assert is_closed(faces)


def test_vertices_follow_the_values() -> None:
    values = noise(3, 4, 3, dtype=torch.float64).requires_grad_()
    for outside in (None, 2.0):
        assert torch.autograd.gradcheck(lambda v, o=outside: voxels.marching_cubes(v, 0.05, outside=o)[0], values)


def test_the_same_bytes_every_time_and_for_strided_grids() -> None:
    values = noise(12, 11, 10)
    first = voxels.marching_cubes(values)
    again = voxels.marching_cubes(values.permute(2, 1, 0).contiguous().permute(2, 1, 0))
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])


def test_grids_that_cannot_be_used_are_named() -> None:
    values = noise(3, 3, 3)
    values[1, 2, 0] = float("nan")
    with pytest.raises(ValueError, match=r"values\[1, 2, 0\] is nan; all values must be finite"):
        voxels.marching_cubes(values)
    with pytest.raises(ValueError, match=r"values must have the shape \(\*, \*, \*\), not \(3, 3\)"):
        voxels.marching_cubes(noise(3, 3))
    with pytest.raises(TypeError, match="values must be float32 or float64, not int64"):
        voxels.marching_cubes(torch.zeros(3, 3, 3, dtype=torch.int64))
    with pytest.raises(ValueError, match="inside must be below or above, not 'in'"):
        voxels.marching_cubes(noise(3, 3, 3), inside="in")
    with pytest.raises(ValueError, match="has 2³¹ samples or more"):
        voxels.marching_cubes(torch.zeros(1, 1, 1).expand(2000, 2000, 2000))
    for empty in ((0, 3, 3), (3, 3, 0), (0, 0, 0)):
        assert len(voxels.marching_cubes(torch.zeros(empty), outside=1.0)[1]) == 0


# voxels of meshes


@given(st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_surface_voxels_are_those_of_plain_torch_and_hold_all_samples(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    vertices = torch.rand(2, 12, 3, generator=generator) * 12 - 2
    if seed % 2:
        vertices = torch.round(2 * vertices) / 2  # corners on the sides of voxels
    faces = torch.randint(0, 12, (8, 3), generator=generator)
    with pytest.MonkeyPatch.context() as patch:
        plain, kernels = both(patch, voxels.voxelize_surface, vertices, faces, (7, 8, 9))
    assert torch.equal(plain, kernels)
    weights = torch.rand(8, 4000, 3, dtype=torch.float64, generator=generator)
    points = (weights / weights.sum(2, keepdim=True)) @ vertices[0][faces].double()
    inner = ((points - 0.5) - (points - 0.5).round()).abs().amin(dim=2) > 1e-9  # rounding decides no side
    places = torch.ceil(points[inner] - 0.5).long()
    places = places[((places >= 0) & (places < torch.tensor([7, 8, 9]))).all(dim=1)]
    assert kernels[0][tuple(places.unbind(1))].all()
    alone = voxels.voxelize_surface(vertices[1], faces, (7, 8, 9))
    assert torch.equal(alone, kernels[1])


def test_a_plane_between_layers_marks_one_of_them() -> None:
    vertices = torch.tensor([[0, 0, 1.5], [5, 0, 1.5], [0, 5, 1.5], [5, 5, 1.5]])
    grid = voxels.voxelize_surface(vertices, torch.tensor([[0, 1, 2], [2, 1, 3]]), (6, 6, 4))
    assert grid[:, :, 1].all()
    assert grid.sum() == 36


def test_the_surface_of_a_box_is_its_shell() -> None:
    shell = torch.ones(8, 8, 8, dtype=torch.bool)
    shell[1:-1, 1:-1, 1:-1] = False
    vertices, squares = voxels.cubic_mesh(torch.ones(7, 7, 7))
    faces = torch.cat([squares[:, :3], squares[:, [0, 2, 3]]])
    assert torch.equal(voxels.voxelize_surface(vertices, faces, (8, 8, 8)), shell)


def test_solids_of_closed_meshes_and_what_touches_them(monkeypatch: pytest.MonkeyPatch) -> None:
    values = ball(24)
    vertices, faces = voxels.marching_cubes(values)
    for solid in both(monkeypatch, voxels.voxelize_solid, vertices, faces, (24, 24, 24)):
        assert torch.equal(solid, values < 0)
    moved = vertices - torch.tensor([30.0, 0, 0])
    assert not voxels.voxelize_solid(moved, faces, (24, 24, 24)).any()
    cut = voxels.voxelize_solid(vertices - torch.tensor([0, 0, 12.0]), faces, (24, 24, 12))
    assert torch.equal(cut, (values < 0)[:, :, 12:])


def test_bodies_that_touch_share_no_voxel() -> None:
    vertices, squares = voxels.cubic_mesh(torch.ones(4, 4, 4))
    faces = torch.cat([squares[:, [0, 3, 1]], squares[:, [2, 1, 3]]])
    first = voxels.voxelize_solid(vertices, faces, (9, 9, 9))
    for axis in range(3):
        second = voxels.voxelize_solid(vertices + 4 * torch.eye(3)[axis], faces, (9, 9, 9))
        assert first.sum() == second.sum() == 64
        assert not (first & second).any()


def test_open_meshes_have_no_inside() -> None:
    vertices, faces = voxels.marching_cubes(ball(12))
    low = mesh.face_normals(vertices, faces)[:, 2] < -0.9
    with pytest.raises(
        ValueError, match=r"the mesh is not closed: along z at x = .* its surface is entered and not left"
    ):
        voxels.voxelize_solid(vertices, faces[~low], (12, 12, 12))


def test_meshes_that_cannot_be_voxelised_are_named() -> None:
    vertices, faces = voxels.marching_cubes(ball(6))
    broken = vertices.clone()
    broken[0, 1] = float("inf")
    with pytest.raises(ValueError, match=r"vertices\[0, 1\] is inf"):
        voxels.voxelize_surface(broken, faces, (6, 6, 6))
    with pytest.raises(ValueError, match=r"shape\[2\] is -1"):
        voxels.voxelize_surface(vertices, faces, (6, 6, -1))
    with pytest.raises(ValueError, match="voxels are 2³¹ or more"):
        voxels.voxelize_surface(vertices, faces, (2000, 2000, 2000))
    assert not voxels.voxelize_surface(vertices + 1e7, faces, (6, 6, 6)).any()
    assert voxels.voxelize_surface(vertices, faces[:0], (6, 0, 6)).shape == (6, 0, 6)
    assert voxels.voxelize_solid(vertices.expand(0, -1, -1), faces, (6, 6, 6)).shape == (0, 6, 6, 6)


# points, grids, tetrahedra


def test_points_mark_their_voxels_and_those_beside_are_said(caplog: pytest.LogCaptureFixture) -> None:
    points = torch.tensor([[[0.4, 1.6, 2.0], [9.0, 0, 0]], [[0.0, 0, 0], [0, 0, 0]]])
    with caplog.at_level(logging.INFO, logger="smr.ops.voxels.points"):
        grid = voxels.voxelize_points(points, (3, 3, 3))
    assert grid.nonzero().tolist() == [[0, 0, 2, 2], [1, 0, 0, 0]]
    assert "1 of 4 points lie beside the grid" in caplog.text
    with pytest.raises(ValueError, match=r"points\[0, 1, 0\] is nan"):
        voxels.voxelize_points(torch.where(points == 9, torch.nan, points), (3, 3, 3))
    with pytest.raises(ValueError, match=r"shape\[2\] is -3"):
        voxels.voxelize_points(points, (3, 3, -3))
    assert not voxels.voxelize_points(points[:, :0], (2, 2, 2)).any()


def test_a_cubic_mesh_has_the_area_and_volume_of_its_voxels() -> None:
    filled = noise(5, 4, 6) > 0.5
    vertices, squares = voxels.cubic_mesh(filled)
    padded = torch.nn.functional.pad(filled, [1] * 6).int()
    assert len(squares) == sum(int(padded.diff(dim=axis).abs().sum()) for axis in range(3))
    faces = torch.cat([squares[:, [0, 3, 1]], squares[:, [2, 1, 3]]])
    corners = vertices[faces].double()
    volume = (corners[:, 0] * torch.linalg.cross(corners[:, 1], corners[:, 2])).sum() / 6
    torch.testing.assert_close(volume.item(), float(filled.sum()))
    assert len(voxels.cubic_mesh(torch.zeros(3, 3, 3))[0]) == 0


def test_depth_maps_carve_what_they_were_taken_of() -> None:
    filled = (ball(9)[None] < 0).repeat(2, 1, 1, 1)
    filled[1, :4] = False
    odms = voxels.extract_odms(filled)
    assert torch.equal(voxels.project_odms(odms), filled)
    assert torch.equal(voxels.project_odms(odms, filled), filled)
    assert (voxels.project_odms(odms, votes=7)).all()
    with pytest.raises(ValueError, match="voxelgrids must be cubes"):
        voxels.extract_odms(torch.ones(1, 2, 3, 4))
    with pytest.raises(ValueError, match="odms must be squares"):
        voxels.project_odms(torch.ones(1, 6, 2, 3, dtype=torch.int64))
    with pytest.raises(ValueError, match="voxelgrids must have the shape"):
        voxels.project_odms(odms, filled[:1])


@pytest.mark.parametrize("mode", ["wide", "thin"])
def test_surfaces_of_grids_are_what_erosion_takes_away(mode: str) -> None:
    from scipy.ndimage import binary_erosion, generate_binary_structure

    filled = noise(2, 9, 8, 7) > -1.2
    structure = generate_binary_structure(3, 3 if mode == "wide" else 1)
    expected = np.stack([grid & ~binary_erosion(grid, structure) for grid in filled.numpy()])
    assert np.array_equal(voxels.extract_surface(filled, mode).numpy(), expected)
    assert voxels.extract_surface(torch.ones(1, 1, 2, 1), mode).all()
    with pytest.raises(ValueError, match="mode must be wide or thin, not 'thick'"):
        voxels.extract_surface(filled, "thick")


def test_holes_of_grids_are_filled_and_grids_made_smaller() -> None:
    shell = voxels.extract_surface(ball(12)[None] < 0)
    assert torch.equal(voxels.fill(shell), ball(12)[None] < 0)
    halves = voxels.downsample(shell, (2, 3, 4))
    assert halves.shape == (1, 6, 4, 3)
    torch.testing.assert_close(halves.sum() * 24, shell.sum().float())
    assert voxels.downsample(shell.half(), (2, 2, 2)).dtype == torch.float16
    with pytest.raises(ValueError, match=r"scale\[1\] must be from 1 to the 12 voxels of that axis, not 13"):
        voxels.downsample(shell, (1, 13, 1))
    with pytest.raises(ValueError, match="voxelgrids must have the shape"):
        voxels.fill(shell[0])


def cube_of_tetrahedra(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A grid of n³ cells, six tetrahedra around the long diagonal of each, all of positive orientation."""
    places = torch.stack(torch.meshgrid(*[torch.arange(n + 1)] * 3, indexing="ij"), dim=-1).reshape(-1, 3)
    steps = torch.tensor([(n + 1) ** 2, n + 1, 1])
    cells = (places[(places < n).all(dim=1)] * steps).sum(dim=1)
    parts = []
    for a, b, c in ((0, 1, 2), (1, 2, 0), (2, 0, 1), (1, 0, 2), (0, 2, 1), (2, 1, 0)):
        path = torch.stack([cells, cells + steps[a], cells + steps[a] + steps[b], cells + steps.sum()], dim=1)
        parts.append(path if (a, b, c) in ((0, 1, 2), (1, 2, 0), (2, 0, 1)) else path[:, [0, 2, 1, 3]])
    return places.double() / n * 2 - 1, torch.cat(parts)


def test_tetrahedra_give_a_closed_sphere_that_looks_outwards() -> None:
    vertices, tetrahedra = cube_of_tetrahedra(12)
    assert (mesh.tetrahedron_volumes(vertices[tetrahedra]) > 0).all()
    surface, faces, of_faces = voxels.marching_tetrahedra(vertices, tetrahedra, vertices.norm(dim=1) - 0.71)
    assert is_closed(faces)
    assert len(surface) - len(faces) / 2 == 2
    assert (surface.norm(dim=1) - 0.71).abs().max() < 0.02
    normals = mesh.face_normals(surface, faces)
    sizes = mesh.face_areas(surface, faces)
    outwards = (normals * surface[faces].mean(dim=1)).sum(dim=1)
    assert (outwards[sizes > 1e-9] > 0).all()
    assert (vertices[tetrahedra[of_faces]].mean(dim=1) - surface[faces].mean(dim=1)).norm(dim=1).max() < 0.2


def test_tetrahedra_have_gradients_and_name_what_is_wrong() -> None:
    vertices, tetrahedra = cube_of_tetrahedra(2)
    values = (vertices.norm(dim=1) - 0.8).requires_grad_()
    places = vertices.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda p, v: voxels.marching_tetrahedra(p, tetrahedra, v)[0], (places, values))
    with pytest.raises(ValueError, match=r"tetrahedra\[0, 0\] is 99"):
        voxels.marching_tetrahedra(vertices, torch.full((1, 4), 99), values)
    with pytest.raises(ValueError, match="values must have the shape"):
        voxels.marching_tetrahedra(vertices, tetrahedra, values[:3])
    nothing = voxels.marching_tetrahedra(vertices, tetrahedra[:0], values)
    assert [len(part) for part in nothing] == [0, 0, 0]
