"""Version numbers as tuples, found in the loose texts that tools and people write."""

from __future__ import annotations

import re
from functools import lru_cache

_NUMBER = re.compile(r"(?<![\w.])[vV]?(\d{1,5}(?:\.\d{1,6}){0,3})(?![\d])")


def parse(text: object) -> tuple[int, ...]:
    """First version number in a text (`"12.4.1+cu121"` gives (12, 4, 1)); empty where there is none."""
    return _parsed(str(text)) if text not in (None, True, False) else ()


def minor(text: object) -> str:
    """Major and minor alone: `"12.4.131"` gives `"12.4"`; empty where there is no version."""
    parts = parse(text)
    return ".".join(str(part) for part in parts[:2]) if len(parts) > 1 else "".join(str(part) for part in parts[:1])


def at_least(text: object, floor: object) -> bool:
    """Whether a version is known and not below another: `at_least("2.10", "2.9")`."""
    found = parse(text)
    return bool(found) and _padded(found) >= _padded(parse(floor))


def below(text: object, ceiling: object) -> bool:
    """Whether a version is known and below another."""
    found = parse(text)
    return bool(found) and _padded(found) < _padded(parse(ceiling))


def cuda_of_tag(text: object) -> str:
    """CUDA version in a local version or an index name: `"2.4.0+cu121"` gives `"12.1"`; empty where there is none."""
    found = re.search(r"\bcu(\d{2,3})\b", str(text))
    return f"{found.group(1)[:-1]}.{found.group(1)[-1]}" if found else ""


@lru_cache(maxsize=4096)
def _parsed(text: str) -> tuple[int, ...]:
    found = _NUMBER.search(text)
    return tuple(int(part) for part in found.group(1).split(".")) if found else ()


def _padded(version: tuple[int, ...]) -> tuple[int, ...]:
    return version + (0,) * (4 - len(version))
