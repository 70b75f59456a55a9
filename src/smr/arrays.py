"""Devices, and launches that use all cores. The only file that sets Warp up."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import warp as wp

from .errors import SmrError

wp.config.log_level = wp.LOG_ERROR
_WORKER = "smr-kernels"


def _start_warp() -> None:
    """Start Warp without its native complaint, on every machine without a GPU, that there is no CUDA driver."""
    try:
        stderr = os.dup(2)
    except OSError:  # closed
        wp.init()
        return
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            wp.init()
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
        said.seek(0)
        lines = [line for line in said.read().splitlines(keepends=True) if b"load the NVIDIA CUDA driver" not in line]
    if lines:
        os.write(2, b"".join(lines))


_start_warp()


def resolve_device(name: str = "auto") -> str:
    """The Warp device of a `--device` value: `auto`, `cpu`, `cuda` or `cuda:N`.

    Raises:
        SmrError: The name is none of these, or that GPU is not there.
    """
    gpus = [str(device) for device in wp.get_cuda_devices()]
    if name == "auto":
        return gpus[0] if gpus else "cpu"
    if name == "cpu":
        return "cpu"
    if name == "cuda" or name.startswith("cuda:"):
        wanted = "cuda:0" if name == "cuda" else name
        if wanted in gpus:
            return wanted
        found = ", ".join(gpus) if gpus else "no GPU"
        raise SmrError(
            f"Device {name!r} was asked for and {found} was found.",
            "Use --device auto, or run `smr doctor` to see why the GPU is not visible.",
        )
    raise SmrError(f"Device {name!r} is not known.", "Use auto, cpu, cuda or cuda:N.")


def cpu_threads() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def launch_chunked(
    kernel: Any, dim: int, inputs: Sequence[Any], *, outputs: Sequence[Any] = (), device: str, chunks: int | None = None
) -> None:
    """Launch a one-dimensional kernel whose FIRST argument is `base: int`, on all cores of a CPU or on a GPU.

    The kernel's item is `base + wp.tid()`. On the CPU, Warp runs one launch on one thread and releases the
    interpreter lock, so the range is cut into chunks that run in parallel. Only for kernels whose items write to
    disjoint places: Warp's CPU atomics are plain read-modify-write. The result does not depend on the chunks.
    """
    if dim <= 0:
        return
    threads = cpu_threads()
    if device != "cpu" or threads == 1 or dim == 1:
        wp.launch(kernel, dim=dim, inputs=[0, *inputs], outputs=list(outputs), device=device)
        return
    wp.load_module(kernel.module, device=device)  # compile once, before the threads ask for it together
    count = min(dim, chunks or threads * 4)
    edges = [dim * i // count for i in range(count + 1)]

    def run(i: int) -> None:
        wp.launch(kernel, dim=edges[i + 1] - edges[i], inputs=[edges[i], *inputs], outputs=list(outputs), device=device)

    if threading.current_thread().name.startswith(_WORKER):  # a worker that waited for workers could wait for ever
        runs: Iterator[None] = map(run, range(count))
    else:
        runs = _pool(threads).map(run, range(count))
    for _ in runs:
        pass


@lru_cache(maxsize=1)
def _pool(threads: int) -> ThreadPoolExecutor:
    """Threads that stay: starting them costs more than many a launch."""
    return ThreadPoolExecutor(threads, thread_name_prefix=_WORKER)
