"""The process environment of an environment: set before the interpreter starts, since inside it is too late.

The loader reads LD_LIBRARY_PATH once, when a process starts. torch's wheels find their CUDA libraries by their own
run path, so the right value is almost always none at all; what shadows them is left out, the driver's folder stays.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from smr.environment.envs.prefix import Track
from smr.errors import SmrError

_DROPPED = ("PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONUSERBASE", "CONDA_PREFIX", "CONDA_DEFAULT_ENV")
_WSL = Path("/usr/lib/wsl/lib")
_CUDA_LIBRARIES = (
    "libcudart.so*",
    "libcublas.so*",
    "libcudnn*.so*",
    "libnvJitLink.so*",
    "libtorch*.so*",
    "libc10*.so*",
)


def loader_path(given: str) -> list[str]:
    """Folders of LD_LIBRARY_PATH that are kept: those that bring the driver and nothing that torch brings itself."""
    kept = []
    for text in dict.fromkeys(part for part in given.split(":") if part):
        folder = Path(text)
        driver = (folder / "libcuda.so.1").exists() and "compat" not in folder.parts
        if driver and not any(next(folder.glob(pattern), None) for pattern in _CUDA_LIBRARIES):
            kept.append(text)
    if (_WSL / "libcuda.so.1").exists() and str(_WSL) not in kept:
        kept.append(str(_WSL))
    return kept


def settings(track: Track, given: Mapping[str, str]) -> dict[str, str | None]:
    """Variables to set, and (None) to remove."""
    env = track.env
    path = [str(env / "bin"), *(part for part in given.get("PATH", os.defpath).split(":") if part != str(env / "bin"))]
    kept = loader_path(given.get("LD_LIBRARY_PATH", ""))
    found: dict[str, str | None] = dict.fromkeys(_DROPPED)
    found.update(
        PATH=":".join(path),
        VIRTUAL_ENV=str(env),
        PYTHONNOUSERSITE="1",
        LD_LIBRARY_PATH=":".join(kept) or None,
    )
    return found


def environment(track: Track, given: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a process."""
    whole = dict(given)
    for name, value in settings(track, given).items():
        if value is None:
            whole.pop(name, None)
        else:
            whole[name] = value
    return whole


def launch(track: Track, argv: Sequence[str], given: Mapping[str, str]) -> int:
    """Become a program that runs in an environment; returns only where it cannot be started.

    Raises:
        SmrError: There is no such program.
    """
    environ = environment(track, given)
    program = shutil.which(argv[0], path=environ["PATH"])
    if program is None:
        raise SmrError(f"there is no program {argv[0]!r}", f"programs of the environment are in {track.env / 'bin'}")
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execve(program, list(argv), environ)
    except OSError as error:
        raise SmrError(f"{program} cannot be started: {error.strerror}", "see whether it is executable") from error
