import numpy as np
import pytest
import trimesh

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
    for dy in range(gutter + 1):
        for dx in range(-gutter, gutter + 1):
            a = owner[dy:, max(dx, 0) : owner.shape[1] + min(dx, 0)]
            b = owner[: owner.shape[0] - dy, max(-dx, 0) : owner.shape[1] + min(-dx, 0)]
            assert not ((a != b) & (a >= 0) & (b >= 0)).any()


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


def test_soup_of_triangles():
    mesh = soup(300, 0)
    assert_sound(mesh, unwrap(mesh, size=512))


def test_a_mesh_without_faces_is_refused():
    with pytest.raises(SmrError, match="no faces"):
        unwrap(Mesh(np.zeros((3, 3)), np.zeros((0, 3), np.int32)))
