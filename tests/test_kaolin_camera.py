"""smr.kaolin.render.camera: the same images as smr.ops.cameras, and what Kaolin's own tests leave out."""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from smr.errors import SmrError  # noqa: E402
from smr.kaolin.render import camera as kal  # noqa: E402
from smr.ops import cameras as ops  # noqa: E402

F64 = torch.float64
EYE, AT, UP = [3.0, 2.0, 5.0], [0.1, -0.2, 0.3], [0.1, 1.0, -0.2]


def pinhole(**more: Any) -> kal.Camera:
    args: dict[str, Any] = {"eye": EYE, "at": AT, "up": UP, "width": 64, "height": 48, "dtype": F64}
    args |= {"focal_x": 50.0, "focal_y": 60.0, "x0": 3.0, "y0": -2.0, "near": 0.5, "far": 20.0}
    return kal.Camera.from_args(**(args | more))


def ortho(**more: Any) -> kal.Camera:
    args: dict[str, Any] = {"eye": EYE, "at": AT, "up": UP, "width": 64, "height": 48, "dtype": F64}
    return kal.Camera.from_args(**(args | {"fov_distance": 1.5, "near": 0.5, "far": 20.0} | more))


def world_points(count: int = 20) -> Any:
    return torch.randn(count, 3, dtype=F64, generator=torch.Generator().manual_seed(3))


def pixels_of(camera: kal.Camera, ndc: Any) -> Any:
    """From NDC to pixels from the upper left corner."""
    return torch.stack([(ndc[..., 0] + 1) / 2 * camera.width, (1 - ndc[..., 1]) / 2 * camera.height], -1)


# --- the same camera as smr.ops.cameras --------------------------------------------------------------------------


def test_projects_as_the_camera_of_ops_does() -> None:
    camera, points = pinhole(), world_points()
    projected = ops.from_kaolin(camera).project(points[None])
    torch.testing.assert_close(pixels_of(camera, camera.transform(points))[None], projected.pixels)
    there_and_back = kal.Camera.from_args(
        **ops.to_kaolin(ops.from_kaolin(camera))._asdict(), dtype=F64, near=0.5, far=20.0
    )
    assert torch.allclose(there_and_back, camera)


def test_rays_go_where_the_camera_projects() -> None:
    for camera in (pinhole(), ortho()):
        origins, directions = camera.generate_rays()
        centres = ops.Pinhole(64, 48, torch.ones(2), torch.ones(2)).pixel_centers().double().reshape(-1, 2)
        torch.testing.assert_close(directions.norm(dim=-1), torch.ones(64 * 48, dtype=F64))
        torch.testing.assert_close(pixels_of(camera, camera.transform(origins + 3.0 * directions)), centres)
    origins, directions = pinhole().generate_rays()
    rays = ops.from_kaolin(pinhole()).rays()
    torch.testing.assert_close(directions, rays.directions.reshape(-1, 3))
    torch.testing.assert_close(origins, rays.origins.reshape(-1, 3))


def test_the_planes_are_the_ends_of_ndc() -> None:
    for camera in (pinhole(), ortho()):
        for low, high in ((-1.0, 1.0), (0.0, 1.0)):
            camera.intrinsics.set_ndc_range(low, high)
            at = -camera.cam_forward()[0, :, 0]
            ends = camera.cam_pos()[0, :, 0] + torch.tensor([[0.5], [4.0], [20.0]], dtype=F64) * at
            depths = camera.transform(ends)[:, 2]
            torch.testing.assert_close(depths[[0, 2]], torch.tensor([low, high], dtype=F64))
            torch.testing.assert_close(camera.normalize_depth(torch.tensor([0.5, 4.0, 20.0], dtype=F64)), depths)
            window = camera.viewport_matrix()[0] @ torch.tensor([0.0, 0.0, low, 1.0], dtype=F64)
            torch.testing.assert_close(window[:3], torch.tensor([32.0, 24.0, 0.0], dtype=F64))
        assert camera.clip_mask(torch.tensor([0.4, 0.6, 19.0, 21.0])).tolist() == [False, True, True, False]


def test_the_projection_is_the_product_of_its_parts() -> None:
    lens = pinhole().intrinsics
    product = lens.ndc_matrix(-32.0, 32.0, -24.0, 24.0, 0.5, 20.0) @ lens.perspective_matrix()
    torch.testing.assert_close(lens.projection_matrix(), product)
    opengl = ops.to_opengl(ops.from_kaolin(pinhole()), 0.5, 20.0)
    torch.testing.assert_close(lens.projection_matrix(), opengl.projection)
    torch.testing.assert_close(pinhole().view_matrix(), opengl.view)


# --- poses -------------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.floats(-7, 7), st.floats(-7, 7), st.floats(-7, 7))
def test_turning_leaves_a_camera_where_it_is(yaw: float, pitch: float, roll: float) -> None:
    camera = pinhole()
    position, before = camera.cam_pos(), camera.R
    camera.rotate(yaw=yaw, pitch=pitch, roll=roll)
    torch.testing.assert_close(camera.cam_pos(), position)
    step = pinhole()
    for angle in ({"yaw": yaw}, {"pitch": pitch}, {"roll": roll}):
        step.rotate(**angle)
    torch.testing.assert_close(camera.R, step.R)
    torch.testing.assert_close(camera.R @ camera.R.mT, torch.eye(3, dtype=F64)[None])
    c, s = math.cos(yaw), math.sin(yaw)
    expected = torch.tensor([[c, 0, -s], [0, 1, 0], [s, 0, c]], dtype=F64)
    only_yaw = pinhole()
    only_yaw.rotate(yaw=torch.tensor([[yaw]], dtype=F64))
    torch.testing.assert_close(only_yaw.R @ before.mT, expected[None])


def test_moves_follow_the_cameras_axes() -> None:
    for move, axis in (("move_right", "cam_right"), ("move_up", "cam_up"), ("move_forward", "cam_forward")):
        camera = pinhole()
        expected = camera.cam_pos() + 0.7 * getattr(camera, axis)()
        getattr(camera, move)(0.7)
        torch.testing.assert_close(camera.cam_pos(), expected)
    camera = pinhole()
    expected = camera.cam_pos()[:, :, 0] + torch.tensor([1.0, 2.0, 3.0], dtype=F64)
    camera.translate(torch.tensor([1.0, 2.0, 3.0], dtype=F64))
    torch.testing.assert_close(camera.cam_pos()[:, :, 0], expected)


def test_other_axes_of_the_world_show_the_same_image() -> None:
    camera, points = pinhole(), world_points()
    before = camera.transform(points)
    change = kal.blender_coords().double()
    assert torch.equal(change @ torch.tensor([0.0, 1.0, 0.0], dtype=F64), torch.tensor([0.0, 0.0, 1.0], dtype=F64))
    camera.change_coordinate_system(change)
    torch.testing.assert_close(camera.transform(points @ change.T), before)
    camera.change_coordinate_system(torch.diag(torch.tensor([1.0, 1.0, -1.0])))
    camera.reset_coordinate_system()
    torch.testing.assert_close(camera.transform(points), before)
    assert torch.equal(kal.opengl_coords(), torch.eye(3))


def test_gradients_switch_to_a_backend_that_stays_a_rotation() -> None:
    camera = pinhole()
    assert camera.backend_name == "matrix_se3"
    camera.requires_grad_(True)
    assert camera.backend_name == "matrix_6dof_rotation"
    parameters = camera.parameters()
    optimizer = torch.optim.SGD(parameters, lr=0.5)
    target = ortho(eye=[2.5, 2.5, 5.5]).view_matrix()
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(camera.view_matrix(), target)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.3 * losses[0]
    torch.testing.assert_close(camera.R @ camera.R.mT, torch.eye(3, dtype=F64)[None])
    camera.move_right(0.5)  # an optimiser goes on with the same tensor
    assert camera.parameters()[0] is parameters[0]
    camera.focal_x = 55.0
    assert camera.parameters()[1] is parameters[1]
    assert float(parameters[1].detach()[0, 2]) == 55.0
    camera.requires_grad_(False)
    assert camera.backend_name == "matrix_se3"
    camera.switch_backend("matrix_6dof_rotation")
    camera.requires_grad_(True)
    camera.requires_grad_(False)
    assert camera.backend_name == "matrix_6dof_rotation"


def test_gradients_flow_from_a_pose_that_is_set() -> None:
    t = torch.tensor([[[0.1], [0.2], [-3.0]]], dtype=F64, requires_grad=True)
    camera = pinhole()
    camera.t = t
    camera.transform(world_points()).sum().backward()
    assert t.grad is not None
    assert (t.grad != 0).any()


def test_masks_name_parameters() -> None:
    camera = pinhole()
    pose, lens = camera.gradient_mask("t", "focal_x", "focal_y")
    assert pose.nonzero()[:, 1].tolist() == [3, 7, 11]
    assert lens.tolist() == [[False, False, True, True]]
    camera.switch_backend("matrix_6dof_rotation")
    assert camera.gradient_mask("R")[0].tolist() == [[True] * 6 + [False] * 3]
    names = camera.named_params()
    assert names[0]["focal_x"] == 50.0
    assert names[0]["R"].shape == (3, 3)


# --- lenses ------------------------------------------------------------------------------------------------------


def test_another_image_size_shows_the_same_part_of_the_scene() -> None:
    camera, points = pinhole(), world_points()
    before = camera.transform(points)
    camera.width, camera.height = 128, 12
    torch.testing.assert_close(camera.transform(points), before)
    assert (camera.width, camera.height) == (128, 12)


def test_fields_of_view() -> None:
    camera = kal.PinholeIntrinsics.from_fov(80, 60, math.radians(40), dtype=F64)
    torch.testing.assert_close(camera.fov_y, torch.tensor([40.0], dtype=F64))
    assert float(camera.fov(kal.CameraFOV.DIAGONAL)) > float(camera.fov_x) > 40
    wide = kal.PinholeIntrinsics.from_fov(80, 60, math.radians(50), kal.CameraFOV.HORIZONTAL, dtype=F64)
    torch.testing.assert_close(wide.fov_x, torch.tensor([50.0], dtype=F64))
    diagonal = kal.PinholeIntrinsics.from_fov(80, 60, torch.tensor(1.0, dtype=F64), kal.CameraFOV.DIAGONAL)
    torch.testing.assert_close(diagonal.fov(kal.CameraFOV.DIAGONAL, in_degrees=False), torch.tensor([1.0], dtype=F64))
    ratio = camera.focal_x / camera.focal_y
    camera.zoom(10.0)
    torch.testing.assert_close(camera.fov_y, torch.tensor([30.0], dtype=F64))
    torch.testing.assert_close(camera.focal_x / camera.focal_y, ratio)
    camera.zoom(-1000.0)
    assert float(camera.fov_y) < 180
    camera.fov_x = 60.0
    torch.testing.assert_close(camera.fov_x, torch.tensor([60.0], dtype=F64))
    lens = ortho().intrinsics
    lens.zoom(0.5)
    assert lens.fov_distance.tolist() == [[1.0]]


# --- as one object -----------------------------------------------------------------------------------------------


def test_a_camera_has_what_its_parts_have() -> None:
    camera = pinhole()
    camera.x0 += 4.0
    assert camera.intrinsics.x0.tolist() == [7.0]
    camera.near = 0.1
    assert camera.intrinsics.near == 0.1
    assert camera.lens_type == "pinhole"
    camera.note = "mine"
    assert camera.note == "mine"
    twin = copy.deepcopy(camera)
    twin.x0 = 0.0
    twin.move_up(1.0)
    assert camera.x0.tolist() == [7.0]
    assert not torch.allclose(camera, twin)
    assert "CameraExtrinsics of 1 cameras" in str(camera)
    assert "PinholeIntrinsics of 1 cameras" in repr(camera)
    with pytest.raises(AttributeError, match="neither CameraExtrinsics nor PinholeIntrinsics has 'lense'"):
        _ = camera.lense


def test_batches() -> None:
    both = kal.Camera.cat([pinhole(), pinhole(eye=[1.0, 2.0, 3.0], focal_x=70.0)])
    points = world_points()
    assert len(both) == 2
    assert [len(camera) for camera in both] == [1, 1]
    whole = both.transform(points)
    assert whole.shape == (2, 20, 3)
    for i in range(2):
        torch.testing.assert_close(both[i].transform(points), whole[i])
    assert torch.allclose(kal.Camera.cat(list(both)), both)
    assert len(both[torch.tensor([1, 1, 0])]) == 3
    many = pinhole(focal_x=torch.tensor([50.0, 60.0, 70.0]))
    assert len(many) == 3
    assert both.as_dict()["intrinsics"]["focal_x"] == [50.0, 70.0]
    assert torch.allclose(kal.Camera.from_dict(both.as_dict()).double(), both, atol=1e-6)


@pytest.mark.parametrize("make", [pinhole, ortho])
def test_dictionaries_there_and_back(make: Callable[..., kal.Camera]) -> None:
    camera = make(dtype=torch.float32)
    assert torch.allclose(kal.Camera.from_dict(camera.as_dict()), camera)


def test_types_and_devices() -> None:
    camera = pinhole(requires_grad=True)
    assert camera.float().dtype == torch.float32
    assert camera.half().double().cpu().dtype == F64
    assert camera.to("cpu", torch.float32).intrinsics.requires_grad
    assert camera.device.type == "cpu"
    assert not torch.allclose(camera, pinhole(focal_x=51.0, requires_grad=True))
    assert not torch.allclose(pinhole(), ortho())


# --- paths -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interpolation", ["catmull_rom", "polynomial"])
def test_paths_go_through_their_keys_with_rotations_all_along(interpolation: str) -> None:
    keys = [pinhole(eye=[4 * math.cos(a), 1.0, 4 * math.sin(a)], focal_x=50 + 5 * a) for a in (0.0, 1.5, 3.0, 4.5)]
    path = list(kal.camera_path_generator(keys, 4, interpolation))
    assert len(path) == 16
    loop = list(kal.loop_camera_path_generator(keys, 4, interpolation, repeat=2))
    assert len(loop) == 41
    for i, key in enumerate(keys):
        assert torch.allclose(path[5 * i], key, atol=1e-9)
        assert torch.allclose(loop[20 + 5 * i], key, atol=1e-9)
    for camera in path + loop:
        torch.testing.assert_close(camera.R @ camera.R.mT, torch.eye(3, dtype=F64)[None])
    steps = [float((a.cam_pos() - b.cam_pos()).norm()) for a, b in pairwise(loop)]
    assert max(steps) < 3.0


def test_wrong_paths() -> None:
    with pytest.raises(ValueError, match=r"trajectory\[1\] is a batch of 2 cameras"):
        kal.camera_path_generator([pinhole(), kal.Camera.cat([pinhole()] * 2)], 4, "polynomial")
    with pytest.raises(ValueError, match=r"trajectory\[1\] is ortho and trajectory\[0\] pinhole"):
        kal.camera_path_generator([pinhole(), ortho()], 4, "polynomial")
    with pytest.raises(
        RuntimeError, match=r"Expected all tensors to be on the same device: trajectory\[1\] is on meta"
    ):
        kal.camera_path_generator([pinhole(), pinhole().to("meta")], 4, "polynomial")


# --- from and to others ------------------------------------------------------------------------------------------


def test_gsplats_of_nerfstudio_project_the_same() -> None:
    camera, points = kal.Camera.cat([pinhole(), pinhole(eye=[1.0, 2.0, 3.0])]), world_points()
    told = kal.kaolin_camera_to_gsplat_nerfstudio(camera)
    local = points @ told["viewmats"][:, :3, :3].mT + told["viewmats"][:, None, :3, 3]
    pixels = local @ told["Ks"].mT
    torch.testing.assert_close(pixels[..., :2] / pixels[..., 2:], pixels_of(camera, camera.transform(points)))
    assert torch.allclose(kal.gsplat_nerfstudio_camera_to_kaolin(**told), camera)
    told = kal.kaolin_camera_to_gsplat_nerfstudio(ortho())
    assert told["camera_model"] == "ortho"
    assert torch.allclose(kal.gsplat_nerfstudio_camera_to_kaolin(**told), ortho())
    with pytest.raises(ValueError, match="the camera model 'fisheye' has no counterpart; these have: pinhole, ortho"):
        kal.gsplat_nerfstudio_camera_to_kaolin(told["Ks"], told["viewmats"], camera_model="fisheye")


class _InriaCamera:
    """The constructor's arguments and attributes of `scene.cameras.Camera`."""

    def __init__(
        self, colmap_id: int, R: Any, T: Any, FoVx: Any, FoVy: Any, image: Any, gt_alpha_mask: Any,
        image_name: str, uid: int, data_device: str = "cuda",
    ) -> None:  # fmt: skip
        self.R, self.T, self.FoVx, self.FoVy, self.data_device = R, T, FoVx, FoVy, data_device
        self.image_height, self.image_width = image.shape[1:]
        self.znear, self.zfar = 0.01, 100.0


def test_gsplats_of_inria_there_and_back() -> None:
    camera = pinhole(x0=0.0, y0=0.0, near=0.01, far=100.0, dtype=torch.float32)
    told = kal.kaolin_camera_to_gsplat_inria(camera, _InriaCamera)
    opencv = ops.from_kaolin(camera)[0].camera_from_world
    torch.testing.assert_close(torch.from_numpy(told.R).T, opencv[:3, :3])
    torch.testing.assert_close(torch.from_numpy(told.T), opencv[:3, 3])
    assert torch.allclose(kal.gsplat_inria_camera_to_kaolin(told), camera, atol=1e-5)
    with pytest.warns(DeprecationWarning, match="use kaolin_camera_to_gsplat_inria"):
        kal.kaolin_camera_to_gsplats(camera, _InriaCamera)
    with pytest.warns(DeprecationWarning, match="use gsplat_inria_camera_to_kaolin"):
        kal.gsplats_camera_to_kaolin(told)


def test_polyscope(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polyscope", None)
    with pytest.raises(SmrError, match="polyscope is not installed"):
        kal.kaolin_camera_to_polyscope(pinhole())
    stand_in = SimpleNamespace(
        CameraIntrinsics=lambda fov_vertical_deg, aspect: (fov_vertical_deg, aspect),
        CameraExtrinsics=lambda mat: mat,
        CameraParameters=lambda intrinsics, extrinsics: SimpleNamespace(
            get_fov_vertical_deg=lambda: intrinsics[0],
            get_aspect=lambda: intrinsics[1],
            get_view_mat=lambda: extrinsics,
        ),
    )
    monkeypatch.setitem(sys.modules, "polyscope", stand_in)
    camera = pinhole(x0=0.0, y0=0.0)
    told = kal.kaolin_camera_to_polyscope(camera)
    again = kal.polyscope_camera_to_kaolin(told, 64, 48, near=0.5, far=20.0, dtype=F64)
    assert torch.allclose(again, camera)
    with pytest.raises(ValueError, match="this is a batch of 2: index it first"):
        kal.kaolin_camera_to_polyscope(kal.Camera.cat([camera, camera]))
    with pytest.raises(ValueError, match="takes a pinhole camera here, not ortho"):
        kal.kaolin_camera_to_polyscope(ortho())


# --- functions without a camera ----------------------------------------------------------------------------------


def test_functions_of_old_are_the_camera() -> None:
    eye, at, up = (torch.tensor([v], dtype=F64) for v in (EYE, AT, UP))
    points = world_points()
    rotation, position = kal.generate_rotate_translate_matrices(eye, at, up)
    local = kal.rotate_translate_points(points[None], rotation, position)
    camera = kal.Camera.from_args(eye=EYE, at=AT, up=UP, fov=0.9, width=64, height=48, dtype=F64)
    torch.testing.assert_close(local, camera.extrinsics.transform(points))
    matrix = kal.generate_transformation_matrix(eye, at, up)
    torch.testing.assert_close(torch.nn.functional.pad(points[None], (0, 1), value=1.0) @ matrix, local)
    image = kal.perspective_camera(local, kal.generate_perspective_projection(0.9, 64 / 48, F64))
    torch.testing.assert_close(image, camera.transform(points)[None, :, :2])


# --- the cameras that tutorials write ----------------------------------------------------------------------------


def test_a_camera_of_K_and_pose() -> None:
    camera = kal.PinholeCamera(K=torch.eye(3).unsqueeze(0), world_2_cam=torch.eye(4).unsqueeze(0))
    assert len(camera) == 1
    assert camera.generate_rays(256).directions.shape == (1, 256, 256, 3)
    K = torch.tensor([[50.0, 0, 32], [0, 60, 24], [0, 0, 1]], dtype=F64)
    view = ops.from_kaolin(pinhole())[0].camera_from_world
    camera = kal.PinholeCamera(K, view, width=64, height=48)
    points = world_points()
    local = points @ view[:3, :3].T + view[:3, 3]
    pixels = local @ K.T
    torch.testing.assert_close(camera.project(points)[0], pixels[:, :2] / pixels[:, 2:])
    assert camera.generate_rays().directions.shape == (1, 48, 64, 3)
    bent = kal.PinholeCamera(K, view, torch.tensor([0.1, 0.01, 0.0, 0.0, 0.001], dtype=F64), 64, 48)
    assert (bent.project(points)[0] - camera.project(points)[0]).abs().max() > 0.01
    fish = kal.FisheyeCamera(K, view, torch.tensor([0.01, 0.0, 0.0, 0.0], dtype=F64), 64, 48)
    theta = torch.atan2(local[:, :2].norm(dim=1), local[:, 2])
    radius = theta * (1 + 0.01 * theta**2) / local[:, :2].norm(dim=1)
    expected = local[:, :2] * radius[:, None] * torch.tensor([50.0, 60.0], dtype=F64) + torch.tensor(
        [32.0, 24.0], dtype=F64
    )
    torch.testing.assert_close(fish.project(points)[0], expected)
    assert fish.to(torch.float32).dtype == torch.float32
    assert len(kal.FisheyeCamera(K, view.expand(3, 4, 4)).lens((48, 64)).focal) == 3


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: kal.PinholeCamera(torch.eye(4), torch.eye(4)), ValueError, r"K must have the shape \(C, 3, 3\)"),
        (lambda: kal.PinholeCamera([[1]], torch.eye(4)), TypeError, "K must be a torch tensor, not list"),
        (lambda: kal.PinholeCamera(torch.eye(3).expand(2, 3, 3), torch.eye(4).expand(3, 4, 4)), ValueError, "2 K"),
        (lambda: kal.PinholeCamera(torch.ones(3, 3), torch.eye(4)), ValueError, "K has skew"),
        (lambda: kal.PinholeCamera(torch.eye(3), torch.eye(4)).generate_rays(), ValueError, "has no image size"),
        (
            lambda: kal.FisheyeCamera(torch.eye(3), torch.eye(4), torch.ones(5)).lens(4),
            ValueError,
            "distortion has 5 coefficients; it must have 4",
        ),
        (lambda: kal.Camera.from_args(width=4, height=4, fov=1.0), ValueError, "needs eye, at and up"),
        (lambda: pinhole(fov_distance=1.0), ValueError, "no constructor takes fov_distance together"),
        (lambda: kal.CameraExtrinsics.from_view_matrix(torch.eye(3)), ValueError, r"\(4, 4\) or \(C, 4, 4\), not"),
        (lambda: kal.CameraExtrinsics.from_lookat([0.0, 1.0], AT, UP), ValueError, r"\(3,\) or \(C, 3\), not \(2,\)"),
        (lambda: pinhole().switch_backend("quaternion"), ValueError, "backend 'quaternion' is not known"),
        (lambda: kal.CameraIntrinsics.from_dict({"classname": "x"}), ValueError, "intrinsics class 'x' is not known"),
        (lambda: kal.Camera.cat([pinhole(), ortho()]), ValueError, r"cameras\[1\] is OrthographicIntrinsics"),
        (lambda: kal.Camera.cat([pinhole(), pinhole(width=3)]), ValueError, r"cameras\[1\] has 3 x 48 pixels"),
        (
            lambda: kal.Camera(pinhole().extrinsics, kal.Camera.cat([pinhole()] * 2).intrinsics),
            AssertionError,
            "1 extrinsics and 2 intrinsics",
        ),
        (lambda: kal.Camera.cat([pinhole()] * 2).generate_rays(), AssertionError, "one camera, not a batch of 2"),
        (lambda: kal.generate_rays(SimpleNamespace(lens_type="cat")), ValueError, "no ray generator"),
        (lambda: pinhole(focal_x=torch.ones(2), focal_y=torch.ones(3)), ValueError, "has 2 entries for 3 cameras"),
        (lambda: kal.kaolin_camera_to_gsplat_inria(pinhole(), _InriaCamera), ValueError, "x0 or y0 is not 0"),
        (lambda: kal.kaolin_camera_to_gsplat_inria(ortho(), _InriaCamera), ValueError, "pinhole cameras, not ortho"),
        (
            lambda: kal.kaolin_camera_to_gsplat_inria(kal.Camera.cat([pinhole()] * 2), _InriaCamera),
            ValueError,
            "this is a batch of 2",
        ),
    ],
)  # fmt: skip
def test_wrong_calls_are_told(call: Any, error: type[Exception], text: str) -> None:
    import jaxtyping

    jaxtyping.config.update("jaxtyping_disable", True)  # what users see
    try:
        with pytest.raises(error, match=text):
            call()
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
