"""What a clue is: a pattern in a text, and the reasoning from what it matched to root causes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from re import Match, Pattern

from smr.environment.explain.situation import Situation


@dataclass(frozen=True)
class Verdict:
    """One root cause that a clue speaks for."""

    kind: str
    weight: float
    """How strongly, from 0 to 1."""
    because: str
    """The reasoning in a sentence, with the values found."""


@dataclass(frozen=True)
class Clue:
    """A pattern, and a function from its match to verdicts."""

    pattern: Pattern[str]
    judge: Callable[[Match[str], Situation], Iterable[Verdict]]


def clue(pattern: str, judge: Callable[[Match[str], Situation], Iterable[Verdict]]) -> Clue:
    """A clue whose pattern ignores case and sees line by line."""
    return Clue(re.compile(pattern, re.IGNORECASE | re.MULTILINE), judge)


def means(pattern: str, kind: str, weight: float, because: str) -> Clue:
    """A clue that speaks for one cause, whatever the machine."""
    return clue(pattern, lambda match, situation: [Verdict(kind, weight, because)])
