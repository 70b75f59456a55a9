"""Helpers for tests and logs; coordinates, graph convolution, random numbers."""

from __future__ import annotations

import argparse
import copy
import logging
import math
import random
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smr.kaolin.ops import coords, gcn
from smr.kaolin.ops import random as kal_random
from smr.kaolin.ops.spc.uint8 import bits_to_uint8, uint8_bits_sum, uint8_to_bits
from smr.kaolin.utils import log, testing

# utils.testing


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"shape": (2, 4)}, ValueError, r"tensor shape is torch.Size\(\[2, 3\]\), should be \(2, 4\)"),
        ({"shape": (2, 3, 1)}, ValueError, "tensor shape is"),
        ({"dtype": torch.long}, TypeError, "tensor dtype is torch.float32, should be torch.int64"),
        ({"device": "cuda"}, TypeError, "tensor device is cpu, should be cuda"),
        ({"device": torch.device("cuda:1")}, TypeError, "tensor device is cpu, should be cuda:1"),
    ],
)
def test_check_tensor(options: dict[str, Any], error: type[Exception], text: str) -> None:
    tensor = torch.ones(2, 3)
    assert testing.check_tensor(tensor, (None, 3), torch.float, "cpu")
    assert not testing.check_tensor(tensor, throw=False, **options)
    with pytest.raises(error, match=text):
        testing.check_tensor(tensor, **options)


def test_check_packed_and_padded() -> None:
    assert testing.check_packed_tensor(torch.ones(5, 2), 5, 2, torch.float, "cpu")
    with pytest.raises(ValueError, match="total number of elements is 5, should be 6"):
        testing.check_packed_tensor(torch.ones(5, 2), torch.tensor(6))
    with pytest.raises(ValueError, match="last_dim is 2, should be 3"):
        testing.check_packed_tensor(torch.ones(5, 2), 5, 3)
    padded = torch.full((2, 4, 4, 2), -1.0)
    padded[0, :1, :1] = 0
    padded[1, :2, :2] = 0
    shapes = torch.tensor([[1, 1], [2, 2]])
    assert testing.check_padded_tensor(padded, -1, shapes, 2, (4, None), 2, torch.float, "cpu")
    wrong = {
        "padding_value": (-2, r"padding at \(0, 0, 1, 0\) is -1.0, should be -2"),
        "shape_per_tensor": (torch.tensor([[1, 1], [1, 1]]), r"padding at \(1, 0, 1, 0\) is 0.0, should be -1"),
        "batch_size": (3, "batch_size is 3, but there are 2 shapes"),
        "max_shape": ((4, 4, 4), "max_shape is"),
        "last_dim": (3, "last_dim is 2, should be 3"),
    }
    for name, (value, text) in wrong.items():
        with pytest.raises(ValueError, match=text):
            testing.check_padded_tensor(padded, **{"padding_value": -1, "shape_per_tensor": shapes, name: value})
    with pytest.raises(ValueError, match="batch size is 2, should be 3"):
        testing.check_padded_tensor(padded, batch_size=3)
    with pytest.raises(ValueError, match="shape_per_tensor should not be None"):
        testing.check_padded_tensor(padded, -1)


Sample = namedtuple("Sample", ["name", "tensor", "more"])


def test_containers_are_equal_all_the_way_down(capsys: pytest.CaptureFixture[str]) -> None:
    sample = Sample("a", torch.rand(3), [{"x": torch.arange(3), "y": None}, 1.5, (np.ones(2), "text")])
    other = copy.deepcopy(sample)
    assert testing.contained_torch_equal(sample, other)
    other.more[0]["x"][1] = 7
    assert not testing.contained_torch_equal(sample, other, print_error_context="sample")
    assert "sample[2][0]['x']: not equal" in capsys.readouterr().out
    close = copy.deepcopy(sample)
    close.tensor[0] += 1e-4
    assert not testing.contained_torch_equal(sample, close)
    assert testing.contained_torch_equal(sample, close, approximate=True, atol=1e-3)
    for one, two in (
        ([1], [1, 2]), ({"a": 1}, {"b": 1}), (torch.ones(2), torch.ones(3)), (torch.ones(2), torch.ones(2).double()),
        (1_000_000, 1_000_001), ("a", "b"), ([1], "a"), (None, 1), (torch.ones(2), None),
    ):  # fmt: skip
        assert not testing.contained_torch_equal(one, two)
    for one, two in ((1.0, 1), (2.01, np.float32(2.01)), (torch.float, torch.float), (Path("a"), Path("a"))):
        assert testing.contained_torch_equal(one, two)


def test_close_tensors_are_broadcast() -> None:
    testing.check_allclose(torch.tensor(1.0), torch.ones(2, 1))
    with pytest.raises(AssertionError, match="Greatest absolute difference"):
        testing.check_allclose(torch.tensor(1.0), torch.tensor([1.0, 1.1]))
    with pytest.raises(RuntimeError, match="size"):
        testing.check_allclose(torch.ones(2), torch.ones(3))


def test_images() -> None:
    image = torch.rand(10, 20, 3, generator=torch.Generator().manual_seed(0))
    testing.assert_images_close(image, image + 0.02)
    other = image.clone()
    other[:, :3, 0] += 0.1  # 15 % of the pixels
    with pytest.raises(AssertionError, match=r"15.00 % of the pixels differ by more than 0.03; at most 3 % may"):
        testing.assert_images_close(image, other)
    testing.assert_images_close(image, other, max_percent_disagreeing_pixels=16)
    large = image.repeat_interleave(2, 0).repeat_interleave(2, 1)
    testing.assert_images_close(image, large)
    with pytest.raises(AssertionError, match="have the shapes"):
        testing.assert_images_close(image, large, do_resize=False)
    with pytest.raises(AssertionError, match="should be 0 to 1"):
        testing.assert_images_close(image, image * 255)


def test_files(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("a\n\n  b\nchanged today\n")
    two.write_text("a  \nb\n\nchanged yesterday")
    assert not testing.file_contents_equal(one, two)
    assert testing.file_contents_equal(one, two, exclude_pattern="^changed")


def test_shapes_of_a_container() -> None:
    sample = Sample("a", torch.ones(3, 2), {})
    assert testing.check_tensor_attribute_shapes(sample, tensor=(None, 2))
    assert testing.check_tensor_attribute_shapes({"x": torch.ones(3)}, x=[3])
    assert not testing.check_tensor_attribute_shapes(sample, throw=False, tensor=(3, 3))
    with pytest.raises(ValueError, match=r"tensor shape is \(3, 2\), should be \(3, 3\)"):
        testing.check_tensor_attribute_shapes(sample, tensor=(3, 3))
    with pytest.raises(ValueError, match="name is str, should be a tensor"):
        testing.check_tensor_attribute_shapes(sample, name=(3,))


def test_lines_on_tensors(capsys: pytest.CaptureFixture[str]) -> None:
    assert testing.tensor_info(torch.ones(2, 3), "t") == "t: [2, 3] (torch.float32)[cpu]"
    assert "[numpy]" in testing.tensor_info(np.ones(2), "n")
    assert testing.tensor_info(None, "none") == "none: None"
    line = testing.tensor_info(torch.tensor([1.0, 3]), "t", print_stats=True, detailed=True)
    assert "[min 1.0000, max 3.0000, mean 2.0000]" in line
    assert "tensor([1., 3.])" in line
    testing.print_namedtuple_attributes(Sample("a", torch.ones(2), [torch.ones(1)]))
    assert capsys.readouterr().out.startswith("Sample\nname: a\ntensor: [2] (torch.float32)[cpu]\nmore[0]: [1]")
    testing.print_dict_attributes({"x": torch.ones(2)}, name="d", prefix="> ")
    assert capsys.readouterr().out == "> d\n> x: [2] (torch.float32)[cpu]\n"


def test_a_seed_for_one_function() -> None:
    def draw() -> tuple[float, float, float]:
        return float(torch.rand(())), float(np.random.random()), random.random()  # noqa: NPY002

    seeded = testing.with_seed(1, 2, 3)(draw)
    kal_random.manual_seed(5, 6, 7)
    expected = draw()
    kal_random.manual_seed(5, 6, 7)
    first = seeded()
    assert draw() == expected
    assert seeded() == first
    # as in Kaolin, the second seed is Python's and the third NumPy's
    assert first[1:] == (np.random.RandomState(3).random_sample(), random.Random(2).random())
    with pytest.raises(ZeroDivisionError):
        testing.with_seed(1)(lambda: 1 / 0)()


def test_octrees() -> None:
    octrees, lengths = kal_random.random_spc_octrees(4, 3)
    assert testing.check_spc_octrees(octrees, lengths, 4, 3, "cpu")
    with pytest.raises(ValueError, match="octree 0 ends at level 3, should end at 2"):
        testing.check_spc_octrees(octrees, lengths, level=2)
    with pytest.raises(ValueError, match="batch_size should be 3"):
        testing.check_spc_octrees(octrees, lengths, batch_size=3)
    with pytest.raises(ValueError, match="octrees is on cpu, should be on cuda"):
        testing.check_spc_octrees(octrees, lengths, device="cuda")
    lengths[0] -= 1
    with pytest.raises(ValueError, match="but level 3 ends at length"):
        testing.check_spc_octrees(octrees, lengths)


def test_bits() -> None:
    values = torch.arange(256).to(torch.uint8)
    assert torch.equal(bits_to_uint8(uint8_to_bits(values)), values)
    assert uint8_to_bits(torch.tensor([6], dtype=torch.uint8)).tolist() == [[False, True, True] + [False] * 5]
    assert uint8_bits_sum(values).tolist() == [value.bit_count() for value in range(256)]


# utils.log


def test_logs(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    log.add_log_level_flag(parser)
    assert parser.parse_args([]).log_level == logging.INFO
    assert parser.parse_args(["--log_level", "10"]).log_level == logging.DEBUG
    with caplog.at_level(logging.DEBUG):
        log.log_tensor(torch.ones(2), "ones")
    assert "ones: [2]" in caplog.text
    log.print_tensor(torch.ones(2), "ones", print_stats=True)
    assert "mean 1.0000" in capsys.readouterr().out


def test_log_setup(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[dict[str, Any]] = []
    monkeypatch.setattr(logging, "basicConfig", lambda **options: calls.append(options))
    log.default_log_setup(logging.DEBUG)
    assert (calls[0]["level"], calls[0]["force"]) == (logging.DEBUG, True)


# ops.coords, ops.random


@given(st.floats(-3.14, 3.14), st.floats(-1.57, 1.57), st.floats(0.1, 10))
@settings(max_examples=50, deadline=None)
def test_spherical_coordinates_there_and_back(azimuth: float, elevation: float, distance: float) -> None:
    given_ = [torch.tensor(value, dtype=torch.double) for value in (azimuth, elevation, distance)]
    x, y, z = coords.spherical2cartesian(*given_)
    assert float(torch.stack([x, y, z]).norm()) == pytest.approx(distance)
    torch.testing.assert_close(list(coords.cartesian2spherical(x, y, z)), given_, atol=1e-12, rtol=1e-12)


def test_coordinates_at_poles_and_origin() -> None:
    zero, one = torch.tensor(0.0), torch.tensor(1.0)
    assert [float(v) for v in coords.cartesian2spherical(zero, zero, zero)] == [0, 0, 0]
    assert float(coords.cartesian2spherical(zero, zero, one)[1]) == pytest.approx(math.pi / 2)
    tiny = torch.tensor(1e-4)  # asin(z / distance) would say pi/2
    assert float(coords.cartesian2spherical(tiny, zero, one)[1]) == pytest.approx(math.pi / 2 - 1e-4, abs=1e-7)
    assert [float(v) for v in coords.spherical2cartesian(zero, zero)] == [1, 0, 0]


def test_random_shapes_and_tensors() -> None:
    shapes = kal_random.random_shape_per_tensor(500, (2, 1), (3, 4))
    assert (shapes.min(0).values.tolist(), shapes.max(0).values.tolist()) == ([2, 1], [3, 4])
    for bad in (
        {"max_shape": None},
        {"min_shape": (5, 5), "max_shape": (4, 9)},
        {"min_shape": (1,), "max_shape": (2, 2)},
    ):
        with pytest.raises(ValueError, match="max_shape"):
            kal_random.random_shape_per_tensor(2, **bad)
    whole = kal_random.random_tensor(1, 3, (1000,), torch.int)
    assert sorted(set(whole.tolist())) == [1, 2, 3]
    assert kal_random.random_tensor(0, 1, (50,), torch.bool).dtype == torch.bool
    real = kal_random.random_tensor(-1, 2, (1000,), torch.double)
    assert -1 <= float(real.min()) < -0.9 < 1.9 < float(real.max()) <= 2


def test_directions_are_spread_evenly() -> None:
    kal_random.manual_seed(0)
    azimuth, elevation = kal_random.sample_spherical_coords((20_000,), elevation_low=-math.pi / 2, dtype=torch.double)
    directions = torch.stack(coords.spherical2cartesian(azimuth, elevation))
    assert float(directions.mean(dim=1).abs().max()) < 0.02
    torch.testing.assert_close(directions @ directions.T / 20_000, torch.eye(3).double() / 3, atol=0.01, rtol=0)


# ops.gcn


def test_graph_convolution_is_the_dense_formula() -> None:
    generator = torch.Generator().manual_seed(0)
    dense = (torch.rand(6, 6, generator=generator) < 0.4).float() * torch.rand(6, 6, generator=generator)
    dense[2] = 0  # a node without neighbours
    sparse = dense.to_sparse()
    total = dense.sum(dim=1, keepdim=True)
    normal = torch.where(total == 0, 0, dense / torch.where(total == 0, 1, total))
    torch.testing.assert_close(gcn.normalize_adj(dense), normal)
    torch.testing.assert_close(gcn.normalize_adj(sparse).to_dense(), normal)
    features = torch.rand(3, 6, 4, generator=generator)
    torch.testing.assert_close(gcn.sparse_bmm(sparse, features), dense @ features)
    layer = gcn.GraphConv(4, 5)
    want = normal @ layer.linear(features) + layer.linear_self(features)
    torch.testing.assert_close(layer(features, sparse), want)
    torch.testing.assert_close(layer(features, dense), want)
    torch.testing.assert_close(layer(features[0], sparse), want[0])
    plain = gcn.GraphConv(4, 5, self_layer=False, bias=False)
    torch.testing.assert_close(plain(features, sparse, normalize_adj=False), dense @ plain.linear(features))
    assert plain.linear_self is None
    assert float(layer.linear.weight.detach().abs().max()) <= 0.5
