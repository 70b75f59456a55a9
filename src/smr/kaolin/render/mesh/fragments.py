"""`rasterize(mesh, cameras, image_size=)`: a mesh in the world seen by cameras, perspective-correct."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ....ops.render.fragments import Fragments
from ....ops.render.rasterize import rasterize as rasterize_in_world
from ..camera.camera import Camera

if TYPE_CHECKING:
    from ...rep.surface_mesh import SurfaceMesh


def _corners(mesh: SurfaceMesh) -> tuple[torch.Tensor, torch.Tensor]:
    vertices, faces = mesh.vertices, mesh.faces
    if not isinstance(vertices, torch.Tensor) or not isinstance(faces, torch.Tensor):
        raise ValueError("the mesh holds lists of meshes; rasterize them one by one, or batch them with to_batched()")
    if faces.shape[-1] != 3:
        raise ValueError(f"the mesh must have triangles, its faces have {faces.shape[-1]} corners; triangulate it")
    return vertices, faces


def _seen_by(camera: Camera, vertices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, bool]:
    """Vertices for the rasterizer (x right, y down, z forward), the intrinsics they need, whether orthographic."""
    in_camera = camera.extrinsics.transform(vertices).reshape(-1, vertices.shape[-2], 3)
    width, height = camera.width, camera.height
    rows = [[width / 2, 0.0, width / 2], [0.0, height / 2, height / 2], [0.0, 0.0, 1.0]]
    intrinsics = in_camera.new_tensor(rows)
    if camera.lens_type == "ortho":
        in_image = camera.intrinsics.transform(in_camera).reshape(in_camera.shape)
        seen = torch.stack([in_image[..., 0], -in_image[..., 1], -in_camera[..., 2]], -1)
        return seen, intrinsics, True
    matrix = camera.intrinsics.projection_matrix().to(in_camera)
    clip = torch.nn.functional.pad(in_camera, (0, 1), value=1.0) @ matrix.mT
    return torch.stack([clip[..., 0], -clip[..., 1], clip[..., 3]], -1), intrinsics, False


def rasterize_mesh(
    mesh: SurfaceMesh, cameras: Any, image_size: int | tuple[int, int] | None = None, *, layers: int = 1
) -> Fragments:
    """Find the surfaces that each pixel's centre sees; see `smr.ops.render.rasterize`.

    Args:
        mesh: A triangle mesh or a batch of such; each camera of a batch sees its own mesh, or all the only one.
        cameras: A `Camera`, a `PinholeCamera`, or a camera of `smr.ops.cameras`; one or a batch.
        image_size: Height and width, or one number for both. Left out: those of the cameras.
        layers: How many surfaces behind each other to find.

    Returns:
        Fragments: `pix_to_face` (B, H, W, layers), `zbuf`, `bary_coords` (B, H, W, layers, 3).

    Raises:
        TypeError: The cameras are of no kind that can be rasterized.
        ValueError: Shapes do not fit, or the image size is not the cameras'.
    """
    vertices, faces = _corners(mesh)
    if isinstance(cameras, Camera):
        size = (cameras.height, cameras.width)
        asked = size if image_size is None else image_size
        if ((asked, asked) if isinstance(asked, int) else tuple(asked)) != size:
            raise ValueError(f"image_size is {image_size}, and the cameras' (height, width) is {size}")
        seen, intrinsics, orthographic = _seen_by(cameras, vertices)
        return rasterize_in_world(seen, faces, intrinsics, image_size=size, layers=layers, orthographic=orthographic)
    if hasattr(cameras, "lens"):
        return rasterize_in_world(vertices, faces, cameras.lens(image_size), layers=layers)
    return rasterize_in_world(vertices, faces, cameras, image_size=image_size, layers=layers)
