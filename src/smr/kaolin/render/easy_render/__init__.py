"""`kaolin.render.easy_render`."""

from __future__ import annotations

from ..._lazy import reexport

__all__ = reexport(
    __name__,
    {
        "common": ("default_camera", "default_lighting", "default_material"),
        "mesh": (
            "RenderPass",
            "mesh_rasterize_interpolate_cuda",
            "mesh_rasterize_interpolate_nvdiffrast",
            "render_mesh",
            "sg_shade",
            "texture_sample_materials",
        ),
    },
)
