"""`smr evaluate`: a mesh against a reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import resolve_device
from ..captures import read_capture
from ..formats import format_of, read_mesh, write_mesh
from ..formats.model import geometry
from ..metrics import colored_error_mesh, evaluate
from ..records import Mesh
from ..transforms import transform_points
from .command import Answer, Interface
from .describe import describe_evaluation


def run_evaluate(command: Any, ui: Interface) -> Answer:
    """Measure, print, and write the coloured error mesh where one is asked for."""
    if command.error_mesh is not None:
        format_of(command.error_mesh)
    device = resolve_device(command.device)
    mesh = geometry(read_mesh(command.mesh))
    reference = joined([geometry(read_mesh(path)) for path in command.reference])
    result = evaluate(
        mesh,
        reference,
        distances=command.distances,
        samples=command.samples,
        align=command.align,
        seen_by=None if command.seen_by is None else read_capture(command.seen_by),
        seed=command.seed,
        device=device,
        track=ui.track,
    )
    document: dict[str, Any] = {"evaluation": result.as_dict()}
    text = describe_evaluation(document["evaluation"])
    if command.error_mesh is not None:
        if result.alignment is not None:
            vertices = transform_points(result.alignment.reference_from_mesh, mesh.vertices.astype(np.float64))
            mesh = Mesh(vertices, mesh.faces)
        limit = max(command.distances)
        write_mesh(colored_error_mesh(mesh, reference, limit, device=device), command.error_mesh)
        document["error_mesh"] = str(command.error_mesh)
        text += f"\n{command.error_mesh}: dark blue is no error, red is {limit * 1000:g} mm and more"
    return Answer(text, document)


def joined(meshes: Sequence[Mesh]) -> Mesh:
    """Several meshes as one."""
    starts = np.cumsum([0, *(len(mesh.vertices) for mesh in meshes)])
    faces = [mesh.faces + np.int32(start) for mesh, start in zip(meshes, starts[:-1], strict=True)]
    return Mesh(np.concatenate([mesh.vertices for mesh in meshes]), np.concatenate(faces).astype(np.int32))
