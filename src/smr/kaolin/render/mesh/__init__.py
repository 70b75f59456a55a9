"""`kaolin.render.mesh`."""

from __future__ import annotations

from ..._lazy import reexport

__all__ = reexport(
    __name__,
    {
        "deftet": ("deftet_sparse_render",),
        "dibr": ("dibr_rasterization", "dibr_soft_mask"),
        "nvdiffrast_context": ("default_nvdiffrast_context", "nvdiffrast_is_available"),
        "rasterization": ("rasterize",),
        "utils": ("prepare_vertices", "spherical_harmonic_lighting", "texture_mapping"),
    },
)
