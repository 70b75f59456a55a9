"""Inside tests and winding numbers on tensors: exact in line with vertices and edges, open meshes, rules, bad input."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st

from smr.mesh.winding import winding_number as winding_number_by_tree
from smr.ops.mesh import inside as module
from smr.ops.mesh.inside import find_boundary, is_inside, signed_distance, winding_number
from smr.records import Mesh


def box(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    shape = trimesh.creation.box()
    return torch.tensor(shape.vertices, dtype=dtype), torch.tensor(shape.faces)


def grid(steps: torch.Tensor) -> torch.Tensor:
    return torch.cartesian_prod(steps, steps, steps)


def solid_angles(vertices: torch.Tensor, faces: torch.Tensor, points: torch.Tensor) -> np.ndarray:
    """Winding numbers by their definition: van Oosterom and Strackee 1983 for every face."""
    corners = vertices[faces].double().numpy()[None] - points.double().numpy()[:, None, None]
    length = np.linalg.norm(corners, axis=-1)
    a, b, c = corners[:, :, 0], corners[:, :, 1], corners[:, :, 2]
    above = (a * np.cross(b, c)).sum(axis=-1)
    below = length.prod(axis=-1) + sum(
        (u * v).sum(axis=-1) * length[..., k] for u, v, k in ((a, b, 2), (b, c, 0), (c, a, 1))
    )
    result: np.ndarray = np.arctan2(above, below).sum(axis=1) / (2 * np.pi)
    return result


@pytest.mark.parametrize("kernels", ["warp", "torch"])
@pytest.mark.parametrize("rule", ["winding", "even-odd", "any"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_points_in_line_with_everything(
    kernels: str, rule: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMR_KERNELS", kernels)
    vertices, faces = box(dtype)
    for steps in (torch.linspace(-0.99, 0.99, 10, dtype=dtype), torch.linspace(-1, 1, 9, dtype=dtype)):
        points = grid(steps)
        points = points[((points.abs() - 0.5).abs() > 1e-3).all(dim=1)]
        assert torch.equal(is_inside(vertices, faces, points, rule=rule), (points.abs() < 0.5).all(dim=1))


def test_a_surface_of_stairs_in_line_with_the_ray() -> None:
    # faces along the ray, corners and edges above every point
    blocks = [trimesh.creation.box(extents=(1, 1, h)) for h in (1, 2, 3)]
    for k, block in enumerate(blocks):
        block.apply_translation((k, 0, 0.5 * (k + 1)))
    joined = trimesh.util.concatenate(blocks)
    vertices, faces = torch.tensor(joined.vertices), torch.tensor(joined.faces)
    points = grid(torch.arange(-1, 4, 0.5, dtype=torch.float64))
    x, y, z = points.T
    height = torch.where(x.abs() < 0.5, 1.0, torch.where((x - 1).abs() < 0.5, 2.0, 3.0))
    inside = (x > -0.5) & (x < 2.5) & (y.abs() < 0.5) & (z > 0) & (z < height)
    clear = ~((x * 2).round() % 2 == 1) & (y.abs() != 0.5) & (z != 0) & (z != height)
    assert torch.equal(is_inside(vertices, faces, points)[clear], inside[clear])


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), snap=st.booleans())
def test_random_polyhedra_agree_with_solid_angles(seed: int, snap: bool) -> None:
    rng = np.random.default_rng(seed)
    shape = trimesh.creation.icosphere(1)
    moved = shape.vertices * rng.uniform(0.3, 1.0, (len(shape.vertices), 1))
    points = rng.uniform(-1, 1, (60, 3))
    if snap:  # onto a coarse lattice, where degeneracies abound
        moved, points = np.round(4 * moved) / 4, np.round(8 * points) / 8
    vertices, faces = torch.tensor(moved), torch.tensor(shape.faces)
    p = torch.tensor(points)
    away = module.point_to_triangle_distance(p, vertices[faces]).squared_distances > 1e-12
    exact = solid_angles(vertices, faces, p)
    ours = winding_number(vertices, faces, p)
    np.testing.assert_allclose(ours[away], exact[away], atol=1e-6)
    assert torch.equal(ours, ours.round())


@pytest.mark.parametrize("kernels", ["warp", "torch"])
@pytest.mark.parametrize("missing", [1, 2, 9])
def test_open_meshes_have_their_exact_winding_number(
    kernels: str, missing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMR_KERNELS", kernels)
    vertices, faces = box(torch.float64)
    points = grid(torch.linspace(-1, 1, 9, dtype=torch.float64))
    points = points[((points.abs() - 0.5).abs() > 1e-3).all(dim=1)]
    points = torch.cat([points, 2 * torch.rand(200, 3, generator=torch.Generator().manual_seed(0)).double() - 1])
    ours = winding_number(vertices, faces[missing:], points)
    np.testing.assert_allclose(ours, solid_angles(vertices, faces[missing:], points), atol=1e-9)


def test_many_boundary_edges_go_through_the_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = trimesh.creation.icosphere(3)
    vertices, faces = torch.tensor(shape.vertices), torch.tensor(shape.faces)[::2]
    points = torch.rand(100, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    exact = winding_number(vertices, faces, points)
    monkeypatch.setitem(module._MANY_EDGES, "cpu", 10)
    by_tree = winding_number(vertices, faces, points)
    mesh = Mesh(vertices.numpy(), faces.numpy().astype(np.int32))
    np.testing.assert_array_equal(by_tree, winding_number_by_tree(mesh, points.numpy()))
    np.testing.assert_allclose(exact, by_tree, atol=0.03)


def test_corners_that_are_not_shared_are_still_closed() -> None:
    vertices, faces = box()
    soup, own = vertices[faces].reshape(-1, 3), torch.arange(36).reshape(12, 3)
    points = grid(torch.linspace(-0.9, 0.9, 7))
    assert len(find_boundary(soup[None], own).edges) == 0
    assert torch.equal(is_inside(soup, own, points), is_inside(vertices, faces, points))


def test_the_boundary_is_what_the_faces_do_not_cancel() -> None:
    vertices, faces = box()
    one = find_boundary(vertices[None], faces[:1])
    a, b, c = faces[0].tolist()
    assert {tuple(edge) for edge in one.edges.tolist()} == {(a, b), (b, c), (c, a)}
    assert not one.is_even
    twice = find_boundary(vertices[None], faces[[0, 0]])
    assert len(twice.edges) == 6
    assert twice.is_even
    assert module._is_closed(faces, 8)
    assert not module._is_closed(faces[1:], 8)
    assert module._is_closed(torch.cat([faces, torch.tensor([[3, 3, 3], [1, 1, 2]])]), 8)


def test_rules_differ_where_they_should() -> None:
    vertices, faces = box(torch.float64)
    both = torch.cat([vertices, vertices + 0.3])
    overlap = torch.cat([faces, faces + 8])
    points = torch.tensor([[0.1, 0.1, 0.1], [-0.4, -0.4, -0.4], [0.7, 0.7, 0.7], [2.0, 0, 0]], dtype=torch.float64)
    assert winding_number(both, overlap, points).tolist() == [2, 1, 1, 0]
    assert is_inside(both, overlap, points).tolist() == [True, True, True, False]
    assert is_inside(both, overlap, points, rule="even-odd").tolist() == [False, True, True, False]
    inverted = faces.flip(1)
    assert is_inside(vertices, inverted, points).tolist() == [False] * 4
    assert is_inside(vertices, inverted, points, rule="any").tolist() == [True, True, False, False]
    assert is_inside(vertices, inverted, points, rule="even-odd").tolist() == [True, True, False, False]
    mixed = torch.cat([faces[:5], inverted[5:]])
    assert is_inside(vertices, mixed, points, rule="even-odd").tolist() == [True, True, False, False]
    half_open = is_inside(vertices, faces[1:], points, rule="even-odd")
    assert half_open.tolist() == is_inside(vertices, faces[1:], points, rule="any").tolist()


def test_batches_permutations_and_duplicates() -> None:
    shape = trimesh.creation.icosphere(2)
    vertices, faces = torch.tensor(shape.vertices), torch.tensor(shape.faces)
    batch = torch.stack([vertices, vertices * torch.tensor([0.5, 1, 1]), vertices + 0.4])
    points = torch.rand(3, 200, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2 - 1
    together = is_inside(batch, faces, points)
    for b in range(3):
        assert torch.equal(together[b], is_inside(batch[b], faces, points[b]))
    shuffled = faces[torch.randperm(len(faces), generator=torch.Generator().manual_seed(1))].roll(1, dims=1)
    assert torch.equal(is_inside(vertices, shuffled, points[0]), together[0])
    doubled = winding_number(vertices, torch.cat([faces, faces]), points[0])
    assert torch.equal(doubled, 2 * winding_number(vertices, faces, points[0]))


def test_every_axis_order_gives_the_same_answer() -> None:
    vertices, faces = box(torch.float64)
    points = grid(torch.linspace(-1, 1, 9, dtype=torch.float64))
    points = points[((points.abs() - 0.5).abs() > 1e-3).all(dim=1)]
    expected = is_inside(vertices, faces, points)
    for order in itertools.permutations(range(3)):
        turned = is_inside(vertices[:, order], faces, points[:, order], rule="any")
        assert torch.equal(turned, expected)


def test_signed_distance_of_a_box() -> None:
    vertices, faces = box(torch.float64)
    points = torch.tensor([[0.0, 0, 0], [0.4, 0, 0], [0.9, 0, 0], [1.5, 1.5, 0.5], [0.5, 0, 0]], dtype=torch.float64)
    distance = signed_distance(vertices, faces, points)
    assert distance[:4].tolist() == pytest.approx([-0.5, -0.1, 0.4, 2**0.5])
    assert distance[4].item() == 0
    points.requires_grad_()
    signed_distance(vertices, faces, points).sum().backward()
    assert points.grad is not None
    torch.testing.assert_close(points.grad[1:3], torch.tensor([[1.0, 0, 0]] * 2, dtype=torch.float64))
    assert points.grad[4].tolist() == [0, 0, 0]


def test_wrong_input_is_named() -> None:
    vertices, faces = box()
    with pytest.raises(ValueError, match="rule must be winding, even-odd or any, not 'odd'"):
        is_inside(vertices, faces, vertices, rule="odd")
    with pytest.raises(ValueError, match=r"faces\[0, 0\] is 9; it must be an index into 8 vertices"):
        winding_number(vertices, torch.tensor([[9, 1, 2]]), vertices)
    with pytest.raises(ValueError, match=r"points\[0, 0\] is nan"):
        signed_distance(vertices, faces, vertices * torch.nan)
    with pytest.raises(ValueError, match="points must have the shape"):
        is_inside(vertices[None], faces, vertices)
    assert is_inside(vertices, faces, torch.zeros(0, 3)).shape == (0,)
