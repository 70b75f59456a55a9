"""Turns the tables of `tools/environment_tables` into the JSON files that ship inside `smr.environment`.

The TOML files are the ones to edit: they keep the source and the certainty of every value beside it. JSON ships
because the doctor also runs on Python 3.8, which has no TOML reader.

    python tools/build_environment_tables.py            # writes
    python tools/build_environment_tables.py --check    # exit 1 when a shipped file is not what the sources give
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import tomllib

SOURCES = Path(__file__).parent / "environment_tables"
SHIPPED = Path(__file__).parents[1] / "src" / "smr" / "environment" / "tables"
KAOLIN_FIELDS = (
    *("tag", "commit", "note", "setup_torch_min", "setup_torch_max", "setup_ignore_torch_ver", "docs_torch"),
    *("docs_python", "docs_source", "docs_wheel_index", "wheels", "source", "cub", "build_requirements"),
    *("runtime_requirements", "install_requires_inline"),
)
CUDA_VERSIONS = (
    "10.0",
    "10.1",
    "10.2",
    *(f"11.{n}" for n in range(9)),
    *(f"12.{n}" for n in range(10)),
    "13.0",
    "13.2",
)


def compat() -> dict[str, Any]:
    """Compatibility tables, whole."""
    return tomllib.loads((SOURCES / "compat.toml").read_text())


def kaolin() -> dict[str, Any]:
    """What each Kaolin release accepts, and the wheels that its documentation names."""
    releases = tomllib.loads((SOURCES / "kaolin_versions.toml").read_text())["kaolin"]
    return {
        version: {**{k: v for k, v in facts.items() if k in KAOLIN_FIELDS}, "archs": arch_lists(facts)}
        for version, facts in releases.items()
    }


def arch_lists(release: dict[str, Any]) -> dict[str, str]:
    """Architectures that a release's setup.py builds for without a GPU, by CUDA version."""
    found: dict[str, str] = {}
    for cuda in CUDA_VERSIONS:
        major, minor = map(int, cuda.split("."))
        for row in release["arch_lists"]:
            condition = row["when"].replace("&&", "and").replace("any", "True")
            if eval(condition, {"__builtins__": {}}, {"major": major, "minor": minor}):  # our own file
                found[cuda] = row["archs"]
                break
    return found


def torch_symbols() -> dict[str, Any]:
    """Which torch releases define which mangled symbol: `{"versions": [...], "symbols": {name: [[first, last]]}}`."""
    table = json.loads((SOURCES / "torch_symbols.json").read_text())
    measured = table["versions_measured"]
    versions = sorted(set(measured["x86_64"]) | set(measured["aarch64"]), key=lambda v: [int(p) for p in v.split(".")])
    symbols = {name: facts["ranges"] for name, facts in sorted(table["symbols"].items())}
    return {"note": table["note"], "measured": measured, "versions": versions, "symbols": symbols}


def main(argv: list[str] | None = None) -> int:
    """Write the shipped tables, or compare them with their sources."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a shipped file is stale")
    check = parser.parse_args(argv).check
    stale = []
    for name, build in (("compat", compat), ("kaolin", kaolin), ("torch_symbols", torch_symbols)):
        path = SHIPPED / f"{name}.json"
        text = json.dumps(build(), indent=None if name == "torch_symbols" else 1, sort_keys=False) + "\n"
        if check and (not path.exists() or path.read_text() != text):
            stale.append(str(path))
        elif not check:
            path.write_text(text)
    if stale:
        sys.stderr.write(f"not what the sources give: {', '.join(stale)}\n  fix: python {Path(__file__).name}\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
