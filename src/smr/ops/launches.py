"""Kernels that are launched often on tensors: a launch is recorded once, and then only pointers change.

An ordinary launch through Warp takes 20 to 50 microseconds of the host, most of it spent on describing arrays and
arguments again. A `Launcher` keeps that description per thread and device, and takes about 5.
"""

from __future__ import annotations

import ctypes
import threading
from functools import lru_cache
from typing import Any, NamedTuple

import torch
import warp as wp

from ..arrays import launch_chunked
from .tensors import warp_device

_FEW = 4096
"""So many items are done sooner than they are given to threads."""
_CPU = -1


class Part(NamedTuple):
    """A piece of a tensor's memory, for a kernel: making a tensor of it would take longer than the launch."""

    pointer: int
    numbers: int
    """How many, of the kernel's type."""


class _Recorded(threading.local):
    """A thread's commands, by the number of the GPU."""

    def __init__(self) -> None:
        self.of_device: dict[int, tuple[Any, list[Any], list[int]]] = {}


class Launcher:
    """A one-dimensional kernel whose first argument is `base: int`; its item is `base + wp.tid()`.

    On a GPU it runs in torch's current stream, and the host does not wait. Safe to call from several threads.
    """

    def __init__(self, kernel: Any, *, disjoint: bool = True, block_dim: int = 256, few: int = _FEW) -> None:
        """Nothing is compiled yet.

        Args:
            kernel: Concrete (an overload, where it is generic).
            disjoint: Items write to disjoint places, so that a CPU may run them on all cores.
            block_dim: Threads of a block on a GPU.
            few: So many items run on one core of a CPU.
        """
        self._kernel = kernel
        self._disjoint = disjoint
        self._block_dim = block_dim
        self._few = few
        self._types = [argument.type for argument in kernel.adj.args[1:]]
        self._recorded = _Recorded()

    def __call__(self, dim: int, *arguments: Any, like: torch.Tensor) -> None:
        """Launch `dim` items.

        Args:
            dim: Number of items; none, no launch.
            arguments: After `base`: contiguous tensors of the kernel's types (not checked) and parts of them, Warp
                arrays, numbers and structs. A tensor serves as an array of vectors or of several axes too.
            like: A tensor on the device to launch on.
        """
        if dim <= 0:
            return
        if like.is_cuda:
            index = like.get_device()
            self._replay(dim, arguments, index, _stream(index, torch._C._cuda_getCurrentRawStream(index)))
            return
        warp_device(like)
        if self._disjoint and dim > self._few:
            launch_chunked(self._kernel, dim, self._packed(arguments), device="cpu")
        else:
            self._replay(dim, arguments, _CPU, None)

    def _replay(self, dim: int, arguments: tuple[Any, ...], device: int, stream: wp.Stream | None) -> None:
        """Launch through this thread's recorded command for the device, recorded now if it is the first time."""
        recorded = self._recorded.of_device.get(device)
        if recorded is None:
            recorded = self._recorded.of_device[device] = self._record(dim, arguments, device)
        command, last, numbers = recorded
        if last[0] != dim:
            command.set_dim(dim)
            last[0] = dim
        for place, argument in enumerate(arguments, 2):  # after the bounds and `base`
            if numbers[place] != 0:
                self._point(command, last, place, argument, numbers[place])
            elif last[place] is not argument and last[place] != argument:
                if isinstance(argument, int | float) and isinstance(command.params[place], ctypes._SimpleCData):
                    command.params[place].value = argument
                else:
                    command.set_param_at_index(place - 1, argument)
                last[place] = argument
        command.launch(stream=stream)

    @staticmethod
    def _point(command: Any, last: list[Any], place: int, data: Any, numbers: int) -> None:
        """Let an array of the command be over a tensor's memory."""
        kind = type(data)
        if kind is Part:
            pointer, size = data
        elif kind is wp.array:
            command.set_param_at_index(place - 1, data)
            last[place] = None
            return
        else:
            pointer, size = data.data_ptr(), data.numel()
        if numbers < 0:
            _lay_out(command.params[place], data, -numbers)
        elif last[place] != (pointer, size):
            command.params[place].shape[0] = size // numbers
            last[place] = pointer, size
        command.params[place].data = pointer

    def _record(self, dim: int, arguments: tuple[Any, ...], device: int) -> tuple[Any, list[Any], list[int]]:
        """A command; its size and what was last given to it; numbers in an array's element, negative for many axes."""
        last: list[Any] = [dim, 0]
        numbers = [0, 0]
        for argument, kind in zip(arguments, self._types, strict=True):
            array = isinstance(argument, torch.Tensor | Part | wp.array)
            last.append(None if array else argument)
            numbers.append((_numbers(kind.dtype) * (1 if kind.ndim == 1 else -1)) if array else 0)
        name, block_dim = ("cpu", None) if device == _CPU else (f"cuda:{device}", self._block_dim)
        inputs = [0, *self._packed(arguments)]
        command = wp.launch(self._kernel, dim, inputs, device=name, record_cmd=True, block_dim=block_dim)
        return command, last, numbers

    def _packed(self, arguments: tuple[Any, ...]) -> list[Any]:
        return [
            _described(argument, kind) if isinstance(argument, torch.Tensor | Part) else argument
            for argument, kind in zip(arguments, self._types, strict=True)
        ]


def launchers(
    kernel: Any, *, scalars: tuple[str, ...], vectors: tuple[str, ...] = (), disjoint: bool = True
) -> dict[torch.dtype, Launcher]:
    """Launchers of a generic kernel for single and double precision, by torch's type.

    Args:
        kernel: Generic in the arrays that are named.
        scalars: Arrays of numbers.
        vectors: Arrays of vectors of three.
        disjoint: See `Launcher`.
    """
    result = {}
    for dtype, scalar, vector in ((torch.float32, wp.float32, wp.vec3), (torch.float64, wp.float64, wp.vec3d)):
        types = {name: wp.array(dtype=scalar) for name in scalars} | {name: wp.array(dtype=vector) for name in vectors}
        result[dtype] = Launcher(wp.overload(kernel, types), disjoint=disjoint)
    return result


def _numbers(dtype: Any) -> int:
    """Numbers in an element: 3 for vec3."""
    return int(getattr(dtype, "_length_", 1))


@lru_cache(maxsize=1)
def _structure() -> Any:
    """The C structure of Warp arrays."""
    return type(wp.empty(1, dtype=int, device="cpu").__ctype__())


def _described(data: torch.Tensor | Part, kind: Any) -> Any:
    """A Warp array's C structure over a tensor's memory."""
    size, numbers = wp.types.type_size_in_bytes(kind.dtype), _numbers(kind.dtype)
    if isinstance(data, Part):
        return _structure()(data.pointer, 0, 1, (data.numbers // numbers,), (size,))
    if kind.ndim == 1:
        return _structure()(data.data_ptr(), 0, 1, (data.numel() // numbers,), (size,))
    array = _structure()(data.data_ptr(), 0, kind.ndim, (1,) * kind.ndim, (size,) * kind.ndim)
    _lay_out(array, data, numbers)
    return array


def _lay_out(array: Any, tensor: torch.Tensor, numbers: int) -> None:
    """Sizes and strides of an array of several axes; a tensor's axes beyond those are the numbers of an element."""
    stride = numbers * tensor.element_size()
    for axis in reversed(range(array.ndim)):
        array.shape[axis] = tensor.shape[axis]
        array.strides[axis] = stride
        stride *= tensor.shape[axis]


@lru_cache(maxsize=64)
def _stream(index: int, handle: int) -> wp.Stream:
    return wp.Stream(f"cuda:{index}", cuda_stream=handle)


@lru_cache(maxsize=1024)
def launcher_of(kernel: Any, block_dim: int) -> Launcher:
    """The kernel's launcher, made once."""
    return Launcher(kernel, block_dim=block_dim, few=1)
