"""Reading a large OBJ: lines alone, as a mesh of smr.kaolin, from memory, from a cache; beside trimesh.

    python benchmarks/obj.py --faces 1000000

Prints one JSON line a measurement: the best of so many runs in CPU seconds (of all threads) and in wall seconds, and
megabytes of the file for each second of wall time. The machine should have nothing else to do.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from formats import grid

from smr.formats import read_mesh, write_mesh
from smr.formats.obj_read import collect_obj


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def best(work: Callable[[], object], runs: int) -> tuple[float, float]:
    work()  # machine code is compiled, the file is in memory
    times = []
    for _ in range(runs):
        begin, clock = cpu_seconds(), time.perf_counter()
        work()
        times.append((cpu_seconds() - begin, time.perf_counter() - clock))
    return min(cpu for cpu, _ in times), min(wall for _, wall in times)


def measurements(path: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    text = path.read_bytes()
    yield "lines, machine code", lambda: collect_obj(path, text)
    yield "lines, NumPy", lambda: collect_obj(path, text, large=len(text) + 1)
    yield "smr.formats.read_mesh", lambda: read_mesh(path)
    try:
        from smr.kaolin.io import obj
    except ImportError:  # no torch
        pass
    else:
        yield "smr.kaolin.io.obj.import_mesh", lambda: obj.import_mesh(path, with_normals=True)
        yield "smr.kaolin.io.obj.import_mesh_from_string", lambda: obj.import_mesh_from_string(text, with_normals=True)
        cache = path.parent / "cache"
        yield "smr.kaolin.io.obj.import_mesh, cached", lambda: obj.import_mesh(path, with_normals=True, cache_dir=cache)
    try:
        import trimesh
    except ImportError:
        pass
    else:
        yield f"trimesh {trimesh.__version__} load_mesh", lambda: trimesh.load_mesh(path, process=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faces", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    about = {"machine": platform.machine(), "cores": len(os.sched_getaffinity(0)), "python": sys.version.split()[0]}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "grid.obj"
        write_mesh(grid(options.faces), path)
        megabytes = path.stat().st_size / 1e6
        for name, work in measurements(path):
            cpu, wall = best(work, options.runs)
            figures = {"cpu_s": round(cpu, 3), "wall_s": round(wall, 3), "mb_per_wall_s": round(megabytes / wall, 1)}
            load = {"load": round(os.getloadavg()[0], 1)}
            line = {"read": name, "faces": options.faces, "megabytes": round(megabytes, 1), **figures, **load, **about}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
