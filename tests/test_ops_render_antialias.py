from __future__ import annotations

import jaxtyping
import numpy as np
import pytest
import trimesh

torch = pytest.importorskip("torch")

from smr.ops.render import antialias, face_neighbors, interpolate, rasterize  # noqa: E402

SIZE = (48, 64)


@pytest.fixture
def unchecked():
    """Without the shape checks of the test run, which come before our own."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def intrinsics(focal, x, y, dtype=torch.float64, skew=0.0):
    return torch.tensor([[focal, skew, x], [0, focal, y], [0, 0, 1]], dtype=dtype)


def sphere(subdivisions=2, seed=0):
    shape = trimesh.creation.icosphere(subdivisions)
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0]
    return torch.tensor(shape.vertices @ turn), torch.tensor(shape.faces)


def silhouette(vertices, faces, camera, size, **options):
    found = rasterize(vertices, faces, camera, image_size=size)
    covered = found.mask[..., None].to(vertices.dtype)
    return antialias(covered, found, vertices, faces, camera, **options)


def half_plane(x, dtype=torch.float64):
    """Everything left of the column `x`, at depth 2, seen with a focal length of 1."""
    corners = [[-99.0, -99], [0, -99], [0, 99], [-99, 99]]
    vertices = torch.tensor([[2 * a, 2 * b, 2.0] for a, b in corners], dtype=dtype)
    moves = torch.tensor([[0.0, 0, 0], [2, 0, 0], [2, 0, 0], [0, 0, 0]], dtype=dtype)
    return vertices + x * moves, torch.tensor([[0, 1, 2], [0, 2, 3]])


def meshes():
    v, f = sphere()
    two = torch.stack(
        [v * torch.tensor([1, 0.7, 0.9]) + torch.tensor([0.1, 0.05, 3.0]), v * 0.5 + torch.tensor([0, 0, 2.0])]
    )
    yield two, f
    rng = np.random.default_rng(0)
    corners = rng.uniform([-2, -2, -0.5], [2, 2, 4], (2, 30, 1, 3)) + rng.normal(0, 0.8, (2, 30, 3, 3))
    yield torch.tensor(corners.reshape(2, -1, 3)), torch.arange(90).reshape(30, 3)


@pytest.mark.parametrize("orthographic", [False, True])
def test_agrees_with_plain_torch(device, monkeypatch, orthographic):
    for vertices, faces in meshes():
        faces = faces.to(device)
        picture = torch.randn(2, *SIZE, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
        results = []
        for kernels in ("warp", "torch"):
            monkeypatch.setenv("SMR_KERNELS", kernels)
            v = vertices.to(device).clone().requires_grad_()
            k = intrinsics(15.0 if orthographic else 50.0, 32, 24, skew=0.3).to(device).requires_grad_()
            color = picture.to(device).clone().requires_grad_()
            found = rasterize(v, faces, k, image_size=SIZE, layers=2, orthographic=orthographic)
            image = antialias(color, found, v, faces, k, orthographic=orthographic)
            (image * torch.linspace(-1, 1, image.numel(), device=device).reshape(image.shape)).sum().backward()
            assert not torch.equal(image, color)
            results.append((image, v.grad, k.grad, color.grad))
        for mine, theirs in zip(*results, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("x", [10.0, 10.2, 10.49, 10.51, 10.9])
def test_coverage_of_a_straight_edge_is_exact_and_so_is_its_gradient(x):
    place = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    vertices, faces = half_plane(place)
    image = silhouette(vertices, faces, intrinsics(1.0, 0, 0), (4, 20))[0, ..., 0]
    column = torch.arange(20)
    torch.testing.assert_close(image[1], (x - column.double()).clamp(0, 1))
    assert torch.autograd.grad(image[1].sum(), place)[0].item() == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("turn", range(4))
def test_every_side_of_a_square_moves(turn):
    """Area, and its derivative by the size, of a square that is not in line with pixels."""
    side = torch.tensor(9.3, dtype=torch.float64, requires_grad=True)
    corners = torch.tensor([[-0.5, -0.5, 0], [0.5, -0.5, 0], [0.5, 0.5, 0], [-0.5, 0.5, 0]], dtype=torch.float64)
    vertices = corners.roll(turn, 0) * side + torch.tensor([10.17, 9.61, 1.0])
    image = silhouette(vertices, torch.tensor([[0, 1, 2], [0, 2, 3]]), intrinsics(1.0, 0, 0), 20)
    area = image.sum()
    assert area.item() == pytest.approx(9.3**2, abs=1)  # the pixels of the four corners are not exact
    assert torch.autograd.grad(area, side)[0].item() == pytest.approx(2 * 9.3, rel=0.06)


def test_area_of_a_disc_is_nearer_to_the_truth():
    vertices, faces = sphere(4)
    vertices = vertices * 0.5 + torch.tensor([0.013, 0.027, 5])
    k = intrinsics(100.0, 16, 16)
    found = rasterize(vertices, faces, k, image_size=32)
    radius = 100 * 0.5 / (25 - 0.25) ** 0.5
    smooth = silhouette(vertices, faces, k, 32).sum().item()
    assert abs(smooth - np.pi * radius**2) < 1.5
    # inside the outline nothing is blended
    color = interpolate(torch.rand(len(vertices), 3, dtype=torch.float64), found, faces)[..., 0, :]
    blended = (antialias(color, found, vertices, faces, k) != color).any(-1)
    inner = -torch.nn.functional.max_pool2d(-found.mask[:, None].float(), 3, 1, 1)[:, 0] > 0
    assert not blended[inner & found.mask].any()
    assert blended.any()


def test_gradients_against_finite_differences():
    vertices, faces = sphere(1)
    vertices = vertices * 0.8 + torch.tensor([0.1, 0.05, 3.0])
    color = torch.randn(1, 8, 10, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    top = torch.tensor([[9.0, 0.3, 5], [0, 9, 4]], dtype=torch.float64)

    def run(v, top, color):
        k = torch.cat([top, top.new_tensor([[0, 0, 1]])])
        return antialias(color, rasterize(v, faces, k, image_size=(8, 10)), v, faces, k)

    inputs = [tensor.clone().requires_grad_() for tensor in (vertices, top, color)]
    assert torch.autograd.gradcheck(run, inputs, eps=1e-7, atol=1e-5, rtol=1e-4)


def test_the_same_bits_every_time(device):
    vertices, faces = sphere(4)
    vertices = (vertices + torch.tensor([0, 0, 3.0])).float().to(device)
    results = []
    for _ in range(2):
        v = vertices.clone().requires_grad_()
        image = silhouette(v, faces.to(device), intrinsics(50.0, 32, 24, torch.float32).to(device), SIZE)
        image.square().sum().backward()
        results.append((image, v.grad))
    for first, second in zip(*results, strict=True):
        assert torch.equal(first, second)


def test_neighbors_on_a_closed_surface_know_each_other():
    _, faces = sphere(2)
    found = face_neighbors(faces)
    flat = found.reshape(-1)
    assert torch.equal(flat[flat.long()], torch.arange(len(flat), dtype=torch.int32))
    edges = torch.stack([faces.roll(-1, 1), faces.roll(-2, 1)], -1).reshape(-1, 2).sort(1)[0]
    assert torch.equal(edges[flat.long()], edges)
    batch = face_neighbors(torch.stack([faces, faces.flip(0)]))
    assert torch.equal(batch[0], found)
    assert torch.equal(batch[1], face_neighbors(faces.flip(0)))
    assert face_neighbors(faces[:0]).shape == (0, 3)


def test_open_and_crowded_edges_have_no_neighbor():
    square = torch.tensor([[0, 1, 2], [0, 2, 3]])
    assert face_neighbors(square).tolist() == [[-1, 5, -1], [-1, -1, 1]]
    book = torch.tensor([[0, 1, 2], [0, 1, 3], [0, 1, 4]])
    assert face_neighbors(book).eq(-1).all()


def test_neighbors_out_of_range_count_as_none():
    vertices, faces = half_plane(10.2)
    k = intrinsics(1.0, 0, 0)
    expected = silhouette(vertices, faces, k, (4, 20))
    wrong = torch.full_like(faces, 2**20)
    assert torch.equal(silhouette(vertices, faces, k, (4, 20), neighbors=wrong), expected)


def test_wrong_calls_are_refused(unchecked):
    vertices, faces = half_plane(10.2)
    k = intrinsics(1.0, 0, 0)
    found = rasterize(vertices, faces, k, image_size=8)
    color = torch.zeros(1, 8, 8, 3, dtype=torch.float64)
    with pytest.raises(TypeError, match=r"color is torch.float32, fragments torch.float64 and vertices torch.float64"):
        antialias(color.float(), found, vertices, faces, k)
    with pytest.raises(ValueError, match=r"color must have the shape \(1, 8, 8, \*\)"):
        antialias(color[:, :7], found, vertices, faces, k)
    with pytest.raises(ValueError, match=r"neighbors must have the shape of faces, \(2, 3\), not \(1, 3\)"):
        antialias(color, found, vertices, faces, k, neighbors=face_neighbors(faces)[:1])


def camera_ring(count):
    angles = np.arange(count) * 2 * np.pi / count
    turns = [trimesh.transformations.rotation_matrix(a, [0.1, 1, 0])[:3, :3] for a in angles]
    return torch.tensor(np.array(turns), dtype=torch.float32)


@pytest.mark.slow
def test_silhouettes_alone_turn_a_sphere_into_an_ellipsoid(device):
    vertices, faces = sphere(3)
    vertices, faces = vertices.float().to(device), faces.to(device)
    turns, k = camera_ring(4).to(device), intrinsics(90.0, 32, 32, torch.float32).to(device)
    neighbors = face_neighbors(faces)

    def look(scale):
        seen = (vertices * scale) @ turns.mT + torch.tensor([0, 0, 4.0], device=device)
        return silhouette(seen, faces, k, 64, neighbors=neighbors)

    truth = torch.tensor([1.2, 0.7, 0.9], device=device)
    target = look(truth)
    scale = torch.ones(3, device=device, requires_grad=True)
    optimizer = torch.optim.Adam([scale], lr=0.03)
    losses = []
    for step in range(100):
        optimizer.param_groups[0]["lr"] = 0.03 * 0.03 ** (step / 100)
        optimizer.zero_grad()
        loss = ((look(scale) - target) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 50
    torch.testing.assert_close(scale.detach(), truth, rtol=0.01, atol=0)


@pytest.mark.slow
def test_a_pose_is_found_from_a_picture(device):
    box = trimesh.creation.box(extents=(1, 0.6, 0.8))
    vertices = torch.tensor(box.vertices, dtype=torch.float32, device=device)
    faces = torch.tensor(box.faces, device=device)
    colors = torch.rand(1, 12, 1, 3, generator=torch.Generator().manual_seed(0)).expand(1, 12, 3, 3).to(device)
    k = intrinsics(90.0, 32, 32, torch.float32).to(device)

    def turn(w):
        zero = w.new_zeros(())
        rows = [[zero, -w[2], w[1]], [w[2], zero, -w[0]], [-w[1], w[0], zero]]
        return torch.linalg.matrix_exp(torch.stack([torch.stack(row) for row in rows]))

    def look(w, t):
        seen = vertices @ turn(w).T + t
        found = rasterize(seen, faces, k, image_size=64)
        return antialias(interpolate(colors, found, faces)[..., 0, :], found, seen, faces, k)

    w_true, t_true = torch.tensor([0.4, 0.6, -0.2], device=device), torch.tensor([0.1, -0.05, 3.0], device=device)
    target = look(w_true, t_true)
    w = (w_true + torch.tensor([0.15, -0.2, 0.1], device=device)).requires_grad_()
    t = (t_true + torch.tensor([0.1, 0.08, 0.2], device=device)).requires_grad_()
    optimizer = torch.optim.Adam([w, t], lr=0.02)
    for step in range(150):
        optimizer.param_groups[0]["lr"] = 0.02 * 0.02 ** (step / 150)
        optimizer.zero_grad()
        ((look(w, t) - target) ** 2).mean().backward()
        optimizer.step()
    cosine = ((turn(w.detach()).T @ turn(w_true)).trace() - 1) / 2
    assert torch.rad2deg(torch.acos(cosine.clamp(-1, 1))) < 0.5
    assert (t - t_true).norm() < 0.01
