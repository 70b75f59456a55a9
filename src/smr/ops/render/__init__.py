"""Rendering of triangles on torch tensors, differentiable and deterministic."""

from __future__ import annotations

from .antialias import antialias, face_neighbors
from .derivatives import screen_derivatives
from .fragments import Fragments
from .interpolate import interpolate
from .rasterize import rasterize
from .screen_space import find_faces as find_faces_in_image
from .screen_space import rasterize as rasterize_in_image
from .soft_mask import Hits, soft_mask, soft_mask_hits
from .sparse_rays import find_faces_behind, render_points
from .texture import mipmaps, texture

__all__ = [
    "Fragments",
    "Hits",
    "antialias",
    "face_neighbors",
    "find_faces_behind",
    "find_faces_in_image",
    "interpolate",
    "mipmaps",
    "rasterize",
    "rasterize_in_image",
    "render_points",
    "screen_derivatives",
    "soft_mask",
    "soft_mask_hits",
    "texture",
]
