"""What a mesh file holds, and the views of it that several formats share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from ..errors import SmrError
from ..records import Finding, Material, Mesh, TexturedMesh, UpAxis

AnyMesh = Mesh | TexturedMesh


@dataclass(frozen=True)
class Model:
    """A mesh read from a file, and what the file says about itself."""

    mesh: AnyMesh
    """Coordinates as in the file; metres where the format states its unit (USD, glTF)."""
    world_up: UpAxis | None = None
    """The up axis that the format demands or the file states; None where nothing is said."""
    findings: tuple[Finding, ...] = ()
    """What was odd in the file and what was done about it."""


@dataclass(frozen=True)
class WriteOptions:
    """What a writer is told besides the mesh."""

    world_up: UpAxis = "z"
    """The up axis of the coordinates that are handed over."""
    jpeg_quality: int | None = None
    """Textures as JPEG of this quality (1 to 100); None: PNG, lossless. Textures with opacity are always PNG."""
    remark: str = ""
    """A line about the model, such as that its scale is arbitrary; kept by formats with room for comments."""


@dataclass(frozen=True)
class Format:
    """One mesh file format: its endings, what it can hold, its reader and its writer."""

    name: str
    endings: tuple[str, ...]
    up: UpAxis | None
    """The up axis that the format demands; None: files keep the world frame they are given."""
    holds: frozenset[str]
    """Of `texture`, `colors`, `normals`: what the writer keeps."""
    read: Callable[[Path], Model]
    write: Callable[[AnyMesh, Path, WriteOptions], None]


Y_UP_FROM: dict[str, np.ndarray] = {
    "y": np.eye(3),
    "-y": np.diag([1.0, -1.0, -1.0]),
    "z": np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]]),
    "-z": np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]]),
    "x": np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]]),
    "-x": np.array([[0.0, 1, 0], [-1, 0, 0], [0, 0, 1]]),
}
"""Rotations that take a world with the named up axis to one with y up."""


def geometry(model: AnyMesh) -> Mesh:
    """The triangles, without texture."""
    return model.mesh if isinstance(model, TexturedMesh) else model


def with_geometry(model: AnyMesh, mesh: Mesh) -> AnyMesh:
    """The same model with other vertices or normals."""
    return replace(model, mesh=mesh) if isinstance(model, TexturedMesh) else mesh


def material_list(model: TexturedMesh) -> tuple[Material, ...]:
    """Its materials; a plain white one where it names none."""
    return model.materials or (Material(),)


def faces_by_material(model: TexturedMesh) -> list[Int[np.ndarray, " n"]]:
    """The faces of each material of `material_list`, in their order."""
    if model.face_materials is None:
        first = np.arange(len(model.mesh.faces))
        return [first, *(first[:0] for _ in material_list(model)[1:])]
    order = np.argsort(model.face_materials, kind="stable")
    edges = np.searchsorted(model.face_materials[order], np.arange(len(material_list(model)) + 1))
    return [order[edges[i] : edges[i + 1]] for i in range(len(edges) - 1)]


def turned(model: AnyMesh, up: UpAxis, new_up: UpAxis) -> AnyMesh:
    """The model with its axis `up` turned to `new_up`. A rotation by quarter turns: no rounding, handedness kept."""
    if up == new_up:
        return model
    rotation = Y_UP_FROM[new_up].T @ Y_UP_FROM[up]
    mesh = geometry(model)
    normals = None if mesh.normals is None else _turn(mesh.normals, rotation)
    return with_geometry(model, replace(mesh, vertices=_turn(mesh.vertices, rotation), normals=normals))


def scaled(model: AnyMesh, scale: float) -> AnyMesh:
    """The model with its coordinates multiplied by `scale`."""
    if scale == 1.0:
        return model
    mesh = geometry(model)
    vertices = compact(mesh.vertices.astype(np.float64) * scale)
    return with_geometry(model, replace(mesh, vertices=vertices))


def compact(vertices: Float[np.ndarray, "V 3"]) -> Float[np.ndarray, "V 3"]:
    """float32 where its rounding is below a ten millionth of the extent (as near the origin), float64 elsewhere."""
    if vertices.dtype == np.float32 or not vertices.size:
        return vertices.astype(np.float32)
    with np.errstate(over="ignore"):  # beyond float32: infinite, and so kept as float64
        small = vertices.astype(np.float32)
    if np.abs(small - vertices).max() <= 1e-7 * np.ptp(vertices, axis=0).max():
        return small
    return vertices


def local_frame(
    vertices: Float[np.ndarray, "V 3"],
) -> tuple[Float[np.ndarray, "V 3"], Float[np.ndarray, "3"] | None]:
    """float32 vertices around the origin, and the translation (float64) that takes them back; None: none needed.

    For formats that store float32: at map coordinates float32 steps by centimetres to metres.
    """
    if compact(vertices).dtype == np.float32:
        return vertices.astype(np.float32), None
    center = (vertices.min(axis=0) + vertices.max(axis=0)) / 2
    step = 2.0 ** np.floor(np.log2(max(np.ptp(vertices, axis=0).max(), np.finfo(np.float64).tiny)) - 3)
    center = np.round(center / step) * step  # few digits in the file
    return (vertices - center).astype(np.float32), center


def check_writable(model: AnyMesh, path: Path) -> None:
    """Refuse what no format can hold.

    Raises:
        SmrError: There are no faces, or vertices are not finite.
        ValueError: Indices point outside their arrays.
    """
    mesh = geometry(model)
    if not len(mesh.faces):
        raise SmrError(f"There is no face to write to {path}.", "Check the step that made the mesh.")
    if not np.isfinite(mesh.vertices).all():
        count = int((~np.isfinite(mesh.vertices)).any(axis=1).sum())
        raise SmrError(
            f"{count} of the {len(mesh.vertices)} vertices for {path} are not finite numbers.",
            "Run `smr clean` on the mesh, or remove these vertices.",
        )
    _check_range(mesh.faces, len(mesh.vertices), "faces")
    if isinstance(model, TexturedMesh):
        _check_range(model.face_uvs, len(model.uvs), "face_uvs")
        if model.face_materials is not None:
            _check_range(model.face_materials, len(material_list(model)), "face_materials")


def _check_range(indices: Int[np.ndarray, "..."], count: int, name: str) -> None:
    if indices.size and (indices.min() < 0 or indices.max() >= count):
        raise ValueError(f"{name} has indices from {indices.min()} to {indices.max()} for {count} entries")


def _turn(vectors: Float[np.ndarray, "V 3"], rotation: Float[np.ndarray, "3 3"]) -> Float[np.ndarray, "V 3"]:
    source = np.abs(rotation).argmax(axis=1)
    signs = rotation[np.arange(3), source].astype(vectors.dtype)
    return np.ascontiguousarray(vectors[:, source] * signs)
