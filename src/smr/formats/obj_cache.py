"""What the lines of an OBJ say, kept in a file under the name of their content."""

from __future__ import annotations

import hashlib
import json
import logging
import zipfile
from pathlib import Path

import numpy as np

from ..atomic import atomic_path
from ..errors import SmrError
from .obj_read import Collected, collect_obj

_log = logging.getLogger(__name__)

_VERSION = b"smr obj 1\n"
_WIDTHS = {"vertices": (3, 7), "uvs": (1, 2), "normals": (3, 3)}
_UNUSABLE = (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, MemoryError)
"""What reading a damaged file of NumPy raises."""


def collect_cached(path: Path, text: bytes, folder: Path) -> Collected:
    """As `obj_read.collect_obj`, from `folder` where the same text was read before.

    The name is a hash of the text, so that a file that changed is read anew. A cache file that is damaged or of
    something else is ignored and written again; that the folder cannot be written is no error.

    Raises:
        SmrError: It is not text, or a line is not what it should be.
    """
    key = hashlib.sha256(_VERSION)
    key.update(text)
    name = key.hexdigest()
    file = folder / f"{name}.npz"
    try:
        return _load(path, file, name)
    except FileNotFoundError:
        pass
    except _UNUSABLE as error:
        _log.info("%s is of no use (%s): it is written again", file, error)
    found = collect_obj(path, text)
    try:
        _store(found, file, name)
    except SmrError as error:
        _log.info("nothing is kept: %s", error.cause)
    return found


def _store(found: Collected, file: Path, name: str) -> None:
    arrays: dict[str, np.ndarray] = {}
    for kind in _WIDTHS:
        for i, block in enumerate(getattr(found, kind)):
            arrays[f"{kind}{i}"] = block
    corners, sizes = found.faces()
    small = not len(corners) or (corners.max() < 2**31 and corners.min() >= -(2**31))
    arrays["corners"] = corners.astype(np.int32) if small else corners
    same = len(sizes) > 0 and bool((sizes == sizes[0]).all())
    arrays["sizes"] = sizes[:1] if same else sizes
    about = {"key": name, "faces": len(sizes), "libraries": found.libraries, "uses": found.uses, "counts": found.counts}
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    with atomic_path(file) as temporary, open(temporary, "wb") as target:
        np.savez(target, **arrays)  # type: ignore[arg-type]


def _load(path: Path, file: Path, name: str) -> Collected:
    """Read what was kept.

    Raises:
        ValueError: It does not hold together, or is of something else.
    """
    found = Collected(path)
    with open(file, "rb") as source, np.load(source, allow_pickle=False) as stored:
        about = json.loads(stored["about"].tobytes())
        if about["key"] != name:
            raise ValueError("it is of another file")
        for kind, (least, most) in _WIDTHS.items():
            blocks: list[np.ndarray] = getattr(found, kind)
            while f"{kind}{len(blocks)}" in stored:
                block = stored[f"{kind}{len(blocks)}"]
                if block.dtype != np.float64 or block.ndim != 2 or not least <= block.shape[1] <= most:
                    raise ValueError(f"its {kind} have another shape")
                blocks.append(block)
        corners, sizes = stored["corners"].astype(np.int64), stored["sizes"].astype(np.int64)
    faces = int(about["faces"])
    if len(sizes) == 1:
        sizes = np.full(faces, sizes[0])
    if corners.shape[1:] != (3,) or sizes.shape != (faces,) or sizes.sum() != len(corners) or (sizes < 0).any():
        raise ValueError("its faces do not fit its corners")
    found.corners, found.sizes = ([corners], [sizes]) if faces else ([], [])
    found.libraries = [str(one) for one in about["libraries"]]
    found.uses = [(int(face), str(material)) for face, material in about["uses"]]
    found.counts = {kind: int(about["counts"][kind]) for kind in found.counts}
    lengths = {"v": found.vertices, "vt": found.uvs, "vn": found.normals}
    if any(sum(map(len, blocks)) != found.counts[kind] for kind, blocks in lengths.items()):
        raise ValueError("it is cut off")
    return found
