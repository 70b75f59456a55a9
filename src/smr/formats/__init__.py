"""Mesh files: `read_mesh`, `read_model`, `write_mesh` and `convert`; the file name's ending chooses the format."""

from .convert import Conversion, convert
from .model import Format, Model
from .registry import FORMATS, format_of, read_mesh, read_model, write_mesh

__all__ = ["FORMATS", "Conversion", "Format", "Model", "convert", "format_of", "read_mesh", "read_model", "write_mesh"]
