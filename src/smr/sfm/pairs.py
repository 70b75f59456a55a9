"""Which photos are compared with which, and what the comparisons found. Runs where pycolmap may be used."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pycolmap
from jaxtyping import Float, Float32

from .features import image_name
from .job import Job, Matched
from .parallax import residuals_of_turning

EXHAUSTIVE = 40
"""Up to so many photos all pairs are compared."""
OVERLAP = 8
"""Photos after each that it is compared with when they are in sequence, and photos 2, 4, 8 ... further on."""
ALIKE = 20
"""Photos most alike that each is compared with when there are many."""
WORDS = 64
BLOCK = 24
"""Pairs that are stored together: what is lost at most when a run is stopped."""


def choose_pairs(job: Job, database: pycolmap.Database) -> list[tuple[int, int]]:
    """Pairs of photos to compare."""
    count = len(job.photos)
    if job.matching == "exhaustive":
        return list(combinations(range(count), 2))
    if job.matching == "poses":
        return _by_poses(np.array([photo.world_from_camera for photo in job.photos]))
    alike = _most_alike(_signatures(job, database), ALIKE if job.matching == "retrieval" else OVERLAP)
    if job.matching == "sequential":
        steps = [*range(1, OVERLAP + 1), *(2**k for k in range(4, 12))]
        alike |= {(i, i + step) for i in range(count) for step in steps if i + step < count}
    return sorted(alike)


def compare(
    job: Job, database: pycolmap.Database, path: Path, tell: Callable[[str, int, int], None]
) -> list[tuple[int, int]]:
    """Match and verify the pairs that are not in the database yet; returns all pairs."""
    pairs = choose_pairs(job, database)
    missing = [(i, j) for i, j in pairs if not database.exists_two_view_geometry(i + 1, j + 1)]
    tell("pairs", len(pairs) - len(missing), len(pairs))
    if not missing:
        return pairs
    listed = path.with_name("pairs.txt")
    listed.write_text("\n".join(f"{image_name(i)} {image_name(j)}" for i, j in missing))
    matching = pycolmap.FeatureMatchingOptions()
    matching.use_gpu = False
    matching.num_threads = job.threads
    pairing = pycolmap.ImportedPairingOptions()
    pairing.match_list_path = listed
    pairing.block_size = BLOCK
    with _watched(path, lambda done: tell("pairs", min(done, len(pairs)), len(pairs))):
        pycolmap.match_image_pairs(path, matching, pairing, verification(job))
    return pairs


def verification(job: Job) -> pycolmap.TwoViewGeometryOptions:
    """How matches of two photos are verified."""
    options = pycolmap.TwoViewGeometryOptions()
    options.ransac.random_seed = job.seed
    options.detect_watermark = False
    return options


@contextlib.contextmanager
def _watched(path: Path, tell: Callable[[int], None]):  # type: ignore[no-untyped-def]
    """Tell now and then how many pairs the database holds while it is written."""
    stop = threading.Event()

    def watch() -> None:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as reader:
            while not stop.wait(0.3):
                with contextlib.suppress(sqlite3.Error):
                    tell(reader.execute("SELECT COUNT(*) FROM two_view_geometries").fetchone()[0])

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def read_matched(job: Job, database: pycolmap.Database, pairs: list[tuple[int, int]]) -> Matched:
    """What comparing found, for each pair."""
    inliers, shifts, epipolar = [], [], []
    located, sizes, focals = [], [], []
    keypoints = [database.read_keypoints(i + 1).reshape(-1, 4)[:, :2] for i in range(len(job.photos))]
    for i, j in pairs:
        geometry = database.read_two_view_geometry(i + 1, j + 1)
        matches = np.asarray(geometry.inlier_matches).reshape(-1, 2)
        a, b = keypoints[i][matches[:, 0]], keypoints[j][matches[:, 1]]
        inliers.append(len(matches))
        camera = job.cameras[job.photos[i].camera]
        located.append((a.astype(np.float64), b.astype(np.float64)))
        sizes.append((camera.width, camera.height))
        focals.append(camera.params[0] if camera.known else None)
        shifts.append(float(np.median(np.linalg.norm(a - b, axis=1))) if len(matches) else np.nan)
        epipolar.append(_epipolar_distance(job, i, j, a, b) if len(matches) else np.nan)
    return Matched(
        np.array(pairs, np.int32).reshape(-1, 2),
        np.array(inliers, np.int32),
        np.array(shifts, np.float32),
        np.array(epipolar, np.float32),
        residuals_of_turning(located, sizes, focals),
    )


def _epipolar_distance(job: Job, i: int, j: int, a: np.ndarray, b: np.ndarray) -> float:
    """Median distance in pixels of matches to their epipolar lines under the known poses; NaN without poses."""
    poses = job.photos[i].world_from_camera, job.photos[j].world_from_camera
    if poses[0] is None or poses[1] is None:
        return float("nan")
    second_from_first = np.linalg.inv(poses[1]) @ poses[0]
    R, t = second_from_first[:3, :3], second_from_first[:3, 3]
    if np.linalg.norm(t) == 0:
        return float("nan")
    cameras = [colmap_camera(job, job.photos[k].camera) for k in (i, j)]
    rays = [np.asarray(camera.cam_from_img(xy.astype(np.float64))) for camera, xy in zip(cameras, (a, b), strict=True)]
    x, y = (np.concatenate([ray, np.ones((len(ray), 1))], axis=1) for ray in rays)
    skew = np.array([[0, -t[2], t[1]], [t[2], 0, -t[0]], [-t[1], t[0], 0]]) / np.linalg.norm(t)
    lines = x @ (skew @ R).T
    distance = np.abs((lines * y).sum(axis=1)) / np.maximum(np.linalg.norm(lines[:, :2], axis=1), 1e-12)
    return float(np.nanmedian(distance)) * float(cameras[1].mean_focal_length())


def colmap_camera(job: Job, index: int) -> pycolmap.Camera:
    """One of the job's cameras as pycolmap has it."""
    said = job.cameras[index]
    camera = pycolmap.Camera(model=said.model, width=said.width, height=said.height, params=list(said.params))
    camera.camera_id = index + 1
    camera.has_prior_focal_length = said.prior
    return camera


def _by_poses(poses: Float[np.ndarray, "N 4 4"]) -> list[tuple[int, int]]:
    """Each photo with the `ALIKE` that look most nearly the same way from most nearly the same place."""
    count = len(poses)
    if count <= EXHAUSTIVE:
        return list(combinations(range(count), 2))
    centers, forward = poses[:, :3, 3], poses[:, :3, 2]
    apart = np.linalg.norm(centers[:, None] - centers[None], axis=2)
    turned = 1.0 - forward @ forward.T
    distance = apart / max(float(np.median(apart)), 1e-12) + 2 * turned
    return sorted(_most_alike(-distance.astype(np.float32), ALIKE))


def _signatures(job: Job, database: pycolmap.Database) -> Float32[np.ndarray, "N N"]:
    """How alike photos are: cosines of vectors of locally aggregated descriptors (VLAD, Jégou et al. 2010)."""
    random = np.random.default_rng(job.seed)
    described = []
    for i in range(len(job.photos)):
        whole = np.asarray(database.read_descriptors(i + 1).data).reshape(-1, 128)
        kept = random.permutation(len(whole))[:1500]
        described.append(np.sqrt(whole[np.sort(kept)].astype(np.float32)))
    sample = np.concatenate([one[:400] for one in described])
    words = _k_means(sample, WORDS, random)
    vectors = np.zeros((len(described), WORDS * 128), np.float32)
    for i, one in enumerate(described):
        if len(one):
            nearest = _nearest(one, words)
            sums = np.zeros((WORDS, 128), np.float32)
            np.add.at(sums, nearest, one - words[nearest])
            sums /= np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
            vectors[i] = sums.ravel() / max(float(np.linalg.norm(sums)), 1e-12)
    likeness: np.ndarray = vectors @ vectors.T
    return likeness


def _most_alike(likeness: Float32[np.ndarray, "N N"], count: int) -> set[tuple[int, int]]:
    pairs: set[tuple[int, int]] = set()
    for i, row in enumerate(likeness):
        order = [int(j) for j in np.argsort(-row, kind="stable") if j != i][:count]
        pairs |= {(min(i, j), max(i, j)) for j in order}
    return pairs


def _k_means(points: Float32[np.ndarray, "N D"], count: int, random: np.random.Generator) -> np.ndarray:
    centers = points[random.permutation(len(points))[:count]].copy()
    for _ in range(8):
        nearest = _nearest(points, centers)
        for k in range(len(centers)):
            if (nearest == k).any():
                centers[k] = points[nearest == k].mean(axis=0)
    if len(centers) < count:
        centers = np.concatenate([centers, np.full((count - len(centers), points.shape[1]), 1e6, np.float32)])
    return centers


def _nearest(points: Float32[np.ndarray, "N D"], centers: Float32[np.ndarray, "K D"]) -> np.ndarray:
    squared = (centers * centers).sum(axis=1)
    found: np.ndarray = np.argmin(squared[None] - 2 * points @ centers.T, axis=1)
    return found
