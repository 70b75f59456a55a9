"""The process in which pycolmap runs: `python -m smr.sfm.worker FOLDER` does what `FOLDER/job.json` says.

It tells its progress on stdout, a JSON list a line: what, how much is done, of how much. pycolmap's own words go to
stderr. It ends when its stdin is closed, so that it never outlives the process that started it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

import numpy as np
import pycolmap
from jaxtyping import Int32, UInt8

from ..captures.ahead import decode_ahead
from ..captures.images import read_photo
from ..errors import SmrError
from .features import extract, open_database
from .job import DATABASE, Answer, Job
from .mapping import Mapped, find_models, refine, triangulate
from .pairs import compare, read_matched

Tracks = tuple[Int32[np.ndarray, " T"], Int32[np.ndarray, " T"], np.ndarray]


def main() -> None:
    """Do the job and write the answer beside it."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    folder = Path(sys.argv[1])
    job = Job.read(folder)
    pycolmap.set_random_seed(job.seed)
    database = open_database(job, folder / DATABASE)
    features, unreadable = extract(job, database, _tell)
    pairs = compare(job, database, folder / DATABASE, _tell)
    matched = read_matched(job, database, pairs)
    database.close()
    mapped = Mapped((), ())
    if job.mapper != "none" and (matched.inliers > 0).any():
        mapped = triangulate(job, folder, _tell) if job.posed else find_models(job, folder, _tell)
    answer = _answer(job, features, unreadable, matched, mapped)
    answer.write(folder)


def _tell(what: str, done: int, total: int) -> None:
    sys.stdout.write(json.dumps([what, done, total]) + "\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


def _answer(job: Job, features: np.ndarray, unreadable: dict[int, str], matched: object, mapped: Mapped) -> Answer:
    poses = np.full((len(job.photos), 3, 4), np.nan)
    cameras = [(camera.model, camera.params) for camera in job.cameras]
    points, errors = np.zeros((0, 3)), np.zeros(0, np.float32)
    tracks: Tracks = (np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros((0, 2), np.float32))
    if mapped.models:
        model = mapped.models[0] if job.posed else refine(job, mapped, _tell)
        for image_id in model.reg_image_ids():
            poses[image_id - 1] = model.images[image_id].cam_from_world().matrix()
        for camera_id, camera in model.cameras.items():
            cameras[camera_id - 1] = (camera.model_name, tuple(float(value) for value in camera.params))
        points, errors, tracks = _points(model)
    registered = [sorted(image_id - 1 for image_id in model.reg_image_ids()) for model in mapped.models]
    return Answer(
        features=features,
        unreadable=unreadable,
        matched=matched,  # type: ignore[arg-type]
        models=tuple(tuple(model) for model in registered),
        attempts=mapped.attempts,
        poses=poses,
        cameras=tuple(cameras),
        points=points,
        errors=errors,
        colors=_colors(job, len(points), tracks),
        track_points=tracks[0],
        track_photos=tracks[1],
        track_xy=tracks[2],
    )


def _points(model: pycolmap.Reconstruction) -> tuple[np.ndarray, np.ndarray, Tracks]:
    ids = sorted(model.point3D_ids())
    positions = np.array([model.points3D[i].xyz for i in ids]).reshape(-1, 3)
    errors = np.array([model.points3D[i].error for i in ids], np.float32)
    owners, photos, places = [], [], []
    located = {i: np.array([point.xy for point in image.points2D]) for i, image in model.images.items()}
    for index, point_id in enumerate(ids):
        for element in model.points3D[point_id].track.elements:
            owners.append(index)
            photos.append(element.image_id - 1)
            places.append(located[element.image_id][element.point2D_idx])
    xy = np.array(places, np.float32).reshape(-1, 2)
    return positions, errors, (np.array(owners, np.int32), np.array(photos, np.int32), xy)


def _colors(job: Job, count: int, tracks: Tracks) -> UInt8[np.ndarray, "M 3"]:
    """The mean colour of each point in the photos that see it."""
    owners, photos, xy = tracks
    sums, seen = np.zeros((count, 3)), np.zeros(count)
    indices = np.unique(photos).tolist()

    def decode(i: int) -> np.ndarray | None:
        photo = job.photos[i]
        try:
            return read_photo(Path(photo.path), orientation=photo.orientation, shrink=photo.shrink)
        except SmrError:
            return None

    for i, pixels in zip(indices, decode_ahead(indices, decode, lookahead=3), strict=True):
        if pixels is not None:
            here = photos == i
            columns = np.clip(xy[here, 0].astype(int), 0, pixels.shape[1] - 1)
            rows = np.clip(xy[here, 1].astype(int), 0, pixels.shape[0] - 1)
            np.add.at(sums, owners[here], pixels[rows, columns])
            np.add.at(seen, owners[here], 1)
    mean: np.ndarray = (sums / np.maximum(seen, 1)[:, None] + 0.5).astype(np.uint8)
    return mean


if __name__ == "__main__":
    main()
