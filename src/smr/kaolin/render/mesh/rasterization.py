"""`kaolin.render.mesh.rasterization`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ....ops.render.screen_space import rasterize as rasterize_in_image

BACKENDS = ("cuda", "nvdiffrast", "nvdiffrast_fwd")
"""Names that Kaolin has for its rasterizers. All mean the one here, on any device, with or without nvdiffrast."""


def check_backend(backend: str | None) -> None:
    """Raise ValueError at a name that Kaolin does not have."""
    if backend is not None and backend not in BACKENDS:
        raise ValueError(f'"{backend}" is not a valid backend, valid choices are: {list(BACKENDS)}')


def joined(features: torch.Tensor | Sequence[torch.Tensor]) -> tuple[torch.Tensor, list[int] | None]:
    """Features as one tensor, and the sizes to cut it at again where a list was given."""
    if isinstance(features, torch.Tensor):
        return features, None
    return torch.cat(list(features), dim=-1), [part.shape[-1] for part in features]


def cut(features: torch.Tensor, sizes: list[int] | None) -> torch.Tensor | tuple[torch.Tensor, ...]:
    """The undoing of `joined`."""
    return features if sizes is None else torch.split(features, sizes, dim=-1)


def area_epsilon(multiplier: float | int | None, eps: float | int | None) -> float:
    """What Kaolin adds to doubled areas of multiplied coordinates, for coordinates as they are."""
    return (1e-8 if eps is None else eps) / (1000.0 if multiplier is None else multiplier) ** 2


def rasterize(*args: Any, **kwargs: Any) -> Any:
    """Rasterize faces that are in the image, or a mesh seen by cameras; the arguments say which.

    `rasterize(height, width, face_vertices_z, face_vertices_image, face_features, valid_faces=None, multiplier=None,
    eps=None, backend="cuda")` is Kaolin's. Depth and features are linear in the image; the greatest z is seen, of
    equals the first face. Gradients reach `face_vertices_image` and `face_features` and are deterministic. On any
    device; `backend` may be any name that Kaolin has and changes nothing: nvdiffrast is not needed and not used.

    `rasterize(mesh, cameras, image_size=None)` gives fragments with `pix_to_face`, `zbuf` and `bary_coords` by the
    perspective-correct rasterizer of `smr.ops.render`.

    Returns:
        Features (B, H, W, D), a tuple of them where a list was given, and the face (B, H, W) int64, -1 for none.
        Or fragments.
    """
    first = args[0] if args else kwargs.get("mesh", kwargs.get("height"))
    if isinstance(first, (int, torch.Tensor)) or first is None:
        return _rasterize_faces(*args, **kwargs)
    from .fragments import rasterize_mesh

    return rasterize_mesh(*args, **kwargs)


def _rasterize_faces(
    height: int,
    width: int,
    face_vertices_z: torch.Tensor,
    face_vertices_image: torch.Tensor,
    face_features: torch.Tensor | Sequence[torch.Tensor],
    valid_faces: torch.Tensor | None = None,
    multiplier: float | int | None = None,
    eps: float | int | None = None,
    backend: str | None = "cuda",
) -> tuple[torch.Tensor | tuple[torch.Tensor, ...], torch.Tensor]:
    check_backend(backend)
    features, sizes = joined(face_features)
    found, face_idx = rasterize_in_image(
        int(height),
        int(width),
        face_vertices_z,
        face_vertices_image,
        features,
        valid_faces=valid_faces,
        eps=area_epsilon(multiplier, eps),
    )
    return cut(found, sizes), face_idx
