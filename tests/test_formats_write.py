"""Files that we write, read back by independent libraries: trimesh, pygltflib and Pixar's USD."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path

import numpy as np
import pygltflib
import pytest
import trimesh
from PIL import Image
from pxr import Usd, UsdGeom, UsdShade, UsdValidation

from format_samples import colored_mesh, corner_normals, corner_rows, material_of_faces, picture, textured_mesh
from smr.errors import SmrError
from smr.formats import FORMATS, write_mesh
from smr.formats.colors import linear_from_srgb
from smr.formats.model import Y_UP_FROM
from smr.records import Material, Mesh, TexturedMesh

ALL_ENDINGS = [ending for form in FORMATS for ending in form.endings]
WORLD_ENDINGS = [".obj", ".ply", ".stl", ".off"]
USD_ENDINGS = [".usdz", ".usdc", ".usda", ".usd"]
NAMES = ["plain", "with space", "扫描 模型 #1 [a]@b"]


def load(path: Path) -> trimesh.Trimesh:
    return trimesh.load(path, process=False, force="mesh")


def peer_corners(mesh: trimesh.Trimesh) -> np.ndarray:
    return mesh.vertices[mesh.faces].reshape(-1, 9)


def gltf_array(document: pygltflib.GLTF2, index: int) -> np.ndarray:
    accessor = document.accessors[index]
    view = document.bufferViews[accessor.bufferView]
    kind = {5123: "<u2", 5125: "<u4", 5126: "<f4"}[accessor.componentType]
    width = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4}[accessor.type]
    assert view.byteOffset % 4 == 0
    values = np.frombuffer(document.binary_blob(), kind, accessor.count * width, view.byteOffset)
    return values.reshape(-1, width)


@pytest.mark.parametrize("ending", WORLD_ENDINGS)
@pytest.mark.parametrize("name", NAMES)
def test_world_formats_keep_the_coordinates(tmp_path: Path, ending: str, name: str) -> None:
    for model in (colored_mesh(), textured_mesh()):
        peer = load(write_mesh(model, tmp_path / (name + ending), world_up="z"))
        found, expected = peer_corners(peer).astype(np.float32), corner_rows(model)[:, :9].astype(np.float32)
        np.testing.assert_array_equal(in_order(found), in_order(expected))  # trimesh groups faces by material


def in_order(rows: np.ndarray) -> np.ndarray:
    return rows[np.lexsort(rows.T)]


@pytest.mark.parametrize("up", list(Y_UP_FROM))
def test_up_axis_is_turned_to_y_and_stays_right_handed(up: str, tmp_path: Path) -> None:
    model = colored_mesh()
    axis = np.zeros(3)
    axis["xyz".index(up[-1])] = -1.0 if up.startswith("-") else 1.0
    assert np.linalg.det(Y_UP_FROM[up]) == 1.0
    np.testing.assert_array_equal(Y_UP_FROM[up] @ axis, [0, 1, 0])
    expected = (model.vertices @ Y_UP_FROM[up].T)[model.faces].reshape(-1, 9)
    peer = load(write_mesh(model, tmp_path / "a.glb", world_up=up))  # type: ignore[arg-type]
    np.testing.assert_array_equal(peer_corners(peer).astype(np.float32), expected.astype(np.float32))
    write_mesh(model, tmp_path / "a.usdz", world_up=up)  # type: ignore[arg-type]
    stage = Usd.Stage.Open(str(tmp_path / "a.usdz"))
    points = np.array(UsdGeom.Mesh(stage.GetPrimAtPath("/Model/Mesh")).GetPointsAttr().Get())
    np.testing.assert_array_equal(points[model.faces].reshape(-1, 9), expected.astype(np.float32))


def test_glb_in_every_detail(tmp_path: Path) -> None:
    model = textured_mesh()
    write_mesh(model, tmp_path / "a.glb", world_up="y")
    document = pygltflib.GLTF2().load(str(tmp_path / "a.glb"))
    assert document.asset.version == "2.0"
    assert not document.extensionsUsed
    assert document.extensionsRequired in (None, [])
    expected = corner_rows(model)
    normals = corner_normals(model)
    begin = 0
    for primitive in document.meshes[0].primitives:
        indices = gltf_array(document, primitive.indices)[:, 0]
        assert document.accessors[primitive.indices].componentType == 5123
        position = gltf_array(document, primitive.attributes.POSITION)
        accessor = document.accessors[primitive.attributes.POSITION]
        assert accessor.min == position.min(axis=0).tolist()
        assert accessor.max == position.max(axis=0).tolist()
        uvs = gltf_array(document, primitive.attributes.TEXCOORD_0)
        rows = expected[begin : begin + len(indices) // 3]
        np.testing.assert_array_equal(position[indices].reshape(-1, 9), rows[:, :9])
        turned_over = np.stack([uvs[:, 0], 1 - uvs[:, 1]], axis=1)[indices].reshape(-1, 6)
        np.testing.assert_allclose(turned_over, rows[:, 9:], atol=1e-7)
        found = gltf_array(document, primitive.attributes.NORMAL)[indices].reshape(-1, 9)
        np.testing.assert_allclose(found, normals[begin : begin + len(rows)], atol=1e-6)
        begin += len(rows)
    assert begin == len(model.mesh.faces)
    first, second = document.materials
    assert first.doubleSided
    assert first.pbrMetallicRoughness.roughnessFactor == 0.75
    assert second.pbrMetallicRoughness.metallicFactor == 0.5
    assert second.pbrMetallicRoughness.baseColorTexture is None
    np.testing.assert_allclose(
        second.pbrMetallicRoughness.baseColorFactor, [*linear_from_srgb(np.array([0.5, 0.25, 0.125])), 1.0]
    )
    view = document.bufferViews[document.images[0].bufferView]
    data = document.binary_blob()[view.byteOffset : view.byteOffset + view.byteLength]
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(data))), picture())


def test_glb_vertex_colors_are_linear(tmp_path: Path) -> None:
    model = colored_mesh()
    write_mesh(model, tmp_path / "a.glb")
    document = pygltflib.GLTF2().load(str(tmp_path / "a.glb"))
    accessor = document.meshes[0].primitives[0].attributes.COLOR_0
    assert document.accessors[accessor].normalized
    linear = gltf_array(document, accessor) / 65535
    assert model.colors is not None
    np.testing.assert_allclose(linear[:, :3], linear_from_srgb(model.colors / 255.0), atol=1 / 65535)
    assert (linear[:, 3] == 1).all()


def test_glb_container(tmp_path: Path) -> None:
    data = write_mesh(textured_mesh(), tmp_path / "a.glb").read_bytes()
    magic, version, total, length, kind = struct.unpack("<4sIII4s", data[:20])
    assert (magic, version, total, kind) == (b"glTF", 2, len(data), b"JSON")
    assert length % 4 == 0
    document = json.loads(data[20 : 20 + length])
    binary, kind = struct.unpack("<I4s", data[20 + length : 28 + length])
    assert kind == b"BIN\0"
    assert binary == document["buffers"][0]["byteLength"] == len(data) - 28 - length


def test_glb_indices_grow_to_32_bits_only_when_needed(tmp_path: Path) -> None:
    for count, component in ((65534, 5123), (65535, 5125)):
        vertices = np.random.default_rng(0).random((count, 3)).astype(np.float32)
        faces = np.array([[0, 1, 2], [count - 3, count - 2, count - 1]], np.int32)
        write_mesh(Mesh(vertices, faces), tmp_path / "a.glb")
        document = pygltflib.GLTF2().load(str(tmp_path / "a.glb"))
        assert document.accessors[document.meshes[0].primitives[0].indices].componentType == component


@pytest.mark.parametrize("ending", [".glb", ".gltf", ".obj", ".ply"])
@pytest.mark.parametrize("name", NAMES)
def test_texture_and_its_coordinates_through_trimesh(tmp_path: Path, ending: str, name: str) -> None:
    model = textured_mesh(1)
    peer = load(write_mesh(model, tmp_path / (name + ending), world_up="y"))
    uvs = np.asarray(peer.visual.uv)[peer.faces].reshape(-1, 6)
    np.testing.assert_allclose(uvs, corner_rows(model)[:, 9:], atol=1e-6)
    surface = peer.visual.material
    image = surface.baseColorTexture if hasattr(surface, "baseColorTexture") else surface.image
    np.testing.assert_array_equal(np.asarray(image.convert("RGB")), picture())


@pytest.mark.parametrize("ending", [".obj", ".ply"])
def test_vertex_colors_through_trimesh(tmp_path: Path, ending: str) -> None:
    model = colored_mesh()
    peer = load(write_mesh(model, tmp_path / f"a{ending}"))
    np.testing.assert_array_equal(np.asarray(peer.visual.vertex_colors)[:, :3], model.colors)


@pytest.mark.parametrize("ending", [".obj", ".ply", ".glb"])
def test_normals_through_trimesh(tmp_path: Path, ending: str) -> None:
    model = colored_mesh()
    scene = trimesh.load_scene(write_mesh(model, tmp_path / f"a{ending}", world_up="y"), process=False)
    (peer,) = scene.geometry.values()
    np.testing.assert_allclose(peer.vertex_normals, model.normals, atol=2e-6)


def test_off_in_every_detail(tmp_path: Path) -> None:
    model = colored_mesh()
    lines = write_mesh(model, tmp_path / "a.off").read_text().splitlines()
    lines = [line for line in lines if not line.startswith("#")]
    assert lines[:2] == ["COFF", "18 32 0"]
    rows = np.array([line.split() for line in lines[2:20]], float)
    np.testing.assert_array_equal(rows[:, :3].astype(np.float32), model.vertices)
    np.testing.assert_array_equal(rows[:, 3:6], model.colors)
    assert (rows[:, 6] == 255).all()
    faces = np.array([line.split() for line in lines[20:]], int)
    np.testing.assert_array_equal(faces, np.insert(model.faces, 0, 3, axis=1))


@pytest.mark.parametrize("ending", ALL_ENDINGS)
def test_far_from_the_origin_to_a_millionth_of_the_size(tmp_path: Path, ending: str) -> None:
    near = colored_mesh()
    vertices = near.vertices.astype(np.float64) * 0.2 + [431250.5, 5412800.25, 212.7]
    model = Mesh(vertices, near.faces)
    path = write_mesh(model, tmp_path / f"a{ending}", world_up="y")
    if ending in USD_ENDINGS:
        stage = Usd.Stage.Open(str(path))
        prim = UsdGeom.Mesh(stage.GetPrimAtPath("/Model/Mesh"))
        place = np.array(UsdGeom.XformCache().GetLocalToWorldTransform(prim.GetPrim()))
        found = np.array(prim.GetPointsAttr().Get(), np.float64) @ place[:3, :3] + place[3, :3]
    elif ending in (".glb", ".gltf"):
        scene = trimesh.load(path, process=False)
        place, name = scene.graph.get(scene.graph.nodes_geometry[0])
        found = scene.geometry[name].vertices @ place[:3, :3].T + place[:3, 3]
    else:
        mesh = load(path)
        found = mesh.vertices
        if ending == ".stl":
            found = np.zeros_like(vertices)
            found[near.faces] = mesh.vertices[mesh.faces]
    assert np.abs(found - vertices).max() < 1e-6 * np.ptp(vertices, axis=0).max()


@pytest.mark.parametrize("ending", USD_ENDINGS)
@pytest.mark.parametrize("name", NAMES)
def test_every_registered_usd_validator_passes(tmp_path: Path, ending: str, name: str) -> None:
    validators = UsdValidation.ValidationRegistry().GetOrLoadAllValidators()
    assert len(validators) >= 20
    far = Mesh(colored_mesh().vertices.astype(np.float64) + 5e6, colored_mesh().faces)
    clear = TexturedMesh(*textured_parts(), (Material("clear", (1.0, 1.0, 1.0, 0.5), texture_with_opacity()),))
    for model in (colored_mesh(), textured_mesh(1), textured_mesh(2), far, clear):
        path = write_mesh(model, tmp_path / (name + ending))
        stage = Usd.Stage.Open(str(path))
        errors = UsdValidation.ValidationContext(validators).Validate(stage)
        assert [(error.GetName(), error.GetMessage()) for error in errors] == []


def textured_parts() -> tuple[Mesh, np.ndarray, np.ndarray]:
    model = textured_mesh(1)
    return model.mesh, model.uvs, model.face_uvs


def texture_with_opacity() -> np.ndarray:
    image = np.concatenate([picture(), np.full((24, 32, 1), 255, np.uint8)], axis=2)
    image[:12, :, 3] = 0
    return image


@pytest.mark.parametrize("jpeg_quality", [None, 95])
def test_usdz_archive(tmp_path: Path, jpeg_quality: int | None) -> None:
    path = write_mesh(textured_mesh(1), tmp_path / "a.usdz", jpeg_quality=jpeg_quality)
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        assert entries[0].filename.endswith(".usdc")
        assert archive.read(entries[0]).startswith(b"PXR-USDC")
        assert len(entries) == 2
        for entry in entries:
            assert entry.compress_type == zipfile.ZIP_STORED
            header = path.read_bytes()[entry.header_offset : entry.header_offset + 30]
            name_length, extra_length = struct.unpack("<HH", header[26:30])
            assert (entry.header_offset + 30 + name_length + extra_length) % 64 == 0
        image = Image.open(io.BytesIO(archive.read(entries[1])))
        assert image.format == ("PNG" if jpeg_quality is None else "JPEG")
        assert np.abs(np.asarray(image).astype(int) - picture()).max() <= (0 if jpeg_quality is None else 6)


def test_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    for ending in (*ALL_ENDINGS,):
        first = write_mesh(textured_mesh(), tmp_path / f"a{ending}").read_bytes()
        assert write_mesh(textured_mesh(), tmp_path / f"a{ending}").read_bytes() == first, ending


@pytest.mark.parametrize("ending", USD_ENDINGS)
def test_usd_in_every_detail(tmp_path: Path, ending: str) -> None:
    model = textured_mesh()
    stage = Usd.Stage.Open(str(write_mesh(model, tmp_path / f"a{ending}", world_up="y")))
    assert UsdGeom.GetStageUpAxis(stage) == "Y"
    assert UsdGeom.GetStageMetersPerUnit(stage) == 1.0
    assert stage.GetDefaultPrim().GetPath() == "/Model"
    mesh = UsdGeom.Mesh(stage.GetPrimAtPath("/Model/Mesh"))
    points = np.array(mesh.GetPointsAttr().Get())
    np.testing.assert_array_equal(points, model.mesh.vertices)
    np.testing.assert_array_equal(np.array(mesh.GetFaceVertexIndicesAttr().Get()), model.mesh.faces.ravel())
    np.testing.assert_array_equal(np.array(mesh.GetExtentAttr().Get()), [points.min(axis=0), points.max(axis=0)])
    np.testing.assert_allclose(np.array(mesh.GetNormalsAttr().Get()), model.mesh.normals, atol=1e-6)
    assert mesh.GetNormalsInterpolation() == "vertex"
    assert mesh.GetSubdivisionSchemeAttr().Get() == "none"
    assert mesh.GetDoubleSidedAttr().Get() is True
    assert mesh.GetOrientationAttr().Get() == "rightHanded"
    st = UsdGeom.PrimvarsAPI(mesh).GetPrimvar("st")
    assert st.GetInterpolation() == "faceVarying"
    assert st.IsIndexed()
    np.testing.assert_array_equal(np.array(st.ComputeFlattened()), model.uvs[model.face_uvs].reshape(-1, 2))
    subsets = UsdShade.MaterialBindingAPI(mesh).GetMaterialBindSubsets()
    for index, subset in enumerate(subsets):
        expected = np.flatnonzero(material_of_faces(model) == index)
        np.testing.assert_array_equal(np.array(subset.GetIndicesAttr().Get()), expected)
    bound = [UsdShade.MaterialBindingAPI(subset).ComputeBoundMaterial()[0] for subset in subsets]
    surfaces = [material.ComputeSurfaceSource()[0] for material in bound]
    np.testing.assert_allclose(
        surfaces[1].GetInput("diffuseColor").Get(), linear_from_srgb(np.array([0.5, 0.25, 0.125])), atol=1e-6
    )
    texture = UsdShade.Shader(surfaces[0].GetInput("diffuseColor").GetConnectedSources()[0][0].source.GetPrim())
    assert texture.GetInput("sourceColorSpace").Get() == "sRGB"
    assert texture.GetInput("file").Get().resolvedPath


def test_usd_vertex_colors_reach_the_material(tmp_path: Path) -> None:
    model = colored_mesh()
    stage = Usd.Stage.Open(str(write_mesh(model, tmp_path / "a.usdz")))
    mesh = UsdGeom.Mesh(stage.GetPrimAtPath("/Model/Mesh"))
    assert model.colors is not None
    colors = np.array(mesh.GetDisplayColorPrimvar().Get())
    np.testing.assert_allclose(colors, linear_from_srgb(model.colors / 255.0), atol=1e-6)
    surface = UsdShade.MaterialBindingAPI(mesh).ComputeBoundMaterial()[0].ComputeSurfaceSource()[0]
    reader = UsdShade.Shader(surface.GetInput("diffuseColor").GetConnectedSources()[0][0].source.GetPrim())
    assert reader.GetIdAttr().Get() == "UsdPrimvarReader_float3"
    assert reader.GetInput("varname").Get() == "displayColor"


def test_opacity_of_a_texture(tmp_path: Path) -> None:
    cut_out = TexturedMesh(*textured_parts(), (Material("cut out", texture=texture_with_opacity()),))
    document = pygltflib.GLTF2().load(str(write_mesh(cut_out, tmp_path / "a.glb")))
    assert document.materials[0].alphaMode == "MASK"
    stage = Usd.Stage.Open(str(write_mesh(cut_out, tmp_path / "a.usda")))
    surface = UsdShade.Shader(stage.GetPrimAtPath("/Model/Materials/material_0/surface"))
    assert surface.GetInput("opacity").HasConnectedSource()
    assert surface.GetInput("opacityThreshold").Get() == 0.5
    write_mesh(cut_out, tmp_path / "a.obj", jpeg_quality=90)
    assert np.asarray(Image.open(tmp_path / "a_texture.png")).shape == (24, 32, 4)


def test_companions_are_named_after_the_file(tmp_path: Path) -> None:
    write_mesh(textured_mesh(), tmp_path / "chair.obj", jpeg_quality=92)
    assert {path.name for path in tmp_path.iterdir()} == {"chair.obj", "chair.mtl", "chair_texture.jpg"}
    assert "mtllib chair.mtl\n" in (tmp_path / "chair.obj").read_text()
    write_mesh(textured_mesh(), tmp_path / "a b.obj")
    write_mesh(textured_mesh(), tmp_path / "a_b.obj")
    assert len(list(tmp_path.glob("a_b*.mtl"))) == 2


def test_refusals(tmp_path: Path) -> None:
    mesh = colored_mesh()
    with pytest.raises(SmrError, match=r"ends in \.fbx, which is no mesh format known here") as caught:
        write_mesh(mesh, tmp_path / "a.fbx")
    assert ".usdz" in caught.value.cure
    with pytest.raises(SmrError, match="has no ending that names a format"):
        write_mesh(mesh, tmp_path / "a")
    with pytest.raises(SmrError, match="There is no face to write"):
        write_mesh(Mesh(mesh.vertices, mesh.faces[:0]), tmp_path / "a.ply")
    broken = mesh.vertices.copy()
    broken[3] = np.nan
    with pytest.raises(SmrError, match=r"1 of the 18 vertices .* are not finite"):
        write_mesh(Mesh(broken, mesh.faces), tmp_path / "a.ply")
    with pytest.raises(ValueError, match="faces has indices from 0 to 18 for 18 entries"):
        write_mesh(Mesh(mesh.vertices, mesh.faces + (mesh.faces == 17)), tmp_path / "a.ply")
    with pytest.raises(ValueError, match="jpeg_quality is 0"):
        write_mesh(mesh, tmp_path / "a.glb", jpeg_quality=0)
    assert list(tmp_path.iterdir()) == []


def test_too_large_for_the_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smr.formats.gltf_write._LARGEST", 1000)
    with pytest.raises(SmrError, match=r"GLB files end at 4\.3 GB"):
        write_mesh(colored_mesh(), tmp_path / "a.glb")
    monkeypatch.setattr("smr.formats.usd_write._LARGEST", 2**20 + 1000)
    with pytest.raises(SmrError, match=r"would be larger than 4\.3 GB, where USDZ ends"):
        write_mesh(colored_mesh(), tmp_path / "a.usdz")
    assert list(tmp_path.iterdir()) == []
