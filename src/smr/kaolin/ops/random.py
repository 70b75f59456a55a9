"""Random shapes, tensors, directions and octrees, and the state of the generators."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from .spc.uint8 import uint8_bits_sum


def manual_seed(torch_seed: int, random_seed: int | None = None, numpy_seed: int | None = None) -> None:
    """Seed torch's generator, and Python's and NumPy's where a seed for them is given."""
    torch.manual_seed(torch_seed)
    if random_seed is not None:
        random.seed(random_seed)
    if numpy_seed is not None:
        np.random.seed(numpy_seed)  # noqa: NPY002 -- what the function is for


def get_state() -> tuple[torch.Tensor, Any, Any]:
    """The states of torch's, Python's and NumPy's generators, for `set_state`."""
    return torch.random.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002


def set_state(torch_state: torch.Tensor, random_state: Any, numpy_state: Any) -> None:
    """Put the states back that `get_state` gave."""
    torch.random.set_rng_state(torch_state)
    random.setstate(random_state)
    np.random.set_state(numpy_state)  # noqa: NPY002


def random_shape_per_tensor(
    batch_size: int, min_shape: Sequence[int] | None = None, max_shape: Sequence[int] | None = None
) -> torch.Tensor:
    """Random sizes (B, D) from `min_shape` (ones where it is None) to `max_shape`, both included.

    Raises:
        ValueError: `max_shape` is None, of another length, or below `min_shape`.
    """
    if max_shape is None:
        raise ValueError("max_shape must be given")
    low = [1] * len(max_shape) if min_shape is None else list(min_shape)
    if len(low) != len(max_shape) or any(a > b for a, b in zip(low, max_shape, strict=False)):
        raise ValueError(f"min_shape {tuple(low)} must be at most max_shape {tuple(max_shape)}, in every size")
    sizes = [torch.randint(a, b + 1, (batch_size,)) for a, b in zip(low, max_shape, strict=True)]
    return torch.stack(sizes, dim=1)


def random_tensor(
    low: int | float,
    high: int | float,
    shape: Sequence[int],
    dtype: torch.dtype = torch.float,
    device: torch.device | str = "cpu",
) -> torch.Tensor:
    """Uniform values from `low` to `high`; whole numbers and bools include both.

    Args:
        low: Smallest value.
        high: Largest value.
        shape: Sizes.
        dtype: Type.
        device: Device.
    """
    if dtype.is_floating_point:
        return torch.rand(tuple(shape), dtype=dtype, device=device) * (high - low) + low
    return torch.randint(int(low), int(high) + 1, tuple(shape), device=device).to(dtype)


def sample_spherical_coords(
    shape: Sequence[int],
    azimuth_low: float = 0.0,
    azimuth_high: float = math.pi * 2.0,
    elevation_low: float = 0.0,
    elevation_high: float = math.pi * 0.5,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Azimuths and elevations of directions spread evenly over a part of the sphere.

    Args:
        shape: Sizes of both results.
        azimuth_low: Smallest azimuth, radians.
        azimuth_high: Largest azimuth.
        elevation_low: Smallest elevation, radians.
        elevation_high: Largest elevation.
        device: Device.
        dtype: Type.
    """
    low, high = math.sin(elevation_low), math.sin(elevation_high)
    azimuth = random_tensor(azimuth_low, azimuth_high, shape, dtype, device)
    elevation = torch.asin(random_tensor(low, high, shape, dtype, device).clamp(-1, 1))
    return azimuth, elevation.clamp(elevation_low, elevation_high)


def random_spc_octrees(
    batch_size: int, max_level: int, device: torch.device | str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Random octrees: bytes, one a node, level by level, each node with at least one child.

    Args:
        batch_size: Octrees.
        max_level: Levels of each.
        device: Device of the bytes.

    Returns:
        The bytes of all octrees (N,) uint8, and the length of each (B,) int32 on the CPU.
    """
    octrees, lengths = [], []
    for _ in range(batch_size):
        nodes, length = 1, 0
        for _ in range(max_level):
            level = torch.randint(1, 256, (nodes,), device=device).to(torch.uint8)
            octrees.append(level)
            length += nodes
            nodes = int(uint8_bits_sum(level).sum())
        lengths.append(length)
    return torch.cat(octrees), torch.tensor(lengths, dtype=torch.int)
