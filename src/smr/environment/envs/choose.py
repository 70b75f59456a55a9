"""The choice: every combination is tried against every demand; what cannot be is explained by the smallest conflict.

The space is small (a few thousand combinations), so nothing is guessed: a set of demands conflicts when every
combination breaks one of them, and the nearest plan is the combination that breaks the cheapest ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from smr.environment import tables, versions
from smr.environment.envs.candidates import PYTHONS, Candidate, builds_of, candidates, torch_versions, why_not
from smr.environment.envs.demands import Demand
from smr.environment.envs.machine import Machine
from smr.environment.envs.recipes import Recipe

VARIABLES = ("package", "torch", "build", "method", "python")


@dataclass(frozen=True)
class Rejection:
    """A value that was not chosen, and the rule that rejected it."""

    variable: str
    value: str
    rule: str
    """Empty: it would work too, and was preferred less."""


@dataclass(frozen=True)
class Choice:
    """What was chosen, or why nothing could be."""

    candidate: Candidate | None
    """The plan; without one, the nearest that works once `given_up` is."""
    conflict: tuple[str, ...]
    """Smallest set of demands that exclude each other; empty where the plan meets all."""
    given_up: tuple[tuple[str, str], ...]
    """Demands that the nearest plan breaks, each with the reason."""
    rejected: tuple[Rejection, ...]


def choose(recipe: Recipe, demands: Sequence[Demand], machine: Machine, *, ignore_range: bool = False) -> Choice:
    """The best combination that meets every demand; deterministic."""
    found = candidates(recipe, ignore_range=ignore_range)
    broken = {one: _broken(one, demands) for one in found}
    if not found:
        return Choice(None, (), (), ())
    costs = {bits: _cost(bits, demands) for bits in set(broken.values())}
    cheapest = min(costs.values())
    best = min((one for one in found if costs[broken[one]] == cheapest), key=lambda one: _preference(one, machine))
    conflict = _smallest_conflict(set(broken.values()), demands) if broken[best] else ()
    given_up = tuple((demands[i].name, demands[i].test(best)) for i in range(len(demands)) if broken[best] >> i & 1)
    rejected = _Report(recipe, demands, broken, best, ignore_range).rejections()
    return Choice(best, conflict, given_up, tuple(rejected))


def _value(one: Candidate, variable: str) -> str:
    return one.release.version if variable == "package" else str(getattr(one, variable))


def _broken(candidate: Candidate, demands: Sequence[Demand]) -> int:
    """The demands that a combination breaks, as bits."""
    return sum(1 << index for index, demand in enumerate(demands) if demand.test(candidate))


def _cost(broken: int, demands: Sequence[Demand]) -> int:
    return sum(demand.cost for index, demand in enumerate(demands) if broken >> index & 1)


def _smallest_conflict(broken: set[int], demands: Sequence[Demand]) -> tuple[str, ...]:
    """The smallest set of demands of which every combination breaks one."""
    for size in range(1, len(demands) + 1):
        for chosen in combinations(range(len(demands)), size):
            mask = sum(1 << index for index in chosen)
            if all(bits & mask for bits in broken):
                return tuple(demands[index].name for index in chosen)
    return ()


def _preference(one: Candidate, machine: Machine) -> tuple[object, ...]:
    """Smaller is better: releases before HEAD, the newest, wheels before source, the newest torch, a CUDA that fits."""
    return (
        one.release.head,
        _newest_first(one.release.version),
        not one.offered,
        (one.build == "cpu") != machine.no_gpu,
        one.method == "source",
        _newest_first(one.torch),
        _cuda_preference(one, machine),
        _python_preference(one.python, machine.python),
    )


@lru_cache(maxsize=1024)
def _newest_first(version: str) -> tuple[int, ...]:
    return tuple(-part for part in (*versions.parse(version), 0, 0, 0)[:4])


def _cuda_preference(one: Candidate, machine: Machine) -> tuple[object, ...]:
    """A toolkit that is there to build with; one whose own driver is not newer than the machine's; torch's default.

    Where the machine's driver is older than that of every toolkit, the nearest to it.
    """
    absent = one.method == "source" and bool(machine.toolkits) and one.cuda not in machine.toolkits
    newer = bool(machine.driver) and versions.below(machine.driver, tables.toolkit_driver(one.cuda) or "0")
    if newer:
        return (absent, newer, False, versions.parse(one.cuda))
    return (absent, newer, one.cuda != tables.torch_release(one.torch).get("default_cuda"), _newest_first(one.cuda))


def _python_preference(python: str, present: str) -> tuple[object, ...]:
    """The one that is there; else 3.11, which most releases know, then what is nearest to it."""
    minor = versions.parse(python)[1]
    return (python != present, abs(minor - 11), -minor)


class _Report:
    """Says for every value that was not chosen which rule rejected it."""

    def __init__(
        self, recipe: Recipe, demands: Sequence[Demand], broken: dict[Candidate, int], best: Candidate, ignore: bool
    ) -> None:
        self._recipe, self._demands, self._broken, self._best, self._ignore = recipe, demands, broken, best, ignore
        self._costs = {bits: _cost(bits, demands) for bits in set(broken.values())}

    def rejections(self) -> list[Rejection]:
        """Variable by variable; the variables before it are as chosen."""
        found = []
        left = list(self._broken)
        for variable in VARIABLES:
            chosen = _value(self._best, variable)
            nearest = self._nearest(left, variable)
            for value in self._domain(variable):
                if value != chosen:
                    found.append(Rejection(variable, value, self._rule(variable, value, nearest.get(value))))
            left = [one for one in left if _value(one, variable) == chosen]
        return found

    def _nearest(self, left: Sequence[Candidate], variable: str) -> dict[str, Candidate]:
        """For each value of a variable the combination that breaks the cheapest demands, the first of equals."""
        best: dict[str, tuple[int, Candidate]] = {}
        for one in left:
            value, cost = _value(one, variable), self._costs[self._broken[one]]
            if value not in best or cost < best[value][0]:
                best[value] = (cost, one)
        return {value: one for value, (_, one) in best.items()}

    def _domain(self, variable: str) -> list[str]:
        if variable == "package":
            return [release.version for release in self._recipe.releases]
        if variable == "torch":
            return torch_versions(self._recipe)
        if variable == "build":
            wheels = self._best.release.wheels.get(self._best.torch, ())
            return list(dict.fromkeys((*builds_of(self._best.torch), *wheels)))
        return ["wheel", "source"] if variable == "method" else list(reversed(PYTHONS))

    def _rule(self, variable: str, value: str, nearest: Candidate | None) -> str:
        if nearest is None:
            return self._packages_rule(variable, value)
        more = self._broken[nearest] & ~self._broken[self._best]  # what the plan gives up as well is no reason
        return "; ".join(
            f"{demand.name}: {demand.test(nearest)}" for i, demand in enumerate(self._demands) if more >> i & 1
        )

    def _packages_rule(self, variable: str, value: str) -> str:
        """No combination has this value: the rule of the packages that the chosen one breaks with it."""
        best = self._best
        release = next((r for r in self._recipe.releases if variable == "package" and r.version == value), best.release)
        methods = (value,) if variable == "method" else ("source", "wheel")
        torch = value if variable == "torch" else best.torch
        build = value if variable == "build" else best.build
        python = value if variable == "python" else best.python
        rules = [
            why_not(self._recipe, Candidate(release, torch, build, method, python), ignore_range=self._ignore)
            for method in methods
        ]
        return next((rule for rule in rules if rule), "no combination of the packages allows it")
