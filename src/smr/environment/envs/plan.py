"""A plan: one whole combination, ready to be built, as a record and as a TOML file."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from smr.atomic import write_bytes_atomic
from smr.environment import versions
from smr.environment.envs import toml
from smr.errors import SmrError

VERSION = 1
MAX_BYTES = 1 << 20
_NAME = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")
_PATTERNS = {
    "package": _NAME,
    "package_version": re.compile(r"^(HEAD|[A-Za-z0-9.+!_-]{0,60})$"),
    "python": re.compile(r"^3\.\d{1,2}$"),
    "torch": re.compile(r"^\d+(\.\d+){1,3}$"),
    "build": re.compile(r"^(cpu|cu\d{2,3})$"),
    "method": re.compile(r"^(wheel|source)$"),
    "torch_index": re.compile(r"^(https?://\S+)?$"),
    "over": re.compile(r"^(/[^\x00-\x1f]*)?$"),
    "wheel_page": re.compile(r"^(https?://\S+)?$"),
    "source_git": re.compile(r"^(https://\S+)?$"),
    "source_tag": re.compile(r"^[A-Za-z0-9][A-Za-z0-9._/+-]*$|^$"),
    "source_folder": re.compile(r"^[A-Za-z0-9._/-]*$"),
}
_REQUIREMENT = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._-]+\])?\s*[^@\\`$]*$")
_SWITCH = re.compile(r"^[A-Z][A-Z0-9_]{1,60}$")


@dataclass(frozen=True)
class Plan:
    """Everything that a build needs to know; texts that do not apply are empty."""

    package: str
    package_version: str
    method: str
    """`wheel` or `source`."""
    python: str
    torch: str
    build: str
    """torch's build: `cu121`, `cpu`."""
    torch_index: str = ""
    """Index with this build of torch; empty: the one that pip is set to."""
    over: str = ""
    """Interpreter whose torch stays: the environment sees its packages. Empty: the environment has its own torch."""
    wheel_page: str = ""
    source_git: str = ""
    source_tag: str = ""
    source_folder: str = ""
    """Folder inside the source that holds setup.py."""
    submodules: tuple[str, ...] = ()
    """Folders that must not be empty."""
    companions: tuple[str, ...] = ()
    """Installed in the same step as torch: torchvision where the package imports it."""
    requires: tuple[str, ...] = ()
    build_requires: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    """Compute capabilities to compile for, or those that the wheel must serve."""
    gcc: tuple[str, ...] = ()
    """Oldest and newest gcc; an empty text where there is no limit."""
    driver: str = ""
    """Oldest driver that runs it."""
    glibc: str = ""
    imports: tuple[str, ...] = ()
    gb_a_job: float = 4.0
    cpu_minutes: int = 0
    """About how long the build takes on one core; 0: not known."""
    notes: tuple[str, ...] = ()
    switches: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the build."""
    signs: Mapping[str, str] = field(default_factory=dict)
    """Vital signs: name and Python program, run inside the environment."""
    wishes: Mapping[str, str] = field(default_factory=dict)
    """What was asked for, for `smr env try`."""

    @property
    def cuda(self) -> str:
        """CUDA version; empty for the CPU."""
        return versions.cuda_of_tag(self.build)

    @property
    def title(self) -> str:
        """One line that names the combination."""
        return f"{self.package} {self.package_version}, torch {self.torch}+{self.build}, Python {self.python}"

    @property
    def digest(self) -> str:
        """Short name of what is built; notes, wishes and the vital signs do not count."""
        kept = {k: v for k, v in self.document().items() if k not in ("notes", "wishes", "signs")}
        return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:10]

    @property
    def track(self) -> str:
        """Name of the folder that this plan is built in."""
        return f"{self.package}-{self.package_version}-torch{self.torch}-{self.build}-{self.digest}"

    def document(self) -> dict[str, Any]:
        """The plan as a document, for JSON and TOML."""
        document: dict[str, Any] = {"version": VERSION}
        for name, value in dataclasses.asdict(self).items():
            document[name] = list(value) if isinstance(value, tuple) else value
        return document


def plan_of(document: Mapping[str, Any], name: str) -> Plan:
    """A plan from its document.

    Args:
        document: As `Plan.document` gives it.
        name: What to call it in errors.

    Raises:
        SmrError: It is of a newer version, or a value is not what it must be.
    """
    if not isinstance(document.get("version"), int):
        raise SmrError(f"{name} is not a plan: it has no version", "make one with `smr env plan PACKAGE`")
    if document["version"] > VERSION:
        what = f"{name} has version {document['version']}, this smr knows plans up to {VERSION}"
        raise SmrError(what, "pip install -U smr3d, or plan again with this one")
    values: dict[str, Any] = {}
    for one in dataclasses.fields(Plan):
        if one.name in document:
            values[one.name] = _checked(one.name, one.default, document[one.name], name)
    missing = [key for key in ("package", "package_version", "method", "python", "torch", "build") if key not in values]
    if missing:
        raise SmrError(f"{name} lacks {', '.join(missing)}", "make a plan with `smr env plan PACKAGE`")
    return Plan(**values)


def write_plan(plan: Plan, path: Path) -> None:
    """Write plan.toml whole or not at all."""
    head = f"# {plan.title}\n# build it: smr env build {path.name} --prefix DIR\n"
    write_bytes_atomic(path, (head + toml.dumps(plan.document())).encode())


def read_plan(path: Path) -> Plan:
    """Read a plan.

    Raises:
        SmrError: It cannot be read, or is not a plan of a version that is known.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise SmrError(f"{path} is larger than any plan ({MAX_BYTES >> 20} MB)", "name a file of `smr env plan`")
        return plan_of(toml.loads(path.read_text(encoding="utf-8")), str(path))
    except OSError as error:
        raise SmrError(f"cannot read {path}: {error.strerror}", "name a file of `smr env plan`") from error
    except ValueError as error:
        raise SmrError(f"{path} is not a plan: {error}", "make one with `smr env plan PACKAGE`") from error


def _checked(key: str, default: Any, value: Any, name: str) -> Any:
    """A value of the right kind, and one that no program takes for an option or a path elsewhere."""
    if key in ("gb_a_job", "cpu_minutes"):
        good = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e6
    elif key in ("switches", "signs", "wishes"):
        good = isinstance(value, dict) and all(isinstance(item, str) for item in (*value, *value.values()))
        good = good and (key != "switches" or all(map(_SWITCH.match, value)))
    elif isinstance(default, tuple):
        good = isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)
        if key in ("requires", "build_requires", "companions"):
            good = good and all(map(_REQUIREMENT.match, value))
        elif key == "submodules":
            good = good and all(re.match(r"^[A-Za-z0-9_][A-Za-z0-9._/+-]*$", item) for item in value)
        value = tuple(value) if good else value
    else:
        pattern = _PATTERNS.get(key)
        good = isinstance(value, str) and (pattern is None or bool(pattern.match(value)))
        good = good and not (key in ("source_folder", "source_tag") and ".." in value)
    if not good:
        raise SmrError(f"{name}: {key} = {value!r} is not allowed", "plan again with `smr env plan PACKAGE`")
    return value
