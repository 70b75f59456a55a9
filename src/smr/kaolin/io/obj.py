"""`kaolin.io.obj`: meshes of Wavefront OBJ files, from disk or from memory."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...errors import SmrError
from ...formats.files import read_bytes
from ...formats.images import decode_texture
from ...formats.mtl import file_name
from ...formats.names import find_companion
from ...formats.obj_cache import collect_cached
from ...formats.obj_read import Collected, collect_obj, joined
from ..render.materials.pbr import PBRMaterial
from ..rep.surface_mesh import SurfaceMesh
from .materials import (
    MaterialError,
    MaterialFileError,
    MaterialLoadError,
    MaterialNotFoundError,
    process_materials_and_assignments,
)
from .utils import NonHomogeneousMeshError, mesh_handler_naive_triangulate

__all__ = [
    "MaterialError",
    "MaterialFileError",
    "MaterialLoadError",
    "MaterialNotFoundError",
    "create_missing_materials_error_handler",
    "default_error_handler",
    "ignore_error_handler",
    "import_mesh",
    "import_mesh_from_string",
    "load_mtl",
    "skip_error_handler",
]

ErrorHandler = Callable[..., Any]
_LARGEST_LIBRARY = 16 << 20
_NUMBERS = {
    b"Ka": ("", 3),
    b"Kd": ("diffuse_color", 3),
    b"Ks": ("specular_color", 3),
    b"Ke": ("", 3),
    b"Tf": ("", 3),
    b"Ns": ("", 1),
    b"Ni": ("ior_value", 1),
    b"d": ("opacity_value", 1),
    b"Tr": ("", 1),
    b"Pr": ("roughness_value", 1),
    b"Pm": ("metallic_value", 1),
    b"Pc": ("clearcoat_value", 1),
    b"Pcr": ("clearcoat_roughness_value", 1),
    b"illum": ("", 1),
}
_MAPS = {
    b"map_Ka": "",
    b"map_Kd": "diffuse_texture",
    b"map_Ks": "specular_texture",
    b"map_Ns": "roughness_texture",
    b"map_d": "opacity_texture",
    b"map_Pr": "roughness_texture",
    b"map_Pm": "metallic_texture",
    b"norm": "normals_texture",
    b"disp": "displacement_texture",
    b"map_bump": "normals_texture",
    b"map_Bump": "normals_texture",
    b"bump": "normals_texture",
    b"map_refl": "metallic_texture",
}


def ignore_error_handler(error: Exception, **kwargs: Any) -> None:
    """Go on without a word."""


def skip_error_handler(error: Exception, **kwargs: Any) -> None:
    """Go on with a warning."""
    warnings.warn(str(error), stacklevel=2)


def create_missing_materials_error_handler(
    error: Exception, *, material_name: str = "", materials_dict: dict[str, Any] | None = None, **kwargs: Any
) -> None:
    """Go on with a warning, and with a grey material in place of one that is used and nowhere defined."""
    warnings.warn(str(error), stacklevel=2)
    if isinstance(error, MaterialNotFoundError) and materials_dict is not None:
        grey = torch.full((3,), 0.5)
        materials_dict[material_name] = {"material_name": material_name, "Ka": grey, "Kd": grey, "Ks": torch.zeros(3)}


def default_error_handler(error: Exception, **kwargs: Any) -> None:
    """Raise it."""
    raise error


def import_mesh(
    path: str | os.PathLike[str],
    with_materials: bool = False,
    with_normals: bool = False,
    error_handler: ErrorHandler | None = None,
    heterogeneous_mesh_handler: ErrorHandler | None = None,
    triangulate: bool = False,
    raw_materials: bool = True,
    *,
    cache_dir: str | os.PathLike[str] | None = None,
) -> SurfaceMesh | None:
    """Read an OBJ file.

    Args:
        path: The file.
        with_materials: Read texture coordinates, and the materials with their images, too.
        with_normals: Read normals, too.
        error_handler: Called with a MaterialError, see `skip_error_handler`; None: such an error is raised.
        heterogeneous_mesh_handler: Called where faces differ in size, see `io.utils`; None: that is an error.
        triangulate: Cut larger faces into fans of triangles.
        raw_materials: Materials as dictionaries with the names of the MTL file (`Kd`, `map_Kd` as uint8); else
            PBRMaterial.
        cache_dir: A folder in which what the lines say is kept under a hash of the file's content, so that the same
            content is not parsed again; materials are always read.

    Returns:
        A mesh; texture coordinates have (0, 0) at the image's top left corner, as Kaolin has them; faces are int64,
        materials sorted by name, `material_assignments` int16 with -1 for none. None where the handler of
        heterogeneous meshes leaves it out.

    Raises:
        FileNotFoundError: There is no such file.
        NonHomogeneousMeshError: Faces differ in size, and nobody handles it.
        MaterialError: A material cannot be read, and nobody handles it.
        SmrError: The file is damaged.
    """
    file = Path(path)
    if not file.exists():
        raise FileNotFoundError(f"{file} is not there")
    found = _collect(file, read_bytes(file), cache_dir)
    materials: dict[str, dict[str, Any]] | None = None
    handle = error_handler or default_error_handler
    if with_materials:
        materials = {}
        for name in found.libraries:
            materials.update(_library(file.parent, name, handle))
    return _mesh(found, materials, with_normals, handle, heterogeneous_mesh_handler, triangulate, raw_materials)


def import_mesh_from_string(
    text: str | bytes,
    with_normals: bool = False,
    triangulate: bool = False,
    *,
    cache_dir: str | os.PathLike[str] | None = None,
) -> SurfaceMesh:
    """Read an OBJ's text from memory; it has texture coordinates where the text has them, and no materials.

    Args:
        text: The text, or its bytes.
        with_normals: Read normals, too.
        triangulate: Cut larger faces into fans of triangles.
        cache_dir: As for `import_mesh`.

    Raises:
        NonHomogeneousMeshError: Faces differ in size and `triangulate` is False.
        SmrError: The text is damaged.
    """
    data = text.encode() if isinstance(text, str) else text
    found = _collect(Path("OBJ text"), data, cache_dir)
    mesh = _mesh(found, {} if found.uvs else None, with_normals, ignore_error_handler, None, triangulate, True)
    assert mesh is not None
    mesh.materials = None
    mesh.material_assignments = None
    return mesh


def _collect(file: Path, data: bytes, cache_dir: str | os.PathLike[str] | None) -> Collected:
    return collect_obj(file, data) if cache_dir is None else collect_cached(file, data, Path(cache_dir))


def _mesh(
    found: Collected,
    materials: dict[str, dict[str, Any]] | None,
    with_normals: bool,
    handle: ErrorHandler,
    heterogeneous: ErrorHandler | None,
    triangulate: bool,
    raw: bool,
) -> SurfaceMesh | None:
    vertices = torch.from_numpy(joined(found.vertices, 3).astype(np.float32))
    corners, counts = map(torch.from_numpy, found.faces())
    _check_corners(found, corners, len(vertices))
    uvs = materials is not None and bool(found.uvs)
    normals = with_normals and bool(found.normals)
    features = [corners[:, 0], corners[:, 1] if uvs else None, corners[:, 2] if normals else None]
    used = _used(found, len(counts))
    same = len(counts) == 0 or bool((counts == counts[0]).all())
    if not same and heterogeneous is None and not triangulate:
        sizes = sorted(set(counts.tolist()))
        raise NonHomogeneousMeshError(
            f"{found.path} has faces of {', '.join(map(str, sizes))} corners; give triangulate=True, or a "
            f"heterogeneous_mesh_handler"
        )
    if not same or (triangulate and len(counts) and int(counts[0]) > 3):
        handler = heterogeneous if heterogeneous is not None and not same else mesh_handler_naive_triangulate
        result = handler(vertices, counts, *features, face_assignments=used)
        if result is None:
            return None
        vertices, counts, *features, used = result
    else:
        features = [None if one is None else one.reshape(len(counts), -1) for one in features]
    faces = features[0]
    assert faces is not None
    fields: dict[str, Any] = {"face_uvs_idx": features[1], "face_normals_idx": features[2]}
    if uvs:
        points = joined(found.uvs, 2).astype(np.float32)
        points[:, 1] = 1.0 - points[:, 1]
        fields["uvs"] = torch.from_numpy(points)
    if normals:
        fields["normals"] = torch.from_numpy(joined(found.normals, 3).astype(np.float32))
    if materials is not None:
        listed, assigned = process_materials_and_assignments(materials, used, handle, len(faces), str(found.path))
        fields["materials"] = listed if raw else [_as_pbr(one) for one in listed]
        fields["material_assignments"] = assigned
    return SurfaceMesh(vertices=vertices, faces=faces, **fields)


def _check_corners(found: Collected, corners: torch.Tensor, count: int) -> None:
    """Every corner names a vertex that is there."""
    bad = (corners[:, 0] < 0) | (corners[:, 0] >= count)
    if bool(bad.any()):
        raise SmrError(
            f"{found.path}: a face names vertex {int(corners[bad][0, 0]) + 1}, and there are {count}.",
            "The file is damaged; export it again.",
        )


def _used(found: Collected, faces: int) -> dict[str, torch.Tensor]:
    """Ranges of faces by the material that they use."""
    ranges: dict[str, list[tuple[int, int]]] = {}
    ends = [*(face for face, _ in found.uses[1:]), faces]  # one where no material is used at all
    for (first, name), last in zip(found.uses, ends, strict=False):
        if last > first:
            ranges.setdefault(name, []).append((first, last))
    return {name: torch.tensor(rows) for name, rows in ranges.items()}


def _library(folder: Path, name: str, handle: ErrorHandler) -> dict[str, dict[str, Any]]:
    library = find_companion(folder, name)
    if library is None:
        handle(MaterialFileError(f"the material file {name!r} is not beside the mesh in {folder}"), mtl_path=name)
        return {}
    return load_mtl(library, handle)


def load_mtl(mtl_path: str | os.PathLike[str], error_handler: ErrorHandler) -> dict[str, dict[str, Any]]:
    """Read a material file.

    Args:
        mtl_path: The file. Images are looked for below its folder only.
        error_handler: Called with a MaterialFileError or MaterialLoadError.

    Returns:
        Materials by name; each has `material_name`, colours and numbers as float tensors and images as uint8 tensors
        (H, W, C), under the names of the file (`Kd`, `Ns`, `map_Kd`).
    """
    path = Path(mtl_path)
    materials: dict[str, dict[str, Any]] = {}
    try:
        text = path.read_bytes() if path.stat().st_size <= _LARGEST_LIBRARY else b""
    except OSError as error:
        error_handler(MaterialFileError(f"{path} cannot be read: {error.strerror}"), mtl_path=path)
        return materials
    current: dict[str, Any] | None = None
    for line in text.replace(b"\r", b"\n").split(b"\n"):
        words = line.split()
        if len(words) < 2 or words[0].startswith(b"#"):
            continue
        if words[0] == b"newmtl":
            name = line.split(None, 1)[1].strip().decode("utf-8", "replace")
            current = materials[name] = {"material_name": name}
        elif current is not None:
            _read_property(current, path, line, words, error_handler)
    return materials


def _read_property(
    material: dict[str, Any], path: Path, line: bytes, words: list[bytes], error_handler: ErrorHandler
) -> None:
    key = words[0].decode("utf-8", "replace")
    if words[0] in _MAPS:
        name = file_name(line)
        image = find_companion(path.parent, name)
        try:
            if image is None:
                raise MaterialLoadError(f"{path}: the image {name!r} of {material['material_name']!r} is not there")
            pixels = np.array(decode_texture(image.read_bytes(), str(image)))
            material[key] = torch.from_numpy(_channel(pixels, words))
        except SmrError as error:
            error_handler(MaterialLoadError(error.cause), mtl_path=path)
        except OSError as error:
            error_handler(MaterialLoadError(f"{image} cannot be read: {error.strerror}"), mtl_path=path)
        except MaterialLoadError as error:
            error_handler(error, mtl_path=path)
    elif words[0] in _NUMBERS:
        try:
            numbers = [float(word) for word in words[1 : 1 + _NUMBERS[words[0]][1]]]
        except ValueError:
            said = line.strip().decode("utf-8", "replace")
            error_handler(MaterialLoadError(f"{path}: {said!r} is not what a material file has"), mtl_path=path)
            return
        material[key] = torch.tensor(numbers)


def _channel(pixels: np.ndarray, words: list[bytes]) -> np.ndarray:
    """The one channel that `-imfchan` names; all where there is none."""
    if b"-imfchan" not in words[:-2]:
        return pixels
    index = b"rgbm".find(words[words.index(b"-imfchan") + 1])
    return np.ascontiguousarray(pixels[..., [index]]) if 0 <= index < pixels.shape[-1] else pixels


def _as_pbr(material: dict[str, Any]) -> PBRMaterial:
    """The terms of UsdPreviewSurface."""
    values: dict[str, Any] = {"material_name": material["material_name"]}
    for key, (name, _) in _NUMBERS.items():
        if name in PBRMaterial.supported_tensor_attributes() and key.decode() in material:
            values[name] = material[key.decode()]
    for key, name in _MAPS.items():
        if not name or key.decode() not in material:
            continue
        pixels = material[key.decode()].float() * (1.0 / 255.0)
        space = name.replace("_texture", "_colorspace")
        if name == "normals_texture":
            if key != b"norm" and bool((pixels[..., 0] == pixels[..., 1]).all()):
                continue  # a grey bump map: heights
            pixels = pixels[..., :3] * 2.0 - 1.0
        elif name in ("diffuse_texture", "specular_texture"):
            pixels = pixels[..., :3]
        else:
            pixels = pixels[..., :1]
        values[name], values[space] = pixels, "sRGB" if name == "diffuse_texture" else "raw"
    return PBRMaterial(**values)
