"""Antialiasing in plain torch: the same result as the kernels', its gradients by torch itself."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .fragments import Fragments
from .silhouette_kernels import MOST_STEPS


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
    place = torch.stack([inner % width, inner // width % height], -1).to(vertices.dtype) + 0.5
    matrix = camera.expand(batch, 3, 3)[image]
    found = torch.full_like(inner, -1)
    where = torch.zeros_like(step)
    active, entry, walker = torch.arange(len(inner), device=face.device), torch.full_like(inner, -1), face[inner]
    for _ in range(int(MOST_STEPS)):
        going = (walker != face[outer][active]) & (walker >= 0)
        active, entry, walker = active[going], entry[going], walker[going]
        if len(active) == 0:
            break
        seen = _Walk(vertices, rows, across, per_image, image[active], walker, matrix[active], place[active], view)
        leaves, at = seen.leave(entry, step[active], direction)
        next = seen.across.gather(1, leaves.clamp(min=0)[:, None])[:, 0]
        ahead = (leaves >= 0) & (at <= 1)
        ends = ahead & seen.is_silhouette(leaves, next)
        chosen = ends & (at >= 0) & seen.is_steep(leaves, direction)
        found[active[chosen]] = 3 * walker[chosen] + leaves[chosen]
        where = where.index_put((active[chosen],), at[chosen])
        on = ahead & ~ends
        active, entry, walker = active[on], next[on] % 3, next[on] // 3
    hit = found >= 0
    return inner[hit], outer[hit], where[hit]


class _Walk:
    """Faces that are walked over, seen from pixels."""

    def __init__(
        self,
        vertices: Tensor,
        rows: Tensor,
        across: Tensor,
        per_image: int,
        image: Tensor,
        face: Tensor,
        matrix: Tensor,
        place: Tensor,
        view: Any,
    ) -> None:
        self._per, first = abs(per_image), image * -per_image if per_image < 0 else torch.zeros_like(image)
        flat, first_vertex = vertices.reshape(-1, 3), (image * vertices.shape[1])[:, None]
        self._see = lambda index: _offsets(flat[index + first_vertex], matrix, place, view)
        self._rows, self._first = rows, first
        self.across = across[face + first].long()
        self.corners = self._see(rows[face + first].long())

    def _edge(self, edge: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Its two ends, and the corner opposite to it."""
        turn = (edge.clamp(min=0)[:, None] + torch.arange(1, 4, device=edge.device)) % 3
        a, b, c = self.corners.gather(1, turn[..., None].expand(-1, -1, 3)).unbind(1)
        return a, b, c

    def leave(self, entry: Tensor, step: Tensor, direction: int) -> tuple[Tensor, Tensor]:
        """The edge by which the line through the pixel leaves the face (-1, none), and where."""
        leaves, where = torch.full_like(entry, -1), torch.zeros_like(step)
        for edge in range(3):
            a, b = self.corners[:, (edge + 1) % 3], self.corners[:, (edge + 2) % 3]
            here, crosses = _crossing(a, b, step, direction)
            better = crosses & (entry != edge) & ((leaves < 0) | (here > where))
            leaves, where = torch.where(better, edge, leaves), torch.where(better, here, where)
        return leaves, where

    def is_silhouette(self, edge: Tensor, next: Tensor) -> Tensor:
        """Whether the edge has no neighbour, or one on the same side of it."""
        inside = (next >= 0) & (next < 3 * self._per)
        safe = torch.where(inside, next, 0)
        beyond = self._rows[safe // 3 + self._first].gather(1, (safe % 3)[:, None]).long()
        a, b, c = self._edge(edge)
        return ~inside | ((_side(a, b, c) > 0) == (_side(a, b, self._see(beyond)[:, 0]) > 0))

    def is_steep(self, edge: Tensor, direction: int) -> Tensor:
        """Whether the edge is one for steps in this direction."""
        (ax, ay, aw), (bx, by, bw) = (end.unbind(-1) for end in self._edge(edge)[:2])
        wide, high = (bx * aw - ax * bw).abs(), (by * aw - ay * bw).abs()
        return high >= wide if direction == 0 else wide > high


def _offsets(points: Tensor, matrix: Tensor, place: Tensor, view: Any) -> Tensor:
    """(N, 3, 3) corners seen from a pixel: how far from its ray, times the divisor, and the divisor."""
    w = points[..., 2] if view.perspective else torch.ones_like(points[..., 2])
    xy = points[..., :2] @ matrix[:, :2, :2].mT + (matrix[:, None, :2, 2] - place[:, None]) * w[..., None]
    return torch.cat([xy, w[..., None]], -1)


def _crossing(a: Tensor, b: Tensor, step: Tensor, direction: int) -> tuple[Tensor, Tensor]:
    """Where the line through the pixel crosses the edge a b, as a part of the step along it, and whether it does."""
    (ax, ay, aw), (bx, by, bw) = a.unbind(-1), b.unbind(-1)
    if direction == 0:
        straddles, span = (ay <= 0) != (by <= 0), step * (aw * by - bw * ay)
    else:
        straddles, span = (ax <= 0) != (bx <= 0), step * (ax * bw - aw * bx)
    crosses = (aw > 0) & (bw > 0) & straddles & (span != 0)
    return (ax * by - ay * bx) / torch.where(crosses, span, 1.0), crosses


def _side(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return torch.linalg.det(torch.stack([a, b, c], -2)) * torch.where(c[..., 2] < 0, -1.0, 1.0).to(c.dtype)
