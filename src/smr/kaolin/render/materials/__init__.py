"""`kaolin.render.materials`."""

from __future__ import annotations

from ..._lazy import reexport

__all__ = reexport(
    __name__,
    {
        "pbr": (
            "Material",
            "PBRMaterial",
            "random_material_colorspaces",
            "random_material_textures",
            "random_material_values",
        ),
    },
)
