"""Root causes of an error text, offline: from what it says and what is known of its machine."""

from __future__ import annotations

from smr.environment.explain.engine import Cause, explain
from smr.environment.explain.facts import context_of
from smr.environment.explain.reading import read_context, read_log
from smr.environment.explain.situation import Situation

__all__ = ["Cause", "Situation", "context_of", "explain", "read_context", "read_log"]
