"""glTF files that others write, and damaged ones."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from format_samples import (
    colored_mesh,
    is_closed,
    picture,
    textured_mesh,
)
from smr.errors import SmrError
from smr.formats import Model, read_mesh, read_model, write_mesh
from smr.formats.model import geometry
from smr.records import Mesh, TexturedMesh


def said(model: Model) -> str:
    return "\n".join(finding.cause for finding in model.findings)


def texts(tmp_path: Path, name: str, text: str) -> Path:
    (tmp_path / name).write_text(text)
    return tmp_path / name


def gltf(tmp_path: Path, change: Any, model: Mesh | TexturedMesh | None = None) -> Path:
    """A small .gltf file after `change` was at its document."""
    write_mesh(model or textured_mesh(1), tmp_path / "a.gltf", world_up="y")
    document = json.loads((tmp_path / "a.gltf").read_text())
    change(document)
    return texts(tmp_path, "b.gltf", json.dumps(document))


def test_gltf_nodes_are_flattened(tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        document["nodes"] = [
            {"children": [1, 2], "translation": [1, 2, 3], "scale": [2, 2, 2]},
            {"mesh": 0, "rotation": [0, 0, 0.5**0.5, 0.5**0.5]},
            {"mesh": 0, "matrix": [-1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 5, 0, 0, 1]},
        ]

    original = textured_mesh(1)
    mesh = geometry(read_mesh(gltf(tmp_path, change)))
    v = original.mesh.vertices.astype(np.float64)
    turned = np.stack([-v[:, 1], v[:, 0], v[:, 2]], axis=1) * 2 + [1, 2, 3]
    mirrored = (v * [-1, 1, 1] + [5, 0, 0]) * 2 + [1, 2, 3]
    corners = mesh.vertices[mesh.faces]
    half = len(corners) // 2
    np.testing.assert_allclose(corners[:half], turned[original.mesh.faces], atol=1e-6)
    np.testing.assert_allclose(corners[half:], mirrored[original.mesh.faces][:, [0, 2, 1]], atol=1e-6)
    assert is_closed(mesh)
    assert mesh.normals is not None  # they point outwards in both
    a, b, c = (corners[:, i] for i in range(3))
    outward = np.einsum("fi,fi->f", np.cross(b - a, c - a), mesh.normals[mesh.faces].sum(axis=1))
    assert (outward > 0).all()


def test_gltf_strips_fans_and_points(tmp_path: Path) -> None:
    points = np.array([(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0), (0, 2, 0)], np.float32)
    base = Mesh(points, np.array([[0, 1, 2], [2, 3, 4]], np.int32))

    def mode(number: int) -> Any:
        def change(document: dict[str, Any]) -> None:
            primitive = document["meshes"][0]["primitives"][0]
            del primitive["indices"]
            primitive["mode"] = number

        return change

    strip = geometry(read_mesh(gltf(tmp_path, mode(5), base)))
    assert strip.faces.tolist() == [[0, 1, 2], [1, 3, 2], [2, 3, 4]]
    fan = geometry(read_mesh(gltf(tmp_path, mode(6), base)))
    assert fan.faces.tolist() == [[0, 1, 2], [0, 2, 3], [0, 3, 4]]
    with pytest.raises(SmrError, match="has 5 points and has no faces: a point cloud"):
        read_mesh(gltf(tmp_path, mode(0), base))


def test_gltf_sparse_accessors_and_texture_transforms(tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        material = document["materials"][0]["pbrMetallicRoughness"]
        material["baseColorTexture"]["extensions"] = {
            "KHR_texture_transform": {"offset": [0.25, 0.5], "scale": [2, 4], "rotation": 0}
        }
        accessor = document["meshes"][0]["primitives"][0]["attributes"]["POSITION"]
        views = document["bufferViews"]
        views += [{"buffer": 1, "byteOffset": 0, "byteLength": 4}, {"buffer": 1, "byteOffset": 4, "byteLength": 12}]
        document["buffers"].append(
            {"byteLength": 16, "uri": "data:application/octet-stream;base64,AAAAAAAAIEEAAKBBAADwQQ=="}
        )
        document["accessors"][accessor]["sparse"] = {
            "count": 1,
            "indices": {"bufferView": len(views) - 2, "componentType": 5125},
            "values": {"bufferView": len(views) - 1},
        }

    original = textured_mesh(1)
    mesh = read_mesh(gltf(tmp_path, change))
    assert isinstance(mesh, TexturedMesh)
    assert [10.0, 20.0, 30.0] in mesh.mesh.vertices.tolist()
    u, v = original.uvs[original.face_uvs][..., 0], 1 - original.uvs[original.face_uvs][..., 1]
    expected = np.stack([2 * u + 0.25, 1 - (4 * v + 0.5)], axis=2)
    np.testing.assert_allclose(mesh.uvs[mesh.face_uvs], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda d: d.update(extensionsRequired=["KHR_draco_mesh_compression"]), "needs the glTF extension KHR_draco"),
        (lambda d: d["asset"].update(version="1.0"), r"it is version 1\.0 of glTF"),
        (lambda d: d["accessors"][0].update(count=10**12), "an accessor wants 1000000000000 entries of a view with"),
        (lambda d: d["accessors"][0].update(count=-1), "count is -1, not a whole number"),
        (lambda d: d["accessors"][0].update(count=1.5), r"count is 1\.5, not a whole number"),
        (lambda d: d["accessors"][0].update(type="VEC2"), "has the type VEC2, not VEC3"),
        (lambda d: d["accessors"][0].update(byteOffset=2**40), "an accessor wants"),
        (lambda d: d["accessors"][0].pop("bufferView"), None),
        (lambda d: d["accessors"][0].update(bufferView=77), "refers to entry 77 of bufferViews"),
        (lambda d: d["bufferViews"][0].update(byteLength=10**9), "a buffer view ends at byte 1000000000 of"),
        (lambda d: d["bufferViews"][0].update(byteStride=4), "an accessor wants"),
        (lambda d: d["meshes"][0]["primitives"][0].update(indices=99), "refers to entry 99 of accessors"),
        (lambda d: d["meshes"][0].update(primitives={}), "primitives is not a list"),
        (lambda d: d["nodes"][0].update(children=[0]), "its nodes form a circle"),
        (lambda d: d["nodes"][0].update(rotation=[0, 0, 0]), "a node's rotation is not 4 numbers"),
        (lambda d: d["nodes"][0].update(mesh="first"), "refers to entry first of meshes"),
        (lambda d: d.update(scene=5), "refers to entry 5 of scenes"),
        (lambda d: d.update(materials="x"), "materials is not a list"),
        (lambda d: d["buffers"][0].update(uri="data:,x"), "a data address cannot be decoded: not base64"),
        (lambda d: d["buffers"][0].update(uri="missing.bin"), "needs 'missing.bin', which is not in its folder"),
        (lambda d: d["buffers"][0].pop("uri"), "buffer 0 has no data"),
    ],
)
def test_gltf_refusals(tmp_path: Path, change: Any, text: str | None) -> None:
    path = gltf(tmp_path, change)
    if text is None:
        read_model(path)
        return
    with pytest.raises(SmrError, match=text):
        read_model(path)


def test_glb_refusals(tmp_path: Path) -> None:
    data = write_mesh(colored_mesh(), tmp_path / "a.glb").read_bytes()
    for changed, text in (
        (b"PK\3\4" + data[4:], "does not begin with the word glTF"),
        (data[:15], "it ends within its header"),
        (data[:4] + b"\1" + data[5:], "it is version 1 of glTF"),
        (data[:-1], "its header promises"),
        (data.replace(b'{"asset"', b'{"asset:'), "its JSON part cannot be read"),
    ):
        (tmp_path / "b.glb").write_bytes(changed)
        with pytest.raises(SmrError, match=text):
            read_model(tmp_path / "b.glb")
    texts(tmp_path, "c.gltf", "[" * 100_000)
    with pytest.raises(SmrError, match="its JSON part cannot be read"):
        read_model(tmp_path / "c.gltf")
    texts(tmp_path, "d.gltf", "{}")
    with pytest.raises(SmrError, match="it holds JSON that is no glTF"):
        read_model(tmp_path / "d.gltf")


def test_webp_and_jpeg_textures_in_a_glb(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    Image.fromarray(picture()).save(buffer, "WEBP", lossless=True)
    (tmp_path / "w.webp").write_bytes(buffer.getvalue())

    def change(document: dict[str, Any]) -> None:
        document["images"].append({"uri": "w.webp"})
        document["textures"][0] = {"extensions": {"EXT_texture_webp": {"source": 1}}}

    mesh = read_mesh(gltf(tmp_path, change))
    assert isinstance(mesh, TexturedMesh)
    np.testing.assert_array_equal(mesh.materials[0].texture, picture())
