"""The records that pass between stages. All frozen; a change is `dataclasses.replace`.

Conventions: world right-handed, metres; camera axes x right, y down, z forward; the first pixel's centre is
(0.5, 0.5). See docs/conventions.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int32, UInt8

CameraModel = Literal["pinhole", "opencv", "opencv_fisheye", "equirectangular"]
DepthEncoding = Literal["linear", "sun3d", "kinect_disparity"]
UpAxis = Literal["x", "-x", "y", "-y", "z", "-z"]
IntrinsicsSource = Literal["known", "exif", "guess"]


@dataclass(frozen=True)
class Camera:
    """Intrinsics of one camera, in pixels; the first pixel's centre is (0.5, 0.5)."""

    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float
    model: CameraModel = "pinhole"
    distortion: tuple[float, ...] = ()
    """`opencv`: k1, k2, p1, p2[, k3[, k4, k5, k6]]; `opencv_fisheye` (Kannala-Brandt): k1, k2, k3, k4.

    `equirectangular` has none; its fx and fy are pixels per radian: width / 2 pi and height / pi of a whole sphere.
    """

    intrinsics: IntrinsicsSource = "known"
    """`exif`: the focal length is what the photo's file says; `guess`: nothing says it. Both are refined with poses."""

    @property
    def K(self) -> Float[np.ndarray, "3 3"]:
        """The 3×3 matrix of the pinhole part."""
        return np.array([[self.fx, 0, self.cx], [0, self.fy, self.cy], [0, 0, 1.0]])


@dataclass(frozen=True)
class Photo:
    """A colour image on disk and the camera that took it."""

    path: Path
    camera: Camera
    world_from_camera: Float[np.ndarray, "4 4"] | None
    """Pose of the COLOUR camera; None where it is not known."""
    mask: Path | None = None
    """Image of the same size; 0 marks pixels to be ignored."""
    orientation: int = 1
    """EXIF's number: how the stored pixels are turned to be shown; the camera is that of the photo as shown."""
    shrink: int = 1
    """The stored pixels are averaged in squares of this side; the camera is that of the smaller photo."""


@dataclass(frozen=True)
class DepthMap:
    """A depth image on disk and the camera that took it. Depth is along the camera's z axis."""

    path: Path
    camera: Camera
    world_from_camera: Float[np.ndarray, "4 4"] | None
    """Pose of the DEPTH camera; where colour is not registered it differs from the photo's."""
    scale: float
    """Stored value / scale = metres."""
    encoding: DepthEncoding = "linear"
    confidence: Path | None = None
    """Image of per-pixel confidence (0, 1, 2 as ARKit writes it), or NPY of float weights from 0 to 1; 0 is dropped."""
    stereo: bool = False
    """Found from photos: its unit is that of the poses, which need not be metres."""


@dataclass(frozen=True)
class Frame:
    """One moment of a capture: a photo, a depth map, or both."""

    name: str
    photo: Photo | None
    depth: DepthMap | None
    timestamp: float | None = None
    """Seconds."""


Severity = Literal["note", "warning", "error"]


@dataclass(frozen=True)
class Finding:
    """Something worth saying about a capture, with what it means and what to do."""

    severity: Severity
    cause: str
    cure: str = ""


@dataclass(frozen=True)
class Capture:
    """What a reader found in a folder: frames with files, cameras and poses; no pixels yet."""

    source: Path
    format: str
    """Name of the format as its users call it, for example `7-Scenes`."""
    frames: tuple[Frame, ...]
    world_up: UpAxis | None = None
    """The world's up axis where the format defines it; None where it must be estimated."""
    findings: tuple[Finding, ...] = ()

    def __len__(self) -> int:
        return len(self.frames)


@dataclass(frozen=True)
class Mesh:
    """A triangle mesh. Faces are counter-clockwise seen from outside."""

    vertices: Float[np.ndarray, "V 3"]
    """Positions in the world frame, metres; float32, or float64 where float32 would lose something."""
    faces: Int32[np.ndarray, "F 3"]
    """Indices into `vertices`."""
    normals: Float[np.ndarray, "V 3"] | None = None
    """Unit vertex normals."""
    colors: UInt8[np.ndarray, "V 3"] | None = None
    """sRGB vertex colours."""
    support: Int32[np.ndarray, " V"] | None = None
    """Depth maps that confirm each vertex; set on a finished mesh, and written to PLY and glTF."""


@dataclass(frozen=True)
class Material:
    """A glTF-like metallic-roughness material; colours are sRGB."""

    name: str = "material"
    base_color: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)
    """Multiplied with the texture; the fourth is opacity."""
    texture: UInt8[np.ndarray, "h w c"] | None = None
    """Base colour, first row on top, three or four channels."""
    roughness: float = 1.0
    metallic: float = 0.0


@dataclass(frozen=True)
class TexturedMesh:
    """A mesh with texture coordinates per corner and materials per face."""

    mesh: Mesh
    uvs: Float[np.ndarray, "T 2"]
    """Texture coordinates; (0, 0) is the image's bottom left corner, (1, 1) its top right."""
    face_uvs: Int32[np.ndarray, "F 3"]
    """Indices into `uvs`, a corner each."""
    materials: tuple[Material, ...] = field(default_factory=tuple)
    face_materials: Int32[np.ndarray, " F"] | None = None
    """Index into `materials` a face; None: all faces have the first."""
    filled: Bool[np.ndarray, " F"] | None = None
    """Faces that no photo saw; their texture is filled in from around."""

    def __post_init__(self) -> None:
        if len(self.face_uvs) != len(self.mesh.faces):
            raise ValueError(f"face_uvs has {len(self.face_uvs)} rows for {len(self.mesh.faces)} faces")
