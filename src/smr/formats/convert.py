"""One mesh file into another: `smr convert`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import SmrError
from ..records import Finding, TexturedMesh, UpAxis
from .model import AnyMesh, Format, geometry, scaled, turned
from .registry import format_of, read_model, write_mesh


@dataclass(frozen=True)
class Conversion:
    """What `convert` did."""

    path: Path
    """The file that was written."""
    mesh: AnyMesh
    """What is in it, in the coordinates of the file."""
    world_up: UpAxis
    """The up axis of these coordinates."""
    findings: tuple[Finding, ...]
    """What was odd in the source, and what the target's format could not hold."""


def convert(
    source: Path | str,
    target: Path | str,
    *,
    scale: float = 1.0,
    up: UpAxis | None = None,
    jpeg_quality: int | None = None,
) -> Conversion:
    """Read a mesh file and write it as another; their endings choose the formats.

    Coordinates change only where they must: multiplied by `scale`, and turned where the target's format demands
    another up axis (USD and glTF: y) than the source has. The source's up axis is `up` where it is given, else what
    the file states, else y.

    Args:
        source: The file to read.
        target: The file to write.
        scale: Factor of the coordinates; 0.001 for a file in millimetres.
        up: The axis that points up in the source, whatever the file says.
        jpeg_quality: Textures as JPEG of this quality, 1 to 100; None: PNG, lossless.

    Raises:
        SmrError: A file cannot be read or written, or the scale is not a positive number.
    """
    if not (np.isfinite(scale) and scale > 0):
        raise SmrError(f"The scale is {scale}.", "Give a positive number, 0.001 for a file in millimetres.")
    source, target = Path(source), Path(target)
    form = format_of(target)
    model = read_model(source)
    world_up = up or model.world_up or "y"
    mesh = scaled(model.mesh, scale)
    write_mesh(mesh, target, world_up=world_up, jpeg_quality=jpeg_quality)
    written_up = form.up or world_up
    return Conversion(target, turned(mesh, world_up, written_up), written_up, (*model.findings, *_lost(mesh, form)))


def _lost(model: AnyMesh, form: Format) -> list[Finding]:
    """What the format cannot hold."""
    mesh = geometry(model)
    has = {
        "texture": isinstance(model, TexturedMesh) and any(m.texture is not None for m in model.materials),
        "colors": mesh.colors is not None,
        "normals": mesh.normals is not None,
    }
    words = {"texture": "textures", "colors": "vertex colours", "normals": "vertex normals"}
    return [
        Finding("note", f"{form.name} holds no {words[part]}: they are left out.")
        for part in ("texture", "colors", "normals")
        if has[part] and part not in form.holds
    ]
