"""Copies of USD for Python (`pxr`) on the search path."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def usd(path: list[str]) -> dict[str, Any]:
    """Every `pxr` package, and whether it is usd-core's (all in one library) or another build with Boost beside it."""
    copies = []
    for entry in dict.fromkeys(path):
        folder = Path(entry or ".") / "pxr"
        if (folder / "__init__.py").is_file() or (folder / "Tf").is_dir():
            site = folder.parent
            core = any(site.glob("usd_core*.dist-info"))
            boost = sorted(p.name for p in [*site.glob("*boost_python*"), *site.glob("../lib/libboost_python*")])[:4]
            copies.append({"folder": str(folder), "usd_core": core, "boost": boost})
    return {"copies": copies[:10]}
