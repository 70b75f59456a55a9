"""A rasterizer of triangles that are in the image already: depth and features are linear in the image.

Cost is linear in faces and covered pixels. On a CPU the faces are sorted into bands of rows and a thread draws a band.
On a GPU a thread draws a small face; a large one is cut into squares that wait in a queue, whose length the host never
reads. Depths meet in atomic maxima of integers, which do not depend on the order: the result is deterministic.
"""

from functools import cache
from typing import Any

import torch
import warp as wp

from ..launches import Launcher
from ..tensors import as_warp, check_same_device, check_tensor, check_whole, launch, of_type, use_warp
from ._sorting import stable_order
from .face_samples import edges_at, interpolate_faces, pixel_centres
from .screen_kernels import (
    DEPTH,
    FACE,
    PACKED,
    draw_bands,
    draw_queue,
    draw_small,
    find_bands,
    list_bands,
    unpack,
)

_BAND_ROWS = 16
_QUEUE_THREADS = 1 << 18


def _queue_length(pixels: int) -> int:
    """Squares that may wait: of 8 x 8 pixels, enough for 16 large faces over all of the images."""
    return max(1024, pixels // 4)


def _find_on_gpu(
    corners: torch.Tensor, depths: torch.Tensor, valid: torch.Tensor, batch: int, size: tuple[int, int], eps: float
) -> torch.Tensor:
    """Faces (B, height, width) by atomic maxima; on tensors of the CPU it runs too, on one thread."""
    height, width = size
    pixels = batch * height * width
    count = len(corners) // batch
    keys = torch.zeros(pixels, dtype=torch.int64, device=corners.device)
    waiting = torch.zeros(1, dtype=torch.int32, device=corners.device)
    queue = torch.empty((_queue_length(pixels), 2), dtype=torch.int32, device=corners.device)
    face_idx = torch.empty((batch, height, width), dtype=torch.int64, device=corners.device)
    double = corners.dtype == torch.float64
    faces = torch.full((pixels if double else 0,), 2**31 - 1, dtype=torch.int32, device=corners.device)
    data = [corners, depths]
    lists = [keys, faces, waiting, queue]
    threads = min(_QUEUE_THREADS, len(queue))
    for stage in (int(DEPTH), int(FACE)) if double else (int(PACKED),):
        sizes = wp.vec3i(width, height, stage)
        if stage == int(FACE):
            waiting.zero_()
        inputs = [*data, valid, count, sizes, eps, *lists]
        _shared(draw_small, corners.dtype)(len(corners), *inputs, like=corners)
        inputs = [threads, *data, count, sizes, eps, *lists]
        _shared(draw_queue, corners.dtype)(threads, *inputs, like=corners)
    launch(unpack, pixels, [keys, faces, face_idx], like=corners)
    return face_idx


@cache
def _shared(kernel: Any, dtype: torch.dtype) -> Launcher:
    """Launches a kernel whose writes are not disjoint: one thread on a CPU."""
    return Launcher(of_type(kernel, dtype), disjoint=False)


def _find_on_cpu(
    corners: torch.Tensor, depths: torch.Tensor, valid: torch.Tensor, batch: int, size: tuple[int, int], eps: float
) -> torch.Tensor:
    height, width = size
    count = len(corners) // batch
    bands = -(-height // _BAND_ROWS)
    boxes = torch.empty((len(corners), 4), dtype=torch.int32)
    touched = torch.empty(len(corners), dtype=torch.int32)
    boxes_w, touched_w, corners_w = as_warp(boxes, wp.vec4i), as_warp(touched), as_warp(corners)
    sizes = wp.vec3i(width, height, _BAND_ROWS)
    launch(
        of_type(find_bands, corners.dtype),
        len(corners),
        [corners_w, as_warp(valid), count, sizes, boxes_w, touched_w],
        like=corners,
    )
    ends = touched.cumsum(0)
    total = int(ends[-1])
    slots = torch.empty(total, dtype=torch.int32)
    band_of = torch.empty(total, dtype=torch.int32)
    inputs = [boxes_w, touched_w, as_warp(ends), count, _BAND_ROWS, bands, as_warp(slots), as_warp(band_of)]
    launch(list_bands, len(corners), inputs, like=corners)
    order = stable_order(band_of, batch * bands)
    start = torch.zeros(batch * bands + 1, dtype=torch.int32)
    start[1:] = torch.bincount(band_of, minlength=batch * bands).cumsum(0)
    faces = torch.full((batch * height * width,), -1, dtype=torch.int32)
    best = torch.full((batch * height * width,), -torch.inf, dtype=corners.dtype)
    keys = torch.zeros(0, dtype=torch.int64)
    lists = [boxes_w, as_warp(slots), as_warp(order), as_warp(start), count, bands, _BAND_ROWS]
    out = [wp.vec3i(width, height, 3), eps, as_warp(keys, wp.uint64), as_warp(faces), as_warp(best)]
    launch(of_type(draw_bands, corners.dtype), batch * bands, [corners_w, as_warp(depths), *lists, *out], like=corners)
    return faces.reshape(batch, height, width).to(torch.int64)


def _find_with_torch(
    corners: torch.Tensor, depths: torch.Tensor, valid: torch.Tensor, batch: int, size: tuple[int, int], eps: float
) -> torch.Tensor:
    """Plain torch: every face against every pixel, some faces at a time."""
    points = pixel_centres(*size, like=corners)
    corners, depths = corners.reshape(batch, -1, 3, 2), depths.reshape(batch, -1, 3)
    best = corners.new_full((batch, len(points)), -torch.inf)
    face_idx = torch.full((batch, len(points)), -1, dtype=torch.int64, device=corners.device)
    step = max(1, 2**22 // max(1, batch * len(points)))
    for begin in range(0, corners.shape[1], step):
        some = slice(begin, begin + step)
        z = depths_at(points[None, None], corners[:, some, None], depths[:, some, None], eps)
        if valid.numel():
            z = torch.where(valid.reshape(batch, -1)[:, some, None], z, -torch.inf)
        nearest, which = z.max(1)
        better = nearest > best
        best = torch.where(better, nearest, best)
        face_idx = torch.where(better, which + begin, face_idx)
    return face_idx.reshape(batch, *size)


def depths_at(points: torch.Tensor, corners: torch.Tensor, depths: torch.Tensor, eps: float) -> torch.Tensor:
    """Depth (...) of triangles (..., 3, 2) with depths (..., 3) at points (..., 2); -inf where not covered."""
    near = ((points >= corners.amin(-2)) & (points < corners.amax(-2))).all(-1)
    area = edges_at(corners, corners[..., 2, :])[..., 2]
    near = near & (area != 0)
    found = near.nonzero(as_tuple=True)  # the rest is computed for few pairs only
    shape = near.shape
    some = corners.expand(*shape, 3, 2)[found]
    edges = edges_at(some, points.expand(*shape, 2)[found])
    total = edges[..., 0] + edges[..., 1] + edges[..., 2]
    weights = edges / (total + torch.where(total < 0, -eps, eps))[..., None]
    z = depths.expand(*shape, 3)[found]
    z = weights[..., 0] * z[..., 0] + weights[..., 1] * z[..., 1] + weights[..., 2] * z[..., 2]
    inside = ((edges >= 0).all(-1) | (edges <= 0).all(-1)) & ~z.isnan()
    result = corners.new_full(shape, -torch.inf)
    result[found] = torch.where(inside, z, -torch.inf)
    return result


def check_faces(
    face_vertices_z: torch.Tensor, face_vertices_image: torch.Tensor, face_features: torch.Tensor | None
) -> None:
    """Raise TypeError or ValueError where tensors of faces do not fit together."""
    check_tensor("face_vertices_z", face_vertices_z, (None, None, 3))
    batch, count, _ = face_vertices_z.shape
    check_tensor("face_vertices_image", face_vertices_image, (batch, count, 3, 2), (face_vertices_z.dtype,))
    if face_features is not None:
        check_tensor("face_features", face_features, (batch, count, 3, None), (face_vertices_z.dtype,))
    check_same_device(
        face_vertices_z=face_vertices_z, face_vertices_image=face_vertices_image, face_features=face_features
    )
    if batch * count >= 2**31 // 6:
        raise ValueError(f"{batch} x {count} faces are too many for one call; split the batch")


@torch.no_grad()
def find_faces(
    height: int,
    width: int,
    face_vertices_z: torch.Tensor,
    face_vertices_image: torch.Tensor,
    *,
    valid_faces: torch.Tensor | None = None,
    eps: float = 1e-14,
) -> torch.Tensor:
    """The face with the greatest z at each pixel's centre; of equals the first.

    Args:
        height: Rows of the image.
        width: Columns of the image.
        face_vertices_z: (B, F, 3) depth of the corners along the camera's axis, negative in front of an OpenGL camera.
            Nothing is clipped.
        face_vertices_image: (B, F, 3, 2) corners in -1..1, y up.
        valid_faces: (B, F) bool; faces that may be seen. All where left out.
        eps: See `rasterize`.

    Returns:
        (B, height, width) int64; -1 where there is no face.

    Raises:
        TypeError: A tensor's type is wrong, or types differ.
        ValueError: Shapes or devices do not fit; sizes pass 2^31.
    """
    check_faces(face_vertices_z, face_vertices_image, None)
    batch, count, _ = face_vertices_z.shape
    if valid_faces is None:
        valid_faces = torch.zeros(0, dtype=torch.bool, device=face_vertices_z.device)
    else:
        check_tensor("valid_faces", valid_faces, (batch, count), (torch.bool,))
        check_same_device(valid_faces=valid_faces, face_vertices_z=face_vertices_z)
    height, width = check_whole("height", height), check_whole("width", width)
    if batch * height * width >= 2**31:
        raise ValueError(f"{batch} images of width {width} and height {height} are out of range: 0..2^31 pixels")
    if batch * count == 0 or height * width == 0:
        return torch.full((batch, height, width), -1, dtype=torch.int64, device=face_vertices_z.device)
    corners = face_vertices_image.detach().reshape(-1, 6).contiguous()
    depths = face_vertices_z.detach().reshape(-1, 3).contiguous()
    valid = valid_faces.reshape(-1).contiguous()
    find = _find_with_torch
    if use_warp():
        find = _find_on_cpu if corners.device.type == "cpu" else _find_on_gpu
    return find(corners, depths, valid, batch, (height, width), eps)


def rasterize(
    height: int,
    width: int,
    face_vertices_z: torch.Tensor,
    face_vertices_image: torch.Tensor,
    face_features: torch.Tensor,
    *,
    valid_faces: torch.Tensor | None = None,
    eps: float = 1e-14,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rasterize triangles that are in the image already; depth and features are linear in the image (DIB-R).

    Chen et al., Learning to Predict 3D Objects with an Interpolation-based Differentiable Renderer, 2019. Gradients
    reach `face_vertices_image` and `face_features`, and are deterministic. For perspective-correct features see
    `smr.ops.render.rasterize`.

    Args:
        height: Rows of the image.
        width: Columns of the image.
        face_vertices_z: (B, F, 3) depth of the corners; the greatest z is seen, of equals the first face.
        face_vertices_image: (B, F, 3, 2) corners in -1..1, y up. A face covers the pixels whose centres lie in it or on
            its edges, and in its bounds without their upper end.
        face_features: (B, F, 3, D) features of the corners.
        valid_faces: (B, F) bool; faces that may be seen.
        eps: Keeps the doubled area, which weights are divided by, away from 0.

    Returns:
        Features (B, height, width, D), 0 where there is no face; and the face (B, height, width) int64, -1 for none.

    Raises:
        TypeError: A tensor's type is wrong, or types differ.
        ValueError: Shapes or devices do not fit; sizes pass 2^31.
    """
    check_faces(face_vertices_z, face_vertices_image, face_features)
    face_idx = find_faces(height, width, face_vertices_z, face_vertices_image, valid_faces=valid_faces, eps=eps)
    batch, depth = len(face_vertices_z), face_features.shape[-1]
    features = interpolate_faces(
        face_idx.reshape(batch, height * width, 1),
        face_vertices_image,
        face_features,
        image_size=(height, width),
        eps=eps,
    )
    return features.reshape(batch, height, width, depth), face_idx
