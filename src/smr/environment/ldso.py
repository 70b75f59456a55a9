"""Which copy of a shared library the dynamic loader takes, and why: the search order of `man ld.so`, step by step.

Order for a library that an object needs: one loaded already under that name; DT_RPATH of the object and of its loaders
(only where the object has no DT_RUNPATH); LD_LIBRARY_PATH; DT_RUNPATH of the object; /etc/ld.so.cache; the default
folders.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from smr.environment.elf import ElfError, ElfFile, read_elf

DEFAULT_FOLDERS = ("/lib/{m}-linux-gnu", "/usr/lib/{m}-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib")
MAX_CACHE = 32 << 20


@dataclass(frozen=True)
class Search:
    """What decides where the loader looks, beside the objects themselves."""

    library_path: tuple[str, ...] = ()
    """Folders of LD_LIBRARY_PATH."""
    main_rpath: tuple[str, ...] = ()
    """DT_RPATH of the program itself (conda's python has one), made absolute."""
    cache: Mapping[str, tuple[str, ...]] | None = None
    """Contents of /etc/ld.so.cache; None reads the machine's own."""
    folders: tuple[str, ...] = DEFAULT_FOLDERS


@dataclass(frozen=True)
class Choice:
    """The copy that wins."""

    path: Path | None
    """None: no copy is found."""
    why: str
    """`loaded already`, `RPATH`, `LD_LIBRARY_PATH`, `RUNPATH`, `ld.so.cache`, `default folder`, or `not found`."""
    others: tuple[Path, ...] = ()
    """Further copies that lost."""


def expand(folders: Sequence[str], origin: Path) -> tuple[str, ...]:
    """Folders of an RPATH with `$ORIGIN` filled in."""
    here = str(origin)
    return tuple(folder.replace("${ORIGIN}", here).replace("$ORIGIN", here) for folder in folders)


def find(
    soname: str, elf: ElfFile, search: Search, loaded: Mapping[str, Path], loaders: Sequence[ElfFile] = ()
) -> Choice:
    """Find the copy of `soname` that an object gets.

    Args:
        soname: Name as the object asks for it.
        elf: The object that needs the library.
        search: Environment of the process.
        loaded: Libraries in the process already, by soname.
        loaders: Objects that caused `elf` to be loaded, nearest first (their DT_RPATH counts).
    """
    if "/" in soname:
        path = Path(soname)
        return Choice(path, "path in the file") if path.is_file() else Choice(None, "not found")
    candidates: list[tuple[str, Path]] = []
    if soname in loaded:
        candidates.append(("loaded already", loaded[soname]))
    for why, folders in _places(elf, search, loaders):
        candidates += [(why, Path(folder) / soname) for folder in folders]
    cache = _machine_cache() if search.cache is None else search.cache
    candidates += [("ld.so.cache", Path(path)) for path in cache.get(soname, ())]
    candidates += [("default folder", Path(f.format(m=elf.machine)) / soname) for f in search.folders]
    fitting = [(why, path) for why, path in candidates if _fits(str(path), elf.machine)]
    if not fitting:
        return Choice(None, "not found")
    why, path = fitting[0]
    others = {str(p.resolve()): p for _, p in fitting[1:]}
    others.pop(str(path.resolve()), None)
    return Choice(path, why, tuple(others.values()))


def _places(elf: ElfFile, search: Search, loaders: Sequence[ElfFile]) -> list[tuple[str, tuple[str, ...]]]:
    places: list[tuple[str, tuple[str, ...]]] = []
    if not elf.runpath:
        places += [("RPATH", expand(o.rpath, o.path.resolve().parent)) for o in (elf, *loaders) if not o.runpath]
        places.append(("RPATH of the program", search.main_rpath))
    places.append(("LD_LIBRARY_PATH", search.library_path))
    places.append(("RUNPATH", expand(elf.runpath, elf.path.resolve().parent)))
    return places


@lru_cache(maxsize=8192)
def _fits(path: str, machine: str) -> bool:
    """Whether a file is there and is a library for this machine (the loader skips others)."""
    try:
        return Path(path).is_file() and read_elf(Path(path)).machine == machine
    except (ElfError, OSError):
        return False


def read_cache(path: Path) -> dict[str, tuple[str, ...]]:
    """Libraries in an ld.so.cache file by soname, best first; empty where it is absent or of another format."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_CACHE)
    except OSError:
        return {}
    start = data.find(b"glibc-ld.so.cache1.1")
    if start < 0 or len(data) < start + 48:
        return {}
    count = min(struct.unpack_from("<I", data, start + 20)[0], (len(data) - start - 48) // 24)
    found: dict[str, tuple[str, ...]] = {}
    for index in range(count):
        _, name, value = struct.unpack_from("<iII", data, start + 48 + 24 * index)
        soname, file_path = (_text(data, start + offset) for offset in (name, value))
        found[soname] = (*found.get(soname, ()), file_path)
    return found


@lru_cache(maxsize=1)
def _machine_cache() -> dict[str, tuple[str, ...]]:
    return read_cache(Path("/etc/ld.so.cache"))


def _text(data: bytes, start: int) -> str:
    return data[start : data.find(b"\0", start, start + 4096)].decode("utf-8", "replace")
