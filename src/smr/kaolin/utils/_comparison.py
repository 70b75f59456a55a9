"""Comparisons for tests: nested containers, tensors, images, files."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from numbers import Integral, Number
from pathlib import Path
from typing import Any

import numpy as np
import torch


def _tensors_equal(
    elem: torch.Tensor, other: torch.Tensor, approximate: bool, ignore_device: bool, allclose_args: dict[str, Any]
) -> bool:
    if ignore_device:
        elem, other = elem.cpu(), other.cpu()
    if elem.shape != other.shape or elem.dtype != other.dtype:
        return False
    return torch.allclose(elem, other, **allclose_args) if approximate else torch.equal(elem, other)


def _numbers_equal(elem: Any, other: Any, approximate: bool, allclose_args: dict[str, Any]) -> bool:
    if isinstance(elem, Integral | np.bool_) and isinstance(other, Integral | np.bool_) and not approximate:
        return bool(elem == other)
    tolerance = allclose_args if approximate else {"rtol": 1e-6, "atol": 0.0}
    return bool(np.isclose(elem, other, **tolerance))


def _pairs(elem: Any, other: Any) -> list[tuple[str, Any, Any]] | None:
    """The parts of two containers by name, or None where they do not have the same parts."""
    if isinstance(elem, Mapping):
        same = isinstance(other, Mapping) and elem.keys() == other.keys()
        return [(f"[{key!r}]", elem[key], other[key]) for key in elem] if same else None
    if isinstance(elem, list | tuple):
        same = isinstance(other, list | tuple) and len(elem) == len(other)
        return [(f"[{i}]", a, b) for i, (a, b) in enumerate(zip(elem, other, strict=True))] if same else None
    if type(elem) is not type(other):
        return None
    return _pairs(elem.as_dict(), other.as_dict()) if hasattr(elem, "as_dict") else _pairs(vars(elem), vars(other))


def _is_container(value: Any) -> bool:
    if isinstance(value, Mapping | list | tuple):
        return True
    return hasattr(value, "__dict__") and not isinstance(value, type) and type(value).__eq__ is object.__eq__


def contained_torch_equal(
    elem: Any,
    other: Any,
    approximate: bool = False,
    print_error_context: str | None = None,
    ignore_device: bool = False,
    **allclose_args: Any,
) -> bool:
    """Whether two values are the same all the way down: tensors, numbers, text, lists, tuples, dicts, objects.

    Args:
        elem: One.
        other: The other.
        approximate: Floats need only be close, as `torch.allclose` has it.
        print_error_context: Print where the first difference is, beginning with this name; None prints nothing.
        ignore_device: Tensors on different devices are compared on the CPU (else they raise RuntimeError).
        **allclose_args: Tolerances for `torch.allclose`.
    """
    if isinstance(elem, np.ndarray) and isinstance(other, np.ndarray):
        elem, other = torch.as_tensor(elem), torch.as_tensor(other)
    if isinstance(elem, torch.Tensor):
        both = isinstance(other, torch.Tensor)
        equal = both and _tensors_equal(elem, other, approximate, ignore_device, allclose_args)
    elif isinstance(elem, Number) and isinstance(other, Number):
        equal = _numbers_equal(elem, other, approximate, allclose_args)
    elif _is_container(elem):
        pairs = _pairs(elem, other)
        for name, one, two in pairs or []:
            context = None if print_error_context is None else print_error_context + name
            if not contained_torch_equal(one, two, approximate, context, ignore_device, **allclose_args):
                return False
        equal = pairs is not None
    else:
        equal = bool(elem == other)
    if not equal and print_error_context is not None:
        sys.stdout.write(f"{print_error_context}: not equal: {elem!s:.200} and {other!s:.200}\n")
    return equal


def check_allclose(
    tensor: torch.Tensor, other: torch.Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> None:
    """Raise where two tensors, broadcast, are not close, saying how many values differ and by how much at most.

    Args:
        tensor: One.
        other: The other.
        rtol: Relative tolerance.
        atol: Absolute tolerance.
        equal_nan: NaN equals NaN.

    Raises:
        AssertionError: They are not close, or of another type or device.
        RuntimeError: Their shapes cannot be broadcast.
    """
    tensor, other = torch.broadcast_tensors(tensor, other)
    torch.testing.assert_close(tensor, other, rtol=rtol, atol=atol, equal_nan=equal_nan)


def assert_images_close(
    im0: torch.Tensor,
    im1: torch.Tensor,
    pixel_disagreement_threshold: float = 0.03,
    max_percent_disagreeing_pixels: int | float = 3,
    check_range: bool = True,
    do_resize: bool = True,
) -> None:
    """Raise where two images differ in too many pixels.

    Args:
        im0: (H, W, C), values from 0 to 1.
        im1: Likewise; resized to the first one's size where that differs.
        pixel_disagreement_threshold: A pixel differs where a channel differs by more.
        max_percent_disagreeing_pixels: So many may differ.
        check_range: Check that values are on a scale from 0 to 1 (not 255): none is below -1 or above 2.
        do_resize: Resize; else another size is a difference.

    Raises:
        AssertionError: They differ, or values are out of range.
    """
    im0, im1 = im0.detach().float().cpu(), im1.detach().float().cpu()
    if do_resize and im0.shape[:2] != im1.shape[:2]:
        channels_first = im1.permute(2, 0, 1).unsqueeze(0)
        resized = torch.nn.functional.interpolate(channels_first, size=im0.shape[:2], mode="area")
        im1 = resized.squeeze(0).permute(1, 2, 0)
    if im0.shape != im1.shape:
        raise AssertionError(f"images have the shapes {tuple(im0.shape)} and {tuple(im1.shape)}")
    for name, image in (("first", im0), ("second", im1)):
        if check_range and image.numel() and (float(image.min()) < -1 or float(image.max()) > 2):
            raise AssertionError(f"the {name} image has values from {image.min()} to {image.max()}, should be 0 to 1")
    differs = ((im0 - im1).abs() > pixel_disagreement_threshold).any(dim=-1)
    percent = 100 * float(differs.float().mean())
    if percent > max_percent_disagreeing_pixels:
        raise AssertionError(
            f"{percent:.2f} % of the pixels differ by more than {pixel_disagreement_threshold}; "
            f"at most {max_percent_disagreeing_pixels} % may"
        )


def file_contents_equal(file1: str | Path, file2: str | Path, exclude_pattern: str | None = None) -> bool:
    """Whether two text files have the same lines, but for empty ones and white space around a line.

    Args:
        file1: One.
        file2: The other.
        exclude_pattern: Lines in which this regular expression is found are left out.
    """

    def lines(path: str | Path) -> list[str]:
        stripped = (line.strip() for line in Path(path).read_text(encoding="utf-8").splitlines())
        return [line for line in stripped if line and not (exclude_pattern and re.search(exclude_pattern, line))]

    return lines(file1) == lines(file2)
