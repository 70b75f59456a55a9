"""Checkpoints as USD; viewers in notebooks, with stand-ins for the widgets."""

from __future__ import annotations

import math
import os
import shutil
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from smr import SmrError
from smr.kaolin.render.camera import Camera
from smr.kaolin.visualize import IpyFirstPersonVisualizer, IpyTurntableVisualizer, Timelapse, TimelapseParser, ipython

# Viewers


class Widget:
    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)
        self.drawn: list[np.ndarray] = []

    def on_dom_event(self, handler: Any) -> None:
        self.handler = handler

    def draw_image(self, image: Any, *place: int) -> None:
        self.drawn.append((image.format, place))

    def clear_rect(self, *place: int) -> None:
        pass

    __enter__ = lambda self: self  # noqa: E731
    __exit__ = lambda self, *error: None  # noqa: E731


@pytest.fixture
def widgets(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    shown: list[Any] = []
    module = SimpleNamespace(
        Canvas=Widget, Output=Widget, Event=Widget, Image=Widget,
        hold_canvas=nullcontext, display=lambda *things: shown.extend(things),
    )  # fmt: skip
    monkeypatch.setattr(ipython, "_package", lambda name: module)
    return shown


class Renderer:
    def __init__(self, as_dict: bool = False) -> None:
        self.count, self.as_dict = 0, as_dict

    def __call__(self, camera: Camera) -> Any:
        self.count += 1
        image = torch.arange(48, dtype=torch.uint8).reshape(4, 4, 3)
        return {"img": image, "depth": torch.arange(16).reshape(4, 4), "name": 3} if self.as_dict else image


@pytest.fixture
def camera() -> Camera:
    return Camera.from_args(
        eye=torch.tensor([1.0, 2, 3]), at=torch.tensor([0.2, 0, 0]), up=torch.tensor([0.1, 1, 0]),
        fov=0.8, width=40, height=40, device="cpu",
    )  # fmt: skip


def drag(viewer: Any, buttons: int, x: float, y: float) -> None:
    viewer._handle_event({"type": "mousedown", "relativeX": 10, "relativeY": 10, "buttons": buttons})
    viewer._handle_event({"type": "mousemove", "relativeX": 10 + x, "relativeY": 10 + y, "buttons": buttons})
    viewer._handle_event({"type": "mouseup", "relativeX": 10 + x, "relativeY": 10 + y, "buttons": 0})


def test_the_turntable_turns_about_its_point(camera: Camera, widgets: list[Any]) -> None:
    render, fast = Renderer(), Renderer()
    focus = torch.tensor([0.5, 0.1, -0.2])
    viewer = IpyTurntableVisualizer(40, 40, camera, render, fast_render=fast, focus_at=focus, img_format="JPEG")
    viewer.show()
    assert widgets == [viewer.canvas, viewer.out]
    position = camera.cam_pos().reshape(3).clone()
    drag(viewer, 1, 7, 3)
    assert (render.count, fast.count) == (2, 1)
    moved = camera.cam_pos().reshape(3)
    arms = position - focus, moved - focus
    torch.testing.assert_close(arms[0].norm(), arms[1].norm())
    turns = [math.atan2(float(arm[0]), float(arm[2])) for arm in arms]
    assert turns[0] - turns[1] == pytest.approx(1.5 * math.pi * 7 / 40, abs=1e-4)
    heights = [math.asin(float(arm[1] / arm.norm())) for arm in arms]
    assert heights[1] - heights[0] == pytest.approx(1.5 * math.pi * 3 / 40, abs=1e-4)
    looking = -camera.cam_forward().reshape(3)
    torch.testing.assert_close(looking, -arms[1] / arms[1].norm(), atol=1e-5, rtol=0)
    assert abs(float(camera.cam_right().reshape(3)[1])) < 1e-6
    assert viewer.canvas.drawn[-1] == ("jpeg", (0, 0, 40, 40))
    for _ in range(9):
        drag(viewer, 1, 0, 25)  # over the pole it does not go
    assert float(camera.cam_up().reshape(3)[1]) > 0


def test_the_turntable_moves_its_point_and_zooms(camera: Camera, widgets: list[Any]) -> None:
    render = Renderer()
    viewer = IpyTurntableVisualizer(40, 40, camera, render, update_only_on_release=True)
    position, right = camera.cam_pos().reshape(3).clone(), camera.cam_right().reshape(3).clone()
    drag(viewer, 2, 10, 0)
    assert render.count == 1  # on release only
    torch.testing.assert_close(viewer.focus_at, -right * position.norm() / 4, atol=1e-5, rtol=0)
    fov = float(camera.fov_y)
    viewer._handle_event({"type": "wheel", "deltaY": 120})
    assert fov < float(camera.fov_y) < 180
    for _ in range(2):
        viewer._handle_event({"type": "wheel", "deltaY": -100_000})
    assert 0 < float(camera.fov_y) < 1
    distance = float((camera.cam_pos().reshape(3) - viewer.focus_at).norm())
    viewer._handle_event({"type": "wheel", "deltaY": -500, "ctrlKey": True})
    nearer = float((camera.cam_pos().reshape(3) - viewer.focus_at).norm())
    assert nearer == pytest.approx(distance * math.exp(-0.5), rel=1e-4)
    count = render.count
    viewer._handle_event({"type": "keydown", "key": "i"})
    viewer._handle_event({"type": "mouseenter"})
    assert render.count == count


def test_first_person_turns_where_it_stands_and_walks(camera: Camera, widgets: list[Any]) -> None:
    render = Renderer()
    viewer = IpyFirstPersonVisualizer(40, 40, camera, render, world_up=torch.tensor([0.0, 2, 0]), max_fps=20)
    assert viewer.event.wait == 50
    position = camera.cam_pos().clone()
    drag(viewer, 1, 8, 4)
    torch.testing.assert_close(camera.cam_pos(), position, atol=1e-5, rtol=0)
    assert abs(float(camera.cam_right().reshape(3)[1])) < 1e-5
    up = torch.tensor([0.0, 1, 0])
    assert math.asin(float(camera.cam_forward().reshape(3) @ up)) == pytest.approx(viewer.elevation, abs=1e-5)
    drag(viewer, 1, 0, 10_000)
    assert viewer.elevation == pytest.approx(math.pi / 2)
    for key, axis, way in (
        ("i", "up", 1),
        ("k", "up", -1),
        ("l", "right", 1),
        ("j", "right", -1),
        ("o", "forward", -1),
    ):
        before, count = camera.cam_pos().reshape(3).clone(), render.count
        viewer._handle_event({"type": "keydown", "key": key})
        viewer._handle_event({"type": "keyup", "key": key})
        step = getattr(camera, f"cam_{axis}")().reshape(3) * way * 0.05
        torch.testing.assert_close(camera.cam_pos().reshape(3) - before, step, atol=1e-5, rtol=0)
        assert render.count == count + 2
    before = camera.cam_pos().reshape(3).clone()
    drag(viewer, 2, 20, 0)
    torch.testing.assert_close(
        camera.cam_pos().reshape(3) - before, -0.5 * camera.cam_right().reshape(3), atol=1e-5, rtol=0
    )


def test_values_under_the_cursor_and_events_that_end(camera: Camera, widgets: list[Any]) -> None:
    heard = []

    def first(viewer: Any, event: dict[str, Any]) -> bool:
        heard.append(event["type"])
        return event["type"] != "wheel"

    render = Renderer(as_dict=True)
    viewer = IpyTurntableVisualizer(40, 40, camera, render, additional_event_handler=first)
    viewer.render_update()
    viewer._handle_event({"type": "wheel", "deltaY": 100})
    assert (heard, render.count) == (["wheel"], 1)
    viewer._handle_event({"type": "mousedown", "relativeX": 31, "relativeY": 12, "buttons": 1})
    values = viewer.get_values_under_cursor()
    assert (values["img"].tolist(), int(values["depth"]), values["name"]) == ([21, 22, 23], 7, 3)


def test_one_camera_is_needed(camera: Camera, widgets: list[Any]) -> None:
    with pytest.raises(ValueError, match="needs one camera, not 2"):
        IpyTurntableVisualizer(40, 40, Camera.cat([camera, camera]), Renderer())


def test_packages_that_are_missing_are_named(camera: Camera, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(ipython, "import_module", missing)
    with pytest.raises(SmrError, match=r"ipycanvas is not installed.*\n  fix: pip install ipycanvas ipyevents"):
        IpyTurntableVisualizer(40, 40, camera, Renderer())
    with pytest.raises(SmrError, match="matplotlib is not installed"):
        ipython.quick_viz(torch.rand(3, 4, 4))


def test_shapes_that_are_no_images() -> None:
    with pytest.warns(UserWarning, match=r"shows images \(C, H, W\) or \(B, C, H, W\), not \(25, 30, 3\)"):
        assert ipython.quick_viz(torch.rand(25, 30, 3)) is None


def test_turning_about_an_axis() -> None:
    turned = ipython.rotate_around_axis(torch.tensor([[1.0, 0, 0]]), math.pi / 2, torch.tensor([[0.0, 0, 3]]))
    torch.testing.assert_close(turned, torch.tensor([[0.0, 1, 0]]), atol=1e-6, rtol=0)


# Checkpoints


def test_checkpoints_are_written_and_found(tmp_path: Path) -> None:
    pytest.importorskip("smr.kaolin.io.usd.mesh", exc_type=ImportError)
    usd = pytest.importorskip("smr.kaolin.io.usd")
    writer = Timelapse(tmp_path)
    vertices = [torch.rand(4, 3), torch.rand(4, 3)]
    faces = [torch.tensor([[0, 1, 2], [0, 2, 3]])] * 2
    writer.add_mesh_batch(0, "output", vertices, faces)
    writer.add_mesh_batch(20, "output", [v * 2 for v in vertices])
    writer.add_pointcloud_batch(5, "input", [torch.rand(9, 3)])
    writer.add_voxelgrid_batch(0, "output", [torch.rand(3, 3, 3) > 0.5])
    for time, scale in ((0, 1.0), (20, 2.0)):
        mesh = usd.import_mesh(str(tmp_path / "output" / "mesh_1.usd"), time=float(time))
        torch.testing.assert_close(mesh.vertices, vertices[1] * scale)
    parser = TimelapseParser(tmp_path)
    assert sorted(parser.filepaths) == [
        ("mesh", "output", 0), ("mesh", "output", 1), ("pointcloud", "input", 0), ("voxelgrid", "output", 0),
    ]  # fmt: skip
    assert parser.get_category_info("mesh", "output") == {"category": "output", "ids": [0, 1], "end_time": 20}
    assert (parser.num_mesh_items(), parser.num_pointcloud_categories(), parser.num_voxelgrid_categories()) == (2, 1, 1)
    with pytest.raises(ValueError, match=r"mesh batch have different lengths: \[1, 2\]"):
        writer.add_mesh_batch(0, "output", vertices, faces[:1])


def test_folders_that_change_are_seen(tmp_path: Path) -> None:
    from pxr import Usd

    (tmp_path / "output").mkdir()
    Usd.Stage.CreateNew(str(tmp_path / "output" / "mesh_0.usd")).Save()
    (tmp_path / "output" / "notes.txt").touch()
    (tmp_path / "output" / "mesh_x.usd").touch()
    parser = TimelapseParser(tmp_path)
    assert parser.get_file_path("mesh", "output", 0) == str(tmp_path / "output" / "mesh_0.usd")
    assert parser.get_file_path("mesh", "output", 1) is None
    assert parser.get_category_names_by_type("mesh") == ["output"]
    assert parser.get_category_info("mesh", "input") is None
    assert (parser.num_mesh_items(), parser.num_mesh_categories()) == (1, 1)
    assert (parser.num_pointcloud_items(), parser.num_voxelgrid_items()) == (0, 0)
    assert not parser.check_for_updates()
    os.utime(tmp_path / "output" / "mesh_0.usd", ns=(1, 1))
    assert parser.check_for_updates()
    shutil.rmtree(tmp_path / "output")
    assert parser.check_for_updates()
    assert parser.num_mesh_categories() == 0
    assert parser.dir_info == {}
