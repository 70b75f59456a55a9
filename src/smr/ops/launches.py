"""Kernels that are launched often on tensors: a launch is recorded once, and then only pointers change.

An ordinary launch through Warp takes 20 to 50 microseconds of the host, most of it spent on describing arrays and
arguments again. A `Launcher` keeps that description per thread and device, and takes about 5.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Any

import torch
import warp as wp

from ..arrays import launch_chunked
from .tensors import warp_device

_FEW = 4096
"""So many items are done sooner than they are given to threads."""


class Launcher:
    """A one-dimensional kernel whose first argument is `base: int`; its item is `base + wp.tid()`.

    On a GPU it runs in torch's current stream, and the host does not wait. Safe to call from several threads.
    """

    def __init__(self, kernel: Any, *, disjoint: bool = True, block_dim: int = 256) -> None:
        """Nothing is compiled yet.

        Args:
            kernel: Concrete (an overload, where it is generic).
            disjoint: Items write to disjoint places, so that a CPU may run them on all cores.
            block_dim: Threads of a block on a GPU.
        """
        self._kernel = kernel
        self._disjoint = disjoint
        self._block_dim = block_dim
        self._types = [argument.type for argument in kernel.adj.args[1:]]
        self._local = threading.local()

    def __call__(self, dim: int, *arguments: Any, like: torch.Tensor) -> None:
        """Launch `dim` items.

        Args:
            dim: Number of items; none, no launch.
            arguments: Contiguous tensors of the kernel's types (not checked), numbers and structs, after `base`.
            like: A tensor on the device to launch on.
        """
        if dim <= 0:
            return
        if like.is_cuda:
            index = like.device.index or 0
            stream = _stream(index, torch.cuda.current_stream(like.device).cuda_stream)
            self.replay(dim, arguments, f"cuda:{index}", stream)
            return
        warp_device(like)
        if self._disjoint and dim > _FEW:
            launch_chunked(self._kernel, dim, self._packed(arguments), device="cpu")
        else:
            self.replay(dim, arguments, "cpu", None)

    def replay(self, dim: int, arguments: tuple[Any, ...], device: str, stream: wp.Stream | None) -> None:
        """Launch through this thread's recorded command for the device, recorded now if it is the first time."""
        recorded = self._local.__dict__.get(device)
        if recorded is None:
            recorded = self._record(dim, arguments, device)
            self._local.__dict__[device] = recorded
        command, last = recorded
        if last[0] != dim:
            command.set_dim(dim)
            last[0] = dim
        for place, argument in enumerate(arguments, 2):  # after the bounds and `base`
            if isinstance(argument, torch.Tensor):
                array = command.params[place]
                array.data = argument.data_ptr()
                array.shape[0] = argument.numel() // last[place]
            elif last[place] is not argument and last[place] != argument:
                command.set_param_at_index(place - 1, argument)
                last[place] = argument
        command.launch(stream=stream)

    def _record(self, dim: int, arguments: tuple[Any, ...], device: str) -> tuple[Any, list[Any]]:
        """A command, and what was last given to it: size, and for each argument its numbers an element or its value."""
        last = [dim, 0]
        for argument, kind in zip(arguments, self._types, strict=True):
            last.append(_numbers(kind.dtype) if isinstance(argument, torch.Tensor) else argument)
        inputs = [0, *self._packed(arguments)]
        block_dim = None if device == "cpu" else self._block_dim
        command = wp.launch(self._kernel, dim, inputs, device=device, record_cmd=True, block_dim=block_dim)
        return command, last

    def _packed(self, arguments: tuple[Any, ...]) -> list[Any]:
        return [
            _described(argument, kind) if isinstance(argument, torch.Tensor) else argument
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


@lru_cache(maxsize=64)
def _empty(kind: Any) -> tuple[Any, int]:
    """The C structure of a Warp array, its stride in bytes."""
    array = wp.empty(1, dtype=kind.dtype, device="cpu")
    return type(array.__ctype__()), array.strides[0]


def _described(tensor: torch.Tensor, kind: Any) -> Any:
    structure, stride = _empty(kind)
    return structure(tensor.data_ptr(), 0, 1, (tensor.numel() // _numbers(kind.dtype),), (stride,))


@lru_cache(maxsize=64)
def _stream(index: int, handle: int) -> wp.Stream:
    return wp.Stream(f"cuda:{index}", cuda_stream=handle)
