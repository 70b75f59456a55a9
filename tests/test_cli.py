from __future__ import annotations

import io
import json
import subprocess
import sys
import time

import pytest

from smr.cli.main import main
from smr.cli.progress import LineProgress, duration
from smr.progress import step

COMMANDS = ["inspect", "reconstruct", "demo", "evaluate", "texture", "clean", "convert"]
BROKEN = """
import sys
class Broken:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "warp", "numpy", "scipy", "PIL", "pxr", "trimesh", "jaxtyping"):
            raise ImportError(f"{name} is broken on this machine")
sys.meta_path.insert(0, Broken())
from smr.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def run(*arguments: str, code: str = BROKEN) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_help_works_where_everything_heavy_is_broken(command):
    done = run(*([command] if command else []), "--help")
    assert done.returncode == 0, done.stderr
    assert "usage: smr" in done.stdout


def test_no_arguments_print_help():
    assert "reconstruct" in run().stdout


def test_version():
    from smr import __version__

    assert run("--version").stdout == f"smr {__version__}\n"


@pytest.mark.parametrize(
    "call", [["nonsense"], ["reconstruct"], ["reconstruct", "x"], ["reconstruct", "x", "--out", "a.glb", "--voxl", "1"]]
)
def test_a_wrong_call_ends_with_2(call):
    done = run(*call)
    assert done.returncode == 2
    assert done.stderr or done.stdout


@pytest.mark.parametrize(
    "call",
    [
        ["inspect", "{}/nowhere"],
        ["reconstruct", "{}/nowhere", "--out", "{}/a.usdz"],
        ["convert", "{}/nowhere.obj", "{}/a.usdz"],
        ["evaluate", "{}/nowhere.ply", "--reference", "{}/b.ply"],
        ["texture", "{}/b.ply", "{}/nowhere", "--out", "{}/a.glb"],
        ["clean", "{}/nowhere.ply", "--out", "{}/a.glb"],
    ],
)
def test_what_could_not_be_done_ends_with_1_and_says_cause_and_cure(call, tmp_path, capsys):
    code = main([part.format(tmp_path) for part in call])
    said = capsys.readouterr()
    assert code == 1
    assert "error: " in said.err
    assert "nowhere" in said.err
    assert "\n  fix: " in said.err
    assert said.out == ""


def test_json_puts_one_document_on_stdout_for_an_error_too(tmp_path, capsys):
    assert main(["inspect", str(tmp_path / "nowhere"), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["version"] == 1
    assert document["command"] == "inspect"
    assert set(document["error"]) == {"cause", "cure"}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (59.94, "59.9 s"), (59.96, "1 min 00 s"), (125, "2 min 05 s"), (4800, "1 h 20 min")],
)
def test_durations_read_well(seconds, text):
    assert duration(seconds) == text


def test_a_silent_step_speaks_by_itself_and_gives_an_estimate():
    stream = io.StringIO()
    with LineProgress(stream) as progress:
        for _ in progress.track(range(4), "fusing"):
            time.sleep(0.8)
        with step(progress.track, "compiling"):
            time.sleep(2.3)
    text = stream.getvalue()
    assert "fusing: " in text
    assert "/4, about" in text
    assert "left" in text
    assert "compiling: " in text


def test_a_step_that_fails_is_forgotten():
    with LineProgress(io.StringIO()) as progress:
        with pytest.raises(ValueError, match="no"), step(progress.track, "failing"):
            raise ValueError("no")
        assert progress._steps == []
