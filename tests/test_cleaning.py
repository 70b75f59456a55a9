from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
import trimesh

from smr.cleaning import clean
from smr.config import CleanConfig
from smr.errors import SmrError
from smr.mesh.distance import index_surface
from smr.mesh.edge_collapse import regions
from smr.mesh.repair import drop_invalid_faces
from smr.mesh.topology import boundary_loops, connected_components, edges, half_edges
from smr.progress import Item
from smr.records import Material, Mesh, TexturedMesh

HARD = [
    "BoxTextured.ply", "CesiumMilkTruck.glb", "Duck.glb", "armchair.obj", "ballA.off", "beetle.obj", "bunny.ply",
    "chair_model.obj", "comments.off", "cycloidal.ply", "fandisk.obj", "far_away.obj", "far_away.ply", "fuze.obj",
    "fuze.ply", "ico4.obj", "joined_tetrahedra.obj", "large_block_obb.STL", "multibody.stl", "nan_vertex.ply",
    "nancolor.obj", "negative_indices.obj", "not_convex.obj", "notenoughindices.obj", "polygonfaces.obj", "shared.STL",
    "singlevn.obj", "soup.stl", "spot.obj", "teapot.obj", "tube.obj", "two_objects.obj", "wallhole.obj", "woody.obj",
]  # fmt: skip


def scan(noise: float = 0.0) -> Mesh:
    """A dense sphere with a hole, a splinter that floats beside it, and a face that is invalid."""
    sphere = trimesh.creation.icosphere(5)
    radii = 1 + noise * np.random.default_rng(0).normal(size=(len(sphere.vertices), 1))
    keep = sphere.triangles_center[:, 2] < 0.995
    vertices = np.concatenate([sphere.vertices * radii, [[1.2, 0, 0], [1.21, 0, 0], [1.2, 0.01, 0]]])
    faces = np.concatenate([sphere.faces[keep], [[10242, 10243, 10244], [0, 1, 20000]]])
    colors = np.full((len(vertices), 3), 90, np.uint8)
    return Mesh(vertices.astype(np.float32), faces.astype(np.int32), colors=colors)


def test_a_scan_becomes_a_closed_manifold_of_the_asked_size() -> None:
    mesh, report = clean(scan(), CleanConfig(vertices=2000))
    assert (edges(mesh.faces).face_counts == 2).all()
    assert connected_components(mesh)[0] == 1
    assert len(mesh.vertices) == report.vertices == 2000
    assert (report.invalid_faces, report.small_components, report.small_component_faces) == (1, 1, 1)
    assert (report.holes_closed, report.holes_left, report.border_edges) == (1, 0, 0)
    assert np.abs(np.linalg.norm(mesh.vertices, axis=1) - 1).max() < 3e-3
    assert mesh.normals is not None
    assert np.einsum("ij,ij->i", mesh.normals, mesh.vertices).min() > 0.99
    assert mesh.colors is not None
    assert (mesh.colors == 90).all()
    assert 0 < report.simplify_mean_error < report.simplify_max_error < 3e-3
    assert report.notes == ()


def test_noise_is_measured_and_smoothed() -> None:
    noisy = scan(0.003)
    mesh, report = clean(noisy, CleanConfig(vertices=None))
    assert report.noise == pytest.approx(0.003, rel=0.1)
    assert np.linalg.norm(mesh.vertices, axis=1).std() < 0.5 * 0.003
    rough, report = clean(noisy, CleanConfig(vertices=None, smoothing=0.0))
    assert report.noise == 0
    assert np.linalg.norm(rough.vertices, axis=1).std() > 0.9 * 0.003


def test_steps_can_be_turned_off() -> None:
    config = CleanConfig(min_component=0.0, hole_edges=0, smoothing=0.0, vertices=None)
    mesh, report = clean(scan(), config)
    assert connected_components(mesh)[0] == 2
    assert len(mesh.faces) == len(scan().faces) - 1
    assert sorted(len(loop) for loop in boundary_loops(mesh))[0] == 3
    assert report.holes_closed == report.small_components == 0


def test_an_error_bound_stops_simplification_and_that_is_said() -> None:
    mesh, report = clean(scan(), CleanConfig(vertices=100, max_error=1e-4))
    assert len(mesh.vertices) > 100
    assert report.simplify_max_error <= 1e-4
    (note,) = report.notes
    assert (
        note == f"Simplification stopped at {len(mesh.vertices)} vertices, above 100, to stay within the error bound."
    )


def test_pieces_that_would_vanish_stop_simplification_and_that_is_said() -> None:
    wires = [trimesh.creation.cylinder(0.01, 2, sections=5).apply_translation([i, 0, 0]) for i in range(4)]
    shape = trimesh.util.concatenate(wires)
    mesh, report = clean(Mesh(np.asarray(shape.vertices), shape.faces.astype(np.int32)), CleanConfig(vertices=3))
    assert connected_components(mesh)[0] == 4
    assert "so that no piece vanishes" in report.notes[0]


def test_the_same_input_gives_the_same_bytes() -> None:
    first, second = (clean(scan(0.002), CleanConfig(vertices=1500)) for _ in range(2))
    assert first[0].vertices.tobytes() == second[0].vertices.tobytes()
    assert first[0].faces.tobytes() == second[0].faces.tobytes()
    assert first[1] == second[1]


@pytest.mark.parametrize("threads", [1, 5])
def test_the_number_of_threads_changes_nothing(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    monkeypatch.setattr(regions, "REGION_FACES", 5000)
    expected = clean(scan(0.002), CleanConfig(vertices=1500))
    monkeypatch.setattr("smr.arrays.cpu_threads", lambda: threads)
    monkeypatch.setattr(regions, "cpu_threads", lambda: threads)
    result = clean(scan(0.002), CleanConfig(vertices=1500))
    assert result[0].vertices.tobytes() == expected[0].vertices.tobytes()
    assert result[0].faces.tobytes() == expected[0].faces.tobytes()
    assert result[1] == expected[1]


def test_a_small_piece_that_touches_in_one_vertex_is_dropped() -> None:
    mesh = scan()
    tip = mesh.vertices[0]
    speck = Mesh(
        np.concatenate([mesh.vertices, tip + np.array([[0, 1e-3, 1], [1e-3, 0, 1]])]).astype(mesh.vertices.dtype),
        np.concatenate([mesh.faces, [[0, len(mesh.vertices), len(mesh.vertices) + 1]]]).astype(np.int32),
    )
    plain, _ = clean(mesh, CleanConfig(vertices=None, min_extent=0.9))
    cleaned, report = clean(speck, CleanConfig(vertices=None, min_extent=0.9))
    assert report.split_vertices == 1
    assert report.small_component_faces == 2  # with the splinter of the scan
    assert len(cleaned.faces) == len(plain.faces)


def test_cleaning_a_clean_mesh_changes_nothing() -> None:
    once, _ = clean(scan(), CleanConfig(vertices=2000))
    twice, report = clean(once, CleanConfig(vertices=2000))
    assert (twice.vertices == once.vertices).all()
    assert (twice.faces == once.faces).all()
    assert report.split_vertices == report.invalid_faces == report.holes_closed == 0


def test_every_step_is_reported() -> None:
    labels: list[str] = []

    def track(items: Iterable[Item], label: str, total: int | None = None) -> Iterator[Item]:
        labels.append(label)
        yield from items

    clean(scan(), CleanConfig(vertices=2000), track=track)
    expected = ["repairing the mesh", "closing holes", "smoothing", "simplifying", "measuring the simplified mesh"]
    assert labels == expected


@pytest.mark.parametrize("faces", [np.zeros((0, 3), np.int32), np.array([[0, 0, 1], [0, 1, 7]], np.int32)])
def test_a_mesh_without_a_valid_face_is_refused(faces: np.ndarray) -> None:
    with pytest.raises(SmrError, match="The mesh has no valid face") as caught:
        clean(Mesh(np.eye(3), faces), CleanConfig())
    assert f"(3 vertices, {len(faces)} faces)" in caught.value.cause
    assert "points alone" in caught.value.cure


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (CleanConfig(vertices=0), "--vertices is 0"),
        (CleanConfig(max_error=-0.1), "--max-error is -0.1"),
        (CleanConfig(smoothing=float("nan")), "--smoothing is nan"),
        (CleanConfig(hole_edges=-1), "--hole-edges is -1"),
    ],
)
def test_settings_that_mean_nothing_are_refused(config: CleanConfig, text: str) -> None:
    with pytest.raises(SmrError, match=text):
        clean(scan(), config)


def test_the_texture_of_a_mesh_is_left_out_and_said() -> None:
    mesh = scan()
    bare, _ = clean(mesh, CleanConfig())
    textured = TexturedMesh(mesh, np.zeros((1, 2), np.float32), np.zeros(mesh.faces.shape, np.int32), (Material(),))
    made, report = clean(textured, CleanConfig())
    assert isinstance(made, Mesh)
    assert made.vertices.tobytes() == bare.vertices.tobytes()
    assert report.notes[0] == "The texture is left out."


@pytest.mark.data
@pytest.mark.filterwarnings("ignore")  # of trimesh, about the files
@pytest.mark.parametrize("name", HARD)
def test_hard_meshes_become_oriented_manifolds(name: str, data_dir: Callable[[str], Path]) -> None:
    shape = trimesh.load(data_dir("hard_meshes") / name, process=False, force="mesh")
    mesh = Mesh(np.asarray(shape.vertices, np.float64), np.asarray(shape.faces, np.int32))
    cleaned, report = clean(mesh, CleanConfig(vertices=max(10, len(mesh.vertices) // 4)))
    assert len(cleaned.faces) == report.faces > 0
    assert edges(cleaned.faces).face_counts.max() <= 2
    assert len(np.unique(half_edges(cleaned.faces), axis=0)) == 3 * len(cleaned.faces)
    assert np.isfinite(cleaned.vertices).all()
    finite = mesh.vertices[np.isfinite(mesh.vertices).all(axis=1)]
    size = np.linalg.norm(np.ptp(finite, axis=0))
    assert (
        index_surface(drop_invalid_faces(mesh)[0]).nearest(cleaned.vertices).distances.max() < 0.1 * size
        or report.hole_faces
    )
