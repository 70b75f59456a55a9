"""FlexiCubes (Shen et al. 2023): dual marching cubes whose vertices and cuts follow weights, for optimisation.

O(C log C) time for the sort of the surface cells' edges, O(C) memory for C cells; all results are differentiable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from ...tsdf.cube_table import FACES
from ..segments import Segments, group_rows, segment_sum, take_rows
from ..tensors import FLOATS, INDICES, check_finite, check_indices, check_same_device, check_tensor
from .dual_tables import EDGES, dual_tables

Gradients = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class CellWeights:
    """Weights of cells, all positive; None stands for ones."""

    corners: torch.Tensor | None = None
    """(C, 8): crossings move away from the corners with larger weights (alpha)."""
    edges: torch.Tensor | None = None
    """(C, 12), in the order of `dual_tables.EDGES`: vertices move towards crossings with larger weights (beta)."""
    cells: torch.Tensor | None = None
    """(C,): squares are cut between the vertices whose product is larger (gamma)."""


@dataclass(frozen=True)
class DualSurface:
    """A surface with one vertex or more in each cell that it passes through."""

    vertices: torch.Tensor
    """(V, 3), by cell."""
    squares: torch.Tensor
    """(Q, 4) int64, counter-clockwise seen from outside, one around each crossed edge inside the grid."""
    edges: torch.Tensor
    """(Q, 2) int64: the corners of the grid, lower number first, between which a square lies."""
    weights: torch.Tensor
    """(V,): the weight of each vertex's cell."""
    deviations: torch.Tensor
    """(V,): mean difference between a vertex's distances to its crossings and their mean; the loss of the paper."""
    features: torch.Tensor | None
    """(V, F): features of the grid's corners, interpolated."""
    cells: torch.Tensor
    """(V,) int64: the cell of each vertex."""


def flexicubes(
    corners: torch.Tensor,
    values: torch.Tensor,
    cells: torch.Tensor,
    weights: CellWeights | None = None,
    *,
    features: torch.Tensor | None = None,
    gradients: Gradients | None = None,
    regularization: float = 1e-3,
) -> DualSurface:
    """Extract the zero level of values at the corners of cells.

    Args:
        corners: (N, 3), positions of the grid's corners; they may be deformed.
        values: (N,); below zero is inside.
        cells: (C, 8), corners of each cell, numbered as in `dual_tables`; sorted along x, y, z.
        weights: Of the cells.
        features: (N, F), interpolated at the vertices.
        gradients: Gives the values' gradients at positions (P, 3); vertices then go where the planes through the
            crossings meet (quadratic error function), so that sharp edges stay.
        regularization: Weight of the way from the crossings' mean against the distance to those planes.

    Raises:
        TypeError: Wrong types.
        ValueError: Wrong shapes, an index out of range, a value that is not finite.
    """
    weights = weights or CellWeights()
    _check(corners, values, cells, features)
    case = _cases(values, cells)
    crossing = ((case > 0) & (case < 255)).nonzero()[:, 0]
    case, cells = _settle(case[crossing], cells[crossing].long()), cells[crossing].long()
    counts, table = (torch.from_numpy(t).to(values.device) for t in (dual_tables().counts, dual_tables().of_edges))
    per_cell = counts[case]
    first = per_cell.cumsum(0) - per_cell
    cell, slot = (table[case] >= 0).nonzero().unbind(1)
    vertex = first[cell] + table[case][cell, slot]
    around = group_rows(vertex, int(per_cell.sum()))

    ends = cells[:, EDGES][cell, slot]
    shares = _shares(values, ends, weights.corners, crossing[cell], slot)
    places = _mix(corners, ends, shares)
    pull = torch.ones_like(shares) if weights.edges is None else weights.edges[crossing[cell], slot]
    total = segment_sum(pull[:, None], around)
    means = segment_sum(pull[:, None] * places, around) / total
    vertices = means if gradients is None else _meet(means, places, gradients(places), around, regularization)
    distances = (places - take_rows(vertices, vertex)).norm(dim=1, keepdim=True)
    sizes = around.sizes[:, None].to(values.dtype)
    mean_distance = segment_sum(distances, around) / sizes
    deviations = segment_sum((distances - take_rows(mean_distance, vertex)).abs(), around) / sizes
    of_vertex = torch.repeat_interleave(crossing, per_cell)
    mixed = None
    if features is not None:
        mixed = segment_sum(pull[:, None] * _mix(features, ends, shares), around) / total
    squares, edges = _squares(values, cells, cell, slot, vertex)
    gamma = torch.ones_like(vertices[:, 0]) if weights.cells is None else weights.cells[of_vertex]
    return DualSurface(vertices, squares, edges, gamma, deviations[:, 0], mixed, of_vertex)


def cut_squares(surface: DualSurface) -> torch.Tensor:
    """Two triangles a square, cut between the vertices whose weights have the larger product: (2 Q, 3)."""
    a, b, c, d = surface.squares.unbind(1)
    at = surface.weights[surface.squares]
    ac = (at[:, 0] * at[:, 2] > at[:, 1] * at[:, 3])[:, None]
    first = torch.stack([a, b, c, a, c, d], dim=1)
    second = torch.stack([a, b, d, d, b, c], dim=1)
    return torch.where(ac, first, second).reshape(-1, 3)


def fan_squares(surface: DualSurface, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Four triangles a square around a new point, whose place depends smoothly on the weights.

    Args:
        surface: The squares.
        rows: (V, C), positions or features of the vertices.

    Returns:
        (V + Q, C), the new points behind the old ones, and faces (4 Q, 3).
    """
    corner = take_rows(rows, surface.squares.reshape(-1)).unflatten(0, (-1, 4))
    at = take_rows(surface.weights[:, None], surface.squares.reshape(-1)).unflatten(0, (-1, 4))
    ac, bd = at[:, 0] * at[:, 2], at[:, 1] * at[:, 3]
    middle = ((corner[:, 0] + corner[:, 2]) / 2 * ac + (corner[:, 1] + corner[:, 3]) / 2 * bd) / (ac + bd)
    hub = (len(rows) + torch.arange(len(middle), device=rows.device))[:, None].expand(-1, 4)
    faces = torch.stack([surface.squares, surface.squares.roll(-1, dims=1), hub], dim=2).reshape(-1, 3)
    return torch.cat([rows, middle]), faces


def _check(corners: torch.Tensor, values: torch.Tensor, cells: torch.Tensor, features: torch.Tensor | None) -> None:
    check_tensor("corners", corners, (None, 3), FLOATS)
    check_tensor("values", values, (len(corners),), FLOATS)
    check_tensor("cells", cells, (None, 8), INDICES)
    check_same_device(corners=corners, values=values, cells=cells, features=features)
    check_indices("cells", cells, len(corners), "corners")
    check_finite("values", values)
    if features is not None:
        check_tensor("features", features, (len(corners), None), FLOATS)


def _cases(values: torch.Tensor, cells: torch.Tensor) -> torch.Tensor:
    inside = (values.detach() < 0)[cells.long()].long()
    return (inside << torch.arange(8, device=values.device)).sum(dim=1)


def _settle(case: torch.Tensor, cells: torch.Tensor) -> torch.Tensor:
    """Where two cells share a risky side, both join the outside corners across it instead."""
    side = torch.from_numpy(dual_tables().risky_sides).to(case.device)[case]
    risky = (side >= 0).nonzero()[:, 0]
    rings = torch.tensor(FACES, device=case.device)[side[risky]]
    _, group, sizes = torch.unique(
        cells[risky].gather(1, rings).sort(dim=1).values, dim=0, return_inverse=True, return_counts=True
    )
    case = case.clone()
    case[risky[sizes[group] == 2]] += 256
    return case


def _shares(
    values: torch.Tensor, ends: torch.Tensor, alpha: torch.Tensor | None, cell: torch.Tensor, slot: torch.Tensor
) -> torch.Tensor:
    """How far along its edge, from the first end, each crossing lies."""
    at = take_rows(values[:, None], ends.reshape(-1)).reshape(-1, 2)
    if alpha is not None:
        at = at * alpha[cell[:, None], torch.tensor(EDGES, device=cell.device)[slot]]
    return at[:, 0] / (at[:, 0] - at[:, 1])


def _mix(rows: torch.Tensor, ends: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
    first, second = take_rows(rows, ends.reshape(-1)).unflatten(0, (-1, 2)).unbind(1)
    return first + shares[:, None] * (second - first)


def _meet(
    means: torch.Tensor, places: torch.Tensor, normals: torch.Tensor, around: Segments, regularization: float
) -> torch.Tensor:
    """Where planes through the crossings come closest together, near the crossings' mean."""
    normals = normals.to(means.dtype)
    heights = (normals * (places - take_rows(means, around.index))).sum(dim=1, keepdim=True)
    squares = segment_sum((normals[:, :, None] * normals[:, None]).flatten(1), around).unflatten(1, (3, 3))
    right = segment_sum(normals * heights, around)
    eye = regularization**2 * torch.eye(3, dtype=means.dtype, device=means.device)
    return means + torch.linalg.solve(squares + eye, right)


def _squares(
    values: torch.Tensor, cells: torch.Tensor, cell: torch.Tensor, slot: torch.Tensor, vertex: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Squares around the crossed edges that four cells share, and the ends of those edges."""
    ends = cells[:, EDGES][cell, slot].sort(dim=1).values
    pairs, of_pair, sizes = torch.unique(ends, dim=0, return_inverse=True, return_counts=True)
    inner = (sizes == 4).nonzero()[:, 0]
    order = torch.argsort(of_pair, stable=True)
    starts = (sizes.cumsum(0) - sizes)[inner]
    members = order[starts[:, None] + torch.arange(4, device=values.device)]
    along_y = slot[members[:, 0]] // 4 == 1
    inside_first = values.detach()[pairs[inner, 0]] < 0
    turned = along_y != inside_first
    rings = torch.tensor([[0, 1, 3, 2], [2, 3, 1, 0]], device=values.device)[turned.long()]
    squares = vertex[members].gather(1, rings)
    ranks = torch.argsort(turned.long(), stable=True)
    return squares[ranks], pairs[inner][ranks]
