"""Fusion: analytic shapes, a twin of the kernels in plain NumPy, and what must not change the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import smr.tsdf.growth
import smr.tsdf.views
from smr import arrays
from smr.captures import read_capture
from smr.config import FusionConfig
from smr.errors import SmrError
from smr.records import Camera, Capture, DepthMap, Frame, Mesh, Photo
from smr.transforms import look_at, rigid_inverse, transform_points
from smr.tsdf import DepthImage, Volume, extract_mesh, fuse, fuse_images, volume_bytes
from smr.tsdf.blocks import BlockTable, pack_keys
from smr.tsdf.planes import estimate_noise
from smr.tsdf.volume import free_bytes

CAMERA = Camera(120, 100, 140.0, 141.0, 60.3, 49.6)
CONFIG = FusionConfig(voxel_size=0.01, depth_max=2.0)
RADIUS = 0.2


def rays(camera: Camera) -> np.ndarray:
    """(x/z, y/z, 1) through each pixel's centre."""
    v, u = np.indices((camera.height, camera.width))
    x, y = (u + 0.5 - camera.cx) / camera.fx, (v + 0.5 - camera.cy) / camera.fy
    return np.stack([x, y, np.ones_like(x)], axis=-1)


def sphere_depth(pose: np.ndarray, camera: Camera = CAMERA, radius: float = RADIUS) -> np.ndarray:
    """Depth of a sphere at the world's origin; 0 beside it."""
    r, center = rays(camera), rigid_inverse(pose)[:3, 3]
    a, b, c = (r * r).sum(-1), r @ center, center @ center - radius**2
    root = b * b - a * c
    return np.where(root > 0, (b - np.sqrt(np.maximum(root, 0))) / a, 0).astype(np.float32)


def plane_depth(pose: np.ndarray, normal: np.ndarray, offset: float, camera: Camera = CAMERA) -> np.ndarray:
    """Depth of the plane normal · x = offset."""
    towards = rays(camera) @ pose[:3, :3].T @ normal
    z = (offset - pose[:3, 3] @ normal) / np.where(np.abs(towards) < 1e-9, 1e-9, towards)
    return np.where(z > 0, z, 0).astype(np.float32)


def poses_around(count: int, distance: float = 0.6) -> list[np.ndarray]:
    """Cameras spread over a sphere (a Fibonacci lattice) that look at its middle."""
    i = np.arange(count) + 0.5
    height, turn = 1 - 2 * i / count, np.pi * (1 + 5**0.5) * i
    ring = np.sqrt(1 - height**2)
    eyes = distance * np.stack([ring * np.cos(turn), ring * np.sin(turn), height], axis=1)
    return [look_at(eye, np.zeros(3), np.array([0.1, 0.2, 1.0])) for eye in eyes]


def sphere_frames(count: int = 14) -> list[DepthImage]:
    color = np.full((CAMERA.height, CAMERA.width, 3), (200, 100, 50), np.uint8)
    return [DepthImage(sphere_depth(pose), CAMERA, pose, color) for pose in poses_around(count)]


def fused(frames: list[DepthImage], config: FusionConfig = CONFIG, device: str = "cpu") -> Mesh:
    return extract_mesh(fuse_images(frames, config, device=device), config)


def bytes_of(mesh: Mesh) -> tuple[bytes, ...]:
    parts = (mesh.vertices, mesh.faces, mesh.normals, mesh.colors)
    return tuple(part.tobytes() for part in parts if part is not None)


def edge_counts(mesh: Mesh) -> np.ndarray:
    edges = np.concatenate([mesh.faces[:, [0, 1]], mesh.faces[:, [1, 2]], mesh.faces[:, [2, 0]]])
    return np.unique(np.sort(edges, axis=1), axis=0, return_counts=True)[1]


def test_sphere_is_closed_and_exact(device: str) -> None:
    mesh = fused(sphere_frames(), device=device)
    assert (edge_counts(mesh) == 2).all()
    radii = np.linalg.norm(mesh.vertices, axis=1)
    assert np.abs(radii - RADIUS).mean() < 0.01 * 0.01
    assert np.abs(radii - RADIUS).max() < 0.12 * 0.01
    a, b, c = (mesh.vertices[mesh.faces[:, i]].astype(float) for i in range(3))
    cross = np.cross(b - a, c - a)
    assert np.einsum("ij,ij->", a, cross) / 6 == pytest.approx(4 / 3 * np.pi * RADIUS**3, rel=0.01)
    assert np.linalg.norm(cross, axis=1).sum() / 2 == pytest.approx(4 * np.pi * RADIUS**2, rel=0.01)
    assert mesh.normals is not None
    assert np.einsum("ij,ij->i", mesh.normals, mesh.vertices / radii[:, None]).min() > 0.97
    assert mesh.colors is not None
    assert (mesh.colors == (200, 100, 50)).all()


def test_slanted_plane_is_exact_and_whole() -> None:
    normal = np.array([0.2, -0.3, -1.0]) / np.linalg.norm([0.2, -0.3, -1.0])
    poses = [look_at(np.array([x, 0.1, 0.0]), np.array([0.0, 0.0, 1.0]), np.array([0, -1.0, 0])) for x in (-0.2, 0.2)]
    mesh = fused([DepthImage(plane_depth(pose, normal, -1.0), CAMERA, pose) for pose in poses])
    assert np.abs(mesh.vertices @ normal + 1.0).mean() < 0.006 * 0.01
    assert np.abs(mesh.vertices @ normal + 1.0).max() < 0.015 * 0.01
    assert mesh.colors is None
    counts = edge_counts(mesh)
    assert counts.max() == 2
    assert (counts == 1).sum() < 12 * np.sqrt(len(mesh.faces))  # one outline, no slits between blocks


def test_two_sided_sheet_thinner_than_a_voxel_stays_whole() -> None:
    up, size, thickness = np.array([0, 0, 1.0]), 0.15, 0.004
    normal = np.array([0.6, -0.8, 0.0])
    along = np.array([0.8, 0.6, 0.0])
    frames = []
    for side in (1.0, -1.0):
        for shift in (-0.25, -0.1, 0.1, 0.25):
            pose = look_at(side * 0.6 * normal + shift * along, np.zeros(3), up)
            depth = plane_depth(pose, side * normal, thickness / 2)
            points = transform_points(pose, rays(CAMERA) * depth[..., None].astype(float))
            inside = (np.abs(points @ along) < size) & (np.abs(points @ up) < size)
            frames.append(DepthImage(np.where(inside, depth, np.float32(0)), CAMERA, pose))
    mesh = fused(frames)
    centers = mesh.vertices[mesh.faces].mean(axis=1)
    inner = (np.abs(centers @ along) < 0.8 * size) & (np.abs(centers @ up) < 0.8 * size)
    offset = centers[inner] @ normal
    assert np.abs(offset).max() < 0.0075  # half a voxel more than half the thickness
    a, b, c = (mesh.vertices[mesh.faces[inner]][:, i].astype(float) for i in range(3))
    facing = np.cross(b - a, c - a) @ normal / 2
    for side in (facing[facing > 0].sum(), -facing[facing < 0].sum()):  # each side covers the sheet
        assert side == pytest.approx((1.6 * size) ** 2, rel=0.06)


def test_free_space_carves_a_false_surface_away() -> None:
    pose = look_at(np.zeros(3), np.array([0, 0, 1.0]), np.array([0, -1.0, 0]))
    normal = np.array([0, 0, -1.0])
    wall = DepthImage(plane_depth(pose, normal, -1.0), CAMERA, pose)
    ghost = plane_depth(pose, normal, -1.0)
    ghost[40:60, 50:70] = 0.5
    mesh = fused([DepthImage(ghost, CAMERA, pose)] + [wall] * 40)
    assert mesh.vertices[:, 2].min() > 0.9
    assert fused([DepthImage(ghost, CAMERA, pose)]).vertices[:, 2].min() < 0.6


def test_flying_pixels_make_no_surface() -> None:
    pose = look_at(np.zeros(3), np.array([0, 0, 1.0]), np.array([0, -1.0, 0]))
    depth = np.full((CAMERA.height, CAMERA.width), 1.5, np.float32)
    depth[:, :60] = 0.8
    depth[:, 60] = 1.2  # between the two
    depth[20, 90] = 1.1  # alone
    mesh = fused([DepthImage(depth, CAMERA, pose)])
    z = mesh.vertices[:, 2]
    assert not ((z > 0.85) & (z < 1.45)).any()


def test_moving_all_cameras_moves_the_mesh() -> None:
    turn = np.eye(4)
    turn[:3, :3] = [[0, -1, 0], [1, 0, 0], [0, 0, 1]]  # a quarter turn, so that the grid falls on itself
    turn[:3, 3] = [80 * 0.01 * 3, -80 * 0.01 * 5, 80 * 0.01]
    frames = sphere_frames()
    plain = fused(frames)
    moved = fused([replace(f, world_from_camera=turn @ f.world_from_camera) for f in frames])
    back = transform_points(rigid_inverse(turn), moved.vertices.astype(float))
    assert len(moved.faces) == pytest.approx(len(plain.faces), rel=0.01)
    order = [np.lexsort(np.round(v, 3).T) for v in (back, plain.vertices)]
    assert np.abs(np.linalg.norm(back, axis=1) - RADIUS).mean() < 1e-4
    if len(back) == len(plain.vertices):
        assert np.median(np.abs(back[order[0]] - plain.vertices[order[1]])) < 1e-5


def test_far_from_the_origin_the_mesh_is_the_same() -> None:
    shift = np.eye(4)
    shift[:3, 3] = [400_000.0, -300_000.0, 100.0]
    moved = fused([replace(f, world_from_camera=shift @ f.world_from_camera) for f in sphere_frames()])
    assert moved.vertices.dtype == np.float64
    radii = np.linalg.norm(moved.vertices - shift[:3, 3], axis=1)
    assert np.abs(radii - RADIUS).mean() < 0.01 * 0.01


def test_batches_threads_and_hash_growth_change_no_byte(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    frames = sphere_frames(9)
    expected = bytes_of(fused(frames, device=device))
    assert bytes_of(fused(frames, device=device)) == expected
    for limit in (1, 2, 5):
        monkeypatch.setattr(smr.tsdf.views, "BATCH_LIMIT", limit)
        assert bytes_of(fused(frames, device=device)) == expected
    for threads in (1, 3):
        monkeypatch.setattr(arrays, "cpu_threads", lambda threads=threads: threads)
        assert bytes_of(fused(frames, device=device)) == expected
    monkeypatch.setattr(smr.tsdf.growth, "FIRST_BLOCKS", 3)
    monkeypatch.setattr(smr.tsdf.growth, "BlockTable", lambda device: BlockTable(device, capacity=4))
    assert bytes_of(fused(frames, device=device)) == expected


def test_hash_table_keeps_every_key_and_its_first_frame() -> None:
    import warp as wp

    rng = np.random.default_rng(0)
    index = rng.integers(-(2**20), 2**20, (5000, 3))
    keys = pack_keys(np.concatenate([index, index[:2500]]).astype(np.int64))
    table = BlockTable("cpu", capacity=16)
    lists = keys.reshape(-1, 10)
    counts = wp.array(np.full(len(lists), 10, np.int32), dtype=wp.int32, device="cpu")
    flat = wp.array(lists.reshape(-1), dtype=wp.int64, device="cpu")
    new = table.insert(counts, flat, 10, 50, 7)  # 50 lists of 10 keys a frame
    unique, first = np.unique(keys, return_index=True)
    assert new == table.count == len(unique)
    np.testing.assert_array_equal(table.keys.numpy()[: table.count], unique)
    np.testing.assert_array_equal(table.births.numpy()[: table.count], 7 + first // 500)
    assert table.insert(counts, flat, 10, 50, 99) == 0
    np.testing.assert_array_equal(table.births.numpy()[: table.count], 7 + first // 500)


def test_frames_without_depth_are_harmless() -> None:
    frames = sphere_frames(6)
    empty = replace(frames[0], depth=np.zeros_like(frames[0].depth))
    bad = replace(frames[0], depth=np.full_like(frames[0].depth, np.nan))
    assert bytes_of(fused([empty, *frames[:3], empty, bad, *frames[3:]])) == bytes_of(
        fused([replace(frames[0], depth=empty.depth), *frames])
    )
    with pytest.raises(SmrError, match="holds no surface"):
        fused([empty, empty])
    with pytest.raises(SmrError, match="no frames to fuse"):
        fuse_images([], CONFIG, device="cpu")


def test_frames_of_two_sizes_with_and_without_color() -> None:
    small = Camera(60, 50, 70.0, 70.5, 30.15, 24.8)
    poses = poses_around(14)
    frames = sphere_frames()
    mixed = [frames[i] if i % 2 else DepthImage(sphere_depth(poses[i], small), small, poses[i]) for i in range(14)]
    mesh = fused(mixed)
    assert np.abs(np.linalg.norm(mesh.vertices, axis=1) - RADIUS).mean() < 0.02 * 0.01
    assert mesh.colors is not None


def test_color_comes_from_the_color_camera_and_not_from_what_it_cannot_see() -> None:
    up = np.array([0, -1.0, 0])
    pose = look_at(np.zeros(3), np.array([0, 0, 1.0]), up)
    color_pose = pose.copy()
    color_pose[0, 3] = 0.3
    color_camera = Camera(200, 150, 180.0, 180.0, 99.0, 76.0)
    depth = np.full((CAMERA.height, CAMERA.width), 1.5, np.float32)
    depth[:, :60] = 0.7  # hides part of the wall from the colour camera, to its right
    r = rays(color_camera)
    on_wall = r * 1.5 + color_pose[:3, 3]
    near = (r * 0.7 + color_pose[:3, 3])[..., 0] < 0.7 * (60 - CAMERA.cx) / CAMERA.fx
    color = np.where(near[..., None], (255, 0, 0), (0, 0, 250)).astype(np.uint8)
    color[(on_wall[..., 0] > 0.25) & ~near] = (0, 200, 0)
    mesh = fused([DepthImage(depth, CAMERA, pose, color, color_camera, color_pose)])
    assert mesh.colors is not None
    front, x = mesh.vertices[:, 2] < 1.0, mesh.vertices[:, 0]
    wall = mesh.vertices[:, 2] > 1.4
    assert (mesh.colors[front & (x > -0.07) & (x < -0.02)] == (255, 0, 0)).all()
    assert (mesh.colors[wall & (x > 0.29)] == (0, 200, 0)).all()
    assert not (mesh.colors[wall] == (255, 0, 0)).all(axis=1).any()


def test_memory_budget_is_refused_with_a_voxel_size_that_fits() -> None:
    frames = sphere_frames(14)
    tight = replace(CONFIG, memory=0.002)
    with pytest.raises(SmrError, match=r"GB may be used\.\n.*--voxel-size") as caught:
        fuse_images(frames, tight, device="cpu")
    fits = float(caught.value.cure.split("--voxel-size ")[1].split()[0])
    assert 0.01 < fits < 0.05
    volume = fuse_images(frames, replace(tight, voxel_size=fits), device="cpu")
    assert volume.bytes <= 0.002e9
    assert volume.bytes == volume_bytes(volume.blocks)
    assert free_bytes("cpu") > 0


def test_a_camera_out_of_reach_is_refused() -> None:
    frames = sphere_frames(3)
    pose = frames[2].world_from_camera.copy()
    pose[0, 3] += 1e6
    with pytest.raises(SmrError, match="m away from the first one"):
        fuse_images([*frames[:2], replace(frames[2], world_from_camera=pose)], CONFIG, device="cpu")


def test_settings_must_be_resolved_and_a_capture_must_have_depth(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="resolved before fusion"):
        fuse_images(sphere_frames(1), FusionConfig(), device="cpu")
    with pytest.raises(SmrError, match="has a depth map with a pose"):
        fuse(Capture(tmp_path, "7-Scenes", (Frame("a", None, None),)), CONFIG, device="cpu")


def written_sphere(folder: Path) -> Capture:
    """A capture of the sphere whose depth lies in files."""
    frames = []
    for i, pose in enumerate(poses_around(9)):
        np.save(folder / f"{i}.npy", sphere_depth(pose))
        frames.append(Frame(str(i), None, DepthMap(folder / f"{i}.npy", CAMERA, pose, scale=1.0)))
    return Capture(folder, "test", tuple(frames))


def test_a_damaged_file_costs_its_frame_and_no_more(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    capture = written_sphere(tmp_path)
    rest = replace(capture, frames=capture.frames[:4] + capture.frames[5:])
    (tmp_path / "4.npy").write_bytes(b"damaged")

    meshes = [extract_mesh(fuse(each, CONFIG, device="cpu"), CONFIG) for each in (capture, rest)]

    assert bytes_of(meshes[0]) == bytes_of(meshes[1])
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "4.npy cannot be decoded" in caplog.text


def test_a_capture_that_is_mostly_damaged_is_refused(tmp_path: Path) -> None:
    capture = written_sphere(tmp_path)
    for i in range(5):
        (tmp_path / f"{i}.npy").write_bytes(b"damaged")
    with pytest.raises(SmrError, match=r"More than half of the 9 frames cannot be used.*0\.npy cannot be decoded"):
        fuse(capture, CONFIG, device="cpu")


@pytest.mark.parametrize("value", [255, 0])
def test_a_mask_of_a_distorted_photo(tmp_path: Path, value: int) -> None:
    """A white mask takes nothing away, also where it is undistorted; a black one takes all."""
    camera = replace(CAMERA, model="opencv", distortion=(-0.02, 0.0, 0.0, 0.0))
    pose = poses_around(3)[1]
    np.save(tmp_path / "depth.npy", sphere_depth(pose))
    Image.new("RGB", (CAMERA.width, CAMERA.height)).save(tmp_path / "color.png")
    Image.new("L", (CAMERA.width, CAMERA.height), value).save(tmp_path / "mask.png")
    photo = Photo(tmp_path / "color.png", camera, pose, mask=tmp_path / "mask.png")
    frame = Frame("0", photo, DepthMap(tmp_path / "depth.npy", camera, pose, scale=1.0))
    volume = fuse(Capture(tmp_path, "test", (frame,)), CONFIG, device="cpu")
    assert (volume.blocks > 0) == (value > 0)


@pytest.mark.parametrize("settings", [{"truncation": -3.0}, {"memory": -1.0}, {"min_observations": 100}])
def test_settings_that_mean_nothing_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(SmrError, match=f"--{next(iter(settings)).replace('_', '-')} is"):
        fuse_images(sphere_frames(1), replace(CONFIG, **settings), device="cpu")


def test_noise_is_found() -> None:
    rng = np.random.default_rng(1)
    pose = look_at(np.zeros(3), np.array([0.2, 0.1, 1.0]), np.array([0, -1.0, 0]))
    depth = plane_depth(pose, np.array([0.3, 0, -1.0]), -1.0, Camera(320, 240, 300.0, 300.0, 160.0, 120.0))
    noisy = (depth + 0.002 * depth**2 * rng.normal(size=depth.shape)).astype(np.float32)
    assert estimate_noise(noisy) == pytest.approx(0.002, rel=0.1)
    found = estimate_noise(depth)
    assert found is not None
    assert found < 1e-5
    assert estimate_noise(np.zeros((30, 40), np.float32)) is None


def test_coarse_voxels_share_planes_between_pixels() -> None:
    camera = Camera(301, 251, 350.0, 352.5, 150.7, 124.0)  # odd: the last planes have pixels on one side only
    frames = [DepthImage(sphere_depth(pose, camera), camera, pose) for pose in poses_around(14)]
    config = replace(CONFIG, depth_max=1.0)
    assert smr.tsdf.views.place_views(frames[:1], np.zeros(3), 0.01, 1.0, "cpu").step == 2
    assert smr.tsdf.views.place_views(frames[:1], np.zeros(3), 0.002, 1.0, "cpu").step == 1
    mesh = fused(frames, config)
    assert (edge_counts(mesh) == 2).all()
    assert np.abs(np.linalg.norm(mesh.vertices, axis=1) - RADIUS).mean() < 0.02 * 0.01


def test_min_observations() -> None:
    frames = sphere_frames(14)
    once = fused(frames[:1])
    assert len(once.faces) > 100
    with pytest.raises(SmrError, match="holds no surface"):
        fused(frames[:1], replace(CONFIG, min_observations=2))
    thrice = fused(frames, replace(CONFIG, min_observations=3))
    assert 0 < len(thrice.faces) <= len(fused(frames).faces)


# --- a twin of the kernels


def twin_planes(depth: np.ndarray, camera: Camera, pose: np.ndarray, noise: float) -> np.ndarray:
    """(z, dz/du, dz/dv, facing, direction, may carve) of each pixel, in float64."""
    steep, grazing = 8.0, 0.15
    height, width = depth.shape
    planes = np.zeros((height, width, 6))
    z = np.pad(depth.astype(float), 2)  # beyond the border there is no depth

    def slope(before: float, here: float, after: float, limit: float) -> tuple[float, int, bool]:
        parts = [d for d in (here - before, after - here) if abs(d) < limit]
        nearer = any(0 < n < here and abs(n - here) >= limit for n in (before, after))
        return (float(np.mean(parts)) if parts else 0.0), len(parts), nearer

    for v, u in np.ndindex(height, width):
        here = depth[v, u].astype(float)
        if not CONFIG.depth_min <= here <= 2.0:
            continue
        limit = steep * here / np.array([camera.fx, camera.fy])
        reach = 2
        for reach in (2, 1):
            along = [
                slope(z[v + 2, u + 2 - reach], here, z[v + 2, u + 2 + reach], reach * limit[0]),
                slope(z[v + 2 - reach, u + 2], here, z[v + 2 + reach, u + 2], reach * limit[1]),
            ]
            sides = along[0][1] + along[1][1]
            if sides:
                break
        if sides == 0 or any(count == 0 and nearer for _, count, nearer in along):
            continue
        middle, gu, gv = here, along[0][0] / reach, along[1][0] / reach
        window = z[v : v + 5 : 2, u : u + 5 : 2]
        if reach == 2 and sides == 4 and (np.abs(window[::2, ::2] - here) < 2 * limit.sum()).all():
            gu = (window[:, 2] - window[:, 0]).sum() / 12
            gv = (window[2] - window[0]).sum() / 12
            shift = window.mean() - here
            middle += np.clip(2 - abs(shift) / (2 * (noise + 1e-9) * here**2), 0, 1) * shift
        x, y = (u + 0.5 - camera.cx) / camera.fx, (v + 0.5 - camera.cy) / camera.fy
        qu, qv = camera.fx * gu / here, camera.fy * gv / here
        away = np.array([-qu, -qv, 1 + qu * x + qv * y])
        facing = 1 / np.linalg.norm(away)
        if facing < grazing * np.sqrt(1 + x * x + y * y):
            continue
        world = pose[:3, :3] @ away
        axis = int(np.abs(world).argmax())
        direction = 2 * axis + (world[axis] < 0)
        planes[v, u] = middle, gu, gv, facing, direction, not any(nearer for _, _, nearer in along)
    return planes


def twin_update(points: np.ndarray, planes: np.ndarray, camera: Camera, pose: np.ndarray, voxel: float) -> np.ndarray:
    """Per point: weight × distance and weight before, the same behind, observed (0 or 1)."""
    p = transform_points(rigid_inverse(pose), points)
    u = camera.fx * p[:, 0] / p[:, 2] + camera.cx
    v = camera.fy * p[:, 1] / p[:, 2] + camera.cy
    seen = (p[:, 2] > 0) & (u >= 0) & (v >= 0) & (u < camera.width) & (v < camera.height)
    out = np.zeros((len(points), 5))
    plane = planes[v[seen].astype(int), u[seen].astype(int)]
    z = plane[:, 0] + plane[:, 1] * (u[seen] % 1 - 0.5) + plane[:, 2] * (v[seen] % 1 - 0.5)
    d = (z - p[seen, 2]) * plane[:, 3]
    behind, truncation = 2 * voxel, 4 * voxel
    fall = np.maximum(1 - np.abs(d) / behind, 0) ** 2
    weight = plane[:, 3] / p[seen, 2] ** 2
    valid = (plane[:, 0] > 0) & (d > -behind)
    near, free = valid & (d > 0) & (d < truncation), valid & (d >= truncation) & (plane[:, 5] > 0)
    w = np.where(near | free, weight * np.maximum(fall, 0.1), 0)
    hidden = np.where(valid & (d <= 0), weight * fall, 0)
    out[seen] = np.stack([w * np.minimum(d, truncation), w, hidden * d, hidden, valid & (d < truncation)], axis=1)
    return out


def voxel_centers(volume: Volume) -> np.ndarray:
    keys = volume.keys.numpy()[: volume.blocks]
    index = np.stack([keys >> 42, keys >> 21 & (2**21 - 1), keys & (2**21 - 1)], axis=1) - 2**20
    place = np.arange(512)
    inside = np.stack([place % 8, place // 8 % 8, place // 64], axis=1)
    return (index[:, None] * 8 + inside).reshape(-1, 3) * volume.voxel_size + volume.origin


def test_same_sums_as_the_numpy_twin(device: str) -> None:
    camera = Camera(44, 36, 50.0, 51.0, 22.3, 17.6)
    rng = np.random.default_rng(3)
    images, poses = [], poses_around(3)
    for pose in poses:
        depth = sphere_depth(pose, camera)
        wall = plane_depth(pose, pose[:3, 2], 0.3, camera)
        depth = np.where(depth > 0, depth, wall).astype(np.float32)
        depth *= (1 + 0.003 * rng.normal(size=depth.shape)).astype(np.float32)
        depth[rng.random(depth.shape) < 0.03] = 0
        images.append(depth)
    config = replace(CONFIG, voxel_size=0.02, noise=0.003)
    volume = fuse_images([DepthImage(d, camera, p) for d, p in zip(images, poses, strict=True)], config, device=device)
    points = voxel_centers(volume)
    births = np.zeros(len(points), dtype=int)  # a block counts from the first frame that touched it
    keys = volume.keys.numpy()[: volume.blocks]
    for count in (1, 2):
        first = fuse_images([DepthImage(images[i], camera, poses[i]) for i in range(count)], config, device=device)
        births += ~np.isin(keys, first.keys.numpy()[: first.blocks]).repeat(512)
    expected = np.zeros((len(points), 5))
    for i in range(3):
        planes = twin_planes(images[i], camera, poses[i], 0.003)
        expected += twin_update(points, planes, camera, poses[i], 0.02) * (births <= i)[:, None]
    size = len(points)
    found = np.concatenate([volume.front.numpy()[:size], volume.back.numpy()[:size]], axis=1)
    observed = volume.state.numpy()[:size] >> 12
    differs = ~np.isclose(found, expected[:, :4], rtol=2e-3, atol=2e-5).all(axis=1)
    assert (expected[:, 4] > 0).mean() > 0.1
    assert differs.mean() < 1e-3  # a pixel or a limit that float32 and float64 see on two sides
    assert (observed != expected[:, 4]).mean() < 1e-3


@pytest.mark.data
def test_real_kinect_frames(data_dir: Callable[[str], Path]) -> None:
    capture = read_capture(data_dir("seven_scenes"))
    capture = replace(capture, frames=capture.frames[:12:3])
    config = FusionConfig(voxel_size=0.03, depth_max=4.0)
    volume = fuse(capture, config, device="cpu")
    mesh = extract_mesh(volume, config)
    assert len(mesh.faces) > 10_000
    assert edge_counts(mesh).max() == 2
    assert mesh.colors is not None
    assert mesh.colors.std() > 20
    depth = capture.frames[0].depth
    assert depth is not None
    assert depth.world_from_camera is not None
    local = transform_points(rigid_inverse(depth.world_from_camera), mesh.vertices.astype(float))
    assert 0.3 < np.median(local[:, 2]) < 4.0
