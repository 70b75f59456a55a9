"""USD reader: `.usda`, `.usdc`, `.usd` and `.usdz`, read in a process of its own.

Pixar's library parses in C++ and ends the process, or never comes back, on some damaged files. So a child process
reads the stage under limits of time and memory, and hands the mesh over as arrays in a file.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import SmrError
from ..records import Finding, Material, Mesh, TexturedMesh
from .files import damaged, read_bytes
from .model import Model, geometry

_SECONDS = 60
"""CPU seconds that a small file may take; a second more for each megabyte."""
_MEMORY = 4 << 30
"""Bytes of address space that a small file may take; 32 more for each of its bytes."""
_STARTS = (b"PXR-USDC", b"#usda 1.", b"PK\x03\x04")
_CHILD = "import sys; sys.path[:] = sys.argv[1].split(chr(10)); from smr.formats.usd_read import serve; serve()"


def read_usd(path: Path) -> Model:
    """Read a USD layer or package with all it refers to in its own folder.

    Variants are taken as they are selected, animations at their first time. Subdivision surfaces are read as their
    cage, instancers and curves are left out; findings say so.

    Raises:
        SmrError: The file is damaged, refers to files outside its folder, or has no meshes.
    """
    data = read_bytes(path)
    if not data.startswith(_STARTS):
        raise damaged(path, "it does not begin as a USD file")
    seconds = _SECONDS + len(data) // 1_000_000
    memory = _MEMORY + 32 * len(data)
    with tempfile.TemporaryDirectory(prefix="smr-") as folder:
        result = Path(folder) / "model.npz"
        command = [sys.executable, "-c", _CHILD, "\n".join(sys.path)]
        command += [str(path), str(result), str(seconds), str(memory)]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=10 * seconds,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise damaged(path, f"USD does not finish reading it within {10 * seconds} seconds") from error
        if done.returncode or not result.exists():
            said = f"USD fails on it, or needs more than {seconds} s or {memory / 1e9:.0f} GB"
            raise damaged(path, said)
        return _unpack(result)


def serve() -> None:
    """The child: read the file, write the model or the refusal."""
    path, result = Path(sys.argv[2]), Path(sys.argv[3])
    _limit(int(sys.argv[4]), int(sys.argv[5]))
    from .usd_stage import read_stage  # after the limits

    arrays: dict[str, Any]
    try:
        with np.errstate(all="ignore"):
            arrays = _pack(read_stage(path))
    except SmrError as error:
        arrays = {"about": _json({"error": [error.cause, error.cure]})}
    with open(result, "wb") as file:
        np.savez(file, **arrays)


def _limit(seconds: int, memory: int) -> None:
    try:
        import resource
    except ImportError:  # Windows: the parent's clock alone
        return
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _json(value: Any) -> np.ndarray:
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def _pack(model: Model) -> dict[str, np.ndarray]:
    mesh = geometry(model.mesh)
    arrays = {"vertices": mesh.vertices, "faces": mesh.faces, "normals": mesh.normals, "colors": mesh.colors}
    about: dict[str, Any] = {"up": model.world_up, "findings": [asdict(finding) for finding in model.findings]}
    if isinstance(model.mesh, TexturedMesh):
        arrays |= {"uvs": model.mesh.uvs, "face_uvs": model.mesh.face_uvs, "chosen": model.mesh.face_materials}
        about["materials"] = [
            [material.name, material.base_color, material.roughness, material.metallic]
            for material in model.mesh.materials
        ]
        arrays |= {f"texture{i}": material.texture for i, material in enumerate(model.mesh.materials)}
    return {"about": _json(about)} | {name: array for name, array in arrays.items() if array is not None}


def _unpack(path: Path) -> Model:
    with np.load(path, allow_pickle=False) as stored:
        arrays = dict(stored)
    about = json.loads(arrays["about"].tobytes())
    if "error" in about:
        raise SmrError(*about["error"])
    mesh: Any = Mesh(arrays["vertices"], arrays["faces"], arrays.get("normals"), arrays.get("colors"))
    if "uvs" in arrays:
        materials = tuple(
            Material(name, tuple(color), arrays.get(f"texture{i}"), roughness, metallic)
            for i, (name, color, roughness, metallic) in enumerate(about["materials"])
        )
        mesh = TexturedMesh(mesh, arrays["uvs"], arrays["face_uvs"], materials, arrays.get("chosen"))
    return Model(mesh, about["up"], tuple(Finding(**finding) for finding in about["findings"]))
