"""The folder of a run: each stage's record under a hash of what it depends on, and run.json.

The same command again continues after the last finished stage; a changed option reruns only what depends on it.
A record is written under a temporary name and renamed, so a killed run leaves no half record under a final name.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import platform
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from . import __version__
from .atomic import atomic_path
from .errors import SmrError
from .records import Capture

log = logging.getLogger(__name__)
Record = TypeVar("Record")
KEPT = 3
"""Records of the same stage, with other settings, that stay in the folder."""


class RunFolder:
    """One run's records and figures. Use as a context manager: it holds a lock, so two runs cannot share a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stages: list[dict[str, Any]] = []
        self._lock: Any = None
        self._started = time.time()

    def __enter__(self) -> RunFolder:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / "lock").open("w")
        except OSError as error:
            raise SmrError(
                f"The run folder {self.folder} cannot be made: {error.strerror}.",
                "Name a folder that can be written with --work, or another --out.",
            ) from error
        with contextlib.suppress(ImportError):  # Windows: no lock, the last writer wins
            import fcntl

            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                self._lock.close()
                raise SmrError(
                    f"Another run is using {self.folder}.", "Wait for it, stop it, or name another folder with --work."
                ) from error
        for left_over in self.folder.glob(".*.tmp*"):
            left_over.unlink(missing_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.close()

    def stage(self, name: str, key: str, compute: Callable[[], Record], classes: tuple[type, ...]) -> Record:
        """Return the stored record of this stage and key, or compute and store it.

        Args:
            name: The stage, first part of the file name.
            key: `fingerprint` of everything that the result depends on.
            compute: Makes the record: a frozen dataclass of arrays and plain values, or a tuple of such.
            classes: Every dataclass that can occur in the record.
        """
        path = self.folder / f"{name}-{key}.npz"
        start, cpu = time.monotonic(), time.process_time()
        record = _load(path, classes) if path.is_file() else None
        reused = record is not None
        if record is None:
            record = compute()
            _save(path, record)
            self._forget_oldest(name, path)
        self.stages.append(
            {
                "stage": name,
                "seconds": round(time.monotonic() - start, 3),
                "cpu_seconds": round(time.process_time() - cpu, 3),
                "reused": reused,
                "key": key,
            }
        )
        loaded: Record = record
        return loaded

    def step(self, name: str, compute: Callable[[], Record]) -> Record:
        """Compute what keeps its results itself, and note how long it took."""
        start, cpu = time.monotonic(), time.process_time()
        result = compute()
        taken = {"seconds": round(time.monotonic() - start, 3), "cpu_seconds": round(time.process_time() - cpu, 3)}
        self.stages.append({"stage": name, **taken, "reused": False, "key": ""})
        return result

    def _forget_oldest(self, name: str, keep: Path) -> None:
        others = sorted(self.folder.glob(f"{name}-*.npz"), key=lambda path: path.stat().st_mtime_ns)
        for path in [p for p in others if p != keep][: -(KEPT - 1)]:
            path.unlink(missing_ok=True)

    def write_report(self, report: dict[str, Any]) -> dict[str, Any]:
        """Write run.json: versions, machine, times, peak memory, and `report`; return the document."""
        document = {
            "version": 1,
            "smr": __version__,
            "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._started)),
            "seconds": round(time.time() - self._started, 3),
            "peak_memory_bytes": peak_memory_bytes(),
            "stages": self.stages,
            "machine": machine(),
            **report,
        }
        with atomic_path(self.folder / "run.json") as temporary:
            temporary.write_text(json.dumps(document, indent=1, ensure_ascii=False))
        return document


def fingerprint(*parts: Any) -> str:
    """A short hash of records, configs, arrays and plain values, the same in every process."""
    digest = hashlib.sha256(__version__.encode())
    for item in _flat(parts):
        digest.update(item)
        digest.update(b"\0")
    return digest.hexdigest()[:16]


def capture_fingerprint(capture: Capture) -> str:
    """A hash of what a capture says and of its files' names, sizes and times; the pixels are not read."""
    files = []
    for frame in capture.frames:
        named = [] if frame.photo is None else [frame.photo.path, frame.photo.mask]
        named += [] if frame.depth is None else [frame.depth.path, frame.depth.confidence]
        for path in named:
            if path is not None:
                stat = path.stat()
                files.append((path.name, stat.st_size, stat.st_mtime_ns))
    return fingerprint(capture.format, [_without_paths(frame) for frame in capture.frames], files)


def machine() -> dict[str, Any]:
    """Versions of what computes, the system and the cores; no user or host name."""
    packages = {}
    for name in ("warp-lang", "numpy", "scipy", "pillow", "usd-core", "trimesh", "pycolmap"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            packages[name] = metadata.version(name)
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "packages": packages,
    }


def peak_memory_bytes() -> int | None:
    """Largest resident memory of this process so far."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)


def _without_paths(frame: Any) -> Any:
    photo, depth, name = frame.photo, frame.depth, Path("")
    return dataclasses.replace(
        frame,
        photo=photo and dataclasses.replace(photo, path=name, mask=photo.mask and name),
        depth=depth and dataclasses.replace(depth, path=name, confidence=depth.confidence and name),
    )


def _flat(value: Any) -> Iterator[bytes]:
    if dataclasses.is_dataclass(value):
        yield type(value).__name__.encode()
        for field in dataclasses.fields(value):
            yield field.name.encode()
            yield from _flat(getattr(value, field.name))
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype.str}{value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, (list, tuple)):
        yield f"[{len(value)}".encode()
        for item in value:
            yield from _flat(item)
    else:
        yield repr(value).encode()


def _save(path: Path, record: Any) -> None:
    arrays: dict[str, np.ndarray] = {}
    tree = _encode(record, arrays)
    arrays["tree"] = np.frombuffer(json.dumps(tree).encode(), dtype=np.uint8)
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def _load(path: Path, classes: tuple[type, ...]) -> Any:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            tree = json.loads(arrays["tree"].tobytes().decode())
            return _decode(tree, arrays, {cls.__name__: cls for cls in classes})
    except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        log.warning("The stored record %s cannot be read (%s); its stage runs again.", path.name, error)
        return None


def _encode(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: _encode(getattr(value, f.name), arrays) for f in dataclasses.fields(value)}
        return {"record": type(value).__name__, "fields": fields}
    if isinstance(value, np.ndarray):
        name = f"a{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (tuple, list)):
        return {"tuple": [_encode(item, arrays) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[_encode(k, arrays), _encode(v, arrays)] for k, v in value.items()]}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a record may not hold a {type(value).__name__}")


def _decode(tree: Any, arrays: Any, classes: dict[str, type]) -> Any:
    if not isinstance(tree, dict):
        return tree
    if "record" in tree:
        fields = {name: _decode(value, arrays, classes) for name, value in tree["fields"].items()}
        return classes[tree["record"]](**fields)
    if "array" in tree:
        return arrays[tree["array"]]
    if "dict" in tree:
        return {_decode(k, arrays, classes): _decode(v, arrays, classes) for k, v in tree["dict"]}
    return tuple(_decode(item, arrays, classes) for item in tree["tuple"])
