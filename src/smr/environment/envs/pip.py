"""pip of an environment: every wheel is collected first, then installed from there by hash, without a network."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from smr.atomic import write_bytes_atomic
from smr.environment.envs.launch import environment
from smr.environment.envs.plan import Plan
from smr.environment.envs.prefix import Track
from smr.environment.envs.recipes import normal
from smr.environment.envs.sources import file_hash

_WHEEL = re.compile(r"^([A-Za-z0-9_.]+)-([A-Za-z0-9_.!+]+)(-\d[\w.]*)?-[\w.]+-[\w.]+-[\w.]+\.whl$")


@dataclass(frozen=True)
class Wheel:
    """A wheel in a folder."""

    name: str
    version: str
    file: str
    sha256: str
    size: int

    @property
    def requirement(self) -> str:
        """The line of a requirements file that takes exactly this one."""
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}"


def wheels_in(folder: Path) -> list[Wheel]:
    """Every wheel, by name."""
    found = []
    for path in sorted(folder.glob("*.whl")):
        match = _WHEEL.match(path.name)
        if match:
            name = normal(match.group(1))
            found.append(Wheel(name, match.group(2), path.name, file_hash(path), path.stat().st_size))
    return found


def pip_environment(track: Track, given: Mapping[str, str], cache: Path) -> dict[str, str]:
    """Environment of pip: its cache and its temporary files stay in the folders that were asked for."""
    scratch = track.folder / "tmp"
    scratch.mkdir(parents=True, exist_ok=True)
    return {
        **environment(track, given),
        "PIP_CACHE_DIR": str(cache / "pip"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "TMPDIR": str(scratch),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TORCH_EXTENSIONS_DIR": str(scratch / "torch_extensions"),
    }


def offline(environ: Mapping[str, str]) -> dict[str, str]:
    """The same without any index: pip's own files and variables that name one are left out."""
    kept = {k: v for k, v in environ.items() if not re.match(r"PIP_(EXTRA_)?INDEX|PIP_FIND_LINKS|PIP_CONFIG", k)}
    return {**kept, "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1"}


def collect_command(track: Track, plan: Plan, folder: Path, find_links: Iterable[str]) -> list[str]:
    """Collect wheels of everything that the plan names, with what they need."""
    local = f"+{plan.build}" if plan.torch_index else ""
    wanted = [f"torch=={plan.torch}{local}", *plan.companions, *plan.requires, *plan.build_requires]
    if plan.method == "wheel":
        wanted.append(f"{plan.package}=={plan.package_version}")
    pages = [page for page in (plan.wheel_page, *find_links) if page]
    return [
        *(str(track.python), "-m", "pip", "wheel", "--wheel-dir", str(folder)),
        *(["--extra-index-url", plan.torch_index] if plan.torch_index else []),
        *(part for page in pages for part in ("--find-links", page)),
        *wanted,
    ]


def install_command(track: Track, wheels: Iterable[Wheel], folder: Path) -> list[str]:
    """Install exactly these wheels, by hash, from a folder alone."""
    listed = track.folder / "requirements.txt"
    write_bytes_atomic(listed, "".join(f"{wheel.requirement}\n" for wheel in wheels).encode())
    return [
        *(str(track.python), "-m", "pip", "install", "--no-index", "--no-deps", "--require-hashes"),
        *("--find-links", str(folder), "--force-reinstall", "--no-cache-dir", "-r", str(listed)),
    ]


def build_command(track: Track, source: Path, folder: Path) -> list[str]:
    """Build the wheel of a source folder in place, so that a build that was stopped finds what is done already."""
    return [
        *(str(track.python), "-m", "pip", "wheel", "-v", "--no-build-isolation", "--use-pep517", "--no-deps"),
        *("--no-index", "--no-cache-dir", "--wheel-dir", str(folder), str(source)),
    ]
