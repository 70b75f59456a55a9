"""`kaolin.io.utils`: images on disk, and what is done with meshes whose faces differ in size."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from ...atomic import atomic_path
from ...errors import SmrError
from ...formats.images import decode_texture


class NonHomogeneousMeshError(Exception):
    """A mesh whose faces differ in size, where all must have one size."""

    def __init__(self, message: str) -> None:
        """Say which mesh."""
        super().__init__(message)
        self.message = message


def heterogeneous_mesh_handler_skip(*args: Any, **kwargs: Any) -> None:
    """Leave such a mesh out: the reader returns None."""


def mesh_handler_naive_triangulate(
    vertices: torch.Tensor,
    face_vertex_counts: torch.Tensor,
    *features: torch.Tensor | None,
    face_assignments: dict[str, torch.Tensor] | None = None,
) -> tuple[Any, ...]:
    """Cut every face into a fan around its first corner.

    Args:
        vertices: Positions (V, 3); they stay.
        face_vertex_counts: Corners of each face (F,).
        *features: A value for each corner, one after another (sum of counts,), or None.
        face_assignments: Lists of faces by name: indices (n,), or ranges (n, 2) from a first face up to, not with, a
            last; they are told in triangles.

    Returns:
        Vertices, the new counts (all 3), the features as (T, 3), and, where given, the assignments.
    """
    counts = face_vertex_counts.long()
    triangles = (counts - 2).clamp(min=0)
    first_triangle = triangles.cumsum(0) - triangles
    face = torch.repeat_interleave(torch.arange(len(counts)), triangles)
    step = torch.arange(len(face)) - first_triangle[face]
    start = (counts.cumsum(0) - counts)[face]
    corners = torch.stack([start, start + step + 1, start + step + 2], dim=1)
    result: list[Any] = [vertices, torch.full((len(face),), 3, dtype=face_vertex_counts.dtype)]
    result += [None if feature is None else feature.reshape(-1)[corners] for feature in features]
    if face_assignments is None:
        return tuple(result)
    edges = torch.cat([first_triangle, triangles.sum().reshape(1)])
    renamed = {}
    for name, faces in face_assignments.items():
        if faces.dim() == 2:
            renamed[name] = edges[faces]
        else:
            count = triangles[faces]
            offset = torch.arange(int(count.sum())) - torch.repeat_interleave(count.cumsum(0) - count, count)
            renamed[name] = torch.repeat_interleave(first_triangle[faces], count) + offset
    return (*result, renamed)


heterogeneous_mesh_handler_naive_homogenize = mesh_handler_naive_triangulate


def read_image_from_buffer(buffer: bytes | io.BufferedIOBase) -> torch.Tensor:
    """An image file's bytes as a float tensor (H, W, C) in 0..1.

    Raises:
        SmrError: It is no image, or larger than a texture may be.
    """
    data = buffer if isinstance(buffer, bytes) else buffer.read()
    return torch.from_numpy(_pixels(data, "the image")).float() * (1.0 / 255.0)


def read_image(path: str | os.PathLike[str]) -> torch.Tensor:
    """An image file as a float tensor (H, W, C) in 0..1; C is 1 for grey images.

    Raises:
        FileNotFoundError: It is not there.
        SmrError: It is no image, or larger than a texture may be.
    """
    return torch.from_numpy(_pixels(Path(path).read_bytes(), str(path))).float() * (1.0 / 255.0)


def _pixels(data: bytes, name: str) -> np.ndarray:
    """8-bit pixels; grey stays one channel."""
    try:
        with Image.open(io.BytesIO(data)) as image:
            grey = image.mode in ("1", "L")
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise SmrError(f"{name} is not an image that can be read: {error}", "Use PNG or JPEG.") from error
    pixels = decode_texture(data, name)
    return np.array(pixels[..., :1] if grey else pixels)


def write_image(img_tensor: torch.Tensor, path: str | os.PathLike[str]) -> None:
    """Write an image whole or not at all; missing folders are made.

    Args:
        img_tensor: (H, W), (H, W, C), (C, H, W), or one of these in a batch of one; uint8, bool, or float in 0..1.
        path: The ending chooses the format.

    Raises:
        ValueError: The shape is none of these, or the format cannot hold the channels.
    """
    image = img_tensor.detach().cpu()
    if image.dim() == 4 and len(image) == 1:
        image = image[0]
    if image.dim() == 2:
        image = image[..., None]
    if image.dim() != 3:
        raise ValueError(f"img_tensor must be an image, not of the shape {tuple(img_tensor.shape)}")
    if image.shape[-1] not in (1, 3, 4) and image.shape[0] in (1, 3, 4):
        image = image.permute(1, 2, 0)
    if image.dtype == torch.bool:
        image = image.to(torch.uint8) * 255
    elif image.is_floating_point():
        image = (image * 255.0).round().clamp(0, 255).to(torch.uint8)
    pixels = image.numpy()
    shown = Image.fromarray(np.ascontiguousarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels))
    target = Path(path)
    kind = Image.registered_extensions().get(target.suffix.lower())
    if kind is None:
        raise ValueError(f"{target} has an ending that is no image format's")
    buffer = io.BytesIO()
    try:
        shown.save(buffer, kind)
    except OSError as error:
        raise ValueError(f"{target}: {error}") from error
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(target) as temporary:
        temporary.write_bytes(buffer.getvalue())


class TextureExporter:
    """Writes textures into a folder below another, and says what they are called from there."""

    def __init__(
        self,
        base_dir: str | os.PathLike[str],
        relative_dir: str = "",
        file_prefix: str = "",
        image_extension: str = ".png",
        overwrite_files: bool = False,
    ) -> None:
        """Nothing is made before the first texture; `base_dir` must be there by then.

        Args:
            base_dir: Folder that the returned names are relative to.
            relative_dir: Folder below it for the images.
            file_prefix: Put before every name.
            image_extension: The format where a call does not say one.
            overwrite_files: Write over an image of the same name instead of choosing a free one.
        """
        self.base_dir = os.fspath(base_dir)
        self.relative_dir = relative_dir
        self.file_prefix = file_prefix
        self.image_extension = image_extension
        self.overwrite_files = overwrite_files

    def __call__(self, image: torch.Tensor, file_basename: str, extension: str | None = None) -> str:
        """Write an image; returns its path relative to `base_dir`.

        Raises:
            ValueError: `base_dir` is not there, or the format cannot hold the image.
        """
        if not os.path.isdir(self.base_dir):
            raise ValueError(f"the folder {self.base_dir} is not there")
        ending = extension or self.image_extension
        name = f"{self.file_prefix}{file_basename}"
        path = os.path.join(self.relative_dir, name + ending)
        count = 0
        while not self.overwrite_files and os.path.exists(os.path.join(self.base_dir, path)):
            path = os.path.join(self.relative_dir, f"{name}_{count}{ending}")
            count += 1
        write_image(image, os.path.join(self.base_dir, path))
        return path
