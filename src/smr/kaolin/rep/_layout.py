"""What attributes a surface mesh has, their shapes in each batching, and how one batching becomes another."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import torch


class Batching(str, Enum):
    """How meshes are held together."""

    NONE = "NONE"
    """One mesh; its tensors have no batch dimension."""
    FIXED = "FIXED"
    """B meshes with the same faces: tensors (B, ...), but one tensor of faces."""
    LIST = "LIST"
    """Any meshes: a list of tensors for each attribute."""

    def __str__(self) -> str:
        return self.value


Size = str | int | None

SHAPES: dict[str, tuple[Size, ...]] = {
    "vertices": ("V", 3),
    "faces": ("F", "FSz"),
    "face_vertices": ("F", "FSz", 3),
    "normals": ("VN", 3),
    "face_normals_idx": ("F", "FSz"),
    "face_normals": ("F", "FSz", 3),
    "uvs": ("U", 2),
    "face_uvs_idx": ("F", "FSz"),
    "face_uvs": ("F", "FSz", 2),
    "vertex_normals": ("V", 3),
    "vertex_tangents": ("V", 3),
    "vertex_colors": ("V", None),
    "vertex_features": ("V", None),
    "face_tangents": ("F", "FSz", 3),
    "face_colors": ("F", "FSz", None),
    "face_features": ("F", "FSz", None),
    "material_assignments": ("F",),
    "transform": (4, 4),
}
"""Shapes of one mesh's tensors: numbers of vertices V, faces F, corners FSz, normals VN and texture coordinates U."""

WHOLE = {"faces", "face_normals_idx", "face_uvs_idx", "material_assignments"}
"""Attributes of whole numbers."""


def shape_in(batching: Batching, name: str) -> tuple[Size, ...]:
    """The shape of an attribute's tensor (in LIST: of each item)."""
    batched = (batching == Batching.FIXED and name != "faces") or (batching == Batching.LIST and name == "transform")
    return ("B", *SHAPES[name]) if batched else SHAPES[name]


def guess_batching(vertices: Any, faces: Any) -> Batching:
    """The batching that tensors or lists of vertices and faces are in.

    Raises:
        ValueError: They are in none.
    """
    if isinstance(vertices, list | tuple) and isinstance(faces, list | tuple):
        return Batching.LIST
    if isinstance(vertices, torch.Tensor) and isinstance(faces, torch.Tensor) and faces.dim() == 2:
        if vertices.dim() == 2:
            return Batching.NONE
        if vertices.dim() == 3:
            return Batching.FIXED
    found = [list(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__ for x in (vertices, faces)]
    raise ValueError(
        f"vertices and faces must be (V, 3) and (F, FSz), or (B, V, 3) and (F, FSz), or two lists of such tensors; "
        f"they are {found[0]} and {found[1]}"
    )


def as_batching(value: Any) -> Batching:
    """A batching from itself or its name.

    Raises:
        ValueError: There is none of this name.
    """
    try:
        return Batching(value)
    except ValueError:
        names = ", ".join(batching.value for batching in Batching)
        raise ValueError(f"{value!r} is no batching; there are {names}") from None


def shape_fault(value: Any, name: str, batching: Batching, sizes: dict[str, int]) -> str | None:
    """What is wrong with an attribute's type or shape, or None; sizes that are not known yet are added to `sizes`."""
    if batching == Batching.LIST and name != "transform":
        if not isinstance(value, list | tuple):
            return f"{name} should be a list in batching LIST, not {type(value).__name__}"
        wanted = sizes.setdefault("B", len(value))
        return None if len(value) == wanted else f"{name} has {len(value)} items, should have {wanted}"
    if not isinstance(value, torch.Tensor):
        return f"{name} should be a tensor, not {type(value).__name__}"
    return None


def tensor_fault(tensor: Any, name: str, shape: Sequence[Size], sizes: dict[str, int]) -> str | None:
    """What is wrong with a tensor's shape, or None; sizes that are not known yet are added to `sizes`."""
    if not isinstance(tensor, torch.Tensor):
        return f"{name} should be a tensor, not {type(tensor).__name__}"
    wanted: list[Any] = [sizes.get(size, size) if isinstance(size, str) else size for size in shape]
    good = tensor.dim() == len(wanted) and all(
        not isinstance(want, int) or want == got for want, got in zip(wanted, tensor.shape, strict=True)
    )
    if not good:
        text = ", ".join("*" if want is None else str(want) for want in wanted)
        return f"{name} has the shape {tuple(tensor.shape)}, should be ({text})"
    for size, got in zip(shape, tensor.shape, strict=True):
        # a mesh without vertices or faces may carry attributes of any number of them
        if isinstance(size, str) and not (size in ("V", "F") and got == 0):
            sizes[size] = got
    return None


def convert(value: Any, name: str, source: Batching, target: Batching, count: int) -> Any:
    """An attribute's value in another batching.

    Args:
        value: The value in `source`.
        name: The attribute, or "materials".
        source: Its batching.
        target: The batching wanted.
        count: Number of meshes.

    Raises:
        ValueError: The value cannot be in `target`: several meshes in one, or different sizes in one tensor.
    """
    if source == target or name == "transform":
        return value
    if source == Batching.NONE:
        return value if name == "faces" and target == Batching.FIXED else _wrapped(value, name, target)
    if target == Batching.NONE:
        if count != 1:
            raise ValueError(f"{count} meshes cannot be in batching NONE")
        return value if name == "faces" and source == Batching.FIXED else value[0]
    if target == Batching.LIST:
        if name == "faces":
            return [value] * count
        return list(value) if name == "materials" else list(value.unbind(0))
    return _stacked(value, name)


def _wrapped(value: Any, name: str, target: Batching) -> Any:
    return [value] if target == Batching.LIST or name == "materials" else value.unsqueeze(0)


def _stacked(values: Sequence[Any], name: str) -> Any:
    if name == "materials":
        return list(values)
    shapes = [list(value.shape) for value in values]
    if any(shape != shapes[0] for shape in shapes):
        raise ValueError(f"{name} of different shapes cannot be in batching FIXED: {shapes}")
    if name != "faces":
        return torch.stack(list(values))
    if not all(torch.equal(values[0], value) for value in values[1:]):
        raise ValueError("meshes with different faces cannot be in batching FIXED")
    return values[0]
