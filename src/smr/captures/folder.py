"""A capture's folder as readers see it: names listed once, paths that stay inside, files of bounded size."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from ..errors import SmrError

IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".ppm", ".pgm", ".bmp", ".webp", ".heic", ".heif", ".hif")
DEPTH_ENDINGS = (".png", ".pgm", ".tif", ".tiff", ".exr", ".npy")
TEXT_LIMIT = 512 << 20
"""Bytes; a text file of a capture that is larger is refused (10 000 frames of `transforms.json` are 20 MB)."""

_DIGITS = re.compile(r"(\d+)")


def natural_key(name: str) -> list[str]:
    """Sort key by which `2.png` comes before `10.png`."""
    return [part.zfill(24) if part.isdigit() else part for part in _DIGITS.split(name)]


@dataclass(frozen=True)
class Folder:
    """The folder of a capture; what was listed once is not listed again."""

    root: Path
    _listed: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False, compare=False)

    def names(self, sub: str = "") -> tuple[str, ...]:
        """Names in the folder or a folder below it, in natural order; none where it is not there."""
        if sub not in self._listed:
            try:
                found = os.listdir(self.root / sub)
            except (FileNotFoundError, NotADirectoryError):
                found = []
            except OSError as error:
                raise SmrError(
                    f"{self.root / sub} cannot be listed: {error.strerror}.", "Check its permissions."
                ) from None
            visible = [name for name in found if not name.startswith(".")]  # ._x.png of macOS archives among them
            self._listed[sub] = tuple(sorted(visible, key=natural_key))
        return self._listed[sub]

    def has(self, *names: str) -> bool:
        """Whether all of these, files or folders directly in this folder, are there."""
        return all(name in self.names() for name in names)

    def first(self, *names: str) -> str | None:
        """The first of these names that is there."""
        return next((name for name in names if name in self.names()), None)

    def files(self, sub: str, endings: tuple[str, ...]) -> dict[str, str]:
        """Stem to relative path of the files in `sub` with one of these endings, in natural order."""
        prefix = f"{sub}/" if sub else ""
        return {os.path.splitext(name)[0]: prefix + name for name in self.names(sub) if name.lower().endswith(endings)}

    def inside(self, name: str, said_by: str) -> Path:
        """Path of a file that another file names.

        Raises:
            SmrError: The name leads out of the capture's folder.
        """
        root = os.path.abspath(self.root)
        joined = os.path.normpath(os.path.join(root, name.replace("\\", "/")))
        try:
            below = os.path.commonpath([root, joined]) == root
        except ValueError:  # another drive
            below = False
        if "\0" in name or not below:
            raise SmrError(
                f"{self.root / said_by} names the file {name!r}, which lies outside the capture's folder {self.root}.",
                "Put the file into the folder and name it by a relative path; files elsewhere are not read.",
            )
        return self.root / os.path.relpath(joined, root)

    def text(self, name: str) -> str:
        """A text file, whole.

        Raises:
            SmrError: It cannot be read, is too large, or is no text.
        """
        return read_text(self.root / name)

    def json(self, name: str) -> Any:
        """A JSON file, parsed.

        Raises:
            SmrError: It cannot be read or is no JSON.
        """
        return parse_json(self.text(name), self.root / name)

    def numbers(self, name: str) -> Float[np.ndarray, " N"]:
        """All numbers of a text file in a row; `inf` and `nan` are kept, `#` starts a comment.

        Raises:
            SmrError: Something in it is no number.
        """
        lines = (line.partition("#")[0] for line in self.text(name).splitlines())
        return parse_numbers(" ".join(lines), self.root / name)


def read_text(path: Path) -> str:
    """A text file, whole; bounded.

    Raises:
        SmrError: It cannot be read, is too large, or is no text.
    """
    try:
        if path.exists() and not path.is_file():
            raise SmrError(f"{path} is no ordinary file.", "Put the file itself there; pipes and folders are not read.")
        if path.stat().st_size > TEXT_LIMIT:
            raise SmrError(
                f"{path} has {path.stat().st_size >> 20} MB of text.", "Split the capture; this is no sane size."
            )
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise SmrError(f"{path} is no text file.", "Export the capture again; the file is damaged.") from None
    except OSError as error:
        raise SmrError(f"{path} cannot be read: {error.strerror}.", "Check that it is there and readable.") from None


def parse_json(text: str, path: Path) -> Any:
    """The JSON document `text` that stood in `path`.

    Raises:
        SmrError: It is no JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SmrError(
            f"{path} is not valid JSON: {error}.", "Export the capture again; the file is damaged."
        ) from None


def parse_numbers(text: str, path: Path) -> Float[np.ndarray, " N"]:
    """Numbers separated by spaces or commas.

    Raises:
        SmrError: Something is no number.
    """
    words = text.replace(",", " ").split()
    try:
        return np.array([float(word) for word in words], dtype=np.float64)
    except ValueError as error:
        raise SmrError(f"{path} holds something that is no number: {error}.", "Export the capture again.") from None
