"""sRGB to linear light and back (IEC 61966-2-1). glTF factors and vertex colours and all USD colours are linear."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, UInt8


def linear_from_srgb(srgb: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """Linear light of sRGB values, both 0 to 1."""
    linear: np.ndarray = np.where(srgb <= 0.04045, srgb / 12.92, ((np.maximum(srgb, 0.04045) + 0.055) / 1.055) ** 2.4)
    return linear


def srgb_from_linear(linear: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """SRGB of linear light, both 0 to 1."""
    high = 1.055 * np.maximum(linear, 0.0031308) ** (1 / 2.4) - 0.055
    srgb: np.ndarray = np.where(linear <= 0.0031308, linear * 12.92, high)
    return srgb


def srgb_bytes(linear: Float[np.ndarray, "*n"]) -> UInt8[np.ndarray, "*n"]:
    """8-bit sRGB of linear light; out of range and not-a-number are clipped."""
    srgb = srgb_from_linear(np.nan_to_num(np.clip(linear.astype(np.float64), 0.0, 1.0)))
    return np.round(srgb * 255).astype(np.uint8)


LINEAR_FROM_BYTE: Float[np.ndarray, "256"] = linear_from_srgb(np.arange(256) / 255.0)
"""Linear light of each 8-bit sRGB value."""
