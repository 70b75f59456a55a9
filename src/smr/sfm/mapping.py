"""From verified matches to a model: incremental or global mapping, triangulation under known poses, refinement.

Runs in the process that may use pycolmap.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pycolmap

from .features import image_name
from .job import Job
from .pairs import colmap_camera

ENOUGH = 0.9
"""Share of the photos that must be in the model before relaxed settings are tried."""
REPEATABLE_PHOTOS = 150
"""Up to so many photos mapping runs on one thread, so that it repeats."""
LOSS_PIXELS = 0.5
"""Residuals beyond this count less and less in the last refinement (Cauchy)."""
CENTER_PHOTOS = 4
"""Photos from which the principal point and both focal lengths are found too."""
CENTER_GAIN = 0.01
"""Least part of the reprojection error that this must take away."""
CENTER_SHIFT = 0.04
"""The principal point moves by no more than this part of the photo's longer side."""

FEW = 5
"""Up to so many photos, points that only two of them see are kept."""
HELD = "incremental mapping with the lens held"

Tell = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Mapped:
    """The models that were found, the largest first, and what was tried."""

    models: tuple[pycolmap.Reconstruction, ...]
    attempts: tuple[str, ...]
    held: bool = False
    """The lens stayed as EXIF or a guess had it, since the photos were too few to find it."""


def find_models(job: Job, folder: Path, tell: Tell) -> Mapped:
    """Map with the asked method; where that leaves many photos out, with relaxed settings and the other method."""
    tries = {
        "incremental": ("incremental mapping", lambda: _incremental(job, folder, tell)),
        "relaxed": ("incremental mapping with relaxed settings", lambda: _incremental(job, folder, tell, relaxed=True)),
        "held": (HELD, lambda: _incremental(_with_known_lenses(job), folder, tell, relaxed=True)),
        "global": ("global mapping", lambda: _global(job, folder, tell)),
    }
    order = (
        ("incremental", "relaxed", "global") if job.mapper == "incremental" else ("global", "incremental", "relaxed")
    )
    best: list[pycolmap.Reconstruction] = []
    attempts: list[str] = []
    used = ""
    for name in (*order, "held"):
        if name == "held" and best:
            break
        words, attempt = tries[name]
        models = sorted(attempt(), key=lambda model: -model.num_reg_images())
        count = models[0].num_reg_images() if models else 0
        attempts.append(f"{words}: {count} of {len(job.photos)} photos")
        if models and (not best or count > best[0].num_reg_images()):
            best, used = models, attempts[-1]
        if best and best[0].num_reg_images() >= ENOUGH * len(job.photos):
            break
    if used:
        attempts.remove(used)
        attempts.append(used)
    return Mapped(tuple(best), tuple(attempts), held=used.startswith(HELD))


def _with_known_lenses(job: Job) -> Job:
    return replace(job, cameras=tuple(replace(camera, known=True) for camera in job.cameras))


def _incremental(job: Job, folder: Path, tell: Tell, *, relaxed: bool = False) -> list[pycolmap.Reconstruction]:
    options = pipeline_options(job)
    options.multiple_models = True
    options.max_num_models = 10
    options.min_model_size = 3
    if relaxed:
        options.min_num_matches = 10
        options.triangulation.ignore_two_view_tracks = False
        options.mapper.init_min_num_inliers = 40
        options.mapper.init_min_tri_angle = 4.0
        options.mapper.abs_pose_min_num_inliers = 15
        options.mapper.abs_pose_min_inlier_ratio = 0.15
        options.mapper.filter_min_tri_angle = 1.0
        options.triangulation.min_angle = 1.0
    registered = 0

    def first() -> None:
        nonlocal registered
        registered = 2
        tell("poses", registered, len(job.photos))

    def following() -> None:
        nonlocal registered
        registered += 1
        tell("poses", min(registered, len(job.photos)), len(job.photos))

    tell("poses", 0, len(job.photos))
    models = pycolmap.incremental_mapping(
        folder / "database.db",
        folder,
        _fresh(folder / "models"),
        options,
        initial_image_pair_callback=first,
        next_image_callback=following,
    )
    return list(models.values())


def _threads(job: Job) -> int:
    """One, with which the same photos give the same poses to the last bit; all cores where that would take too long."""
    return 1 if len(job.photos) <= REPEATABLE_PHOTOS else job.threads


def _global(job: Job, folder: Path, tell: Tell) -> list[pycolmap.Reconstruction]:
    tell("poses", 0, 1)
    if any(not camera.prior for camera in job.cameras):
        copied = folder / "calibrated.db"  # focal lengths from the matches change the database
        copied.unlink(missing_ok=True)
        with pycolmap.Database.open(folder / "database.db") as whole:  # the journal goes into the file
            del whole
        shutil.copyfile(folder / "database.db", copied)
        calibration = pycolmap.ViewGraphCalibrationOptions()
        calibration.random_seed = job.seed
        pycolmap.calibrate_view_graph(copied, calibration)
    else:
        copied = folder / "database.db"
    options = pycolmap.GlobalPipelineOptions()
    options.random_seed = job.seed
    options.num_threads = _threads(job)
    refined = not all(camera.known for camera in job.cameras)
    options.mapper.bundle_adjustment.refine_focal_length = refined
    options.mapper.bundle_adjustment.refine_extra_params = refined
    models = pycolmap.global_mapping(copied, folder, _fresh(folder / "models"), options)
    tell("poses", 1, 1)
    return [model for model in models.values() if model.num_reg_images() >= 2]


def triangulate(job: Job, folder: Path, tell: Tell) -> Mapped:
    """Points under poses that are known and stay as they are."""
    model = pycolmap.Reconstruction()
    tell("points", 0, 1)
    for index in range(len(job.cameras)):
        model.add_camera_with_trivial_rig(colmap_camera(job, index))
    for index, photo in enumerate(job.photos):
        assert photo.camera_from_world is not None
        image = pycolmap.Image(name=image_name(index), camera_id=photo.camera + 1, image_id=index + 1)
        pose = pycolmap.Rigid3d(np.reshape(photo.camera_from_world, (3, 4)))
        model.add_image_with_trivial_frame(image, pose)
    options = pipeline_options(job)
    options.fix_existing_frames = True
    options.constant_cameras = set(range(1, len(job.cameras) + 1))
    model = pycolmap.triangulate_points(
        model, folder / "database.db", folder, _fresh(folder / "models"), options=options, refine_intrinsics=False
    )
    tell("points", 1, 1)
    return Mapped((model,), ("points under the known poses",))


def pipeline_options(job: Job) -> pycolmap.IncrementalPipelineOptions:
    """Options of incremental mapping that do not depend on the attempt."""
    options = pycolmap.IncrementalPipelineOptions()
    options.extract_colors = False
    options.random_seed = job.seed
    options.mapper.random_seed = job.seed
    options.triangulation.random_seed = job.seed
    options.num_threads = _threads(job)
    options.triangulation.ignore_two_view_tracks = len(job.photos) > FEW
    options.constant_cameras = {index + 1 for index, camera in enumerate(job.cameras) if camera.known}
    return options


def refine(job: Job, mapped: Mapped, tell: Tell) -> pycolmap.Reconstruction:
    """Adjust everything once more, so that outliers count little; free the lens further where that pays."""
    tell("refining", 0, 1)
    model = mapped.models[0]
    if mapped.held:
        job = _with_known_lenses(job)
    model = _adjusted(job, model, center=False)
    free = [index + 1 for index, camera in enumerate(job.cameras) if not camera.known and index + 1 in model.cameras]
    if free and model.num_reg_images() >= CENTER_PHOTOS:
        before = {i: np.array([model.cameras[i].principal_point_x, model.cameras[i].principal_point_y]) for i in free}
        freed = _adjusted(job, _with_full_lenses(model, free), center=True)
        moved = max(
            float(np.abs([c.principal_point_x - before[i][0], c.principal_point_y - before[i][1]]).max())
            / max(c.width, c.height)
            for i in free
            for c in [freed.cameras[i]]
        )
        gain = 1 - freed.compute_mean_reprojection_error() / max(model.compute_mean_reprojection_error(), 1e-9)
        if gain > CENTER_GAIN and moved < CENTER_SHIFT:
            model = freed
    tell("refining", 1, 1)
    return model


def _with_full_lenses(model: pycolmap.Reconstruction, cameras: list[int]) -> pycolmap.Reconstruction:
    freed = copy.deepcopy(model)
    for index in cameras:
        camera = freed.cameras[index]
        if camera.model_name == "SIMPLE_RADIAL":
            f, cx, cy, k = camera.params
            camera.model = pycolmap.CameraModelId.OPENCV
            camera.params = [f, f, cx, cy, k, 0.0, 0.0, 0.0]
    return freed


def _adjusted(job: Job, model: pycolmap.Reconstruction, *, center: bool) -> pycolmap.Reconstruction:
    """A copy after bundle adjustment with Cauchy's loss."""
    model = copy.deepcopy(model)
    options = pycolmap.BundleAdjustmentOptions()
    options.print_summary = False
    options.refine_principal_point = center
    options.ceres.loss_function_type = pycolmap.LossFunctionType.CAUCHY
    options.ceres.loss_function_scale = LOSS_PIXELS
    options.ceres.solver_options.num_threads = _threads(job)
    config = pycolmap.BundleAdjustmentConfig()
    for image in model.reg_image_ids():
        config.add_image(image)
    for index, camera in enumerate(job.cameras):
        if camera.known and index + 1 in model.cameras:
            config.set_constant_cam_intrinsics(index + 1)
    config.fix_gauge(pycolmap.BundleAdjustmentGauge.TWO_CAMS_FROM_WORLD)
    pycolmap.create_default_bundle_adjuster(options, config, model).solve()
    model.update_point_3d_errors()
    return model


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder
