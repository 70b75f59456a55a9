"""Soft silhouettes in the sense of DIB-R: pixels that no face covers feel the faces nearby.

Chen et al., Learning to Predict 3D Objects with an Interpolation-based Differentiable Renderer, 2019, equations (5)
and (6). Faces, their bounds enlarged, are listed for each tile of the image that has a pixel without a face; a pixel
walks its tile's list in the order of the faces and stops after `knum`. Nothing is kept for each pixel and face:
backward walks the same pairs of tile and face again.
"""

from typing import Any, NamedTuple

import torch

from ..tensors import check_number, check_same_device, check_tensor, check_whole, launch, of_type, use_warp
from ._sorting import stable_order
from .face_samples import pixel_centres
from .soft_mask_kernels import TILE, count_tiles, feel, join, list_tiles, pull


class Hits(NamedTuple):
    """The faces that a pixel feels, in their order; each (B, height, width, knum)."""

    probability: torch.Tensor
    """exp(-sigmainv * squared distance); 0 where there is no further face."""
    face: torch.Tensor
    """int64; -1 where there is no further face."""
    nearest: torch.Tensor
    """uint8: which part is nearest: 1, 2, 3 the edges 01, 12, 20; 4, 5, 6 the corners; 0 where there is none."""


class _Pairs(NamedTuple):
    """Faces and the open tiles that their enlarged bounds touch."""

    tiles: torch.Tensor
    """(B F,) int32: how many tiles a face touches."""
    ends: torch.Tensor
    """(B F,) int64: where a face's pairs end."""
    slots: torch.Tensor
    """(N,) int32: the face of a pair, counted through the batch; ascending."""
    tile_of: torch.Tensor
    """(N,) int32: the tile of a pair, counted through the batch."""
    grid: tuple[int, int]
    """Tiles down and across an image."""


def _pairs(corners: torch.Tensor, background: torch.Tensor, boxlen: float | int) -> _Pairs:
    """Enlarged bounds and tiles of the image that have a pixel of the background (B, height, width)."""
    batch, height, width = background.shape
    tile = int(TILE)
    down, across = -(-height // tile), -(-width // tile)
    padded = torch.nn.functional.pad(background, (0, across * tile - width, 0, down * tile - height))
    is_open = padded.reshape(batch, down, tile, across, tile).any(4).any(2)
    tiles = torch.empty(len(corners), dtype=torch.int32, device=corners.device)
    given = [corners, is_open.contiguous(), len(corners) // batch, width, height, boxlen, tiles]
    launch(of_type(count_tiles, corners.dtype), len(corners), given, like=corners)
    ends = tiles.cumsum(0)
    total = int(ends[-1])  # the host waits here: the lists are as long as this
    if total >= 2**31:
        raise ValueError(
            f"{total} pairs of a face and a tile are too many; make boxlen ({boxlen}) or the batch smaller"
        )
    slots, tile_of = torch.empty((2, total), dtype=torch.int32, device=corners.device)
    launch(of_type(list_tiles, corners.dtype), len(corners), [*given, ends, slots, tile_of], like=corners)
    return _Pairs(tiles, ends, slots, tile_of, (down, across))


def _walk(
    corners: torch.Tensor,
    selected: torch.Tensor,
    pairs: _Pairs,
    settings: tuple[float, float, int],
    hits: list[torch.Tensor] | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What is left over (B, height, width) and the last face that counts; `hits` are filled where given."""
    sigmainv, boxlen, knum = settings
    batch = len(selected)
    down, across = pairs.grid
    count_of_tiles = batch * down * across
    order = stable_order(pairs.tile_of, count_of_tiles)
    numbers = torch.arange(count_of_tiles + 1, dtype=torch.int32, device=corners.device)
    start = torch.searchsorted(pairs.tile_of[order], numbers)
    left_over = corners.new_empty(selected.shape)
    last = torch.empty(selected.shape, dtype=torch.int32, device=corners.device)
    if hits is None:
        kinds = (corners.dtype, torch.int64, torch.uint8)
        hits = [torch.zeros((0, 0), dtype=kind, device=corners.device) for kind in kinds]
    inputs = [
        corners, selected.contiguous(), pairs.slots, order, start, down, across,
        len(corners) // batch, knum, sigmainv, boxlen, left_over, last, *hits,
    ]  # fmt: skip
    launch(of_type(feel, corners.dtype), count_of_tiles * int(TILE) ** 2, inputs, like=corners)
    return left_over, last


class _SoftMask(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, corners: torch.Tensor, selected: torch.Tensor, settings: tuple[float, float, int]
    ) -> torch.Tensor:
        pairs = _pairs(corners, selected < 0, settings[1])
        left_over, last = _walk(corners, selected, pairs, settings, None)
        ctx.save_for_backward(corners, left_over, last, *pairs[:4])
        ctx.rest = settings, pairs.grid
        return 1 - left_over

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        corners, left_over, last, tiles, ends, slots, tile_of = ctx.saved_tensors
        (sigmainv, boxlen, _), (down, across) = ctx.rest
        sums = corners.new_empty((len(slots), 6))
        out = torch.empty_like(corners)
        inputs = [
            corners, slots, tile_of, down, across, len(corners) // len(last), sigmainv,
            boxlen, left_over, last, grad.contiguous(), sums,
        ]  # fmt: skip
        launch(of_type(pull, grad.dtype), len(slots), inputs, like=grad)
        launch(of_type(join, grad.dtype), 6 * len(corners), [tiles, ends, sums, out], like=grad)
        return out, None, None


def _with_torch(
    corners: torch.Tensor, selected: torch.Tensor, settings: tuple[float, float, int]
) -> tuple[torch.Tensor, Hits]:
    """Plain torch: every face against every pixel, some faces at a time; differentiable."""
    sigmainv, boxlen, knum = settings
    batch, height, width = selected.shape
    points = pixel_centres(height, width, corners)[None, :, None]
    corners = corners.reshape(batch, len(corners) // max(batch, 1), 3, 2)
    background = (selected < 0).flatten(1)[..., None]
    left_over = background[..., 0].to(corners.dtype)
    number = torch.zeros_like(background, dtype=torch.int64)
    shape = (*left_over.shape, knum)
    hits = Hits(corners.new_zeros(shape), number.new_full(shape, -1), number.new_zeros(shape, dtype=torch.uint8))
    step = max(1, 2**21 // max(1, left_over.numel()))
    for begin in range(0, corners.shape[1], step):
        some = corners[:, None, begin : begin + step]
        near = (points >= some.amin(-2) - boxlen) & (points < some.amax(-2) + boxlen)
        place = number + near.all(-1).cumsum(2) * background
        felt = near.all(-1) & background & (place <= knum)
        number = number + (near.all(-1) & background).sum(2, keepdim=True)
        a, d = some, some.roll(-1, -2) - some
        length2 = (d * d).sum(-1)
        t = ((points[..., None, :] - a) * d).sum(-1) / torch.where(length2 > 0, length2, 1)
        t = t.clamp(0, 1)[..., None]
        distance, edge = (points[..., None, :] - (a + t * d)).square().sum(-1).min(-1)
        left_over = left_over * torch.where(felt, -torch.expm1(-sigmainv * distance), 1).prod(2)
        t = t[..., 0].gather(-1, edge[..., None])[..., 0]
        kind = torch.where(t == 0, edge + 4, torch.where(t == 1, (edge + 1) % 3 + 4, edge + 1))
        b, p, f = felt.nonzero(as_tuple=True)
        where = (b, p, place[b, p, f] - 1)
        hits.probability[where] = torch.exp(-sigmainv * distance.detach())[b, p, f]
        hits.face[where] = f + begin
        hits.nearest[where] = kind[b, p, f].to(torch.uint8)
    shape = (batch, height, width, knum)
    return 1 - left_over.reshape(batch, height, width), Hits(*(value.reshape(shape) for value in hits))


def _checked(
    face_vertices_image: torch.Tensor,
    selected_face_idx: torch.Tensor,
    sigmainv: float | int,
    boxlen: float | int,
    knum: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    check_tensor("face_vertices_image", face_vertices_image, (None, None, 3, 2))
    check_tensor("selected_face_idx", selected_face_idx, (len(face_vertices_image), None, None), (torch.int64,))
    check_same_device(face_vertices_image=face_vertices_image, selected_face_idx=selected_face_idx)
    sigmainv, boxlen = check_number("sigmainv", sigmainv), check_number("boxlen", boxlen)
    knum = check_whole("knum", knum, least=-1)
    if not sigmainv > 0 or not boxlen >= 0 or knum < 1:
        raise ValueError(f"sigmainv {sigmainv:g} and knum {knum} must be above 0, and boxlen {boxlen:g} not below 0")
    if selected_face_idx.numel() >= 2**31 - 2**24 or face_vertices_image.numel() >= 2**31:
        raise ValueError(f"{tuple(selected_face_idx.shape)} pixels or {tuple(face_vertices_image.shape)} are too many")
    return face_vertices_image.flatten(0, 1).flatten(1).contiguous(), selected_face_idx.contiguous()


def soft_mask(
    face_vertices_image: torch.Tensor,
    selected_face_idx: torch.Tensor,
    *,
    sigmainv: float | int = 7000.0,
    boxlen: float | int = 0.02,
    knum: int = 30,
) -> torch.Tensor:
    """Soft silhouette: 1 where a face is seen; near faces 1 - product of (1 - exp(-sigmainv * squared distance)).

    Args:
        face_vertices_image: (B, F, 3, 2) corners in -1..1, y up; receives deterministic gradients.
        selected_face_idx: (B, height, width) int64 from `screen_space.find_faces`; -1 where no face is seen.
        sigmainv: Sharpness; distances are in units of the image's half size.
        boxlen: How far the bounds of a face are enlarged; a pixel outside of them does not feel the face.
        knum: How many faces a pixel feels at most: as in Kaolin the first in the order of the faces, not the nearest;
            where far more are near, a larger number makes the halo smoother.

    Returns:
        (B, height, width) in 0..1.

    Raises:
        TypeError: A tensor's type is wrong.
        ValueError: Shapes, devices or settings do not fit.
    """
    corners, selected = _checked(face_vertices_image, selected_face_idx, sigmainv, boxlen, knum)
    settings = (float(sigmainv), float(boxlen), int(knum))
    if len(corners) == 0 or selected.numel() == 0:
        return (selected >= 0).to(corners.dtype) + 0 * corners.sum()
    if not use_warp():
        return _with_torch(corners, selected, settings)[0]
    result: torch.Tensor = _SoftMask.apply(corners, selected, settings)
    return result


@torch.no_grad()
def soft_mask_hits(
    face_vertices_image: torch.Tensor,
    selected_face_idx: torch.Tensor,
    *,
    sigmainv: float | int = 7000.0,
    boxlen: float | int = 0.02,
    knum: int = 30,
) -> tuple[torch.Tensor, Hits]:
    """`soft_mask` and the faces that each pixel felt: 13 (or 17) bytes for each pixel and `knum`.

    Arguments and errors are those of `soft_mask`.
    """
    corners, selected = _checked(face_vertices_image, selected_face_idx, sigmainv, boxlen, knum)
    settings = (float(sigmainv), float(boxlen), int(knum))
    if not use_warp() or len(corners) == 0 or selected.numel() == 0:
        return _with_torch(corners, selected, settings)
    shape = (selected.numel(), knum)
    hits = Hits(
        corners.new_zeros(shape),
        torch.full(shape, -1, dtype=torch.int64, device=corners.device),
        torch.zeros(shape, dtype=torch.uint8, device=corners.device),
    )
    left_over, _ = _walk(corners, selected, _pairs(corners, selected < 0, boxlen), settings, list(hits))
    return 1 - left_over, Hits(*(value.reshape(*selected.shape, knum) for value in hits))
