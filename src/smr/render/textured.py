"""Pictures of a textured mesh, as a camera would take them without any light but the texture's own."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, UInt8

from ..records import Camera, Material, TexturedMesh
from ..transforms import rigid_inverse, transform_points
from .rasterize import Fragments, rasterize


def render_textured(
    model: TexturedMesh,
    camera: Camera,
    world_from_camera: Float[np.ndarray, "4 4"],
    *,
    device: str,
    background: tuple[int, int, int] = (255, 255, 255),
    supersample: int = 2,
) -> UInt8[np.ndarray, "h w 3"]:
    """Render the base colour of a textured mesh.

    Args:
        model: The mesh; faces without a texture take their material's colour, or the vertices'.
        camera: A pinhole camera.
        world_from_camera: Its pose, OpenCV axes.
        device: A Warp device.
        background: sRGB colour where there is no face.
        supersample: Each pixel is the mean of this many by this many samples.
    """
    n = supersample
    fine = Camera(camera.width * n, camera.height * n, camera.fx * n, camera.fy * n, camera.cx * n, camera.cy * n)
    camera_from_world = rigid_inverse(np.asarray(world_from_camera, np.float64))
    points = transform_points(camera_from_world, np.asarray(model.mesh.vertices, np.float64))
    fragments = rasterize(points.astype(np.float32), model.mesh.faces, fine, device=device)
    image = np.full((fine.height, fine.width, 3), background, np.float32)
    hit = fragments.face >= 0
    image[hit] = _shade(model, fragments, hit)
    blocks = image.reshape(camera.height, n, camera.width, n, 3).mean((1, 3))
    return np.rint(blocks).astype(np.uint8)


def _shade(model: TexturedMesh, fragments: Fragments, hit: np.ndarray) -> Float[np.ndarray, "n 3"]:
    face, weights = fragments.face[hit], fragments.barycentric[hit]
    colors = np.full((len(face), 3), 200.0, np.float32)
    if model.mesh.colors is not None:
        colors = np.einsum("nc,ncd->nd", weights, model.mesh.colors[model.mesh.faces[face]].astype(np.float32))
    uvs = np.einsum("nc,ncd->nd", weights, np.asarray(model.uvs, np.float32)[model.face_uvs[face]])
    of_face = np.zeros(len(face), np.int32) if model.face_materials is None else model.face_materials[face]
    for index, material in enumerate(model.materials):
        chosen = of_face == index
        colors[chosen] = _base_color(material, uvs[chosen])
    return colors


def _base_color(material: Material, uvs: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "n 3"]:
    factor = np.array(material.base_color[:3], np.float32)
    if material.texture is None:
        return np.broadcast_to(255 * factor, (len(uvs), 3))
    return factor * _sample(material.texture[..., :3], uvs)


def _sample(texture: UInt8[np.ndarray, "h w 3"], uvs: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "n 3"]:
    """Bilinear, repeated outside 0 to 1."""
    height, width = texture.shape[:2]
    x, y = uvs[:, 0] * width - 0.5, (1.0 - uvs[:, 1]) * height - 0.5
    left, top = np.floor(x).astype(np.int64), np.floor(y).astype(np.int64)
    a, b = (x - left).astype(np.float32)[:, None], (y - top).astype(np.float32)[:, None]
    x0, x1, y0, y1 = left % width, (left + 1) % width, top % height, (top + 1) % height
    upper = texture[y0, x0] * (1 - a) + texture[y0, x1] * a
    lower = texture[y1, x0] * (1 - a) + texture[y1, x1] * a
    return upper * (1 - b) + lower * b
