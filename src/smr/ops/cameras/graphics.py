"""Pinhole cameras from and to OpenGL, Kaolin and PyTorch3D.

All three look at a normalised square or cube (NDC) in place of pixels. OpenGL and Kaolin: camera x right, y up, z
backward; NDC x right, y up, -1 to 1 over the whole image. PyTorch3D: camera x LEFT, y up, z forward, row vectors
(`x @ R + T`); NDC x left, y up, -1 to 1 over the SHORTER side. Row 0 is the top of the image in all of them (OpenGL's
window origin is the bottom left corner: its row 0 is the last of ours).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ..tensors import FLOATS, INDICES, check_finite, check_number, check_same_device, check_tensor, check_whole
from .axes import change_axes
from .base import Camera, check_camera
from .models import Orthographic, Pinhole


class OpenGLCamera(NamedTuple):
    """`clip = projection @ view @ (x, y, z, 1)`."""

    projection: Float[Tensor, "... 4 4"]
    """Clip from camera; depth in NDC is -1 at `near` and 1 at `far`."""
    view: Float[Tensor, "... 4 4"]
    """Camera (y up, z backward) from world."""


class KaolinCamera(NamedTuple):
    """Arguments of `kaolin.render.camera.Camera.from_args`: `Camera.from_args(**camera._asdict())`."""

    view_matrix: Float[Tensor, "c 4 4"]
    """Camera (y up, z backward) from world."""
    width: int
    height: int
    focal_x: Float[Tensor, " c"]
    """Pixels."""
    focal_y: Float[Tensor, " c"]
    x0: Float[Tensor, " c"]
    """The principal point from the image's middle, pixels, to the right."""
    y0: Float[Tensor, " c"]
    """The principal point from the image's middle, pixels, UPWARDS."""


class PyTorch3DCamera(NamedTuple):
    """Arguments of `pytorch3d.renderer.PerspectiveCameras` with its default `in_ndc=True`."""

    R: Float[Tensor, "c 3 3"]
    """`x_in_camera = x_in_world @ R + T`."""
    T: Float[Tensor, "c 3"]
    focal_length: Float[Tensor, "c 2"]
    """In NDC: half of the image's shorter side is 1."""
    principal_point: Float[Tensor, "c 2"]
    """In NDC."""
    image_size: Float[Tensor, "c 2"]
    """Height, width."""


def to_opengl(camera: Pinhole | Orthographic, near: float, far: float) -> OpenGLCamera:
    """The projection and view matrices of an OpenGL program.

    Args:
        camera: Without distortion.
        near: Distance of the near plane along the axis, metres.
        far: Distance of the far plane.

    Raises:
        ValueError: A distorted camera, another lens, or planes that are not 0 < near < far (near < far where
            orthographic).
    """
    _check_straight(camera, "OpenGL")
    near, far = check_number("near", near), check_number("far", far)
    parallel = isinstance(camera, Orthographic)
    if not near < far or (near <= 0 and not parallel):
        raise ValueError(f"near is {near:g} and far {far:g}; they must be {'near' if parallel else '0 < near'} < far")
    scale, shift = _ndc_scale_shift(camera)
    batch = torch.broadcast_shapes(scale.shape[:-1], shift.shape[:-1])
    m = torch.zeros(*batch, 4, 4, dtype=camera.dtype, device=camera.device)
    m[..., 0, 0], m[..., 1, 1] = scale[..., 0], scale[..., 1]
    if parallel:
        m[..., 0, 3], m[..., 1, 3] = shift[..., 0], shift[..., 1]
        m[..., 2, 2], m[..., 2, 3], m[..., 3, 3] = -2 / (far - near), -(far + near) / (far - near), 1.0
    else:
        m[..., 0, 2], m[..., 1, 2] = -shift[..., 0], -shift[..., 1]
        m[..., 2, 2], m[..., 2, 3] = -(far + near) / (far - near), -2 * far * near / (far - near)
        m[..., 3, 2] = -1.0
    return OpenGLCamera(m, _opengl_view(camera))


def from_opengl(
    projection: Float[Tensor, "... 4 4"], view: Float[Tensor, "... 4 4"], *, width: int, height: int
) -> Pinhole | Orthographic:
    """The camera of OpenGL's matrices; near and far planes have no counterpart.

    Raises:
        TypeError: Not tensors of one floating type.
        ValueError: Other shapes, values that are not finite, or a projection that is neither a
            perspective nor an orthographic one or has skew.
    """
    check_tensor("projection", projection, (4, 4), batched=True)
    check_tensor("view", view, (4, 4), (projection.dtype,), batched=True)
    check_same_device(projection=projection, view=view)
    check_finite("projection", projection)
    width, height = check_whole("width", width, least=1), check_whole("height", height, least=1)
    last = projection[..., 3, :].reshape(-1, 4)
    parallel = bool((last == last.new_tensor([0.0, 0.0, 0.0, 1.0])).all())
    if not parallel and not bool((last == last.new_tensor([0.0, 0.0, -1.0, 0.0])).all()):
        raise ValueError("the last row of projection is neither (0, 0, -1, 0), perspective, nor (0, 0, 0, 1), parallel")
    if bool((projection[..., 0, 1] != 0).any()) or bool((projection[..., 1, 0] != 0).any()):
        raise ValueError("projection has skew, which no camera model here has")
    half = projection.new_tensor([width / 2, height / 2])
    focal = torch.stack([projection[..., 0, 0], projection[..., 1, 1]], -1) * half
    shift = projection[..., :2, 3] if parallel else -projection[..., :2, 2]
    center = half + shift * half * half.new_tensor([1.0, -1.0])
    return (Orthographic if parallel else Pinhole)(width, height, focal, center, _pose_of_view(view))


def to_kaolin(camera: Pinhole) -> KaolinCamera:
    """What Kaolin's `Camera.from_args` takes. A batch of any shape becomes Kaolin's single axis."""
    _check_straight(camera, "Kaolin")
    if not isinstance(camera, Pinhole):
        raise ValueError("Kaolin's orthographic camera has no principal point; build it with its own from_args")
    batch = camera.batch_shape
    focal, center = camera.focal.expand(*batch, 2).reshape(-1, 2), camera.center.expand(*batch, 2).reshape(-1, 2)
    view = _opengl_view(camera).expand(*batch, 4, 4).reshape(-1, 4, 4)
    x0, y0 = center[:, 0] - camera.width / 2, camera.height / 2 - center[:, 1]
    return KaolinCamera(view, camera.width, camera.height, focal[:, 0], focal[:, 1], x0, y0)


def from_kaolin(camera: Any) -> Pinhole:
    """The camera of a `kaolin.render.camera.Camera` with pinhole intrinsics, Kaolin's own or ours; batch (C,)."""
    names = ("focal_x", "focal_y", "x0", "y0")
    if not all(hasattr(camera, name) for name in names):
        raise ValueError("from_kaolin takes a Kaolin camera with pinhole intrinsics (focal_x, focal_y, x0, y0)")
    focal_x, focal_y, x0, y0 = (getattr(camera, name).reshape(-1) for name in names)
    width, height = int(camera.width), int(camera.height)
    focal, center = torch.stack([focal_x, focal_y], -1), torch.stack([width / 2 + x0, height / 2 - y0], -1)
    return Pinhole(width, height, focal, center, _pose_of_view(camera.extrinsics.view_matrix()))


def to_pytorch3d(camera: Pinhole) -> PyTorch3DCamera:
    """What `PerspectiveCameras` takes. A batch of any shape becomes PyTorch3D's single axis."""
    _check_straight(camera, "PyTorch3D's PerspectiveCameras")
    if not isinstance(camera, Pinhole):
        raise ValueError("to_pytorch3d takes a pinhole camera")
    batch = camera.batch_shape
    half = min(camera.width, camera.height) / 2
    middle = camera.center.new_tensor([camera.width / 2, camera.height / 2])
    pose = camera.world_from_camera
    pose = torch.eye(4, dtype=camera.dtype, device=camera.device) if pose is None else pose
    turned = change_axes(pose, "opencv", "pytorch3d").expand(*batch, 4, 4).reshape(-1, 4, 4)
    R = turned[:, :3, :3]
    focal, center = camera.focal.expand(*batch, 2).reshape(-1, 2), camera.center.expand(*batch, 2).reshape(-1, 2)
    size = center.new_tensor([camera.height, camera.width]).expand_as(center)
    T = -(turned[:, None, :3, 3] @ R)[:, 0]
    return PyTorch3DCamera(R, T, focal / half, (middle - center) / half, size)


def from_pytorch3d(
    R: Float[Tensor, "c 3 3"],
    T: Float[Tensor, "c 3"],
    focal_length: Float[Tensor, "c 2"],
    principal_point: Float[Tensor, "c 2"],
    image_size: Float[Tensor, "c 2"],
) -> Pinhole:
    """The camera of the attributes of `PerspectiveCameras` in NDC.

    Args:
        R: `x_in_camera = x_in_world @ R + T`.
        T: The same.
        focal_length: In NDC.
        principal_point: In NDC.
        image_size: Height, width; one size for all.

    Raises:
        TypeError: Not tensors of one floating type.
        ValueError: Other shapes, no camera, two devices, or sizes that differ from camera to camera.
    """
    check_tensor("R", R, (None, 3, 3))
    check_tensor("T", T, (len(R), 3), (R.dtype,))
    pairs = {"focal_length": focal_length, "principal_point": principal_point}
    for name, pair in pairs.items():
        check_tensor(name, pair, (len(R), 2), (R.dtype,))
    check_tensor("image_size", image_size, (len(R), 2), (*FLOATS, *INDICES))
    check_same_device(R=R, T=T, **pairs)
    if len(R) == 0:
        raise ValueError("R holds no camera; at least one is needed")
    check_finite("image_size", image_size)
    height, width = (int(value) for value in image_size[0].tolist())
    if bool((image_size != image_size[:1]).any()):
        raise ValueError("image_size differs from camera to camera; a batch here has one size")
    half = min(width, height) / 2
    center = focal_length.new_tensor([width / 2, height / 2]) - principal_point * half
    pose = torch.zeros(len(R), 4, 4, dtype=R.dtype, device=R.device)
    pose[:, :3, :3] = R
    pose[:, :3, 3] = -(R @ T[..., None])[..., 0]
    pose[:, 3, 3] = 1.0
    return Pinhole(width, height, focal_length * half, center, change_axes(pose, "pytorch3d", "opencv"))


def _check_straight(camera: Camera, whose: str) -> None:
    check_camera(camera)
    if not isinstance(camera, (Pinhole, Orthographic)):
        raise ValueError(f"{whose} has no {type(camera).__name__} camera")
    if isinstance(camera, Pinhole) and camera.distortion is not None and bool((camera.distortion != 0).any()):
        raise ValueError(f"{whose} knows no lens distortion; undistort the image, then convert the camera without it")


def _ndc_scale_shift(camera: Camera) -> tuple[Tensor, Tensor]:
    """NDC (y up) = scale · tangent + shift."""
    half = camera.center.new_tensor([camera.width / 2, camera.height / 2])
    return camera.focal / half, (camera.center - half) / half * half.new_tensor([1.0, -1.0])


def _opengl_view(camera: Camera) -> Tensor:
    signs = camera.focal.new_tensor([1.0, -1.0, -1.0, 1.0])
    return signs[:, None] * camera.camera_from_world


def _pose_of_view(view: Tensor) -> Tensor:
    """`world_from_camera` (OpenCV axes) of an OpenGL view matrix."""
    turned = view[..., :3, :3].mT
    top = torch.cat([turned, -turned @ view[..., :3, 3:]], -1)
    return change_axes(torch.cat([top, view[..., 3:, :]], -2), "opengl", "opencv")
