"""Parts of dense depth against plain NumPy: the cost of a plane, which views are compared, what is confirmed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import warp as wp
from scipy.ndimage import gaussian_filter

from smr.captures.survey import Survey
from smr.config import PipelineConfig
from smr.mvs import SparsePoints
from smr.mvs.consistency import confirm
from smr.mvs.cost import pack, weigh
from smr.mvs.geometry import make_level, make_sources, relative_geometry
from smr.mvs.matching import sweep
from smr.mvs.neighbours import Neighbourhood, choose
from smr.mvs.photos import View, level_sizes, scaled
from smr.plan import plan
from smr.records import Camera, Capture, DepthMap, Frame, Photo
from smr.transforms import look_at, rigid_inverse, transform_points

CAMERA = Camera(48, 36, 40.0, 40.0, 24.0, 18.0)


def view_at(frame: int, eye: tuple[float, float, float], target: tuple[float, float, float] = (0, 0, 0)) -> View:
    pose = look_at(np.array(eye, float), np.array(target, float), np.array([0.0, -1.0, 0.0]))
    return View(str(frame), frame, Photo(Path(f"{frame}.png"), CAMERA, pose), CAMERA, pose)


def bilinear(image: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    i, j = np.floor(x).astype(int), np.floor(y).astype(int)
    a, b = x - i, y - j
    top = image[j, i] * (1 - a) + image[j, i + 1] * a
    return top * (1 - b) + (image[j + 1, i] * (1 - a) + image[j + 1, i + 1] * a) * b


def plain_cost(reference: np.ndarray, source: np.ndarray, views: list[View], column: int, row: int, z: float) -> float:
    """1 - NCC of a patch of 5×5 samples on a plane that faces the camera, each sample projected for itself."""
    offsets = np.arange(-4, 5, 2)
    dx, dy = (a.ravel() for a in np.meshgrid(offsets, offsets))
    x, y = column + dx, row + dy
    inside = (x >= 0) & (y >= 0) & (x < CAMERA.width) & (y < CAMERA.height)
    grey = np.where(inside, reference[y.clip(0, CAMERA.height - 1), x.clip(0, CAMERA.width - 1)], 0)
    away = dx**2 + dy**2
    weight = inside * np.exp(-np.abs(grey - reference[row, column]) / 12 - away / 50)
    weight /= weight.sum()
    rays = np.stack([(x + 0.5 - CAMERA.cx) / CAMERA.fx, (y + 0.5 - CAMERA.cy) / CAMERA.fy, np.ones(25)], axis=1)
    points = transform_points(rigid_inverse(views[1].world_from_camera) @ views[0].world_from_camera, z * rays)
    u = CAMERA.fx * points[:, 0] / points[:, 2] + CAMERA.cx - 0.5
    v = CAMERA.fy * points[:, 1] / points[:, 2] + CAMERA.cy - 0.5
    if u.min() < 0 or v.min() < 0 or u.max() >= CAMERA.width - 1 or v.max() >= CAMERA.height - 1:
        return 2.0
    seen = bilinear(source, u, v)
    mean_r, mean_s = weight @ grey, weight @ seen
    covariance = weight @ ((grey - mean_r) * (seen - mean_s))
    contrast_r = weight @ (grey - mean_r) ** 2 + 1
    contrast_s = weight @ (seen - mean_s) ** 2 + 1
    return float(1 - covariance / np.sqrt(contrast_r * contrast_s))


def test_the_cost_of_a_plane_is_as_in_numpy(device: str) -> None:
    rng = np.random.default_rng(0)
    images = [gaussian_filter(rng.uniform(0, 255, (CAMERA.height, CAMERA.width)), 1.0) for _ in range(2)]
    images = [np.asarray(40 * (i - i.mean()) / i.std() + 128, np.float16) for i in images]
    views = [view_at(0, (0, 0, -2)), view_at(1, (0.3, 0, -2), (0.3, 0, 0))]  # turned alike: the affine warp is exact
    z, pixels = 2.0, CAMERA.width * CAMERA.height
    level = make_level(CAMERA, 5, 1, Neighbourhood((1,), z, z), 0.0, device)
    size = (CAMERA.width, CAMERA.height)
    sources = make_sources(views[0], CAMERA, views[1:], [size], [(1, 1)], device)
    stack, patches = (wp.empty(n, dtype=t, device=device) for n, t in ((pixels, wp.vec4), (pixels * 25, wp.vec2)))
    contrasts, costs = (wp.empty(pixels, dtype=float, device=device) for _ in range(2))
    planes, chosen = wp.empty(pixels, dtype=wp.vec3, device=device), wp.empty(pixels, dtype=int, device=device)
    ones = wp.array(np.ones(pixels, np.uint8), dtype=wp.uint8, device=device)
    grey = [wp.array(image.ravel(), dtype=wp.float16, device=device) for image in images]
    pack(grey[1], *size, 0, stack, device)
    weigh(level, grey[0], patches, contrasts, device)
    maps = wp.zeros(1, dtype=wp.vec3, device=device)
    inputs = [0, level, sources, stack, ones, maps, patches, contrasts, ones, 2, 1, planes, costs, chosen]
    wp.launch(sweep, pixels, inputs=inputs, device=device)
    found = costs.numpy().reshape(CAMERA.height, CAMERA.width)
    exact = [image.astype(np.float64) for image in images]
    for row in range(0, CAMERA.height, 5):
        for column in range(0, CAMERA.width, 3):
            expected = plain_cost(exact[0], exact[1], views, column, row, z)
            assert found[row, column] == pytest.approx(expected, abs=2e-3), (row, column)


def exact_planes(view: View, normal: np.ndarray) -> np.ndarray:
    """Planes in inverse depth of the wall through the origin; n · X = d in the camera's frame."""
    inward = view.world_from_camera[:3, :3].T @ normal
    d = -(view.world_from_camera[:3, 3] @ normal)
    x = (np.arange(CAMERA.width) + 0.5 - CAMERA.cx) / CAMERA.fx
    y = (np.arange(CAMERA.height) + 0.5 - CAMERA.cy) / CAMERA.fy
    near = (inward[0] * x[None] + inward[1] * y[:, None] + inward[2]) / d
    slopes = [np.full(near.shape, inward[k] / d / CAMERA.fx) for k in range(2)]
    return np.stack([near, *slopes], axis=-1).astype(np.float32)


def test_what_other_maps_have_too_is_confirmed(device: str) -> None:
    views = [view_at(i, (x, 0, -1)) for i, x in enumerate((0.0, -0.2, 0.2))]
    normal = np.array([0.2, 0.1, 1.0])
    maps = [exact_planes(view, normal).reshape(-1, 3) for view in views]
    size, pixels = (CAMERA.width, CAMERA.height), CAMERA.width * CAMERA.height
    level = make_level(CAMERA, 1, 2, Neighbourhood((1, 2), 0.1, 10.0), 0.0, device)
    sources = make_sources(views[0], CAMERA, views[1:], [size] * 2, [size] * 2, device)

    def confirmed(first: np.ndarray, second: np.ndarray, least: int) -> tuple[np.ndarray, np.ndarray]:
        costs = [wp.full(n, 0.1, dtype=float, device=device) for n in (pixels, 2 * pixels)]
        mine = wp.array(maps[0], dtype=wp.vec3, device=device)
        others = wp.array(np.concatenate([first, second]), dtype=wp.vec3, device=device)
        geometry = relative_geometry(views[0], views[1:])
        return confirm(level, sources, geometry, (mine, costs[0]), (others, costs[1]), least, device)

    depth, weight = confirmed(maps[1], maps[2], 2)
    middle = np.s_[4:-4, 14:-14]  # what both others see
    np.testing.assert_allclose(depth[middle], 1 / maps[0].reshape(*size[::-1], 3)[middle][..., 0], rtol=1e-5)
    assert (weight[middle] > 0.3).all()
    depth, _ = confirmed(maps[1] * np.float32(1.03), maps[2], 2)
    assert (depth == 0).all()
    depth, _ = confirmed(maps[1] * np.float32(1.03), maps[2], 1)
    assert (depth[middle] > 0).all()
    tilted = exact_planes(views[1], np.array([1.5, 0.1, 1.0])).reshape(-1, 3)
    assert (confirmed(tilted, tilted, 1)[0][4:-4, :10] == 0).all()


def test_views_of_a_ring_are_compared_with_their_neighbours() -> None:
    angles = np.radians(np.arange(0, 360, 15))
    views = [view_at(i, (2 * np.cos(a), 0.1, 2 * np.sin(a))) for i, a in enumerate(angles)]
    for i, one in enumerate(choose(views, 4, None)):
        assert {min((i - j) % 24, (j - i) % 24) for j in one.sources} <= {1, 2}
        assert {(i + 1) % 24, (i - 1) % 24} <= set(one.sources)
        assert one.near < 1.8
        assert one.far > 2.2


def test_sparse_points_tell_neighbours_and_depth() -> None:
    views = [view_at(i, (0.3 * i, 0, -2), (0.3 * i, 0, 0)) for i in range(4)]
    rng = np.random.default_rng(0)
    points = rng.uniform((-0.5, -0.5, -0.2), (1.4, 0.5, 0.2), (400, 3))
    everything, nothing = np.arange(400), np.zeros(0, int)
    around = choose(views, 3, SparsePoints(points, (everything, everything, nothing, everything)))
    assert set(around[0].sources) == {1, 3}
    assert around[2].sources == ()
    assert around[0].near == pytest.approx(0.7 * 1.8, rel=0.02)
    assert around[0].far == pytest.approx(1.5 * 2.2, rel=0.02)
    assert (around[2].near, around[2].far) == (around[0].near, around[0].far)  # nothing better is known


def test_levels_halve_until_they_are_small() -> None:
    assert level_sizes(Camera(1001, 640, 900.0, 900.0, 500.0, 320.0)) == ((1001, 640), (501, 320), (251, 160))
    half = scaled(CAMERA, 24, 18)
    assert (half.fx, half.cx, half.cy) == (20.0, 12.0, 9.0)


@pytest.mark.parametrize("unit", [0.001, 1.0, 1000.0])
def test_stereo_is_fused_in_any_unit(unit: float, tmp_path: Path) -> None:
    survey = Survey(
        frames=2, sampled=2, photos=0, depth_maps=2, photo_size=None, depth_size=(48, 36), focal_length=40.0,
        valid_depth=1.0, depth_percentiles=tuple(unit * z for z in (0.8, 0.9, 1.0, 1.1, 1.2)), noise_by_depth=(),
        noise=0.001 * unit, frame_difference=0.0, agreement=1.0, flying_pixels=0.0, ground_sample_distance=unit / 40,
        blurred=(), exposure_spread=None, color_offset=None, extent=None, world_up="-y", world_up_estimated=True,
        findings=(), points=np.zeros((0, 3), np.float32), rays=np.zeros((0, 3), np.float32),
        point_spacing=np.zeros(0, np.float32), point_views=np.zeros(0, np.float32),
    )  # fmt: skip
    depth = DepthMap(tmp_path / "a.npy", CAMERA, np.eye(4), 1.0, stereo=True)
    chosen = plan(survey, Capture(tmp_path, "photos", (Frame("a", None, depth),)), PipelineConfig())
    assert chosen.voxel_size == pytest.approx(0.05 * unit)
    assert chosen.depth_min == pytest.approx(0.08 * unit)
    assert chosen.depth_max == pytest.approx(1.3 * unit)
    assert chosen.fusion.weight_limit == pytest.approx(128 / unit**2)
