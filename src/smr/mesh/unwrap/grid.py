"""The texture, divided into the cells in which charts are packed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Grid:
    """The texture in cells."""

    size: int
    """Pixels."""
    cell: int
    """Pixels per cell."""
    gutter_pixels: int
    gutter: int
    """Cells between charts."""
    margin: int
    """Cells along the texture's edge: half a gutter, so that a repeated texture keeps the gutter."""

    @property
    def pitch(self) -> int:
        """Pixels that the smallest chart takes with its gutter."""
        return (self.gutter + 1) * self.cell

    @property
    def side(self) -> int:
        """Cells that charts may use."""
        return self.size // self.cell - 2 * self.margin


def choose_grid(size: int, gutter: int, charts: int) -> Grid:
    """A cell of at most the gutter, fine enough for the charts' average size."""
    cell = 1
    while 2 * cell <= min(gutter, size / 1000, size / np.sqrt(charts) / 12):
        cell *= 2
    return Grid(size, cell, gutter, -(-gutter // cell), -(-((gutter + 1) // 2) // cell))
