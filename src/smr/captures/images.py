"""Image files as arrays: photos as RGB bytes, depth images as the numbers that are stored."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from jaxtyping import Bool, Shaped, UInt8
from PIL import Image, UnidentifiedImageError

from ..errors import SmrError
from .exr import read_exr, read_exr_size
from .lzfse import read_lzfse_image

PIXEL_LIMIT = 300_000_000
"""Pixels; an image with more is refused before memory is taken for it."""
Image.MAX_IMAGE_PIXELS = PIXEL_LIMIT  # Pillow would warn of every photo of 90 megapixels
HEIF_ENDINGS = (".heic", ".heif", ".hif")
FILE_LIMIT = 4 << 30

_BAD_IMAGE = (OSError, ValueError, SyntaxError, EOFError, KeyError, IndexError, TypeError, OverflowError, MemoryError)
"""What Pillow raises for damaged files."""
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""How pixels are turned for EXIF's orientation."""


def damaged(path: Path, why: object) -> SmrError:
    """The error of a file that cannot be decoded."""
    return SmrError(f"{path} cannot be decoded: {why}.", "Copy or export the file again, or remove it and its frame.")


def _refuse_pipe(path: Path) -> None:
    """Folders, pipes and devices: to open a pipe is to wait without end."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise damaged(path, "it is no ordinary file")


def _open(path: Path) -> Image.Image:
    _refuse_pipe(path)
    if path.suffix.lower() in HEIF_ENDINGS:
        _know_heif(path)
    try:
        image = Image.open(path)
    except FileNotFoundError:
        raise SmrError(f"{path} is not there.", "Copy the capture again, with all its files.") from None
    except UnidentifiedImageError:
        raise damaged(
            path, "it is empty" if path.stat().st_size == 0 else "it is no image that is known here"
        ) from None
    except (Image.DecompressionBombError, *_BAD_IMAGE) as error:
        raise damaged(path, error) from None
    if image.width * image.height > PIXEL_LIMIT:
        raise damaged(path, f"its header says {image.width} x {image.height} pixels, more than is sane")
    return image


def _know_heif(path: Path) -> None:
    """Let Pillow open HEIC files.

    Raises:
        SmrError: What it needs for that is not installed.
    """
    try:
        import pillow_heif
    except ImportError:
        raise SmrError(
            f"{path} is HEIC, which needs pillow-heif to be decoded.",
            "Install it: pip install 'smr3d[photos]' (or: pip install pillow-heif); or convert the photos to JPEG.",
        ) from None
    pillow_heif.register_heif_opener()


def open_header(path: Path) -> Image.Image:
    """An image of which only the header is read.

    Raises:
        SmrError: The file is missing, no image, or HEIC where nothing decodes it.
    """
    return _open(path)


def read_photo(path: Path, *, orientation: int = 1, shrink: int = 1) -> UInt8[np.ndarray, "h w 3"]:
    """An image as RGB, 8 bits each.

    Args:
        path: The file.
        orientation: EXIF's number of how to turn the stored pixels; 1 leaves them as they are.
        shrink: Side of the squares of pixels that are averaged to one: 1, 2, 4 or 8.

    Raises:
        SmrError: The file is missing, truncated or no image.
    """
    with _open(path) as image:
        whole = max(image.size)
        try:
            if shrink > 1:  # a JPEG is decoded smaller at once, by a power of two
                image.draft(None, (max(image.width // shrink, 1), max(image.height // shrink, 1)))
                shrink = round(shrink * max(image.size) / whole)
            if image.mode.startswith("I") or image.mode == "F":
                grey = np.asarray(image).astype(np.float64)
                top = 65535.0 if image.mode.startswith("I") else max(float(grey.max(initial=0.0)), 1e-30)
                image = Image.fromarray((np.clip(grey / top, 0, 1) * 255 + 0.5).astype(np.uint8))
            color = image if image.mode == "RGB" else image.convert("RGB")
            return np.asarray(_shown(color, orientation, shrink))
        except _BAD_IMAGE as error:
            raise damaged(path, error) from None


def _shown(image: Image.Image, orientation: int, shrink: int) -> Image.Image:
    """The image, smaller and turned."""
    if shrink > 1:
        image = image.reduce(shrink)
    return image.transpose(_TURNS[orientation]) if orientation in _TURNS else image


def shown_size(size: tuple[int, int], orientation: int, shrink: int) -> tuple[int, int]:
    """Width and height of stored pixels after they are turned and made smaller."""
    width, height = (-(-side // shrink) for side in size)
    return (height, width) if orientation >= 5 else (width, height)


def read_mask(path: Path, *, orientation: int = 1) -> Bool[np.ndarray, "h w"]:
    """A mask: True where the image is not 0; of an image with an alpha channel, where that is not 0.

    Args:
        path: The file.
        orientation: EXIF's number of how to turn the stored pixels.

    Raises:
        SmrError: The file is missing, truncated or no image.
    """
    with _open(path) as image:
        try:
            bands = image.getbands()
            alpha = image.getchannel("A") if "A" in bands else image.convert("L") if len(bands) > 1 else image
            return np.asarray(_shown(alpha, orientation, 1)) != 0
        except _BAD_IMAGE as error:
            raise damaged(path, error) from None


def read_depth_image(path: Path, size: tuple[int, int] | None = None) -> Shaped[np.ndarray, "h w"]:
    """A depth image with the numbers it stores: unsigned integers or floats, not scaled.

    Args:
        path: PNG, PGM, TIFF, EXR, NPY, or Record3D's `.depth`.
        size: Width and height, for files that do not say it.

    Raises:
        SmrError: The file is missing, truncated, no image, or has more than one channel.
    """
    ending = path.suffix.lower()
    if ending == ".exr":
        return read_exr(path)
    if ending == ".npy":
        return _read_npy(path)
    if ending == ".pgm":
        return _read_pgm(path)
    if ending == ".depth":
        return read_lzfse_image(path, size, np.dtype("<f4"))
    with _open(path) as image:
        if len(image.getbands()) != 1 or image.mode == "P":
            raise SmrError(
                f"{path} has mode {image.mode}, not one channel of depth: a picture of depth, for people.",
                "Export depth as 16-bit PNG, float TIFF, EXR or NPY.",
            )
        try:
            stored = np.asarray(image)
        except _BAD_IMAGE as error:
            raise damaged(path, error) from None
    return stored.astype(stored.dtype.newbyteorder("="), copy=False)


def image_size(path: Path) -> tuple[int, int]:
    """Width and height, from the file's header only.

    Raises:
        SmrError: The file is missing or no image.
    """
    ending = path.suffix.lower()
    _refuse_pipe(path)
    if ending == ".exr":
        return read_exr_size(path)
    if ending == ".npy":
        height, width = _map_npy(path).shape
        return width, height
    with _open(path) as image:
        return image.size


def first_image(paths: Iterable[Path | None]) -> Path | None:
    """The first of these images whose header can be read; None where there are none.

    Raises:
        SmrError: There are images, and none of the first few can be read.
    """
    error: SmrError | None = None
    for path in islice((path for path in paths if path is not None), 32):
        try:
            image_size(path)
        except SmrError as unreadable:
            error = error or unreadable
        else:
            return path
    if error is not None:
        raise error
    return None


def stores_metres(path: Path) -> bool:
    """Whether the file holds floating point numbers, which are metres by custom; from its header only."""
    ending = path.suffix.lower()
    if ending == ".exr":
        return True
    if ending == ".npy":
        return bool(_map_npy(path).dtype.kind == "f")
    with _open(path) as image:
        return image.mode == "F"


def stores_8_bits(path: Path) -> bool:
    """Whether the depth image has only 256 steps; from its header only."""
    ending = path.suffix.lower()
    if ending == ".exr":
        return False
    if ending == ".npy":
        return _map_npy(path).dtype.itemsize == 1
    if ending == ".pgm":
        return _read_pgm(path).dtype.itemsize == 1
    with _open(path) as image:
        return image.mode in ("L", "1")


def has_alpha(path: Path) -> bool:
    """Whether a photo has an alpha channel, which then is its mask; from its header only."""
    with _open(path) as image:
        return "A" in image.getbands()


def is_whole(path: Path) -> bool:
    """Whether the file is there and ends as its format must; only a look at the tail, so not a proof."""
    ending = path.suffix.lower()
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 64, 0))
            tail = file.read(64)
    except OSError:
        return False
    if ending == ".png":
        return b"IEND" in tail
    if ending in (".jpg", ".jpeg"):
        return b"\xff\xd9" in tail
    return size > 0


def _map_npy(path: Path) -> Any:
    try:
        stored = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise SmrError(f"{path} is not there.", "Copy the capture again, with all its files.") from None
    except (*_BAD_IMAGE, TokenError) as error:  # NumPy parses the header as Python
        raise damaged(path, error) from None
    if isinstance(stored, np.ndarray) and stored.ndim == 3 and 1 in (stored.shape[0], stored.shape[2]):
        stored = stored.squeeze(0 if stored.shape[0] == 1 else 2)
    if not isinstance(stored, np.ndarray) or stored.ndim != 2 or stored.dtype.kind not in "uif":
        raise damaged(path, "it holds no two-dimensional array of numbers")
    if stored.size > PIXEL_LIMIT:
        raise damaged(path, f"it has {stored.size} values, more than is sane")
    return stored


def _read_npy(path: Path) -> np.ndarray:
    stored = np.array(_map_npy(path))
    return stored.astype(stored.dtype.newbyteorder("="), copy=False)


def _read_pgm(path: Path) -> np.ndarray:
    """Portable grey map, binary (P5) or text (P2); two bytes are big endian. Pillow would stretch the values."""
    try:
        if path.stat().st_size > FILE_LIMIT:
            raise damaged(path, "it is larger than 4 GB")
        content = path.read_bytes()
    except OSError as error:
        raise damaged(path, error.strerror) from None
    words: list[bytes] = []
    at = 0
    while len(words) < 4 and at < len(content):  # magic, width, height, largest value; # starts a comment
        if content[at : at + 1].isspace():
            at += 1
        elif content[at : at + 1] == b"#":
            at = (content.find(b"\n", at) + 1) or len(content)
        else:
            end = next((i for i in range(at, min(at + 32, len(content))) if content[i : i + 1].isspace()), at + 32)
            words.append(content[at:end])
            at = end
    try:
        magic, width, height, top = words[0], int(words[1]), int(words[2]), int(words[3])
    except (ValueError, IndexError):
        raise damaged(path, "its header is no PGM header") from None
    if magic not in (b"P5", b"P2") or width <= 0 or height <= 0 or width * height > PIXEL_LIMIT or not 0 < top < 65536:
        raise damaged(path, f"its header is no sane PGM header ({b' '.join(words)[:40]!r})")
    if magic == b"P2":
        values = np.array(content[at:].split()[: width * height], dtype=np.uint16)
    else:
        kind = np.dtype(">u2" if top > 255 else "u1")
        body = io.BytesIO(content[at + 1 :]).read(width * height * kind.itemsize)
        values = np.frombuffer(body[: len(body) // kind.itemsize * kind.itemsize], kind)
    if values.size != width * height:
        raise damaged(path, f"it is truncated: {values.size} of {width * height} values")
    native = values.reshape(height, width)
    return native.astype(native.dtype.newbyteorder("="), copy=False)
