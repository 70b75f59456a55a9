"""The main job against exact truth: shape, and colour."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from smr.captures import read_capture
from smr.cleaning import clean
from smr.config import CleanConfig, FusionConfig, PipelineConfig
from smr.demo import DemoScene, make_capture
from smr.formats import read_mesh
from smr.formats.model import geometry
from smr.mesh.distance import index_surface
from smr.metrics import evaluate
from smr.pipeline import Result, reconstruct
from smr.points.sample import sample_surface
from smr.records import Mesh, TexturedMesh
from smr.tsdf import extract_mesh, fuse

FIGURES = {
    "synthetic_object": (0.00007, 0.00013, 0.99),
    "synthetic_noisy": (0.00016, 0.00026, 0.985),
    "synthetic_thin": (0.00007, 0.00013, 0.985),
}
"""Largest mean accuracy and completeness of the raw surface, metres; least F-score at 2 mm after cleaning."""


def texture_colors(model: TexturedMesh, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Points on the model and what its texture shows there (nearest texel)."""
    samples = sample_surface(model.mesh, count)
    corners = model.mesh.vertices[model.mesh.faces[samples.faces]].astype(float)
    a, ab, ac = corners[:, 0], corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    normal = np.cross(ab, ac)
    area = np.einsum("ij,ij->i", normal, normal)
    v = np.einsum("ij,ij->i", np.cross(samples.points - a, ac), normal) / area
    w = np.einsum("ij,ij->i", np.cross(ab, samples.points - a), normal) / area
    weights = np.stack([1 - v - w, v, w], axis=1)
    uv = np.einsum("nk,nkj->nj", weights, model.uvs[model.face_uvs[samples.faces]])
    texture = model.materials[0].texture
    assert texture is not None
    height, width = texture.shape[:2]
    column = np.clip((uv[:, 0] * width).astype(int), 0, width - 1)
    row = np.clip(((1 - uv[:, 1]) * height).astype(int), 0, height - 1)
    return samples.points, texture[row, column, :3]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> DemoScene:
    return make_capture(tmp_path_factory.mktemp("accuracy") / "capture", views=20, width=240, height=180)


@pytest.fixture(scope="module")
def result(demo: DemoScene) -> Result:
    config = PipelineConfig(fusion=FusionConfig(voxel_size=0.003), clean=CleanConfig(vertices=30_000))
    return reconstruct(demo.folder, demo.folder.parent / "model.glb", config, device="cpu")


@pytest.mark.slow
def test_the_demo_comes_out_as_it_is(demo: DemoScene, result: Result) -> None:
    found = evaluate(result.model.mesh, demo.truth, seen_by=demo.capture, samples=50_000)
    # A pixel is 2.6 mm wide there, the depth's noise 1.6 mm.
    assert found.accuracy.mean < 0.00035
    assert found.completeness.mean < 0.00045
    assert found.scores[1].f_score > 0.98
    assert found.normal_consistency > 0.97
    assert found.seen_share > 0.85


@pytest.mark.slow
def test_the_texture_has_the_colours_of_the_truth(demo: DemoScene, result: Result) -> None:
    points, colors = texture_colors(result.model, 4000)
    nearest = index_surface(demo.truth).nearest(points)
    assert demo.truth.colors is not None
    corners = demo.truth.colors[demo.truth.faces[nearest.faces]].astype(float)
    true = np.einsum("nk,nkj->nj", nearest.barycentric, corners)
    error = np.abs(colors - true)[nearest.distances < 0.002].mean(axis=1)
    assert np.median(error) < 10
    assert np.mean(error) < 25  # a pixel covers more than the pattern's lines


@pytest.mark.slow
def test_the_file_holds_what_was_measured(demo: DemoScene, result: Result) -> None:
    loaded = geometry(read_mesh(result.files[0]))
    found = evaluate(loaded, demo.truth, align="rigid", samples=20_000)
    assert found.alignment is not None
    assert found.accuracy.mean < 0.0004


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("name", FIGURES)
def test_fusion_and_cleaning_reach_their_figures(name: str, data_dir: Callable[[str], Path]) -> None:
    folder = data_dir(name)
    parts = [geometry(read_mesh(folder / "ground_truth" / f"{part}.ply")) for part in ("objects", "table")]
    offset = np.int32(len(parts[0].vertices))
    truth = Mesh(
        np.concatenate([part.vertices for part in parts]), np.concatenate([parts[0].faces, parts[1].faces + offset])
    )
    capture = read_capture(folder)
    accuracy, completeness, f_score = FIGURES[name]

    config = FusionConfig(voxel_size=0.002, depth_max=3.0)
    raw = extract_mesh(fuse(capture, config, device="cpu"), config)
    found = evaluate(raw, truth, seen_by=capture, samples=100_000)
    assert found.accuracy.mean < accuracy
    assert found.completeness.mean < completeness

    cleaned, _ = clean(raw, CleanConfig())
    found = evaluate(cleaned, truth, seen_by=capture, samples=100_000)
    assert len(cleaned.vertices) <= 80_000
    assert found.accuracy.mean < 1.5 * accuracy
    assert found.completeness.mean < 1.5 * completeness
    assert found.scores[1].f_score > f_score
