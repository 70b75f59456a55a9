import numpy as np
import pytest
import trimesh
import warp as wp
from hypothesis import given
from hypothesis import strategies as st

from smr.arrays import launch_chunked, resolve_device
from smr.mesh.unwrap.charts import cluster
from smr.mesh.unwrap.check import faulty_charts, planar_charts
from smr.mesh.unwrap.deal import PILES, deal
from smr.mesh.unwrap.flatten import flatten, relax, singular_values
from smr.mesh.unwrap.grid import choose_grid
from smr.mesh.unwrap.outlines import turn_upright
from smr.mesh.unwrap.pack import _rasterise, apply, pack
from smr.mesh.unwrap.straighten import straighten
from smr.mesh.unwrap.surface import build_surface, cut_charts, part_of, twin_edges


@pytest.fixture(autouse=True)
def _warp():
    resolve_device("cpu")


def as_surface(shape):
    return build_surface(np.array(shape.vertices, np.float64), np.array(shape.faces, np.int32))


def whole(surface):
    faces = np.arange(len(surface.faces))
    return faces, cut_charts(surface.twins, np.zeros(len(faces), np.int32), faces)


def strip(angle, steps=40):
    """A flat ring of quads around the origin through `angle`, as faces and plane coordinates."""
    a = np.linspace(0, angle, steps + 1)
    circle = np.stack([np.cos(a), np.sin(a)], axis=1)
    points = np.stack([circle, 1.3 * circle], axis=1).reshape(-1, 2)
    quads = [(2 * i, 2 * i + 1, 2 * i + 3, 2 * i + 2) for i in range(steps)]
    return np.array([t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))], np.int32), points


def test_twin_edges_of_a_cube_lead_back():
    surface = as_surface(trimesh.creation.box())
    twins = surface.twins.ravel()
    np.testing.assert_array_equal(twins[twins], np.arange(36))


def test_an_edge_of_three_faces_and_a_turned_neighbour_have_no_twins():
    fin = twin_edges(np.array([[0, 1, 2], [1, 0, 3], [0, 1, 4]], np.int32), 5)
    turned = twin_edges(np.array([[0, 1, 2], [0, 1, 3]], np.int32), 4)
    assert (fin < 0).all()
    assert (turned < 0).all()


def test_triangles_laid_flat_keep_their_lengths():
    surface = as_surface(trimesh.creation.icosphere(2))
    flat = np.linalg.norm(np.roll(surface.flat, -1, axis=1) - surface.flat, axis=2)
    np.testing.assert_allclose(flat, surface.lengths, rtol=1e-9)


def test_a_cube_falls_into_its_six_sides():
    surface = as_surface(trimesh.creation.box().subdivide().subdivide())
    n = len(surface.faces)
    labels = cluster(
        surface, np.zeros(n, np.int32), np.zeros(n, np.int32), np.full(n, 0.9), np.full(n, np.inf), surface.normals
    )
    assert len(np.unique(labels)) == 6
    for label in np.unique(labels):
        assert np.ptp(surface.normals[labels == label], axis=0).max() < 1e-9
    np.testing.assert_array_equal(straighten(surface, labels), labels)


def test_no_cluster_passes_the_largest_area_or_leaves_its_label():
    surface = as_surface(trimesh.creation.icosphere(3))
    n = len(surface.faces)
    parents = (np.arange(n) % 2).astype(np.int32)
    labels = cluster(surface, parents, np.zeros(n, np.int32), np.full(n, 0.2), np.full(n, 9.0), surface.normals)
    assert np.bincount(labels, surface.areas).max() <= 9.0
    np.testing.assert_array_equal(parents[labels], parents)


def test_piles_of_labels_do_not_change_their_clusters():
    surface = as_surface(trimesh.creation.icosphere(3))
    parents = (np.arange(len(surface.faces)) // 100).astype(np.int32)
    n, limit, largest = len(parents), np.full(len(parents), 0.5), np.full(len(parents), 5.0)
    together = cluster(surface, parents, np.zeros(n, np.int32), limit, largest, surface.normals)
    apart = cluster(surface, parents, parents, limit, largest, surface.normals)
    np.testing.assert_array_equal(apart, together)


def straighten_in_numpy(surface, labels, rounds=6):
    across = surface.twins // 3
    there = (surface.twins >= 0) & (labels[across] >= 0) & (labels >= 0)[:, None]
    labels = labels.copy()
    faces = np.arange(len(labels))
    for turn in range(rounds):
        around = np.where(there, labels[across], -1)
        own = (surface.lengths * (around == labels[:, None])).sum(axis=1)
        gain = np.stack([(surface.lengths * (around == around[:, [k]])).sum(axis=1) - own for k in range(3)], axis=1)
        gain[(around < 0) | (around == labels[:, None])] = -1.0
        best = gain.argmax(axis=1)
        most = gain[faces, best]
        rival = np.where(there, most[across], -1.0).max(axis=1)
        lead = (most > 1e-9) & ((most > rival) | ((most == rival) & (faces % 2 == turn % 2)))
        labels[lead] = around[faces, best][lead]
    return labels


def test_straightening_is_its_numpy_twin():
    ball = trimesh.creation.icosphere(4)
    ball.vertices += np.random.default_rng(0).normal(size=ball.vertices.shape) * 0.003
    surface = as_surface(ball)
    labels = np.random.default_rng(1).integers(-1, 4, len(surface.faces)).astype(np.int32)
    result = straighten(surface, labels)
    np.testing.assert_array_equal(result, straighten_in_numpy(surface, labels))
    assert (result != labels).sum() > 1000


@given(st.lists(st.integers(0, 900), max_size=300))
def test_each_chart_is_dealt_once_to_piles_of_even_size(sizes):
    piles = deal(np.array(sizes, np.int64))
    np.testing.assert_array_equal(np.sort(piles[piles >= 0]), np.arange(len(sizes)))
    assert len(piles) <= PILES
    if sizes:
        assert np.ptp((piles >= 0).sum(axis=1)) <= 1
        assert np.ptp(np.append(sizes, 0)[piles].sum(axis=1)) <= max(sizes)


def test_a_part_has_the_twins_that_it_holds():
    surface = as_surface(trimesh.creation.icosphere(2))
    chosen = np.random.default_rng(0).permutation(len(surface.faces))[:200]
    part = part_of(surface, chosen)
    face, k = np.nonzero(part.twins >= 0)
    twin = part.twins[face, k]
    np.testing.assert_array_equal(3 * chosen[twin // 3] + twin % 3, surface.twins[chosen[face], k])
    inside = (surface.twins[chosen] >= 0) & np.isin(surface.twins[chosen] // 3, chosen)
    np.testing.assert_array_equal(part.twins >= 0, inside)


def test_a_rolled_sheet_unrolls_without_stretch():
    sheet = np.stack(np.meshgrid(np.linspace(0, 2.5, 30), np.linspace(0, 1, 15), indexing="ij"), axis=-1).reshape(-1, 2)
    i = np.arange(30 * 15).reshape(30, 15)
    faces = np.concatenate(
        [
            np.stack([i[:-1, :-1], i[1:, :-1], i[1:, 1:]], axis=-1).reshape(-1, 3),
            np.stack([i[:-1, :-1], i[1:, 1:], i[:-1, 1:]], axis=-1).reshape(-1, 3),
        ]
    ).astype(np.int32)
    rolled = np.stack([np.sin(sheet[:, 0]), sheet[:, 1], np.cos(sheet[:, 0])], axis=1)
    surface = build_surface(rolled, faces)
    chosen, cut = whole(surface)
    uv = flatten(surface, chosen, cut)
    np.testing.assert_allclose(singular_values(surface.flat, uv[cut.faces]), 1.0, atol=0.02)
    assert not faulty_charts(surface.flat, surface.regular, cut, uv).any()


def test_relaxing_undoes_a_fold():
    shape = trimesh.creation.icosphere(3)
    shape.update_faces(shape.triangles_center[:, 2] > 0.6)
    surface = as_surface(shape)
    chosen, cut = whole(surface)
    uv = flatten(surface, chosen, cut)
    inner = np.linalg.norm(uv, axis=1).argmin()
    uv[inner] += [3.0, 0.4]
    assert singular_values(surface.flat, uv[cut.faces])[:, 1].min() < 0
    values = singular_values(surface.flat, relax(surface.flat, cut, uv)[cut.faces])
    assert values[:, 1].min() > 0.5
    assert values[:, 0].max() < 2


@pytest.mark.parametrize(("turns", "overlaps"), [(0.8, False), (1.4, True), (2.5, True)])
def test_a_strip_that_runs_over_itself_is_found(turns, overlaps):
    faces, points = strip(2 * np.pi * turns)
    rising = np.concatenate([points, np.zeros((len(points), 1))], axis=1)
    surface = build_surface(rising, faces)
    _, cut = whole(surface)
    uv = np.zeros((len(cut.vertex_charts), 2))
    uv[cut.faces] = points[faces] / surface.scale
    assert faulty_charts(surface.flat, surface.regular, cut, uv).tolist() == [overlaps]


def test_a_strip_that_lies_exactly_on_itself_is_found():
    faces, points = strip(4 * np.pi, steps=40)
    surface = build_surface(np.concatenate([points, np.zeros((len(points), 1))], axis=1), faces)
    _, cut = whole(surface)
    uv = np.zeros((len(cut.vertex_charts), 2))
    uv[cut.faces] = points[faces] / surface.scale
    assert faulty_charts(surface.flat, surface.regular, cut, uv).tolist() == [True]


def test_only_surfaces_with_border_and_without_handles_are_planar():
    def planar(shape):
        return planar_charts(whole(as_surface(shape))[1]).tolist()

    tube = trimesh.creation.cylinder(1, 2)
    tube.update_faces(np.abs(tube.face_normals[:, 2]) < 0.5)
    torus = trimesh.creation.torus(1, 0.4)
    pierced = torus.copy()
    pierced.update_faces(np.arange(len(torus.faces)) > 0)
    assert planar(trimesh.creation.icosphere(1)) == [False]
    assert planar(torus) == [False]
    assert planar(pierced) == [False]
    assert planar(tube) == [True]


def test_a_raster_has_every_cell_that_a_triangle_touches():
    rng = np.random.default_rng(5)
    corners = rng.uniform(0, 12, size=(1, 3, 2))
    bitmap = wp.zeros(144, dtype=wp.uint8, device="cpu")
    inputs = [
        wp.array(corners, dtype=wp.vec2d, device="cpu"),
        wp.array(np.array([0, 1], np.int32), device="cpu"),
        wp.array(np.array([[12, 12]], np.int32), device="cpu"),
        wp.array(np.array([0, 144]), dtype=wp.int64, device="cpu"),
    ]
    launch_chunked(_rasterise, 1, inputs, outputs=[bitmap], device="cpu")
    weights = rng.dirichlet([0.6, 0.6, 0.6], size=400_000)
    cells = np.floor(weights @ corners[0]).astype(int)
    twin = np.zeros((12, 12), np.uint8)
    twin[cells[:, 1], cells[:, 0]] = 1
    got = bitmap.numpy().reshape(12, 12)
    assert (got >= twin).all()
    assert got.sum() - twin.sum() <= 2  # corners of cells that no sample hits


def test_packed_boxes_stay_inside_and_apart():
    surface = as_surface(trimesh.creation.icosphere(2))
    faces = np.arange(len(surface.faces))
    cut = cut_charts(surface.twins, faces.astype(np.int32), faces)  # a chart each
    outlines = turn_upright(cut, surface.flat, 2)
    grid = choose_grid(512, 3, cut.count)
    packing = pack(outlines, grid, 16.0, grid.side)
    assert packing is not None
    pixels = apply(outlines, grid, packing)
    margin = grid.margin * grid.cell
    assert pixels.min() >= margin - 1e-9
    assert pixels.max() <= 512 - margin + 1e-9
    lengths = np.linalg.norm(np.roll(pixels, -1, axis=1) - pixels, axis=2)
    np.testing.assert_allclose(lengths, 16 * surface.lengths[outlines.order], rtol=1e-9)
    assert pack(outlines, grid, 60.0, grid.side) is None
