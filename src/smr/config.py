"""Every stage's settings, nested in `PipelineConfig`. Imports nothing heavy, so that `--help` is quick."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class CaptureConfig:
    """Which frames are used and how their files are understood."""

    every: int = 1
    """Use every n-th frame."""
    max_frames: int | None = None
    """Use at most this many frames, spread evenly."""
    depth_scale: float | None = None
    """Stored depth / this = metres; needed where the format does not say it (1000: millimetres)."""
    intrinsics: tuple[float, float, float, float] | None = None
    """fx fy cx cy in pixels where the capture has none, or in place of what it has; first pixel's centre at 0.5."""
    color_calibration: str | None = None
    """JSON file with the colour camera where it is not the depth camera (fx, fy, cx, cy,
    depth_to_color_rotation, depth_to_color_translation); one that lies beside the frames is found."""
    pose_fix: Literal["none", "opengl", "world_to_camera", "world_to_camera_opengl", "left_handed"] = "none"
    """How poses are read where they are not as their format says; `smr inspect` tells which would agree."""
    use_masks: bool = False
    """Reconstruct only what the capture's masks (or its photos' alpha channels) leave."""
    ignore_problems: bool = False
    """Go on although the capture contradicts itself (poses that do not fit, a wrong depth scale)."""


@dataclass(frozen=True)
class MvsConfig:
    """Dense depth from photos with poses."""

    quality: Literal["preview", "normal", "high"] = "normal"
    """How large depth maps are, how many photos each is compared with, and how long the search is."""
    depth_size: int | None = None
    """Longer side of the depth maps, pixels, in place of what the quality says."""
    sources: int | None = None
    """Photos that each photo is compared with, in place of what the quality says."""
    agreeing: int | None = None
    """Other photos that must confirm a depth; 2 when left out, and 1 where there are only three photos."""
    background: Literal["scene", "dark"] = "scene"
    """`dark`: the photos show an object before a dark backdrop, which is left out."""
    hull: bool = True
    """Where photos have masks, fill in with their visual hull what stereo does not find."""


@dataclass(frozen=True)
class SfmConfig:
    """Camera poses from photos (structure from motion)."""

    matching: Literal["auto", "exhaustive", "sequential", "retrieval"] = "auto"
    """Which photos are compared: all with all (up to 40), neighbours in a sequence, or the ones most alike."""
    mapper: Literal["incremental", "global"] = "incremental"
    """Photo after photo, or all at once; the other is tried where this leaves photos out."""
    feature_size: int | None = None
    """Longer side at which features are looked for, pixels; 2400 when left out, with many photos 1600."""
    feature_count: int = 8192
    """At most so many features a photo."""
    find_poses: bool = False
    """Find poses anew although the capture has some."""
    scale_ref: tuple[str, ...] | None = None
    """PHOTO_A PHOTO_B METRES: how far apart two cameras were; or PHOTO_A X1 Y1 X2 Y2 PHOTO_B X1 Y1 X2 Y2 METRES: two
    points in pixels of two photos, and how far apart they are."""


@dataclass(frozen=True)
class FusionConfig:
    """Truncated signed distance fusion."""

    voxel_size: float | None = None
    """Metres; chosen from the data and the memory when left out."""
    truncation: float = 4.0
    """Half width of the band around the surface, in voxels."""
    depth_min: float = 0.05
    """Depth below this is dropped, metres."""
    depth_max: float | None = None
    """Depth above this is dropped, metres; chosen from the data when left out."""
    memory: float | None = None
    """Gigabytes that the volume may use; half of what is free when left out."""
    noise: float | None = None
    """Standard deviation of depth at a distance of 1 m, metres; it is taken to grow with the square of the distance.
    Found in the first frame when left out."""
    weight_limit: float = 128.0
    """A voxel's weight stops growing here, so that later frames still count. One frame that looks straight at a
    surface 1 m away has weight 1; it grows with the square of nearness."""
    min_observations: int = 1
    """Frames that must have measured a place before it can become surface."""


@dataclass(frozen=True)
class TrimConfig:
    """What is dropped of the raw surface, as too few views show it."""

    min_views: int | None = None
    """Depth maps that must show a place; 1 when left out, and 2 where depth is found from photos. 0 keeps all."""
    min_share: float = 0.5
    """Where depth is found from photos: drop pieces apart that fewer photos show, on average, than this share of those
    that show the largest piece; 0 keeps all."""


@dataclass(frozen=True)
class CleanConfig:
    """From a raw surface to a clean mesh."""

    min_component: float = 0.001
    """Drop pieces with a smaller share of the faces than this, or under 50 faces, that are also small; 0 keeps all."""
    min_extent: float = 0.025
    """A piece is small when its box's diagonal is under this share of the whole's: a long thin wire stays."""
    hole_edges: int = 30
    """Close holes of at most this many edges; 0 leaves all open."""
    hole_rounds: int = 3
    """Look for holes at most so often, as closing some can make others closable."""
    smoothing: float = 3.0
    """A vertex may move by so many times the noise that is measured around it; 0 leaves the surface as it is."""
    vertices: int | None = 80_000
    """Simplify to at most this many vertices; None keeps all."""
    max_error: float | None = None
    """Stop simplifying before the surface moves by more than this, metres."""


@dataclass(frozen=True)
class TextureConfig:
    """UV charts and the texture image."""

    texture_size: int | None = None
    """Side of the square texture in pixels, at most 8192; chosen from the photos when left out."""
    align_photos: bool = True
    """Correct the photos' poses slightly, so that they agree on the surface."""


@dataclass(frozen=True)
class PipelineConfig:
    """Everything that `smr reconstruct` can be told."""

    capture: CaptureConfig = field(default_factory=CaptureConfig)
    sfm: SfmConfig = field(default_factory=SfmConfig)
    mvs: MvsConfig = field(default_factory=MvsConfig)
    fusion: FusionConfig = field(default_factory=FusionConfig)
    trim: TrimConfig = field(default_factory=TrimConfig)
    clean: CleanConfig = field(default_factory=CleanConfig)
    texture: TextureConfig = field(default_factory=TextureConfig)
    seed: int = 0
    """Start of every random generator."""
