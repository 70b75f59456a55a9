"""Antialiasing in plain torch: the same result as the kernels', its gradients by torch itself."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .fragments import Fragments


def blend_torch(
    color: Tensor,
    vertices: Tensor,
    camera: Tensor,
    fragments: Fragments,
    rows: Tensor,
    across: Tensor,
    per_image: int,
    view: Any,
) -> Tensor:
    """See `antialias`; the arguments are checked."""
    result = color
    for direction in (0, 1):
        inner, outer, where = _crossings(vertices, camera, fragments, rows, across, per_image, view, direction)
        flat = color.reshape(-1, color.shape[-1])
        amount = (where - 0.5)[:, None] * (flat[inner] - flat[outer])
        taker = torch.where(where >= 0.5, outer, inner)
        result = result + torch.zeros_like(flat).index_add(0, taker, amount).reshape(color.shape)
    return result


def _crossings(
    vertices: Tensor,
    camera: Tensor,
    fragments: Fragments,
    rows: Tensor,
    across: Tensor,
    per_image: int,
    view: Any,
    direction: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Pixels whose face ends before the next pixel, those next pixels, and where, as a part of the step."""
    face, depth = fragments.pix_to_face[..., 0], fragments.zbuf[..., 0].detach()
    batch, height, width = face.shape
    index = torch.arange(face.numel(), device=face.device).reshape(face.shape)
    here, there = (index[:, :, :-1], index[:, :, 1:]) if direction == 0 else (index[:, :-1], index[:, 1:])
    face, depth = face.reshape(-1), depth.reshape(-1)
    here, there = here.reshape(-1), there.reshape(-1)
    differ = face[here] != face[there]
    here, there = here[differ], there[differ]
    swap = (face[here] < 0) | ((face[there] >= 0) & (depth[there] < depth[here]))
    inner, outer = torch.where(swap, there, here), torch.where(swap, here, there)
    step = torch.where(swap, -1.0, 1.0).to(vertices.dtype)
    image = inner // (height * width)
    row = face[inner] + (image * -per_image if per_image < 0 else 0)
    count = vertices.shape[1]
    corners = rows[row].long() + image[:, None] * count
    beyond = across[row].long()
    flat = vertices.reshape(-1, 3)
    place = torch.stack([inner % width, inner // width % height], -1).to(vertices.dtype) + 0.5
    matrix = camera.expand(batch, 3, 3)[image]
    p = _offsets(flat[corners], matrix, place, view)
    o = _offsets(flat[beyond.clamp(min=0) + image[:, None] * count], matrix, place, view)
    found = torch.zeros_like(inner, dtype=torch.bool)
    where = torch.zeros_like(step)
    for edge in range(3):
        a, b, c = p[:, (edge + 1) % 3], p[:, (edge + 2) % 3], p[:, edge]
        at, crosses = _crossing(a, b, step, direction)
        same = (_side(a, b, c) > 0) == (_side(a, b, o[:, edge]) > 0)
        chosen = crosses & ~found & ((beyond[:, edge] < 0) | same)
        where = torch.where(chosen, at, where)
        found = found | chosen
    return inner[found], outer[found], where[found]


def _offsets(points: Tensor, matrix: Tensor, place: Tensor, view: Any) -> Tensor:
    """(N, 3, 3) corners seen from a pixel: how far from its ray, times the divisor, and the divisor."""
    w = points[..., 2] if view.perspective else torch.ones_like(points[..., 2])
    xy = points[..., :2] @ matrix[:, :2, :2].mT + (matrix[:, None, :2, 2] - place[:, None]) * w[..., None]
    return torch.cat([xy, w[..., None]], -1)


def _crossing(a: Tensor, b: Tensor, step: Tensor, direction: int) -> tuple[Tensor, Tensor]:
    """Where the edge a b crosses the step to the next pixel, and whether it does."""
    (ax, ay, aw), (bx, by, bw) = a.unbind(-1), b.unbind(-1)
    wide, high = (bx * aw - ax * bw).abs(), (by * aw - ay * bw).abs()
    if direction == 0:
        steep, straddles = high >= wide, (ay <= 0) != (by <= 0)
        span = step * (aw * by - bw * ay)
    else:
        steep, straddles = wide > high, (ax <= 0) != (bx <= 0)
        span = step * (ax * bw - aw * bx)
    crosses = (aw > 0) & (bw > 0) & steep & straddles & (span != 0)
    where = (ax * by - ay * bx) / torch.where(crosses, span, 1.0)
    return where, crosses & (where >= 0) & (where <= 1)


def _side(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return torch.linalg.det(torch.stack([a, b, c], -2)) * torch.where(c[..., 2] < 0, -1.0, 1.0).to(c.dtype)
