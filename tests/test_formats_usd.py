"""USD files that others write, and ones that reach for what they should not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pxr import Gf, Sdf, Usd, UsdGeom

from format_samples import (
    picture,
    textured_mesh,
)
from smr.errors import SmrError
from smr.formats import Model, write_mesh
from smr.formats.model import geometry
from smr.formats.usd_stage import read_stage  # in this process: quicker than read_model
from smr.records import Mesh, TexturedMesh


def said(model: Model) -> str:
    return "\n".join(finding.cause for finding in model.findings)


def texts(tmp_path: Path, name: str, text: str) -> Path:
    (tmp_path / name).write_text(text)
    return tmp_path / name


def usd_stage(tmp_path: Path, name: str = "a.usda") -> Usd.Stage:
    stage = Usd.Stage.CreateNew(str(tmp_path / name))
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    return stage


def add_square(stage: Usd.Stage, path: str) -> UsdGeom.Mesh:
    mesh = UsdGeom.Mesh.Define(stage, path)
    mesh.CreatePointsAttr([(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)])
    mesh.CreateFaceVertexCountsAttr([4])
    mesh.CreateFaceVertexIndicesAttr([0, 1, 2, 3])
    mesh.CreateSubdivisionSchemeAttr("none")
    return mesh


def test_usd_units_axes_transforms_and_orientation(tmp_path: Path) -> None:
    stage = usd_stage(tmp_path)
    UsdGeom.SetStageMetersPerUnit(stage, 0.01)
    UsdGeom.Xform.Define(stage, "/W").AddTranslateOp().Set(Gf.Vec3d(0, 0, 10))
    add_square(stage, "/W/Plain")
    add_square(stage, "/W/Left").CreateOrientationAttr("leftHanded")
    mirrored = add_square(stage, "/W/Mirrored")
    mirrored.AddScaleOp().Set(Gf.Vec3f(-1, 1, 1))
    add_square(stage, "/W/Hidden").CreateVisibilityAttr("invisible")
    add_square(stage, "/W/Guide").CreatePurposeAttr("guide")
    stage.Save()
    model = read_stage(tmp_path / "a.usda")
    mesh = geometry(model.mesh)
    assert model.world_up == "z"
    assert len(mesh.faces) == 6
    a, b, c = (mesh.vertices[mesh.faces[:, i]].astype(float) for i in range(3))
    assert (np.cross(b - a, c - a)[:, 2] > 0).tolist() == [True, True, False, False, True, True]
    np.testing.assert_allclose(mesh.vertices[:, 2], 0.1)
    assert np.ptp(mesh.vertices[:, 1]) == pytest.approx(0.01)


def test_usd_instances_subsets_and_interpolations(tmp_path: Path) -> None:
    stage = usd_stage(tmp_path)
    square = add_square(stage, "/Proto/Square")
    api = UsdGeom.PrimvarsAPI(square)
    st_primvar = api.CreatePrimvar("UVMap", Sdf.ValueTypeNames.TexCoord2fArray, UsdGeom.Tokens.vertex)
    st_primvar.Set([(0, 0), (1, 0), (1, 1), (0, 1)])
    color = square.CreateDisplayColorPrimvar(UsdGeom.Tokens.uniform)
    color.Set([(1, 0, 0)])
    square.CreateNormalsAttr([(0, 0, 1)])
    square.SetNormalsInterpolation(UsdGeom.Tokens.constant)
    for index in range(2):
        instance = UsdGeom.Xform.Define(stage, f"/World/I{index}")
        instance.GetPrim().GetReferences().AddInternalReference("/Proto")
        instance.GetPrim().SetInstanceable(True)
        instance.AddTranslateOp().Set(Gf.Vec3d(10 * index, 0, 0))
    UsdGeom.PointInstancer.Define(stage, "/World/Many")
    stage.Save()
    model = read_stage(tmp_path / "a.usda")
    assert isinstance(model.mesh, TexturedMesh)
    mesh = model.mesh.mesh
    assert len(mesh.faces) == 6  # the prototype itself and two instances
    assert mesh.colors is not None
    assert (mesh.colors == [255, 0, 0]).all()
    assert mesh.normals is not None
    np.testing.assert_array_equal(mesh.normals, np.broadcast_to([0, 0, 1], mesh.normals.shape))
    uvs = model.mesh.uvs[model.mesh.face_uvs]
    np.testing.assert_array_equal(
        uvs, mesh.vertices[mesh.faces][..., :2] - [[[10 * (i // 2 % 3 == 2), 0]] for i in range(6)]
    )
    assert "Point instancers are left out" in said(model)


@pytest.mark.parametrize("asset", ["../outside.usda", "{absolute}", "sub/../../outside.usda"])
def test_usd_does_not_leave_its_folder(tmp_path: Path, asset: str) -> None:
    outside = usd_stage(tmp_path, "outside.usda")
    add_square(outside, "/Square")
    outside.SetDefaultPrim(outside.GetPrimAtPath("/Square"))
    outside.Save()
    folder = tmp_path / "inside"
    folder.mkdir()
    name = asset.format(absolute=tmp_path / "outside.usda")
    for arc in (
        f"(references = @{name}@)",
        f"(payload = @{name}@)",
        "",
        '(\nvariants = {\nstring v = "a"\n}\nprepend variantSets = "v"\n)',
    ):
        sub = f"subLayers = [@{name}@]" if not arc else ""
        inner = f'variantSet "v" = {{\n"a" (references = @{name}@) {{\n}}\n}}' if "variants" in arc else ""
        text = f'#usda 1.0\n({sub}\n)\ndef Xform "W" {arc}\n{{\n{inner}\n}}\n'
        with pytest.raises(SmrError, match="outside its own folder; such files are not opened"):
            read_stage(texts(folder, "a.usda", text))


def test_usd_refers_to_files_beside_it(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    part = usd_stage(tmp_path, "parts/square.usda")
    add_square(part, "/Square")
    part.SetDefaultPrim(part.GetPrimAtPath("/Square"))
    part.Save()
    text = '#usda 1.0\ndef "A" (references = @parts/square.usda@)\n{\n}\n'
    assert len(geometry(read_stage(texts(tmp_path, "a.usda", text)).mesh).faces) == 2


def test_usd_that_multiplies_is_refused(tmp_path: Path) -> None:
    """Each level refers ten times to the one below: 10^9 prims in a file of two kilobytes."""
    lines = ["#usda 1.0", 'def Xform "L0" {\ndef Xform "X" {\n}\n}']
    for level in range(1, 10):
        children = "\n".join(f'def "C{i}" (references = </L{level - 1}>) {{\n}}' for i in range(10))
        lines.append(f'def Xform "L{level}" {{\n{children}\n}}')
    with pytest.raises(SmrError, match="multiplies to more than a million prims"):
        read_stage(texts(tmp_path, "a.usda", "\n".join(lines)))


def test_usd_textures_stay_inside(tmp_path: Path) -> None:
    folder = tmp_path / "inside"
    write_mesh(textured_mesh(1), folder / "a.usda")
    Image.fromarray(picture()).save(tmp_path / "secret.png")
    text = (folder / "a.usda").read_text()
    for name in ("../secret.png", str(tmp_path / "secret.png")):
        model = read_stage(texts(folder, "b.usda", text.replace("./a_texture.png", name)))
        assert isinstance(model.mesh, TexturedMesh)
        assert model.mesh.materials[0].texture is None
        assert "lies outside the folder of b.usda" in said(model)
    (folder / "a_texture.png").unlink()
    assert "is not beside a.usda" in said(read_stage(folder / "a.usda"))


MESH = 'def Mesh "A" {\npoint3f[] points = [(0,0,0)]\nint[] faceVertexCounts = [3]\nint[] faceVertexIndices = [%s]\n}\n'


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("#usda 1.0\ndef Mesh {", "USD cannot read it"),
        ('#usda 1.0\ndef Xform "A" {\n}\n', "has no vertices and no faces"),
        ("#usda 1.0\n" + MESH % "0", "do not fit"),
        ("#usda 1.0\n" + MESH % "0,0,5", "refers to vertex 5 of 1"),
        ('#usda 1.0\ndef Points "A" {\npoint3f[] points = [(0,0,0)]\n}\n', "has 1 points and has no faces"),
    ],
)
def test_usd_refusals(tmp_path: Path, text: str, word: str) -> None:
    with pytest.raises(SmrError, match=word):
        read_stage(texts(tmp_path, "a.usda", text))


@pytest.mark.parametrize("ending", [".usdz", ".usdc", ".usda"])
def test_a_disk_that_takes_no_more_is_said_in_one_sentence(tmp_path: Path, ending: str) -> None:
    """Given files that may not grow, then nothing is left behind and the words are not those of a C++ source."""
    resource = pytest.importorskip("resource")
    rng = np.random.default_rng(0)
    mesh = Mesh(rng.random((3000, 3)), rng.integers(0, 3000, (5000, 3)).astype(np.int32))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(SmrError) as refused:
            write_mesh(mesh, tmp_path / f"model{ending}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "cannot be written: " in refused.value.cause
    assert "\n" not in refused.value.cause
    assert ".cpp" not in refused.value.cause
    assert refused.value.cure == "Free some space on that disk, or write to another one."
    assert list(tmp_path.iterdir()) == []
