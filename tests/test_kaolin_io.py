"""Mesh files read as in Kaolin: glTF, OBJ with materials, OFF, PLY; data sets and what they keep; views."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from smr.errors import SmrError
from smr.formats import write_mesh
from smr.kaolin import io as kio
from smr.kaolin._absent import NotInSmrError
from smr.kaolin.io import gltf, obj, off, ply
from smr.kaolin.io.dataset import Cache, CachedDataset, CombinationDataset, KaolinDatasetItem, ProcessedDataset
from smr.kaolin.io.modelnet import ModelNet
from smr.kaolin.io.render import import_synthetic_view
from smr.kaolin.io.shapenet import ShapeNetV1, ShapeNetV2
from smr.kaolin.io.shrec import SHREC16
from smr.kaolin.io.utils import NonHomogeneousMeshError
from smr.kaolin.render.materials import PBRMaterial
from smr.kaolin.rep import SurfaceMesh
from smr.kaolin.utils.testing import contained_torch_equal
from smr.records import Material, Mesh, TexturedMesh

POINTS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)
TRIANGLES = np.array([[0, 1, 2], [0, 2, 3]], np.uint16)


def image(path: Path, seed: int = 0, channels: int = 3) -> np.ndarray:
    pixels = np.random.default_rng(seed).integers(0, 256, (4, 6, channels), np.uint8)
    Image.fromarray(pixels).save(path)
    return pixels


def write_gltf(path: Path, **changes: Any) -> Path:
    """A mesh of two triangles in a node that is moved and turned."""
    data = POINTS.tobytes() + TRIANGLES.tobytes()
    document = {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": [0]}, {"nodes": [1]}],
        "nodes": [{"mesh": 0, "translation": [1, 2, 3], "scale": [2, 2, -2]}, {"mesh": 0}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1}]}],
        "accessors": [
            {"bufferView": 0, "componentType": 5126, "count": 4, "type": "VEC3"},
            {"bufferView": 1, "componentType": 5123, "count": 6, "type": "SCALAR"},
        ],
        "bufferViews": [
            {"buffer": 0, "byteOffset": 0, "byteLength": 48},
            {"buffer": 0, "byteOffset": 48, "byteLength": 12},
        ],
        "buffers": [
            {"byteLength": 60, "uri": "data:application/octet-stream;base64," + base64.b64encode(data).decode()}
        ],
        **changes,
    }
    path.write_text(json.dumps(document))
    return path


# glTF


def test_gltf_is_placed_by_its_nodes(tmp_path: Path) -> None:
    path = write_gltf(tmp_path / "a.gltf")
    mesh = gltf.import_mesh(path)
    expected = torch.from_numpy(POINTS) * torch.tensor([2.0, 2, -2]) + torch.tensor([1.0, 2, 3])
    assert torch.equal(mesh.vertices, expected)
    assert mesh.faces.tolist() == [[0, 2, 1], [0, 3, 2]]  # the mirror turns faces round
    assert mesh.materials == []
    assert torch.equal(gltf.import_mesh(path, scene=1).vertices, torch.from_numpy(POINTS))
    (local,) = gltf.import_meshes(path)
    assert local.faces.tolist() == TRIANGLES.tolist()


def test_gltf_materials(tmp_path: Path) -> None:
    color, packed = image(tmp_path / "color.png", 0, 4), image(tmp_path / "packed.png", 1)
    materials = [
        {
            "name": "paint",
            "alphaMode": "MASK",
            "pbrMetallicRoughness": {
                "baseColorTexture": {"index": 0},
                "baseColorFactor": [0.5, 1, 1, 1],
                "metallicRoughnessTexture": {"index": 1},
            },
            "normalTexture": {"index": 1},
            "extensions": {
                "KHR_materials_ior": {"ior": 1.4},
                "KHR_materials_clearcoat": {"clearcoatFactor": 0.25},
                "KHR_materials_transmission": {"transmissionFactor": 0.75},
            },
        },
        {"pbrMetallicRoughness": {"baseColorFactor": [0.1, 0.2, 0.3, 0.4], "metallicFactor": 0}, "alphaMode": "BLEND"},
    ]
    primitives = [{"attributes": {"POSITION": 0}, "indices": 1, "material": i} for i in (1, 0, 7)]
    path = write_gltf(
        tmp_path / "a.gltf",
        materials=materials,
        meshes=[{"primitives": primitives}],
        textures=[{"source": 0}, {"source": 1}],
        images=[{"uri": "color.png"}, {"uri": "packed.png"}],
    )
    mesh = gltf.import_mesh(path)
    assert mesh.material_assignments.tolist() == [1, 1, 0, 0, -1, -1]
    first, second = mesh.materials
    pixels, other = torch.from_numpy(color).float() / 255, torch.from_numpy(packed).float() / 255
    assert torch.allclose(first.diffuse_texture, pixels[..., :3] * torch.tensor([0.5, 1, 1]))
    assert torch.allclose(first.opacity_texture, pixels[..., 3:])
    assert torch.allclose(first.roughness_texture, other[..., 1:2])
    assert torch.allclose(first.metallic_texture, other[..., 2:3])
    assert torch.allclose(first.normals_texture, other * 2 - 1)
    assert (first.opacity_threshold, first.ior_value) == (0.5, pytest.approx(1.4))
    assert (first.clearcoat_value, first.transmittance_value) == (0.25, 0.75)
    assert (first.diffuse_colorspace, first.metallic_colorspace) == ("sRGB", "raw")
    assert torch.allclose(second.diffuse_color, torch.tensor([0.1, 0.2, 0.3]))
    assert second.opacity_value == pytest.approx(0.4)
    assert (second.metallic_value, second.roughness_value) == (0, 1)


def test_gltf_that_our_writer_wrote(tmp_path: Path) -> None:
    uvs = np.array([[0, 0], [1, 0], [0.25, 0.5], [1, 1]], np.float32)
    pixels = image(tmp_path / "x.png")
    model = TexturedMesh(
        Mesh(POINTS, TRIANGLES.astype(np.int32)), uvs, TRIANGLES.astype(np.int32), (Material("m", texture=pixels),)
    )
    write_mesh(model, tmp_path / "a.glb")
    mesh = gltf.import_mesh(tmp_path / "a.glb")
    corners = torch.from_numpy(uvs)[TRIANGLES.astype(np.int64)]
    corners[..., 1] = 1 - corners[..., 1]
    assert torch.allclose(mesh.face_uvs, corners)
    assert torch.allclose(mesh.materials[0].diffuse_texture, torch.from_numpy(pixels).float() / 255)


PLACES = {"bufferView": 0, "componentType": 5126, "count": 4, "type": "VEC3"}
INDEX = {"bufferView": 1, "componentType": 5123, "count": 6, "type": "SCALAR"}
PRIMITIVE = {"attributes": {"POSITION": 0}, "indices": 1}
DRACO = "KHR_draco_mesh_compression"


def one_primitive(**changes: Any) -> dict[str, Any]:
    return {"meshes": [{"primitives": [{**PRIMITIVE, **changes}]}]}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"extensionsRequired": [DRACO]}, f"needs the glTF extension {DRACO}"),
        (one_primitive(extensions={DRACO: {}}), f"needs the glTF extension {DRACO}"),
        ({"meshes": [{"primitives": [{}]}]}, "a primitive has no attributes"),
        ({"meshes": [{"primitives": []}]}, "it has no triangles"),
        ({"nodes": [{"mesh": 3}, {}]}, "it refers to entry 3 of meshes"),
        (
            {
                **one_primitive(attributes={"POSITION": 0, "NORMAL": 2}),
                "accessors": [PLACES, INDEX, {**PLACES, "count": 3}],
            },
            "vertex_normals has 3 entries for 4 vertices",
        ),
        ({"accessors": [{**PLACES, "count": 2}, INDEX]}, "a face refers to vertex 3 of 2"),
        ({"materials": [{}] * 30_001}, "it has 30001 materials; 30000 are read"),
    ],
)
def test_gltf_that_is_damaged(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(SmrError, match=said):
        gltf.import_mesh(write_gltf(tmp_path / "a.gltf", **changes))


@pytest.mark.parametrize(
    ("entry", "said"),
    [({"uri": "none.png"}, "'none.png' is not beside it"), ({}, "image 0 has no data"), ({"uri": "data:x"}, "decoded")],
)
def test_gltf_images_that_cannot_be_had_are_left_out(tmp_path: Path, entry: dict[str, Any], said: str) -> None:
    materials = [{"pbrMetallicRoughness": {"baseColorTexture": {"index": 0}}}]
    path = write_gltf(tmp_path / "a.gltf", materials=materials, textures=[{"source": 0}], images=[entry])
    with pytest.warns(UserWarning, match=f"image 0 is left out: .*{said}"):
        assert gltf.import_mesh(path).materials[0].diffuse_texture is None


# OBJ with materials, and any file


def test_obj_materials_as_pbr(tmp_path: Path) -> None:
    color, packed = image(tmp_path / "color.png", 0), image(tmp_path / "packed.png", 1)
    grey = np.repeat(image(tmp_path / "x.png", 2)[..., :1], 3, axis=2)
    Image.fromarray(grey).save(tmp_path / "grey.png")
    (tmp_path / "a.mtl").write_text(
        "newmtl b\nKd 1 0 0\nmap_Kd color.png\nmap_Ns -imfchan g packed.png\nmap_refl -imfchan b packed.png\n"
        "map_Bump packed.png\nnewmtl a\nmap_bump grey.png\nNi 1.5\n"
    )
    (tmp_path / "a.obj").write_text("mtllib a.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nusemtl b\nf 1 2 3\nusemtl a\nf 1 3 2\n")
    mesh = kio.import_mesh(tmp_path / "a.obj")
    assert mesh.material_assignments.tolist() == [1, 0]
    a, b = mesh.materials
    pixels, other = torch.from_numpy(color).float() / 255, torch.from_numpy(packed).float() / 255
    assert torch.allclose(b.diffuse_texture, pixels)
    assert torch.allclose(b.roughness_texture, other[..., 1:2])
    assert torch.allclose(b.metallic_texture, other[..., 2:3])
    assert torch.allclose(b.normals_texture, other * 2 - 1)
    assert a.normals_texture is None  # grey: heights
    assert a.ior_value == 1.5


def test_a_large_obj_is_read_alike_from_disk_from_memory_and_from_a_cache(tmp_path: Path) -> None:
    side = np.arange(300)
    vertices = np.stack(np.meshgrid(side, side), axis=2).reshape(-1, 2)
    rows = "".join(f"v {x} {y} {x * y / 7:.6f}\nvt {x / 300:.6f} {y / 300:.6f}\n" for x, y in vertices)
    first = (side[:-1, None] * 300 + side[:-1]).ravel() + 1
    faces = "".join(f"f {i}/{i} {i + 1}/{i + 1} {i + 301}/{i + 301}\n" for i in first)
    path = tmp_path / "big.obj"
    path.write_text(rows + faces)
    assert path.stat().st_size > 4 << 20
    expected = obj.import_mesh(path, with_materials=True)
    assert torch.equal(expected.vertices[:, :2], torch.from_numpy(vertices).float())
    assert torch.equal(expected.faces[:, 0] + 1, torch.from_numpy(first))
    from_memory = obj.import_mesh_from_string(path.read_bytes())
    for mesh in (
        from_memory,
        obj.import_mesh(path, with_materials=True, cache_dir=tmp_path / "cache"),
        obj.import_mesh(path, with_materials=True, cache_dir=tmp_path / "cache"),
        obj.import_mesh_from_string(path.read_text(), cache_dir=tmp_path / "cache"),
    ):
        for name in ("vertices", "faces", "uvs", "face_uvs_idx"):
            assert torch.equal(getattr(mesh, name), getattr(expected, name))
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_any_file_by_its_ending(tmp_path: Path) -> None:
    model = Mesh(POINTS, TRIANGLES.astype(np.int32))
    for ending in (".obj", ".usda", ".usdz", ".glb", ".gltf"):
        write_mesh(model, tmp_path / f"a{ending}", world_up="y")
        mesh = kio.import_mesh(str(tmp_path / f"a{ending}"), triangulate=True)
        assert torch.allclose(mesh.vertices[mesh.faces], torch.from_numpy(POINTS[TRIANGLES]), atol=1e-6)
        with pytest.raises(FileNotFoundError, match="is not there"):
            kio.import_mesh(tmp_path / f"none{ending}")
    with pytest.raises(ValueError, match=r"a.stl: meshes are read of .obj, .usd"):
        kio.import_mesh("a.stl")


# OFF and PLY


def test_off_with_colors_of_faces(tmp_path: Path) -> None:
    path = tmp_path / "a.off"
    head = "OFF4 2 0\n" + "\n".join(" ".join(map(str, row)) for row in POINTS)  # as some files of ModelNet begin
    path.write_text(head + "\n3 0 1 2 255 0 10\n3 0 2 3 0.5 0.25 0\n")
    mesh = off.import_mesh(path, with_face_colors=True)
    assert torch.equal(mesh.vertices, torch.from_numpy(POINTS))
    assert mesh.faces.tolist() == TRIANGLES.tolist()
    assert mesh.face_colors.tolist() == [[255, 0, 10], [0, 0, 0]]
    assert off.import_mesh(path).face_colors is None
    path.write_text(head + "\n3 0 1 2 1 0.5 0\n3 0 2 3 0.2 0 0\n")
    assert off.import_mesh(path, with_face_colors=True).face_colors.tolist() == [[255, 128, 0], [51, 0, 0]]
    path.write_text(head + "\n3 0 1 2\n3 1 2 4\n")
    with pytest.warns(UserWarning, match="has 4 vertices, and a face names 4"):
        assert off.import_mesh(path, with_face_colors=True).face_colors.tolist() == [[0, 0, 0]] * 2
    path.write_text(head + "\n3 0 1 2\n4 0 1 2 3\n")
    with pytest.raises(NonHomogeneousMeshError, match="faces of 3, 4 corners"):
        off.import_mesh(path)
    with pytest.raises(FileNotFoundError, match=r"none.off is not there"):
        off.import_mesh(tmp_path / "none.off")


def test_ply(tmp_path: Path) -> None:
    colors = np.arange(12, dtype=np.uint8).reshape(4, 3)
    write_mesh(Mesh(POINTS, TRIANGLES.astype(np.int32), colors=colors), tmp_path / "a.ply")
    mesh = ply.import_mesh(tmp_path / "a.ply")
    assert torch.equal(mesh.vertices, torch.from_numpy(POINTS))
    assert mesh.faces.tolist() == TRIANGLES.tolist()
    assert torch.allclose(mesh.vertex_colors * 255, torch.from_numpy(colors).float())
    with pytest.raises(FileNotFoundError, match=r"none.ply is not there"):
        ply.import_mesh(tmp_path / "none.ply")
    with pytest.raises(NotInSmrError, match="import_gaussiancloud"):
        ply.import_gaussiancloud("a.ply")


# Data sets


class Items:
    """Items that count how often they are computed."""

    def __init__(self, count: int = 4, fails_at: int = -1) -> None:
        self.count, self.fails_at, self.computed = count, fails_at, 0

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, Any]:
        if index == self.fails_at:
            raise RuntimeError("no such luck")
        self.computed += 1
        mesh = SurfaceMesh(
            torch.full((3, 3), float(index)),
            torch.tensor([[0, 1, 2]]),
            materials=[PBRMaterial(ior_value=float(index))],
            material_assignments=torch.tensor([0], dtype=torch.int16),
        )
        return {"mesh": mesh, "path": Path("x") / str(index), "numbers": [index, (1.5, "a")], "none": None}


@given(
    st.booleans(), st.booleans(), st.sampled_from([0, 3]), st.sampled_from([True, False, ["mesh"], ["path", "none"]])
)
@settings(max_examples=20, deadline=None)
def test_a_cached_data_set_is_the_data_set(
    tmp_path_factory: pytest.TempPathFactory, late: bool, force: bool, workers: int, save: Any
) -> None:
    folder = tmp_path_factory.mktemp("cache")
    items = Items()
    for _ in range(2):
        data = CachedDataset(items, folder, save, workers, force, late)
        assert len(data) == 4
        for index in (*range(4), -1):
            assert contained_torch_equal(data[index], Items()[index % 4])
    computed = items.computed
    assert contained_torch_equal(data[2], Items()[2])
    assert items.computed == computed


def test_files_are_read_instead_of_computing(tmp_path: Path) -> None:
    first = CachedDataset(Items(), tmp_path, True)
    items = Items()
    second = CachedDataset(items, tmp_path, True, transform=lambda item: item["path"])
    assert items.computed == 1  # the first, to compare
    assert second[3] == first[3]["path"]


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    CachedDataset(Items(), tmp_path, ["path"])
    with pytest.raises(RuntimeError, match=r"4 files already exist on .* this dataset as 5 files"):
        CachedDataset(Items(5), tmp_path, ["path"])

    class Others(Items):
        def __getitem__(self, index: int) -> dict[str, Any]:
            return {"path": Path("other")}

    with pytest.raises(AssertionError, match=r"0/path.pt' is different than its matching field"):
        CachedDataset(Others(), tmp_path, ["path"])
    assert CachedDataset(Others(), tmp_path, ["path"], ignore_diff_error=True)[0]["path"] == Path("x/0")
    assert CachedDataset(Others(), tmp_path, ["path"], force_overwrite=True)[0]["path"] == Path("other")


@pytest.mark.parametrize("workers", [0, 2])
def test_a_failure_leaves_nothing(tmp_path: Path, workers: int) -> None:
    folder = tmp_path / "cache"
    with pytest.raises(RuntimeError, match="no such luck"):
        CachedDataset(Items(fails_at=2), folder, True, workers)
    assert not folder.exists()


def test_wrong_cached_data_sets(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the dataset doesn't provide an output field 'color'"):
        CachedDataset(Items(), tmp_path, ["color"])
    with pytest.raises(ValueError, match="save_on_disk needs a cache_dir"):
        CachedDataset(Items(), save_on_disk=True)
    with pytest.raises(TypeError, match="items of a cached data set must be dicts, not int"):
        CachedDataset([1, 2])
    with pytest.raises(TypeError, match="object is not kept in a cache: numbers, text, tensors"):
        CachedDataset([{"a": object()}], tmp_path, True)


class Runs:
    """What a file would run if it were read with pickle."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("should-not-be-there",)


def test_files_of_a_cache_run_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = CachedDataset([{"a": 1}], tmp_path / "cache", True)
    torch.save(Runs(), tmp_path / "cache" / "0" / "a.pt")
    with pytest.raises(Exception, match="Weights only load failed"):
        data[0]
    assert not (tmp_path / "should-not-be-there").exists()


def test_processed_and_combined_data_sets(tmp_path: Path) -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    plain = [torch.tensor([1]), torch.tensor([5])]
    for folder in (None, tmp_path):
        data = ProcessedDataset(plain, double, folder, transform=lambda x: x + 1)
        assert [int(data[i].data) for i in range(2)] == [3, 11]
    for file in tmp_path.rglob("*.pt"):
        file.unlink()
    assert int(data[1].data) == 11  # computed again
    both = CombinationDataset((plain, data))
    assert len(both) == 2
    assert both[0] == KaolinDatasetItem((torch.tensor([1]), torch.tensor([3])), ({}, {}))
    assert both.get_cache_key(1) == "1-1"
    with pytest.raises(ValueError, match=r"must have one length, not \[1, 2\]"):
        CombinationDataset((plain, plain[:1]))
    cache = Cache(double, tmp_path, "double")
    assert cache.try_get("../../odd name") is None
    assert int(cache("../../odd name", torch.tensor(4))) == 8
    assert int(cache("../../odd name")) == 8
    assert len(cache.cached_ids) == 1


OBJ = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 1 1 0\nvt 0 0\nf 1/1 2/1 3/1\nf 1/1 2/1 4/1 3/1\n"


def fill(root: Path, names: list[str], text: str = OBJ) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.mark.parametrize(("kind", "file"), [(ShapeNetV1, "model.obj"), (ShapeNetV2, "models/model_normalized.obj")])
def test_shapenet(tmp_path: Path, kind: Any, file: str) -> None:
    fill(tmp_path, [f"03001627/m{i}/{file}" for i in range(10)] + [f"04379243/t0/{file}"])
    train = kind(tmp_path, ["chair"])
    test = kind(str(tmp_path), ["03001627"], train=False, output_dict=True)
    assert (len(train), len(test)) == (7, 3)
    assert set(train.names).isdisjoint(test.names)
    item = train[-1]
    assert item.data.faces.shape == (3, 3)
    assert item.attributes["synset"] == "03001627"
    assert item.attributes["labels"] == ["chair"]
    assert test[0]["mesh"].material_assignments.dtype == torch.int16
    assert len(kind(tmp_path, train=False)) == 4
    assert kind(tmp_path, ["table"], split=1.0, with_materials=False, transform=lambda x: x.data.uvs)[0] is None
    with pytest.raises(ValueError, match="there is no category 'dragon'; there are airplane"):
        kind(tmp_path, ["dragon"])
    with pytest.raises(ValueError, match=r"there is no category 02691156 \(airplane\) in"):
        kind(tmp_path, ["airplane"])
    with pytest.raises(ValueError, match="split must be from 0 to 1, not 7"):
        kind(tmp_path, split=7.0)
    with pytest.raises(SmrError, match="is no folder with ShapeNet"):
        kind(tmp_path / "none")


def test_modelnet(tmp_path: Path) -> None:
    text = "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"
    fill(tmp_path, ["desk/train/desk_1.off", "desk/test/desk_2.off", "bed/train/bed_1.off"], text)
    data = ModelNet(tmp_path)
    assert data.names == ["bed/bed_1", "desk/desk_1"]
    item = ModelNet(tmp_path, ["desk"], "test", output_dict=True)[0]
    assert (item["label"], item["name"], item["path"].name) == ("desk", "desk/desk_2", "desk_2.off")
    assert isinstance(item["mesh"], off.return_type)
    assert data.get_cache_key(0) == "bed_bed_1"
    with pytest.raises(ValueError, match=r"there is no category 'lamp' in .*; there are bed, desk"):
        ModelNet(tmp_path, ["lamp"])
    with pytest.raises(ValueError, match="split must be 'train' or 'test', not 'val'"):
        ModelNet(tmp_path, split="val")


def test_shrec(tmp_path: Path) -> None:
    fill(tmp_path, [f"{split}_normal/model_{i:06}.obj" for split in ("train", "test") for i in range(3)])
    with pytest.raises(SmrError, match=r"train.csv is not there"):
        SHREC16(tmp_path)
    (tmp_path / "train.csv").write_text("id,synsetId\n000000,02691156\n000001,2958343\n000002,02691156\n")
    assert SHREC16(tmp_path, ["airplane"]).names == ["000000", "000002"]
    assert SHREC16(tmp_path, ["car"], output_dict=True)[0]["synset"] == "02958343"
    assert SHREC16(tmp_path, split="test")[0].attributes["labels"] is None
    with pytest.raises(SmrError, match="has no folder val_normal"):
        SHREC16(tmp_path, split="val")
    with pytest.raises(ValueError, match="split must be 'train', 'val' or 'test', not 'all'"):
        SHREC16(tmp_path, split="all")
    (tmp_path / "train.csv").write_text("a,b\n1,2\n")
    with pytest.raises(SmrError, match="has no columns id and synsetId"):
        SHREC16(tmp_path)


# Views


def test_views(tmp_path: Path) -> None:
    pixels = image(tmp_path / "7_rgb.png", 0, 4)
    depth = np.arange(6.0).reshape(2, 3)
    np.save(tmp_path / "7_depth_linear.npy", depth)
    about = {
        "camera_properties": {
            "tf_mat": np.eye(4).tolist(),
            "resolution": {"width": 6, "height": 4},
            "focal_length": 24.0,
            "horizontal_aperture": 21.0,
            "clipping_range": [1, 2],
        },
        "asset_transforms": [["a", np.eye(4).tolist()]],
        "bbox_2d_tight": [1],
    }
    (tmp_path / "7_metadata.json").write_text(json.dumps(about))
    view = import_synthetic_view(tmp_path, 7, depth_linear=True, bbox_2d_tight=True)
    assert sorted(view) == ["bbox_2d_tight", "depth_linear", "metadata", "rgb"]
    assert torch.equal(view["rgb"], torch.from_numpy(pixels[..., :3]).float() / 255)
    assert torch.equal(view["depth_linear"], torch.from_numpy(depth))
    assert view["metadata"]["cam_transform"].shape == (4, 3)
    with pytest.raises(SmrError, match="lacks 'bbox_2d_loose'"):
        import_synthetic_view(tmp_path, 7, bbox_2d_loose=True)
    with pytest.raises(FileNotFoundError, match="8_metadata"):
        import_synthetic_view(tmp_path, 8)
