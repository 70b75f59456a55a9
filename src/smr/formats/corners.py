"""Vertices that differ in texture coordinates made distinct, and equal ones made one again."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int, Int32, Shaped

from ..records import TexturedMesh


def split_corners(
    model: TexturedMesh,
) -> tuple[Int32[np.ndarray, "F 3"], Int[np.ndarray, " N"], Int[np.ndarray, " N"]]:
    """One vertex for each pair of vertex and texture coordinate in use, as glTF needs.

    Returns:
        Faces over the new vertices, and for each new vertex its index into the old vertices and into `uvs`.
    """
    faces, face_uvs = model.mesh.faces, model.face_uvs
    if len(model.uvs) == len(model.mesh.vertices) and np.array_equal(faces, face_uvs):
        same = np.arange(len(model.uvs))
        return faces, same, same
    key = faces.astype(np.int64).ravel() * len(model.uvs) + face_uvs.ravel()
    pairs, corners = np.unique(key, return_inverse=True)
    new_faces = corners.reshape(-1, 3).astype(np.int32)
    return new_faces, pairs // len(model.uvs), pairs % len(model.uvs)


def equal_rows(*columns: Shaped[np.ndarray, "V _"]) -> tuple[np.ndarray, np.ndarray]:
    """Find rows that are equal to the bit in all arrays.

    Returns:
        The first of each group of equal rows, in order of appearance, and for every row the index of its group.
    """
    if not len(columns[0]):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    width = sum(column.dtype.itemsize * column.shape[1] for column in columns)
    rows = np.concatenate(
        [np.ascontiguousarray(column + 0).view(np.uint8).reshape(len(column), -1) for column in columns], axis=1
    )
    padded = np.zeros((len(rows), -(-width // 8) * 8), np.uint8)
    padded[:, :width] = rows
    words = padded.view(np.uint64)
    order = np.lexsort(words.T)
    fresh = np.ones(len(order), bool)
    fresh[1:] = (words[order[1:]] != words[order[:-1]]).any(axis=1)
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(fresh) - 1
    first = order[fresh]  # lexsort is stable: the lowest index of its group
    appearance = np.argsort(first)
    rank = np.empty(len(first), np.int64)
    rank[appearance] = np.arange(len(first))
    return first[appearance], rank[group]
