"""The visual hull, silhouettes before a dark backdrop, and how many views stand behind a vertex."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trimesh

from smr.errors import SmrError
from smr.formats import read_mesh, write_mesh
from smr.mvs import Silhouette, visual_hull
from smr.mvs.photos import View
from smr.mvs.silhouettes import before_dark, fill_in
from smr.records import Camera, Capture, DepthMap, Frame, Mesh, Photo
from smr.render.rasterize import rasterize
from smr.support import support
from smr.transforms import look_at, rigid_inverse, transform_points

CAMERA = Camera(120, 90, 150.0, 150.0, 60.0, 45.0)
BALL = trimesh.creation.icosphere(subdivisions=4, radius=0.2)
MESH = Mesh(np.asarray(BALL.vertices), np.asarray(BALL.faces, dtype=np.int32), np.asarray(BALL.vertex_normals))


def poses(count: int) -> list[np.ndarray]:
    """Cameras all around, a metre away."""
    rng = np.random.default_rng(1)
    directions = rng.normal(size=(count, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return [look_at(eye, np.zeros(3), np.array([0.1, 0.2, 0.97])) for eye in directions]


def seen(pose: np.ndarray) -> np.ndarray:
    """Depth of the ball."""
    return rasterize(transform_points(rigid_inverse(pose), MESH.vertices), MESH.faces, CAMERA, device="cpu").depth


def test_the_hull_of_a_ball_is_the_ball(device: str) -> None:
    silhouettes = [Silhouette(seen(pose) > 0, CAMERA, pose) for pose in poses(40)]
    hull = visual_hull(silhouettes, resolution=48, device=device)
    radii = np.linalg.norm(hull.vertices, axis=1)
    assert np.median(radii) == pytest.approx(0.2, abs=0.004)
    assert radii.min() > 0.192  # a hull holds the shape, to within a pixel, which is 6.7 mm
    assert radii.max() < 0.23
    solid = trimesh.Trimesh(hull.vertices, hull.faces)
    assert solid.is_watertight
    assert solid.volume > 0


def test_a_hull_needs_masks_that_agree() -> None:
    one, other = poses(2)
    with pytest.raises(SmrError, match="There is a mask for 1 photo; a hull needs two"):
        visual_hull([Silhouette(seen(one) > 0, CAMERA, one)], device="cpu")
    empty = np.zeros((CAMERA.height, CAMERA.width), bool)
    with pytest.raises(SmrError, match="No place lies inside all masks"):
        visual_hull([Silhouette(seen(one) > 0, CAMERA, one), Silhouette(empty, CAMERA, other)], device="cpu")
    with pytest.raises(ValueError, match="resolution"):
        visual_hull([], resolution=4, device="cpu")


def test_the_hull_fills_holes_and_stereo_before_it_is_wrong(tmp_path: Path) -> None:
    pose = poses(1)[0]
    exact = seen(pose)
    depth, shown = exact.copy(), exact > 0
    depth[40:50, 55:65] = 0.0  # a hole
    depth[30:35, 55:60] = 0.5  # before the ball
    depth[52:56, 55:60] = 1.3  # behind it
    depth[5:8, 5:8] = 1.0  # beside it
    view = View("a", 0, Photo(tmp_path / "a.png", CAMERA, pose), CAMERA, pose)
    filled, weight = fill_in(depth, np.where(depth > 0, 1, 0).astype(np.float32), shown, MESH, view, "cpu")
    np.testing.assert_allclose(filled[shown], exact[shown], rtol=1e-5)
    assert (weight[40:50, 55:65] == 1 / 16).all()
    assert weight[45, 70] == 1.0
    assert (filled[~shown] == 0).all()


def test_an_object_before_a_dark_backdrop() -> None:
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:90, :120]
    inside = (rows - 45) ** 2 + (columns - 60) ** 2 < 900
    grey = np.where(inside, 120 + 40 * np.sin(columns / 4), 9) + rng.normal(0, 2, inside.shape)
    grey[44:46, 59:61] = 5  # a dark spot on the object
    grey[5, 5] = 200  # a speck
    mask = before_dark(np.clip(grey, 0, 255).astype(np.uint8))
    assert (mask != inside).mean() < 0.02
    assert mask[45, 60]
    assert not mask[5, 5]
    assert before_dark(np.full((20, 30), 77, np.uint8)).all()


def ring(tmp_path: Path, count: int) -> Capture:
    frames = []
    for i, pose in enumerate(poses(count)):
        path = tmp_path / f"{i}.npy"
        np.save(path, seen(pose))
        frames.append(Frame(path.name, None, DepthMap(path, CAMERA, pose, 1.0)))
    return Capture(tmp_path, "test", tuple(frames))


def test_support_is_the_number_of_views_that_see_a_vertex(tmp_path: Path, device: str) -> None:
    capture = ring(tmp_path, 12)
    found = support(MESH, capture, device=device)
    outward = MESH.vertices / np.linalg.norm(MESH.vertices, axis=1, keepdims=True)
    expected = np.zeros(len(found), int)
    doubtful = np.zeros(len(found), bool)
    for frame in capture.frames:
        assert frame.depth is not None
        assert frame.depth.world_from_camera is not None
        away = frame.depth.world_from_camera[:3, 3] - MESH.vertices
        cosine = (outward * away).sum(axis=1) / np.linalg.norm(away, axis=1)
        expected += cosine > 0
        doubtful |= np.abs(cosine) < 0.2
    np.testing.assert_array_equal(found[~doubtful], expected[~doubtful])
    larger = replace(MESH, vertices=MESH.vertices * 1.2)
    assert support(larger, capture, device=device).max() == 0
    with pytest.raises(ValueError, match="tolerance"):
        support(MESH, capture, tolerance=0.0, device=device)


def test_support_is_written(tmp_path: Path) -> None:
    mesh = replace(MESH, support=np.arange(len(MESH.vertices), dtype=np.int32) % 7)
    write_mesh(mesh, tmp_path / "a.ply")
    read = trimesh.load(tmp_path / "a.ply", process=False)
    np.testing.assert_array_equal(read.metadata["_ply_raw"]["vertex"]["data"]["support"], mesh.support)
    assert len(read_mesh(tmp_path / "a.ply").vertices) == len(mesh.vertices)
    write_mesh(mesh, tmp_path / "a.glb")
    content = (tmp_path / "a.glb").read_bytes()
    length = struct.unpack_from("<I", content, 12)[0]
    document = json.loads(content[20 : 20 + length])
    accessor = document["accessors"][document["meshes"][0]["primitives"][0]["attributes"]["_SUPPORT"]]
    view = document["bufferViews"][accessor["bufferView"]]
    start = 20 + length + 8 + view["byteOffset"]
    values = np.frombuffer(content[start : start + view["byteLength"]], np.float32)
    np.testing.assert_array_equal(values, mesh.support)
    assert len(read_mesh(tmp_path / "a.glb").vertices) == len(mesh.vertices)
