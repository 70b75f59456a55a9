from __future__ import annotations

import numpy as np
import pytest
import trimesh

from smr.mesh.normals import face_areas, face_normals, vertex_normals
from smr.mesh.topology import (
    border_vertices,
    boundary_loops,
    connected_components,
    edges,
    half_edges,
    is_edge_manifold,
)
from smr.records import Mesh


def as_mesh(shape: trimesh.Trimesh) -> Mesh:
    return Mesh(np.asarray(shape.vertices, np.float64), np.asarray(shape.faces, np.int32))


def test_a_tetrahedron_has_six_edges_of_two_faces() -> None:
    faces = np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]], np.int32)
    found = edges(faces)
    assert found.vertices.tolist() == [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    assert (found.face_counts == 2).all()
    ends = np.sort(half_edges(faces).reshape(-1, 3, 2), axis=2)
    assert (found.vertices[found.of_faces] == ends).all()


def test_euler_characteristic_of_a_torus_is_zero() -> None:
    torus = as_mesh(trimesh.creation.torus(1.0, 0.3))
    assert len(torus.vertices) - len(edges(torus.faces).vertices) + len(torus.faces) == 0


def test_an_open_tube_has_two_loops_in_the_direction_of_its_faces() -> None:
    n = 12
    ring = np.arange(n)
    faces = np.concatenate(
        [
            np.stack([ring, (ring + 1) % n, n + ring], axis=1),
            np.stack([(ring + 1) % n, n + (ring + 1) % n, n + ring], axis=1),
        ]
    ).astype(np.int32)
    angle = 2 * np.pi * ring / n
    circle = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    mesh = Mesh(np.concatenate([circle, circle + np.array([0, 0, 1])]), faces)
    loops = boundary_loops(mesh)
    assert [len(loop) for loop in loops] == [n, n]
    assert loops[0].tolist() == ring.tolist()
    assert loops[1].tolist() == [n, *range(2 * n - 1, n, -1)]
    assert border_vertices(mesh).all()


def test_a_border_that_passes_twice_through_a_vertex_has_no_loop() -> None:
    bow_tie = Mesh(np.random.default_rng(0).random((5, 3)), np.array([[0, 1, 2], [0, 3, 4]], np.int32))
    assert boundary_loops(bow_tie) == []


def test_components_are_numbered_by_their_first_face() -> None:
    faces = np.array([[5, 6, 7], [0, 1, 2], [5, 7, 8], [2, 1, 3]], np.int32)
    count, labels = connected_components(Mesh(np.zeros((10, 3)), faces))
    assert count == 2
    assert labels.tolist() == [0, 1, 0, 1]
    assert connected_components(Mesh(np.zeros((3, 3)), np.zeros((0, 3), np.int32)))[0] == 0


def test_three_faces_at_an_edge_are_not_manifold() -> None:
    fan = np.array([[0, 1, 2], [1, 0, 3], [0, 1, 4]], np.int32)
    assert not is_edge_manifold(Mesh(np.zeros((5, 3)), fan))
    assert is_edge_manifold(Mesh(np.zeros((5, 3)), fan[:2]))


def test_areas_and_normals_of_a_box() -> None:
    box = as_mesh(trimesh.creation.box((1, 2, 3)))
    assert face_areas(box).sum() == pytest.approx(22, rel=1e-12)
    assert (np.einsum("ij,ij->i", face_normals(box), box.vertices[box.faces].mean(axis=1)) > 0).all()


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_vertex_normals_of_a_sphere_point_outwards_however_far_away(offset: float) -> None:
    sphere = as_mesh(trimesh.creation.icosphere(4))
    far = Mesh(sphere.vertices + offset, sphere.faces)
    assert vertex_normals(far) == pytest.approx(sphere.vertices, abs=6e-3)


def test_vertices_without_a_face_have_no_normal() -> None:
    mesh = Mesh(np.eye(4, 3), np.array([[0, 1, 2]], np.int32))
    assert vertex_normals(mesh)[3].tolist() == [0, 0, 0]
