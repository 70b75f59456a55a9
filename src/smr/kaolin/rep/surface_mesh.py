"""A mesh or a batch of meshes with everything that belongs to it, some of it computed when it is asked for."""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from typing import Any

import torch

from . import _derived, _joining, _layout
from ._layout import SHAPES, WHOLE, as_batching, shape_in
from .tensor_container import TensorContainerBase, apply_to_tensors, described

_log = logging.getLogger(__name__)

Values = torch.Tensor | list[torch.Tensor] | None
_INDEXED = {"normals": ("face_normals_idx", "face_normals"), "uvs": ("face_uvs_idx", "face_uvs")}


class SurfaceMesh(TensorContainerBase):
    """One mesh or a batch of meshes: vertices, faces, and what else is known of them.

    All attributes can be read, set, and (to None) taken away. One that is not set but follows from others is computed
    on access, and kept unless one of those needs a gradient.

    Args:
        vertices: (V, 3); (B, V, 3) for meshes with the same faces; or a list of (V, 3). This decides the batching.
        faces: (F, FSz) int64; a list of them for a list of vertices.
        normals: Normals that `face_normals_idx` points to, (VN, 3).
        uvs: Texture coordinates that `face_uvs_idx` points to, (U, 2).
        face_uvs_idx: For each corner its row of `uvs`, (F, FSz).
        face_normals_idx: For each corner its row of `normals`, (F, FSz).
        material_assignments: For each face its material, (F,); -1 is none.
        materials: A list of materials; in a batch a list of lists.
        vertex_normals: (V, 3).
        face_normals: Normals of corners, (F, FSz, 3).
        face_uvs: Texture coordinates of corners, (F, FSz, 2).
        face_vertices: Places of corners, (F, FSz, 3).
        vertex_tangents: (V, 3).
        vertex_colors: (V, any).
        vertex_features: (V, any).
        face_tangents: (F, FSz, 3).
        face_colors: (F, FSz, any).
        face_features: (F, FSz, any).
        transform: From the mesh's to the world's coordinates, (4, 4), or (B, 4, 4) in a batch; see `as_transformed`.
        strict_checks: Raise where a shape is not as it should be.
        unset_attributes_return_none: An attribute that is neither set nor computed is None; else AttributeError.
        allow_auto_compute: Compute attributes on access.

    Raises:
        ValueError: A shape is not as it should be.
    """

    Batching = _layout.Batching

    unset_attributes_return_none: bool
    allow_auto_compute: bool

    def __init__(
        self,
        vertices: Values,
        faces: Values,
        normals: Values = None,
        uvs: Values = None,
        face_uvs_idx: Values = None,
        face_normals_idx: Values = None,
        material_assignments: Values = None,
        materials: list[Any] | None = None,
        vertex_normals: Values = None,
        face_normals: Values = None,
        face_uvs: Values = None,
        face_vertices: Values = None,
        strict_checks: bool = True,
        unset_attributes_return_none: bool = True,
        allow_auto_compute: bool = True,
        **attributes: Values,
    ) -> None:
        self.__dict__["_batching"] = _layout.guess_batching(vertices, faces)
        self.unset_attributes_return_none = unset_attributes_return_none
        self.allow_auto_compute = allow_auto_compute
        for name in attributes:
            if name not in SHAPES:
                raise TypeError(f"SurfaceMesh() got an unexpected keyword argument {name!r}")
        named: dict[str, Any] = {
            "vertices": vertices, "faces": faces, "normals": normals, "uvs": uvs, "face_uvs_idx": face_uvs_idx,
            "face_normals_idx": face_normals_idx, "material_assignments": material_assignments,
            "vertex_normals": vertex_normals, "face_normals": face_normals, "face_uvs": face_uvs,
            "face_vertices": face_vertices, "materials": materials, **attributes,
        }  # fmt: skip
        for name, value in named.items():
            setattr(self, name, value)
        fault = self._fault() if strict_checks else None
        if fault is not None:
            raise ValueError(fault)

    # What there is, and whether it is as it should be

    @classmethod
    def class_tensor_attributes(cls) -> list[str]:
        """Names of the attributes that hold tensors."""
        return list(SHAPES)

    @classmethod
    def class_other_attributes(cls) -> list[str]:
        """Names of the other attributes: materials."""
        return ["materials"]

    @classmethod
    def supported_tensor_attributes(cls) -> list[str]:
        """Names of the attributes that hold tensors."""
        return cls.class_tensor_attributes()

    @staticmethod
    def computable_attribute_requirements() -> dict[str, list[list[str]]]:
        """What each computed attribute can be computed from: lists of names, the first that is to be had is taken."""
        return copy.deepcopy(_derived.REQUIREMENTS)

    @classmethod
    def attribute_info_string(cls, batching: _layout.Batching | str) -> str:
        """A line for each attribute with its type and shape in a batching."""
        batching = as_batching(batching)
        lines = [f"Expected SurfaceMesh contents for batching strategy {batching}"]
        for name in SHAPES:
            kind = f"(torch.{'Int' if name in WHOLE else 'Float'}Tensor)"
            items = batching == _layout.Batching.LIST and name != "transform"
            lines.append(
                f"{name:>20}: {'list of ' if items else ''}{kind:19} of shape {list(shape_in(batching, name))}"
            )
        return "\n".join([*lines, f"{'materials':>20}: non-tensor attribute"])

    def _fault(self) -> str | None:
        """What is wrong with the first attribute whose type or shape is not as it should be, or None."""
        batch: dict[str, int] = {}
        single: dict[int, dict[str, int]] = {}
        for name in self.get_attributes(only_tensors=True):
            value = self.__dict__[name]
            fault = _layout.shape_fault(value, name, self._batching, batch)
            if fault is None and isinstance(value, list | tuple):
                for i, item in enumerate(value):
                    sizes = single.setdefault(i, {})
                    fault = fault or _layout.tensor_fault(item, f"{name}[{i}]", SHAPES[name], sizes)
            elif fault is None:
                shape = shape_in(self._batching, name)
                if name == "transform" and value.dim() == 2:
                    shape = SHAPES[name]  # one for all meshes of a batch
                fault = _layout.tensor_fault(value, name, shape, batch)
            if fault is not None:
                return fault
        return None

    def check_sanity(self, log_error: bool = True) -> bool:
        """Whether types and shapes are as they should be.

        Args:
            log_error: Log what is wrong.
        """
        fault = self._fault()
        if fault is not None and log_error:
            _log.error(fault)
        return fault is None

    def is_triangular(self) -> bool:
        """Whether all faces are triangles."""
        faces = self.__dict__["faces"]
        return all(item.shape[-1] == 3 for item in (faces if isinstance(faces, list) else [faces]))

    # Reading and setting attributes

    def __getattr__(self, name: str) -> Any:
        if name not in SHAPES and name != "materials":
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        if self.__dict__.get("allow_auto_compute") and name in _derived.REQUIREMENTS:
            return self.get_or_compute_attribute(name)
        return self.get_attribute(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "batching":
            self.set_batching(value)
        elif value is None and (name in SHAPES or name == "materials"):
            self.__dict__.pop(name, None)
        else:
            super().__setattr__(name, value)

    def has_attribute(self, attr: str) -> bool:
        """Whether an attribute is set; nothing is computed."""
        return self.__dict__.get(attr) is not None and attr in [*SHAPES, "materials"]

    def get_attribute(self, attr: str) -> Any:
        """An attribute that is set; nothing is computed.

        Raises:
            AttributeError: There is none of this name, or it is not set and `unset_attributes_return_none` is off.
        """
        self.assert_supported(attr)
        value = self.__dict__.get(attr)
        if value is None and not self.unset_attributes_return_none:
            raise AttributeError(f"{type(self).__name__}: {attr} is not set")
        return value

    def get_or_compute_attribute(self, attr: str, should_cache: bool | None = None) -> Any:
        """An attribute, computed where it is not set and can be.

        Args:
            attr: Its name.
            should_cache: Keep it, and what it was computed from; None keeps it unless a gradient is needed.

        Raises:
            AttributeError: As `get_attribute`.
        """
        self.assert_supported(attr)
        value, _ = _derived.look_up(self, attr, should_cache)
        return self.get_attribute(attr) if value is None else value

    def has_or_can_compute_attribute(self, attr: str) -> bool:
        """Whether an attribute is set or can be computed, which is tried; nothing is kept."""
        return self.has_attribute(attr) or _derived.look_up(self, attr, False)[0] is not None

    def probably_can_compute_attribute(self, attr: str) -> bool:
        """Whether what an attribute is computed from is there or can be computed itself; nothing is tried."""
        return _derived.requirements_at_hand(self, attr) is not None

    def ensure_indexed_attribute(self, attr: str, should_cache: bool | None = None) -> tuple[Any, Any]:
        """`normals` or `uvs`, and the index into them, made from `face_normals` or `face_uvs` where they are not set.

        Args:
            attr: "normals" or "uvs".
            should_cache: Keep both; None keeps them unless a gradient is needed.

        Returns:
            Values and index, or None twice where there is nothing to make them from.

        Raises:
            AttributeError: Another name.
        """
        if attr not in _INDEXED:
            raise AttributeError(f"{attr!r} has no index; normals and uvs have")
        index_name, corner_name = _INDEXED[attr]
        if self.has_attribute(attr) and self.has_attribute(index_name):
            return self.__dict__[attr], self.__dict__[index_name]
        corners = self.__dict__.get(corner_name)
        if corners is None:
            return None, None
        values = apply_to_tensors(corners, lambda tensor: tensor.flatten(-3, -2))
        index = apply_to_tensors(corners, _rows_of_corners)
        if should_cache or (should_cache is None and not _derived.needs_grad(corners)):
            self.__dict__.update({attr: values, index_name: index})
        return values, index

    # Batching

    @property
    def batching(self) -> _layout.Batching:
        """How the meshes are held; setting it is `set_batching`."""
        return self._batching

    @property
    def _batching(self) -> _layout.Batching:
        return self.__dict__["_batching"]

    def __len__(self) -> int:
        return 1 if self._batching == self.Batching.NONE else len(self.__dict__["vertices"])

    def __getitem__(self, index: int) -> SurfaceMesh:
        """One mesh, in batching NONE, sharing tensors with this one."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"mesh {index} of {len(self)}")
        if self._batching == self.Batching.NONE:
            return self
        result = copy.copy(self)
        for name in self.get_attributes():
            value = self.__dict__[name]
            whole = (name == "faces" and self._batching == self.Batching.FIXED) or (
                name == "transform" and value.dim() == 2
            )
            result.__dict__[name] = value if whole else value[index]
        result.__dict__["_batching"] = self.Batching.NONE
        return result

    @staticmethod
    def convert_attribute_batching(
        attr: str, value: Any, from_batching: _layout.Batching, to_batching: _layout.Batching, batch_size: int = 1
    ) -> Any:
        """An attribute's value in another batching; see `set_batching`."""
        return _layout.convert(value, attr, as_batching(from_batching), as_batching(to_batching), batch_size)

    def getattr_batched(self, attr: str, batching: _layout.Batching | str) -> Any:
        """An attribute as it would be in another batching; the mesh stays as it is.

        Raises:
            ValueError: It cannot be in that batching.
        """
        value = getattr(self, attr)
        return None if value is None else _layout.convert(value, attr, self._batching, as_batching(batching), len(self))

    def to_batched(self) -> SurfaceMesh:
        """Change the batching to FIXED; returns the mesh itself."""
        return self.set_batching(self.Batching.FIXED)

    def set_batching(self, batching: _layout.Batching | str, skip_errors: bool = False) -> SurfaceMesh:
        """Change how the meshes are held: NONE to any, FIXED to LIST, LIST to FIXED where all sizes and faces agree.

        Args:
            batching: The batching wanted.
            skip_errors: Drop attributes that cannot be in it (never vertices and faces), with a warning.

        Returns:
            The mesh itself.

        Raises:
            ValueError: There is no such batching, or an attribute cannot be in it; nothing is changed.
        """
        target = as_batching(batching)
        converted = {}
        for name in self.get_attributes():
            try:
                converted[name] = _layout.convert(self.__dict__[name], name, self._batching, target, len(self))
            except ValueError as error:
                if not skip_errors or name in ("vertices", "faces"):
                    raise
                _log.warning("%s is dropped: %s", name, error)
                converted[name] = None
        for name, value in converted.items():
            setattr(self, name, value)
        self.__dict__["_batching"] = target
        return self

    @classmethod
    def cat(cls, meshes: Sequence[SurfaceMesh], fixed_topology: bool = True, skip_errors: bool = False) -> SurfaceMesh:
        """One batch of several meshes or batches.

        Attributes that only some of the meshes have are computed for the others, or left out; so are those of
        different sizes with `fixed_topology`, where indexed normals and texture coordinates become those of corners.

        Args:
            meshes: Meshes in any batching.
            fixed_topology: All have the same faces: the result is in FIXED, else in LIST.
            skip_errors: Leave out other attributes of different sizes instead of raising.

        Raises:
            ValueError: No meshes, or they cannot be in one batch.
        """
        return _joining.cat(cls, meshes, fixed_topology, skip_errors)

    @classmethod
    def flatten(cls, meshes: SurfaceMesh | Sequence[SurfaceMesh], group_materials_by_name: bool = False) -> SurfaceMesh:
        """One mesh in batching NONE of several meshes or batches, each moved by its transform.

        Attributes that only some of the meshes have are computed for the others, or left out.

        Args:
            meshes: Meshes in any batching.
            group_materials_by_name: Materials of one name become one.

        Raises:
            ValueError: No meshes, or their faces have different numbers of corners.
        """
        return _joining.flatten(cls, meshes, group_materials_by_name)

    def as_transformed(self) -> SurfaceMesh:
        """The mesh in world coordinates: itself where it has no transform, else a copy without one.

        Vertices are moved, normals and tangents turned and made unit; places of corners are computed again.
        """
        return _joining.as_transformed(self)

    # Copies on other devices, of other types

    def to(self, *args: Any, attributes: Sequence[str] | None = None, **kwargs: Any) -> SurfaceMesh:
        """A copy with tensors (and materials that can be moved) on a device, or of a type.

        Args:
            *args: As for `torch.Tensor.to`.
            attributes: Only these; None is all.
            **kwargs: As for `torch.Tensor.to`.
        """
        result = super().to(*args, attributes=attributes, **kwargs)
        if self.has_attribute("materials") and (attributes is None or "materials" in attributes):
            result.materials = _move(self.__dict__["materials"], args, kwargs)
        return result

    def float_tensors_to(self, float_type: torch.dtype) -> SurfaceMesh:
        """A copy with all tensors of floats of another type."""
        return self._construct_apply(lambda tensor: tensor.to(float_type) if tensor.is_floating_point() else tensor)

    # Text

    def describe_attribute(self, attr: str, print_stats: bool = False, detailed: bool = False) -> str:
        """Text on an attribute: its shape, type and device, or what it would be computed from; else empty."""
        self.assert_supported(attr)
        value = self.__dict__.get(attr)
        if value is not None:
            return described(value, attr, print_stats, detailed)
        ways = " or ".join(f"({', '.join(names)})" for names in _derived.REQUIREMENTS.get(attr, []))
        return f"{attr:>20}: if possible, computed on access from: {ways}" if ways else ""

    def to_string(self, print_stats: bool = False, detailed: bool = False) -> str:
        """Text on all attributes that are set, then on those that can be computed."""
        present = self.get_attributes()
        names = present + [name for name in _derived.REQUIREMENTS if name not in present]
        lines = [self.describe_attribute(name, print_stats, detailed) for name in names]
        return "\n".join([f"{type(self).__name__} object with batching strategy {self._batching}", *lines])

    def as_dict(self, only_tensors: bool = False) -> dict[str, Any]:
        """Attributes that are set, by name; without `only_tensors` also batching and settings."""
        result = super().as_dict(only_tensors)
        if not only_tensors:
            result.update(
                batching=self._batching,
                allow_auto_compute=self.allow_auto_compute,
                unset_attributes_return_none=self.unset_attributes_return_none,
            )
        return result


def _rows_of_corners(corners: torch.Tensor) -> torch.Tensor:
    shape = corners.shape[-3:-1]
    rows = torch.arange(shape[0] * shape[1], device=corners.device).reshape(shape)
    return rows.expand(corners.shape[:-1])


def _move(material: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if isinstance(material, list | tuple):
        return [_move(item, args, kwargs) for item in material]
    return material.to(*args, **kwargs) if hasattr(material, "to") else material
