"""What a rule says, and the facts that it reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from smr.environment.faults import FAULTS, Fault, filled

PURPOSES = ("reconstruct", "kaolin", "build")
BLOCKS, DEGRADES, NOTE = "blocks", "degrades", "note"
MAX_EVIDENCE = 6
LEVELS = (BLOCKS, DEGRADES, NOTE)


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong."""

    kind: str
    """The fault, see `smr.environment.faults`."""
    level: str
    """`blocks`, `degrades` (works, but slower or not everything), or `note`."""
    what: str
    """What is wrong, with the values found."""
    evidence: tuple[str, ...] = ()
    concerns: tuple[str, ...] = PURPOSES
    """What it stands in the way of: `reconstruct`, `kaolin`, `build`."""
    sure: str = "certain"
    """`certain` (read from the machine), `likely` (inferred), or `possible`."""
    values: Mapping[str, str] = field(default_factory=dict)
    """Values for the placeholders of the cure."""
    consequences: tuple[Finding, ...] = ()
    """Findings that go away with this one."""

    @property
    def fault(self) -> Fault:
        """The catalogue's entry."""
        return FAULTS[self.kind]

    @property
    def cure(self) -> tuple[str, ...]:
        """Commands to type, smallest first."""
        return filled(self.fault, self.values)

    def as_json(self) -> dict[str, Any]:
        """The documented JSON form."""
        return {
            "kind": self.kind,
            "level": self.level,
            "what": self.what,
            "evidence": list(self.evidence),
            "why": self.fault.why,
            "cure": list(self.cure),
            "sure": self.sure,
            "concerns": list(self.concerns),
            "source": self.fault.source,
            "consequences": [finding.as_json() for finding in self.consequences],
        }


class Facts:
    """The facts document, read with defaults: a fact that is absent, or of a newer version, is unknown."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document

    def text(self, path: str) -> str:
        """A fact as text; empty where unknown."""
        value = self._at(path)
        return "" if value is None or isinstance(value, (dict, list)) else str(value)

    def flag(self, path: str) -> bool | None:
        """A fact that is true or false; None where unknown."""
        value = self._at(path)
        return value if isinstance(value, bool) else None

    def number(self, path: str) -> float | None:
        """A number; None where unknown."""
        value = self._at(path)
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    def items(self, path: str) -> list[Any]:
        """A list; empty where unknown."""
        value = self._at(path)
        return value if isinstance(value, list) else []

    def group(self, path: str) -> Mapping[str, Any]:
        """A group of facts; empty where unknown."""
        value = self._at(path)
        return value if isinstance(value, dict) else {}

    def groups(self, path: str) -> list[Facts]:
        """A list of groups of facts."""
        return [Facts(item) for item in self.items(path) if isinstance(item, dict)]

    def version(self, package: str) -> str:
        """Version of an installed package; empty where it is not there."""
        return str(self.group(f"packages.watched.{package}").get("version", ""))

    @property
    def capabilities(self) -> list[str]:
        """Compute capabilities of the GPUs, `["8.6", ...]`."""
        return [gpu.text("capability") for gpu in self.groups("driver.gpus") if gpu.text("capability")]

    @property
    def values(self) -> dict[str, str]:
        """Values that cures may need."""
        return {
            "torch": self.text("torch.version").split("+")[0],
            "torch_cuda": self.text("torch.cuda"),
            "driver": self.text("driver.version").split(".")[0],
            "python": ".".join(self.text("python.version").split(".")[:2]),
            "arch": ";".join(sorted(set(self.capabilities))),
        }

    def _at(self, path: str) -> Any:
        value: Any = self.document
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        return value


def ranked(findings: Iterable[Finding], purpose: str = "") -> list[Finding]:
    """Findings that concern a purpose, what blocks most first."""
    kept = [finding for finding in findings if not purpose or purpose in finding.concerns]
    return sorted(kept, key=lambda finding: (LEVELS.index(finding.level), -len(finding.consequences)))


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """One finding for each kind and package: what is said of further files becomes evidence of the first."""
    firsts: dict[tuple[str, str, str], Finding] = {}
    for finding in findings:
        key = (finding.kind, finding.level, finding.values.get("package", "") or finding.what)
        first = firsts.get(key)
        firsts[key] = finding if first is None else replace(first, evidence=(*first.evidence, f"also: {finding.what}"))
    return [replace(finding, evidence=_cut(finding.evidence)) for finding in firsts.values()]


def _cut(evidence: tuple[str, ...]) -> tuple[str, ...]:
    more = len(evidence) - MAX_EVIDENCE
    return evidence if more <= 0 else (*evidence[:MAX_EVIDENCE], f"and {more} more")


def nested(findings: list[Finding], roots: Mapping[str, tuple[str, ...]]) -> list[Finding]:
    """Put consequences under their root cause: `roots` says which kinds another kind brings about."""
    kinds = {finding.kind for finding in findings}
    order = [kind for kind in roots if kind in kinds]
    taken: set[int] = set()
    result = []
    for kind in order:
        for finding in findings:
            if finding.kind != kind or id(finding) in taken:
                continue
            under = [f for f in findings if f.kind in roots[kind] and id(f) not in taken and f is not finding]
            taken.update(id(f) for f in under)
            taken.add(id(finding))
            result.append(replace(finding, consequences=tuple(under)))
    return result + [finding for finding in findings if id(finding) not in taken]
