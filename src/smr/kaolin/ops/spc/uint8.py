"""Bytes of octrees and their bits; bit i is child i."""

from __future__ import annotations

import torch


def uint8_to_bits(uint8_t: torch.Tensor) -> torch.Tensor:
    """The bits (..., 8) of bytes (...), lowest first, as bools."""
    shifts = torch.arange(8, dtype=torch.uint8, device=uint8_t.device)
    return (uint8_t.unsqueeze(-1) >> shifts & 1).bool()


def uint8_bits_sum(uint8_t: torch.Tensor) -> torch.Tensor:
    """How many bits of each byte (...) are set, int64."""
    return uint8_to_bits(uint8_t).sum(dim=-1)


def bits_to_uint8(bool_t: torch.Tensor) -> torch.Tensor:
    """Bytes (...) of bits (..., 8), lowest first."""
    values = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=bool_t.device)
    return (bool_t.to(torch.uint8) * values).sum(dim=-1, dtype=torch.uint8)
