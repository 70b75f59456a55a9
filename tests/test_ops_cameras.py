"""Cameras on tensors: known answers (OpenCV's own numbers, formulas), round trips, gradients, conventions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jaxtyping
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from smr import records  # noqa: E402
from smr.ops import cameras as cam  # noqa: E402
from smr.ops.cameras import lens  # noqa: E402
from smr.transforms import look_at, matrix_from_quat_wxyz  # noqa: E402

F64 = torch.float64

POINTS = [[0.1, -0.2, 1.0], [0.5, 0.4, 1.2], [-0.7, 0.3, 2.0], [0.0, 0.0, 3.0]]
R = [
    [0.935754803278, -0.302932713403, -0.180540076694],
    [0.283164960565, 0.950580617906, -0.127334574918],
    [0.210191705951, 0.068031316405, 0.975290308953],
]  # cv2.Rodrigues((0.1, -0.2, 0.3))
T = [0.05, -0.02, 0.4]
K = [[520.0, 0, 318.5], [0, 515.0, 241.25], [0, 0, 1]]
DISTORTION = [-0.28, 0.09, 0.0012, -0.0008, 0.004, 0.011, -0.02, 0.003]
K_FISHEYE = [[205.0, 0, 321.4], [0, 204.6, 238.3], [0, 0, 1]]
FISHEYE = [0.021, -0.0065, 0.0012, -0.0001]


def tensor(values: Any, **more: Any) -> Any:
    return torch.tensor(values, dtype=F64, **more)


def pose(seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(matrix_from_quat_wxyz(rng.normal(size=4), rng.normal(size=3)))


def pinhole(distortion: list[float] | None = DISTORTION, **more: Any) -> cam.Pinhole:
    k = None if distortion is None else tensor(distortion)
    return cam.Pinhole(640, 480, tensor([520.0, 515.0]), tensor([319.0, 241.75]), more.get("pose", pose()), k)


def fisheye(**more: Any) -> cam.Fisheye:
    return cam.Fisheye(
        640, 480, tensor([205.0, 204.6]), tensor([321.9, 238.8]), more.get("pose", pose()), tensor(FISHEYE)
    )


def orthographic() -> cam.Orthographic:
    return cam.Orthographic(640, 480, tensor([100.0, 120.0]), tensor([310.0, 250.0]), pose())


def panorama() -> cam.Equirectangular:
    return cam.Equirectangular.whole_sphere(640, 320, pose())


def all_cameras() -> list[cam.Camera]:
    return [pinhole(None), pinhole(), orthographic(), fisheye(), panorama()]


@pytest.fixture(params=["warp", "torch"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SMR_KERNELS", request.param)
    return str(request.param)


@pytest.fixture
def unchecked() -> Iterator[None]:
    """What users see: the annotations of shapes, which tests check, are no checks in the product."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


# --- known answers -----------------------------------------------------------------------------------------------


def test_projects_as_opencv_does() -> None:
    camera = cam.from_opencv(tensor(K), tensor(DISTORTION), tensor(R), tensor(T), width=640, height=480)
    # cv2.projectPoints, whose first pixel's centre is (0, 0)
    expected = [
        [327.230260932908, 127.857927148391],
        [372.651948797797, 345.281884910828],
        [86.36894740088, 200.583321570648],
        [242.428093568624, 179.678034431758],
    ]
    pixels, depth, valid = camera.project(tensor(POINTS))
    torch.testing.assert_close(pixels - 0.5, tensor(expected), rtol=0, atol=2e-7)
    torch.testing.assert_close(depth, tensor(POINTS) @ tensor(R)[2] + T[2])
    assert valid.all()


def test_projects_as_opencvs_fisheye_does() -> None:
    camera = cam.from_opencv(
        tensor(K_FISHEYE), tensor(FISHEYE), tensor(R), tensor(T), width=640, height=480, fisheye=True
    )
    expected = [
        [324.848681130144, 193.25607893356],
        [342.728795542784, 279.562150619931],
        [230.261701077754, 222.146340850514],
        [291.435801000439, 213.84572609453],
    ]  # cv2.fisheye.projectPoints
    torch.testing.assert_close(camera.project(tensor(POINTS)).pixels - 0.5, tensor(expected), rtol=0, atol=2e-7)


def test_undistorts_as_opencv_does(kernels: str) -> None:
    camera = cam.from_opencv(tensor(K), tensor(DISTORTION), width=640, height=480)
    pixels = tensor([[20.0, 30.0], [600.0, 400.0], [318.5, 241.25]]) + 0.5
    rays = camera.rays(pixels).directions
    expected = [[-0.672827823777, -0.482210960842], [0.613983426066, 0.34867799377], [0.0, 0.0]]  # cv2.undistortPoints
    torch.testing.assert_close(rays[:, :2] / rays[:, 2:], tensor(expected), rtol=0, atol=1e-9)


def test_undistorts_as_opencvs_fisheye_does(kernels: str) -> None:
    camera = cam.from_opencv(tensor(K_FISHEYE), tensor(FISHEYE), width=640, height=480, fisheye=True)
    pixels = tensor([[120.0, 130.0], [500.0, 400.0], [321.4, 238.3]]) + 0.5
    rays = camera.rays(pixels).directions
    expected = [[-1.714896222512, -0.923964032906], [1.674652762479, 1.519153180572], [0.0, 0.0]]
    torch.testing.assert_close(rays[:, :2] / rays[:, 2:], tensor(expected), rtol=0, atol=1e-6)


@pytest.mark.parametrize("degrees", [0.0, 1e-4, 0.1, 45.0, 89.9999, 90.0, 90.0001, 135.0, 160.0])
def test_fisheye_follows_its_formula_to_and_beyond_the_horizon(degrees: float) -> None:
    camera = fisheye(pose=None)
    theta, turn = math.radians(degrees), 0.7
    point = [math.sin(theta) * math.cos(turn), math.sin(theta) * math.sin(turn), math.cos(theta)]
    k1, k2, k3, k4 = FISHEYE
    t2 = theta * theta
    radius = theta * (1 + t2 * (k1 + t2 * (k2 + t2 * (k3 + t2 * k4))))
    pixel = [321.9 + 205.0 * radius * math.cos(turn), 238.8 + 204.6 * radius * math.sin(turn)]
    projected = camera.project(3.0 * tensor(point))
    torch.testing.assert_close(projected.pixels, tensor(pixel), rtol=0, atol=1e-10)
    torch.testing.assert_close(projected.depth, tensor(3 * math.cos(theta)))
    back = camera.unproject(projected.pixels, distance=tensor(3.0))
    torch.testing.assert_close(back.points, 3.0 * tensor(point), rtol=0, atol=1e-12)


def test_a_fisheye_shows_nothing_beyond_its_fold() -> None:
    camera = replace(fisheye(pose=None), distortion=tensor([-0.1, 0.0, 0.0, 0.0]))
    fold = math.sqrt(1 / 0.3)  # d(t - 0.1 t³)/dt = 0
    torch.testing.assert_close(camera.fold, tensor(fold), rtol=0, atol=1e-8)
    angles = tensor([fold - 1e-3, fold + 1e-3, 3.0])
    points = torch.stack([angles.sin(), torch.zeros(3, dtype=F64), angles.cos()], -1)
    pixels, _, valid = camera.project(points)
    assert valid.tolist() == [True, False, False]
    assert torch.isnan(pixels[1:]).all()
    largest = 205.0 * (fold - 0.1 * fold**3)
    rays = camera.rays(tensor([[321.9 + largest - 1e-3, 238.8], [321.9 + largest + 1e-3, 238.8]]))
    assert rays.valid.tolist() == [True, False]


def test_a_pinholes_distortion_ends_where_it_folds_even_if_it_rises_again(kernels: str) -> None:
    # r (1 - 1.2 r² + r⁴ / 2) grows, falls and grows again: what is beyond the first turn is no image
    camera = cam.Pinhole(
        640, 480, tensor([500.0, 500.0]), tensor([320.0, 240.0]), None, tensor([-1.2, 0.5] + [0.0] * 6)
    )
    fold = math.sqrt((3.6 - math.sqrt(3.6**2 - 4 * 2.5)) / 5)
    torch.testing.assert_close(camera.fold, tensor(fold), rtol=0, atol=1e-8)
    beyond = tensor([[fold - 0.01, 0.0, 1.0], [fold + 0.01, 0.0, 1.0], [5.0, 0.0, 1.0]])
    assert camera.project(beyond).valid.tolist() == [True, False, False]
    highest = 500 * (fold - 1.2 * fold**3 + 0.5 * fold**5)
    rays = camera.rays(tensor([[320 + highest - 0.01, 240.0], [320 + highest + 0.01, 240.0]]))
    assert rays.valid.tolist() == [True, False]


def test_a_pole_of_the_rational_distortion_is_its_end() -> None:
    camera = replace(pinhole(pose=None), distortion=tensor([0, 0, 0, 0, 0, -0.25, 0, 0]))  # 1 / (1 - r² / 4)
    torch.testing.assert_close(camera.fold, tensor(2.0), rtol=0, atol=1e-7)


def test_nothing_behind_a_pinhole_camera() -> None:
    points = tensor([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0], [math.nan, 0.0, 1.0]])
    projection = pinhole(None, pose=None).project(points)
    assert projection.valid.tolist()[:3] == [True, False, False]
    assert torch.isnan(projection.pixels[1:]).all()
    assert projection.depth[:3].tolist() == [1.0, -1.0, 0.0]


def test_the_panorama_puts_directions_where_they_belong() -> None:
    camera = cam.Equirectangular.whole_sphere(400, 200, like=tensor(0.0))
    points = tensor([[0, 0, 2], [1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [1e-9, 0, -1], [-1e-9, 0, -1], [0, 0, 0]])
    pixels, _, valid = camera.project(points)
    expected = tensor([[200, 100], [300, 100], [100, 100], [200, 200], [200, 0], [400, 100], [0, 100]])
    torch.testing.assert_close(pixels[:7], expected, rtol=0, atol=1e-6)
    assert valid.tolist() == [True] * 7 + [False]


def test_parallel_rays_of_an_orthographic_camera() -> None:
    camera = orthographic()
    rays = camera.rays()
    assert rays.origins.shape == rays.directions.shape == (480, 640, 3)
    forward = camera.world_from_camera[:3, 2]
    torch.testing.assert_close(rays.directions, forward.expand(480, 640, 3))
    torch.testing.assert_close(camera.project(rays.origins + 2.5 * rays.directions).pixels, camera.pixel_centers())


# --- round trips -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", range(5))
@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_unproject_undoes_project(index: int, dtype: Any, kernels: str) -> None:
    camera = all_cameras()[index].to(dtype=dtype)
    pixels = camera.pixel_centers()[3::37, 5::41]
    distance = torch.linspace(0.5, 4.0, pixels[..., 0].numel(), dtype=dtype).reshape(pixels.shape[:-1])
    points, valid = camera.unproject(pixels, distance=distance)
    assert valid.all()
    again = camera.project(points)
    torch.testing.assert_close(again.pixels, pixels, rtol=0, atol=2e-3 if dtype is torch.float32 else 1e-9)
    by_depth = camera.unproject(pixels, depth=again.depth)
    ahead = again.depth.abs() > 0.01
    torch.testing.assert_close(
        by_depth.points[ahead], points[ahead], rtol=0, atol=3e-4 if dtype is torch.float32 else 1e-10
    )
    rays = camera.rays(pixels)
    torch.testing.assert_close(rays.origins + distance[..., None] * rays.directions, points)
    assert camera.in_image(again.pixels).all()


@settings(max_examples=60, deadline=None)
@given(
    k1=st.floats(-0.4, 0.4), k2=st.floats(-0.2, 0.2), p1=st.floats(-0.005, 0.005), p2=st.floats(-0.005, 0.005),
    k3=st.floats(-0.1, 0.1), k4=st.floats(-0.1, 0.1), x=st.floats(-0.7, 0.7), y=st.floats(-0.6, 0.6),
)  # fmt: skip
def test_every_valid_projection_through_a_lens_is_undone(
    k1: float, k2: float, p1: float, p2: float, k3: float, k4: float, x: float, y: float
) -> None:
    camera = replace(pinhole(pose=None), distortion=tensor([k1, k2, p1, p2, k3, k4, 0.0, 0.0]))
    projection = camera.project(tensor([x, y, 1.0]))
    if projection.valid and math.hypot(x, y) < 0.9 * float(camera.fold):
        back = camera.unproject(projection.pixels, depth=tensor(1.0))
        assert back.valid
        torch.testing.assert_close(back.points, tensor([x, y, 1.0]), rtol=0, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.floats(-0.05, 0.05), st.floats(-0.01, 0.01), st.floats(0, 1), st.floats(-3.14, 3.14))
def test_every_direction_through_a_fisheye_is_undone(k1: float, k2: float, part: float, turn: float) -> None:
    camera = replace(fisheye(pose=None), distortion=tensor([k1, k2, 0.001, -0.0002]))
    theta = part * 0.99 * float(camera.fold)
    point = tensor([math.sin(theta) * math.cos(turn), math.sin(theta) * math.sin(turn), math.cos(theta)])
    pixels, _, valid = camera.project(point)
    assert valid
    torch.testing.assert_close(camera.unproject(pixels, distance=tensor(1.0)).points, point, rtol=0, atol=1e-8)


def test_both_solvers_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    for camera in (pinhole(), fisheye()):
        wide = (camera.pixel_centers()[::20, ::20] - camera.center) * 3 + camera.center
        found = []
        for kernels in ("warp", "torch"):
            monkeypatch.setenv("SMR_KERNELS", kernels)
            found.append(camera.rays(wide))
        assert (found[0].valid == found[1].valid).all()
        torch.testing.assert_close(found[0].directions, found[1].directions, rtol=0, atol=1e-12, equal_nan=True)


# --- gradients ---------------------------------------------------------------------------------------------------


def _leaves(camera: cam.Camera) -> dict[str, Any]:
    return {name: value.clone().requires_grad_() for name, value in camera._tensors().items()}


@pytest.mark.parametrize("index", range(5))
def test_gradients_of_project(index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMR_CHECKS", "0")  # gradcheck moves single entries of the rotation
    camera = all_cameras()[index]
    leaves = _leaves(camera)
    local = tensor([[0.0, 0.0, 1.0], [0.3, -0.2, 1.1], [-1e-5, 2e-5, 2.0], [0.4, 0.6, 1.3]])
    points = (local @ camera.world_from_camera[:3, :3].T + camera.world_from_camera[:3, 3]).requires_grad_()

    def project(points: Any, *values: Any) -> Any:
        return replace(camera, **dict(zip(leaves, values, strict=True))).project(points)[:2]

    assert torch.autograd.gradcheck(project, (points, *leaves.values()))


@pytest.mark.parametrize("index", range(5))
@pytest.mark.parametrize("along", ["depth", "distance"])
def test_gradients_of_unproject(index: int, along: str, kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMR_CHECKS", "0")
    camera = all_cameras()[index]
    leaves = _leaves(camera)
    center = camera.center.tolist()
    pixels = tensor([center, [center[0] + 0.01, center[1]], [200.0, 200.0], [400.0, 250.0]], requires_grad=True)
    depth = tensor([1.0, 2.0, 1.5, 0.7], requires_grad=True)

    def unproject(pixels: Any, depth: Any, *values: Any) -> Any:
        return replace(camera, **dict(zip(leaves, values, strict=True))).unproject(pixels, **{along: depth}).points

    assert torch.autograd.gradcheck(unproject, (pixels, depth, *leaves.values()))
    assert torch.autograd.gradgradcheck(unproject, (pixels, depth, *leaves.values()), fast_mode=True)


def test_points_that_are_not_valid_give_no_gradient() -> None:
    camera = pinhole()
    leaves = _leaves(camera)
    points = tensor([[0.0, 0.0, -1.0], [50.0, 0.0, 1e-3], [0.1, 0.1, 1.0]])
    points = (points @ camera.world_from_camera[:3, :3].T + camera.world_from_camera[:3, 3]).requires_grad_()
    projection = replace(camera, **leaves).project(points)
    assert projection.valid.tolist() == [False, False, True]
    torch.where(projection.valid[:, None], projection.pixels, 0.0).sum().backward()
    assert (points.grad[:2] == 0).all()
    assert (points.grad[2] != 0).any()
    assert all(torch.isfinite(leaf.grad).all() for leaf in leaves.values())


def test_a_camera_is_found_from_its_pixels() -> None:
    """The use of it all: pose, focal length and distortion from pixels by gradients (Gauss-Newton)."""
    truth = pinhole([-0.2, 0.05, 0.001, 0.0005, 0, 0, 0, 0], pose=None)
    points = torch.randn(60, 3, generator=torch.Generator().manual_seed(1), dtype=F64) * 0.4 + tensor([0, 0, 2.0])
    seen = truth.project(points).pixels

    def pixels(x: Any) -> Any:
        k = torch.cat([x[4:8], torch.zeros(4, dtype=F64)])
        return cam.Pinhole(640, 480, x[:2], x[2:4], None, k).project(points).pixels

    x = tensor([500.0, 500.0, 320.0, 240.0, 0, 0, 0, 0])
    for _ in range(8):
        jacobian = torch.autograd.functional.jacobian(pixels, x).reshape(-1, 8)
        x = x - torch.linalg.lstsq(jacobian, (pixels(x) - seen).reshape(-1, 1)).solution[:, 0]
    torch.testing.assert_close(x[:4], torch.cat([truth.focal, truth.center]), rtol=0, atol=1e-6)
    torch.testing.assert_close(x[4:], truth.distortion[:4], rtol=0, atol=1e-8)


# --- batches -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [pinhole, fisheye])
def test_a_batch_is_a_loop(make: Any, kernels: str) -> None:
    singles = [make(pose=pose(seed)) for seed in range(3)]
    singles[1] = replace(singles[1], distortion=singles[1].distortion * 0.5, focal=singles[1].focal * 1.1)
    batch = cam.stack(singles)
    assert batch.batch_shape == (3,)
    pixels = batch.pixel_centers()[::160, ::160]
    points, _ = batch.unproject(pixels[None], distance=tensor(2.0))
    assert points.shape == (3, 3, 4, 3)
    for i, single in enumerate(singles):
        torch.testing.assert_close(points[i], single.unproject(pixels, distance=tensor(2.0)).points)
        torch.testing.assert_close(batch.project(points).pixels[i], single.project(points[i]).pixels)
        torch.testing.assert_close(batch[i].focal, single.focal)
    grid = cam.stack([batch, batch])
    assert grid.batch_shape == (2, 3)
    torch.testing.assert_close(grid.project(points[None]).pixels[1], batch.project(points).pixels)


def test_shared_intrinsics_and_many_poses() -> None:
    camera = replace(pinhole(None), world_from_camera=torch.stack([pose(i) for i in range(4)]))
    assert camera.rays().directions.shape == (4, 480, 640, 3)
    one_each = camera.project(torch.zeros(4, 3, dtype=F64))
    assert one_each.pixels.shape == (4, 2)
    torch.testing.assert_close(one_each.depth, camera.camera_from_world[:, 2, 3])


def test_no_points_are_no_problem(kernels: str) -> None:
    for camera in all_cameras():
        assert camera.project(torch.zeros(0, 3, dtype=F64)).pixels.shape == (0, 2)
        assert camera.unproject(torch.zeros(0, 2, dtype=F64), distance=tensor(1.0)).points.shape == (0, 3)


# --- conventions -------------------------------------------------------------------------------------------------


def test_records_there_and_back() -> None:
    matrix = look_at(np.array([1.0, 2, 3]), np.array([0.0, 0, 0]), np.array([0.0, 0, 1]))
    for record in (
        records.Camera(640, 480, 500.0, 510.0, 320.0, 241.0),
        records.Camera(640, 480, 500.0, 510.0, 320.0, 241.0, "opencv", (0.1, 0.2, 0.01, 0.02, 0.3, 0.0, 0.0, 0.0)),
        records.Camera(640, 480, 200.0, 210.0, 320.0, 241.0, "opencv_fisheye", (0.1, 0.2, 0.01, 0.02)),
        records.Camera(640, 320, 640 / math.tau, 320 / math.pi, 320.0, 160.0, "equirectangular"),
    ):
        camera = cam.from_record(record, matrix, dtype=F64)
        again, pose_again = cam.to_record(camera)
        assert again == record
        np.testing.assert_array_equal(pose_again, matrix)
    short = records.Camera(640, 480, 500.0, 510.0, 320.0, 241.0, "opencv", (0.1, 0.2))
    assert cam.from_record(short).distortion.tolist()[2:] == [0.0] * 6


@pytest.mark.parametrize("make", [pinhole, fisheye])
def test_opencv_there_and_back(make: Any) -> None:
    camera = make()
    told = cam.to_opencv(camera)
    again = cam.from_opencv(*told, width=640, height=480, fisheye=isinstance(camera, cam.Fisheye))
    points = camera.unproject(camera.pixel_centers()[::100, ::100], distance=tensor(1.0)).points
    torch.testing.assert_close(again.project(points).pixels, camera.project(points).pixels)
    assert told.K[..., 0, 2] == camera.center[0] - 0.5


def test_every_model_of_colmap_that_maps() -> None:
    values = {"f": 500.0, "fx": 500.0, "fy": 510.0, "cx": 320.0, "cy": 241.0, "w": 640.0, "h": 480.0}
    values |= {"k1": 0.02, "k2": -0.01, "p1": 0.001, "p2": 0.002, "k3": 0.003, "k4": 0.004, "k5": 0.005, "k6": 0.006}
    for model, names in cam.COLMAP_PARAMETERS.items():
        camera = cam.from_colmap(model, [values[name] for name in names.split()], 640, 480, dtype=F64)
        told = cam.to_colmap(camera)
        again = cam.from_colmap(told.model, told.parameters, 640, 480, told.quat_wxyz, told.translation, dtype=F64)
        pixels = camera.pixel_centers()[::50, ::50]
        torch.testing.assert_close(again.rays(pixels).directions, camera.rays(pixels).directions)
        if told.model in ("PINHOLE", "OPENCV", "FULL_OPENCV", "OPENCV_FISHEYE", "EQUIRECTANGULAR"):
            assert len(told.parameters) == len(cam.COLMAP_PARAMETERS[told.model].split())
    assert cam.to_colmap(pinhole([0.1, 0.2, 0, 0, 0, 0, 0, 0])).model == "OPENCV"


def test_colmaps_pose_is_world_to_camera() -> None:
    camera = cam.from_colmap(
        "PINHOLE", [500.0, 500.0, 320.0, 240.0], 640, 480, tensor([1.0, 0, 0, 0]), tensor([0.0, 0, 5]), dtype=F64
    )
    assert camera.project(tensor([0.0, 0.0, 0.0])).depth == 5.0


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=4, max_size=4).filter(lambda q: sum(v * v for v in q) > 0.01))
def test_quaternions_there_and_back(values: list[float]) -> None:
    rotation = cam.rotation_from_quat_wxyz(tensor(values))
    again = cam.quat_wxyz_from_rotation(rotation)
    torch.testing.assert_close(cam.rotation_from_quat_wxyz(again), rotation, rtol=0, atol=1e-12)
    assert again[0] >= 0


@pytest.mark.parametrize("make", [lambda: pinhole(None), orthographic])
def test_opengl_shows_the_same_image(make: Any) -> None:
    camera = make()
    told = cam.to_opengl(camera, 0.1, 10.0)
    points = camera.unproject(camera.pixel_centers()[7::100, 9::100], depth=tensor(2.0)).points
    clip = torch.cat([points, torch.ones_like(points[..., :1])], -1) @ (told.projection @ told.view).T
    ndc = clip[..., :3] / clip[..., 3:]
    window = torch.stack([(ndc[..., 0] + 1) / 2 * 640, (1 - ndc[..., 1]) / 2 * 480], -1)
    torch.testing.assert_close(window, camera.project(points).pixels)
    ends = camera.unproject(tensor([[320.0, 240.0], [320.0, 240.0]]), depth=tensor([0.1, 10.0])).points
    clip = torch.cat([ends, torch.ones(2, 1, dtype=F64)], -1) @ (told.projection @ told.view).T
    torch.testing.assert_close(clip[:, 2] / clip[:, 3], tensor([-1.0, 1.0]))
    again = cam.from_opengl(*told, width=640, height=480)
    assert type(again) is type(camera)
    torch.testing.assert_close(again.project(points).pixels, camera.project(points).pixels)


def test_kaolins_arguments() -> None:
    told = cam.to_kaolin(pinhole(None, pose=None))
    assert (told.x0.item(), told.y0.item()) == (319.0 - 320.0, 240.0 - 241.75)  # y0 upwards
    torch.testing.assert_close(told.view_matrix[0], torch.diag(tensor([1.0, -1.0, -1.0, 1.0])))


def test_pytorch3d_projects_the_same() -> None:
    camera = cam.stack([pinhole(None, pose=pose(i)) for i in range(2)])
    told = cam.to_pytorch3d(camera)
    points = camera.unproject(camera.pixel_centers()[None, 7::100, 9::100], depth=tensor(2.0)).points.reshape(2, -1, 3)
    # as PerspectiveCameras does: x @ R + T, NDC with x left and y up, then its screen coordinates
    local = points @ told.R + told.T[:, None]
    ndc = told.focal_length[:, None] * local[..., :2] / local[..., 2:] + told.principal_point[:, None]
    screen = tensor([640.0, 480.0]) / 2 - ndc * 480 / 2
    torch.testing.assert_close(screen, camera.project(points).pixels)
    again = cam.from_pytorch3d(*told)
    torch.testing.assert_close(again.project(points).pixels, camera.project(points).pixels)


def test_axes_of_cameras() -> None:
    world_from_camera = pose()
    for source in cam.AXES:
        for target in cam.AXES:
            turned = cam.change_axes(world_from_camera, source, target)
            torch.testing.assert_close(torch.linalg.det(turned[:3, :3]), tensor(1.0))
            torch.testing.assert_close(cam.change_axes(turned, target, source), world_from_camera)
    torch.testing.assert_close(
        cam.change_axes(world_from_camera, "opengl", "opencv"), world_from_camera @ torch.diag(tensor([1.0, -1, -1, 1]))
    )


def test_from_openni_to_opengl_depth_changes_its_sign_and_nothing_turns() -> None:
    point = tensor([0.1, 0.2, 3.0])  # right, up, ahead of the sensor
    torch.testing.assert_close(cam.change_point_axes(point, "openni", "opengl"), tensor([0.1, 0.2, -3.0]))
    assert cam.changes_handedness("openni", "opengl")
    # the printed quarter turn about x would put what is ahead above
    printed = tensor([[1, 0, 0], [0, 0, -1], [0, 1, 0]])
    assert (printed @ point)[1] == -3.0


# --- wrong calls -------------------------------------------------------------------------------------------------


ONE = torch.ones(2, dtype=F64)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: cam.Pinhole(0, 4, ONE, ONE), ValueError, "at least one pixel, not 0 x 4"),
        (lambda: cam.Pinhole(4, 4, [1.0, 1], ONE), TypeError, "focal must be a torch tensor, not list"),
        (lambda: cam.Pinhole(4, 4, ONE, torch.ones(2)), TypeError, "center is torch.float32 and focal torch.float64"),
        (lambda: cam.Pinhole(4, 4, tensor([1.0]), ONE), ValueError, r"focal must have the shape \(..., 2\)"),
        (lambda: cam.Pinhole(4, 4, tensor([1.0, -2]), ONE), ValueError, r"focal\[1\] is -2; it must"),
        (lambda: cam.Pinhole(4, 4, tensor([1.0, math.nan]), ONE), ValueError, r"focal\[1\] is nan"),
        (
            lambda: cam.Pinhole(4, 4, torch.ones(2, 2, dtype=F64), torch.ones(3, 2, dtype=F64)),
            ValueError,
            r"do not broadcast: focal \(2, 2\), center \(3, 2\)",
        ),
        (
            lambda: cam.Pinhole(4, 4, ONE, ONE, 2 * torch.eye(4, dtype=F64)),
            ValueError,
            "not orthonormal or mirrors",
        ),
        (
            lambda: cam.Fisheye(4, 4, ONE, ONE, None, torch.ones(8, dtype=F64)),
            ValueError,
            r"distortion must have the shape \(..., 4\), not \(8,\)",
        ),
        (lambda: pinhole().project(torch.ones(2, 3)), TypeError, "points is torch.float32 and the camera"),
        (lambda: pinhole().project(tensor([1.0, 2])), ValueError, r"points must have the shape \(..., 3\), not \(2,\)"),
        (
            lambda: cam.stack([pinhole(), pinhole()]).project(torch.ones(3, 3, dtype=F64)),
            ValueError,
            r"its first axes must be the cameras' \(2,\), or 1",
        ),
        (lambda: pinhole().unproject(tensor([1.0, 2])), ValueError, "either depth or distance"),
        (lambda: pinhole().unproject(tensor([1.0, 2]), depth=2.0), TypeError, "depth must be a torch tensor"),
        (lambda: pinhole()[0], IndexError, "single camera, not a batch"),
        (lambda: cam.stack([]), ValueError, "at least one camera"),
        (lambda: cam.stack([pinhole(), fisheye()]), ValueError, r"cameras\[1\] is Fisheye of 640 x 480"),
        (lambda: cam.stack([pinhole(), cam.stack([pinhole()])]), ValueError, r"cameras\[1\] has the batch \(1,\)"),
        (lambda: cam.to_record(cam.stack([pinhole()])), ValueError, r"this is a batch of \(1,\): index it first"),
        (lambda: cam.to_record(orthographic()), ValueError, "a camera Orthographic has no counterpart"),
        (lambda: cam.from_record(records.Camera(4, 4, 1, 1, 2, 2, "pinhole", (0.1,))), ValueError, "at most 0"),
        (lambda: cam.from_opencv(tensor([[1.0, 0.1, 0], [0, 1, 0], [0, 0, 1]]), width=4, height=4), ValueError, "skew"),
        (
            lambda: cam.from_opencv(tensor(K), torch.ones(12, dtype=F64), width=4, height=4),
            ValueError,
            "distortion has 12 coefficients; a camera here has 4 or 5 or 8",
        ),
        (lambda: cam.to_opencv(panorama()), ValueError, "OpenCV has no Equirectangular camera"),
        (lambda: cam.from_colmap("FOV", [1.0] * 5, 4, 4), ValueError, "FOV has no exact counterpart"),
        (lambda: cam.from_colmap("PINHOLE", [1.0] * 3, 4, 4), ValueError, "fx fy cx cy; 3 were given"),
        (lambda: cam.to_colmap(cam.stack([pinhole()])), ValueError, "index it first"),
        (lambda: cam.to_colmap(orthographic()), ValueError, "COLMAP has no Orthographic camera"),
        (lambda: cam.to_colmap(replace(panorama(), focal=tensor([9.0, 9.0]))), ValueError, "shows a part of it"),
        (lambda: cam.to_opengl(pinhole(), 0.1, 1.0), ValueError, "OpenGL knows no lens distortion"),
        (lambda: cam.to_opengl(fisheye(), 0.1, 1.0), ValueError, "OpenGL has no Fisheye camera"),
        (lambda: cam.to_opengl(pinhole(None), 0.0, 1.0), ValueError, "near is 0 and far 1; they must be 0 < near"),
        (lambda: cam.from_opengl(2 * torch.eye(4), torch.eye(4), width=4, height=4), ValueError, "last row"),
        (lambda: cam.to_kaolin(orthographic()), ValueError, "no principal point"),
        (lambda: cam.from_kaolin(3), ValueError, "pinhole intrinsics"),
        (lambda: cam.to_pytorch3d(orthographic()), ValueError, "takes a pinhole camera"),
        (lambda: cam.change_axes(pose(), "opencv", "maya"), ValueError, "axes 'maya' are not known"),
    ],
)  # fmt: skip
def test_wrong_calls_are_told(call: Any, error: type[Exception], text: str, unchecked: None) -> None:
    with pytest.raises(error, match=text):
        call()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-100, 100).map(lambda v: v / 100), min_size=7, max_size=7))
def test_folds_are_roots_of_the_slope_and_nothing_folds_before(values: list[float]) -> None:
    c = tensor([*values, 0.0, 0.0])
    found = []
    for kernels in ("warp", "torch"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SMR_KERNELS", kernels)
            found.append(lens.radial_limit(c, math.inf))
    torch.testing.assert_close(found[0], found[1], rtol=1e-9, atol=0)
    limit = float(found[0])
    a, b = np.array([1.0, *values[:4]]), np.array([1.0, *values[4:]])
    U, D = np.polynomial.Polynomial(a), np.polynomial.Polynomial(b)
    s = np.polynomial.Polynomial([0.0, 1.0])
    slope = U * D + 2 * s * (U.deriv() * D - U * D.deriv())
    roots = np.concatenate([slope.roots(), D.roots()])
    real = roots.real[(np.abs(roots.imag) < 1e-12) & (roots.real > 0)]
    exact = math.sqrt(real.min()) if len(real) else math.inf
    if math.isinf(limit):
        assert exact > 1e5 or len(real) > 1  # a touching pair may lie between two samples
    else:
        assert limit == pytest.approx(exact, rel=1e-5) or limit > exact
        nearest = np.sqrt(real)[np.abs(np.sqrt(real) - limit).argmin()]
        assert limit == pytest.approx(nearest, rel=1e-5)


def test_largest_angle_of_lenses_without_a_fold() -> None:
    assert torch.isinf(pinhole(None).fold)
    assert float(replace(fisheye(), distortion=None).fold) == math.pi
    assert float(lens.radial_limit(lens.kannala_brandt(tensor([0.1, 0, 0, 0])), math.pi)) == math.pi
