from __future__ import annotations

import numpy as np
import pytest
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st

from smr.mesh.normals import face_areas
from smr.mesh.repair import (
    drop_invalid_faces,
    drop_small_components,
    keep_used_vertices,
    merge_equal_vertices,
    repair_non_manifold,
)
from smr.mesh.topology import connected_components, edges, half_edges
from smr.records import Mesh


def as_mesh(shape: trimesh.Trimesh) -> Mesh:
    return Mesh(np.asarray(shape.vertices, np.float64), np.asarray(shape.faces, np.int32))


def fans_of(faces: np.ndarray, vertex: int) -> int:
    """Groups of faces around a vertex that hang together across edges; a plain walk."""
    left = [face for face in faces.tolist() if vertex in face]
    count = 0
    while left:
        count += 1
        grown = [left.pop()]
        while grown:
            face = grown.pop()
            near = [other for other in left if len(set(face) & set(other)) >= 2]
            left = [other for other in left if other not in near]
            grown += near
    return count


def assert_oriented_manifold(mesh: Mesh) -> None:
    if not len(mesh.faces):
        return
    assert edges(mesh.faces).face_counts.max() <= 2
    assert len(np.unique(half_edges(mesh.faces), axis=0)) == 3 * len(mesh.faces), "a directed edge occurs twice"
    for vertex in range(len(mesh.vertices)):
        assert fans_of(mesh.faces, vertex) == 1


soups = st.lists(st.tuples(*[st.integers(0, 7)] * 3), min_size=1, max_size=24)


@settings(max_examples=200, deadline=None)
@given(soups)
def test_any_soup_becomes_an_oriented_manifold(soup: list[tuple[int, int, int]]) -> None:
    points = np.random.default_rng(1).random((8, 3))
    mesh, _ = drop_invalid_faces(Mesh(points, np.array(soup, np.int32)))
    repaired = repair_non_manifold(mesh)
    assert_oriented_manifold(repaired)
    assert len(repaired.faces) <= len(mesh.faces)


@settings(max_examples=30, deadline=None)
@given(soups)
def test_repair_of_a_manifold_changes_nothing(soup: list[tuple[int, int, int]]) -> None:
    points = np.random.default_rng(1).random((8, 3))
    once = repair_non_manifold(drop_invalid_faces(Mesh(points, np.array(soup, np.int32)))[0])
    twice = repair_non_manifold(once)
    assert (twice.faces == once.faces).all()
    assert (twice.vertices == once.vertices).all()


def test_two_boxes_that_share_an_edge_come_apart_without_losing_a_face() -> None:
    first = trimesh.creation.box(bounds=[[0, 0, 0], [1, 1, 1]])
    second = trimesh.creation.box(bounds=[[1, 1, 0], [2, 2, 1]])
    joined = merge_equal_vertices(as_mesh(trimesh.util.concatenate([first, second])))
    assert edges(joined.faces).face_counts.max() == 4
    repaired = repair_non_manifold(joined)
    assert len(repaired.faces) == 24
    assert_oriented_manifold(repaired)
    assert (edges(repaired.faces).face_counts == 2).all()


def test_two_cones_that_touch_in_a_tip_get_a_vertex_each() -> None:
    faces = np.array([[0, 1, 2], [0, 2, 3], [0, 3, 1], [0, 5, 4], [0, 6, 5], [0, 4, 6]], np.int32)
    colors = np.arange(21, dtype=np.uint8).reshape(7, 3)
    mesh = Mesh(np.random.default_rng(0).random((7, 3)), faces, colors=colors)
    repaired = repair_non_manifold(mesh)
    assert len(repaired.vertices) == 8
    assert connected_components(repaired)[0] == 2
    assert repaired.colors is not None
    assert (repaired.colors == 0).all(axis=1).sum() == 0
    assert (repaired.colors == colors[0]).all(axis=1).sum() == 2


def test_faces_that_were_turned_are_turned_back() -> None:
    sphere = as_mesh(trimesh.creation.icosphere(2))
    mixed = sphere.faces.copy()
    mixed[::3] = mixed[::3, ::-1]
    repaired = repair_non_manifold(Mesh(sphere.vertices, mixed))
    volume = trimesh.Trimesh(repaired.vertices, repaired.faces, process=False).volume
    assert volume == pytest.approx(trimesh.creation.icosphere(2).volume, rel=1e-12)
    assert len(repaired.vertices) == len(sphere.vertices)


def test_a_moebius_band_is_cut_so_that_it_can_be_oriented() -> None:
    n = 20
    ring = np.arange(n)
    following = (ring + 1) % n
    low, high = 2 * ring, 2 * ring + 1
    swap = ring == n - 1
    low_next = np.where(swap, 2 * following + 1, 2 * following)
    high_next = np.where(swap, 2 * following, 2 * following + 1)
    faces = np.concatenate([np.stack([low, low_next, high], 1), np.stack([low_next, high_next, high], 1)])
    angle = 2 * np.pi * ring / n
    across = np.stack([np.cos(angle / 2) * np.cos(angle), np.cos(angle / 2) * np.sin(angle), np.sin(angle / 2)], 1)
    middle = np.stack([np.cos(angle), np.sin(angle), 0 * angle], 1)
    points = np.stack([middle - 0.2 * across, middle + 0.2 * across], axis=1).reshape(-1, 3)
    repaired = repair_non_manifold(Mesh(points, faces.astype(np.int32)))
    assert_oriented_manifold(repaired)
    assert len(repaired.faces) == 2 * n


def test_invalid_faces_are_dropped_and_counted() -> None:
    points = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [np.nan, 0, 0], [2, 0, 0]])
    faces = np.array(
        [[0, 1, 2], [0, 1, 9], [0, -1, 2], [0, 1, 4], [0, 1, 5], [1, 1, 2], [2, 0, 1], [1, 0, 2], [0, 1, 3]], np.int32
    )
    mesh, counts = drop_invalid_faces(Mesh(points, faces))
    assert (counts.out_of_range, counts.not_finite, counts.degenerate, counts.duplicate) == (2, 1, 2, 2)
    assert counts.total == 7
    assert mesh.faces.tolist() == [[0, 1, 2], [0, 1, 3]]
    assert len(mesh.vertices) == 4


def test_thin_faces_with_an_area_stay() -> None:
    points = np.array([[0, 0, 0], [1, 0, 0], [0.5, 1e-6, 0]]) + 100
    assert len(drop_invalid_faces(Mesh(points, np.array([[0, 1, 2]], np.int32)))[0].faces) == 1


def test_equal_vertices_are_joined() -> None:
    box = as_mesh(trimesh.creation.box())
    apart = Mesh(box.vertices[box.faces.ravel()], np.arange(36, dtype=np.int32).reshape(-1, 3))
    joined = merge_equal_vertices(apart)
    assert len(joined.vertices) == 8
    assert (edges(joined.faces).face_counts == 2).all()
    assert face_areas(joined).sum() == pytest.approx(6)
    assert merge_equal_vertices(joined) is joined


def test_a_long_wire_stays_where_a_small_ball_of_as_many_faces_goes() -> None:
    big = trimesh.creation.icosphere(4)
    wire = trimesh.creation.cylinder(0.002, 1.0, sections=8).apply_translation([2, 0, 0])
    ball = trimesh.creation.icosphere(0, radius=0.002).apply_translation([-2, 0, 0])
    mesh = as_mesh(trimesh.util.concatenate([ball, wire, big]))
    kept = drop_small_components(mesh, 100, 0.1)
    assert connected_components(kept)[0] == 2
    assert len(kept.faces) == len(wire.faces) + len(big.faces)


def test_the_largest_component_always_stays() -> None:
    mesh = as_mesh(trimesh.creation.icosphere(1))
    assert len(drop_small_components(mesh, 10**6, 10.0).faces) == 80


def test_unused_vertices_go_with_their_colours() -> None:
    mesh = Mesh(np.eye(4, 3), np.array([[1, 2, 3]], np.int32), colors=np.arange(12, dtype=np.uint8).reshape(4, 3))
    kept = keep_used_vertices(mesh)
    assert kept.faces.tolist() == [[0, 1, 2]]
    assert kept.colors is not None
    assert kept.colors.tolist() == [[3, 4, 5], [6, 7, 8], [9, 10, 11]]
