from __future__ import annotations

import os
from dataclasses import replace

import jaxtyping
import numpy as np
import pytest
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st

from smr.records import Camera
from smr.render.rasterize import rasterize as rasterize_arrays

torch = pytest.importorskip("torch")

import smr.ops.render.scene as scene_module  # noqa: E402
from smr.ops.cameras import Fisheye, Orthographic, Pinhole  # noqa: E402
from smr.ops.render import Fragments, interpolate, rasterize, screen_derivatives  # noqa: E402

SIZE = (48, 64)
PERSPECTIVE = [[50.0, 0.3, 32.0], [0.0, 52.0, 24.0], [0.0, 0.0, 1.0]]
PARALLEL = [[10.0, 0.3, 32.0], [0.0, 11.0, 24.0], [0.0, 0.0, 1.0]]


@pytest.fixture
def with_torch(monkeypatch):
    """Run a function with the plain-torch path."""

    def run(function):
        with monkeypatch.context() as patch:
            patch.setenv("SMR_KERNELS", "torch")
            return function()

    return run


@pytest.fixture
def unchecked():
    """Without the shape checks of the test run, which come before our own."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def soup(batch, count, size, nearest=1.0, *, seed=0, device="cpu"):
    rng = np.random.default_rng(seed)
    centres = rng.uniform([-2, -2, nearest], [2, 2, 4], (batch, count, 1, 3))
    vertices = (centres + rng.normal(0, size, (batch, count, 3, 3))).reshape(batch, -1, 3)
    faces = np.arange(3 * count).reshape(-1, 3)
    return torch.tensor(vertices, device=device), torch.tensor(faces, device=device)


def matrix(rows, like):
    return torch.tensor(rows, dtype=like.dtype, device=like.device)


def sphere(subdivisions=2, seed=0):
    """Closed, turned at random, 3 m before the camera."""
    shape = trimesh.creation.icosphere(subdivisions)
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0]
    return torch.tensor(shape.vertices @ turn + [0.03, -0.02, 3]), torch.tensor(shape.faces)


def weighted(fragments, seed=1):
    """A number that depends on all that is differentiable."""
    generator = torch.Generator().manual_seed(seed)
    total = 0.0
    for values in (fragments.zbuf, fragments.bary_coords):
        weights = torch.randn(values.shape, generator=generator, dtype=torch.float64)
        total = total + (values * weights.to(values)).sum()
    return total


SCENES = {
    "small faces": (2, 40, 0.3, 1.0),
    "crossing the near plane": (2, 10, 2.0, -1.0),
    "tiny faces": (3, 300, 0.1, 1.0),
    "far beyond the image": (1, 5, 1000.0, -1.0),
}


@pytest.mark.parametrize("rows", [PERSPECTIVE, PARALLEL], ids=["perspective", "orthographic"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", SCENES)
def test_agrees_with_plain_torch(device, with_torch, name, dtype, rows):
    vertices, faces = soup(*SCENES[name], device=device)
    exact, loose = (1e-11, 1e-10) if dtype == torch.float64 else (1e-3, 3e-3)

    def run():
        v = vertices.to(dtype).requires_grad_()
        k = matrix(rows, v).requires_grad_()
        found = rasterize(v, faces, k, image_size=SIZE, layers=3, orthographic=rows is PARALLEL)
        weighted(found).backward()
        return found, v.grad, k.grad

    found, *grads = run()
    twin, *twins = with_torch(run)
    assert torch.equal(found.pix_to_face, twin.pix_to_face)
    assert (found.pix_to_face >= 0).any()
    torch.testing.assert_close(found.zbuf, twin.zbuf, rtol=exact, atol=exact)
    torch.testing.assert_close(found.bary_coords, twin.bary_coords, rtol=0, atol=exact)
    for grad, other in zip(grads, twins, strict=True):
        torch.testing.assert_close(grad / other.abs().max(), other / other.abs().max(), rtol=0, atol=loose)


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("most_tiles", [None, 3])
def test_the_way_of_a_gpu_finds_what_bands_of_rows_find(monkeypatch, name, own, most_tiles):
    vertices, faces = soup(*SCENES[name])
    if own:
        faces = torch.stack([faces.roll(i, 0) for i in range(len(vertices))])
    k = matrix(PERSPECTIVE, vertices)
    bands = rasterize(vertices, faces, k, image_size=(150, 200), layers=2)
    monkeypatch.setattr(scene_module, "_in_bands", lambda device: False)
    if most_tiles:  # a list that is too short: several tiles share a place of it
        monkeypatch.setattr(scene_module.Drawing, "most_tiles_of", staticmethod(lambda items: most_tiles))
    tiles = rasterize(vertices, faces, k, image_size=(150, 200), layers=2)
    assert torch.equal(bands.pix_to_face, tiles.pix_to_face)
    assert torch.equal(bands.zbuf, tiles.zbuf)


def test_agrees_with_the_rasterizer_of_arrays(device):
    vertices, faces = soup(1, 100, 0.4, device=device)
    camera = Camera(64, 48, 50.0, 52.0, 31.3, 23.8)
    k = matrix([[50.0, 0, 31.3], [0, 52.0, 23.8], [0, 0, 1]], vertices).float()
    found = rasterize(vertices.float(), faces, k, image_size=SIZE)
    arrays = rasterize_arrays(
        vertices[0].cpu().numpy().astype(np.float32), faces.cpu().numpy().astype(np.int32), camera, device=device
    )
    np.testing.assert_array_equal(found.pix_to_face[0, ..., 0].cpu().numpy(), arrays.face)
    seen = arrays.face >= 0
    np.testing.assert_allclose(
        found.zbuf[0, ..., 0].cpu().numpy()[seen], arrays.depth[seen], rtol=2e-3
    )  # of snapped corners


def test_a_slanted_square_is_where_geometry_says(device):
    # the plane z = 2 + x, seen at pixels whose rays are known
    corners = [[-1.0, -1, 1], [1, -1, 3], [1, 1, 3], [-1, 1, 1]]
    vertices = torch.tensor(corners, dtype=torch.float64, device=device)
    faces = torch.tensor([[0, 1, 2], [0, 2, 3]], device=device)
    k = matrix([[40.0, 0, 32], [0, 40.0, 24], [0, 0, 1]], vertices)
    found = rasterize(vertices, faces, k, image_size=SIZE)
    x = (torch.arange(64, device=device).double() + 0.5 - 32) / 40
    y = (torch.arange(48, device=device).double() + 0.5 - 24) / 40
    depth = (2 / (1 - x)).expand(48, 64)
    inside = ((depth * x).abs() <= 1) & ((depth * y[:, None]).abs() <= 1)
    seen = found.mask[0]
    assert (seen != inside).sum() <= 4  # snapping moves corners by 1/512 of a pixel
    both = seen & inside
    torch.testing.assert_close(found.zbuf[0, ..., 0][both], depth[both], rtol=1e-12, atol=0)
    points = interpolate(vertices, found, faces)[0, ..., 0, :]
    torch.testing.assert_close(points[both][:, 0], (depth * x)[both], rtol=1e-12, atol=1e-12)
    assert found.pix_to_face[0][~seen].eq(-1).all()
    assert found.zbuf[0][~seen].eq(-1).all()


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**31), near_by=st.booleans())
def test_rays_enter_and_leave_a_closed_surface(seed, near_by):
    """Cracks and pixels covered twice would leave an odd number of layers, or two of one direction."""
    vertices, faces = sphere(3, seed)
    focal = 400.0 if near_by else 60.0
    k = matrix([[focal, 0, 32], [0, focal, 24], [0, 0, 1]], vertices)
    found = rasterize(vertices, faces, k, image_size=SIZE, layers=4)
    layers = (found.pix_to_face >= 0).sum(-1)
    assert set(layers.unique().tolist()) <= {0, 2}
    a, b, c = vertices[faces].unbind(1)
    away = ((torch.linalg.cross(b - a, c - a) * a).sum(-1) > 0)[found.pix_to_face.clamp(min=0)]
    twice = layers == 2
    assert (away[..., 0] ^ away[..., 1])[twice].all()
    # corners are snapped to 1/256 pixel: at the outline, where both faces are edge-on, the ray may pass beside them
    assert (found.zbuf[..., 1] >= found.zbuf[..., 0] - 1e-3)[twice].all()


def test_layers_are_what_a_ray_meets_in_order():
    depths = torch.tensor([3.0, 1.0, 2.0, 1.0, 5.0], dtype=torch.float64)
    corners = torch.tensor([[-9.0, -9, 1], [9, -9, 1], [0, 9, 1]], dtype=torch.float64)
    vertices = (corners * depths[:, None, None]).reshape(-1, 3)
    found = rasterize(vertices, torch.arange(15).reshape(5, 3), torch.eye(3).double(), image_size=2, layers=6)
    # equal depths: the lower index first
    assert found.pix_to_face[0, 0, 0].tolist() == [1, 3, 2, 0, 4, -1]
    torch.testing.assert_close(found.zbuf[0, 0, 0, :5], torch.tensor([1.0, 1, 2, 3, 5], dtype=torch.float64))


def test_a_batch_is_each_mesh_by_itself(device):
    vertices, faces = soup(3, 60, 0.4, device=device)
    own = torch.stack([faces, faces.flip(0), faces.roll(1, 1)])
    k = matrix([PERSPECTIVE] * 3, vertices)
    k[:, 0, 0] += torch.arange(3, device=device)
    for given_faces in (faces, own):
        together = rasterize(vertices, given_faces, k, image_size=SIZE)
        for i in range(3):
            one = given_faces if given_faces.dim() == 2 else given_faces[i]
            alone = rasterize(vertices[i], one, k[i], image_size=SIZE)
            for name in ("pix_to_face", "zbuf", "bary_coords"):
                assert torch.equal(getattr(together, name)[i : i + 1], getattr(alone, name))


def test_many_cameras_see_one_mesh():
    vertices, faces = soup(1, 60, 0.4)
    k = matrix([PERSPECTIVE] * 3, vertices)
    k[:, 0, 2] += torch.arange(3)
    found = rasterize(vertices, faces, k, image_size=SIZE)
    # a principal point one pixel to the right moves the picture by one pixel
    assert torch.equal(found.pix_to_face[0, :, :-2], found.pix_to_face[2, :, 2:])


def test_the_order_of_faces_and_copies_of_them_change_nothing():
    vertices, faces = soup(1, 80, 0.4, seed=3)
    vertices.requires_grad_()
    k = matrix(PERSPECTIVE, vertices)
    order = torch.randperm(len(faces), generator=torch.Generator().manual_seed(0))
    results = []
    for f, name in ((faces, torch.arange(80)), (faces[order], order), (torch.cat([faces, faces]), torch.arange(160))):
        found = rasterize(vertices, f, k, image_size=SIZE)
        named = torch.where(found.pix_to_face >= 0, name[found.pix_to_face.clamp(min=0)], -1)
        grad = torch.autograd.grad(weighted(found), vertices)[0]
        results.append((named, found.zbuf, grad))
    for other in results[1:]:
        for mine, theirs in zip(results[0], other, strict=True):
            assert torch.equal(mine, theirs)


def test_a_plain_of_ten_thousand_kilometres(device):
    """Corners at 1e7 that project to where no integer reaches are cut, and nothing before the camera is lost."""
    corners = [[-1e7, 1.7, -1e7], [1e7, 1.7, -1e7], [1e7, 1.7, 1e7], [-1e7, 1.7, 1e7]]
    vertices = torch.tensor(corners, dtype=torch.float64, device=device)
    faces = torch.tensor([[0, 1, 2], [0, 2, 3]], device=device)
    k = matrix([[500.0, 0, 32], [0, 500, -100], [0, 0, 1]], vertices)
    for dtype, tolerance in ((torch.float64, 1e-6), (torch.float32, 1e-3)):
        found = rasterize(vertices.to(dtype), faces, k.to(dtype), image_size=SIZE)
        y = (torch.arange(48, device=device).double() + 0.5 + 100) / 500
        assert found.mask.all()
        expected = (1.7 / y)[:, None].expand(48, 64)
        torch.testing.assert_close(found.zbuf[0, ..., 0].double(), expected, rtol=tolerance, atol=0)


def test_small_faces_far_away_keep_their_digits():
    vertices, faces = soup(1, 50, 0.02, 1.0, seed=4)
    vertices[..., :2] *= 0.05
    vertices[..., 2] += 1e7
    k = matrix([[2e9, 0, 32], [0, 2e9, 24], [0, 0, 1]], vertices)
    found = rasterize(vertices, faces, k, image_size=SIZE)
    assert found.mask.any()
    points = interpolate(vertices, found, faces)[0, ..., 0, :]
    seen = found.mask[0]
    pixel = points[seen][:, :2] / points[seen][:, 2:] * 2e9 + torch.tensor([32.0, 24])
    place = torch.stack(torch.meshgrid(torch.arange(48.0), torch.arange(64.0), indexing="ij")[::-1], -1) + 0.5
    assert (pixel - place[seen]).abs().median() < 1e-3


def test_gradients_against_finite_differences():
    vertices, faces = soup(1, 4, 0.6, seed=1)
    values = torch.randn(12, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for orthographic, scale in ((False, 8.0), (True, 2.0)):
        top = torch.tensor([[scale, 0.3, 4], [0, scale, 3]], dtype=torch.float64)

        def run(v, top, values, orthographic=orthographic):
            k = torch.cat([top, top.new_tensor([[0, 0, 1]])])
            found = rasterize(v, faces, k, image_size=(6, 8), layers=2, orthographic=orthographic)
            depth = torch.where(found.pix_to_face >= 0, found.zbuf, 0)
            return interpolate(values, found, faces), depth

        inputs = [tensor.clone().requires_grad_() for tensor in (vertices, top, values)]
        assert torch.autograd.gradcheck(run, inputs, eps=1e-7, atol=1e-5, rtol=1e-4)


def test_gradients_of_cameras_against_finite_differences():
    vertices, faces = soup(1, 4, 0.6, seed=1)
    pose = torch.eye(4, dtype=torch.float64)
    pose[:3, 3] = torch.tensor([0.1, -0.1, 0.2])
    for kind, scale in ((Pinhole, 12.0), (Orthographic, 3.0)):

        def run(focal, center, move, kind=kind):
            camera = kind(14, 10, focal, center, pose + torch.nn.functional.pad(move[:, None], (3, 0, 0, 1)))
            found = rasterize(vertices[0], faces, camera)
            return torch.where(found.mask[..., None, None], found.bary_coords, 0)

        inputs = [torch.tensor(x, dtype=torch.float64) for x in ([scale, scale + 1], [7.0, 5.0], [0.0, 0.0, 0.0])]
        assert torch.autograd.gradcheck(run, [x.requires_grad_() for x in inputs], eps=1e-7, atol=1e-5, rtol=1e-4)


def test_cameras_see_what_their_intrinsics_say():
    vertices, faces = soup(1, 50, 0.4, seed=2)
    pose = torch.eye(4, dtype=torch.float64)
    pose[:3, :3] = torch.tensor(trimesh.transformations.euler_matrix(0.1, -0.2, 0.3)[:3, :3])
    pose[:3, 3] = torch.tensor([0.2, 0.1, -0.5])
    focal, center = torch.tensor([50.0, 52.0]).double(), torch.tensor([31.0, 25.0]).double()
    camera = Pinhole(64, 48, focal, center, pose)
    moved = (vertices - pose[:3, 3]) @ pose[:3, :3]
    k = matrix([[50.0, 0, 31], [0, 52, 25], [0, 0, 1]], vertices)
    assert torch.equal(
        rasterize(vertices, faces, camera).pix_to_face, rasterize(moved, faces, k, image_size=SIZE).pix_to_face
    )
    two = replace(camera, center=torch.stack([center, center + 1]))
    assert rasterize(vertices, faces, two).zbuf.shape == (2, 48, 64, 1)


def test_the_same_bits_every_time(device):
    vertices, faces = soup(2, 3000, 0.1, device=device)
    values = torch.rand(9000, 4, device=device)
    results = []
    for _ in range(2):
        v, a = vertices.float().requires_grad_(), values.clone().requires_grad_()
        found = rasterize(v, faces, matrix(PERSPECTIVE, v), image_size=(240, 320))
        image = interpolate(a, found, faces)
        (image.sin().sum() + weighted(found)).backward()
        results.append((found.pix_to_face, found.zbuf, found.bary_coords, image, v.grad, a.grad))
    for first, second in zip(*results, strict=True):
        assert torch.equal(first, second)


@pytest.mark.parametrize("kind", ["vertices", "vertices, batch", "corners", "corners, batch"])
@pytest.mark.parametrize("own", [False, True])
def test_interpolation_agrees_with_plain_torch(device, with_torch, kind, own):
    vertices, faces = soup(2, 50, 0.5, device=device)
    if own:
        faces = torch.stack([faces, faces.flip(0)])
    shape = {
        "vertices": (150, 1),
        "vertices, batch": (2, 150, 5),
        "corners": (50, 3, 2),
        "corners, batch": (2, 50, 3, 2),
    }[kind]
    values = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(device)

    def run():
        v, a = vertices.clone().requires_grad_(), values.clone().requires_grad_()
        found = rasterize(v, faces, matrix(PERSPECTIVE, v), image_size=SIZE, layers=2)
        image = interpolate(a, found, faces)
        (image * torch.linspace(-1, 1, image.numel(), device=device).reshape(image.shape)).sum().backward()
        return image, v.grad, a.grad

    for mine, theirs in zip(run(), with_torch(run), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-9)


def test_corners_keep_seams_apart():
    vertices = torch.tensor([[-1.0, -1, 1], [1, -1, 1], [1, 1, 1], [-1, 1, 1]])
    faces = torch.tensor([[0, 1, 2], [0, 2, 3]])
    values = torch.tensor([[[1.0]] * 3, [[2.0]] * 3])
    found = rasterize(vertices, faces, matrix([[4.0, 0, 4], [0, 4, 4], [0, 0, 1]], vertices), image_size=8)
    image = interpolate(values[None], found, faces)[0, ..., 0, 0]
    torch.testing.assert_close(image, found.pix_to_face[0, ..., 0] + 1.0)


def test_derivatives_from_pixel_to_pixel(device, with_torch):
    vertices, faces = soup(2, 30, 0.8, 0.5, device=device)
    values = torch.randn(90, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(device)
    for rows, orthographic in ((PERSPECTIVE, False), (PARALLEL, True)):
        k = matrix(rows, vertices)
        found = rasterize(vertices, faces, k, image_size=SIZE, orthographic=orthographic)
        image = interpolate(values, found, faces)

        def run(found=found, k=k, orthographic=orthographic):
            return screen_derivatives(values, found, vertices, faces, k, orthographic=orthographic)

        slopes = run()
        torch.testing.assert_close(slopes, with_torch(run), rtol=1e-9, atol=1e-9)
        for axis in (0, 1):
            shifted = k.clone()
            shifted[axis, 2] -= 1e-5  # as if the pixels lay a little further on
            other = rasterize(vertices, faces, shifted, image_size=SIZE, orthographic=orthographic)
            same = (other.pix_to_face == found.pix_to_face) & (found.bary_coords.amin(-1) > 1e-3)
            same &= other.bary_coords.amin(-1) > 1e-3
            differences = (interpolate(values, other, faces) - image) / 1e-5
            scale = slopes[same].abs().max()
            torch.testing.assert_close(slopes[..., axis][same] / scale, differences[same] / scale, rtol=0, atol=1e-4)


def test_nothing_to_draw(device):
    k = torch.eye(3, device=device)
    no_faces = torch.zeros(0, 3, dtype=torch.int64, device=device)
    for vertices in (torch.zeros(0, 3, device=device), torch.ones(5, 3, device=device)):
        found = rasterize(vertices.requires_grad_(), no_faces, k, image_size=4)
        assert not found.mask.any()
        assert interpolate(vertices, found, no_faces).eq(0).all()
        assert torch.autograd.grad(found.zbuf.sum(), vertices)[0].eq(0).all()
    nobody = rasterize(torch.zeros(0, 5, 3, device=device), torch.tensor([[0, 1, 2]], device=device), k, image_size=4)
    assert nobody.bary_coords.shape == (0, 4, 4, 1, 3)


def test_faces_without_area_are_not_seen():
    line = torch.tensor([[0.0, 0, 1], [1, 1, 1], [0.5, 0.5, 1]])
    k = matrix([[4.0, 0, 2], [0, 4, 2], [0, 0, 1]], line)
    faces = torch.tensor([[0, 1, 2], [0, 0, 1], [2, 2, 2]])
    assert not rasterize(line, faces, k, image_size=8).mask.any()


def test_any_strides_and_widths_of_indices():
    vertices, faces = soup(2, 30, 0.4)
    k = matrix(PERSPECTIVE, vertices)
    expected = rasterize(vertices, faces, k, image_size=SIZE)
    strided = torch.stack([vertices, vertices], -1)[..., 0]
    assert not strided.is_contiguous()
    for f in (faces.int(), faces.T.contiguous().T, faces[None].expand(2, -1, -1)):
        found = rasterize(strided, f, k.T.contiguous().T, image_size=SIZE)
        assert torch.equal(found.pix_to_face, expected.pix_to_face)
        assert torch.equal(found.bary_coords, expected.bary_coords)


@pytest.mark.parametrize("kernels", ["warp", "torch"])
def test_bad_values_are_named(monkeypatch, kernels):
    monkeypatch.setenv("SMR_KERNELS", kernels)
    vertices, faces = soup(1, 5, 0.4)
    k = matrix(PERSPECTIVE, vertices)

    def run(vertices=vertices, faces=faces, k=k):
        return rasterize(vertices, faces, k, image_size=SIZE)

    for bad in (15, -1, 2**40):
        wrong = faces.clone()
        wrong[3, 1] = bad
        with pytest.raises(ValueError, match=rf"faces\[3, 1\] is {bad}; it must be an index into 15 vertices"):
            run(faces=wrong)
    for bad in (np.nan, np.inf):
        wrong = vertices.clone()
        wrong[0, 7, 2] = bad
        with pytest.raises(ValueError, match=rf"vertices\[0, 7, 2\] is {bad}; all values must be finite"):
            run(vertices=wrong)
    wrong = k.clone()
    wrong[0, 2] = np.nan
    with pytest.raises(ValueError, match=r"camera\[0, 0, 2\] is nan"):
        run(k=wrong)
    with pytest.raises(ValueError, match=r"faces\[0, 0\] is 0; it must be an index into 0 vertices"):
        run(vertices=vertices[:, :0])


def test_unchecked_bad_values_draw_nothing(monkeypatch, device):
    monkeypatch.setenv("SMR_CHECKS", "0")
    vertices, faces = soup(1, 5, 0.4, device=device)
    k = matrix(PERSPECTIVE, vertices)
    whole = rasterize(vertices, faces, k, image_size=SIZE)
    vertices[0, 0] = np.nan
    faces[1, 2] = 99
    found = rasterize(vertices, faces, k, image_size=SIZE)
    rest = whole.pix_to_face > 1
    assert torch.equal(found.pix_to_face[rest], whole.pix_to_face[rest])
    assert not ((found.pix_to_face == 0) | (found.pix_to_face == 1)).any()


@pytest.mark.parametrize("kernels", ["warp", "torch"])
def test_fragments_of_other_faces_give_nan(monkeypatch, kernels):
    monkeypatch.setenv("SMR_KERNELS", kernels)
    vertices, faces = soup(1, 5, 0.4)
    found = rasterize(vertices, faces, matrix(PERSPECTIVE, vertices), image_size=SIZE)
    image = interpolate(torch.ones(15, 1, dtype=torch.float64), found, faces[:3])[..., 0]
    assert torch.equal(image.isnan(), found.pix_to_face >= 3)
    image = interpolate(torch.ones(12, 1, dtype=torch.float64), found, faces)[..., 0]
    assert torch.equal(image.isnan(), found.pix_to_face == 4)


@pytest.mark.usefixtures("unchecked")
def test_wrong_calls_are_refused():
    vertices, faces = soup(2, 5, 0.4)
    k = matrix(PERSPECTIVE, vertices)

    def run(vertices=vertices, faces=faces, k=k, **options):
        return rasterize(vertices, faces, k, **{"image_size": SIZE, **options})

    cases = [
        (TypeError, "vertices must be float32 or float64, not float16", {"vertices": vertices.half()}),
        (TypeError, "vertices must be a torch tensor, not ndarray", {"vertices": vertices.numpy()}),
        (ValueError, r"vertices must have the shape \(\*, \*, 3\)", {"vertices": vertices[..., :2]}),
        (TypeError, "faces must be int32 or int64, not float64", {"faces": faces.double()}),
        (TypeError, "faces must be a torch tensor", {"faces": [[0, 1, 2]]}),
        (ValueError, r"faces must have the shape \(\*, 3\), not \(15,\)", {"faces": faces.reshape(-1)}),
        (ValueError, "faces are a batch of 3, and the vertices of 2", {"faces": faces.expand(3, -1, -1)}),
        (ValueError, "camera is a batch of 3, and the others of 2", {"k": k.expand(3, -1, -1)}),
        (TypeError, "camera is torch.float32 and vertices torch.float64", {"k": k.float()}),
        (ValueError, "is on meta, where tensors have no values", {"vertices": vertices.to("meta")}),
        (ValueError, "layers must be at least 1, not 0", {"layers": 0}),
        (ValueError, "near must be positive for a perspective view, not 0", {"near": 0.0}),
        (ValueError, "image_size is needed", {"image_size": None}),
        (ValueError, "image_size must be 1 to 65536 pixels high and wide, not 0 x 5", {"image_size": (0, 5)}),
        (ValueError, r"at most 2\^31 - 1 are supported", {"vertices": vertices[:1, :1].expand(1, 2**30, 3)}),
        (ValueError, r"the result has .* numbers", {"image_size": 65536}),
    ]
    for error, words, change in cases:
        with pytest.raises(error, match=words):
            run(**change)


def test_wrong_cameras_are_refused():
    vertices, faces = soup(1, 5, 0.4)
    one = torch.ones(2, dtype=torch.float64)
    camera = Pinhole(64, 48, 50 * one, 30 * one)
    with pytest.raises(ValueError, match="camera without distortion; undistort the images first"):
        rasterize(vertices, faces, replace(camera, distortion=torch.zeros(8, dtype=torch.float64)))
    with pytest.raises(TypeError, match="needs a Pinhole or an Orthographic camera, not Fisheye"):
        rasterize(vertices, faces, Fisheye(64, 48, 50 * one, 30 * one))
    with pytest.raises(ValueError, match=r"image_size is \(5, 5\) and the camera's"):
        rasterize(vertices, faces, camera, image_size=(5, 5))
    with pytest.raises(TypeError, match=r"vertices are torch.float32 and the camera torch.float64"):
        rasterize(vertices.float(), faces, camera)
    with pytest.raises(ValueError, match="batch must have at most one axis"):
        rasterize(vertices, faces, replace(camera, focal=50 * torch.ones(2, 2, 2, dtype=torch.float64)))


@pytest.mark.usefixtures("unchecked")
def test_wrong_interpolations_are_refused():
    vertices, faces = soup(2, 5, 0.4)
    found = rasterize(vertices, faces, matrix(PERSPECTIVE, vertices), image_size=SIZE)
    with pytest.raises(TypeError, match="fragments must be what rasterize returns"):
        interpolate(vertices, found.zbuf, faces)
    with pytest.raises(TypeError, match=r"attributes are torch.float32 and fragments torch.float64"):
        interpolate(vertices.float(), found, faces)
    with pytest.raises(ValueError, match="attributes is a batch of 3, and the others of 2"):
        interpolate(vertices[:1].repeat(3, 1, 1), found, faces)
    with pytest.raises(TypeError, match="attributes must be a torch tensor"):
        interpolate([1.0], found, faces)
    with pytest.raises(ValueError, match=r"fragments.bary_coords must have the shape"):
        interpolate(vertices, Fragments(found.pix_to_face, found.zbuf, found.bary_coords[:1]), faces)


@pytest.mark.data
def test_depth_of_a_known_scene(data_dir):
    import json

    from PIL import Image

    folder = data_dir("synthetic_object")
    cameras = json.loads((folder / "cameras.json").read_text())
    meshes = [trimesh.load(folder / "ground_truth" / f"{name}.ply", process=False) for name in ("objects", "table")]
    whole = trimesh.util.concatenate(meshes)
    pose = torch.tensor(cameras["frames"][0]["camera_to_world"], dtype=torch.float64)
    center = torch.tensor([cameras["cx"] + 0.5, cameras["cy"] + 0.5], dtype=torch.float64)
    camera = Pinhole(640, 480, torch.tensor([cameras["fx"], cameras["fy"]], dtype=torch.float64), center, pose)
    found = rasterize(torch.tensor(whole.vertices), torch.tensor(whole.faces), camera)
    depth = np.asarray(Image.open(folder / "depth" / "0000.png")).astype(float) / cameras["depth_scale"]
    seen = found.mask[0].numpy()
    assert (seen != (depth > 0)).mean() < 1e-4
    error = np.abs(found.zbuf[0, ..., 0].numpy() - depth)[seen & (depth > 0)]
    assert np.quantile(error, 0.99) < 0.51 / cameras["depth_scale"]  # what the file rounds to


def test_values_are_looked_at_only_where_asked(monkeypatch):
    assert os.environ.get("SMR_CHECKS") is None
    vertices, faces = soup(1, 5, 0.4)
    vertices[0, 0, 0] = np.nan
    monkeypatch.setenv("SMR_CHECKS", "0")
    rasterize(vertices, faces, matrix(PERSPECTIVE, vertices), image_size=SIZE)
