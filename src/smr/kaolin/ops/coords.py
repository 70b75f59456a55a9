"""Spherical and Cartesian coordinates: z is up, the azimuth turns from x to y, the elevation is above the xy plane."""

from __future__ import annotations

import torch


def spherical2cartesian(
    azimuth: torch.Tensor, elevation: torch.Tensor, distance: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """x, y and z of spherical coordinates.

    Args:
        azimuth: Radians, any shape.
        elevation: Radians, the same shape.
        distance: From the origin; None is one.
    """
    z = torch.sin(elevation)
    across = torch.cos(elevation)
    if distance is not None:
        z = z * distance
        across = across * distance
    return torch.cos(azimuth) * across, torch.sin(azimuth) * across, z


def cartesian2spherical(
    x: torch.Tensor, y: torch.Tensor, z: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Azimuth (-pi to pi), elevation (-pi/2 to pi/2) and distance; all zero at the origin."""
    across = torch.hypot(x, y)
    # atan2 keeps its precision at the poles, where asin(z / distance) has none
    return torch.atan2(y, x), torch.atan2(z, across), torch.hypot(across, z)
