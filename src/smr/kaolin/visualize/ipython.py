"""Viewers in notebooks: a canvas whose camera follows mouse and keys. They need ipycanvas and ipyevents."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import torch

from ...errors import SmrError
from ..math.quat.quaternion import quat_from_angle_axis, quat_rotate
from ..render.camera.camera import Camera
from ..render.camera.extrinsics import CameraExtrinsics

Event = dict[str, Any]
Render = Callable[[Camera], Any]

_LEFT, _RIGHT = 1, 2  # of the bits that `buttons` of a mouse event holds
_MOUSE = ("wheel", "mousedown", "mouseup", "mousemove", "mouseleave", "mouseenter", "contextmenu")


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise SmrError(
            f"{name.partition('.')[0]} is not installed; the viewers in notebooks and quick_viz need it.",
            "pip install ipycanvas ipyevents matplotlib",
        ) from error


def quick_viz(imgs: torch.Tensor, nrow: int | None = None, inches: int | float = 15) -> Any:
    """Show images in a grid with matplotlib.

    Args:
        imgs: (C, H, W) or (B, C, H, W), with 1, 3 or 4 channels, values from 0 to 1 or uint8.
        nrow: Images in a row; None puts all in one.
        inches: Width of one image.

    Returns:
        The axes, or None, with a warning, where the shape is another.
    """
    batch = imgs.unsqueeze(0) if imgs.dim() == 3 else imgs
    if batch.dim() != 4 or batch.shape[1] not in (1, 3, 4):
        warnings.warn(f"quick_viz shows images (C, H, W) or (B, C, H, W), not {tuple(imgs.shape)}", stacklevel=2)
        return None
    pyplot = _package("matplotlib.pyplot")
    count, channels, height, width = batch.shape
    columns = min(nrow or count, count)
    rows = math.ceil(count / columns)
    grid = batch.new_zeros((rows * columns, channels, height, width))
    grid[:count] = batch.detach()
    grid = grid.reshape(rows, columns, channels, height, width).permute(0, 3, 1, 4, 2)
    image = grid.reshape(rows * height, columns * width, channels).cpu().numpy()
    _, axes = pyplot.subplots(figsize=(inches * columns, inches * rows * height / width))
    axes.imshow(np.repeat(image, 3, axis=-1) if channels == 1 else image)
    axes.set_axis_off()
    return axes


def rotate_around_axis(point: torch.Tensor, angle: float | torch.Tensor, axis: torch.Tensor) -> torch.Tensor:
    """Points (B, 3) turned by an angle (radians, by the right hand) about axes (B, 3) through the origin."""
    turn = torch.as_tensor(angle, dtype=point.dtype, device=point.device)
    return quat_rotate(quat_from_angle_axis(turn, axis.to(point)), point)


def update_canvas(canvas: Any, image: torch.Tensor | np.ndarray, format: str = "PNG", quality: int = 100) -> None:
    """Draw an image over a whole canvas of ipycanvas.

    Args:
        canvas: The canvas.
        image: (H, W, 3 or 4) uint8; of another size than the canvas it is stretched.
        format: PNG or JPEG, for its way to the browser.
        quality: Of JPEG.
    """
    from PIL import Image

    pixels = image.detach().cpu().numpy() if isinstance(image, torch.Tensor) else image
    buffer = io.BytesIO()
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    if format.upper() in ("JPEG", "JPG"):
        picture.convert("RGB").save(buffer, format="JPEG", quality=quality)
    else:
        picture.save(buffer, format=format)
    widget = _package("ipywidgets").Image(value=buffer.getvalue(), format=format.lower())
    with _package("ipycanvas").hold_canvas():
        canvas.clear_rect(0, 0, canvas.width, canvas.height)
        canvas.draw_image(widget, 0, 0, canvas.width, canvas.height)


class BaseIpyVisualizer:
    """A canvas that shows what a function renders for a camera, and hears events; subclasses move the camera.

    Args:
        height: Of the canvas, pixels.
        width: Of the canvas, pixels.
        camera: The camera; it is changed.
        render: From the camera to an image (H, W, 3 or 4) uint8, or a dict with such an image as "img".
        fast_render: The same while something moves, perhaps smaller; None takes `render`.
        watched_events: Names of the events of ipyevents to hear.
        max_fps: Events a second at most; None is all.
        canvas: A canvas of ipycanvas to draw on; None makes one.
        event_canvas: Where events come from; None is the canvas.
        img_format: PNG or JPEG, for the way to the browser.
        img_quality: Of JPEG.
        additional_event_handler: Called with the viewer and each event first; False ends the event.
        update_only_on_release: Do not render while the mouse moves.
    """

    def __init__(
        self,
        height: int,
        width: int,
        camera: Camera,
        render: Render,
        fast_render: Render | None = None,
        watched_events: Sequence[str] | None = None,
        max_fps: int | float | None = None,
        canvas: Any = None,
        event_canvas: Any = None,
        img_format: str = "PNG",
        img_quality: int = 100,
        additional_event_handler: Callable[[Any, Event], bool] | None = None,
        update_only_on_release: bool = False,
    ) -> None:
        if len(camera) != 1:
            raise ValueError(f"the viewer needs one camera, not {len(camera)}")
        self.camera, self.render, self.fast_render = camera, render, fast_render or render
        self.canvas = canvas or _package("ipycanvas").Canvas(height=height, width=width)
        self.out = _package("ipywidgets").Output()
        self.img_format, self.img_quality = img_format, img_quality
        self.additional_event_handler, self.update_only_on_release = additional_event_handler, update_only_on_release
        self.current_output: Any = None
        self.position = (0.0, 0.0)
        self.event = _package("ipyevents").Event(
            source=event_canvas or self.canvas,
            watched_events=list(watched_events or _MOUSE),
            prevent_default_action=True,
        )
        self.max_fps = max_fps
        self.event.on_dom_event(self._handle_event)

    @property
    def max_fps(self) -> int | float | None:
        """Events a second at most; None is all."""
        return self._max_fps

    @max_fps.setter
    def max_fps(self, value: int | float | None) -> None:
        self._max_fps = value
        self.event.throttle_or_debounce = None if value is None else "throttle"
        self.event.wait = 0 if value is None else int(1000 / value)

    def render_update(self) -> None:
        """Render and draw."""
        self._draw(self.render)

    def fast_render_update(self) -> None:
        """Render and draw with the fast function."""
        self._draw(self.fast_render)

    def _draw(self, render: Render) -> None:
        with torch.no_grad():
            self.current_output = render(self.camera)
        image = self.current_output["img"] if isinstance(self.current_output, dict) else self.current_output
        update_canvas(self.canvas, image, self.img_format, self.img_quality)

    def show(self) -> None:
        """Render, and display the canvas and what functions print."""
        self.render_update()
        _package("IPython.display").display(self.canvas, self.out)

    def get_values_under_cursor(self) -> Any:
        """What the last rendering holds at the cursor: a value, or a dict of values where it is a dict of images."""

        def at(image: Any) -> Any:
            if not isinstance(image, torch.Tensor | np.ndarray) or image.ndim < 2:
                return image
            size = (self.canvas.width, self.canvas.height)
            x, y = (
                min(max(int(place / full * have), 0), have - 1)
                for place, full, have in zip(self.position, size, (image.shape[1], image.shape[0]), strict=True)
            )
            return image[y, x]

        output = self.current_output
        return {name: at(image) for name, image in output.items()} if isinstance(output, dict) else at(output)

    def _handle_event(self, event: Event) -> None:
        with self.out:
            if self.additional_event_handler is not None and not self.additional_event_handler(self, event):
                return
            kind = event["type"]
            if kind in ("mousedown", "mousemove", "mouseup"):
                place = (float(event["relativeX"]), float(event["relativeY"]))
                moved = (place[0] - self.position[0], place[1] - self.position[1])
                self.position = place
                if kind == "mousemove" and self._drag(event.get("buttons", 0), *moved):
                    if not self.update_only_on_release:
                        self.fast_render_update()
                elif kind == "mouseup":
                    self.render_update()
            elif kind == "wheel":
                self._wheel(event)
                self.render_update()
            elif kind in ("keydown", "keyup") and self._key(event["key"], down=kind == "keydown"):
                (self.fast_render_update if kind == "keydown" else self.render_update)()

    def _drag(self, buttons: int, x: float, y: float) -> bool:
        """Move the camera for a mouse movement in pixels; returns whether it moved."""
        raise NotImplementedError

    def _wheel(self, event: Event) -> None:
        """Zoom for a turn of the wheel."""
        raise NotImplementedError

    def _key(self, key: str, down: bool) -> bool:
        """Move the camera for a key; returns whether it is one that moves it."""
        return False

    def _zoom(self, amount: float) -> None:
        """Widen (positive) or narrow the view; a field of view comes near 0 and 180 degrees but not to them."""
        if self.camera.lens_type != "pinhole":
            self.camera.zoom(-amount)
            return
        angle = float(self.camera.fov_y)
        share = min(max(angle / 180, 1e-3), 1 - 1e-3)
        wider = 1 / (1 + (1 - share) / share * math.exp(-amount))
        self.camera.zoom(angle - 180 * min(max(wider, 1e-3), 1 - 1e-3))

    def _look(self, position: torch.Tensor, at: torch.Tensor, up: torch.Tensor) -> None:
        """Put the camera at (3,), looking at (3,), with (3,) upward."""
        device, dtype = self.camera.device, self.camera.dtype
        extrinsics = CameraExtrinsics.from_lookat(eye=position, at=at, up=up, device=device, dtype=dtype)
        self.camera.extrinsics.update(extrinsics.view_matrix())

    def _axes(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """The camera's position, right, up and backward axis, (3,) each."""
        camera = self.camera
        parts = (camera.cam_pos(), camera.cam_right(), camera.cam_up(), camera.cam_forward())
        position, right, up, backward = (part.detach().reshape(3) for part in parts)
        return position, right, up, backward


class IpyTurntableVisualizer(BaseIpyVisualizer):
    """A viewer whose camera turns about a point: left button turns, right button moves, wheel zooms.

    The wheel with control moves towards the point.

    Args:
        height: Of the canvas, pixels.
        width: Of the canvas, pixels.
        camera: The camera; it is changed.
        render: See `BaseIpyVisualizer`.
        fast_render: See `BaseIpyVisualizer`.
        focus_at: The point, (3,); None is the origin.
        world_up_axis: 0, 1 or 2.
        zoom_sensitivity: Of the wheel.
        forward_sensitivity: Of the wheel with control.
        rotation_sensitivity: Half turns for a movement over the whole canvas.
        translation_sensitivity: Distances to the point for a movement over the whole canvas.
        max_fps: See `BaseIpyVisualizer`.
        update_only_on_release: See `BaseIpyVisualizer`.
        additional_watched_events: More events to hear.
        additional_event_handler: See `BaseIpyVisualizer`.
        **options: More of `BaseIpyVisualizer`.
    """

    def __init__(
        self,
        height: int,
        width: int,
        camera: Camera,
        render: Render,
        fast_render: Render | None = None,
        focus_at: torch.Tensor | None = None,
        world_up_axis: int = 1,
        zoom_sensitivity: int | float = 0.001,
        forward_sensitivity: int | float = 0.001,
        rotation_sensitivity: int | float = 1.5,
        translation_sensitivity: int | float = 1.0,
        max_fps: int | float | None = None,
        update_only_on_release: bool = False,
        additional_watched_events: Sequence[str] | None = None,
        additional_event_handler: Callable[[Any, Event], bool] | None = None,
        **options: Any,
    ) -> None:
        options.update(max_fps=max_fps, update_only_on_release=update_only_on_release)
        options.update(additional_event_handler=additional_event_handler)
        watched = [*_MOUSE, *(additional_watched_events or [])]
        super().__init__(height, width, camera, render, fast_render, watched, **options)
        self.world_up_axis = world_up_axis
        self.zoom_sensitivity, self.forward_sensitivity = zoom_sensitivity, forward_sensitivity
        self.rotation_sensitivity, self.translation_sensitivity = rotation_sensitivity, translation_sensitivity
        zero = torch.zeros(3, device=camera.device, dtype=camera.dtype)
        self.focus_at = zero if focus_at is None else focus_at.to(zero)
        position, _, up, _ = self._axes()
        self.world_up = zero.clone()
        self.world_up[world_up_axis] = 1.0 if up[world_up_axis] >= 0 else -1.0
        self._look(position, self.focus_at, self.world_up)

    def _drag(self, buttons: int, x: float, y: float) -> bool:
        position, right, up, _ = self._axes()
        arm = position - self.focus_at
        if buttons == _LEFT:
            azimuth = self.rotation_sensitivity * x * math.pi / self.canvas.width
            elevation = self.rotation_sensitivity * y * math.pi / self.canvas.height
            self._turn(arm, right, azimuth, elevation)
        elif buttons == _RIGHT:
            size = self.translation_sensitivity * arm.norm()
            shift = up * (size * y / self.canvas.height) - right * (size * x / self.canvas.width)
            self.focus_at = self.focus_at + shift
            self._look(position + shift, self.focus_at, self.world_up)
        return buttons in (_LEFT, _RIGHT)

    def _turn(self, arm: torch.Tensor, right: torch.Tensor, azimuth: float, elevation: float) -> None:
        # stay a little off the poles, where up has no meaning
        above = math.asin(float((arm @ self.world_up / arm.norm()).clamp(-1, 1)))
        limit = math.pi / 2 - 1e-3
        elevation = min(max(above + elevation, -limit), limit) - above if abs(above) < limit else 0.0
        up = self.world_up.unsqueeze(0)
        turned = rotate_around_axis(arm.unsqueeze(0), -azimuth, up)
        turned = rotate_around_axis(turned, -elevation, rotate_around_axis(right.unsqueeze(0), -azimuth, up))
        self._look(self.focus_at + turned[0], self.focus_at, self.world_up)

    def _wheel(self, event: Event) -> None:
        if not event.get("ctrlKey"):
            self._zoom(self.zoom_sensitivity * event["deltaY"])
            return
        position = self._axes()[0]
        scale = math.exp(min(max(self.forward_sensitivity * event["deltaY"], -2.0), 2.0))
        self._look(self.focus_at + (position - self.focus_at) * scale, self.focus_at, self.world_up)


class IpyFirstPersonVisualizer(BaseIpyVisualizer):
    """A viewer through whose camera one looks around: left button turns, right button and keys move, wheel zooms.

    Args:
        height: Of the canvas, pixels.
        width: Of the canvas, pixels.
        camera: The camera; it is changed.
        render: See `BaseIpyVisualizer`.
        fast_render: See `BaseIpyVisualizer`.
        world_up: (3,); None is the camera's own.
        zoom_sensitivity: Of the wheel.
        rotation_sensitivity: Half turns for a movement over the whole canvas.
        translation_sensitivity: Way for a movement over the whole canvas.
        key_move_sensitivity: Way for a key.
        max_fps: See `BaseIpyVisualizer`.
        up_key: Key that moves up; the next ones likewise.
        down_key: Down.
        left_key: Left.
        right_key: Right.
        forward_key: Forward.
        backward_key: Backward.
        update_only_on_release: See `BaseIpyVisualizer`.
        additional_watched_events: More events to hear.
        additional_event_handler: See `BaseIpyVisualizer`.
        **options: More of `BaseIpyVisualizer`.
    """

    def __init__(
        self,
        height: int,
        width: int,
        camera: Camera,
        render: Render,
        fast_render: Render | None = None,
        world_up: torch.Tensor | None = None,
        zoom_sensitivity: int | float = 0.001,
        rotation_sensitivity: int | float = 0.4,
        translation_sensitivity: int | float = 1.0,
        key_move_sensitivity: int | float = 0.05,
        max_fps: int | float | None = None,
        up_key: str = "i",
        down_key: str = "k",
        left_key: str = "j",
        right_key: str = "l",
        forward_key: str = "o",
        backward_key: str = "u",
        update_only_on_release: bool = False,
        additional_watched_events: Sequence[str] | None = None,
        additional_event_handler: Callable[[Any, Event], bool] | None = None,
        **options: Any,
    ) -> None:
        options.update(max_fps=max_fps, update_only_on_release=update_only_on_release)
        options.update(additional_event_handler=additional_event_handler)
        watched = [*_MOUSE, "keydown", "keyup", *(additional_watched_events or [])]
        super().__init__(height, width, camera, render, fast_render, watched, **options)
        self.zoom_sensitivity, self.rotation_sensitivity = zoom_sensitivity, rotation_sensitivity
        self.translation_sensitivity, self.key_move_sensitivity = translation_sensitivity, key_move_sensitivity
        self.keys = {
            up_key: ("move_up", 1), down_key: ("move_up", -1), left_key: ("move_right", -1),
            right_key: ("move_right", 1), forward_key: ("move_forward", -1), backward_key: ("move_forward", 1),
        }  # fmt: skip
        position, _, up, backward = self._axes()
        self.world_up = torch.nn.functional.normalize(up if world_up is None else world_up.to(up), dim=-1)
        self._look(position, position - backward, self.world_up)
        self.elevation = math.asin(float((self._axes()[3] @ self.world_up).clamp(-1, 1)))

    def _drag(self, buttons: int, x: float, y: float) -> bool:
        width, height = self.canvas.width, self.canvas.height
        if buttons == _LEFT:
            turn = self.rotation_sensitivity * math.pi
            self._turn(turn * x / width, turn * y / height)
        elif buttons == _RIGHT:
            self.camera.move_up(self.translation_sensitivity * y / height)
            self.camera.move_right(-self.translation_sensitivity * x / width)
        return buttons in (_LEFT, _RIGHT)

    def _turn(self, azimuth: float, elevation: float) -> None:
        elevation = min(max(self.elevation + elevation, -math.pi / 2), math.pi / 2) - self.elevation
        self.elevation += elevation
        position, *axes = self._axes()
        right, up, backward = rotate_around_axis(torch.stack(axes), -azimuth, self.world_up.expand(3, 3))
        up, backward = rotate_around_axis(torch.stack([up, backward]), -elevation, right.expand(2, 3))
        view = torch.eye(4, dtype=right.dtype, device=right.device)
        view[:3, :3] = torch.stack([right, up, backward])
        view[:3, 3] = -view[:3, :3] @ position
        self.camera.extrinsics.update(view.unsqueeze(0))

    def _wheel(self, event: Event) -> None:
        self._zoom(self.zoom_sensitivity * event["deltaY"])

    def _key(self, key: str, down: bool) -> bool:
        if key not in self.keys:
            return False
        if down:
            move, sign = self.keys[key]
            getattr(self.camera, move)(sign * self.key_move_sensitivity)
        return True
