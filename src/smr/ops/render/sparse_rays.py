"""All faces behind given points of the image, nearest first (DefTet's sparse rendering).

Gao et al., Learning Deformable Tetrahedral Meshes for 3D Reconstruction, 2020. A tree of bounds finds the faces at a
point; a heap for each point keeps the `knum` nearest, whatever the order of the faces: O((F + P) log F + hits).
"""

from typing import Any, no_type_check

import torch
import warp as wp

from ..tensors import as_warp, check_same_device, check_tensor, check_whole, launch, of_type, use_warp, warp_device
from .face_samples import interpolate_faces
from .screen_space import check_faces, depths_at
from .screen_triangles import edge, least, most, with_sign

wp.set_module_options({"fuse_fp": False})


@wp.kernel(enable_backward=False)
@no_type_check
def _bound(
    base: int,
    corners: wp.array2d(dtype=Any),
    count: int,
    low: wp.array(dtype=wp.vec3),
    high: wp.array(dtype=wp.vec3),
):
    """Bounds in single precision, rounded outwards; the image is the third coordinate."""
    slot = base + wp.tid()
    x0, x1, x2 = corners[slot, 0], corners[slot, 2], corners[slot, 4]
    y0, y1, y2 = corners[slot, 1], corners[slot, 3], corners[slot, 5]
    image = float(slot / count)
    x_low = float(least(x0, x1, x2))
    y_low = float(least(y0, y1, y2))
    x_high = float(most(x0, x1, x2))
    y_high = float(most(y0, y1, y2))
    low[slot] = wp.vec3(x_low - 2.0e-7 * wp.abs(x_low) - 1.0e-30, y_low - 2.0e-7 * wp.abs(y_low) - 1.0e-30, image)
    high[slot] = wp.vec3(x_high + 2.0e-7 * wp.abs(x_high) + 1.0e-30, y_high + 2.0e-7 * wp.abs(y_high) + 1.0e-30, image)


@wp.func
@no_type_check
def _behind(depth: wp.array2d(dtype=Any), face: wp.array2d(dtype=wp.int64), point: int, i: int, j: int):
    """Whether hit i comes after hit j: it is farther, or as far and of a later face."""
    if depth[point, i] == depth[point, j]:
        return face[point, i] > face[point, j]
    return depth[point, i] < depth[point, j]


@wp.func
@no_type_check
def _swap(depth: wp.array2d(dtype=Any), face: wp.array2d(dtype=wp.int64), point: int, i: int, j: int):
    z = depth[point, i]
    f = face[point, i]
    depth[point, i] = depth[point, j]
    face[point, i] = face[point, j]
    depth[point, j] = z
    face[point, j] = f


@wp.func
@no_type_check
def _sink(depth: wp.array2d(dtype=Any), face: wp.array2d(dtype=wp.int64), point: int, size: int):
    """Restore the heap, whose root is the hit that comes last, after its root has changed."""
    i = wp.int32(0)
    child = wp.int32(1)
    while child < size:
        if child + 1 < size:  # noqa: SIM102  Warp evaluates both sides of `and`
            if _behind(depth, face, point, child + 1, child):
                child += 1
        if not _behind(depth, face, point, child, i):
            return
        _swap(depth, face, point, child, i)
        i = child
        child = 2 * i + 1


@wp.func
@no_type_check
def _rise(depth: wp.array2d(dtype=Any), face: wp.array2d(dtype=wp.int64), point: int, last: int):
    i = last
    while i > 0:
        parent = (i - 1) / 2
        if not _behind(depth, face, point, i, parent):
            return
        _swap(depth, face, point, i, parent)
        i = parent


@wp.kernel(enable_backward=False)
@no_type_check
def _collect(
    base: int,
    tree: wp.uint64,
    corners: wp.array2d(dtype=Any),
    depths: wp.array2d(dtype=Any),
    valid: wp.array(dtype=wp.bool),
    points: wp.array2d(dtype=Any),
    ranges: wp.array2d(dtype=Any),
    count: int,
    per_image: int,
    eps: Any,
    depth: wp.array2d(dtype=Any),
    face: wp.array2d(dtype=wp.int64),
):
    point = base + wp.tid()
    px = points[point, 0]
    py = points[point, 1]
    zero = type(eps)(0.0)
    at = wp.vec3(float(px), float(py), float(point / per_image))
    query = wp.bvh_query_aabb(tree, at, at)
    slot = wp.int32(0)
    found = wp.int32(0)
    while wp.bvh_query_next(query, slot):
        x0, y0 = corners[slot, 0], corners[slot, 1]
        x1, y1 = corners[slot, 2], corners[slot, 3]
        x2, y2 = corners[slot, 4], corners[slot, 5]
        e0 = edge(x1, y1, x2, y2, px, py)
        e1 = edge(x2, y2, x0, y0, px, py)
        e2 = edge(x0, y0, x1, y1, px, py)
        inside = (e0 >= zero and e1 >= zero and e2 >= zero) or (e0 <= zero and e1 <= zero and e2 <= zero)
        inside = inside and px >= least(x0, x1, x2) and px < most(x0, x1, x2)
        inside = inside and py >= least(y0, y1, y2) and py < most(y0, y1, y2)
        inside = inside and edge(x0, y0, x1, y1, x2, y2) != zero
        if valid.shape[0] > 0:
            inside = inside and valid[slot]
        total = with_sign(e0 + e1 + e2, eps)
        z = (e0 / total) * depths[slot, 0] + (e1 / total) * depths[slot, 1] + (e2 / total) * depths[slot, 2]
        if inside and z >= ranges[point, 0] and z <= ranges[point, 1]:
            number = wp.int64(slot % count)
            if found < depth.shape[1]:
                depth[point, found] = z
                face[point, found] = number
                _rise(depth, face, point, found)
                found += 1
            elif z > depth[point, 0] or (z == depth[point, 0] and number < face[point, 0]):
                depth[point, 0] = z
                face[point, 0] = number
                _sink(depth, face, point, found)
    while found > 1:  # the last of all goes to the end
        found -= 1
        _swap(depth, face, point, 0, found)
        _sink(depth, face, point, found)


def _find_with_warp(
    corners: torch.Tensor,
    depths: torch.Tensor,
    valid: torch.Tensor,
    points: torch.Tensor,
    ranges: torch.Tensor,
    knum: int,
    eps: float,
) -> torch.Tensor:
    batch, count = depths.shape[:2]
    shape = (*points.shape[:2], knum)
    depth = torch.empty(shape, dtype=depths.dtype, device=depths.device)
    face_idx = torch.full(shape, -1, dtype=torch.int64, device=depths.device)
    low, high = torch.empty((2, batch * count, 3), device=depths.device)
    corners_w, kind = as_warp(corners.reshape(-1, 6)), corners.dtype
    bounds = [as_warp(low, wp.vec3), as_warp(high, wp.vec3)]
    launch(of_type(_bound, kind), batch * count, [corners_w, count, *bounds], like=corners)
    if corners.device.type == "cpu":
        tree = wp.Bvh(*bounds, constructor="median")
    else:
        with wp.ScopedStream(wp.stream_from_torch(torch.cuda.current_stream(corners.device)), sync_enter=False):
            tree = wp.Bvh(*bounds)
    assert str(tree.device) == warp_device(corners)
    inputs = [
        tree.id, corners_w, as_warp(depths.reshape(-1, 3)), as_warp(valid.reshape(-1)),
        as_warp(points.reshape(-1, 2)), as_warp(ranges.reshape(-1, 2)), count, points.shape[1], eps,
        as_warp(depth.reshape(-1, knum)), as_warp(face_idx.reshape(-1, knum)),
    ]  # fmt: skip
    launch(of_type(_collect, kind), shape[0] * shape[1], inputs, like=corners)
    if corners.device.type != "cpu":
        torch.cuda.current_stream(corners.device).synchronize()  # the tree is freed when this returns
    return face_idx


def find_faces_with_torch(
    corners: torch.Tensor,
    depths: torch.Tensor,
    valid: torch.Tensor,
    points: torch.Tensor,
    ranges: torch.Tensor,
    knum: int,
    eps: float,
) -> torch.Tensor:
    """Plain torch: every face against every point, some points at a time."""
    batch, count = depths.shape[:2]
    face_idx = torch.full((*points.shape[:2], knum), -1, dtype=torch.int64, device=depths.device)
    step = max(1, 2**21 // (batch * count))
    for begin in range(0, points.shape[1], step):
        some = slice(begin, begin + step)
        z = depths_at(points[:, some, None], corners[:, None], depths[:, None], eps)
        near = (z >= ranges[:, some, :1]) & (z <= ranges[:, some, 1:])
        if valid.numel():
            near = near & valid[:, None]
        z = torch.where(near, z, -torch.inf)
        best, which = torch.sort(z, dim=-1, descending=True, stable=True)
        which = torch.where(best > -torch.inf, which, -1)[..., :knum]
        face_idx[:, some, : which.shape[-1]] = which
    return face_idx


def _tight(
    points: torch.Tensor, render_ranges: torch.Tensor, z: torch.Tensor, valid: torch.Tensor | None, knum: int
) -> torch.Tensor:
    """Check what comes beside the faces; returns `valid`, empty where all are."""
    batch, count = z.shape[:2]
    check_tensor("points", points, (batch, None, 2), (z.dtype,))
    check_tensor("render_ranges", render_ranges, (batch, points.shape[1], 2), (z.dtype,))
    if check_whole("knum", knum) < 1:
        raise ValueError(f"knum must be at least 1, not {knum}")
    if points.shape[0] * points.shape[1] * knum >= 2**31:
        raise ValueError(f"{points.shape[0] * points.shape[1]} points with knum = {knum} faces each are too many")
    if valid is None:
        valid = torch.zeros(0, dtype=torch.bool, device=z.device)
    else:
        check_tensor("valid_faces", valid, (batch, count), (torch.bool,))
    check_same_device(points=points, render_ranges=render_ranges, valid_faces=valid, face_vertices_z=z)
    return valid


@torch.no_grad()
def find_faces_behind(
    points: torch.Tensor,
    render_ranges: torch.Tensor,
    face_vertices_z: torch.Tensor,
    face_vertices_image: torch.Tensor,
    *,
    knum: int = 300,
    valid_faces: torch.Tensor | None = None,
    eps: float = 1e-8,
) -> torch.Tensor:
    """The `knum` faces of greatest z at each point, nearest first; of equals the first face comes first.

    Args:
        points: (B, P, 2) positions in the image, -1..1, y up.
        render_ranges: (B, P, 2) lowest and highest z, both included.
        face_vertices_z: (B, F, 3) depth of the corners, linear in the image.
        face_vertices_image: (B, F, 3, 2) corners in the image.
        knum: How many faces at most.
        valid_faces: (B, F) bool; faces that may be found.
        eps: Keeps the doubled area, which weights are divided by, away from 0.

    Returns:
        (B, P, knum) int64; -1 where there is no further face.

    Raises:
        TypeError: A tensor's type is wrong, or types differ.
        ValueError: Shapes or devices do not fit; sizes pass 2^31.
    """
    check_faces(face_vertices_z, face_vertices_image, None)
    valid = _tight(points, render_ranges, face_vertices_z, valid_faces, knum)
    if face_vertices_z.numel() == 0 or points.numel() == 0:
        return torch.full((*points.shape[:2], knum), -1, dtype=torch.int64, device=points.device)
    find = _find_with_warp if use_warp() else find_faces_with_torch
    tensors = (face_vertices_image.detach(), face_vertices_z.detach(), valid, points.detach(), render_ranges.detach())
    return find(*tensors, knum, eps)


def render_points(
    points: torch.Tensor,
    render_ranges: torch.Tensor,
    face_vertices_z: torch.Tensor,
    face_vertices_image: torch.Tensor,
    face_features: torch.Tensor,
    *,
    knum: int = 300,
    valid_faces: torch.Tensor | None = None,
    eps: float = 1e-8,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Features of the faces behind each point, linear in the image; see `find_faces_behind`.

    Gradients reach `face_vertices_image` and `face_features`, and are deterministic.

    Args:
        points: (B, P, 2) positions in the image.
        render_ranges: (B, P, 2) lowest and highest z.
        face_vertices_z: (B, F, 3) depth of the corners.
        face_vertices_image: (B, F, 3, 2) corners in the image.
        face_features: (B, F, 3, D) features of the corners.
        knum: How many faces at most.
        valid_faces: (B, F) bool; faces that may be found.
        eps: Keeps the doubled area away from 0.

    Returns:
        Features (B, P, knum, D), 0 where there is no face, and faces (B, P, knum) int64, -1 for none.

    Raises:
        TypeError: A tensor's type is wrong, or types differ.
        ValueError: Shapes or devices do not fit; sizes pass 2^31.
    """
    check_faces(face_vertices_z, face_vertices_image, face_features)
    face_idx = find_faces_behind(
        points, render_ranges, face_vertices_z, face_vertices_image, knum=knum, valid_faces=valid_faces, eps=eps
    )
    return interpolate_faces(face_idx, face_vertices_image, face_features, points=points.detach(), eps=eps), face_idx
