"""Checkpoints of batches of meshes, point clouds and voxel grids over a training, as USD files that hold all times."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from pxr import Usd

_log = logging.getLogger(__name__)

TYPES = ("mesh", "pointcloud", "voxelgrid")
_FILE = re.compile(r"(mesh|pointcloud|voxelgrid)_(\d+)\.usd[ac]?")


class Timelapse:
    """Writes batches to `log_dir/category/mesh_0.usd`, `mesh_1.usd`, ..., every iteration to the same files.

    What does not change (faces, say) needs to be given once only. A file that is there is added to.

    Args:
        log_dir: The folder.
        up_axis: Y or Z.
    """

    def __init__(self, log_dir: str | Path, up_axis: str = "Y") -> None:
        self.logdir = str(log_dir)
        self.up_axis = up_axis

    def add_mesh_batch(
        self,
        iteration: int = 0,
        category: str = "",
        vertices_list: Sequence[torch.Tensor] | None = None,
        faces_list: Sequence[torch.Tensor] | None = None,
        uvs_list: Sequence[torch.Tensor] | None = None,
        face_uvs_idx_list: Sequence[torch.Tensor] | None = None,
        face_normals_list: Sequence[torch.Tensor] | None = None,
        materials_list: Sequence[Any] | None = None,
    ) -> None:
        """Add meshes at an iteration; every list has one item a mesh, or is None where nothing changes.

        Args:
            iteration: The time.
            category: Folder below `log_dir`, such as "output".
            vertices_list: (V, 3) each.
            faces_list: (F, FSz) each.
            uvs_list: (U, 2) each.
            face_uvs_idx_list: (F, FSz) each.
            face_normals_list: (F, FSz, 3) each.
            materials_list: A material, or a dict of them by name, each.

        Raises:
            ValueError: The lists have different lengths.
        """
        from ..io.usd.mesh import add_mesh

        lists = {
            "vertices": vertices_list,
            "faces": faces_list,
            "uvs": uvs_list,
            "face_uvs_idx": face_uvs_idx_list,
            "face_normals": face_normals_list,
        }

        def write(stage: Usd.Stage, path: str, i: int) -> None:
            given: dict[str, Any] = {name: values[i] for name, values in lists.items() if values is not None}
            add_mesh(stage, path, time=float(iteration), **given)
            # fewer materials than meshes: the others get none
            if materials_list is not None and i < len(materials_list):
                self._write_materials(stage, path, materials_list[i], iteration)

        self._write_batch("mesh", category, list(lists.values()), iteration, write)

    def add_pointcloud_batch(
        self,
        iteration: int = 0,
        category: str = "",
        pointcloud_list: Sequence[torch.Tensor] | None = None,
        colors: Sequence[torch.Tensor] | None = None,
        points_type: str = "point_instancer",
    ) -> None:
        """Add point clouds at an iteration.

        Args:
            iteration: The time.
            category: Folder below `log_dir`.
            pointcloud_list: (N, 3) each.
            colors: (N, 3) each, from 0 to 1.
            points_type: "point_instancer" or "usd_geom_points"; only the latter has colors.

        Raises:
            ValueError: The lists have different lengths.
        """
        from ..io.usd.pointcloud import add_pointcloud

        def write(stage: Usd.Stage, path: str, i: int) -> None:
            points = None if pointcloud_list is None else pointcloud_list[i]
            color = None if colors is None else colors[i]
            add_pointcloud(stage, path, points, colors=color, time=float(iteration), points_type=points_type)

        self._write_batch("pointcloud", category, [pointcloud_list, colors], iteration, write)

    def add_voxelgrid_batch(
        self,
        iteration: int = 0,
        category: str = "",
        voxelgrid_list: Sequence[torch.Tensor] | None = None,
        colors: Sequence[torch.Tensor] | None = None,
        semantic_ids: Sequence[torch.Tensor] | None = None,
    ) -> None:
        """Add voxel grids at an iteration.

        Args:
            iteration: The time.
            category: Folder below `log_dir`.
            voxelgrid_list: (X, Y, Z) bool each.
            colors: Not written.
            semantic_ids: Not written.
        """
        from ..io.usd.voxelgrid import add_voxelgrid

        if colors is not None or semantic_ids is not None:
            _log.warning("colors and semantic ids of voxel grids are not written")

        def write(stage: Usd.Stage, path: str, i: int) -> None:
            assert voxelgrid_list is not None
            add_voxelgrid(stage, voxelgrid_list[i], path, time=float(iteration))

        self._write_batch("voxelgrid", category, [voxelgrid_list], iteration, write)

    def _write_batch(
        self,
        kind: str,
        category: str,
        lists: Sequence[Sequence[Any] | None],
        iteration: int,
        write: Callable[[Usd.Stage, str, int], None],
    ) -> None:
        lengths = {len(values) for values in lists if values is not None}
        if len(lengths) > 1:
            raise ValueError(f"the lists of a {kind} batch have different lengths: {sorted(lengths)}")
        folder = Path(self.logdir, category)
        folder.mkdir(parents=True, exist_ok=True)
        for i in range(next(iter(lengths), 0)):
            stage = self._stage(folder / f"{kind}_{i}.usd", iteration)
            write(stage, f"/{kind}_{i}", i)
            stage.Save()

    def _stage(self, path: Path, iteration: int) -> Usd.Stage:
        """The stage of a file, new or as it is there, whose range of times includes the iteration."""
        from pxr import Usd

        from ..io.usd.utils import create_stage

        stage = Usd.Stage.Open(str(path)) if path.exists() else create_stage(str(path), self.up_axis)
        known = stage.HasAuthoredTimeCodeRange()
        stage.SetStartTimeCode(min(iteration, stage.GetStartTimeCode()) if known else iteration)
        stage.SetEndTimeCode(max(iteration, stage.GetEndTimeCode()) if known else iteration)
        return stage

    def _write_materials(self, stage: Usd.Stage, path: str, materials: Any, iteration: int) -> None:
        from ..io.usd.materials import export_material

        named = materials if isinstance(materials, Mapping) else {"material": materials}
        for name, material in named.items():
            export_material(
                material,
                stage,
                f"{path}/{name}",
                texture_path="textures",
                bound_prims=[stage.GetPrimAtPath(path)],
                texture_file_prefix=f"{path[1:]}_{name}_{iteration}_",
                time=float(iteration),
                overwrite_textures=True,
            )


class TimelapseParser:
    """Finds what `Timelapse` wrote into a folder.

    Args:
        log_dir: The folder.
    """

    @dataclass
    class CategoryInfo:
        """The files of one type in one category."""

        category: str
        """Name of the folder."""
        ids: list[int] = field(default_factory=list)
        """Numbers of the files."""
        end_time: float = 0
        """Last iteration in any of them."""

        def serializable(self) -> dict[str, Any]:
            """The fields as a dict."""
            return asdict(self)

    def __init__(self, log_dir: str | Path) -> None:
        self.logdir = str(log_dir)
        self.filepaths: dict[tuple[str, str, int], str] = {}
        self.dir_info: dict[str, list[dict[str, Any]]] = {}
        self._seen: dict[str, int] = {}
        self.check_for_updates()

    def check_for_updates(self) -> bool:
        """Look again; returns whether a file is new, gone or changed."""
        paths = self.get_filepaths()
        seen = {path: Path(path).stat().st_mtime_ns for path in paths.values()}
        if seen == self._seen:
            return False
        self._seen, self.filepaths = seen, paths
        self.dir_info = {kind: self._categories(kind) for kind in TYPES if any(key[0] == kind for key in paths)}
        return True

    def _categories(self, kind: str) -> list[dict[str, Any]]:
        result = []
        for category in self.get_category_names_by_type(kind):
            ids = sorted(i for k, c, i in self.filepaths if (k, c) == (kind, category))
            end = max(_end_time(self.filepaths[kind, category, i]) for i in ids)
            result.append(self.CategoryInfo(category, ids, end).serializable())
        return result

    def get_filepaths(self) -> dict[tuple[str, str, int], str]:
        """Paths of files by type, category and number."""
        found = {}
        for path in sorted(Path(self.logdir).glob("**/*.usd*")):
            info = self.parse_filepath_info(path)
            if info is not None:
                found[info] = str(path)
        return found

    def parse_filepath_info(self, path: str | Path) -> tuple[str, str, int] | None:
        """Type, category and number of a file, or None where `Timelapse` gives no such name."""
        match = _FILE.fullmatch(Path(path).name)
        if match is None:
            return None
        category = Path(path).parent.relative_to(self.logdir).as_posix()
        return match[1], "" if category == "." else category, int(match[2])

    def get_file_path(self, type: str, category: str, id: int) -> str | None:
        """Path of a file, or None."""
        return self.filepaths.get((type, category, id))

    def get_category_names_by_type(self, type: str) -> list[str]:
        """Names of the categories that have files of a type."""
        return sorted({category for kind, category, _ in self.filepaths if kind == type})

    def get_category_info(self, type: str, category: str) -> dict[str, Any] | None:
        """The fields of a category's `CategoryInfo`, or None."""
        return next((info for info in self.dir_info.get(type, []) if info["category"] == category), None)

    def num_mesh_items(self) -> int:
        """Number of files of meshes."""
        return self._count("mesh")

    def num_pointcloud_items(self) -> int:
        """Number of files of point clouds."""
        return self._count("pointcloud")

    def num_voxelgrid_items(self) -> int:
        """Number of files of voxel grids."""
        return self._count("voxelgrid")

    def _count(self, kind: str) -> int:
        return sum(key[0] == kind for key in self.filepaths)

    def num_mesh_categories(self) -> int:
        """Number of categories with meshes."""
        return len(self.get_category_names_by_type("mesh"))

    def num_pointcloud_categories(self) -> int:
        """Number of categories with point clouds."""
        return len(self.get_category_names_by_type("pointcloud"))

    def num_voxelgrid_categories(self) -> int:
        """Number of categories with voxel grids."""
        return len(self.get_category_names_by_type("voxelgrid"))


def _end_time(path: str) -> float:
    from pxr import Usd

    stage = Usd.Stage.Open(path)
    attributes = (attribute for prim in stage.Traverse() for attribute in prim.GetAuthoredAttributes())
    return float(max((max(attribute.GetTimeSamples(), default=0.0) for attribute in attributes), default=0.0))
