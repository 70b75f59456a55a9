"""Corners, areas and normals of faces, and features of vertices averaged over the faces around them.

Batch sizes come first, one list of faces serves the whole batch. All are O(F) in time and memory but for the sort,
O(F log F), that makes sums over vertices the same every time.
"""

from __future__ import annotations

import torch

from ..segments import group_rows, segment_sum, take_rows
from ..tensors import FLOATS, INDICES, check_finite, check_indices, check_same_device, check_tensor, check_whole

ANY_FLOAT = (*FLOATS, torch.float16)


def check_mesh(vertices: torch.Tensor, faces: torch.Tensor, *, finite: bool = False) -> None:
    """Raise where vertices (..., V, 3) and triangles (F, 3) do not fit each other.

    Args:
        vertices: Positions.
        faces: Indices.
        finite: Also raise at a NaN or infinity.

    Raises:
        TypeError: Wrong types.
        ValueError: Wrong shapes or devices, an index out of range, a coordinate that is not finite.
    """
    check_features("vertices", vertices, faces, size=3)
    if faces.shape[1] != 3:
        raise ValueError(f"faces must have the shape (*, 3), not {tuple(faces.shape)}")
    if finite:
        check_finite("vertices", vertices)


def check_features(name: str, features: torch.Tensor, faces: torch.Tensor, *, size: int | None = None) -> None:
    """Raise where features (..., V, C) and polygons (F, S) do not fit each other; see `check_mesh`."""
    check_tensor(name, features, (None, size), ANY_FLOAT, batched=True)
    check_tensor("faces", faces, (None, None), INDICES)
    check_same_device(**{name: features, "faces": faces})
    check_indices("faces", faces, features.shape[-2])


def index_vertices_by_faces(features: torch.Tensor, faces: torch.Tensor) -> torch.Tensor:
    """Give each corner of each face the features of its vertex: (..., V, C) and (F, S) to (..., F, S, C).

    Raises:
        TypeError: Wrong types.
        ValueError: Wrong shapes or an index out of range.
    """
    check_features("features", features, faces)
    corners = take_rows(features, faces.reshape(-1).long())
    return corners.reshape(*features.shape[:-2], *faces.shape, features.shape[-1])


def unindex_vertices_by_faces(face_features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Give each corner a vertex of its own: (..., F, S, C) to features (..., F * S, C) and int64 faces (F, S)."""
    numbers = (*ANY_FLOAT, *INDICES, torch.uint8, torch.bool)
    check_tensor("face_features", face_features, (None, None, None), numbers, batched=True)
    faces, corners = face_features.shape[-3:-1]
    index = torch.arange(faces * corners, device=face_features.device).reshape(faces, corners)
    return face_features.flatten(-3, -2), index


def face_crosses(corners: torch.Tensor) -> torch.Tensor:
    """Normals of triangles, twice as long as their areas: (..., 3, 3) to (..., 3)."""
    a, b, c = corners.unbind(-2)
    return torch.linalg.cross(b - a, c - a)


def unit(vectors: torch.Tensor) -> torch.Tensor:
    """Vectors of length one, however small they were; zero where they are zero. The gradient there is zero too."""
    largest = vectors.detach().abs().amax(dim=-1, keepdim=True)
    scaled = vectors / torch.where(largest > 0, largest, torch.ones_like(largest))
    length = torch.linalg.vector_norm(scaled, dim=-1, keepdim=True)
    return scaled / torch.where(length > 0, length, torch.ones_like(length))


def face_areas(vertices: torch.Tensor, faces: torch.Tensor) -> torch.Tensor:
    """Areas of triangles: vertices (..., V, 3) and faces (F, 3) to (..., F). The gradient of a zero area is zero.

    Raises:
        TypeError: Wrong types.
        ValueError: Wrong shapes or an index out of range.
    """
    check_mesh(vertices, faces)
    return 0.5 * torch.linalg.vector_norm(face_crosses(index_vertices_by_faces(vertices, faces)), dim=-1)


def packed_face_areas(
    vertices: torch.Tensor, first_vertices: torch.Tensor, faces: torch.Tensor, face_counts: torch.Tensor
) -> torch.Tensor:
    """Areas of the triangles of several meshes, one behind the other.

    Args:
        vertices: (V, 3), of all meshes.
        first_vertices: (B + 1,), where each mesh's vertices begin, and the end.
        faces: (F, 3), of all meshes; indices into the vertices of their own mesh.
        face_counts: (B,), faces of each mesh.

    Returns:
        (F,).

    Raises:
        TypeError: Wrong types.
        ValueError: Wrong shapes, counts that do not add up to F, or an index out of range.
    """
    return face_areas(vertices, unpack_faces(first_vertices, faces, face_counts))


def unpack_faces(first_vertices: torch.Tensor, faces: torch.Tensor, face_counts: torch.Tensor) -> torch.Tensor:
    """Indices into the vertices of all meshes, from indices into the vertices of each; see `packed_face_areas`."""
    check_tensor("faces", faces, (None, 3), INDICES)
    check_tensor("face_counts", face_counts, (None,), INDICES)
    check_tensor("first_vertices", first_vertices, (len(face_counts) + 1,), INDICES)
    check_same_device(faces=faces, **({} if face_counts.device.type == "cpu" else {"face_counts": face_counts}))
    if bool((face_counts < 0).any()) or bool((first_vertices.diff() < 0).any()) or int(first_vertices[0]) < 0:
        raise ValueError("face_counts and the steps of first_vertices must not be negative")
    if int(face_counts.sum()) != len(faces):
        raise ValueError(f"face_counts adds up to {int(face_counts.sum())}; there are {len(faces)} faces")
    mesh = torch.repeat_interleave(torch.arange(len(face_counts)), face_counts.cpu()).to(faces.device)
    firsts = first_vertices.to(faces.device, torch.int64)
    ends = firsts[1:][mesh] - firsts[mesh]
    bad = ((faces < 0) | (faces >= ends[:, None])).nonzero()
    if len(bad):
        f, k = bad[0].tolist()
        raise ValueError(f"faces[{f}, {k}] is {int(faces[f, k])}; its mesh has {int(ends[f])} vertices")
    return faces + firsts[mesh][:, None]


def face_normals(vertices: torch.Tensor, faces: torch.Tensor, *, normalized: bool = True) -> torch.Tensor:
    """Normals of triangles, outwards where faces are counter-clockwise seen from outside.

    Args:
        vertices: (..., V, 3).
        faces: (F, 3).
        normalized: Unit length (zero for a face without area); otherwise twice as long as the face's area.

    Returns:
        (..., F, 3).

    Raises:
        TypeError: Wrong types.
        ValueError: Wrong shapes or an index out of range.
    """
    check_mesh(vertices, faces)
    crosses = face_crosses(index_vertices_by_faces(vertices, faces))
    return unit(crosses) if normalized else crosses


def vertex_normals(vertices: torch.Tensor, faces: torch.Tensor) -> torch.Tensor:
    """Unit normals of vertices: the mean of the faces around, weighted by area; zero where there is no face.

    Args:
        vertices: (..., V, 3).
        faces: (F, 3).

    Returns:
        (..., V, 3).

    Raises:
        TypeError: Wrong types.
        ValueError: Wrong shapes or an index out of range.
    """
    crosses = face_normals(vertices, faces, normalized=False)
    corners = crosses.unsqueeze(-2).expand(*crosses.shape[:-1], 3, 3).flatten(-3, -2)
    return unit(segment_sum(corners, group_rows(faces, vertices.shape[-2])))


def average_at_vertices(faces: torch.Tensor, face_features: torch.Tensor, num_vertices: int) -> torch.Tensor:
    """Mean of the features that the corners of faces give a vertex.

    Args:
        faces: (F, S).
        face_features: (..., F, S, C).
        num_vertices: V.

    Returns:
        (..., V, C); zero for a vertex without a face.

    Raises:
        TypeError: Wrong types.
        ValueError: Wrong shapes or an index out of range.
    """
    check_tensor("faces", faces, (None, None), INDICES)
    check_tensor("face_features", face_features, (*faces.shape, None), ANY_FLOAT, batched=True)
    check_same_device(faces=faces, face_features=face_features)
    num_vertices = check_whole("num_vertices", num_vertices)
    check_indices("faces", faces, num_vertices)
    segments = group_rows(faces, num_vertices)
    summed = segment_sum(face_features.flatten(-3, -2), segments)
    return summed / segments.sizes.clamp_min(1).to(summed.dtype)[:, None]


def vertex_tangents(
    faces: torch.Tensor, face_vertices: torch.Tensor, face_uvs: torch.Tensor, normals: torch.Tensor
) -> torch.Tensor:
    """Unit directions in which u grows, across the normals, at each vertex.

    Args:
        faces: (F, 3).
        face_vertices: (F, 3, 3), positions of the corners.
        face_uvs: (F, 3, 2), texture coordinates of the corners.
        normals: (V, 3), unit.

    Returns:
        (V, 3).

    Raises:
        TypeError: Wrong types.
        ValueError: Wrong shapes or an index out of range.
    """
    check_tensor("faces", faces, (None, 3), INDICES)
    check_tensor("face_vertices", face_vertices, (len(faces), 3, 3), ANY_FLOAT)
    check_tensor("face_uvs", face_uvs, (len(faces), 3, 2), ANY_FLOAT)
    check_tensor("normals", normals, (None, 3), ANY_FLOAT)
    check_same_device(faces=faces, face_vertices=face_vertices, face_uvs=face_uvs, normals=normals)
    check_indices("faces", faces, len(normals))
    check_finite("face_uvs", face_uvs)
    p0, p1, p2 = face_vertices.unbind(1)
    t0, t1, t2 = face_uvs.unbind(1)
    v1, v2 = t1[:, 1:] - t0[:, 1:], t2[:, 1:] - t0[:, 1:]
    u1, u2 = t1[:, :1] - t0[:, :1], t2[:, :1] - t0[:, :1]
    area = u1 * v2 - u2 * v1
    tangents = ((p1 - p0) * v2 - (p2 - p0) * v1) / torch.where(area.abs() > 0, area, torch.ones_like(area))
    tangents = average_at_vertices(faces, tangents[:, None].expand(-1, 3, -1), len(normals))
    return unit(tangents - normals * (normals * tangents).sum(dim=-1, keepdim=True))
