from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trimesh

from smr.captures import read_capture
from smr.cli.describe import describe_trim
from smr.config import FusionConfig, TrimConfig
from smr.errors import SmrError
from smr.mesh.normals import vertex_normals
from smr.records import Camera, Capture, DepthMap, Frame, Mesh
from smr.render.rasterize import rasterize
from smr.support import support
from smr.transforms import look_at, rigid_inverse, transform_points
from smr.trimming import trim
from smr.tsdf import extract_mesh, fuse

CAMERA = Camera(200, 160, 240.0, 240.0, 100.0, 80.0)
UP = np.array([0.0, 1.0, 0.0])
ORIGIN = np.zeros(3)


def grid(side: float, cells: int, z: float = 0.0, x: float = 0.0) -> Mesh:
    """A square that looks along +z."""
    ticks = np.linspace(-side / 2, side / 2, cells + 1)
    places = np.stack(np.meshgrid(ticks, ticks, indexing="xy"), -1).reshape(-1, 2)
    vertices = np.column_stack([places + np.array([x, 0.0]), np.full(len(places), z)])
    corner = np.arange((cells + 1) ** 2).reshape(cells + 1, cells + 1)
    a, b, c, d = (part.ravel() for part in (corner[:-1, :-1], corner[:-1, 1:], corner[1:, 1:], corner[1:, :-1]))
    faces = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)]).astype(np.int32)
    return Mesh(vertices, faces, np.tile([0.0, 0.0, 1.0], (len(vertices), 1)))


def joined(*meshes: Mesh) -> Mesh:
    starts = np.cumsum([0, *(len(mesh.vertices) for mesh in meshes)])
    return Mesh(
        np.concatenate([mesh.vertices for mesh in meshes]),
        np.concatenate([mesh.faces + np.int32(start) for mesh, start in zip(meshes, starts, strict=False)]),
        np.concatenate([vertex_normals(mesh) if mesh.normals is None else mesh.normals for mesh in meshes]),
    )


def depth_of(scene: Mesh, pose: np.ndarray) -> np.ndarray:
    return rasterize(
        transform_points(rigid_inverse(pose), scene.vertices).astype(np.float32), scene.faces, CAMERA, device="cpu"
    ).depth


def capture_of(folder: Path, views: list[tuple[np.ndarray, np.ndarray]], *, stereo: bool = False) -> Capture:
    """Views of (depth, pose)."""
    frames = []
    for i, (depth, pose) in enumerate(views):
        path = folder / f"{i}.npy"
        np.save(path, depth)
        frames.append(Frame(path.name, None, DepthMap(path, CAMERA, pose, 1.0, stereo=stereo)))
    return Capture(folder, "test", tuple(frames))


def before(x: float = 0.0) -> np.ndarray:
    return look_at(np.array([x, 0.0, 1.0]), ORIGIN, UP)


def test_a_box_seen_from_one_side_keeps_that_side(tmp_path: Path, device: str) -> None:
    box = trimesh.creation.box([0.3, 0.3, 0.3])
    for _ in range(4):
        box = box.subdivide()
    mesh = Mesh(np.asarray(box.vertices), np.asarray(box.faces, np.int32), np.asarray(box.vertex_normals))
    kept, report = trim(
        mesh, capture_of(tmp_path, [(depth_of(mesh, before()), before())]), TrimConfig(), voxel_size=0.01, device=device
    )
    front = np.isclose(box.triangles_center[:, 2], 0.15)
    on_front = np.isclose(kept.vertices[kept.faces].mean(axis=1)[:, 2], 0.15)
    assert on_front.sum() == front.sum()  # the seen side is whole
    assert kept.vertices[:, 2].min() > 0.15 - 0.04  # and of the others, a triangle or two along its edges
    assert (report.views, report.unseen_faces) == (1, len(mesh.faces) - len(kept.faces))


def test_a_thin_wire_stays_whole(tmp_path: Path, device: str) -> None:
    wire = trimesh.creation.cylinder(radius=0.002, height=0.4, sections=8).subdivide_to_size(0.006)
    mesh = Mesh(np.asarray(wire.vertices), np.asarray(wire.faces, np.int32), np.asarray(wire.vertex_normals))
    poses = [look_at(np.array([np.cos(t), np.sin(t), 0.3]), ORIGIN, UP) for t in np.linspace(0, 2 * np.pi, 9)[:-1]]
    capture = capture_of(tmp_path, [(depth_of(mesh, pose), pose) for pose in poses])
    kept, report = trim(mesh, capture, TrimConfig(), voxel_size=0.002, device=device)
    assert report.unseen_faces < 0.02 * len(mesh.faces)
    assert np.ptp(kept.vertices, axis=0).max() == pytest.approx(np.ptp(mesh.vertices, axis=0).max(), abs=0.004)


def test_a_layer_behind_another_goes(tmp_path: Path, device: str) -> None:
    near, far = grid(0.3, 40, 0.01), grid(0.2, 30, -0.01)
    between = np.full((160, 200), 1.0, np.float32)  # both agree with what was measured
    capture = capture_of(tmp_path, [(between, before())])
    kept, _ = trim(joined(near, far), capture, TrimConfig(), voxel_size=0.005, device=device)
    np.testing.assert_array_equal(kept.vertices, near.vertices)
    alone, report = trim(far, capture, TrimConfig(), voxel_size=0.005, device=device)
    assert report.unseen_faces == 0
    assert len(alone.faces) == len(far.faces)


def test_pinholes_of_the_measurement_open_no_holes(tmp_path: Path, device: str) -> None:
    mesh = grid(0.3, 60)
    depth = depth_of(mesh, before())
    for dv in range(4):
        for du in range(4):
            depth[60 + dv : 100 : 12, 70 + du : 130 : 12] = 0
    capture = capture_of(tmp_path, [(depth, before())])
    assert 0 < (support(mesh, capture, device=device) == 0).sum() < 200
    kept, report = trim(mesh, capture_of(tmp_path, [(depth, before())]), TrimConfig(), voxel_size=0.005, device=device)
    assert report.unseen_faces == 0
    assert len(kept.faces) == len(mesh.faces)


def test_stereo_needs_two_maps_and_drops_pieces_that_few_show(tmp_path: Path, device: str) -> None:
    large, small = grid(0.3, 60), grid(0.06, 12, x=0.3)
    scene = joined(large, small)
    views = [
        (depth_of(scene if i < 2 else large, before(x)), before(x)) for i, x in enumerate(np.linspace(-0.1, 0.1, 6))
    ]
    capture = capture_of(tmp_path, views, stereo=True)
    kept, report = trim(scene, capture, TrimConfig(), voxel_size=0.005, device=device)
    np.testing.assert_array_equal(kept.vertices, large.vertices)
    assert (report.views, report.unseen_faces, report.weak_pieces, report.weak_faces) == (2, 0, 1, len(small.faces))
    kept, report = trim(scene, capture, TrimConfig(min_share=0.0), voxel_size=0.005, device=device)
    assert (len(kept.faces), report.weak_pieces) == (len(scene.faces), 0)
    kept, report = trim(scene, capture, TrimConfig(min_views=3), voxel_size=0.005, device=device)
    assert (len(kept.faces), report.unseen_faces) == (len(large.faces), len(small.faces))
    kept, report = trim(scene, capture, TrimConfig(min_views=0), voxel_size=0.005, device=device)
    assert kept is scene
    assert report.views == 0


def test_a_large_piece_stays_however_few_see_it(tmp_path: Path, device: str) -> None:
    left, right = grid(0.2, 40, x=-0.15), grid(0.2, 40, x=0.15)
    views = [(depth_of(joined(left, right) if i < 2 else left, before()), before()) for i in range(6)]
    capture = capture_of(tmp_path, views, stereo=True)
    kept, _ = trim(joined(left, right), capture, TrimConfig(), voxel_size=0.005, device=device)
    assert len(kept.faces) == 2 * len(left.faces)


def test_counting_stops_at_enough(tmp_path: Path, device: str) -> None:
    mesh = grid(0.3, 20)
    capture = capture_of(tmp_path, [(depth_of(mesh, before(x)), before(x)) for x in np.linspace(-0.4, 0.4, 11)])
    full = support(mesh, capture, device=device)
    assert full.max() == 11
    np.testing.assert_array_equal(support(mesh, capture, enough=3, device=device), np.minimum(full, 3))
    np.testing.assert_array_equal(support(mesh, capture, gap=0.005, device=device), full)  # nothing hides it
    with pytest.raises(ValueError, match="gap must not be negative, but it is -1"):
        support(mesh, capture, gap=-1.0, device=device)


def test_settings_that_mean_nothing_and_a_surface_that_nothing_shows(tmp_path: Path) -> None:
    mesh = grid(0.3, 20)
    capture = capture_of(tmp_path, [(depth_of(mesh, before()), before())])
    moved = replace(mesh, vertices=mesh.vertices + np.array([0, 0, 0.3]))
    for surface, config, text in (
        (mesh, TrimConfig(min_views=-1), "--min-views is -1"),
        (mesh, TrimConfig(min_share=1.5), "--min-share is 1.5"),
        (mesh, TrimConfig(min_views=2), "shown by 2 depth maps"),
        (moved, TrimConfig(), "No part of the surface"),
    ):
        with pytest.raises(SmrError, match=text):
            trim(surface, capture, config, voxel_size=0.005, device="cpu")


def test_the_summary_says_what_was_dropped() -> None:
    report = {"views": 1, "unseen_faces": 12345, "weak_pieces": 0, "weak_faces": 0}
    assert describe_trim(report) == ["trim     12 345 faces that no view shows dropped"]
    report |= {"views": 2, "weak_pieces": 3, "weak_faces": 500}
    assert describe_trim(report) == [
        "trim     12 345 faces that fewer than 2 views show dropped, and 3 pieces (500 faces) that few photos show"
    ]
    assert describe_trim(report | {"views": 0}) == []


@pytest.mark.data
def test_the_crust_of_a_real_scan_goes(data_dir: Callable[[str], Path]) -> None:
    whole = read_capture(data_dir("seven_scenes"))
    capture = replace(whole, frames=whole.frames[::7])
    config = FusionConfig(voxel_size=0.02, depth_max=4.0)
    raw = extract_mesh(fuse(capture, config, device="cpu"), config)
    kept, report = trim(raw, capture, TrimConfig(), voxel_size=0.02, device="cpu")
    assert len(kept.faces) == len(raw.faces) - report.unseen_faces
    hidden, hidden_before = _hidden_area(kept, capture), _hidden_area(raw, capture)
    assert hidden_before > 0.08
    assert hidden < 0.4 * hidden_before


def _hidden_area(mesh: Mesh, capture: Capture) -> float:
    """Share of the area whose front is in no view nearest to the camera."""
    corners = mesh.vertices[mesh.faces].astype(np.float64)
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    area = np.linalg.norm(normal, axis=1)
    seen = np.zeros(len(area), bool)
    for frame in capture.frames:
        assert frame.depth is not None
        assert frame.depth.world_from_camera is not None
        pose = frame.depth.world_from_camera
        at = transform_points(rigid_inverse(pose), mesh.vertices.astype(np.float64)).astype(np.float32)
        faces = np.unique(rasterize(at, mesh.faces, frame.depth.camera, device="cpu").face)
        faces = faces[faces >= 0]
        seen[faces[(normal[faces] * (pose[:3, 3] - corners[faces, 0])).sum(axis=1) > 0]] = True
    return float(area[~seen].sum() / area.sum())
