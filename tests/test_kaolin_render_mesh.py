"""`smr.kaolin.render.mesh`, `easy_render` and `materials`: names, shapes and meaning as in Kaolin."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import smr.kaolin as kal  # noqa: E402
from smr.kaolin.render import easy_render  # noqa: E402
from smr.kaolin.render.materials import Material, PBRMaterial, random_material_textures, random_material_values  # noqa: E402
from smr.kaolin.render.mesh.deftet import _naive_deftet_sparse_render  # noqa: E402
from smr.kaolin.rep import SurfaceMesh  # noqa: E402

mesh = kal.render.mesh


def faces(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    """Two squares of two triangles each, the right one farther away and turned away."""
    left = [[[-0.8, -0.5], [0.0, -0.5], [0.0, 0.5]], [[-0.8, -0.5], [0.0, 0.5], [-0.8, 0.5]]]
    right = [[[x + 0.7, y] for x, y in triangle[::-1]] for triangle in left]
    image = torch.tensor([left + right], dtype=dtype)
    z = torch.tensor([-1.0, -1.0, -2.0, -2.0], dtype=dtype)[None, :, None].expand(1, 4, 3)
    return z, image


def test_rasterize_takes_a_list_of_features_and_any_backend() -> None:
    z, image = faces()
    ones = torch.ones(1, 4, 3, 1)
    (positions, mask), face_idx = mesh.rasterize(20, 30, z, image, [image, ones])
    assert positions.shape == (1, 20, 30, 2)
    np.testing.assert_allclose(mask[..., 0], (face_idx >= 0).float(), atol=1e-6)
    for backend in ("nvdiffrast", "nvdiffrast_fwd", "cuda", None):
        again, idx = mesh.rasterize(20, 30, z, image, image, backend=backend, multiplier=100, eps=1e-8)
        assert torch.equal(idx, face_idx)
        assert torch.equal(again, positions)
    with pytest.raises(ValueError, match='"opengl" is not a valid backend'):
        mesh.rasterize(20, 30, z, image, image, backend="opengl")


def test_dibr_shows_faces_that_are_turned_to_the_camera() -> None:
    z, image = faces()
    normals_z = torch.tensor([[1.0, 1.0, -1.0, -1.0]])
    moving = image.clone().requires_grad_()

    features, soft, face_idx = mesh.dibr_rasterization(24, 24, z, moving, image, normals_z)

    assert set(face_idx.unique().tolist()) == {-1, 0, 1}
    assert features.shape == (1, 24, 24, 2)
    assert (soft[face_idx >= 0] == 1).all()
    assert torch.equal(soft, mesh.dibr_soft_mask(image, face_idx))


def test_the_soft_mask_pulls_a_silhouette_to_its_target() -> None:
    z, image = (tensor[:, :2] for tensor in faces())
    moving = image.clone().requires_grad_()
    _, soft, face_idx = mesh.dibr_rasterization(24, 24, z, moving, image, torch.ones(1, 2), sigmainv=100, boxlen=0.2)
    target = torch.roll(face_idx >= 0, 2, -1).float()
    (soft - target).square().sum().backward()
    assert moving.grad[..., 0].sum() < 0  # to make the silhouette like the target, faces move to the right


def test_the_private_function_of_the_soft_mask() -> None:
    z, image = faces()
    _, face_idx = mesh.rasterize(24, 24, z, image, image)
    grown = torch.cat([image.amin(-2) - 0.02, image.amax(-2) + 0.02], -1)
    mask, probability, face, part = kal._C.render.mesh.dibr_soft_mask_forward_cuda(
        1000 * image, 1000 * grown, face_idx, 7000, 5, 1000
    )
    torch.testing.assert_close(mask, mesh.dibr_soft_mask(image, face_idx), rtol=0, atol=1e-5)
    assert probability.shape == face.shape == part.shape == (1, 24, 24, 5)
    assert (part.dtype, face.dtype) == (torch.uint8, torch.int64)


def test_sparse_rendering_is_that_of_the_plain_twin() -> None:
    z, image = faces(torch.float64)
    points = torch.rand(1, 50, 2, dtype=torch.float64) * 2 - 1
    ranges = torch.tensor([-3.0, 0.0], dtype=torch.float64).expand(1, 50, 2)
    found, face_idx = mesh.deftet_sparse_render(points, ranges, z, image, [image, image], knum=3)
    expected, expected_idx = _naive_deftet_sparse_render(points, ranges, z, image, [image, image], 3)
    assert torch.equal(face_idx, expected_idx)
    torch.testing.assert_close(found[1], expected[1])


def square(size: float = 1.0) -> SurfaceMesh:
    """A square in the plane z = 0, facing +z, with texture coordinates whose origin is the top left corner."""
    corners = torch.tensor([[-1.0, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]]) * size / 2
    return SurfaceMesh(
        corners,
        torch.tensor([[0, 1, 2], [0, 2, 3]]),
        uvs=torch.tensor([[0.0, 1], [1, 1], [1, 0], [0, 0]]),
        face_uvs_idx=torch.tensor([[0, 1, 2], [0, 2, 3]]),
    )


def camera(size: int = 48, distance: float = 2.0, **more: object):
    return kal.render.camera.Camera.from_args(
        eye=torch.tensor([0.0, 0.0, distance]),
        at=torch.zeros(3),
        up=torch.tensor([0.0, 1.0, 0.0]),
        width=size,
        height=size,
        **(more or {"fov": math.pi / 3}),
    )


def test_a_mesh_seen_by_a_camera_gives_fragments() -> None:
    fragments = mesh.rasterize(square(), camera(), image_size=48)
    assert fragments.pix_to_face.shape == (1, 48, 48, 1)
    side = 1.0 / (2.0 * math.tan(math.pi / 6)) / 2.0 * 48
    assert abs(int((fragments.pix_to_face >= 0).sum()) - side**2) < 4 * side
    seen = fragments.pix_to_face >= 0
    np.testing.assert_allclose(fragments.zbuf[seen], 2.0, atol=1e-5)
    assert fragments.pix_to_face[0, 40, 30, 0] == -1
    assert fragments.pix_to_face[0, 28, 30, 0] == 0  # below the diagonal
    flat = mesh.rasterize(square(), camera(fov_distance=1.0), image_size=(48, 48))
    assert abs(int((flat.pix_to_face >= 0).sum()) - 24 * 24) < 100
    with pytest.raises(ValueError, match=r"image_size is 32, and the cameras' \(height, width\) is \(48, 48\)"):
        mesh.rasterize(square(), camera(), image_size=32)


def test_a_mesh_seen_by_a_pinhole_camera() -> None:
    K = torch.tensor([[48.0, 0, 24], [0, 48, 24], [0, 0, 1]])
    pose = torch.eye(4)
    pose[2, 3] = 2.0  # OpenCV: the square is 2 in front
    cameras = kal.render.camera.PinholeCamera(K=K[None], world_2_cam=pose[None])
    fragments = mesh.rasterize(square(), cameras, image_size=(48, 48))
    assert int((fragments.pix_to_face >= 0).sum()) == 24 * 24


def test_rendering_is_perspective_correct() -> None:
    """A square seen at a slant: the texture's middle is where the square's middle is, not the image's."""
    eye = torch.tensor([1.2, 0.0, 0.5])
    slanted = kal.render.camera.Camera.from_args(
        eye=eye, at=torch.zeros(3), up=torch.tensor([0.0, 1.0, 0.0]), fov=math.pi / 3, width=65, height=65
    )
    uvs = easy_render.render_mesh(slanted, square())["uvs"]
    np.testing.assert_allclose(uvs[0, 32, 32], [0.5, 0.5], atol=1e-5)


def test_textures_stand_upright_and_materials_are_told_apart() -> None:
    texture = torch.zeros(2, 2, 3)
    texture[0, 0, 0] = texture[0, 1, 1] = texture[1, 0, 2] = 1.0  # red top left, green top right, blue bottom left
    one = PBRMaterial(diffuse_texture=texture, metallic_value=0.0)
    grey = easy_render.default_material((0.5, 0.5, 0.5))

    albedo = easy_render.render_mesh(camera(fov=math.pi / 6), square(), custom_materials=[one])["albedo"][0]
    found = [albedo[y, x].argmax().item() for y, x in ((8, 8), (8, 40), (40, 8))]
    assert found == [0, 1, 2]

    both = easy_render.render_mesh(
        camera(fov=math.pi / 6),
        square(),
        custom_materials=[one, grey],
        custom_material_assignments=torch.tensor([1, 0], dtype=torch.int16),
    )["albedo"][0]
    np.testing.assert_allclose(both[40, 40], 0.5 * torch.ones(3), atol=1e-6)
    assert both[8, 8].argmax() == 0


def test_rendering_reaches_vertices_materials_and_lights() -> None:
    shape = square()
    shape.vertices.requires_grad_()
    color = torch.tensor([0.3, 0.4, 0.5], requires_grad=True)
    amplitude = torch.full((1, 3), 3.0, requires_grad=True)
    lights = kal.render.lighting.SgLightingParameters(amplitude=amplitude, direction=(0.0, 0.0, 1.0))
    passes = easy_render.render_mesh(camera(), shape, lights, custom_materials=[PBRMaterial(diffuse_color=color)])
    passes[easy_render.RenderPass.render].sum().backward()
    for leaf in (shape.vertices, color, amplitude):
        assert torch.isfinite(leaf.grad).all()
    assert (color.grad > 0).all()
    assert passes["render"] is passes[easy_render.RenderPass.render]
    assert set(passes) == set(easy_render.RenderPass) - {easy_render.RenderPass.features}


def test_faces_behind_the_camera_are_left_out() -> None:
    shape = square()
    shape.vertices = torch.cat([shape.vertices, shape.vertices + torch.tensor([0.0, 0.0, 5.0])])
    shape.faces = torch.cat([shape.faces, shape.faces + 4])
    shape.face_uvs_idx = shape.face_uvs_idx.repeat(2, 1)
    face_idx = easy_render.render_mesh(camera(), shape)["face_idx"]
    assert set(face_idx.unique().tolist()) == {-1, 0, 1}


def test_materials_are_what_they_were_given() -> None:
    given = {**random_material_values(), **random_material_textures()}
    material = PBRMaterial(**given, diffuse_colorspace="sRGB", material_name="stone")
    again = Material.from_dict(material.as_dict())
    assert isinstance(again, PBRMaterial)
    for name, value in given.items():
        assert getattr(again, name) is getattr(material, name)
        if torch.is_tensor(value):
            assert torch.equal(getattr(material, name), value)
    assert PBRMaterial(roughness_value=0.5).roughness_value.shape == (1,)
    assert again.chw().diffuse_texture.shape == (3, 32, 64)
    assert torch.equal(again.chw().hwc().roughness_texture, given["roughness_texture"])
    assert "stone" in str(again)
    with pytest.raises(TypeError, match="a PBRMaterial has no wetness"):
        PBRMaterial(wetness="auto")
    with pytest.raises(ValueError, match="normals_colorspace must be one of"):
        PBRMaterial(normals_colorspace="linear")
    with pytest.raises(ValueError, match=r"diffuse_color must have three numbers, not the shape \(2,\)"):
        PBRMaterial(diffuse_color=(1.0, 0.0))
    with pytest.raises(ValueError, match="classname 'cloth' is none of"):
        Material.from_dict({"classname": "cloth"})


def test_wrong_calls_are_named() -> None:
    shape = square()
    shape.materials = [{"Kd": torch.ones(3)}]
    with pytest.raises(TypeError, match="materials must be PBRMaterial, not dict"):
        easy_render.render_mesh(camera(), shape)
    with pytest.raises(ValueError, match="give camera_transform, or camera_rot and camera_trans"):
        mesh.prepare_vertices(torch.zeros(1, 3, 3), torch.tensor([[0, 1, 2]]), torch.ones(3, 1))
    if not mesh.nvdiffrast_is_available():
        assert mesh.default_nvdiffrast_context("cpu") is None
        with pytest.raises(ModuleNotFoundError, match="Rendering here does not need it"):
            mesh.default_nvdiffrast_context("cpu", raise_error=True)


def test_prepared_vertices_are_projected() -> None:
    vertices = torch.tensor([[[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]])
    projection = kal.render.camera.generate_perspective_projection(math.pi / 2)
    turn, position = torch.eye(3)[None], torch.tensor([[0.0, 0.0, 2.0]])
    in_camera, in_image, normals = mesh.prepare_vertices(
        vertices, torch.tensor([[0, 1, 2]]), projection, turn, position
    )
    np.testing.assert_allclose(in_camera[0, 0, :, 2], -2.0)
    np.testing.assert_allclose(in_image[0, 0], [[0, 0], [0.5, 0], [0, 0.5]], atol=1e-6)
    np.testing.assert_allclose(normals[0, 0], [0, 0, 1], atol=1e-6)
