"""`kaolin._C.render`."""

from __future__ import annotations

from ..._lazy import reexport

__all__ = reexport(__name__)
