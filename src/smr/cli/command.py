"""What every command shares: its options, its answer, and how errors leave the program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ..progress import Track


@runtime_checkable
class Interface(Protocol):
    """What a command may use to speak while it runs; both go to stderr."""

    track: Track

    def say(self, text: str) -> None:
        """Print one line."""
        ...

    def finish(self) -> None:
        """Say nothing more by itself."""
        ...


@dataclass(frozen=True)
class Answer:
    """The result of a command: prose for people, a document for programs."""

    text: str
    document: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of every command."""

    json: bool = False
    """Print one JSON document on stdout instead of prose."""
    verbose: bool = False
    """Say more on stderr; show the traceback of every error."""


@dataclass(frozen=True, kw_only=True)
class DeviceOptions(Options):
    """Options of every command that computes."""

    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
