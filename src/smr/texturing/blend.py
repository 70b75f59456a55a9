"""Painting: each photo adds what it contributes to the texels of the faces that it was chosen for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, no_type_check

import numpy as np
import warp as wp
from jaxtyping import Float, Int, Int32

from ..arrays import launch_chunked
from ..records import Camera
from ..render.rasterize import draw
from .fill import nearest_known, steps_between
from .slots import Slots, exposed
from .support import Support
from .views import BLEND, Choice, find_slot
from .visibility import EDGE_MARGIN, LEAST_MARGIN, MIN_COSINE, Seen, ShotView, clearance_at

OPEN: Any = wp.constant(1e-3)
"""Texels with less weight than this are open: the second round paints them with what else saw them."""

REACH: Any = wp.constant(8.0)
"""Texels over which the step from painted to filled ones is smoothed."""


@dataclass(frozen=True)
class Canvas:
    """The texture while it is painted, on the device."""

    size: int
    owner: Any
    """wp.array(int32), row by row from the top: the support face that a texel belongs to, -1 for none."""
    painted: Any
    """wp.array(vec4): weighted sum of colours, and of weights."""
    corners: Any
    """wp.array(vec2), three a support face: texture coordinates in texels, y down."""
    points: Any
    """wp.array(vec3): support vertices."""
    faces: Any
    """wp.array(vec3i): support faces."""
    texel: float
    """Size of a texel on the surface, metres."""


def make_canvas(support: Support, size: int, texel: float, points: Any, *, device: str) -> Canvas:
    """Find the face of each texel. A face too small to own one gets the one at its centre, if it is free."""
    corners = support.face_uvs.astype(np.float32) * np.array([size, -size], np.float32) + np.array(
        [0, size], np.float32
    )
    flat = np.concatenate([corners.reshape(-1, 2), np.ones((3 * len(corners), 1), np.float32)], axis=1)
    order = np.arange(3 * len(corners), dtype=np.int32).reshape(-1, 3)
    vertices = wp.array(flat, dtype=wp.vec3, device=device)
    triangles = wp.array(order, dtype=wp.vec3i, device=device)
    owner = draw(vertices, triangles, Camera(size, size, 1.0, 1.0, 0.0, 0.0), near=0.5, device=device).face
    owner = wp.array(_give_small_faces_a_texel(owner.numpy(), corners, size), dtype=int, device=device)
    return Canvas(
        size,
        owner,
        wp.zeros(size * size, dtype=wp.vec4, device=device),
        wp.array(corners.reshape(-1, 2), dtype=wp.vec2, device=device),
        points,
        wp.array(support.faces, dtype=wp.vec3i, device=device),
        texel,
    )


def _give_small_faces_a_texel(
    owner: Int32[np.ndarray, " N"], corners: Float[np.ndarray, "F 3 2"], size: int
) -> Int32[np.ndarray, " N"]:
    has = np.zeros(len(corners) + 1, bool)
    has[owner] = True  # -1 marks the last entry
    small = np.nonzero(~has[:-1])[0]
    if len(small):
        centre = np.clip(corners[small].mean(1), 0, size - 1).astype(np.int64)
        texel, first = np.unique(centre[:, 1] * size + centre[:, 0], return_index=True)
        free = owner[texel] < 0
        owner[texel[free]] = small[first[free]]
    return owner


@wp.func
@no_type_check
def texel_weights(corners: wp.array(dtype=wp.vec2), face: int, x: float, y: float):
    """Barycentric coordinates of a place in the texture, pushed into the face."""
    a = corners[3 * face]
    b = corners[3 * face + 1] - a
    c = corners[3 * face + 2] - a
    p = wp.vec2(x, y) - a
    area = b[0] * c[1] - b[1] * c[0]
    if area == 0.0:
        return wp.vec3(1.0, 1.0, 1.0) / 3.0
    v = (p[0] * c[1] - p[1] * c[0]) / area
    w = (b[0] * p[1] - b[1] * p[0]) / area
    v = wp.clamp(v, 0.0, 1.0)
    w = wp.clamp(w, 0.0, 1.0 - v)
    return wp.vec3(1.0 - v - w, v, w)


@wp.func
@no_type_check
def _pixel(pixels: wp.array(dtype=wp.uint8), k: int):
    return wp.vec3(float(pixels[3 * k]), float(pixels[3 * k + 1]), float(pixels[3 * k + 2]))


@wp.func
@no_type_check
def _cubic(t: float):
    t2 = t * t
    t3 = t2 * t
    return wp.vec4(
        -0.5 * t3 + t2 - 0.5 * t, 1.5 * t3 - 2.5 * t2 + 1.0, -1.5 * t3 + 2.0 * t2 + 0.5 * t, 0.5 * t3 - 0.5 * t2
    )


@wp.func
@no_type_check
def sample_photo(pixels: wp.array(dtype=wp.uint8), width: int, height: int, x: float, y: float):
    """Cubic (Catmull and Rom 1974), which keeps the sharpness that a linear one would lose."""
    fx = wp.clamp(x - 0.5, 1.0, float(width) - 2.001)
    fy = wp.clamp(y - 0.5, 1.0, float(height) - 2.001)
    i = int(fx)
    j = int(fy)
    along = _cubic(fx - float(i))
    down = _cubic(fy - float(j))
    sum = wp.vec3(0.0, 0.0, 0.0)
    for n in range(4):
        k = (j - 1 + n) * width + i
        sum += down[n] * (
            along[0] * _pixel(pixels, k - 1)
            + along[1] * _pixel(pixels, k)
            + along[2] * _pixel(pixels, k + 1)
            + along[3] * _pixel(pixels, k + 2)
        )
    return sum


@wp.func
@no_type_check
def _texel_color(
    view: ShotView,
    pixels: wp.array(dtype=wp.uint8),
    corners: wp.array(dtype=wp.vec2),
    face: int,
    a: wp.vec3,
    b: wp.vec3,
    c: wp.vec3,
    x: int,
    y: int,
    samples: int,
    place: wp.vec3,
):
    """What the photo shows of a texel: at its centre, or on average where the texel covers several pixels."""
    if samples == 1:
        return sample_photo(pixels, view.width, view.height, place[0], place[1])
    step = 1.0 / float(samples)
    color = wp.vec3(0.0, 0.0, 0.0)
    for n in range(samples * samples):
        at_x = float(x) + (float(n % samples) + 0.5) * step
        at_y = float(y) + (float(n / samples) + 0.5) * step
        at = texel_weights(corners, face, at_x, at_y)
        p = wp.transform_point(view.camera_from_world, at[0] * a + at[1] * b + at[2] * c)
        u = view.fx * p[0] / p[2] + view.cx
        v = view.fy * p[1] / p[2] + view.cy
        color += sample_photo(pixels, view.width, view.height, u, v)
    return color * step * step


@wp.kernel(enable_backward=False)
@no_type_check
def _paint(
    base: int,
    listed: wp.array(dtype=int),
    first: int,
    size: int,
    texel: float,
    second_round: int,
    name: int,
    view: ShotView,
    gain: wp.vec3,
    pixels: wp.array(dtype=wp.uint8),
    inverse_depth: wp.array(dtype=float),
    clearance: wp.array(dtype=wp.uint8),
    points: wp.array(dtype=wp.vec3),
    faces: wp.array(dtype=wp.vec3i),
    corners: wp.array(dtype=wp.vec2),
    owner: wp.array(dtype=int),
    slots: int,
    slot_view: wp.array(dtype=int),
    slot_score: wp.array(dtype=float),
    agrees: wp.array(dtype=wp.uint8),
    correction: wp.array(dtype=wp.vec3),
    chosen: wp.array(dtype=int),
    weight: wp.array(dtype=float),
    painted: wp.array(dtype=wp.vec4),
):
    face = listed[first + base + wp.tid()]
    tri = faces[face]
    a = points[tri[0]]
    b = points[tri[1]]
    c = points[tri[2]]
    normal = wp.cross(b - a, c - a)
    middle = (a + b + c) / 3.0
    to_camera = view.centre - middle
    distance = wp.length(to_camera)
    if wp.dot(normal, to_camera) <= MIN_COSINE * wp.length(normal) * distance:
        return
    # the view's weight and correction at the corners; where a corner has not seen it, the others' mean correction
    weights = wp.vec3(0.0, 0.0, 0.0)
    shift = wp.mat33(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    mean = wp.vec3(0.0, 0.0, 0.0)
    known = wp.vec3(0.0, 0.0, 0.0)
    for k in range(3):
        slot = find_slot(slots, slot_view, agrees, tri[k], name)
        if slot >= 0:
            known[k] = 1.0
            shift[k] = correction[slot]
            mean += correction[slot]
            if second_round == 1:
                weights[k] = slot_score[slot]
        if second_round == 0:
            for m in range(BLEND):
                if chosen[tri[k] * BLEND + m] == name:
                    weights[k] = weight[tri[k] * BLEND + m]
    count = known[0] + known[1] + known[2]
    if count == 0.0 or weights[0] + weights[1] + weights[2] <= 0.0:
        return
    for k in range(3):
        if known[k] == 0.0:
            shift[k] = mean / count
    scale = wp.float32(1.0)
    margin = wp.float32(EDGE_MARGIN)
    if second_round == 1:
        scale = 1e-6
        margin = wp.float32(LEAST_MARGIN)
    samples = wp.clamp(int(wp.round(view.fx / distance * texel)), 1, 4)
    p0 = corners[3 * face]
    p1 = corners[3 * face + 1]
    p2 = corners[3 * face + 2]
    left = wp.clamp(int(wp.min(p0[0], wp.min(p1[0], p2[0]))), 0, size - 1)
    right = wp.clamp(int(wp.max(p0[0], wp.max(p1[0], p2[0]))), 0, size - 1)
    top = wp.clamp(int(wp.min(p0[1], wp.min(p1[1], p2[1]))), 0, size - 1)
    bottom = wp.clamp(int(wp.max(p0[1], wp.max(p1[1], p2[1]))), 0, size - 1)
    for y in range(top, bottom + 1):
        for x in range(left, right + 1):
            i = y * size + x
            if owner[i] == face and (second_round == 0 or painted[i][3] < OPEN):
                at = texel_weights(corners, face, float(x) + 0.5, float(y) + 0.5)
                w = wp.dot(at, weights) * scale
                place = clearance_at(view, inverse_depth, clearance, at[0] * a + at[1] * b + at[2] * c)
                if w > 0.0 and place[2] > margin:
                    color = _texel_color(view, pixels, corners, face, a, b, c, x, y, samples, place)
                    color = exposed(gain, color) + at[0] * shift[0] + at[1] * shift[1] + at[2] * shift[2]
                    painted[i] = painted[i] + wp.vec4(w * color[0], w * color[1], w * color[2], w)


@wp.kernel(enable_backward=False)
@no_type_check
def _mark_painted(base: int, size: int, painted: wp.array(dtype=wp.vec4), known: wp.array(dtype=wp.uint8)):
    y = base + wp.tid()
    for x in range(size):
        known[y * size + x] = wp.uint8(int(painted[y * size + x][3] > 0.0))


@wp.func
@no_type_check
def _vertex_colors_at(
    corners: wp.array(dtype=wp.vec2),
    faces: wp.array(dtype=wp.vec3i),
    colors: wp.array(dtype=wp.vec3),
    face: int,
    x: int,
    y: int,
):
    at = texel_weights(corners, face, float(x) + 0.5, float(y) + 0.5)
    tri = faces[face]
    return at[0] * colors[tri[0]] + at[1] * colors[tri[1]] + at[2] * colors[tri[2]]


@wp.kernel(enable_backward=False)
@no_type_check
def _finish(
    base: int,
    size: int,
    owner: wp.array(dtype=int),
    painted: wp.array(dtype=wp.vec4),
    nearest: wp.array(dtype=int),
    corners: wp.array(dtype=wp.vec2),
    faces: wp.array(dtype=wp.vec3i),
    vertex_color: wp.array(dtype=wp.vec3),
    image: wp.array(dtype=wp.uint8),
):
    y = base + wp.tid()
    for x in range(size):
        i = y * size + x
        color = wp.vec3(0.0, 0.0, 0.0)
        if owner[i] >= 0:
            sum = painted[i]
            if sum[3] > 0.0:
                color = wp.vec3(sum[0], sum[1], sum[2]) / sum[3]
            else:
                color = _vertex_colors_at(corners, faces, vertex_color, owner[i], x, y)
                seed = nearest[i]
                if seed >= 0:
                    near = 1.0 - float(steps_between(seed, x, y, size)) / REACH
                    if near > 0.0:
                        sum = painted[seed]
                        there = _vertex_colors_at(corners, faces, vertex_color, owner[seed], seed % size, seed / size)
                        color += near * (wp.vec3(sum[0], sum[1], sum[2]) / sum[3] - there)
        for k in range(3):
            image[3 * i + k] = wp.uint8(wp.clamp(wp.round(color[k]), 0.0, 255.0))


@dataclass(frozen=True)
class Jobs:
    """Which faces each photo paints: the faces of photo i are listed[start[i] : start[i + 1]]."""

    start: Int[np.ndarray, " views_and_1"]
    listed: Int32[np.ndarray, " N"]

    def photos(self) -> list[int]:
        """Photos that paint something."""
        return np.nonzero(np.diff(self.start))[0].tolist()


def list_jobs(
    faces: Int32[np.ndarray, "F 3"], vertex_views: Int32[np.ndarray, "V M"], views: int, which: Int[np.ndarray, " f"]
) -> Jobs:
    """Faces `which`, listed under every photo that one of their corners names (-1: none)."""
    names = vertex_views[faces[which]].reshape(len(which), -1).astype(np.int64)
    face = np.broadcast_to(which[:, None], names.shape)
    used = names >= 0
    keys = np.unique(names[used] * len(faces) + face[used])
    start = np.searchsorted(keys, np.arange(views + 1) * len(faces))
    return Jobs(start, (keys % max(1, len(faces))).astype(np.int32))


def paint(
    canvas: Canvas,
    seen: Seen,
    name: int,
    gain: Float[np.ndarray, "3"],
    jobs: Jobs,
    listed: Any,
    slots: Slots,
    choice: Choice,
    *,
    second_round: bool,
    device: str,
) -> None:
    """Add photo `name` to the canvas; `listed` is `jobs.listed` on the device."""
    inputs = [listed, int(jobs.start[name]), canvas.size, canvas.texel, int(second_round), name, seen.view]
    inputs += [wp.vec3(*gain.tolist()), seen.pixels, seen.inverse_depth, seen.clearance]
    inputs += [canvas.points, canvas.faces, canvas.corners, canvas.owner]
    inputs += [slots.count, slots.view, slots.score, choice.agrees, choice.correction, choice.view, choice.weight]
    count = int(jobs.start[name + 1] - jobs.start[name])
    launch_chunked(_paint, count, inputs, outputs=[canvas.painted], device=device)


def finish(canvas: Canvas, vertex_colors: Float[np.ndarray, "V 3"], *, device: str) -> Any:
    """Divide by the weights. A wp.array(uint8), three a texel.

    Open texels take the colours of the vertices, and near painted texels also what these differ by from theirs.
    """
    size = canvas.size
    known = wp.empty(size * size, dtype=wp.uint8, device=device)
    launch_chunked(_mark_painted, size, [size, canvas.painted], outputs=[known], device=device)
    nearest = nearest_known(known, size, device=device)
    image = wp.empty(size * size * 3, dtype=wp.uint8, device=device)
    colors = wp.array(vertex_colors.astype(np.float32), dtype=wp.vec3, device=device)
    inputs = [size, canvas.owner, canvas.painted, nearest, canvas.corners, canvas.faces, colors]
    launch_chunked(_finish, size, inputs, outputs=[image], device=device)
    return image
