"""`kaolin.io.render`: rendered views of Omniverse's data generator."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from ...errors import SmrError
from ..render.camera.legacy import generate_perspective_projection

_IMAGES = ("rgb", "normals")
_ARRAYS = ("depth_linear", "semantic", "instance")
_BOXES = ("bbox_2d_tight", "bbox_2d_loose")


def import_synthetic_view(
    root_dir: str | os.PathLike[str],
    idx: int,
    rgb: bool = True,
    depth_linear: bool = False,
    semantic: bool = False,
    instance: bool = False,
    normals: bool = False,
    bbox_2d_tight: bool = False,
    bbox_2d_loose: bool = False,
) -> dict[str, Any]:
    """Read one view.

    Args:
        root_dir: The folder.
        idx: Number of the view: its files are `<idx>_rgb.png`, `<idx>_metadata.json` and so on.
        rgb: Read colours (H, W, 3) in 0..1.
        depth_linear: Read depth (H, W).
        semantic: Read classes (H, W).
        instance: Read objects (H, W).
        normals: Read normals (H, W, 3) in 0..1.
        bbox_2d_tight: Read boxes around what is seen of each object.
        bbox_2d_loose: Read boxes around the whole of each object.

    Returns:
        What was asked for, by name, and "metadata": `cam_transform` (4, 3), `asset_transforms` (4, 4) of the first
        object, `cam_proj` (3, 1), `clipping_range`.

    Raises:
        FileNotFoundError: A file is not there.
        SmrError: The metadata are not as they should be.
    """
    folder = Path(root_dir)
    wanted = {
        "rgb": rgb,
        "depth_linear": depth_linear,
        "semantic": semantic,
        "instance": instance,
        "normals": normals,
        "bbox_2d_tight": bbox_2d_tight,
        "bbox_2d_loose": bbox_2d_loose,
    }
    about = folder / f"{idx}_metadata.json"
    said = json.loads(about.read_text())
    output: dict[str, Any] = {}
    for name in _IMAGES:
        if wanted[name]:
            with Image.open(folder / f"{idx}_{name}.png") as image:
                pixels = np.array(image.convert("RGB"))
            output[name] = torch.from_numpy(pixels).float() / 255.0
    for name in _ARRAYS:
        if wanted[name]:
            output[name] = torch.from_numpy(np.load(folder / f"{idx}_{name}.npy", allow_pickle=False))
    try:
        output.update({name: said[name] for name in _BOXES if wanted[name]})
        output["metadata"] = _metadata(said)
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise SmrError(f"{about} lacks {error}.", "Write it again with the data generator.") from error
    return output


def _metadata(said: dict[str, Any]) -> dict[str, Any]:
    camera = said["camera_properties"]
    fov = 2 * math.atan(camera["horizontal_aperture"] / (2 * camera["focal_length"]))
    ratio = camera["resolution"]["width"] / camera["resolution"]["height"]
    return {
        "cam_transform": torch.tensor(camera["tf_mat"], dtype=torch.float32)[:, :3],
        "asset_transforms": torch.tensor(said["asset_transforms"][0][1], dtype=torch.float32),
        "cam_proj": generate_perspective_projection(fov, ratio),
        "clipping_range": camera["clipping_range"],
    }
