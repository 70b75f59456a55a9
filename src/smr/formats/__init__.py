"""Mesh files: `read_mesh`, `read_model`, `write_mesh` and `convert`; the file name's ending chooses the format."""

from .convert import Conversion, convert
from .model import Format, Model
from .registry import FORMATS, check_outputs, format_of, read_mesh, read_model, write_mesh

__all__ = [
    "FORMATS",
    "Conversion",
    "Format",
    "Model",
    "check_outputs",
    "convert",
    "format_of",
    "read_mesh",
    "read_model",
    "write_mesh",
]
