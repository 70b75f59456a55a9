"""A decoder of LZFSE, Apple's compression, in which Record3D keeps depth and confidence.

Written from the format as its reference implementation (github.com/lzfse/lzfse) documents it: blocks of literals and of
matches (a number of literals, a length, a distance), each coded by finite state entropy and read backwards. The two
sequential loops are Warp kernels with one item, which run like plain C. Blocks of the small-buffer kind (LZVN) and of
the encoder's internal kind (bvx1) do not occur in images and are refused.
"""

# ruff: noqa: UP018, RUF046
# Warp: a name that changes in a loop must start as int(0), not as a constant.

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import no_type_check

import numpy as np
import warp as wp
from jaxtyping import Int32, Shaped, UInt8

from ..errors import SmrError

_SYMBOLS = (20, 20, 64, 256)
"""Of literal counts, match lengths, distances and literals."""
_STATES = (64, 64, 256, 1024)
_COUNT_BITS = (*(0,) * 16, 2, 3, 5, 8)
_LENGTH_BITS = (*(0,) * 16, 3, 5, 8, 11)
_DISTANCE_BITS = tuple(i // 4 for i in range(64))
_SHORT_BITS = (2, 3, 2, 5, 2, 3, 2, 8, 2, 3, 2, 5, 2, 3, 2, 14) * 2
_SHORT_VALUES = (0, 2, 1, 4, 0, 3, 1, 0, 0, 2, 1, 5, 0, 3, 1, 0, 0, 2, 1, 6, 0, 3, 1, 0, 0, 2, 1, 7, 0, 3, 1, 0)
"""Frequencies by their lowest five bits: how many bits they take, and their value where that is at most five."""
_LIMIT = 1 << 28
"""Bytes; no image is larger."""


class _Damaged(ValueError):
    """The stream is not what the format allows."""


@dataclass(frozen=True)
class _Table:
    """A finite state decoder: for each state the bits to read, what to add, and the symbol."""

    bits: Int32[np.ndarray, " S"]
    delta: Int32[np.ndarray, " S"]
    symbol: Int32[np.ndarray, " S"]


def read_lzfse_image(path: Path, size: tuple[int, int] | None, kind: np.dtype) -> Shaped[np.ndarray, "h w"]:
    """An image without a header, compressed with LZFSE.

    Args:
        path: The file.
        size: Width and height, which the file does not say.
        kind: Type of its values.

    Raises:
        SmrError: The file is damaged or has another size.
    """
    if size is None:
        raise ValueError("a file without a header needs a size")
    width, height = size
    wanted = width * height * kind.itemsize
    try:
        raw = decompress(path.read_bytes(), wanted)
    except OSError as error:
        raise _unreadable(path, error.strerror) from None
    except _Damaged as error:
        raise _unreadable(path, error) from None
    if len(raw) != wanted:
        raise _unreadable(path, f"it holds {len(raw)} bytes, and {width} x {height} values need {wanted}")
    return np.frombuffer(raw, kind).reshape(height, width).astype(kind.newbyteorder("="))


def _unreadable(path: Path, why: object) -> SmrError:
    return SmrError(f"{path} cannot be decoded: {why}.", "Copy or export the file again, or remove it and its frame.")


def decompress(stream: bytes, limit: int = _LIMIT) -> bytes:
    """The bytes of an LZFSE stream, at most `limit`.

    Raises:
        ValueError: The stream is damaged, truncated, larger than `limit`, or of a kind that is not read here.
    """
    try:
        return _blocks(stream, limit)
    except struct.error:
        raise _Damaged("it is truncated") from None


def _blocks(stream: bytes, limit: int) -> bytes:
    out = np.zeros(0, np.uint8)
    at = 0
    while True:
        magic = stream[at : at + 4]
        if magic == b"bvx$":
            return out.tobytes()
        if magic not in (b"bvx-", b"bvx2"):
            raise _Damaged("it is no LZFSE stream" if at == 0 else f"it has a block {magic!r}, or is truncated")
        (count,) = struct.unpack_from("<I", stream, at + 4)
        if count > limit - len(out):
            raise _Damaged(f"it holds more than {limit} bytes")
        begin = len(out)
        out = np.concatenate([out, np.zeros(count, np.uint8)])
        if magic == b"bvx-":
            if at + 8 + count > len(stream):
                raise _Damaged("it is truncated")
            out[begin:] = np.frombuffer(stream, np.uint8, count, at + 8)
            at += 8 + count
        else:
            at = _compressed_block(stream, at, out, begin)


def _compressed_block(stream: bytes, at: int, out: UInt8[np.ndarray, " N"], begin: int) -> int:
    """Decode a block of matches into `out` from `begin` on; return where the next block starts."""
    first, second, third = struct.unpack_from("<3Q", stream, at + 8)
    literals, literal_bytes, matches = (first >> shift & 0xFFFFF for shift in (0, 20, 40))
    match_bytes = second >> 40 & 0xFFFFF
    literal_states = [second >> shift & 0x3FF for shift in (0, 10, 20, 30)]
    header = third & 0xFFFFFFFF
    states = [third >> shift & 0x3FF for shift in (32, 42, 52)]
    body = at + header
    end = body + literal_bytes + match_bytes
    if header < 32 or end > len(stream) or literals % 4 or any(s >= n for s, n in zip(states, _STATES, strict=False)):
        raise _Damaged("a block's header is damaged, or it is truncated")
    frequencies = _frequencies(stream[at + 32 : body])
    tables = [_table(f, n) for f, n in zip(frequencies, _STATES, strict=True)]
    source = np.frombuffer(stream[body:end] + b"\0" * 4, np.uint8)
    values = np.zeros(max(literals, 1), np.uint8)
    status = np.zeros(1, np.int32)
    start = np.array([*literal_states, 8 * literal_bytes + (first >> 60 & 7) - 7, literals], np.int32)
    _run(_decode_literals, [source, start, *_arrays(tables[3])], [values, status])
    if status[0] == 0:
        bit = 8 * (literal_bytes + match_bytes) + (second >> 60 & 7) - 7
        start = np.array([*states, bit, 8 * literal_bytes, matches, begin, literals], np.int32)
        _run(_decode_matches, [source, start, *_value_tables(tables[:3]), values], [out, status])
    if status[0] != 0:
        raise _Damaged("a block is damaged")
    return end


def _frequencies(coded: bytes) -> list[list[int]]:
    """How often each symbol occurs, from the header's variable-length code."""
    number, left = int.from_bytes(coded, "little"), 8 * len(coded)
    found = []
    for _ in range(sum(_SYMBOLS)):
        short = number & 31
        bits = _SHORT_BITS[short] if coded else 0
        if bits > left:
            raise _Damaged("a block's table of frequencies is truncated")
        longer = {8: 8 + (number >> 4 & 0xF), 14: 24 + (number >> 4 & 0x3FF)}
        found.append(longer.get(bits, _SHORT_VALUES[short]) if coded else 0)
        number >>= bits
        left -= bits
    edges = np.cumsum((0, *_SYMBOLS))
    return [found[a:b] for a, b in pairwise(edges)]


def _table(frequencies: list[int], states: int) -> _Table:
    """Duda's tabled asymmetric numeral system: symbols own runs of states in proportion to their frequency."""
    if sum(frequencies) > states:
        raise _Damaged("a block's frequencies are too large")
    bits, delta, symbol = (np.full(states, fill, np.int32) for fill in (-1, 0, 0))
    at = 0
    for i, f in enumerate(frequencies):
        if f == 0:
            continue
        k = states.bit_length() - f.bit_length()
        split = (2 * states >> k) - f
        j = np.arange(f)
        bits[at : at + f] = np.where(j < split, k, k - 1)
        delta[at : at + f] = np.where(j < split, ((f + j) << k) - states, (j - split) << max(k - 1, 0))
        symbol[at : at + f] = i
        at += f
    return _Table(bits, delta, symbol)


def _value_tables(tables: list[_Table]) -> list[Int32[np.ndarray, " S"]]:
    """Bits and delta of the states of counts, lengths and distances, how many more bits follow, and the least value."""
    extra = [np.array(bits, np.int32) for bits in (_COUNT_BITS, _LENGTH_BITS, _DISTANCE_BITS)]
    least = [np.concatenate([[0], np.cumsum(1 << bits)[:-1]]).astype(np.int32) for bits in extra]
    return [
        np.concatenate([table.bits for table in tables]),
        np.concatenate([table.delta for table in tables]),
        np.concatenate([more[table.symbol] for table, more in zip(tables, extra, strict=True)]),
        np.concatenate([low[table.symbol] for table, low in zip(tables, least, strict=True)]),
    ]


def _arrays(table: _Table) -> list[np.ndarray]:
    return [table.bits, table.delta, table.symbol]


def _run(kernel: wp.Kernel, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
    """One item, on the CPU, whose arrays Warp shares with NumPy."""
    shared = [
        [wp.array(np.ascontiguousarray(a), device="cpu", copy=False) for a in arrays] for arrays in (inputs, outputs)
    ]
    wp.launch(kernel, dim=1, inputs=shared[0], outputs=shared[1], device="cpu")


@wp.func
@no_type_check
def _bits_at(source: wp.array(dtype=wp.uint8), position: int, count: int):
    """`count` bits (at most 24) from bit `position` on."""
    byte = position >> 3
    word = (
        int(source[byte]) | (int(source[byte + 1]) << 8) | (int(source[byte + 2]) << 16) | (int(source[byte + 3]) << 24)
    )
    return (word >> (position & 7)) & ((1 << count) - 1)


@wp.kernel(enable_backward=False)
@no_type_check
def _decode_literals(
    source: wp.array(dtype=wp.uint8),
    start: wp.array(dtype=int),
    bits: wp.array(dtype=int),
    delta: wp.array(dtype=int),
    symbol: wp.array(dtype=int),
    literals: wp.array(dtype=wp.uint8),
    status: wp.array(dtype=int),
):
    """Four interleaved streams; `start` holds their states, the bit to begin below, and the number of literals."""
    states = wp.vec4i(start[0], start[1], start[2], start[3])
    position = int(start[4])
    for i in range(start[5]):
        state = states[i % 4]
        count = bits[state]
        position -= wp.max(count, 0)
        if count < 0 or position < 0:
            status[0] = 1
            return
        literals[i] = wp.uint8(symbol[state])
        states[i % 4] = delta[state] + _bits_at(source, position, count)


@wp.kernel(enable_backward=False)
@no_type_check
def _decode_matches(
    source: wp.array(dtype=wp.uint8),
    start: wp.array(dtype=int),
    bits: wp.array(dtype=int),
    delta: wp.array(dtype=int),
    extra: wp.array(dtype=int),
    least: wp.array(dtype=int),
    literals: wp.array(dtype=wp.uint8),
    out: wp.array(dtype=wp.uint8),
    status: wp.array(dtype=int),
):
    """`start`: three states, the bit to begin below, the lowest bit, matches, first byte of `out`, literals."""
    states = wp.vec3i(start[0], start[1], start[2])
    read = wp.vec3i()  # literals to copy, length of the match, its distance
    position = int(start[3])
    at = int(start[6])
    taken = int(0)
    distance = int(0)
    for _ in range(start[5]):
        for k in range(3):
            s = 64 * k + states[k]  # the tables of counts, lengths and distances follow each other
            position -= wp.max(bits[s], 0) + extra[s]
            if bits[s] < 0 or position < start[4]:
                status[0] = 1
                return
            read[k] = least[s] + _bits_at(source, position, extra[s])
            states[k] = delta[s] + _bits_at(source, position + extra[s], bits[s])
        if read[2] != 0:
            distance = read[2]  # 0 repeats the last one
        end = at + read[0] + read[1]
        if taken + read[0] > start[7] or end > out.shape[0]:
            status[0] = 2
            return
        if read[1] > 0 and (distance == 0 or distance > at + read[0]):
            status[0] = 3
            return
        for i in range(read[0]):
            out[at + i] = literals[taken + i]
        taken += read[0]
        at += read[0]
        for i in range(read[1]):
            out[at + i] = out[at + i - distance]
        at += read[1]
    if at != out.shape[0]:
        status[0] = 4
