"""From a raw surface to a clean mesh: repair, holes, smoothing, simplification."""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass

import numpy as np

from .config import CleanConfig
from .errors import SmrError
from .mesh.holes import close_holes
from .mesh.normals import vertex_normals
from .mesh.repair import (
    drop_invalid_faces,
    keep_faces,
    merge_equal_vertices,
    repair_non_manifold,
    small_components,
)
from .mesh.simplify import simplify
from .mesh.smooth import smooth_noise
from .mesh.topology import border_half_edges, connected_components
from .progress import Track, step, untracked
from .records import Mesh

log = logging.getLogger(__name__)

_MIN_FACES = 50
_SCAN_VERTICES = 10_000  # below this, a mesh is too coarse to tell noise from shape


@dataclass(frozen=True)
class CleanReport:
    """What each step of `clean` did."""

    vertices_in: int
    faces_in: int
    invalid_faces: int
    """Dropped: a vertex out of range or not finite, no area, or a repetition of another face."""
    small_components: int
    """Pieces dropped as too small."""
    small_component_faces: int
    """Their faces."""
    split_vertices: int
    """Vertices added where fans of faces touched in one."""
    repair_faces: int
    """Faces dropped because an edge had more than two."""
    holes_closed: int
    holes_left: int
    """Holes short enough to be closed for which no triangulation was found."""
    hole_faces: int
    """Faces added to close holes."""
    noise: float
    """Estimated noise of the vertices along the normals before smoothing, metres; 0 where nothing was smoothed."""
    vertices: int
    faces: int
    components: int
    border_edges: int
    notes: tuple[str, ...] = ()
    """What is worth saying to a user."""


def clean(
    mesh: Mesh, config: CleanConfig, *, device: str = "cpu", track: Track = untracked
) -> tuple[Mesh, CleanReport]:
    """Make an oriented manifold of at most `config.vertices` vertices from any triangles.

    Invalid faces are dropped, vertices at equal places joined, the topology repaired, small pieces dropped, short
    holes closed, noise smoothed, edges collapsed. The same input gives the same bytes. All steps run on the CPU:
    they are sequential or bound by memory.

    Args:
        mesh: Any triangles, metres.
        config: What to do and how much.
        device: Not used yet; every step runs on the CPU.
        track: Progress.

    Raises:
        SmrError: The mesh has no valid face.
    """
    start = mesh
    with step(track, "repairing the mesh"):
        mesh, invalid = drop_invalid_faces(mesh)
        merged = merge_equal_vertices(mesh)
        more = 0
        if merged is not mesh:  # joined vertices can leave faces without area, or twice
            mesh, twice = drop_invalid_faces(merged)
            more = twice.total
        if not len(mesh.faces):
            raise SmrError(
                f"The mesh has no valid face ({len(start.vertices)} vertices, {len(start.faces)} faces).",
                "Give a mesh of triangles; points alone have no surface to clean.",
            )
        before = mesh
        mesh = repair_non_manifold(mesh)
        split_vertices, repair_faces = len(mesh.vertices) - len(before.vertices), len(before.faces) - len(mesh.faces)
        mesh, small, small_faces = _drop_small(mesh, config)
    with step(track, "closing holes"):
        faces = len(mesh.faces)
        filling = close_holes(mesh, config.hole_edges, config.hole_rounds)
        mesh = filling.mesh
        hole_faces = len(mesh.faces) - faces
    with step(track, "smoothing"):
        noise = 0.0
        if config.smoothing > 0 and len(mesh.vertices) >= _SCAN_VERTICES:
            mesh, found = smooth_noise(mesh, config.smoothing)
            noise = found.typical
    mesh, notes = _simplify(mesh, config, track)
    mesh = dataclasses.replace(mesh, normals=vertex_normals(mesh))
    report = CleanReport(
        vertices_in=len(start.vertices),
        faces_in=len(start.faces),
        invalid_faces=invalid.total + more,
        small_components=small,
        small_component_faces=small_faces,
        split_vertices=max(split_vertices, 0),
        repair_faces=repair_faces,
        holes_closed=filling.closed,
        holes_left=filling.failed,
        hole_faces=hole_faces,
        noise=noise,
        vertices=len(mesh.vertices),
        faces=len(mesh.faces),
        components=connected_components(mesh)[0],
        border_edges=len(border_half_edges(mesh.faces)),
        notes=tuple(notes),
    )
    return mesh, report


def _drop_small(mesh: Mesh, config: CleanConfig) -> tuple[Mesh, int, int]:
    """Without the small components; their number and faces."""
    diagonal = float(np.linalg.norm(np.ptp(mesh.vertices.astype(np.float64), axis=0)))
    min_faces = max(round(config.min_component * len(mesh.faces)), _MIN_FACES) if config.min_component > 0 else 0
    small = small_components(mesh, min_faces, config.min_extent * diagonal)
    if not small.any():
        return mesh, 0, 0
    count = connected_components(Mesh(mesh.vertices, mesh.faces[small]))[0]
    return keep_faces(mesh, ~small), count, int(small.sum())


def _simplify(mesh: Mesh, config: CleanConfig, track: Track) -> tuple[Mesh, list[str]]:
    if config.vertices is None and config.max_error is None:
        return mesh, []
    mesh = simplify(mesh, vertices=config.vertices, max_error=config.max_error, track=track)
    notes = []
    if config.vertices is not None and len(mesh.vertices) > config.vertices:
        why = "to stay within the error bound" if config.max_error is not None else "so that no piece vanishes"
        notes.append(f"Simplification stopped at {len(mesh.vertices)} vertices, above {config.vertices}, {why}.")
    return mesh, notes
