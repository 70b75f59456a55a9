"""`python -m smr.kaolin SCRIPT [ARGS]` and `python -m smr.kaolin -m MODULE [ARGS]`: `import kaolin` means us."""

from __future__ import annotations

import os
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path

from ..errors import SmrError
from . import FOLLOWS, __version__, install

USAGE = """\
usage: python -m smr.kaolin SCRIPT [ARGS ...]
       python -m smr.kaolin -m MODULE [ARGS ...]
       python -m smr.kaolin --version

Runs a script or a module in which `import kaolin` means smr.kaolin, also in the Python processes that it starts.
"""


def _check_module(name: str) -> None:
    sys.path[0] = os.getcwd()
    try:
        found = find_spec(name)
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise SmrError(f"There is no module {name}.", "Check the name; `pip install` what provides it.")


def _check_script(script: Path) -> None:
    if not script.exists():
        raise SmrError(f"There is no script {script}.", "Check the path; a module is started with -m MODULE.")
    if script.is_dir() and not (script / "__main__.py").exists():
        raise SmrError(f"{script} is a folder without __main__.py.", "Name a script in it.")
    sys.path[0] = str(script.resolve().parent)


def main(args: list[str]) -> int:
    """Run a script or module with the alias on; returns 2 where there is nothing to run."""
    if args[:1] == ["--version"]:
        sys.stdout.write(f"smr.kaolin {__version__}, after {FOLLOWS}\n")
        return 0
    if not args or args[0] in ("-h", "--help") or args == ["-m"]:
        (sys.stdout if args[:1] in (["-h"], ["--help"]) else sys.stderr).write(USAGE)
        return 0 if args[:1] in (["-h"], ["--help"]) else 2
    install(subprocesses=True)
    is_module = args[0] == "-m"
    sys.argv = args[1:] if is_module else args
    try:
        from ..ops import require_torch  # raises itself where torch is missing

        require_torch()
        if is_module:
            _check_module(args[1])
        else:
            _check_script(Path(args[0]))
    except SmrError as error:
        sys.stderr.write(f"error: {error.cause}\n  fix: {error.cure}\n")
        return 2
    if is_module:
        runpy.run_module(args[1], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(args[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
