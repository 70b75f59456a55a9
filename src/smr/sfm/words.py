"""What went wrong with photos, in words that tell what to photograph differently."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from ..captures.checks import named
from ..errors import SmrError
from ..records import Camera, Finding
from .job import Answer
from .report import LeftOut

FEW_FEATURES = 100
WEAK = 30
"""Matches that two photos must share at least for a pose to be found."""
SAME_PIXELS = 0.5
"""Pixels; photos whose matches lie this close in both are the same photo twice."""
HIGH_ERROR = 1.5
"""Pixels; a mean reprojection error above this is worth a word."""
STILL = 0.0015
"""Part of the photo's longer side; photos whose motion a turn explains within this are from one place."""
MOVED = 5.0
"""Pixels; photos that differ by less say nothing of how the camera moved."""
FLAT = 0.01
"""Points whose thickness is less than this part of their extent lie on a plane."""
HOW = (
    "Take 20 to 60 sharp photos, each showing at least half of what the one before shows, while walking around the "
    "object; see docs/photos.md."
)


def nothing_found(answer: Answer, names: Sequence[str]) -> SmrError:
    """Why no poses at all were found."""
    if len(names) - len(answer.unreadable) < 2:
        one = "There is only one photo" if len(names) < 2 else "Only one of the photos can be read"
        return SmrError(f"{one}; a surface needs at least two, from different places.", HOW)
    poor = [names[i] for i, count in enumerate(answer.features) if count < FEW_FEATURES and i not in answer.unreadable]
    if len(poor) > len(names) / 2:
        return SmrError(
            f"{len(poor)} of {len(names)} photos have almost nothing in them that can be recognised: {named(poor)}. "
            "They are blurred, dark, tiny, or show something without texture.",
            f"Hold the camera still, with more light, and let textured things (a newspaper) be seen as well. {HOW}",
        )
    matched = answer.matched
    strong = matched.inliers >= WEAK
    same = identical_photos(answer, names)
    if same and len(same) >= strong.sum():
        a, b = same[0]
        return SmrError(
            f"The photos show the same from the same place ({a} and {b} are one photo twice): nothing tells depth.",
            HOW,
        )
    if not strong.any():
        return SmrError(
            f"No two of the {len(names)} photos show enough of the same thing to be joined (at most "
            f"{int(matched.inliers.max(initial=0))} places were recognised in two of them, {WEAK} are needed).",
            f"They show different things, or overlap too little. {HOW}",
        )
    return SmrError(
        f"Some of the {len(names)} photos show the same thing, but no poses could be found from them: the camera moved "
        "too little, or too much from one photo to the next.",
        f"Try --mapper global, or take more photos in between. {HOW}",
    )


def too_few(answer: Answer, names: Sequence[str], kept: Sequence[int]) -> SmrError:
    """The error of a model that holds next to none of the photos."""
    reasons = [photo.reason for photo in left_out(answer, names, kept)]
    usual = max(dict.fromkeys(reasons), key=reasons.count)
    return SmrError(
        f"Only {len(kept)} of {len(names)} photos could be joined; most of the others: {usual}.",
        f"Photos must overlap by half and be 10 to 15 degrees apart, not more. {HOW}",
    )


def only_turned(answer: Answer, longest: int) -> SmrError | None:
    """The error of photos that were all taken from one place; None where the camera moved."""
    matched = answer.matched
    strong = (matched.inliers >= WEAK) & (matched.shifts > MOVED) & np.isfinite(matched.turned)
    if not strong.any() or np.percentile(matched.turned[strong], 80) > STILL * longest:
        return None
    return SmrError(
        f"The camera only turned on the spot, or everything is far away: a turn explains the motion between photos "
        f"within {float(np.median(matched.turned[strong])):.1f} pixels. Without parallax nothing tells depth.",
        "Walk around the object: move the camera sideways, by a tenth of its distance or more from photo to photo. "
        + HOW,
    )


def flat_scene(points: Float[np.ndarray, "N 3"], cameras: Sequence[Camera]) -> tuple[Finding, ...]:
    """A word where all points lie on a plane, which leaves the focal length nearly open."""
    if len(points) < 10:
        return ()
    middle = np.median(points, axis=0)
    near = points[np.linalg.norm(points - middle, axis=1) < 5 * np.median(np.linalg.norm(points - middle, axis=1))]
    spread = np.linalg.svd(near - near.mean(axis=0), compute_uv=False)
    if spread[2] > FLAT * spread[1]:
        return ()
    unsure = any(camera.intrinsics != "known" for camera in cameras)
    more = ", which hardly tells the focal length: angles may be off" if unsure else ""
    return (
        Finding(
            "warning" if unsure else "note",
            f"Everything that was recognised lies on one plane{more}.",
            "Let something that stands out be seen too, or give --intrinsics FX FY CX CY." if unsure else "",
        ),
    )


def identical_photos(answer: Answer, names: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of photos that are one photo twice."""
    matched = answer.matched
    features = np.minimum(*(answer.features[matched.photos[:, side]] for side in (0, 1)))
    same = (matched.shifts < SAME_PIXELS) & (matched.inliers >= np.maximum(WEAK, 0.4 * features))
    return [(names[i], names[j]) for i, j in matched.photos[same]]


def left_out(answer: Answer, names: Sequence[str], kept: Sequence[int]) -> tuple[LeftOut, ...]:
    """The photos without a pose, each with the reason."""
    registered, others = set(kept), [set(model) for model in answer.models[1:]]
    best = _best_inliers(answer, len(names), registered)
    out = []
    for i, name in enumerate(names):
        if i in registered:
            continue
        elsewhere = next((model for model in others if i in model), None)
        if i in answer.unreadable:
            reason = f"cannot be decoded ({answer.unreadable[i]})"
        elif answer.features[i] < FEW_FEATURES:
            reason = (
                f"has only {answer.features[i]} places that can be recognised: it is blurred, dark, or without texture"
            )
        elif elsewhere is not None:
            reason = f"belongs to another part of {len(elsewhere)} photos, which nothing joins with the rest"
        elif best[i] < WEAK:
            reason = "shows nothing that the photos with a pose show, or overlaps too little with them"
        else:
            reason = f"shares {best[i]} places with a photo that has a pose, but none of its poses explains them"
        out.append(LeftOut(name, reason))
    return tuple(out)


def _best_inliers(answer: Answer, count: int, registered: set[int]) -> Int[np.ndarray, " N"]:
    best = np.zeros(count, np.int64)
    for (i, j), inliers in zip(answer.matched.photos.tolist(), answer.matched.inliers.tolist(), strict=True):
        if j in registered:
            best[i] = max(best[i], inliers)
        if i in registered:
            best[j] = max(best[j], inliers)
    return best


def findings(
    answer: Answer,
    names: Sequence[str],
    lost: Sequence[LeftOut],
    before: Sequence[Camera],
    after: Sequence[Camera],
    error: float,
) -> tuple[Finding, ...]:
    """What is worth saying about poses that were found."""
    found: list[Finding] = []
    for reason in dict.fromkeys(photo.reason for photo in lost):
        these = [photo.name for photo in lost if photo.reason == reason]
        found.append(
            Finding(
                "warning",
                f"{len(these)} of {len(names)} photos {'has' if len(these) == 1 else 'have'} no pose and "
                f"{'is' if len(these) == 1 else 'are'} left out: {named(these)}. "
                f"{'It' if len(these) == 1 else 'Each'} {reason}.",
                "Take more photos in between, sharp ones, if this part matters.",
            )
        )
    if same := identical_photos(answer, names):
        pairs = named([f"{a} = {b}" for a, b in same])
        found.append(Finding("note", f"Photos that are there twice: {pairs}.", "Remove one of each pair."))
    found += _lens_findings(before, after)
    if any("lens held" in attempt for attempt in answer.attempts[-1:]):
        unsure = any(camera.intrinsics == "guess" for camera in before)
        found.append(
            Finding(
                "warning",
                "The photos are too few to find the focal length from them: it stays as "
                + ("it was guessed, so that angles may be wrong." if unsure else "EXIF says."),
                "Take more photos, or give --intrinsics FX FY CX CY.",
            )
        )
    if error > HIGH_ERROR:
        found.append(
            Finding(
                "warning",
                f"The poses explain the photos only within {error:.1f} pixels (0.3 to 1 is usual): the surface will be "
                "soft.",
                "Check that nothing moved, that the lens was not zoomed in between, and that --intrinsics are right.",
            )
        )
    return tuple(found)


def _lens_findings(before: Sequence[Camera], after: Sequence[Camera]) -> list[Finding]:
    found = []
    for old, new in dict.fromkeys(zip(before, after, strict=True)):
        ratio = new.fx / old.fx
        if old.intrinsics == "exif" and not 0.8 < ratio < 1.25:
            found.append(
                Finding(
                    "warning",
                    f"The focal length that fits the photos is {new.fx:.0f} pixels, and EXIF says {old.fx:.0f}: they "
                    "were cropped or zoomed, or the poses are wrong.",
                    "Use the photos as the camera wrote them; look at the model before you trust it.",
                )
            )
        if old.intrinsics != "known" and not 0.25 < new.fx / max(new.width, new.height) < 6:
            found.append(
                Finding(
                    "warning",
                    f"The focal length that fits the photos is {new.fx:.0f} pixels for {new.width} × {new.height}, "
                    "which no usual lens has: the poses may be wrong.",
                    "Take photos from more different directions, or give --intrinsics FX FY CX CY.",
                )
            )
    return found


def posed_findings(answer: Answer, error: float) -> tuple[Finding, ...]:
    """Known poses and cameras that the photos contradict."""
    strong = answer.matched.inliers >= WEAK
    distances = answer.matched.epipolar[strong]
    distances = distances[np.isfinite(distances)]
    if not len(distances):
        return (
            Finding(
                "warning",
                "No two photos share enough to check their poses with.",
                "If the result is poor, check the poses; more overlap between photos helps.",
            ),
        )
    typical = float(np.median(distances))
    if typical > 2.0:
        return (
            Finding(
                "error" if typical > 8.0 else "warning",
                f"The given poses or intrinsics do not fit the photos: what two photos share lies {typical:.1f} pixels "
                "(median) from where they say (0.2 to 1 is usual).",
                "Check the intrinsics and the pose convention (--pose-fix), or find the poses anew with --find-poses.",
            ),
        )
    return ()
