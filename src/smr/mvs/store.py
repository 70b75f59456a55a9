"""The files of dense depth: each is there whole or not at all, under a name with a hash of what it depends on."""

from __future__ import annotations

import logging
import zipfile
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import warp as wp
from jaxtyping import Float32

from ..atomic import atomic_path
from ..errors import SmrError
from .matcher import PlaneMap

log = logging.getLogger(__name__)
WAITING = 4
"""Maps that may wait to be written."""


def map_bytes(width: int, height: int) -> int:
    """Memory that the planes of a view take."""
    return 20 * width * height


class Store:
    """Maps of the stages, on disk and, the latest, on the device; they are written while the next are made."""

    def __init__(self, folder: Path, key: str, device: str, limit: int, *, written: bool = True) -> None:
        self.folder, self.key, self.device = folder, key, device
        self.written = written
        """Whether maps of the stages go to disk; where all fit on a GPU that would take longer than they do."""
        self.limit = limit
        """Bytes that stay on the device."""
        self._kept: OrderedDict[tuple[str, int], PlaneMap] = OrderedDict()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="smr-write")
        self._writing: deque[Future[None]] = deque()

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
        if (stage, frame) not in self._kept:
            self.finish()  # it may still wait to be written
            if not self._read(stage, frame):
                raise SmrError(
                    f"{self.path(stage, frame)} was written and is gone.", "Leave the folder alone and run again."
                )
        self._kept.move_to_end((stage, frame))
        return self._kept[stage, frame]

    def put(self, stage: str, frame: int, found: PlaneMap) -> None:
        """Keep the map of a stage.

        Raises:
            SmrError: This map, or one before it, cannot be written.
        """
        self._remember(stage, frame, found)
        if not self.written:
            return
        arrays = {"planes": found.planes.numpy(), "costs": found.costs.numpy()}
        arrays |= {"chosen": found.chosen.numpy().astype(np.uint8), "size": np.array(found.size)}
        self._write(lambda: _write_archive(self.path(stage, frame), arrays))

    def put_depth(self, frame: int, depth: Float32[np.ndarray, "h w"], weight: Float32[np.ndarray, "h w"]) -> None:
        """Write a depth map and its weights; the depth comes last, so that it never lacks its weights.

        Raises:
            SmrError: This map, or one before it, cannot be written.
        """
        depth_path, weight_path = self.depth_paths(frame)
        self._write(lambda: _write_arrays(((weight_path, weight), (depth_path, depth))))

    def finish(self) -> None:
        """Wait until all is written.

        Raises:
            SmrError: A map cannot be written.
        """
        while self._writing:
            self._writing.popleft().result()

    def _write(self, job: Callable[[], None]) -> None:
        while len(self._writing) >= WAITING:
            self._writing.popleft().result()
        self._writing.append(self._writer.submit(job))

    def forget(self, stages: tuple[str, ...]) -> None:
        """Remove the files of stages that are done with."""
        for stage in stages:
            for path in self.folder.glob(f"*-{stage}-{self.key}.npz"):
                path.unlink(missing_ok=True)

    def _read(self, stage: str, frame: int) -> bool:
        path = self.path(stage, frame)
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                values = [arrays[name] for name in ("planes", "costs", "chosen")]
                size = (int(arrays["size"][0]), int(arrays["size"][1]))
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
            log.warning("%s cannot be read (%s); it is made again.", path.name, error)
            return False
        dtypes = (wp.vec3, wp.float32, wp.int32)
        planes, costs, chosen = (wp.array(v, dtype=t, device=self.device) for v, t in zip(values, dtypes, strict=True))
        self._remember(stage, frame, PlaneMap(planes, costs, chosen, size))
        return True

    def _remember(self, stage: str, frame: int, found: PlaneMap) -> None:
        self._kept[stage, frame] = found
        self._kept.move_to_end((stage, frame))
        size = map_bytes(*found.size)
        while len(self._kept) > max(1, self.limit // max(size, 1)):
            self._kept.popitem(last=False)


def _write_archive(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def _write_arrays(files: tuple[tuple[Path, np.ndarray], ...]) -> None:
    for path, values in files:
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            np.save(file, values)
