"""Decoding ahead: threads work on the next items while the caller uses this one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

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
