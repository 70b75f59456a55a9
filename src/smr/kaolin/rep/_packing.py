"""Meshes put one after the other in one tensor for each attribute, so that one computation serves all of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ...ops.tensors import checks_values

INDEX_OF = {"faces": "vertices", "face_normals_idx": "normals", "face_uvs_idx": "uvs"}
"""Attributes of indices, by what they point into."""


def pack(values: dict[str, list[torch.Tensor]], vertex_counts: Sequence[int]) -> dict[str, torch.Tensor]:
    """The attributes of meshes as those of one mesh, in batching FIXED with one item; indices are moved.

    Args:
        values: For each attribute its tensors, one a mesh.
        vertex_counts: Vertices of each mesh.

    Raises:
        ValueError: An index is out of its mesh's range.
    """
    packed = {}
    for name, tensors in values.items():
        target = INDEX_OF.get(name)
        if target is None:
            packed[name] = torch.cat(tensors).unsqueeze(0)
            continue
        counts = list(vertex_counts) if target == "vertices" else [len(tensor) for tensor in values[target]]
        moved = _move(name, tensors, counts)
        packed[name] = moved if name == "faces" else moved.unsqueeze(0)
    return packed


def _move(name: str, tensors: list[torch.Tensor], counts: list[int]) -> torch.Tensor:
    """Indices of all meshes, each mesh's past those of the meshes before it."""
    indices = torch.cat(tensors)
    device = indices.device
    rows = torch.tensor([len(tensor) for tensor in tensors], device=device)
    total = torch.tensor(counts, dtype=indices.dtype, device=device)
    limit = torch.repeat_interleave(total, rows, output_size=len(indices)).unsqueeze(-1)
    start = torch.repeat_interleave(torch.cumsum(total, 0) - total, rows, output_size=len(indices)).unsqueeze(-1)
    bad = (indices < 0) | (indices >= limit)
    if checks_values() and bool(bad.any()):
        row, corner = bad.nonzero()[0].tolist()
        ends = torch.cumsum(rows, 0).tolist()
        mesh = next(i for i, end in enumerate(ends) if row < end)
        inside = row - (ends[mesh] - len(tensors[mesh]))
        which = f" of mesh {mesh}" if len(tensors) > 1 else ""
        raise ValueError(
            f"{name}[{inside}, {corner}]{which} is {int(indices[row, corner])}; it must be an index into "
            f"{counts[mesh]} {INDEX_OF[name]}"
        )
    return indices + start
