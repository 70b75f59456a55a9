"""Features of faces at points of the image, linear in the image; gradients to corners and features, deterministic.

A sample is a point and the face found there. Backward, samples are sorted by face, and chunks of the sorted list are
summed in order: the cost does not depend on how many samples a face has, and no float is added atomically.
"""

from typing import Any, no_type_check

import torch
import warp as wp

from ..tensors import launch, of_type, use_warp
from ._sorting import stable_order
from .screen_triangles import column_centre, edge, row_centre, with_sign

wp.set_module_options({"fuse_fp": False})

_CHUNK: Any = wp.constant(64)


@wp.func
@no_type_check
def _corner(corners: wp.array2d(dtype=Any), face: int, k: int):
    return corners[face, 2 * k], corners[face, 2 * k + 1]


@wp.func
@no_type_check
def _point(points: wp.array2d(dtype=Any), sample: int, per_image: int, hits: int, width: int, height: int, like: Any):
    """Where a sample is: `points` (B P, 2), each with `hits` samples; or the pixels of images where that is empty."""
    place = sample / hits
    if width == 0:
        return points[place, 0], points[place, 1]
    pixel = place % (per_image / hits)
    return column_centre(pixel % width, width, like), row_centre(pixel / width, height, like)


@wp.kernel(enable_backward=False)
@no_type_check
def _interpolate(
    base: int,
    faces: wp.array(dtype=wp.int64),
    points: wp.array2d(dtype=Any),
    corners: wp.array2d(dtype=Any),
    features: wp.array2d(dtype=Any),
    sizes: wp.vec4i,
    count: int,
    eps: Any,
    out: wp.array2d(dtype=Any),
):
    sample = base + wp.tid()
    per_image, hits, width, height = sizes[0], sizes[1], sizes[2], sizes[3]
    if faces[sample] < wp.int64(0):
        for d in range(out.shape[1]):
            out[sample, d] = type(eps)(0.0)
        return
    face = (sample / per_image) * count + int(faces[sample])
    px, py = _point(points, sample, per_image, hits, width, height, eps)
    x0, y0 = _corner(corners, face, 0)
    x1, y1 = _corner(corners, face, 1)
    x2, y2 = _corner(corners, face, 2)
    e0 = edge(x1, y1, x2, y2, px, py)
    e1 = edge(x2, y2, x0, y0, px, py)
    e2 = edge(x0, y0, x1, y1, px, py)
    total = with_sign(e0 + e1 + e2, eps)
    w0 = e0 / total
    w1 = e1 / total
    w2 = e2 / total
    for d in range(out.shape[1]):
        out[sample, d] = w0 * features[3 * face, d] + w1 * features[3 * face + 1, d] + w2 * features[3 * face + 2, d]


@wp.func
@no_type_check
def _sum_run(
    first: int,
    last: int,
    key: int,
    order: wp.array(dtype=int),
    points: wp.array2d(dtype=Any),
    corners: wp.array2d(dtype=Any),
    features: wp.array2d(dtype=Any),
    grad: wp.array2d(dtype=Any),
    sizes: wp.vec4i,
    eps: Any,
    row: int,
    sums: wp.array2d(dtype=Any),
):
    """Gradients of face `key` from samples first..last-1 of the order, into a row of sums: 6 of corners, 3 D others."""
    # one by one: in Warp a tuple of one variable gives several names of it
    gx0 = type(eps)(0.0)
    gy0 = type(eps)(0.0)
    gx1 = type(eps)(0.0)
    gy1 = type(eps)(0.0)
    gx2 = type(eps)(0.0)
    gy2 = type(eps)(0.0)
    x0, y0 = _corner(corners, key, 0)
    x1, y1 = _corner(corners, key, 1)
    x2, y2 = _corner(corners, key, 2)
    for d in range(grad.shape[1]):
        f0 = features[3 * key, d]
        f1 = features[3 * key + 1, d]
        f2 = features[3 * key + 2, d]
        a0 = type(eps)(0.0)
        a1 = type(eps)(0.0)
        a2 = type(eps)(0.0)
        for i in range(first, last):
            sample = order[i]
            px, py = _point(points, sample, sizes[0], sizes[1], sizes[2], sizes[3], eps)
            e0 = edge(x1, y1, x2, y2, px, py)
            e1 = edge(x2, y2, x0, y0, px, py)
            e2 = edge(x0, y0, x1, y1, px, py)
            scale = type(eps)(1.0) / with_sign(e0 + e1 + e2, eps)
            g = grad[sample, d]
            a0 += g * e0 * scale
            a1 += g * e1 * scale
            a2 += g * e2 * scale
            mean = (e0 * f0 + e1 * f1 + e2 * f2) * scale
            q0 = g * (f0 - mean) * scale  # of the edge functions
            q1 = g * (f1 - mean) * scale
            q2 = g * (f2 - mean) * scale
            gx0 += q1 * (py - y2) + q2 * (y1 - py)
            gy0 += q1 * (x2 - px) + q2 * (px - x1)
            gx1 += q2 * (py - y0) + q0 * (y2 - py)
            gy1 += q2 * (x0 - px) + q0 * (px - x2)
            gx2 += q0 * (py - y1) + q1 * (y0 - py)
            gy2 += q0 * (x1 - px) + q1 * (px - x0)
        sums[row, 6 + d] = a0
        sums[row, 6 + grad.shape[1] + d] = a1
        sums[row, 6 + 2 * grad.shape[1] + d] = a2
    sums[row, 0] = gx0
    sums[row, 1] = gy0
    sums[row, 2] = gx1
    sums[row, 3] = gy1
    sums[row, 4] = gx2
    sums[row, 5] = gy2


@wp.kernel(enable_backward=False)
@no_type_check
def _sum_chunks(
    base: int,
    keys: wp.array(dtype=int),
    order: wp.array(dtype=int),
    points: wp.array2d(dtype=Any),
    corners: wp.array2d(dtype=Any),
    features: wp.array2d(dtype=Any),
    grad: wp.array2d(dtype=Any),
    sizes: wp.vec4i,
    eps: Any,
    heads: wp.array2d(dtype=Any),
    sums: wp.array2d(dtype=Any),
):
    """A chunk of the sorted samples: runs that begin in it go to the faces' sums, one that began before to `heads`."""
    chunk = base + wp.tid()
    i = chunk * _CHUNK
    stop = wp.min(i + _CHUNK, keys.shape[0])
    while i < stop:
        key = keys[order[i]]
        if key == corners.shape[0]:  # samples without a face come last
            return
        first = i
        while i < stop and keys[order[i]] == key:
            i += 1
        if first == chunk * _CHUNK and first > 0 and keys[order[first - 1]] == key:
            _sum_run(first, i, key, order, points, corners, features, grad, sizes, eps, chunk, heads)
        else:
            _sum_run(first, i, key, order, points, corners, features, grad, sizes, eps, key, sums)


@wp.kernel(enable_backward=False)
@no_type_check
def _join_chunks(
    base: int,
    keys: wp.array(dtype=int),
    order: wp.array(dtype=int),
    heads: wp.array2d(dtype=Any),
    sums: wp.array2d(dtype=Any),
):
    """One value of a run that goes on beyond the chunk in which it began."""
    item = base + wp.tid()
    chunk = item / sums.shape[1]
    value = item % sums.shape[1]
    after = (chunk + 1) * _CHUNK
    if after >= keys.shape[0]:
        return
    key = keys[order[after]]
    if key == sums.shape[0] or keys[order[after - 1]] != key:
        return
    if chunk > 0 and keys[order[chunk * _CHUNK - 1]] == key:
        return
    low = chunk + 1  # the last chunk whose first sample is of this face
    high = (keys.shape[0] - 1) / _CHUNK
    while low < high:
        middle = (low + high + 1) / 2
        if keys[order[middle * _CHUNK]] == key:
            low = middle
        else:
            high = middle - 1
    total = sums[key, value]
    for other in range(chunk + 1, low + 1):
        total += heads[other, value]
    sums[key, value] = total


class _Interpolate(torch.autograd.Function):
    """Shapes: face_idx (B, P * K); points (B, P, 2) or empty; corners (B F, 6); features (B F 3, D)."""

    @staticmethod
    def forward(
        ctx: Any,
        face_idx: torch.Tensor,
        points: torch.Tensor,
        corners: torch.Tensor,
        features: torch.Tensor,
        sizes: tuple[int, int, int, int],
        count: int,
        eps: float,
    ) -> torch.Tensor:
        samples = face_idx.numel()
        out = corners.new_empty((samples, features.shape[1]))
        inputs = [
            face_idx.contiguous(), points.contiguous(), corners.contiguous(), features.contiguous(),
            wp.vec4i(*sizes), count, eps, out,
        ]  # fmt: skip
        launch(of_type(_interpolate, out.dtype), samples, inputs, like=out)
        ctx.save_for_backward(face_idx, points, corners, features)
        ctx.rest = sizes, count, eps
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        face_idx, points, corners, features = ctx.saved_tensors
        sizes, count, eps = ctx.rest
        samples, depth = face_idx.numel(), features.shape[1]
        offset = torch.arange(len(face_idx), device=face_idx.device)[:, None] * count
        keys = torch.where(face_idx < 0, len(corners), face_idx + offset).to(torch.int32).reshape(-1)
        order = stable_order(keys, len(corners) + 1)
        chunks = -(-samples // int(_CHUNK))
        sums = corners.new_zeros((len(corners), 6 + 3 * depth))
        heads = corners.new_empty((chunks, 6 + 3 * depth))
        data = [t.contiguous() for t in (keys, order, points, corners, features, grad)]
        inputs = [*data, wp.vec4i(*sizes), eps, heads, sums]
        launch(of_type(_sum_chunks, grad.dtype), chunks, inputs, like=grad)
        launch(of_type(_join_chunks, grad.dtype), chunks * sums.shape[1], [*data[:2], heads, sums], like=grad)
        return None, None, sums[:, :6], sums[:, 6:].reshape(-1, depth), None, None, None


def edges_at(corners: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """The three edge functions (..., 3) of triangles (..., 3, 2) at points (..., 2), as the kernels compute them."""

    def one(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        keep = (a[..., 0] < b[..., 0]) | ((a[..., 0] == b[..., 0]) & (a[..., 1] < b[..., 1]))
        low, high = torch.where(keep[..., None], a, b), torch.where(keep[..., None], b, a)
        value = (high[..., 0] - low[..., 0]) * (points[..., 1] - low[..., 1]) - (high[..., 1] - low[..., 1]) * (
            points[..., 0] - low[..., 0]
        )
        return torch.where(keep, value, -value)

    v0, v1, v2 = corners.unbind(-2)
    return torch.stack([one(v1, v2), one(v2, v0), one(v0, v1)], -1)


def weights_at(corners: torch.Tensor, points: torch.Tensor, eps: float) -> torch.Tensor:
    """Weights (..., 3) of the corners of triangles (..., 3, 2) at points (..., 2), linear in the image."""
    edges = edges_at(corners, points)
    total = edges.sum(-1, keepdim=True)
    return edges / (total + torch.where(total < 0, -eps, eps))


def pixel_centres(height: int, width: int, like: torch.Tensor) -> torch.Tensor:
    """Centres (height * width, 2) of the pixels in -1..1, y up, row by row from the top."""
    x = (2 * torch.arange(width, device=like.device, dtype=like.dtype) + 1 - width) / width
    y = (height - 2 * torch.arange(height, device=like.device, dtype=like.dtype) - 1) / height
    return torch.stack([x.expand(height, width), y[:, None].expand(height, width)], -1).reshape(-1, 2)


def interpolate_with_torch(
    face_idx: torch.Tensor,
    face_vertices_image: torch.Tensor,
    face_features: torch.Tensor,
    points: torch.Tensor,
    eps: float,
) -> torch.Tensor:
    """`interpolate_faces` in plain torch; gradients reach the points too."""
    batch, count, _, depth = face_features.shape
    if count == 0 or depth == 0:
        return face_features.new_zeros((*face_idx.shape, depth)) + 0 * face_features.sum()
    which = (torch.arange(batch, device=face_idx.device)[:, None, None], face_idx.clamp(min=0))
    weights = weights_at(face_vertices_image[which], points[:, :, None], eps)
    found = (weights[..., None] * face_features[which]).sum(-2)
    return torch.where(face_idx[..., None] < 0, torch.zeros_like(found), found)


def interpolate_faces(
    face_idx: torch.Tensor,
    face_vertices_image: torch.Tensor,
    face_features: torch.Tensor,
    *,
    points: torch.Tensor | None = None,
    image_size: tuple[int, int] | None = None,
    eps: float = 0.0,
) -> torch.Tensor:
    """Interpolate features of faces, linearly in the image.

    Args:
        face_idx: (B, P, K) int64, the faces found at each point; -1 for none.
        face_vertices_image: (B, F, 3, 2) corners; receives gradients.
        face_features: (B, F, 3, D) features of the corners; receives gradients.
        points: (B, P, 2) positions; or
        image_size: height and width: the points are the centres of the pixels, row by row.
        eps: Keeps the sum of the three areas away from 0.

    Returns:
        (B, P, K, D); 0 where there is no face.
    """
    batch, count, _, depth = face_features.shape
    if not use_warp() or face_idx.numel() == 0 or count == 0 or depth == 0:
        if points is None:
            assert image_size is not None
            points = pixel_centres(*image_size, like=face_vertices_image).expand(batch, -1, -1)
        return interpolate_with_torch(face_idx, face_vertices_image, face_features, points, eps)
    height, width = (0, 0) if image_size is None else image_size
    empty = face_vertices_image.new_zeros((1, 2))
    out: torch.Tensor = _Interpolate.apply(
        face_idx.flatten(1),
        empty if points is None else points.reshape(-1, 2),
        face_vertices_image.reshape(-1, 6),
        face_features.reshape(-1, depth),
        (face_idx.shape[1] * face_idx.shape[2], face_idx.shape[2], width, height),
        count,
        eps,
    )
    return out.reshape(*face_idx.shape, depth)
