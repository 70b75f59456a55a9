"""The main job never imports torch, and what needs torch says so where it is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOLD = "smr.ops and smr.kaolin need torch, which is not installed.\n  fix: pip install 'smr3d[torch]'"
WITHOUT = "import sys; sys.modules['torch'] = None; "


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_main_job_does_not_import_torch() -> None:
    done = python("import smr, smr.pipeline, smr.cli, sys; assert 'torch' not in sys.modules")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "code",
    [
        "import smr.ops",
        "from smr.ops import mesh",
        "import smr.ops.mesh",
        "import smr.kaolin as kal; kal.ops.mesh.face_areas",
        "from smr.kaolin.ops.mesh import face_areas",
        "from smr.kaolin.rep import SurfaceMesh",
    ],
)
def test_operations_on_tensors_say_that_torch_is_missing(code: str) -> None:
    done = python(WITHOUT + code)
    assert done.returncode == 1
    assert (
        "smr.ops and smr.kaolin need torch, which is not installed.\n  fix: pip install 'smr3d[torch]'" in done.stderr
    )


def test_the_error_is_an_import_error_too() -> None:
    caught = "try: import smr.ops\nexcept ImportError as error: print(error.name, error.cure)"
    done = python(WITHOUT + f"exec({caught!r})")
    assert done.stdout == "torch pip install 'smr3d[torch]'\n", done.stderr


def test_scripts_for_kaolin_say_that_torch_is_missing(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import kaolin")
    run = WITHOUT + "import runpy; runpy.run_module('smr.kaolin', run_name='__main__', alter_sys=True)"
    done = python(run, str(script))
    assert done.returncode == 2
    assert done.stderr == f"error: {TOLD}\n"
    assert "smr.kaolin" in python(WITHOUT + f"import sys; {run.split('; ', 2)[2]}", "--version").stdout
