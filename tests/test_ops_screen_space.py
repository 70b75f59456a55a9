"""Triangles in the image: coverage, order, interpolation and gradients against plain twins and known answers."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from smr.ops.render import screen_space  # noqa: E402
from smr.ops.render.face_samples import interpolate_faces  # noqa: E402
from smr.ops.render.screen_space import find_faces, rasterize  # noqa: E402
from smr.ops.render.sparse_rays import find_faces_behind, render_points  # noqa: E402

FLOATS = [torch.float32, torch.float64]


def scattered(faces: int, dtype: torch.dtype, *, batch: int = 2, seed: int = 0, device: str = "cpu"):
    """Triangles of many sizes, some beyond the image, some degenerate, two the same."""
    random = np.random.default_rng(seed)
    middle = random.uniform(-1.2, 1.2, (batch, faces, 1, 2))
    corners = middle + random.uniform(-0.5, 0.5, (batch, faces, 3, 2)) * random.uniform(0, 1, (batch, faces, 1, 1)) ** 2
    z = -random.uniform(1, 2, (batch, faces, 3))
    features = random.uniform(-1, 1, (batch, faces, 3, 3))
    corners[:, 3, 2] = corners[:, 3, 1]
    corners[:, 5], z[:, 5] = corners[:, 4], z[:, 4]
    return tuple(torch.tensor(value, dtype=dtype, device=device) for value in (z, corners, features))


def twin(height: int, width: int, z: np.ndarray, corners: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """The definition, pixel by pixel in double precision: greatest z, of equals the first face."""
    found = np.full((height, width), -1)
    for row in range(height):
        for column in range(width):
            p = np.array([(2 * column + 1 - width) / width, (height - 2 * row - 1) / height])
            best = -math.inf
            for face in np.flatnonzero(valid):
                a, b, c = corners[face]
                if not ((p >= corners[face].min(0)) & (p < corners[face].max(0))).all():
                    continue
                areas = [np.linalg.det([v - u, p - u]) for u, v in ((b, c), (c, a), (a, b))]
                if sum(areas) != 0 and min(np.array(areas) / sum(areas)) >= 0:
                    depth = np.dot(areas, z[face]) / sum(areas)
                    if depth > best:
                        best, found[row, column] = depth, face
    return found


@pytest.mark.parametrize("dtype", FLOATS)
def test_faces_are_those_of_the_definition(device: str, dtype: torch.dtype) -> None:
    z, corners, _ = scattered(40, dtype, device=device)
    valid = torch.arange(40, device=device).expand(2, 40) % 5 != 0

    found = find_faces(19, 23, z, corners, valid_faces=valid).cpu().numpy()

    for image in range(2):
        arrays = [t[image].double().cpu().numpy() for t in (z, corners)]
        expected = twin(19, 23, *arrays, valid[image].cpu().numpy())
        assert (found[image] == expected).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_kernels_and_plain_torch_agree(device: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    z, corners, features = scattered(300, dtype, device=device)
    valid = torch.rand(2, 300, device=device) > 0.2
    weight = torch.rand(2, 37, 53, 3, dtype=dtype, device=device)
    results = []
    for kernels in ("warp", "torch"):
        monkeypatch.setenv("SMR_KERNELS", kernels)
        moving, shades = corners.clone().requires_grad_(), features.clone().requires_grad_()
        image, face_idx = rasterize(37, 53, z, moving, shades, valid_faces=valid)
        (image * weight).sum().backward()
        results.append((face_idx, image.detach(), moving.grad, shades.grad))

    ours, plain = results
    assert torch.equal(ours[0], plain[0])
    for mine, other in zip(ours[1:], plain[1:], strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_way_of_a_gpu_gives_the_same_on_a_cpu(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    z, corners, _ = scattered(200, dtype)
    flat = corners.reshape(-1, 6), z.reshape(-1, 3), torch.zeros(0, dtype=torch.bool)
    expected = find_faces(64, 200, z, corners)

    assert torch.equal(screen_space._find_on_gpu(*flat, 2, (64, 200), 1e-14), expected)
    monkeypatch.setattr(screen_space, "_queue_length", lambda pixels: 7)  # most large faces find the queue full
    assert torch.equal(screen_space._find_on_gpu(*flat, 2, (64, 200), 1e-14), expected)


def test_faces_that_share_edges_leave_no_crack_and_overlap_nowhere_but_on_edges(device: str) -> None:
    random = np.random.default_rng(1)
    grid = np.stack(np.meshgrid(np.linspace(-1, 1, 9), np.linspace(-1, 1, 9)), -1)
    grid[1:-1, 1:-1] += random.uniform(-0.1, 0.1, (7, 7, 2))  # neighbours see a shared edge from both sides
    grid *= 1.01
    index = np.arange(81).reshape(9, 9)
    a, b, c, d = index[:-1, :-1], index[:-1, 1:], index[1:, 1:], index[1:, :-1]
    faces = np.stack([np.stack([a, b, c], -1), np.stack([a, c, d], -1)], 2).reshape(-1, 3)
    corners = torch.tensor(grid.reshape(-1, 2)[faces][None], dtype=torch.float32, device=device)
    z = torch.full(corners.shape[:3], -1.0, device=device)

    assert (find_faces(211, 173, z, corners) >= 0).all()


def test_depth_decides_and_the_first_of_equals_stays(device: str) -> None:
    corners = torch.tensor([[-2.0, -2.0], [4.0, -2.0], [-2.0, 4.0]], device=device).expand(1, 4, 3, 2).contiguous()
    z = torch.tensor([-3.0, -2.0, -2.0, -4.0], device=device)[None, :, None].expand(1, 4, 3)

    assert (find_faces(5, 7, z, corners) == 1).all()
    hidden = torch.tensor([[True, False, True, True]], device=device)
    assert (find_faces(5, 7, z, corners, valid_faces=hidden) == 2).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_features_are_linear_in_the_image(device: str, dtype: torch.dtype) -> None:
    corners = torch.tensor([[[[-0.9, -0.8], [0.9, -0.7], [0.1, 0.95]]]], dtype=dtype, device=device)
    z = -torch.ones(1, 1, 3, dtype=dtype, device=device)

    image, face_idx = rasterize(16, 16, z, corners, corners)  # features: the positions themselves

    seen = face_idx >= 0
    rows, columns = torch.meshgrid(*[torch.arange(16, dtype=dtype, device=device)] * 2, indexing="ij")
    where = torch.stack([(2 * columns + 1 - 16) / 16, (16 - 2 * rows - 1) / 16], -1)
    assert int(seen.sum()) > 60
    torch.testing.assert_close(image[seen], where.expand(1, 16, 16, 2)[seen], rtol=0, atol=2e-6)
    assert (image[~seen] == 0).all()


def test_gradients_are_those_of_finite_differences(device: str) -> None:
    random = np.random.default_rng(3)
    wide = np.array([[-0.5, -0.5], [0.5, -0.4], [0.0, 0.5]])  # slivers change faster than differences can follow
    corners = wide + random.uniform(-0.15, 0.15, (1, 9, 3, 2)) + random.uniform(-0.6, 0.6, (1, 9, 1, 2))
    moving = torch.tensor(corners, device=device, requires_grad=True)
    z = -1 - torch.rand(1, 9, 3, dtype=torch.float64, device=device)
    features = torch.rand(1, 9, 3, 2, dtype=torch.float64, device=device, requires_grad=True)
    face_idx = find_faces(11, 13, z, moving).reshape(1, -1, 1)
    assert len(face_idx.unique()) > 5

    def shade(corners: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        return interpolate_faces(face_idx, corners, features, image_size=(11, 13))

    assert torch.autograd.gradcheck(shade, (moving, features), nondet_tol=0.0, fast_mode=True)


def test_runs_that_cross_chunks_are_summed(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One face over all of the image, one over a part: their samples fill many chunks of the sorted list."""
    corners = torch.tensor(
        [[[-3.0, -3.0], [5.0, -3.0], [-3.0, 5.0]], [[-0.5, -0.5], [0.6, -0.4], [0.1, 0.7]]], dtype=torch.float64
    )[None].to(device)
    z = torch.tensor([-2.0, -1.0], dtype=torch.float64, device=device)[None, :, None].expand(1, 2, 3)
    features = torch.rand(1, 2, 3, 5, dtype=torch.float64, device=device)
    grads = []
    for kernels in ("warp", "torch"):
        monkeypatch.setenv("SMR_KERNELS", kernels)
        moving, shades = corners.clone().requires_grad_(), features.clone().requires_grad_()
        image, _ = rasterize(70, 90, z, moving, shades)
        image.square().sum().backward()
        grads.append((moving.grad, shades.grad))
    for mine, other in zip(*grads, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-9)


def test_a_batch_is_its_images_one_by_one_to_the_bit(device: str) -> None:
    z, corners, features = scattered(100, torch.float32, batch=3, device=device)
    whole = corners.clone().requires_grad_()
    image, face_idx = rasterize(31, 29, z, whole, features)
    image.sum().backward()
    for i in range(3):
        part = corners[i : i + 1].clone().requires_grad_()
        one, idx = rasterize(31, 29, z[i : i + 1], part, features[i : i + 1])
        one.sum().backward()
        assert torch.equal(one[0], image[i])
        assert torch.equal(idx[0], face_idx[i])
        torch.testing.assert_close(part.grad[0], whole.grad[i], rtol=1e-4, atol=1e-4)


def test_the_same_every_time(device: str) -> None:
    z, corners, features = scattered(500, torch.float32, device=device)
    grads = []
    for _ in range(3):
        moving = corners.clone().requires_grad_()
        rasterize(64, 64, z, moving, features)[0].square().sum().backward()
        grads.append(moving.grad)
    assert torch.equal(grads[0], grads[1])
    assert torch.equal(grads[0], grads[2])


def test_nothing_to_draw(device: str) -> None:
    z, corners, features = scattered(10, torch.float32, device=device)
    image, face_idx = rasterize(4, 6, z[:, :0], corners[:, :0], features[:, :0])
    assert image.shape == (2, 4, 6, 3)
    assert (image == 0).all()
    assert (face_idx == -1).all()
    image, face_idx = rasterize(4, 6, z[:0], corners[:0], features[:0])
    assert image.shape == (0, 4, 6, 3)
    image, _ = rasterize(0, 6, z, corners, features)
    assert image.shape == (2, 0, 6, 3)
    lost = torch.full_like(corners, math.nan)
    lost[:, 5:] = math.inf
    assert (find_faces(4, 6, z, lost) == -1).all()
    huge = corners.clone()
    huge[:, 0] = torch.tensor([[-1e30, -1e30], [1e30, 0.0], [0.0, 1e30]], device=device)
    assert find_faces(4, 6, z, huge).shape == (2, 4, 6)


def test_wrong_calls_are_named() -> None:
    z, corners, features = scattered(10, torch.float32)
    with pytest.raises(ValueError, match=r"face_vertices_z must have the shape \(\*, \*, 3\), not \(2, 10, 2\)"):
        rasterize(4, 4, z[..., :2], corners, features)
    with pytest.raises(TypeError, match="face_features must be float32, not float64"):
        rasterize(4, 4, z, corners, features.double())
    with pytest.raises(TypeError, match="face_vertices_z must be float32 or float64, not float16"):
        rasterize(4, 4, z.half(), corners.half(), features.half())
    with pytest.raises(TypeError, match="valid_faces must be bool, not int64"):
        find_faces(4, 4, z, corners, valid_faces=torch.ones(2, 10, dtype=torch.int64))
    with pytest.raises(ValueError, match="2 images of width 100000 and height 100000 are out of range"):
        find_faces(100_000, 100_000, z, corners)
    one = torch.zeros(1)
    with pytest.raises(ValueError, match="2 x 200000000 faces are too many for one call"):
        find_faces(4, 4, one.expand(2, 200_000_000, 3), one.expand(2, 200_000_000, 3, 2))
    points, ranges = torch.zeros(2, 5, 2), torch.zeros(2, 5, 2)
    with pytest.raises(ValueError, match="knum must be at least 1, not 0"):
        find_faces_behind(points, ranges, z, corners, knum=0)
    with pytest.raises(ValueError, match=r"render_ranges must have the shape \(2, 5, 2\)"):
        find_faces_behind(points, ranges[:, :4], z, corners)
    with pytest.raises(ValueError, match="10 points with knum = 300000000 faces each are too many"):
        find_faces_behind(points, ranges, z, corners, knum=300_000_000)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("knum", [1, 3, 40])
def test_faces_behind_points_are_the_nearest(
    device: str, dtype: torch.dtype, knum: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    z, corners, features = scattered(300, dtype, device=device)
    corners = corners * 2.5
    points = torch.rand(2, 200, 2, dtype=dtype, device=device) * 2 - 1
    ranges = torch.tensor([-1.9, -1.2], dtype=dtype, device=device).expand(2, 200, 2)
    valid = torch.rand(2, 300, device=device) > 0.2
    results = []
    for kernels in ("warp", "torch"):
        monkeypatch.setenv("SMR_KERNELS", kernels)
        moving, shades = corners.clone().requires_grad_(), features.clone().requires_grad_()
        found, face_idx = render_points(points, ranges, z, moving, shades, knum=knum, valid_faces=valid)
        found.square().sum().backward()
        results.append((face_idx, found.detach(), moving.grad, shades.grad))
    ours, plain = results
    assert torch.equal(ours[0], plain[0])
    assert int((ours[0] >= 0).sum()) > 100
    if knum == 3:
        assert ((ours[0] >= 0).sum(-1) == 3).any()  # the heap overflows
    for mine, other in zip(ours[1:], plain[1:], strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-3)


def test_one_face_behind_pixel_centres_is_what_rasterizing_finds(device: str) -> None:
    z, corners, features = scattered(200, torch.float32, device=device)
    image, face_idx = rasterize(24, 32, z, corners, features)
    rows, columns = torch.meshgrid(torch.arange(24), torch.arange(32), indexing="ij")
    centres = torch.stack([(2 * columns + 1 - 32) / 32, (24 - 2 * rows - 1) / 24], -1).reshape(1, -1, 2)
    points = centres.to(device).expand(2, -1, -1)
    ranges = torch.tensor([-10.0, 0.0], device=device).expand(2, 24 * 32, 2)

    found, behind = render_points(points, ranges, z, corners, features, knum=1, eps=1e-14)

    assert torch.equal(behind.reshape(2, 24, 32), face_idx)
    assert torch.equal(found.reshape(2, 24, 32, 3), image)
