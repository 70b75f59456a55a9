"""Features of each photo and the database that holds them. Runs in the process that may use pycolmap."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pycolmap
from jaxtyping import Bool, Float32, Int32, UInt8
from PIL import Image

from ..captures.ahead import decode_ahead
from ..captures.images import read_mask, read_photo
from ..errors import SmrError
from .job import Job, JobPhoto

OCTAVE_SIZE = 1200
"""Photos with a longer side up to this are doubled in size before features are looked for, larger ones are not."""
FEW = 1000
"""With fewer features than this the photo is looked at again, doubled in size."""

Found = tuple[Float32[np.ndarray, "K 4"], UInt8[np.ndarray, "K 128"]]
"""Position (first pixel's centre at 0.5), scale and angle; descriptors."""


def image_name(index: int) -> str:
    """The name of a photo in the database."""
    return f"{index:06d}"


def open_database(job: Job, path: Path) -> pycolmap.Database:
    """The database with the job's cameras and images; photo i has the image id i + 1."""
    database = pycolmap.Database.open(path)
    if database.num_images() == len(job.photos):
        return database
    database.clear_all_tables()
    rigs = []
    for index, said in enumerate(job.cameras):
        camera = pycolmap.Camera(model=said.model, width=said.width, height=said.height, params=list(said.params))
        camera.camera_id = index + 1
        camera.has_prior_focal_length = said.prior
        database.write_camera(camera, use_camera_id=True)
        rig = pycolmap.Rig()
        rig.add_ref_sensor(camera.sensor_id)
        rigs.append(database.write_rig(rig))
    for index, photo in enumerate(job.photos):
        image = pycolmap.Image(name=image_name(index), camera_id=photo.camera + 1, image_id=index + 1)
        database.write_image(image, use_image_id=True)
        frame = pycolmap.Frame()
        frame.rig_id = rigs[photo.camera]
        frame.add_data_id(image.data_id)
        database.write_frame(frame)
    return database


def extract(
    job: Job, database: pycolmap.Database, tell: Callable[[str, int, int], None]
) -> tuple[Int32[np.ndarray, " N"], dict[int, str]]:
    """Find the features of photos that have none in the database yet.

    Returns:
        How many features each photo has, and why photos could not be decoded.
    """
    unreadable: dict[int, str] = {}
    missing = [i for i in range(len(job.photos)) if not database.exists_keypoints(i + 1)]
    done = len(job.photos) - len(missing)
    tell("features", done, len(job.photos))
    for i, found in zip(missing, _features(job, missing), strict=True):
        if isinstance(found, SmrError):
            unreadable[i] = found.cause
        else:
            keypoints, descriptors = found
            database.write_keypoints(i + 1, keypoints)
            kind = pycolmap.FeatureExtractorType.SIFT
            database.write_descriptors(i + 1, pycolmap.FeatureDescriptors(kind, descriptors))
        done += 1
        tell("features", done, len(job.photos))
    counts = [database.num_keypoints_for_image(i + 1) for i in range(len(job.photos))]
    return np.array(counts, np.int32), unreadable


def _features(job: Job, indices: list[int]) -> Iterator[Found | SmrError]:
    def attempt(i: int) -> Found | SmrError:
        try:
            return features_of(job.photos[i], job.feature_size, job.feature_count)
        except SmrError as error:
            return error

    yield from decode_ahead(indices, attempt, threads=job.threads, lookahead=job.threads + 1)


def features_of(photo: JobPhoto, longest: int, count: int) -> Found:
    """SIFT features of one photo, those on masked pixels left out.

    Raises:
        SmrError: The photo or its mask cannot be decoded.
    """
    pixels = read_photo(Path(photo.path), orientation=photo.orientation, shrink=photo.shrink)
    height, width = pixels.shape[:2]
    grey = Image.fromarray(pixels).convert("L")
    if max(width, height) > longest:
        part = longest / max(width, height)
        grey = grey.resize((max(1, round(width * part)), max(1, round(height * part))), Image.Resampling.LANCZOS)
    doubled = max(grey.size) <= OCTAVE_SIZE
    keypoints, descriptors = _sift(np.asarray(grey), count, doubled)
    if len(keypoints) < FEW and not doubled:
        keypoints, descriptors = _sift(np.asarray(grey), count, True)
    keypoints[:, 0] *= width / grey.width
    keypoints[:, 1] *= height / grey.height
    keypoints[:, 2] *= width / grey.width
    if photo.mask is not None:
        columns = np.clip(keypoints[:, 0].astype(int), 0, width - 1)
        rows = np.clip(keypoints[:, 1].astype(int), 0, height - 1)
        used = _mask(photo, (height, width))[rows, columns]
        keypoints, descriptors = keypoints[used], descriptors[used]
    return keypoints, descriptors


def _sift(grey: UInt8[np.ndarray, "h w"], count: int, doubled: bool) -> tuple[np.ndarray, np.ndarray]:
    options = pycolmap.FeatureExtractionOptions()
    options.use_gpu = False
    options.num_threads = 1
    options.sift.max_num_features = count
    options.sift.first_octave = -1 if doubled else 0
    if min(grey.shape) < 16:
        return np.zeros((0, 4), np.float32), np.zeros((0, 128), np.uint8)
    found, descriptors = pycolmap.FeatureExtractor.create(options).extract_from_uint8_array(np.ascontiguousarray(grey))
    keypoints = pycolmap.keypoints_to_matrix(found).reshape(-1, 4).astype(np.float32)
    return keypoints, np.ascontiguousarray(descriptors.data).reshape(-1, 128)


def _mask(photo: JobPhoto, shape: tuple[int, int]) -> Bool[np.ndarray, "h w"]:
    assert photo.mask is not None
    mask = read_mask(Path(photo.mask), orientation=photo.orientation if photo.mask == photo.path else 1)
    rows = (np.arange(shape[0]) + 0.5) * mask.shape[0] / shape[0]
    columns = (np.arange(shape[1]) + 0.5) * mask.shape[1] / shape[1]
    resized: np.ndarray = mask[rows.astype(int)[:, None], columns.astype(int)[None, :]]
    return resized
