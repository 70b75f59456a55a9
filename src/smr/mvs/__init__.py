"""Dense depth from photos with cameras and poses: which photos to compare, PatchMatch, what other maps confirm."""

from .depths import estimate_depths
from .hull import Silhouette, visual_hull
from .neighbours import SparsePoints

__all__ = ["Silhouette", "SparsePoints", "estimate_depths", "visual_hull"]
