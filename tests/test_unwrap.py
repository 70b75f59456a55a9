import numpy as np
import pytest
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import maximum_filter, minimum_filter

from smr.errors import SmrError
from smr.mesh.unwrap import MAX_STRETCH, unwrap
from smr.mesh.unwrap.surface import triangle_areas
from smr.records import Mesh


def mesh_of(shape):
    return Mesh(np.array(shape.vertices, np.float64), np.array(shape.faces, np.int32))


def soup(count, seed):
    rng = np.random.default_rng(seed)
    vertices = rng.normal(size=(count, 1, 3)) * 3 + rng.normal(size=(count, 3, 3)) * 0.2
    return Mesh(vertices.reshape(-1, 3), np.arange(3 * count, dtype=np.int32).reshape(-1, 3))


def owners(atlas):
    """Chart of each texel whose centre a triangle covers (strictly), -1 elsewhere; and how many triangles cover it."""
    size = atlas.size
    pixels = atlas.uvs.astype(np.float64) * size
    owner = np.full((size, size), -1)
    covered = np.zeros((size, size), int)
    for (a, b, c), chart in zip(pixels[atlas.face_uvs], atlas.face_charts, strict=True):
        x0, y0 = np.floor(np.minimum(np.minimum(a, b), c)).astype(int)
        x1, y1 = np.ceil(np.maximum(np.maximum(a, b), c)).astype(int)
        x, y = np.meshgrid(np.arange(x0, x1) + 0.5, np.arange(y0, y1) + 0.5)
        inside = np.ones(x.shape, bool)
        for p, q in ((a, b), (b, c), (c, a)):
            side = (q[0] - p[0]) * (y - p[1]) - (q[1] - p[1]) * (x - p[0])
            inside &= side > 1e-3 * np.hypot(*(q - p))
        covered[y0:y1, x0:x1][inside] += 1
        owner[y0:y1, x0:x1][inside] = chart
    return owner, covered


def assert_sound(mesh, atlas, gutter=4):
    """The statements that hold for every mesh."""
    assert atlas.uvs.dtype == np.float32
    assert atlas.face_uvs.shape == mesh.faces.shape
    assert np.isfinite(atlas.uvs).all()
    assert atlas.uvs.min() >= 0
    assert atlas.uvs.max() <= 1
    assert set(np.unique(atlas.face_charts)) == set(range(atlas.charts))
    owner, covered = owners(atlas)
    assert covered.max(initial=0) <= 1
    nearby = {"size": 2 * gutter + 1, "mode": "nearest"}
    alone = maximum_filter(owner, **nearby) == minimum_filter(np.where(owner < 0, atlas.charts, owner), **nearby)
    assert alone[owner >= 0].all()


SHAPES = {
    "cube": trimesh.creation.box(),
    "sphere": trimesh.creation.icosphere(3),
    "torus": trimesh.creation.torus(1, 0.4),
    "cylinder": trimesh.creation.cylinder(1, 3),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_lie_flat_without_overlap(name):
    mesh = mesh_of(SHAPES[name])
    atlas = unwrap(mesh, size=512)
    assert_sound(mesh, atlas)
    uv_areas = triangle_areas(atlas.uvs.astype(np.float64)[atlas.face_uvs] * atlas.size) / atlas.texels_per_metre**2
    areas = SHAPES[name].area_faces
    assert uv_areas.sum() == pytest.approx(areas.sum(), rel=1e-3)
    assert (uv_areas / areas).max() < MAX_STRETCH**2


def stretch_of(mesh, atlas):
    """Singular values of surface to texture, in units of the wanted density; smallest negative where folded."""
    corners = mesh.vertices.astype(np.float64)[mesh.faces]
    lengths = np.linalg.norm(np.roll(corners, -1, axis=1) - corners, axis=2)
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    doubled = np.linalg.norm(normal, axis=1)
    x_axis = (corners[:, 1] - corners[:, 0]) / np.maximum(lengths[:, :1], 1e-30)
    y_axis = np.cross(normal / np.maximum(doubled, 1e-30)[:, None], x_axis)
    b = corners[:, 2] - corners[:, 0]
    here = np.zeros((len(corners), 2, 2))
    here[:, 0, 0], here[:, 0, 1] = lengths[:, 0], (b * x_axis).sum(axis=1)
    here[:, 1, 1] = (b * y_axis).sum(axis=1)
    uv = atlas.uvs.astype(np.float64)[atlas.face_uvs] * atlas.size / atlas.texels_per_metre
    there = np.stack([uv[:, 1] - uv[:, 0], uv[:, 2] - uv[:, 0]], axis=2)
    regular = (doubled > 0.051 * lengths.max(axis=1) ** 2) & (doubled > 1.01e-3 * doubled.mean())
    jacobian = there[regular] @ np.linalg.inv(here[regular])
    values = np.linalg.svd(jacobian, compute_uv=False)
    values[:, 1] *= np.sign(np.linalg.det(jacobian))
    return values


def heightfield(side):
    rng = np.random.default_rng(3)
    x, y = np.meshgrid(np.arange(side), np.arange(side), indexing="ij")
    z = 6 * np.sin(x / 9) * np.cos(y / 7) + rng.normal(size=x.shape) * 0.4
    i = np.arange(side * side).reshape(side, side)
    faces = np.concatenate(
        [
            np.stack([i[:-1, :-1], i[1:, :-1], i[1:, 1:]], axis=-1).reshape(-1, 3),
            np.stack([i[:-1, :-1], i[1:, 1:], i[:-1, 1:]], axis=-1).reshape(-1, 3),
        ]
    )
    return Mesh(np.stack([x, y, z], axis=-1).reshape(-1, 3) * 0.01, faces.astype(np.int32))


def moebius():
    steps = 60
    angle = np.linspace(0, 2 * np.pi, steps, endpoint=False)
    ring = np.stack([np.cos(angle), np.sin(angle), np.zeros(steps)], axis=1)
    across = ring * np.cos(angle / 2)[:, None] + np.array([0, 0, 1.0]) * np.sin(angle / 2)[:, None]
    vertices = np.stack([ring + 0.3 * across, ring - 0.3 * across], axis=1).reshape(-1, 3)
    quads = [(2 * i, 2 * i + 1, 2 * i + 3, 2 * i + 2) for i in range(steps - 1)]
    quads.append((2 * steps - 2, 2 * steps - 1, 0, 1))
    return Mesh(vertices, np.array([t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))], np.int32))


ODD = {
    "one face": Mesh(np.eye(3), np.array([[0, 1, 2]], np.int32)),
    "moebius": moebius(),
    "fin of five faces on an edge": Mesh(
        np.array([[0, 0, 0], [1, 0, 0], *[[0.5, np.cos(a), np.sin(a)] for a in range(5)]], float),
        np.array([[0, 1, k] for k in range(2, 7)], np.int32),
    ),
    "both sides of a card": Mesh(
        np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], float),
        np.array([[0, 1, 2], [0, 2, 3], [2, 1, 0], [3, 2, 0]], np.int32),
    ),
    "same face many times": Mesh(np.eye(3), np.array([[0, 1, 2]] * 20, np.int32)),
    "two balls": mesh_of(
        trimesh.util.concatenate(
            [trimesh.creation.icosphere(2), trimesh.creation.icosphere(2).apply_translation([9, 0, 0])]
        )
    ),
    "only points": Mesh(np.zeros((3, 3)), np.array([[0, 1, 2], [0, 0, 0]], np.int32)),
    "far away": Mesh(np.eye(3) * 0.01 + 5e6, np.array([[0, 1, 2]], np.int32)),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_meshes_have_a_place_for_each_face(name):
    assert_sound(ODD[name], unwrap(ODD[name], size=256))


def test_noise_stays_one_to_one_and_within_the_stretch():
    mesh = heightfield(50)
    atlas = unwrap(mesh, size=1024)
    assert_sound(mesh, atlas)
    values = stretch_of(mesh, atlas)
    assert values[:, 0].max() < MAX_STRETCH * 1.001
    assert values[:, 1].min() > 1 / MAX_STRETCH / 1.001


@pytest.mark.data
@pytest.mark.parametrize("name", ["fandisk.obj", "bunny.ply"])
def test_real_meshes(data_dir, name):
    shape = trimesh.load(data_dir("hard_meshes") / name, process=False, force="mesh")
    shape.merge_vertices(merge_tex=True, merge_norm=True)
    mesh = mesh_of(shape)
    atlas = unwrap(mesh, size=512)
    assert_sound(mesh, atlas)
    values = stretch_of(mesh, atlas)
    assert values[:, 0].max() < MAX_STRETCH * 1.001
    assert values[:, 1].min() > 1 / MAX_STRETCH / 1.001
    uv_areas = np.bincount(atlas.face_charts, triangle_areas(atlas.uvs.astype(np.float64)[atlas.face_uvs]))
    areas = np.bincount(atlas.face_charts, shape.area_faces)
    density = np.sqrt(uv_areas[areas > areas.sum() / 1e4] / areas[areas > areas.sum() / 1e4]) * atlas.size
    np.testing.assert_allclose(density, atlas.texels_per_metre, rtol=0.1)


def test_a_large_smooth_mesh_needs_few_charts_and_fills_the_texture():
    atlas = unwrap(mesh_of(trimesh.creation.icosphere(4)), size=1024)
    assert atlas.charts <= 30
    assert atlas.utilisation > 0.6


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 40), st.integers(0, 10**6), st.integers(0, 8))
def test_random_soups_sharing_vertices(count, seed, gutter):
    rng = np.random.default_rng(seed)
    vertices = rng.normal(size=(max(3, count // 2), 3))
    mesh = Mesh(vertices, rng.integers(0, len(vertices), size=(count, 3)).astype(np.int32))
    assert_sound(mesh, unwrap(mesh, size=384, gutter=gutter), gutter)


def test_the_same_mesh_gives_the_same_bytes():
    mesh = heightfield(30)
    a, b = unwrap(mesh, size=512), unwrap(mesh, size=512)
    assert a.uvs.tobytes() == b.uvs.tobytes()
    assert a.face_uvs.tobytes() == b.face_uvs.tobytes()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_number_of_threads_changes_nothing(monkeypatch, threads):
    mesh = heightfield(40)
    expected = unwrap(mesh, size=512)
    monkeypatch.setattr("smr.arrays.cpu_threads", lambda: threads)
    atlas = unwrap(mesh, size=512)
    assert atlas.uvs.tobytes() == expected.uvs.tobytes()
    assert atlas.face_uvs.tobytes() == expected.face_uvs.tobytes()


def test_a_turned_mesh_unwraps_alike():
    mesh = mesh_of(SHAPES["torus"])
    turn = trimesh.transformations.rotation_matrix(0.7, [1, 2, 3])[:3, :3]
    a, b = unwrap(mesh, size=512), unwrap(Mesh(mesh.vertices @ turn.T, mesh.faces), size=512)
    assert abs(a.charts - b.charts) <= 0.3 * a.charts + 2
    assert a.utilisation == pytest.approx(b.utilisation, abs=0.1)


def test_a_texel_size_decides_the_texture_size():
    mesh = mesh_of(SHAPES["cube"])
    atlas = unwrap(mesh, texel=0.01)
    assert atlas.texels_per_metre == pytest.approx(100)
    assert atlas.size in (256, 512)
    assert_sound(mesh, atlas)


def test_too_fine_a_texel_gives_the_largest_texture_and_says_the_density():
    atlas = unwrap(mesh_of(SHAPES["cube"]), texel=1e-5)
    assert atlas.size == 8192
    assert 1000 < atlas.texels_per_metre < 1e5


def test_too_small_a_texture_is_refused_with_a_size_that_works():
    mesh = soup(500, 1)
    with pytest.raises(SmrError, match=r"(?s)500 charts.*at least \d+ pixels") as error:
        unwrap(mesh, size=64)
    works = int(error.value.cure.split()[-2])
    assert_sound(mesh, unwrap(mesh, size=works))


def test_coordinates_that_are_not_finite_are_refused():
    with pytest.raises(SmrError, match=r"Vertex 1 .*nan"):
        unwrap(Mesh(np.array([[0, 0, 0], [np.nan, 0, 0], [1, 1, 0]]), np.array([[0, 1, 2]], np.int32)))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"size": 64, "texel": 0.1}, "not both"),
        ({"size": 0}, "from 1 to"),
        ({"size": 10000}, "from 1 to"),
        ({"gutter": -1}, "gutter"),
        ({"texel": float("nan")}, "texel"),
    ],
)
def test_wrong_arguments(arguments, says):
    with pytest.raises(ValueError, match=says):
        unwrap(ODD["one face"], **arguments)


def test_faces_that_name_no_vertex():
    with pytest.raises(ValueError, match="name vertex"):
        unwrap(Mesh(np.eye(3), np.array([[0, 1, 3]], np.int32)))


def test_soup_of_triangles():
    mesh = soup(300, 0)
    assert_sound(mesh, unwrap(mesh, size=512))


def test_a_mesh_without_faces_is_refused():
    with pytest.raises(SmrError, match="no faces"):
        unwrap(Mesh(np.zeros((3, 3)), np.zeros((0, 3), np.int32)))
