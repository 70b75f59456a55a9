"""What all operations on torch tensors share: checks of arguments, launches on tensors, the choice of kernels.

Two switches in the environment, read at each call:
`SMR_KERNELS=torch` computes with plain torch instead of the Warp kernels, to find out whether a kernel or the data is
at fault; `SMR_CHECKS=0` leaves out the checks that read values (indices in range, no NaN).
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import torch
import warp as wp

from .. import arrays  # noqa: F401  (starts Warp)
from ..errors import SmrError

FLOATS = (torch.float32, torch.float64)
INDICES = (torch.int32, torch.int64)

_WARP_TYPES = {
    torch.float32: wp.float32,
    torch.float64: wp.float64,
    torch.int32: wp.int32,
    torch.int64: wp.int64,
    torch.uint8: wp.uint8,
    torch.bool: wp.bool,
}


def use_warp() -> bool:
    """Whether Warp kernels compute (the default), or plain torch (`SMR_KERNELS=torch`)."""
    choice = os.environ.get("SMR_KERNELS", "warp")
    if choice not in ("warp", "torch"):
        raise SmrError(f"SMR_KERNELS is {choice!r}.", "Set it to warp or torch, or unset it.")
    return choice == "warp"


def checks_values() -> bool:
    """Whether values are checked (the default); `SMR_CHECKS=0` switches it off."""
    return os.environ.get("SMR_CHECKS", "1") != "0"


def check_tensor(
    name: str,
    tensor: torch.Tensor,
    shape: Sequence[int | None],
    dtypes: Iterable[torch.dtype] = FLOATS,
    *,
    batched: bool = False,
) -> None:
    """Raise where an argument is no tensor of this type and shape.

    Args:
        name: The argument's name, for the message.
        tensor: The argument.
        shape: Expected sizes; None matches any.
        dtypes: Accepted types.
        batched: The sizes are those of the last axes; any others may stand before them.

    Raises:
        TypeError: It is no tensor, sparse, or of another type.
        ValueError: Another shape, or no memory behind it (device meta).
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} must be a torch tensor, not {type(tensor).__name__}")
    if tensor.layout != torch.strided:
        raise TypeError(f"{name} must be a dense tensor, not {str(tensor.layout).removeprefix('torch.')}")
    if tensor.is_meta:
        raise ValueError(f"{name} is on meta, where tensors have no values; use cpu or cuda")
    dtypes = tuple(dtypes)
    if tensor.dtype not in dtypes:
        wanted = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise TypeError(f"{name} must be {wanted}, not {str(tensor.dtype).removeprefix('torch.')}")
    last = tensor.shape[max(tensor.dim() - len(shape), 0) :] if batched else tensor.shape
    fits = len(last) == len(shape) and all(want in (None, got) for want, got in zip(shape, last, strict=True))
    if not fits:
        wanted = ", ".join([*(["..."] if batched else []), *("*" if size is None else str(size) for size in shape)])
        raise ValueError(f"{name} must have the shape ({wanted}), not {tuple(tensor.shape)}")


def check_whole(name: str, value: Any, *, least: int = 0, most: int = 2**31 - 1) -> int:
    """The value as an int; raise TypeError where it is no whole number, ValueError where it is out of range."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, not {value!r}") from None
    if not least <= number <= most:
        raise ValueError(f"{name} is {number}; it must be from {least} to {most}")
    return number


def check_number(name: str, value: Any) -> float:
    """The value as a float; raise TypeError where it is no number, ValueError where it is NaN."""
    try:
        number = float(operator.index(value)) if isinstance(value, int) else float(value.__float__())
    except (AttributeError, TypeError, ValueError, OverflowError, RuntimeError):
        raise TypeError(f"{name} must be a number, not {value!r}") from None
    if number != number:
        raise ValueError(f"{name} is nan; it must be a number")
    return number


def check_same_device(**tensors: torch.Tensor | None) -> None:
    """Raise ValueError where the named tensors are on more than one device, TypeError where one is no tensor."""
    for name, tensor in tensors.items():
        if tensor is not None and not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} must be a torch tensor, not {type(tensor).__name__}")
    devices = {name: tensor.device for name, tensor in tensors.items() if tensor is not None}
    if len(set(devices.values())) > 1:
        places = ", ".join(f"{name} on {device}" for name, device in devices.items())
        raise ValueError(f"all tensors must be on one device: {places}")


def check_indices(name: str, indices: torch.Tensor, count: int, of: str = "vertices") -> None:
    """Raise ValueError at the first index outside 0..count-1, with its place."""
    if not checks_values() or indices.numel() == 0:
        return
    low, high = (int(value) for value in torch.stack(torch.aminmax(indices)).tolist())
    if low >= 0 and high < count:
        return
    bad = ((indices < 0) | (indices >= count)).nonzero()[0].tolist()
    value = int(indices[tuple(bad)])
    raise ValueError(f"{name}{bad} is {value}; it must be an index into {count} {of}")


def check_finite(name: str, tensor: torch.Tensor) -> None:
    """Raise ValueError at the first NaN or infinity, with its place."""
    if not checks_values() or tensor.numel() == 0:
        return
    # a sum is finite exactly where all values are, but for overflow, which the second look settles
    if bool(torch.isfinite(tensor.detach().sum())):
        return
    bad = (~torch.isfinite(tensor.detach())).nonzero()
    if len(bad):
        place = bad[0].tolist()
        raise ValueError(f"{name}{place} is {float(tensor[tuple(place)])}; all values must be finite")


def warp_device(tensor: torch.Tensor) -> str:
    """The Warp device of a tensor's memory."""
    if tensor.device.type == "cpu":
        return "cpu"
    if tensor.device.type == "cuda":
        return f"cuda:{tensor.device.index or 0}"
    raise ValueError(f"tensors on {tensor.device} are not supported; use cpu or cuda")


def as_warp(tensor: torch.Tensor, dtype: Any = None) -> wp.array:
    """A Warp array over a tensor's memory, without its gradient; copied only where it is not contiguous.

    Args:
        tensor: Any shape; where `dtype` is a vector or matrix type the last sizes are its own.
        dtype: A Warp type; None takes the tensor's scalar type.
    """
    return wp.from_torch(tensor.detach().contiguous(), dtype=dtype or _WARP_TYPES[tensor.dtype], requires_grad=False)


@cache
def of_type(kernel: Any, dtype: torch.dtype) -> Any:
    """The kernel whose `Any` is this type: a generic kernel is made concrete before threads launch it together.

    All kernels of its module are made concrete with it, so that the module is compiled once for a type.
    """
    for other in kernel.module.kernels.values():
        if other.is_generic:
            _overload(other, _WARP_TYPES[dtype])
    return _overload(kernel, _WARP_TYPES[dtype])


def _overload(kernel: Any, scalar: Any) -> Any:
    types = {}
    for argument in kernel.adj.args:
        if argument.type is Any:
            types[argument.label] = scalar
        elif getattr(argument.type, "dtype", None) is Any:
            types[argument.label] = wp.array(dtype=scalar, ndim=argument.type.ndim)
    return wp.overload(kernel, types) if types else kernel


def launch(
    kernel: Any,
    dim: int,
    inputs: Sequence[Any],
    *,
    outputs: Sequence[Any] = (),
    like: torch.Tensor,
    block_dim: int = 256,
) -> None:
    """Launch a kernel whose first argument is `base: int` (see `arrays.launch_chunked`) in torch's current stream.

    Args:
        kernel: A one-dimensional Warp kernel; its item is `base + wp.tid()` and its writes are disjoint.
        dim: Number of items.
        inputs: After `base`: scalars, and contiguous tensors of the kernel's types or Warp arrays (which cost more).
        outputs: Tensors or Warp arrays that it writes.
        like: A tensor on the device to launch on.
        block_dim: Threads of a block on a GPU, for kernels whose threads work together.
    """
    from .launches import launcher_of  # which needs this module

    launcher_of(kernel, block_dim)(dim, *inputs, *outputs, like=like)
