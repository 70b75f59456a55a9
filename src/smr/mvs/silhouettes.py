"""Which pixels show the object: what the user's masks say, or what is brighter than a dark backdrop."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Bool, Float32, UInt8
from PIL import Image
from scipy import ndimage

from ..errors import SmrError
from ..progress import Track, step
from ..records import Mesh
from ..render.rasterize import rasterize
from ..transforms import rigid_inverse, transform_points
from .hull import Silhouette, visual_hull
from .photos import Photos, View

log = logging.getLogger(__name__)
HULL_WEIGHT = 1.0 / 16.0
"""How much a depth of the hull counts: any that stereo found counts more."""
_BESIDE_HULL = 0.01
"""Stereo before the hull or behind it by more than this part is wrong."""
_SHADOW = 0.25
"""Where the bound between backdrop and object lies between their mean levels; low, lest shadows are cut out."""
_HOLE = 0.03
"""Dark spots up to this part of the object belong to it."""


def before_dark(grey: UInt8[np.ndarray, "h w"]) -> Bool[np.ndarray, "h w"]:
    """The object before a dark backdrop: the bright part by Otsu's bound (1979), lowered, without specks and spots."""
    levels = ndimage.uniform_filter(grey.astype(np.float32), 3)
    counts = np.bincount(levels.astype(np.uint8).ravel(), minlength=256).astype(float)
    below = np.cumsum(counts)
    sums = np.cumsum(counts * np.arange(256))
    with np.errstate(divide="ignore", invalid="ignore"):
        dark, bright = sums / below, (sums[-1] - sums) / (below[-1] - below)
        spread = below * (below[-1] - below) * (bright - dark) ** 2
    spread = np.where(np.isfinite(spread), spread, -1.0)
    best = int(spread.argmax())
    if spread[best] <= 0:  # one level
        return np.ones(grey.shape, dtype=bool)
    mask = levels > dark[best] + _SHADOW * (bright[best] - dark[best])
    mask = _without_small(mask, 0.02)
    return ~_without_small(~mask, _HOLE * mask.sum() / max((~mask).sum(), 1))


def _without_small(mask: Bool[np.ndarray, "h w"], share: float) -> Bool[np.ndarray, "h w"]:
    """The mask without pieces that are smaller than a share of it."""
    labels, count = ndimage.label(mask)
    if count == 0:
        return mask
    sizes = np.bincount(labels.ravel(), minlength=count + 1)
    large = sizes >= share * mask.sum()
    large[0] = False
    kept: np.ndarray = large[labels]
    return kept


def hull_of(views: Sequence[View], photos: Photos, device: str, track: Track) -> Mesh | None:
    """The visual hull of the views with masks; None where they are too few, or contradict each other."""

    def silhouettes() -> Iterator[Silhouette]:
        for view in views:
            shown = photos.mask(view)
            if shown is not None:
                size = (view.camera.width, view.camera.height)
                small = Image.fromarray(shown.astype(np.uint8)).resize(size, Image.Resampling.NEAREST)
                yield Silhouette(np.asarray(small) > 0, view.camera, view.world_from_camera)

    with step(track, "Reading masks"):
        found = list(silhouettes())
    if len(found) < max(2, len(views) // 2):
        return None
    try:
        return visual_hull(found, device=device, track=track)
    except SmrError as error:
        log.warning("The masks are not used as silhouettes. %s", error.cause)
        return None


def fill_in(
    depth: Float32[np.ndarray, "h w"],
    weight: Float32[np.ndarray, "h w"],
    shown: Bool[np.ndarray, "h w"],
    hull: Mesh,
    view: View,
    device: str,
) -> tuple[Float32[np.ndarray, "h w"], Float32[np.ndarray, "h w"]]:
    """A depth map without what lies outside the hull, and with the hull where there is nothing in the mask."""
    vertices = transform_points(rigid_inverse(view.world_from_camera), hull.vertices.astype(np.float64))
    front = rasterize(vertices, hull.faces, view.camera, device=device).depth
    ahead = np.maximum(vertices[:, 2:], 1e-3 * max(float(front.max(initial=0)), 1e-12))
    turned = rasterize(vertices / ahead**2, hull.faces, view.camera, device=device).depth  # the last is now the first
    with np.errstate(divide="ignore"):
        back = np.where(turned > 0, 1.0 / turned, 0.0)
    outside = (front <= 0) | (depth < (1 - _BESIDE_HULL) * front) | (depth > (1 + _BESIDE_HULL) * back)
    wrong = (depth > 0) & outside
    empty = ((depth <= 0) | wrong) & (front > 0) & shown
    depth = np.where(empty, front, np.where(wrong, np.float32(0), depth))
    weight = np.where(empty, np.float32(HULL_WEIGHT), np.where(wrong, np.float32(0), weight))
    return depth, weight
