"""Cameras on torch tensors: project, unproject, rays; differentiable; from and to other conventions.

`Pinhole` (with OpenCV's distortion), `Orthographic`, `Fisheye` (Kannala-Brandt) and `Equirectangular`. Conventions are
those of docs/conventions.md: camera x right, y down, z forward; the first pixel's centre is (0.5, 0.5).
"""

from .axes import AXES, Axes, change_axes, change_point_axes, changes_handedness
from .base import Camera, Points, Projection, Rays
from .graphics import (
    KaolinCamera,
    OpenGLCamera,
    PyTorch3DCamera,
    from_kaolin,
    from_opengl,
    from_pytorch3d,
    to_kaolin,
    to_opengl,
    to_pytorch3d,
)
from .models import Equirectangular, Fisheye, Orthographic, Pinhole
from .photogrammetry import (
    COLMAP_PARAMETERS,
    ColmapCamera,
    OpenCVCamera,
    from_colmap,
    from_opencv,
    quat_wxyz_from_rotation,
    rotation_from_quat_wxyz,
    to_colmap,
    to_opencv,
)
from .record import from_record, stack, to_record

__all__ = [
    "AXES",
    "COLMAP_PARAMETERS",
    "Axes",
    "Camera",
    "ColmapCamera",
    "Equirectangular",
    "Fisheye",
    "KaolinCamera",
    "OpenCVCamera",
    "OpenGLCamera",
    "Orthographic",
    "Pinhole",
    "Points",
    "Projection",
    "PyTorch3DCamera",
    "Rays",
    "change_axes",
    "change_point_axes",
    "changes_handedness",
    "from_colmap",
    "from_kaolin",
    "from_opencv",
    "from_opengl",
    "from_pytorch3d",
    "from_record",
    "quat_wxyz_from_rotation",
    "rotation_from_quat_wxyz",
    "stack",
    "to_colmap",
    "to_kaolin",
    "to_opencv",
    "to_opengl",
    "to_pytorch3d",
    "to_record",
]
