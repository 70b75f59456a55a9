"""`kaolin.io.shapenet`: ShapeNetCore, versions 1 and 2."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ..rep.surface_mesh import SurfaceMesh
from . import obj
from ._mesh_folders import MeshFolders, existing_folder
from ._taxonomy import LABELS, synsets_of

__all__ = ["ShapeNetV1", "ShapeNetV2"]


class _ShapeNet(MeshFolders):
    """What both versions are; see `ShapeNetV2`."""

    _file: ClassVar[str]

    def __init__(
        self,
        root: str | os.PathLike[str],
        categories: Sequence[str] | None = None,
        train: bool = True,
        split: float = 0.7,
        with_materials: bool = True,
        transform: Callable[[Any], Any] | None = None,
        output_dict: bool = False,
    ) -> None:
        if not 0.0 <= split <= 1.0:
            raise ValueError(f"split must be from 0 to 1, not {split}")
        self.root, self.transform, self.output_dict = existing_folder(root, "ShapeNet"), transform, output_dict
        self.with_materials = with_materials
        self.paths, self.names, self.synset_idxs = [], [], []
        self.synsets = synsets_of(categories)
        for number, synset in enumerate(self.synsets):
            folder = self.root / synset
            if not folder.is_dir():
                if categories is None:
                    continue
                raise ValueError(f"there is no category {synset} ({LABELS[synset][0]}) in {self.root}")
            models = sorted(path for path in folder.iterdir() if (path / self._file).is_file())
            middle = int(len(models) * split)
            for path in models[:middle] if train else models[middle:]:
                self.paths.append(path / self._file)
                self.names.append(path.name)
                self.synset_idxs.append(number)

    def get_data(self, index: int) -> SurfaceMesh:
        """The mesh of an item, in triangles."""
        mesh = obj.import_mesh(
            self.paths[index],
            with_materials=self.with_materials,
            error_handler=obj.ignore_error_handler,
            triangulate=True,
        )
        assert mesh is not None
        return mesh

    def get_attributes(self, index: int) -> dict[str, Any]:
        """Name, path, synset and labels of an item."""
        synset = self.synsets[self.synset_idxs[index]]
        return {
            "name": self.names[index],
            "path": self.paths[index],
            "synset": synset,
            "labels": list(LABELS[synset]),
        }


class ShapeNetV1(_ShapeNet):
    """Meshes of version 1, `root/<synset>/<model>/model.obj`; the arguments are those of `ShapeNetV2`."""

    _file = "model.obj"


class ShapeNetV2(_ShapeNet):
    """Meshes of version 2, `root/<synset>/<model>/models/model_normalized.obj`.

    Args:
        root: The folder.
        categories: Synset numbers or names; None: all that are there.
        train: The first part of each category, else the rest.
        split: Share of the first part.
        with_materials: Read texture coordinates, materials and their images, too.
        transform: Goes over an item each time it is asked for.
        output_dict: Items are dicts with "mesh", "name", "path", "synset" and "labels"; else KaolinDatasetItem.
    """

    _file = os.path.join("models", "model_normalized.obj")
