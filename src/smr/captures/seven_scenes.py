"""7-Scenes and tsdf-fusion: `frame-000000.color/depth/pose` with `camera-intrinsics.txt`.

The original 7-Scenes has its frames in `seq-01`, `seq-02`, ... and no file of intrinsics; its page gives a focal length
of 585 pixels and a principal point of (320, 240). Poses are camera-to-world, OpenCV axes, of the DEPTH camera; depth is
in millimetres, 65535 is none. https://www.microsoft.com/en-us/research/project/rgb-d-dataset-7-scenes/
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from jaxtyping import Float

from ..config import CaptureConfig
from ..errors import SmrError
from ..records import Camera, Capture, Finding
from .cameras import HALF, camera_of_K
from .folder import Folder
from .images import first_image, image_size
from .rig import find_rig

FORMAT = "7-Scenes"
INTRINSICS = ("camera-intrinsics.txt", "camera_intrinsics.txt")
_FRAME = re.compile(r"(frame-\d+)\.(color|depth|pose)\.(?:png|jpe?g|txt|pgm|tiff?|exr|npy)$", re.IGNORECASE)
_SEQUENCE = re.compile(r"seq-?\d+$", re.IGNORECASE)


def sees(folder: Folder) -> bool:
    """Whether the folder, or a sequence in it, has frames named in this way with poses."""
    return any(_FRAME.match(name) and ".pose." in name for sub in _parts(folder) for name in folder.names(sub))


def read(folder: Folder, config: CaptureConfig) -> Capture:
    """The frames of the folder or of all its sequences.

    Raises:
        SmrError: There are poses but no images, or the intrinsics or the unit of depth do not fit.
    """
    found: dict[str, dict[str, Path]] = {}
    for sub in _parts(folder):
        for name in folder.names(sub):
            match = _FRAME.match(name)
            if match:
                frame = f"{sub}/{match[1]}" if sub else match[1]
                found.setdefault(frame, {})[match[2].lower()] = folder.root / sub / name
    color = first_image(files.get("color") for files in found.values())
    depth = first_image(files.get("depth") for files in found.values())
    example = depth or color
    if example is None:
        raise SmrError(
            f"{folder.root} has poses (frame-*.pose.txt) but no images beside them.",
            "Copy the files frame-*.depth.png and frame-*.color.png (or .jpg) into the same folder.",
        )
    camera, said_by, findings = _camera(folder, example)
    rig, more = find_rig(folder, config, camera, color=color, depth=depth, known_scale=1000.0, said_by=said_by)
    frames = tuple(
        rig.frame(name, _pose(folder, files.get("pose")), color=files.get("color"), depth=files.get("depth"))
        for name, files in found.items()
        if "color" in files or "depth" in files
    )
    return Capture(folder.root, FORMAT, frames, findings=(*findings, *more))


def _parts(folder: Folder) -> tuple[str, ...]:
    """The sequences of an original 7-Scenes scene, or the folder itself."""
    sequences = tuple(name for name in folder.names() if _SEQUENCE.match(name) and folder.names(name))
    return sequences or ("",)


def _camera(folder: Folder, example: Path) -> tuple[Camera, Path, tuple[Finding, ...]]:
    name = folder.first(*INTRINSICS)
    size = image_size(example)
    if name is not None:
        return camera_of_K(folder.numbers(name).tolist(), size, folder.root / name), folder.root / name, ()
    default = Camera(640, 480, 585.0, 585.0, 320.0 + HALF, 240.0 + HALF)
    finding = Finding(
        "warning",
        "There is no camera-intrinsics.txt; the depth camera of 7-Scenes is assumed (585 pixels, centre 320, 240).",
        "If this is another camera, write camera-intrinsics.txt (3 x 3) or give --intrinsics FX FY CX CY.",
    )
    return default, folder.root / INTRINSICS[0], (finding,)


def _pose(folder: Folder, path: Path | None) -> Float[np.ndarray, "4 4"] | None:
    """A pose file's matrix; one that is missing, or has too few numbers, is None."""
    if path is None or not path.is_file():
        return None
    try:
        numbers = np.array(path.read_text().split(), dtype=np.float64)
    except (OSError, ValueError):
        return None
    return numbers[:16].reshape(4, 4) if len(numbers) >= 16 else None
