"""The device that Kaolin's functions take where none is given."""

from __future__ import annotations

import torch


def default_device(device: torch.device | str | None = None) -> torch.device:
    """The given device, else CUDA where a GPU is to be had (Kaolin's own default), else the CPU."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(device)
