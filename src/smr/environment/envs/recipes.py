"""Recipes: what is known of a package that is compiled against torch. Data, not code."""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from smr.environment import tables, versions
from smr.errors import SmrError

VERSION = 1
BUNDLED = ("kaolin", "torch-scatter", "pytorch3d", "gsplat", "nvdiffrast", "tinycudann")
_FILES = {"tinycudann": "tiny-cuda-nn"}
MAX_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class Release:
    """What one release of a package accepts."""

    version: str
    tag: str
    torch_min: str
    torch_max: str
    """Newest torch that its build accepts; empty: no limit is known."""
    python: tuple[str, str]
    """Lowest and highest Python; empty texts: not known."""
    wheels: Mapping[str, tuple[str, ...]]
    """torch version to builds (`cu121`, `cpu`) that its authors publish wheels for."""
    wheel_page: str
    """Page with the wheels; `{torch}`, `{torch_minor}` and `{build}` are filled in."""
    archs: Mapping[str, str]
    """CUDA version to the architectures that its build takes where no GPU is visible: what its wheels hold."""
    requires: tuple[str, ...]
    build_requires: tuple[str, ...]
    setuptools: str
    """The setuptools to build with, where the recipe knows better than the general rule."""
    cuda_only: bool
    can_ignore_range: bool
    source: str
    """Where this is known from."""

    @property
    def head(self) -> bool:
        """Whether this is the newest state of the repository, not a release."""
        return self.version == "HEAD"


@dataclass(frozen=True, eq=False)
class Recipe:
    """One package."""

    name: str
    imports: tuple[str, ...]
    releases: tuple[Release, ...]
    """Newest first; HEAD last."""
    data: Mapping[str, Any] = field(repr=False)

    def text(self, key: str) -> str:
        """A field as text; empty where absent."""
        return str(self.data.get(key, ""))

    def group(self, key: str) -> Mapping[str, Any]:
        """A group of fields; empty where absent."""
        value = self.data.get(key, {})
        return value if isinstance(value, dict) else {}

    def broken_by(self, torch: str) -> str:
        """Why this package does not compile with a torch, even when told to try; empty where nothing is known."""
        rows = [row for row in self.data.get("breaks", ()) if versions.at_least(torch, row["torch_from"])]
        return str(rows[0]["why"]) if rows else ""


def normal(name: str) -> str:
    """A package's name as the index compares names."""
    return re.sub(r"[-_.]+", "-", name).lower()


@lru_cache(maxsize=16)
def bundled(name: str) -> Any:
    """A file of the cookbook: `torch`, or a recipe."""
    data = pkgutil.get_data("smr.environment.envs", f"cookbook/{_FILES.get(name, name)}.json")
    assert data is not None, name
    return json.loads(data)


def find_recipe(name: str) -> Recipe:
    """The recipe of a package that ships with smr.

    Raises:
        SmrError: There is none of that name.
    """
    for known in BUNDLED:
        if normal(name) in {normal(known), *map(normal, bundled(known).get("aliases", ()))}:
            return recipe_of(bundled(known))
    raise SmrError(
        f"there is no recipe for {name!r}",
        f"name one of {', '.join(BUNDLED)}, or describe your package in a file: --recipe FILE (docs/environments.md)",
    )


def read_recipe(path: Path) -> Recipe:
    """A recipe from a file of the user.

    Raises:
        SmrError: It cannot be read or is not a recipe.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise SmrError(f"{path} is larger than any recipe ({MAX_BYTES >> 20} MB)", "name a recipe file")
        return recipe_of(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise SmrError(f"cannot read {path}: {error.strerror}", "name a readable recipe file") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        cure = "see docs/environments.md for the fields of a recipe"
        raise SmrError(f"{path} is not a recipe: {type(error).__name__}: {error}", cure) from error


def recipe_of(data: Mapping[str, Any]) -> Recipe:
    """A recipe from its JSON form."""
    if int(data["version"]) > VERSION:
        raise SmrError(f"this recipe has version {data['version']}, this smr knows {VERSION}", "update smr3d")
    rows = _kaolin_rows(data) if data["releases"] == "tables/kaolin" else data["releases"]
    releases = sorted(map(_release, rows), key=lambda r: (not r.head, versions.parse(r.version)), reverse=True)
    return Recipe(str(data["name"]), tuple(data["imports"]), tuple(releases), data)


def _release(row: Mapping[str, Any]) -> Release:
    wheels = {torch: tuple(builds) for torch, builds in row.get("wheels", {}).items() if isinstance(builds, list)}
    low, high = row.get("python", ("", ""))
    return Release(
        version=str(row["version"]),
        tag=str(row.get("tag", row["version"])),
        torch_min=str(row.get("torch_min", "")),
        torch_max=str(row.get("torch_max", "")),
        python=(str(low), str(high)),
        wheels=wheels,
        wheel_page=str(row.get("wheel_page", "")),
        archs=row.get("archs", {}),
        requires=tuple(row.get("requires", ())),
        build_requires=tuple(row.get("build_requires", ())),
        setuptools=str(row.get("setuptools", "")),
        cuda_only=bool(row.get("cuda_only", False)),
        can_ignore_range=bool(row.get("can_ignore_range", False)),
        source=str(row.get("source", "")),
    )


def _kaolin_rows(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The doctor's table of Kaolin releases in the form of a recipe."""
    rows = []
    for version, facts in tables.table("kaolin").items():
        pins = data.get("pins", {}).get(version, {})
        documented = [part.strip(" ,<>=") for part in str(facts.get("docs_torch", "")).split()]
        floors = [facts["setup_torch_min"], *[text for text in documented if versions.parse(text)][:1]]
        requires = facts.get("runtime_requirements", []) if "build_requirements" in facts else _old_requires(facts)
        build = [text for text in facts.get("build_requirements", ["cython==0.29.20"]) if "setuptools" not in text]
        rows.append(
            {
                "version": version,
                "tag": facts["tag"],
                "torch_min": max(floors, key=versions.parse),
                "torch_max": facts["setup_torch_max"],
                "python": pins.get("python") or tables.kaolin_python(version) or ("", ""),
                # the page of HEAD is the one of the last release: its wheels are that release
                "wheels": {} if version == "HEAD" else facts.get("wheels", {}),
                "wheel_page": str(facts.get("docs_wheel_index", ""))
                .replace("{TORCH_VER}", "{torch}")
                .replace("cu{CUDA_VER}", "{build}")
                .replace("{CUDA_VER}", "{build}"),
                "archs": facts["archs"],
                "requires": requires,
                "build_requires": build,
                "setuptools": pins.get("setuptools", ""),
                "can_ignore_range": facts["setup_ignore_torch_ver"],
                "source": facts["source"],
            }
        )
    return rows


def _old_requires(facts: Mapping[str, Any]) -> list[str]:
    return [text for text in facts.get("install_requires_inline", []) if not text.startswith("torch")]
