"""What `smr env` prints."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from smr.environment.envs.check import Row
from smr.environment.envs.choose import Rejection
from smr.environment.envs.plan import Plan
from smr.environment.envs.planning import Planned
from smr.environment.envs.recipes import Recipe
from smr.environment.envs.tracks import Trial

_NAMES = {"package": "", "torch": "torch", "build": "torch's build", "method": "how", "python": "Python"}


def planned_text(planned: Planned, recipe: Recipe, *, everything: bool = False) -> str:
    """A plan with its reasons, or the conflict and the nearest plan."""
    plan = planned.plan
    if plan is None:
        return f"No combination of {recipe.name} is known."
    lines = []
    if not planned.possible:
        lines += ["These exclude each other:", *(f"  {name}" for name in planned.choice.conflict), ""]
        lines += ["The nearest plan that works gives up:"]
        lines += [f"  {name}" for name, _ in planned.choice.given_up]
        lines += ["", "It is:"]
    lines += [f"  {name:<14}{value}" for name, value in _rows(plan) if value]
    lines += [f"  note: {note}" for note in plan.notes]
    lines += ["", "Rejected, with the rule:"]
    lines += _rejections(planned.choice.rejected, recipe.name, everything)
    return "\n".join(lines)


def rows_text(rows: Iterable[Row]) -> str:
    """What a check found."""
    shown = list(rows)
    width = max((len(row.name) for row in shown), default=0)
    lines = [
        f"{row.status:<9} {row.name:<{width}}  {row.says}" + (f" ({row.seconds} s)" if row.seconds else "")
        for row in shown
    ]
    bad = sum(row.status == "fails" for row in shown)
    return "\n".join([*lines, "", f"{bad} of {len(shown)} fail." if bad else "All well."])


def trials_text(before: Trial, after: Trial, verdict: str, prefix: str) -> str:
    """Two tracks side by side."""
    lines = []
    for name, trial in (("current", before), ("candidate", after)):
        bad = [row for row in trial.rows if row.status == "fails"]
        lines.append(f"{name:<10} {trial.title}: {f'{len(bad)} checks fail' if bad else 'all checks pass'}")
        lines += [f"           {row.name}: {row.says}" for row in bad]
        if trial.command:
            c = trial.command
            lines.append(
                f"           exit code {c['exit_code']}, {c['cpu_seconds']} s of CPU, {c['peak_mb']} MB, log {c['log']}"
            )
    lines += ["", verdict[0].upper() + verdict[1:] + "."]
    return "\n".join([*lines, *([f"To use it: smr env promote {prefix} {after.track}"] if after.healthy else [])])


def _rows(plan: Plan) -> list[tuple[str, str]]:
    gcc = plan.gcc and f"{plan.gcc[0] or 'any'} to {plan.gcc[1] or 'any'}"
    minutes = f" (about {plan.cpu_minutes} minutes of one core)" if plan.cpu_minutes else ""
    how = "a wheel" if plan.method == "wheel" else f"built from source, {plan.source_tag or 'given source'}{minutes}"
    return [
        (plan.package, f"{plan.package_version}, {how}"),
        ("page", plan.wheel_page),
        ("torch", f"{plan.torch} for {'the CPU' if plan.build == 'cpu' else 'CUDA ' + plan.cuda}"),
        (
            "index",
            f"none: that of {plan.over} stays" if plan.over else plan.torch_index or "the one that pip is set to",
        ),
        ("Python", plan.python),
        ("with", ", ".join((*plan.companions, *plan.requires))),
        ("built with", ", ".join(plan.build_requires)),
        ("toolkit", f"CUDA {plan.cuda}, nvcc and headers" if plan.method == "source" and plan.cuda else ""),
        ("gcc", gcc if isinstance(gcc, str) else ""),
        ("for GPUs", " ".join(plan.architectures)),
        ("driver", f"{plan.driver} or newer" if plan.driver else ""),
        ("glibc", f"{plan.glibc} or newer" if plan.glibc else ""),
        ("switches", " ".join(f"{name}={value}" for name, value in plan.switches.items())),
    ]


def _rejections(rejected: Iterable[Rejection], package: str, everything: bool) -> list[str]:
    """Neighbours that the same rule rejects share a line."""
    lines = []
    for (variable, rule), group in groupby(rejected, key=lambda r: (r.variable, r.rule)):
        values = [one.value for one in group]
        shown = ", ".join(values) if everything or len(values) <= 3 else f"{values[0]} ... {values[-1]}"
        name = _NAMES[variable] or package
        lines.append(f"  {name} {shown}: {rule or 'works too, preferred less'}")
    return lines
