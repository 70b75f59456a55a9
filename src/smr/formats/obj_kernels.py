"""The lines of large OBJ files, counted and read as machine code: each item of a launch is one block of lines.

What is not plain (numbers of more than 18 digits, words in place of numbers) only marks its block, which is then read
by the NumPy reader in `obj_read`. Numbers are rounded correctly: a mantissa below 2^53 times or over a power of ten up
to 10^22 is exact before the one rounding (Clinger, "How to Read Floating Point Numbers Accurately", 1990).
"""

from typing import no_type_check

import numpy as np
import warp as wp

# ruff: noqa: UP018, RUF046, SIM109 (in a kernel, int(0) makes a variable that a loop may change)

V_LINES, T_LINES, N_LINES, F_LINES, CORNERS, V_WIDTH, T_WIDTH, N_WIDTH, USES, ROUGH = range(10)
"""Columns of what `count_lines` counts in a block: lines of each kind, corners, the most numbers of a line, lines with
`usemtl` or `mtllib`, and whether a line has too few numbers."""

_OTHER, _V, _T, _N, _F, _USE = (wp.constant(i) for i in range(6))
_NEWLINE, _TAB, _SPACE, _HASH = (wp.constant(ord(c)) for c in "\n\t #")
_PLUS, _MINUS, _DOT, _SLASH, _ZERO = (wp.constant(ord(c)) for c in "+-./0")
_LOWER_E, _LOWER_F, _LOWER_N, _LOWER_T, _LOWER_V = (wp.constant(ord(c)) for c in "efntv")
_UPPER_E = wp.constant(ord("E"))
_EXACT = wp.constant(wp.int64(1 << 53))
_NOTHING = wp.constant(wp.float64(np.nan))
_MISSING = wp.constant(wp.int64(1 << 40))
POWERS = 10.0 ** np.arange(23)


@wp.func
@no_type_check
def _separates(character: int):
    """Whether a comment may begin behind this character."""
    return character == _SPACE or character == _TAB or character == _NEWLINE


@wp.func
@no_type_check
def _word(data: wp.array(dtype=wp.uint8), place: int, end: int):
    """Where the next word of a line begins; its end where there is none."""
    i = int(place)
    while i < end and int(data[i]) <= _SPACE:
        i += 1
    if i < end and int(data[i]) == _HASH and (i == 0 or _separates(int(data[wp.max(i - 1, 0)]))):
        i = int(end)
    return i


@wp.func
@no_type_check
def _word_end(data: wp.array(dtype=wp.uint8), place: int, end: int):
    i = int(place)
    while i < end and int(data[i]) > _SPACE:
        i += 1
    return i


@wp.func
@no_type_check
def _line_end(data: wp.array(dtype=wp.uint8), place: int, end: int):
    i = int(place)
    while i < end and int(data[i]) != _NEWLINE:
        i += 1
    return i


@wp.func
@no_type_check
def _is(data: wp.array(dtype=wp.uint8), begin: int, end: int, word: wp.array(dtype=wp.uint8)):
    if end - begin != word.shape[0]:
        return False
    same = bool(True)
    for k in range(word.shape[0]):
        same = same and data[begin + k] == word[k]
    return same


@wp.func
@no_type_check
def _kind(
    data: wp.array(dtype=wp.uint8),
    begin: int,
    end: int,
    use: wp.array(dtype=wp.uint8),
    library: wp.array(dtype=wp.uint8),
):
    """What the first word of a line says that it is."""
    first = int(data[begin])
    if end - begin == 1:
        if first == _LOWER_V:
            return _V
        if first == _LOWER_F:
            return _F
        return _OTHER
    if end - begin == 2 and first == _LOWER_V:
        if int(data[begin + 1]) == _LOWER_T:
            return _T
        if int(data[begin + 1]) == _LOWER_N:
            return _N
        return _OTHER
    if _is(data, begin, end, use) or _is(data, begin, end, library):
        return _USE
    return _OTHER


@wp.kernel(enable_backward=False)
@no_type_check
def count_lines(
    base: int,
    data: wp.array(dtype=wp.uint8),
    edges: wp.array(dtype=int),
    use: wp.array(dtype=wp.uint8),
    library: wp.array(dtype=wp.uint8),
    counts: wp.array2d(dtype=int),
) -> None:
    """Count the lines of blocks; columns as above."""
    block = base + wp.tid()
    place = int(edges[block])
    end = int(edges[block + 1])
    while place < end:
        stop = _line_end(data, place, end)
        begin = int(_word(data, place, stop))
        after = int(_word_end(data, begin, stop))
        if begin < after:
            kind = _kind(data, begin, after, use, library)
            if kind == _USE:
                counts[block, 8] = counts[block, 8] + 1
            elif kind != _OTHER:
                words = int(0)
                begin = _word(data, after, stop)
                while begin < stop:
                    words += 1
                    begin = _word(data, _word_end(data, begin, stop), stop)
                counts[block, kind - 1] = counts[block, kind - 1] + 1
                if kind == _F:
                    counts[block, 4] = counts[block, 4] + words
                else:
                    least = int(3)
                    most = int(3)
                    if kind == _V:
                        most = int(7)
                    if kind == _T:
                        least = int(1)
                        most = int(2)
                    if words < least:
                        counts[block, 9] = 1
                    counts[block, 4 + kind] = wp.max(counts[block, 4 + kind], wp.min(words, most))
        place = stop + 1


@wp.func
@no_type_check
def _number(data: wp.array(dtype=wp.uint8), begin: int, end: int, powers: wp.array(dtype=wp.float64)):
    """The number that a word spells, and whether it is a plain one."""
    i = int(begin)
    negative = bool(False)
    if int(data[i]) == _MINUS:
        negative = bool(True)
        i += 1
    elif int(data[i]) == _PLUS:
        i += 1
    mantissa = wp.int64(0)
    digits = int(0)
    places = int(0)
    significant = int(0)
    dotted = bool(False)
    going = bool(True)
    while i < end and going:
        c = int(data[i]) - _ZERO
        if c >= 0 and c <= 9:
            if significant > 0 or c > 0:
                significant += 1
            if significant <= 18:
                mantissa = mantissa * wp.int64(10) + wp.int64(c)
            digits += 1
            if dotted:
                places += 1
            i += 1
        elif c == _DOT - _ZERO and not dotted:
            dotted = bool(True)
            i += 1
        else:
            going = False
    exponent = int(0)
    plain = digits > 0 and significant <= 18 and mantissa <= _EXACT
    if i < end:
        plain = plain and (int(data[i]) == _LOWER_E or int(data[i]) == _UPPER_E)
        i += 1
        down = bool(False)
        if i < end and (int(data[i]) == _MINUS or int(data[i]) == _PLUS):
            down = int(data[i]) == _MINUS
            i += 1
        plain = plain and i < end and end - i <= 4
        while i < end:
            c = int(data[i]) - _ZERO
            plain = plain and c >= 0 and c <= 9
            exponent = exponent * 10 + c
            i += 1
            if not plain:
                i = end
        if down:
            exponent = -exponent
    exponent -= places
    value = wp.float64(mantissa)
    if plain and mantissa != wp.int64(0):
        if exponent > 22 or exponent < -22:
            plain = bool(False)
        elif exponent >= 0:
            value = value * powers[exponent]
        else:
            value = value / powers[-exponent]
    if negative:
        value = value * wp.float64(-1.0)  # -value would lose the sign of zero
    return value, plain


@wp.func
@no_type_check
def _index(data: wp.array(dtype=wp.uint8), begin: int, end: int):
    """The whole number at a place (0 where it is empty), one past its end, and whether it is a plain one."""
    i = int(begin)
    negative = bool(False)
    if i < end and (int(data[i]) == _MINUS or int(data[i]) == _PLUS):
        negative = int(data[i]) == _MINUS
        i += 1
    start = int(i)
    value = int(0)
    going = bool(True)
    while i < end and going:
        c = int(data[i]) - _ZERO
        if c >= 0 and c <= 9 and i - start < 9:
            value = value * 10 + c
            i += 1
        else:
            going = False
    plain = (i > start or start == begin) and (i == end or int(data[i]) == _SLASH)
    if negative:
        value = -value
    return value, i, plain


@wp.func
@no_type_check
def _counted(value: int, before: int):
    """An index counted from 0: negative ones count back from the line, missing ones are -1."""
    if value < 0:
        if before + value < 0:
            return _MISSING
        return wp.int64(before + value)
    return wp.int64(value - 1)


@wp.func
@no_type_check
def _corner(
    data: wp.array(dtype=wp.uint8),
    begin: int,
    end: int,
    row: int,
    vertices: int,
    uvs: int,
    normals: int,
    corners: wp.array2d(dtype=wp.int64),
):
    """Read `v`, `v/t`, `v//n` or `v/t/n`; says whether it is a plain one."""
    vertex, i, plain = _index(data, begin, end)
    plain = plain and vertex != 0
    uv = int(0)
    normal = int(0)
    if i < end:
        uv, i, good = _index(data, i + 1, end)
        plain = plain and good
        if i < end:
            normal, i, good = _index(data, i + 1, end)
            plain = plain and good and i == end
    corners[row, 0] = _counted(vertex, vertices)
    corners[row, 1] = _counted(uv, uvs)
    corners[row, 2] = _counted(normal, normals)
    return plain


@wp.func
@no_type_check
def _row(
    data: wp.array(dtype=wp.uint8),
    place: int,
    end: int,
    width: int,
    target: int,
    values: wp.array(dtype=wp.float64),
    powers: wp.array(dtype=wp.float64),
):
    """Read the numbers of a line; says whether all are plain ones."""
    plain = bool(True)
    after = int(place)
    for column in range(width):
        begin = _word(data, after, end)
        after = _word_end(data, begin, end)
        if begin < after:
            value, good = _number(data, begin, after, powers)
            values[target + column] = value
            plain = plain and good
        else:
            values[target + column] = _NOTHING
    return plain


@wp.kernel(enable_backward=False)
@no_type_check
def read_lines(
    base: int,
    data: wp.array(dtype=wp.uint8),
    edges: wp.array(dtype=int),
    use: wp.array(dtype=wp.uint8),
    library: wp.array(dtype=wp.uint8),
    powers: wp.array(dtype=wp.float64),
    counts: wp.array2d(dtype=int),
    starts: wp.array2d(dtype=int),
    before: wp.array2d(dtype=int),
    vertices: wp.array(dtype=wp.float64),
    uvs: wp.array(dtype=wp.float64),
    normals: wp.array(dtype=wp.float64),
    corners: wp.array2d(dtype=wp.int64),
    sizes: wp.array(dtype=wp.int64),
    uses: wp.array2d(dtype=int),
    rough: wp.array(dtype=int),
) -> None:
    """Read the lines of blocks.

    `starts`: where each block's values begin (columns as in `counts`); `before`: lines `v`, `vt` and `vn` before it;
    `uses`: where the lines with `usemtl` and `mtllib` begin and end, and the block's faces before each.
    """
    block = base + wp.tid()
    place = int(edges[block])
    end = int(edges[block + 1])
    wide_v = int(counts[block, 5])
    wide_t = int(counts[block, 6])
    wide_n = int(counts[block, 7])
    v = int(0)
    t = int(0)
    n = int(0)
    face = int(starts[block, 3])
    corner = int(starts[block, 4])
    mention = int(starts[block, 8])
    plain = bool(counts[block, 9] == 0)
    while place < end and plain:
        stop = _line_end(data, place, end)
        begin = int(_word(data, place, stop))
        after = int(_word_end(data, begin, stop))
        if begin < after:
            kind = _kind(data, begin, after, use, library)
            if kind == _V:
                plain = _row(data, after, stop, wide_v, starts[block, 0] + v * wide_v, vertices, powers)
                v += 1
            elif kind == _T:
                plain = _row(data, after, stop, wide_t, starts[block, 1] + t * wide_t, uvs, powers)
                t += 1
            elif kind == _N:
                plain = _row(data, after, stop, wide_n, starts[block, 2] + n * wide_n, normals, powers)
                n += 1
            elif kind == _F:
                first = int(corner)
                begin = _word(data, after, stop)
                while begin < stop:
                    after = _word_end(data, begin, stop)
                    good = _corner(
                        data,
                        begin,
                        after,
                        corner,
                        before[block, 0] + v,
                        before[block, 1] + t,
                        before[block, 2] + n,
                        corners,
                    )
                    plain = plain and good
                    corner += 1
                    begin = _word(data, after, stop)
                sizes[face] = wp.int64(corner - first)
                face += 1
            elif kind == _USE:
                uses[mention, 0] = begin
                uses[mention, 1] = stop
                uses[mention, 2] = face - starts[block, 3]
                mention += 1
        place = stop + 1
    if not plain:
        rough[block] = 1
