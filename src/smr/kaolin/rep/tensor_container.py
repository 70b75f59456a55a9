"""The base of classes that hold tensors: moving, copying, describing and checking them."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from ..utils.testing import tensor_info

_log = logging.getLogger(__name__)
_Self = TypeVar("_Self", bound="TensorContainerBase")


def apply_to_tensors(value: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The value with the function applied to its tensors: a tensor, or lists, tuples and dicts of them."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, dict):
        return {key: apply_to_tensors(item, function) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(apply_to_tensors(item, function) for item in value)
    return value


class TensorContainerBase:
    """A class whose attributes are tensors (or lists or dicts of tensors) and others, named by class methods."""

    @classmethod
    def class_tensor_attributes(cls) -> list[str]:
        """Names of the attributes that hold tensors."""
        raise NotImplementedError(f"{cls.__name__} must define class_tensor_attributes")

    @classmethod
    def class_other_attributes(cls) -> list[str]:
        """Names of the other attributes."""
        raise NotImplementedError(f"{cls.__name__} must define class_other_attributes")

    def check_tensor_attribute(self, attr: str, log_error: bool = False) -> bool:
        """Whether the value of a tensor attribute is as it should be."""
        raise NotImplementedError(f"{type(self).__name__} must define check_tensor_attribute")

    def check_other_attribute(self, attr: str, log_error: bool = False) -> bool:
        """Whether the value of another attribute is as it should be."""
        raise NotImplementedError(f"{type(self).__name__} must define check_other_attribute")

    @classmethod
    def assert_supported(cls, attr: str) -> None:
        """Raise AttributeError where the class has no attribute of this name."""
        if attr not in cls.class_tensor_attributes() and attr not in cls.class_other_attributes():
            raise AttributeError(f"{cls.__name__} has no attribute {attr!r}")

    def get_attributes(self, only_tensors: bool = False) -> list[str]:
        """Names of the attributes that are set, in the class's order."""
        names = list(self.class_tensor_attributes())
        if not only_tensors:
            names += self.class_other_attributes()
        return [name for name in names if self.__dict__.get(name) is not None]

    def as_dict(self, only_tensors: bool = False) -> dict[str, Any]:
        """The attributes that are set, by name; the values are the same objects."""
        return {name: self.__dict__[name] for name in self.get_attributes(only_tensors)}

    def _construct_apply(
        self: _Self, function: Callable[[torch.Tensor], torch.Tensor], attributes: Sequence[str] | None = None
    ) -> _Self:
        """A shallow copy with the function applied to the tensors of these attributes (None: of all)."""
        result = copy.copy(self)
        for name in self.get_attributes(only_tensors=True):
            if attributes is None or name in attributes:
                result.__dict__[name] = apply_to_tensors(self.__dict__[name], function)
        return result

    def to(self: _Self, *args: Any, attributes: Sequence[str] | None = None, **kwargs: Any) -> _Self:
        """A copy with tensors on a device or of a type.

        Args:
            *args: As for `torch.Tensor.to`.
            attributes: Only these; None is all.
            **kwargs: As for `torch.Tensor.to`.
        """
        return self._construct_apply(lambda tensor: tensor.to(*args, **kwargs), attributes)

    def cuda(self: _Self, device: Any = None, attributes: Sequence[str] | None = None, **kwargs: Any) -> _Self:
        """A copy with tensors on a GPU; `attributes` (None: all) can also be the first argument."""
        if isinstance(device, list | tuple):
            device, attributes = None, device
        return self.to("cuda" if device is None else device, attributes=attributes, **kwargs)

    def cpu(self: _Self, attributes: Sequence[str] | None = None) -> _Self:
        """A copy with tensors on the CPU."""
        return self.to("cpu", attributes=attributes)

    def detach(self: _Self, attributes: Sequence[str] | None = None) -> _Self:
        """A copy with tensors without gradient."""
        return self._construct_apply(torch.Tensor.detach, attributes)

    def describe_attribute(self, attr: str, print_stats: bool = False, detailed: bool = False) -> str:
        """Text on an attribute: its shape, type and device, a line for each tensor; empty where it is not set.

        Args:
            attr: Its name.
            print_stats: With smallest, mean and largest value.
            detailed: With the values.

        Raises:
            AttributeError: The class has no such attribute.
        """
        self.assert_supported(attr)
        value = self.__dict__.get(attr)
        if value is None:
            return ""
        if isinstance(value, dict):
            parts = (described(item, f"{attr}[{key}]", print_stats, detailed) for key, item in value.items())
            return "\n".join(parts)
        return described(value, attr, print_stats, detailed)

    def check_sanity(self, log_error: bool = True) -> bool:
        """Whether all attributes are as they should be.

        Args:
            log_error: Log what is wrong.
        """
        tensors = all(self.check_tensor_attribute(name, log_error) for name in self.class_tensor_attributes())
        return tensors and all(self.check_other_attribute(name, log_error) for name in self.class_other_attributes())

    def to_string(self, print_stats: bool = False, detailed: bool = False) -> str:
        """Text on all attributes that are set; see `describe_attribute`."""
        parts = [self.describe_attribute(name, print_stats, detailed) for name in self.get_attributes()]
        return "\n".join([f"{type(self).__name__} object", *parts])

    def __str__(self) -> str:
        return self.to_string()

    def __repr__(self) -> str:
        return self.to_string()


def described(value: Any, name: str, print_stats: bool = False, detailed: bool = False) -> str:
    """Text on a value: a tensor's shape, type and device, a list item by item, else how it prints."""
    head = f"{name:>20}"
    if isinstance(value, torch.Tensor):
        return tensor_info(value, head, print_stats, detailed)
    if not isinstance(value, list):
        return f"{head}: {value}"
    if not any(isinstance(item, torch.Tensor | list) for item in value):
        return f"{head}: list of length {len(value)}"
    indent = " " * 22
    lines = [
        tensor_info(item, f"{indent}{i}", print_stats, detailed)
        if isinstance(item, torch.Tensor)
        else f"{indent}{i}: list of length {len(item)}"
        for i, item in enumerate(value)
    ]
    return "\n".join([f"{head}: [", *lines, f"{indent}]"])
