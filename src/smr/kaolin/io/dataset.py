"""`kaolin.io.dataset`: data sets that keep what was computed once."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections import namedtuple
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

from ._cached_dataset import CachedDataset
from ._stored import load, save

__all__ = ["Cache", "CachedDataset", "CombinationDataset", "KaolinDataset", "KaolinDatasetItem", "ProcessedDataset"]

KaolinDatasetItem = namedtuple("KaolinDatasetItem", ["data", "attributes"])


def _get_hash(value: Any) -> str:
    """A short name for a value: of its text."""
    return hashlib.sha256(str(value).encode()).hexdigest()[:32]


class Cache:
    """Keeps what a function returns in files.

    Args:
        func: The function; what it returns must be numbers, text, tensors, meshes, or lists and dicts of them.
        cache_dir: The folder.
        cache_key: Name of the function's folder in it.
    """

    def __init__(self, func: Callable[..., Any], cache_dir: str | os.PathLike[str], cache_key: str) -> None:
        self.func = func
        self.cache_dir = Path(cache_dir) / str(cache_key)
        self.cache_dir.mkdir(parents=True, exist_ok=True)

    @property
    def cached_ids(self) -> list[str]:
        """What is kept."""
        return sorted(path.stem for path in self.cache_dir.glob("*.pt"))

    def _path(self, unique_id: str) -> Path:
        name = str(unique_id)
        safe = name if name.replace("_", "").replace("-", "").isalnum() and len(name) < 100 else _get_hash(name)
        return self.cache_dir / f"{safe}.pt"

    def try_get(self, unique_id: str) -> Any:
        """What is kept under a name, or None."""
        path = self._path(unique_id)
        return load(path) if path.exists() else None

    def __call__(self, unique_id: str, *args: Any, **kwargs: Any) -> Any:
        """What is kept under a name; computed from the arguments where nothing is."""
        path = self._path(unique_id)
        if not path.exists():
            with torch.no_grad():
                save(self.func(*args, **kwargs), path)
        return load(path)


class KaolinDataset(Dataset[Any], ABC):
    """A data set of items with data and attributes."""

    def __getitem__(self, index: int) -> Any:
        """Data and attributes."""
        return KaolinDatasetItem(data=self.get_data(index), attributes=self.get_attributes(index))

    @abstractmethod
    def get_data(self, index: int) -> Any:
        """The data of an item."""

    @abstractmethod
    def get_attributes(self, index: int) -> Any:
        """The attributes of an item."""

    @abstractmethod
    def __len__(self) -> int: ...

    def get_cache_key(self, index: int) -> str:
        """A name of an item among files."""
        return str(index)


def _data_of(dataset: Any, index: int) -> Any:
    return dataset.get_data(index) if hasattr(dataset, "get_data") else dataset[index]


def _attributes_of(dataset: Any, index: int) -> Any:
    return dataset.get_attributes(index) if hasattr(dataset, "get_attributes") else {}


def _key_of(dataset: Any, index: int) -> str:
    return str(dataset.get_cache_key(index)) if hasattr(dataset, "get_cache_key") else str(index)


def _preprocess_task(args: tuple[int, Any, Cache]) -> None:
    """Compute one item of a data set where it is not kept."""
    index, dataset, cache = args
    if cache.try_get(_key_of(dataset, index)) is None:
        cache(_key_of(dataset, index), _data_of(dataset, index))


class ProcessedDataset(KaolinDataset):
    """A data set whose data go through a function once, and are kept.

    Args:
        dataset: The data set.
        preprocessing_transform: The function.
        cache_dir: Folder for what it returns; None computes it whenever it is asked for.
        num_workers: How many items are computed at a time, in threads.
        transform: Goes over an item each time it is asked for.
        no_progress: Nothing is shown either way.
    """

    def __init__(
        self,
        dataset: Any,
        preprocessing_transform: Callable[[Any], Any] | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        num_workers: int | None = None,
        transform: Callable[[Any], Any] | None = None,
        no_progress: bool = False,
    ) -> None:
        self.dataset, self.transform = dataset, transform
        self.preprocessing_transform = preprocessing_transform
        self.cache: Cache | None = None
        if preprocessing_transform is not None and cache_dir is not None:
            self.cache = Cache(preprocessing_transform, cache_dir, _get_hash(type(preprocessing_transform)))
            tasks = [(index, dataset, self.cache) for index in range(len(dataset))]
            with ThreadPoolExecutor(max(num_workers or 1, 1)) as pool:
                list(pool.map(_preprocess_task, tasks))

    def __len__(self) -> int:
        return len(self.dataset)

    def get_data(self, index: int) -> Any:
        """The processed data of an item."""
        if self.cache is not None:
            data = self.cache(_key_of(self.dataset, index), *self._missing(index))
        else:
            data = _data_of(self.dataset, index)
            data = data if self.preprocessing_transform is None else self.preprocessing_transform(data)
        return data if self.transform is None else self.transform(data)

    def _missing(self, index: int) -> list[Any]:
        """The data of an item whose file was taken away."""
        assert self.cache is not None
        key = _key_of(self.dataset, index)
        return [] if self.cache.try_get(key) is not None else [_data_of(self.dataset, index)]

    def get_attributes(self, index: int) -> Any:
        """The attributes of an item."""
        return _attributes_of(self.dataset, index)

    def get_cache_key(self, index: int) -> str:
        """A name of an item among files."""
        return _key_of(self.dataset, index)


class CombinationDataset(KaolinDataset):
    """Several data sets of one length side by side: an item is a tuple of their items.

    Args:
        datasets: The data sets.

    Raises:
        ValueError: Their lengths differ.
    """

    def __init__(self, datasets: Sequence[Any]) -> None:
        lengths = {len(dataset) for dataset in datasets}
        if len(lengths) != 1:
            raise ValueError(f"data sets side by side must have one length, not {sorted(lengths)}")
        self.datasets = list(datasets)

    def __len__(self) -> int:
        return len(self.datasets[0])

    def get_data(self, index: int) -> Any:
        """The data of all."""
        return tuple(_data_of(dataset, index) for dataset in self.datasets)

    def get_attributes(self, index: int) -> Any:
        """The attributes of all."""
        return tuple(_attributes_of(dataset, index) for dataset in self.datasets)

    def get_cache_key(self, index: int) -> str:
        """A name of an item among files."""
        return "-".join(_key_of(dataset, index) for dataset in self.datasets)
