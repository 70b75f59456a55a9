"""LZFSE."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..errors import SmrError


def read_lzfse_image(path: Path, size: tuple[int, int] | None, kind: np.dtype) -> np.ndarray:
    """Not yet."""
    raise SmrError(f"{path} is LZFSE-compressed, which is not read yet.", "Export from Record3D as EXR + JPG sequence.")
