"""Stable order of small integer keys: a counting sort on a CPU, torch's radix sort on a GPU."""

from __future__ import annotations

from typing import no_type_check

import torch
import warp as wp

from ..tensors import as_warp


@wp.kernel(enable_backward=False)
@no_type_check
def _count_and_spread(keys: wp.array(dtype=int), start: wp.array(dtype=int), order: wp.array(dtype=int)):
    """Sequential. `start` has one more item than there are keys' values and is 0; it ends as the ends of the runs."""
    for i in range(keys.shape[0]):
        start[keys[i] + 1] = start[keys[i] + 1] + 1
    for key in range(start.shape[0] - 1):
        start[key + 1] = start[key + 1] + start[key]
    for i in range(keys.shape[0]):
        place = start[keys[i]]
        order[place] = i
        start[keys[i]] = place + 1


def stable_order(keys: torch.Tensor, values: int) -> torch.Tensor:
    """Indices (N,) int32 that put int32 keys (N,) of 0..values-1 in ascending order; equal keys keep theirs."""
    if keys.device.type != "cpu" or keys.numel() == 0:
        return torch.sort(keys, stable=True).indices.to(torch.int32)
    start = torch.zeros(values + 1, dtype=torch.int32)
    order = torch.empty(len(keys), dtype=torch.int32)
    wp.launch(_count_and_spread, 1, [as_warp(keys), as_warp(start), as_warp(order)], device="cpu")
    return order
