"""`kaolin.render.mesh.nvdiffrast_context`: nvdiffrast is never needed here; a context is made only for who asks."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch


def nvdiffrast_is_available() -> bool:
    """Whether nvdiffrast is installed."""
    return find_spec("nvdiffrast") is not None


@lru_cache(maxsize=8)
def _context(device: torch.device) -> Any:
    return import_module("nvdiffrast.torch").RasterizeCudaContext(device=device)


def default_nvdiffrast_context(device: torch.device | str, raise_error: bool = False) -> Any:
    """A context of nvdiffrast on a device, made once; None where nvdiffrast is not installed.

    Raises:
        ModuleNotFoundError: It is not installed, and `raise_error` is set.
    """
    if not nvdiffrast_is_available():
        if raise_error:
            raise ModuleNotFoundError(
                "nvdiffrast is not installed. Rendering here does not need it: leave the context out", name="nvdiffrast"
            )
        return None
    return _context(torch.device(device))
