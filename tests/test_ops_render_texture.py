from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from smr.ops.render import interpolate, mipmaps, rasterize, screen_derivatives, texture  # noqa: E402

WRAPS = ("repeat", "clamp", "mirror", "zero")


def numbers(*shape, seed=0, scale=1.0):
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("wrap", WRAPS)
def test_agrees_with_plain_torch(device, monkeypatch, wrap):
    for filtering, mips, own in itertools.product(("nearest", "bilinear"), (False, True), (False, True)):
        results = []
        for kernels in ("warp", "torch"):
            monkeypatch.setenv("SMR_KERNELS", kernels)
            image = numbers(2 if own else 1, 13, 9, 3).to(device).requires_grad_()
            uv = numbers(2, 40, 5, 2, seed=1, scale=1.2).to(device).requires_grad_()
            slopes = numbers(2, 40, 5, 2, 2, seed=2, scale=0.3).to(device) if mips else None
            found = texture(image, uv, derivatives=slopes, filter=filtering, wrap=wrap)
            (found * torch.linspace(-1, 1, found.numel(), device=device).reshape(found.shape)).sum().backward()
            slope = torch.zeros(1) if filtering == "nearest" else uv.grad
            results.append((found, image.grad, slope))
        for mine, theirs in zip(*results, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("wrap", WRAPS)
def test_gradients_against_finite_differences(wrap):
    image = numbers(1, 5, 4, 2).requires_grad_()
    uv = (numbers(1, 7, 2, seed=3) + 0.013).requires_grad_()
    slopes = numbers(1, 7, 2, 2, seed=2, scale=0.3)
    assert torch.autograd.gradcheck(lambda i, u: texture(i, u, derivatives=slopes, wrap=wrap), (image, uv))


def test_texels_lie_where_the_conventions_say():
    image = torch.arange(12.0).reshape(3, 4, 1)  # the first row is the picture's top
    u, v = torch.meshgrid((torch.arange(4) + 0.5) / 4, 1 - (torch.arange(3) + 0.5) / 3, indexing="xy")
    centres = torch.stack([u, v], -1)[None]
    for filtering in ("nearest", "bilinear"):
        torch.testing.assert_close(texture(image, centres, filter=filtering)[0], image)
    corner = torch.tensor([[[0.01, 0.01]]])  # near the bottom left
    assert texture(image, corner, filter="nearest").item() == 8


def test_what_lies_outside():
    image = torch.tensor([[[1.0], [2.0], [3.0]]])
    places = torch.tensor([-1.5, -0.5, 0.5, 1.5, 2.5, 3.5, 4.5, 7.5]) / 3
    uv = torch.stack([places, torch.full_like(places, 0.5)], -1)[None]
    expected = {
        "repeat": [2, 3, 1, 2, 3, 1, 2, 2],
        "clamp": [1, 1, 1, 2, 3, 3, 3, 3],
        "mirror": [2, 1, 1, 2, 3, 3, 2, 2],
        "zero": [0, 0, 1, 2, 3, 0, 0, 0],
    }
    for wrap, values in expected.items():
        for filtering in ("nearest", "bilinear"):
            found = texture(image, uv, wrap=wrap, filter=filtering)[0, :, 0]
            torch.testing.assert_close(found, torch.tensor(values, dtype=torch.float32), rtol=0, atol=1e-5)


@settings(max_examples=20, deadline=None)
@given(height=st.integers(1, 17), width=st.integers(1, 17), seed=st.integers(0, 999))
def test_mipmaps_keep_the_mean(height, width, seed):
    image = numbers(1, height, width, 2, seed=seed)
    for level in mipmaps(image):
        torch.testing.assert_close(level.mean((1, 2)), image.mean((1, 2)))
    assert level.shape[1:3] == (1, 1)
    assert len(mipmaps(image, 2)) <= 2


@pytest.mark.parametrize("wrap", WRAPS[:3])
def test_one_colour_stays_one_colour(wrap):
    slopes = numbers(1, 50, 2, 2, scale=0.5)
    found = texture(torch.full((7, 5, 3), 0.25).double(), numbers(1, 50, 2, scale=3), derivatives=slopes, wrap=wrap)
    torch.testing.assert_close(found, torch.full_like(found, 0.25))


def test_footprints_choose_the_level():
    image = numbers(1, 16, 16, 1)
    uv = (numbers(1, 30, 2, seed=1)).requires_grad_()
    for level, expected in enumerate(mipmaps(image)):
        slopes = torch.zeros(1, 30, 2, 2, dtype=torch.float64)
        slopes[..., 1, 0] = 2.0**level / 16
        torch.testing.assert_close(texture(image, uv, derivatives=slopes), texture(expected, uv))
    between = slopes.clone()
    between[..., 1, 0] = 2**1.25 / 16
    one, two = (texture(level, uv) for level in mipmaps(image)[1:3])
    torch.testing.assert_close(texture(image, uv, derivatives=between), 0.75 * one + 0.25 * two)


def test_a_chessboard_far_away_is_grey():
    corners = torch.tensor([[-900.0, 1, 1], [900, 1, 1], [900, 1, 900], [-900, 1, 900]])
    faces = torch.tensor([[0, 1, 2], [0, 2, 3]])
    k = torch.tensor([[60.0, 0, 32], [0, 60, 0], [0, 0, 1]])
    board = ((torch.arange(64)[:, None] // 8 + torch.arange(64) // 8) % 2).float()[..., None]
    found = rasterize(corners, faces, k, image_size=(48, 64))
    uv = interpolate(corners[:, [0, 2]], found, faces)
    slopes = screen_derivatives(corners[:, [0, 2]], found, corners, faces, k)
    image = texture(board, uv, derivatives=slopes)[0, ..., 0, 0]
    torch.testing.assert_close(image[1], torch.full_like(image[1], 0.5), rtol=0, atol=0.02)
    assert image[-1].std() > 0.2


def test_the_same_bits_every_time(device):
    grads = []
    for _ in range(2):
        image = torch.ones(8, 8, 3, device=device, requires_grad=True)
        uv = numbers(2, 20000, 2).float().to(device)
        (texture(image, uv) * numbers(2, 20000, 3, seed=1).float().to(device)).sum().backward()
        grads.append(image.grad)
    assert torch.equal(*grads)


@pytest.mark.parametrize("kernels", ["warp", "torch"])
def test_places_that_are_no_numbers_give_nan(monkeypatch, kernels):
    monkeypatch.setenv("SMR_KERNELS", kernels)
    uv = torch.tensor([[[0.5, 0.5], [float("nan"), 0.5], [0.5, float("inf")], [1e30, -1e30]]], requires_grad=True)
    found = texture(torch.ones(4, 4, 2), uv)
    assert found.isnan().all(-1).tolist() == [[False, True, True, False]]


def test_no_samples(device):
    assert texture(torch.ones(4, 4, 2, device=device), torch.zeros(0, 5, 2, device=device)).shape == (0, 5, 2)


def test_wrong_calls_are_refused():
    image, uv = torch.ones(4, 4, 3), torch.zeros(2, 5, 2)
    cases = [
        (ValueError, "uv must have the shape", (image, uv[..., :1]), {}),
        (ValueError, r"image must have the shape \(\*, \*, \*, \*\)", (image[0], uv), {}),
        (ValueError, "image must have a texel and a channel", (image[:0], uv), {}),
        (TypeError, r"image is torch.float32 and uv torch.float64", (image, uv.double()), {}),
        (ValueError, "image is a batch of 3, and the others of 2", (image.expand(3, -1, -1, -1), uv), {}),
        (ValueError, "derivatives must have the shape", (image, uv), {"derivatives": uv}),
    ]
    for error, words, arguments, options in cases:
        with pytest.raises(error, match=words):
            texture(*arguments, **options)


def test_unknown_words_are_refused():
    import jaxtyping

    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        with pytest.raises(ValueError, match="filter must be nearest or bilinear, not 'cubic'"):
            texture(torch.ones(4, 4, 3), torch.zeros(1, 5, 2), filter="cubic")
        with pytest.raises(ValueError, match="wrap must be one of repeat, clamp, mirror, zero, not 'tile'"):
            texture(torch.ones(4, 4, 3), torch.zeros(1, 5, 2), wrap="tile")
        with pytest.raises(TypeError, match="uv must be a torch tensor"):
            texture(torch.ones(4, 4, 3), [0.0, 0.0])
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
