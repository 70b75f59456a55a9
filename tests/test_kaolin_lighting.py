"""`smr.kaolin.render.lighting`: integrals by quadrature, spherical harmonics, lights as they may be given."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import smr.kaolin as kal  # noqa: E402
from smr.kaolin.render.lighting import sg, sh  # noqa: E402


def sphere(count: int = 200) -> tuple[torch.Tensor, torch.Tensor]:
    """Directions and weights of a quadrature over the sphere."""
    z, weight = np.polynomial.legendre.leggauss(count)
    angle = np.arange(2 * count) * math.pi / count
    flat = np.sqrt(1 - z**2)
    directions = np.stack(
        [flat[:, None] * np.cos(angle), flat[:, None] * np.sin(angle), np.broadcast_to(z[:, None], (count, 2 * count))],
        -1,
    )
    weights = np.broadcast_to(weight[:, None] * math.pi / count, (count, 2 * count))
    return torch.tensor(directions.reshape(-1, 3)), torch.tensor(weights.reshape(-1).copy())


def lobes(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    draw = {"generator": generator, "dtype": torch.float64}
    direction = torch.nn.functional.normalize(torch.randn((count, 3), **draw), dim=-1)
    return torch.rand((count, 3), **draw), direction, torch.rand(count, **draw) * 10 + 0.1


def values(lobe: tuple[torch.Tensor, ...], directions: torch.Tensor) -> torch.Tensor:
    amplitude, direction, sharpness = lobe
    return amplitude * torch.exp(sharpness * (directions @ direction.T - 1))[..., None]


def test_products_of_lobes_are_their_integrals() -> None:
    directions, weights = sphere()
    mine, others = lobes(4, 0), lobes(3, 1)
    expected = torch.einsum("s,sna,soa->ona", weights, values(mine, directions), values(others, directions))

    torch.testing.assert_close(sg.unbatched_sg_inner_product(*mine, *others), expected, rtol=1e-9, atol=1e-9)


def test_the_reduced_product_and_its_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = [tensor.requires_grad_() for tensor in (*lobes(5, 2), *lobes(7, 3))]
    expected = sg.unbatched_sg_inner_product(*tensors).sum(1)
    for at_once in (1 << 22, 10):  # in one piece, two others at a time
        monkeypatch.setattr(sg, "_PAIRS_AT_ONCE", at_once)
        torch.testing.assert_close(sg.unbatched_reduced_sg_inner_product(*tensors), expected)
    assert torch.autograd.gradcheck(sg.unbatched_reduced_sg_inner_product, tensors, fast_mode=True)
    nothing = [tensor[:0].detach() for tensor in tensors[3:]]
    assert sg.unbatched_reduced_sg_inner_product(*tensors[:3], *nothing).shape == (0, 3)


def test_diffuse_light_is_that_of_a_clamped_cosine() -> None:
    directions, weights = sphere()
    lights, normals = lobes(3, 4), lobes(20, 5)[1]
    cosine = (directions @ normals.T).clamp(min=0)
    expected = torch.einsum("s,sna,sp->pa", weights, values(lights, directions), cosine) / math.pi
    white = torch.ones_like(normals)

    by_product = sg.sg_diffuse_inner_product(*lights, normals, white)
    fitted = 2 * sg.sg_diffuse_fitted(*lights, normals, white)  # Kaolin's gives one half of it

    np.testing.assert_allclose(by_product, expected, rtol=0, atol=0.1 * float(expected.max()))
    np.testing.assert_allclose(fitted, expected, rtol=0, atol=0.12 * float(expected.max()))


def test_specular_light_comes_back_where_it_should() -> None:
    """A sharp light straight above: the eye above sees its reflection, the eye at the side does not."""
    light = torch.full((1, 3), 2.0), torch.tensor([[0.0, 0.0, 1.0]]), torch.tensor([200.0])
    normal, rough = torch.tensor([[0.0, 0.0, 1.0]] * 2), torch.tensor([0.3, 0.3])
    view = torch.tensor([[0.0, 0.0, 1.0], [0.9, 0.0, 0.43589]])
    seen = sg.sg_warp_specular_term(*light, normal, rough, view, torch.full((2, 3), 0.04))
    assert seen[0, 0] > 50 * seen[1, 0] >= 0


def test_harmonics_are_orthonormal() -> None:
    directions, weights = sphere(40)
    bands = sh.project_onto_sh9(directions)
    torch.testing.assert_close(
        (bands * weights[:, None]).T @ bands, torch.eye(9, dtype=torch.float64), rtol=0, atol=1e-9
    )


def test_irradiance_under_constant_light_is_pi() -> None:
    lights = torch.zeros(9, dtype=torch.float64)
    lights[0] = math.sqrt(4 * math.pi)
    normals = lobes(5, 6)[1]
    np.testing.assert_allclose(sh.sh9_irradiance(lights, normals), math.pi, rtol=1e-9)
    scenes = torch.stack([lights, 2 * lights])
    both = sh.sh9_irradiance(scenes, normals.expand(2, 5, 3))
    np.testing.assert_allclose(both[1], 2 * math.pi, rtol=1e-9)
    shaded = kal.render.mesh.spherical_harmonic_lighting(normals[None, None], lights[None])
    np.testing.assert_allclose(shaded, 1.0, rtol=1e-9)
    assert sh.project_onto_sh9([0.0, 0.0, 1.0]).shape == (9,)


def test_lights_as_they_may_be_given() -> None:
    make = kal.render.lighting.SgLightingParameters
    light = make(amplitude=4, direction=[[2.0, 0, 0], [0, 3.0, 0]])
    assert light.amplitude.tolist() == [[4, 4, 4]] * 2
    assert light.direction.tolist() == [[1, 0, 0], [0, 1, 0]]
    assert light.sharpness.tolist() == [5, 5]
    assert make(direction=torch.ones(1, 3, dtype=torch.float64)).to(torch.float32).direction.dtype == torch.float32
    sun = make.from_sun([0.0, 1.0, 0.0], strength=2.0, angle=0.0)
    assert torch.isfinite(sun.sharpness).all()
    up = kal.render.lighting.sg_direction_from_azimuth_elevation(0.3, math.pi / 2)
    np.testing.assert_allclose(up, [[0, 1, 0]], atol=1e-7)


def test_wrong_calls_are_named() -> None:
    make = kal.render.lighting.SgLightingParameters
    with pytest.raises(ValueError, match="2 amplitudes, 3 directions and 1 sharpnesses"):
        make(amplitude=torch.ones(2, 3), direction=torch.ones(3, 3))
    with pytest.raises(ValueError, match=r"directions must have the shape \(\.\.\., 3\), not \(2, 2\)"):
        sh.project_onto_sh9(torch.ones(2, 2))
    with pytest.raises(ValueError, match="lights are of 2 scenes, normals of 3"):
        sh.sh9_irradiance(torch.ones(2, 9), torch.ones(3, 4, 3))
    with pytest.raises(NotImplementedError, match="fitting lobes to an environment map is not available"):
        make.from_environment_map()
