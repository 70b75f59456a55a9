"""Dense depth from photos with cameras and poses: which photos to compare, PatchMatch, what other maps confirm."""

from .depths import estimate_depths
from .neighbours import SparsePoints

__all__ = ["SparsePoints", "estimate_depths"]
