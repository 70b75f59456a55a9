"""What a survey finds wrong with a capture, in sentences with a cure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from ..records import Capture, Finding
from .checks import named
from .consistency import Hypothesis, agreement, best_hypothesis
from .sample import Look, Sample

if TYPE_CHECKING:
    from .survey import Survey

UNITS = (1.0, 100.0, 256.0, 1000.0, 5000.0, 10000.0, 65535.0)
"""Stored values of one metre that are tried where frames do not agree."""
NEAREST, FARTHEST = 0.02, 100.0
"""Metres between which the median of true depth lies. Farther away any two views seem to agree."""
POSE_WORDS = {
    "opengl": "camera axes of OpenGL (x right, y up, z backward)",
    "world_to_camera": "world-to-camera matrices",
    "world_to_camera_opengl": "world-to-camera matrices with camera axes of OpenGL",
    "left_handed": "a left-handed world with y up",
}
_BETTER = 0.05
_ENOUGH = 0.15
_SOUND = 0.9
_PLAIN = Hypothesis("none", 1.0)
_LITTLE = 0.03


def capture_findings(capture: Capture, seen: Survey) -> list[Finding]:
    """What the capture as a whole lacks."""
    found: list[Finding] = []
    if not seen.depth_maps:
        found.append(
            Finding(
                "error",
                f"The {seen.photos} frames have no depth.",
                "Depth is needed for a reconstruction: scan with a depth sensor, or make depth maps from the photos.",
            )
        )
    elif seen.depth_maps < seen.frames:
        found.append(Finding("note", f"{seen.frames - seen.depth_maps} of {seen.frames} frames have no depth."))
    sensors = [frame.depth or frame.photo for frame in capture.frames]
    poses = [s.world_from_camera for s in sensors if s is not None and s.world_from_camera is not None]
    if not poses:
        found.append(Finding("error", "No frame has a pose.", "Poses must be found first, for example with COLMAP."))
    elif len(poses) > 1 and np.ptp(np.array(poses), axis=0).max() < 1e-9:
        found.append(
            Finding(
                "error",
                f"All {len(poses)} poses are the same: the camera was not tracked.",
                "Use frames with poses of their own, or a single frame.",
            )
        )
    if seen.depth_maps and seen.frames <= 2:
        found.append(
            Finding(
                "warning",
                f"There {'is only one frame' if seen.frames == 1 else 'are only two frames'}: "
                "most of the surface is seen once or not at all.",
                "Record more frames from around the object.",
            )
        )
    return found


def scale_findings(capture: Capture, sample: Sample, seen: Survey) -> list[Finding]:
    """Wrong units and pose conventions, told by whether frames agree; frames that do not overlap."""
    if not seen.depth_percentiles:
        return []
    depth = next((frame.depth for frame in capture.frames if frame.depth is not None), None)
    scale = depth.scale if depth is not None else 1.0
    median = seen.depth_percentiles[2]
    pairs = list(sample.pairs)
    if depth is not None and depth.stereo:  # in the unit of the poses, whatever that is
        return []
    factors = [scale / unit for unit in UNITS if abs(unit / scale - 1) > 1e-6]
    factors = [factor for factor in factors if NEAREST < median * factor < FARTHEST]
    plain = agreement(pairs, _PLAIN)
    best, score = best_hypothesis(pairs, factors) if plain < _SOUND else (_PLAIN, plain)
    if score > max(plain + _BETTER, 1.15 * plain, _ENOUGH) and best != _PLAIN:
        return [_wrong_reading(best, scale, plain, score, median)]
    if not NEAREST < median < FARTHEST:
        return [
            Finding(
                "error",
                f"Half of the depth is {'nearer' if median <= NEAREST else 'farther'} than {median:.4g} m "
                f"(stored value / {scale:g}): the unit is likely wrong.",
                f"Give --depth-scale; 1000 times {'farther' if median <= NEAREST else 'nearer'} would be "
                f"--depth-scale {scale / 1000 if median <= NEAREST else scale * 1000:g}.",
            )
        ]
    if pairs and plain < _LITTLE:
        return [
            Finding(
                "warning",
                f"Frames do not overlap, or their poses are wrong: only {plain:.1%} of the depth is confirmed by "
                "another frame.",
                "Check the poses; record with more overlap (half of each view, or more). The parts will not be joined.",
            )
        ]
    return []


def _wrong_reading(best: Hypothesis, scale: float, plain: float, score: float, median: float) -> Finding:
    causes, cures = [], []
    if best.scale != 1.0:
        unit = scale / best.scale
        side = "near" if best.scale > 1 else "far"
        times = max(best.scale, 1 / best.scale)
        causes.append(
            f"the depth scale looks wrong: with {scale:g}, half of the depth is nearer than {median:.4g} m, "
            f"{round(times, 2):g} times too {side}; {unit:g} would agree"
        )
        cures.append(f"--depth-scale {unit:g}")
    if best.pose_fix != "none":
        causes.append(f"the poses look like {POSE_WORDS[best.pose_fix]}")
        cures.append(f"--pose-fix {best.pose_fix}")
    said = " and ".join(causes)
    return Finding(
        "error",
        f"{said[0].upper()}{said[1:]} ({score:.0%} of the depth is confirmed by the next frame, now {plain:.0%}).",
        f"Give {' '.join(cures)}.",
    )


def frame_findings(looks: Iterable[Look], seen: Survey, depth_scale: float) -> list[Finding]:
    """What single frames, their depth and their colour show."""
    looks = tuple(looks)
    found: list[Finding] = []
    broken = {look.name: look.error for look in looks if look.error is not None}
    if broken:
        first, everything = next(iter(broken.values())), len(broken) == len(looks)
        found.append(
            Finding(
                "error" if everything else "warning",
                f"{len(broken)} of {len(looks)} sampled frames cannot be decoded: {named(list(broken))}. {first.cause}",
                first.cure if everything else "Copy or export these frames again, or remove them; they are left out.",
            )
        )
    found += _depth_findings([look for look in looks if look.bits], seen, depth_scale)
    if seen.blurred:
        found.append(
            Finding(
                "note",
                f"{len(seen.blurred)} of {len(looks)} sampled photos are blurred: {named(list(seen.blurred))}.",
                "Move slower, or record with more light.",
            )
        )
    if seen.exposure_spread is not None and seen.exposure_spread > 0.1:
        found.append(Finding("note", f"Exposure varies by {seen.exposure_spread:.0%} from photo to photo."))
    offset = seen.color_offset
    if offset is not None and offset.pixels > 4 * _photo_step(seen) and offset.gain > 1.25 and offset.contrast > 4:
        found.append(
            Finding(
                "warning",
                f"Colour is not registered to depth: edges lie about {offset.pixels:.0f} pixels apart (scale "
                f"{offset.scale:g}, shift {offset.shift[0]:+.0f}, {offset.shift[1]:+.0f}): textures will be shifted.",
                "Give --color-calibration FILE with the colour camera, or put color_calibration.json there.",
            )
        )
    return found


def _photo_step(seen: Survey) -> float:
    """Pixels of the photo for one of a photo 640 wide."""
    return max(1.0, max(seen.photo_size or (640, 480)) / 640)


def _depth_findings(looks: list[Look], seen: Survey, depth_scale: float) -> list[Finding]:
    found: list[Finding] = []
    if looks and seen.valid_depth < 0.2:
        found.append(
            Finding(
                "warning", f"Only {seen.valid_depth:.0%} of the pixels have depth.", "Scan nearer, and matt surfaces."
            )
        )
    if seen.flying_pixels > 0.005:
        found.append(
            Finding(
                "note", f"{seen.flying_pixels:.1%} of the depth hangs between two surfaces; it is dropped at edges."
            )
        )
    integers = [look for look in looks if look.step]
    if not integers:
        return found
    bits = integers[0].bits
    step = int(np.gcd.reduce([look.step for look in integers]))
    top = max(look.top for look in integers)
    if bits == 8:
        found.append(
            Finding(
                "warning",
                "Depth has only 8 bits: the surface will have steps.",
                "Export depth as 16-bit PNG in millimetres, or as floating point.",
            )
        )
    elif step > 1 and step / depth_scale > seen.ground_sample_distance:
        found.append(
            Finding(
                "warning",
                f"Depth is quantised in steps of {1000 * step / depth_scale:.3g} mm (multiples of {step}): the surface "
                "will have steps.",
                "Export the sensor's full depth.",
            )
        )
    clipped = float(np.mean([look.saturated for look in integers]))
    if top in (255, 4095) and clipped > 0.01:
        found.append(
            Finding(
                "warning",
                f"{clipped:.0%} of the depth has the largest value, {top}: it was clipped to {top.bit_length()} bits.",
                "Export 16-bit depth, or drop the far part with --depth-max.",
            )
        )
    return found
