"""Checkpoints as USD over a training (`Timelapse`), and viewers in notebooks."""

from __future__ import annotations

from .._lazy import reexport

__all__ = reexport(
    __name__,
    {
        "timelapse": ("Timelapse", "TimelapseParser"),
        "ipython": (
            "BaseIpyVisualizer", "IpyFirstPersonVisualizer", "IpyTurntableVisualizer", "quick_viz", "update_canvas",
        ),
    },
)  # fmt: skip
