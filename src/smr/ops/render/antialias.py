"""Antialiasing whose gradients move silhouettes."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..exact_sums import ExactSums
from ..tensors import check_same_device, check_tensor, use_warp
from .antialias_torch import blend_torch
from .fragments import Fragments, check_faces, check_fragments, check_size, check_surface
from .rasterize import check_scene
from .silhouette_kernels import BLEND, BLENDS_TO_VERTICES, FIND_BLENDS


def antialias(
    color: Float[Tensor, "B H W C"],
    fragments: Fragments,
    vertices: Float[Tensor, "*batch V 3"],
    faces: Int[Tensor, "*meshes F 3"],
    camera: Any,
    *,
    orthographic: bool = False,
    neighbors: Int[Tensor, "*meshes F 3"] | None = None,
) -> Float[Tensor, "B H W C"]:
    """Blend colours across silhouettes, by how much of the way between two pixels' centres the nearer face covers.

    Between neighbouring pixels that see different surfaces, an edge of the nearer one that is a silhouette (it has no
    neighbour, or one that turns back in the image) is where the colour changes. The pixel that it cuts into takes the
    other's colour in proportion. So gradients of the result reach the edge's vertices, which no gradient of what a
    pixel's centre sees can do.

    After Laine et al., "Modular Primitives for High-Performance Differentiable Rendering", 2020, section 3.4.
    Other than there, faces may be smaller than a pixel: the silhouette is searched by walking from face to face
    towards the other pixel. Parts that no pixel's centre sees are missed.

    Args:
        color: (B, H, W, C), the shaded picture of the first layer, background included.
        fragments: What `rasterize` found, with the same vertices, faces, camera and `orthographic`.
        vertices: As for `rasterize`.
        faces: As for `rasterize`.
        camera: As for `rasterize`.
        orthographic: As for `rasterize`.
        neighbors: `face_neighbors(faces)`, worth keeping while faces stay the same; found here where left out.

    Returns:
        (B, H, W, C). Gradients reach colours, vertices and camera, the same bits every time.
    """
    shape = check_fragments(fragments, color=color, faces=faces)
    check_tensor("color", color, (*shape[:3], None))
    size = (shape[1], shape[2])
    vertices, camera, view = check_scene(vertices, camera, size, None, orthographic, batch=shape[0])
    check_same_device(color=color, vertices=vertices, faces=faces)
    if color.dtype != vertices.dtype or fragments.zbuf.dtype != vertices.dtype:
        raise TypeError(f"color is {color.dtype}, fragments {fragments.zbuf.dtype} and vertices {vertices.dtype}")
    check_size("color", color.numel())
    if color.numel() == 0:
        return color
    rows, per_image = check_faces(faces, shape[0])
    check_surface(fragments, faces, vertices, camera)
    if neighbors is None:
        neighbors = face_neighbors(faces)
    across, across_per_image = check_faces(neighbors, shape[0])
    if across_per_image != per_image:
        raise ValueError(f"neighbors must have the shape of faces, {tuple(faces.shape)}, not {tuple(neighbors.shape)}")
    if use_warp():
        result: Tensor = _Antialias.apply(color, vertices, camera, fragments, rows, across, per_image, view)
        return result
    return blend_torch(color, vertices, camera, fragments, rows, across, per_image, view)


def face_neighbors(faces: Int[Tensor, "*meshes F 3"]) -> Int[Tensor, "*meshes F 3"]:
    """For each corner of a face, the neighbour across the edge opposite to it.

    The number is 3 times the neighbour's index plus the place of that corner of the neighbour which is not on the edge;
    -1 where there is no neighbour, or more than one. O(F log F) time, no wait of the host.

    Args:
        faces: (F, 3) or (B, F, 3), each mesh by itself.

    Returns:
        int32, of the same shape.
    """
    check_faces(faces, faces.shape[0] if isinstance(faces, Tensor) and faces.dim() == 3 else 1)
    meshes = (faces if faces.dim() == 3 else faces[None]).long()
    a, b = meshes.roll(-1, -1).flatten(1), meshes.roll(-2, -1).flatten(1)
    edges, corner = torch.sort(torch.minimum(a, b) << 31 | torch.maximum(a, b), dim=1, stable=True)
    alike = edges[:, 1:] == edges[:, :-1]
    no = alike.new_zeros(len(alike), 1)
    before, after = torch.cat([no, alike], 1), torch.cat([alike, no], 1)
    # three on an edge: the row before the one before, or after the one after, is alike too
    crowded = (before & before.roll(1, 1)) | (after & after.roll(-1, 1)) | (before & after)
    across = torch.where(before, corner.roll(1, 1), corner.roll(-1, 1))
    across = torch.where((before | after) & ~crowded, across, -1)
    return torch.empty_like(across).scatter_(1, corner, across).reshape(faces.shape).to(torch.int32)


class _Antialias(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        color: Tensor,
        vertices: Tensor,
        camera: Tensor,
        fragments: Fragments,
        rows: Tensor,
        across: Tensor,
        per_image: int,
        view: Any,
    ) -> Tensor:
        color, vertices, camera = color.contiguous(), vertices.contiguous(), camera.contiguous()
        pix_to_face, zbuf = fragments.pix_to_face.contiguous(), fragments.zbuf.detach().contiguous()
        pixels, channels = color[..., 0].numel(), color.shape[-1]
        blends = torch.empty((pixels, 2), dtype=color.dtype, device=color.device)
        edges = torch.empty((pixels, 2), dtype=torch.int32, device=color.device)
        layers = pix_to_face.shape[-1]
        scene = (view, camera, vertices, vertices.shape[1], rows)
        rest = (across, per_image, layers, pix_to_face, zbuf, blends, edges)
        FIND_BLENDS[color.dtype](2 * pixels, *scene, *rest, like=color)
        result = torch.empty_like(color)
        BLEND[color.dtype](color.numel(), view.width, view.height, channels, 0, blends, color, result, like=color)
        ctx.save_for_backward(color, vertices, camera, rows, blends, edges)
        ctx.per_image, ctx.view = per_image, view
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        color, vertices, camera, rows, blends, edges = ctx.saved_tensors
        grad, view, channels = grads[0].contiguous(), ctx.view, color.shape[-1]
        grad_color = grad_vertices = None
        if ctx.needs_input_grad[0]:
            grad_color = torch.empty_like(color)
            arguments = (view.width, view.height, channels, 1, blends, grad, grad_color)
            BLEND[color.dtype](color.numel(), *arguments, like=color)
        if ctx.needs_input_grad[1]:
            pixels = color[..., 0].numel()
            most = 4 * view.width * view.height
            sums = ExactSums(vertices.shape[0] * vertices.shape[1], 3, most, color.device)
            scene = (view, camera, vertices, vertices.shape[1], rows, ctx.per_image)
            rest = (blends, edges, channels, color, grad, sums.count_bits, sums.bounds, sums.sums)
            for adding in (0, 1):
                BLENDS_TO_VERTICES[color.dtype](2 * pixels, adding, *scene, *rest, like=color)
            grad_vertices = sums.read(tuple(vertices.shape), vertices.dtype)
        return grad_color, grad_vertices, *(None,) * 6
