"""`kaolin.ops.conversions.flexicubes`."""

from __future__ import annotations

from .flexicubes import FlexiCubes

__all__ = ["FlexiCubes"]
