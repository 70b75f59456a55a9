"""What operations on tensors share: checks, views, launches, switches."""

from __future__ import annotations

import subprocess
import sys
from typing import no_type_check

import numpy as np
import pytest
import torch
import warp as wp

from smr import SmrError
from smr.ops import tensors


def test_kernels_are_chosen_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SMR_KERNELS", raising=False)
    assert tensors.use_warp()
    monkeypatch.setenv("SMR_KERNELS", "torch")
    assert not tensors.use_warp()
    monkeypatch.setenv("SMR_KERNELS", "cuda")
    with pytest.raises(SmrError, match=r"SMR_KERNELS is 'cuda'\.\n  fix: Set it to warp or torch"):
        tensors.use_warp()


@pytest.mark.parametrize(
    ("value", "shape", "dtypes", "error", "text"),
    [
        ([1.0], (1,), tensors.FLOATS, TypeError, "points must be a torch tensor, not list"),
        (np.ones(1), (1,), tensors.FLOATS, TypeError, "points must be a torch tensor, not ndarray"),
        (torch.ones(1).half(), (1,), tensors.FLOATS, TypeError, "points must be float32 or float64, not float16"),
        (torch.ones(1), (1,), tensors.INDICES, TypeError, "points must be int32 or int64, not float32"),
        (torch.ones(2, 3), (None, 2), tensors.FLOATS, ValueError, r"shape \(\*, 2\), not \(2, 3\)"),
        (torch.ones(2), (None, 3), tensors.FLOATS, ValueError, r"shape \(\*, 3\), not \(2,\)"),
    ],
)
def test_wrong_tensors_are_told(value: object, shape: tuple, dtypes: tuple, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        # past the annotation, as a caller without a type checker goes
        getattr(tensors.check_tensor, "__wrapped__", tensors.check_tensor)("points", value, shape, dtypes)


def test_right_tensors_pass() -> None:
    tensors.check_tensor("points", torch.ones(5, 3), (None, 3))
    tensors.check_tensor("faces", torch.ones(5, 3).long(), (5, 3), tensors.INDICES)
    tensors.check_tensor("scalar", torch.tensor(1.0), ())


def test_devices_must_agree() -> None:
    tensors.check_same_device(a=torch.ones(1), b=None, c=torch.ones(2))
    with pytest.raises(ValueError, match="all tensors must be on one device: a on cpu, c on meta"):
        tensors.check_same_device(a=torch.ones(1), b=None, c=torch.ones(2, device="meta"))


def test_the_first_index_out_of_range_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    faces = torch.tensor([[0, 1, 2], [2, 5, -1]])
    with pytest.raises(ValueError, match=r"faces\[1, 1\] is 5; it must be an index into 4 vertices"):
        tensors.check_indices("faces", faces, 4)
    with pytest.raises(ValueError, match=r"faces\[1, 2\] is -1; it must be an index into 9 corners"):
        tensors.check_indices("faces", faces, 9, of="corners")
    tensors.check_indices("faces", faces[:1], 3)
    tensors.check_indices("faces", faces[:0], 0)
    monkeypatch.setenv("SMR_CHECKS", "0")
    assert not tensors.checks_values()
    tensors.check_indices("faces", faces, 4)


def test_the_first_value_that_is_not_finite_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    points = torch.zeros(3, 2, requires_grad=True)
    tensors.check_finite("points", points)
    tensors.check_finite("points", points[:0])
    tensors.check_finite("points", torch.full((4,), 3e38))  # whose sum is not finite
    broken = points.detach().clone()
    broken[1, 1], broken[2, 0] = float("nan"), float("inf")
    with pytest.raises(ValueError, match=r"points\[1, 1\] is nan; all values must be finite"):
        tensors.check_finite("points", broken)
    with pytest.raises(ValueError, match=r"points\[0\] is -inf"):
        tensors.check_finite("points", torch.tensor([-float("inf"), float("inf")]))
    monkeypatch.setenv("SMR_CHECKS", "0")
    tensors.check_finite("points", broken)


def test_devices_of_warp() -> None:
    assert tensors.warp_device(torch.ones(1)) == "cpu"
    with pytest.raises(ValueError, match="tensors on meta are not supported; use cpu or cuda"):
        tensors.warp_device(torch.ones(1, device="meta"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8, torch.bool])
def test_a_view_shares_memory(dtype: torch.dtype) -> None:
    tensor = torch.zeros(4, 3, dtype=dtype)
    view = tensors.as_warp(tensor)
    assert view.shape == (4, 3)
    tensor[1, 2] = 1
    assert view.numpy()[1, 2] == 1


def test_views_of_vectors_of_strided_tensors_and_of_leaves() -> None:
    points = torch.arange(12.0, requires_grad=True).reshape(4, 3)
    view = tensors.as_warp(points, wp.vec3)
    assert view.shape == (4,)
    assert not view.requires_grad
    turned = tensors.as_warp(points.T)
    assert np.array_equal(turned.numpy(), points.detach().numpy().T)


@wp.kernel(enable_backward=False)
@no_type_check
def _double(base: int, values: wp.array(dtype=float), result: wp.array(dtype=float)):
    i = base + wp.tid()
    result[i] = 2.0 * values[i]


@pytest.mark.parametrize("count", [0, 1, 1000, 70_000])
def test_launches_cover_every_item(count: int, device: str) -> None:
    values = torch.arange(float(count), device=device)
    result = torch.zeros_like(values)
    tensors.launch(_double, count, [tensors.as_warp(values)], outputs=[tensors.as_warp(result)], like=values)
    assert torch.equal(result, 2 * values)


def test_importing_the_operations_starts_warp() -> None:
    code = "import smr.ops.tensors, warp; assert warp._src.context.runtime is not None"
    subprocess.run([sys.executable, "-c", code], check=True)
