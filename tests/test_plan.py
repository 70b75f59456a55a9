"""Plans: voxel size from the data, memory that is there, and refusals that say what would fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import capture_writers as writers
from smr.captures import Survey, read_capture, survey
from smr.config import CaptureConfig, CleanConfig, FusionConfig, PipelineConfig
from smr.errors import SmrError
from smr.plan import READABLE, expected_blocks, plan, readable
from smr.records import Capture, Finding
from smr.tsdf import volume_bytes


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> tuple[Survey, Capture]:
    folder = tmp_path_factory.mktemp("scene")
    writers.write_cameras_json(folder)
    capture = read_capture(folder)
    return survey(capture), capture


def config(**fusion: float) -> PipelineConfig:
    return PipelineConfig(fusion=FusionConfig(**fusion))  # type: ignore[arg-type]


@given(st.floats(1e-5, 1e3))
def test_readable_sizes_are_near_and_readable(size: float) -> None:
    chosen = readable(size)
    assert 0.8 < chosen / size < 1.25
    exponent = np.floor(np.log10(chosen) + 1e-9)
    assert min(abs(chosen / 10**exponent - digit) for digit in READABLE) < 1e-6
    assert readable(chosen) == chosen


def test_the_voxel_size_follows_pixels_and_noise(scene: tuple[Survey, Capture]) -> None:
    seen, capture = scene
    sharp = replace(seen, ground_sample_distance=0.001, noise=0.0001)
    noisy = replace(seen, ground_sample_distance=0.001, noise=0.005)
    assert plan(sharp, capture, config()).voxel_size == 0.002
    assert plan(noisy, capture, config()).voxel_size == 0.01
    assert plan(noisy, capture, config()).voxel_reason == "twice the depth's noise"


def test_the_plan_sets_what_was_open_and_keeps_what_was_given(scene: tuple[Survey, Capture]) -> None:
    seen, capture = scene
    free = plan(seen, capture, config())
    given = plan(seen, capture, config(voxel_size=0.03, depth_max=2.5, truncation=5.0))
    assert free.fusion.voxel_size == free.voxel_size
    assert free.fusion.depth_max is not None
    assert seen.depth_percentiles[-1] < free.fusion.depth_max < 1.2 * seen.depth_percentiles[-1]
    assert (given.fusion.voxel_size, given.fusion.depth_max, given.fusion.truncation) == (0.03, 2.5, 5.0)
    assert given.voxel_reason == "as asked for"
    assert json.loads(json.dumps(given.as_dict()))["fusion"]["voxel_size"] == 0.03


def test_a_voxel_size_that_does_not_fit_is_refused_with_one_that_does(scene: tuple[Survey, Capture]) -> None:
    seen, capture = scene
    with pytest.raises(SmrError, match=r"0\.0001 m needs about .* GB .*\n  fix: Give --voxel-size") as refused:
        plan(seen, capture, config(voxel_size=0.0001, memory=1.0))
    fits = float(refused.value.cure.split("--voxel-size ")[1].split(",")[0])
    assert plan(seen, capture, config(voxel_size=fits, memory=1.0)).memory <= 1e9
    with pytest.raises(SmrError):
        plan(seen, capture, config(voxel_size=fits / 1.5, memory=1.0))


def test_a_chosen_voxel_size_grows_until_it_fits_and_says_so(scene: tuple[Survey, Capture]) -> None:
    seen, capture = scene
    chosen = plan(replace(seen, ground_sample_distance=0.0002, noise=0.0), capture, config(memory=0.05))
    assert chosen.voxel_size > 0.0004
    assert chosen.memory <= chosen.memory_budget == 50_000_000
    assert chosen.voxel_reason == "the finest that fits the memory"
    assert "may be used, so" in chosen.findings[0].cause


def test_a_memory_into_which_nothing_fits(scene: tuple[Survey, Capture]) -> None:
    for voxel_size in (None, 0.01):
        settings = {"memory": 1e-6} if voxel_size is None else {"memory": 1e-6, "voxel_size": voxel_size}
        with pytest.raises(SmrError, match=r"No voxel size makes this scene fit into the 1e-06 GB.*\n.*--memory"):
            plan(*scene, config(**settings))


def test_an_absurd_voxel_size_gets_the_same_answer_as_a_small_one(scene: tuple[Survey, Capture]) -> None:
    cures = []
    for size in (1e-30, 1e-6, 1e-5):
        with pytest.raises(SmrError, match="needs about") as refused:
            plan(*scene, config(voxel_size=size, memory=0.5))
        cures.append(refused.value.cure)
    assert len(set(cures)) == 1


@pytest.mark.parametrize("size", [0.0, -1.0, float("nan"), float("inf")])
def test_a_voxel_size_that_is_none(scene: tuple[Survey, Capture], size: float) -> None:
    with pytest.raises(SmrError, match="--voxel-size is"):
        plan(*scene, config(voxel_size=size))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"memory": -1.0}, "--memory is -1"),
        ({"depth_max": 0.0}, "--depth-max is 0"),
        ({"depth_max": 0.01}, r"--depth-max is 0\.01 m and --depth-min 0\.05 m: no depth lies between"),
        ({"depth_min": -1.0}, "--depth-min is -1"),
        ({"noise": float("nan")}, "--noise is nan"),
        ({"truncation": 0.0}, "--truncation is 0 voxels"),
        ({"truncation": 1e9}, r"--truncation is 1e\+09 voxels"),
        ({"weight_limit": 0.0}, "--weight-limit is 0"),
        ({"min_observations": 0}, "--min-observations is 0"),
        ({"min_observations": 16}, "--min-observations is 16"),
    ],
)
def test_settings_that_mean_nothing(scene: tuple[Survey, Capture], settings: dict[str, float], words: str) -> None:
    with pytest.raises(SmrError, match=words):
        plan(*scene, config(**settings))


def test_settings_of_later_stages_are_checked_before_the_first(scene: tuple[Survey, Capture]) -> None:
    with pytest.raises(SmrError, match="--vertices is 0"):
        plan(*scene, PipelineConfig(clean=CleanConfig(vertices=0)))


def test_photos_cannot_be_fused(tmp_path: Path) -> None:
    Image.new("RGB", (64, 48)).save(tmp_path / "a.png")
    capture = read_capture(tmp_path)
    with pytest.raises(SmrError, match=r"no frame with depth and a pose that can be used\. .*have no depth.*\n.*scan"):
        plan(survey(capture), capture, config())


def test_blocks_scale_as_a_surface_does(scene: tuple[Survey, Capture]) -> None:
    seen, _ = scene
    counts = [expected_blocks(seen, size, 4.0) for size in (0.04, 0.02, 0.01, 0.005)]
    for coarse, fine in pairwise(counts):
        assert 2.5 < fine / coarse < 6


def test_memory_is_that_of_the_volume(scene: tuple[Survey, Capture]) -> None:
    chosen = plan(*scene, config(voxel_size=0.02))
    assert chosen.memory == volume_bytes(chosen.blocks, color=True)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("synthetic_object", 0.002, 0.0025), ("synthetic_noisy", 0.002, 0.0025), ("seven_scenes", 0.006, 0.012)],
)
def test_real_captures_get_sensible_voxels(data_dir: Callable[[str], Path], name: str, low: float, high: float) -> None:
    capture = read_capture(data_dir(name))
    chosen = plan(survey(capture), capture, config())
    assert low <= chosen.voxel_size <= high
    assert 0 < chosen.seconds < 600


@pytest.mark.data
def test_expected_blocks_are_those_that_fusion_makes(data_dir: Callable[[str], Path]) -> None:
    """Within a quarter, on a real scene that was not planned for."""
    from smr.tsdf import fuse

    capture = read_capture(data_dir("synthetic_object"))
    expected = plan(survey(capture), capture, config(voxel_size=0.004))
    volume = fuse(capture, expected.fusion, device="cpu")
    assert 0.75 < expected.blocks / volume.blocks < 1.33


def test_a_capture_that_contradicts_itself_is_refused_unless_told_to_go_on(scene: tuple[Survey, Capture]) -> None:
    seen, capture = scene
    wrong = replace(seen, findings=(Finding("error", "The poses do not fit.", "Give --pose-fix opengl."),))
    with pytest.raises(SmrError, match="The poses do not fit") as refused:
        plan(wrong, capture, config())
    assert refused.value.cure == "Give --pose-fix opengl. Or go on all the same with --ignore-problems."
    going_on = replace(config(), capture=CaptureConfig(ignore_problems=True))
    assert plan(wrong, capture, going_on).voxel_size > 0
