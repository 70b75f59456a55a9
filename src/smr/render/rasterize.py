"""A z-buffer rasterizer for NumPy arrays: which face each pixel's centre sees, at which depth, where in the face."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, no_type_check

import numpy as np
import warp as wp
from jaxtyping import Float, Float32, Int32

from ..arrays import launch_chunked
from ..records import Camera
from .drawing import (
    BAND_ROWS,
    LARGE_WARPS,
    PROJECT,
    draw_bands,
    draw_large,
    draw_small,
    find_rows,
    key_face,
    key_value,
    sort_into_bands,
)
from .surface import areas, offset
from .triangles import View

NEAR_OF_EXTENT = 2e-4
"""Default near plane: this part of the largest coordinate."""


@dataclass(frozen=True)
class Fragments:
    """What each pixel's centre sees."""

    face: Int32[np.ndarray, "h w"]
    """Index of the face; -1 where there is none."""
    depth: Float32[np.ndarray, "h w"]
    """Depth along the camera's z axis; 0 where there is no face."""
    barycentric: Float32[np.ndarray, "h w 3"]
    """Weights of the face's corners on the surface (perspective-correct); 0 where there is no face."""


@dataclass(frozen=True)
class DeviceFragments:
    """The same on a device, one value a pixel, row by row."""

    face: Any
    """wp.array(int32), -1 where there is no face."""
    inverse_depth: Any
    """wp.array(float32), 0 where there is no face."""


@dataclass(frozen=True)
class Drawing:
    """What is drawn: faces of one or more images of one size, on a device, ready for the kernels of `drawing`."""

    view: Any
    images: int
    snapped: Any
    """wp.array(vec3i), what `project` made of the vertices of all images."""
    points: Any
    """wp.array(vec3d), the same."""
    vertices: int
    """Vertices of an image."""
    faces: Any
    """wp.array(vec3i)."""
    per_image: int
    """Faces of an image; negative where each image has its own, positive where all share them."""
    faults: Any
    """wp.array(int), two zeros that become 1: a vertex is not finite, an index is out of range."""

    @property
    def items(self) -> int:
        """Faces of all images."""
        return self.images * abs(self.per_image)

    @property
    def pixels(self) -> int:
        """Pixels of all images."""
        return int(self.images * self.view.width * self.view.height)

    @property
    def most_tiles(self) -> int:
        """See `most_tiles_of`."""
        return self.most_tiles_of(self.items)

    @staticmethod
    def most_tiles_of(items: int) -> int:
        """Places of the list of tiles that a face may take: all together they fit the counter's bits."""
        return min(max(16, 2**33 // max(items, 1)), 2**30)


def make_view(width: int, height: int, near: float, *, perspective: bool = True) -> Any:
    """A View for the kernels."""
    view = View()
    view.width, view.height, view.near, view.perspective = width, height, near, int(perspective)
    return view


def draw_on_cpu(drawing: Drawing, before: wp.array, keys: wp.array) -> None:
    """Fill `keys` (zeros) with the nearest faces behind `before`, which may be empty, on all cores."""
    d = drawing
    bands = -(-d.view.height // BAND_ROWS)
    rows = wp.empty(d.items, dtype=wp.vec2i, device="cpu")
    scene = [d.view, d.snapped, d.points, d.vertices, d.faces, d.per_image, bands]
    launch_chunked(find_rows, d.items, scene, outputs=[rows, d.faults], device="cpu")
    start = wp.zeros(d.images * bands, dtype=int, device="cpu")
    order = wp.zeros(1, dtype=int, device="cpu")
    wp.launch(sort_into_bands, 1, [rows, start, 0], [order], device="cpu")
    counts = start.numpy()
    order = wp.empty(max(1, int(counts.sum())), dtype=int, device="cpu")
    counts[:] = np.cumsum(counts) - counts
    wp.launch(sort_into_bands, 1, [rows, start, 1], [order], device="cpu")
    bands = len(counts)
    launch_chunked(
        draw_bands, bands, [*scene, start, order, before], outputs=[keys], device="cpu", chunks=min(bands, 64)
    )


def draw_on_gpu(drawing: Drawing, before: wp.array, keys: wp.array, device: str) -> None:
    """The same on a GPU, in two launches and without a wait."""
    d = drawing
    counter = wp.zeros(1, dtype=wp.uint64, device=device)
    large = wp.empty(d.items, dtype=int, device=device)
    start = wp.empty(d.items, dtype=wp.int64, device=device)
    faces = [d.vertices, d.faces, d.per_image, d.most_tiles, before]
    wp.launch(
        draw_small, d.items, [0, d.view, d.snapped, *faces], [keys, counter, large, start, d.faults], device=device
    )
    wp.launch(
        draw_large,
        32 * LARGE_WARPS,
        [0, d.view, d.snapped, d.points, *faces, counter, large, start],
        [keys],
        device=device,
    )


@wp.kernel(enable_backward=False)
@no_type_check
def _unpack(
    base: int, keys: wp.array(dtype=wp.uint64), face_of: wp.array(dtype=int), inverse_depth: wp.array(dtype=float)
):
    pixel = base + wp.tid()
    key = keys[pixel]
    face_of[pixel] = -1
    inverse_depth[pixel] = 0.0
    if key != wp.uint64(0):
        inverse_depth[pixel] = key_value(key)
        face_of[pixel] = key_face(key)


@wp.kernel(enable_backward=False)
@no_type_check
def _locate(
    base: int,
    width: int,
    intrinsics: wp.array(dtype=float),
    vertices: wp.array(dtype=wp.vec3),
    faces: wp.array(dtype=wp.vec3i),
    face_of: wp.array(dtype=int),
    barycentric: wp.array(dtype=wp.vec3),
):
    pixel = base + wp.tid()
    f = face_of[pixel]
    if f < 0:
        barycentric[pixel] = wp.vec3(0.0, 0.0, 0.0)
        return
    px = float(pixel % width) + 0.5
    py = float(pixel / width) + 0.5
    face = faces[f]
    ax, ay = offset(vertices[face[0]], intrinsics, 0, px, py, 1)
    bx, by = offset(vertices[face[1]], intrinsics, 0, px, py, 1)
    cx, cy = offset(vertices[face[2]], intrinsics, 0, px, py, 1)
    a, b, c, _sign = areas(ax, ay, bx, by, cx, cy)
    total = a + b + c
    weights = wp.vec3(1.0, 0.0, 0.0)
    if total > 0.0:
        v = b / total
        w = c / total
        weights = wp.vec3(wp.max(1.0 - v - w, 0.0), v, w)
    barycentric[pixel] = weights


def _intrinsics(camera: Camera, device: str) -> wp.array:
    matrix = [camera.fx, 0, camera.cx, 0, camera.fy, camera.cy, 0, 0, 1]
    return wp.array(np.array(matrix, np.float32), dtype=float, device=device)


def near_plane(extent: float) -> float:
    """Depth of the near plane for vertices whose largest coordinate is `extent`."""
    return max(extent, 1e-12) * NEAR_OF_EXTENT


def draw(vertices: wp.array, faces: wp.array, camera: Camera, *, near: float, device: str) -> DeviceFragments:
    """Rasterize arrays that are on the device already; see `rasterize`.

    Args:
        vertices: wp.array(vec3) in camera coordinates.
        faces: wp.array(vec3i).
        camera: A pinhole camera.
        near: Depth of the near plane; parts of faces before it are cut off.
        device: Where the arrays are.
    """
    view = make_view(camera.width, camera.height, near)
    count = len(vertices)
    points = wp.empty(count, dtype=wp.vec3d, device=device)
    snapped = wp.empty(count, dtype=wp.vec3i, device=device)
    faults = wp.zeros(2, dtype=int, device=device)
    drawing = Drawing(view, 1, snapped, points, count, faces, len(faces), faults)
    keys = wp.zeros(drawing.pixels, dtype=wp.uint64, device=device)
    if drawing.items and count:
        inputs = [view, vertices, count, _intrinsics(camera, device)]
        launch_chunked(PROJECT[wp.float32], count, inputs, outputs=[points, snapped, faults], device=device)
        nothing = wp.empty(0, dtype=wp.uint64, device=device)
        if device == "cpu":
            draw_on_cpu(drawing, nothing, keys)
        else:
            draw_on_gpu(drawing, nothing, keys, device)
    face_of = wp.empty(drawing.pixels, dtype=int, device=device)
    inverse_depth = wp.empty(drawing.pixels, dtype=float, device=device)
    launch_chunked(_unpack, drawing.pixels, [keys], outputs=[face_of, inverse_depth], device=device)
    return DeviceFragments(face_of, inverse_depth)


def locate(fragments: DeviceFragments, vertices: wp.array, faces: wp.array, camera: Camera, *, device: str) -> wp.array:
    """Barycentric coordinates, wp.array(vec3), one a pixel, of what `draw` found, pushed into the face."""
    pixels = camera.width * camera.height
    barycentric = wp.empty(pixels, dtype=wp.vec3, device=device)
    inputs = [camera.width, _intrinsics(camera, device), vertices, faces, fragments.face]
    launch_chunked(_locate, pixels, inputs, outputs=[barycentric], device=device)
    return barycentric


def rasterize(
    vertices_in_camera: Float[np.ndarray, "V 3"],
    faces: Int32[np.ndarray, "F 3"],
    camera: Camera,
    *,
    device: str,
    near: float | None = None,
) -> Fragments:
    """Find the nearest face at every pixel's centre. Both sides of a face are seen.

    Args:
        vertices_in_camera: Positions in camera coordinates (x right, y down, z forward).
        faces: Indices into the vertices.
        camera: A pinhole camera; the first pixel's centre is (0.5, 0.5).
        device: A Warp device.
        near: Depth of the near plane; faces that cross it are cut. Left out: a 5000th of the largest coordinate.

    Raises:
        ValueError: The camera has distortion.
    """
    if camera.model != "pinhole":
        raise ValueError(f"rasterize needs a pinhole camera, this one is {camera.model}; undistort the image first")
    shape = (camera.height, camera.width)
    extent = float(np.abs(vertices_in_camera).max()) if len(vertices_in_camera) else 1.0
    points = wp.array(np.ascontiguousarray(vertices_in_camera, np.float32), dtype=wp.vec3, device=device)
    corners = wp.array(np.ascontiguousarray(faces, np.int32), dtype=wp.vec3i, device=device)
    found = draw(points, corners, camera, near=near_plane(extent) if near is None else near, device=device)
    weights = locate(found, points, corners, camera, device=device).numpy().reshape(*shape, 3)
    inverse = found.inverse_depth.numpy().reshape(shape)
    depth = np.divide(1.0, inverse, out=np.zeros(shape, np.float32), where=inverse > 0)
    return Fragments(found.face.numpy().reshape(shape), depth, weights)
