"""How attributes change from pixel to pixel."""

from __future__ import annotations

from typing import Any, no_type_check

import torch
import warp as wp
from jaxtyping import Float, Int
from torch import Tensor

from ...render.surface import offset
from ...render.triangles import View
from ..launches import launchers
from ..tensors import use_warp
from .fragments import Fragments, check_faces, check_fragments, check_surface
from .interpolate import interpolate
from .rasterize import check_scene
from .surface_kernels import face_corners, matrix_of


def screen_derivatives(
    attributes: Float[Tensor, "..."],
    fragments: Fragments,
    vertices: Float[Tensor, "*batch V 3"],
    faces: Int[Tensor, "*meshes F 3"],
    camera: Any,
    *,
    orthographic: bool = False,
) -> Float[Tensor, "B H W L C 2"]:
    """Derivatives of interpolated attributes along x and y, in units a pixel; on each face's own plane.

    With texture coordinates as attributes these are what `texture` chooses its mipmaps by.

    Args:
        attributes: As for `interpolate`; gradients reach these, and no other argument.
        fragments: What `rasterize` found, with the same vertices, faces, camera and `orthographic`.
        vertices: As for `rasterize`.
        faces: As for `rasterize`.
        camera: As for `rasterize`.
        orthographic: As for `rasterize`.
    """
    shape = check_fragments(fragments, attributes=attributes, vertices=vertices, faces=faces)
    size = (shape[1], shape[2])
    vertices, camera, view = check_scene(vertices, camera, size, None, orthographic, batch=shape[0])
    if fragments.bary_coords.dtype != vertices.dtype:
        raise TypeError(f"vertices are {vertices.dtype} and fragments {fragments.bary_coords.dtype}")
    rows, per_image = check_faces(faces, shape[0])
    check_surface(fragments, faces, vertices, camera)
    with torch.no_grad():
        slopes = _slopes(fragments, vertices, camera, rows, per_image, view)
    along = [
        interpolate(attributes, Fragments(fragments.pix_to_face, fragments.zbuf, slope), faces) for slope in slopes
    ]
    return torch.stack(along, -1)


def _slopes(
    fragments: Fragments, vertices: Tensor, camera: Tensor, rows: Tensor, per_image: int, view: Any
) -> tuple[Tensor, Tensor]:
    """Derivatives of barycentric coordinates along x and along y; 0 where there is no face."""
    if not use_warp():
        return _slopes_torch(fragments, vertices, camera, rows, per_image, view)
    vertices, camera = vertices.contiguous(), camera.contiguous()
    along_x = torch.empty_like(fragments.bary_coords, memory_format=torch.contiguous_format)
    along_y = torch.empty_like(along_x)
    pix_to_face = fragments.pix_to_face.contiguous()
    scene = (view, camera, vertices, vertices.shape[1], rows, per_image, pix_to_face.shape[-1], pix_to_face)
    _SLOPES[vertices.dtype](pix_to_face.numel(), *scene, along_x, along_y, like=vertices)
    return along_x, along_y


@wp.func
@no_type_check
def _quotient(n0: Any, n1: Any, n2: Any, d0: Any, d1: Any, d2: Any, like: Any):
    """Derivative of n / sum(n), where n changes by d."""
    total = n0 + n1 + n2
    if total == type(total)(0.0):
        return type(like)(total, total, total)
    change = (d0 + d1 + d2) / total
    return type(like)((d0 - n0 * change) / total, (d1 - n1 * change) / total, (d2 - n2 * change) / total)


@wp.kernel(enable_backward=False)
@no_type_check
def _find_slopes(
    base: int,
    view: View,
    k: wp.array(dtype=Any),
    vertices: wp.array(dtype=Any),
    vertex_count: int,
    faces: wp.array(dtype=wp.vec3i),
    per_image: int,
    layers: int,
    pix_to_face: wp.array(dtype=wp.int64),
    along_x: wp.array(dtype=Any),
    along_y: wp.array(dtype=Any),
):
    fragment = base + wp.tid()
    pixel = fragment / layers
    face = wp.int32(pix_to_face[fragment])
    zero = type(k[0])(0.0)
    one = type(k[0])(1.0)
    per = view.width * view.height
    image = pixel / per
    low = image * vertex_count
    corners = wp.vec3i(-1, -1, -1)
    if face >= 0 and face < wp.abs(per_image):
        corners = face_corners(faces, face, image, per_image, vertex_count)
    for corner in range(3):
        if corners[corner] < low or corners[corner] >= low + vertex_count:
            along_x[fragment] = type(along_x[fragment])(zero, zero, zero)
            along_y[fragment] = type(along_x[fragment])(zero, zero, zero)
            return
    px = type(zero)(pixel % per % view.width) + type(zero)(0.5)
    py = type(zero)(pixel % per / view.width) + type(zero)(0.5)
    first = matrix_of(k, image)
    va = vertices[corners[0]]
    vb = vertices[corners[1]]
    vc = vertices[corners[2]]
    ax, ay = offset(va, k, first, px, py, view.perspective)
    bx, by = offset(vb, k, first, px, py, view.perspective)
    cx, cy = offset(vc, k, first, px, py, view.perspective)
    aw = one
    bw = one
    cw = one
    if view.perspective != 0:
        aw = va[2]
        bw = vb[2]
        cw = vc[2]
    n0 = bx * cy - by * cx
    n1 = cx * ay - cy * ax
    n2 = ax * by - ay * bx
    # a step along x takes the divisor from each x
    along_x[fragment] = _quotient(n0, n1, n2, by * cw - bw * cy, cy * aw - cw * ay, ay * bw - aw * by, va)
    along_y[fragment] = _quotient(n0, n1, n2, bw * cx - bx * cw, cw * ax - cx * aw, aw * bx - ax * bw, va)


_SLOPES = launchers(_find_slopes, scalars=("k",), vectors=("vertices", "along_x", "along_y"))


def _slopes_torch(
    fragments: Fragments, vertices: Tensor, camera: Tensor, rows: Tensor, per_image: int, view: Any
) -> tuple[Tensor, Tensor]:
    face = fragments.pix_to_face
    seen = (face >= 0) & (face < abs(per_image))
    image, row, column, _ = seen.nonzero(as_tuple=True)
    chosen = face[seen] + (image * -per_image if per_image < 0 else 0)
    corners = vertices[image[:, None], rows[chosen].long()]
    w = corners[..., 2] if view.perspective else torch.ones_like(corners[..., 2])
    matrix = camera.expand(len(vertices), 3, 3)[image]
    place = torch.stack([column, row], -1).to(vertices.dtype) + 0.5
    xy = corners[..., :2] @ matrix[:, :2, :2].mT + (matrix[:, None, :2, 2] - place[:, None]) * w[..., None]
    x, y = xy.unbind(-1)
    n = _products(x, y)
    slopes = []
    for change in (_products(w, y), _products(x, w)):
        total = n.sum(-1, keepdim=True)
        safe = torch.where(total == 0, 1.0, total)
        slope = -(change - n * change.sum(-1, keepdim=True) / safe) / safe
        slope = torch.where(total == 0, 0.0, slope)
        slopes.append(torch.zeros_like(fragments.bary_coords).masked_scatter(seen[..., None], slope))
    return slopes[0], slopes[1]


def _products(x: Tensor, y: Tensor) -> Tensor:
    """Cross products of corners 1 2, 2 0 and 0 1."""
    return x.roll(-1, -1) * y.roll(-2, -1) - y.roll(-1, -1) * x.roll(-2, -1)
