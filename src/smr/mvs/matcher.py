"""Planes for each view, from coarse to fine: first by likeness alone, then also by what the other maps say."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from ..arrays import launch_chunked
from ..transforms import rigid_inverse, transform_points
from .cost import pack, weigh
from .effort import Effort
from .geometry import make_level, make_sources
from .matching import enlarge, propagate, sweep
from .neighbours import Neighbourhood
from .photos import Photos, View, scaled

GEOMETRIC = 0.2
"""Cost of a pixel of forward-backward error (Xu and Tao 2019)."""
_MOST_DEPTHS, _FEWEST_DEPTHS = 192, 32


@dataclass(frozen=True)
class PlaneMap:
    """The planes of a view, as far as they have been found, on the device, row by row."""

    planes: Any
    """wp.array(vec3): 1 / z and its change per pixel right and down; 0 where there is none."""
    costs: Any
    """wp.array(float32)."""
    chosen: Any
    """wp.array(int32); bit s: source s was believed."""
    size: tuple[int, int]
    """Width and height."""


class Matcher:
    """Finds the planes of one view after the other."""

    def __init__(
        self,
        views: Sequence[View],
        around: Sequence[Neighbourhood],
        effort: Effort,
        photos: Photos,
        *,
        seed: int,
        device: str,
    ) -> None:
        self.views, self.around, self.effort, self.photos = views, around, effort, photos
        self.seed, self.device = seed, device

    def seconds(self, indices: Sequence[int]) -> float:
        """Time that matching these views will take, from a few steps of one of them at its coarsest level."""
        index = indices[len(indices) // 2]
        sizes = self.photos.pyramid(self.views[index]).sizes
        work = _Work(self, index, len(sizes) - 1, {})
        state = work.empty()
        launched = []
        for _ in range(2):  # the first time compiles
            wp.synchronize_device(self.device)
            start = time.perf_counter()
            for _ in work.sweep(state, 16):
                pass
            for _ in work.propagate(state, 1, 1.0):
                pass
            wp.synchronize_device(self.device)
            launched.append(time.perf_counter() - start)
        sources, side = work.level.sources, work.level.side
        trial = work.pixels * side**2 * (16 * sources + _tries(sources, 8, self.effort.coarse_changes))
        return len(indices) * self._samples(sizes, sources, work.depths()) * launched[1] / max(trial, 1)

    def _samples(self, sizes: Sequence[tuple[int, int]], sources: int, depths: int) -> float:
        """Samples of patches that one view takes."""
        effort, samples = self.effort, 0.0
        coarse = _tries(sources, 8, effort.coarse_changes)
        for at, (width, height) in enumerate(sizes):
            area = width * height * effort.side**2
            if at == len(sizes) - 1:
                samples += area * (depths * sources + effort.coarse * coarse)
            elif at > 0:
                samples += area * effort.middle * coarse
        fine = _tries(sources, effort.regions, effort.changes) * effort.fine * effort.rounds
        return samples + sizes[0][0] * sizes[0][1] * effort.fine_side**2 * fine

    def sources(self, index: int) -> list[View]:
        """The sources that a view is matched with."""
        return [self.views[j] for j in self.around[index].sources[: self.effort.sources]]

    def match(self, index: int) -> Generator[None, None, PlaneMap]:
        """Match a view by likeness alone, down to the level above the finest; yields after each piece of work."""
        sizes = self.photos.pyramid(self.views[index]).sizes
        last = min(1, len(sizes) - 1)
        state: PlaneMap | None = None
        for at in range(len(sizes) - 1, last - 1, -1):
            rounds = self.effort.coarse if state is None else self.effort.middle
            work = _Work(self, index, at, {})
            if state is None:
                state = work.empty()
                yield from work.sweep(state, work.depths())
            else:
                state = work.enlarge(state, at + 1)
            yield from work.propagate(state, rounds, 1.0)
        assert state is not None
        return state

    def refine(self, index: int, found: PlaneMap, maps: dict[int, PlaneMap]) -> Generator[None, None, PlaneMap]:
        """Match a view at the finest level, also by the maps of its sources (by index of view)."""
        work = _Work(self, index, 0, maps)
        if found.size != (work.camera.width, work.camera.height):
            state = work.enlarge(found, 1)
        else:  # the launches below change it
            state = PlaneMap(wp.clone(found.planes), wp.clone(found.costs), wp.clone(found.chosen), found.size)
        yield from work.propagate(state, self.effort.fine, 0.5)
        return state


def _tries(sources: int, regions: int, changes: int) -> float:
    """Patches that a pixel compares in an iteration; changes that cost too much are given up half way."""
    return sources * (regions + 1 + 0.5 * changes)


class _Work:
    """One view at one level: its arrays on the device, and the launches."""

    def __init__(self, matcher: Matcher, index: int, at: int, maps: dict[int, PlaneMap]) -> None:
        self.matcher, self.at, self.device = matcher, at, matcher.device
        self.view, self.around = matcher.views[index], matcher.around[index]
        self.pyramid = matcher.photos.pyramid(self.view)
        self.camera = scaled(self.view.camera, *self.pyramid.sizes[at])
        self.pixels = self.camera.width * self.camera.height
        sources = matcher.sources(index)
        pyramids = [matcher.photos.pyramid(source) for source in sources]
        sizes = [pyramid.sizes[min(at, len(pyramid.sizes) - 1)] for pyramid in pyramids]
        found = [maps[j] for j in self.around.sources[: len(sources)]] if maps else []
        map_sizes = [one.size for one in found] if maps else [(1, 1)] * len(sources)
        geometric = GEOMETRIC if maps else 0.0
        side = matcher.effort.side if at > 0 else matcher.effort.fine_side
        self.level = make_level(self.camera, side, len(sources), self.around, geometric, self.device)
        self.sources = make_sources(self.view, self.camera, sources, sizes, map_sizes, self.device)
        total = sum(width * height for width, height in sizes)
        images = self._array(total, wp.vec4)
        masks = self._array(total, wp.uint8)
        first = 0
        for pyramid, (width, height) in zip(pyramids, sizes, strict=True):
            place = pyramid.sizes.index((width, height))
            pack(pyramid.images[place], width, height, first, images, self.device)
            wp.copy(masks, pyramid.masks[place], dest_offset=first, count=width * height)
            first += width * height
        planes = joined([one.planes for one in found], wp.vec3, self.device)
        patches, contrasts = self._array(self.pixels * side * side, wp.vec2), self._array(self.pixels, wp.float32)
        weigh(self.level, self.pyramid.images[at], patches, contrasts, self.device)
        self.inputs = [self.level, self.sources, images, masks, planes]
        self.inputs += [patches, contrasts, self.pyramid.masks[at]]

    def _array(self, size: int, dtype: Any) -> wp.array:
        return wp.empty(size, dtype=dtype, device=self.device)

    def empty(self) -> PlaneMap:
        size = (self.camera.width, self.camera.height)
        planes, costs, chosen = (self._array(self.pixels, dtype) for dtype in (wp.vec3, wp.float32, wp.int32))
        return PlaneMap(planes, costs, chosen, size)

    def sweep(self, state: PlaneMap, depths: int) -> Iterator[None]:
        used = max(1, self.level.sources // 2)
        inputs = [*self.inputs, depths, used]
        outputs = [state.planes, state.costs, state.chosen]
        launch_chunked(sweep, self.pixels, inputs, outputs=outputs, device=self.device)
        yield

    def depths(self) -> int:
        """Depths such that the next one moves no source's pixel by much more than one."""
        near, far, camera = self.around.near, self.around.far, self.camera
        corner = np.array([[0.2, 0.2], [0.8, 0.2], [0.5, 0.5], [0.2, 0.8], [0.8, 0.8]])
        x = (corner * (camera.width, camera.height) - (camera.cx, camera.cy)) / (camera.fx, camera.fy)
        rays = np.concatenate([x, np.ones((len(x), 1))], axis=1)
        most = 0.0
        for j in self.around.sources[: self.level.sources]:
            other = self.matcher.views[j]
            relative = rigid_inverse(other.world_from_camera) @ self.view.world_from_camera
            ends = [transform_points(relative, rays * z) for z in (near, far)]
            a, b = (end[:, :2] / np.maximum(end[:, 2:], 0.1 * near) for end in ends)
            most = max(most, float(np.median(np.linalg.norm(a - b, axis=1))) * camera.fx)
        return int(np.clip(math.ceil(most), _FEWEST_DEPTHS, _MOST_DEPTHS))

    def enlarge(self, coarse: PlaneMap, above: int) -> PlaneMap:
        state = self.empty()
        width, height = self.pyramid.sizes[above]
        inputs = [coarse.planes, coarse.costs, coarse.chosen, self.pyramid.images[above], width, height]
        inputs += [self.pyramid.images[self.at], self.camera.width, self.camera.height]
        outputs = [state.planes, state.costs, state.chosen]
        launch_chunked(enlarge, self.pixels, inputs, outputs=outputs, device=self.device)
        return state

    def propagate(self, state: PlaneMap, rounds: int, reach: float) -> Iterator[None]:
        half = (self.camera.width + 1) // 2 * self.camera.height
        effort = self.matcher.effort
        regions, changes = (8, effort.coarse_changes) if self.at > 0 else (effort.regions, effort.changes)
        for iteration in range(rounds):
            for color in range(2):
                seed = (self.matcher.seed * 1000003 + self.view.frame * 4 + self.at) % 2**31
                inputs = [*self.inputs, color, regions, changes, reach * 0.6**iteration, iteration, seed]
                outputs = [state.planes, state.costs, state.chosen]
                launch_chunked(propagate, half, inputs, outputs=outputs, device=self.device)
                yield


def joined(arrays: Sequence[Any], dtype: Any, device: str) -> Any:
    """Arrays on the device, one after the other; at least one item long."""
    together = wp.empty(max(1, sum(array.shape[0] for array in arrays)), dtype=dtype, device=device)
    first = 0
    for array in arrays:
        wp.copy(together, array, dest_offset=first, count=array.shape[0])
        first += array.shape[0]
    return together
