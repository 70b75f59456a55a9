"""Distances between surfaces: exact answers, invariances, and errors that say what to do."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smr.demo import DemoScene, make_capture
from smr.errors import SmrError
from smr.formats import read_mesh
from smr.formats.model import geometry
from smr.mesh.distance import index_surface
from smr.metrics import Evaluation, colored_error_mesh, error_colors, evaluate, seen_points
from smr.points.align import align_surfaces
from smr.points.sample import sample_surface
from smr.records import Mesh
from smr.transforms import matrix_from_quat_wxyz, transform_points


def rectangle(width: float, depth: float, z: float = 0.0, cells: int = 1) -> Mesh:
    """A flat rectangle from the origin, facing up."""
    x, y = np.meshgrid(np.linspace(0, width, cells + 1), np.linspace(0, depth, cells + 1), indexing="ij")
    i = (np.arange(cells)[:, None] * (cells + 1) + np.arange(cells)).ravel()
    quads = np.stack([i, i + cells + 1, i + cells + 2, i + 1], axis=1)
    faces = np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]]).astype(np.int32)
    return Mesh(np.stack([x.ravel(), y.ravel(), np.full(x.size, z)], axis=1), faces)


def sphere(radius: float, rings: int = 96) -> Mesh:
    """A closed sphere about the origin."""
    polar = np.linspace(0, np.pi, rings + 1)[1:-1]
    around = np.linspace(0, 2 * np.pi, 2 * rings, endpoint=False)
    body = np.stack(
        [np.outer(np.sin(polar), np.cos(around)), np.outer(np.sin(polar), np.sin(around)),
         np.outer(np.cos(polar), np.ones(2 * rings))], axis=-1,
    ).reshape(-1, 3)  # fmt: skip
    vertices = radius * np.concatenate([[[0, 0, 1.0]], body, [[0, 0, -1.0]]])
    n, last = 2 * rings, len(vertices) - 1
    j, after = np.arange(n), (np.arange(n) + 1) % n
    faces = [np.stack([np.zeros(n, int), 1 + j, 1 + after], 1)]
    for ring in range(rings - 2):
        a, b = 1 + ring * n, 1 + (ring + 1) * n
        faces += [np.stack([a + j, b + j, b + after], 1), np.stack([a + j, b + after, a + after], 1)]
    faces.append(np.stack([np.full(n, last), last - n + after, last - n + j], 1))
    return Mesh(vertices, np.concatenate(faces).astype(np.int32))


def lumpy(seed: int = 0) -> Mesh:
    """A closed shape without symmetry, about 0.4 m across."""
    ball = sphere(1.0, 40)
    directions = np.random.default_rng(seed).normal(size=(5, 3))
    bumps = np.exp(3.0 * (ball.vertices @ (directions / np.linalg.norm(directions, axis=1, keepdims=True)).T - 1.0))
    radius = 0.12 + bumps @ np.array([0.10, 0.07, 0.05, -0.04, 0.03])
    return replace(ball, vertices=ball.vertices * radius[:, None] * [1.0, 0.8, 0.65])


def moved(mesh: Mesh, matrix: np.ndarray) -> Mesh:
    return replace(mesh, vertices=transform_points(matrix, mesh.vertices.astype(float)))


def similarity(seed: int, scale: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    matrix = matrix_from_quat_wxyz(rng.normal(size=4), rng.normal(size=3))
    matrix[:3, :3] *= scale
    return matrix


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> DemoScene:
    return make_capture(tmp_path_factory.mktemp("demo"), views=8, width=160, height=120, noise=False)


# Closest points and samples


def nearest_on_triangles(point: np.ndarray, corners: np.ndarray) -> float:
    """Twin of the kernel, plain and slow: the least distance to a triangle's inside, edges and corners."""
    best = math.inf
    for a, b, c in corners:
        normal = np.cross(b - a, c - a)
        if (length := np.linalg.norm(normal)) > 0:
            height = np.dot(point - a, normal / length)
            foot = point - height * normal / length
            sides = [np.dot(np.cross(q - p, foot - p), normal) for p, q in ((a, b), (b, c), (c, a))]
            if min(sides) >= 0:
                best = min(best, abs(height))
        for p, q in ((a, b), (b, c), (c, a)):
            along = np.dot(point - p, q - p) / max(np.dot(q - p, q - p), 1e-300)
            best = min(best, float(np.linalg.norm(point - p - np.clip(along, 0, 1) * (q - p))))
    return best


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_distances_are_those_of_the_plain_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mesh = Mesh(rng.normal(size=(9, 3)), rng.integers(0, 9, (7, 3)).astype(np.int32))
    if not np.any(index_areas(mesh) > 1e-6):
        return
    points = rng.normal(size=(10, 3)) * 2
    found = index_surface(mesh).nearest(points)
    sound = mesh.vertices[mesh.faces[index_areas(mesh) > 0]]
    np.testing.assert_allclose(found.distances, [nearest_on_triangles(p, sound) for p in points], atol=2e-6)
    np.testing.assert_allclose(np.linalg.norm(found.points - points, axis=1), found.distances, atol=1e-12)
    on_face = np.einsum("nk,nkj->nj", found.barycentric, mesh.vertices[mesh.faces[found.faces]])
    np.testing.assert_allclose(on_face, found.points, atol=1e-12)


def index_areas(mesh: Mesh) -> np.ndarray:
    a, b, c = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
    return np.linalg.norm(np.cross(b - a, c - a), axis=1)


def test_nearest_points_do_not_depend_on_the_device(device: str) -> None:
    points = np.random.default_rng(0).normal(size=(500, 3)) * 0.3
    found = index_surface(lumpy(), device=device).nearest(points)
    np.testing.assert_allclose(found.distances, index_surface(lumpy()).nearest(points).distances, atol=1e-6)


def test_a_mesh_far_from_the_origin_loses_nothing() -> None:
    """Survey coordinates: float32 has steps of 6 cm there."""
    far = np.array([500_000.0, 5_000_000.0, 200.0])
    flat, above = (replace(m, vertices=m.vertices + far) for m in (rectangle(1, 1), rectangle(1, 1, 0.001)))
    assert evaluate(above, flat, samples=500).accuracy.max == pytest.approx(0.001, abs=1e-6)


def test_samples_follow_the_area() -> None:
    mesh = Mesh(
        np.array([[0, 0, 0], [3, 0, 0], [0, 2, 0], [0, 0, 1], [5, 5, 5.0]]),
        np.array([[0, 1, 2], [0, 2, 3], [4, 4, 4]], dtype=np.int32),
    )
    samples = sample_surface(mesh, 1000, seed=7)
    np.testing.assert_allclose(np.bincount(samples.faces, minlength=3), [750, 250, 0], atol=1)
    inside = samples.points[samples.faces == 0]
    assert (inside[:, 2] == 0).all()
    assert (inside[:, 0] / 3 + inside[:, 1] / 2 <= 1 + 1e-12).all()
    np.testing.assert_allclose(inside.mean(axis=0), [1, 2 / 3, 0], atol=0.06)
    np.testing.assert_array_equal(samples.points, sample_surface(mesh, 1000, seed=7).points)


def test_nothing_to_sample_is_a_wrong_call() -> None:
    line = Mesh(np.zeros((3, 3)), np.array([[0, 1, 2]], dtype=np.int32))
    with pytest.raises(ValueError, match="no face of the mesh has an area"):
        sample_surface(line, 5)
    with pytest.raises(ValueError, match="no face of the mesh has an area"):
        index_surface(line)


# Exact answers


def test_parallel_planes_are_their_distance_apart() -> None:
    found = evaluate(rectangle(1, 1, 0.003), rectangle(1, 1), distances=(0.002, 0.004), samples=2000)
    for spread in (found.accuracy, found.completeness):
        for value in (spread.mean, spread.median, spread.p95, spread.rms, spread.max):
            assert value == pytest.approx(0.003, abs=1e-12)
    assert found.chamfer == pytest.approx(0.003, abs=1e-12)
    assert [score.f_score for score in found.scores] == [0.0, 1.0]
    assert found.normal_consistency == pytest.approx(1.0, abs=1e-6)


def test_spheres_differ_by_their_radii() -> None:
    found = evaluate(sphere(0.102), sphere(0.1), samples=20_000)
    assert found.accuracy.mean == pytest.approx(0.002, rel=0.02)  # facets: 0.03 mm
    assert found.completeness.mean == pytest.approx(0.002, rel=0.02)
    assert found.normal_consistency > 0.999


def test_a_mesh_of_half_the_reference() -> None:
    found = evaluate(rectangle(0.5, 1), rectangle(1, 1), distances=(0.1,), samples=50_000)
    assert found.accuracy.max < 1e-12
    assert found.completeness.mean == pytest.approx(0.125, rel=0.01)  # half is 0 away, half 0 to 0.5
    assert found.scores[0].precision == 1.0
    assert found.scores[0].recall == pytest.approx(0.6, abs=0.005)
    assert found.scores[0].f_score == pytest.approx(2 * 0.6 / 1.6, abs=0.005)


def test_a_mesh_is_its_own_truth() -> None:
    found = evaluate(lumpy(), lumpy(), samples=5000)
    assert found.accuracy.max < 1e-12
    assert found.completeness.max < 1e-12
    assert [(s.precision, s.recall, s.f_score) for s in found.scores] == [(1.0, 1.0, 1.0)] * 3


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), shift=st.floats(0, 0.05), distance=st.floats(1e-3, 0.1))
def test_swapping_mesh_and_reference_swaps_precision_and_recall(seed: int, shift: float, distance: float) -> None:
    one, two = lumpy(seed), moved(lumpy(seed + 1), similarity(seed, 1.1))
    two = replace(two, vertices=two.vertices - two.vertices.mean(axis=0) + shift)
    there, back = (evaluate(*pair, distances=(distance,), samples=1500) for pair in ((one, two), (two, one)))
    # Each direction draws other points, so the two agree as two samples do.
    assert there.accuracy.mean == pytest.approx(back.completeness.mean, rel=0.1, abs=1e-6)
    assert there.scores[0].precision == pytest.approx(back.scores[0].recall, abs=0.06)
    assert there.scores[0].f_score == pytest.approx(back.scores[0].f_score, abs=0.06)
    assert there.chamfer == pytest.approx(back.chamfer, rel=0.1, abs=1e-6)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), scale=st.floats(0.1, 10))
def test_distances_turn_and_scale_with_the_world(seed: int, scale: float) -> None:
    world = similarity(seed, scale)
    plain = evaluate(sphere(0.11, 24), lumpy(), distances=(0.02,), samples=1000)
    turned = evaluate(moved(sphere(0.11, 24), world), moved(lumpy(), world), distances=(0.02 * scale,), samples=1000)
    assert turned.accuracy.mean == pytest.approx(scale * plain.accuracy.mean, rel=1e-4)
    assert turned.completeness.p95 == pytest.approx(scale * plain.completeness.p95, rel=1e-4)
    assert turned.scores[0].f_score == pytest.approx(plain.scores[0].f_score, abs=2e-3)


def test_the_result_depends_on_the_seed_only() -> None:
    runs = [evaluate(lumpy(), sphere(0.12), samples=3000, seed=seed).as_dict() for seed in (5, 5, 6)]
    assert runs[0] == runs[1] != runs[2]
    assert json.loads(json.dumps(runs[0])) == json.loads(json.dumps(runs[1]))


# Alignment


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_turned_copy_is_found(seed: int) -> None:
    away = similarity(seed)
    found = evaluate(moved(lumpy(), away), lumpy(), align="rigid", samples=5000)
    assert found.alignment is not None
    assert found.alignment.scale == 1.0
    np.testing.assert_allclose(found.alignment.reference_from_mesh @ away, np.eye(4), atol=1e-4)
    assert found.accuracy.max < 1e-5


@pytest.mark.parametrize("scale", [1000.0, pytest.param(0.37, marks=pytest.mark.slow)])
def test_a_scaled_copy_is_found(scale: float) -> None:
    away = similarity(4, scale)
    found = evaluate(moved(lumpy(), away), lumpy(), align="similarity", samples=5000)
    assert found.alignment is not None
    assert found.alignment.scale == pytest.approx(1 / scale, rel=1e-4)
    assert found.alignment.rms < 1e-5
    matrix = found.as_dict()["alignment"]["reference_from_mesh"]
    np.testing.assert_allclose(np.array(matrix) @ away, np.eye(4), atol=1e-4)


def test_a_handle_decides_between_turns_that_fit_otherwise(demo: DemoScene) -> None:
    """A round table turned by half a turn lies on itself; only spout and handle tell."""
    half = matrix_from_quat_wxyz(np.array([0.0, 0, 0, 1]), np.array([0.02, 0.01, 0.0]))
    found = align_surfaces(moved(demo.truth, half), demo.truth)
    np.testing.assert_allclose(found.reference_from_mesh @ half, np.eye(4), atol=1e-4)


def test_part_of_the_reference_is_laid_where_it_belongs() -> None:
    whole = lumpy()
    part = replace(whole, faces=whole.faces[(whole.vertices[whole.faces[:, 0], 0] > -0.03)])
    away = matrix_from_quat_wxyz(np.array([1.0, 0.05, -0.08, 0.06]), np.array([0.01, -0.02, 0.015]))
    found = align_surfaces(moved(part, away), whole)
    np.testing.assert_allclose(found.reference_from_mesh @ away, np.eye(4), atol=2e-3)


@pytest.mark.parametrize(
    ("align", "cure"),
    [
        ("rigid", "use --align similarity if their units differ"),
        pytest.param("similarity", "cut both to the same", marks=pytest.mark.slow),
    ],
)
def test_shapes_that_do_not_fit_are_refused(align: Literal["rigid", "similarity"], cure: str) -> None:
    strip = rectangle(1.0, 0.02, cells=4)
    with pytest.raises(SmrError, match=r"No alignment was found: at best .* apart \(.* % of the reference") as caught:
        evaluate(lumpy(), strip, align=align, samples=100)
    assert cure in caught.value.cure


# What the views saw


def test_views_see_the_table_but_not_below_the_teapot(demo: DemoScene) -> None:
    under, beside, beneath = np.array([[0.0, 0, 0], [0.15, 0.1, 0], [0.15, 0.1, -0.05]])
    assert seen_points(np.stack([under, beside, beneath]), demo.capture).tolist() == [False, True, False]


def test_completeness_counts_only_what_was_seen(demo: DemoScene) -> None:
    """A mesh without the hidden parts is complete for the views, not for the truth."""
    middles = demo.truth.vertices[demo.truth.faces].mean(axis=1)
    visible = replace(demo.truth, faces=demo.truth.faces[seen_points(middles, demo.capture)])
    judged = evaluate(visible, demo.truth, seen_by=demo.capture, samples=20_000)
    all_of_it = evaluate(visible, demo.truth, samples=20_000)
    assert judged.completeness.mean < 0.00005
    assert all_of_it.completeness.mean > 10 * judged.completeness.mean
    assert 0.5 < judged.seen_share < 0.95
    assert judged.reference_samples == round(judged.seen_share * 20_000)
    assert judged.beyond_reference == 0


def test_what_lies_beyond_the_reference_is_not_judged(demo: DemoScene) -> None:
    """The capture stood on a floor that the reference does not have; a lid in the air is an error all the same."""
    floor = replace(rectangle(2, 2, cells=8), vertices=rectangle(2, 2, cells=8).vertices - [1, 1, 0.016])
    joined = Mesh(
        np.concatenate([demo.truth.vertices, floor.vertices]),
        np.concatenate([demo.truth.faces, floor.faces + np.int32(len(demo.truth.vertices))]),
    )
    found = evaluate(joined, demo.truth, seen_by=demo.capture, samples=20_000)
    assert found.beyond_reference > 10_000
    assert found.accuracy.max < 0.25  # below the table the nearest point is the table top
    in_the_air = replace(floor, vertices=floor.vertices * [0.05, 0.05, 0] + [0, 0.03, 0.25])
    lid = Mesh(
        np.concatenate([demo.truth.vertices, in_the_air.vertices]),
        np.concatenate([demo.truth.faces, floor.faces + np.int32(len(demo.truth.vertices))]),
    )
    wrong = evaluate(lid, demo.truth, seen_by=demo.capture, samples=20_000)
    assert wrong.beyond_reference == 0
    assert wrong.accuracy.max > 0.03


def test_a_capture_of_something_else_is_refused(demo: DemoScene) -> None:
    elsewhere = replace(demo.truth, vertices=demo.truth.vertices + np.float32(40.0))
    with pytest.raises(SmrError, match="No view of the capture sees any part of the reference"):
        evaluate(elsewhere, elsewhere, seen_by=demo.capture, samples=100)
    photos = replace(demo.capture, frames=tuple(replace(f, depth=None) for f in demo.capture.frames))
    with pytest.raises(SmrError, match="has no depth maps with poses"):
        evaluate(demo.truth, demo.truth, seen_by=photos, samples=100)


def test_a_mesh_that_is_all_beyond_the_reference_is_refused(demo: DemoScene) -> None:
    table = rectangle(0.02, 0.02, cells=2)
    table = replace(table, vertices=table.vertices + np.array([0.15, 0.1, 0.0]))
    beside = replace(table, vertices=table.vertices + np.array([0.025, 0.0, 0.0]))
    with pytest.raises(SmrError, match="All of the mesh lies beyond the border of the reference"):
        evaluate(beside, table, seen_by=demo.capture, samples=500, distances=(0.001,))


# Colours


def test_error_colours_run_from_blue_to_red() -> None:
    mesh = Mesh(
        np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0.005], [0, 1, 0.010], [0, 1, 0.5]]),
        np.array([[0, 1, 2], [0, 2, 3], [0, 3, 4]], dtype=np.int32),
    )
    colors = colored_error_mesh(mesh, rectangle(1, 1), 0.010).colors
    assert colors is not None
    np.testing.assert_array_equal(colors[0], [48, 18, 59])
    np.testing.assert_array_equal(colors[2], [162, 252, 60])
    np.testing.assert_array_equal(colors[3], [122, 4, 3])
    np.testing.assert_array_equal(colors[4], [122, 4, 3])
    assert error_colors(np.array([-1.0, 2.0])).tolist() == [[48, 18, 59], [122, 4, 3]]


def test_error_colours_need_a_scale() -> None:
    with pytest.raises(ValueError, match="max_distance must be positive, not 0"):
        colored_error_mesh(rectangle(1, 1), rectangle(1, 1), 0.0)


# Bad input


def bad_inputs() -> dict[str, tuple[Mesh, str]]:
    good = rectangle(1, 1)
    no_faces = np.zeros((0, 3), dtype=np.int32)
    nan = good.vertices.copy()
    nan[1, 2] = np.nan
    return {
        "empty": (Mesh(np.zeros((0, 3)), no_faces), "is empty"),
        "points": (Mesh(good.vertices, no_faces), "has 4 points and no faces; distances are measured to a surface"),
        "nan": (replace(good, vertices=nan), "has 1 vertices that are not finite"),
        "index": (replace(good, faces=good.faces + np.int32(2)), "has faces that use vertices which it does not have"),
        "flat": (replace(good, vertices=good.vertices * [1, 0, 1]), "has no face with an area"),
    }


@pytest.mark.parametrize("kind", bad_inputs())
def test_bad_meshes_are_refused_with_a_true_sentence(kind: str) -> None:
    mesh, said = bad_inputs()[kind]
    with pytest.raises(SmrError, match=f"The mesh {said}"):
        evaluate(mesh, rectangle(1, 1))
    with pytest.raises(SmrError, match=f"The reference {said}"):
        evaluate(rectangle(1, 1), mesh)
    with pytest.raises(SmrError, match=said):
        colored_error_mesh(rectangle(1, 1), mesh, 0.01)


@pytest.mark.parametrize(
    ("scale", "said", "cure"),
    [
        (1000.0, "it looks like millimetres against metres", "--scale 0.001"),
        (0.001, "it looks like metres against millimetres", "--scale 1000"),
        (100.0, "it looks like centimetres against metres", "--scale 0.01"),
    ],
)
def test_wrong_units_are_named(scale: float, said: str, cure: str) -> None:
    big = replace(lumpy(), vertices=lumpy().vertices * scale)
    with pytest.raises(SmrError, match=said) as caught:
        evaluate(big, lumpy())
    assert "--align similarity" in caught.value.cure
    assert cure in caught.value.cure


def test_meshes_far_apart_are_refused() -> None:
    with pytest.raises(SmrError, match="do not overlap: 9 m of empty space lie between them") as caught:
        evaluate(replace(rectangle(1, 1), vertices=rectangle(1, 1).vertices - [10.0, 0, 0]), rectangle(1, 1))
    assert "--align rigid" in caught.value.cure


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"samples": 0}, "--samples is 0"),
        ({"distances": ()}, "--distances is empty"),
        ({"distances": (0.001, -1.0)}, r"--distances is 0\.001 -1"),
        ({"distances": (float("nan"),)}, "--distances is nan"),
        ({"seed": -1}, "--seed is -1"),
    ],
)
def test_settings_that_mean_nothing(wrong: dict, words: str) -> None:
    with pytest.raises(SmrError, match=words):
        evaluate(rectangle(1, 1), rectangle(1, 1), **wrong)


# Real data


@pytest.mark.data
def test_a_bunny_scan_lies_on_the_bunny(data_dir) -> None:
    """Its README says: 0.065 mm, the median, with the given pose."""
    trimesh = pytest.importorskip("trimesh")
    folder: Path = data_dir("bunny_scans")
    bunny = trimesh.load(folder / "bunny.obj", process=False)
    lines = (folder / "bun000.ply").read_text().split("end_header\n")[1].split("\n")
    scan = np.array([[float(x) for x in line.split()] for line in lines if len(line.split()) == 3])
    world_from_scan = np.array(json.loads((folder / "poses.json").read_text())["bun000.ply"])
    found = index_surface(Mesh(np.array(bunny.vertices), np.array(bunny.faces, dtype=np.int32)))
    distances = found.nearest(transform_points(world_from_scan, scan)).distances
    assert np.median(distances) == pytest.approx(0.000065, abs=0.000005)


@pytest.mark.data
def test_every_hard_mesh_is_its_own_truth_or_refused(data_dir) -> None:
    judged = 0
    for path in sorted(data_dir("hard_meshes").iterdir()):
        if path.suffix.lower() not in (".obj", ".ply", ".stl", ".off", ".glb"):
            continue
        try:
            mesh = geometry(read_mesh(path))
            found = evaluate(mesh, mesh, distances=(1.0,), samples=2000)
        except SmrError:
            continue  # the sentences have tests of their own
        judged += 1
        size = float(np.linalg.norm(np.ptp(mesh.vertices[mesh.faces.ravel()], axis=0)))
        # Needles: which of two faces is nearer is decided in float32.
        assert max(found.accuracy.max, found.completeness.max) < 1e-4 * size, path.name
    assert judged >= 30


def test_the_result_is_frozen() -> None:
    found = evaluate(rectangle(1, 1), rectangle(1, 1), samples=10)
    assert isinstance(found, Evaluation)
    with pytest.raises(AttributeError):
        found.chamfer = 0.0  # type: ignore[misc]
