"""USD: what is written is read again; places, times, materials, parts, packages; what goes wrong."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pxr import Gf, Sdf, Usd, UsdGeom, UsdShade, UsdValidation

from smr.errors import SmrError
from smr.formats import read_mesh
from smr.formats.model import geometry
from smr.kaolin.io import usd
from smr.kaolin.io.materials import MaterialNotFoundError, MaterialNotSupportedError, MaterialWriteError
from smr.kaolin.io.usd import materials as usd_materials
from smr.kaolin.io.utils import NonHomogeneousMeshError, heterogeneous_mesh_handler_skip
from smr.kaolin.render.materials import PBRMaterial
from smr.kaolin.rep import SurfaceMesh
from smr.kaolin.utils.testing import contained_torch_equal

CORNERS = torch.tensor([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0.5, 0.5, 1]])
FACES = torch.tensor([[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4], [0, 2, 1], [0, 3, 2]])
UVS = torch.tensor([[0.0, 0.0], [1.0, 0.25], [0.5, 0.75]])
UV_INDEX = torch.tensor([[0, 1, 2]]).expand(6, 3).contiguous()
PLACE = torch.tensor([[0.0, -2, 0, 3], [2, 0, 0, 4], [0, 0, 2, 5], [0, 0, 0, 1]])


def texture(channels: int, seed: int = 0) -> torch.Tensor:
    """An image of whole 8-bit steps."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (8, 4, channels), generator=generator).float() * (1.0 / 255.0)


def painted(seed: int = 0) -> PBRMaterial:
    return PBRMaterial(
        diffuse_texture=texture(3, seed), roughness_value=0.25, metallic_texture=texture(1, seed + 1), opacity_value=0.5
    )


def write_stage(path: Path, text: str) -> Path:
    path.write_text("#usda 1.0\n" + text)
    return path


def moved(points: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    return points @ place[:3, :3].T + place[:3, 3]


# Meshes


@pytest.mark.parametrize("ending", ["usd", "usda", "usdc", "usdz"])
def test_a_mesh_with_materials_comes_back(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"mesh.{ending}"
    normals = torch.nn.functional.normalize(torch.randn(6, 3, 3, generator=torch.Generator().manual_seed(0)), dim=2)
    assigned = torch.tensor([0, 0, 1, 1, -1, 0], dtype=torch.int16)
    usd.export_mesh(
        path,
        vertices=CORNERS,
        faces=FACES,
        uvs=UVS,
        face_uvs_idx=UV_INDEX,
        face_normals=normals,
        materials=[painted(), PBRMaterial(diffuse_color=(1.0, 0.5, 0.0), is_specular_workflow=True)],
        material_assignments=assigned,
    )
    mesh = usd.import_mesh(path, with_materials=True, with_normals=True)
    assert torch.equal(mesh.vertices, CORNERS)
    assert torch.equal(mesh.faces, FACES)
    assert mesh.faces.dtype == torch.int64
    assert torch.equal(mesh.uvs, UVS)
    assert torch.equal(mesh.face_uvs_idx, UV_INDEX)
    assert torch.equal(mesh.face_normals, normals)
    assert torch.equal(mesh.material_assignments, assigned)
    first, second = mesh.materials
    assert torch.allclose(first.diffuse_texture, texture(3), atol=1e-6)
    assert torch.allclose(first.metallic_texture, texture(1, 1), atol=1e-6)
    assert first.roughness_value == torch.tensor([0.25])
    assert first.diffuse_color is None
    assert torch.equal(second.diffuse_color, torch.tensor([1.0, 0.5, 0.0]))
    assert second.is_specular_workflow


@given(st.integers(1, 5), st.integers(3, 5), st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_any_mesh_comes_back(tmp_path_factory: pytest.TempPathFactory, faces: int, width: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    vertices = torch.randn(7, 3, generator=generator)
    index = torch.randint(0, 7, (faces, width), generator=generator)
    path = tmp_path_factory.mktemp("usd") / "mesh.usda"
    usd.export_mesh(path, vertices=vertices, faces=index)
    mesh = usd.import_mesh(path)
    assert torch.equal(mesh.vertices, vertices)
    assert torch.equal(mesh.faces, index)


def test_a_package_is_what_phones_open(tmp_path: Path) -> None:
    """Stored, aligned, one layer first, images inside; Pixar's checker finds nothing; the main reader reads it."""
    path = tmp_path / "x.usdz"
    mesh = SurfaceMesh(
        CORNERS,
        FACES,
        uvs=UVS,
        face_uvs_idx=UV_INDEX,
        materials=[painted()],
        material_assignments=torch.zeros(6, dtype=torch.int16),
    )
    usd.export_mesh(path, mesh)
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
    assert [entry.filename for entry in entries] == [
        "model.usdc",
        "textures/material_0_diffuse.png",
        "textures/material_0_metallic.png",
    ]
    assert all(entry.compress_type == zipfile.ZIP_STORED for entry in entries)
    stage = Usd.Stage.Open(str(path))
    validators = UsdValidation.ValidationRegistry().GetOrLoadAllValidators()
    errors = UsdValidation.ValidationContext(validators).Validate(stage)
    assert [error.GetMessage() for error in errors] == []
    model = read_mesh(path)
    assert np.allclose(geometry(model).vertices.max(axis=0), [1, 1, 1])
    pixels = model.materials[0].texture
    assert np.array_equal(pixels, (texture(3) * 255).round().numpy().astype(np.uint8))


def test_a_package_holds_no_more_than_its_scene(tmp_path: Path) -> None:
    path = tmp_path / "x.usdz"
    usd.export_meshes(path, vertices=[CORNERS, CORNERS + 1], faces=[FACES, FACES], local_to_world=PLACE, up_axis="Z")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["x.usdz"]
    stage = Usd.Stage.Open(str(path))
    assert UsdGeom.GetStageUpAxis(stage) == "Z"
    mesh = usd.import_mesh(stage)
    assert torch.allclose(mesh.vertices, torch.cat([moved(CORNERS, PLACE), moved(CORNERS + 1, PLACE)]))
    with pytest.raises(FileExistsError, match="overwrite=True writes over it"):
        usd.export_mesh(path, vertices=CORNERS, faces=FACES)


def test_complete_files_say_how_textures_are_looked_up(tmp_path: Path) -> None:
    path = tmp_path / "mesh.usda"
    usd.export_mesh(
        path, vertices=CORNERS, faces=FACES, uvs=UVS, face_uvs_idx=UV_INDEX, materials=[painted()], complete=True
    )
    text = path.read_text()
    assert "inputs:st.connect" in text
    assert "sourceColorSpace" in text
    assert 'subdivisionScheme = "none"' in text
    usd.export_mesh(path, vertices=CORNERS, faces=FACES, materials=[painted()], overwrite=True)
    assert "inputs:st" not in path.read_text()


def test_places_are_kept_or_applied(tmp_path: Path) -> None:
    path = tmp_path / "mesh.usda"
    usd.export_mesh(path, "/World/a", CORNERS, FACES, local_to_world=PLACE)
    (local,) = usd.import_meshes(path)
    assert torch.equal(local.vertices, CORNERS)
    assert torch.allclose(local.transform, PLACE)
    world = usd.import_mesh(path)
    assert world.transform is None
    assert torch.allclose(world.vertices, moved(CORNERS, PLACE))


def test_a_time_holds_until_the_next(tmp_path: Path) -> None:
    path = tmp_path / "mesh.usda"
    stage = usd.create_stage(path)
    usd.add_mesh(stage, "/World/mesh", CORNERS, FACES, time=1)
    usd.add_mesh(stage, "/World/mesh", CORNERS + 2, time=3)
    stage.Save()
    assert usd.get_authored_time_samples(path) == [1.0, 3.0]
    for time, shift in ((0, 0.0), (1, 0.0), (2, 1.0), (3, 2.0), (9, 2.0)):
        mesh = usd.import_mesh(path, time=time)
        assert torch.allclose(mesh.vertices, CORNERS + shift)
        assert torch.equal(mesh.faces, FACES)
    assert torch.equal(usd.import_mesh(path).vertices, CORNERS)  # its first


MIXED = """
def Mesh "mesh" {
    int[] faceVertexCounts = [4, 3]
    int[] faceVertexIndices = [0, 1, 2, 3, 0, 3, 4]
    point3f[] points = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 1)]
    texCoord2f[] primvars:map1 = [(0, 0), (0, 0.5)] (interpolation = "uniform")
    normal3f[] normals = [(0, 0, 1)] (interpolation = "constant")
    %s
}
"""


def test_faces_of_several_sizes(tmp_path: Path) -> None:
    path = write_stage(tmp_path / "mixed.usda", MIXED % "")
    with pytest.raises(NonHomogeneousMeshError, match="faces of 3, 4 corners; give triangulate=True"):
        usd.import_mesh(path)
    assert usd.import_mesh(path, heterogeneous_mesh_handler=heterogeneous_mesh_handler_skip) is None
    mesh = usd.import_mesh(path, triangulate=True, with_normals=True)
    assert mesh.faces.tolist() == [[0, 1, 2], [0, 2, 3], [0, 3, 4]]
    assert mesh.face_uvs[..., 1].tolist() == [[1.0] * 3, [1.0] * 3, [0.5] * 3]  # uniform: one a face
    assert mesh.face_normals.shape == (3, 3, 3)
    assert bool((mesh.face_normals == torch.tensor([0.0, 0.0, 1.0])).all())


def test_left_handed_faces_are_turned(tmp_path: Path) -> None:
    path = write_stage(tmp_path / "left.usda", MIXED % 'uniform token orientation = "leftHanded"')
    mesh = usd.import_mesh(path, triangulate=True)
    assert mesh.faces.tolist() == [[3, 2, 1], [3, 1, 0], [4, 3, 0]]


def test_paths_and_types(tmp_path: Path) -> None:
    path = tmp_path / "mesh.usda"
    usd.export_meshes(path, ["/World/a/x", "/World/b/x", "/World/ab"], [CORNERS] * 3, [FACES] * 3)
    assert [str(one) for one in usd.get_mesh_scene_paths(path, "/World/a")] == ["/World/a/x"]
    assert [str(one) for one in usd.get_scene_paths(path, ".*/x$", "mesh")] == ["/World/a/x", "/World/b/x"]
    assert usd.get_scene_paths(path, conditional=lambda prim: prim.GetName() == "b") == [Sdf.Path("/World/b")]
    assert set(usd.import_meshes(path, return_list=False)) == {"/World/a/x", "/World/b/x", "/World/ab"}


def test_instances_are_meshes_too(tmp_path: Path) -> None:
    path = write_stage(
        tmp_path / "instances.usda",
        'def Xform "one" {' + MIXED % "" + '}\ndef Xform "two" (\ninstanceable = true\nreferences = </one>\n)\n'
        '{ double3 xformOp:translate = (5, 0, 0)\n uniform token[] xformOpOrder = ["xformOp:translate"]\n}',
    )
    first, second = usd.import_meshes(path, triangulate=True)
    assert torch.equal(first.vertices, second.vertices)
    assert second.transform[:3, 3].tolist() == [5.0, 0.0, 0.0]


# Materials


@pytest.mark.parametrize("complete", [False, True])
def test_every_input_comes_back(tmp_path: Path, complete: bool) -> None:
    names = [name for name in PBRMaterial.supported_texture_attributes() if "transmittance" not in name]
    wide = ("diffuse_texture", "specular_texture", "normals_texture")
    images: dict[str, Any] = {name: texture(3 if name in wide else 1, i) for i, name in enumerate(names)}
    images["normals_texture"] = images["normals_texture"] * 2 - 1
    material = PBRMaterial(**images, ior_value=1.5, opacity_threshold=0.1, diffuse_colorspace="sRGB")
    where, _ = usd.export_material(material, tmp_path / "m.usda", "/World/Looks/paint", complete=complete)
    read = usd.import_material(tmp_path / "m.usda", where)
    assert read.material_name == "/World/Looks/paint"
    material.material_name = read.material_name
    assert contained_torch_equal(material, read, approximate=True, atol=1e-6)


def test_what_usd_has_no_input_for_is_said(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match='does not support PBRMaterial input type: "transmittance"'):
        usd.export_material(PBRMaterial(transmittance_value=0.5), tmp_path / "m.usda")


def test_names_and_places_of_materials(tmp_path: Path) -> None:
    path = tmp_path / "m.usda"
    places = [
        usd.export_material(PBRMaterial(material_name=name), path)[0] for name in ("", "", "my paint", "/World/Looks/x")
    ]
    assert places == ["/World/Looks/material_0", "/World/Looks/material_1", "/World/Looks/my_paint", "/World/Looks/x"]


def test_materials_of_other_shaders(tmp_path: Path) -> None:
    path = write_stage(
        tmp_path / "m.usda",
        'def Material "m" {\n token outputs:surface.connect = </m/s.outputs:out>\n'
        'def Shader "s" { uniform token info:id = "Mine"\n token outputs:out\n}\n}\n'
        'def Mesh "mesh" (prepend apiSchemas = ["MaterialBindingAPI"]) {\n rel material:binding = </m>\n'
        "int[] faceVertexCounts = [3]\n int[] faceVertexIndices = [0, 1, 2]\n"
        "point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0)]\n}",
    )
    with pytest.raises(MaterialNotSupportedError, match="the shader 'Mine'; read are UsdPreviewSurface"):
        usd.import_material(path, "/m")
    with pytest.warns(UserWarning, match="a material is left out: /m/s has the shader 'Mine'"):
        mesh = usd.import_mesh(path, with_materials=True)
    assert mesh.materials == []
    assert mesh.material_assignments.tolist() == [-1]
    with pytest.raises(MaterialNotSupportedError, match="no material is written for the shader 'Mine'"):
        usd.export_material(PBRMaterial(), path, "/n", shader_name="Mine")
    manager = usd_materials.UsdMaterialIoManager
    manager.register_usd_reader("Mine", lambda shader, time: PBRMaterial(ior_value=2.0))
    try:
        assert usd.import_material(path, "/m").ior_value == 2.0
    finally:
        del manager._readers["Mine"]


def test_images_outside_the_folder_are_read_from_named_folders_only(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    usd.export_material(PBRMaterial(diffuse_texture=texture(3)), tmp_path / "m.usda", "/m", texture_path="images")
    text = (tmp_path / "m.usda").read_text().replace("@images/", "@../images/")
    (inner / "m.usda").write_text(text)
    with pytest.warns(UserWarning, match=r"'../images/m_diffuse.png' of .* is left out: it lies outside the file's"):
        assert usd.import_material(inner / "m.usda", "/m").diffuse_texture is None
    material = usd.import_material(inner / "m.usda", "/m", texture_path=tmp_path / "images")
    assert torch.allclose(material.diffuse_texture, texture(3), atol=1e-6)


def test_images_that_are_not_there_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "m.usda"
    usd.export_material(painted(), path, "/m")
    (tmp_path / "m_textures" / "m_diffuse.png").unlink()
    (tmp_path / "m_textures" / "m_metallic.png").write_bytes(b"no image")
    with pytest.warns(UserWarning, match="left out") as said:
        material = usd.import_material(path, "/m")
    assert material.diffuse_texture is None
    assert material.metallic_texture is None
    assert material.roughness_value == 0.25
    assert ["is not there" in str(one.message) for one in said] == [True, False]


def test_textures_need_a_file() -> None:
    stage = Usd.Stage.CreateInMemory()
    with pytest.raises(MaterialWriteError, match="the stage is in memory only"):
        usd.export_material(painted(), stage, "/m")
    assert usd.export_material(PBRMaterial(ior_value=1.5), stage, "/m")[1].IsValid()
    assert usd.import_material(stage, "/m").ior_value == 1.5
    with pytest.raises(MaterialNotFoundError, match="there is no material at /other"):
        usd.import_material(stage, "/other")


def test_images_are_not_written_over_unasked(tmp_path: Path) -> None:
    for seed in (0, 5):
        usd.export_material(painted(seed), tmp_path / f"{seed}.usda", "/m", texture_path="images")
    for seed in (0, 5):
        read = usd.import_material(tmp_path / f"{seed}.usda", "/m")
        assert torch.allclose(read.diffuse_texture, texture(3, seed), atol=1e-6)


def test_scale_and_bias(tmp_path: Path) -> None:
    path = tmp_path / "m.usda"
    usd.export_material(PBRMaterial(roughness_texture=texture(1)), path, "/m")
    stage = Usd.Stage.Open(str(path))
    shader = UsdShade.Shader(stage.GetPrimAtPath("/m/roughness_texture"))
    shader.CreateInput("scale", Sdf.ValueTypeNames.Float4).Set(Gf.Vec4f(0.5, 1, 1, 1))
    shader.CreateInput("bias", Sdf.ValueTypeNames.Float4).Set(Gf.Vec4f(0.25, 0, 0, 0))
    assert torch.allclose(usd.import_material(stage, "/m").roughness_texture, texture(1) * 0.5 + 0.25, atol=1e-6)


# Point clouds and voxel grids


@pytest.mark.parametrize("kind", ["usd_geom_points", "point_instancer"])
def test_point_clouds_come_back(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "points.usda"
    points = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    usd.export_pointclouds(path, points=[points, points + 1], local_to_world=PLACE, points_type=kind)
    local = usd.import_pointclouds(path, return_list=False)
    assert list(local) == ["/World/PointClouds/pointcloud_0", "/World/PointClouds/pointcloud_1"]
    assert torch.equal(local["/World/PointClouds/pointcloud_1"].points, points + 1)
    assert torch.allclose(local["/World/PointClouds/pointcloud_1"].transform, PLACE)
    joined = usd.import_pointcloud(path)
    assert torch.allclose(joined.points, moved(torch.cat([points, points + 1]), PLACE), atol=1e-5)
    assert joined.transform is None


def test_colors_and_times_of_points(tmp_path: Path) -> None:
    path = tmp_path / "points.usda"
    points, colors = torch.rand(5, 3), torch.rand(5, 3)
    stage = usd.create_stage(path)
    for time in (0, 4):
        usd.add_pointcloud(stage, "/World/p", points + time, colors, time=time, points_type="usd_geom_points")
    assert torch.allclose(usd.import_pointcloud(stage, time=1).points, points + 1)
    assert torch.equal(usd.import_pointcloud(stage).colors, colors)
    assert usd.get_pointcloud_bracketing_time_samples(stage, "/World/p", 1.0) == (0.0, 4.0)
    with pytest.warns(UserWarning, match="colors are written with points_type='usd_geom_points' only"):
        usd.add_pointcloud(stage, "/World/q", points, colors)
    usd.add_pointcloud(stage, "/World/p", points, overwrite=True)
    assert stage.GetPrimAtPath("/World/p").GetTypeName() == "PointInstancer"


@given(st.integers(1, 6), st.integers(0, 99))
@settings(max_examples=15, deadline=None)
def test_voxel_grids_come_back(tmp_path_factory: pytest.TempPathFactory, size: int, seed: int) -> None:
    path = tmp_path_factory.mktemp("usd") / "voxels.usdc"
    grids = [torch.rand(size, size, size, generator=torch.Generator().manual_seed(seed + i)) > 0.5 for i in range(2)]
    usd.export_voxelgrids(path, grids)
    assert all(map(torch.equal, usd.import_voxelgrids(path), grids))
    assert usd.get_pointcloud_scene_paths(path) == []


# What goes wrong


def test_wrong_calls(tmp_path: Path) -> None:
    path = tmp_path / "a.usda"
    usd.export_mesh(path, vertices=CORNERS, faces=FACES)
    with pytest.raises(FileNotFoundError, match=r"none.usda is not there"):
        usd.import_mesh(tmp_path / "none.usda")
    with pytest.raises(ValueError, match=r"there is no mesh in .*a.usda below /World/other"):
        usd.import_mesh(path, "/World/other")
    with pytest.raises(ValueError, match=r"there is no mesh at /World in"):
        usd.import_meshes(path, ["/World"])
    with pytest.raises(ValueError, match="'mesh' is no absolute path of a USD scene"):
        usd.import_meshes(path, ["mesh"])
    with pytest.raises(ValueError, match="times has 2 items, and there are 1"):
        usd.import_meshes(path, times=[0, 1])
    with pytest.raises(ValueError, match=r"kept in a .usd, .usda or .usdc file, not in a.obj"):
        usd.export_mesh(tmp_path / "a.obj", vertices=CORNERS, faces=FACES)
    with pytest.raises(ValueError, match="up_axis must be 'Y' or 'Z', not 'X'"):
        usd.create_stage(tmp_path / "b.usda", up_axis="X")
    with pytest.raises(ValueError, match=r"vertices must be \(..., 3\), not \(5, 2\)"):
        usd.export_mesh(path, vertices=CORNERS[:, :2], faces=FACES, overwrite=True)
    with pytest.raises(ValueError, match="2 materials need material_assignments"):
        usd.export_mesh(path, faces=FACES, materials=[PBRMaterial(), PBRMaterial()], overwrite=True)
    with pytest.raises(ValueError, match="faces has 1 items, and there are 2"):
        usd.export_meshes(path, vertices=[CORNERS] * 2, faces=[FACES], overwrite=True)
    other = tmp_path / "b.usda"
    with pytest.raises(ValueError, match=r"points_type must be one of .*, not 'cubes'"):
        usd.export_pointcloud(other, points=CORNERS, points_type="cubes")
    with pytest.raises(ValueError, match=r"points must be \(N, 3\), not \(5, 2\)"):
        usd.export_pointcloud(other, points=CORNERS[:, :2])
    with pytest.raises(ValueError, match=r"must be a cube \(N, N, N\), not \(2, 3, 2\)"):
        usd.export_voxelgrid(other, torch.ones(2, 3, 2))
    assert not other.exists()
    usd.export_mesh(path, vertices=CORNERS, faces=FACES, overwrite=True)
    with pytest.raises(ValueError, match="there is no point cloud"):
        usd.import_pointcloud(path)
    with pytest.raises(ValueError, match="/World is no point cloud"):
        usd.import_pointclouds(path, ["/World"])
    with pytest.raises(ValueError, match="/World is no voxel grid"):
        usd.import_voxelgrid(path, "/World")


def test_wrong_places() -> None:
    stage = Usd.Stage.CreateInMemory()
    UsdGeom.Xform.Define(stage, "/a")
    stage.DefinePrim("/scope", "Scope")
    with pytest.raises(ValueError, match=r"local_to_world must be \(4, 4\), not \(3, 3\)"):
        usd.set_local_to_world_transform(stage, "/a", torch.eye(3))
    with pytest.raises(ValueError, match="/scope is of the type 'Scope', which has no transform"):
        usd.set_local_to_world_transform(stage, "/scope", torch.eye(4))
    with pytest.raises(ValueError, match="No prim found at path /b"):
        usd.get_local_to_world_transform(stage, "/b")
    usd.set_local_to_world_transform(stage, "/a", torch.diag(torch.tensor([1.0, 1.0, 0.0, 1.0])))
    UsdGeom.Xform.Define(stage, "/a/b")
    with pytest.raises(ValueError, match="what is above /a/b is squeezed flat"):
        usd.set_local_to_world_transform(stage, "/a/b", torch.eye(4))


def test_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "a.usda"
    path.write_text("#usda 1.0\ndef Mesh {")
    with pytest.raises(SmrError, match="USD cannot read it"):
        usd.import_mesh(path)
    far = write_stage(tmp_path / "far.usda", 'def "a" (references = @/etc/hosts.usda@) {}')
    with pytest.raises(SmrError, match="outside its own folder; such files are not opened"):
        usd.import_mesh(far)
    for text, said in (
        (MIXED.replace("[4, 3]", "[4, 4]") % "", "the faces of /mesh do not fit its indices"),
        (MIXED.replace("0, 3, 4]", "0, 3, 9]") % "", "a face of /mesh refers to vertex 9 of 5"),
        (MIXED.replace("(0, 0), (0, 0.5)", "(0, 0)") % "", "/mesh has 1 texture coordinates, and more are in use"),
        (MIXED % "int[] primvars:map1:indices = [0]", "/mesh has too few indices of texture coordinates"),
    ):
        with pytest.raises(SmrError, match=said):
            usd.import_mesh(write_stage(tmp_path / "b.usda", text), triangulate=True)


def test_damaged_voxel_grids(tmp_path: Path) -> None:
    path = tmp_path / "v.usda"
    usd.export_voxelgrid(path, torch.ones(2, 2, 2, dtype=torch.bool))
    text = path.read_text()
    path.write_text(text.replace("grid_size = 2", "grid_size = 1"))
    with pytest.raises(ValueError, match="has a cell outside its 1 cells a side"):
        usd.import_voxelgrids(path)
    path.write_text(text.replace("grid_size = 2", "grid_size = 1000000"))
    with pytest.raises(ValueError, match="has the size 1000000; grids of 1 to 2048 cells a side are read"):
        usd.import_voxelgrids(path)


def test_edits_that_are_not_saved_are_seen(tmp_path: Path) -> None:
    """A file that is open in this process is read as it stands there."""
    path = tmp_path / "a.usda"
    stage = usd.create_stage(path)
    usd.add_mesh(stage, "/World/a", CORNERS, FACES)
    assert len(usd.get_mesh_scene_paths(path)) == 1
    usd.add_subset(stage, "/World/a", "part", torch.tensor([1, 4]))
    (part,) = usd.import_subsets(path, "/World/a").values()
    assert part["indices"].tolist() == [1, 4]
    stage.Save()
    usd.export_mesh(path, vertices=CORNERS * math.pi, faces=FACES, overwrite=True)
    assert torch.equal(usd.import_mesh(path).vertices, CORNERS * math.pi)
