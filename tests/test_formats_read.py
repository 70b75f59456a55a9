"""Files read: real ones with known counts, and small ones with one oddity each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from format_samples import (
    colored_mesh,
    corner_normals,
    corner_rows,
    is_closed,
    material_of_faces,
    picture,
    textured_mesh,
)
from smr.errors import SmrError
from smr.formats import FORMATS, Model, read_mesh, read_model, write_mesh
from smr.formats.model import geometry
from smr.records import Material, Mesh, TexturedMesh

ALL_ENDINGS = [ending for form in FORMATS for ending in form.endings if ending != ".usd"]  # .usd is .usdc
FACES = {
    "BoxTextured.ply": 12, "CesiumMilkTruck.glb": 3624, "Duck.glb": 4212, "armchair.obj": 18400, "ballA.off": 3796,
    "beetle.obj": 2053, "bunny.ply": 16301, "chair_model.obj": 12756, "comments.off": 12, "cycloidal.ply": 43368,
    "fandisk.obj": 12946, "far_away.obj": 5804, "far_away.ply": 5804, "fuze.obj": 1000, "fuze.ply": 1000,
    "ico4.obj": 1280, "joined_tetrahedra.obj": 8, "large_block_obb.STL": 12, "multibody.stl": 32,
    "nan_vertex.ply": 315, "nancolor.obj": 12, "negative_indices.obj": 12, "not_convex.obj": 96,
    "notenoughindices.obj": 1, "polygonfaces.obj": 3, "shared.STL": 24, "singlevn.obj": 2, "soup.stl": 100,
    "spot.obj": 5856, "teapot.obj": 6320, "tube.obj": 120, "two_objects.obj": 16, "wallhole.obj": 66, "woody.obj": 1267,
}  # fmt: skip
CUT_OTHERWISE = {"nan_vertex.ply", "notenoughindices.obj", "polygonfaces.obj", "wallhole.obj"}
"""trimesh cuts their concave polygons as fans, or keeps less of them."""
REFUSED = {
    "empty.obj": "has no vertices and no faces: it is empty",
    "empty.ply": "has no vertices and no faces: it is empty",
    "empty.stl": "has no vertices and no faces: it is empty",
    "points_ascii.ply": "has 5 points and has no faces: a point cloud",
    "points_bin.ply": "has 5 points and has no faces: a point cloud",
    "points_emptyface.ply": "has 1024 points and has no faces: a point cloud",
}


def said(model: Model) -> str:
    return "\n".join(finding.cause for finding in model.findings)


def texts(tmp_path: Path, name: str, text: str) -> Path:
    (tmp_path / name).write_text(text)
    return tmp_path / name


@pytest.mark.data
def test_every_hard_mesh_has_its_faces_or_is_refused(data_dir: Any) -> None:
    folder = data_dir("hard_meshes")
    endings = {ending for form in FORMATS for ending in form.endings}
    names = {path.name for path in folder.iterdir() if path.suffix.lower() in endings}
    assert names == FACES.keys() | REFUSED.keys()
    for name, faces in FACES.items():
        mesh = geometry(read_mesh(folder / name))
        assert len(mesh.faces) == faces, name
        assert np.isfinite(mesh.vertices).all(), name
    for name, text in REFUSED.items():
        with pytest.raises(SmrError, match=text):
            read_mesh(folder / name)


@pytest.mark.data
@pytest.mark.parametrize("name", sorted(set(FACES) - CUT_OTHERWISE))
def test_hard_meshes_have_the_corners_that_trimesh_finds(data_dir: Any, name: str) -> None:
    path = data_dir("hard_meshes") / name
    mesh = geometry(read_mesh(path))
    peer = trimesh.load_scene(path, process=False, skip_materials=True).to_mesh()
    ours = np.sort(mesh.vertices[mesh.faces].astype(np.float64).mean(axis=1), axis=0)
    theirs = np.sort(peer.triangles.mean(axis=1), axis=0)
    np.testing.assert_allclose(ours, theirs, atol=2e-6 * np.ptp(peer.vertices, axis=0).max())


@pytest.mark.data
def test_textures_of_hard_meshes(data_dir: Any) -> None:
    folder = data_dir("hard_meshes")
    for name in ("fuze.obj", "fuze.ply"):  # its texture has a space in its name
        model = read_model(folder / name)
        assert isinstance(model.mesh, TexturedMesh)
        np.testing.assert_array_equal(model.mesh.materials[0].texture, np.asarray(Image.open(folder / "fuze uv.jpg")))
        assert not model.findings
    spot = read_model(folder / "spot.obj")  # names no material file
    assert isinstance(spot.mesh, TexturedMesh)
    np.testing.assert_array_equal(spot.mesh.materials[0].texture, np.asarray(Image.open(folder / "spot_texture.png")))
    assert "the only image named after it, spot_texture.png, is taken as its texture" in said(spot)
    armchair = read_mesh(folder / "armchair.obj")
    assert isinstance(armchair, TexturedMesh)
    assert [material.name for material in armchair.materials] == ["M_Armchair_Cushions", "M_Armchair_Legs"]
    assert set(material_of_faces(armchair)) == {0, 1}
    assert "'fat_pipe.mtl' is not beside tube.obj" in said(read_model(folder / "tube.obj"))
    truck = read_mesh(folder / "CesiumMilkTruck.glb")
    assert isinstance(truck, TexturedMesh)
    assert [material.name for material in truck.materials] == ["truck", "glass", "window_trim", "wheels"]
    assert [material.texture is None for material in truck.materials] == [False, True, True, False]


@pytest.mark.data
def test_fuze_has_the_same_texture_coordinates_as_obj_and_ply(data_dir: Any) -> None:
    one, two = (read_mesh(data_dir("hard_meshes") / name) for name in ("fuze.obj", "fuze.ply"))
    np.testing.assert_allclose(corner_rows(one), corner_rows(two), atol=2e-6)


@pytest.mark.data
def test_what_is_odd_is_said(data_dir: Any) -> None:
    folder = data_dir("hard_meshes")
    nan = read_model(folder / "nan_vertex.ply")
    assert "1 vertices are not finite numbers; they and their 5 faces are left out" in said(nan)
    few = read_model(folder / "notenoughindices.obj")
    assert "1 faces with fewer than three corners are left out" in said(few)
    colored = read_mesh(folder / "nancolor.obj")
    assert isinstance(colored, Mesh)
    assert colored.colors is not None
    assert colored.colors[0].tolist() == [137, 254, 138]
    assert colored.colors[6, 0] == 0  # nan


@pytest.mark.data
def test_far_away_keeps_its_digits(data_dir: Any) -> None:
    folder = data_dir("hard_meshes")
    lines = (folder / "far_away.obj").read_text().splitlines()
    exact = np.array([line.split()[1:] for line in lines if line.startswith("v ")], float)
    mesh = read_mesh(folder / "far_away.obj")
    assert isinstance(mesh, Mesh)
    np.testing.assert_array_equal(mesh.vertices, exact)
    np.testing.assert_allclose(geometry(read_mesh(folder / "far_away.ply")).vertices, exact, atol=1e-6)


@pytest.mark.parametrize("ending", ALL_ENDINGS)
@pytest.mark.parametrize("kind", ["colors", "one material", "two materials"])
def test_round_trip(tmp_path: Path, ending: str, kind: str) -> None:
    original = {"colors": colored_mesh(), "one material": textured_mesh(1), "two materials": textured_mesh(2)}[kind]
    path = write_mesh(original, tmp_path / f"模型 1{ending}", world_up="y")
    model = read_model(path)
    mesh = geometry(model.mesh)
    assert model.world_up == "y"
    assert model.findings == ()
    assert is_closed(mesh)
    if ending in (".stl", ".off"):
        np.testing.assert_array_equal(corner_rows(mesh), corner_rows(geometry(original)))
        return
    np.testing.assert_allclose(corner_rows(model.mesh), corner_rows(original), rtol=0, atol=1e-7)
    np.testing.assert_allclose(corner_normals(model.mesh), corner_normals(original), atol=2e-6)
    if isinstance(original, Mesh):
        assert isinstance(model.mesh, Mesh)
        assert original.colors is not None
        assert mesh.colors is not None
        np.testing.assert_array_equal(mesh.colors[mesh.faces], original.colors[original.faces])
        return
    assert isinstance(model.mesh, TexturedMesh)
    assert len(model.mesh.materials) == len(original.materials)
    np.testing.assert_array_equal(model.mesh.materials[0].texture, picture())
    if kind == "two materials" and ending != ".ply":
        np.testing.assert_allclose(model.mesh.materials[1].base_color, original.materials[1].base_color, atol=1e-6)
        assert model.mesh.materials[1].metallic == 0.5
        assert model.mesh.materials[0].roughness == 0.75


def any_model(seed: int, dtype: type, textured: bool) -> Mesh | TexturedMesh:
    """Any triangles: loose ones, doubled ones, ones without area, vertices that nothing uses."""
    rng = np.random.default_rng(seed)
    vertices = int(rng.integers(3, 12))
    faces = rng.integers(0, vertices, (rng.integers(1, 12), 3)).astype(np.int32)
    points = (rng.normal(size=(vertices, 3)) * 10.0 ** rng.integers(-6, 7)).astype(dtype)
    mesh = Mesh(points, faces)
    if not textured:
        return mesh
    uvs = rng.uniform(-2, 3, (rng.integers(1, 9), 2)).astype(np.float32)
    face_uvs = rng.integers(0, len(uvs), faces.shape).astype(np.int32)
    materials = tuple(Material(f"m{i}", (0.25 * i, 0.5, 0.75, 1.0)) for i in range(int(rng.integers(1, 4))))
    chosen = rng.integers(0, len(materials), len(faces)).astype(np.int32)
    return TexturedMesh(mesh, uvs, face_uvs, materials, chosen)


@given(
    seed=st.integers(0, 2**32 - 1),
    dtype=st.sampled_from([np.float32, np.float64]),
    textured=st.booleans(),
    ending=st.sampled_from([".glb", ".obj", ".ply", ".usdc", ".off", ".stl"]),
)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_triangles_survive(tmp_path: Path, seed: int, dtype: type, textured: bool, ending: str) -> None:
    model = any_model(seed, dtype, textured)
    read = read_mesh(write_mesh(model, tmp_path / f"a{ending}", world_up="y"))
    size = float(np.ptp(geometry(model).vertices, axis=0).max())
    expected, found = corner_rows(model), corner_rows(read)
    if ending in (".off", ".stl"):
        expected = corner_rows(geometry(model))
    np.testing.assert_allclose(found[:, :9], expected[:, :9], rtol=0, atol=1e-6 * size)
    np.testing.assert_allclose(found[:, 9:], expected[:, 9:], rtol=0, atol=1e-6)
    if isinstance(model, TexturedMesh) and isinstance(read, TexturedMesh) and ending != ".ply":
        ours, theirs = (
            np.array([material.base_color for material in one.materials])[np.sort(material_of_faces(one))]
            for one in (model, read)
        )
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_obj_line_by_line(tmp_path: Path) -> None:
    text = """# a comment
        mtllib nowhere.mtl
v 0 0 0 1.0 0.5 0
v 1 0 0 1 1 1 # with a comment
v 1 1 0 0 0 0
\tv 0 1 \\
 0 0.2 0.4 0.6
vt 0 0
vt 1 0 0
vt 1 1
vt 0 1
o a thing
s off
f 1/1 2/2 3/3 4/4
f -4/-4 -3/-3 -2/-2
f 1 3 4
l 1 2
"""
    model = read_model(texts(tmp_path, "a.obj", text.replace("\n", "\r\n")))
    assert isinstance(model.mesh, TexturedMesh)
    mesh = model.mesh.mesh
    assert mesh.faces.tolist() == [[0, 1, 2], [0, 2, 3], [0, 1, 2], [0, 2, 3]]
    assert mesh.vertices.tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]
    assert mesh.colors is not None
    assert mesh.colors.tolist() == [[255, 128, 0], [255, 255, 255], [0, 0, 0], [51, 102, 153]]
    found = model.mesh.uvs[model.mesh.face_uvs][:3].tolist()
    assert found == [[[0, 0], [1, 0], [1, 1]], [[0, 0], [1, 1], [0, 1]], [[0, 0], [1, 0], [1, 1]]]
    assert "'nowhere.mtl' is not beside a.obj" in said(model)


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ("v 0 0\nf 1 1 1\n", r"'v 0 0' near line 1 is not what OBJ has there|near line 1"),
        ("v 0 0 0\nv 1 0 0\nv 0 x 0\nf 1 2 3\n", "'x' near line 3 is not what OBJ has there"),
        ("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 9\n", r"refers to vertex 8 \(counted from 0\) of 3"),
        ("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 -9\n", "refers to vertex .* of 3"),
        ("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 0\n", "'0' near line"),
        ("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 a\n", "'a' near line 4"),
        ("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 99999999999999999999999\n", "refers to vertex"),
    ],
)
def test_obj_refusals(tmp_path: Path, lines: str, text: str) -> None:
    with pytest.raises(SmrError, match=text):
        read_mesh(texts(tmp_path, "a.obj", lines))


def test_sharp_edges_stay_sharp(tmp_path: Path) -> None:
    """A cube whose faces have their own normals: 8 places, 24 vertices."""
    lines = [f"v {x} {y} {z}" for x in (0, 1) for y in (0, 1) for z in (0, 1)]
    lines += ["vn -1 0 0", "vn 2 0 0", "vn 0 -1 0", "vn 0 1 0", "vn 0 0 -1", "vn 0 0 1"]
    quads = [(1, 2, 4, 3), (5, 7, 8, 6), (1, 5, 6, 2), (3, 4, 8, 7), (1, 3, 7, 5), (2, 6, 8, 4)]
    lines += ["f " + " ".join(f"{v}//{n}" for v in quad) for n, quad in enumerate(quads, 1)]
    for ending in (".obj", ".glb", ".usdc", ".ply"):
        mesh = read_mesh(texts(tmp_path, "cube.obj", "\n".join(lines)))
        mesh = read_mesh(write_mesh(mesh, tmp_path / f"b{ending}", world_up="y"))
        assert isinstance(mesh, Mesh)
        assert len(mesh.vertices) == 24
        assert mesh.normals is not None
        a, b, c = (mesh.vertices[mesh.faces[:, i]] for i in range(3))
        normals = np.cross(b - a, c - a)
        for corner in range(3):
            np.testing.assert_allclose(mesh.normals[mesh.faces[:, corner]], normals, atol=1e-6)


def test_ply_in_all_orders(tmp_path: Path) -> None:
    """Text, little and big endian hold the same polygons of three to five corners."""
    points = np.array([(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0.5, 2, 0)], "f4")
    polygons = [(0, 1, 2), (0, 1, 2, 3), (0, 1, 2, 4, 3), (2, 4, 3)] * 3
    found = []
    for order, name in (("", "ascii"), ("<", "binary_little_endian"), (">", "binary_big_endian")):
        header = (
            f"ply\nformat {name} 1.0\ncomment hello\nobj_info x\nelement vertex 5\nproperty float x\nproperty float y\n"
            "property float z\nproperty uchar red\nproperty uchar green\nproperty uchar blue\n"
            f"element face {len(polygons)}\nproperty uchar flag\nproperty list uchar int vertex_index\n"
            "property list uchar float texcoord\nend_header\n"
        )
        body = b""
        for i, point in enumerate(points):
            if order:
                body += point.astype(order + "f4").tobytes() + bytes([i, 2 * i, 3 * i])
            else:
                body += (" ".join(map(str, [*point, i, 2 * i, 3 * i])) + "\n").encode()
        for polygon in polygons:
            uv = points[list(polygon), :2].ravel() if len(polygon) > 3 else np.zeros(0, "f4")
            if order:
                body += bytes([9, len(polygon)]) + np.array(polygon, order + "i4").tobytes()
                body += bytes([len(uv)]) + uv.astype(order + "f4").tobytes()
            else:
                body += (" ".join(map(str, [9, len(polygon), *polygon, len(uv), *uv])) + "\n").encode()
        (tmp_path / "a.ply").write_bytes(header.encode() + body)
        found.append(read_mesh(tmp_path / "a.ply"))
    for mesh in found:
        assert isinstance(mesh, TexturedMesh)
        assert len(mesh.mesh.faces) == 3 * (1 + 2 + 3 + 1)
        np.testing.assert_array_equal(corner_rows(mesh), corner_rows(found[0]))
        assert mesh.mesh.colors is not None
        assert mesh.mesh.colors.tolist() == [[i, 2 * i, 3 * i] for i in range(5)]
        rows = corner_rows(mesh)
        assert (rows[1, 9:] == rows[1, [0, 1, 3, 4, 6, 7]]).all()  # the quad's texture coordinates are its x and y
        assert (rows[0, 9:] == 0).all()


def test_ply_strips(tmp_path: Path) -> None:
    text = """ply
format ascii 1.0
element vertex 6
property double x
property double y
property double z
element tristrips 2
property list int int vertex_indices
end_header
0 0 0
1 0 0
0 1 0
1 1 0
0 2 0
1 2 0
7 0 1 2 3 -1 2 3
3 4 3 5
"""
    mesh = read_mesh(texts(tmp_path, "a.ply", text))
    assert isinstance(mesh, Mesh)
    assert mesh.faces.tolist() == [[0, 1, 2], [2, 1, 3], [4, 3, 5]]


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ("plx\n", "does not begin with the word ply"),
        ("ply\nformat ascii 1.0\n", "its header has no end within 64 KB"),
        ("ply\nelement vertex 1\nproperty float x\nend_header\n", "its header names no format"),
        ("ply\nformat ascii 1.0\nelement vertex many\nend_header\n", "'element vertex many' is not understood"),
        ("ply\nformat ascii 1.0\nelement vertex -3\nend_header\n", "'element vertex -3' is not understood"),
        (
            "ply\nformat ascii 1.0\nelement vertex 1\nproperty text x\nend_header\n",
            "'property text x' is not understood",
        ),
        ("ply\nformat ascii 1.0\nelement face 0\nend_header\n", "it has no vertices with x, y and z"),
        (
            "ply\nformat binary_little_endian 1.0\nelement vertex 1000000000000\nproperty float x\nend_header\nabc",
            "promises 1000000000000 rows of vertex, and it ends before",
        ),
        (
            "ply\nformat ascii 1.0\nelement vertex 1000000000000\nproperty float x\nend_header\n1 2",
            "promises 1000000000000 numbers",
        ),
        ("ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nend_header\nzero", "'zero' stands where a number"),
    ],
)
def test_ply_refusals(tmp_path: Path, header: str, text: str) -> None:
    with pytest.raises(SmrError, match=text):
        read_mesh(texts(tmp_path, "a.ply", header))


def test_stl_text_and_binary_are_the_same(tmp_path: Path) -> None:
    mesh = colored_mesh()
    peer = trimesh.Trimesh(mesh.vertices, mesh.faces, process=False)
    (tmp_path / "text.stl").write_text(peer.export(file_type="stl_ascii"))
    (tmp_path / "binary.stl").write_bytes(peer.export(file_type="stl"))
    one, two = read_mesh(tmp_path / "text.stl"), read_mesh(tmp_path / "binary.stl")
    assert len(geometry(one).vertices) == len(geometry(two).vertices) == len(mesh.vertices)
    np.testing.assert_allclose(corner_rows(one), corner_rows(two), atol=1e-7)
    assert is_closed(geometry(two))


def test_stl_refusals(tmp_path: Path) -> None:
    data = write_mesh(colored_mesh(), tmp_path / "a.stl").read_bytes()
    (tmp_path / "a.stl").write_bytes(data[:-1])
    with pytest.raises(SmrError, match=r"promises 32 triangles \(1684 bytes\), and it has 1683 bytes"):
        read_mesh(tmp_path / "a.stl")
    (tmp_path / "a.stl").write_bytes(data + b"more")
    assert "4 bytes after the last triangle are left out" in said(read_model(tmp_path / "a.stl"))
    for text, word in (
        ("what is this", "neither a text nor a binary STL"),
        ("solid\nfacet\nvertex 0 0\n", "a vertex has not three numbers"),
        ("solid\nvertex 0 0 zero\n", "'zero' stands where a number should"),
        ("solid\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\n", "before the word endsolid"),
    ):
        with pytest.raises(SmrError, match=word):
            read_mesh(texts(tmp_path, "b.stl", text))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("hello", "does not begin with the word OFF"),
        ("OFF BINARY\n", "binary or more than three-dimensional"),
        ("4OFF\n1 1 1\n", "binary or more than three-dimensional"),
        ("OFF\n", "numbers of vertices and faces is missing"),
        ("OFF\n3 x 0\n", "'x' stands where a number should"),
        ("OFF\n1000000000000 1 0\n0 0 0\n", "promises 1000000000000 vertices and 1 faces, and 1 lines follow"),
        ("OFF\n1 1 0\n0 0\n3 0 0 0\n", "a vertex has fewer than three numbers"),
        ("OFF\n1 1 0\n0 0 0\n3 0 0\n", "a face has fewer numbers than it says"),
        ("OFF\n1 1 0\n0 0 0\n3 0 0 7\n", "refers to vertex 7"),
    ],
)
def test_off_refusals(tmp_path: Path, text: str, word: str) -> None:
    with pytest.raises(SmrError, match=word):
        read_mesh(texts(tmp_path, "a.off", text))


def test_off_with_counts_in_the_first_line(tmp_path: Path) -> None:
    mesh = read_mesh(texts(tmp_path, "a.off", "OFF 3 1 0\n0 0 0\n1 0 0\n\n0 1 0\n3 0 1 2 255 0 0\n"))
    assert geometry(mesh).faces.tolist() == [[0, 1, 2]]


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(SmrError, match=r"a\.obj is not there"):
        read_mesh(tmp_path / "a.obj")
    (tmp_path / "b.obj").mkdir()
    with pytest.raises(SmrError, match=r"b\.obj is a folder"):
        read_mesh(tmp_path / "b.obj")
    (tmp_path / "c.obj").write_bytes(b"")
    with pytest.raises(SmrError, match=r"c\.obj is an empty file"):
        read_mesh(tmp_path / "c.obj")
    (tmp_path / "d.obj").write_bytes(b"v 0 0 0\n\0\0\0")
    with pytest.raises(SmrError, match="it is not text, as OBJ is"):
        read_mesh(tmp_path / "d.obj")
    with pytest.raises(SmrError, match=r"ends in \.txt, which is no mesh format"):
        read_mesh(tmp_path / "a.txt")


@pytest.mark.parametrize(
    "name", ["../secret.png", "/etc/passwd", "C:\\secret.png", "http://example.com/a.png", "link.png"]
)
def test_nothing_outside_the_folder_is_opened(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    Image.fromarray(picture()).save(tmp_path / "secret.png")
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    triangle = "v 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\nvt 1 0\nvt 0 1\nusemtl m\nf 1/1 2/2 3/3\n"
    texts(folder, "a.mtl", f"newmtl m\nKd 1 0 0\nmap_Kd {name}\n")
    model = read_model(texts(folder, "a.obj", "mtllib a.mtl\n" + triangle))
    assert isinstance(model.mesh, TexturedMesh)
    assert model.mesh.materials[0].texture is None
    assert "lies outside the folder of a.obj" in said(model)
    texts(tmp_path, "secret.mtl", "newmtl m\nKd 1 0 0\n")
    model = read_model(texts(folder, "b.obj", "mtllib ../secret.mtl\n" + triangle))
    assert "'../secret.mtl' lies outside the folder of b.obj" in said(model)
    ply = (
        f"ply\nformat ascii 1.0\ncomment TextureFile {name}\nelement vertex 3\nproperty float x\nproperty float y\n"
        "property float z\nproperty float s\nproperty float t\nelement face 1\nproperty list uchar int vertex_indices\n"
        "end_header\n0 0 0 0 0\n1 0 0 1 0\n0 1 0 0 1\n3 0 1 2\n"
    )
    assert "lies outside the folder of a.ply" in said(read_model(texts(folder, "a.ply", ply)))
    write_mesh(textured_mesh(1), folder / "a.gltf")
    document = json.loads((folder / "a.gltf").read_text())
    document["images"][0] = {"uri": name}
    model = read_model(texts(folder, "b.gltf", json.dumps(document)))
    assert "lies outside the folder of b.gltf" in said(model)
    document["buffers"][0]["uri"] = name
    with pytest.raises(SmrError, match="which is not in its folder"):
        read_model(texts(folder, "c.gltf", json.dumps(document)))


def test_material_files(tmp_path: Path) -> None:
    Image.fromarray(picture()).save(tmp_path / "my picture.png")
    library = """
newmtl plain
Kd 0.25 0.5 0.75
d 0.5
newmtl with options
Kd 0.8 0.8 0.8
Pr 0.25
Pm 1
map_Kd -s 1 1 1 -o 0 0 -clamp on my picture.png
newmtl tinted
Kd 1 0.5 0
map_Kd my picture.png
newmtl never used
"""
    texts(tmp_path, "my materials.mtl", library)
    lines = "mtllib my materials.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\nf 1/1 2/1 3/1\n"
    for name in ("with options", "plain", "tinted", "unknown"):
        lines += f"usemtl {name}\nf 1/1 2/1 3/1\n"
    model = read_model(texts(tmp_path, "a.obj", lines))
    assert isinstance(model.mesh, TexturedMesh)
    found = model.mesh.materials
    assert [material.name for material in found] == ["with options", "plain", "tinted", "none"]
    assert found[0].base_color == (1.0, 1.0, 1.0, 1.0)  # a grey beside a texture is no colour
    np.testing.assert_array_equal(found[0].texture, picture())
    assert (found[0].roughness, found[0].metallic) == (0.25, 1.0)
    assert found[1].base_color == (0.25, 0.5, 0.75, 0.5)
    assert found[2].base_color == (1.0, 0.5, 0.0, 1.0)
    assert material_of_faces(model.mesh).tolist() == [3, 0, 1, 2, 3]
    assert "used and nowhere defined: unknown" in said(model)


def few_pixels(reader: Any, findings: Any) -> None:
    reader.findings, reader.remaining = findings, 100


def test_damaged_and_huge_textures_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_mesh(textured_mesh(1), tmp_path / "a.obj")
    data = (tmp_path / "a_texture.png").read_bytes()
    (tmp_path / "a_texture.png").write_bytes(data[: len(data) // 2])
    model = read_model(tmp_path / "a.obj")
    assert isinstance(model.mesh, TexturedMesh)
    assert model.mesh.materials[0].texture is None
    assert "The texture a_texture.png cannot be read" in said(model)
    (tmp_path / "a_texture.png").write_bytes(data)
    monkeypatch.setattr("smr.formats.images.TextureReader.__init__", few_pixels)
    assert "is 32×24; 134 megapixels a mesh are read" in said(read_model(tmp_path / "a.obj"))
