"""The commands and their options. Each imports what it computes with in its own `run`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, UseAppendAction, arg

from ..config import CaptureConfig, CleanConfig, PipelineConfig, TextureConfig
from .command import Answer, DeviceOptions, Interface, Options

Outputs = Annotated[UseAppendAction[tuple[Path, ...]], arg(metavar="FILE")]
Settings = Annotated[PipelineConfig, arg(name="")]


@dataclass(frozen=True, kw_only=True)
class Inspect(Options):
    """Say what is in a capture, what is wrong with it, and what `reconstruct` would do."""

    capture: Positional[Path]
    """Folder (or file) of the capture."""
    config: Settings = field(default_factory=PipelineConfig)

    def run(self, ui: Interface) -> Answer:
        """Read and survey the capture."""
        from ..inspection import inspect
        from .describe import describe_inspection

        found = inspect(self.capture, self.config, track=ui.track)
        return Answer(describe_inspection(found), found.as_dict())


@dataclass(frozen=True, kw_only=True)
class Reconstruct(DeviceOptions):
    """Turn RGB-D frames, photos or a video into a textured mesh."""

    capture: Positional[Path]
    """Folder (or file) of the capture."""
    out: Outputs
    """File to write (.usdz .usda .usdc .glb .obj .ply .stl .off); give it again for a second format."""
    work: Path | None = None
    """Folder of the run; beside the first output when left out. The same command again continues there."""
    config: Settings = field(default_factory=PipelineConfig)

    def run(self, ui: Interface) -> Answer:
        """Run the main job."""
        from ..pipeline import reconstruct
        from .describe import describe_run

        result = reconstruct(self.capture, self.out, self.config, device=self.device, work=self.work, track=ui.track)
        return Answer(describe_run(result.report), result.report)


@dataclass(frozen=True, kw_only=True)
class Demo(DeviceOptions):
    """Make a small capture with known truth, reconstruct it, and print the error."""

    out: Path = Path("demo")
    """Folder for the capture and the model."""
    views: int = 40
    """RGB-D views to make."""
    seed: int = 0
    """Start of every random generator."""

    def run(self, ui: Interface) -> Answer:
        """Make, reconstruct, evaluate."""
        from .demo import run_demo
        from .describe import describe_demo

        result = run_demo(self.out, views=self.views, seed=self.seed, device=self.device, track=ui.track)
        document = {**result.report, "evaluation": result.evaluation.as_dict()}
        return Answer(describe_demo(result), document)


@dataclass(frozen=True, kw_only=True)
class Evaluate(DeviceOptions):
    """Measure a mesh against a reference: accuracy, completeness, Chamfer distance, F-score."""

    mesh: Positional[Path]
    """Mesh to measure."""
    reference: tuple[Path, ...]
    """One or more mesh files that are the truth together."""
    distances: tuple[float, ...] = (0.001, 0.002, 0.005)
    """Distances for precision, recall and F-score, metres."""
    align: Literal["none", "rigid", "similarity"] = "none"
    """none, rigid or similarity: move the mesh onto the reference first."""
    seen_by: Path | None = None
    """Capture: measure completeness only where one of its depth maps saw the reference."""
    samples: int = 300_000
    """Points on each surface."""
    error_mesh: Path | None = None
    """Write the mesh coloured by its distance to the reference."""
    seed: int = 0
    """Start of the random generator."""

    def run(self, ui: Interface) -> Answer:
        """Evaluate."""
        from .evaluate import run_evaluate

        return run_evaluate(self, ui)


@dataclass(frozen=True, kw_only=True)
class Texture(DeviceOptions):
    """Texture a mesh that came from anywhere from a capture's posed photos."""

    mesh: Positional[Path]
    """Mesh to texture, in the capture's world frame."""
    capture: Positional[Path]
    """Folder (or file) of the capture."""
    out: Outputs
    """File to write; give it again for a second format."""
    frames: CaptureConfig = field(default_factory=CaptureConfig)
    texture: TextureConfig = field(default_factory=TextureConfig)

    def run(self, ui: Interface) -> Answer:
        """Unwrap and bake."""
        from .mesh_jobs import run_texture

        return run_texture(self, ui)


@dataclass(frozen=True, kw_only=True)
class Clean(DeviceOptions):
    """Repair, fill, smooth and simplify a mesh; unwrap it on request."""

    mesh: Positional[Path]
    """Mesh to clean."""
    out: Outputs
    """File to write; give it again for a second format."""
    unwrap: bool = False
    """Also lay the surface out in texture coordinates."""
    clean: CleanConfig = field(default_factory=CleanConfig)

    def run(self, ui: Interface) -> Answer:
        """Clean."""
        from .mesh_jobs import run_clean

        return run_clean(self, ui)


@dataclass(frozen=True, kw_only=True)
class Convert(Options):
    """Convert between mesh formats; the endings choose them."""

    source: Positional[Path]
    """Mesh to read."""
    target: Positional[Path]
    """File to write."""
    scale: float = 1.0
    """Multiply all lengths; 0.001 turns millimetres into metres."""
    up: Literal["x", "-x", "y", "-y", "z", "-z"] | None = None
    """The source's up axis (x, -x, y, -y, z, -z) where its format does not say it."""

    def run(self, ui: Interface) -> Answer:
        """Convert."""
        from .mesh_jobs import run_convert

        return run_convert(self, ui)


@dataclass(frozen=True, kw_only=True)
class View(Options):
    """Show a model on a page of this machine, until Ctrl-C; nothing is loaded from elsewhere."""

    model: Positional[Path]
    """Model to show."""
    host: str = "127.0.0.1"
    """Address to listen at; 0.0.0.0 lets a phone in the same network open the page."""
    port: int = 0
    """Port; 0 takes a free one."""

    def run(self, ui: Interface) -> Answer:
        """Serve until stopped."""
        from ..view import serve

        with serve(self.model, host=self.host, port=self.port) as viewer:
            ui.say(f"{viewer.url}  (Ctrl-C stops)")
            ui.finish()
            viewer.wait()
        return Answer("", {"url": viewer.url})


@dataclass(frozen=True)
class Doctor:
    """Say what this machine can do, what is wrong with it, and what to type."""

    # Here for `smr --help` alone: `main` hands `smr doctor` to `cli.doctor`, which needs none of our dependencies.


@dataclass(frozen=True)
class Env:
    """Plan, build, check, lock, pack and restore environments for Kaolin and its kind."""

    # Here for `smr --help` alone, as the doctor.


COMMANDS: dict[str, Any] = {
    "inspect": Inspect,
    "reconstruct": Reconstruct,
    "demo": Demo,
    "evaluate": Evaluate,
    "texture": Texture,
    "clean": Clean,
    "convert": Convert,
    "view": View,
    "doctor": Doctor,
    "env": Env,
}
