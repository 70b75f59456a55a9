"""Lens models by the names that COLMAP and nerfstudio give them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import SmrError
from ..records import Camera, CameraModel

COLMAP_MODELS: dict[str, tuple[str, CameraModel]] = {
    "SIMPLE_PINHOLE": ("f cx cy", "pinhole"),
    "PINHOLE": ("fx fy cx cy", "pinhole"),
    "SIMPLE_RADIAL": ("f cx cy k1", "opencv"),
    "RADIAL": ("f cx cy k1 k2", "opencv"),
    "OPENCV": ("fx fy cx cy k1 k2 p1 p2", "opencv"),
    "FULL_OPENCV": ("fx fy cx cy k1 k2 p1 p2 k3 k4 k5 k6", "opencv"),
    "OPENCV_FISHEYE": ("fx fy cx cy k1 k2 k3 k4", "opencv_fisheye"),
    "SIMPLE_RADIAL_FISHEYE": ("f cx cy k1", "opencv_fisheye"),
    "RADIAL_FISHEYE": ("f cx cy k1 k2", "opencv_fisheye"),
    "SIMPLE_FISHEYE": ("f cx cy", "opencv_fisheye"),
    "FISHEYE": ("fx fy cx cy", "opencv_fisheye"),
}
"""Name to its parameters in order and the model here that holds them."""
COLMAP_IDS = (
    "SIMPLE_PINHOLE",
    "PINHOLE",
    "SIMPLE_RADIAL",
    "RADIAL",
    "OPENCV",
    "OPENCV_FISHEYE",
    "FULL_OPENCV",
    "FOV",
    "SIMPLE_RADIAL_FISHEYE",
    "RADIAL_FISHEYE",
    "THIN_PRISM_FISHEYE",
    "RAD_TAN_THIN_PRISM_FISHEYE",
    "SIMPLE_DIVISION",
    "DIVISION",
    "SIMPLE_FISHEYE",
    "FISHEYE",
    "EUCM",
    "EQUIRECTANGULAR",
)
"""Names by their number in binary files (COLMAP, `sensor/models.h`)."""
COLMAP_COUNTS = (3, 4, 4, 5, 8, 8, 12, 5, 4, 5, 12, 16, 4, 5, 3, 4, 6, 2)
"""How many parameters each has."""


def camera_of_parameters(name: str, parameters: Sequence[float], size: tuple[int, int], said_by: Path) -> Camera:
    """The camera of a model by COLMAP's name and the parameters in COLMAP's order.

    Raises:
        SmrError: The model has no counterpart here, or the number of parameters is wrong.
    """
    if name not in COLMAP_MODELS:
        raise unknown_model(name, said_by)
    order, model = COLMAP_MODELS[name]
    names = order.split()
    if len(parameters) != len(names):
        raise SmrError(
            f"{said_by}: a camera {name} has {len(parameters)} parameters in place of {len(names)} ({order}).",
            "Export the model again; the file is damaged.",
        )
    values = dict(zip(names, (float(value) for value in parameters), strict=True))
    fx, fy = values.get("fx", values.get("f", 0.0)), values.get("fy", values.get("f", 0.0))
    return build(model, size, (fx, fy, values["cx"], values["cy"]), values)


def build(
    model: CameraModel, size: tuple[int, int], K: tuple[float, float, float, float], values: dict[str, float]
) -> Camera:
    """A camera with the distortion in `values` (k1 ... k6, p1, p2); one without any is a pinhole camera."""
    if model == "opencv_fisheye":
        distortion: tuple[float, ...] = tuple(values.get(key, 0.0) for key in ("k1", "k2", "k3", "k4"))
    else:
        distortion = tuple(values.get(key, 0.0) for key in ("k1", "k2", "p1", "p2", "k3", "k4", "k5", "k6"))
        model = "opencv" if any(distortion) else "pinhole"
        distortion = distortion if any(distortion) else ()
    return Camera(size[0], size[1], *K, model, distortion)


def unknown_model(name: str, said_by: Path) -> SmrError:
    """The error of a lens model that is not read here."""
    return SmrError(
        f"{said_by} uses the camera model {name}, which has no counterpart here.",
        f"Undistort the images first (colmap image_undistorter), or use one of {', '.join(COLMAP_MODELS)}.",
    )
