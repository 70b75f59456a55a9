"""Delaunay triangulation of points in the plane."""

from __future__ import annotations

import torch
from scipy.spatial import Delaunay, QhullError

from ..tensors import check_finite, check_tensor


def triangulate_points_2d(points: torch.Tensor) -> torch.Tensor:
    """Triangulate the convex hull of points in the plane (Delaunay), on the CPU: O(N log N).

    Args:
        points: (N, 2), at least three that do not lie on one line.

    Returns:
        (T, 3) int64 on the device of the points, counter-clockwise; every point is a corner of some triangle.

    Raises:
        TypeError: No floating-point tensor.
        ValueError: Another shape, fewer than three points, a coordinate that is not finite, two equal points, or all
            points on one line.
    """
    check_tensor("points", points, (None, 2))
    check_finite("points", points)
    if len(points) < 3:
        raise ValueError(f"a triangulation needs at least 3 points, not {len(points)}")
    places = points.detach().cpu().double()
    distinct, of_point = torch.unique(places, dim=0, return_inverse=True)
    if len(distinct) < len(places):
        order = torch.argsort(of_point, stable=True)
        same = int((of_point[order].diff() == 0).nonzero()[0])
        first, second = sorted(order[same : same + 2].tolist())
        raise ValueError(f"points[{first}] and points[{second}] are the same; take torch.unique(points, dim=0) first")
    centred = places - places.mean(dim=0)
    spread = torch.linalg.svdvals(centred)
    if spread[1] <= 1e-12 * spread[0]:
        raise ValueError("all points lie on one line, so there is no triangle; move them or use fewer dimensions")
    try:
        found = Delaunay((centred / spread[0]).numpy())
    except QhullError as error:
        raise ValueError(f"the points could not be triangulated: {str(error).splitlines()[0]}") from None
    if len(found.coplanar):
        lost, near = int(found.coplanar[0, 0]), int(found.coplanar[0, 2])
        raise ValueError(f"points[{lost}] and points[{near}] are too close together to be told apart; remove one")
    triangles = torch.from_numpy(found.simplices).long()
    a, b, c = places[triangles].unbind(1)
    clockwise = ((b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0]) < 0
    triangles[clockwise] = triangles[clockwise].flip(1)
    return triangles.to(points.device)
