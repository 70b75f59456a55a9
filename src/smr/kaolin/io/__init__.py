"""`kaolin.io`."""

from __future__ import annotations

from .._lazy import reexport

__all__ = reexport(__name__, {"mesh": ("import_mesh",)})
