"""Structured point clouds are not part of smr; only the bits of octrees' bytes are here."""

from __future__ import annotations

from ..._absent import mark_absent
from .uint8 import bits_to_uint8, uint8_bits_sum, uint8_to_bits

__all__ = ["bits_to_uint8", "uint8_bits_sum", "uint8_to_bits"]

mark_absent(__name__)
