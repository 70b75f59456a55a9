"""Colour and depth that share one camera, or are joined by a calibration; the depth's unit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from ..config import CaptureConfig
from ..errors import SmrError
from ..records import Camera, DepthEncoding, DepthMap, Finding, Frame, Photo
from ..transforms import rigid_inverse
from .cameras import HALF, checked, overridden, resized
from .folder import Folder, parse_json, read_text
from .images import image_size, stores_8_bits, stores_metres

CALIBRATIONS = ("color_calibration.json", "color_calibration_estimate.json")


@dataclass(frozen=True)
class Rig:
    """A depth camera, the colour camera beside it, and how their files are read."""

    depth_camera: Camera | None
    color_camera: Camera | None
    color_from_depth: Float[np.ndarray, "4 4"]
    """Takes coordinates of the depth camera to those of the colour camera."""
    depth_scale: float
    encoding: DepthEncoding = "linear"

    def frame(
        self,
        name: str,
        world_from_depth: Float[np.ndarray, "4 4"] | None,
        *,
        color: Path | None = None,
        depth: Path | None = None,
        mask: Path | None = None,
        timestamp: float | None = None,
    ) -> Frame:
        """The frame of these files; `world_from_depth` is the pose of the depth camera, None where it is not known."""
        photo = depth_map = None
        if color is not None and self.color_camera is not None:
            depth_from_color = rigid_inverse(self.color_from_depth)
            world_from_color = None if world_from_depth is None else world_from_depth @ depth_from_color
            photo = Photo(color, self.color_camera, world_from_color, mask)
        if depth is not None and self.depth_camera is not None:
            depth_map = DepthMap(depth, self.depth_camera, world_from_depth, self.depth_scale, self.encoding)
        return Frame(name, photo, depth_map, timestamp)


def find_rig(
    folder: Folder,
    config: CaptureConfig,
    camera: Camera,
    *,
    color: Path | None,
    depth: Path | None,
    known_scale: float | None,
    said_by: Path,
) -> tuple[Rig, tuple[Finding, ...]]:
    """Cameras of a capture whose colour and depth share the intrinsics `camera`, unless a calibration says otherwise.

    Args:
        folder: Where a calibration may lie.
        config: The user's scale, intrinsics and calibration.
        camera: The shared camera; its size is replaced by that of the depth images.
        color: An example of the colour images.
        depth: An example of the depth images.
        known_scale: What the format says about the unit of depth; None where it says nothing.
        said_by: The file that the intrinsics come from, for messages.

    Raises:
        SmrError: Sizes do not fit, or the unit of depth is not known.
    """
    findings: list[Finding] = []
    base = overridden(camera, config.intrinsics)
    depth_camera = color_camera = None
    scale = 1.0
    if depth is not None:
        depth_camera = _fitted(base, image_size(depth), said_by)
        scale, scale_findings = find_depth_scale(config, depth, known_scale)
        findings += scale_findings
    if color is not None:
        color_camera = _fitted(base, image_size(color), said_by)
        if depth_camera is not None and (color_camera.width, color_camera.height) != (
            depth_camera.width,
            depth_camera.height,
        ):
            findings.append(
                Finding(
                    "note",
                    f"Colour has {color_camera.width} x {color_camera.height} pixels and depth {depth_camera.width} x "
                    f"{depth_camera.height}; the intrinsics are scaled, as if both showed the same view.",
                )
            )
    color_from_depth = np.eye(4)
    calibration = _find_calibration(folder, config)
    if calibration is not None and color is not None and depth is not None:
        color_camera, color_from_depth = read_calibration(calibration, image_size(color))
        shift = np.linalg.norm(color_from_depth[:3, 3]) * 1000
        findings.append(
            Finding(
                "note",
                f"The colour camera is the one of {calibration.name}: fx {color_camera.fx:.1f}, {shift:.1f} mm from "
                "the depth camera.",
            )
        )
    return Rig(depth_camera, color_camera, color_from_depth, scale), tuple(findings)


@dataclass(frozen=True)
class DepthFiles:
    """What the depth images of a capture have in common."""

    size: tuple[int, int]
    """Width and height."""
    scale: float
    """Stored depth / this = metres."""


def find_depth_files(
    config: CaptureConfig, example: Path | None, known_scale: float | None
) -> tuple[DepthFiles | None, tuple[Finding, ...]]:
    """Size and unit of the depth images, from one of them; None where there are none.

    Raises:
        SmrError: The file is no image, or nothing says its unit.
    """
    if example is None:
        return None, ()
    scale, findings = find_depth_scale(config, example, known_scale)
    return DepthFiles(image_size(example), scale), findings


def posed_frame(
    name: str,
    camera: Camera,
    world_from_camera: Float[np.ndarray, "4 4"] | None,
    *,
    color: Path | None,
    depth: Path | None,
    depth_files: DepthFiles | None,
    confidence: Path | None = None,
    mask: Path | None = None,
    timestamp: float | None = None,
) -> Frame:
    """A frame whose depth shows the photo's view, at a size of its own, as phones with LiDAR record it.

    Args:
        name: Name of the frame.
        camera: The photo's camera.
        world_from_camera: Pose of both; None where it is not known.
        color: The photo.
        depth: The depth image.
        depth_files: Size and unit of the depth image.
        confidence: Image of the depth's confidence.
        mask: Image whose zeros mark pixels of the photo to be ignored.
        timestamp: Seconds.
    """
    photo = None if color is None else Photo(color, camera, world_from_camera, mask)
    depth_map = None
    if depth is not None and depth_files is not None:
        depth_camera = _fitted(camera, depth_files.size, depth)
        depth_map = DepthMap(depth, depth_camera, world_from_camera, depth_files.scale, confidence=confidence)
    return Frame(name, photo, depth_map, timestamp)


def _fitted(camera: Camera, size: tuple[int, int], said_by: Path) -> Camera:
    return camera if (camera.width, camera.height) == size else resized(camera, size, said_by)


def _find_calibration(folder: Folder, config: CaptureConfig) -> Path | None:
    if config.color_calibration is not None:
        return Path(config.color_calibration)
    found = folder.first(*CALIBRATIONS)
    return None if found is None else folder.root / found


def read_calibration(path: Path, size: tuple[int, int]) -> tuple[Camera, Float[np.ndarray, "4 4"]]:
    """The colour camera of a calibration file, and the transform that takes depth coordinates to its own.

    Raises:
        SmrError: The file is missing, or lacks a number.
    """
    said: Any = parse_json(read_text(path), path)
    try:
        fx, fy, cx, cy = (float(said[key]) for key in ("fx", "fy", "cx", "cy"))
        color_from_depth = np.eye(4)
        color_from_depth[:3, :3] = np.reshape(np.array(said["depth_to_color_rotation"], np.float64), (3, 3))
        color_from_depth[:3, 3] = np.reshape(np.array(said["depth_to_color_translation"], np.float64), 3)
        distortion = tuple(float(k) for k in said.get("distortion", ()))
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise SmrError(
            f"{path} is no colour calibration ({type(error).__name__}: {error}).",
            "It needs fx, fy, cx, cy, depth_to_color_rotation (3 x 3) and depth_to_color_translation (3, metres).",
        ) from None
    rotation = color_from_depth[:3, :3]
    if not np.isfinite(color_from_depth).all() or np.abs(rotation.T @ rotation - np.eye(3)).max() > 1e-3:
        raise SmrError(
            f"{path}: depth_to_color_rotation is no rotation.", "Its rows must be orthogonal and of length 1."
        )
    camera = Camera(size[0], size[1], fx, fy, cx + HALF, cy + HALF)
    if any(distortion):
        camera = replace(camera, model="opencv", distortion=distortion)
    return checked(camera, path), color_from_depth


def find_depth_scale(
    config: CaptureConfig, example: Path, known_scale: float | None
) -> tuple[float, tuple[Finding, ...]]:
    """What stored depth is divided by to give metres: the user's word, else the file's type, else the format's rule.

    Raises:
        SmrError: None of them says.
    """
    if config.depth_scale is not None:
        if not 1e-6 <= config.depth_scale <= 1e12:  # nanometres to megametres; NaN is neither
            raise SmrError(
                f"--depth-scale is {config.depth_scale:g}.",
                "Give the stored value of one metre: 1000 for millimetres, 5000 for TUM, 1 for metres.",
            )
        return config.depth_scale, ()
    if stores_metres(example):
        return 1.0, (Finding("note", f"Depth is stored as floating point numbers, taken as metres ({example.name})."),)
    if known_scale is None or stores_8_bits(example):
        kind = "has only 8 bits" if known_scale is not None else "is stored as whole numbers"
        raise SmrError(
            f"Depth {kind} and nothing says its unit ({example}).",
            "Give --depth-scale: the stored value of one metre, such as 1000 for millimetres.",
        )
    return known_scale, ()
