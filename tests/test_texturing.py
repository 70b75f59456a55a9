from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import painted
import smr.arrays
from painted import CAMERA, capture_of, photograph, plane, poses_around, texture_at, waves
from smr.arrays import resolve_device
from smr.config import TextureConfig
from smr.errors import SmrError
from smr.records import Camera, Capture, Mesh, TexturedMesh
from smr.render.textured import render_textured
from smr.texturing import bake, bake_onto


def _waves(points, faces):
    return waves(points)


def _inside(points):
    """Away from the plane's outline, where photos are not trusted."""
    return np.abs(points[:, :2]).max(1) < 0.46


def _plane_capture(folder, count=5, gains=None, mesh=None, colors=_waves, cameras=None):
    mesh = plane() if mesh is None else mesh
    poses = poses_around(count, 0.5, 1.0)
    cameras = [CAMERA] * count if cameras is None else cameras
    images = [photograph(mesh, colors, camera, pose) for camera, pose in zip(cameras, poses, strict=True)]
    if gains is not None:
        images = [np.clip(np.rint(i * g), 0, 255).astype(np.uint8) for i, g in zip(images, gains, strict=True)]
    return capture_of(folder, images, cameras, poses)


def test_a_painted_plane_comes_back_at_every_texel(tmp_path, device):
    model, report = bake(plane(), _plane_capture(tmp_path), TextureConfig(), device=device)
    points, got, _ = texture_at(model, 60)
    error = np.abs(got - waves(points)).max(1)
    inside = _inside(points)
    assert error[inside].mean() < 1
    assert error[inside].max() < 6
    assert error.max() < 60  # photos are not trusted at outlines, which are filled from around, never with background
    assert report.seen > 0.92
    assert not model.filled.any()
    assert report.photos == report.photos_used == 5
    # about 0.006 m a pixel of these cameras
    assert 0.004 < report.texel_size < 0.008
    assert not report.capped


def test_a_box_of_twelve_triangles_comes_back(tmp_path, device):
    mesh = painted.box((-0.2, -0.25, -0.15), (0.2, 0.25, 0.15))
    poses = poses_around(6, 0.9, 0.5) + poses_around(6, 0.9, -0.5)
    images = [photograph(mesh, _waves, CAMERA, pose) for pose in poses]
    capture = capture_of(tmp_path, images, [CAMERA] * 12, poses)
    model, report = bake(mesh, capture, TextureConfig(texture_size=256), device=device)
    points, got, _ = texture_at(model, 300)
    error = np.abs(got - waves(points)).max(1)
    assert np.percentile(error, 95) < 5
    assert error.max() < 30  # never the background, which differs by more than 100
    assert report.seen > 0.92


def test_an_object_before_the_plane_does_not_print_on_it(tmp_path, device):
    mesh = painted.join(plane(), painted.box((-0.1, -0.1, 0.2), (0.1, 0.1, 0.3)))
    on_plane = len(plane().faces)

    def colors(points, faces):
        return np.where((faces < on_plane)[:, None], 90 + 0.3 * waves(points), [250, 20, 20])

    capture = _plane_capture(tmp_path, 8, mesh=mesh, colors=colors)
    model, _ = bake(mesh, capture, TextureConfig(texture_size=512), device=device)
    points, got, face = texture_at(model, 100)
    floor = face < on_plane
    truth = 90 + 0.3 * waves(points[floor])
    assert np.abs(got[floor] - truth).max() < 25
    # and the plane does not print on the object's sides, which some photo saw
    shown = ~floor & (face % 12 >= 0) & ~model.filled[face]
    assert np.abs(got[shown] - [250, 20, 20]).max() < 40


@pytest.mark.parametrize("channels", ["alike", "apart"])
def test_exposure_steps_are_undone(tmp_path, channels):
    rng = np.random.default_rng(3)
    gains = rng.uniform(0.75, 1.25, (8, 1 if channels == "alike" else 3)) * np.ones((1, 3))
    gains /= np.exp(np.log(gains).mean(0))
    capture = _plane_capture(tmp_path, 8, gains=gains)
    model, report = bake(plane(), capture, TextureConfig(), device=resolve_device("cpu"))
    points, got, _ = texture_at(model, 60)
    error = np.abs(got - waves(points)).max(1)[_inside(points)]
    assert error.mean() < 1.5
    assert error.max() < 8
    assert report.exposure_spread == pytest.approx((1 / gains).max() / (1 / gains).min(), rel=0.03)


@pytest.mark.parametrize("with_colors", [False, True])
def test_what_no_photo_saw_is_filled_and_flagged(tmp_path, device, with_colors):
    mesh = painted.box((-0.2, -0.2, -0.2), (0.2, 0.2, 0.2))

    def colors(points, faces):
        return np.full((len(points), 3), [200, 120, 60])

    poses = poses_around(4, 0.8, 0.6)  # the bottom stays unseen
    capture = capture_of(tmp_path, [photograph(mesh, colors, CAMERA, p) for p in poses], [CAMERA] * 4, poses)
    if with_colors:
        mesh = replace(mesh, colors=np.tile(np.array([[200, 120, 60]], np.uint8), (8, 1)))
    model, report = bake(mesh, capture, TextureConfig(texture_size=128), device=device)
    _, got, _ = texture_at(model, 50)
    bottom = np.isclose(mesh.vertices[mesh.faces][:, :, 2], -0.2).all(1)
    np.testing.assert_array_equal(model.filled, bottom)
    assert np.abs(got - [200, 120, 60]).max() < 6
    assert 0.7 < report.seen < 0.9
    texture = model.materials[0].texture
    assert np.abs(texture.astype(int) - [200, 120, 60]).max() < 6  # gutters and empty space included


def test_a_part_that_nothing_saw_takes_its_vertex_colours(tmp_path, device):
    far = painted.box((10, 10, 10), (11, 11, 11))
    both = painted.join(plane(), far)
    seen = len(plane().vertices)
    colors = np.full((len(both.vertices), 3), 90, np.uint8)
    colors[seen:] = [10, 200, 30]
    model, _ = bake(
        replace(both, colors=colors), _plane_capture(tmp_path), TextureConfig(texture_size=512), device=device
    )
    _, got, face = texture_at(model, 10)
    apart = face >= len(plane().faces)
    assert model.filled[len(plane().faces) :].all()
    assert np.abs(got[apart] - [10, 200, 30]).max() <= 2
    plain, _ = bake(both, _plane_capture(tmp_path), TextureConfig(texture_size=512), device=device)
    _, got, _ = texture_at(plain, 10)
    assert got[apart].min() > 60  # a mean colour, not black


def test_masked_pixels_are_not_used(tmp_path, device):
    poses = poses_around(5, 0.5, 1.0)
    images = [photograph(plane(), _waves, CAMERA, pose) for pose in poses]
    masks = [np.ones((CAMERA.height, CAMERA.width), bool) for _ in images]
    for image, mask in zip(images, masks, strict=True):
        image[40:100, 60:140] = (0, 255, 0)
        mask[40:100, 60:140] = False
    capture = capture_of(tmp_path, images, [CAMERA] * 5, poses, masks)
    model, _ = bake(plane(), capture, TextureConfig(), device=device)
    points, got, face = texture_at(model, 60)
    shown = ~model.filled[face]
    error = np.abs(got - waves(points)).max(1)[shown]
    assert shown.mean() > 0.5
    assert np.percentile(error, 99) < 40


def test_what_moved_through_one_photo_is_left_out(tmp_path, device):
    poses = poses_around(7, 0.5, 1.0)
    images = [photograph(plane(), _waves, CAMERA, pose) for pose in poses]
    images[3][50:110, 70:140] = (250, 250, 0)
    model, _ = bake(plane(), capture_of(tmp_path, images, [CAMERA] * 7, poses), TextureConfig(), device=device)
    points, got, _ = texture_at(model, 60)
    error = np.abs(got - waves(points)).max(1)[_inside(points)]
    assert error.mean() < 1.5
    assert error.max() < 12


def test_photos_of_unequal_sizes_and_frames_without_photo_or_pose(tmp_path, device):
    cameras = [CAMERA, Camera(100, 75, 90.0, 91.0, 49.6, 38.0), Camera(320, 200, 300.0, 301.0, 161.0, 99.0)] * 2
    capture = _plane_capture(tmp_path, 6, cameras=cameras)
    lost = replace(capture.frames[1], photo=replace(capture.frames[1].photo, world_from_camera=None))
    empty = replace(capture.frames[2], photo=None)
    capture = replace(capture, frames=(*capture.frames, lost, empty))
    model, report = bake(plane(), capture, TextureConfig(), device=device)
    points, got, _ = texture_at(model, 60)
    assert report.photos == 6
    assert np.abs(got - waves(points)).max(1).mean() < 2


def test_a_mesh_keeps_its_own_texture_coordinates(tmp_path, device):
    mesh = plane()
    uvs = (mesh.vertices[:, :2] * 0.8 + 0.5).astype(np.float32)
    model, report = bake_onto(
        TexturedMesh(mesh, uvs, mesh.faces), _plane_capture(tmp_path), TextureConfig(), device=device
    )
    np.testing.assert_array_equal(model.uvs, uvs)
    points, got, _ = texture_at(model, 60)
    assert np.abs(got - waves(points)).max(1).mean() < 1.5
    assert report.charts is None
    # coordinates outside 0 to 1 mean the same texture, repeated
    moved = TexturedMesh(mesh, uvs + 1.0, mesh.faces)
    again, _ = bake_onto(moved, _plane_capture(tmp_path), TextureConfig(texture_size=report.size), device=device)
    difference = np.abs(again.materials[0].texture.astype(int) - model.materials[0].texture)
    assert difference.mean() < 1


def test_a_rendering_of_the_texture_is_the_photo(tmp_path, device):
    capture = _plane_capture(tmp_path)
    model, _ = bake(plane(), capture, TextureConfig(), device=device)
    pose = poses_around(5, 0.4, 1.1)[2]
    image = render_textured(model, CAMERA, pose, device=device, background=painted.BACKGROUND)
    truth = photograph(plane(), _waves, CAMERA, pose)
    inside = ~(truth == painted.BACKGROUND).all(-1)
    assert np.abs(image.astype(int) - truth)[inside].mean() < 2


def test_same_bytes_whatever_the_number_of_threads(tmp_path, monkeypatch):
    capture = _plane_capture(tmp_path, 6)
    textures = []
    for threads in (1, 2, 5, 5):
        monkeypatch.setattr(smr.arrays, "cpu_threads", lambda n=threads: n)
        model, _ = bake(plane(), capture, TextureConfig(texture_size=256), device=resolve_device("cpu"))
        textures.append(model.materials[0].texture.tobytes())
    assert len(set(textures)) == 1


def test_progress_names_every_step(tmp_path):
    labels = []

    def track(items, label, total=None):
        labels.append(label)
        return items

    bake(plane(), _plane_capture(tmp_path), TextureConfig(texture_size=128), device=resolve_device("cpu"), track=track)
    assert {"Aligning photos", "Looking at photos", "Choosing views", "Painting", "Filling"} <= set(labels)


def test_alignment_can_be_left_out(tmp_path):
    labels = []

    def track(items, label, total=None):
        labels.append(label)
        return items

    config = TextureConfig(texture_size=128, align_photos=False)
    bake(plane(), _plane_capture(tmp_path), config, device=resolve_device("cpu"), track=track)
    assert not any(label.startswith("Aligning") for label in labels)


def test_faces_without_area_and_loose_triangles_are_no_trouble(tmp_path, device):
    mesh = plane()
    soup = Mesh(mesh.vertices[mesh.faces].reshape(-1, 3), np.arange(3 * len(mesh.faces), dtype=np.int32).reshape(-1, 3))
    flat = np.concatenate([soup.faces, [[0, 0, 1], [0, 1, 0]]]).astype(np.int32)
    model, report = bake(
        replace(soup, faces=flat), _plane_capture(tmp_path), TextureConfig(texture_size=256), device=device
    )
    points, got, face = texture_at(model, 20)
    whole = face < len(soup.faces)
    assert np.abs(got - waves(points)).max(1)[whole].mean() < 4
    assert report.seen > 0.92


def test_bad_input_is_refused_with_a_cure(tmp_path):
    capture, device = _plane_capture(tmp_path), resolve_device("cpu")
    empty = Mesh(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.int32))
    with pytest.raises(SmrError, match="no faces"):
        bake(empty, capture, TextureConfig(), device=device)
    broken = plane()
    broken.vertices[3, 1] = np.nan
    with pytest.raises(SmrError, match="not finite"):
        bake(broken, capture, TextureConfig(), device=device)
    for size in (8, 10_000):
        with pytest.raises(SmrError, match=f"texture of {size} pixels"):
            bake(plane(), capture, TextureConfig(texture_size=size), device=device)
    blind = Capture(tmp_path, "test", tuple(replace(frame, photo=None) for frame in capture.frames))
    with pytest.raises(SmrError, match="no photo with a pose"):
        bake(plane(), blind, TextureConfig(), device=device)
    away = [np.linalg.inv(np.diag([1.0, 1, 1, 1])) for _ in capture.frames]
    for pose in away:
        pose[2, 3] = 50.0  # behind the plane's back, looking away from it
    frames = tuple(
        replace(frame, photo=replace(frame.photo, world_from_camera=pose))
        for frame, pose in zip(capture.frames, away, strict=True)
    )
    with pytest.raises(SmrError, match="sees the mesh"):
        bake(plane(), replace(capture, frames=frames), TextureConfig(), device=device)


@pytest.mark.data
@pytest.mark.slow
def test_left_out_views_of_a_real_shape(data_dir):
    import trimesh
    from scipy.ndimage import binary_erosion

    from smr.captures import decode_photo, read_capture

    folder, device = data_dir("synthetic_object"), resolve_device("cpu")
    truth = trimesh.load(folder / "ground_truth" / "objects.ply", process=False)
    mesh = Mesh(np.asarray(truth.vertices, np.float32), np.asarray(truth.faces, np.int32))
    capture = read_capture(folder)
    kept = replace(capture, frames=capture.frames[::3])
    model, report = bake(mesh, kept, TextureConfig(texture_size=1024), device=device)
    errors = []
    for frame in capture.frames[1::12]:
        pixels, camera = decode_photo(frame.photo)
        image = render_textured(model, camera, frame.photo.world_from_camera, device=device, background=(255, 0, 255))
        inside = binary_erosion(~(image == [255, 0, 255]).all(-1), iterations=2)
        errors.append(np.abs(image[inside].astype(int) - pixels[inside]).mean())
    assert max(errors) < 4
    assert report.seen > 0.8
