"""Progress on stderr: a bar on a terminal, a line every two seconds elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sized
from types import TracebackType
from typing import Any, TypeVar

Item = TypeVar("Item")
SILENCE = 2.0
"""Seconds after which a running step says something."""


def duration(seconds: float | int) -> str:
    """`8.1 s`, `2 min 05 s`, `1 h 20 min`."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


class _Step:
    def __init__(self, label: str, total: int | None) -> None:
        self.label, self.total = label, total
        self.done = 0
        self.start = time.monotonic()

    def text(self) -> str:
        elapsed = time.monotonic() - self.start
        if self.total is None or self.total <= 1:
            return f"{self.label}: {duration(elapsed)} so far"
        counted = f"{self.label}: {self.done}/{self.total}"
        if 0 < self.done < self.total:
            return f"{counted}, about {duration(elapsed / self.done * (self.total - self.done))} left"
        return counted


class LineProgress:
    """A line whenever a step has been silent for two seconds: for logs, pipes and `--json`.

    Args:
        stream: A text file; stderr when left out.
    """

    def __init__(self, stream: Any = None) -> None:
        self._stream = stream or sys.stderr
        self._steps: list[_Step] = []
        self._stepped = self._said = False
        self._spoke = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> LineProgress:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()

    def finish(self) -> None:
        """Say nothing more by itself."""
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.2):
            if time.monotonic() - self._spoke < SILENCE * (0.9 if self._said else 0.5):
                continue
            steps = list(self._steps)
            self.say(steps[-1].text() if steps else "working" if self._stepped else "starting")

    def say(self, text: str) -> None:
        """Print one line."""
        self._spoke, self._said = time.monotonic(), True
        self._stream.write(text + "\n")
        self._stream.flush()

    def track(self, items: Iterable[Item], label: str, total: int | None = None) -> Iterator[Item]:
        """Yield the items and count them."""
        step = _Step(label, total if total is not None else _length(items))
        self._steps.append(step)
        self._stepped = True
        try:
            for item in items:
                yield item
                step.done += 1
        finally:
            self._steps.remove(step)


class BarProgress:
    """A live bar with the time left, for a terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as Remaining

        self._progress: Any = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=28),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            Remaining(),
            console=Console(stderr=True),
            transient=True,
        )

    def __enter__(self) -> BarProgress:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()

    def finish(self) -> None:
        """Take the bar away."""
        self._progress.stop()

    def say(self, text: str) -> None:
        """Print one line above the bar."""
        self._progress.console.print(text, markup=False, highlight=False)

    def track(self, items: Iterable[Item], label: str, total: int | None = None) -> Iterator[Item]:
        """Yield the items and count them."""
        task = self._progress.add_task(label, total=total if total is not None else _length(items))
        try:
            for item in items:
                yield item
                self._progress.advance(task)
        finally:
            self._progress.remove_task(task)


def open_progress() -> LineProgress | BarProgress:
    """The bar where stderr is a terminal, lines elsewhere."""
    return BarProgress() if sys.stderr.isatty() else LineProgress()


def _length(items: Iterable[Any]) -> int | None:
    return len(items) if isinstance(items, Sized) else None
