"""From posed photos to a texture: look at every photo once to decide, once more to paint."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import warp as wp
from jaxtyping import Bool, Float, Float32, Int32, UInt8

from ..config import TextureConfig
from ..errors import SmrError
from ..mesh.normals import face_areas, face_normals
from ..mesh.unwrap import MAX_SIZE, unwrap
from ..progress import Track, step, untracked
from ..records import Capture, Material, Mesh, TexturedMesh
from .align import align
from .blend import OPEN, Canvas, finish, list_jobs, make_canvas, paint
from .exposure import solve_gains
from .fill import fill_gutter, fill_vertices
from .shots import Shots, ground_sampling_distance
from .slots import Slots, empty_slots
from .support import Support, build_support
from .views import BLEND, Choice, choose, scale_scores
from .visibility import Seen, build_pyramid, look, observe, sharpness

logger = logging.getLogger(__name__)

GUTTER = 8
"""Free texels between charts."""
SUPPORT_TEXELS = 16.0
"""Longest edge between support vertices, texels."""
_KEEP_BYTES = 400_000_000
_SAMPLES = 4000
_NEIGHBOURS = 4


@dataclass(frozen=True)
class TextureReport:
    """What was painted, and from what."""

    size: int
    """Side of the texture, pixels."""
    texel_size: float
    """Side of a texel on the surface, metres."""
    photo_resolution: float | None
    """Distance between pixels of the finest photos on the surface, metres."""
    capped: bool
    """The photos show finer detail than the largest texture can hold."""
    charts: int | None
    """None where the mesh kept its own texture coordinates."""
    photos: int
    """Photos with a pose."""
    photos_used: int
    """Photos that painted something."""
    seen: float
    """Part of the textured surface that a photo painted."""
    exposure_spread: float
    """Largest of the photos' exposure gains divided by the smallest."""


def bake(
    mesh: Mesh, capture: Capture, config: TextureConfig, *, device: str, track: Track = untracked
) -> tuple[TexturedMesh, TextureReport]:
    """Unwrap a mesh and paint its texture from the capture's photos. Depth maps are not used.

    Args:
        mesh: Any triangle mesh in the capture's world frame. Vertex colours, if it has them, fill what no photo saw.
        capture: Photos with poses.
        config: Size of the texture, and whether poses are corrected.
        device: A Warp device.
        track: Progress.

    Raises:
        SmrError: The mesh has no faces, there is no photo with a pose, or none that sees the mesh.
    """
    _check(mesh, config)
    shots = Shots(capture)
    resolution = photo_resolution(mesh, shots)
    texel = resolution if config.texture_size is None and resolution is not None else None
    atlas = unwrap(mesh, size=config.texture_size or (None if texel else 1024), texel=texel, gutter=GUTTER, track=track)
    model, report = _paint_model(
        mesh, atlas.uvs, atlas.face_uvs, atlas.size, shots, config.align_photos, device=device, track=track
    )
    finer = resolution is not None and resolution < 0.9 * report.texel_size
    return model, replace(
        report,
        charts=atlas.charts,
        photo_resolution=resolution,
        capped=finer and config.texture_size in (None, MAX_SIZE),
    )


def bake_onto(
    model: TexturedMesh, capture: Capture, config: TextureConfig, *, device: str, track: Track = untracked
) -> tuple[TexturedMesh, TextureReport]:
    """Paint a new texture for a mesh that keeps its own texture coordinates; see `bake`.

    Coordinates outside 0 to 1 are wrapped into it. Where two faces share a place of the texture, the first one's colour
    is there.
    """
    _check(model.mesh, config)
    shots = Shots(capture)
    resolution = photo_resolution(model.mesh, shots)
    uvs = np.asarray(model.uvs, np.float64)
    if len(uvs) and (uvs.min() < 0 or uvs.max() > 1):
        uvs = uvs - np.floor(uvs)
    size = config.texture_size or _fitting_size(model.mesh, uvs, model.face_uvs, resolution)
    painted, report = _paint_model(
        model.mesh, uvs, model.face_uvs, size, shots, config.align_photos, device=device, track=track
    )
    finer = resolution is not None and resolution < 0.9 * report.texel_size and size == MAX_SIZE
    return replace(painted, uvs=model.uvs), replace(report, photo_resolution=resolution, capped=finer)


def _check(mesh: Mesh, config: TextureConfig) -> None:
    if len(mesh.faces) == 0:
        raise SmrError("The mesh has no faces, so there is nothing to paint.", "Give a mesh with triangles.")
    if not np.isfinite(mesh.vertices).all():
        raise SmrError(
            "The mesh has vertices whose coordinates are not finite numbers.",
            "Clean it first: smr clean MESH --out ...",
        )
    if config.texture_size is not None and not 16 <= config.texture_size <= MAX_SIZE:
        raise SmrError(
            f"A texture of {config.texture_size} pixels was asked for.",
            f"Choose a size between 16 and {MAX_SIZE}, or leave it out.",
        )


def photo_resolution(mesh: Mesh, shots: Shots) -> float | None:
    """Distance between pixels of the finest photos on the surface, metres; see `ground_sampling_distance`."""
    areas = face_areas(mesh).astype(np.float64)
    total = np.cumsum(areas)
    if not total[-1] > 0:
        return None
    chosen = np.searchsorted(total, (np.arange(_SAMPLES) + 0.5) / _SAMPLES * total[-1])
    points = np.asarray(mesh.vertices, np.float64)[mesh.faces[chosen]].mean(1)
    return ground_sampling_distance(points, np.asarray(face_normals(mesh), np.float64)[chosen], shots)


def _fitting_size(mesh: Mesh, uvs: np.ndarray, face_uvs: np.ndarray, resolution: float | None) -> int:
    if resolution is None:
        return 1024
    side = float(np.sqrt(face_areas(mesh).sum() / max(_uv_areas(uvs, face_uvs).sum(), 1e-12)))
    return int(np.clip(-(-side / resolution // 256) * 256, 256, MAX_SIZE))


def _uv_areas(uvs: np.ndarray, face_uvs: np.ndarray) -> Float[np.ndarray, " F"]:
    a, b, c = (np.asarray(uvs, np.float64)[face_uvs[:, i]] for i in range(3))
    p, q = b - a, c - a
    return 0.5 * np.abs(p[:, 0] * q[:, 1] - p[:, 1] * q[:, 0])


@dataclass(frozen=True)
class _Scene:
    """The mesh on the device."""

    vertices: Any
    faces: Any
    points: Any
    """Support vertices."""
    normals: Any
    spacing: Any
    texel: float


def _paint_model(
    mesh: Mesh,
    uvs: Float[np.ndarray, "T 2"],
    face_uvs: Int32[np.ndarray, "F 3"],
    size: int,
    shots: Shots,
    aligned: bool,
    *,
    device: str,
    track: Track,
) -> tuple[TexturedMesh, TextureReport]:
    covered = max(float(_uv_areas(uvs, face_uvs).sum()), 1e-12)
    texel = float(np.sqrt(max(float(face_areas(mesh).sum()), 1e-12) / covered)) / size
    with step(track, "Preparing the surface"):
        support = build_support(mesh, uvs, face_uvs, SUPPORT_TEXELS * texel)
        scene = _upload(mesh, support, texel, device)
    if aligned:
        shots.poses = align(mesh, shots, scene.vertices, scene.faces, device=device, track=track)
    gallery = _Gallery(shots, scene, device)
    slots, sharp = _look_at_all(gallery, scene, device=device, track=track)
    if not (slots.score.numpy() > 0).any():
        raise SmrError(
            f"None of the {len(shots)} photos sees the mesh.",
            "Check that the mesh and the camera poses are in the same coordinates and units, and look the right way "
            "(see docs/conventions.md).",
        )
    with step(track, "Choosing views"):
        scale_scores(slots, _relative_sharpness(sharp), device=device)
        shape = (len(support.vertices), slots.count)
        gains = solve_gains(slots.view.numpy().reshape(shape), slots.color.numpy().reshape(*shape, 3), len(shots))
        choice = choose(slots, support, gains, device=device)
        canvas = make_canvas(support, size, texel, scene.points, device=device)
    used = _paint_all(gallery, support, canvas, slots, choice, gains, device=device, track=track)
    with step(track, "Filling"):
        image, painted = _finish(support, canvas, choice, device=device)
    filled, seen = _unseen_faces(support, canvas, painted, len(mesh.faces))
    material = Material(name="scan", texture=image)
    report = TextureReport(
        size=size,
        texel_size=texel,
        photo_resolution=None,
        capped=False,
        charts=None,
        photos=len(shots),
        photos_used=used,
        seen=seen,
        exposure_spread=float(gains.max() / gains.min()),
    )
    model = TexturedMesh(mesh, np.asarray(uvs, np.float32), face_uvs, (material,), filled=filled)
    return model, report


def _upload(mesh: Mesh, support: Support, texel: float, device: str) -> _Scene:
    return _Scene(
        wp.array(np.ascontiguousarray(mesh.vertices, np.float32), dtype=wp.vec3, device=device),
        wp.array(np.ascontiguousarray(mesh.faces, np.int32), dtype=wp.vec3i, device=device),
        wp.array(support.vertices, dtype=wp.vec3, device=device),
        wp.array(support.normals, dtype=wp.vec3, device=device),
        wp.array(support.spacing, dtype=float, device=device),
        texel,
    )


class _Gallery:
    """What each photo sees of the mesh; kept while it is needed again, if the photos are few and small."""

    def __init__(self, shots: Shots, scene: _Scene, device: str) -> None:
        self._shots, self._scene, self._device = shots, scene, device
        self._kept: dict[int, Seen] = {}
        pixels = sum(photo.camera.width * photo.camera.height for photo in shots.photos)
        self._keep = 8 * pixels <= _KEEP_BYTES

    def __len__(self) -> int:
        return len(self._shots)

    def see(self, wanted: Sequence[int], track: Track, label: str) -> Iterator[tuple[int, Seen]]:
        """Yield `(index, what it sees)` of the wanted photos in order."""
        if all(i in self._kept for i in wanted):
            yield from ((i, self._kept[i]) for i in track(wanted, label, len(wanted)))
            return
        for i, shot in self._shots.decode(wanted, track, label):
            seen = look(
                shot.pixels,
                shot.mask,
                shot.camera,
                self._shots.poses[i],
                self._scene.vertices,
                self._scene.faces,
                device=self._device,
            )
            if self._keep:
                self._kept[i] = seen
            yield i, seen


def _look_at_all(
    gallery: _Gallery, scene: _Scene, *, device: str, track: Track
) -> tuple[Slots, Float[np.ndarray, " views"]]:
    slots = empty_slots(len(scene.points), device=device)
    sharp = np.zeros(len(gallery))
    for i, seen in gallery.see(range(len(gallery)), track, "Looking at photos"):
        pyramid = build_pyramid(seen, device=device)
        sharp[i] = sharpness(pyramid, device=device)
        observe(seen, pyramid, i, slots, scene.points, scene.normals, scene.spacing, scene.texel, device=device)
    return slots, sharp


def _relative_sharpness(sharp: Float[np.ndarray, " views"]) -> Float[np.ndarray, " views"]:
    """Each photo's sharpness over the median of the photos around it in the capture, which show about the same."""
    count = len(sharp)
    windows = [sharp[max(0, i - _NEIGHBOURS) : i + _NEIGHBOURS + 1] for i in range(count)]
    usual = np.array([np.median(window) for window in windows])
    return np.clip(np.divide(sharp, usual, out=np.ones(count), where=usual > 0), 0.1, 1.3)


def _paint_all(
    gallery: _Gallery,
    support: Support,
    canvas: Canvas,
    slots: Slots,
    choice: Choice,
    gains: Float[np.ndarray, "views 3"],
    *,
    device: str,
    track: Track,
) -> int:
    """First the chosen views; then, where these turn out to be hidden, every other view that agrees."""
    used: set[int] = set()
    faces, vertices = support.faces, len(support.vertices)
    for second_round in (False, True):
        if second_round:
            agrees = choice.agrees.numpy().reshape(vertices, -1) > 0
            names = np.where(agrees, slots.view.numpy().reshape(vertices, -1), -1)
            owner = canvas.owner.numpy()
            open_texels = (owner >= 0) & (canvas.painted.numpy()[:, 3] < OPEN)
            which = np.unique(owner[open_texels])
        else:
            names = choice.view.numpy().reshape(vertices, BLEND)
            which = np.arange(len(faces))
        jobs = list_jobs(faces, names, len(gallery), which)
        listed = wp.array(jobs.listed, dtype=int, device=device)
        label = "Painting what is left" if second_round else "Painting"
        for i, seen in gallery.see(jobs.photos(), track, label):
            paint(canvas, seen, i, gains[i], jobs, listed, slots, choice, second_round=second_round, device=device)
            used.add(i)
    return len(used)


def _finish(
    support: Support, canvas: Canvas, choice: Choice, *, device: str
) -> tuple[UInt8[np.ndarray, "h w 3"], Bool[np.ndarray, " texels"]]:
    consensus = choice.consensus.numpy()
    colors: Float32[np.ndarray, "V 3"] = fill_vertices(support, consensus, consensus[:, 0] >= 0)
    image = finish(canvas, colors, device=device)
    fill_gutter(image, canvas.owner, canvas.size, device=device)
    return image.numpy().reshape(canvas.size, canvas.size, 3), canvas.painted.numpy()[:, 3] > 0


def _unseen_faces(
    support: Support, canvas: Canvas, painted: Bool[np.ndarray, " texels"], faces: int
) -> tuple[Bool[np.ndarray, " F"], float]:
    """Faces of which less than half was painted, and the part of all texels that was."""
    owner = canvas.owner.numpy()
    inside = owner >= 0
    of_face = support.parents[owner[inside]]
    total = np.bincount(of_face, minlength=faces)
    done = np.bincount(of_face, painted[inside], faces)
    return 2 * done < total, float(done.sum() / max(1, total.sum()))
