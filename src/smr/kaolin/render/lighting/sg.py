"""`kaolin.render.lighting.sg`: lighting by spherical gaussians, on any device and for any number of lobes.

A lobe is amplitude * exp(sharpness * (dot(direction, v) - 1)). Wang et al., All-Frequency Rendering of Dynamic,
Spatially-Varying Reflectance, 2009; the fitted irradiance is Hill's (2016).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

_PAIRS_AT_ONCE = 1 << 22


def _unit_products(
    direction: torch.Tensor, sharpness: torch.Tensor, other_direction: torch.Tensor, other_sharpness: torch.Tensor
) -> torch.Tensor:
    """Integrals (O, N) of products of lobes of amplitude 1."""
    axis = sharpness[:, None] * direction + other_sharpness[:, None, None] * other_direction[:, None]
    length = (axis * axis).sum(-1).clamp(min=1e-20).sqrt()
    fall = torch.exp(length - (sharpness + other_sharpness[:, None]))
    return 2.0 * math.pi * fall * -torch.expm1(-2.0 * length) / length


def unbatched_sg_inner_product(
    intensity: torch.Tensor,
    direction: torch.Tensor,
    sharpness: torch.Tensor,
    other_intensity: torch.Tensor,
    other_direction: torch.Tensor,
    other_sharpness: torch.Tensor,
) -> torch.Tensor:
    """Integrals over the sphere of products of N lobes with O others.

    Args:
        intensity: (N, 3) amplitudes.
        direction: (N, 3) axes.
        sharpness: (N,).
        other_intensity: (O, 3).
        other_direction: (O, 3).
        other_sharpness: (O,).

    Returns:
        (O, N, 3).
    """
    value = _unit_products(direction, sharpness, other_direction, other_sharpness)
    return value[..., None] * intensity * other_intensity[:, None]


def _reduced(
    intensity: torch.Tensor,
    direction: torch.Tensor,
    sharpness: torch.Tensor,
    other_intensity: torch.Tensor,
    other_direction: torch.Tensor,
    other_sharpness: torch.Tensor,
) -> torch.Tensor:
    return (_unit_products(direction, sharpness, other_direction, other_sharpness) @ intensity) * other_intensity


class _ReducedProduct(torch.autograd.Function):
    """A sum over N lobes for each of O others, some others at a time: memory does not grow with N times O."""

    @staticmethod
    def forward(ctx: Any, *lobes: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(*lobes)
        first, others = lobes[:3], lobes[3:]
        step = max(1, _PAIRS_AT_ONCE // max(1, len(lobes[0])))
        parts = [_reduced(*first, *(o[i : i + step] for o in others)) for i in range(0, len(others[0]), step)]
        return torch.cat(parts) if parts else torch.zeros_like(others[0])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        first, others = ctx.saved_tensors[:3], ctx.saved_tensors[3:]
        step = max(1, _PAIRS_AT_ONCE // max(1, len(first[0])))
        sums = [torch.zeros_like(part) for part in first]
        parts = [torch.zeros_like(part) for part in others]
        for i in range(0, len(others[0]), step):
            with torch.enable_grad():
                leaves = [p.detach().requires_grad_() for p in (*first, *(o[i : i + step] for o in others))]
                found = _reduced(*leaves)
            grads = torch.autograd.grad(found, leaves, grad[i : i + step])
            sums = [total + part for total, part in zip(sums, grads[:3], strict=True)]
            for whole, part in zip(parts, grads[3:], strict=True):
                whole[i : i + step] = part
        return (*sums, *parts)


def unbatched_reduced_sg_inner_product(
    intensity: torch.Tensor,
    direction: torch.Tensor,
    sharpness: torch.Tensor,
    other_intensity: torch.Tensor,
    other_direction: torch.Tensor,
    other_sharpness: torch.Tensor,
) -> torch.Tensor:
    """`unbatched_sg_inner_product` summed over the N lobes: (O, 3); memory does not grow with N times O."""
    lobes = (intensity, direction, sharpness, other_intensity, other_direction, other_sharpness)
    result: torch.Tensor = _ReducedProduct.apply(*lobes)
    return result


def sg_direction_from_azimuth_elevation(azimuth: Any, elevation: Any) -> torch.Tensor:
    """Unit directions (N, 3) in a world whose y is up.

    Args:
        azimuth: About the y axis, right-handed from x (towards -z), radians; a number or (N,).
        elevation: From the ground towards y, radians; a number or (N,).
    """
    azimuth, elevation = (
        torch.atleast_1d(torch.as_tensor(angle, dtype=None if torch.is_tensor(angle) else torch.float32))
        for angle in (azimuth, elevation)
    )
    azimuth, elevation = torch.broadcast_tensors(azimuth, elevation)
    flat = torch.cos(elevation)
    return torch.stack([torch.cos(azimuth) * flat, torch.sin(elevation), -torch.sin(azimuth) * flat], -1)


def sg_from_sun(
    direction: torch.Tensor, strength: torch.Tensor, angle: torch.Tensor, color: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Lobes of suns: they fall to one half where the sun's disc ends.

    Args:
        direction: (N, 3) towards the suns.
        strength: (N,) greatest amplitude.
        angle: (N,) angle that the disc spans, radians.
        color: (N, 3).

    Returns:
        Amplitude (N, 3), direction (N, 3) and sharpness (N,), always finite.
    """
    amplitude = strength[:, None] * color
    span = (torch.cos(angle / 2) - 1).clamp(max=-1e-7)  # a disc of no width would be infinitely sharp
    return amplitude, direction, torch.log(0.5 / strength) / span


def sg_distribution_term(
    direction: torch.Tensor, roughness: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A lobe like the GGX distribution of normals: amplitude (N, 3), direction (N, 3), sharpness (N,)."""
    m2 = roughness * roughness
    amplitude = (1.0 / (math.pi * m2))[..., None].expand(*m2.shape, 3)
    return amplitude, direction, 2.0 / m2


def sg_warp_distribution(
    amplitude: torch.Tensor, direction: torch.Tensor, sharpness: torch.Tensor, view: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A lobe of normals warped to one of directions of light, for directions (N, 3) from the surface to the eye."""
    cosine = (direction * view).sum(-1, keepdim=True)
    reflected = 2.0 * cosine * direction - view
    return amplitude, reflected, sharpness / (4.0 * cosine[..., 0].clamp(min=1e-4))


def fresnel(ldh: torch.Tensor, spec_albedo: torch.Tensor) -> torch.Tensor:
    """Schlick's Fresnel term (N, 3) for cosines (N,) between light and half vector."""
    return spec_albedo + (1.0 - spec_albedo) * ((1.0 - ldh) ** 5)[..., None]


def _visibility(m2: torch.Tensor, cosine: torch.Tensor) -> torch.Tensor:
    """One side of Smith's visibility for GGX."""
    return 1.0 / (cosine + torch.sqrt(m2 + (1.0 - m2) * cosine * cosine))


def sg_warp_specular_term(
    amplitude: torch.Tensor,
    direction: torch.Tensor,
    sharpness: torch.Tensor,
    normal: torch.Tensor,
    roughness: torch.Tensor,
    view: torch.Tensor,
    spec_albedo: torch.Tensor,
) -> torch.Tensor:
    """Specular light that P points send to the eye under N lobes of light.

    Args:
        amplitude: (N, 3).
        direction: (N, 3) towards the lights.
        sharpness: (N,).
        normal: (P, 3) unit normals.
        roughness: (P,).
        view: (P, 3) unit directions from the points to the eye.
        spec_albedo: (P, 3).

    Returns:
        (P, 3).
    """
    warped = sg_warp_distribution(*sg_distribution_term(normal, roughness), view)
    light = unbatched_reduced_sg_inner_product(amplitude, direction, sharpness, *warped)
    axis = warped[1]
    half = torch.nn.functional.normalize(axis + view, dim=-1)
    normal_light = (normal * axis).sum(-1).clamp(0.0, 1.0)
    normal_view = (normal * view).sum(-1).clamp(0.0, 1.0)
    light_half = (axis * half).sum(-1).clamp(0.0, 1.0)
    m2 = roughness * roughness
    scale = _visibility(m2, normal_light) * _visibility(m2, normal_view) * normal_light
    return (light * scale[..., None] * fresnel(light_half, spec_albedo)).clamp(min=0.0)


def cosine_lobe_sg(direction: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A lobe like a clamped cosine about directions (N, 3): amplitude (N, 3), direction, sharpness (N,)."""
    return torch.full_like(direction, 1.17), direction, torch.full_like(direction[..., 0], 2.133)


def approximate_sg_integral(amplitude: torch.Tensor, sharpness: torch.Tensor) -> torch.Tensor:
    """Integral of lobes (N, 3) over the sphere, without its exponentially small part."""
    return 2.0 * math.pi * amplitude / sharpness[..., None]


def sg_irradiance_fitted(
    amplitude: torch.Tensor, direction: torch.Tensor, sharpness: torch.Tensor, normal: torch.Tensor
) -> torch.Tensor:
    """Irradiance (P, N, 3) at normals (P, 3) under each of N lobes, by Hill's fit."""
    cosine = normal @ direction.T
    c0 = 0.36
    c1 = 1.0 / (4.0 * c0)
    eml = torch.exp(-sharpness)
    em2l = eml * eml
    inverse = 1.0 / sharpness
    scale = 1.0 + 2.0 * em2l - inverse
    bias = (eml - em2l) * inverse - em2l
    x = torch.sqrt((1.0 - scale).clamp(min=1e-12))
    x0 = c0 * cosine
    x1 = c1 * x
    n = x0 + x1
    fitted = torch.where(x0.abs() <= x1, n * n / x, cosine.clamp(0.0, 1.0))
    return (scale * fitted + bias)[..., None] * approximate_sg_integral(amplitude, sharpness)


def sg_diffuse_fitted(
    amplitude: torch.Tensor,
    direction: torch.Tensor,
    sharpness: torch.Tensor,
    normal: torch.Tensor,
    albedo: torch.Tensor,
) -> torch.Tensor:
    """Half the diffuse light (P, 3) that points of given albedo (P, 3) send back under N lobes, by Hill's fit.

    Half, because Kaolin's function gives half of it (its reference pictures show so) and programs have lights tuned to
    that; `sg_diffuse_inner_product` and `sg_irradiance_fitted` give the whole.
    """
    light = sg_irradiance_fitted(amplitude, direction, sharpness, normal).sum(1)
    return light.clamp(min=0.0) * albedo / (2.0 * math.pi)


def sg_irradiance_inner_product(
    amplitude: torch.Tensor, direction: torch.Tensor, sharpness: torch.Tensor, normal: torch.Tensor
) -> torch.Tensor:
    """Irradiance (P, 3) at normals (P, 3) under N lobes, as their product with a lobe like a cosine."""
    return unbatched_reduced_sg_inner_product(amplitude, direction, sharpness, *cosine_lobe_sg(normal)).clamp(min=0.0)


def sg_diffuse_inner_product(
    amplitude: torch.Tensor,
    direction: torch.Tensor,
    sharpness: torch.Tensor,
    normal: torch.Tensor,
    albedo: torch.Tensor,
) -> torch.Tensor:
    """Diffuse light (P, 3) that points of given albedo (P, 3) send back under N lobes, by products of lobes."""
    return sg_irradiance_inner_product(amplitude, direction, sharpness, normal) * albedo / math.pi


def _as_tensor(value: Any) -> torch.Tensor:
    return value if torch.is_tensor(value) else torch.tensor(value, dtype=torch.float32)


class SgLightingParameters:
    """N lobes of light.

    Attributes:
        amplitude: (N, 3).
        direction: (N, 3) unit vectors towards the lights.
        sharpness: (N,).
    """

    def __init__(
        self,
        amplitude: float | int | Sequence[Any] | torch.Tensor = 3.0,
        direction: Sequence[Any] | torch.Tensor = (1, 0.0, 0.0),
        sharpness: float | int | Sequence[Any] | torch.Tensor = 5.0,
    ) -> None:
        """Numbers, one lobe's values, or values for N lobes; single ones are repeated.

        Raises:
            ValueError: The numbers of lobes differ.
        """
        amplitude, direction, sharpness = (_as_tensor(value) for value in (amplitude, direction, sharpness))
        if not direction.is_floating_point():
            direction = direction.to(torch.float32)
        direction = torch.nn.functional.normalize(torch.atleast_2d(direction), dim=-1)
        if amplitude.dim() < 2:
            amplitude = amplitude.reshape(1, -1)
        sharpness = sharpness.reshape(-1)
        counts = {len(amplitude), len(direction), len(sharpness)} - {1}
        if len(counts) > 1:
            raise ValueError(
                f"{len(amplitude)} amplitudes, {len(direction)} directions and {len(sharpness)} sharpnesses: give as "
                "many of each, or one"
            )
        count = counts.pop() if counts else 1
        self.amplitude = amplitude.to(direction).expand(count, 3).contiguous()
        self.direction = direction.expand(count, 3).contiguous()
        self.sharpness = sharpness.to(direction).expand(count).contiguous()

    @classmethod
    def from_sun(
        cls,
        direction: Sequence[Any] | torch.Tensor,
        strength: float | int | Sequence[Any] | torch.Tensor = 3.0,
        angle: float | int | Sequence[Any] | torch.Tensor = math.pi / 4,
        color: Sequence[Any] | torch.Tensor | None = None,
    ) -> SgLightingParameters:
        """Lobes of suns; see `sg_from_sun`. Single values hold for all suns; the colour left out is white."""
        towards = torch.atleast_2d(_as_tensor(direction))
        count, device = len(towards), towards.device
        strength, angle = (_as_tensor(v).to(device).reshape(-1).expand(count) for v in (strength, angle))
        white = torch.ones((count, 3), dtype=towards.dtype, device=device)
        colors = white if color is None else torch.atleast_2d(_as_tensor(color)).to(device).expand(count, 3)
        return cls(*sg_from_sun(towards, strength, angle, colors))

    @classmethod
    def from_environment_map(cls, *args: Any, **kwargs: Any) -> SgLightingParameters:
        """Not available, in Kaolin neither."""
        raise NotImplementedError("fitting lobes to an environment map is not available")

    def to(self, *args: Any, **kwargs: Any) -> SgLightingParameters:
        """A copy whose tensors are moved as `torch.Tensor.to` does."""
        copy = type(self).__new__(type(self))
        for name, value in vars(self).items():
            setattr(copy, name, value.to(*args, **kwargs) if torch.is_tensor(value) else value)
        return copy

    def cuda(self, device: torch.device | str | int | None = None) -> SgLightingParameters:
        """A copy on a GPU."""
        return self.to(torch.device("cuda" if device is None else device))

    def cpu(self) -> SgLightingParameters:
        """A copy on the CPU."""
        return self.to("cpu")
