"""Texture look-ups: nearest, bilinear, and trilinear in mipmaps."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from ..exact_sums import ExactSums
from ..tensors import check_same_device, check_tensor, check_whole, use_warp
from .fragments import check_batch, check_size
from .texture_kernels import LOOK_UP, TO_TEXELS, TO_UV, WRAPS, Texture
from .texture_torch import look_up_torch

Filter = Literal["nearest", "bilinear"]
Wrap = Literal["repeat", "clamp", "mirror", "zero"]


def texture(
    image: Float[Tensor, "..."],
    uv: Float[Tensor, "..."],
    *,
    derivatives: Float[Tensor, "..."] | None = None,
    filter: Filter = "bilinear",
    wrap: Wrap = "repeat",
    most_levels: int | None = None,
) -> Float[Tensor, "..."]:
    """Look a texture up.

    Args:
        image: (h, w, C), or (B, h, w, C) with the batch of `uv`, or 1; any number of channels.
        uv: (B, ..., 2). (0, 0) is the image's bottom left corner, (1, 1) its top right one.
        derivatives: (B, ..., 2, 2), how `uv` (first axis) changes from pixel to pixel along x and y (second axis), see
            `screen_derivatives`. With them the look-up is trilinear in mipmaps: the level is that whose texels are as
            large as the longer side of the pixel's footprint.
        filter: Of texels in a level.
        wrap: What lies outside of 0 to 1.
        most_levels: Mipmaps to make, the image itself included; left out: down to one texel.

    Returns:
        (B, ..., C); NaN where `uv` is not finite. Gradients reach `image` (the same bits every time) and `uv`; the
        level of detail counts as fixed, so `derivatives` get none.

    Raises:
        TypeError, ValueError: Types, shapes or devices do not fit.
    """
    if filter not in ("nearest", "bilinear"):
        raise ValueError(f"filter must be nearest or bilinear, not {filter!r}")
    if wrap not in WRAPS:
        raise ValueError(f"wrap must be one of {', '.join(WRAPS)}, not {wrap!r}")
    if not isinstance(uv, Tensor):
        raise TypeError(f"uv must be a torch tensor, not {type(uv).__name__}")
    check_tensor("uv", uv, (*[None] * max(uv.dim() - 1, 1), 2))
    image = check_batch("image", image, (None, None, None), uv.shape[0])
    if image.numel() == 0:
        raise ValueError(f"image must have a texel and a channel, not the shape {tuple(image.shape)}")
    if image.dtype != uv.dtype:
        raise TypeError(f"image is {image.dtype} and uv {uv.dtype}; they must be of one type")
    check_same_device(image=image, uv=uv, derivatives=derivatives)
    check_size("uv", uv.numel() * 4)
    levels = [image]
    if derivatives is not None:
        check_tensor("derivatives", derivatives, (*uv.shape, 2), (uv.dtype,))
        derivatives = derivatives.detach()
        levels = mipmaps(image, most_levels)
    check_size("the result", uv.numel() // 2 * image.shape[-1])
    if not use_warp():
        return look_up_torch(levels, uv, derivatives, filter == "nearest", wrap)
    texels = image.flatten(1, 2)
    if len(levels) > 1:
        texels = torch.cat([level.flatten(1, 2) for level in levels], 1)
    check_size("image with its mipmaps", texels.numel())
    per_image = uv[0].numel() // 2 if image.shape[0] > 1 else 0
    height, width, channels = image.shape[1:]
    sizes = (width, height, len(levels), texels.shape[1], channels, per_image, WRAPS[wrap], int(filter == "nearest"))
    result: Tensor = _LookUp.apply(texels, uv, derivatives, sizes)
    return result


def mipmaps(image: Float[Tensor, "B h w C"], most_levels: int | None = None) -> list[Tensor]:
    """The image and its means over 2 by 2 texels, again and again, down to one texel.

    Sizes are halved and rounded down; where a size is odd, three texels share in the mean by their part of its area.

    Raises:
        TypeError: Not float32 or float64.
        ValueError: Another shape, an image without texels, or fewer than one level.
    """
    check_tensor("image", image, (None,) * 4)
    if 0 in image.shape[1:3]:
        raise ValueError(f"image must have texels, not the shape {tuple(image.shape)}")
    if most_levels is not None:
        most_levels = check_whole("most_levels", most_levels, least=1)
    levels = [image]
    while max(levels[-1].shape[1:3]) > 1 and (most_levels is None or len(levels) < most_levels):
        levels.append(_halved(_halved(levels[-1], 1), 2))
    return levels


def _halved(image: Tensor, axis: int) -> Tensor:
    size = image.shape[axis]
    if size == 1:
        return image
    half = size // 2
    first, second = image.narrow(axis, 0, 2 * half).unflatten(axis, (half, 2)).unbind(axis + 1)
    if size % 2 == 0:
        return (first + second) / 2
    third = image.narrow(axis, 1, 2 * half).unflatten(axis, (half, 2)).select(axis + 1, 1)
    i = torch.arange(half, dtype=image.dtype, device=image.device).reshape(-1, *[1] * (image.dim() - axis - 1))
    return ((half - i) * first + half * second + (i + 1) * third) / size


@lru_cache(maxsize=256)
def _texture(sizes: tuple[int, ...]) -> Any:
    t = Texture()
    t.width, t.height, t.levels, t.texels, t.channels, t.per_image, t.wrap, t.nearest = sizes
    return t


class _LookUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, texels: Tensor, uv: Tensor, derivatives: Tensor | None, sizes: tuple[int, ...]) -> Tensor:
        texels, uv = texels.contiguous(), uv.contiguous()
        derivatives = uv.new_empty(0) if derivatives is None else derivatives.contiguous()
        result = torch.empty((*uv.shape[:-1], texels.shape[-1]), dtype=uv.dtype, device=uv.device)
        LOOK_UP[uv.dtype](uv.numel() // 2, _texture(sizes), uv, derivatives, texels, result, like=uv)
        ctx.save_for_backward(texels, uv, derivatives)
        ctx.sizes = sizes
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        texels, uv, derivatives = ctx.saved_tensors
        grad, t, samples = grads[0].contiguous(), _texture(ctx.sizes), uv.numel() // 2
        grad_texels = grad_uv = None
        if ctx.needs_input_grad[1]:
            grad_uv = torch.empty_like(uv)
            TO_UV[uv.dtype](samples, t, uv, derivatives, texels, grad, grad_uv, like=uv)
        if ctx.needs_input_grad[0]:
            sums = ExactSums(texels.shape[0] * texels.shape[1], texels.shape[2], 8 * samples, uv.device)
            rest = (uv, derivatives, grad, sums.count_bits, sums.bounds, sums.sums)
            for adding in (0, 1):
                TO_TEXELS[uv.dtype](samples, adding, t, *rest, like=uv)
            grad_texels = sums.read(tuple(texels.shape), texels.dtype)
        return grad_texels, grad_uv, None, None
