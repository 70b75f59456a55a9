"""Numbers in text files, read with NumPy: whole blocks of tokens at a time instead of one `float()` each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Int64, UInt8

_PAD = 16
_TEN_TO = 10.0 ** np.arange(23)
_TEN_TO_INT = 10 ** np.arange(19, dtype=np.int64)
_DOT, _MINUS, _PLUS, _NEWLINE = 46, 45, 43, 10


class NotANumberError(ValueError):
    """A token that should be a number and is none; `token` is its index among those asked for."""

    def __init__(self, token: int, text: str) -> None:
        super().__init__(f"{text!r} is not a number")
        self.token = token
        self.text = text


@dataclass(frozen=True)
class Tokens:
    """The words of a text: what lies between white space."""

    data: UInt8[np.ndarray, " n"]
    """The text with spaces before and after it."""
    starts: Int64[np.ndarray, " T"]
    ends: Int64[np.ndarray, " T"]

    @staticmethod
    def of(text: bytes) -> Tokens:
        """Split a text."""
        data = np.frombuffer(b" " * _PAD + text + b" " * _PAD, np.uint8)
        blank = data <= 32
        edges = np.flatnonzero(blank[1:] != blank[:-1]) + 1
        return Tokens(data, edges[0::2], edges[1::2])

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> bytes:
        return self.data[self.starts[index] : self.ends[index]].tobytes()

    def lines(self) -> tuple[Int64[np.ndarray, " L"], Int64[np.ndarray, " L"]]:
        """Index of the first token of each line, and one past its last."""
        breaks = np.flatnonzero(self.data == _NEWLINE)
        first = np.searchsorted(self.starts, np.concatenate([[0], breaks + 1]))
        return first, np.append(first[1:], len(self))

    def line_text(self, token: int) -> str:
        """The rest of a line from a token on, without white space around it."""
        start = int(self.starts[token])
        line = self.data[start : start + 4096].tobytes().split(b"\n", 1)[0]
        return line.decode("utf-8", "replace").strip()

    def floats(self, chosen: Int[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """The numbers that the chosen tokens spell, correctly rounded.

        Raises:
            NotANumberError: One of them is not a number.
        """
        flat = chosen.ravel()
        values = np.empty(len(flat))
        step = 1 << 17  # parts stay in the cache
        for begin in range(0, len(flat), step):
            part = flat[begin : begin + step]
            values[begin : begin + step] = _floats(self.data, self.starts[part], self.ends[part], begin)
        return values.reshape(chosen.shape)

    def ints(self, chosen: Int[np.ndarray, "*n"]) -> Int64[np.ndarray, "*n"]:
        """The whole numbers that the chosen tokens spell.

        Raises:
            NotANumberError: One of them is not a whole number.
        """
        return integers(self.data, self.starts[chosen.ravel()], self.ends[chosen.ravel()]).reshape(chosen.shape)


def integers(
    data: UInt8[np.ndarray, " n"], starts: Int64[np.ndarray, " T"], ends: Int64[np.ndarray, " T"]
) -> Int64[np.ndarray, " T"]:
    """Whole numbers with an optional sign at the given places; 0 where a place is empty."""
    if not len(starts):
        return np.zeros(0, np.int64)
    first = data[starts]
    signed = ((first == _MINUS) | (first == _PLUS)) & (ends > starts)
    begin = starts + signed
    good = (ends - begin <= 8) & ((ends > begin) | (ends == starts))
    values, digits = _eight_digits(data, begin, ends)
    good &= digits
    values = np.where((first == _MINUS) & signed, -values, values)
    for i in np.flatnonzero(~good):
        word = data[starts[i] : ends[i]].tobytes()
        try:
            values[i] = max(min(int(word), 2**62), -(2**62))
        except ValueError as error:
            raise NotANumberError(int(i), word.decode("utf-8", "replace")) from error
    return values


def _floats(data: np.ndarray, starts: np.ndarray, ends: np.ndarray, base: int) -> np.ndarray:
    """Digits, at most one dot, a sign: mantissa / 10^n is exact rounding while the mantissa is below 2^53."""
    low = int(starts[0]) if len(starts) else 0
    window = data[low : int(ends.max()) + 1] if len(starts) else data[:1]
    dots_before = np.cumsum(window == _DOT, dtype=np.int32)
    dot_at = np.append(np.flatnonzero(window == _DOT) + low, 0)
    before = dots_before[starts - low] - (window[starts - low] == _DOT)
    count = dots_before[ends - low - 1] - before
    first = data[starts]
    begin = starts + ((first == _MINUS) | (first == _PLUS))
    dot = np.where(count == 1, dot_at[np.minimum(before, len(dot_at) - 1)], ends)
    after = np.minimum(dot + 1, ends)
    decimals = ends - after
    whole, good = _eight_digits(data, begin, dot)
    middle = np.maximum(after, ends - 8)
    tail, digits = _eight_digits(data, middle, ends)
    head, more_digits = _eight_digits(data, after, middle)
    good &= digits & more_digits & (count <= 1) & (dot - begin <= 8) & (decimals <= 16)
    good &= (dot - begin + decimals > 0) & (dot - begin + decimals <= 18)
    fraction = head * 100_000_000 + tail
    mantissa = np.where(good, whole * _TEN_TO_INT[np.minimum(decimals, 18)] + fraction, 0)
    good &= mantissa <= 1 << 53
    values = mantissa / _TEN_TO[np.minimum(decimals, 22)]
    values[first == _MINUS] *= -1.0
    for i in np.flatnonzero(~good):  # exponents, more digits, nan, inf, and what is no number
        word = data[starts[i] : ends[i]].tobytes()
        try:
            values[i] = float(word.replace(b"_", b"?"))
        except ValueError as error:
            raise NotANumberError(base + int(i), word.decode("utf-8", "replace")) from error
    return values


def _eight_digits(data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The value of up to eight digits ending at `ends`, and whether they all were digits.

    Eight bytes are loaded as one word; pairs, then fours, then all eight are joined by multiplication.
    """
    words = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))
    length = np.minimum(ends - starts, 8).astype(np.uint64)
    shift = (np.uint64(8) - length) * np.uint64(8)
    word = words[ends - 8] ^ np.uint64(0x3030303030303030)
    empty = length == 0
    shift[empty] = 0
    word = (word >> shift) << shift  # what stands before the digits becomes zeros
    word[empty] = 0
    high_bits = (word + np.uint64(0x7676767676767676)) | word  # sets bit 7 of every byte above 9
    digits = (high_bits & np.uint64(0x8080808080808080)) == 0
    word = word * np.uint64(10) + (word >> np.uint64(8))
    mask = np.uint64(0x000000FF000000FF)
    low = (word & mask) * np.uint64(0x000F424000000064)
    high = ((word >> np.uint64(16)) & mask) * np.uint64(0x0000271000000001)
    return ((low + high) >> np.uint64(32)).astype(np.int64), digits
