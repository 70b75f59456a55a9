"""Packages whose names are imported when they are first used."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from ._absent import absent


class _LazyPackage(ModuleType):
    """A package that imports its submodules and the names of its table on first use."""

    _smr_homes: dict[str, str]
    _smr_absent: dict[str, str]

    def __getattr__(self, name: str) -> Any:
        homes, uses = self.__dict__["_smr_homes"], self.__dict__["_smr_absent"]
        if name in homes:
            value = getattr(_imported(homes[name], self.__name__), name)
        elif name in uses:
            value = absent(f"{self.__name__.removeprefix('smr.')}.{name}", uses[name])
        elif not name.startswith("__") and find_spec(f"{self.__name__}.{name}") is not None:
            value = _imported(f"{self.__name__}.{name}")
        else:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # Importing `mesh.check_sign` binds the module to its package's attribute; where the package gives a function
        # of that name, it stays the function.
        if isinstance(value, ModuleType) and name in self.__dict__.get("_smr_homes", {}):
            value = getattr(value, name, value)
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        submodules = (module.name for module in iter_modules(self.__path__))
        names = {*self._smr_homes, *self._smr_absent, *self.__dict__.get("__all__", ()), *submodules}
        special = {name for name in self.__dict__ if name.startswith("__")}
        return sorted({name for name in names if not name.startswith("_")} | special)


def _imported(name: str, package: str | None = None) -> ModuleType:
    try:
        return import_module(name, package)
    except ModuleNotFoundError as error:
        if error.name == "torch":
            from ..ops import require_torch  # which says how to install it

            require_torch()
        raise


def reexport(
    package: str, homes: dict[str, tuple[str, ...]] | None = None, not_in_smr: dict[str, str] | None = None
) -> list[str]:
    """Make a package give names of its modules, and its submodules, imported when they are first used.

    Call it at the end of a package's `__init__.py`; it works beside names that the file defines itself:
    `__all__ = reexport(__name__, {"trianglemesh": ("face_normals", "face_areas")})`.

    Args:
        package: The package's `__name__`.
        homes: Names by the module that defines them, relative to the package (`"trianglemesh"`, `".rep.spc"`).
        not_in_smr: Names that raise `NotInSmrError` when they are used, by what to use instead (texts in `_absent`).

    Returns:
        The names, for `__all__`.
    """
    table = {name: f".{home}" for home, names in (homes or {}).items() for name in names}
    module = sys.modules[package]
    module.__dict__.update(_smr_homes=table, _smr_absent=dict(not_in_smr or {}))
    module.__class__ = _LazyPackage
    return sorted([*table, *module.__dict__["_smr_absent"]])
