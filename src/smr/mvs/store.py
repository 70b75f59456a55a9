"""The files of dense depth: each is there whole or not at all, under a name with a hash of what it depends on."""

from __future__ import annotations

import logging
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from ..atomic import atomic_path
from .matcher import PlaneMap

log = logging.getLogger(__name__)


class Store:
    """Maps of the stages, on disk and, the latest, in memory."""

    def __init__(self, folder: Path, key: str, limit: int) -> None:
        self.folder, self.key = folder, key
        self.limit = limit
        """Bytes that stay in memory."""
        self._kept: OrderedDict[tuple[str, int], PlaneMap] = OrderedDict()

    def path(self, stage: str, frame: int) -> Path:
        """Where the planes of a stage are."""
        return self.folder / f"{frame:05d}-{stage}-{self.key}.npz"

    def depth_paths(self, frame: int) -> tuple[Path, Path]:
        """Where the depth map and its weights are."""
        return self.folder / f"{frame:05d}-{self.key}.depth.npy", self.folder / f"{frame:05d}-{self.key}.weight.npy"

    def has(self, stage: str, frame: int) -> bool:
        """Whether a stage's map is there and can be read."""
        return (stage, frame) in self._kept or (self.path(stage, frame).is_file() and self._read(stage, frame))

    def get(self, stage: str, frame: int) -> PlaneMap:
        """The map of a stage that was put."""
        if (stage, frame) not in self._kept and not self._read(stage, frame):
            raise FileNotFoundError(self.path(stage, frame))
        self._kept.move_to_end((stage, frame))
        return self._kept[stage, frame]

    def put(self, stage: str, frame: int, found: PlaneMap) -> None:
        """Keep the map of a stage."""
        with atomic_path(self.path(stage, frame)) as temporary, temporary.open("wb") as file:
            np.savez(file, planes=found.planes, costs=found.costs, chosen=found.chosen)
        self._remember(stage, frame, found)

    def put_depth(self, frame: int, depth: Float32[np.ndarray, "h w"], weight: Float32[np.ndarray, "h w"]) -> None:
        """Write a depth map and its weights; the depth comes last, so that it never lacks its weights."""
        depth_path, weight_path = self.depth_paths(frame)
        for path, values in ((weight_path, weight), (depth_path, depth)):
            with atomic_path(path) as temporary, temporary.open("wb") as file:
                np.save(file, values)

    def forget(self, stages: tuple[str, ...]) -> None:
        """Remove the files of stages that are done with."""
        for stage in stages:
            for path in self.folder.glob(f"*-{stage}-{self.key}.npz"):
                path.unlink(missing_ok=True)

    def _read(self, stage: str, frame: int) -> bool:
        path = self.path(stage, frame)
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                found = PlaneMap(arrays["planes"], arrays["costs"], arrays["chosen"])
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
            log.warning("%s cannot be read (%s); it is made again.", path.name, error)
            return False
        self._remember(stage, frame, found)
        return True

    def _remember(self, stage: str, frame: int, found: PlaneMap) -> None:
        self._kept[stage, frame] = found
        self._kept.move_to_end((stage, frame))
        size = found.planes.nbytes + found.costs.nbytes + found.chosen.nbytes
        while len(self._kept) > max(1, self.limit // max(size, 1)):
            self._kept.popitem(last=False)
