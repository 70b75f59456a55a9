"""`smr env`: CPU seconds of a plan, and seconds of build, second build with a compiler cache, pack and restore.

python benchmarks/env.py plan                 # no network, seconds
python benchmarks/env.py build --torch 2.13.0 # builds a tiny C++ extension against the CPU torch; minutes
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

PLANS = (
    ("kaolin", "--gpu", "RTX 4090", "--driver", "550.54"),
    ("kaolin", "--gpu", "GTX 1080 Ti", "--driver", "470.82", "--distribution", "ubuntu-20.04"),
    ("kaolin==0.15.0", "--gpu", "RTX 5090"),
    ("pytorch3d", "--gpu", "A100", "--driver", "535.54"),
)


def smr(*arguments: object) -> tuple[float, float, int]:
    """Seconds, CPU seconds and exit code of one call."""
    code = "import sys; from smr.cli.env import main; sys.exit(main(sys.argv[1:]))"
    started, before = time.monotonic(), os.times()
    done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, check=False)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return round(time.monotonic() - started, 2), round(cpu, 2), done.returncode


def say(**row: object) -> None:
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    print(json.dumps({**row, "machine": machine, "command": " ".join(["python", *sys.argv])}), flush=True)


def plans(folder: Path) -> None:
    for arguments in PLANS:
        seconds, cpu, code = smr("plan", *arguments, "--out", folder / "plan.toml")
        say(what=f"plan {' '.join(arguments)}", seconds=seconds, cpu_seconds=cpu, exit_code=code)


def builds(folder: Path, torch: str) -> None:
    from test_env_source import ONE, RECIPE, SETUP, TWO

    source = folder / "source"
    (source / "tiny_ext").mkdir(parents=True)
    for name, text in {"setup.py": SETUP, "one.cpp": ONE, "two.cpp": TWO}.items():
        (source / name).write_text(text)
    (source / "tiny_ext" / "__init__.py").write_text("import torch\nfrom tiny_ext._C import double\n")
    (folder / "recipe.json").write_text(json.dumps(RECIPE))
    wish = ("--torch", torch, "--cuda", "cpu", "--python", "{}.{}".format(*sys.version_info), "--own-index")
    smr("plan", "tiny-ext", "--recipe", folder / "recipe.json", *wish, "--out", folder / "plan.toml")
    made = ("--source", source, "--cache", folder / "cache")
    bundle = folder / "tiny.smr-env"
    steps = (
        ("first build", ("build", folder / "plan.toml", "--prefix", folder / "one", *made)),
        (
            "second build, other prefix, compiler cache",
            ("build", folder / "plan.toml", "--prefix", folder / "two", *made),
        ),
        ("build again, nothing to do", ("build", folder / "plan.toml", "--prefix", folder / "one", *made)),
        ("check", ("check", folder / "one")),
        ("pack", ("pack", folder / "one", "--out", bundle)),
        ("restore", ("restore", bundle, "--prefix", folder / "three")),
    )
    for what, arguments in steps:
        seconds, cpu, code = smr(*arguments)
        size = round(bundle.stat().st_size / 1e6) if bundle.exists() else None
        say(
            what=what,
            seconds=seconds,
            cpu_seconds=cpu,
            exit_code=code,
            bundle_mb=size,
            ccache=bool(shutil.which("ccache")),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("plan", "build"))
    parser.add_argument("--torch", default="2.13.0")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.what == "plan":
            plans(Path(folder))
        else:
            builds(Path(folder), options.torch)


if __name__ == "__main__":
    main()
