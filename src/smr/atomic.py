"""Files that appear whole or not at all: written under a temporary name in the same folder, then renamed."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import SmrError

_CURES = {
    errno.ENOSPC: "Free some space on that disk, or write to another one.",
    errno.EDQUOT: "Free some of your quota on that disk, or write to another one.",
    errno.EROFS: "That disk is mounted read-only: write to a folder on another one.",
    errno.EACCES: "Make that folder writable for you, or write to a folder of your own.",
    errno.EPERM: "Make that folder writable for you, or write to a folder of your own.",
    errno.ENAMETOOLONG: "Choose a shorter name.",
    errno.ENOTDIR: "A part of that path is a file: choose a folder.",
}


@contextmanager
def atomic_paths(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Give a temporary path for each of `paths`; at the end of the block they are renamed to the real ones, in order.

    The temporary names keep the ending and lie in the real file's folder, which is made where it is missing. A file
    that refers to others comes last, so that it never refers to what is not there. When the block fails, the
    temporary files are removed and files that were there before stay as they were.

    Raises:
        SmrError: The disk is full, the folder cannot be written, or a path is a folder.
    """
    targets = [Path(os.path.realpath(path)) for path in paths]  # a link stays a link to the renewed file
    temporary: list[Path] = []
    current = targets[-1]
    try:
        for target in targets:
            current = target
            if target.is_dir():
                raise SmrError(f"{target} is a folder, where a file is to be written.", "Choose a file name.")
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary.append(target.with_name(f".smr-{secrets.token_hex(6)}.tmp{target.suffix}"))
        yield temporary
        for target, path in zip(targets, temporary, strict=True):
            current = target
            _flush(path)
        for target, path in zip(targets, temporary, strict=True):
            current = target
            os.replace(path, target)
        _flush_folder(targets[-1].parent)
    except OSError as error:
        raise write_error(current, error) from error
    finally:
        for path in temporary:
            with suppress(OSError):
                path.unlink(missing_ok=True)


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; at the end of the block it is renamed to `path`. See `atomic_paths`."""
    with atomic_paths([path]) as (temporary,):
        yield temporary


def write_bytes_atomic(path: Path, data: bytes) -> None:
    """Write a file that is either there with all of `data` or as it was before.

    Raises:
        SmrError: The disk is full or the folder cannot be written.
    """
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def check_writable(path: Path) -> None:
    """Find out before the work whether a file can be written at `path`; leaves nothing behind.

    Raises:
        SmrError: `path` is a folder, or a file cannot be made where it, or the folder to be made for it, would lie.
    """
    if path.is_dir():
        raise SmrError(f"{path} is a folder, where a file is to be written.", "Choose a file name.")
    folder = Path(os.path.realpath(path)).parent
    while not folder.exists():
        folder = folder.parent
    try:
        trial = folder / f".smr-{secrets.token_hex(6)}.tmp"
        trial.touch(exist_ok=False)
        trial.unlink()
    except OSError as error:
        raise write_error(path, error) from error


def write_error(path: Path, error: OSError) -> SmrError:
    """What to tell the user about a write that the system refused."""
    reason = os.strerror(error.errno).lower() if error.errno else str(error)
    cure = _CURES.get(error.errno or 0, "Check the disk and the folder, or write to another one.")
    return SmrError(f"{path} cannot be written: {reason}.", cure)


def _flush(path: Path) -> None:
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    if os.name == "nt":  # Windows has no handle of a folder
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network disks cannot
            os.fsync(handle)
    finally:
        os.close(handle)
