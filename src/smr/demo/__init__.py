"""A small RGB-D capture of a procedural object, with exact truth: for `smr demo`, for tests, for the README."""

from __future__ import annotations

from .scene import DemoScene, make_capture

__all__ = ["DemoScene", "make_capture"]
