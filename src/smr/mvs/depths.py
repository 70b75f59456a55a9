"""Dense depth for photos with cameras and poses, by PatchMatch stereo (ACMH, ACMM: Xu and Tao 2019)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import warp as wp

from ..config import MvsConfig
from ..errors import SmrError
from ..progress import Track, step, untracked
from ..records import Camera, Capture, DepthMap, Frame, Mesh
from ..run_folder import capture_fingerprint, fingerprint
from ..tsdf.volume import free_bytes
from .completion import complete, without_fringe, without_islands
from .consistency import confirm
from .effort import Effort, effort_of
from .geometry import make_level, make_sources, relative_geometry
from .matcher import Matcher, PlaneMap, joined
from .neighbours import Neighbourhood, SparsePoints, choose
from .photos import Photos, View, level_sizes, working_camera
from .silhouettes import before_dark, fill_in, hull_of
from .store import Store, map_bytes

log = logging.getLogger(__name__)
VERSION = 5
"""Counts changes of the method; maps of another are made again."""
ASKED = 8
"""Maps that may confirm a depth."""
MEMORY = {"cpu": 600 << 20, "cuda": 8 << 30}
"""Bytes for the photos on the device, and again for the maps; less where less is free."""


def estimate_depths(
    capture: Capture,
    config: MvsConfig,
    *,
    folder: Path,
    device: str,
    track: Track = untracked,
    points: SparsePoints | None = None,
    seed: int = 0,
) -> Capture:
    """Find a depth map for each photo.

    Args:
        capture: Photos with cameras (of any lens) and poses; photos without a pose are passed over, and those that
            cannot be decoded, with a warning.
        config: Quality, or sizes and numbers one by one.
        folder: Where depth maps, weights, and the maps of finished steps are written. A map that is there and depends
            on the same photos, cameras, points and settings is not made again.
        device: A Warp device.
        track: Progress.
        points: What structure from motion triangulated; tells which photos share a view, and how deep it is.
        seed: Start of the random numbers.

    Returns:
        The capture; each frame whose photo could be matched has a depth map, with a weight for each pixel in
        `confidence`.

    Raises:
        SmrError: There are fewer than two photos with a pose, no two of them see the same, more than half of
            them cannot be decoded, a setting means nothing, or the folder cannot be written.
    """
    effort = effort_of(config)
    views = usable_views(capture, effort)
    key = fingerprint(capture_fingerprint(capture), effort, config, points, device.split(":")[0], seed, VERSION)
    limit = min(MEMORY[device.split(":")[0]], free_bytes(device) // 5)
    largest = max(map_bytes(view.camera.width, view.camera.height) for view in views)
    written = device == "cpu" or len(views) * largest * (effort.rounds + 1) > limit
    store = Store(folder, key, device, limit, written=written)
    if _missing(views, _around(capture, views, points), store):
        photos = Photos(device, limit, before_dark if config.background == "dark" else None)
        views = photos.load(views, track)
        around = _around(capture, views, points)
        todo = _missing(views, around, store)
        matcher = Matcher(views, around, effort, photos, seed=seed, device=device)
        run = _Run(matcher, store, config.agreeing or (1 if len(views) <= 3 else 2))
        if todo and config.hull:
            run.hull = hull_of(views, photos, device, track)
        if todo:
            run.go(todo, track)
        store.finish()
    store.forget(("coarse", *(f"fine{k}" for k in range(effort.rounds)), "whole"))
    return _with_depths(capture, views, store)


def _around(capture: Capture, views: Sequence[View], points: SparsePoints | None) -> list[Neighbourhood]:
    around = choose(views, ASKED, points) if len(views) > 1 else []
    if not any(one.sources for one in around):
        raise SmrError(
            f"No two photos of {capture.source} look at the same place from different places.",
            "Check the poses; photos for stereo need neighbours that show the same surface 5 to 15 degrees apart.",
        )
    return around


def _missing(views: Sequence[View], around: Sequence[Neighbourhood], store: Store) -> list[int]:
    """Views that can be matched and have no depth map yet."""
    return [i for i, one in enumerate(around) if one.sources and not store.depth_paths(views[i].frame)[0].is_file()]


def in_words(seconds: float) -> str:
    """A rough duration."""
    if seconds < 90:
        return f"about {max(5, 5 * round(seconds / 5))} s"
    return f"about {round(seconds / 60)} min"


def usable_views(capture: Capture, effort: Effort) -> list[View]:
    """The photos that have a pose, with the cameras of their depth maps.

    Raises:
        SmrError: There are fewer than two.
    """
    known: dict[Camera, Camera] = {}
    views = []
    for i, frame in enumerate(capture.frames):
        photo = frame.photo
        if photo is not None and photo.world_from_camera is not None:
            camera = working_camera(photo, effort.size, known)
            views.append(View(frame.name, i, photo, camera, photo.world_from_camera))
    if len(views) < 2:
        raise SmrError(
            f"{capture.source} has {len(views)} photo{'' if len(views) == 1 else 's'} with a pose; stereo needs two.",
            "Take more photos that overlap, or find the poses of those that are there.",
        )
    return views


class _Run:
    """The steps of a run, each with a map for each view."""

    def __init__(self, matcher: Matcher, store: Store, least: int) -> None:
        self.views, self.around, self.effort = matcher.views, matcher.around, matcher.effort
        self.matcher, self.store = matcher, store
        self.least = least
        """Maps that must confirm a depth."""
        self.hull: Mesh | None = None
        """Fills in what stereo does not find."""

    def go(self, todo: Sequence[int], track: Track) -> None:
        """Make the depth maps of some views, and what they need."""
        with step(track, "Preparing stereo"):
            expected = in_words(self.matcher.seconds(todo))
        log.info("Depth maps of %d photos will take %s.", len(todo), expected)
        for _ in track(self.work(todo), f"Depth from photos, {expected}", self.pieces(todo)):
            pass

    def pieces(self, todo: Sequence[int]) -> int:
        """Pieces of work that `work` yields."""
        middle = max(0, len(level_sizes(self.views[0].camera)) - 2)
        matching = 1 + 2 * self.effort.coarse + middle * 2 * self.effort.middle
        refining = self.effort.rounds * 2 * self.effort.fine
        return len(self.views) * (matching + refining + 1) + len(todo)

    def work(self, todo: Sequence[int]) -> Iterator[None]:
        """Do what is not done yet; yields after each piece."""
        matched = [i for i, one in enumerate(self.around) if one.sources]
        for i in matched:
            frame = self.views[i].frame
            if not self.store.has("coarse", frame):
                self.store.put("coarse", frame, (yield from self.matcher.match(i)))
        stage = "coarse"
        for k in range(self.effort.rounds):
            following = f"fine{k}"
            for i in matched:
                frame = self.views[i].frame
                if not self.store.has(following, frame):
                    maps = self._maps(stage, self.around[i].sources[: self.effort.sources])
                    found = yield from self.matcher.refine(i, self.store.get(stage, frame), maps)
                    self.store.put(following, frame, found)
            stage = following
        for i in matched:
            frame = self.views[i].frame
            if not self.store.has("whole", frame):
                self.store.put("whole", frame, self._completed(i, stage))
            yield
        for i in todo:
            self._finish(i, "whole")
            yield

    def _maps(self, stage: str, indices: Sequence[int]) -> dict[int, PlaneMap]:
        return {j: self.store.get(stage, self.views[j].frame) for j in indices}

    def _completed(self, i: int, stage: str) -> PlaneMap:
        """A map with planes from around where no other confirms it."""
        view, device = self.views[i], self.matcher.device
        depth, _ = self._confirmed(i, stage)
        found = self.store.get(stage, view.frame)
        pyramid = self.matcher.photos.pyramid(view)
        level = make_level(view.camera, 1, 0, self.around[i], 0.0, device)
        sure = wp.array(depth.ravel(), dtype=wp.float32, device=device)
        maps = (found.planes, found.costs)
        planes, costs = complete(level, pyramid.images[0], pyramid.masks[0], maps, sure, device)
        return PlaneMap(planes, costs, found.chosen, found.size)

    def _confirmed(self, i: int, stage: str) -> tuple[np.ndarray, np.ndarray]:
        """Depth and weight of what other maps confirm."""
        view, device = self.views[i], self.matcher.device
        indices = self.around[i].sources
        found = self.store.get(stage, view.frame)
        maps = list(self._maps(stage, indices).values())
        sizes = [one.size for one in maps]
        sources = [self.views[j] for j in indices]
        level = make_level(view.camera, 1, len(sources), self.around[i], 0.0, device)
        return confirm(
            level,
            make_sources(view, view.camera, sources, sizes, sizes, device),
            relative_geometry(view, sources),
            (found.planes, found.costs),
            (joined([m.planes for m in maps], wp.vec3, device), joined([m.costs for m in maps], wp.float32, device)),
            self.least,
            device,
        )

    def _finish(self, i: int, stage: str) -> None:
        view, device = self.views[i], self.matcher.device
        depth, weight = self._confirmed(i, stage)
        depth = np.where(without_islands(depth), depth, np.float32(0))
        pyramid = self.matcher.photos.pyramid(view)
        grey = pyramid.images[0].numpy().reshape(depth.shape).astype(np.float32)
        kept = without_fringe(depth, grey, device)
        depth, weight = np.where(kept, depth, np.float32(0)), np.where(kept, weight, np.float32(0))
        if self.hull is not None:
            shown = pyramid.masks[0].numpy().reshape(depth.shape) > 0
            depth, weight = fill_in(depth, weight, shown, self.hull, view, device)
        self.store.put_depth(view.frame, depth, weight)


def _with_depths(capture: Capture, views: Sequence[View], store: Store) -> Capture:
    frames: list[Frame] = list(capture.frames)
    for view in views:
        depth, weight = store.depth_paths(view.frame)
        if depth.is_file():
            found = DepthMap(depth, view.camera, view.world_from_camera, 1.0, confidence=weight, stereo=True)
            frames[view.frame] = replace(frames[view.frame], depth=found)
    return replace(capture, frames=tuple(frames))
