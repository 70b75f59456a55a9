"""A capture in, a clean textured mesh out.

The names below are imported when they are first used, so that `import smr` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from .captures import read_capture, survey
    from .cleaning import clean
    from .config import CaptureConfig, CleanConfig, FusionConfig, PipelineConfig, TextureConfig, TrimConfig
    from .demo import make_capture
    from .errors import SmrError
    from .formats import read_mesh, write_mesh
    from .formats.convert import convert
    from .inspection import inspect
    from .mesh.unwrap import unwrap
    from .metrics import evaluate
    from .pipeline import Result, reconstruct
    from .records import Camera, Capture, DepthMap, Frame, Material, Mesh, Photo, TexturedMesh
    from .texturing import bake, bake_onto, texture
    from .trimming import trim
    from .tsdf import extract_mesh, fuse

_HOMES = {
    "captures": ("read_capture", "survey"),
    "cleaning": ("clean",),
    "config": ("CaptureConfig", "CleanConfig", "FusionConfig", "PipelineConfig", "TextureConfig", "TrimConfig"),
    "demo": ("make_capture",),
    "errors": ("SmrError",),
    "formats": ("read_mesh", "write_mesh"),
    "formats.convert": ("convert",),
    "inspection": ("inspect",),
    "mesh.unwrap": ("unwrap",),
    "metrics": ("evaluate",),
    "pipeline": ("Result", "reconstruct"),
    "records": ("Camera", "Capture", "DepthMap", "Frame", "Material", "Mesh", "Photo", "TexturedMesh"),
    "texturing": ("bake", "bake_onto", "texture"),
    "trimming": ("trim",),
    "tsdf": ("extract_mesh", "fuse"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Camera", "Capture", "CaptureConfig", "CleanConfig", "DepthMap", "Frame", "FusionConfig", "Material", "Mesh",
    "Photo", "PipelineConfig", "Result", "SmrError", "TextureConfig", "TexturedMesh", "TrimConfig", "bake",
    "bake_onto", "clean", "convert", "evaluate", "extract_mesh", "fuse", "inspect", "make_capture", "read_capture",
    "read_mesh", "reconstruct", "survey", "texture", "trim", "unwrap", "write_mesh",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'smr' has no attribute {name!r}")
    return getattr(import_module(f"smr.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
