"""Rays of a camera's pixels. Pixels' coordinates start at the image's upper left corner; centres are at + 0.5."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .camera import Camera

__all__ = [
    "generate_centered_custom_resolution_pixel_coords",
    "generate_centered_pixel_coords",
    "generate_default_grid",
    "generate_ortho_rays",
    "generate_pinhole_rays",
    "generate_rays",
]


def generate_default_grid(width: int, height: int, device: torch.device | str | None = None) -> tuple[Tensor, Tensor]:
    """Rows and columns of all pixels' upper left corners, (height, width) each, float32."""
    rows = torch.arange(height, dtype=torch.float32, device=device)
    columns = torch.arange(width, dtype=torch.float32, device=device)
    return torch.meshgrid(rows, columns, indexing="ij")  # type: ignore[return-value]


def generate_centered_pixel_coords(
    img_width: int, img_height: int, device: torch.device | str | None = None
) -> tuple[Tensor, Tensor]:
    """Rows (y) and columns (x) of all pixels' centres, (height, width) each, float32."""
    rows, columns = generate_default_grid(img_width, img_height, device)
    return rows + 0.5, columns + 0.5


def generate_centered_custom_resolution_pixel_coords(
    img_width: int,
    img_height: int,
    res_x: int | None = None,
    res_y: int | None = None,
    device: torch.device | str | None = None,
) -> tuple[Tensor, Tensor]:
    """Rows (y) and columns (x) of the centres of `res_y` × `res_x` cells that cover the image, in its pixels, float32.

    Args:
        img_width: Of the camera.
        img_height: Of the camera.
        res_x: Cells across; None: `img_width`.
        res_y: Cells down; None: `img_height`.
        device: Where the coordinates are made.
    """
    res_x, res_y = res_x or img_width, res_y or img_height
    rows, columns = generate_centered_pixel_coords(res_x, res_y, device)
    return rows * (img_height / res_y), columns * (img_width / res_x)


def generate_pinhole_rays(camera: Camera, coords_grid: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
    """Origins and unit directions in the world, (pixels, 3) each, of one pinhole camera.

    Args:
        camera: One camera.
        coords_grid: y and x of the pixels, any shape; None: all centres.
    """
    assert len(camera) == 1, f"generate_pinhole_rays takes one camera, not a batch of {len(camera)}"
    y, x = _grid(camera, coords_grid)
    across = (x - (camera.width / 2 + camera.x0)) / camera.focal_x
    upward = (camera.height / 2 - camera.y0 - y) / camera.focal_y
    directions = torch.stack([across, upward, -torch.ones_like(across)], dim=-1)
    origins, directions = camera.extrinsics.inv_transform_rays(torch.zeros_like(directions), directions)
    return origins[0], torch.nn.functional.normalize(directions[0], dim=-1)


def generate_ortho_rays(camera: Camera, coords_grid: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
    """Origins (in the camera's plane) and unit directions in the world, (pixels, 3) each, of one parallel projection.

    Args:
        camera: One camera.
        coords_grid: y and x of the pixels, any shape; None: all centres.
    """
    assert len(camera) == 1, f"generate_ortho_rays takes one camera, not a batch of {len(camera)}"
    y, x = _grid(camera, coords_grid)
    half = camera.fov_distance.reshape(())
    across = (2 * x / camera.width - 1) * half * (camera.width / camera.height)
    upward = (1 - 2 * y / camera.height) * half
    origins = torch.stack([across, upward, torch.zeros_like(across)], dim=-1)
    directions = torch.zeros_like(origins)
    directions[:, 2] = -1.0
    origins, directions = camera.extrinsics.inv_transform_rays(origins, directions)
    return origins[0], torch.nn.functional.normalize(directions[0], dim=-1)


def generate_rays(camera: Camera, coords_grid: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
    """Origins and unit directions in the world, (pixels, 3) each, of one camera of any lens.

    Raises:
        ValueError: The lens is neither pinhole nor orthographic.
    """
    if camera.lens_type == "pinhole":
        return generate_pinhole_rays(camera, coords_grid)
    if camera.lens_type == "ortho":
        return generate_ortho_rays(camera, coords_grid)
    raise ValueError(f"there is no ray generator for the lens {camera.lens_type!r}")


def _grid(camera: Camera, coords_grid: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor]:
    if coords_grid is None:
        coords_grid = generate_centered_pixel_coords(camera.width, camera.height, camera.device)
    y, x = (part.reshape(-1).to(device=camera.device, dtype=camera.dtype) for part in coords_grid)
    return y, x
