"""`kaolin.io.shrec`: the meshes of the SHREC 2016 contest on ShapeNet."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...errors import SmrError
from ..rep.surface_mesh import SurfaceMesh
from . import obj
from ._mesh_folders import MeshFolders, existing_folder
from ._taxonomy import LABELS, synsets_of


class SHREC16(MeshFolders):
    """Meshes of SHREC 2016: `root/<split>_normal/` (or `root/<split>/`) with .obj files, and `root/<split>.csv`.

    The table has the columns `id` and `synsetId`; a split "test" needs none, and its items have no category.

    Args:
        root: The folder.
        categories: Synset numbers or names; None: all. Not for the split "test".
        split: "train", "val" or "test".
        transform: Goes over an item each time it is asked for.
        output_dict: Items are dicts with "mesh", "name", "path", "synset" and "labels"; else KaolinDatasetItem.

    Raises:
        ValueError: There is no such split, or no such category.
        SmrError: A folder or the table is not there.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        categories: Sequence[str] | None = None,
        split: str = "train",
        transform: Callable[[Any], Any] | None = None,
        output_dict: bool = False,
    ) -> None:
        if split not in ("train", "val", "test"):
            raise ValueError(f"split must be 'train', 'val' or 'test', not {split!r}")
        self.root, self.transform, self.output_dict = existing_folder(root, "SHREC 2016"), transform, output_dict
        wanted = set(synsets_of(categories))
        folders = [self.root / name for name in (f"{split}_normal", split) if (self.root / name).is_dir()]
        if not folders:
            raise SmrError(f"{self.root} has no folder {split}_normal.", "Unpack that part of SHREC 2016 there.")
        self.paths, self.names, self.synsets = [], [], []
        table = {} if split == "test" else self._read_table(split)
        for path in sorted(folders[0].rglob("*.obj")):
            name = path.stem.removeprefix("model_")
            synset = None if split == "test" else table.get(name)
            if split == "test" or synset in wanted:
                self.paths.append(path)
                self.names.append(name)
                self.synsets.append(synset)

    def _read_table(self, split: str) -> dict[str, str]:
        path: Path = self.root / f"{split}.csv"
        if not path.is_file():
            raise SmrError(f"{path} is not there: it says what the models of {split} are.", "Put it there.")
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file))
        if rows and not {"id", "synsetId"} <= set(rows[0]):
            raise SmrError(f"{path} has no columns id and synsetId.", "Take the table of SHREC 2016.")
        return {row["id"]: row["synsetId"].zfill(8) for row in rows}

    def get_data(self, index: int) -> SurfaceMesh:
        """The mesh of an item."""
        mesh = obj.import_mesh(self.paths[index], error_handler=obj.ignore_error_handler, triangulate=True)
        assert mesh is not None
        return mesh

    def get_attributes(self, index: int) -> dict[str, Any]:
        """Name, path, synset and labels of an item."""
        synset = self.synsets[index]
        return {
            "name": self.names[index],
            "path": self.paths[index],
            "synset": synset,
            "labels": None if synset is None else list(LABELS[synset]),
        }
