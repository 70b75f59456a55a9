"""How well a mesh agrees with a reference: accuracy, completeness, Chamfer distance, F-score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Int32, UInt8

from .captures.ahead import decode_usable
from .captures.decode import Decoder
from .errors import SmrError
from .mesh.distance import Nearest, SurfaceIndex, index_surface
from .mesh.normals import face_areas
from .points.align import Alignment, align_surfaces
from .points.sample import SurfaceSamples, sample_surface
from .progress import Track, step, untracked
from .records import Capture, DepthMap, Mesh
from .transforms import rigid_inverse, transform_points

_UNITS = {1000.0: "millimetres", 100.0: "centimetres", 39.37: "inches"}


@dataclass(frozen=True)
class Spread:
    """A distribution of distances, metres."""

    mean: float
    median: float
    p95: float
    """95 % of the distances are below this."""
    rms: float
    max: float


@dataclass(frozen=True)
class Score:
    """Shares of the two surfaces within a distance of each other."""

    distance: float
    """Metres."""
    precision: float
    """Share of the mesh that lies within `distance` of the reference."""
    recall: float
    """Share of the reference that lies within `distance` of the mesh."""
    f_score: float
    """Harmonic mean of the two."""


@dataclass(frozen=True)
class Evaluation:
    """What `evaluate` found."""

    accuracy: Spread
    """From the mesh to the reference: what is wrong about the mesh."""
    completeness: Spread
    """From the reference to the mesh: what the mesh lacks."""
    chamfer: float
    """Mean of the mean accuracy and the mean completeness, metres."""
    scores: tuple[Score, ...]
    """One for each of the asked distances."""
    normal_consistency: float
    """Mean |cosine| between the normals of a sample and of its nearest point, both ways: 1 is best."""
    mesh_samples: int
    reference_samples: int
    beyond_reference: int
    """Samples of the mesh that were not judged, since the reference says nothing there; only with `seen_by`."""
    seen_share: float
    """Share of the reference's area that some view saw; 1 without `seen_by`."""
    alignment: Alignment | None
    """How the mesh was moved before it was measured."""

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for JSON; distances in metres."""
        found = asdict(self)
        if self.alignment is not None:
            found["alignment"]["reference_from_mesh"] = self.alignment.reference_from_mesh.tolist()
        return found


def evaluate(
    mesh: Mesh,
    reference: Mesh,
    *,
    distances: Sequence[float] = (0.001, 0.002, 0.005),
    samples: int = 300_000,
    align: Literal["none", "rigid", "similarity"] = "none",
    seen_by: Capture | None = None,
    seed: int = 0,
    device: str = "cpu",
    track: Track = untracked,
) -> Evaluation:
    """Compare a mesh with a reference, by exact distances from points on either to the triangles of the other.

    With `seen_by`, only what the capture saw counts. A sample of the reference counts if some depth map measured it:
    its depth in that view is the measured one to within 2 mm or 0.5 %, not within a pixel of the image's border. A
    sample of the mesh is left out only where the reference cannot judge it: its nearest point of the reference lies
    on the reference's open border and is further away than the largest of `distances`; how many these are is in
    the result. A reference without a border, such as a closed one, judges all.

    Args:
        mesh: What is to be judged.
        reference: The truth; several meshes may be joined into one.
        distances: Where precision, recall and F-score are taken, metres.
        samples: Number of points on either surface, spread evenly by area.
        align: Move the mesh onto the reference first: `rigid` turns and shifts, `similarity` scales too.
        seen_by: Judge only what this capture saw; its poses and the reference must share one frame.
        seed: Start of the random numbers.
        device: Warp device.
        track: Progress.

    Raises:
        SmrError: A setting means nothing; a mesh has no faces or its vertices are not finite; the two do not overlap,
            or differ in size as if their units did; no alignment was found; no view saw the reference.
    """
    _check_settings(distances, samples, seed)
    _check(mesh, "The mesh")
    _check(reference, "The reference")
    alignment = None
    if align != "similarity":
        _check_size(mesh, reference)
    if align != "none":
        scale = align == "similarity"
        alignment = align_surfaces(mesh, reference, scale=scale, seed=seed, device=device, track=track)
        mesh = replace(mesh, vertices=transform_points(alignment.reference_from_mesh, mesh.vertices.astype(np.float64)))
    _check_overlap(mesh, reference)

    on_reference = sample_surface(reference, samples, seed=seed + 1)
    if seen_by is not None:
        on_reference = _seen(on_reference, seen_by, track)
    on_mesh = sample_surface(mesh, samples, seed=seed)
    with step(track, "Measure distances"):
        surfaces = [index_surface(m, device=device) for m in (reference, mesh)]
        to_reference = surfaces[0].nearest(on_mesh.points)
        to_mesh = surfaces[1].nearest(on_reference.points)
        judged = _judged(to_reference, reference, max(distances) if seen_by is not None else np.inf)
    cosines = [
        _cosines(surfaces[1], on_mesh.faces, surfaces[0], to_reference.faces)[judged],
        _cosines(surfaces[0], on_reference.faces, surfaces[1], to_mesh.faces),
    ]
    accuracy, completeness = to_reference.distances[judged], to_mesh.distances
    return Evaluation(
        accuracy=_spread(accuracy),
        completeness=_spread(completeness),
        chamfer=float(0.5 * (accuracy.mean() + completeness.mean())),
        scores=tuple(_score(accuracy, completeness, d) for d in distances),
        normal_consistency=float(np.concatenate(cosines).mean(dtype=float)),
        mesh_samples=len(accuracy),
        reference_samples=len(completeness),
        beyond_reference=int((~judged).sum()),
        seen_share=len(completeness) / samples,
        alignment=alignment,
    )


def _seen(samples: SurfaceSamples, capture: Capture, track: Track) -> SurfaceSamples:
    seen = seen_points(samples.points, capture, track=track)
    if not seen.any():
        raise SmrError(
            "No view of the capture sees any part of the reference.",
            "Check that the reference is in the capture's world frame and in metres, or evaluate without views.",
        )
    return SurfaceSamples(samples.points[seen], samples.faces[seen])


def _judged(to_reference: Nearest, reference: Mesh, reach: float) -> Bool[np.ndarray, " N"]:
    """Samples of the mesh about which the reference says something: not further than `reach` beyond its border."""
    judged = to_reference.distances <= reach
    if not judged.all():
        judged |= ~_on_border(to_reference, reference)
    if not judged.any():
        raise SmrError(
            "All of the mesh lies beyond the border of the reference.",
            "Check that both are in one frame (--align rigid moves the mesh onto the reference).",
        )
    return judged


def seen_points(
    points: Float[np.ndarray, "N 3"], capture: Capture, *, track: Track = untracked
) -> Bool[np.ndarray, " N"]:
    """Points at which some depth map of the capture measured a surface (to within 2 mm or 0.5 % of the depth).

    Raises:
        SmrError: The capture has no depth maps with poses, or more than half of them cannot be read.
    """
    maps = [f.depth for f in capture.frames if f.depth is not None and f.depth.world_from_camera is not None]
    if not maps:
        raise SmrError(
            f"{capture.source} has no depth maps with poses, so nothing says what its views saw.",
            "Evaluate without views, or give the RGB-D capture that the mesh was made from.",
        )
    seen = np.zeros(len(points), dtype=bool)
    decoded = decode_usable(maps, Decoder().depth)
    for depth_map, (depth, camera) in track(decoded, "Look what the views saw", len(maps)):
        left = np.flatnonzero(~seen)
        in_camera = transform_points(rigid_inverse(_pose(depth_map)), points[left].astype(np.float64))
        left, in_camera = left[in_camera[:, 2] > 0], in_camera[in_camera[:, 2] > 0]
        z = in_camera[:, 2]
        u = camera.fx * in_camera[:, 0] / z + camera.cx
        v = camera.fy * in_camera[:, 1] / z + camera.cy
        inside = (u >= 1) & (v >= 1) & (u < camera.width - 1) & (v < camera.height - 1)
        left, z, u, v = left[inside], z[inside], u[inside], v[inside]
        measured = depth[v.astype(int), u.astype(int)]
        agrees = (measured > 0) & (np.abs(measured - z) < np.maximum(0.002, 0.005 * measured))
        seen[left[agrees]] = True
    return seen


def colored_error_mesh(mesh: Mesh, reference: Mesh, max_distance: float, *, device: str = "cpu") -> Mesh:
    """The mesh with its vertices coloured by their distance to the reference.

    Dark blue is 0, then green, yellow, and dark red at `max_distance` metres and above.

    Raises:
        SmrError: A mesh has no faces or its vertices are not finite.
    """
    if not max_distance > 0:
        raise ValueError(f"max_distance must be positive, not {max_distance}")
    _check(mesh, "The mesh")
    _check(reference, "The reference")
    found = index_surface(reference, device=device).nearest(mesh.vertices)
    return replace(mesh, colors=error_colors(found.distances / max_distance))


def error_colors(share: Float[np.ndarray, " N"]) -> UInt8[np.ndarray, "N 3"]:
    """Colours of the map `turbo` (Mikhailov 2019) for 0 to 1; values beyond are clipped."""
    at = np.linspace(0.0, 1.0, len(_TURBO))
    channels = [np.interp(share, at, _TURBO[:, k]) for k in range(3)]
    return np.rint(np.stack(channels, axis=1)).astype(np.uint8)


# Every sixteenth of the map.
_TURBO = np.array(
    [
        (48, 18, 59), (64, 64, 162), (70, 107, 227), (66, 149, 255), (40, 187, 236), (24, 220, 195), (49, 242, 153),
        (107, 254, 100), (162, 252, 60), (204, 237, 52), (237, 208, 58), (253, 173, 53), (251, 128, 34),
        (237, 83, 15), (210, 49, 5), (173, 24, 1), (122, 4, 3),
    ],
    dtype=float,
)  # fmt: skip


def _pose(depth: DepthMap) -> Float[np.ndarray, "4 4"]:
    assert depth.world_from_camera is not None
    return depth.world_from_camera


def _check_settings(distances: Sequence[float], samples: int, seed: int) -> None:
    if samples < 1:
        raise SmrError(f"--samples is {samples}.", "Give a positive number of points; 300000 is usual.")
    if not distances or not all(0 < distance < np.inf for distance in distances):
        given = " ".join(f"{distance:g}" for distance in distances) or "empty"
        raise SmrError(f"--distances is {given}.", "Give positive distances in metres, such as 0.001 0.005.")
    if seed < 0:
        raise SmrError(f"--seed is {seed}.", "Give 0 or more.")


def _check(mesh: Mesh, name: str) -> None:
    if not len(mesh.vertices):
        raise SmrError(f"{name} is empty.", "Give a file that holds a triangle mesh.")
    if not len(mesh.faces):
        raise SmrError(
            f"{name} has {len(mesh.vertices)} points and no faces; distances are measured to a surface.",
            "Give a triangle mesh; of a point cloud, make one first (for example by Poisson reconstruction).",
        )
    bad = int((~np.isfinite(mesh.vertices).all(axis=1)).sum())
    if bad:
        raise SmrError(
            f"{name} has {bad} vertices that are not finite (NaN or infinity).",
            "Run `smr clean` on it, which drops them, or export it again.",
        )
    if mesh.faces.min() < 0 or mesh.faces.max() >= len(mesh.vertices):
        raise SmrError(
            f"{name} has faces that use vertices which it does not have (0 to {len(mesh.vertices) - 1}).",
            "The file is damaged: export it again.",
        )
    if not face_areas(mesh).any():
        raise SmrError(f"{name} has no face with an area.", "Give a mesh with proper triangles.")


def _used_box(mesh: Mesh) -> tuple[np.ndarray, np.ndarray]:
    used = mesh.vertices[np.unique(mesh.faces)]
    return used.min(axis=0).astype(np.float64), used.max(axis=0).astype(np.float64)


def _check_size(mesh: Mesh, reference: Mesh) -> None:
    """Refuse sizes so different that the units must differ."""
    size, reference_size = (float(np.linalg.norm(np.subtract(*_used_box(m)[::-1]))) for m in (mesh, reference))
    ratio = size / reference_size
    if 1 / 30 < ratio < 30:
        return
    factor = min(_UNITS, key=lambda unit: abs(np.log(max(ratio, 1 / ratio) / unit)))
    guess = ""
    if 0.5 < max(ratio, 1 / ratio) / factor < 2:
        units = (_UNITS[factor], "metres") if ratio > 1 else ("metres", _UNITS[factor])
        guess = f": it looks like {units[0]} against {units[1]}"
    raise SmrError(
        f"The mesh is {size:.4g} across and the reference {reference_size:.4g}{guess}.",
        "Use --align similarity to find the scale, or bring both to metres first (smr convert IN OUT --scale "
        f"{1 / factor if ratio > 1 else factor:g} on the mesh).",
    )


def _check_overlap(mesh: Mesh, reference: Mesh) -> None:
    """Refuse boxes further apart than either is large."""
    (low, high), (reference_low, reference_high) = _used_box(mesh), _used_box(reference)
    gap = float(np.linalg.norm(np.maximum(0, np.maximum(low - reference_high, reference_low - high))))
    size = max(float(np.linalg.norm(high - low)), float(np.linalg.norm(reference_high - reference_low)))
    if gap > size:
        raise SmrError(
            f"The mesh and the reference do not overlap: {gap:.4g} m of empty space lie between them.",
            "Use --align rigid to move the mesh onto the reference, or check that both are in one frame.",
        )


def _on_border(nearest: Nearest, mesh: Mesh) -> Bool[np.ndarray, " N"]:
    """Whether the nearest point lies on an edge that only one face has, to a thousandth of the distance."""
    edges = np.sort(mesh.faces[:, [1, 2, 2, 0, 0, 1]].reshape(-1, 2), axis=1)  # opposite to each corner
    _, number, shared = np.unique(edges, axis=0, return_inverse=True, return_counts=True)
    open_edge = (shared[number.ravel()] == 1).reshape(-1, 3)
    border_vertex = np.zeros(len(mesh.vertices), dtype=bool)
    border_vertex[edges[open_edge.ravel()].ravel()] = True

    corners = mesh.vertices[mesh.faces[nearest.faces]].astype(np.float64)
    sides = np.linalg.norm(corners[:, [1, 2, 0]] - corners[:, [2, 0, 1]], axis=2)
    doubled_area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    from_side = nearest.barycentric * doubled_area[:, None] / np.maximum(sides, 1e-30)
    from_corner = np.linalg.norm(corners - nearest.points[:, None], axis=2)
    reach = 1e-6 + 1e-3 * nearest.distances[:, None]
    # A corner on the border counts whichever of its faces was found.
    near_side = (from_side < reach) & open_edge[nearest.faces]
    near_corner = (from_corner < reach) & border_vertex[mesh.faces[nearest.faces]]
    return np.asarray((near_side | near_corner).any(axis=1))


def _cosines(
    one: SurfaceIndex, faces: Int32[np.ndarray, " N"], other: SurfaceIndex, nearest: Int32[np.ndarray, " N"]
) -> Float[np.ndarray, " N"]:
    cosines: np.ndarray = np.abs(np.einsum("ij,ij->i", one.normals[faces], other.normals[nearest]))
    return cosines


def _spread(distances: Float[np.ndarray, " N"]) -> Spread:
    exact = distances.astype(np.float64)
    median, p95 = np.percentile(exact, [50, 95])
    return Spread(float(exact.mean()), float(median), float(p95), float(np.sqrt(np.mean(exact**2))), float(exact.max()))


def _score(accuracy: Float[np.ndarray, " N"], completeness: Float[np.ndarray, " M"], distance: float) -> Score:
    precision, recall = float(np.mean(accuracy <= distance)), float(np.mean(completeness <= distance))
    total = precision + recall
    return Score(distance, precision, recall, 2 * precision * recall / total if total > 0 else 0.0)
