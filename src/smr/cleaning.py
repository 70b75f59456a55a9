"""From a raw surface to a clean mesh: repair, holes, smoothing, simplification."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

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
from .mesh.simplify import deviation, simplify
from .mesh.smooth import smooth_noise
from .mesh.topology import border_half_edges, connected_components
from .progress import Track, step, untracked
from .records import Mesh, TexturedMesh

_SAMPLES = 33_000
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
    simplify_mean_error: float
    """Mean distance between the surfaces before and after simplification, metres; measured at up to 100 000 points."""
    simplify_max_error: float
    """The largest at those points, metres."""
    vertices: int
    faces: int
    components: int
    border_edges: int
    notes: tuple[str, ...] = ()
    """What is worth saying to a user."""


def clean(
    mesh: Mesh | TexturedMesh, config: CleanConfig, *, device: str = "cpu", track: Track = untracked
) -> tuple[Mesh, CleanReport]:
    """Make an oriented manifold of at most `config.vertices` vertices from any triangles.

    Invalid faces are dropped, vertices at equal places joined, small pieces dropped, the topology repaired, short
    holes closed, noise smoothed, edges collapsed. The same input gives the same bytes, on however many cores.

    Args:
        mesh: Any triangles, metres. A texture is left out, as its image does not fit the new surface.
        config: What to do and how much.
        device: Where the error of the simplification is measured; the other steps run on the CPU, on all its cores.
        track: Progress.

    Raises:
        SmrError: The mesh has no valid face, or a setting means nothing.
    """
    check_settings(config)
    notes = ("The texture is left out.",) if isinstance(mesh, TexturedMesh) else ()
    mesh = mesh.mesh if isinstance(mesh, TexturedMesh) else mesh
    counts: dict[str, Any] = {"notes": notes, "vertices_in": len(mesh.vertices), "faces_in": len(mesh.faces)}
    counts |= {"small_components": 0, "small_component_faces": 0}
    with step(track, "repairing the mesh"):
        mesh = _make_valid(mesh, counts)
        limits = _small(mesh, config)
        valid = _drop_small(mesh, limits, counts)
        mesh = _make_manifold(valid, counts)
        if mesh is not valid:  # pieces that only touched
            mesh = _drop_small(mesh, limits, counts)
    with step(track, "closing holes"):
        filling = close_holes(mesh, config.hole_edges, config.hole_rounds)
        counts |= {"holes_closed": filling.closed, "holes_left": filling.failed}
        counts["hole_faces"] = len(filling.mesh.faces) - len(mesh.faces)
        mesh = filling.mesh
    with step(track, "smoothing"):
        counts["noise"] = 0.0
        if config.smoothing > 0 and len(mesh.vertices) >= _SCAN_VERTICES:
            mesh, noise = smooth_noise(mesh, config.smoothing)
            counts["noise"] = noise.typical
    mesh = _simplify(mesh, config, device, track, counts)
    mesh = dataclasses.replace(mesh, normals=vertex_normals(mesh))
    counts |= {"vertices": len(mesh.vertices), "faces": len(mesh.faces)}
    counts |= {"components": connected_components(mesh)[0], "border_edges": len(border_half_edges(mesh.faces))}
    return mesh, CleanReport(**counts)


def check_settings(config: CleanConfig) -> None:
    """Refuse settings that mean nothing.

    Raises:
        SmrError: Names the option and its value.
    """
    for name in ("min_component", "min_extent", "hole_edges", "hole_rounds", "smoothing"):
        value = getattr(config, name)
        if not value >= 0:
            raise SmrError(f"{_option(name)} is {value}.", "Give a number that is not negative; 0 turns the step off.")
    for name in ("vertices", "max_error"):
        value = getattr(config, name)
        if value is not None and not value > 0:
            raise SmrError(f"{_option(name)} is {value}.", "Give a positive number, or None to leave it out.")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _make_valid(mesh: Mesh, counts: dict[str, Any]) -> Mesh:
    """Valid faces, joined vertices; without normals, which are found at the end."""
    given = mesh
    mesh = dataclasses.replace(mesh, normals=None)
    mesh, invalid = drop_invalid_faces(mesh)
    counts["invalid_faces"] = invalid.total
    merged = merge_equal_vertices(mesh)
    if merged is not mesh:  # joined vertices can leave faces without area, or twice
        mesh, invalid = drop_invalid_faces(merged)
        counts["invalid_faces"] += invalid.total
    if not len(mesh.faces):
        raise SmrError(
            f"The mesh has no valid face ({len(given.vertices)} vertices, {len(given.faces)} faces).",
            "Give a mesh of triangles; points alone have no surface to clean.",
        )
    return mesh


def _make_manifold(mesh: Mesh, counts: dict[str, Any]) -> Mesh:
    manifold = repair_non_manifold(mesh)
    counts["split_vertices"] = max(len(manifold.vertices) - len(mesh.vertices), 0)
    counts["repair_faces"] = len(mesh.faces) - len(manifold.faces)
    return manifold


def _small(mesh: Mesh, config: CleanConfig) -> tuple[int, float]:
    """Below how many faces, and what diagonal in metres, a component is small."""
    diagonal = float(np.linalg.norm(np.ptp(mesh.vertices.astype(np.float64), axis=0)))
    min_faces = max(round(config.min_component * len(mesh.faces)), _MIN_FACES) if config.min_component > 0 else 0
    return min_faces, config.min_extent * diagonal


def _drop_small(mesh: Mesh, limits: tuple[int, float], counts: dict[str, Any]) -> Mesh:
    """Drop the small components."""
    small = small_components(mesh, *limits)
    if not small.any():
        return mesh
    counts["small_components"] += connected_components(Mesh(mesh.vertices, mesh.faces[small]))[0]
    counts["small_component_faces"] += int(small.sum())
    return keep_faces(mesh, ~small)


def _simplify(mesh: Mesh, config: CleanConfig, device: str, track: Track, counts: dict[str, Any]) -> Mesh:
    """Simplify, measure what that did, and say where it stopped early."""
    counts |= {"simplify_mean_error": 0.0, "simplify_max_error": 0.0}
    small_enough = config.vertices is not None and len(mesh.vertices) <= config.vertices
    if small_enough or (config.vertices is None and config.max_error is None):
        return mesh
    simple = simplify(mesh, vertices=config.vertices, max_error=config.max_error, track=track)
    with step(track, "measuring the simplified mesh"):
        mean, largest = deviation(mesh, simple, _SAMPLES, device=device)
    counts |= {"simplify_mean_error": mean, "simplify_max_error": largest}
    if config.vertices is not None and len(simple.vertices) > config.vertices:
        why = "to stay within the error bound" if config.max_error is not None else "so that no piece vanishes"
        note = f"Simplification stopped at {len(simple.vertices)} vertices, above {config.vertices}, {why}."
        counts["notes"] += (note,)
    return simple
