"""`smr texture`, `smr clean`, `smr convert`: from mesh files to mesh files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..arrays import resolve_device
from ..captures import read_capture
from ..cleaning import clean
from ..formats import format_of, read_model, write_mesh
from ..formats.convert import convert
from ..formats.model import AnyMesh
from ..mesh.unwrap import unwrap
from ..progress import step
from ..records import Material, Mesh, TexturedMesh, UpAxis
from ..texturing import bake
from .command import Answer, Interface
from .describe import describe_clean, describe_findings, describe_texture, listed


def run_texture(command: Any, ui: Interface) -> Answer:
    """Texture a mesh from anywhere."""
    _check_endings(command.out)
    device = resolve_device(command.device)
    model = read_model(command.mesh)
    capture = read_capture(command.capture, command.frames)
    textured, report = bake(_geometry(model.mesh), capture, command.texture, device=device, track=ui.track)
    files = _write(textured, command.out, model.world_up or capture.world_up or "z", ui)
    document = {"texture": asdict(report), "files": [str(file) for file in files]}
    return Answer(f"{describe_texture(asdict(report))}\n{listed(files)}", document)


def run_clean(command: Any, ui: Interface) -> Answer:
    """Clean a mesh from anywhere."""
    _check_endings(command.out)
    device = resolve_device(command.device)
    model = read_model(command.mesh)
    mesh, report = clean(_geometry(model.mesh), command.clean, device=device, track=ui.track)
    result: AnyMesh = mesh
    if command.unwrap:
        atlas = unwrap(mesh, track=ui.track)
        result = TexturedMesh(mesh, atlas.uvs, atlas.face_uvs, (Material(),))
    files = _write(result, command.out, model.world_up or "z", ui)
    document = {"clean": asdict(report), "files": [str(file) for file in files]}
    return Answer(f"{describe_clean(asdict(report))}\n{listed(files)}", document)


def run_convert(command: Any, ui: Interface) -> Answer:
    """Convert between formats."""
    with step(ui.track, "converting"):
        made = convert(command.source, command.target, scale=command.scale, up=command.up)
    findings = [asdict(finding) for finding in made.findings]
    document = {"files": [str(made.path)], "world_up": made.world_up, "findings": findings}
    return Answer("\n".join([*describe_findings(findings), listed([made.path])]), document)


def _geometry(model: AnyMesh) -> Mesh:
    return model.mesh if isinstance(model, TexturedMesh) else model


def _check_endings(paths: Sequence[Path]) -> None:
    for path in paths:
        format_of(path)


def _write(model: AnyMesh, paths: Sequence[Path], up: UpAxis, ui: Interface) -> list[Path]:
    return [write_mesh(model, path, world_up=up) for path in ui.track(paths, "writing files", len(paths))]
