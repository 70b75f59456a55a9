"""A small reader of OpenEXR depth images: single-part scan lines, uncompressed, RLE, ZIPS or ZIP.

Written from the file format's public description (openexr.com, "OpenEXR File Layout"). The official wheel would be a
compiled dependency for one kind of file; depth exports use ZIP or no compression. Other compressions (PIZ, DWA, ...),
tiles and deep data are refused by name.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from ..errors import SmrError

_COMPRESSIONS = ("none", "RLE", "ZIPS", "ZIP", "PIZ", "PXR24", "B44", "B44A", "DWAA", "DWAB")
_LINES = {"none": 1, "RLE": 1, "ZIPS": 1, "ZIP": 16}
_TYPES = (np.dtype("<u4"), np.dtype("<f2"), np.dtype("<f4"))
_DEPTH_NAMES = ("Z", "Y", "R", "V", "depth", "D")
_PIXEL_LIMIT = 300_000_000
_FILE_LIMIT = 4 << 30


@dataclass(frozen=True)
class _Header:
    width: int
    height: int
    top: int
    compression: str
    channels: tuple[tuple[str, np.dtype], ...]
    """In the order of the file: alphabetical."""
    end: int


def read_exr(path: Path) -> Float32[np.ndarray, "h w"]:
    """The depth channel (Z, Y, R or the only one) of an EXR image.

    Raises:
        SmrError: The file is damaged, or of a kind that is not read here.
    """
    content = _content(path)
    header = _parse_header(content, path)
    name = _depth_channel(header, path)
    image = np.zeros((header.height, header.width), np.float32)
    lines = _LINES[header.compression]
    chunks = -(-header.height // lines)
    try:
        offsets = struct.unpack_from(f"<{chunks}Q", content, header.end)
        for offset in offsets:
            row, size = struct.unpack_from("<iI", content, min(offset, len(content) - 8))
            first = row - header.top
            count = min(lines, header.height - first)
            if first < 0 or count <= 0 or offset + 8 + size > len(content):
                raise ValueError("a block of lines lies outside the image or the file")
            _read_lines(content[offset + 8 : offset + 8 + size], header, name, image[first : first + count])
    except (struct.error, ValueError, zlib.error) as error:
        raise _damaged(path, error) from None
    return image


def read_exr_size(path: Path) -> tuple[int, int]:
    """Width and height of an EXR image."""
    header = _parse_header(_content(path, 1 << 20), path)
    return header.width, header.height


def _damaged(path: Path, why: object) -> SmrError:
    return SmrError(f"{path} cannot be decoded: {why}.", "Copy or export the file again, or remove it and its frame.")


def _content(path: Path, limit: int = _FILE_LIMIT) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(limit)
    except OSError as error:
        raise _damaged(path, error.strerror) from None


def _parse_header(content: bytes, path: Path) -> _Header:
    if content[:4] != b"\x76\x2f\x31\x01":
        raise _damaged(path, "it is no OpenEXR file")
    if content[5] & 0b11010:  # tiled, deep, multi-part
        raise _refused(path, "tiled, deep or multi-part data")
    attributes: dict[str, bytes] = {}
    at = 8
    try:
        while content[at] != 0:
            name_end = content.index(0, at)
            type_end = content.index(0, name_end + 1)
            (size,) = struct.unpack_from("<i", content, type_end + 1)
            start = type_end + 5
            if size < 0 or start + size > len(content):
                raise ValueError("the header is truncated")
            attributes[content[at:name_end].decode("latin-1")] = content[start : start + size]
            at = start + size
        left, top, right, bottom = struct.unpack("<4i", attributes["dataWindow"])
        compression = _COMPRESSIONS[attributes["compression"][0]]
        channels = _parse_channels(attributes["channels"])
    except (IndexError, ValueError, KeyError, struct.error) as error:
        raise _damaged(path, f"its header is damaged ({error})") from None
    if compression not in _LINES:
        raise _refused(path, f"{compression} compression")
    width, height = right - left + 1, bottom - top + 1
    if width <= 0 or height <= 0 or width * height > _PIXEL_LIMIT:
        raise _damaged(path, f"its header says {width} x {height} pixels")
    return _Header(width, height, top, compression, channels, at + 1)


def _refused(path: Path, what: str) -> SmrError:
    return SmrError(
        f"{path} has {what}, which is not read here.",
        "Save depth as scan-line EXR with ZIP or no compression, as 16-bit PNG, or as NPY.",
    )


def _parse_channels(listed: bytes) -> tuple[tuple[str, np.dtype], ...]:
    channels = []
    at = 0
    while listed[at] != 0:
        end = listed.index(0, at)
        kind, _, x_step, y_step = struct.unpack_from("<iIii", listed, end + 1)
        if not 0 <= kind < len(_TYPES) or (x_step, y_step) != (1, 1):
            raise ValueError("a channel of an unknown or subsampled kind")
        channels.append((listed[at:end].decode("latin-1"), _TYPES[kind]))
        at = end + 17
    return tuple(channels)


def _depth_channel(header: _Header, path: Path) -> str:
    names = [name for name, _ in header.channels]
    if len(names) == 1:
        return names[0]
    for wanted in _DEPTH_NAMES:
        if wanted in names:
            return wanted
    raise _damaged(path, f"none of its channels ({', '.join(names)[:80]}) is called Z, Y, R or depth")


def _read_lines(block: bytes, header: _Header, name: str, out: np.ndarray) -> None:
    """Decode a block of lines; each line holds one channel after the other."""
    line_bytes = header.width * sum(kind.itemsize for _, kind in header.channels)
    wanted = line_bytes * len(out)
    raw = block if len(block) == wanted else _unpack(block, header.compression, wanted)
    if len(raw) != wanted:
        raise ValueError(f"a block of lines has {len(raw)} bytes in place of {wanted}")
    lines = np.frombuffer(raw, np.uint8).reshape(len(out), line_bytes)
    at = 0
    for channel, kind in header.channels:
        span = header.width * kind.itemsize
        if channel == name:
            out[:] = np.ascontiguousarray(lines[:, at : at + span]).view(kind)
        at += span


def _unpack(block: bytes, compression: str, wanted: int) -> bytes:
    """Undo ZIP or RLE: decompress, then a running sum of bytes, then the two halves interleaved."""
    if compression == "none":
        return block
    if compression == "RLE":
        packed = _unpack_rle(block, wanted)
    else:
        packed = zlib.decompressobj().decompress(block, wanted + 1)
    deltas = np.frombuffer(packed, np.uint8).astype(np.int64)
    deltas[1:] -= 128
    summed = np.cumsum(deltas).astype(np.uint8)
    half = (len(summed) + 1) // 2
    out = np.empty_like(summed)
    out[0::2], out[1::2] = summed[:half], summed[half:]
    return out.tobytes()


def _unpack_rle(block: bytes, wanted: int) -> bytes:
    out = bytearray()
    at = 0
    while at + 1 < len(block) and len(out) <= wanted:
        count = block[at] - 256 if block[at] > 127 else block[at]
        if count < 0:
            out += block[at + 1 : at + 1 - count]
            at += 1 - count
        else:
            out += bytes([block[at + 1]]) * (count + 1)
            at += 2
    return bytes(out)
