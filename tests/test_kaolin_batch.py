"""Batches as lists, padded and packed; sums over sub-tensors."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smr.kaolin.ops import batch, reduction


@st.composite
def lists_of_tensors(draw: st.DrawFn) -> list[torch.Tensor]:
    dims, last = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    shapes = draw(st.lists(st.lists(st.integers(0, 4), min_size=dims, max_size=dims), min_size=1, max_size=5))
    return [torch.randn(*shape, last) for shape in shapes]


@given(lists_of_tensors())
@settings(max_examples=60, deadline=None)
def test_lists_there_and_back(tensors: list[torch.Tensor]) -> None:
    packed, shapes = batch.list_to_packed(tensors)
    first = batch.get_first_idx(shapes.prod(dim=1))
    assert int(first[-1]) == len(packed)
    back = batch.packed_to_list(packed, shapes, first)
    assert all(torch.equal(a, b) for a, b in zip(back, tensors, strict=True))
    padded, same = batch.list_to_padded(tensors, -7.0)
    assert torch.equal(shapes, same)
    assert padded.shape == (len(tensors), *shapes.max(dim=0).values.tolist(), tensors[0].shape[-1])
    back = batch.padded_to_list(padded, shapes)
    assert all(torch.equal(a, b) for a, b in zip(back, tensors, strict=True))
    assert torch.equal(batch.padded_to_packed(padded, shapes), packed)
    assert torch.equal(batch.packed_to_padded(packed, shapes, first, -7.0), padded)
    assert int((padded == -7).sum()) == padded.numel() - packed.numel()


def test_padding_to_a_given_size() -> None:
    tensors = [torch.ones(2, 3, 1), torch.ones(1, 4, 1)]
    assert batch.list_to_padded(tensors, 0, (5, -1))[0].shape == (2, 5, 4, 1)
    with pytest.raises(ValueError, match=r"max_shape \(1, 4\) does not hold"):
        batch.list_to_padded(tensors, 0, (1, -1))
    with pytest.raises(ValueError, match="does not hold"):
        batch.padded_to_packed(torch.zeros(2, 1, 1, 1), torch.tensor([[2, 1], [1, 1]]))


def test_gradients_go_through_packing_and_padding() -> None:
    tensors = [torch.randn(2, 3, dtype=torch.double, requires_grad=True), torch.randn(4, 3, dtype=torch.double)]

    def there_and_back(first: torch.Tensor) -> torch.Tensor:
        padded, shapes = batch.list_to_padded([first, tensors[1]], 0.0)
        return batch.padded_to_packed(padded * padded, shapes)

    assert torch.autograd.gradcheck(there_and_back, (tensors[0],))


@pytest.mark.parametrize(
    ("tensors", "text"),
    [
        ([torch.ones(2, 2, 2), torch.ones(3, 3, 3)], "last dimension 2 but got 3 at index 1"),
        ([torch.ones(2, 2), torch.ones(3, 3, 2)], "have 2 dimensions but got 3 at index 1"),
        ([torch.ones(2, 2).long(), torch.ones(2, 2)], "type torch.LongTensor but got torch.FloatTensor at index 1"),
    ],
)
def test_tensors_that_do_not_go_together(tensors: list[torch.Tensor], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        batch.list_to_packed(tensors)


def test_sizes_that_do_not_add_up() -> None:
    with pytest.raises(ValueError, match="do not agree"):
        batch.packed_to_padded(torch.ones(5, 1), torch.tensor([[2], [2]]), torch.tensor([0, 2, 4]), 0)
    with pytest.raises(ValueError, match="adds up to 3, but tensor has 4 rows"):
        reduction.packed_simple_sum(torch.ones(4, 1), torch.tensor([1, 2]))
    with pytest.raises(ValueError, match=r"shape \(\*, 1\)"):
        reduction.packed_simple_sum(torch.ones(4), torch.tensor([4]))
    with pytest.raises(ValueError, match="one shape"):
        batch.tile_to_packed(torch.ones(2), torch.tensor([1, 2, 3]))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.sampled_from([torch.float, torch.double, torch.long]))
@settings(max_examples=40, deadline=None)
def test_sums_and_tiles_are_those_of_a_loop(numel: list[int], dtype: torch.dtype) -> None:
    values = (torch.rand(sum(numel), 1) * 100).to(dtype)
    parts = torch.split(values, numel)
    torch.testing.assert_close(
        reduction.packed_simple_sum(values, torch.tensor(numel)), torch.stack([part.sum() for part in parts])
    )
    tiles = batch.tile_to_packed(torch.arange(len(numel)), torch.tensor(numel))
    assert tiles.flatten().tolist() == [i for i, count in enumerate(numel) for _ in range(count)]


def test_sums_of_bools_and_of_many_halves() -> None:
    assert reduction.packed_simple_sum(torch.ones(5, 1).bool(), torch.tensor([2, 3])).tolist() == [2, 3]
    many = torch.full((10_000, 1), 0.1, dtype=torch.half)
    assert float(reduction.packed_simple_sum(many, torch.tensor([10_000]))[0]) == pytest.approx(1000, rel=1e-3)


def test_sum_and_tile_are_each_others_gradient() -> None:
    numel = torch.tensor([2, 0, 3])
    values = torch.randn(3, dtype=torch.double, requires_grad=True)
    rows = torch.randn(5, 1, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: batch.tile_to_packed(v, numel), values)
    assert torch.autograd.gradcheck(lambda r: reduction.packed_simple_sum(r, numel), rows)
    assert torch.autograd.gradgradcheck(lambda r: reduction.packed_simple_sum(r * r, numel), rows)
    assert batch._TileToPackedCuda.apply(values, numel, torch.tensor(5)).shape == (5, 1)
    assert reduction._PackedSimpleSumCuda.apply(rows, numel).shape == (3,)


def test_the_largest_shape() -> None:
    shapes = torch.tensor([[1, 5], [3, 2]])
    assert batch.fill_max_shape(shapes).tolist() == [3, 5]
    assert batch.fill_max_shape(shapes, (-1, 9)).tolist() == [3, 9]
