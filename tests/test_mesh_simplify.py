from __future__ import annotations

import numpy as np
import pytest
import trimesh
from scipy.spatial.transform import Rotation

from smr.mesh.distance import index_surface
from smr.mesh.normals import face_areas
from smr.mesh.simplify import deviation, simplify
from smr.mesh.topology import boundary_loops, connected_components, edges, half_edges
from smr.records import Mesh


def bumpy_sphere(detail: int = 5) -> Mesh:
    shape = trimesh.creation.icosphere(detail)
    x, y, z = shape.vertices.T
    radii = 1 + 0.08 * np.sin(6 * x + 1) * np.sin(5 * y) * np.sin(7 * z + 0.5)
    colors = np.rint(127 * (1 + shape.vertices)).astype(np.uint8)
    return Mesh(shape.vertices * radii[:, None], shape.faces.astype(np.int32), colors=colors)


def sheet(n: int, height: float = 0.0) -> Mesh:
    grid = np.arange(n * n).reshape(n, n)
    a, b, c, d = grid[:-1, :-1].ravel(), grid[1:, :-1].ravel(), grid[1:, 1:].ravel(), grid[:-1, 1:].ravel()
    y, x = np.divmod(np.arange(float(n * n)), n)
    x, y = x / (n - 1), y / (n - 1)
    faces = np.concatenate([np.stack([a, c, b], 1), np.stack([a, d, c], 1)])
    return Mesh(np.stack([x, y, height * np.sin(6 * x) * np.sin(5 * y)], axis=1), faces.astype(np.int32))


def euler(mesh: Mesh) -> int:
    return len(mesh.vertices) - len(edges(mesh.faces).vertices) + len(mesh.faces)


def assert_closed(mesh: Mesh) -> None:
    assert (edges(mesh.faces).face_counts == 2).all()
    assert len(np.unique(half_edges(mesh.faces), axis=0)) == 3 * len(mesh.faces)
    assert len(np.unique(np.sort(mesh.faces, axis=1), axis=0)) == len(mesh.faces)


@pytest.mark.parametrize("faces", [4000, 1000, 100])
def test_a_closed_surface_stays_closed_and_near(faces: int) -> None:
    mesh = bumpy_sphere()
    simple = simplify(mesh, faces=faces)
    assert faces - 2 < len(simple.faces) <= faces
    assert_closed(simple)
    assert euler(simple) == 2
    mean, largest = deviation(mesh, simple)
    assert mean < 3 / faces
    assert largest < 20 / faces


def test_it_is_as_good_as_the_best_and_no_slivers() -> None:
    mesh = bumpy_sphere()
    simple = simplify(mesh, faces=len(mesh.faces) // 7)
    corners = simple.vertices[simple.faces]
    squares = ((corners - np.roll(corners, 1, axis=1)) ** 2).sum(axis=(1, 2))
    quality = 4 * np.sqrt(3) * face_areas(simple) / squares
    assert quality.mean() > 0.7
    assert np.percentile(quality, 1) > 0.2


def test_a_torus_keeps_its_handle() -> None:
    torus = trimesh.creation.torus(1.0, 0.3, major_sections=60, minor_sections=40)
    simple = simplify(Mesh(np.asarray(torus.vertices), torus.faces.astype(np.int32)), vertices=60)
    assert len(simple.vertices) == 60
    assert_closed(simple)
    assert euler(simple) == 0


def test_vertices_are_counted_without_the_unused() -> None:
    mesh = bumpy_sphere(3)
    padded = Mesh(np.concatenate([np.zeros((500, 3)), mesh.vertices]), mesh.faces + 500)
    assert len(simplify(padded, vertices=200).vertices) == 200


def test_a_flat_sheet_becomes_few_triangles_with_the_same_corners() -> None:
    flat = sheet(20)
    simple = simplify(flat, faces=2)
    assert len(simple.faces) <= 6
    assert face_areas(simple).sum() == pytest.approx(1, abs=1e-3)
    assert simple.vertices.min(axis=0) == pytest.approx([0, 0, 0], abs=1e-3)
    assert len(boundary_loops(simple)) == 1


def test_borders_hold_better_when_they_are_preserved() -> None:
    shape = sheet(60, 0.1)
    keep = np.linalg.norm(shape.vertices[shape.faces].mean(axis=1)[:, :2] - 0.5, axis=1) < 0.45
    disc = Mesh(shape.vertices, shape.faces[keep])
    (rim,) = boundary_loops(disc)
    errors = []
    for preserve in (True, False):
        simple = simplify(disc, vertices=150, preserve_border=preserve)
        assert len(boundary_loops(simple)) == 1
        assert euler(simple) == 1
        errors.append(index_surface(simple).nearest(disc.vertices[rim]).distances.mean())
    assert errors[0] < 0.75 * errors[1]


@pytest.mark.parametrize("bound", [0.001, 0.01, 0.05])
def test_the_error_bound_holds(bound: float) -> None:
    mesh = bumpy_sphere(4)
    simple = simplify(mesh, max_error=bound)
    assert deviation(mesh, simple)[1] <= bound
    assert len(simple.faces) < len(mesh.faces)
    assert_closed(simple)


def test_the_first_goal_that_is_reached_counts() -> None:
    mesh = bumpy_sphere(4)
    assert len(simplify(mesh, vertices=1000, faces=100, max_error=1.0).vertices) == 1000
    assert len(simplify(mesh, vertices=10, max_error=1e-3).vertices) > 100


def test_no_piece_vanishes() -> None:
    rng = np.random.default_rng(0)
    balls = [trimesh.creation.icosphere(1, 0.1).apply_translation(10 * rng.random(3)) for _ in range(20)]
    wire = trimesh.creation.cylinder(0.001, 5, sections=6)
    single = trimesh.Trimesh(rng.random((3, 3)), [[0, 1, 2]])
    shape = trimesh.util.concatenate([*balls, wire, single])
    simple = simplify(Mesh(np.asarray(shape.vertices), shape.faces.astype(np.int32)), faces=1)
    assert connected_components(simple)[0] == 22
    assert face_areas(simple).min() > 0


def test_thin_wire_survives_beside_a_large_sheet() -> None:
    flat, wire = sheet(100), trimesh.creation.cylinder(0.002, 0.8, sections=8).subdivide().subdivide()
    faces = np.concatenate([flat.faces, wire.faces + len(flat.vertices)]).astype(np.int32)
    points = wire.vertices + np.array([0.5, 0.5, 0.6])
    mesh = Mesh(np.concatenate([flat.vertices, points]), faces)
    simple = simplify(mesh, vertices=len(mesh.vertices) // 8)
    assert index_surface(simple).nearest(points).distances.max() < 0.001


def test_colours_are_carried() -> None:
    simple = simplify(bumpy_sphere(), faces=2000)
    assert simple.colors is not None
    direction = simple.vertices / np.linalg.norm(simple.vertices, axis=1, keepdims=True)
    assert np.abs(simple.colors - 127 * (1 + direction)).max() < 6


def test_turning_the_mesh_turns_the_result() -> None:
    mesh = bumpy_sphere(4)
    turn = Rotation.from_rotvec([0.3, -0.5, 0.9]).as_matrix()
    plain = simplify(mesh, faces=1200)
    turned = simplify(Mesh(mesh.vertices @ turn.T, mesh.faces), faces=1200)
    assert deviation(Mesh(plain.vertices @ turn.T, plain.faces), turned)[0] < 2 * deviation(mesh, plain)[0]
    assert deviation(Mesh(mesh.vertices @ turn.T, mesh.faces), turned)[0] == pytest.approx(
        deviation(mesh, plain)[0], rel=0.05
    )


def test_far_away_is_as_good_as_near() -> None:
    mesh = bumpy_sphere(4)
    far = simplify(Mesh(mesh.vertices + 1e6, mesh.faces), faces=1200)
    near = simplify(mesh, faces=1200)
    assert far.vertices.dtype == np.float64
    there = Mesh(far.vertices - 1e6, far.faces)
    assert deviation(mesh, there)[0] == pytest.approx(deviation(mesh, near)[0], rel=0.02)


def test_the_same_input_gives_the_same_bytes() -> None:
    mesh = bumpy_sphere(4)
    first, second = simplify(mesh, faces=700), simplify(mesh, faces=700)
    assert first.vertices.tobytes() == second.vertices.tobytes()
    assert first.faces.tobytes() == second.faces.tobytes()


def test_more_than_two_faces_at_an_edge_are_left_alone() -> None:
    sheets = [sheet(12) for _ in range(3)]
    turned = [
        np.stack([s.vertices[:, 0] * np.cos(a), s.vertices[:, 1], s.vertices[:, 0] * np.sin(a)], axis=1)
        for s, a in zip(sheets, (0.0, 2.0, 4.0), strict=True)
    ]
    shape = trimesh.Trimesh(np.concatenate(turned), np.concatenate([s.faces + 144 * i for i, s in enumerate(sheets)]))
    mesh = Mesh(np.asarray(shape.vertices), shape.faces.astype(np.int32))
    assert edges(mesh.faces).face_counts.max() == 3
    simple = simplify(mesh, faces=30)
    assert edges(simple.faces).face_counts.max() == 3
    assert (edges(simple.faces).face_counts == 3).sum() == 11


def test_a_mesh_without_faces_stays() -> None:
    empty = Mesh(np.zeros((2, 3)), np.zeros((0, 3), np.int32))
    assert simplify(empty, faces=3) is empty


@pytest.mark.parametrize(
    ("goal", "text"),
    [({}, "needs a goal"), ({"faces": 0}, "faces must be positive"), ({"max_error": -1.0}, "max_error")],
)
def test_goals_are_checked(goal: dict[str, float], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        simplify(bumpy_sphere(2), **goal)  # type: ignore[arg-type]
