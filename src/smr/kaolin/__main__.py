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


def _run_module(name: str, args: list[str]) -> None:
    sys.path[0] = os.getcwd()
    try:
        found = find_spec(name)
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise SmrError(f"There is no module {name}.", "Check the name; `pip install` what provides it.")
    sys.argv = [name, *args]
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _run_script(script: Path, args: list[str]) -> None:
    if not script.exists():
        raise SmrError(f"There is no script {script}.", "Check the path; a module is started with -m MODULE.")
    if script.is_dir() and not (script / "__main__.py").exists():
        raise SmrError(f"{script} is a folder without __main__.py.", "Name a script in it.")
    sys.path[0] = str(script.resolve().parent)
    sys.argv = [str(script), *args]
    runpy.run_path(str(script), run_name="__main__")


def main(args: list[str]) -> int:
    """Run a script or module with the alias on; returns 2 where there is nothing to run."""
    if args[:1] == ["--version"]:
        sys.stdout.write(f"smr.kaolin {__version__}, after {FOLLOWS}\n")
        return 0
    if not args or args[0] in ("-h", "--help") or args == ["-m"]:
        (sys.stdout if args[:1] in (["-h"], ["--help"]) else sys.stderr).write(USAGE)
        return 0 if args[:1] in (["-h"], ["--help"]) else 2
    install(subprocesses=True)
    try:
        if args[0] == "-m":
            _run_module(args[1], args[2:])
        else:
            _run_script(Path(args[0]), args[1:])
    except SmrError as error:
        sys.stderr.write(f"error: {error.cause}\n  fix: {error.cure}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
