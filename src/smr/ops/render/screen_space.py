"""A rasterizer of triangles that are in the image already: depth and features are linear in the image.

Cost is linear in faces and covered pixels. On a CPU the faces are sorted into bands of rows and a thread draws a band.
On a GPU a thread draws a small face; a large one is cut into squares that wait in a queue, whose length the host never
reads. Depths meet in atomic maxima of integers, which do not depend on the order: the result is deterministic.
"""

from typing import Any, no_type_check

import torch
import warp as wp

from ..tensors import as_warp, check_same_device, check_tensor, launch, of_type, use_warp
from ._sorting import stable_order
from .face_samples import edges_at, interpolate_faces, pixel_centres
from .screen_triangles import column_centre, columns_between, edge, least, most, row_centre, rows_between, with_sign

wp.set_module_options({"fuse_fp": False})

_BAND_ROWS = 16
_SMALL: Any = wp.constant(64)
"""Largest number of pixels in the bounds of a face that one thread draws."""
_PIECES: Any = wp.constant(1024)
"""Largest number of squares into which a face is cut."""
_QUEUE_THREADS = 1 << 18

_PACKED: Any = wp.constant(0)
_DEPTH: Any = wp.constant(1)
_FACE: Any = wp.constant(2)


@wp.func
@no_type_check
def _ordered(z: wp.float32):
    """An integer that grows with z; above 0."""
    bits = wp.cast(z, wp.uint32)
    if (bits >> wp.uint32(31)) == wp.uint32(1):
        bits = ~bits
    else:
        bits = bits | (wp.uint32(1) << wp.uint32(31))
    return wp.uint64(bits) << wp.uint64(32)


@wp.func  # type: ignore[no-redef]  # an overload
@no_type_check
def _ordered(z: wp.float64):
    bits = wp.cast(z, wp.uint64)
    if (bits >> wp.uint64(63)) == wp.uint64(1):
        return ~bits
    return bits | (wp.uint64(1) << wp.uint64(63))


@wp.func
@no_type_check
def _bounds(corners: wp.array2d(dtype=Any), slot: int, width: int, height: int):
    """First and last column, first and last row of the pixels that may be covered."""
    x0, x1, x2 = corners[slot, 0], corners[slot, 2], corners[slot, 4]
    y0, y1, y2 = corners[slot, 1], corners[slot, 3], corners[slot, 5]
    left, right = columns_between(least(x0, x1, x2), most(x0, x1, x2), width)
    top, bottom = rows_between(least(y0, y1, y2), most(y0, y1, y2), height)
    if left > right or top > bottom or edge(x0, y0, x1, y1, x2, y2) == type(x0)(0.0):
        return 1, 0, 1, 0
    return left, right, top, bottom


@wp.func
@no_type_check
def _draw(
    corners: wp.array2d(dtype=Any),
    depths: wp.array2d(dtype=Any),
    slot: int,
    face: int,
    box: wp.vec4i,
    first_pixel: int,
    sizes: wp.vec3i,
    eps: Any,
    keys: wp.array(dtype=wp.uint64),
    faces: wp.array(dtype=int),
    best: wp.array(dtype=Any),
):
    """Draw the part of a face that lies in a box of pixels (left, right, top, bottom).

    `sizes` is width, height and what to write: keys of depth and face together, keys of depth, or the lowest face among
    those of the pixel's depth; any other number writes depth and face at once, for a caller that is alone.
    """
    x0, y0 = corners[slot, 0], corners[slot, 1]
    x1, y1 = corners[slot, 2], corners[slot, 3]
    x2, y2 = corners[slot, 4], corners[slot, 5]
    z0, z1, z2 = depths[slot, 0], depths[slot, 1], depths[slot, 2]
    left, right = least(x0, x1, x2), most(x0, x1, x2)
    low, high = least(y0, y1, y2), most(y0, y1, y2)
    zero = type(eps)(0.0)
    for row in range(box[2], box[3] + 1):
        py = row_centre(row, sizes[1], eps)
        if py >= low and py < high:
            for column in range(box[0], box[1] + 1):
                px = column_centre(column, sizes[0], eps)
                e0 = edge(x1, y1, x2, y2, px, py)
                e1 = edge(x2, y2, x0, y0, px, py)
                e2 = edge(x0, y0, x1, y1, px, py)
                inside = (e0 >= zero and e1 >= zero and e2 >= zero) or (e0 <= zero and e1 <= zero and e2 <= zero)
                if inside and px >= left and px < right:
                    total = with_sign(e0 + e1 + e2, eps)
                    z = (e0 / total) * z0 + (e1 / total) * z1 + (e2 / total) * z2
                    pixel = first_pixel + row * sizes[0] + column
                    if z == z:
                        if sizes[2] == _PACKED:
                            key = _ordered(z) | (wp.uint64(0xFFFFFFFF) - wp.uint64(face))
                            if key > keys[pixel]:  # a stale value is too low, never too high
                                wp.atomic_max(keys, pixel, key)
                        elif sizes[2] == _DEPTH:
                            wp.atomic_max(keys, pixel, _ordered(z))
                        elif sizes[2] == _FACE:
                            if _ordered(z) == keys[pixel]:
                                wp.atomic_min(faces, pixel, face)
                        elif z > best[pixel]:
                            best[pixel] = z
                            faces[pixel] = face


@wp.func
@no_type_check
def _square_edge(columns: int, rows: int):
    """Edge of the squares into which bounds are cut: 8 doubled until they are few enough."""
    size = wp.int32(8)
    while ((columns + size - 1) / size) * ((rows + size - 1) / size) > _PIECES:
        size *= 2
    return size


@wp.kernel(enable_backward=False)
@no_type_check
def _draw_small(
    base: int,
    corners: wp.array2d(dtype=Any),
    depths: wp.array2d(dtype=Any),
    valid: wp.array(dtype=wp.bool),
    count: int,
    sizes: wp.vec3i,
    eps: Any,
    keys: wp.array(dtype=wp.uint64),
    faces: wp.array(dtype=int),
    waiting: wp.array(dtype=int),
    queue: wp.array(dtype=wp.vec2i),
):
    """A thread draws a small face, or puts the squares of a large one into the queue; where that is full, it draws."""
    slot = base + wp.tid()
    if valid.shape[0] > 0:  # noqa: SIM102  Warp evaluates both sides of `and`
        if not valid[slot]:
            return
    left, right, top, bottom = _bounds(corners, slot, sizes[0], sizes[1])
    if left > right:
        return
    columns = right - left + 1
    rows = bottom - top + 1
    image = (slot / count) * sizes[0] * sizes[1]
    size = wp.int32(8)
    first = queue.shape[0]
    pieces = wp.int32(0)
    if columns > _SMALL / rows:
        size = _square_edge(columns, rows)
        pieces = ((columns + size - 1) / size) * ((rows + size - 1) / size)
        if waiting[0] < queue.shape[0]:  # a full queue is not counted up further
            first = wp.atomic_add(waiting, 0, pieces)
    fitting = wp.clamp(queue.shape[0] - first, 0, pieces)
    for piece in range(fitting):
        queue[first + piece] = wp.vec2i(slot, piece)
    if fitting == pieces and pieces > 0:
        return
    across = (columns + size - 1) / size
    if pieces == 0:
        box = wp.vec4i(left, right, top, bottom)
        _draw(corners, depths, slot, slot % count, box, image, sizes, eps, keys, faces, depths[0])
    for piece in range(fitting, pieces):
        x = left + (piece % across) * size
        y = top + (piece / across) * size
        box = wp.vec4i(x, wp.min(right, x + size - 1), y, wp.min(bottom, y + size - 1))
        _draw(corners, depths, slot, slot % count, box, image, sizes, eps, keys, faces, depths[0])


@wp.kernel(enable_backward=False)
@no_type_check
def _draw_queue(
    base: int,
    threads: int,
    corners: wp.array2d(dtype=Any),
    depths: wp.array2d(dtype=Any),
    count: int,
    sizes: wp.vec3i,
    eps: Any,
    keys: wp.array(dtype=wp.uint64),
    faces: wp.array(dtype=int),
    waiting: wp.array(dtype=int),
    queue: wp.array(dtype=wp.vec2i),
):
    """Threads share the squares of the large faces."""
    i = base + wp.tid()
    while i < wp.min(waiting[0], queue.shape[0]):
        slot = queue[i][0]
        left, right, top, bottom = _bounds(corners, slot, sizes[0], sizes[1])
        size = _square_edge(right - left + 1, bottom - top + 1)
        across = (right - left + size) / size
        x = left + (queue[i][1] % across) * size
        y = top + (queue[i][1] / across) * size
        box = wp.vec4i(x, wp.min(right, x + size - 1), y, wp.min(bottom, y + size - 1))
        image = (slot / count) * sizes[0] * sizes[1]
        _draw(corners, depths, slot, slot % count, box, image, sizes, eps, keys, faces, depths[0])
        i += threads


@wp.kernel(enable_backward=False)
@no_type_check
def _unpack(base: int, keys: wp.array(dtype=wp.uint64), faces: wp.array(dtype=int), face_idx: wp.array(dtype=wp.int64)):
    pixel = base + wp.tid()
    key = keys[pixel]
    if key == wp.uint64(0):
        face_idx[pixel] = wp.int64(-1)
    elif faces.shape[0] > 0:
        face_idx[pixel] = wp.int64(faces[pixel])
    else:
        face_idx[pixel] = wp.int64(wp.uint64(0xFFFFFFFF) - (key & wp.uint64(0xFFFFFFFF)))


@wp.kernel(enable_backward=False)
@no_type_check
def _find_bands(
    base: int,
    corners: wp.array2d(dtype=Any),
    valid: wp.array(dtype=wp.bool),
    count: int,
    sizes: wp.vec3i,
    boxes: wp.array(dtype=wp.vec4i),
    bands: wp.array(dtype=int),
):
    """Bounds of each face, and in how many bands of rows it lies."""
    slot = base + wp.tid()
    left, right, top, bottom = _bounds(corners, slot, sizes[0], sizes[1])
    if valid.shape[0] > 0:  # noqa: SIM102  Warp evaluates both sides of `and`
        if not valid[slot]:
            left, right = 1, 0
    boxes[slot] = wp.vec4i(left, right, top, bottom)
    bands[slot] = 0
    if left <= right:
        bands[slot] = bottom / sizes[2] - top / sizes[2] + 1


@wp.kernel(enable_backward=False)
@no_type_check
def _list_bands(
    base: int,
    boxes: wp.array(dtype=wp.vec4i),
    bands: wp.array(dtype=int),
    ends: wp.array(dtype=wp.int64),
    count: int,
    band_rows: int,
    bands_of_image: int,
    slots: wp.array(dtype=int),
    band_of: wp.array(dtype=int),
):
    slot = base + wp.tid()
    begin = ends[slot] - wp.int64(bands[slot])
    for i in range(bands[slot]):
        slots[begin + wp.int64(i)] = slot
        band_of[begin + wp.int64(i)] = (slot / count) * bands_of_image + boxes[slot][2] / band_rows + i


@wp.kernel(enable_backward=False)
@no_type_check
def _draw_bands(
    base: int,
    corners: wp.array2d(dtype=Any),
    depths: wp.array2d(dtype=Any),
    boxes: wp.array(dtype=wp.vec4i),
    slots: wp.array(dtype=int),
    order: wp.array(dtype=int),
    start: wp.array(dtype=int),
    count: int,
    bands_of_image: int,
    band_rows: int,
    sizes: wp.vec3i,
    eps: Any,
    keys: wp.array(dtype=wp.uint64),
    faces: wp.array(dtype=int),
    best: wp.array(dtype=Any),
):
    """All faces of a band, in their order: the first of those at the same depth stays."""
    band = base + wp.tid()
    first_row = (band % bands_of_image) * band_rows
    image = (band / bands_of_image) * sizes[0] * sizes[1]
    for i in range(start[band], start[band + 1]):
        slot = slots[order[i]]
        box = boxes[slot]
        box[2] = wp.max(box[2], first_row)
        box[3] = wp.min(box[3], first_row + band_rows - 1)
        _draw(corners, depths, slot, slot % count, box, image, sizes, eps, keys, faces, best)


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
    faces_w, keys_w = as_warp(faces), as_warp(keys, wp.uint64)
    data = [as_warp(corners), as_warp(depths)]
    lists = [keys_w, faces_w, as_warp(waiting), as_warp(queue, wp.vec2i)]
    threads = min(_QUEUE_THREADS, len(queue))
    for stage in (int(_DEPTH), int(_FACE)) if double else (int(_PACKED),):
        sizes = wp.vec3i(width, height, stage)
        if stage == int(_FACE):
            waiting.zero_()
        _launch(
            of_type(_draw_small, corners.dtype),
            len(corners),
            [*data, as_warp(valid), count, sizes, eps, *lists],
            corners,
        )
        _launch(of_type(_draw_queue, corners.dtype), threads, [threads, *data, count, sizes, eps, *lists], corners)
    launch(_unpack, pixels, [keys_w, faces_w, as_warp(face_idx.view(-1))], like=corners)
    return face_idx


def _launch(kernel: Any, dim: int, inputs: list[Any], like: torch.Tensor) -> None:
    """Launch a kernel whose writes are not disjoint: one thread on a CPU."""
    if like.device.type == "cpu":
        wp.launch(kernel, dim, [0, *inputs], device="cpu")
    else:
        launch(kernel, dim, inputs, like=like)


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
        of_type(_find_bands, corners.dtype),
        len(corners),
        [corners_w, as_warp(valid), count, sizes, boxes_w, touched_w],
        like=corners,
    )
    ends = touched.cumsum(0)
    total = int(ends[-1])
    slots = torch.empty(total, dtype=torch.int32)
    band_of = torch.empty(total, dtype=torch.int32)
    inputs = [boxes_w, touched_w, as_warp(ends), count, _BAND_ROWS, bands, as_warp(slots), as_warp(band_of)]
    launch(_list_bands, len(corners), inputs, like=corners)
    order = stable_order(band_of, batch * bands)
    start = torch.zeros(batch * bands + 1, dtype=torch.int32)
    start[1:] = torch.bincount(band_of, minlength=batch * bands).cumsum(0)
    faces = torch.full((batch * height * width,), -1, dtype=torch.int32)
    best = torch.full((batch * height * width,), -torch.inf, dtype=corners.dtype)
    keys = torch.zeros(0, dtype=torch.int64)
    lists = [boxes_w, as_warp(slots), as_warp(order), as_warp(start), count, bands, _BAND_ROWS]
    out = [wp.vec3i(width, height, 3), eps, as_warp(keys, wp.uint64), as_warp(faces), as_warp(best)]
    launch(of_type(_draw_bands, corners.dtype), batch * bands, [corners_w, as_warp(depths), *lists, *out], like=corners)
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
    check_same_device(z=face_vertices_z, image=face_vertices_image, features=face_features)
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
    if height < 0 or width < 0 or batch * height * width >= 2**31:
        raise ValueError(f"{batch} images of {width} x {height} are out of range: 0..2^31 pixels")
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
