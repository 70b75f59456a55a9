"""The photos of a capture that can paint a surface: decoded ahead, kept if they are few."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, UInt8

from ..arrays import cpu_threads
from ..captures import Decoder, decode_usable
from ..errors import SmrError
from ..progress import Track
from ..records import Camera, Capture, Photo

_KEEP_BYTES = 400_000_000


@dataclass(frozen=True)
class Shot:
    """A decoded, undistorted photo."""

    pixels: UInt8[np.ndarray, "h w 3"]
    mask: Bool[np.ndarray, "h w"] | None
    """False where a pixel must not be used; None: all may."""
    camera: Camera
    """A pinhole camera."""


class Shots:
    """Photos that have a pose, in the capture's order."""

    def __init__(self, capture: Capture) -> None:
        self.photos: list[Photo] = [
            frame.photo
            for frame in capture.frames
            if frame.photo is not None and frame.photo.world_from_camera is not None
        ]
        if not self.photos:
            raise SmrError(
                f"{capture.source} has no photo with a pose ({len(capture.frames)} frames), so there is nothing to "
                "paint the surface with.",
                "Give a capture whose photos have camera poses, or leave the texture out.",
            )
        self.poses = np.array([photo.world_from_camera for photo in self.photos], np.float64)
        self._decoder = Decoder()
        self._kept: dict[int, Shot] = {}
        pixels = sum(photo.camera.width * photo.camera.height for photo in self.photos)
        self._keep = 3 * pixels <= _KEEP_BYTES

    def __len__(self) -> int:
        return len(self.photos)

    def decode(self, wanted: Sequence[int], track: Track, label: str) -> Iterator[tuple[int, Shot]]:
        """Yield `(index, shot)` of the wanted photos in order; a damaged one is left out with a warning."""
        ahead = decode_usable(wanted, self._decode, threads=cpu_threads(), lookahead=min(8, 2 * cpu_threads()))
        yield from track(ahead, label, len(wanted))

    def _decode(self, index: int) -> Shot:
        if index in self._kept:
            return self._kept[index]
        photo = self.photos[index]
        pixels, camera = self._decoder.photo(photo)
        shot = Shot(np.ascontiguousarray(pixels), self._decoder.mask(photo), camera)
        if self._keep:
            self._kept[index] = shot
        return shot


FINER_SHARE = 20.0
"""Percent of the surface whose photos may be finer than the texture."""


def ground_sampling_distance(
    points: Float[np.ndarray, "N 3"], normals: Float[np.ndarray, "N 3"], shots: Shots
) -> float | None:
    """The finest distance between pixels on a surface, metres; None where no photo faces it.

    One for the whole: a fifth of the surface has photos that are finer, the rest is stored finer than it was seen. The
    median would blur what was looked at from near, such as a table in a room. Occlusion is left out: a surface that is
    hidden from its nearest photo counts as slightly finer than it is seen.
    """
    best = np.full(len(points), np.inf)
    for photo, pose in zip(shots.photos, shots.poses, strict=True):
        camera = photo.camera
        local = (points - pose[:3, 3]) @ pose[:3, :3]
        depth = local[:, 2]
        with np.errstate(divide="ignore", invalid="ignore"):
            x, y = camera.fx * local[:, 0] / depth + camera.cx, camera.fy * local[:, 1] / depth + camera.cy
            cosine = -((points - pose[:3, 3]) * normals).sum(1) / np.linalg.norm(local, axis=1)
            inside = (depth > 0) & (x > 0) & (x < camera.width) & (y > 0) & (y < camera.height) & (cosine > 0.25)
        best[inside] = np.minimum(best[inside], depth[inside] / (camera.fx * np.sqrt(cosine[inside])))
    seen = np.isfinite(best)
    return float(np.percentile(best[seen], FINER_SHARE)) if seen.any() else None
