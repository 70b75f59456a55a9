"""Soft silhouettes: the definition pixel by pixel, order and number of faces, gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from smr.ops.render.screen_space import find_faces  # noqa: E402
from smr.ops.render.soft_mask import soft_mask, soft_mask_hits  # noqa: E402

FLOATS = [torch.float32, torch.float64]


def scattered(faces: int, dtype: torch.dtype, *, batch: int = 2, device: str = "cpu", seed: int = 0):
    """Small triangles with room between them, one of no area, and what pixels of a 29 x 37 image see of them."""
    random = np.random.default_rng(seed)
    corners = random.uniform(-0.9, 0.9, (batch, faces, 1, 2)) + random.uniform(-0.12, 0.12, (batch, faces, 3, 2))
    corners[:, 2, 1] = corners[:, 2, 0]
    image = torch.tensor(corners, dtype=dtype, device=device)
    z = -torch.ones(batch, faces, 3, dtype=dtype, device=device)
    return image, find_faces(29, 37, z, image)


def twin(corners: np.ndarray, selected: np.ndarray, sigmainv: float, boxlen: float, knum: int) -> np.ndarray:
    """The definition in double precision: the first `knum` faces whose enlarged bounds a pixel is in."""
    height, width = selected.shape
    mask = np.ones(selected.shape)
    for row, column in np.argwhere(selected < 0):
        p = np.array([(2 * column + 1 - width) / width, (height - 2 * row - 1) / height])
        left, hits = 1.0, 0
        for triangle in corners:
            if not ((p >= triangle.min(0) - boxlen) & (p < triangle.max(0) + boxlen)).all():
                continue
            ends = np.roll(triangle, -1, 0) - triangle
            lengths = np.maximum((ends**2).sum(1), 1e-300)
            along = np.clip(((p - triangle) * ends).sum(1) / lengths, 0, 1)
            squared = ((p - triangle - along[:, None] * ends) ** 2).sum(1).min()
            left *= 1 - math.exp(-sigmainv * squared)
            hits += 1
            if hits == knum:
                break
        mask[row, column] = 1 - left
    return mask


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("sigmainv", "boxlen", "knum"), [(7000, 0.02, 30), (70, 0.2, 30), (70, 0.3, 2)])
def test_the_mask_is_that_of_the_definition(
    device: str, dtype: torch.dtype, sigmainv: float, boxlen: float, knum: int
) -> None:
    corners, selected = scattered(30, dtype, device=device)

    mask = soft_mask(corners, selected, sigmainv=sigmainv, boxlen=boxlen, knum=knum).cpu().numpy()

    for image in range(2):
        arrays = corners[image].double().cpu().numpy(), selected[image].cpu().numpy()
        np.testing.assert_allclose(mask[image], twin(*arrays, sigmainv, boxlen, knum), rtol=0, atol=3e-5)
    assert (mask[selected.cpu().numpy() >= 0] == 1).all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("knum", [30, 3])
def test_kernels_and_plain_torch_agree(
    device: str, dtype: torch.dtype, knum: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    corners, selected = scattered(60, dtype, device=device)
    settings = {"sigmainv": 200, "boxlen": 0.15, "knum": knum}
    both = []
    for kernels in ("warp", "torch"):
        monkeypatch.setenv("SMR_KERNELS", kernels)
        both.append(soft_mask_hits(corners, selected, **settings))
    (mask, hits), (plain_mask, plain_hits) = both
    assert torch.equal(hits.face, plain_hits.face)
    other = hits.nearest != plain_hits.nearest  # two parts of a face are as near: their gradients differ
    assert other.float().mean() < 1e-3
    torch.testing.assert_close(hits.probability, plain_hits.probability, rtol=0, atol=1e-5)
    torch.testing.assert_close(mask, plain_mask, rtol=0, atol=1e-5)

    weight = torch.rand(selected.shape, dtype=dtype, device=device) * ~other.any(dim=-1)
    gradients = []
    for kernels in ("warp", "torch"):
        monkeypatch.setenv("SMR_KERNELS", kernels)
        moving = corners.clone().requires_grad_()
        mask = soft_mask(moving, selected, **settings)
        (mask * weight).sum().backward()
        assert torch.equal(mask.detach(), both[len(gradients)][0])
        gradients.append(moving.grad)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-3, atol=1e-3)


def test_gradients_are_those_of_finite_differences(device: str) -> None:
    corners, selected = scattered(9, torch.float64, batch=1, device=device)
    kept = [0, 1, 3, 4, 5, 6, 7, 8]  # without the one of no area: which of its edges is nearest is undecided
    corners = corners[:, kept].clone()

    def masked(corners: torch.Tensor) -> torch.Tensor:
        return soft_mask(corners, selected, sigmainv=60, boxlen=0.25, knum=4)

    assert torch.autograd.gradcheck(masked, (corners.requires_grad_(),), nondet_tol=0.0, fast_mode=True)


def test_what_hits_say(device: str) -> None:
    corners = torch.tensor([[[[-0.5, -0.5], [0.5, -0.5], [-0.5, 0.5]]]], dtype=torch.float64, device=device)
    corners = corners.expand(1, 3, 3, 2).contiguous()
    selected = find_faces(9, 9, -torch.ones(1, 3, 3, dtype=torch.float64, device=device), corners)

    mask, hits = soft_mask_hits(corners, selected, sigmainv=10, boxlen=0.5, knum=2)

    assert selected[0, 4, 4] == 0  # on the slanted edge
    assert mask[0, 4, 4] == 1
    assert hits.face[0, 4, 4].tolist() == [-1, -1]
    below, left, corner = (0, 8, 4), (0, 4, 0), (0, 8, 0)
    for pixel, part, distance in ((below, 1, 8 / 9 - 0.5), (left, 3, 8 / 9 - 0.5), (corner, 4, (8 / 9 - 0.5) * 2**0.5)):
        assert hits.face[pixel].tolist() == [0, 1]
        assert hits.nearest[pixel].tolist() == [part, part]
        expected = math.exp(-10 * distance**2)
        np.testing.assert_allclose(hits.probability[pixel].cpu(), expected, rtol=1e-9)
        np.testing.assert_allclose(mask[pixel].cpu(), 1 - (1 - expected) ** 2, rtol=1e-9)


def test_one_large_face_and_many_small_ones(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faces over all tiles of the image, of which none is seen: the gradient is summed over tiles."""
    corners, selected = scattered(40, torch.float64, device=device)
    corners[:, 0] = torch.tensor([[-3.0, -3.0], [3.0, -3.0], [0.0, 4.0]], dtype=torch.float64, device=device)
    grads = []
    for kernels in ("warp", "torch"):
        monkeypatch.setenv("SMR_KERNELS", kernels)
        moving = corners.clone().requires_grad_()
        soft_mask(moving, selected, sigmainv=5, boxlen=0.1, knum=5).square().sum().backward()
        grads.append(moving.grad)
    assert float(grads[0][:, 0].abs().min()) >= 0
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-9, atol=1e-9)


def test_the_same_every_time_and_a_batch_is_its_images(device: str) -> None:
    corners, selected = scattered(80, torch.float32, device=device)
    moving = corners.clone().requires_grad_()
    mask = soft_mask(moving, selected, sigmainv=300)
    mask.sum().backward()
    for image in range(2):
        one = corners[image : image + 1].clone().requires_grad_()
        part = soft_mask(one, selected[image : image + 1], sigmainv=300)
        part.sum().backward()
        assert torch.equal(part[0], mask[image])
        assert torch.equal(one.grad[0], moving.grad[image])


def test_pixels_on_an_edge_give_no_nan(device: str) -> None:
    corners = torch.tensor([[[[0.0, -0.5], [0.0, 0.5], [-0.7, 0.0]]]], device=device, requires_grad=True)
    selected = torch.full(
        (1, 9, 9), -1, device=device
    )  # as if the face were not seen: the middle column is on its edge
    mask = soft_mask(corners, selected)
    mask.sum().backward()
    assert mask[0, 4, 4] == 1
    assert torch.isfinite(corners.grad).all()


def test_nothing_to_feel(device: str) -> None:
    corners, selected = scattered(5, torch.float32, device=device)
    assert torch.equal(soft_mask(corners[:, :0], selected), (selected >= 0).float())
    assert soft_mask(corners[:0], selected[:0]).shape == (0, 29, 37)
    assert (soft_mask(corners, torch.zeros_like(selected)) == 1).all()
    lost = torch.full_like(corners, math.nan)
    assert torch.equal(soft_mask(lost, selected), (selected >= 0).float())


def test_wrong_calls_are_named() -> None:
    corners, selected = scattered(5, torch.float32)
    with pytest.raises(TypeError, match="selected_face_idx must be int64, not int32"):
        soft_mask(corners, selected.int())
    with pytest.raises(ValueError, match=r"selected_face_idx must have the shape \(2, \*, \*\), not \(1, 29, 37\)"):
        soft_mask(corners, selected[:1])
    with pytest.raises(ValueError, match=r"sigmainv 0 and knum 30 must be above 0, and boxlen 0\.02 not below 0"):
        soft_mask(corners, selected, sigmainv=0)
    one = torch.zeros(1)
    with pytest.raises(ValueError, match=r"\(1, 1000000000, 3, 2\) are too many"):
        soft_mask(one.expand(1, 10**9, 3, 2), selected[:1])
