"""`smr inspect`: what is in a capture, what is wrong with it, and what a reconstruction would do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

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

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything worth saying about the capture."""
        return (*self.capture.findings, *self.survey.findings, *(self.plan.findings if self.plan else ()))

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        capture = self.capture
        return {
            "capture": {"source": str(capture.source), "format": capture.format, "frames": len(capture)},
            "survey": self.survey.as_dict(),
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
    capture = read_capture(Path(source), config.capture)
    seen = survey(capture, track=track)
    try:
        return Inspection(capture, seen, plan(seen, capture, config), None)
    except SmrError as refusal:  # what is there is worth saying all the same
        return Inspection(capture, seen, None, refusal)
