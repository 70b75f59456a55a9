"""Archives of captures (.zip, Record3D's .r3d): unpacked beside themselves, with nothing outside and bounded size."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from ..errors import SmrError
from .folder import DEPTH_ENDINGS, IMAGE_ENDINGS

ENDINGS = (".zip", ".r3d")
FILE_LIMIT = 1_000_000
BYTE_LIMIT = 200 << 30
_WANTED = (
    *IMAGE_ENDINGS,
    *DEPTH_ENDINGS,
    ".json",
    ".txt",
    ".csv",
    ".log",
    ".bin",
    ".depth",
    ".conf",
    ".freiburg",
    ".sim",
)


def unpack(archive: Path) -> Path:
    """The folder of an archive's images and tables, beside it; unpacked once, and again when the archive changes.

    Raises:
        SmrError: It is damaged, names files outside itself, is too large for the disk, or cannot be unpacked there.
    """
    info = archive.stat()
    target = archive.with_name(f"{archive.name}.unpacked-{info.st_size:x}-{int(info.st_mtime):x}")
    if target.is_dir():
        return target
    try:
        with zipfile.ZipFile(archive) as opened:
            members = _members(opened, archive)
            partial = Path(tempfile.mkdtemp(prefix=f".{archive.name}.", dir=archive.parent))
            try:
                _extract(opened, members, partial)
                partial.chmod(0o755)
                partial.rename(target)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise SmrError(f"{archive} cannot be unpacked: {error}.", "Export or copy it again; it is damaged.") from None
    except OSError as error:
        raise SmrError(
            f"{archive} cannot be unpacked beside itself: {error.strerror}.",
            "Copy it to a folder that can be written, or unpack it by hand and give the folder.",
        ) from None
    return target


def _members(opened: zipfile.ZipFile, archive: Path) -> list[zipfile.ZipInfo]:
    """The members that a capture needs, all checked before the first is written."""
    listed = opened.infolist()
    for member in listed:
        path = PurePosixPath(member.filename.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or ":" in path.parts[0:1] or "\0" in member.filename:
            raise SmrError(f"{archive} names a file outside itself: {member.filename!r}.", "Do not use this archive.")
    wanted = [
        member
        for member in listed
        if not member.is_dir()
        and not stat.S_ISLNK(member.external_attr >> 16)
        and "__MACOSX" not in member.filename
        and (member.filename.lower().endswith(_WANTED) or PurePosixPath(member.filename).name == "metadata")
    ]
    size = sum(member.file_size for member in wanted)
    free = shutil.disk_usage(archive.parent).free
    if len(wanted) > FILE_LIMIT or size > BYTE_LIMIT or size > 0.9 * free:
        raise SmrError(
            f"{archive} unpacks to {len(wanted)} files of {size / 1e9:.1f} GB; {free / 1e9:.1f} GB are free there.",
            "Make room, or unpack the part that matters by hand and give the folder.",
        )
    return wanted


def _extract(opened: zipfile.ZipFile, members: list[zipfile.ZipInfo], folder: Path) -> None:
    for member in members:
        target = folder.joinpath(*PurePosixPath(member.filename.replace("\\", "/")).parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        with opened.open(member) as source, target.open("wb") as sink:
            shutil.copyfileobj(source, sink, 1 << 20)
        if os.path.getsize(target) != member.file_size:
            raise zipfile.BadZipFile(f"{member.filename} is longer than it says")
