"""The main path: a capture becomes a textured mesh on disk. Read this first; each line is one file to open next."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import from_photos, tsdf
from .agreement import Agreement, measure_agreement
from .arrays import resolve_device
from .captures import SURVEY_RECORDS, read_capture, survey
from .cleaning import CleanReport, clean
from .config import PipelineConfig
from .errors import SmrError
from .formats import check_outputs, write_mesh
from .plan import Plan, plan
from .progress import Track, untracked
from .records import Capture, Material, Mesh, TexturedMesh
from .run_folder import RunFolder, capture_fingerprint, fingerprint
from .texturing import TextureReport, bake
from .trimming import TrimReport, trim

log = logging.getLogger(__name__)
TEXTURE_RECORDS = (TexturedMesh, Mesh, Material, TextureReport)


@dataclass(frozen=True)
class Result:
    """What a run made."""

    model: TexturedMesh | Mesh
    """With a texture where the capture has photos."""
    files: tuple[Path, ...]
    report: dict[str, Any]
    """The contents of run.json."""


def reconstruct(
    source: Path | str,
    out: Path | str | Sequence[Path | str],
    config: PipelineConfig = PipelineConfig(),  # noqa: B008  (frozen)
    *,
    device: str = "auto",
    work: Path | None = None,
    track: Track = untracked,
) -> Result:
    """Turn a capture into textured-mesh files; of photos alone, poses and depth are found first.

    Args:
        source: Folder (or file) of the capture; `captures.read_capture` tells its format.
        out: Files to write; the ending chooses the format (.usdz .usda .usdc .glb .obj .ply .stl .off).
        config: Settings of every stage.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        work: The run's folder; beside the first output when left out. The same call again continues there.
        track: Progress of each stage.

    Raises:
        SmrError: The capture cannot carry the result that was asked for, or a file cannot be written.
    """
    outputs = [Path(path) for path in ([out] if isinstance(out, (str, Path)) else out)]
    check_outputs(outputs)
    device = resolve_device(device)
    folder = work or outputs[0].with_suffix(".smr")
    capture = read_capture(Path(source), config.capture, folder=folder, track=track)

    with RunFolder(folder) as run:
        capture, poses = from_photos.find_poses(capture, config, run, track=track)
        capture = from_photos.estimate_depths(capture, poses, config, run, device=device, track=track)

        key = fingerprint(capture_fingerprint(capture), device.split(":")[0], config.seed)
        seen = run.stage("survey", key, lambda: survey(capture, track=track), SURVEY_RECORDS)
        choice = plan(seen, capture, config)

        key = fingerprint(key, choice.fusion)
        raw = run.stage("surface", key, lambda: _surface(capture, choice, device, track), (Mesh,))

        key = fingerprint(key, config.trim)
        shown, trimmed = run.stage(
            "trim", key, lambda: _trim(raw, capture, config, choice, device, track), (Mesh, TrimReport)
        )

        key = fingerprint(key, config.clean)
        mesh, cleaned = run.stage(
            "clean", key, lambda: clean(shown, config.clean, device=device, track=track), (Mesh, CleanReport)
        )

        if poses is not None:
            mesh = from_photos.with_support(mesh, capture, run, key, device=device, track=track)

        key = fingerprint(key, config.texture)
        model, painted = run.stage(
            "texture", key, lambda: _texture(mesh, capture, config, device, track), TEXTURE_RECORDS
        )

        remark = "" if poses is None else poses.scale_words
        files = [
            write_mesh(model, path, world_up=seen.world_up, remark=remark) for path in track(outputs, "writing files")
        ]
        agreement = _agreement(mesh, capture, choice, device, track)
        findings = (*capture.findings, *seen.findings, *choice.findings)
        report = run.write_report(
            {
                "device": device,
                "config": asdict(config),
                "capture": {"format": capture.format, "frames": len(capture)},
                "findings": [asdict(finding) for finding in findings],
                "poses": None if poses is None else poses.as_dict(),
                "support": from_photos.support_summary(mesh),
                "survey": seen.as_dict(),
                "plan": choice.as_dict(),
                "trim": asdict(trimmed),
                "clean": asdict(cleaned),
                "texture": asdict(painted) if painted else None,
                "agreement": asdict(agreement) if agreement else None,
                "files": [str(file) for file in files],
            }
        )
    return Result(model, tuple(files), report)


def _surface(capture: Capture, choice: Plan, device: str, track: Track) -> Mesh:
    volume = tsdf.fuse(capture, choice.fusion, device=device, track=track)
    return tsdf.extract_mesh(volume, choice.fusion, track=track)


def _trim(
    raw: Mesh, capture: Capture, config: PipelineConfig, choice: Plan, device: str, track: Track
) -> tuple[Mesh, TrimReport]:
    return trim(raw, capture, config.trim, voxel_size=choice.voxel_size, device=device, track=track)


def _texture(
    mesh: Mesh, capture: Capture, config: PipelineConfig, device: str, track: Track
) -> tuple[TexturedMesh | Mesh, TextureReport | None]:
    """Depth alone gives a bare mesh."""
    if all(frame.photo is None or frame.photo.world_from_camera is None for frame in capture.frames):
        return mesh, None
    return bake(mesh, capture, config.texture, device=device, track=track)


def _agreement(mesh: Mesh, capture: Capture, choice: Plan, device: str, track: Track) -> Agreement | None:
    """The quality figure of the report; the files are written, so that nothing here may cost them."""
    try:
        return measure_agreement(
            mesh,
            capture,
            tolerance=3 * choice.voxel_size,
            depth_max=choice.fusion.depth_max,
            device=device,
            track=track,
        )
    except SmrError as error:
        log.warning("The surface was not compared with the depth maps. %s", error.cause)
        return None
