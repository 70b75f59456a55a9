"""`smr texture`, `smr clean`, `smr convert`: from mesh files to mesh files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ..arrays import resolve_device
from ..captures import estimated_up, read_capture
from ..cleaning import clean
from ..formats import check_outputs, read_model, write_mesh
from ..formats.convert import convert
from ..formats.model import AnyMesh, geometry, turned
from ..mesh.unwrap import unwrap
from ..progress import step
from ..records import Material, TexturedMesh, UpAxis
from ..texturing import bake
from .command import Answer, Interface
from .describe import describe_clean, describe_findings, describe_texture, listed


def run_texture(command: Any, ui: Interface) -> Answer:
    """Texture a mesh from anywhere."""
    check_outputs(command.out)
    device = resolve_device(command.device)
    capture = read_capture(command.capture, command.frames)
    world_up = capture.world_up or estimated_up(capture)
    model = read_model(command.mesh)
    if model.world_up is not None:  # a format that turned the mesh to its own up axis: turn it back
        model = replace(model, mesh=turned(model.mesh, model.world_up, world_up))
    textured, report = bake(geometry(model.mesh), capture, command.texture, device=device, track=ui.track)
    files = _write(textured, command.out, world_up, ui)
    findings = [asdict(finding) for finding in (*capture.findings, *model.findings)]
    document = {"texture": asdict(report), "files": [str(file) for file in files], "findings": findings}
    return Answer("\n".join([*_worth_saying(findings), describe_texture(asdict(report)), listed(files)]), document)


def run_clean(command: Any, ui: Interface) -> Answer:
    """Clean a mesh from anywhere."""
    check_outputs(command.out)
    device = resolve_device(command.device)
    model = read_model(command.mesh)
    mesh, report = clean(model.mesh, command.clean, device=device, track=ui.track)
    result: AnyMesh = mesh
    if command.unwrap:
        atlas = unwrap(mesh, track=ui.track)
        result = TexturedMesh(mesh, atlas.uvs, atlas.face_uvs, (Material(),))
    files = _write(result, command.out, model.world_up or "z", ui)
    findings = [asdict(finding) for finding in model.findings]
    document = {"clean": asdict(report), "files": [str(file) for file in files], "findings": findings}
    return Answer("\n".join([*_worth_saying(findings), describe_clean(asdict(report)), listed(files)]), document)


def run_convert(command: Any, ui: Interface) -> Answer:
    """Convert between formats."""
    with step(ui.track, "converting"):
        made = convert(command.source, command.target, scale=command.scale, up=command.up)
    findings = [asdict(finding) for finding in made.findings]
    document = {"files": [str(made.path)], "world_up": made.world_up, "findings": findings}
    return Answer("\n".join([*describe_findings(findings), listed([made.path])]), document)


def _worth_saying(findings: Sequence[dict[str, Any]]) -> list[str]:
    return describe_findings([finding for finding in findings if finding["severity"] != "note"])


def _write(model: AnyMesh, paths: Sequence[Path], up: UpAxis, ui: Interface) -> list[Path]:
    return [write_mesh(model, path, world_up=up) for path in ui.track(paths, "writing files", len(paths))]
