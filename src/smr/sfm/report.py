"""What finding poses gave: a record that the run folder keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Float32, Int32, UInt8

from ..records import Camera, Finding, UpAxis

ScaleSource = Literal["known poses", "depth maps", "--scale-ref", "GPS", "arbitrary"]


@dataclass(frozen=True)
class LeftOut:
    """A photo that got no pose."""

    name: str
    reason: str


@dataclass(frozen=True)
class Points:
    """Points that were triangulated, and where photos see them."""

    positions: Float[np.ndarray, "N 3"]
    """World frame."""
    colors: UInt8[np.ndarray, "N 3"]
    error_px: Float32[np.ndarray, " N"]
    """Mean distance in the photos between the point and the features it was made from."""
    track_points: Int32[np.ndarray, " T"]
    """Index of the point of each observation."""
    track_frames: Int32[np.ndarray, " T"]
    """Index of the frame, in the capture that has only the photos with a pose."""
    track_xy: Float32[np.ndarray, "T 2"]
    """Pixels of the photo as taken; the first pixel's centre is (0.5, 0.5)."""

    def seen(self, frames: int) -> tuple[Int32[np.ndarray, " _"], ...]:
        """For each frame the indices of the points that it sees."""
        order = np.argsort(self.track_frames, kind="stable")
        edges = np.searchsorted(self.track_frames[order], np.arange(frames + 1))
        return tuple(self.track_points[order[edges[i] : edges[i + 1]]] for i in range(frames))


@dataclass(frozen=True)
class SfmReport:
    """Poses, cameras and points of the photos that could be registered, and how they were found."""

    photos: int
    """Photos that were given."""
    kept: tuple[int, ...]
    """Indices of the frames that have a pose, in the capture that was given."""
    left_out: tuple[LeftOut, ...]
    poses: Float[np.ndarray, "K 4 4"]
    """world_from_camera of the kept frames."""
    cameras: tuple[Camera, ...]
    """Of the kept frames."""
    points: Points
    known_poses: bool
    """The poses were given and are unchanged; only points were found."""
    matching: str
    """exhaustive, sequential, retrieval or poses."""
    pairs: int
    """Pairs of photos that were compared."""
    verified: int
    """Pairs that were found to show the same scene."""
    attempts: tuple[str, ...]
    """What was tried; the last one is used."""
    reprojection_px: float
    """Mean reprojection error."""
    track_length: float
    """Photos that see a point, on average."""
    scale: ScaleSource
    """What says how long a metre is."""
    scale_words: str
    """The same in a sentence."""
    world_up: UpAxis | None
    """`z` where the world was turned upright here; None where the capture's own world is kept."""
    findings: tuple[Finding, ...]

    @property
    def metric(self) -> bool:
        """Whether lengths are metres."""
        return self.scale != "arbitrary"

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; poses and points stay in the run folder."""
        left = ("poses", "cameras", "points", "kept", "left_out", "findings")
        plain = {name: value for name, value in vars(self).items() if name not in left}
        focal = [camera.fx for camera in self.cameras]
        return {
            **plain,
            "registered": len(self.kept),
            "left_out": [vars(photo) for photo in self.left_out],
            "points": len(self.points.positions),
            "focal_px": [float(f"{f:.2f}") for f in sorted(set(focal))][:8],
        }


SFM_RECORDS = (SfmReport, Points, LeftOut, Camera, Finding)
"""Every dataclass that occurs in a report."""
