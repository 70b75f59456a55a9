"""Listing and decoding captures; CPU time. Prints JSON lines.

python benchmarks/captures.py DATA          # DATA: folder with seven_scenes, synthetic_fisheye, ...
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from smr.captures import Decoder, read_capture, survey
from smr.plan import expected_blocks


def cpu_ms(work: Callable[[], object], repeats: int) -> float:
    work()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(1000 * (time.process_time() - start))
    return round(statistics.median(times), 3)


def ten_thousand(source: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first = next(iter(sorted(source.glob("*.depth.png")))).name.split(".")[0]
        (folder / "camera-intrinsics.txt").write_text((source / "camera-intrinsics.txt").read_text())
        for i in range(10_000):
            for ending in ("color.jpg", "depth.png", "pose.txt"):
                (folder / f"frame-{i:06d}.{ending}").symlink_to(source / f"{first}.{ending}")
        start = time.process_time()
        capture = read_capture(folder)
        say(
            what="list 10 000 frames of 7-Scenes",
            frames=len(capture),
            cpu_seconds=round(time.process_time() - start, 2),
        )


def say(**figures: object) -> None:
    print(json.dumps({**figures, "machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"}))


def main() -> None:
    data = Path(sys.argv[1]).resolve()
    seven = read_capture(data / "seven_scenes")
    decoder = Decoder()
    depths = [frame.depth for frame in seven.frames[::7] if frame.depth]
    photos = [frame.photo for frame in seven.frames[::7] if frame.photo]

    def pillow(path: Path) -> np.ndarray:
        with Image.open(path) as image:
            return np.asarray(image)

    say(what="depth PNG 640x480, Pillow to array", ms=cpu_ms(lambda: [pillow(d.path) for d in depths], 5) / len(depths))
    say(what="depth PNG 640x480, to metres", ms=cpu_ms(lambda: [decoder.depth(d) for d in depths], 5) / len(depths))
    say(what="colour JPEG 640x480", ms=cpu_ms(lambda: [decoder.photo(p) for p in photos], 5) / len(photos))
    fisheye = [frame.photo for frame in read_capture(data / "synthetic_fisheye").frames if frame.photo]
    say(
        what="fisheye JPEG 640x480, undistorted",
        ms=cpu_ms(lambda: [decoder.photo(p) for p in fisheye], 5) / len(fisheye),
    )
    fox = [frame.photo for frame in read_capture(data / "fox").frames[::10] if frame.photo]
    say(what="OpenCV JPEG 1080x1920, undistorted", ms=cpu_ms(lambda: [decoder.photo(p) for p in fox], 3) / len(fox))
    for name in ("seven_scenes", "synthetic_object"):
        capture = read_capture(data / name)
        start = time.process_time()
        seen = survey(capture)
        seconds = round(time.process_time() - start, 2)
        say(what=f"survey of {name}", cpu_seconds=seconds, blocks_at_1cm=expected_blocks(seen, 0.01, 4.0))
    ten_thousand(data / "seven_scenes")


if __name__ == "__main__":
    main()
