"""Which torch an extension was built for, inferred from all symbols that it leaves to torch.

Method: every symbol that the table knows is tested against every torch release read; the releases with the fewest
symbols missing are the answer. Symbols without `std::string` say nothing of the C++ ABI; those with it spell it out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from smr.environment import versions
from smr.environment.tables import table

_TORCH = re.compile(
    r"^_Z(?:GV|T[VISTH])?(?:N[VRO]*K?(?:3c10|2at|5torch|6caffe2)|\d+TH[PC])|^aoti_torch_|^torch_|^TH[PC]"
)
_SKIP = re.compile(r"L[a-z]n?\d+E|S[0-9A-Z]*_|T[0-9]*_|S[tabiod](?![a-z])|(?P<length>\d+)")
"""Parts of a mangled name that may look like `Ss` (std::string) but are not: literals, back references, identifiers."""
_CUDA_NOT_READ = ("1.11", "2.10")
"""Releases read from wheels without CUDA only: they may have the CUDA symbols of either neighbour."""
NEW_ABI_FROM = {"x86_64": "2.7", "aarch64": "2.6"}
"""First release whose wheels on the index have the new ABI (2.6.0 on x86-64 came in both, by index)."""


@dataclass(frozen=True)
class BuiltFor:
    """What the symbols say."""

    low: str
    """First torch minor version in the range, as `"2.4"`; empty where the symbols do not tell."""
    high: str
    abi: str
    """`new`, `old` or empty (unknown)."""
    known: int
    """Symbols that the table knows, of those asked about."""
    misses: int
    """Symbols that even the best release lacks."""
    stable: bool
    """Uses torch's stable C interface alone: not tied to a torch version."""
    evidence: tuple[str, ...]
    """A few symbols that decide."""


def is_torch(name: str) -> bool:
    """Whether a symbol is one that torch defines."""
    return bool(_TORCH.search(name))


def string_abi(name: str) -> str:
    """C++ ABI that a mangled name spells: `new`, `old`, or empty where it holds no `std::string`."""
    if "__cxx11" in name:
        return "new"
    place, end = 2, len(name) if name.startswith("_Z") else 0
    while place < end:
        skipped = _SKIP.match(name, place)
        if skipped is None:
            if name.startswith("Ss", place):
                return "old"
            place += 1
        else:
            place = skipped.end() + int(skipped.group("length") or 0)
    return ""


def releases_with(name: str) -> list[str] | None:
    """Minor versions of torch that define a symbol; None where the table does not know it."""
    ranges = table("torch_symbols")["symbols"].get(name)
    if ranges is None:
        return None
    return [version for version in _minors() if _defined(version, ranges)]


def defined_in(name: str, torch: object) -> bool | None:
    """Whether a torch release defines a symbol (releases between those read are interpolated); None where unknown."""
    ranges = table("torch_symbols")["symbols"].get(name)
    minor = versions.minor(torch)
    return None if ranges is None or not minor else _defined(minor, ranges)


def built_for(names: Iterable[str]) -> BuiltFor:
    """Range of torch versions that an extension with these undefined torch symbols was built for."""
    names = [name for name in names if not name.startswith("_ZTH")]
    known = {
        name: table("torch_symbols")["symbols"][name] for name in names if name in table("torch_symbols")["symbols"]
    }
    abi = _abi(names)
    cxx = [name for name in names if name.startswith("_Z")]
    stable = bool(names) and not cxx
    if not known:
        return BuiltFor("", "", abi, 0, 0, stable, ())
    missing = {v: [name for name, ranges in known.items() if _lacks(v, name, ranges)] for v in _minors()}
    fewest = min(len(names) for names in missing.values())
    best = [version for version in _minors() if len(missing[version]) == fewest]
    return BuiltFor(best[0], best[-1], abi, len(known), fewest, False, _deciding(best, missing))


def _deciding(best: list[str], missing: dict[str, list[str]]) -> tuple[str, ...]:
    """Symbols that rule out the neighbours of the best range."""
    order = _minors()
    neighbours = [order[i] for i in (order.index(best[0]) - 1, order.index(best[-1]) + 1) if 0 <= i < len(order)]
    return tuple(f"torch {version} lacks {missing[version][0]}" for version in neighbours if missing[version])


def _abi(names: Iterable[str]) -> str:
    spelled = {string_abi(name) for name in names} - {""}
    return spelled.pop() if len(spelled) == 1 else ""


def _minors() -> list[str]:
    return [versions.minor(version) for version in table("torch_symbols")["versions"]]


def _lacks(minor: str, name: str, ranges: list[list[str]]) -> bool:
    """Whether a release is known not to define a symbol."""
    if _defined(minor, ranges):
        return False
    if minor in _CUDA_NOT_READ and "cuda" in name:
        order = _minors()
        return not any(_defined(order[order.index(minor) + step], ranges) for step in (-1, 1))
    return True


def _defined(minor: str, ranges: list[list[str]]) -> bool:
    wanted = versions.parse(minor)[:2]
    return any(versions.parse(low)[:2] <= wanted <= versions.parse(high)[:2] for low, high in ranges)
