"""Values in files of torch that are read without running code from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ...atomic import atomic_path
from ..render.materials.pbr import Material
from ..rep.surface_mesh import SurfaceMesh

_KIND = "smr.kaolin"
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.Tensor, torch.dtype, torch.Size, torch.device)
_SETTINGS = ("unset_attributes_return_none", "allow_auto_compute")


def save(value: Any, path: Path) -> None:
    """Write a value whole or not at all.

    Raises:
        TypeError: It holds something else than numbers, text, tensors, paths, meshes and materials.
    """
    plain = _to_plain(value)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        torch.save(plain, temporary)


def load(path: Path) -> Any:
    """Read a value."""
    return _from_plain(torch.load(path, weights_only=True))


def _to_plain(value: Any) -> Any:
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, dict):
        return {key: _to_plain(item) for key, item in value.items()}
    if isinstance(value, Path):
        return {_KIND: "path", "path": str(value)}
    if isinstance(value, Material):
        return {_KIND: "material", **_to_plain(value.as_dict())}
    if isinstance(value, SurfaceMesh):
        fields = {name: getattr(value, name) for name in value.get_attributes()}
        return {_KIND: "mesh", **_to_plain(fields), **{name: getattr(value, name) for name in _SETTINGS}}
    if isinstance(value, list):
        return [_to_plain(item) for item in value]
    if type(value) is tuple:
        return tuple(_to_plain(item) for item in value)
    raise TypeError(
        f"{type(value).__name__} is not kept in a cache: numbers, text, tensors, paths, meshes and materials are, and "
        f"lists, tuples and dicts of them"
    )


def _from_plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_plain(item) for item in value]
    if type(value) is tuple:
        return tuple(_from_plain(item) for item in value)
    if not isinstance(value, dict):
        return value
    items = {key: _from_plain(item) for key, item in value.items()}
    kind = items.pop(_KIND, None)
    if kind == "path":
        return Path(items["path"])
    if kind == "material":
        return Material.from_dict(items)
    if kind == "mesh":
        return SurfaceMesh(items.pop("vertices"), items.pop("faces"), strict_checks=False, **items)
    return items
