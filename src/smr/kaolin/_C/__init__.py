"""What Kaolin's compiled extension is called: the few of its functions that programs and tests call by name."""

from __future__ import annotations

from .._lazy import reexport

__all__ = reexport(__name__)
