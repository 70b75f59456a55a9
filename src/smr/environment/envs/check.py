"""A built environment against its plan: versions, ABI, GPU code inside the binaries, and vital signs."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from smr.environment import versions
from smr.environment.envs.inside import facts_inside, run_inside, versions_inside
from smr.environment.envs.machine import covers
from smr.environment.envs.plan import Plan
from smr.environment.envs.prefix import Track
from smr.environment.envs.recipes import normal
from smr.environment.rules import Facts, binaries
from smr.environment.rules.finding import BLOCKS, merged

LEFT_OUT = "77"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Row:
    """One thing that was looked at."""

    name: str
    status: str
    """`ok`, `fails`, or `left out`."""
    says: str
    seconds: float = 0.0


def check(track: Track, given: Mapping[str, str] | None = None, *, say: Say = lambda text: None) -> list[Row]:
    """Look at everything; what fails is told, not raised."""
    environ = dict(os.environ if given is None else given)
    plan = track.plan
    module = plan.imports[0].split(".")[0] if plan.imports else plan.package
    say("facts from inside the environment")
    facts = facts_inside(track, module, environ)
    rows = [*_versions(plan, Facts(facts), versions_inside(track, environ)), *_binaries(plan, Facts(facts))]
    for name, code in _programs(plan):
        say(name)
        rows.append(_sign(track, name, code, environ))
    return rows


def passed(rows: list[Row]) -> bool:
    """Whether nothing fails."""
    return all(row.status != "fails" for row in rows)


def as_json(rows: list[Row]) -> dict[str, Any]:
    """The documented JSON form."""
    return {"version": 1, "passed": passed(rows), "checks": [vars(row) for row in rows]}


def _versions(plan: Plan, facts: Facts, installed: Mapping[str, str]) -> Iterator[Row]:
    names = {normal(name): version for name, version in installed.items()}
    yield _same("Python", versions.minor(facts.text("python.version")), plan.python)
    torch, cuda = facts.text("torch.version"), facts.text("torch.cuda")
    yield _same("torch", torch.split("+")[0], plan.torch)
    yield _same("torch's CUDA", versions.minor(cuda) or "none", plan.cuda or "none")
    found = names.get(normal(plan.package), "not installed")
    if plan.package_version in ("HEAD", ""):
        yield Row(plan.package, "fails" if found == "not installed" else "ok", found)
    else:
        yield _same(plan.package, found.split("+")[0], plan.package_version)


def _same(name: str, found: str, wanted: str) -> Row:
    good = found == wanted or versions.parse(found) == versions.parse(wanted) != ()
    return Row(name, "ok" if good else "fails", found if good else f"{found or 'nothing'}; the plan says {wanted}")


def _binaries(plan: Plan, facts: Facts) -> Iterator[Row]:
    extensions = [one for one in facts.groups("extensions") if one.text("path")]
    if not extensions:
        yield Row("extensions", "fails", f"{plan.package} has no compiled extension here")
        return
    yield Row("extensions", "ok", f"{len(extensions)}")
    findings = merged(finding for rule in binaries.RULES for finding in rule(facts))
    blocking = [finding for finding in findings if finding.level == BLOCKS]
    for finding in blocking:
        yield Row(
            finding.kind, "fails", f"{finding.what}; cure: {finding.cure[0] if finding.cure else finding.fault.why}"
        )
    if not blocking:
        yield Row("ABI and libraries", "ok", _abi(extensions))
    if plan.cuda:
        yield _gpu_code(plan, extensions)


def _abi(extensions: list[Facts]) -> str:
    ranges = {
        f"torch {one.text('torch.low')} to {one.text('torch.high')}" for one in extensions if one.text("torch.low")
    }
    return f"the symbols are those of {', '.join(sorted(ranges))}" if ranges else "nothing is missing"


def _gpu_code(plan: Plan, extensions: list[Facts]) -> Row:
    """The architectures that are really inside, against those that were asked for."""
    cubins = {str(name) for one in extensions for name in one.items("code.cubins")}
    ptx = {str(name) for one in extensions for name in one.items("code.ptx")}
    inside = [dotted(name) for name in sorted(cubins)] + [f"{dotted(name)}+PTX" for name in sorted(ptx)]
    absent = [arch for arch in plan.architectures if not covers(";".join(inside), arch)]
    says = f"inside: {', '.join(sorted(cubins | ptx)) or 'none'}"
    if not inside or absent:
        return Row("GPU code", "fails", f"{says}; nothing for {', '.join(absent) or 'any GPU'}")
    return Row("GPU code", "ok", says)


def dotted(name: str) -> str:
    """`sm_90a` as `9.0`."""
    number = re.sub(r"\D", "", name)
    return f"{number[:-1]}.{number[-1:]}"


def _programs(plan: Plan) -> Iterator[tuple[str, str]]:
    for module in plan.imports:
        yield (
            f"import {module}",
            f"import {module}" if re.match(r"^[\w.]+$", module) else "raise SystemExit('not a name')",
        )
    yield from plan.signs.items()


def _sign(track: Track, name: str, code: str, environ: Mapping[str, str]) -> Row:
    started = time.monotonic()
    outcome = run_inside(track, ["-I", "-X", "faulthandler", "-c", code], environ)
    seconds = round(time.monotonic() - started, 1)
    if outcome.status == "exit" and outcome.detail == LEFT_OUT:
        return Row(name, "left out", "what it needs is not here", seconds)
    last = (outcome.stdout if outcome.ok else outcome.stderr or outcome.stdout).strip().splitlines()[-1:]
    if outcome.ok:
        return Row(name, "ok", last[0][:300] if last else "", seconds)
    return Row(name, "fails", f"{outcome.sentence()}: {last[0][:300] if last else ''}", seconds)
