"""Quantities of vertices or corners at what each pixel sees."""

from __future__ import annotations

from typing import Any, no_type_check

import torch
import warp as wp
from jaxtyping import Float, Int
from torch import Tensor

from ..exact_sums import ExactSums, contribute
from ..launches import launchers
from ..tensors import check_same_device, use_warp
from .fragments import Fragments, check_batch, check_faces, check_fragments, check_size

_RUN: Any = wp.constant(8)


def interpolate(
    attributes: Float[Tensor, "..."], fragments: Fragments, faces: Int[Tensor, "*meshes F 3"]
) -> Float[Tensor, "B H W L C"]:
    """Interpolate attributes over the faces, perspective-correct.

    Args:
        attributes: Of vertices, (V, C) or (B, V, C); or of faces' corners, (F, 3, C) or (B, F, 3, C), where
            neighbouring faces may differ (texture coordinates at seams). Any number of channels; a batch of 1 is
            shared. Where V is 3 and B is F, three axes are taken as those of vertices.
        fragments: What `rasterize` found.
        faces: The faces that it was given.

    Returns:
        (B, H, W, L, C); 0 where there is no face, NaN where a face or an index is out of range. Gradients reach the
        attributes (the same bits every time) and, through `fragments.bary_coords`, vertices and camera.

    Raises:
        TypeError, ValueError: Types, shapes or devices do not fit.
    """
    shape = check_fragments(fragments, attributes=attributes, faces=faces)
    rows, per_image = check_faces(faces, shape[0])
    attributes, of_corners = _with_batch(attributes, abs(per_image), shape[0])
    check_same_device(attributes=attributes, faces=faces)
    if attributes.dtype != fragments.bary_coords.dtype:
        raise TypeError(f"attributes are {attributes.dtype} and fragments {fragments.bary_coords.dtype}")
    channels = attributes.shape[-1]
    check_size("the result", fragments.pix_to_face.numel() * max(channels, 3))
    layout = _Layout(rows, per_image, attributes.shape[1], attributes.shape[0] > 1, of_corners, shape)
    if use_warp():
        result: Tensor = _Interpolate.apply(attributes, fragments.bary_coords, fragments.pix_to_face, layout)
        return result
    return _with_torch(attributes, fragments, layout)


def _with_batch(attributes: Tensor, faces: int, batch: int) -> tuple[Tensor, bool]:
    """Attributes as (B or 1, rows, C), and whether they are those of corners."""
    if not isinstance(attributes, Tensor):
        raise TypeError(f"attributes must be a torch tensor, not {type(attributes).__name__}")
    corners = attributes.dim() == 4 or (
        # (B, V, C) and (F, 3, C) look alike where V is 3: then the number of faces decides
        attributes.dim() == 3 and attributes.shape[:2] == (faces, 3) and attributes.shape[0] not in (1, batch)
    )
    if not corners:
        return check_batch("attributes", attributes, (None, None), batch), False
    attributes = check_batch("attributes", attributes, (faces, 3, None), batch)
    return attributes.flatten(1, 2), True


class _Layout:
    """How a fragment leads to three rows of the attributes."""

    def __init__(
        self, rows: Tensor, per_image: int, count: int, own: bool, of_corners: bool, shape: tuple[int, ...]
    ) -> None:
        self.rows = rows
        self.per_image = per_image
        self.count = count
        self.stride = count if own else 0
        self.of_corners = int(of_corners)
        self.shape = shape
        self.per_pixels = shape[1] * shape[2] * shape[3]

    @property
    def arguments(self) -> tuple[Any, ...]:
        """For the kernels."""
        return (self.rows, self.per_image, self.count, self.stride, self.of_corners, self.per_pixels)


@wp.func
@no_type_check
def _rows(
    faces: wp.array(dtype=wp.vec3i),
    per_image: int,
    count: int,
    stride: int,
    of_corners: int,
    per_pixels: int,
    fragment: int,
    face: int,
):
    """Rows of the attributes of a fragment's corners; negative where one is out of range."""
    image = fragment / per_pixels
    per = wp.abs(per_image)
    if face >= per:
        return wp.vec3i(-1, -1, -1)
    first = image * stride
    if of_corners != 0:
        return wp.vec3i(first + 3 * face, first + 3 * face + 1, first + 3 * face + 2)
    row = face
    if per_image < 0:
        row += image * per
    corners = faces[row]
    for k in range(3):
        if corners[k] < 0 or corners[k] >= count:
            return wp.vec3i(-1, -1, -1)
    return wp.vec3i(first + corners[0], first + corners[1], first + corners[2])


@wp.kernel(enable_backward=False)
@no_type_check
def _forward(
    base: int,
    faces: wp.array(dtype=wp.vec3i),
    per_image: int,
    count: int,
    stride: int,
    of_corners: int,
    per_pixels: int,
    pix_to_face: wp.array(dtype=wp.int64),
    bary: wp.array(dtype=Any),
    attributes: wp.array(dtype=Any),
    channels: int,
    result: wp.array(dtype=Any),
):
    fragment = base + wp.tid()
    face = wp.int32(pix_to_face[fragment])
    out = fragment * channels
    value = type(attributes[0])(0.0)
    if face < 0:
        for c in range(channels):
            result[out + c] = value
        return
    rows = _rows(faces, per_image, count, stride, of_corners, per_pixels, fragment, face)
    if rows[0] < 0:
        for c in range(channels):
            result[out + c] = type(value)(wp.nan)
        return
    w = bary[fragment]
    for c in range(channels):
        result[out + c] = (
            w[0] * attributes[rows[0] * channels + c]
            + w[1] * attributes[rows[1] * channels + c]
            + w[2] * attributes[rows[2] * channels + c]
        )


@wp.kernel(enable_backward=False)
@no_type_check
def _to_bary(
    base: int,
    faces: wp.array(dtype=wp.vec3i),
    per_image: int,
    count: int,
    stride: int,
    of_corners: int,
    per_pixels: int,
    pix_to_face: wp.array(dtype=wp.int64),
    attributes: wp.array(dtype=Any),
    channels: int,
    grad: wp.array(dtype=Any),
    grad_bary: wp.array(dtype=Any),
):
    fragment = base + wp.tid()
    face = wp.int32(pix_to_face[fragment])
    a = type(grad[0])(0.0)
    b = type(grad[0])(0.0)
    c = type(grad[0])(0.0)
    if face >= 0:
        rows = _rows(faces, per_image, count, stride, of_corners, per_pixels, fragment, face)
        if rows[0] >= 0:
            for channel in range(channels):
                g = grad[fragment * channels + channel]
                a += g * attributes[rows[0] * channels + channel]
                b += g * attributes[rows[1] * channels + channel]
                c += g * attributes[rows[2] * channels + channel]
    grad_bary[fragment] = type(grad_bary[fragment])(a, b, c)


@wp.kernel(enable_backward=False)
@no_type_check
def _to_attributes(
    base: int,
    adding: int,
    faces: wp.array(dtype=wp.vec3i),
    per_image: int,
    count: int,
    stride: int,
    of_corners: int,
    per_pixels: int,
    pix_to_face: wp.array(dtype=wp.int64),
    bary: wp.array(dtype=Any),
    channels: int,
    grad: wp.array(dtype=Any),
    count_bits: int,
    bounds: wp.array(dtype=int),
    sums: wp.array(dtype=wp.int64),
):
    """A thread takes one channel of a run of fragments."""
    item = base + wp.tid()
    channel = item % channels
    begin = item / channels * _RUN
    held = wp.vec3i(-1, -1, -1)
    g0 = wp.float64(0.0)
    g1 = wp.float64(0.0)
    g2 = wp.float64(0.0)
    for fragment in range(begin, wp.min(begin + _RUN, pix_to_face.shape[0])):
        face = wp.int32(pix_to_face[fragment])
        if face >= 0:
            rows = _rows(faces, per_image, count, stride, of_corners, per_pixels, fragment, face)
            if rows[0] >= 0:
                if rows[0] != held[0] or rows[1] != held[1] or rows[2] != held[2]:
                    if held[0] >= 0:
                        contribute(adding, g0, held[0], channel, channels, count_bits, bounds, sums)
                        contribute(adding, g1, held[1], channel, channels, count_bits, bounds, sums)
                        contribute(adding, g2, held[2], channel, channels, count_bits, bounds, sums)
                    held = rows
                    g0 = wp.float64(0.0)
                    g1 = wp.float64(0.0)
                    g2 = wp.float64(0.0)
                g = wp.float64(grad[fragment * channels + channel])
                w = bary[fragment]
                g0 += g * wp.float64(w[0])
                g1 += g * wp.float64(w[1])
                g2 += g * wp.float64(w[2])
    if held[0] >= 0:
        contribute(adding, g0, held[0], channel, channels, count_bits, bounds, sums)
        contribute(adding, g1, held[1], channel, channels, count_bits, bounds, sums)
        contribute(adding, g2, held[2], channel, channels, count_bits, bounds, sums)


_FORWARD = launchers(_forward, scalars=("attributes", "result"), vectors=("bary",))
_TO_BARY = launchers(_to_bary, scalars=("attributes", "grad"), vectors=("grad_bary",))
_TO_ATTRIBUTES = launchers(_to_attributes, scalars=("grad",), vectors=("bary",), disjoint=False)


class _Interpolate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, attributes: Tensor, bary: Tensor, pix_to_face: Tensor, layout: _Layout) -> Tensor:
        attributes, bary, pix_to_face = attributes.contiguous(), bary.contiguous(), pix_to_face.contiguous()
        channels = attributes.shape[-1]
        result = torch.empty((*layout.shape, channels), dtype=attributes.dtype, device=attributes.device)
        if result.numel():
            arguments = (*layout.arguments, pix_to_face, bary, attributes, channels, result)
            _FORWARD[attributes.dtype](pix_to_face.numel(), *arguments, like=attributes)
        ctx.save_for_backward(attributes, bary, pix_to_face)
        ctx.layout = layout
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        attributes, bary, pix_to_face = ctx.saved_tensors
        layout, grad = ctx.layout, grads[0].contiguous()
        channels, dtype = attributes.shape[-1], attributes.dtype
        grad_attributes = grad_bary = None
        if ctx.needs_input_grad[1]:
            grad_bary = torch.empty_like(bary)
            arguments = (*layout.arguments, pix_to_face, attributes, channels, grad, grad_bary)
            _TO_BARY[dtype](pix_to_face.numel(), *arguments, like=grad)
        if ctx.needs_input_grad[0]:
            rows = attributes.shape[0] * attributes.shape[1]
            sums = ExactSums(rows, channels, 3 * pix_to_face.numel(), grad.device)
            rest = (pix_to_face, bary, channels, grad, sums.count_bits, sums.bounds, sums.sums)
            for adding in (0, 1):
                items = -(-pix_to_face.numel() // _RUN) * channels
                _TO_ATTRIBUTES[dtype](items, adding, *layout.arguments, *rest, like=grad)
            grad_attributes = sums.read(tuple(attributes.shape), dtype)
        return grad_attributes, grad_bary, None, None


def _with_torch(attributes: Tensor, fragments: Fragments, layout: _Layout) -> Tensor:
    batch = layout.shape[0]
    face = fragments.pix_to_face
    seen, per = face >= 0, abs(layout.per_image)
    fits = seen & (face < per)
    safe = torch.where(fits, face, 0)
    image = torch.arange(batch, device=face.device)[:, None, None, None]
    if per == 0 or layout.count == 0:
        return torch.where(seen[..., None], torch.nan, attributes.new_zeros(*layout.shape, attributes.shape[-1]))
    if layout.of_corners:
        rows = 3 * safe[..., None] + torch.arange(3, device=face.device)
    else:
        rows = layout.rows[safe + image * per if layout.per_image < 0 else safe].long()
    fits = fits & ((rows >= 0) & (rows < layout.count)).all(-1)
    rows = rows.clamp(0, layout.count - 1) + image[..., None] * layout.stride
    values = attributes.reshape(-1, attributes.shape[-1])[rows]
    weighted = (fragments.bary_coords[..., None] * values).sum(-2)
    return torch.where(fits[..., None], weighted, torch.where(seen, torch.nan, 0.0).to(weighted.dtype)[..., None])
