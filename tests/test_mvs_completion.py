"""Planes where stereo finds none: taken from around, only where that surface goes on; small pieces are dropped."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp

from smr.mvs.completion import COST, ISLAND, complete, without_fringe, without_islands
from smr.mvs.geometry import make_level
from smr.mvs.neighbours import Neighbourhood
from smr.records import Camera

CAMERA = Camera(96, 72, 90.0, 90.0, 48.0, 36.0)
AROUND = Neighbourhood((), 0.5, 4.0)
ROWS, COLUMNS = np.mgrid[:72, :96]
SLOPED = 0.8 + 0.002 * COLUMNS - 0.001 * ROWS
"""Inverse depth of a plane."""


def completed(near: np.ndarray, sure: np.ndarray, grey: np.ndarray, device: str) -> tuple[np.ndarray, np.ndarray]:
    """Planes and costs; where nothing is sure there are planes of cost 1.5 at inverse depth 1.9."""
    planes = np.zeros((near.size, 3), np.float32)
    planes[:, 0] = np.where(sure, near, 1.9).ravel()
    costs = np.where(sure, 0.1, 1.5).astype(np.float32).ravel()
    level = make_level(CAMERA, 1, 0, AROUND, 0.0, device)
    new_planes, new_costs = complete(
        level,
        wp.array(grey.astype(np.float16).ravel(), dtype=wp.float16, device=device),
        wp.array(np.ones(near.size, np.uint8), dtype=wp.uint8, device=device),
        (wp.array(planes, dtype=wp.vec3, device=device), wp.array(costs, dtype=wp.float32, device=device)),
        wp.array(np.where(sure, 1 / near, 0).astype(np.float32).ravel(), dtype=wp.float32, device=device),
        device,
    )
    return new_planes.numpy().reshape(72, 96, 3), new_costs.numpy().reshape(72, 96)


def disk(radius: float, column: int = 48, row: int = 36) -> np.ndarray:
    return (COLUMNS - column) ** 2 + (ROWS - row) ** 2 < radius**2


def test_a_hole_in_a_plane_gets_the_plane(device: str) -> None:
    hole = disk(5)
    planes, costs = completed(SLOPED, ~hole, np.full(hole.shape, 200.0), device)
    assert (costs[hole] == np.float32(COST)).all()
    np.testing.assert_allclose(planes[hole][:, 0], SLOPED[hole], rtol=1e-5)
    np.testing.assert_allclose(planes[hole][:, 1:], np.tile([0.002, -0.001], (hole.sum(), 1)), atol=1e-5)
    assert (costs[~hole] == np.float32(0.1)).all()  # what is sure stays


def test_some_wrong_neighbours_do_not_matter(device: str) -> None:
    hole = disk(5)
    near = np.where(2 * np.abs(ROWS - 36) < COLUMNS - 48, 1.5, SLOPED)  # a wedge of 53 degrees
    planes, costs = completed(near, ~hole, np.full(hole.shape, 200.0), device)
    filled = hole & (costs == np.float32(COST))
    assert filled[36, 44]
    np.testing.assert_allclose(planes[filled][:, 0], SLOPED[filled], rtol=2e-3)


@pytest.mark.parametrize(
    ("near", "sure", "grey"),
    [
        (SLOPED, ~disk(5), np.where(disk(5), 100.0, 200.0)),  # of another colour: something else, or sky
        (SLOPED, ~(disk(7) | (ROWS < 36)), np.full((72, 96), 200.0)),  # open above
        (np.where(COLUMNS < 48, 0.7, 1.4), ~disk(5), np.full((72, 96), 200.0)),  # between two surfaces
        (SLOPED, disk(5, 20, 20), np.full((72, 96), 200.0)),  # too far away
    ],
)
def test_what_is_no_hole_in_a_surface_is_left_alone(
    near: np.ndarray, sure: np.ndarray, grey: np.ndarray, device: str
) -> None:
    planes, costs = completed(near, sure, grey, device)
    assert costs[36, 48] == np.float32(1.5)
    assert planes[36, 48, 0] == np.float32(1.9)


def test_small_pieces_are_dropped() -> None:
    depth = np.zeros((200, 300), np.float32)
    depth[20:120, 30:200] = 2.0 + 0.001 * np.arange(170)
    depth[60:62, 90:93] = 1.0  # floats before the large piece
    depth[150:152, 250:252] = 2.0  # stands alone
    assert ISLAND * depth.size > 4
    kept = without_islands(depth)
    assert not kept[150:152, 250:252].any()
    assert not kept[60:62, 90:93].any()
    assert kept.sum() == 170 * 100 - 6


def test_the_fringe_of_an_outline_is_dropped(device: str) -> None:
    ball = disk(20)
    grey = np.where(ball, 60 + 10.0 * (COLUMNS % 3), 220.0).astype(np.float32)
    depth = np.where(disk(23), 1.0, 0.0).astype(np.float32)  # three pixels of the backdrop have the ball's depth
    np.testing.assert_array_equal(without_fringe(depth, grey, device), ball)
    small = disk(3, 44, 36)
    depth[small] = 0  # a hole is no backdrop, whatever its colour
    grey[small] = 220.0
    np.testing.assert_array_equal(without_fringe(depth, grey, device), ball & ~small)


def test_an_outline_without_an_edge_stays(device: str) -> None:
    depth = np.where(disk(20), 1.0, 0.0).astype(np.float32)
    kept = without_fringe(depth, np.full(depth.shape, 90.0, np.float32), device)
    np.testing.assert_array_equal(kept, depth > 0)
