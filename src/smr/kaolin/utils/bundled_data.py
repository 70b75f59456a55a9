"""Data sets of Kaolin's tutorials: where they are looked for. Nothing is loaded from the network."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

from .._absent import NotInSmrError
from .env_vars import KaolinEnvVars

_DATA = Path.home() / ".cache" / "kaolin"

SCANNED_TOYS_PATH = os.environ.get(KaolinEnvVars.SCANNED_TOYS_PATH, str(_DATA / "scanned_toys"))
SCANNED_TOYS_NAMES: list[str] = []
TENSOR_IR_PATH = os.environ.get(KaolinEnvVars.TENSOR_IR_PATH, str(_DATA / "tensor_ir"))
TENSOR_IR_NAMES: list[str] = []


def _refuse(what: str, path: str, variable: str) -> NoReturn:
    raise NotInSmrError(
        f"smr does not download {what}.", f"Put the files into {path}, or name their folder in {variable}."
    )


def download_scanned_toys_dataset() -> NoReturn:
    """Raise NotInSmrError: smr loads nothing from the network."""
    _refuse("the scanned toys", SCANNED_TOYS_PATH, KaolinEnvVars.SCANNED_TOYS_PATH)


def download_tensor_ir_dataset() -> NoReturn:
    """Raise NotInSmrError: smr loads nothing from the network."""
    _refuse("the TensoIR models", TENSOR_IR_PATH, KaolinEnvVars.TENSOR_IR_PATH)
