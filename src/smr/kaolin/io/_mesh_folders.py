"""What the data sets of mesh files have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...errors import SmrError
from .dataset import KaolinDataset, KaolinDatasetItem


def existing_folder(root: Any, what: str) -> Path:
    """A data set's folder.

    Raises:
        SmrError: It is not there.
    """
    path = Path(root)
    if not path.is_dir():
        raise SmrError(f"{path} is no folder with {what}.", "Check the path.")
    return path


class MeshFolders(KaolinDataset):
    """Items are meshes with attributes: KaolinDatasetItem, or dicts where `output_dict` is set."""

    paths: list[Path]
    names: list[str]
    transform: Callable[[Any], Any] | None
    output_dict: bool

    @abstractmethod
    def get_data(self, index: int) -> Any:
        """The mesh of an item."""

    @abstractmethod
    def get_attributes(self, index: int) -> dict[str, Any]:
        """The attributes of an item."""

    def __len__(self) -> int:
        return len(self.paths)

    def get_cache_key(self, index: int) -> str:
        """A name of an item among files."""
        return self.names[index].replace("/", "_")

    def __getitem__(self, index: int) -> Any:
        """Data and attributes, through the transform."""
        index = range(len(self))[index]
        data, attributes = self.get_data(index), self.get_attributes(index)
        item: Any = {"mesh": data, **attributes} if self.output_dict else KaolinDatasetItem(data, attributes)
        return item if self.transform is None else self.transform(item)
