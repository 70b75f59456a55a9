from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smr.mesh.half_edges import component_labels, fan_leads, group_half_edges, rank_by_first, sort_by_bucket

FACES = st.lists(st.tuples(*[st.integers(0, 9)] * 3), min_size=1, max_size=120).map(lambda f: np.array(f, np.int32))


def directed(faces: np.ndarray) -> np.ndarray:
    return np.stack([faces, np.roll(faces, -1, axis=1)], axis=2).reshape(-1, 2)


@settings(deadline=None)  # the first example waits for the compiler
@given(FACES)
def test_half_edges_are_grouped_as_a_stable_sort_does(faces: np.ndarray) -> None:
    low, high = np.sort(directed(faces), axis=1).T
    keys = low.astype(np.int64) << 32 | high
    found = group_half_edges(faces, 10)
    np.testing.assert_array_equal(found.order, np.argsort(keys, kind="stable"))
    _, first, inverse, counts = np.unique(keys[found.order], return_index=True, return_inverse=True, return_counts=True)
    np.testing.assert_array_equal(found.starts, first)
    np.testing.assert_array_equal(found.sizes, counts)
    np.testing.assert_array_equal(found.counts[found.order], counts[inverse])
    paired = found.mates >= 0
    np.testing.assert_array_equal(paired, found.counts == 2)
    np.testing.assert_array_equal(found.mates[found.mates[paired]], np.flatnonzero(paired))
    np.testing.assert_array_equal(keys[found.mates[paired]], keys[paired])


def test_the_hub_of_a_fan_is_sorted_by_a_heap() -> None:
    rim = np.random.default_rng(0).permutation(3000).astype(np.int32) + 1
    faces = np.stack([np.zeros(2999, np.int32), rim[:-1], rim[1:]], axis=1)
    low, high = np.sort(directed(faces), axis=1).T
    expected = np.argsort(low.astype(np.int64) << 32 | high, kind="stable")
    np.testing.assert_array_equal(group_half_edges(faces, 3001).order, expected)


@settings(deadline=None)  # the first example waits for the compiler
@given(st.lists(st.integers(0, 5), max_size=60))
def test_buckets_are_sorted_stably(values: list[int]) -> None:
    buckets = np.array(values, np.int32)
    start, order = sort_by_bucket(buckets, 6)
    np.testing.assert_array_equal(order, np.argsort(buckets, kind="stable"))
    np.testing.assert_array_equal(np.diff(start), np.bincount(buckets, minlength=6))


def fans_in_python(faces: np.ndarray, mates: np.ndarray) -> list[int]:
    corners = faces.ravel()
    lead = list(range(len(corners)))
    following = [1, 1, -2]
    changed = True
    while changed:
        changed = False
        for h, mate in enumerate(mates):
            if mate >= 0:
                for corner in (h, h + following[h % 3]):
                    for other in (mate, mate + following[mate % 3]):
                        if corners[corner] == corners[other] and lead[corner] != lead[other]:
                            lead[corner] = lead[other] = min(lead[corner], lead[other])
                            changed = True
    return lead


@settings(deadline=None)  # the first example waits for the compiler
@given(FACES.filter(lambda f: len(f) < 25))
def test_fans_hang_together_across_mates(faces: np.ndarray) -> None:
    faces = faces[(faces != np.roll(faces, 1, axis=1)).all(axis=1)]
    if len(faces):
        mates = group_half_edges(faces, 10).mates
        leads, order = fan_leads(faces, 10, mates)
        assert leads.tolist() == fans_in_python(faces, mates)
        np.testing.assert_array_equal(order, np.argsort(faces.ravel(), kind="stable"))


@settings(deadline=None)  # the first example waits for the compiler
@given(FACES)
def test_components_are_numbered_by_first_vertex(faces: np.ndarray) -> None:
    count, labels = component_labels(faces, 12)
    assert np.unique(labels, return_index=True)[1].tolist() == sorted(np.unique(labels, return_index=True)[1])
    assert count == labels.max() + 1
    expected = np.arange(12)
    for _ in range(12):
        for face in faces:
            expected[face] = expected[face].min()
    np.testing.assert_array_equal(np.unique(expected, return_inverse=True)[1], labels)


@pytest.mark.parametrize(("labels", "ranks"), [([4, 4, 1, 4, 0], [0, 0, 1, 0, 2]), ([], []), ([0], [0])])
def test_ranks_follow_first_appearance(labels: list[int], ranks: list[int]) -> None:
    count, ranked = rank_by_first(np.array(labels, np.int32), 5)
    assert ranked.tolist() == ranks
    assert count == len(set(ranks))
