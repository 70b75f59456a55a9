"""A z-buffer rasterizer: which face each pixel's centre sees, at which depth, where in the face.

Edges are exact: corners are snapped to 1/256 of a pixel and edge functions are integers, with the top-left rule
(Pineda 1988), so that faces which share an edge leave no crack and cover no pixel twice. On the CPU the faces are
sorted into bands of rows and each thread owns a band; on a GPU a thread draws a piece of a face with a 64-bit atomic
maximum over (1 / depth, face). Of two faces at the same depth the one of lower index is seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, no_type_check

import numpy as np
import warp as wp
from jaxtyping import Float, Float32, Int32

from ..arrays import launch_chunked
from ..records import Camera
from .triangles import SUBPIXELS, View, edge, owned, triangle

NEAR_OF_EXTENT = 2e-4
"""Default near plane: this part of the largest coordinate."""

_MAX_SNAPPED = 2**30
_BAND_ROWS = 16


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


@wp.kernel(enable_backward=False)
@no_type_check
def _find_rows(
    base: int,
    view: View,
    vertices: wp.array(dtype=wp.vec3),
    faces: wp.array(dtype=wp.vec3i),
    unit: int,
    rows: wp.array(dtype=wp.vec2i),
):
    slot = base + wp.tid()
    t = triangle(view, vertices, faces, slot)
    if t.area == wp.int64(0):
        rows[slot] = wp.vec2i(0, -1)
    else:
        rows[slot] = wp.vec2i(t.top / unit, t.bottom / unit)


@wp.kernel(enable_backward=False)
@no_type_check
def _sort_into_bands(rows: wp.array(dtype=wp.vec2i), start: wp.array(dtype=int), fill: int, slots: wp.array(dtype=int)):
    """Sequential. First call (fill 0) counts into `start`; the second spreads the slots and moves `start` along."""
    for slot in range(rows.shape[0]):
        span = rows[slot]
        for band in range(span[0], span[1] + 1):
            if fill == 1:
                slots[start[band]] = slot
            start[band] = start[band] + 1


@wp.kernel(enable_backward=False)
@no_type_check
def _draw_bands(
    base: int,
    view: View,
    vertices: wp.array(dtype=wp.vec3),
    faces: wp.array(dtype=wp.vec3i),
    end: wp.array(dtype=int),
    slots: wp.array(dtype=int),
    band_rows: int,
    face_of: wp.array(dtype=int),
    inverse_depth: wp.array(dtype=float),
):
    band = base + wp.tid()
    first_row = band * band_rows
    last_row = wp.min(first_row + band_rows, view.height) - 1
    begin = wp.int32(0)
    if band > 0:
        begin = end[band - 1]
    sub = wp.int64(SUBPIXELS)
    zero = wp.int64(0)
    for i in range(begin, end[band]):
        slot = slots[i]
        t = triangle(view, vertices, faces, slot)
        scale = 1.0 / float(t.area)
        bias0 = owned(t.x2 - t.x1, t.y2 - t.y1)
        bias1 = owned(t.x0 - t.x2, t.y0 - t.y2)
        bias2 = owned(t.x1 - t.x0, t.y1 - t.y0)
        px = wp.int64(t.left) * sub + sub / wp.int64(2)
        for row in range(wp.max(t.top, first_row), wp.min(t.bottom, last_row) + 1):
            py = wp.int64(row) * sub + sub / wp.int64(2)
            e0 = edge(t.x1, t.y1, t.x2, t.y2, px, py)
            e1 = edge(t.x2, t.y2, t.x0, t.y0, px, py)
            e2 = edge(t.x0, t.y0, t.x1, t.y1, px, py)
            for column in range(t.left, t.right + 1):
                if e0 + bias0 >= zero and e1 + bias1 >= zero and e2 + bias2 >= zero:
                    w = (float(e0) * t.w0 + float(e1) * t.w1 + float(e2) * t.w2) * scale
                    pixel = row * view.width + column
                    old = inverse_depth[pixel]
                    if w > old or (w == old and (slot >> 1) < face_of[pixel]):
                        inverse_depth[pixel] = w
                        face_of[pixel] = slot >> 1
                e0 -= (t.y2 - t.y1) * sub
                e1 -= (t.y0 - t.y2) * sub
                e2 -= (t.y1 - t.y0) * sub


@wp.kernel(enable_backward=False)
@no_type_check
def _draw_pieces(
    view: View,
    vertices: wp.array(dtype=wp.vec3),
    faces: wp.array(dtype=wp.vec3i),
    end: wp.array(dtype=int),
    piece_rows: int,
    keys: wp.array(dtype=wp.uint64),
):
    """A thread draws the rows of one face that fall into one band."""
    piece = wp.tid()
    low = wp.int32(0)
    high = end.shape[0] - 1
    while low < high:
        middle = (low + high) / 2
        if end[middle] > piece:
            high = middle
        else:
            low = middle + 1
    slot = low
    t = triangle(view, vertices, faces, slot)
    band = t.top / piece_rows + piece
    if slot > 0:
        band -= end[slot - 1]
    scale = 1.0 / float(t.area)
    sub = wp.int64(SUBPIXELS)
    zero = wp.int64(0)
    bias0 = owned(t.x2 - t.x1, t.y2 - t.y1)
    bias1 = owned(t.x0 - t.x2, t.y0 - t.y2)
    bias2 = owned(t.x1 - t.x0, t.y1 - t.y0)
    px = wp.int64(t.left) * sub + sub / wp.int64(2)
    for row in range(wp.max(t.top, band * piece_rows), wp.min(t.bottom, band * piece_rows + piece_rows - 1) + 1):
        py = wp.int64(row) * sub + sub / wp.int64(2)
        e0 = edge(t.x1, t.y1, t.x2, t.y2, px, py)
        e1 = edge(t.x2, t.y2, t.x0, t.y0, px, py)
        e2 = edge(t.x0, t.y0, t.x1, t.y1, px, py)
        for column in range(t.left, t.right + 1):
            if e0 + bias0 >= zero and e1 + bias1 >= zero and e2 + bias2 >= zero:
                w = (float(e0) * t.w0 + float(e1) * t.w1 + float(e2) * t.w2) * scale
                # positive floats compare like their bits; the lower face wins where they are equal
                depth_key = wp.uint64(wp.cast(w, wp.uint32)) << wp.uint64(32)
                face_key = wp.uint64(0xFFFFFFFF) - wp.uint64(slot >> 1)
                wp.atomic_max(keys, row * view.width + column, depth_key | face_key)
            e0 -= (t.y2 - t.y1) * sub
            e1 -= (t.y0 - t.y2) * sub
            e2 -= (t.y1 - t.y0) * sub


@wp.kernel(enable_backward=False)
@no_type_check
def _count_pieces(rows: wp.array(dtype=wp.vec2i), count: wp.array(dtype=int)):
    slot = wp.tid()
    count[slot] = rows[slot][1] - rows[slot][0] + 1


@wp.kernel(enable_backward=False)
@no_type_check
def _unpack(keys: wp.array(dtype=wp.uint64), face_of: wp.array(dtype=int), inverse_depth: wp.array(dtype=float)):
    pixel = wp.tid()
    key = keys[pixel]
    face_of[pixel] = -1
    inverse_depth[pixel] = 0.0
    if key != wp.uint64(0):
        inverse_depth[pixel] = wp.cast(wp.uint32(key >> wp.uint64(32)), wp.float32)
        face_of[pixel] = int(wp.uint64(0xFFFFFFFF) - (key & wp.uint64(0xFFFFFFFF)))


@wp.kernel(enable_backward=False)
@no_type_check
def _locate(
    base: int,
    view: View,
    vertices: wp.array(dtype=wp.vec3),
    faces: wp.array(dtype=wp.vec3i),
    face_of: wp.array(dtype=int),
    barycentric: wp.array(dtype=wp.vec3),
):
    """Where the ray of a pixel meets its face (Moller and Trumbore 1997), pushed into the face."""
    pixel = base + wp.tid()
    f = face_of[pixel]
    if f < 0:
        barycentric[pixel] = wp.vec3(0.0, 0.0, 0.0)
        return
    ray = wp.vec3(
        (float(pixel % view.width) + 0.5 - view.cx) / view.fx,
        (float(pixel / view.width) + 0.5 - view.cy) / view.fy,
        1.0,
    )
    face = faces[f]
    origin = vertices[face[0]]
    p = vertices[face[1]] - origin
    q = vertices[face[2]] - origin
    across = wp.cross(ray, q)
    volume = wp.dot(p, across)
    u = wp.float32(0.0)
    v = wp.float32(0.0)
    if volume != 0.0:
        u = wp.clamp(-wp.dot(origin, across) / volume, 0.0, 1.0)
        v = wp.clamp(wp.dot(ray, wp.cross(-origin, p)) / volume, 0.0, 1.0 - u)
    barycentric[pixel] = wp.vec3(1.0 - u - v, u, v)


def _view(camera: Camera, near: float) -> Any:
    view = View()
    view.width, view.height = camera.width, camera.height
    view.fx, view.fy, view.cx, view.cy = camera.fx, camera.fy, camera.cx, camera.cy
    view.near = near
    return view


def near_plane(extent: float, camera: Camera) -> float:
    """Depth of the near plane for vertices whose largest coordinate is `extent`; snapped corners then fit 31 bits."""
    return max(extent, 1e-12) * max(NEAR_OF_EXTENT, 257.0 * max(camera.fx, camera.fy) / _MAX_SNAPPED)


def draw(vertices: wp.array, faces: wp.array, camera: Camera, *, near: float, device: str) -> DeviceFragments:
    """Rasterize arrays that are on the device already; see `rasterize`.

    Args:
        vertices: wp.array(vec3) in camera coordinates.
        faces: wp.array(vec3i).
        camera: A pinhole camera.
        near: Depth of the near plane; parts of faces before it are cut off.
        device: Where the arrays are.
    """
    view = _view(camera, near)
    pixels, slots = camera.width * camera.height, 2 * len(faces)
    face_of = wp.full(pixels, -1, dtype=int, device=device)
    inverse_depth = wp.zeros(pixels, dtype=float, device=device)
    result = DeviceFragments(face_of, inverse_depth)
    if slots == 0 or pixels == 0:
        return result
    unit = _BAND_ROWS
    rows = wp.empty(slots, dtype=wp.vec2i, device=device)
    launch_chunked(_find_rows, slots, [view, vertices, faces, unit], outputs=[rows], device=device)
    if device == "cpu":
        bands = -(-camera.height // unit)
        start = wp.zeros(bands, dtype=int, device=device)
        order = wp.zeros(1, dtype=int, device=device)
        wp.launch(_sort_into_bands, 1, [rows, start, 0], [order], device=device)
        counts = start.numpy()
        order = wp.empty(max(1, int(counts.sum())), dtype=int, device=device)
        counts[:] = np.cumsum(counts) - counts
        wp.launch(_sort_into_bands, 1, [rows, start, 1], [order], device=device)
        inputs = [view, vertices, faces, start, order, unit]
        launch_chunked(_draw_bands, bands, inputs, outputs=[face_of, inverse_depth], device=device, chunks=bands)
        return result
    end = wp.empty(slots, dtype=int, device=device)
    wp.launch(_count_pieces, slots, [rows], [end], device=device)
    wp.utils.array_scan(end, end, inclusive=True)
    pieces = int(end[slots - 1 : slots].numpy()[0])  # the host waits here for the size of the next launch
    keys = wp.zeros(pixels, dtype=wp.uint64, device=device)
    wp.launch(_draw_pieces, pieces, [view, vertices, faces, end, unit], [keys], device=device)
    wp.launch(_unpack, pixels, [keys], [face_of, inverse_depth], device=device)
    return result


def locate(fragments: DeviceFragments, vertices: wp.array, faces: wp.array, camera: Camera, *, device: str) -> wp.array:
    """Barycentric coordinates, wp.array(vec3), one a pixel, of what `draw` found."""
    pixels = camera.width * camera.height
    barycentric = wp.empty(pixels, dtype=wp.vec3, device=device)
    inputs = [_view(camera, 0.0), vertices, faces, fragments.face]
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
    found = draw(points, corners, camera, near=near_plane(extent, camera) if near is None else near, device=device)
    weights = locate(found, points, corners, camera, device=device).numpy().reshape(*shape, 3)
    inverse = found.inverse_depth.numpy().reshape(shape)
    depth = np.divide(1.0, inverse, out=np.zeros(shape, np.float32), where=inverse > 0)
    return Fragments(found.face.numpy().reshape(shape), depth, weights)
