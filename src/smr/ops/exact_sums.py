"""Sums of floating-point numbers into places that many threads share, the same to the last bit every time.

Floating-point addition depends on the order, and the order of a GPU's threads does not repeat. Here each place first
finds the largest magnitude that it will receive (a maximum has no order), and then adds whole numbers of 2^-k times
that (neither has a sum of whole numbers). With n summands a place keeps 61 - log2(n) bits below its largest: 41 bits
for a million, more than a sum in single precision would keep. The other way, `segments`, sorts the summands by place,
which pays where the same places are summed into again and again.

A kernel that sums runs twice over its summands, first with `adding` 0, then with 1, and calls `contribute`.
"""

from __future__ import annotations

from typing import Any, no_type_check

import torch
import warp as wp

from .launches import Part, launchers

_INFINITE: Any = wp.constant(0x7F800000)


@wp.func
@no_type_check
def _exponent(bound: int, count_bits: int):
    return 61 - count_bits - ((bound >> 23) - 126)


@wp.func
@no_type_check
def _power_of_two(exponent: int):
    return wp.cast(wp.int64(1023 + exponent) << wp.int64(52), wp.float64)


@wp.func_native(
    # Where a whole warp adds to one place, as at the background of a picture, it adds up first and waits in line once.
    """
#if defined(__CUDA_ARCH__)
    const unsigned int warp = 0xffffffffu;
    unsigned long long total = static_cast<unsigned long long>(value);
    unsigned long long* at = reinterpret_cast<unsigned long long*>(sums.data + place);
    int same = 0;
    if (__activemask() == warp)
        __match_all_sync(warp, static_cast<unsigned long long>(place), &same);
    if (same)
        for (int step = 16; step > 0; step >>= 1)
            total += __shfl_xor_sync(warp, total, step);
    if (!same || threadIdx.x % 32 == 0)
        atomicAdd(at, total);
#else
    sums.data[place] += value;
#endif
"""
)
@no_type_check
def _add(sums: wp.array(dtype=wp.int64), place: wp.int64, value: wp.int64): ...


@wp.func
@no_type_check
def contribute(
    adding: int,
    value: wp.float64,
    place: int,
    channel: int,
    channels: int,
    count_bits: int,
    bounds: wp.array(dtype=int),
    sums: wp.array(dtype=wp.int64),
):
    """Add a number to a channel of a place, or, in the first pass, make room for it."""
    if adding == 0:
        bits = wp.cast(wp.float32(wp.abs(value)), wp.int32)
        if bits > bounds[place]:
            wp.atomic_max(bounds, place, bits)
    elif value != wp.float64(0.0):
        bound = bounds[place]
        if bound < _INFINITE:
            scaled = wp.round(value * _power_of_two(_exponent(bound, count_bits)))
            _add(sums, wp.int64(place) * wp.int64(channels) + wp.int64(channel), wp.int64(scaled))


@wp.kernel(enable_backward=False)
@no_type_check
def _read(
    base: int,
    channels: int,
    count_bits: int,
    bounds: wp.array(dtype=int),
    sums: wp.array(dtype=wp.int64),
    result: wp.array(dtype=Any),
):
    i = base + wp.tid()
    bound = bounds[i / channels]
    value = wp.float64(sums[i]) * _power_of_two(-_exponent(bound, count_bits))
    if bound >= _INFINITE:
        value = wp.float64(wp.nan)
    result[i] = type(result[i])(value)


_READ = launchers(_read, scalars=("result",))


class ExactSums:
    """Sums in the making: `places` times `channels` numbers, each of at most `most` summands.

    Channels of one place share the size of their unit.
    """

    def __init__(self, places: int, channels: int, most: int, device: torch.device) -> None:
        """Everything is zero at first."""
        self._memory = torch.zeros(places * channels + (places + 1) // 2, dtype=torch.int64, device=device)
        self.sums = Part(self._memory.data_ptr(), places * channels)
        self.bounds = Part(self.sums.pointer + 8 * self.sums.numbers, places)
        self.count_bits = max(int(most), 1).bit_length()
        self._channels = channels

    def read(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """The sums; NaN in all channels of a place that received NaN or infinity."""
        result = torch.empty(shape, dtype=dtype, device=self._memory.device)
        arguments = (self._channels, self.count_bits, self.bounds, self.sums, result)
        _READ[dtype](self.sums.numbers, *arguments, like=result)
        return result
