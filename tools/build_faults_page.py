"""Writes docs/faults.md from the doctor's catalogue of faults.

python tools/build_faults_page.py            # writes
python tools/build_faults_page.py --check    # exit 1 when the page is not what the catalogue gives
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from smr.environment.faults.page import faults_page

PAGE = Path(__file__).parents[1] / "docs" / "faults.md"


def main(argv: list[str] | None = None) -> int:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description="Write docs/faults.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the page is stale")
    if parser.parse_args(argv).check:
        return 0 if PAGE.exists() and PAGE.read_text(encoding="utf-8") == faults_page() else 1
    PAGE.write_text(faults_page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
