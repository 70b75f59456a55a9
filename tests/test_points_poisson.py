from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smr.mesh.topology import border_half_edges, connected_components
from smr.points.poisson import _interpolation, poisson
from smr.records import Mesh


def sphere(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    normals = np.random.default_rng(seed).normal(size=(count, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    return normals.copy(), normals


def torus(count: int, ring: float = 1.0, tube: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    u, v = rng.uniform(0, 2 * np.pi, (2, count))
    kept = rng.random(count) < (ring + tube * np.cos(v)) / (ring + tube)
    u, v = u[kept], v[kept]
    normals = np.stack([np.cos(u) * np.cos(v), np.sin(u) * np.cos(v), np.sin(v)], axis=1)
    return ring * np.stack([np.cos(u), np.sin(u), 0 * u], axis=1) + tube * normals, normals


def off_torus(mesh: Mesh, ring: float = 1.0, tube: float = 0.3) -> np.ndarray:
    x, y, z = mesh.vertices.astype(np.float64).T
    return np.abs(np.hypot(np.hypot(x, y) - ring, z) - tube)


def euler(mesh: Mesh) -> int:
    return len(mesh.vertices) - len(mesh.faces) // 2  # V - E + F of a closed mesh, where E = 3 F / 2


def volume(mesh: Mesh) -> float:
    a, b, c = np.moveaxis(mesh.vertices[mesh.faces].astype(np.float64), 1, 0)
    return float(np.einsum("ij,ij->", a, np.cross(b, c)) / 6)


def test_a_sphere_is_met_within_a_fiftieth_of_a_voxel(device: str) -> None:
    mesh = poisson(*sphere(30_000), resolution=64, device=device)
    off = np.abs(np.linalg.norm(mesh.vertices, axis=1) - 1)
    voxel = 2.6 / 64
    assert off.mean() < 0.02 * voxel
    assert off.max() < 0.1 * voxel
    assert len(border_half_edges(mesh.faces)) == 0
    assert euler(mesh) == 2
    assert volume(mesh) == pytest.approx(4 / 3 * np.pi, rel=2e-3)  # positive: faces look outward
    assert mesh.normals is not None
    assert (mesh.normals * mesh.vertices).sum(axis=1).min() > 0.98


def test_a_torus_keeps_its_hole() -> None:
    mesh = poisson(*torus(30_000), resolution=96)
    assert off_torus(mesh).mean() < 0.05 * 2.6 * 1.3 / 96
    assert len(border_half_edges(mesh.faces)) == 0
    assert euler(mesh) == 0


def test_few_points_and_uneven_ones() -> None:
    mesh = poisson(*sphere(642), resolution=64)
    assert np.abs(np.linalg.norm(mesh.vertices, axis=1) - 1).mean() < 5e-3
    assert euler(mesh) == 2
    points, normals = sphere(40_000)
    kept = np.random.default_rng(1).random(len(points)) < np.where(points[:, 0] > 0, 1, 0.05)
    uneven = poisson(points[kept], normals[kept], resolution=64)
    assert np.abs(np.linalg.norm(uneven.vertices, axis=1) - 1).mean() < 2e-3
    assert euler(uneven) == 2


def test_noise_is_averaged() -> None:
    points, normals = sphere(40_000)
    noisy = points * (1 + 0.01 * np.random.default_rng(1).normal(size=(len(points), 1)))
    mesh = poisson(noisy, normals, resolution=64)
    assert np.abs(np.linalg.norm(mesh.vertices, axis=1) - 1).mean() < 0.3 * 0.01 * np.sqrt(2 / np.pi)


@settings(max_examples=8, deadline=None)
@given(st.floats(1e-3, 1e3), st.tuples(*[st.floats(-1e4, 1e4)] * 3))
def test_scale_and_place_do_not_matter(scale: float, offset: tuple[float, float, float]) -> None:
    points, normals = sphere(3000)
    plain = poisson(points, normals, resolution=32)
    moved = poisson(scale * (points + offset), 7 * normals, resolution=32)
    np.testing.assert_array_equal(moved.faces, plain.faces)
    np.testing.assert_allclose(moved.vertices / scale - offset, plain.vertices, atol=2e-4)


def test_turning_by_a_quarter_turns_the_surface() -> None:
    points, normals = torus(5000)
    plain = poisson(points, normals, resolution=32)
    turned = poisson(points[:, [1, 2, 0]], normals[:, [1, 2, 0]], resolution=32)
    assert len(turned.faces) == pytest.approx(len(plain.faces), rel=0.01)
    assert off_torus(Mesh(turned.vertices[:, [2, 0, 1]], turned.faces)).max() < 2 * off_torus(plain).max()


def test_the_same_points_give_the_same_bytes() -> None:
    a, b = (poisson(*sphere(3000), resolution=32) for _ in range(2))
    assert a.vertices.tobytes() == b.vertices.tobytes()
    assert a.faces.tobytes() == b.faces.tobytes()


def test_a_gap_stays_open_unless_it_is_to_be_closed() -> None:
    points, normals = sphere(30_000)
    upper = points[:, 2] > -0.5
    opened = poisson(points[upper], normals[upper], resolution=64)
    assert len(border_half_edges(opened.faces)) > 0
    assert opened.vertices[:, 2].min() > -0.5 - 3.5 * 2.6 / 64
    assert np.abs(np.linalg.norm(opened.vertices, axis=1) - 1).max() < 2.6 / 64
    closed = poisson(points[upper], normals[upper], resolution=64, trim=False)
    assert len(border_half_edges(closed.faces)) == 0


def test_two_bodies_and_one_inside_another() -> None:
    points, normals = sphere(20_000)
    pair = poisson(
        np.concatenate([points, points + np.array([3.0, 0, 0])]), np.concatenate([normals, normals]), resolution=96
    )
    assert connected_components(pair)[0] == 2
    shell = poisson(np.concatenate([points, 0.5 * points]), np.concatenate([normals, -normals]), resolution=64)
    assert connected_components(shell)[0] == 2
    assert volume(shell) == pytest.approx(4 / 3 * np.pi * (1 - 0.5**3), rel=5e-3)


def test_repeated_points_do_no_harm() -> None:
    points, normals = sphere(5000)
    again = np.concatenate([np.arange(5000), np.repeat(np.arange(3), 40)])
    mesh = poisson(points[again], normals[again], resolution=32)
    assert np.abs(np.linalg.norm(mesh.vertices, axis=1) - 1).mean() < 2e-3


def test_interpolation_is_exact_for_linear_values() -> None:
    places = np.random.default_rng(0).uniform(0, 6.99, (50, 3))
    grid = np.einsum("kxyz,k->xyz", np.indices((8, 8, 8)), [1.0, -2.0, 0.5])
    found = _interpolation(places, 8) @ grid.ravel()
    np.testing.assert_allclose(found, places @ [1, -2, 0.5], atol=1e-5)


def test_bad_input_is_refused() -> None:
    points, normals = sphere(100)
    with pytest.raises(ValueError, match="points and normals must be of one length, not 100 and 99"):
        poisson(points, normals[:-1])
    with pytest.raises(ValueError, match="points: a surface needs at least 10, not 0"):
        poisson(points[:0], normals[:0])
    broken = points.copy()
    broken[[3, 7], 1] = np.nan
    with pytest.raises(ValueError, match="points must be finite; 2 are not, the first is number 3"):
        poisson(broken, normals)
    with pytest.raises(ValueError, match="normals must be finite; 2 are not, the first is number 3"):
        poisson(points, broken)
    with pytest.raises(ValueError, match="points all lie in one place"):
        poisson(np.ones((100, 3)), normals)
    with pytest.raises(ValueError, match="normals must have a direction; 100 are zero, the first is number 0"):
        poisson(points, 0 * normals)
    with pytest.raises(ValueError, match="resolution must be from 16 to 512, not 8"):
        poisson(points, normals, resolution=8)
