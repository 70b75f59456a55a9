"""Environments over an interpreter that has torch already."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from env_samples import OFFLINE, make_wheels, recipe
from smr.cli.env import main
from smr.environment.envs.build import build
from smr.environment.envs.bundle import pack
from smr.environment.envs.check import passed
from smr.environment.envs.inside import versions_inside
from smr.environment.envs.lock import make_lock
from smr.environment.envs.options import Options
from smr.environment.envs.over import PATH_FILE, look_at, missing, missing_command, only
from smr.environment.envs.plan import read_plan
from smr.errors import SmrError


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the small torch, as a cluster's module would bring it."""
    root = tmp_path_factory.mktemp("base")
    make_wheels(root / "wheels")
    subprocess.run([sys.executable, "-m", "venv", root / "env"], check=True)
    program = root / "env" / "bin" / "python"
    argv = [program, "-m", "pip", "install", "-q", "--no-index", "--find-links", root / "wheels", "torch==2.13.0"]
    subprocess.run(argv, check=True, env=OFFLINE)
    return root


def test_torch_stays_and_only_what_is_missing_is_installed(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = str(base / "env" / "bin" / "python")
    (tmp_path / "tiny.json").write_text(json.dumps(recipe()))
    words = ["plan", "tiny-ext==1.0", "--recipe", str(tmp_path / "tiny.json"), "--elsewhere", "--wheel"]
    assert main([*words, "--over", program, "--out", str(tmp_path / "plan.toml")]) == 0
    assert program in capsys.readouterr().out
    plan = read_plan(tmp_path / "plan.toml")
    assert (plan.torch, plan.build, plan.over) == ("2.13.0", "cpu", program)

    options = Options(find_links=(str(base / "wheels"),))
    track, rows = build(plan, tmp_path / "prefix", options, given=OFFLINE)
    assert passed(rows), rows
    assert [path.name.split("-")[0] for path in track.wheels.glob("*.whl")] == ["tiny_ext"]
    ask = "import torch, tiny_ext; print(torch.__file__, tiny_ext.answer())"
    said = subprocess.run([track.python, "-c", ask], capture_output=True, text=True, check=True).stdout
    assert said.startswith(str(base / "env"))
    assert said.split()[-1] == "42"

    older = next((base / "env").glob("lib/*/site-packages")) / "tiny_ext-0.5.dist-info"
    older.mkdir()  # the interpreter has an older one, too; what counts is the one that is imported
    (older / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-ext\nVersion: 0.5\n")
    assert versions_inside(track, OFFLINE)["tiny-ext"] == "1.0"
    lock = make_lock(track, OFFLINE)
    assert [row["name"] for row in lock["packages"]] == ["tiny-ext"]
    assert lock["over"]["python"] == program
    assert lock["over"]["packages"]["torch"] == "2.13.0"
    with pytest.raises(SmrError, match="its torch is not among the wheels"):
        pack(track, lock, tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()

    other = replace(plan, torch="2.12.1")
    with pytest.raises(SmrError, match=r"has Python .* and torch 2\.13\.0 for the CPU; the plan was made for"):
        build(other, tmp_path / "prefix", options, given=OFFLINE)


def test_wishes_against_the_interpreter_are_refused(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = str(base / "env" / "bin" / "python")
    assert main(["plan", "kaolin", "--over", program, "--torch", "2.8.0", "--out", "never.toml"]) == 1
    assert "has torch 2.13.0, not 2.8.0" in capsys.readouterr().err
    assert not Path("never.toml").exists()


def test_interpreters_that_cannot_be_stood_over(tmp_path: Path) -> None:
    with pytest.raises(SmrError, match="there is no interpreter"):
        look_at(str(tmp_path / "none"), {})
    mute = tmp_path / "mute"
    mute.write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
    mute.chmod(0o755)
    with pytest.raises(SmrError, match="does not answer: broken"):
        look_at(str(mute), {})
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    with pytest.raises(SmrError, match="has no torch"):
        look_at(str(tmp_path / "bare" / "bin" / "python"), {})


def test_commands(tmp_path: Path, base: Path) -> None:
    collect = ["python", "-m", "pip", "wheel", "--wheel-dir", "w", "--find-links", "page", "torch==2.13.0", "scipy"]
    report = tmp_path / "report.json"
    asked = missing_command(collect, report)
    assert asked[:4] == ["python", "-m", "pip", "install"]
    assert asked[-4:] == ["--find-links", "page", "torch==2.13.0", "scipy"]
    assert only(collect, ["scipy==1.1"]) == [*collect[:6], "--no-deps", "--find-links", "page", "scipy==1.1"]
    assert only(collect, []) == ["true"]
    report.write_text(json.dumps({"install": [{"metadata": {"name": "torch", "version": "2.14.0"}}]}))
    (tmp_path / "tiny.json").write_text(json.dumps(recipe()))
    program = str(base / "env" / "bin" / "python")
    words = ["plan", "tiny-ext", "--recipe", str(tmp_path / "tiny.json"), "--elsewhere", "--over", program]
    assert main([*words, "--out", str(tmp_path / "plan.toml")]) == 0
    with pytest.raises(SmrError, match=r"pip would put torch 2\.14\.0 over"):
        missing(report, read_plan(tmp_path / "plan.toml"))
    assert PATH_FILE.endswith(".pth")
