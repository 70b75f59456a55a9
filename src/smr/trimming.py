"""Between the raw surface and the clean one: what no view shows goes.

Fusion closes its band behind depth edges and between measurements that disagree, which leaves a crust that no camera
ever saw; and stereo leaves pieces afloat that few photos stand behind.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int32

from .config import TrimConfig
from .errors import SmrError
from .mesh.repair import keep_faces
from .mesh.topology import connected_components
from .progress import Track, untracked
from .records import Capture, Mesh
from .support import support

_ROUNDS = 3
"""Of the vote among neighbours, which closes pinholes and drops specks."""
_FEW_MAPS = 3
"""Up to so many maps of stereo, one other photo confirms a depth, and the surface's edges are in one map alone."""
_LARGE = 0.25
"""A piece with this part of the largest piece's faces is a part of the scene, however few see it."""


@dataclass(frozen=True)
class TrimReport:
    """What `trim` dropped."""

    views: int
    """Views that had to show a place; 0 where nothing was looked at."""
    unseen_faces: int = 0
    """Faces that fewer views show."""
    weak_pieces: int = 0
    """Pieces apart that far fewer views show than the largest piece."""
    weak_faces: int = 0
    """Their faces."""


def trim(
    mesh: Mesh,
    capture: Capture,
    config: TrimConfig,
    *,
    voxel_size: float,
    device: str,
    track: Track = untracked,
) -> tuple[Mesh, TrimReport]:
    """Drop the faces of a raw surface that no view shows, and of stereo also pieces that hardly any photo shows.

    A view shows a vertex that faces it, that its depth map has there (within 1 % of the depth and a voxel), and that
    no other layer hides. What a vertex's neighbours are counts too, so that no pinholes open in a seen surface.

    Args:
        mesh: What extraction made, with vertices less than a voxel apart.
        capture: The depth maps that it was made of.
        config: How many views it takes.
        voxel_size: Of the fusion, metres.
        device: A Warp device.
        track: Progress.

    Raises:
        SmrError: A setting means nothing, nothing would be left, or more than half of the maps cannot be decoded.
    """
    check_settings(config)
    maps = [f.depth for f in capture.frames if f.depth is not None and f.depth.world_from_camera is not None]
    stereo = any(depth.stereo for depth in maps)
    views = _views(config, len(maps), stereo)
    if not views:
        return mesh, TrimReport(0)
    counts = support(
        mesh, capture, gap=voxel_size, enough=None if stereo else views, name="looking who sees the surface",
        device=device, track=track,
    )  # fmt: skip
    keep = _shown(mesh.faces, counts >= views)
    if not keep.any():
        raise SmrError(
            f"No part of the surface is shown by {views} depth maps.",
            "Give a smaller --min-views (0 keeps everything), and check the poses with `smr inspect`.",
        )
    unseen = int((~keep).sum())
    if not stereo or config.min_share == 0:
        return keep_faces(mesh, keep), TrimReport(views, unseen)
    weak, pieces = _weak(mesh, keep, counts, config.min_share)
    return keep_faces(mesh, keep & ~weak), TrimReport(views, unseen, pieces, int(weak.sum()))


def check_settings(config: TrimConfig) -> None:
    """Refuse settings that mean nothing.

    Raises:
        SmrError: Names the option and its value.
    """
    if config.min_views is not None and config.min_views < 0:
        raise SmrError(f"--min-views is {config.min_views}.", "Give 0 to keep everything, or a number of views.")
    if not 0 <= config.min_share <= 1:
        raise SmrError(f"--min-share is {config.min_share:g}.", "Give a share from 0 to 1; 0 turns the step off.")


def _views(config: TrimConfig, maps: int, stereo: bool) -> int:
    if config.min_views is not None:
        return config.min_views
    return 2 if stereo and maps > _FEW_MAPS else 1


def _shown(faces: Int32[np.ndarray, "F 3"], shown: Bool[np.ndarray, " V"]) -> Bool[np.ndarray, " F"]:
    """Faces of which two corners are shown, after each vertex took on what most corners around it are."""
    corners = 3 * np.bincount(faces.ravel(), minlength=len(shown))
    for _ in range(_ROUNDS):
        votes = np.bincount(faces.ravel(), np.repeat(shown[faces].sum(axis=1), 3), len(shown))
        shown = 2 * votes > corners
    found: np.ndarray = shown[faces].sum(axis=1) >= 2
    return found


def _weak(
    mesh: Mesh, keep: Bool[np.ndarray, " F"], counts: Int32[np.ndarray, " V"], share: float
) -> tuple[Bool[np.ndarray, " F"], int]:
    """Faces of small pieces whose mean count is under `share` of the largest piece's, and the number of such pieces."""
    kept = np.flatnonzero(keep)
    pieces, labels = connected_components(Mesh(mesh.vertices, mesh.faces[kept]))
    sizes = np.bincount(labels, minlength=pieces)
    means = np.bincount(labels, counts[mesh.faces[kept]].mean(axis=1), pieces) / sizes
    few = (means < share * means[sizes.argmax()]) & (sizes < _LARGE * sizes.max())
    weak = np.zeros(len(keep), bool)
    weak[kept[few[labels]]] = True
    return weak, int(few.sum())
