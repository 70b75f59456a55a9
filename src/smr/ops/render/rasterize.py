"""The differentiable rasterizer: exact visibility, and depths and barycentric coordinates with gradients."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ...render.rasterize import make_view
from ..cameras import Camera, Orthographic, Pinhole
from ..exact_sums import ExactSums
from ..tensors import check_finite, check_indices, check_same_device, use_warp
from .fragments import Fragments, check_batch, check_faces, check_size
from .rasterize_torch import rasterize_torch
from .scene import Scene
from .surface_kernels import RESOLVE, RUN, TO_VERTICES

NEAR = 1e-6
"""Default near plane of a perspective view: surfaces this close to the camera's centre are cut off."""


def rasterize(
    vertices: Float[Tensor, "*batch V 3"],
    faces: Int[Tensor, "*meshes F 3"],
    camera: Camera | Tensor,
    *,
    image_size: int | tuple[int, int] | None = None,
    layers: int = 1,
    near: float | None = None,
    orthographic: bool = False,
) -> Fragments:
    """Find the surfaces that each pixel's centre sees. Both sides of a face are seen.

    Edges are exact (whole-number arithmetic on corners snapped to 1/256 of a pixel, top-left rule): faces that share an
    edge leave no crack and cover no pixel twice. Faces that reach behind the camera are cut, not lost. Of two faces at
    the same depth (to single precision) the one of lower index is seen. The result and its gradients have
    the same bits every time. Zero-area faces are not seen, so they can fill up batches of meshes of different sizes.

    Time is O(V + F + covered pixels) for each layer; memory is 36 bytes a vertex, 12 a face and 8 a pixel besides the
    result.

    Args:
        vertices: (V, 3) or (B, V, 3), float32 or float64. In camera coordinates (x right, y down, z forward) where
            `camera` holds intrinsics; in the world where it is a Camera. Clip coordinates (x, y, z, w) of OpenGL are
            camera coordinates (x, -y, w) with intrinsics [[W/2, 0, W/2], [0, H/2, H/2], [0, 0, 1]].
        faces: (F, 3), shared, or (B, F, 3).
        camera: Intrinsics in pixels, (3, 3) or (B, 3, 3), last row (0, 0, 1); or a Pinhole without distortion, or an
            Orthographic camera, of batch () or (B,). The first pixel's centre is (0.5, 0.5).
        image_size: (height, width), or one number for both; left out where `camera` is a Camera.
        layers: How many surfaces behind each other to find (depth peeling, one pass for each).
        near: Depth of the near plane. Left out: 1e-6, or 0 for an orthographic view.
        orthographic: Intrinsics map (x, y, 1) instead of (x, y, z) to pixels.

    Returns:
        Fragments of shape (B, H, W, layers). Gradients reach vertices and camera from `zbuf` and `bary_coords`; what
        the pixels see is not differentiable in itself: see `antialias` for gradients that move silhouettes.

    Raises:
        TypeError: Types of arguments.
        ValueError: Shapes, devices, an index out of range, or vertices that are not finite (the first is named).
    """
    vertices, camera, view = check_scene(vertices, camera, image_size, near, orthographic)
    check_same_device(vertices=vertices, faces=faces)
    rows, per_image = check_faces(faces, vertices.shape[0])
    if layers < 1:
        raise ValueError(f"layers must be at least 1, not {layers}")
    check_size("the result", vertices.shape[0] * view.height * view.width * layers * 3)
    if use_warp():
        return Fragments(*_Rasterize.apply(vertices, camera, rows, per_image, view, layers, faces))
    check_finite("camera", camera)
    check_finite("vertices", vertices)
    check_indices("faces", faces, vertices.shape[1])
    return rasterize_torch(vertices, camera, rows, per_image, view, layers)


def check_scene(
    vertices: Tensor,
    camera: Camera | Tensor,
    image_size: int | tuple[int, int] | None,
    near: float | None,
    orthographic: bool,
    batch: int | None = None,
) -> tuple[Tensor, Tensor, Any]:
    """Vertices (B, V, 3), intrinsics (1 or B, 3, 3) without a gradient of their own, and the View of the kernels."""
    if isinstance(camera, Camera):
        vertices, camera, image_size, orthographic = _from_camera(vertices, camera, image_size)
    vertices = check_batch("vertices", vertices, (None, 3), batch)
    size = vertices.shape[0] if batch is None else batch
    camera = check_batch("camera", camera, (3, 3), size if size > 1 else None)
    check_same_device(vertices=vertices, camera=camera)
    if camera.dtype != vertices.dtype:
        raise TypeError(f"camera is {camera.dtype} and vertices {vertices.dtype}; they must be of one type")
    if vertices.shape[0] == 1:
        vertices = vertices.expand(max(size, camera.shape[0]), -1, -1)
    height, width = _size(image_size)
    if near is None:
        near = 0.0 if orthographic else NEAR
    if not orthographic and near <= 0:
        raise ValueError(f"near must be positive for a perspective view, not {near:g}")
    if camera.requires_grad:
        # the kernels know gradients of vertices alone: those of the camera come from vertices in the image
        vertices, camera = _in_image(vertices, camera, not orthographic)
    return vertices, camera, _view(width, height, float(near), not orthographic)


@lru_cache(maxsize=256)
def _view(width: int, height: int, near: float, perspective: bool) -> Any:
    return make_view(width, height, near, perspective=perspective)


def _size(image_size: int | tuple[int, int] | None) -> tuple[int, int]:
    if image_size is None:
        raise ValueError("image_size is needed: (height, width)")
    height, width = (image_size, image_size) if isinstance(image_size, int) else image_size
    if not (0 < height <= 2**16 and 0 < width <= 2**16):
        raise ValueError(f"image_size must be 1 to 65536 pixels high and wide, not {height} x {width}")
    return int(height), int(width)


def _from_camera(
    vertices: Tensor, camera: Camera, image_size: int | tuple[int, int] | None
) -> tuple[Tensor, Tensor, tuple[int, int], bool]:
    """Vertices in camera coordinates, intrinsics, size, whether orthographic."""
    if not isinstance(camera, Pinhole | Orthographic):
        raise TypeError(f"rasterize needs a Pinhole or an Orthographic camera, not {type(camera).__name__}")
    if isinstance(camera, Pinhole) and camera.distortion is not None:
        raise ValueError("rasterize needs a camera without distortion; undistort the images first")
    if image_size is not None and _size(image_size) != (camera.height, camera.width):
        raise ValueError(f"image_size is {image_size} and the camera's (height, width) {(camera.height, camera.width)}")
    if len(camera.batch_shape) > 1:
        raise ValueError(f"the cameras' batch must have at most one axis, not the shape {tuple(camera.batch_shape)}")
    vertices = check_batch("vertices", vertices, (None, 3))
    if vertices.dtype != camera.dtype:
        raise TypeError(f"vertices are {vertices.dtype} and the camera {camera.dtype}; they must be of one type")
    check_same_device(vertices=vertices, camera=camera.focal)
    if camera.world_from_camera is not None:
        pose = camera.world_from_camera
        vertices = (vertices - pose[..., None, :3, 3]) @ pose[..., :3, :3]
    focal, center = torch.broadcast_tensors(camera.focal, camera.center)
    matrix = torch.cat([torch.diag_embed(focal), center[..., None]], -1)
    last = matrix.new_tensor([0.0, 0.0, 1.0]).expand(*matrix.shape[:-2], 1, 3)
    intrinsics = torch.cat([matrix, last], -2)
    return vertices, intrinsics, (camera.height, camera.width), isinstance(camera, Orthographic)


def _in_image(vertices: Tensor, camera: Tensor, perspective: bool) -> tuple[Tensor, Tensor]:
    """Homogeneous vertices in the image, and intrinsics that leave them as they are."""
    top = camera[:, :2]
    if perspective:
        xy = vertices @ top.mT
    else:
        xy = vertices[..., :2] @ top[..., :2].mT + top[:, None, :, 2]
    identity = torch.eye(3, dtype=vertices.dtype, device=vertices.device)[None]
    return torch.cat([xy, vertices[..., 2:]], -1), identity


class _Rasterize(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, vertices: Tensor, camera: Tensor, rows: Tensor, per_image: int, view: Any, layers: int, faces: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        vertices, camera = vertices.contiguous(), camera.contiguous()
        shape = (vertices.shape[0], view.height, view.width, layers)
        pix_to_face = torch.empty(shape, dtype=torch.int64, device=vertices.device)
        zbuf = torch.empty(shape, dtype=vertices.dtype, device=vertices.device)
        bary_coords = torch.empty((*shape, 3), dtype=vertices.dtype, device=vertices.device)
        scene = Scene(vertices, camera, rows, per_image, view)
        before = None
        for layer in range(layers):
            keys = scene.draw(before)
            if layer == 0:
                scene.watch()
            arguments = (view, camera, vertices, vertices.shape[1], rows, per_image, keys, layer, layers)
            RESOLVE[vertices.dtype](keys.numel(), *arguments, pix_to_face, zbuf, bary_coords, like=vertices)
            before = keys
        scene.raise_faults(vertices, camera, faces)
        ctx.save_for_backward(vertices, camera, rows, pix_to_face)
        ctx.per_image, ctx.view = per_image, view
        ctx.mark_non_differentiable(pix_to_face)
        return pix_to_face, zbuf, bary_coords

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        _, grad_zbuf, grad_bary = grads
        if grad_zbuf is None and grad_bary is None:
            return (None,) * 7
        vertices, camera, rows, pix_to_face = ctx.saved_tensors
        pixels, layers = pix_to_face[..., 0].numel(), pix_to_face.shape[-1]
        nothing = vertices.new_empty(0)
        most = 3 * pix_to_face[0].numel() if len(pix_to_face) else 1
        sums = ExactSums(vertices.shape[0] * vertices.shape[1], 3, most, vertices.device)
        scene = (ctx.view, camera, vertices, vertices.shape[1], rows, ctx.per_image, layers, pix_to_face)
        into = (
            nothing if grad_zbuf is None else grad_zbuf.contiguous(),
            nothing if grad_bary is None else grad_bary.contiguous(),
            sums.count_bits,
            sums.bounds,
            sums.sums,
        )
        items = -(-pixels // RUN) * layers
        for adding in (0, 1):
            TO_VERTICES[vertices.dtype](items, adding, *scene, *into, like=vertices)
        return sums.read(tuple(vertices.shape), vertices.dtype), *(None,) * 6
