"""Texture look-ups in plain torch: the same result as the kernels', its gradients by torch itself."""

from __future__ import annotations

import torch
from torch import Tensor


def look_up_torch(levels: list[Tensor], uv: Tensor, derivatives: Tensor | None, nearest: bool, wrap: str) -> Tensor:
    """See `texture`; the arguments are checked."""
    finite = torch.isfinite(uv).all(-1)
    flat = torch.where(finite[..., None], uv, 0.0).reshape(uv.shape[0], -1, 2)
    u, v = flat[..., 0], 1 - flat[..., 1]
    detail = torch.zeros_like(u).detach()
    if derivatives is not None:
        height, width = levels[0].shape[1:3]
        texels = derivatives.reshape(*flat.shape, 2) * uv.new_tensor([[width], [height]])
        longest = (texels**2).sum(-2).amax(-1)
        detail = (0.5 * torch.log2(longest.clamp(min=1))).clamp(max=len(levels) - 1)
    result = flat.new_zeros(*u.shape, levels[0].shape[-1])
    for level, image in enumerate(levels):
        share = (1 - (detail - level).abs()).clamp(min=0)
        result = result + share[..., None] * _look_up(image, u, v, nearest, wrap)
    result = result.reshape(*uv.shape[:-1], -1)
    return torch.where(finite[..., None], result, torch.nan)


def _look_up(image: Tensor, u: Tensor, v: Tensor, nearest: bool, wrap: str) -> Tensor:
    batch, height, width, channels = image.shape
    half = 0.0 if nearest else 0.5
    x, y = _brought_near(u, wrap) * width - half, _brought_near(v, wrap) * height - half
    x0, y0 = x.floor().detach(), y.floor().detach()
    a, b = (torch.zeros_like(x), torch.zeros_like(y)) if nearest else (x - x0, y - y0)
    texels = image.reshape(batch, -1, channels).expand(len(u), -1, -1)
    result = texels.new_zeros(*u.shape, channels)
    for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):
        column, row = _wrapped(x0.long() + right, width, wrap), _wrapped(y0.long() + down, height, wrap)
        weight = (a if right else 1 - a) * (b if down else 1 - b)
        weight = torch.where((column >= 0) & (row >= 0), weight, 0.0)
        index = (row * width + column).clamp(min=0)[..., None].expand(-1, -1, channels)
        result = result + weight[..., None] * texels.gather(1, index)
    return result


def _brought_near(u: Tensor, wrap: str) -> Tensor:
    if wrap == "mirror":
        return u - 2 * (u / 2).floor().detach()
    if wrap == "repeat":
        return u - u.floor().detach()
    return u.clamp(-1, 2)


def _wrapped(i: Tensor, size: int, wrap: str) -> Tensor:
    if wrap == "clamp":
        return i.clamp(0, size - 1)
    if wrap == "zero":
        return torch.where((i < 0) | (i >= size), -1, i)
    if wrap == "mirror":
        j = i % (2 * size)
        return torch.minimum(j, 2 * size - 1 - j)
    return i % size
