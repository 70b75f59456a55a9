"""Rules: small pure functions from facts to findings."""

from __future__ import annotations

from smr.environment.rules.diagnosis import blocks, diagnose
from smr.environment.rules.finding import PURPOSES, Facts, Finding

__all__ = ["PURPOSES", "Facts", "Finding", "blocks", "diagnose"]
