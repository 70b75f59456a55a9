"""`kaolin.render.mesh.utils`."""

from __future__ import annotations

import torch

from ..lighting.sh import sh9_irradiance


def texture_mapping(
    texture_coordinates: torch.Tensor, texture_maps: torch.Tensor, mode: str = "nearest"
) -> torch.Tensor:
    """Look textures up.

    Args:
        texture_coordinates: (B, H, W, 2) or (B, N, 2); (0, 0) is the bottom left corner of the image. Beyond 0..1 the
            border is repeated.
        texture_maps: (B, C, h, w).
        mode: "nearest" or "bilinear".

    Returns:
        (B, H, W, C) or (B, N, C).
    """
    batch, channels = texture_maps.shape[:2]
    flat = texture_coordinates.reshape(batch, -1, 1, 2)
    grid = torch.stack([2 * flat[..., 0] - 1, 1 - 2 * flat[..., 1]], -1)
    found = torch.nn.functional.grid_sample(texture_maps, grid, mode=mode, align_corners=False, padding_mode="border")
    return found[..., 0].transpose(1, 2).reshape(*texture_coordinates.shape[:-1], channels)


def spherical_harmonic_lighting(imnormal: torch.Tensor, lights: torch.Tensor) -> torch.Tensor:
    """Light that a white diffuse surface sends back: irradiance of 9 spherical harmonics, over pi.

    Args:
        imnormal: (B, H, W, 3) unit normals.
        lights: (B, 9) coefficients.

    Returns:
        (B, H, W).
    """
    return sh9_irradiance(lights, imnormal) / torch.pi


def prepare_vertices(
    vertices: torch.Tensor,
    faces: torch.Tensor,
    camera_proj: torch.Tensor,
    camera_rot: torch.Tensor | None = None,
    camera_trans: torch.Tensor | None = None,
    camera_transform: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Vertices in the camera and in the image, by faces.

    Args:
        vertices: (B, V, 3) in the world.
        faces: (F, 3).
        camera_proj: (3, 1) projection, see `generate_perspective_projection`.
        camera_rot: (B, 3, 3) rotation, together with
        camera_trans: (B, 3) position; or
        camera_transform: (B, 4, 3) both in one.

    Returns:
        Corners in the camera (B, F, 3, 3), in the image (B, F, 3, 2), unit normals there (B, F, 3).

    Raises:
        ValueError: Neither or both ways to say where the camera is are given.
    """
    from ...ops.mesh.mesh import index_vertices_by_faces
    from ...ops.mesh.trianglemesh import face_normals
    from ..camera.legacy import perspective_camera, rotate_translate_points

    if camera_transform is not None and camera_rot is None and camera_trans is None:
        vertices_camera = torch.nn.functional.pad(vertices, (0, 1), value=1.0) @ camera_transform
    elif camera_transform is None and camera_rot is not None and camera_trans is not None:
        vertices_camera = rotate_translate_points(vertices, camera_rot, camera_trans)
    else:
        raise ValueError("give camera_transform, or camera_rot and camera_trans")
    vertices_image = perspective_camera(vertices_camera, camera_proj)
    face_vertices_camera = index_vertices_by_faces(vertices_camera, faces)
    face_vertices_image = index_vertices_by_faces(vertices_image, faces)
    return face_vertices_camera, face_vertices_image, face_normals(face_vertices_camera, unit=True)
