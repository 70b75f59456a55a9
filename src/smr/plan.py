"""What a reconstruction will do, from a survey: voxel size, depth range, memory, time; refused where it cannot fit."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float32

from .arrays import cpu_threads
from .captures.survey import Survey
from .cleaning import check_settings as check_cleaning
from .config import FusionConfig, PipelineConfig
from .errors import SmrError
from .records import Capture, Finding
from .trimming import check_settings as check_trimming
from .tsdf import check_settings as check_fusion
from .tsdf.volume import BLOCK, BLOCK_VOXELS, free_bytes, volume_bytes

READABLE = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
"""Voxel sizes are one of these times a power of ten."""
DECODE_SECONDS = 0.009
"""CPU time to decode a photo and a depth map of 640×480."""
VOXEL_SECONDS = 30e-9
"""CPU time to update a voxel from a frame."""
CELL_SECONDS = 10e-9
"""CPU time to extract the surface, a voxel."""
FINISH_SECONDS = 25.0
"""CPU time to clean, unwrap and write."""
PHOTO_SECONDS = 0.15
"""CPU time to texture from a photo of 640×480."""
LARGEST = 100.0
"""Metres; no voxel is larger."""
GROWTH_LIMIT = 2.0
"""Frames between the sampled ones add at most this factor of surface."""


@dataclass(frozen=True)
class Plan:
    """The choices for one run, with what they cost. Lengths are metres."""

    fusion: FusionConfig
    """The config with voxel size and depth range set."""
    voxel_size: float
    voxel_reason: str
    """Why this size, in words."""
    depth_min: float
    depth_max: float
    blocks: int
    """Expected blocks of 8×8×8 voxels."""
    memory: int
    """Bytes that the volume is expected to take."""
    memory_budget: int
    """Bytes that it may take."""
    seconds: float
    """Rough time of the whole job on this machine's CPU."""
    frames: int
    findings: tuple[Finding, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def plan(survey: Survey, capture: Capture, config: PipelineConfig) -> Plan:
    """Choose what `config` leaves open.

    The voxel size is twice a pixel's footprint at the median depth or twice the depth's noise there, whichever is
    larger, at a readable number; larger where the memory asks for it.

    Raises:
        SmrError: There is no depth or no pose to fuse, a setting means nothing, or the voxel size that was asked for
            needs more memory than there is; with the size that would fit.
    """
    if not survey.depth_percentiles:
        raise _nothing_to_fuse(survey, capture)
    _refuse_contradictions((*capture.findings, *survey.findings), config)
    wanted, reason = _voxel_size(survey)
    given = config.fusion.voxel_size
    if given is not None and not (math.isfinite(given) and given > 0):
        raise SmrError(f"--voxel-size is {given:g}.", f"Give metres, for example {wanted:g}.")
    check_fusion(config.fusion)
    check_trimming(config.trim)
    check_cleaning(config.clean)  # now, not after the fusion
    voxel_size = wanted if given is None else given
    truncation = config.fusion.truncation
    budget = int(config.fusion.memory * 1e9) if config.fusion.memory is not None else free_bytes("cpu") // 2
    color = survey.photos > 0
    blocks = expected_blocks(survey, voxel_size, truncation)
    findings: list[Finding] = []
    needed = volume_bytes(blocks, color=color)
    if needed > budget:
        fits = _fitting_size(survey, voxel_size, truncation, budget, color)
        if fits is None:
            raise SmrError(
                f"No voxel size makes this scene fit into the {_gigabytes(budget)} that may be used.",
                "Give --memory with more gigabytes, or free some.",
            )
        if given is not None:
            raise SmrError(
                f"A voxel size of {given:g} m needs about {_gigabytes(needed)} for this scene; "
                f"{_gigabytes(budget)} may be used.",
                f"Give --voxel-size {fits:g}, or --memory with more gigabytes if the machine has them.",
            )
        findings.append(
            Finding(
                "warning",
                f"Voxels of {voxel_size:g} m would suit the data and need about {_gigabytes(needed)}; "
                f"{_gigabytes(budget)} may be used, so {fits:g} m is taken.",
                "Free memory, or give --memory.",
            )
        )
        voxel_size, reason = fits, "the finest that fits the memory"
        blocks = expected_blocks(survey, voxel_size, truncation)
    depth_max = config.fusion.depth_max or _depth_max(survey)
    fusion = _in_units_of(survey, config.fusion) if _is_stereo(capture) else config.fusion
    return Plan(
        fusion=replace(fusion, voxel_size=voxel_size, depth_max=depth_max),
        voxel_size=voxel_size,
        voxel_reason=reason if given is None else "as asked for",
        depth_min=fusion.depth_min,
        depth_max=depth_max,
        blocks=blocks,
        memory=volume_bytes(blocks, color=color),
        memory_budget=budget,
        seconds=_seconds(survey, voxel_size, truncation, blocks),
        frames=survey.frames,
        findings=tuple(findings),
    )


def _is_stereo(capture: Capture) -> bool:
    return any(frame.depth is not None and frame.depth.stereo for frame in capture.frames)


def _in_units_of(survey: Survey, fusion: FusionConfig) -> FusionConfig:
    """The settings whose defaults are metres, for depth of stereo, whose unit may be any.

    Depth of stereo has no least distance of a sensor. The limit of a voxel's weight is for surfaces a metre away; it
    is taken to mean surfaces at the median depth.
    """
    default, nearest = FusionConfig(), 0.1 * survey.depth_percentiles[0]
    return replace(
        fusion,
        depth_min=nearest if fusion.depth_min == default.depth_min else fusion.depth_min,
        weight_limit=fusion.weight_limit / survey.depth_percentiles[2] ** 2,
    )


def _nothing_to_fuse(survey: Survey, capture: Capture) -> SmrError:
    cause = f"{capture.source} ({capture.format}) has no frame with depth and a pose that can be used."
    severe = [f for severity in ("error", "warning") for f in survey.findings if f.severity == severity]
    if not severe:
        return SmrError(cause, "Use a capture with depth and poses; `smr inspect` says what each frame has.")
    return SmrError(f"{cause} {severe[0].cause}", severe[0].cure)


def _refuse_contradictions(findings: tuple[Finding, ...], config: PipelineConfig) -> None:
    """A capture that contradicts itself gives garbage after minutes; better a word at once."""
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors and not config.capture.ignore_problems:
        raise SmrError(errors[0].cause, f"{errors[0].cure} Or go on all the same with --ignore-problems.".lstrip())


def readable(size: float) -> float:
    """The readable number nearest in ratio: 1, 1.5, 2, 2.5, 3, 4, 5, 6 or 8 times a power of ten."""
    return min(_readable_near(size), key=lambda choice: abs(math.log(choice / size)))


def _next_readable(size: float) -> float:
    return min(choice for choice in _readable_near(size) if choice > size * (1 + 1e-9))


def _readable_near(size: float) -> list[float]:
    exponent = math.floor(math.log10(size))
    return [float(f"{digit * 10.0**e:.6g}") for e in (exponent - 1, exponent, exponent + 1) for digit in READABLE]


def _voxel_size(survey: Survey) -> tuple[float, str]:
    candidates = (
        (2 * survey.ground_sample_distance, "two pixels at the median depth"),
        (2 * survey.noise, "twice the depth's noise"),
    )
    size, reason = max(candidates)
    return readable(max(size, 1e-6)), reason


def _depth_max(survey: Survey) -> float:
    """A little more than nearly all of the depth, rounded up to two digits."""
    far = survey.depth_percentiles[-1] * 1.05
    step = 10.0 ** (math.floor(math.log10(far)) - 1)
    return float(f"{math.ceil(far / step) * step:.6g}")


def expected_blocks(survey: Survey, voxel_size: float, truncation: float) -> int:
    """Blocks of 8×8×8 voxels that the truncation band around the surface touches.

    Counted from the sampled points, each stretched along its ray by the truncation; where points are further apart
    than a block, counted in larger cells and scaled as a surface scales. Frames that were not sampled add what the
    second half of the sample added to the first, extrapolated.
    """
    if len(survey.points) == 0:
        return 0
    growth = 1.0
    views = int(survey.point_views.max()) + 1
    if views >= 4 and survey.depth_maps > views:
        half = survey.point_views % 2 == 0
        whole, part = _count(survey, voxel_size, truncation, None), _count(survey, voxel_size, truncation, half)
        exponent = math.log2(max(whole / max(part, 1), 1.0))
        growth = min((survey.depth_maps / views) ** exponent, GROWTH_LIMIT)
    return math.ceil(_count(survey, voxel_size, truncation, None) * growth)


def _count(survey: Survey, voxel_size: float, truncation: float, chosen: np.ndarray | None) -> float:
    points, rays, spacing = survey.points, survey.rays, survey.point_spacing
    if chosen is not None:
        points, rays, spacing = points[chosen], rays[chosen], spacing[chosen]
    block = BLOCK * voxel_size
    cell = max(block, 1.5 * float(np.percentile(spacing, 75)))
    reach = np.float32(truncation * voxel_size * cell / block)
    return _unique_cells([points - reach * rays, points, points + reach * rays], cell) * (cell / block) ** 2


def _unique_cells(groups: list[Float32[np.ndarray, "N 3"]], cell: float) -> int:
    indices = np.concatenate([np.floor(points.astype(np.float64) / cell).astype(np.int64) for points in groups])
    indices -= indices.min(axis=0)
    span = indices.max(axis=0) + 1
    return len(np.unique((indices[:, 0] * span[1] + indices[:, 1]) * span[2] + indices[:, 2]))


def _fitting_size(survey: Survey, voxel_size: float, truncation: float, budget: int, color: bool) -> float | None:
    """The next readable voxel size whose volume fits; None where none does."""

    def needed(size: float) -> int:
        return volume_bytes(expected_blocks(survey, size, truncation), color=color)

    # Blocks are about as 1 / size squared: begin a little below what that says, lest a tiny size take long.
    size = _next_readable(voxel_size * max(1.0, (needed(voxel_size) / max(budget, 1)) ** 0.5 / 4))
    while needed(size) > budget:
        if size > LARGEST:
            return None
        size = _next_readable(size)
    return size


def _seconds(survey: Survey, voxel_size: float, truncation: float, blocks: int) -> float:
    """Decoding, fusing and texturing in proportion to frames and voxels, over the cores; cleaning on one."""
    pixels = max(1.0, (survey.depth_size[0] * survey.depth_size[1] if survey.depth_size else 0) / (640 * 480))
    first = survey.point_views == 0
    in_view = _count(survey, voxel_size, truncation, first) if first.any() else 0.0
    frame = DECODE_SECONDS * pixels + in_view * BLOCK_VOXELS * VOXEL_SECONDS
    parallel = survey.depth_maps * frame + survey.photos * PHOTO_SECONDS + blocks * BLOCK_VOXELS * CELL_SECONDS
    return parallel / cpu_threads() + FINISH_SECONDS


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.3g} GB"
