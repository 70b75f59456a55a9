"""Results in words, for people; `--json` has the same in numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .progress import duration

if TYPE_CHECKING:
    from ..inspection import Inspection
    from .demo import DemoResult


def length(metres: float | int) -> str:
    """`0.42 mm`, `1.5 cm`, `2.31 m`."""
    size = abs(metres)
    if size < 0.01:
        return f"{metres * 1000:.2g} mm" if size < 0.001 else f"{metres * 1000:.3g} mm"
    return f"{metres * 100:.3g} cm" if size < 1 else f"{metres:.3g} m"


def bytes_text(count: float | int) -> str:
    """`340 MB`, `1.2 GB`."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def number(count: int) -> str:
    """`80 000`, with thin spaces as separators."""
    return f"{count:,}".replace(",", " ")


def listed(files: Iterable[Path | str]) -> str:
    """A file a line, with its size."""
    return "\n".join(f"  {path}  ({bytes_text(Path(path).stat().st_size)})" for path in files)


def describe_findings(findings: Sequence[dict[str, Any]]) -> list[str]:
    """A line or two each, the worst first."""
    order = {"error": 0, "warning": 1, "note": 2}
    lines = []
    for finding in sorted(findings, key=lambda f: order[f["severity"]]):
        lines.append(f"{finding['severity']}: {finding['cause']}")
        if finding["cure"]:
            lines.append(f"  fix: {finding['cure']}")
    return lines


def describe_inspection(found: Inspection) -> str:
    """What `smr inspect` prints."""
    capture, seen, choice = found.capture, found.survey, found.plan
    lines = [
        f"{capture.source}",
        f"format    {capture.format}, {number(seen.frames)} frames "
        f"({number(seen.photos)} with a photo, {number(seen.depth_maps)} with depth)",
    ]
    for name, size in (("photos", seen.photo_size), ("depth", seen.depth_size)):
        if size is not None:
            lines.append(f"{name:<10}{size[0]}×{size[1]} pixels")
    lines.append(f"camera    focal length {seen.focal_length:.1f} pixels")
    if seen.depth_percentiles:
        near, _, middle, _, far = seen.depth_percentiles
        lines += [
            f"range     {length(near)} to {length(far)}, median {length(middle)}; {seen.valid_depth:.0%} of the pixels "
            f"have depth, {seen.flying_pixels:.1%} of these hang between two surfaces",
            f"noise     {length(seen.noise)} at the median depth, where a pixel is "
            f"{length(seen.ground_sample_distance)} wide; two frames differ by {length(seen.frame_difference)}",
        ]
    if seen.extent is not None:
        sides = " × ".join(length(high - low) for low, high in zip(*seen.extent, strict=True))
        guess = "estimated from how the camera was held" if seen.world_up_estimated else "as the format says"
        lines.append(f"scene     {sides}, up is {seen.world_up} ({guess})")
    if seen.exposure_spread is not None:
        lines.append(f"exposure  varies by {seen.exposure_spread:.0%} between photos")
    if seen.blurred:
        lines.append(f"blurred   {len(seen.blurred)} of {seen.sampled} sampled photos: {', '.join(seen.blurred[:6])}")
    if found.photos is not None:
        look = found.photos
        lines.append(
            f"overlap   {look.overlapping} of {look.pairs} compared pairs of photos show the same; "
            f"{look.photos - len(look.foreign) - len(look.poor)} of {look.photos} photos hang together"
        )
        posed = any(f.photo is not None and f.photo.world_from_camera is not None for f in capture.frames)
        lines.append(f"depth     none: {'it is' if posed else 'poses and depth are'} found from the photos")
    lines += ["", *describe_findings([asdict(finding) for finding in found.findings])]
    if found.refusal is not None:
        lines += ["", f"`smr reconstruct` would refuse: {found.refusal.cause}", f"  fix: {found.refusal.cure}"]
    if choice is not None:
        lines += [
            "",
            "`smr reconstruct` would use",
            f"  voxels    {length(choice.voxel_size)} ({choice.voxel_reason})",
            f"  depth     {length(choice.depth_min)} to {length(choice.depth_max)}",
            f"  memory    {bytes_text(choice.memory)} of {bytes_text(choice.memory_budget)} for the volume "
            f"({number(choice.blocks)} blocks)",
            f"  time      about {duration(choice.seconds)} on this machine's CPU",
        ]
    return "\n".join(lines)


def describe_trim(trim: dict[str, Any]) -> list[str]:
    """What was dropped as no view shows it."""
    if not trim["views"]:
        return []
    wanted = "no view shows" if trim["views"] == 1 else f"fewer than {trim['views']} views show"
    parts = [f"{number(trim['unseen_faces'])} faces that {wanted} dropped"]
    if trim["weak_pieces"]:
        parts.append(f"and {trim['weak_pieces']} pieces ({number(trim['weak_faces'])} faces) that few photos show")
    return [f"trim     {', '.join(parts)}"]


def describe_clean(clean: dict[str, Any]) -> str:
    """What cleaning did."""
    parts = [
        f"{number(clean['vertices_in'])} -> {number(clean['vertices'])} vertices, {number(clean['faces'])} faces",
        f"{clean['small_components']} small pieces dropped",
        f"{clean['holes_closed']} holes closed",
        f"noise {length(clean['noise'])}",
    ]
    return "\n".join([f"clean    {', '.join(parts)}", *(f"         {note}" for note in clean["notes"])])


def describe_texture(texture: dict[str, Any] | None) -> str:
    """What the texture holds."""
    if texture is None:
        return "texture  none: the capture has no photo with a pose"
    parts = [
        f"{texture['size']}×{texture['size']} pixels of {length(texture['texel_size'])}",
        f"{texture['photos_used']} of {texture['photos']} photos used",
        f"{texture['seen']:.0%} of the surface seen by a photo, the rest filled from around",
    ]
    return f"texture  {', '.join(parts)}"


def describe_support(support: dict[str, float] | None) -> list[str]:
    """How many photos stand behind the surface."""
    if support is None:
        return []
    return [
        f"support  a vertex is found in the depth of {support['median_views']:.0f} photos (median); "
        f"{support['share_in_two_or_more']:.0%} in two or more, {support['share_in_none']:.0%} in none (filled in)"
    ]


def describe_poses(poses: dict[str, Any] | None, survey: dict[str, Any]) -> list[str]:
    """How poses and depth were found, where the capture had none."""
    if poses is None:
        return []
    count = f"{poses['registered']} of {poses['photos']} photos"
    given = " with the poses they came with" if poses["known_poses"] else " have a pose"
    return [
        f"poses    {count}{given}; {number(poses['points'])} points, reprojection error "
        f"{poses['reprojection_px']:.2f} pixels ({poses['matching']} matching, {poses['attempts'][-1]})",
        f"scale    {poses['scale_words']}",
        f"stereo   {survey['depth_maps']} depth maps; {survey['valid_depth']:.0%} of their pixels have depth",
    ]


def describe_agreement(agreement: dict[str, Any] | None, measured_by: str = "the depth camera measured") -> str:
    """How the surface lies to the measurements."""
    if agreement is None:
        return "depth    no depth map to compare with"
    return (
        f"depth    the surface is {length(agreement['median'])} (median) from what {measured_by}; "
        f"{agreement['explained']:.1%} of the measured pixels lie within {length(agreement['tolerance'])} of it"
    )


def describe_run(report: dict[str, Any]) -> str:
    """The end of `smr reconstruct`."""
    stages = ", ".join(
        f"{stage['stage']} {'kept' if stage['reused'] else duration(stage['seconds'])}" for stage in report["stages"]
    )
    plan = report["plan"]
    peak = (
        "" if report["peak_memory_bytes"] is None else f", at most {bytes_text(report['peak_memory_bytes'])} of memory"
    )
    lines = [
        *describe_findings([f for f in report["findings"] if f["severity"] != "note"]),
        f"capture  {report['capture']['format']}, {report['capture']['frames']} frames",
        *describe_poses(report["poses"], report["survey"]),
        f"surface  voxels of {length(plan['voxel_size'])}",
        *describe_trim(report["trim"]),
        describe_clean(report["clean"]),
        *describe_support(report["support"]),
        describe_texture(report["texture"]),
        describe_agreement(
            report["agreement"], "stereo found" if report["poses"] is not None else "the depth camera measured"
        ),
        f"time     {duration(report['seconds'])} on {report['device']}{peak} ({stages})",
        listed(report["files"]),
    ]
    return "\n".join(lines)


def describe_evaluation(found: dict[str, Any]) -> str:
    """The table of `smr evaluate`."""
    lines = []
    if found["alignment"] is not None:
        lines.append(f"aligned: rms {length(found['alignment']['rms'])}, scale {found['alignment']['scale']:.6g}")
    for name in ("accuracy", "completeness"):
        spread = found[name]
        parts = (("mean", "mean"), ("median", "median"), ("95 % below", "p95"))
        shown = (f"{label} {length(spread[part])}" for label, part in parts)
        lines.append(f"{name:<13}{', '.join(shown)}")
    lines.append(f"{'Chamfer':<13}{length(found['chamfer'])}")
    for score in found["scores"]:
        lines.append(
            f"{'F-score':<13}{score['f_score']:.4f} at {length(score['distance'])} "
            f"(precision {score['precision']:.4f}, recall {score['recall']:.4f})"
        )
    if found["seen_share"] < 1:
        lines.append(f"{'seen':<13}{found['seen_share']:.1%} of the reference, by some view; only that was measured")
    return "\n".join(lines)


def describe_demo(result: DemoResult) -> str:
    """What the demo made, how good it is, and how to see that again."""
    model = next((file for file in result.files if file.suffix == ".ply"), result.files[0])
    return "\n".join(
        [
            describe_run(result.report),
            "",
            "Against the truth:",
            describe_evaluation(result.evaluation.as_dict()),
            "",
            "The same again:",
            f"  smr reconstruct {result.capture} --out {result.files[0]}",
            f"  smr evaluate {model} --reference {result.truth} --seen-by {result.capture}",
        ]
    )
