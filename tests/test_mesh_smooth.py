from __future__ import annotations

import numpy as np
import pytest
import trimesh

from smr.mesh.smooth import (
    _windowed_sinc,
    estimate_noise,
    find_neighbours,
    smooth_laplacian,
    smooth_noise,
    smooth_taubin,
)
from smr.mesh.topology import edges
from smr.records import Mesh


def sphere(noise: float = 0.0, offset: float = 0.0) -> Mesh:
    shape = trimesh.creation.icosphere(5)
    radii = 1 + noise * np.random.default_rng(0).normal(size=(len(shape.vertices), 1))
    return Mesh(shape.vertices * radii + offset, shape.faces.astype(np.int32))


def sheet(n: int = 30) -> Mesh:
    grid = np.arange(n * n).reshape(n, n)
    a, b, c, d = grid[:-1, :-1].ravel(), grid[1:, :-1].ravel(), grid[1:, 1:].ravel(), grid[:-1, 1:].ravel()
    y, x = np.divmod(np.arange(float(n * n)), n)
    faces = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
    return Mesh(np.stack([x, y, 0 * x], axis=1), faces.astype(np.int32))


def roughness(mesh: Mesh, centre: float = 0.0) -> float:
    return float(np.linalg.norm(mesh.vertices - centre, axis=1).std())


def test_taubin_removes_noise_and_keeps_the_volume() -> None:
    noisy = sphere(0.004)
    smooth = smooth_taubin(noisy, 10)
    assert roughness(smooth) < 0.5 * roughness(noisy)
    volumes = [trimesh.Trimesh(m.vertices, m.faces, process=False).volume for m in (noisy, smooth)]
    assert volumes[1] == pytest.approx(volumes[0], rel=2e-3)


def test_laplacian_shrinks_a_sphere_taubin_does_not() -> None:
    exact = sphere()
    assert np.linalg.norm(smooth_laplacian(exact, 100).vertices, axis=1).mean() < 0.99
    assert np.linalg.norm(smooth_taubin(exact, 50).vertices, axis=1).mean() == pytest.approx(1, abs=2e-3)


def test_a_plane_stays_a_plane_with_its_straight_border() -> None:
    flat = sheet()
    for smooth in (smooth_laplacian(flat, 5), smooth_taubin(flat, 5)):
        assert (smooth.vertices[:, 2] == 0).all()
        rim = np.flatnonzero(flat.vertices[:, 1] == 0)
        assert smooth.vertices[rim[3:-3], 1] == pytest.approx(0, abs=0.02)


def test_taubin_needs_a_second_step_that_is_longer() -> None:
    with pytest.raises(ValueError, match="mu < -lambda_"):
        smooth_taubin(sheet(4), 1, 0.5, -0.4)


@pytest.mark.parametrize("noise", [1e-3, 4e-3])
@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_the_noise_is_measured(noise: float, offset: float) -> None:
    assert estimate_noise(sphere(noise, offset)).typical == pytest.approx(noise, rel=0.1)


def test_without_noise_nothing_moves() -> None:
    exact = sphere()
    smooth, noise = smooth_noise(exact)
    assert noise.typical < 2e-5
    assert np.abs(smooth.vertices - exact.vertices).max() < 2e-4


def test_noise_is_smoothed_within_its_limit() -> None:
    noisy = sphere(0.004, 10.0)
    smooth, noise = smooth_noise(noisy, limit=3.0)
    assert roughness(smooth, 10) < 0.35 * roughness(noisy, 10)
    assert np.linalg.norm(smooth.vertices - 10, axis=1).mean() == pytest.approx(1, abs=2e-3)
    moved = np.linalg.norm(smooth.vertices - noisy.vertices, axis=1)
    assert (moved <= 3 * np.minimum(noise.of_vertices, 2 * noise.typical) * (1 + 1e-6)).all()


def test_a_thin_wire_beside_an_exact_sheet_stays() -> None:
    wire = trimesh.creation.cylinder(0.5, 40, sections=6).apply_translation([15, 15, 30])
    flat = sheet(60)
    faces = np.concatenate([flat.faces, wire.faces + len(flat.vertices)]).astype(np.int32)
    mesh = Mesh(np.concatenate([flat.vertices, wire.vertices]), faces)
    smooth, _ = smooth_noise(mesh)
    assert np.abs(smooth.vertices - mesh.vertices).max() < 1e-6


def test_normals_and_types_follow() -> None:
    shape = sphere(0.01)
    mesh = Mesh(shape.vertices.astype(np.float32), shape.faces, normals=np.zeros((len(shape.vertices), 3), np.float32))
    smooth = smooth_taubin(mesh)
    assert smooth.vertices.dtype == np.float32
    assert smooth.normals is not None
    assert np.linalg.norm(smooth.normals, axis=1) == pytest.approx(1, abs=1e-5)


def test_the_filter_is_its_twin_in_matrices() -> None:
    flat = sheet(20)
    mesh = Mesh(flat.vertices + np.random.default_rng(0).normal(size=flat.vertices.shape) * 0.1, flat.faces)
    found = edges(mesh.faces)
    count = len(mesh.vertices)
    rim = found.vertices[found.face_counts == 1]
    on_rim = np.isin(np.arange(count), rim)
    mean = np.zeros((count, count))
    for pairs, rows in ((found.vertices, ~on_rim), (rim, on_rim)):
        for a, b in np.concatenate([pairs, pairs[:, ::-1]]):
            mean[a, b] = rows[a]
    mean /= mean.sum(axis=1, keepdims=True)
    around = find_neighbours(mesh)
    assert around.movable.all()
    np.testing.assert_allclose(around.mean(mesh.vertices), mean @ mesh.vertices, atol=1e-13)
    np.testing.assert_allclose(around.mean(mesh.vertices[:, 0]), mean @ mesh.vertices[:, 0], atol=1e-13)
    angle, n = np.arccos(1 - 0.15), np.arange(1, 21)
    weights = 2 * np.sin(n * angle) / (n * np.pi) * (0.54 + 0.46 * np.cos(n * np.pi / 21))
    weights = np.concatenate([[angle / np.pi], weights])
    chebyshev = np.polynomial.chebyshev.Chebyshev(weights / weights.sum())
    eigenvalues, vectors = np.linalg.eig(mean)
    low_pass = (vectors @ np.diag(chebyshev(eigenvalues)) @ np.linalg.inv(vectors)).real
    np.testing.assert_allclose(_windowed_sinc(around, mesh.vertices, 0.15), low_pass @ mesh.vertices, atol=1e-9)
