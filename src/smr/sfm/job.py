"""What the process that runs pycolmap is told, and what it answers: plain values in a JSON and an NPZ file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Int32, UInt8

JOB, LOG, DATABASE, ANSWER = "job.json", "pycolmap.log", "database.db", "answer.npz"


@dataclass(frozen=True)
class JobCamera:
    """A camera, as pycolmap names its models and parameters."""

    model: str
    width: int
    height: int
    params: tuple[float, ...]
    known: bool
    """The parameters stay as they are."""
    prior: bool
    """The focal length is measured or from EXIF, not a guess."""


@dataclass(frozen=True)
class JobPhoto:
    """A photo: how to decode it, its camera, and its pose where that is known."""

    path: str
    camera: int
    """Index into the job's cameras."""
    mask: str | None
    orientation: int
    shrink: int
    camera_from_world: tuple[float, ...] | None
    """The first three rows, row by row."""

    @property
    def world_from_camera(self) -> Float[np.ndarray, "4 4"] | None:
        """The pose as a matrix."""
        if self.camera_from_world is None:
            return None
        matrix = np.eye(4)
        matrix[:3] = np.reshape(self.camera_from_world, (3, 4))
        return np.linalg.inv(matrix)


@dataclass(frozen=True)
class Job:
    """Everything that the process needs."""

    photos: tuple[JobPhoto, ...]
    cameras: tuple[JobCamera, ...]
    feature_size: int
    feature_count: int
    matching: str
    """exhaustive, sequential, retrieval or poses."""
    mapper: str
    """incremental, global, or none: only compare."""
    threads: int
    seed: int

    @property
    def posed(self) -> bool:
        """Whether all poses are known."""
        return all(photo.camera_from_world is not None for photo in self.photos)

    def write(self, folder: Path) -> None:
        """Write `job.json`."""
        (folder / JOB).write_text(json.dumps(asdict(self)))

    @staticmethod
    def read(folder: Path) -> Job:
        """Read `job.json`."""
        said: dict[str, Any] = json.loads((folder / JOB).read_text())
        photos = tuple(JobPhoto(**photo) for photo in said.pop("photos"))
        cameras = tuple(JobCamera(**{**camera, "params": tuple(camera["params"])}) for camera in said.pop("cameras"))
        return Job(photos, cameras, **said)


@dataclass(frozen=True)
class Matched:
    """Pairs of photos whose features were compared and verified; a row each."""

    photos: Int32[np.ndarray, "P 2"]
    """Indices of the two photos."""
    inliers: Int32[np.ndarray, " P"]
    """Matches that one geometry of two views explains; 0 where none does."""
    shifts: Float32[np.ndarray, " P"]
    """Median distance in pixels between matched features, as if one photo lay on the other."""
    epipolar: Float32[np.ndarray, " P"]
    """Median distance in pixels of inliers to the epipolar lines of the known poses; NaN where these are not known."""
    turned: Float32[np.ndarray, " P"]
    """What the best turn of the camera leaves of the motion between both photos, pixels (median)."""


@dataclass(frozen=True)
class Answer:
    """A model of the scene: poses, cameras and points; and what matching found."""

    features: Int32[np.ndarray, " N"]
    """Features a photo."""
    unreadable: Mapping[int, str]
    """Photos that could not be decoded, and why."""
    matched: Matched
    models: tuple[tuple[int, ...], ...]
    """Photos of each model that was found, largest first; the first is the one that is used."""
    attempts: tuple[str, ...]
    """What was tried, in words, the last one with success."""
    poses: Float[np.ndarray, "N 3 4"]
    """camera_from_world; NaN where a photo is not in the model."""
    cameras: tuple[tuple[str, tuple[float, ...]], ...]
    """Model name and parameters of each of the job's cameras."""
    points: Float[np.ndarray, "M 3"]
    errors: Float32[np.ndarray, " M"]
    """Mean reprojection error, pixels."""
    colors: UInt8[np.ndarray, "M 3"]
    track_points: Int32[np.ndarray, " T"]
    """Index of the point of each observation."""
    track_photos: Int32[np.ndarray, " T"]
    track_xy: Float32[np.ndarray, "T 2"]
    """Pixels, the first pixel's centre at (0.5, 0.5)."""

    def write(self, folder: Path) -> None:
        """Write `answer.npz`."""
        arrays = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        arrays |= {f"matched_{name}": value for name, value in vars(self.matched).items()}
        rest = {
            "unreadable": list(self.unreadable.items()),
            "models": self.models,
            "attempts": self.attempts,
            "cameras": self.cameras,
        }
        arrays["rest"] = np.frombuffer(json.dumps(rest).encode(), np.uint8)
        np.savez(folder / ANSWER, **arrays)  # type: ignore[arg-type]

    @staticmethod
    def read(folder: Path) -> Answer:
        """Read `answer.npz`."""
        with np.load(folder / ANSWER, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        rest = json.loads(arrays.pop("rest").tobytes())
        matched = {name[8:]: arrays.pop(name) for name in list(arrays) if name.startswith("matched_")}
        return Answer(
            unreadable={int(i): str(why) for i, why in rest["unreadable"]},
            models=tuple(tuple(model) for model in rest["models"]),
            attempts=tuple(rest["attempts"]),
            cameras=tuple((name, tuple(params)) for name, params in rest["cameras"]),
            matched=Matched(**matched),
            **arrays,
        )
