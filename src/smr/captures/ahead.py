"""Decoding ahead: threads work on the next items while the caller uses this one."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from ..errors import SmrError

log = logging.getLogger(__name__)
Item = TypeVar("Item")
Decoded = TypeVar("Decoded")


def decode_ahead(
    items: Iterable[Item], decode: Callable[[Item], Decoded], *, threads: int = 2, lookahead: int = 8
) -> Iterator[Decoded]:
    """Yield `decode(item)` for each item, in order, computed by threads at most `lookahead` items ahead.

    An exception of `decode` is raised when its item's turn comes; what was decoded before it has then been yielded.
    Leaving the loop early cancels what has not begun.
    """
    if threads < 1 or lookahead < 1:
        raise ValueError(f"threads ({threads}) and lookahead ({lookahead}) must be at least 1")
    pool = ThreadPoolExecutor(threads, thread_name_prefix="smr-decode")
    waiting: deque[Future[Decoded]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(decode, item))
            if len(waiting) > lookahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def decode_usable(
    items: Sequence[Item], decode: Callable[[Item], Decoded], *, threads: int = 2, lookahead: int = 8
) -> Iterator[tuple[Item, Decoded]]:
    """Yield each item with `decode(item)`, in order, as `decode_ahead` does; items that cannot be decoded are left out.

    A file can be damaged in its middle, which no look at its ends tells; one such frame must not cost the run. Each is
    named in a warning.

    Raises:
        SmrError: More than half of the items cannot be decoded.
    """

    def attempt(item: Item) -> Decoded | SmrError:
        try:
            return decode(item)
        except SmrError as error:
            return error

    lost: list[SmrError] = []
    for item, decoded in zip(items, decode_ahead(items, attempt, threads=threads, lookahead=lookahead), strict=True):
        if not isinstance(decoded, SmrError):
            yield item, decoded
            continue
        lost.append(decoded)
        log.warning("A frame is left out: %s", decoded.cause)
        if 2 * len(lost) > len(items):
            raise SmrError(
                f"More than half of the {len(items)} frames cannot be used. The first of them: {lost[0].cause}",
                lost[0].cure,
            )
