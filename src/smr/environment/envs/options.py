"""How an environment is built; what is built is in the plan."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

TOOLS = ("venv", "uv", "conda", "micromamba")


@dataclass(frozen=True)
class Options:
    """How to build."""

    source: str = ""
    """Folder, archive or URL; empty: the plan's repository."""
    python: str = ""
    """An interpreter of the plan's version; empty: one that is found."""
    tool: str = "venv"
    cache: Path | None = None
    """Folder for pip's and the compiler's caches; in the prefix by default."""
    compiler_cache: str = "auto"
    """`ccache`, `sccache`, `none`, or whichever is there."""
    cache_size: str = "5G"
    jobs: int = 0
    """Compilers at once; 0: as memory and cores allow."""
    find_links: tuple[str, ...] = ()
    """Further pages or folders with wheels."""
