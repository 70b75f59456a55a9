"""`kaolin.render.materials`: materials in the terms of UsdPreviewSurface."""

from __future__ import annotations

import copy
import random
from typing import Any, ClassVar

import torch

_COLORS = ("diffuse_color", "specular_color")
_VALUES = (
    "diffuse_color",
    "roughness_value",
    "metallic_value",
    "clearcoat_value",
    "clearcoat_roughness_value",
    "opacity_value",
    "opacity_threshold",
    "ior_value",
    "specular_color",
    "displacement_value",
    "transmittance_value",
)
_MAPS = (
    "diffuse",
    "roughness",
    "metallic",
    "clearcoat",
    "clearcoat_roughness",
    "opacity",
    "ior",
    "specular",
    "normals",
    "displacement",
    "transmittance",
)
_THREE_CHANNELS = ("diffuse", "specular", "normals")
_TEXTURES = tuple(f"{name}_texture" for name in _MAPS)
_COLORSPACES = tuple(f"{name}_colorspace" for name in _MAPS)
COLORSPACES = ("auto", "raw", "sRGB")
"""What a colour space may be called."""


class Material:
    """A material with a name and the name of its shader."""

    classname: ClassVar[str] = "material"
    kinds: ClassVar[dict[str, type[Material]]] = {}

    def __init__(self, name: str = "", shader_name: str = "") -> None:
        """Only names; what a material looks like is said by its kinds."""
        self.material_name = name
        self.shader_name = shader_name

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Make a kind with a `classname` of its own known to `from_dict`."""
        super().__init_subclass__(**kwargs)
        if "classname" in vars(cls):
            Material.kinds[cls.classname] = cls

    def as_dict(self) -> dict[str, Any]:
        """What is set, by name, and which kind of material it is as `classname`."""
        return {"classname": self.classname, "material_name": self.material_name, "shader_name": self.shader_name}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Material:
        """The material that `as_dict` described; tensors are shared.

        Raises:
            ValueError: The kind is not known.
        """
        values = dict(values)
        kind = values.pop("classname", cls.classname)
        if cls is Material and kind in Material.kinds:
            return Material.kinds[kind].from_dict(values)
        if cls is not Material and kind == cls.classname:
            return cls(**values)
        raise ValueError(f"classname {kind!r} is none of {sorted(Material.kinds)}")


def _as_values(name: str, value: Any) -> torch.Tensor | None:
    """A colour as (3,), a number as (1,), both float; a texture as it is."""
    if value is None:
        return None
    if not isinstance(value, torch.Tensor):
        value = torch.tensor(value, dtype=torch.float32)
    if name in _VALUES and value.dim() == 0:
        value = value.reshape(1)
    if name in _COLORS and value.shape[-1] != 3:
        raise ValueError(f"{name} must have three numbers, not the shape {tuple(value.shape)}")
    result: torch.Tensor = value
    return result


def _is_chw(texture: torch.Tensor) -> bool:
    return texture.shape[0] in (1, 3, 4) and texture.shape[-1] not in (1, 3, 4)


class PBRMaterial(Material):
    """A material for physically based rendering; every attribute may be None.

    Values are tensors of shape (1,), colours of shape (3,) in 0..1. Textures are (H, W, C) after an import; `chw()`
    gives (C, H, W). The names are those of UsdPreviewSurface, see `supported_tensor_attributes()`.
    """

    classname: ClassVar[str] = "pbr"

    diffuse_color: torch.Tensor | None
    specular_color: torch.Tensor | None
    normals_texture: torch.Tensor | None

    def __init__(
        self,
        diffuse_color: Any = None,
        roughness_value: Any = None,
        metallic_value: Any = None,
        clearcoat_value: Any = None,
        clearcoat_roughness_value: Any = None,
        opacity_value: Any = None,
        opacity_threshold: Any = None,
        ior_value: Any = None,
        specular_color: Any = None,
        displacement_value: Any = None,
        transmittance_value: Any = None,
        diffuse_texture: torch.Tensor | None = None,
        roughness_texture: torch.Tensor | None = None,
        metallic_texture: torch.Tensor | None = None,
        clearcoat_texture: torch.Tensor | None = None,
        clearcoat_roughness_texture: torch.Tensor | None = None,
        opacity_texture: torch.Tensor | None = None,
        ior_texture: torch.Tensor | None = None,
        specular_texture: torch.Tensor | None = None,
        normals_texture: torch.Tensor | None = None,
        displacement_texture: torch.Tensor | None = None,
        transmittance_texture: torch.Tensor | None = None,
        is_specular_workflow: bool = False,
        material_name: str = "",
        shader_name: str = "UsdPreviewSurface",
        **colorspaces: str,
    ) -> None:
        """Values may be numbers or sequences; `<map>_colorspace` says "auto", "raw" or "sRGB" of a texture.

        Raises:
            TypeError: A name is not known.
            ValueError: A colour has not three numbers, or a colour space is not known.
        """
        given = dict(locals())
        super().__init__(material_name, shader_name)
        self.is_specular_workflow = is_specular_workflow
        for name in (*_VALUES, *_TEXTURES):
            setattr(self, name, _as_values(name, given[name]))
        for name in _COLORSPACES:
            space = colorspaces.pop(name, "auto")
            if space not in COLORSPACES:
                raise ValueError(f"{name} must be one of {COLORSPACES}, not {space!r}")
            setattr(self, name, space)
        if colorspaces:
            raise TypeError(f"a PBRMaterial has no {', '.join(sorted(colorspaces))}")

    @classmethod
    def supported_texture_attributes(cls) -> list[str]:
        """Names of the textures."""
        return list(_TEXTURES)

    @classmethod
    def supported_tensor_attributes(cls) -> list[str]:
        """Names of values and textures."""
        return [*_VALUES, *_TEXTURES]

    def get_attributes(self, only_tensors: bool = False) -> list[str]:
        """Names of what is set."""
        tensors = [name for name in self.supported_tensor_attributes() if getattr(self, name, None) is not None]
        if only_tensors:
            return tensors
        return ["material_name", "shader_name", *tensors, *_COLORSPACES, "is_specular_workflow"]

    def as_dict(self, only_tensors: bool = False) -> dict[str, Any]:
        """What is set, by name; tensors are shared."""
        values = {name: getattr(self, name) for name in self.get_attributes(only_tensors)}
        return values if only_tensors else {"classname": self.classname, **values}

    def _changed(self, names: tuple[str, ...] | list[str], change: Any) -> PBRMaterial:
        result = copy.copy(self)
        for name in names:
            value = getattr(self, name)
            if value is not None:
                setattr(result, name, change(value))
        return result

    def to(self, *args: Any, attributes: list[str] | None = None, **kwargs: Any) -> PBRMaterial:
        """A copy whose tensors (all, or those named) are moved as `torch.Tensor.to` does; a device None keeps them."""
        if args and args[0] is None:
            args = args[1:]
        names = self.supported_tensor_attributes() if attributes is None else attributes
        return self._changed(names, lambda value: value.to(*args, **kwargs))

    def cuda(
        self,
        device: torch.device | str | int | None = None,
        non_blocking: bool = False,
        attributes: list[str] | None = None,
    ) -> PBRMaterial:
        """A copy on a GPU."""
        return self.to(
            torch.device("cuda" if device is None else device), non_blocking=non_blocking, attributes=attributes
        )

    def cpu(self, attributes: list[str] | None = None) -> PBRMaterial:
        """A copy on the CPU."""
        return self.to("cpu", attributes=attributes)

    def contiguous(self) -> PBRMaterial:
        """A copy whose tensors are contiguous."""
        return self._changed(self.supported_tensor_attributes(), lambda value: value.contiguous())

    def hwc(self) -> PBRMaterial:
        """A copy whose textures are (H, W, C); see `chw` for which are turned."""
        return self._changed(_TEXTURES, lambda texture: texture.permute(1, 2, 0) if _is_chw(texture) else texture)

    def chw(self) -> PBRMaterial:
        """A copy whose textures are (C, H, W).

        A texture is taken to be so already where its first size is 1, 3 or 4 and its last is not.
        """
        return self._changed(_TEXTURES, lambda texture: texture if _is_chw(texture) else texture.permute(2, 0, 1))

    def describe_attribute(self, name: str, print_stats: bool = False, detailed: bool = False) -> str:
        """One line about an attribute."""
        value = getattr(self, name)
        line = f"{name:>33}: "
        if not isinstance(value, torch.Tensor):
            return f"{line}{value}"
        line += f"{list(value.shape)} ({value.dtype})[{value.device}]"
        if print_stats and value.numel():
            numbers = value.detach().double()
            line += f" - [min {numbers.min():0.4f}, max {numbers.max():0.4f}, mean {numbers.mean():0.4f}]"
        if detailed or value.numel() <= 3:
            line += f" {value.detach().cpu()}"
        return line

    def to_string(self, print_stats: bool = False, detailed: bool = False) -> str:
        """What is set, a line for each attribute; `detailed` shows colour spaces and the tensors' numbers."""
        names = ["material_name", "shader_name", *self.get_attributes(only_tensors=True)]
        if detailed:
            names += [*_COLORSPACES, "is_specular_workflow"]
        lines = [self.describe_attribute(name, print_stats, detailed) for name in names]
        return "\n".join(["PBRMaterial object with", *lines])

    def __str__(self) -> str:
        """What is set."""
        return self.to_string()

    def __repr__(self) -> str:
        """What is set."""
        return self.to_string()

    def write_to_usd(self, file_path: Any, scene_path: str, **kwargs: Any) -> Any:
        """Write the material to a USD file or stage; see `kaolin.io.usd.export_material`."""
        from ...io.usd.materials import export_material

        return export_material(self, file_path, scene_path, **kwargs)

    def read_from_usd(self, file_path: Any, scene_path: str, **kwargs: Any) -> PBRMaterial:
        """Take over a material of a USD file or stage; see `kaolin.io.usd.import_material`."""
        from ...io.usd.materials import import_material

        self.__dict__.update(import_material(file_path, scene_path, **kwargs).__dict__)
        return self


def random_material_values(device: torch.device | str | None = None) -> dict[str, Any]:
    """Random arguments of a PBRMaterial: every value, and the workflow."""
    values: dict[str, Any] = {name: torch.rand(3 if name in _COLORS else 1, device=device or "cpu") for name in _VALUES}
    values["is_specular_workflow"] = random.random() > 0.5
    return values


def random_material_textures(device: torch.device | str | None = None) -> dict[str, torch.Tensor]:
    """Random arguments of a PBRMaterial: every texture, (H, W, C)."""
    return {
        f"{name}_texture": torch.rand((32, 64, 3 if name in _THREE_CHANNELS else 1), device=device or "cpu")
        for name in _MAPS
    }


def random_material_colorspaces() -> dict[str, str]:
    """Random arguments of a PBRMaterial: the colour space of every texture."""
    return {name: random.choice(COLORSPACES) for name in _COLORSPACES}
