"""Small wheels and recipes for the tests of `smr env`: a torch that is none, and packages with one compiled file."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

OFFLINE = {**os.environ, "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
TORCH = {
    "torch/__init__.py": b"from torch.version import __version__\n",
    "torch/version.py": b"__version__ = '2.13.0+cpu'\ncuda: str = None\nhip: str = None\n",
}


def recipe(**more: Any) -> dict[str, Any]:
    release = {"torch_min": "2.5.0", "python": ["3.10", "3.14"], "wheels": {"2.13.0": ["cpu"]}, "source": "the tests"}
    return {
        "version": 1,
        "name": "tiny-ext",
        "imports": ["tiny_ext"],
        "releases": [{"version": version, **release} for version in ("1.0", "1.1")],
        "source": {},
        "switches": {"cuda": {"FORCE_CUDA": "1", "TORCH_CUDA_ARCH_LIST": "{archs}"}, "cpu": {}},
        "signs_code": {"answers": "import tiny_ext\nassert tiny_ext.answer() == 42\nprint('42')"},
        **more,
    }


def make_wheels(folder: Path) -> None:
    """A folder with wheels of torch and of two versions of tiny-ext."""
    folder.mkdir()
    binary = _shared_object(folder)
    _wheel(folder, "torch", "2.13.0", TORCH)
    for version in ("1.0", "1.1"):
        module = f"__version__ = {version!r}\ndef answer():\n    return 42\n".encode()
        _wheel(folder, "tiny_ext", version, {"tiny_ext/__init__.py": module, "tiny_ext/_C.so": binary})


def _shared_object(folder: Path) -> bytes:
    compiler = shutil.which("gcc") or shutil.which("cc")
    assert compiler, "these tests need a C compiler"
    (folder / "one.c").write_text("int one(void) { return 1; }\n")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "_C.so", folder / "one.c"], check=True)
    data = (folder / "_C.so").read_bytes()
    for name in ("one.c", "_C.so"):
        (folder / name).unlink()
    return data


def _wheel(folder: Path, name: str, version: str, files: Mapping[str, bytes]) -> None:
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n"
    tags = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    whole = {**files, f"{info}/METADATA": metadata.encode(), f"{info}/WHEEL": tags.encode()}
    rows = [f"{path},sha256={_urlsafe(data)},{len(data)}" for path, data in whole.items()]
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        for path, data in whole.items():
            file.writestr(path, data)
        file.writestr(f"{info}/RECORD", "\n".join([*rows, f"{info}/RECORD,,"]) + "\n")


def _urlsafe(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
