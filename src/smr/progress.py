"""How a stage reports progress: it wraps what it iterates over in `track`; the caller owns the bar."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar, runtime_checkable

Item = TypeVar("Item")


@runtime_checkable
class Track(Protocol):
    """Wraps an iterable and yields the same items; a command-line bar counts them and estimates the time."""

    def __call__(self, items: Iterable[Item], label: str, total: int | None = None) -> Iterable[Item]:
        """Return `items`, counted under `label`; `total` where `items` has no length."""
        ...


def untracked(items: Iterable[Item], label: str, total: int | None = None) -> Iterable[Item]:
    """Report nothing."""
    return items


@contextmanager
def step(track: Track, label: str) -> Iterator[None]:
    """Report one piece of work that has no inner count, such as a kernel compilation."""
    counted = iter(track([None], label, 1))
    next(counted)
    try:
        yield
    finally:
        next(counted, None)
