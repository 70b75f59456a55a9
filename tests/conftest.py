"""Fixtures that every test file shares."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from smr.arrays import resolve_device

DATA = Path(os.environ.get("SMR_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))


@pytest.fixture(autouse=True)
def _repeatable() -> None:
    """Random tensors of a test are the same each time."""
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture(scope="session")
def data_dir() -> Callable[[str], Path]:
    """Folder of a real capture that may be used in tests but not shipped; skips where it is absent."""

    def find(name: str) -> Path:
        folder = DATA / name
        if not folder.is_dir():
            pytest.skip(f"the data set {name} is not here (set SMR_TEST_DATA to the folder that holds it)")
        return folder

    return find


@pytest.fixture(params=["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    """Each device in turn; a GPU only where there is one."""
    if request.param != "cpu" and resolve_device("auto") == "cpu":
        pytest.skip("no NVIDIA GPU here")
    return str(request.param)
