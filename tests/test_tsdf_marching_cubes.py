"""Marching cubes over blocks: exact shapes, closedness, and a twin in plain NumPy."""

from __future__ import annotations

import hypothesis.extra.numpy as arrays_of
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import KDTree

from smr.records import Mesh
from smr.tsdf import marching_cubes
from smr.tsdf.cube_table import FACES, MAX_TRIANGLES, triangle_table

MARGIN = 0.005


def edge_counts(mesh: Mesh) -> tuple[np.ndarray, np.ndarray]:
    """(faces at each edge, uses of each directed edge)"""
    directed = np.concatenate([mesh.faces[:, [0, 1]], mesh.faces[:, [1, 2]], mesh.faces[:, [2, 0]]])
    both = np.unique(np.sort(directed, axis=1), axis=0, return_counts=True)[1]
    return both, np.unique(directed, axis=0, return_counts=True)[1]


def volume_and_area(mesh: Mesh) -> tuple[float, float]:
    a, b, c = (mesh.vertices[mesh.faces[:, i]].astype(float) for i in range(3))
    cross = np.cross(b - a, c - a)
    return float(np.einsum("ij,ij->", a, cross) / 6), float(np.linalg.norm(cross, axis=1).sum() / 2)


def sphere_values(n: int, center: float, radius: float) -> np.ndarray:
    grid = np.stack(np.indices((n, n, n)), axis=-1)
    return np.linalg.norm(grid - center, axis=-1) - radius


def twin(values: np.ndarray) -> np.ndarray:
    """Triangles (n, 3, 3) cell by cell, in plain NumPy."""
    first, corners = triangle_table()
    triangles = []
    for cell in np.ndindex(*(n - 1 for n in values.shape)):
        offsets = np.array([(c & 1, c >> 1 & 1, c >> 2) for c in range(8)])
        at = offsets + cell
        corner_values = values[at[:, 0], at[:, 1], at[:, 2]]
        if np.isnan(corner_values).any():
            continue
        case = int(sum(1 << c for c in range(8) if corner_values[c] < 0))
        start, count = (first[case] >> 4) * 3, (first[case] & 15) * 3
        points = []
        for edge in corners[start : start + count]:
            corner, axis = divmod(int(edge), 3)
            a, b = corner_values[corner], corner_values[corner + (1 << axis)]
            point = at[corner].astype(float)
            point[axis] += np.clip(a / (a - b), MARGIN, 1 - MARGIN)
            points.append(point)
        triangles += points
    return np.array(triangles).reshape(-1, 3, 3)


def test_table_uses_each_crossed_edge_and_is_closed_inside_the_cell() -> None:
    first, corners = triangle_table()
    assert first[0] & 15 == 0
    assert first[255] & 15 == 0
    for case in range(256):
        start, count = int(first[case] >> 4), int(first[case] & 15)
        assert count <= MAX_TRIANGLES
        edges = corners[3 * start : 3 * (start + count)]
        crossed = {
            3 * c + axis
            for c in range(8)
            for axis in range(3)
            if not c >> axis & 1 and (case >> c & 1) != (case >> (c + (1 << axis)) & 1)
        }
        assert set(edges.tolist()) == crossed
    assert len({frozenset(face) for face in FACES}) == 6


def test_sphere_is_closed_with_the_right_volume_area_and_normals(device: str) -> None:
    mesh = marching_cubes(sphere_values(36, 17.3, 14.0), device=device)
    both, directed = edge_counts(mesh)
    assert (both == 2).all()
    assert (directed == 1).all()
    volume, area = volume_and_area(mesh)
    assert volume == pytest.approx(4 / 3 * np.pi * 14**3, rel=4e-3)
    assert area == pytest.approx(4 * np.pi * 14**2, rel=2e-3)
    outward = (mesh.vertices - 17.3) / 14
    assert np.abs(np.linalg.norm(outward, axis=1) - 1).max() < 0.01 / 14
    assert mesh.normals is not None
    assert np.einsum("ij,ij->i", mesh.normals, outward).min() > 0.999


def test_plane_is_exact_and_faces_larger_values() -> None:
    x, y, z = np.indices((20, 11, 9)).astype(float)
    normal = np.array([1.0, 2.0, -2.0]) / 3
    mesh = marching_cubes(normal[0] * x + normal[1] * y + normal[2] * z - 4.321)
    assert np.abs(mesh.vertices @ normal - 4.321).max() < 1e-5 + MARGIN
    a, b, c = (mesh.vertices[mesh.faces[:, i]] for i in range(3))
    assert (np.cross(b - a, c - a) @ normal > 0).all()


def test_spacing_origin_iso_and_mask() -> None:
    values = sphere_values(20, 9.5, 6.0)
    plain = marching_cubes(values, iso=1.0)
    moved = marching_cubes(values, iso=1.0, spacing=(0.1, 0.2, 0.3), origin=(5.0, -3.0, 1.0))
    np.testing.assert_allclose(moved.vertices, plain.vertices * [0.1, 0.2, 0.3] + [5, -3, 1], atol=1e-5)
    np.testing.assert_array_equal(moved.faces, plain.faces)
    half = marching_cubes(values, iso=1.0, mask=np.indices(values.shape)[0] <= 9)
    assert half.vertices[:, 0].max() <= 9
    assert 0.4 < len(half.faces) / len(plain.faces) < 0.55
    with pytest.raises(ValueError, match="positive spacing needed"):
        marching_cubes(values, spacing=0.0)


def test_far_from_the_origin_positions_stay_exact() -> None:
    mesh = marching_cubes(sphere_values(20, 9.5, 6.0), spacing=0.001, origin=(4_000_000.0, 0.0, 0.0))
    assert mesh.vertices.dtype == np.float64
    near = marching_cubes(sphere_values(20, 9.5, 6.0), spacing=0.001)
    np.testing.assert_allclose(mesh.vertices[:, 0] - 4_000_000.0, near.vertices[:, 0], atol=1e-8)


def test_surface_through_nodes_makes_no_degenerate_triangles() -> None:
    values = np.rint(sphere_values(24, 11.0, 7.0))  # many zeros
    mesh = marching_cubes(values)
    both, _ = edge_counts(mesh)
    assert (both == 2).all()
    a, b, c = (mesh.vertices[mesh.faces[:, i]].astype(float) for i in range(3))
    assert (np.linalg.norm(np.cross(b - a, c - a), axis=1) > 1e-6).all()


def test_nothing_inside_and_empty_grids_give_empty_meshes() -> None:
    for values in (np.ones((9, 9, 9)), -np.ones((9, 9, 9)), np.full((9, 9, 9), np.nan), np.ones((1, 1, 1))):
        assert len(marching_cubes(values).faces) == 0


@settings(max_examples=40, deadline=None)
@given(
    arrays_of.arrays(
        np.float32,
        st.tuples(st.integers(1, 11), st.integers(1, 7), st.integers(1, 10)),
        elements=st.floats(-1, 1, width=16),
    )
)
def test_any_grid_with_a_positive_border_gives_a_closed_manifold(inner: np.ndarray) -> None:
    mesh = marching_cubes(np.pad(inner, 1, constant_values=1.0))
    if len(mesh.faces):
        both, directed = edge_counts(mesh)
        assert (both == 2).all()
        assert (directed == 1).all()
    assert len(np.unique(mesh.faces)) == len(mesh.vertices)


@pytest.mark.parametrize("seed", range(3))
def test_same_triangles_as_the_numpy_twin(seed: int, device: str) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(10, 9, 11)).astype(np.float32)
    values[rng.random(values.shape) < 0.05] = np.nan
    expected = twin(values.astype(float))
    mesh = marching_cubes(values, device=device)
    distances, index = KDTree(mesh.vertices).query(expected.reshape(-1, 3))
    assert distances.max() < 1e-4
    assert turned(mesh.faces) == turned(index.reshape(-1, 3))


def turned(faces: np.ndarray) -> list[tuple[int, ...]]:
    """Triangles with their smallest index first, sorted."""
    return sorted(tuple(np.roll(face, -int(face.argmin())).tolist()) for face in faces)
