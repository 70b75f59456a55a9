"""Point-to-mesh distances and signed-distance grids on tensors: exact geometry, plain twins, gradients, bad input."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st

from smr.mesh.distance import index_surface
from smr.ops.mesh.distance import closest_weights, point_to_mesh_distance, point_to_triangle_distance
from smr.ops.mesh.inside import signed_distance
from smr.ops.mesh.sdf import mesh_to_sdf, refine_occupancy
from smr.ops.trees import curve_order, plant
from smr.records import Mesh

TRIANGLE = torch.tensor([[[0.0, 0, 0], [4, 0, 0], [0, 4, 0]]], dtype=torch.float64)


def sphere(detail: int, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    shape = trimesh.creation.icosphere(detail)
    return torch.tensor(shape.vertices, dtype=dtype), torch.tensor(shape.faces)


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize(
    ("point", "squared", "kind"),
    [
        ((1, 1, 2), 4, 0),
        ((-1, -1, 0), 2, 1),
        ((6, -1, 0), 5, 2),
        ((-1, 6, 0), 5, 3),
        ((2, -3, 0), 9, 4),
        ((3, 3, 0), 2, 5),
        ((-2, 1, 1), 5, 6),
    ],
)
def test_known_distances_and_types(point: tuple[float, ...], squared: float, kind: int) -> None:
    found = point_to_triangle_distance(torch.tensor([point], dtype=torch.float64), TRIANGLE)
    assert found.squared_distances.item() == pytest.approx(squared)
    assert found.types.item() == kind
    assert found.barycentric.sum().item() == pytest.approx(1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_tree_finds_what_comparing_all_pairs_finds(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    points, triangles = random(3, 400, 3, dtype=dtype), random(3, 130, 3, 3, seed=1, dtype=dtype)
    triangles[:, 7] = triangles[:, 7, :1]  # a point
    triangles[:, 8, 2] = triangles[:, 8, 1]  # a line
    by_tree = point_to_triangle_distance(points, triangles)
    monkeypatch.setenv("SMR_KERNELS", "torch")
    plainly = point_to_triangle_distance(points, triangles)
    assert torch.equal(by_tree.faces, plainly.faces)
    assert torch.equal(by_tree.types, plainly.types)
    torch.testing.assert_close(by_tree.squared_distances, plainly.squared_distances)
    torch.testing.assert_close(by_tree.barycentric, plainly.barycentric)


def test_agrees_with_the_main_job() -> None:
    vertices, faces = sphere(3)
    points = random(500, 3)
    ours = point_to_mesh_distance(points, vertices, faces)
    theirs = index_surface(Mesh(vertices.numpy(), faces.numpy().astype(np.int32))).nearest(points.numpy())
    np.testing.assert_allclose(ours.squared_distances.sqrt(), theirs.distances, atol=1e-7)


def test_of_faces_around_a_vertex_the_first_is_named() -> None:
    vertices, faces = sphere(2)
    found = point_to_mesh_distance(2 * vertices, vertices, faces)
    first = torch.stack([(faces == v).any(dim=1).int().argmax() for v in range(len(vertices))])
    assert torch.equal(found.faces, first)
    assert ((found.types >= 1) & (found.types <= 3)).all()


def test_gradients_of_points_and_vertices() -> None:
    vertices, faces = sphere(0)
    vertices.requires_grad_()
    points = random(12, 3).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda p, v: point_to_mesh_distance(p, v, faces)[0], (points, vertices), fast_mode=True
    )
    assert torch.autograd.gradcheck(lambda p, v: signed_distance(v, faces, p), (points, vertices), fast_mode=True)
    batch = random(2, 4, 3).requires_grad_(), random(2, 3, 3, 3, seed=3).requires_grad_()
    assert torch.autograd.gradcheck(lambda p, t: point_to_triangle_distance(p, t)[0], batch)


def test_a_batch_is_its_members() -> None:
    points, triangles = random(4, 50, 3), random(4, 33, 3, 3, seed=2)
    together = point_to_triangle_distance(points, triangles)
    for b in range(4):
        alone = point_to_triangle_distance(points[b], triangles[b])
        for whole, part in zip(together, alone, strict=True):
            assert torch.equal(whole[b], part)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), scale=st.floats(1e-4, 1e4), shift=st.floats(-1e7, 1e7))
def test_motion_scale_and_order_change_nothing(seed: int, scale: float, shift: float) -> None:
    points, triangles = random(30, 3, seed=seed), random(20, 3, 3, seed=seed + 1)
    turn = torch.linalg.qr(random(3, 3, seed=seed + 2))[0]
    order = torch.randperm(20, generator=torch.Generator().manual_seed(seed))
    moved = point_to_triangle_distance(points @ turn * scale + shift, (triangles @ turn * scale + shift)[order])
    still = point_to_triangle_distance(points, triangles)
    slack = 1e-12 * (1 + abs(shift) / scale)
    assert (moved.squared_distances.sqrt() / scale - still.squared_distances.sqrt()).abs().max() < 100 * slack
    doubled = point_to_triangle_distance(points, torch.cat([triangles, triangles]))
    assert torch.equal(doubled.faces, still.faces)


def test_far_from_the_origin_nothing_is_lost() -> None:
    vertices, faces = sphere(3)
    points = random(200, 3)
    here = point_to_mesh_distance(points, vertices, faces).squared_distances
    there = point_to_mesh_distance(points + 1e7, vertices + 1e7, faces).squared_distances
    torch.testing.assert_close(here, there, atol=1e-7, rtol=1e-6)


def test_closest_weights_stay_on_the_triangle() -> None:
    points, triangles = random(2000, 3), random(2000, 3, 3, seed=1)
    weights = closest_weights(points, triangles)
    assert (weights >= 0).all()
    best = (weights[..., None] * triangles).sum(dim=1)
    other = torch.rand(50, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    other = other / other.sum(dim=1, keepdim=True)
    rivals = torch.einsum("kc,ncx->nkx", other, triangles)
    assert ((points - best).norm(dim=1)[:, None] <= (points[:, None] - rivals).norm(dim=2) + 1e-12).all()


@pytest.mark.parametrize("count", [1, 2, 4, 5, 63, 64, 65, 1000])
def test_boxes_of_a_tree_hold_their_items(count: int) -> None:
    items = random(2, count, 3, 3) * 1e-3 + 7
    forest = plant(items, leaf_size=4)
    assert torch.equal(forest.order.long().sort(dim=1).values, torch.arange(count).expand(2, count))
    boxes = forest.boxes.reshape(2, -1, 2, 3).double()
    leaves = 1 << forest.depth
    for cloud in range(2):
        assert torch.equal(forest.items[cloud], items[cloud][forest.order[cloud].long()])
        local = forest.items[cloud] - forest.origin[cloud]
        for leaf in range(leaves):
            mine = local[leaf * count >> forest.depth : (leaf + 1) * count >> forest.depth]
            node = leaves + leaf
            while node:
                assert (mine >= boxes[cloud, node, 0]).all()
                assert (mine <= boxes[cloud, node, 1]).all()
                node //= 2
        assert (boxes[cloud, 1, 1] - boxes[cloud, 1, 0] - (local.amax((0, 1)) - local.amin((0, 1))) < 1e-8).all()


def test_neighbours_along_the_curve_are_neighbours_in_space() -> None:
    steps = torch.arange(8.0)
    grid = torch.cartesian_prod(steps, steps, steps)[torch.randperm(512, generator=torch.Generator().manual_seed(0))]
    forest = plant(grid[None, :, None] / 8, leaf_size=8)
    # the cube of the curve, stretched so that its cells are those of the grid
    cells = (grid + 0.5)[None].double() / 8 * 7 / 8
    along = grid[curve_order(cells, forest)[0].long()]
    assert (along.diff(dim=0).abs().sum(dim=1) == 1).all()


def test_sdf_grid_of_a_sphere_and_its_frame() -> None:
    vertices, faces = sphere(4)
    grid = mesh_to_sdf(vertices, faces, (20, 24, 28), padding=0.2)
    places = torch.stack(torch.meshgrid(*(torch.arange(n) for n in (20, 24, 28)), indexing="ij"), dim=-1)
    points = grid.origin + grid.spacing * places
    assert grid.values.shape == (20, 24, 28)
    assert (grid.values - (points.norm(dim=-1) - 1)).abs().max() < 3e-3
    assert (points[0, 0, 0] <= -1.4 + 1e-9).all()
    assert (points[-1, -1, -1] >= 1.4 - 1e-9).all()
    torch.testing.assert_close(grid.values.reshape(-1), signed_distance(vertices, faces, points.reshape(-1, 3)))


def test_sdf_grid_in_a_given_box_and_of_a_batch() -> None:
    vertices, faces = sphere(2)
    box = torch.tensor([-2.0, -2, -2]), torch.tensor([2.0, 2, 2])
    both = mesh_to_sdf(torch.stack([vertices, 0.5 * vertices]), faces, 9, box=box)
    assert both.values.shape == (2, 9, 9, 9)
    assert both.spacing.tolist() == [0.5, 0.5]
    assert torch.equal(both.values[1], mesh_to_sdf(0.5 * vertices, faces, 9, box=box).values)
    assert both.values[0, 4, 4, 4].item() == pytest.approx(-0.94, abs=0.05)


def test_refinement_asks_about_few_points_and_misses_none() -> None:
    asked = []

    def inside(places: torch.Tensor) -> torch.Tensor:
        asked.append(len(places))
        return (places.double() - 31).norm(dim=1) < 20.3

    grid = refine_occupancy(inside, 8, 3)
    every = torch.cartesian_prod(*(torch.arange(65),) * 3)
    assert torch.equal(grid.reshape(-1), (every.double() - 31).norm(dim=1) < 20.3)
    assert sum(asked) < 0.4 * 65**3


GOOD = (torch.zeros(4, 3), torch.eye(3), torch.tensor([[0, 1, 2]]))


@pytest.mark.parametrize(
    ("replace", "error", "text"),
    [
        ({0: torch.zeros(4, 2)}, ValueError, r"points must have the shape \(\*, 3\), not \(4, 2\)"),
        ({0: torch.zeros(4, 3).double()}, TypeError, "points and vertices must be of one type"),
        ({0: torch.zeros(4, 3, dtype=torch.int64)}, TypeError, "points must be float32 or float64, not int64"),
        ({0: torch.full((4, 3), torch.nan)}, ValueError, r"points\[0, 0\] is nan"),
        ({1: torch.full((3, 3), torch.inf)}, ValueError, r"vertices\[0, 0\] is inf"),
        ({2: torch.tensor([[0, 1, 5]])}, ValueError, r"faces\[0, 2\] is 5; it must be an index into 3 vertices"),
        ({2: torch.tensor([[0, -1, 2]])}, ValueError, r"faces\[0, 1\] is -1"),
        ({2: torch.zeros(0, 3, dtype=torch.int64)}, ValueError, "faces has none"),
        ({2: torch.zeros(1, 3)}, TypeError, "faces must be int32 or int64, not float32"),
        ({1: torch.eye(3, device="meta")}, ValueError, "is on meta, where tensors have no values"),
    ],
)
def test_wrong_input_is_named(replace: dict[int, object], error: type[Exception], text: str) -> None:
    arguments = [replace.get(i, value) for i, value in enumerate(GOOD)]
    with pytest.raises(error, match=text):
        point_to_mesh_distance(*arguments)  # type: ignore[arg-type]


def test_no_points_and_odd_layouts_are_fine() -> None:
    vertices, faces = sphere(1)
    assert point_to_mesh_distance(torch.zeros(0, 3).double(), vertices, faces).faces.shape == (0,)
    strided = random(3, 40)[:, ::2].T
    expected = point_to_mesh_distance(strided.contiguous(), vertices, faces)
    assert torch.equal(point_to_mesh_distance(strided, vertices, faces.int())[0], expected[0])


def test_wrong_triangles_and_grids_are_named() -> None:
    vertices, faces = sphere(1)
    with pytest.raises(ValueError, match="triangles has none"):
        point_to_triangle_distance(torch.zeros(1, 3), torch.zeros(0, 3, 3))
    with pytest.raises(ValueError, match="needs at least 2 grid points"):
        mesh_to_sdf(vertices, faces, 1)
    with pytest.raises(ValueError, match=r"padding is -1"):
        mesh_to_sdf(vertices, faces, 8, padding=-1.0)
    with pytest.raises(ValueError, match="no extent"):
        mesh_to_sdf(0 * vertices, faces, 8)
    with pytest.raises(ValueError, match="rule must be"):
        mesh_to_sdf(vertices, faces, 8, rule="some")
