"""`import kaolin` means `smr.kaolin`: an import hook that gives the same module objects under both names."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from ..errors import SmrError

NAME = "kaolin"
HOME = "smr.kaolin"
SUBPROCESS_PATH = Path(__file__).with_name("_subprocess_path")
"""A folder whose `kaolin.py` switches the alias on; on PYTHONPATH it reaches every Python process that is started."""


class _SameModule(Loader):
    """Loads `kaolin.x` by importing `smr.kaolin.x` and giving that very module."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self.home)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # the import system has put the alias's there


class AliasFinder(MetaPathFinder):
    """Finds `kaolin` and everything below it in `smr.kaolin`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != NAME and not fullname.startswith(NAME + "."):
            return None
        home = HOME + fullname[len(NAME) :]
        found = find_spec(home)
        if found is None:
            return None
        package = found.submodule_search_locations is not None
        return ModuleSpec(fullname, _SameModule(home), origin=found.origin, is_package=package)


def install(*, subprocesses: bool = False) -> None:
    """Make `import kaolin` mean `smr.kaolin` in this process from now on.

    An installed Kaolin is left as it is; it is only not seen while the alias is on.

    Args:
        subprocesses: Also in the Python processes that this one starts (a folder on PYTHONPATH and, for workers that
            multiprocessing spawns, on sys.path).

    Raises:
        SmrError: Another `kaolin` is already imported.
    """
    loaded = sys.modules.get(NAME)
    if loaded is not None and loaded is not sys.modules.get(HOME):
        where = getattr(loaded, "__file__", None) or "an unknown place"
        raise SmrError(
            f"Another kaolin is already imported, from {where}.",
            "Call smr.kaolin.install() before the first `import kaolin`, or start with `python -m smr.kaolin SCRIPT`.",
        )
    if not any(isinstance(finder, AliasFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, AliasFinder())
    if subprocesses:
        present = os.environ.get("PYTHONPATH", "")
        if str(SUBPROCESS_PATH) not in present.split(os.pathsep):
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(SUBPROCESS_PATH), present]))
        if str(SUBPROCESS_PATH) not in sys.path:
            sys.path.insert(1, str(SUBPROCESS_PATH))


def uninstall() -> None:
    """Take the alias back: the next `import kaolin` finds what is installed."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, AliasFinder)]
    for name in [name for name in sys.modules if name == NAME or name.startswith(NAME + ".")]:
        if sys.modules[name] is sys.modules.get(HOME + name[len(NAME) :]):
            del sys.modules[name]
