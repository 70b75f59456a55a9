"""`smr demo`: makes a capture with known truth, runs the main job on it, measures the error."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import __version__
from ..arrays import resolve_device
from ..atomic import write_bytes_atomic
from ..captures import read_capture
from ..demo import make_capture
from ..formats import read_mesh
from ..formats.model import geometry
from ..metrics import Evaluation, evaluate
from ..pipeline import reconstruct
from ..progress import Track


@dataclass(frozen=True)
class DemoResult:
    """What the demo made and how good it is."""

    capture: Path
    truth: Path
    files: tuple[Path, ...]
    evaluation: Evaluation
    report: dict[str, Any]


def run_demo(folder: Path, *, views: int, seed: int, device: str, track: Track) -> DemoResult:
    """Make the capture in `folder/capture` unless it is there, the model beside it, and compare it with the truth."""
    device = resolve_device(device)
    source = folder / "capture"
    truth = source / "ground_truth" / "mesh.ply"
    made = json.dumps({"smr": __version__, "views": views, "seed": seed, "device": device}).encode()
    marker = source / "demo.json"
    if not (marker.is_file() and marker.read_bytes() == made):
        marker.unlink(missing_ok=True)
        make_capture(source, views=views, seed=seed, device=device, track=track)
        write_bytes_atomic(marker, made)
    outputs = [folder / f"model{ending}" for ending in (".usdz", ".glb", ".ply")]
    result = reconstruct(source, outputs, device=device, track=track)
    evaluation = evaluate(
        geometry(result.model),
        geometry(read_mesh(truth)),
        seen_by=read_capture(source),
        seed=seed,
        device=device,
        track=track,
    )
    return DemoResult(source, truth, result.files, evaluation, result.report)
