"""Texture from posed photos.

1. `support`: the points on the surface where views are compared.
2. `visibility`: what each photo shows of them, from its rasterized depth.
3. `exposure`, `views`: how bright each photo is, which ones agree, which one paints where.
4. `blend`, `fill`: the photos painted into the texture; what none of them saw.

`bake` is the whole; read bake.py first.
"""

from __future__ import annotations

from .bake import TextureReport, bake, bake_onto

texture = bake
"""The name of the command line."""

__all__ = ["TextureReport", "bake", "bake_onto", "texture"]
