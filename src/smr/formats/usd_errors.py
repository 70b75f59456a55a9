"""What USD's library says when it fails, in words for a user."""

from __future__ import annotations

import re


def usd_reason(error: Exception) -> str:
    """What USD says itself, without where in its source it says so."""
    try:
        text = " ".join(str(error).split())
    except UnicodeDecodeError:  # USD repeats the damaged bytes
        return "it holds damaged text"
    said = re.search(r" : '(.+?)'(?: Error in|$)", text)
    return (said.group(1) if said else text)[:160]
