"""Packs the doctor alone into one file that any Python from 3.8 runs: `python3 smr-doctor.pyz`.

    python tools/build_doctor_pyz.py [--out dist/smr-doctor.pyz]

The same sources give the same bytes.
"""

from __future__ import annotations

import argparse
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1] / "src"
SINGLE = ("smr/__init__.py", "smr/errors.py", "smr/cli/__init__.py", "smr/cli/doctor.py")
MAIN = """import sys
if sys.version_info < (3, 8):
    sys.exit("smr-doctor.pyz needs Python 3.8 or newer; this is " + sys.version.split()[0])
from smr.cli.doctor import entry
entry()
"""
TIMESTAMP = (2020, 1, 1, 0, 0, 0)


def members() -> list[Path]:
    """Files that the doctor consists of, in a fixed order; `envs`, which builds environments, is none of them."""
    package = [path for path in (ROOT / "smr" / "environment").rglob("*") if path.suffix in (".py", ".json")]
    return [*(ROOT / name for name in SINGLE), *sorted(path for path in package if "envs" not in path.parts)]


def build(out: Path) -> None:
    """Write the archive with a first line that makes it a program."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in members():
                archive.writestr(_entry(path.relative_to(ROOT).as_posix()), path.read_bytes())
            archive.writestr(_entry("__main__.py"), MAIN)
    out.chmod(0o755)


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, TIMESTAMP)
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def main(argv: list[str] | None = None) -> int:
    """Build it and say where it is."""
    parser = argparse.ArgumentParser(description="Pack the doctor into one file.")
    parser.add_argument("--out", type=Path, default=Path("dist/smr-doctor.pyz"))
    out = parser.parse_args(argv).out
    build(out)
    sys.stdout.write(f"{out} ({out.stat().st_size >> 10} KB)\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
