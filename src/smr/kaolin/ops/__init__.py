"""Operations on batches, meshes, point clouds, voxel grids, and random numbers."""

from __future__ import annotations

from .._lazy import reexport

__all__ = reexport(__name__)
