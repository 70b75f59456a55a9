"""What the rasterizer finds, and the checks that all of its operations share."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from ..tensors import INDICES, check_finite, check_indices, check_same_device, check_tensor

LARGEST = 2**31
"""Numbers that an array of the kernels can have."""


@dataclass(frozen=True)
class Fragments:
    """The surfaces behind each pixel's centre, the nearest first. -1 everywhere where there is none."""

    pix_to_face: Int64[Tensor, "B H W L"]
    """Index of the face, among those of its own mesh."""
    zbuf: Float[Tensor, "B H W L"]
    """Depth along the camera's z axis; differentiable."""
    bary_coords: Float[Tensor, "B H W L 3"]
    """Weights of the face's corners, perspective-correct: any quantity of the corners, weighted with them, is that of
    the surface; differentiable."""

    @property
    def mask(self) -> Tensor:
        """(B, H, W) bool: a pixel sees a face."""
        return self.pix_to_face[..., 0] >= 0


def check_batch(name: str, tensor: Tensor, tail: tuple[int | None, ...], batch: int | None = None) -> Tensor:
    """A tensor with a batch axis in front of `tail`, which is added where it is missing.

    Raises:
        TypeError: No tensor of floating-point numbers in single or double precision.
        ValueError: Another shape, or a batch that is neither 1 nor `batch`.
    """
    if isinstance(tensor, Tensor) and tensor.dim() == len(tail):
        tensor = tensor[None]
    check_tensor(name, tensor, (None, *tail))
    if batch is not None and tensor.shape[0] not in (1, batch):
        raise ValueError(f"{name} is a batch of {tensor.shape[0]}, and the others of {batch}")
    check_size(name, tensor.numel())
    return tensor


def check_size(name: str, numbers: int) -> None:
    """Raise ValueError where a tensor has 2^31 numbers or more."""
    if numbers >= LARGEST:
        raise ValueError(f"{name} has {numbers} numbers; at most 2^31 - 1 are supported, split the batch")


def check_faces(faces: Tensor, batch: int) -> tuple[Tensor, int]:
    """Faces as contiguous int32 rows, and their number a mesh: negative where each mesh has its own."""
    if not isinstance(faces, Tensor):
        raise TypeError(f"faces must be a torch tensor, not {type(faces).__name__}")
    check_tensor("faces", faces, (None, 3) if faces.dim() != 3 else (None, None, 3), INDICES)
    if faces.dim() == 3 and faces.shape[0] != batch:
        raise ValueError(f"faces are a batch of {faces.shape[0]}, and the vertices of {batch}")
    check_size("faces", faces.numel())
    if faces.dtype == torch.int64:
        # indices that do not fit stay out of range
        faces = faces.clamp(-1, LARGEST - 1).to(torch.int32)
    count = faces.shape[-2]
    own = faces.dim() == 3 and batch > 1
    return faces.reshape(-1, 3).contiguous(), -count if own else count


def check_surface(fragments: Fragments, faces: Tensor, vertices: Tensor, camera: Tensor) -> None:
    """Raise ValueError at the first fragment or face that leads to no vertex, and at values that are not finite.

    A GPU waits for the answer, so that `SMR_CHECKS=0` saves time.
    """
    check_finite("vertices", vertices)
    check_finite("camera", camera)
    check_indices("faces", faces, vertices.shape[-2])
    found = fragments.pix_to_face
    # -1 stands for no face; anything else below 0 too
    check_indices("fragments.pix_to_face", found.clamp_min(0), max(faces.shape[-2], 1), "faces")


def check_fragments(fragments: Fragments, **tensors: Tensor) -> tuple[int, ...]:
    """The shape (B, H, W, L); raises where it or the devices do not fit."""
    if not isinstance(fragments, Fragments):
        raise TypeError(f"fragments must be what rasterize returns, not {type(fragments).__name__}")
    check_tensor("fragments.pix_to_face", fragments.pix_to_face, (None,) * 4, (torch.int64,))
    shape = tuple(fragments.pix_to_face.shape)
    check_tensor("fragments.zbuf", fragments.zbuf, shape)
    check_tensor("fragments.bary_coords", fragments.bary_coords, (*shape, 3), (fragments.zbuf.dtype,))
    parts = {f"fragments.{name}": getattr(fragments, name) for name in ("pix_to_face", "zbuf", "bary_coords")}
    check_same_device(**parts, **tensors)
    return shape
