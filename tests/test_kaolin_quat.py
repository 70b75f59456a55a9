"""Quaternions, matrices, angle and axis: against scipy, and as an algebra."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from smr.kaolin.math import quat

N = 200


@pytest.fixture(scope="module")
def rotations() -> Rotation:
    """Random rotations, and those at which conversions are delicate: none, half turns, nearly half turns."""
    rng = np.random.default_rng(1)
    half = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0.6, 0.8, 0, 0], [0, 0, 0, 1]], float)
    near = half + rng.normal(size=half.shape) * 1e-7
    return Rotation.from_quat(np.concatenate([rng.normal(size=(N, 4)), half, near]))


@pytest.fixture(scope="module")
def q(rotations: Rotation) -> torch.Tensor:
    return torch.from_numpy(rotations.as_quat())


def same_rotation(a: torch.Tensor, b: torch.Tensor, atol: float = 1e-12) -> bool:
    return bool(((quat.quat_unit(a) * quat.quat_unit(b)).sum(-1).abs() > 1 - atol).all())


def test_conversions_are_scipys(rotations: Rotation, q: torch.Tensor) -> None:
    matrices = torch.from_numpy(rotations.as_matrix())
    torch.testing.assert_close(quat.rot33_from_quat(q), matrices, atol=1e-12, rtol=0)
    assert same_rotation(quat.quat_from_rot33(matrices), q)
    vectors = torch.from_numpy(rotations.as_rotvec())
    angle, axis = quat.angle_axis_from_quat(q)
    torch.testing.assert_close(quat.rot33_from_angle_axis(angle, axis), matrices, atol=1e-12, rtol=0)
    torch.testing.assert_close(angle[:N], vectors[:N].norm(dim=-1, keepdim=True), atol=1e-12, rtol=0)
    angle, axis = quat.angle_axis_from_rot33(matrices)
    assert bool(((angle >= 0) & (angle <= math.pi)).all())
    torch.testing.assert_close(axis.norm(dim=-1), torch.ones(len(q)).double())


def test_quat_from_rot33_has_a_real_part_that_is_not_negative(q: torch.Tensor) -> None:
    found = quat.quat_from_rot33(quat.rot33_from_quat(q))
    assert bool((found[..., 3] >= 0).all())
    torch.testing.assert_close(found.norm(dim=-1), torch.ones(len(q)).double())


def test_products_and_rotations_are_scipys(rotations: Rotation, q: torch.Tensor) -> None:
    other = Rotation.from_quat(np.random.default_rng(2).normal(size=(len(q), 4)))
    product = quat.quat_mul(q, torch.from_numpy(other.as_quat()))
    assert same_rotation(product, torch.from_numpy((rotations * other).as_quat()))
    points = np.random.default_rng(3).normal(size=(len(q), 3))
    turned = torch.from_numpy(rotations.apply(points))
    torch.testing.assert_close(quat.quat_rotate(q, torch.from_numpy(points)), turned)
    torch.testing.assert_close(quat.rot33_rotate(torch.from_numpy(points), quat.rot33_from_quat(q)), turned)


def test_algebra(q: torch.Tensor) -> None:
    a, b, c = q[:60] * 2, q[60:120] - 0.3, q[120:180] * 0.5
    mul = quat.quat_mul
    torch.testing.assert_close(mul(mul(a, b), c), mul(a, mul(b, c)))
    torch.testing.assert_close(quat.quat_conjugate(mul(a, b)), mul(quat.quat_conjugate(b), quat.quat_conjugate(a)))
    torch.testing.assert_close(quat.quat_abs(mul(a, b)), quat.quat_abs(a) * quat.quat_abs(b))
    one = quat.quat_identity([60], device="cpu").double()
    torch.testing.assert_close(mul(a, quat.quat_inverse(a)), one, atol=1e-12, rtol=0)
    torch.testing.assert_close(mul(a, one), a)
    whole = torch.tensor([[1, 1, 1, 1]])
    assert mul(whole, torch.tensor([[2, 3, 4, 1]])).tolist() == [[4, 2, 6, -8]]


def test_parts(q: torch.Tensor) -> None:
    assert torch.equal(torch.cat([quat.quat_imaginary(q), quat.quat_real(q)], dim=-1), q)
    assert bool((quat.quat_positive(q)[..., 3] >= 0).all())
    assert same_rotation(quat.quat_unit_positive(q * 3), q)
    assert quat.quat_unit(torch.zeros(4)).tolist() == [0, 0, 0, 0]


@given(angle=st.floats(0, 180), seed=st.integers(0, 1000))
@settings(max_examples=50, deadline=None)
def test_angle_and_axis_there_and_back(angle: float, seed: int) -> None:
    axis = torch.nn.functional.normalize(torch.randn(3, generator=torch.Generator().manual_seed(seed)).double(), dim=0)
    found = quat.quat_from_angle_axis(torch.tensor(angle, dtype=torch.double), axis, is_degree=True)
    back, direction = quat.angle_axis_from_quat(found)
    assert float(back) == pytest.approx(math.radians(angle), abs=1e-7)
    if 1e-3 < angle < 180:
        torch.testing.assert_close(direction, axis, atol=1e-6, rtol=0)


def test_no_turn_has_the_axis_x() -> None:
    angle, axis = quat.angle_axis_from_quat(torch.tensor([0.0, 0, 0, 1]))
    assert (angle.tolist(), axis.tolist()) == ([0], [1, 0, 0])


def test_rigid_motions(q: torch.Tensor) -> None:
    t = torch.randn(len(q), 3, generator=torch.Generator().manual_seed(0)).double()
    matrix = quat.euclidean_from_rotation_translation(q, t)
    assert quat.is_euclidean_valid(matrix)
    torch.testing.assert_close(quat.euclidean_rotation_matrix(matrix), quat.rot33_from_quat(q))
    assert torch.equal(quat.euclidean_translation_vector(matrix), t)
    identity = quat.euclidean_identity(len(q), device="cpu").double()
    torch.testing.assert_close(matrix @ quat.euclidean_inverse(matrix), identity, atol=1e-12, rtol=0)
    torch.testing.assert_close(quat.euclidean_from_rotation_translation(quat.rot33_from_quat(q), t), matrix)

    point = torch.randn(len(q), 3, generator=torch.Generator().manual_seed(1)).double()
    transform = quat.transform_from_euclidean(matrix)
    moved = (matrix @ torch.nn.functional.pad(point, (0, 1), value=1.0).unsqueeze(-1))[..., :3, 0]
    torch.testing.assert_close(quat.transform_apply(transform, point), moved)
    torch.testing.assert_close(quat.transform_apply(quat.transform_inverse(transform), moved), point)
    twice = quat.transform_mul(transform, transform.roll(1, 0))
    expected = quat.transform_apply(transform, quat.transform_apply(transform.roll(1, 0), point))
    torch.testing.assert_close(quat.transform_apply(twice, point), expected)
    torch.testing.assert_close(quat.transform_rotation(transform), quat.quat_from_rot33(quat.rot33_from_quat(q)))
    assert torch.equal(quat.transform_translation(transform), t)


def test_parts_that_are_left_out() -> None:
    t = torch.tensor([1.0, 2, 3])
    q = torch.tensor([0.0, 0, 1, 0])
    assert quat.transform_from_rotation_translation(translation=t).tolist() == [0, 0, 0, 1, 1, 2, 3]
    assert quat.transform_from_rotation_translation(q).tolist() == [0, 0, 1, 0, 0, 0, 0]
    assert torch.equal(quat.euclidean_from_rotation_translation(t=t), quat.translation_to_mat44(t))
    assert torch.equal(quat.euclidean_from_rotation_translation(q), quat.rot44_from_quat(q))
    for make in (quat.transform_from_rotation_translation, quat.euclidean_from_rotation_translation):
        with pytest.raises(ValueError, match="give a rotation, a translation or both"):
            make()


def test_identities() -> None:
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    for tensor, shape in (
        (quat.quat_identity([2, 3]), (2, 3, 4)),
        (quat.rot33_identity(2), (2, 3, 3)),
        (quat.translation_identity(2), (2, 3)),
        (quat.euclidean_identity(2), (2, 4, 4)),
        (quat.transform_identity([2]), (2, 7)),
    ):
        assert tensor.shape == shape
        assert str(tensor.device) == device
    assert quat.quat_identity([1], device="cpu").device.type == "cpu"
    assert torch.equal(quat.rot33_inverse(quat.rot33_identity(2)), quat.rot33_identity(2))


def test_scales_and_translations() -> None:
    scale = quat.scale_to_mat44(torch.tensor([[1.0, 2, 3, 9]]))
    assert torch.equal(scale[0].diagonal(), torch.tensor([1.0, 2, 3, 1]))
    assert quat.translation_to_mat44(torch.tensor([1.0, 2, 3, 9]))[:, 3].tolist() == [1, 2, 3, 1]


@pytest.mark.parametrize(
    ("matrix", "text"),
    [
        (torch.eye(3), "shape must end in"),
        (torch.eye(4) * 2, "last row must be"),
        (torch.diag(torch.tensor([1.0, 1, -1, 1])), "must be a rotation"),
        (torch.diag(torch.tensor([1.0, 1.1, 1, 1])), "must be a rotation"),
    ],
)
def test_what_is_no_rigid_motion(matrix: torch.Tensor, text: str) -> None:
    assert not quat.is_euclidean_valid(matrix)
    with pytest.raises(ValueError, match=text):
        quat.is_euclidean_valid(matrix, throw=True)


def test_gradients(q: torch.Tensor) -> None:
    some = q[:4].clone().requires_grad_()
    point = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: quat.rot33_from_quat(x), some)
    assert torch.autograd.gradcheck(lambda x: quat.quat_from_rot33(quat.rot33_from_quat(x)), some)
    assert torch.autograd.gradcheck(lambda x: quat.angle_axis_from_quat(x), some)
    assert torch.autograd.gradcheck(quat.quat_rotate, (some, point))


def test_gradients_are_finite_where_there_is_no_turn() -> None:
    q = torch.tensor([[0.0, 0, 0, 1], [1.0, 0, 0, 0]], requires_grad=True)
    angle, axis = quat.angle_axis_from_quat(q)
    (angle.sum() + axis.sum() + quat.quat_from_rot33(quat.rot33_from_quat(q)).sum()).backward()
    assert q.grad is not None
    assert bool(torch.isfinite(q.grad).all())
    axis = torch.zeros(3, requires_grad=True)
    quat.quat_from_angle_axis(torch.tensor(0.3), axis).sum().backward()
    assert axis.grad is not None
    assert bool(torch.isfinite(axis.grad).all())
