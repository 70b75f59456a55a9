"""A data set of dicts whose fields are kept in memory or in files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

from ..utils.testing import contained_torch_equal
from ._stored import load, save


class CachedDataset(Dataset[Any]):
    """Items of a data set, which are dicts, computed once.

    Files are read without running code from them (`torch.load(weights_only=True)`): fields are numbers, text, tensors,
    paths, SurfaceMesh and materials, or lists, tuples and dicts of them.

    Args:
        dataset: The data set.
        cache_dir: Folder with a folder for each item and a file for each field.
        save_on_disk: Keep all fields in files (True), those named, or none; the others stay in memory.
        num_workers: How many items are computed at a time, in threads (Kaolin takes processes).
        force_overwrite: Compute again what is in files.
        cache_at_runtime: Compute an item when it is first asked for; else all at once now.
        progress_message: Nothing is shown.
        ignore_diff_error: Take files as they are, even if their first item is not the data set's.
        transform: Goes over an item each time it is asked for.

    Raises:
        RuntimeError: The folder has another number of items, and `force_overwrite` is False.
        AssertionError: A file of the first item holds another value, and `force_overwrite` is False.
        ValueError: The data set has no field of a name, or there is no folder for files.
    """

    def __init__(
        self,
        dataset: Any,
        cache_dir: str | os.PathLike[str] | None = None,
        save_on_disk: bool | Sequence[str] = False,
        num_workers: int = 0,
        force_overwrite: bool = False,
        cache_at_runtime: bool = False,
        progress_message: str | None = None,
        ignore_diff_error: bool = False,
        transform: Callable[[dict[str, Any]], Any] | None = None,
    ) -> None:
        if save_on_disk and cache_dir is None:
            raise ValueError("save_on_disk needs a cache_dir")
        self.dataset, self.transform = dataset, transform
        self._folder = None if cache_dir is None else Path(cache_dir).resolve()
        self._force = force_overwrite
        self._memory: dict[int, dict[str, Any]] = {}
        self._written: set[Path] = set()
        self._done: set[int] = set()
        self._saved: list[str] = []
        self._in_memory: list[str] = []
        if len(dataset):
            self._prepare(save_on_disk, ignore_diff_error)
        if not cache_at_runtime:
            self._compute_all(num_workers)

    def _prepare(self, save_on_disk: bool | Sequence[str], ignore_diff_error: bool) -> None:
        """Which fields go where, and whether files that are there fit."""
        first = self._compute(0)
        names = list(first)
        wanted = names if save_on_disk is True else list(save_on_disk or ())
        for name in wanted:
            if name not in first:
                raise ValueError(f"the dataset doesn't provide an output field '{name}'")
        self._saved, self._in_memory = wanted, [name for name in names if name not in wanted]
        if self._folder is None or not wanted:
            return
        known = [path for path in self._folder.iterdir() if path.name.isdigit()] if self._folder.is_dir() else []
        if known and len(known) != len(self.dataset):
            if not self._force:
                raise RuntimeError(
                    f"{len(known)} files already exist on {self._folder.as_posix()} this dataset as "
                    f"{len(self.dataset)} files so caching is too ambiguous and error-prone please force rewriting "
                    f"by setting 'force_overwrite'"
                )
            for path in known:
                shutil.rmtree(path)
        self._folder.mkdir(parents=True, exist_ok=True)
        for name in () if self._force or ignore_diff_error else wanted:
            path = self._path(0, name)
            if path.exists() and not contained_torch_equal(first[name], load(path)):
                raise AssertionError(
                    f"file '{path.as_posix()}' is different than its matching field from the input dataset, set "
                    f"'force_overwriting' to True to overwrite the files cached."
                )

    def _path(self, index: int, name: str) -> Path:
        assert self._folder is not None
        return self._folder / str(index) / f"{name}.pt"

    def _compute(self, index: int) -> dict[str, Any]:
        with torch.no_grad():
            item = self.dataset[index]
        if not isinstance(item, dict):
            raise TypeError(f"items of a cached data set must be dicts, not {type(item).__name__}")
        return item

    def _compute_all(self, num_workers: int) -> None:
        if num_workers > 1:
            with ThreadPoolExecutor(num_workers) as pool:
                futures = [pool.submit(self._keep, index) for index in range(len(self.dataset))]
                errors = [future.exception() for future in futures]
            failed = next((error for error in errors if error is not None), None)
            if failed is not None:
                self._clean()
                raise failed
            return
        for index in range(len(self.dataset)):
            self._keep_or_clean(index)

    def _keep_or_clean(self, index: int) -> None:
        try:
            self._keep(index)
        except BaseException:
            self._clean()
            raise

    def _keep(self, index: int) -> None:
        """Compute an item and keep its fields, unless all are kept."""
        if index in self._done:
            return
        missing = [name for name in self._saved if self._force or not self._path(index, name).exists()]
        if missing or self._in_memory:
            item = self._compute(index)
            for name in missing:
                path = self._path(index, name)
                save(item[name], path)
                self._written.add(path)
            self._memory[index] = {name: item[name] for name in self._in_memory}
        self._done.add(index)

    def _clean(self) -> None:
        """After a failure: no files of this data set, and no empty folders; files of other fields stay."""
        if self._folder is None:
            return
        doomed = set(self._written)
        if self._force:
            doomed |= {self._path(index, name) for index in range(len(self.dataset)) for name in self._saved}
        for path in doomed:
            path.unlink(missing_ok=True)
        for folder in {path.parent for path in doomed} | {self._folder}:
            with suppress(OSError):  # not empty, or not there
                folder.rmdir()
        with suppress(OSError):
            self._folder.rmdir()

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        """An item, through the transform."""
        index = range(len(self))[index]
        self._keep_or_clean(index)
        stored = {name: load(self._path(index, name)) for name in self._saved}
        item = {**stored, **self._memory.get(index, {})}
        return item if self.transform is None else self.transform(item)
