"""The list of formats, and reading and writing by the ending of a file name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from .. import atomic
from ..errors import SmrError
from ..records import UpAxis
from .gltf_read import read_gltf
from .gltf_write import write_glb, write_gltf
from .model import AnyMesh, Format, Model, WriteOptions, check_writable, turned
from .obj_read import read_obj
from .obj_write import write_obj
from .off import read_off, write_off
from .ply_read import read_ply
from .ply_write import write_ply
from .stl import read_stl, write_stl
from .usd_read import read_usd
from .usd_write import write_usd, write_usdz

_ALL = frozenset({"texture", "colors", "normals"})

FORMATS: tuple[Format, ...] = (
    Format("USDZ", (".usdz",), "y", _ALL, read_usd, write_usdz),
    Format("USD", (".usd", ".usdc", ".usda"), "y", _ALL, read_usd, write_usd),
    Format("GLB", (".glb",), "y", _ALL, read_gltf, write_glb),
    Format("glTF", (".gltf",), "y", _ALL, read_gltf, write_gltf),
    Format("OBJ", (".obj",), None, _ALL, read_obj, write_obj),
    Format("PLY", (".ply",), None, _ALL, read_ply, write_ply),
    Format("STL", (".stl",), None, frozenset(), read_stl, write_stl),
    Format("OFF", (".off",), None, frozenset({"colors"}), read_off, write_off),
)


def format_of(path: Path | str) -> Format:
    """The format that a file name's ending stands for.

    Raises:
        SmrError: The ending is missing or unknown.
    """
    ending = Path(path).suffix.lower()
    for form in FORMATS:
        if ending in form.endings:
            return form
    endings = " ".join(ending for form in FORMATS for ending in form.endings)
    said = f"ends in {ending}, which is no mesh format known here" if ending else "has no ending that names a format"
    raise SmrError(f"{path} {said}.", f"Use one of {endings}")


def check_outputs(paths: Iterable[Path]) -> None:
    """Say before the work what could not be written after it.

    Raises:
        SmrError: An ending is missing or unknown, a path is a folder, or a folder cannot be written.
    """
    for path in paths:
        format_of(path)
        atomic.check_writable(path)


def read_model(path: Path | str) -> Model:
    """Read a mesh file with what it says about itself; its ending chooses the format.

    Coordinates stay as they are in the file, in metres where the format states its unit (USD, glTF). Nodes with
    transforms are flattened. Files that the mesh file refers to are opened only inside its own folder.

    Raises:
        SmrError: The ending is unknown, the file is missing or damaged, or it has no faces.
    """
    form = format_of(path)
    with np.errstate(all="ignore"):  # numbers of damaged files overflow; what they lead to is checked
        return form.read(Path(path))


def read_mesh(path: Path | str) -> AnyMesh:
    """Read a mesh file; `read_model` also tells its up axis and what was odd in it.

    Raises:
        SmrError: The ending is unknown, the file is missing or damaged, or it has no faces.
    """
    return read_model(path).mesh


def write_mesh(
    model: AnyMesh,
    path: Path | str,
    *,
    world_up: UpAxis = "z",
    jpeg_quality: int | None = None,
    remark: str = "",
) -> Path:
    """Write a mesh to a file that appears whole or not at all; its ending chooses the format.

    Args:
        model: Triangles in metres, with or without texture.
        path: The file. Textures of OBJ, PLY, glTF and USD layers are written beside it, named after it.
        world_up: The axis of the coordinates that points up. USD and glTF demand y up and are turned; PLY, OBJ, STL
            and OFF keep the coordinates as they are and state the axis in a comment.
        jpeg_quality: Textures as JPEG of this quality, 1 to 100; None: PNG, lossless.
        remark: A line about the model for the file's comments (PLY, OBJ, glTF's `asset.extras`, USD).

    Returns:
        `path`.

    Raises:
        SmrError: The ending is unknown, there is nothing to write, or the disk refuses.
        ValueError: Indices point outside their arrays, or the quality is out of range.
    """
    if jpeg_quality is not None and not 1 <= jpeg_quality <= 100:
        raise ValueError(f"jpeg_quality is {jpeg_quality}, not between 1 and 100")
    path = Path(path)
    form = format_of(path)
    check_writable(model, path)
    model = turned(model, world_up, form.up or world_up)
    form.write(model, path, WriteOptions(world_up, jpeg_quality, " ".join(remark.split())))
    return path
