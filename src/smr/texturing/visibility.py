"""What one photo shows of the surface: rasterized depth, distance to depth edges, colours at support vertices."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, no_type_check

import numpy as np
import warp as wp
from jaxtyping import Bool, Float, Int32, UInt8

from ..arrays import launch_chunked
from ..records import Camera
from ..render.rasterize import draw, near_plane
from .slots import Slots, clipped

EDGE_MARGIN: Any = wp.constant(3.0)
"""Pixels of the depth map this near to a depth edge paint only what no photo shows better."""
LEAST_MARGIN: Any = wp.constant(2.0)
"""Pixels this near are never used."""
BORDER_MARGIN = 2.0
"""Pixels of the photo this near to its border are not used."""
_DEPTH_PIXELS = 1_500_000
_CREASE = 5.0
_DEPTH_BIAS = 0.006
MIN_COSINE: Any = wp.constant(0.1)
"""Surfaces seen at a flatter angle are not used."""
_LEVELS = 8


class _ShotFields:
    """One photo's camera and the sizes of its images."""

    camera_from_world: wp.mat44
    centre: wp.vec3
    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float
    depth_width: int
    depth_height: int
    margin: float
    depth_bias: float


ShotView: Any = wp.struct(_ShotFields)


@dataclass(frozen=True)
class Seen:
    """A photo on the device, with what it can and cannot see."""

    view: Any
    """ShotView."""
    pixels: Any
    """wp.array(uint8), row by row, three a pixel."""
    inverse_depth: Any
    """wp.array(float32) of the depth map."""
    clearance: Any
    """wp.array(uint8): steps (L1) from a pixel of the depth map to the nearest depth edge or masked pixel."""


@wp.kernel(enable_backward=False)
@no_type_check
def _mark_rows(
    base: int,
    width: int,
    height: int,
    inverse: wp.array(dtype=float),
    mask: wp.array(dtype=wp.uint8),
    tolerance: float,
    clearance: wp.array(dtype=wp.uint8),
):
    """Depth edges of a row, and each pixel's distance to the nearest one in its row.

    On a plane 1 / depth is linear in the image, so its second difference finds steps and spares slopes.
    """
    y = base + wp.tid()
    row = y * width
    run = wp.int32(255)
    for x in range(width):
        i = row + x
        w = inverse[i]
        bound = tolerance * w
        edge = w == 0.0
        if mask.shape[0] > 0:
            edge = edge or mask[i] == wp.uint8(0)
        if x > 0 and x < width - 1:
            edge = edge or wp.abs(inverse[i - 1] - 2.0 * w + inverse[i + 1]) > bound
        if y > 0 and y < height - 1:
            edge = edge or wp.abs(inverse[i - width] - 2.0 * w + inverse[i + width]) > bound
        run = wp.min(run + 1, 255)
        if edge:
            run = wp.int32(0)
        clearance[i] = wp.uint8(run)
    run = wp.int32(255)
    for k in range(width):
        i = row + width - 1 - k
        run = wp.min(run + 1, int(clearance[i]))
        clearance[i] = wp.uint8(run)


@wp.kernel(enable_backward=False)
@no_type_check
def _clear_columns(base: int, width: int, height: int, clearance: wp.array(dtype=wp.uint8)):
    x = base + wp.tid()
    run = wp.int32(255)
    for y in range(height):
        run = wp.min(run + 1, int(clearance[y * width + x]))
        clearance[y * width + x] = wp.uint8(run)
    run = wp.int32(255)
    for k in range(height):
        i = (height - 1 - k) * width + x
        run = wp.min(run + 1, int(clearance[i]))
        clearance[i] = wp.uint8(run)


@wp.kernel(enable_backward=False)
@no_type_check
def _to_camera(base: int, matrix: wp.mat44, points: wp.array(dtype=wp.vec3), moved: wp.array(dtype=wp.vec3)):
    i = base + wp.tid()
    moved[i] = wp.transform_point(matrix, points[i])


@wp.kernel(enable_backward=False)
@no_type_check
def _halve_photo(
    base: int, width: int, height: int, pixels: wp.array(dtype=wp.uint8), pyramid: wp.array(dtype=wp.vec3)
):
    y = base + wp.tid()
    half = width / 2
    for x in range(half):
        sum = wp.vec3(0.0, 0.0, 0.0)
        for j in range(2):
            for i in range(2):
                k = ((2 * y + j) * width + 2 * x + i) * 3
                sum += wp.vec3(float(pixels[k]), float(pixels[k + 1]), float(pixels[k + 2]))
        pyramid[y * half + x] = 0.25 * sum


@wp.kernel(enable_backward=False)
@no_type_check
def _halve_level(base: int, width: int, source: int, target: int, pyramid: wp.array(dtype=wp.vec3)):
    y = base + wp.tid()
    half = width / 2
    for x in range(half):
        k = source + 2 * y * width + 2 * x
        pyramid[target + y * half + x] = 0.25 * (
            pyramid[k] + pyramid[k + 1] + pyramid[k + width] + pyramid[k + width + 1]
        )


@wp.kernel(enable_backward=False)
@no_type_check
def _laplacian_rows(base: int, width: int, pyramid: wp.array(dtype=wp.vec3), sums: wp.array(dtype=wp.vec2)):
    """Sum and sum of squares of the Laplacian of a row's grey values."""
    y = base + wp.tid() + 1
    grey = wp.vec3(0.299, 0.587, 0.114)
    total = wp.vec2(0.0, 0.0)
    for x in range(1, width - 1):
        i = y * width + x
        value = wp.dot(
            grey, pyramid[i - 1] + pyramid[i + 1] + pyramid[i - width] + pyramid[i + width] - 4.0 * pyramid[i]
        )
        total += wp.vec2(value, value * value)
    sums[y - 1] = total


@wp.func
@no_type_check
def sample_scalar(image: wp.array(dtype=float), width: int, height: int, x: float, y: float):
    """Bilinear; 0 where one of the four pixels is 0 (has no depth)."""
    fx = wp.clamp(x - 0.5, 0.0, float(width) - 1.001)
    fy = wp.clamp(y - 0.5, 0.0, float(height) - 1.001)
    i = int(fx)
    j = int(fy)
    a = fx - float(i)
    b = fy - float(j)
    k = j * width + i
    v00 = image[k]
    v10 = image[k + 1]
    v01 = image[k + width]
    v11 = image[k + width + 1]
    if v00 == 0.0 or v10 == 0.0 or v01 == 0.0 or v11 == 0.0:
        return wp.float32(0.0)
    return (v00 * (1.0 - a) + v10 * a) * (1.0 - b) + (v01 * (1.0 - a) + v11 * a) * b


@wp.func
@no_type_check
def clearance_at(
    view: ShotView, inverse_depth: wp.array(dtype=float), clearance: wp.array(dtype=wp.uint8), point: wp.vec3
):
    """Image place of a world point and its clearance in pixels, (u, v, clearance); clearance -1: not seen there."""
    hidden = wp.vec3(0.0, 0.0, -1.0)
    p = wp.transform_point(view.camera_from_world, point)
    if not (p[2] > 0.0):
        return hidden
    u = view.fx * p[0] / p[2] + view.cx
    v = view.fy * p[1] / p[2] + view.cy
    border = wp.min(wp.min(u, float(view.width) - u), wp.min(v, float(view.height) - v)) - view.margin
    if not (border >= 0.0):
        return hidden
    scale = float(view.depth_width) / float(view.width)
    x = u * scale
    y = v * float(view.depth_height) / float(view.height)
    w = sample_scalar(inverse_depth, view.depth_width, view.depth_height, x, y)
    if not (w > 0.0) or p[2] * w > 1.0 + view.depth_bias or p[2] * w < 1.0 - 4.0 * view.depth_bias:
        return hidden
    i = wp.min(int(x), view.depth_width - 1)
    j = wp.min(int(y), view.depth_height - 1)
    return wp.vec3(u, v, wp.min(float(clearance[j * view.depth_width + i]), border * scale))


@wp.func
@no_type_check
def _sample_level(pyramid: wp.array(dtype=wp.vec3), offset: int, width: int, height: int, x: float, y: float):
    fx = wp.clamp(x - 0.5, 0.0, float(width) - 1.001)
    fy = wp.clamp(y - 0.5, 0.0, float(height) - 1.001)
    i = int(fx)
    j = int(fy)
    a = fx - float(i)
    b = fy - float(j)
    k = offset + j * width + i
    return (pyramid[k] * (1.0 - a) + pyramid[k + 1] * a) * (1.0 - b) + (
        pyramid[k + width] * (1.0 - a) + pyramid[k + width + 1] * a
    ) * b


@wp.kernel(enable_backward=False)
@no_type_check
def _observe(
    base: int,
    view: ShotView,
    index: int,
    texel: float,
    points: wp.array(dtype=wp.vec3),
    normals: wp.array(dtype=wp.vec3),
    spacing: wp.array(dtype=float),
    inverse_depth: wp.array(dtype=float),
    clearance: wp.array(dtype=wp.uint8),
    pyramid: wp.array(dtype=wp.vec3),
    levels: wp.array(dtype=wp.vec3i),
    slots: int,
    slot_view: wp.array(dtype=int),
    slot_score: wp.array(dtype=float),
    slot_color: wp.array(dtype=wp.vec3),
):
    """Keep this photo's score and colour at a vertex if it is among the best that the vertex has seen."""
    i = base + wp.tid()
    point = points[i]
    place = clearance_at(view, inverse_depth, clearance, point)
    if place[2] <= LEAST_MARGIN:
        return
    to_camera = view.centre - point
    distance = wp.length(to_camera)
    cosine = wp.dot(normals[i], to_camera) / distance
    if cosine < MIN_COSINE:
        return
    density = view.fx / distance  # pixels a metre
    detail = wp.min(1.5, density * texel)
    clear = wp.clamp((place[2] - EDGE_MARGIN) / 8.0, 0.0, 1.0)
    # a mean over about half the distance to the next vertex, and not over what lies beyond a depth edge
    clear_pixels = place[2] * float(view.width) / float(view.depth_width)
    reach = wp.max(1.0, wp.min(spacing[i] * density, 0.5 * clear_pixels))
    level = wp.clamp(int(wp.log2(reach)) - 1, 0, levels.shape[0] - 1)
    size = levels[level]
    shrink = wp.pow(0.5, float(level + 1))
    color = _sample_level(pyramid, size[0], size[1], size[2], place[0] * shrink, place[1] * shrink)
    score = cosine * detail * detail * (0.05 + 0.95 * clear) * (1.0 - 0.9 * clipped(color))
    at = i * slots
    worst = wp.int32(0)
    for k in range(slots):
        if slot_view[at + k] < 0:
            worst = k
            break
        if slot_score[at + k] < slot_score[at + worst]:
            worst = k
    if slot_view[at + worst] >= 0 and slot_score[at + worst] >= score:
        return
    slot_view[at + worst] = index
    slot_score[at + worst] = score
    slot_color[at + worst] = color


def depth_camera(camera: Camera) -> Camera:
    """The camera of the depth map: the photo's, made smaller where the photo is large."""
    shrink = min(1.0, (_DEPTH_PIXELS / (camera.width * camera.height)) ** 0.5)
    width, height = max(2, round(camera.width * shrink)), max(2, round(camera.height * shrink))
    x, y = width / camera.width, height / camera.height
    return Camera(width, height, camera.fx * x, camera.fy * y, camera.cx * x, camera.cy * y)


def look(
    pixels: UInt8[np.ndarray, "h w 3"],
    mask: Bool[np.ndarray, "h w"] | None,
    camera: Camera,
    world_from_camera: Float[np.ndarray, "4 4"],
    vertices: Any,
    faces: Any,
    *,
    device: str,
) -> Seen:
    """Rasterize the mesh (wp arrays, world coordinates) in a photo's camera and find where the photo can be trusted."""
    small = depth_camera(camera)
    camera_from_world = np.linalg.inv(np.asarray(world_from_camera, np.float64))
    matrix = wp.mat44(camera_from_world.astype(np.float32))
    moved = wp.empty_like(vertices)
    launch_chunked(_to_camera, len(vertices), [matrix, vertices], outputs=[moved], device=device)
    extent = 1.0 if not len(vertices) else float(np.abs(moved.numpy()).max())
    inverse = draw(moved, faces, small, near=near_plane(extent), device=device).inverse_depth
    clearance = wp.empty(small.width * small.height, dtype=wp.uint8, device=device)
    allowed = np.zeros(0, np.uint8) if mask is None else _shrink_mask(mask, small)
    allowed_on_device = wp.array(allowed.ravel(), dtype=wp.uint8, device=device)
    inputs = [small.width, small.height, inverse, allowed_on_device, _CREASE / small.fx]
    launch_chunked(_mark_rows, small.height, inputs, outputs=[clearance], device=device)
    launch_chunked(_clear_columns, small.width, [small.width, small.height], outputs=[clearance], device=device)
    view = ShotView()
    view.camera_from_world = matrix
    view.centre = wp.vec3(*np.asarray(world_from_camera, np.float32)[:3, 3].tolist())
    view.width, view.height = camera.width, camera.height
    view.fx, view.fy, view.cx, view.cy = camera.fx, camera.fy, camera.cx, camera.cy
    view.depth_width, view.depth_height = small.width, small.height
    view.margin, view.depth_bias = BORDER_MARGIN, _DEPTH_BIAS
    flat = wp.array(np.ascontiguousarray(pixels).reshape(-1), dtype=wp.uint8, device=device)
    return Seen(view, flat, inverse, clearance)


def _shrink_mask(mask: Bool[np.ndarray, "h w"], small: Camera) -> UInt8[np.ndarray, "H W"]:
    """Nearest pixel; a small masked speck may be lost, a mask's edge moves by less than a pixel of the depth map."""
    rows = ((np.arange(small.height) + 0.5) * mask.shape[0] / small.height).astype(int)
    columns = ((np.arange(small.width) + 0.5) * mask.shape[1] / small.width).astype(int)
    return mask[rows][:, columns].astype(np.uint8)


@dataclass(frozen=True)
class Pyramid:
    """Halved copies of a photo, each the mean of 2×2 pixels of the one before."""

    values: Any
    """wp.array(vec3), levels one after another; grey levels 0 to 255."""
    levels: Any
    """wp.array(vec3i): offset, width and height of each level."""
    sizes: tuple[tuple[int, int, int], ...]
    """The same on the host."""


def build_pyramid(seen: Seen, *, device: str) -> Pyramid:
    """Halve a photo until it is a few pixels wide."""
    sizes: list[tuple[int, int, int]] = []
    offset = 0
    width, height = seen.view.width // 2, seen.view.height // 2
    while len(sizes) < _LEVELS and min(width, height) >= 2:
        sizes.append((offset, width, height))
        offset += width * height
        width, height = width // 2, height // 2
    values = wp.empty(max(1, offset), dtype=wp.vec3, device=device)
    inputs = [seen.view.width, seen.view.height, seen.pixels]
    launch_chunked(_halve_photo, sizes[0][2], inputs, outputs=[values], device=device)
    for (source, wide, _), (target, _, rows) in pairwise(sizes):
        launch_chunked(_halve_level, rows, [wide, source, target], outputs=[values], device=device)
    return Pyramid(values, wp.array(np.array(sizes, np.int32), dtype=wp.vec3i, device=device), tuple(sizes))


def sharpness(pyramid: Pyramid, *, device: str) -> float:
    """Variance of the Laplacian of the halved photo (Pech-Pacheco 2000)."""
    _, width, height = pyramid.sizes[0]
    if height < 3 or width < 3:
        return 0.0
    sums = wp.empty(height - 2, dtype=wp.vec2, device=device)
    launch_chunked(_laplacian_rows, height - 2, [width, pyramid.values], outputs=[sums], device=device)
    total, squares = sums.numpy().astype(np.float64).sum(0) / ((height - 2) * (width - 2))
    return float(squares - total * total)


def observe(
    seen: Seen,
    pyramid: Pyramid,
    index: int,
    slots: Slots,
    points: Any,
    normals: Any,
    spacing: Any,
    texel: float,
    *,
    device: str,
) -> None:
    """Enter what photo `index` sees of each vertex into the slots of the vertex, if it is among the best."""
    inputs = [seen.view, index, texel, points, normals, spacing, seen.inverse_depth, seen.clearance]
    inputs += [pyramid.values, pyramid.levels, slots.count]
    launch_chunked(_observe, len(points), inputs, outputs=[slots.view, slots.score, slots.color], device=device)


@wp.kernel(enable_backward=False)
@no_type_check
def _mark_visible(
    base: int,
    view: ShotView,
    clear: float,
    points: wp.array(dtype=wp.vec3),
    normals: wp.array(dtype=wp.vec3),
    inverse_depth: wp.array(dtype=float),
    clearance: wp.array(dtype=wp.uint8),
    visible: wp.array(dtype=wp.uint8),
):
    i = base + wp.tid()
    to_camera = view.centre - points[i]
    visible[i] = wp.uint8(0)
    facing = wp.dot(normals[i], to_camera) > 2.0 * MIN_COSINE * wp.length(to_camera)
    if facing and clearance_at(view, inverse_depth, clearance, points[i])[2] > clear:
        visible[i] = wp.uint8(1)


def visible_points(seen: Seen, points: Any, normals: Any, *, device: str) -> Int32[np.ndarray, " n"]:
    """Indices of the points that a photo sees well, away from depth edges."""
    visible = wp.empty(len(points), dtype=wp.uint8, device=device)
    inputs = [seen.view, EDGE_MARGIN + 1.0, points, normals, seen.inverse_depth, seen.clearance]
    launch_chunked(_mark_visible, len(points), inputs, outputs=[visible], device=device)
    return np.nonzero(visible.numpy())[0].astype(np.int32)
