from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trimesh

from smr.mesh.edge_collapse import regions
from smr.mesh.edge_collapse.regions import divide
from smr.mesh.simplify import deviation, simplify
from smr.mesh.topology import boundary_loops
from smr.records import Mesh
from test_mesh_simplify import assert_closed, bumpy_sphere, euler, sheet


@pytest.fixture
def small_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regions, "REGION_FACES", 1000)


@pytest.mark.parametrize("goal", [{"faces": 8000}, {"faces": 2000}, {"vertices": 300}, {"vertices": 5}])
def test_regions_keep_the_surface_closed_and_reach_the_goal(small_regions: None, goal: dict[str, Any]) -> None:
    simple = simplify(bumpy_sphere(), **goal)
    assert_closed(simple)
    assert euler(simple) == 2
    if "faces" in goal:
        assert goal["faces"] - 2 < len(simple.faces) <= goal["faces"]
    else:
        assert len(simple.vertices) == goal["vertices"]


def test_regions_are_as_good_as_one_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = bumpy_sphere(6)
    whole = deviation(mesh, simplify(mesh, faces=8000))
    monkeypatch.setattr(regions, "REGION_FACES", 5000)
    divided = deviation(mesh, simplify(mesh, faces=8000))
    assert divided[0] < 1.03 * whole[0]
    assert divided[1] < 1.3 * whole[1]


def test_a_flat_half_leaves_its_vertices_to_the_other(small_regions: None) -> None:
    flat, bumpy = sheet(80), sheet(80, 0.3)
    points = np.concatenate([flat.vertices, bumpy.vertices + np.array([3, 0, 0])])
    mesh = Mesh(points, np.concatenate([flat.faces, bumpy.faces + len(flat.vertices)]).astype(np.int32))
    simple = simplify(mesh, vertices=1000)
    assert len(simple.vertices) == 1000
    assert (simple.vertices[:, 0] > 2).mean() > 0.8
    assert len(boundary_loops(simple)) == 2


def test_tiny_regions_end(small_regions: None) -> None:
    rng = np.random.default_rng(0)
    tetrahedra = [trimesh.creation.icosahedron().apply_translation(20 * rng.random(3)) for _ in range(500)]
    shape = trimesh.util.concatenate(tetrahedra)
    simple = simplify(Mesh(np.asarray(shape.vertices), shape.faces.astype(np.int32)), faces=1)
    assert len(simple.faces) == 4 * 500


@pytest.mark.parametrize("threads", [1, 3])
def test_the_number_of_threads_changes_nothing(
    small_regions: None, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    mesh = bumpy_sphere()
    expected = simplify(mesh, faces=3000)
    monkeypatch.setattr("smr.arrays.cpu_threads", lambda: threads)
    monkeypatch.setattr(regions, "cpu_threads", lambda: threads)
    result = simplify(mesh, faces=3000)
    assert result.vertices.tobytes() == expected.vertices.tobytes()
    assert result.faces.tobytes() == expected.faces.tobytes()


@pytest.mark.parametrize("count", [2, 8, 32])
def test_regions_are_boxes_of_even_size(count: int) -> None:
    mesh = bumpy_sphere()
    labels = divide(np.asarray(mesh.vertices, np.float64), mesh.faces, count)
    sizes = np.bincount(labels, minlength=count)
    assert len(sizes) == count
    assert sizes.max() < 1.1 * sizes.min()
    corner = mesh.vertices[mesh.faces[:, 0]]
    for a in range(count):
        for b in range(a):
            low, high = corner[labels == a], corner[labels == b]
            assert ((low.min(axis=0) >= high.max(axis=0)) | (high.min(axis=0) >= low.max(axis=0))).any()
