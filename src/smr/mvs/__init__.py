"""Dense depth from photos with cameras and poses: which photos to compare, PatchMatch, what other maps confirm."""

from .depths import estimate_depths
from .hull import Silhouette, visual_hull
from .neighbours import SparsePoints
from .support import support

__all__ = ["Silhouette", "SparsePoints", "estimate_depths", "support", "visual_hull"]
