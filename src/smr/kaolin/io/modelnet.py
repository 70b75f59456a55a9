"""`kaolin.io.modelnet`: ModelNet10 and ModelNet40."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from . import off
from ._mesh_folders import MeshFolders, existing_folder


class ModelNet(MeshFolders):
    """Meshes of ModelNet: `root/<category>/<split>/*.off`.

    Args:
        root: The folder.
        categories: Categories; None: all.
        split: "train" or "test".
        transform: Goes over an item each time it is asked for.
        output_dict: Items are dicts with "mesh", "name", "path" and "label"; else KaolinDatasetItem.

    Raises:
        ValueError: There is no such split, or no such category.
        SmrError: The folder is not there.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        categories: Sequence[str] | None = None,
        split: str = "train",
        transform: Callable[[Any], Any] | None = None,
        output_dict: bool = False,
    ) -> None:
        if split not in ("train", "test"):
            raise ValueError(f"split must be 'train' or 'test', not {split!r}")
        self.root, self.transform, self.output_dict = existing_folder(root, "ModelNet"), transform, output_dict
        known = sorted(path.name for path in self.root.iterdir() if path.is_dir())
        for name in categories or ():
            if name not in known:
                raise ValueError(f"there is no category {name!r} in {self.root}; there are {', '.join(known)}")
        self.paths, self.names, self.labels = [], [], []
        for label in known if categories is None else categories:
            for path in sorted((self.root / label / split).glob("*.off")):
                self.paths.append(path)
                self.names.append(f"{label}/{path.stem}")
                self.labels.append(label)

    def get_data(self, index: int) -> off.return_type:
        """The mesh of an item; see `io.off.import_mesh`."""
        return off.import_mesh(self.paths[index], with_face_colors=True)

    def get_attributes(self, index: int) -> dict[str, Any]:
        """Name, path and label of an item."""
        return {"name": self.names[index], "path": self.paths[index], "label": self.labels[index]}
