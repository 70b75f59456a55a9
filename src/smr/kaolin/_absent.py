"""Parts of Kaolin that smr does not have: their names can be imported, using one says what to do instead."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

from ..errors import SmrError

_HOME = "smr.kaolin"
_ITSELF = "run this part with Kaolin itself: `smr env plan kaolin` works out versions that fit together."
SPC = f"Use a dense voxel grid (kaolin.ops.voxelgrid, kaolin.ops.conversions) or a mesh, or {_ITSELF}"
GAUSSIANS = f"Use a mesh or a point cloud, or {_ITSELF}"
PHYSICS = f"There is no simulation in smr; {_ITSELF}"
FLEXICUBES = "Use kaolin.ops.conversions.FlexiCubes, which has the same arguments."
BINARY = "Call the public function of kaolin.ops, kaolin.metrics or kaolin.render that does this."

ABSENT_MODULES = {
    "_C": BINARY,
    "experimental": PHYSICS,
    "io.gaussians": GAUSSIANS,
    "io.usd.gaussians": GAUSSIANS,
    "io.usd.physics_materials": PHYSICS,
    "non_commercial": FLEXICUBES,
    "ops.conversions.gaussians": GAUSSIANS,
    "ops.gaussian": GAUSSIANS,
    "ops.gaussians": GAUSSIANS,
    "ops.spc": SPC,
    "physics": PHYSICS,
    "render.spc": SPC,
    "rep.gaussians": GAUSSIANS,
    "rep.spc": SPC,
}
"""Modules, with everything below them, by what to use instead; a file that is there goes first."""


class NotInSmrError(SmrError, NotImplementedError):
    """A part of Kaolin was used that smr does not have."""


class _Absent(type):
    """The type of stand-ins: classes that can be imported, subclassed and asked for by isinstance, but not used."""

    _smr_error: NotInSmrError

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise cls._smr_error

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise cls._smr_error


def absent(name: str, use: str) -> type:
    """A stand-in for a function or class; calling it, making one, or taking its attributes raises `NotInSmrError`.

    Args:
        name: What it would be, such as `kaolin.rep.Spc`.
        use: What to use instead.
    """
    module, _, short = name.rpartition(".")
    error = NotInSmrError(f"{name} is not part of smr.", use)
    return _Absent(short, (), {"__module__": module, "__doc__": f"{error.cause} {use}", "_smr_error": error})


class _AbsentModule(ModuleType):
    """A module every name of which is a stand-in."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        use = _use_instead(self.__name__)
        value = absent(f"{self.__name__.removeprefix('smr.')}.{name}", use or "")
        self.__dict__[name] = value
        return value


def _use_instead(module: str) -> str | None:
    """What to use instead of a module, or None where it is not one of the absent ones."""
    inside = module.removeprefix(_HOME + ".")
    return next((use for name, use in ABSENT_MODULES.items() if f"{inside}.".startswith(f"{name}.")), None)


class _AbsentLoader(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _AbsentModule(spec.name, f"Not part of smr. {_use_instead(spec.name)}")

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: the names come when they are asked for."""


class AbsentFinder(MetaPathFinder):
    """Finds the absent modules; it stands last, so that files go first."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(_HOME + ".") or _use_instead(fullname) is None:
            return None
        return ModuleSpec(fullname, _AbsentLoader(), is_package=True)


def add_absent_modules() -> None:
    """Let the absent modules be found."""
    if not any(isinstance(finder, AbsentFinder) for finder in sys.meta_path):
        sys.meta_path.append(AbsentFinder())


def mark_absent(module: str) -> None:
    """Make a module that has a file give stand-ins for all names that it does not define."""
    sys.modules[module].__class__ = _AbsentModule
