"""Which GPU architectures an ELF file carries code for, read from its fatbin sections (`cuobjdump` is rarely there).

A fatbin is a header (magic, version, header size, body size) and entries one after another, each PTX text or a cubin.
The layout is not documented by NVIDIA; the fields used here were checked against nvcc 13.0 (tests compile real files).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from smr.environment.elf import ElfError, ElfFile, Section

MAX_ENTRIES = 200_000
SECTIONS = (".nv_fatbin", "__nv_relfatbin")
_MAGIC = 0xBA55ED50
_PTX, _CUBIN = 1, 2
_ARCHITECTURE_ONLY, _FAMILY = 1 << 20, 1 << 21


@dataclass(frozen=True)
class DeviceCode:
    """Targets found in a file, as nvcc names them, lowest first."""

    cubins: tuple[str, ...]
    """`sm_75`, `sm_90a`, ..."""
    ptx: tuple[str, ...]
    """`compute_80`, ..."""
    ptx_isa: str
    """Newest PTX language version (`8.7`), empty without PTX: the driver must know it."""


def device_code(elf: ElfFile) -> DeviceCode | None:
    """Targets of the device code in a file; None where it has none.

    Raises:
        ElfError: The fatbin section is damaged.
    """
    sections = [section for section in elf.sections() if section.name in SECTIONS and section.size]
    if not sections:
        return None
    cubins, ptx, isa = set(), set(), (0, 0)
    with elf.path.open("rb") as file:
        for section in sections:
            for kind, arch, suffix, version in _entries(file, section):
                if kind == _PTX:
                    ptx.add((arch, suffix))
                    isa = max(isa, version)
                elif kind == _CUBIN:
                    cubins.add((arch, suffix))
    return DeviceCode(
        tuple(f"sm_{arch}{suffix}" for arch, suffix in sorted(cubins)),
        tuple(f"compute_{arch}{suffix}" for arch, suffix in sorted(ptx)),
        f"{isa[0]}.{isa[1]}" if ptx else "",
    )


def _entries(file: BinaryIO, section: Section) -> Iterator[tuple[int, int, str, tuple[int, int]]]:
    place, end = section.offset, section.offset + section.size
    for _ in range(MAX_ENTRIES):
        place = _skip_padding(file, place, end)
        if place + 16 > end:
            return
        file.seek(place)
        magic, _, header, body = struct.unpack("<IHHQ", _exactly(file, 16))
        if magic != _MAGIC or header < 16:
            raise ElfError(f"no fatbin header at offset {place:#x}")
        inner, stop = place + header, min(place + header + body, end)
        while inner + 64 <= stop:
            file.seek(inner)
            row = _exactly(file, 48)
            kind, _, size, payload, _, _, minor, major, arch = struct.unpack_from("<HHIQIIHHI", row)
            flags = struct.unpack_from("<Q", row, 40)[0]
            suffix = "a" if flags & _ARCHITECTURE_ONLY else "f" if flags & _FAMILY else ""
            yield kind, arch, suffix, (major, minor)
            if size + payload <= 0:
                raise ElfError(f"empty fatbin entry at offset {inner:#x}")
            inner += size + payload
        place += header + body


def _skip_padding(file: BinaryIO, place: int, end: int) -> int:
    """Fatbins are aligned to eight bytes; zeros lie between them."""
    while place + 8 <= end:
        file.seek(place)
        if file.read(4) != b"\0\0\0\0":
            return place
        place += 8 - place % 8
    return end


def _exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise ElfError("cut short in its fatbin")
    return data
