from __future__ import annotations

import math
import threading
from typing import no_type_check

import numpy as np
import pytest
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from smr.ops.exact_sums import ExactSums, contribute  # noqa: E402
from smr.ops.launches import Launcher  # noqa: E402


@wp.kernel(enable_backward=False)
@no_type_check
def _add_up(
    base: int,
    adding: int,
    values: wp.array(dtype=wp.float64),
    places: wp.array(dtype=int),
    channels: int,
    count_bits: int,
    bounds: wp.array(dtype=int),
    sums: wp.array(dtype=wp.int64),
):
    i = base + wp.tid()
    contribute(adding, values[i], places[i / channels], i % channels, channels, count_bits, bounds, sums)


@wp.kernel(enable_backward=False)
@no_type_check
def _scale(base: int, values: wp.array(dtype=wp.vec3), factor: float, shift: int, result: wp.array(dtype=wp.vec3)):
    i = base + wp.tid()
    result[i] = values[i] * factor + wp.vec3(float(shift), 0.0, 0.0)


ADD_UP = Launcher(_add_up, disjoint=False)
SCALE = Launcher(_scale)


def add_up(values, places, count, device="cpu", dtype=torch.float64):
    values = torch.as_tensor(values, dtype=torch.float64, device=device)
    places = torch.as_tensor(places, dtype=torch.int32, device=device)
    sums = ExactSums(count, values.shape[1], len(values), values.device)
    for adding in (0, 1):
        arguments = (adding, values, places, values.shape[1], sums.count_bits, sums.bounds, sums.sums)
        ADD_UP(values.numel(), *arguments, like=values)
    return sums.read((count, values.shape[1]), dtype)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31), scale=st.sampled_from([1e-30, 1e-3, 1.0, 1e20]), count=st.integers(1, 200))
def test_sums_are_right_and_do_not_depend_on_the_order(seed, scale, count):
    rng = np.random.default_rng(seed)
    values, places = rng.normal(0, scale, (count, 2)), rng.integers(0, 5, count)
    found = add_up(values, places, 5)
    order = rng.permutation(count)
    assert torch.equal(found, add_up(values[order], places[order], 5))
    for place in range(5):
        chosen = values[places == place]
        for channel in range(2):
            exact = math.fsum(chosen[:, channel])
            largest = np.abs(chosen).max(initial=0)
            assert abs(found[place, channel].item() - exact) <= len(chosen) * largest * 2.0**-50


def test_large_numbers_next_to_small_ones_keep_their_own_places():
    found = add_up([[1e30], [1e-30], [2e-30]], [0, 1, 1], 3)
    torch.testing.assert_close(found[:, 0], torch.tensor([1e30, 3e-30, 0], dtype=torch.float64), rtol=1e-12, atol=0)


def test_no_number_in_no_number_out(device):
    for bad in (np.nan, np.inf, -np.inf, 1e300):
        found = add_up([[1.0, 2.0], [bad, 1.0], [3.0, 4.0]], [0, 0, 1], 2, device, torch.float32)
        assert found.isnan().tolist() == [[True, True], [False, False]]
        assert found[1].tolist() == [3, 4]


def test_launches_follow_their_arguments(device):
    """The recorded launch takes each call's size, pointers, numbers; many and few items."""
    for count, factor, shift in ((5, 2.0, 1), (3, 2.0, 1), (7, 3.0, 1), (7, 3.0, -4), (10000, 0.5, 2), (0, 1.0, 1)):
        values = torch.rand(count, 3, device=device)
        result = torch.full_like(values, -1)
        SCALE(count, values, factor, shift, result, like=values)
        torch.testing.assert_close(result, values * factor + torch.tensor([shift, 0, 0], device=device))


def test_threads_do_not_share_a_recorded_launch():
    wrong = []

    def run(shift):
        for _ in range(200):
            values = torch.full((4, 3), float(shift))
            result = torch.empty_like(values)
            SCALE(4, values, 1.0, shift, result, like=values)
            if not torch.equal(result[:, 0], torch.full((4,), 2.0 * shift)):
                wrong.append(shift)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_other_devices_are_refused():
    with pytest.raises(ValueError, match="tensors on meta are not supported; use cpu or cuda"):
        SCALE(1, 1, 1.0, 1, 1, like=torch.empty(1, device="meta"))
