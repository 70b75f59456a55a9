"""From a text to ranked root causes: every clue is tried, and its verdicts are weighed together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smr.environment.explain import building, loading, running
from smr.environment.explain.clues import Clue
from smr.environment.explain.reading import condensed, without_progress
from smr.environment.explain.situation import Situation
from smr.environment.faults import FAULTS, Fault, filled

CLUES: tuple[Clue, ...] = loading.CLUES + building.CLUES + running.CLUES
MATCHES_A_CLUE = 12
"""A clue is judged on its first distinct matches only, so that a long log costs bounded time."""
MAX_CAUSES = 6
FLOOR = 0.3
"""Weaker causes are not shown."""


@dataclass(frozen=True)
class Cause:
    """One root cause with what speaks for it."""

    kind: str
    confidence: float
    """From 0 to 1: the weight of the strongest clue, raised a little by others."""
    evidence: tuple[str, ...]
    """Lines of the text."""
    why: str
    cure: tuple[str, ...]
    """Commands to type, smallest first, each with its cost behind a `#`."""
    fault: Fault

    def as_json(self) -> dict[str, Any]:
        """The documented JSON form."""
        return {
            "kind": self.kind,
            "confidence": round(self.confidence, 2),
            "evidence": list(self.evidence),
            "why": self.why,
            "cure": list(self.cure),
            "title": self.fault.title,
            "source": self.fault.source,
        }


def explain(text: str, context: Mapping[str, Any] | None = None) -> list[Cause]:
    """Root causes of an error text, likeliest first; empty where nothing known is in it.

    Args:
        text: A traceback, a build log, `ldd` output, or a paragraph in words.
        context: Flat facts of the machine: driver, nvcc, torch, torch_cuda, python, os, gpu, gcc, conda, install.
    """
    situation = Situation(condensed(text), dict(context or {}))
    judged = without_progress(situation.text)
    weights: dict[str, list[float]] = {}
    reasons: dict[str, list[tuple[float, str, str]]] = {}
    for one in CLUES:
        for match in _distinct(one, judged):
            for verdict in one.judge(match, situation):
                weights.setdefault(verdict.kind, []).append(verdict.weight)
                reasons.setdefault(verdict.kind, []).append((verdict.weight, verdict.because, _line(match)))
    scores = {kind: _together(values) for kind, values in weights.items()}
    ranked = sorted(scores, key=lambda kind: -scores[kind])
    return [_cause(kind, scores[kind], reasons[kind], situation) for kind in ranked if scores[kind] >= FLOOR][
        :MAX_CAUSES
    ]


def _distinct(one: Clue, text: str) -> list[re.Match[str]]:
    found: dict[str, re.Match[str]] = {}
    for match in one.pattern.finditer(text):
        found.setdefault(match.group(0), match)
        if len(found) >= MATCHES_A_CLUE:
            break
    return list(found.values())


def _together(weights: list[float]) -> float:
    """The strongest weight decides; further ones close a tenth of what is missing, each half as much as the last."""
    strongest, *others = sorted(weights, reverse=True)
    rest, share = 1.0 - strongest, 0.1
    for weight in others[:4]:
        rest *= 1.0 - share * weight
        share /= 2
    return min(1.0 - rest, 0.99)


def _cause(kind: str, score: float, reasons: list[tuple[float, str, str]], situation: Situation) -> Cause:
    reasons = sorted(reasons, key=lambda reason: -reason[0])
    fault = FAULTS[kind]
    evidence = tuple(dict.fromkeys(line for _, _, line in reasons))[:3]
    why = f"{_sentence(reasons[0][1])} {fault.why}"
    return Cause(kind, score, evidence, why, filled(fault, values_of(situation)), fault)


def values_of(situation: Situation) -> dict[str, str]:
    """Values for the placeholders of cures."""
    values = {key: situation.fact(key) for key in ("package", "gcc", "driver", "python")}
    values["torch"] = situation.torch.split("+")[0]
    values["torch_cuda"] = situation.torch_cuda
    found = re.search(
        r"site-packages/(\w+)/|\b(kaolin|pytorch3d|nvdiffrast|gsplat|tinycudann|torch_scatter)\b", situation.text
    )
    if found and not values["package"]:
        values["package"] = (found.group(1) or found.group(2)).replace("_", "-")
    return values


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:] + "."


def _line(match: re.Match[str]) -> str:
    """The line that a match stands in, shortened."""
    start = match.string.rfind("\n", 0, match.start()) + 1
    end = match.string.find("\n", match.end())
    line = match.string[start : end if end >= 0 else None].strip()
    return line if len(line) <= 300 else f"{line[:297]}..."
