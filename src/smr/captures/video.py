"""Videos: the sharpest frame of each half second, or every n-th, written once as photos."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from ..config import CaptureConfig
from ..errors import SmrError
from ..progress import Track, untracked

ENDINGS = (".mp4", ".mov", ".m4v", ".avi", ".mkv", ".webm")
WINDOW = 0.5
"""Seconds of which the sharpest frame is taken."""
FRAME_LIMIT = 100_000
"""Frames that are looked at; a longer video is refused."""


def extract_frames(video: Path, config: CaptureConfig, folder: Path, *, track: Track = untracked) -> Path:
    """The folder with the video's frames as JPEG files, named by their time in seconds.

    Args:
        video: The file.
        config: With `every` above 1, every n-th frame is taken, and the sharpest of each half second otherwise.
        folder: Where the folder of the frames is made; when it is there it is used as it is.
        track: Progress.

    Raises:
        SmrError: PyAV is not installed, or the file cannot be decoded.
    """
    if importlib.util.find_spec("av") is None:
        raise SmrError(
            f"{video} is a video, which needs PyAV to be decoded.",
            "Install it: pip install 'smr3d[photos]' (or: pip install av); or extract the frames: "
            f"mkdir -p photos && ffmpeg -i {str(video)!r} -vf fps=2 -q:v 2 photos/%05d.jpg, and give that folder.",
        )
    info = video.stat()
    target = folder / f"{video.stem}-{info.st_size:x}-{int(info.st_mtime):x}-every-{config.every}"
    if target.is_dir():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=".frames.tmp", dir=folder))
    try:
        count = 0
        for seconds, pixels in _chosen(video, config.every, track):
            Image.fromarray(pixels).save(partial / f"{seconds:09.3f}.jpg", quality=95, subsampling=0)
            count += 1
        if count == 0:
            raise SmrError(f"{video} holds no picture.", "Give another video, or a folder of photos.")
        partial.chmod(0o755)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def time_of(stem: str) -> float | None:
    """Seconds of a frame that was written here, from its name."""
    try:
        return float(stem)
    except ValueError:
        return None


def _chosen(video: Path, every: int, track: Track) -> Iterator[tuple[float, UInt8[np.ndarray, "h w 3"]]]:
    best: tuple[float, float, np.ndarray] | None = None
    window = 0
    for index, (seconds, pixels) in enumerate(_decoded(video, track)):
        if every > 1:
            if index % every == 0:
                yield seconds, pixels
            continue
        if best is not None and int(seconds / WINDOW) != window:
            yield best[0], best[2]
            best = None
        window = int(seconds / WINDOW)
        sharp = _sharpness(pixels)
        if best is None or sharp > best[1]:
            best = (seconds, sharp, pixels)
    if best is not None:
        yield best[0], best[2]


def _decoded(video: Path, track: Track) -> Iterator[tuple[float, UInt8[np.ndarray, "h w 3"]]]:
    """Times and pixels of all frames, turned as a player shows them."""
    import av

    try:
        with av.open(str(video)) as opened:
            if not opened.streams.video:
                raise SmrError(f"{video} holds no picture.", "Give another video, or a folder of photos.")
            stream = opened.streams.video[0]
            stream.thread_type = "AUTO"
            frames = track(opened.decode(stream), f"reading {video.name}", int(stream.frames or 0) or None)
            for index, frame in enumerate(frames):
                if index >= FRAME_LIMIT:
                    raise SmrError(
                        f"{video} has more than {FRAME_LIMIT} frames.", "Cut the part that matters out of it."
                    )
                yield float(frame.time if frame.time is not None else index / 30), _shown(frame)
    except (av.FFmpegError, OSError, ValueError) as error:
        raise SmrError(f"{video} cannot be decoded: {error}.", "Copy it again, or convert it to H.264 MP4.") from None


def _shown(frame: Any) -> UInt8[np.ndarray, "h w 3"]:
    pixels = frame.to_ndarray(format="rgb24")
    quarter_turns = round(getattr(frame, "rotation", 0) / 90) % 4
    return np.ascontiguousarray(np.rot90(pixels, quarter_turns))


def _sharpness(pixels: UInt8[np.ndarray, "h w 3"]) -> float:
    """Variance of the Laplacian of the green channel, at most some 500 pixels wide."""
    step = max(1, max(pixels.shape[:2]) // 500)
    grey = pixels[::step, ::step, 1].astype(np.float32)
    if min(grey.shape) < 3:
        return 0.0
    laplacian = 4 * grey[1:-1, 1:-1] - grey[:-2, 1:-1] - grey[2:, 1:-1] - grey[1:-1, :-2] - grey[1:-1, 2:]
    return float(laplacian.var())
