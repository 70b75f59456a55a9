import numpy as np
import pytest
import warp as wp

from smr.arrays import launch_chunked, resolve_device
from smr.errors import SmrError


@wp.kernel(enable_backward=False)
def _square(base: int, x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = base + wp.tid()
    y[i] = x[i] * x[i]


@pytest.mark.parametrize("count", [0, 1, 2, 1001])
@pytest.mark.parametrize("chunks", [None, 1, 7])
def test_chunks_cover_every_item_once(count, chunks):
    device = resolve_device("cpu")
    x = wp.array(np.arange(count, dtype=np.float32), dtype=float, device=device)
    y = wp.zeros(count, dtype=float, device=device)
    launch_chunked(_square, count, [x], outputs=[y], device=device, chunks=chunks)
    np.testing.assert_array_equal(y.numpy(), np.arange(count, dtype=np.float32) ** 2)


@pytest.mark.parametrize("name", ["cuda:99", "gpu", ""])
def test_unknown_device_is_refused_with_a_cure(name):
    with pytest.raises(SmrError, match=r"--device|Use auto"):
        resolve_device(name)
