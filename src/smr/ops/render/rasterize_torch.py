"""The rasterizer in plain torch: the same result as the kernels', on any device, for finding out who is at fault.

It lists every pixel in the bounding box of every face, so it needs memory for them (in portions).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .fragments import Fragments

_GUARD = float(2**21 - 1)
_MAX_SNAPPED = float(2**29)
_PORTION = 2**22
"""Pixels that are looked at together."""


def rasterize_torch(
    vertices: Tensor, camera: Tensor, rows: Tensor, per_image: int, view: Any, layers: int
) -> Fragments:
    """See `rasterize`; the arguments are checked, `rows` are all faces as int32 (see `check_faces`)."""
    batch, count = vertices.shape[:2]
    per = abs(per_image)
    first = torch.arange(batch, device=vertices.device).repeat_interleave(per) * count
    faces = (rows if per_image < 0 else rows.repeat(batch, 1)).long() + first[:, None]
    with torch.no_grad():
        pixels, keys = _candidates(_in_image(vertices.double(), camera.double(), view), faces, per, view)
    shape = (batch, view.height, view.width)
    before = torch.full((batch * view.height * view.width,), 2**63 - 1, device=vertices.device)
    found = []
    for _ in range(layers):
        behind = keys < before[pixels]
        best = torch.zeros_like(before).scatter_reduce(0, pixels[behind], keys[behind], "amax")
        found.append(torch.where(best > 0, 2**31 - 1 - (best & (2**31 - 1)), -1))
        before = best
    pix_to_face = torch.stack(found, -1).reshape(*shape, layers)
    return Fragments(pix_to_face, *_resolve(vertices, camera, faces, per, pix_to_face, view))


def _in_image(vertices: Tensor, camera: Tensor, view: Any) -> Tensor:
    """Homogeneous in the image: (x, y, depth)."""
    w = vertices[..., 2:] if view.perspective else torch.ones_like(vertices[..., 2:])
    mapped = torch.cat([vertices[..., :2], w], -1) @ camera.mT
    return torch.cat([mapped[..., :2], vertices[..., 2:]], -1).reshape(-1, 3)


def _divisor(points: Tensor, view: Any) -> Tensor:
    return points[..., 2] if view.perspective else torch.ones_like(points[..., 2])


def _inside_by(points: Tensor, plane: int, view: Any) -> Tensor:
    if plane == 0:
        return points[..., 2] - view.near
    reach = _GUARD * _divisor(points, view)
    return reach + points[..., (plane - 1) // 2] * (-1 if plane % 2 else 1)


def _cut(points: Tensor, items: Tensor, view: Any) -> tuple[Tensor, Tensor]:
    """Cut triangles (N, 3, 3) at all planes; the pieces, and the face of each."""
    for plane in range(5):
        d = _inside_by(points, plane, view)
        front = (d >= 0).sum(1)
        # turn the corners until the first is the one that differs from the two others
        alone = torch.where(front == 1, (d >= 0).int().argmax(1), (d < 0).int().argmax(1))
        turn = (alone[:, None] + torch.arange(3, device=points.device)) % 3
        turned = points.gather(1, turn[..., None].expand(-1, -1, 3))
        a, b, c = turned.unbind(1)
        one, two = front == 1, front == 2
        ab, ac = _meet(a, b, plane, view), _meet(a, c, plane, view)
        pieces = [
            (points, front == 3),
            (torch.stack([a, ab, ac], 1), one),
            (torch.stack([ab, b, c], 1), two),
            (torch.stack([ab, c, ac], 1), two),
        ]
        points = torch.cat([p[chosen] for p, chosen in pieces])
        items = torch.cat([items[chosen] for _, chosen in pieces])
    return points, items


def _meet(p: Tensor, q: Tensor, plane: int, view: Any) -> Tensor:
    """Where the edge meets the plane, from its inner end."""
    dp, dq = _inside_by(p, plane, view), _inside_by(q, plane, view)
    swap = (dp < 0)[:, None]
    p, q = torch.where(swap, q, p), torch.where(swap, p, q)
    dp, dq = torch.maximum(dp, dq), torch.minimum(dp, dq)
    point = p + (dp / torch.where(dp == dq, 1.0, dp - dq))[:, None] * (q - p)
    if plane == 0:
        point[:, 2] = view.near
    return point


def _snap(points: Tensor, view: Any) -> tuple[Tensor, Tensor]:
    """Whole 1/256 pixels, and what orders surfaces."""
    w = _divisor(points, view)
    xy = (points[..., :2] * (256 / w)[..., None]).round().clamp(-_MAX_SNAPPED, _MAX_SNAPPED).long()
    return xy, (1 / w if view.perspective else -points[..., 2]).float()


def _candidates(points: Tensor, faces: Tensor, per: int, view: Any) -> tuple[Tensor, Tensor]:
    """Pixels (flat) and keys of all that lies in front of the camera: the larger key is nearer, 0 is none."""
    corners, items = _cut(points[faces], torch.arange(len(faces), device=faces.device), view)
    xy, order = _snap(corners, view)
    area = _edge(xy[:, 0], xy[:, 1], xy[:, 2])
    flip = (area < 0)[:, None]
    xy = torch.where(flip[..., None], xy[:, [0, 2, 1]], xy)
    order = torch.where(flip, order[:, [0, 2, 1]], order)
    size = torch.tensor([view.width, view.height], device=faces.device)
    low = ((xy.amin(1) + 127) >> 8).clamp(min=0)
    high = torch.minimum((xy.amax(1) - 128) >> 8, size - 1)
    boxes = (high - low + 1).clamp(min=0)
    counts = torch.where(area == 0, 0, boxes[:, 0] * boxes[:, 1])
    parts = [(faces.new_zeros(0), faces.new_zeros(0))]
    portion = (counts.cumsum(0) - counts) // _PORTION
    for chosen in (portion == i for i in range(int(portion.max()) + 1 if len(portion) else 0)):
        parts.append(
            _inside(xy[chosen], order[chosen], items[chosen], low[chosen], boxes[chosen], counts[chosen], per, view)
        )
    return torch.cat([pixels for pixels, _ in parts]), torch.cat([keys for _, keys in parts])


def _inside(
    xy: Tensor, order: Tensor, items: Tensor, low: Tensor, boxes: Tensor, counts: Tensor, per: int, view: Any
) -> tuple[Tensor, Tensor]:
    row = torch.arange(len(counts), device=xy.device).repeat_interleave(counts)
    within = torch.arange(len(row), device=xy.device) - (counts.cumsum(0) - counts)[row]
    x = low[row, 0] + within % boxes[row, 0]
    y = low[row, 1] + within // boxes[row, 0]
    p = torch.stack([x, y], -1) * 256 + 128
    corners = xy[row]
    edges, fits = [], torch.ones_like(row, dtype=torch.bool)
    for i, j in ((1, 2), (2, 0), (0, 1)):
        a, b = corners[:, i], corners[:, j]
        e = _edge(a, b, p)
        dx, dy = (b - a).unbind(-1)
        fits &= (e > 0) | ((e == 0) & ((dy < 0) | ((dy == 0) & (dx > 0))))
        edges.append(e.float())
    area = _edge(corners[:, 0], corners[:, 1], corners[:, 2]).float()
    value = (torch.stack(edges, -1) * order[row]).sum(-1) * (1 / area)
    bits = value[fits].view(torch.int32).long()
    ordered = torch.where(bits < 0, ~bits & 0xFFFFFFFF, bits + 2**31)
    item = items[row][fits]
    pixel = (item // per * view.height + y[fits]) * view.width + x[fits]
    return pixel, ordered << 31 | (2**31 - 1 - item % per)


def _edge(a: Tensor, b: Tensor, p: Tensor) -> Tensor:
    """Twice the area of a, b, p, in whole numbers."""
    u, v = b - a, p - a
    return u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]


def _resolve(
    vertices: Tensor, camera: Tensor, faces: Tensor, per: int, pix_to_face: Tensor, view: Any
) -> tuple[Tensor, Tensor]:
    """Depths and barycentric coordinates, differentiable, computed in double precision."""
    dtype = vertices.dtype
    vertices, camera = vertices.double(), camera.double()
    image, row, column, _ = (pix_to_face >= 0).nonzero(as_tuple=True)
    zbuf = vertices.new_full(pix_to_face.shape, -1, dtype=dtype)
    bary = vertices.new_full((*pix_to_face.shape, 3), -1, dtype=dtype)
    if len(image) == 0:
        return zbuf, bary
    seen = pix_to_face >= 0
    corners = vertices.reshape(-1, 3)[faces[image * per + pix_to_face[seen]]]
    w = corners[..., 2] if view.perspective else torch.ones_like(corners[..., 2])
    matrix = camera.expand(len(vertices), 3, 3)[image]
    pixel = torch.stack([column, row], -1).to(vertices.dtype) + 0.5
    plane = corners[..., :2] @ matrix[:, :2, :2].mT
    offset = plane + (matrix[:, None, :2, 2] - pixel[:, None]) * w[..., None]
    a, b, c = offset.unbind(1)
    areas = torch.stack([_cross(b, c), _cross(c, a), _cross(a, b)], -1)
    sign = torch.where(areas.sum(-1, keepdim=True) < 0, -1.0, 1.0).to(areas.dtype)
    areas = (areas * sign).clamp(min=0)
    total = areas.sum(-1, keepdim=True)
    first = areas.new_tensor([1.0, 0.0, 0.0])
    weights = torch.where(total > 0, areas / torch.where(total > 0, total, 1.0), first)
    depths = (weights * corners[..., 2]).sum(-1)
    return zbuf.masked_scatter(seen, depths.to(dtype)), bary.masked_scatter(seen[..., None], weights.to(dtype))


def _cross(a: Tensor, b: Tensor) -> Tensor:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
