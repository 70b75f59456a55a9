from __future__ import annotations

import logging

import numpy as np
import pytest
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st

from smr.mesh.inside import is_inside, signed_distance
from smr.mesh.winding import winding_number
from smr.records import Mesh


def as_mesh(shape: trimesh.Trimesh) -> Mesh:
    return Mesh(np.array(shape.vertices), shape.faces.astype(np.int32))


def joined(*meshes: Mesh) -> Mesh:
    first = np.cumsum([0, *(len(mesh.vertices) for mesh in meshes)])
    faces = [mesh.faces + offset for mesh, offset in zip(meshes, first, strict=False)]
    return Mesh(np.concatenate([mesh.vertices for mesh in meshes]), np.concatenate(faces).astype(np.int32))


def flipped(mesh: Mesh) -> Mesh:
    return Mesh(mesh.vertices, mesh.faces[:, ::-1].copy())


def ball(radius: float = 1.0, detail: int = 3) -> Mesh:
    return as_mesh(trimesh.creation.icosphere(detail, radius))


def hemisphere() -> Mesh:
    sphere = ball(detail=4)
    return Mesh(sphere.vertices, sphere.faces[sphere.vertices[sphere.faces, 2].min(axis=1) >= -1e-9])


def winding_twin(mesh: Mesh, points: np.ndarray) -> np.ndarray:
    """The sum of all solid angles, face by face (van Oosterom and Strackee 1983)."""
    corners = mesh.vertices[mesh.faces].astype(np.float64)
    total = np.zeros(len(points))
    for i, point in enumerate(points):
        a, b, c = np.moveaxis(corners - point, 1, 0)
        x, y, z = (np.linalg.norm(side, axis=1) for side in (a, b, c))
        volume = np.einsum("ij,ij->i", a, np.cross(b, c))
        below = x * y * z + z * (a * b).sum(1) + x * (b * c).sum(1) + y * (c * a).sum(1)
        total[i] = np.arctan2(volume, below).sum() / (2 * np.pi)
    return total


def grid(n: int, low: float, high: float) -> np.ndarray:
    return np.stack(np.meshgrid(*[np.linspace(low, high, n)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)


@pytest.mark.parametrize("steps", [10, 11])
def test_a_regular_grid_against_a_box(steps: int, device: str) -> None:
    """Rays from these points pass through edges, vertices and the diagonals of the faces."""
    box = as_mesh(trimesh.creation.box())
    points = grid(steps, -0.99, 0.99)
    assert (np.abs(np.abs(points).max(axis=1) - 0.5) > 1e-3).all()  # none lies on the surface
    np.testing.assert_array_equal(is_inside(box, points, device=device), (np.abs(points) < 0.5).all(axis=1))


def test_points_in_line_with_a_box_of_many_faces() -> None:
    shape = trimesh.creation.box()
    for _ in range(4):
        shape = shape.subdivide()
    points = grid(12, -0.6875, 0.6875)  # steps of an eighth, half a step from the surface, in line with the vertices
    np.testing.assert_array_equal(is_inside(as_mesh(shape), points), (np.abs(points) < 0.5).all(axis=1))


def test_a_hair_from_the_surface() -> None:
    box = as_mesh(trimesh.creation.box().subdivide())
    rng = np.random.default_rng(0)
    on = np.column_stack([rng.uniform(-0.5, 0.5, (500, 2)), np.full(500, 0.5)])
    for axis in range(3):
        surface = np.roll(on, axis, axis=1)
        for hair, inside in ((1e-9, True), (-1e-9, False)):
            assert (is_inside(box, surface * (1 - 2 * hair * (surface == 0.5))) == inside).all()


def test_a_torus(device: str) -> None:
    torus = as_mesh(trimesh.creation.torus(1.0, 0.3, major_sections=128, minor_sections=64))
    points = np.random.default_rng(1).uniform(-1.4, 1.4, (4000, 3)) * [1, 1, 0.3]
    exact = np.hypot(np.hypot(points[:, 0], points[:, 1]) - 1.0, points[:, 2]) - 0.3
    clear = np.abs(exact) > 2e-3  # the torus has flat faces
    points, exact = points[clear], exact[clear]
    np.testing.assert_array_equal(is_inside(torus, points, device=device), exact < 0)
    np.testing.assert_allclose(signed_distance(torus, points, device=device), exact, atol=2e-3)


def test_signed_distance_of_a_box_is_exact() -> None:
    box = as_mesh(trimesh.creation.box())
    points = grid(9, -0.93, 0.93)
    beyond = np.abs(points) - 0.5
    exact = np.linalg.norm(beyond.clip(0), axis=1) + np.minimum(beyond.max(axis=1), 0)
    np.testing.assert_allclose(signed_distance(box, points), exact, atol=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_far_from_the_origin(offset: float) -> None:
    mesh, points = ball(detail=4), np.random.default_rng(2).uniform(-1.2, 1.2, (2000, 3))
    radius = np.linalg.norm(points, axis=1)
    clear = np.abs(radius - 1) > 3e-3
    moved = Mesh(mesh.vertices + offset, mesh.faces)
    np.testing.assert_array_equal(is_inside(moved, points[clear] + offset), radius[clear] < 1)
    np.testing.assert_allclose(signed_distance(moved, points + offset), radius - 1, atol=3e-3)


def test_bodies_in_bodies(caplog: pytest.LogCaptureFixture) -> None:
    points = np.array([[0.1, 0.1, 0.1], [0, 0, 0.75], [0, 0, 1.5]])
    assert is_inside(joined(ball(), ball(0.5)), points).tolist() == [True, True, False]
    np.testing.assert_allclose(winding_number(joined(ball(), ball(0.5)), points), [2, 1, 0], atol=0.05)
    assert is_inside(joined(ball(), flipped(ball(0.5))), points).tolist() == [False, True, False]  # a cavity
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        assert is_inside(flipped(ball()), points).tolist() == [False, False, False]
    assert "2 of 3 points lie in a body whose faces look inward" in caplog.text


def test_an_open_hemisphere() -> None:
    """Seen from the axis at height z, the bowl's rim has solid angle 2 pi (1 + z / sqrt(1 + z^2))."""
    z = np.linspace(-2, 0.95, 60)
    points = np.stack([0 * z, 0 * z, z], axis=1)
    exact = 0.5 * (1 + z / np.hypot(1, z))
    np.testing.assert_allclose(winding_number(hemisphere(), points), exact, atol=0.02)
    away = np.array([[0, 0, 1.2], [2, 0, 0.1], [0, 0, -0.3], [0.4, 0.3, 0.3], [0, 0, 0.9]])
    assert is_inside(hemisphere(), away).tolist() == [False, False, False, True, True]


@pytest.mark.parametrize("open_", [False, True])
def test_the_tree_agrees_with_the_sum_over_all_faces(open_: bool, device: str) -> None:
    mesh = as_mesh(trimesh.creation.torus(1.0, 0.3, major_sections=80, minor_sections=40))
    if open_:
        mesh = Mesh(mesh.vertices, mesh.faces[mesh.vertices[mesh.faces[:, 0], 0] > -0.4])
    points = np.random.default_rng(3).uniform(-1.5, 1.5, (300, 3)) * [1, 1, 0.4]
    found = winding_number(mesh, points, device=device)
    np.testing.assert_allclose(found, winding_twin(mesh, points), atol=0.03)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_soup_of_any_size_agrees_with_the_sum(seed: int, faces: int) -> None:
    rng = np.random.default_rng(seed)
    soup = Mesh(rng.normal(size=(3 * faces, 3)), np.arange(3 * faces, dtype=np.int32).reshape(-1, 3))
    points = rng.normal(size=(5, 3))
    np.testing.assert_allclose(winding_number(soup, points), winding_twin(soup, points), atol=0.03)


def test_single_precision_no_points_and_one_flat_face() -> None:
    mesh = ball()
    small = Mesh(mesh.vertices.astype(np.float32), mesh.faces)
    assert is_inside(small, np.zeros((1, 3), np.float32)).tolist() == [True]
    assert is_inside(small, np.zeros((0, 3))).shape == (0,)
    assert signed_distance(small, np.zeros((0, 3))).shape == (0,)
    point = Mesh(np.ones((3, 3)), np.array([[0, 1, 2]], np.int32))
    assert is_inside(point, np.ones((1, 3)) * 2).tolist() == [False]
    with pytest.raises(ValueError, match="no face of the mesh has an area"):
        signed_distance(point, np.zeros((1, 3)))


@pytest.mark.parametrize("query", [is_inside, signed_distance, winding_number])
def test_bad_input_is_refused(query) -> None:  # type: ignore[no-untyped-def]
    mesh, origin = ball(), np.zeros((1, 3))
    with pytest.raises(ValueError, match="mesh has no faces"):
        query(Mesh(np.zeros((0, 3)), np.zeros((0, 3), np.int32)), origin)
    with pytest.raises(ValueError, match="mesh: its faces name vertices 0 to 7 of 3"):
        query(Mesh(np.zeros((3, 3)), np.array([[0, 1, 7]], np.int32)), origin)
    with pytest.raises(ValueError, match="mesh has vertices that are NaN or infinite"):
        query(Mesh(np.full((3, 3), np.nan), np.array([[0, 1, 2]], np.int32)), origin)
    with pytest.raises(ValueError, match=r"points must be finite; 1 are not, the first is number 1: \[ 0. nan  0.\]"):
        query(mesh, np.array([[0, 0, 0], [0, np.nan, 0]]))
