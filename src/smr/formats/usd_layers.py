"""What a USD file is composed of, looked through before it is composed.

A layer can name any path on the machine, and a few lines can refer to one another so that they multiply to billions
of prims. So the layers are opened one by one first, their paths are held against the folder, and the prims counted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pxr import Ar, Sdf

from ..errors import SmrError
from .files import damaged
from .names import inside_folder

_MOST_LAYERS = 256
_MOST_PRIMS = 1_000_000


def open_layer(path: Path) -> Sdf.Layer:
    """Open the root layer after a look at everything that it would pull in.

    Raises:
        SmrError: It cannot be parsed, refers to files outside its folder, or multiplies to too many prims.
    """
    layer = Sdf.Layer.FindOrOpen(str(path.resolve()))
    if layer is None:
        raise damaged(path, "USD cannot read it")
    if not layer.dirty:  # what this process changed and has not saved stays
        layer.Reload()  # a file that changed since this process read it last
    layers = [layer]
    seen = {layer.identifier}
    for current in layers:
        for name in current.GetCompositionAssetDependencies():
            if not name:  # within the layer itself
                continue
            if not is_inside(path, current.identifier, name):
                raise SmrError(
                    f"{path} refers to {name[:120]!r}, outside its own folder; such files are not opened.",
                    "Put all its files into one folder, or flatten it (`usdcat --flatten`).",
                )
            found = Sdf.Layer.FindRelativeToLayer(current, name) or _open_relative(current, name)
            if found is not None and found.identifier not in seen:
                seen.add(found.identifier)
                layers.append(found)
            if len(layers) > _MOST_LAYERS:
                raise SmrError(f"{path} consists of more than {_MOST_LAYERS} layers.", "Flatten it first.")
    _count_prims(path, layers)
    return layer


def is_inside(path: Path, owner: str, name: str) -> bool:
    """Whether the asset path `name` in the layer `owner` stays in the folder (or the package) of the file `path`."""
    plain = name.split(":SDF_FORMAT_ARGS:")[0]
    outer = Ar.SplitPackageRelativePathOuter(plain)[0] if Ar.IsPackageRelativePath(plain) else plain
    if inside_folder(path.parent, outer) is None:  # absolute, with .. or an address
        return False
    if Ar.IsPackageRelativePath(owner) or owner.lower().endswith(".usdz"):
        return True  # within the archive
    target = (Path(owner).parent / outer).resolve()
    return target.is_relative_to(path.parent.resolve())


def _open_relative(layer: Sdf.Layer, name: str) -> Sdf.Layer | None:
    return Sdf.Layer.FindOrOpen(Sdf.ComputeAssetPathRelativeToLayer(layer, name))


def _count_prims(path: Path, layers: list[Any]) -> None:
    """Refuse stages that references multiply beyond a million prims: an upper bound, each arc counted in full."""
    weights: dict[tuple[str, str], float] = {}
    by_identifier = {layer.identifier: layer for layer in layers}

    def arcs(layer: Any, prim: Any) -> list[tuple[Any, Any]]:
        targets: list[tuple[Any, Any]] = []
        for listed in (prim.referenceList, prim.payloadList):
            for arc in listed.GetAddedOrExplicitItems():
                other = layer
                if arc.assetPath:
                    other = by_identifier.get(Sdf.ComputeAssetPathRelativeToLayer(layer, arc.assetPath))
                if other is not None:
                    targets.append((other, arc.primPath or other.defaultPrim))
        for listed in (prim.inheritPathList, prim.specializesList):
            targets += [(layer, target) for target in listed.GetAddedOrExplicitItems()]
        return targets

    def weigh(layer: Any, prim: Any, depth: int) -> float:
        key = (layer.identifier, str(prim.path))
        if key in weights:
            return weights[key]
        if depth > 200:
            raise SmrError(f"{path} is nested more than 200 deep.", "Flatten it first (`usdcat --flatten`).")
        weights[key] = 1.0  # a circle; USD itself refuses it
        total = 1.0 + sum(weigh(layer, child, depth + 1) for child in prim.nameChildren)
        for variants in prim.variantSets.values():
            total += sum(weigh(layer, variant.primSpec, depth + 1) for variant in variants.variantList)
        for other, target in arcs(layer, prim):
            spec = other.GetPrimAtPath(f"/{target}" if target and not str(target).startswith("/") else target)
            total += weigh(other, spec, depth + 1) if spec else 0.0
        weights[key] = total
        return total

    for layer in layers:
        if sum(weigh(layer, prim, 0) for prim in layer.rootPrims) > _MOST_PRIMS:
            raise SmrError(f"{path} multiplies to more than a million prims.", "Export the one model that you need.")
