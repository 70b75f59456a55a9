"""What each quality costs: sizes, sources, iterations."""

from __future__ import annotations

from dataclasses import dataclass

from ..config import MvsConfig
from ..errors import SmrError
from .cost import MAX_SOURCES


@dataclass(frozen=True)
class Effort:
    """How hard to look."""

    size: int
    """Longer side of the depth maps, pixels."""
    sources: int
    """Photos that each photo is compared with."""
    side: int
    """Samples along a side of a patch, two pixels apart."""
    fine_side: int
    """The same at the finest level."""
    coarse: int
    """Iterations at the coarsest level, after the sweep."""
    middle: int
    """Iterations at each level between."""
    fine: int
    """Iterations at the finest level, in each geometric round."""
    rounds: int
    """Geometric rounds at the finest level."""
    regions: int
    """Neighbouring regions that give candidates at the finest level: 4 or 8."""
    changes: int
    """Changes of a plane that are tried in each iteration at the finest level."""
    coarse_changes: int
    """The same at the levels above, where normals are still unknown."""


QUALITIES = {
    "preview": Effort(640, 4, 5, 4, coarse=4, middle=3, fine=1, rounds=2, regions=4, changes=3, coarse_changes=6),
    "normal": Effort(1000, 5, 5, 4, coarse=4, middle=3, fine=2, rounds=2, regions=8, changes=3, coarse_changes=8),
    "high": Effort(2000, 8, 6, 5, coarse=5, middle=3, fine=3, rounds=2, regions=8, changes=5, coarse_changes=8),
}


def effort_of(config: MvsConfig) -> Effort:
    """The effort of a quality, with what the user set apart.

    Raises:
        SmrError: A setting means nothing.
    """
    effort = QUALITIES[config.quality]
    size = effort.size if config.depth_size is None else config.depth_size
    sources = effort.sources if config.sources is None else config.sources
    if size < 32:
        raise SmrError(f"--depth-size is {size}.", "Give at least 32 pixels, or leave it out.")
    if not 1 <= sources <= MAX_SOURCES:
        raise SmrError(f"--sources is {sources}.", f"Give 1 to {MAX_SOURCES} photos, or leave it out.")
    if config.agreeing is not None and not 1 <= config.agreeing <= MAX_SOURCES:
        raise SmrError(f"--agreeing is {config.agreeing}.", f"Give 1 to {MAX_SOURCES} photos, or leave it out.")
    changed = {"size": size, "sources": sources}
    return Effort(**{**vars(effort), **changed})
