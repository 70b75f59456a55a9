"""Meshes of a USD stage in its world frame, in metres. Runs in a process of its own: see `usd_read`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pxr import Tf, Usd, UsdGeom

from ..errors import SmrError
from ..records import Finding
from .build import build_model, no_faces
from .colors import srgb_bytes
from .files import damaged
from .model import Model
from .pieces import Piece, join
from .usd_errors import usd_reason
from .usd_layers import open_layer
from .usd_materials import MaterialReader

_WHEN = Usd.TimeCode.EarliestTime()
_MOST_PRIMS = 1_000_000
_MOST_CORNERS = 1_000_000_000


@dataclass
class _Scene:
    path: Path
    findings: list[Finding]
    materials: MaterialReader
    places: Any
    """UsdGeom.XformCache."""
    pieces: list[Piece] = field(default_factory=list)
    points: int = 0
    corners: int = 0

    def warn(self, text: str) -> None:
        """Add a finding once."""
        if all(finding.cause != text for finding in self.findings):
            self.findings.append(Finding("warning", text))


def read_stage(path: Path) -> Model:
    """Read a USD layer or package with all it refers to in its own folder. See `usd_read.read_usd`.

    Raises:
        SmrError: The file is damaged, refers to files outside its folder, or has no meshes.
    """
    try:
        return _read(path)
    except (Tf.ErrorException, UnicodeDecodeError) as error:
        raise damaged(path, f"USD cannot read it ({usd_reason(error)})") from error


def _read(path: Path) -> Model:
    layer = open_layer(path)
    stage = Usd.Stage.Open(layer)
    if stage is None:
        raise damaged(path, "USD cannot read it")
    findings: list[Finding] = []
    scene = _Scene(path, findings, MaterialReader(path, findings), UsdGeom.XformCache(_WHEN))
    predicate = Usd.TraverseInstanceProxies(Usd.PrimDefaultPredicate)
    for count, prim in enumerate(Usd.PrimRange.Stage(stage, predicate)):
        if count > _MOST_PRIMS:
            raise SmrError(f"{path} has more than a million prims.", "Export the one model that you need.")
        if prim.IsA(UsdGeom.PointInstancer):
            scene.warn("Point instancers are left out.")
        elif prim.IsA(UsdGeom.Points):
            points = UsdGeom.Points(prim).GetPointsAttr().Get(_WHEN)
            scene.points += 0 if points is None else len(points)
        elif prim.IsA(UsdGeom.Mesh) and _is_shown(prim):
            _add_mesh(scene, UsdGeom.Mesh(prim))
    if not scene.pieces:
        raise no_faces(path, scene.points)
    parts = join(path, scene.pieces, scene.materials.materials, findings)
    parts.vertices = parts.vertices * UsdGeom.GetStageMetersPerUnit(stage)
    parts.world_up = "z" if UsdGeom.GetStageUpAxis(stage) == UsdGeom.Tokens.z else "y"
    return build_model(parts)


def _is_shown(prim: Usd.Prim) -> bool:
    imageable = UsdGeom.Imageable(prim)
    purpose = imageable.ComputePurpose()
    return bool(
        imageable.ComputeVisibility(_WHEN) != UsdGeom.Tokens.invisible
        and purpose in (UsdGeom.Tokens.default_, UsdGeom.Tokens.render)
    )


def _array(value: Any, width: int, dtype: Any) -> np.ndarray:
    """A USD array as NumPy; empty where it is not set."""
    if value is None or not len(value):
        return np.zeros((0, width) if width else 0, dtype)
    return np.array(value, dtype)


def _add_mesh(scene: _Scene, mesh: UsdGeom.Mesh) -> None:
    vertices = _array(mesh.GetPointsAttr().Get(_WHEN), 3, np.float64)
    sizes = _array(mesh.GetFaceVertexCountsAttr().Get(_WHEN), 0, np.int64)
    loops = _array(mesh.GetFaceVertexIndicesAttr().Get(_WHEN), 0, np.int64)
    name = mesh.GetPath()
    if not len(sizes):
        scene.points += len(vertices)
        return
    if sizes.min() < 0 or sizes.sum() != len(loops):
        raise damaged(scene.path, f"the faces of {name} do not fit its indices")
    if len(loops) and (loops.min() < 0 or loops.max() >= len(vertices)):
        raise damaged(scene.path, f"a face of {name} refers to vertex {loops.max()} of {len(vertices)}")
    scene.corners += len(loops)
    if scene.corners > _MOST_CORNERS:
        raise SmrError(f"{scene.path} repeats meshes to over a billion corners.", "Export the one model you need.")
    if mesh.GetSubdivisionSchemeAttr().Get(_WHEN) not in (UsdGeom.Tokens.none, None):
        scene.warn("Subdivision surfaces are read as their cage.")
    piece = Piece(vertices, loops, sizes)
    binding = scene.materials.bind(mesh, len(sizes))
    piece.materials = binding.polygons
    _add_uvs(piece, mesh, binding.primvar)
    _add_colors(piece, mesh)
    _add_normals(piece, mesh)
    _place(piece, np.array(scene.places.GetLocalToWorldTransform(mesh.GetPrim())))
    left_handed = mesh.GetOrientationAttr().Get(_WHEN) == UsdGeom.Tokens.leftHanded
    if left_handed != (np.linalg.det(np.array(scene.places.GetLocalToWorldTransform(mesh.GetPrim()))[:3, :3]) < 0):
        _reverse(piece)
    scene.pieces.append(piece)


def _place(piece: Piece, row_matrix: np.ndarray) -> None:
    """Move to the world frame. USD multiplies rows from the left, in double precision."""
    turn = row_matrix[:3, :3]
    piece.vertices = piece.vertices @ turn + row_matrix[3, :3]
    if piece.normals is not None:
        scale = abs(np.linalg.det(turn)) ** (1 / 3)
        piece.normals = piece.normals @ np.linalg.inv(turn / scale).T if scale > 0 else None


def _reverse(piece: Piece) -> None:
    """Turn the winding of each polygon: its corners the other way round."""
    first = np.cumsum(piece.sizes) - piece.sizes
    within = np.arange(len(piece.loops)) - np.repeat(first, piece.sizes)
    mirrored = np.repeat(first + piece.sizes - 1, piece.sizes) - within
    piece.loops = piece.loops[mirrored]
    piece.uv_loops = None if piece.uv_loops is None else piece.uv_loops[mirrored]
    piece.normal_loops = None if piece.normal_loops is None else piece.normal_loops[mirrored]


def _corner_index(piece: Piece, interpolation: str, indices: Any, count: int) -> np.ndarray | None:
    """For each corner its entry of a primvar with `count` values; -1 where the primvar is too short."""
    if interpolation == UsdGeom.Tokens.faceVarying:
        index = np.arange(len(piece.loops))
    elif interpolation in (UsdGeom.Tokens.vertex, UsdGeom.Tokens.varying):
        index = piece.loops
    elif interpolation == UsdGeom.Tokens.uniform:
        index = np.repeat(np.arange(len(piece.sizes)), piece.sizes)
    elif interpolation == UsdGeom.Tokens.constant:
        index = np.zeros(len(piece.loops), np.int64)
    else:
        return None
    table = _array(indices, 0, np.int64)
    if len(table):
        index = np.where(index < len(table), table[np.minimum(index, len(table) - 1)], -1)
    return np.where((index >= 0) & (index < count), index, -1)


def _primvar(piece: Piece, primvar: Any, width: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Values of a primvar and the entry of each corner; None where it is not there."""
    if not primvar or not primvar.HasValue():
        return None
    value = primvar.Get(_WHEN)
    try:
        values = _array(value, width, np.float64)
    except (TypeError, ValueError):
        return None
    if values.ndim != 2 or values.shape[1] != width or not len(values):
        return None
    index = _corner_index(piece, primvar.GetInterpolation(), primvar.GetIndices(_WHEN), len(values))
    return None if index is None else (values, index)


def _add_uvs(piece: Piece, mesh: UsdGeom.Mesh, name: str) -> None:
    api = UsdGeom.PrimvarsAPI(mesh)
    names = [name, "st", "UVMap", "st0"]
    names += [primvar.GetPrimvarName() for primvar in api.GetPrimvars() if "texCoord2" in str(primvar.GetTypeName())]
    for candidate in dict.fromkeys(names):
        found = _primvar(piece, api.GetPrimvar(candidate), 2)
        if found is not None:
            piece.uvs, piece.uv_loops = found
            return


def _add_normals(piece: Piece, mesh: UsdGeom.Mesh) -> None:
    found = _primvar(piece, UsdGeom.PrimvarsAPI(mesh).GetPrimvar("normals"), 3)
    if found is None:
        values = _array(mesh.GetNormalsAttr().Get(_WHEN), 3, np.float64)
        index = _corner_index(piece, mesh.GetNormalsInterpolation(), None, len(values))
        found = None if index is None or not len(values) else (values, index)
    if found is not None:
        piece.normals, piece.normal_loops = found


def _add_colors(piece: Piece, mesh: UsdGeom.Mesh) -> None:
    """Vertex colours; where they differ between the corners of a vertex one of them is taken."""
    primvar = mesh.GetDisplayColorPrimvar()
    if primvar and primvar.GetInterpolation() == UsdGeom.Tokens.constant:
        return  # a hint for drawing a whole mesh, not a scan's colours
    found = _primvar(piece, primvar, 3)
    if found is None or not (found[1] >= 0).all():
        return
    values, index = found
    piece.colors = np.full((len(piece.vertices), 3), 255, np.uint8)
    piece.colors[piece.loops] = srgb_bytes(values)[index]
