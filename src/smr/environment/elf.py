"""Reads what the dynamic loader reads from an ELF file, without loading the file.

Every count and offset is checked against the size of the file and against a bound, so that a truncated or hostile file
costs bounded time and memory and ends in `ElfError`. 64-bit little-endian files only (x86-64, aarch64).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

MAX_DYNAMIC = 4096
MAX_SYMBOLS = 2_000_000
MAX_STRINGS = 256 << 20
MAX_NAME = 8192
MAX_SECTIONS = 65_536
MAX_OFFSET = 1 << 40
MACHINES = {62: "x86_64", 183: "aarch64"}

_NEEDED, _HASH, _STRTAB, _SYMTAB, _STRSZ, _SONAME, _RPATH, _RUNPATH = 1, 4, 5, 6, 10, 14, 15, 29
_GNU_HASH, _VERSYM, _VERDEF, _VERDEFNUM = 0x6FFFFEF5, 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFD
_VERNEED, _VERNEEDNUM = 0x6FFFFFFE, 0x6FFFFFFF


class ElfError(ValueError):
    """The file is not an ELF file that this module can read; the message says why."""


@dataclass(frozen=True)
class Undefined:
    """A symbol that some other library has to define."""

    name: str
    weak: bool
    version: str = ""
    """Version that was asked for (`libnvJitLink.so.12`, `GLIBC_2.34`), empty where there is none."""


@dataclass(frozen=True)
class Section:
    """Name, offset and size of a section in the file."""

    name: str
    offset: int
    size: int


@dataclass
class ElfFile:
    """What the loader needs to know of one file. Symbols are read on request."""

    path: Path
    machine: str = ""
    soname: str = ""
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    is_dynamic: bool = False
    _size: int = 0
    _segments: list[tuple[int, int, int]] = field(default_factory=list)
    _tags: dict[int, int] = field(default_factory=dict)
    _section_table: tuple[int, int, int, int] = (0, 0, 0, 0)
    _strings: bytes = b""

    def undefined(self) -> list[Undefined]:
        """All symbols that another library has to define, weak ones marked."""
        with self.path.open("rb", buffering=0) as file:
            versions = {index: name for _, names in self._version_needs(file) for index, name in names}
            count = self._symbol_count(file)
            symbols = self._read(file, self._tags.get(_SYMTAB, 0), count * 24, exact=False)
            versym = self._read(file, self._tags[_VERSYM], count * 2, exact=False) if _VERSYM in self._tags else b""
        found = []
        for number, (name, info, _, section, _, _) in enumerate(struct.iter_unpack("<IBBHQQ", _whole(symbols, 24))):
            if section == 0 and name:
                index = struct.unpack_from("<H", versym, number * 2)[0] & 0x7FFF if len(versym) >= number * 2 + 2 else 0
                found.append(Undefined(self._string(name), info >> 4 == 2, versions.get(index, "")))
        return found

    def versions_needed(self) -> dict[str, list[str]]:
        """Symbol versions asked of each library: `{"libc.so.6": ["GLIBC_2.14", ...]}`."""
        with self.path.open("rb", buffering=0) as file:
            return {library: [name for _, name in names] for library, names in self._version_needs(file)}

    def versions_defined(self) -> list[str]:
        """Symbol versions that this library offers (`GLIBCXX_3.4.30`, `CXXABI_1.3.13`, ...)."""
        found = []
        with self.path.open("rb", buffering=0) as file:
            address = self._tags.get(_VERDEF, 0)
            for _ in range(min(self._tags.get(_VERDEFNUM, 0), MAX_DYNAMIC)):
                _, _, _, _, _, aux, following = struct.unpack("<HHHHIII", self._read(file, address, 20))
                found.append(self._string(struct.unpack("<I", self._read(file, address + aux, 4))[0]))
                if following == 0:
                    break
                address += following
        return found

    def defines(self, names: set[str]) -> set[str]:
        """Those of `names` that this library defines, looked up as the loader does: by the GNU hash table."""
        if not names or _SYMTAB not in self._tags:
            return set()
        with self.path.open("rb", buffering=0) as file:
            if _GNU_HASH not in self._tags:
                return names & set(self._defined_names(file))
            return {name for name in names if self._gnu_lookup(file, name.encode())}

    def sections(self) -> list[Section]:
        """The section table; empty where it was stripped."""
        offset, size, count, names = self._section_table
        if not offset or not count:
            return []
        with self.path.open("rb", buffering=0) as file:
            table = _whole(_at(file, offset, min(count, MAX_SECTIONS) * size), 64) if size == 64 else b""
            raw = list(struct.iter_unpack("<IIQQQQIIQQ", table))
            if names >= len(raw):
                return []
            strings = _at(file, raw[names][4], min(raw[names][5], 1 << 20))
        return [
            Section(_cut(strings, row[0]), row[4], min(row[5], self._size - row[4]))
            for row in raw
            if row[1] != 8 and row[4] < self._size
        ]

    def comment(self) -> str:
        """Compiler that made the file (`GCC: (Debian 12.2.0) 12.2.0`), empty where it does not say."""
        for section in self.sections():
            if section.name == ".comment":
                with self.path.open("rb", buffering=0) as file:
                    text = _at(file, section.offset, min(section.size, 4096))
                return "; ".join(sorted({t.decode("utf-8", "replace") for t in text.split(b"\0") if t}))[:300]
        return ""

    def _string(self, offset: int) -> str:
        return _cut(self._strings, offset)

    def _offset(self, address: int) -> int:
        for start, offset, size in self._segments:
            if start <= address < start + size:
                return address - start + offset
        raise ElfError(f"address {address:#x} lies in no segment")

    def _read(self, file: BinaryIO, address: int, size: int, *, exact: bool = True) -> bytes:
        data = _at(file, self._offset(address), size)
        if exact and len(data) < size:
            raise ElfError(f"cut short at address {address:#x}")
        return data

    def _version_needs(self, file: BinaryIO) -> Iterator[tuple[str, list[tuple[int, str]]]]:
        address = self._tags.get(_VERNEED, 0)
        for _ in range(min(self._tags.get(_VERNEEDNUM, 0), MAX_DYNAMIC)):
            _, count, library, aux, following = struct.unpack("<HHIII", self._read(file, address, 16))
            names, place = [], address + aux
            for _ in range(min(count, MAX_DYNAMIC)):
                _, _, index, name, step = struct.unpack("<IHHII", self._read(file, place, 16))
                names.append((index & 0x7FFF, self._string(name)))
                if step == 0:
                    break
                place += step
            yield self._string(library), names
            if following == 0:
                return
            address += following

    def _symbol_count(self, file: BinaryIO) -> int:
        """How many symbols must be read to see all undefined ones: these stand before the hashed ones."""
        if _SYMTAB not in self._tags:
            return 0
        if _HASH in self._tags:
            return min(struct.unpack("<II", self._read(file, self._tags[_HASH], 8))[1], MAX_SYMBOLS)
        counted = next((s.size // 24 for s in self.sections() if s.name == ".dynsym"), 0)
        if _GNU_HASH in self._tags:
            first = struct.unpack("<IIII", self._read(file, self._tags[_GNU_HASH], 16))[1]
            return min(first if first > 1 else max(first, counted), MAX_SYMBOLS)
        return min(counted, MAX_SYMBOLS)

    def _defined_names(self, file: BinaryIO) -> Iterator[str]:
        table = self._read(file, self._tags[_SYMTAB], self._symbol_count(file) * 24, exact=False)
        for name, _, _, section, _, _ in struct.iter_unpack("<IBBHQQ", _whole(table, 24)):
            if section and name:
                yield self._string(name)

    def _gnu_lookup(self, file: BinaryIO, name: bytes) -> bool:
        table = self._tags[_GNU_HASH]
        buckets, first, words, shift = struct.unpack("<IIII", self._read(file, table, 16))
        if not buckets or not words:
            return False
        key = 5381
        for byte in name:
            key = (key * 33 + byte) & 0xFFFFFFFF
        word = struct.unpack("<Q", self._read(file, table + 16 + 8 * (key // 64 % words), 8))[0]
        if not (word >> key % 64) & (word >> (key >> shift) % 64) & 1:
            return False
        start = table + 16 + 8 * words
        number = struct.unpack("<I", self._read(file, start + 4 * (key % buckets), 4))[0]
        for index in range(number, number + 100_000):
            if number < first:
                return False
            link = struct.unpack("<I", self._read(file, start + 4 * (buckets + index - first), 4))[0]
            if (link ^ key) >> 1 == 0:
                row = self._read(file, self._tags[_SYMTAB] + 24 * index, 24)
                offset, _, _, section, _, _ = struct.unpack("<IBBHQQ", row)
                if section and self._strings[offset : offset + len(name) + 1] == name + b"\0":
                    return True
            if link & 1:
                return False
        raise ElfError("endless chain in the hash table")


def read_elf(path: Path) -> ElfFile:
    """Read the headers and the dynamic segment of a file.

    Raises:
        ElfError: Not an ELF file, of another machine width, or damaged.
        OSError: The file cannot be opened or read.
    """
    if not path.is_file():  # opening a pipe would wait for ever
        raise ElfError("not a regular file")
    with path.open("rb", buffering=0) as file:
        head = file.read(64)
        if head[:4] != b"\x7fELF":
            raise ElfError("not an ELF file")
        if len(head) < 64 or head[4] != 2 or head[5] != 1:
            raise ElfError("not a 64-bit little-endian ELF file" if len(head) == 64 else "cut short in its header")
        row = struct.unpack_from("<HHIQQQIHHHHHH", head, 16)
        elf = ElfFile(path, MACHINES.get(row[1], f"machine {row[1]}"), _size=file.seek(0, 2))
        elf._section_table = (row[5], row[10], row[11], row[12])
        programs = _whole(_at(file, row[4], min(row[9], 4096) * 56), 56) if row[8] == 56 else b""
        dynamic = (0, 0)
        for kind, _, offset, address, _, size, _, _ in struct.iter_unpack("<IIQQQQQQ", programs):
            if kind == 1:
                elf._segments.append((address, offset, size))
            elif kind == 2:
                dynamic = (offset, size)
        _read_dynamic(file, elf, *dynamic)
    return elf


def _read_dynamic(file: BinaryIO, elf: ElfFile, offset: int, size: int) -> None:
    rows = []
    for tag, value in struct.iter_unpack("<qQ", _whole(_at(file, offset, min(size, MAX_DYNAMIC * 16)), 16)):
        if tag == 0:
            break
        rows.append((tag, value))
        elf._tags.setdefault(tag, value)
    if not rows:
        return
    elf.is_dynamic = True
    length = min(elf._tags.get(_STRSZ, 0), MAX_STRINGS)
    elf._strings = elf._read(file, elf._tags[_STRTAB], length, exact=False) if _STRTAB in elf._tags else b""
    if len(elf._strings) < length:
        raise ElfError("cut short in its string table")
    elf.needed = tuple(elf._string(value) for tag, value in rows if tag == _NEEDED)
    elf.soname = next((elf._string(value) for tag, value in rows if tag == _SONAME), "")
    elf.rpath, elf.runpath = (
        tuple(part for tag, value in rows if tag == wanted for part in elf._string(value).split(":") if part)
        for wanted in (_RPATH, _RUNPATH)
    )


def _at(file: BinaryIO, offset: int, size: int) -> bytes:
    if offset < 0 or size < 0 or offset >= MAX_OFFSET:
        raise ElfError(f"offset {offset:#x} lies outside the file")
    file.seek(offset)
    parts, left = [], size
    while left:
        part = file.read(min(left, 1 << 24))
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _whole(data: bytes, step: int) -> bytes:
    return data[: len(data) // step * step]


def _cut(strings: bytes, offset: int) -> str:
    end = strings.find(b"\0", offset, offset + MAX_NAME)
    return strings[offset : end if end >= 0 else min(offset + MAX_NAME, len(strings))].decode("utf-8", "replace")
