"""Texture images: encoded for files, and decoded from untrusted ones."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from ..errors import SmrError
from ..records import Finding, Material
from .colors import LINEAR_FROM_BYTE, linear_from_srgb, srgb_bytes

Pixels = UInt8[np.ndarray, "h w c"]

MAX_PIXELS = 16_384 * 8_192
_PNG_LEVEL = 4  # levels above cost twice the time for 2 percent of photographs' size


def encode_texture(texture: Pixels, jpeg_quality: int | None) -> tuple[bytes, str]:
    """The image as a file's bytes and its ending: PNG, or JPEG where asked for and the image has no opacity."""
    buffer = io.BytesIO()
    image = Image.fromarray(np.ascontiguousarray(texture))
    if jpeg_quality is None or texture.shape[2] != 3:
        image.save(buffer, "PNG", compress_level=_PNG_LEVEL)
        return buffer.getvalue(), ".png"
    image.save(buffer, "JPEG", quality=jpeg_quality, subsampling=0 if jpeg_quality >= 90 else 2, optimize=True)
    return buffer.getvalue(), ".jpg"


@dataclass
class TextureReader:
    """Decodes the textures of one mesh file; what cannot be read becomes a finding. Bounds their size altogether."""

    findings: list[Finding]
    remaining: int = MAX_PIXELS
    """Pixels that may still be decoded."""

    def decode(self, data: bytes, name: str) -> Pixels | None:
        """The pixels of an image file's bytes; None where they cannot be read."""
        try:
            pixels = decode_texture(data, name, self.remaining)
        except SmrError as error:
            self.findings.append(Finding("warning", error.cause, error.cure))
            return None
        self.remaining -= pixels.shape[0] * pixels.shape[1]
        return pixels

    def open(self, path: Path) -> Pixels | None:
        """The pixels of an image file."""
        try:
            return self.decode(path.read_bytes(), path.name)
        except OSError as error:
            self.findings.append(Finding("warning", f"The texture {path.name} cannot be read: {error.strerror}."))
            return None


def decode_texture(data: bytes, name: str, limit: int = MAX_PIXELS) -> Pixels:
    """The pixels of an image file's bytes; three channels, four where it has opacity.

    Raises:
        SmrError: It is no image of a known kind, damaged, or has more than `limit` pixels.
    """
    cure = "Check that image, or make it smaller."
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the limit below is ours
            with Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "WEBP", "BMP", "TGA", "TIFF", "GIF")) as image:
                width, height = image.size
                if width * height > limit:
                    raise SmrError(f"The texture {name} is {width}×{height}; 134 megapixels a mesh are read.", cure)
                alpha = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
                return np.asarray(image.convert("RGBA" if alpha else "RGB"))
    except (Image.DecompressionBombError, OSError, ValueError, SyntaxError, MemoryError, EOFError, IndexError) as error:
        raise SmrError(f"The texture {name} cannot be read: {error}.", cure) from error


def opacity_mode(material: Material) -> str:
    """`OPAQUE`, `MASK` (each texel is there or not) or `BLEND`, as glTF calls them."""
    if material.base_color[3] < 1.0:
        return "BLEND"
    if material.texture is None or material.texture.shape[2] < 4:
        return "OPAQUE"
    alpha = material.texture[..., 3]
    if (alpha == 255).all():
        return "OPAQUE"
    return "MASK" if ((alpha == 0) | (alpha == 255)).all() else "BLEND"


def flattened_texture(material: Material) -> Pixels:
    """The material as an image alone, for formats that know no base colour: the product of both in linear light."""
    factor = np.clip(np.array(material.base_color), 0.0, 1.0)
    if material.texture is None:
        pixel = np.round(factor[:3] * 255).astype(np.uint8)
        return np.tile(pixel, (4, 4, 1))
    if (factor == 1.0).all():
        return material.texture
    table = srgb_bytes(LINEAR_FROM_BYTE[:, None] * linear_from_srgb(factor[:3]))  # a column a channel
    image = material.texture.copy()
    for channel in range(3):
        image[..., channel] = table[image[..., channel], channel]
    return image
