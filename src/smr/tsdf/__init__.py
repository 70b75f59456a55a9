"""RGB-D frames to a surface: a sparse truncated signed distance field and marching cubes over it."""

from __future__ import annotations

from .extraction import extract_mesh
from .fusion import check_settings, fuse, fuse_images
from .marching_cubes import marching_cubes
from .views import DepthImage
from .volume import Volume, volume_bytes

__all__ = [
    "DepthImage",
    "Volume",
    "check_settings",
    "extract_mesh",
    "fuse",
    "fuse_images",
    "marching_cubes",
    "volume_bytes",
]
