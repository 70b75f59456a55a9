"""`kaolin.render.lighting.sh`: lighting by the first nine real spherical harmonics.

Ramamoorthi and Hanrahan, An Efficient Representation for Irradiance Environment Maps, 2001.
"""

from __future__ import annotations

import math

import torch

_BAND_0 = 0.28209479177  # sqrt(1 / (4 pi))
_BAND_1 = 0.4886025119  # sqrt(3 / (4 pi))
_BAND_2 = 1.0925484305920792  # sqrt(15 / (4 pi))


def project_onto_sh9(directions: torch.Tensor | list[float]) -> torch.Tensor:
    """The nine harmonics at directions.

    Args:
        directions: (..., 3) unit vectors, or a list of three numbers.

    Returns:
        (..., 9).

    Raises:
        TypeError: Neither a tensor nor a list.
        ValueError: The last size is not 3.
    """
    if isinstance(directions, (list, tuple)):
        directions = torch.tensor(directions, dtype=torch.get_default_dtype())
    if not isinstance(directions, torch.Tensor):
        raise TypeError(f"directions is a {type(directions).__name__}; it must be a list or a torch.Tensor")
    if directions.shape[-1:] != (3,):
        raise ValueError(f"directions must have the shape (..., 3), not {tuple(directions.shape)}")
    x, y, z = directions.unbind(-1)
    bands = [
        torch.full_like(x, _BAND_0),
        -_BAND_1 * y,
        _BAND_1 * z,
        -_BAND_1 * x,
        _BAND_2 * (x * y),
        -_BAND_2 * (y * z),
        0.94617469575 * (z * z) - 0.31539156525,
        -_BAND_2 * x * z,
        0.5462742152960396 * (x * x - y * y),
    ]
    return torch.stack(bands, -1)


def sh9_irradiance(lights: torch.Tensor, normals: torch.Tensor) -> torch.Tensor:
    """Irradiance at surfaces under lights given by nine harmonics.

    Args:
        lights: (9,), or (S, 9) for S scenes.
        normals: (..., 3) unit vectors, or (S, ..., 3).

    Returns:
        (...) or (S, ...).
    """
    scale = normals.new_tensor([math.pi] + [2.0 * math.pi / 3.0] * 3 + [math.pi / 4.0] * 5)
    bands = project_onto_sh9(normals) * scale
    if lights.dim() == 1:
        return torch.sum(bands * lights, dim=-1)
    if lights.shape[0] != normals.shape[0]:
        raise ValueError(f"lights are of {lights.shape[0]} scenes, normals of {normals.shape[0]}")
    flat = bands.reshape(lights.shape[0], -1, 9)
    return torch.sum(flat * lights[:, None], dim=-1).reshape(normals.shape[:-1])


def sh9_diffuse(directions: torch.Tensor, normals: torch.Tensor, albedo: torch.Tensor) -> torch.Tensor:
    """Light that diffuse surfaces send back under lights from given directions.

    Args:
        directions: (3,), or (S, 3) for S scenes; unit vectors towards the lights.
        normals: (..., 3) or (S, ..., 3) unit vectors.
        albedo: Of the normals' shape.

    Returns:
        Of the albedo's shape.
    """
    return albedo * sh9_irradiance(project_onto_sh9(directions), normals)[..., None]
