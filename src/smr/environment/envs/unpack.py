"""Unpacks archives of others: no path leaves the folder, links are checked, number and sizes are bounded."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

from smr.errors import SmrError

MAX_FILES, MAX_BYTES = 200_000, 8 << 30


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack a source archive (.tar.gz, .tar.bz2, .tar.xz, .zip); returns the one folder in it, or `folder`.

    Raises:
        SmrError: It is damaged, too large, or holds a path or a link that leads out of it.
    """
    folder.mkdir(parents=True)
    try:
        if archive.name.endswith(".zip"):
            with zipfile.ZipFile(archive) as file:
                _unpack_zip(file, folder, archive)
        else:
            with tarfile.open(archive) as file:
                _unpack_tar(file, folder, archive)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise SmrError(
            f"{archive} cannot be unpacked: {error}", "fetch it again; it has to be .tar.gz or .zip"
        ) from error
    except SmrError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    inside = list(folder.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else folder


def safe_name(name: str, archive: Path) -> PurePosixPath:
    """A member's path, which stays inside.

    Raises:
        SmrError: It does not.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name or (name[1:2] == ":"):
        raise SmrError(f"{archive} holds the path {name!r}, which leads out of it", "do not use this file")
    return path


def _unpack_tar(file: tarfile.TarFile, folder: Path, archive: Path) -> None:
    budget = _Budget(archive)
    for member in file:
        budget.take(member.size)
        target = folder / safe_name(member.name, archive)
        if member.isdir():
            target.mkdir(parents=True, exist_ok=True)
        elif member.issym():
            _link(target, member.linkname, folder, archive)
        elif member.isfile():
            data = file.extractfile(member)
            assert isinstance(data, io.BufferedIOBase)
            _write(target, data, folder, archive)
            target.chmod(0o755 if member.mode & 0o100 else 0o644)
        else:
            what = f"{archive} holds {member.name!r}, which is neither a file, a folder nor a link"
            raise SmrError(what, "do not use this file")


def _unpack_zip(file: zipfile.ZipFile, folder: Path, archive: Path) -> None:
    budget = _Budget(archive)
    for member in file.infolist():
        budget.take(member.file_size)
        target = folder / safe_name(member.filename, archive)
        if member.is_dir():
            target.mkdir(parents=True, exist_ok=True)
            continue
        if (member.external_attr >> 16) & 0o170000 == 0o120000:
            raise SmrError(f"{archive} holds the link {member.filename!r}", "do not use this file")
        with file.open(member) as data:
            assert isinstance(data, io.BufferedIOBase)
            _write(target, data, folder, archive)


class _Budget:
    """Number and sizes of what an archive holds."""

    def __init__(self, archive: Path) -> None:
        self._archive, self._files, self._bytes = archive, MAX_FILES, MAX_BYTES

    def take(self, size: int) -> None:
        """Count one member (a zip's reader gives no more bytes than its header says)."""
        self._files, self._bytes = self._files - 1, self._bytes - size
        if self._files < 0 or self._bytes < 0:
            what = f"{self._archive} holds more than {MAX_FILES} files or {MAX_BYTES >> 30} GB"
            raise SmrError(what, "do not use this file")


def _link(target: Path, name: str, folder: Path, archive: Path) -> None:
    """A link whose target stays inside."""
    reached = os.path.normpath(os.path.join(target.parent, name))
    if os.path.isabs(name) or not Path(reached).is_relative_to(folder):
        raise SmrError(f"{archive} holds a link to {name!r}, which leads out of it", "do not use this file")
    _through_no_link(target.parent, folder, archive)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.symlink_to(name)


def _write(target: Path, data: io.BufferedIOBase, folder: Path, archive: Path) -> None:
    _through_no_link(target, folder, archive)
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as file:
        shutil.copyfileobj(data, file, 1 << 20)


def _through_no_link(target: Path, folder: Path, archive: Path) -> None:
    """Nothing is written through a link that the archive itself brought."""
    for part in (target, *target.parents):
        if part == folder:
            return
        if part.is_symlink():
            raise SmrError(f"{archive} writes through its own link {part.name!r}", "do not use this file")
