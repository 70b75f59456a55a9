from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import trimesh
from scipy.spatial import Delaunay

from smr.mesh.holes import close_holes, fill_holes
from smr.mesh.normals import face_areas
from smr.mesh.patches import Patch, relax
from smr.mesh.repair import keep_used_vertices, repair_non_manifold
from smr.mesh.topology import boundary_loops, edges, half_edges
from smr.mesh.triangulate import TABLE_EDGES, triangulate_loops
from smr.records import Mesh


def punched_sphere(radius: float, holes: int = 1, detail: int = 4) -> Mesh:
    """A unit sphere without the faces around some directions; colours are an affine function of the place."""
    sphere = trimesh.creation.icosphere(detail)
    centres = sphere.triangles_center
    centres = centres / np.linalg.norm(centres, axis=1, keepdims=True)
    directions = np.random.default_rng(3).normal(size=(holes, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    keep = (centres @ directions.T < np.cos(radius)).all(axis=1)
    colors = np.rint(127 * (1 + sphere.vertices)).astype(np.uint8)
    mesh = Mesh(np.asarray(sphere.vertices), sphere.faces[keep].astype(np.int32), colors=colors)
    return repair_non_manifold(keep_used_vertices(mesh))


def assert_closed(mesh: Mesh) -> None:
    assert (edges(mesh.faces).face_counts == 2).all()
    assert len(np.unique(half_edges(mesh.faces), axis=0)) == 3 * len(mesh.faces), "faces disagree in orientation"


@pytest.mark.parametrize("fair", [True, False])
def test_a_box_without_a_side_is_closed_and_has_volume_one(fair: bool) -> None:
    box = trimesh.creation.box()
    mesh = Mesh(np.asarray(box.vertices), box.faces[box.face_normals[:, 2] < 0.5].astype(np.int32))
    closed = fill_holes(mesh, fair=fair)
    assert_closed(closed)
    assert trimesh.Trimesh(closed.vertices, closed.faces, process=False).volume == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("radius", [0.1, 0.2, 0.3])
def test_a_patch_continues_the_sphere(radius: float) -> None:
    mesh = punched_sphere(radius)
    flat, faired = fill_holes(mesh, 200, fair=False), fill_holes(mesh, 200)
    assert_closed(faired)
    old, new = len(mesh.vertices), faired.vertices[len(mesh.vertices) :]
    assert (faired.vertices[:old] == mesh.vertices).all()
    assert (faired.faces[: len(mesh.faces)] == mesh.faces).all()
    depth = 1 - np.linalg.norm(flat.vertices[flat.faces[len(mesh.faces) :]].mean(axis=1), axis=1).min()
    assert np.abs(np.linalg.norm(new, axis=1) - 1).max() < 0.35 * depth
    areas, expected = face_areas(faired)[len(mesh.faces) :], face_areas(mesh).mean()
    assert 0.4 * expected < areas.mean() < 2 * expected
    assert faired.colors is not None
    assert np.abs(faired.colors[old:] - 127 * (1 + new)).max() < 127 * 0.35 * depth + 4


def test_many_holes_at_once() -> None:
    mesh = punched_sphere(0.12, holes=12, detail=5)
    count = len(boundary_loops(mesh))
    filling = close_holes(mesh, 200, 3)
    assert (filling.closed, filling.rims, filling.failed) == (count, 0, 0)
    assert_closed(filling.mesh)


def test_holes_with_more_edges_stay_open() -> None:
    mesh = punched_sphere(0.3)
    (loop,) = boundary_loops(mesh)
    assert fill_holes(mesh, len(loop) - 1).faces is mesh.faces
    assert_closed(fill_holes(mesh, len(loop)))


def test_long_holes_lose_ears() -> None:
    mesh = punched_sphere(0.9, detail=5)
    assert len(boundary_loops(mesh)[0]) > TABLE_EDGES
    assert_closed(fill_holes(mesh, 1000, fair=False))
    faired = fill_holes(mesh, 1000)
    assert_closed(faired)
    assert np.abs(np.linalg.norm(faired.vertices, axis=1) - 1).max() < 0.15  # a flat lid would be 0.38 off


def test_the_rim_of_a_sheet_is_no_hole_but_the_hole_in_it_is() -> None:
    grid = np.arange(36).reshape(6, 6)
    a, b, c, d = grid[:-1, :-1].ravel(), grid[1:, :-1].ravel(), grid[1:, 1:].ravel(), grid[:-1, 1:].ravel()
    faces = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)]).astype(np.int32)
    keep = ~(np.isin(faces, grid[2:4, 2:4]).sum(axis=1) == 3)
    y, x = np.divmod(np.arange(36.0), 6)
    sheet = Mesh(np.stack([x, y, 0 * x], axis=1), faces[keep])
    filling = close_holes(sheet, 100, 3)
    assert (filling.closed, filling.rims) == (1, 1)
    assert face_areas(filling.mesh).sum() == pytest.approx(25)
    assert [len(loop) for loop in boundary_loops(filling.mesh)] == [20]


def test_normals_follow() -> None:
    mesh = punched_sphere(0.2)
    closed = fill_holes(Mesh(mesh.vertices, mesh.faces, normals=np.zeros((len(mesh.vertices), 3), np.float32)), 100)
    assert closed.normals is not None
    assert np.einsum("ij,ij->i", closed.normals, closed.vertices).min() > 0.95


def plain_triangulation(points: np.ndarray, outside: np.ndarray) -> list[tuple[int, int, int]]:
    """The twin of the kernel: the best triangulation of each stretch, by recursion."""

    def bend(n: np.ndarray, m: np.ndarray) -> float:
        return 1 - float(n @ m) / float(np.linalg.norm(n) * np.linalg.norm(m))

    @cache
    def best(i: int, k: int) -> tuple[float, float, tuple[tuple[int, int, int], ...]]:
        if k == i + 1:
            return 0.0, 0.0, ()
        choices = []
        for j in range(i + 1, k):
            own = np.cross(points[j] - points[i], points[k] - points[i])
            left, right = best(i, j), best(j, k)
            worst = max(left[0], right[0])
            for part, start in ((left, i), (right, j)):
                a, b, c = part[2][0] if part[2] else (0, 0, 0)
                worst = max(
                    worst,
                    bend(own, np.cross(points[b] - points[a], points[c] - points[a]) if part[2] else outside[start]),
                )
            if (i, k) == (0, len(points) - 1):
                worst = max(worst, bend(own, outside[k]))
            area = left[1] + right[1] + float(np.linalg.norm(own))
            choices.append((round(worst, 6), area, ((i, j, k), *left[2], *right[2])))
        return min(choices)

    return sorted(best(0, len(points) - 1)[2])


def test_triangulation_matches_its_plain_twin() -> None:
    rng = np.random.default_rng(5)
    for size in (3, 4, 5, 8, 12):
        angle = np.sort(rng.random(size)) * 2 * np.pi
        points = np.stack([np.cos(angle), np.sin(angle), 0.3 * rng.normal(size=size)], axis=1)
        outside = rng.normal(size=(size, 3)) * 0.2 + [0, 0, 1]
        outside /= np.linalg.norm(outside, axis=1, keepdims=True)
        (triangles,) = triangulate_loops([points], [outside], [np.zeros((0, 2), np.int32)])
        assert triangles is not None
        assert sorted(map(tuple, triangles.tolist())) == plain_triangulation(points, outside)


def test_forbidden_sides_are_not_used() -> None:
    square = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
    up = np.tile([0.0, 0, 1], (4, 1))
    for pair in ([0, 2], [1, 3]):
        (triangles,) = triangulate_loops([square], [up], [np.array([pair], np.int32)])
        assert triangles is not None
        assert not any(set(pair) <= set(face) for face in triangles.tolist())
    assert triangulate_loops([square], [up], [np.array([[0, 2], [1, 3]], np.int32)]) == [None]


def test_flips_reach_the_delaunay_triangulation() -> None:
    rng = np.random.default_rng(2)
    points = np.concatenate([rng.random((60, 2)), [[-1, -1], [2, -1], [2, 2], [-1, 2]]])
    faces = Delaunay(points * [1, 20]).simplices.astype(np.int32)
    flat = np.concatenate([points, np.zeros((len(points), 1))], axis=1)
    crosses = np.cross(flat[faces[:, 1]] - flat[faces[:, 0]], flat[faces[:, 2]] - flat[faces[:, 0]])[:, 2]
    faces[crosses < 0] = faces[crosses < 0][:, ::-1]
    patch = Patch(flat, faces, np.zeros(0, np.int64))
    for _ in range(20):
        relax(patch)
    ours = {tuple(sorted(face)) for face in patch.faces.tolist()}
    assert ours == {tuple(sorted(face)) for face in Delaunay(points).simplices.tolist()}
