"""Environments over an interpreter that is there: a cluster's module or a container brings torch, and it stays.

The environment sees the packages of that interpreter (a path file names their folders) and has only what is missing.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from smr.environment.commands import run
from smr.environment.envs.plan import Plan
from smr.environment.envs.prefix import Track
from smr.errors import SmrError

PATH_FILE = "smr_over.pth"
_LOOK = """
import importlib.util, json, pathlib, sys
from importlib.metadata import distributions
found = importlib.util.find_spec("torch")
where = pathlib.Path(found.origin).parent / "version.py" if found and found.origin else None
print(json.dumps({
    "python": "%d.%d" % sys.version_info[:2], "folders": [p for p in sys.path if p.endswith("-packages")],
    "torch": where.read_text() if where and where.is_file() else "",
    "packages": {d.metadata["Name"]: d.version for d in distributions() if d.metadata and d.metadata["Name"]}}))
"""


@dataclass(frozen=True)
class Base:
    """What an interpreter brings."""

    program: str
    python: str
    torch: str
    """Version without the local part."""
    cuda: str
    """CUDA of its torch; empty for the CPU."""
    folders: tuple[str, ...]
    packages: Mapping[str, str]


def look_at(python: str, environ: Mapping[str, str]) -> Base:
    """Ask an interpreter what it has; torch's version file is read, torch is not imported.

    Raises:
        SmrError: There is no such interpreter, it does not answer, or it has no torch.
    """
    program = shutil.which(python, path=environ.get("PATH"))
    if program is None:
        raise SmrError(f"there is no interpreter {python!r}", "name the one that has torch: --over /path/to/python")
    outcome = run([program, "-c", _LOOK], limit_s=60.0, environ=environ)
    try:
        found = json.loads(outcome.stdout)
    except ValueError:
        last = (outcome.stderr.strip().splitlines() or [outcome.sentence()])[-1][:300]
        raise SmrError(f"{program} does not answer: {last}", "name an interpreter that starts") from None
    version = re.search(r"__version__[^=]*= *['\"]([\d.]+)", found["torch"])
    if version is None:
        raise SmrError(f"{program} has no torch", "leave --over out, or name the interpreter that has it")
    cuda = re.search(r"^cuda[^=]*= *['\"]([\d.]+)", found["torch"], re.MULTILINE)
    named = cuda.group(1) if cuda else ""
    return Base(program, found["python"], version.group(1), named, tuple(found["folders"]), found["packages"])


def stand_over(track: Track, plan: Plan, environ: Mapping[str, str]) -> None:
    """Let the track's environment see the packages of the plan's interpreter.

    Raises:
        SmrError: It is no longer what the plan was made for.
    """
    base = look_at(plan.over, environ)
    now = (base.python, base.torch, base.cuda)
    if now != (plan.python, plan.torch, plan.cuda):
        what = f"{plan.over} has Python {base.python} and torch {base.torch} for {base.cuda or 'the CPU'}"
        raise SmrError(f"{what}; the plan was made for {plan.title}", "plan again with --over")
    folder = next(track.env.glob("lib/python*/site-packages"))
    (folder / PATH_FILE).write_text("".join(f"{one}\n" for one in base.folders))


def missing_command(collect: Sequence[str], report: Path) -> list[str]:
    """Ask pip what it would install; `collect` is the command that would collect everything."""
    before, after = _around(collect)
    return [*before, "install", "--dry-run", "--quiet", "--report", str(report), *after]


def only(collect: Sequence[str], pinned: Sequence[str]) -> list[str]:
    """The command that collects these alone; the true command where nothing is missing."""
    before, after = _around(collect)
    pages = [part for pair in pairwise(after) if pair[0].startswith("--") for part in pair]
    folder = collect[len(before) + 1 : len(before) + 3]
    return [*before, "wheel", *folder, "--no-deps", *pages, *pinned] if pinned else ["true"]


def _around(collect: Sequence[str]) -> tuple[list[str], list[str]]:
    """What stands before `wheel --wheel-dir FOLDER`, and behind it."""
    place = list(collect).index("wheel")
    return list(collect[:place]), list(collect[place + 3 :])


def missing(report: Path, plan: Plan) -> list[str]:
    """The requirements, pinned, that the interpreter lacks, from pip's report.

    Raises:
        SmrError: Another torch would be needed.
    """
    rows = json.loads(report.read_text())["install"]
    names = {str(row["metadata"]["name"]): str(row["metadata"]["version"]) for row in rows}
    if "torch" in names:
        what = f"pip would put torch {names['torch']} over the torch {plan.torch} of {plan.over}"
        raise SmrError(what, "plan again with --over, or build without it")
    return [f"{name}=={version}" for name, version in names.items()]
