"""`smr inspect`: what is in a capture, what is wrong with it, and what a reconstruction would do."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from . import from_photos, sfm
from .captures import Survey, read_capture, survey
from .config import PipelineConfig
from .errors import SmrError
from .plan import Plan, plan
from .progress import Track, untracked
from .records import Capture, Finding


@dataclass(frozen=True)
class Inspection:
    """A capture, what a sample of its frames is like, and the plan for it."""

    capture: Capture
    survey: Survey
    plan: Plan | None
    """None where a reconstruction would be refused."""
    refusal: SmrError | None
    """Why it would be refused."""
    photos: sfm.PhotoLook | None = None
    """How the photos are and hang together, where poses or depth must be found from them."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything worth saying about the capture."""
        more = (self.plan, self.photos)
        return (*self.capture.findings, *self.survey.findings, *(f for one in more if one for f in one.findings))

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        capture = self.capture
        return {
            "capture": {"source": str(capture.source), "format": capture.format, "frames": len(capture)},
            "survey": self.survey.as_dict(),
            "photos": None if self.photos is None else self.photos.as_dict(),
            "plan": None if self.plan is None else self.plan.as_dict(),
            "refusal": None if self.refusal is None else {"cause": self.refusal.cause, "cure": self.refusal.cure},
            "findings": [asdict(finding) for finding in self.findings],
        }


def inspect(
    source: Path | str,
    config: PipelineConfig = PipelineConfig(),  # noqa: B008  (frozen)
    *,
    track: Track = untracked,
) -> Inspection:
    """Read a capture, look at a sample of its frames, and plan its reconstruction.

    Args:
        source: Folder (or file) of the capture.
        config: The settings that `reconstruct` would get.
        track: Progress.

    Raises:
        SmrError: There is no capture that is known here.
    """
    with tempfile.TemporaryDirectory(prefix="smr-") as folder:  # a video's frames, and matches of photos
        capture = read_capture(Path(source), config.capture, folder=Path(folder), track=track)
        seen = survey(capture, track=track)
        if from_photos.needs_depth(capture):
            return _inspect_photos(capture, seen, config, Path(folder), track)
    try:
        return Inspection(capture, seen, plan(seen, capture, config), None)
    except SmrError as refusal:  # what is there is worth saying all the same
        return Inspection(capture, seen, None, refusal)


def _inspect_photos(capture: Capture, seen: Survey, config: PipelineConfig, folder: Path, track: Track) -> Inspection:
    """Photos alone: depth and poses are found later, so that their absence is no error."""
    seen = replace(seen, findings=tuple(finding for finding in seen.findings if finding.severity != "error"))
    try:
        look = sfm.look_at_photos(capture, config.sfm, folder=folder, track=track, seed=config.seed)
    except SmrError as refusal:
        return Inspection(capture, seen, None, refusal)
    errors = [finding for finding in look.findings if finding.severity == "error"]
    return Inspection(capture, seen, None, SmrError(errors[0].cause, errors[0].cure) if errors else None, look)
