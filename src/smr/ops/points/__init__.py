"""Operations on points: neighbours, distances, sampling, normals, outliers."""

from .center import center_points
from .distance import chamfer_distance, f_score, sided_distance
from .farthest import sample_farthest_points
from .neighbors import Neighbors, nearest_neighbors
from .normals import estimate_normals
from .outliers import radius_inliers, statistical_inliers
from .voxels import Downsampled, voxel_downsample

__all__ = [
    "Downsampled",
    "Neighbors",
    "center_points",
    "chamfer_distance",
    "estimate_normals",
    "f_score",
    "nearest_neighbors",
    "radius_inliers",
    "sample_farthest_points",
    "sided_distance",
    "statistical_inliers",
    "voxel_downsample",
]
