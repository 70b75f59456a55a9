"""Containers: surface meshes, single and in batches, and the base of classes that hold tensors."""

from __future__ import annotations

from .._absent import GAUSSIANS, SPC
from .._lazy import reexport

__all__ = reexport(
    __name__,
    {"surface_mesh": ("SurfaceMesh",), "mesh": ("Mesh",), "tensor_container": ("TensorContainerBase",)},
    {"Spc": SPC, "GaussianSplatModel": GAUSSIANS, "PointSamples": GAUSSIANS},
)
