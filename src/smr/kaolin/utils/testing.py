"""Checks and comparisons for tests: tensors, packed and padded batches, octrees, nested containers, images, files."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch

from ..ops.random import get_state, manual_seed, set_state
from ..ops.spc.uint8 import uint8_bits_sum
from ._comparison import assert_images_close, check_allclose, contained_torch_equal, file_contents_equal

BOOL_DTYPES = [torch.bool]
INT_DTYPES = [torch.uint8, torch.short, torch.int, torch.long]
FLOAT_DTYPES = [torch.half, torch.float, torch.double]
NUM_DTYPES = INT_DTYPES + FLOAT_DTYPES
ALL_DTYPES = NUM_DTYPES + BOOL_DTYPES

ALL_DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
_ON_GPU = ALL_DEVICES[1:]

CUDA_FLOAT_TYPES = [(device, dtype) for device in _ON_GPU for dtype in FLOAT_DTYPES]
BOOL_TYPES = [(device, dtype) for device in ALL_DEVICES for dtype in BOOL_DTYPES]
INT_TYPES = [(device, dtype) for device in ALL_DEVICES for dtype in INT_DTYPES]
FLOAT_TYPES = [("cpu", torch.float), ("cpu", torch.double), *CUDA_FLOAT_TYPES]
NUM_TYPES = INT_TYPES + FLOAT_TYPES
ALL_TYPES = NUM_TYPES + BOOL_TYPES

__all__ = [
    "ALL_DEVICES", "ALL_DTYPES", "ALL_TYPES", "BOOL_DTYPES", "BOOL_TYPES", "CUDA_FLOAT_TYPES", "FLOAT_DTYPES",
    "FLOAT_TYPES", "INT_DTYPES", "INT_TYPES", "NUM_DTYPES", "NUM_TYPES", "assert_images_close", "check_allclose",
    "check_packed_tensor", "check_padded_tensor", "check_spc_octrees", "check_tensor",
    "check_tensor_attribute_shapes", "contained_torch_equal", "file_contents_equal", "print_dict_attributes",
    "print_namedtuple_attributes", "tensor_info", "with_seed",
]  # fmt: skip

Array = torch.Tensor | np.ndarray
_Function = TypeVar("_Function", bound=Callable[..., Any])


def with_seed(
    torch_seed: int = 0, numpy_seed: int | None = None, random_seed: int | None = None
) -> Callable[[_Function], _Function]:
    """A decorator: the function runs with these seeds, and the generators go on afterwards as if it had not run.

    As in Kaolin, on whose numbers tests rely, `numpy_seed` seeds Python's generator and `random_seed` NumPy's.
    """

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def seeded(*args: Any, **kwargs: Any) -> Any:
            state = get_state()
            manual_seed(torch_seed, random_seed=numpy_seed, numpy_seed=random_seed)
            try:
                return function(*args, **kwargs)
            finally:
                set_state(*state)

        return seeded  # type: ignore[return-value]

    return decorate


def _result(fault: Exception | None, throw: bool) -> bool:
    if fault is not None and throw:
        raise fault
    return fault is None


def _same_device(device: torch.device, wanted: torch.device | str) -> bool:
    wanted = torch.device(wanted)
    return device.type == wanted.type and (wanted.index is None or device.index == wanted.index)


def _same_shape(shape: Sequence[int], wanted: Sequence[int | None]) -> bool:
    return len(shape) == len(wanted) and all(b is None or a == b for a, b in zip(shape, wanted, strict=True))


def _type_fault(tensor: torch.Tensor, dtype: torch.dtype | None, device: Any) -> Exception | None:
    if dtype is not None and tensor.dtype != dtype:
        return TypeError(f"tensor dtype is {tensor.dtype}, should be {dtype}")
    if device is not None and not _same_device(tensor.device, device):
        return TypeError(f"tensor device is {tensor.device}, should be {device}")
    return None


def check_tensor(
    tensor: torch.Tensor,
    shape: Sequence[int | None] | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    throw: bool = True,
) -> bool:
    """Whether a tensor has this shape (None in it matches any size), type and device.

    Args:
        tensor: The tensor.
        shape: Sizes; None is not checked.
        dtype: Type; None is not checked.
        device: Device; without an index it matches any of its kind.
        throw: Raise instead of returning False.

    Raises:
        ValueError: Another shape.
        TypeError: Another type or device.
    """
    fault: Exception | None = None
    if shape is not None and not _same_shape(tensor.shape, shape):
        fault = ValueError(f"tensor shape is {tensor.shape}, should be {tuple(shape)}")
    return _result(fault or _type_fault(tensor, dtype, device), throw)


def check_packed_tensor(
    tensor: torch.Tensor,
    total_numel: int | torch.Tensor | None = None,
    last_dim: int | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    throw: bool = True,
) -> bool:
    """Whether a packed tensor has so many rows, this last size, type and device; see `check_tensor`."""
    fault: Exception | None = None
    if total_numel is not None and tensor.shape[0] != int(total_numel):
        fault = ValueError(f"tensor total number of elements is {tensor.shape[0]}, should be {int(total_numel)}")
    elif last_dim is not None and tensor.shape[-1] != last_dim:
        fault = ValueError(f"tensor last_dim is {tensor.shape[-1]}, should be {last_dim}")
    return _result(fault or _type_fault(tensor, dtype, device), throw)


def _padding_fault(tensor: torch.Tensor, value: int | float, shape_per_tensor: torch.Tensor) -> Exception | None:
    sizes = tensor.shape[1:-1]
    inside = torch.ones(tensor.shape[:-1], dtype=torch.bool, device=tensor.device)
    for axis, size in enumerate(sizes):
        places = torch.arange(size, device=tensor.device) < shape_per_tensor[:, axis : axis + 1].to(tensor.device)
        inside &= places.reshape(len(places), *[-1 if i == axis else 1 for i in range(len(sizes))])
    wrong = (tensor != value) & ~inside.unsqueeze(-1)
    if not bool(wrong.any()):
        return None
    place = tuple(wrong.nonzero()[0].tolist())
    return ValueError(f"tensor padding at {place} is {tensor[place].item()}, should be {value}")


def check_padded_tensor(
    tensor: torch.Tensor,
    padding_value: int | float | None = None,
    shape_per_tensor: torch.Tensor | None = None,
    batch_size: int | None = None,
    max_shape: Sequence[int | None] | None = None,
    last_dim: int | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    throw: bool = True,
) -> bool:
    """Whether a padded tensor has these sizes, type and device, and this value outside its tensors.

    Args:
        tensor: (B, *max_shape, C).
        padding_value: Value outside; None is not checked. Needs `shape_per_tensor`.
        shape_per_tensor: Sizes of each tensor, (B, D).
        batch_size: B.
        max_shape: Padded sizes; None in it matches any.
        last_dim: C.
        dtype: Type.
        device: Device.
        throw: Raise instead of returning False.

    Raises:
        ValueError: Other sizes or padding.
        TypeError: Another type or device.
    """
    fault: Exception | None = None
    if shape_per_tensor is not None and batch_size is not None and len(shape_per_tensor) != batch_size:
        count = len(shape_per_tensor)
        fault = ValueError(f"batch_size is {batch_size}, but there are {count} shapes in shape_per_tensor")
    elif batch_size is not None and tensor.shape[0] != batch_size:
        fault = ValueError(f"tensor batch size is {tensor.shape[0]}, should be {batch_size}")
    elif max_shape is not None and not _same_shape(tensor.shape[1:-1], max_shape):
        fault = ValueError(f"tensor max_shape is {tensor.shape[1:-1]}, should be {tuple(max_shape)}")
    elif last_dim is not None and tensor.shape[-1] != last_dim:
        fault = ValueError(f"tensor last_dim is {tensor.shape[-1]}, should be {last_dim}")
    fault = fault or _type_fault(tensor, dtype, device)
    if fault is None and padding_value is not None:
        if shape_per_tensor is None:
            fault = ValueError("shape_per_tensor should not be None if padding_value is set")
        else:
            fault = _padding_fault(tensor, padding_value, shape_per_tensor)
    return _result(fault, throw)


def _octree_fault(octree: torch.Tensor, index: int, level: int | None) -> Exception | None:
    children = uint8_bits_sum(octree)
    nodes, end, levels = 1, 0, 0
    while end < len(octree):
        start, end, levels = end, end + nodes, levels + 1
        if end > len(octree):
            return ValueError(f"lengths at {index} is {len(octree)}, but level {levels} ends at length {end}")
        nodes = int(children[start:end].sum())
    if level is not None and levels != level:
        return ValueError(f"octree {index} ends at level {levels}, should end at {level}")
    return None


def check_spc_octrees(
    octrees: torch.Tensor,
    lengths: torch.Tensor,
    batch_size: int | None = None,
    level: int | None = None,
    device: torch.device | str | None = None,
    throw: bool = True,
) -> bool:
    """Whether the bytes of octrees are whole trees; see `ops.random.random_spc_octrees`.

    Raises:
        ValueError: They are not, or of another number, depth or device than given.
    """
    fault: Exception | None = None
    if device is not None and not _same_device(octrees.device, device):
        fault = ValueError(f"octrees is on {octrees.device}, should be on {device}")
    elif batch_size is not None and lengths.shape != (batch_size,):
        fault = ValueError(f"lengths is of shape {lengths.shape}, but batch_size should be {batch_size}")
    else:
        sizes = lengths.tolist()
        for index, octree in enumerate(torch.split(octrees[: sum(sizes)], sizes)):
            fault = fault or _octree_fault(octree, index, level)
    return _result(fault, throw)


def tensor_info(t: Array | None, name: str = "", print_stats: bool = False, detailed: bool = False) -> str:
    """One line on a tensor or array: name, shape, type, device.

    Args:
        t: Tensor or array.
        name: What to call it.
        print_stats: With smallest, mean and largest value.
        detailed: With the values.
    """
    if t is None:
        return f"{name}: None"
    shape = list(t.shape)
    device = f"[{t.device}]" if isinstance(t, torch.Tensor) else "[numpy]"
    dtype = str(t.dtype)
    line = f"{name}: {shape} ({dtype}){device}"
    if print_stats and np.prod(shape) > 0:
        values = torch.as_tensor(t).detach().to(torch.float64)
        line += f" - [min {values.min():.4f}, max {values.max():.4f}, mean {values.mean():.4f}]"
    return f"{line}\n{t}" if detailed else line


def _parts(container: Any) -> dict[str, Any]:
    if isinstance(container, Mapping):
        return dict(container)
    return container._asdict() if hasattr(container, "_asdict") else vars(container)


def check_tensor_attribute_shapes(container: Any, throw: bool = True, **attribute_info: Sequence[int | None]) -> bool:
    """Whether a container's tensors have these shapes; None in a shape matches any size.

    Args:
        container: A dict, or an object with attributes.
        throw: Raise instead of returning False.
        **attribute_info: Shapes by name.

    Raises:
        ValueError: One has another shape, is missing, or is no tensor.
    """
    for name, shape in attribute_info.items():
        is_dict = isinstance(container, Mapping)
        value = container.get(name) if is_dict else getattr(container, name, None)
        if not isinstance(value, torch.Tensor | np.ndarray):
            return _result(ValueError(f"{name} is {type(value).__name__}, should be a tensor"), throw)
        if not _same_shape(value.shape, shape):
            return _result(ValueError(f"{name} shape is {tuple(value.shape)}, should be {tuple(shape)}"), throw)
    return True


def _description(value: Any, name: str, **tensor_info_kwargs: Any) -> str:
    if isinstance(value, torch.Tensor | np.ndarray):
        return tensor_info(value, name, **tensor_info_kwargs)
    if isinstance(value, list | tuple) and any(isinstance(item, torch.Tensor) for item in value):
        parts = [_description(item, f"{name}[{i}]", **tensor_info_kwargs) for i, item in enumerate(value)]
        return "\n".join(parts)
    return f"{name}: {value}"


def print_dict_attributes(
    in_dict: Mapping[str, Any], name: str = "", prefix: str = "", **tensor_info_kwargs: Any
) -> None:
    """Print a line for each entry of a dict; see `tensor_info`."""
    lines = [f"{prefix}{name}"] if name else []
    lines += [f"{prefix}{_description(value, str(key), **tensor_info_kwargs)}" for key, value in in_dict.items()]
    sys.stdout.write("\n".join(lines) + "\n")


def print_namedtuple_attributes(ntuple: Any, name: str = "", prefix: str = "", **tensor_info_kwargs: Any) -> None:
    """Print a line for each field of a named tuple, or attribute of an object; see `tensor_info`."""
    print_dict_attributes(_parts(ntuple), name or type(ntuple).__name__, prefix, **tensor_info_kwargs)
