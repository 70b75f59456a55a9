"""`kaolin.io.materials`: materials of mesh files, and the errors around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..render.materials import pbr as _render


class MaterialError(Exception):
    """Something about a material."""


class MaterialNotSupportedError(MaterialError):
    """A material of a kind that cannot be read or written."""


class MaterialLoadError(MaterialError):
    """A material that is there and cannot be read."""


class MaterialWriteError(MaterialError):
    """A material that cannot be written."""


class MaterialFileError(MaterialError):
    """A material file that is missing or cannot be read."""


class MaterialNotFoundError(MaterialError):
    """A material that is used and nowhere defined."""


class PBRMaterial(_render.PBRMaterial):
    """The name under which older code looks for the material class."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Raise: the class is `kaolin.render.materials.PBRMaterial`.

        Raises:
            DeprecationWarning: Always.
        """
        raise DeprecationWarning("kaolin.io.materials.PBRMaterial is now kaolin.render.materials.PBRMaterial")


def material_name(material: Any) -> str:
    """The name of a material, which may be a dictionary; empty where it has none."""
    name = material.get("material_name") if isinstance(material, dict) else getattr(material, "material_name", "")
    return name or ""


def group_materials_by_name(
    materials_list: list[Any], material_assignments: torch.Tensor
) -> tuple[list[Any], torch.Tensor]:
    """Keep the first material of each name, sorted by name, then those without a name in their order.

    Args:
        materials_list: Materials.
        material_assignments: Index into the list, any shape; negative: none.

    Returns:
        The materials left, and the assignments to them.
    """
    names = [material_name(material) for material in materials_list]
    groups = {name: index for index, name in reversed(list(enumerate(names))) if name}
    kept = [groups[name] for name in sorted(groups)] + [index for index, name in enumerate(names) if not name]
    place = {index: new for new, index in enumerate(kept)}
    renumbered = [place[groups.get(name, index)] for index, name in enumerate(names)]
    table = torch.tensor([*renumbered, -1], dtype=material_assignments.dtype, device=material_assignments.device)
    known = torch.where(material_assignments < 0, len(materials_list), material_assignments).long()
    return [materials_list[index] for index in kept], table[known]


def process_materials_and_assignments(
    materials_dict: dict[str, Any],
    material_assignments_dict: dict[str, torch.Tensor],
    error_handler: Callable[..., Any],
    num_faces: int,
    error_context_str: str = "",
) -> tuple[list[Any], torch.Tensor]:
    """Materials by name as a list sorted by name, and which of them each face has.

    Args:
        materials_dict: Materials by name.
        material_assignments_dict: Faces by material: indices (n,), or ranges (n, 2) up to, not with, the second.
        error_handler: Called with a MaterialNotFoundError where a material is used and not there; it may raise, or
            put one into `materials_dict` (see `obj.create_missing_materials_error_handler`).
        num_faces: Number of faces.
        error_context_str: What to call the file in errors.

    Returns:
        The materials, and their index for each face (num_faces,), int16; -1 where it has none.
    """
    for name in material_assignments_dict:
        if name not in materials_dict:
            where = f" of {error_context_str}" if error_context_str else ""
            error = MaterialNotFoundError(f"the material {name!r}{where} is used and nowhere defined")
            error_handler(error, material_name=name, materials_dict=materials_dict)
    names = sorted(materials_dict)
    assigned = torch.full((num_faces,), -1, dtype=torch.int16)
    for name, faces in material_assignments_dict.items():
        if name not in materials_dict:
            continue
        index = names.index(name)
        if faces.dim() == 2:
            for first, last in faces.tolist():
                assigned[first:last] = index
        else:
            assigned[faces.long()] = index
    return [materials_dict[name] for name in names], assigned
