"""`smr env` build, check, lock, pack, restore, run, export, try: with small wheels, without a network."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from env_samples import OFFLINE, make_wheels, recipe
from smr.cli.env import main
from smr.environment.envs import bundle as bundles
from smr.environment.envs import export, tracks, unpack
from smr.environment.envs.build import build, failed, find_python
from smr.environment.envs.bundle import pack, restore
from smr.environment.envs.check import passed
from smr.environment.envs.demands import Wishes
from smr.environment.envs.fits import refuse_where_it_cannot_work
from smr.environment.envs.launch import environment, loader_path
from smr.environment.envs.lock import make_lock
from smr.environment.envs.machine import Machine
from smr.environment.envs.options import Options
from smr.environment.envs.plan import Plan
from smr.environment.envs.planning import make_plan
from smr.environment.envs.prefix import Prefix, Track, claim_prefix, need_disk, only_one, open_prefix
from smr.environment.envs.preflight import Settings, build_settings, fitting_jobs, preflight
from smr.environment.envs.processes import end_leftovers, progress, run_logged
from smr.environment.envs.recipes import recipe_of
from smr.environment.envs.sources import bring, describe
from smr.environment.gather.collect import collect
from smr.environment.rules import Facts
from smr.errors import SmrError

FACTS = Path(__file__).parent / "environment"
PYTHON = f"3.{sys.version_info[1]}"
RECIPE = recipe_of(recipe())


def plan_of_version(version: str) -> Plan:
    plan = make_plan(RECIPE, Wishes(version, "2.13.0", "cpu", PYTHON, "wheel"), Machine(), own_index=True).plan
    assert plan is not None
    return plan


@dataclass(frozen=True)
class Made:
    prefix: Path
    track: Track
    wheels: Path
    bundle: Path
    sha256: str


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """One environment, built and packed."""
    root = tmp_path_factory.mktemp("env")
    make_wheels(root / "wheels")
    options = Options(find_links=(str(root / "wheels"),))
    track, rows = build(plan_of_version("1.0"), root / "prefix", options, given=OFFLINE)
    assert passed(rows), rows
    sha256 = pack(track, make_lock(track), root / "tiny.smr-env")
    return Made(root / "prefix", track, root / "wheels", root / "tiny.smr-env", sha256)


def here() -> dict[str, Any]:
    return collect(scan=False)


def test_an_environment_is_built_and_built_once(made: Made) -> None:
    said: list[str] = []
    options = Options(find_links=(str(made.wheels),))
    track, rows = build(plan_of_version("1.0"), made.prefix, options, given=OFFLINE, say=said.append)
    assert track.name == made.track.name
    assert [text for text in said if text.endswith("done already")] == [
        f"{step}: done already" for step in ("environment", "wheels", "installed")
    ]
    assert {row.name: row.status for row in rows}["answers"] == "ok"
    assert {path.name for path in made.prefix.iterdir()} <= {"cache", "current", "smr-env.json", "tracks", ".lock"}
    lock = json.loads(made.track.lock_file.read_text())
    assert {row["name"]: row["version"] for row in lock["packages"]} == {"tiny-ext": "1.0", "torch": "2.13.0"}
    assert lock["needs"]["machine"] == here()["system"]["machine"]


def test_restored_without_a_network_and_run(made: Made, tmp_path: Path) -> None:
    dead = {**os.environ, "HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9"}
    track, rows = restore(made.bundle, tmp_path / "new", sha256=made.sha256, facts=here(), given=dead)
    assert passed(rows)
    assert json.loads(track.lock_file.read_text())["packages"] == make_lock(track)["packages"]
    code = "import os, sys, tiny_ext; print(tiny_ext.answer(), os.environ.get('LD_LIBRARY_PATH'), sys.prefix)"
    call = f"from smr.cli.env import main; main(['run', {str(tmp_path / 'new')!r}, '--', 'python', '-c', {code!r}])"
    given = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": str(tmp_path)}
    environ = {**given, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, env=environ)
    assert done.stdout.split() == ["42", "None", str(track.env)], done.stderr


def test_the_same_environment_gives_the_same_bundle(made: Made, tmp_path: Path) -> None:
    assert pack(made.track, make_lock(made.track), tmp_path / "again") == made.sha256
    assert (tmp_path / "again").read_bytes() == made.bundle.read_bytes()


Change = Callable[[dict[str, bytes]], None]


def _changed_wheel(files: dict[str, bytes]) -> None:
    name = next(name for name in files if name.startswith("wheels/torch"))
    files[name] = files[name][:-1] + bytes([files[name][-1] ^ 1])


def _lock(**changes: Any) -> Change:
    def change(files: dict[str, bytes]) -> None:
        lock = json.loads(files["lock.json"])
        for path, value in changes.items():
            target = lock
            *parents, last = path.split("__")
            for part in parents:
                target = target[int(part) if part.isdigit() else part]
            target[last] = value
        files["lock.json"] = json.dumps(lock).encode()

    return change


def _extra(files: dict[str, bytes]) -> None:
    files["../../escape"] = b"x"


def _gone(files: dict[str, bytes]) -> None:
    del files[next(name for name in files if name.startswith("wheels/tiny"))]


def _no_lock(files: dict[str, bytes]) -> None:
    del files["lock.json"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_changed_wheel, "is not what its lock says"),
        (_extra, "which its lock does not name"),
        (_gone, "does not hold tiny_ext"),
        (_no_lock, "has no lock.json"),
        (_lock(packages__0__file="../../x.whl"), "which is no wheel"),
        (_lock(packages__0__name="--index-url=x"), "which is no wheel"),
        (_lock(packages__0__size=1), "does not hold"),
        (_lock(packages__0__sha256="0" * 64), "is not what its lock says"),
        (_lock(version=9), "packed by a newer smr"),
        (_lock(plan__version=9), "this smr knows plans up to"),
        (_lock(plan__package="../up"), "is not allowed"),
        (_lock(plan="x"), "cannot be read"),
    ],
)
def test_a_tampered_bundle_is_refused(made: Made, tmp_path: Path, change: Change, said: str) -> None:
    with zipfile.ZipFile(made.bundle) as file:
        files = {info.filename: file.read(info) for info in file.infolist()}
    change(files)
    with zipfile.ZipFile(tmp_path / "bad", "w") as file:
        for name, data in files.items():
            file.writestr(name, data)
    with pytest.raises(SmrError, match=said):
        restore(tmp_path / "bad", tmp_path / "new", facts=here(), given=OFFLINE)
    assert not (tmp_path / "new" / "current").exists()
    assert not (tmp_path.parent / "escape").exists()


def test_bundles_that_are_none(made: Made, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no zip")
    (tmp_path / "half").write_bytes(made.bundle.read_bytes()[: made.bundle.stat().st_size // 2])
    for name, said in (("text", "is not a bundle"), ("half", "is not a bundle"), ("absent", "cannot read")):
        with pytest.raises(SmrError, match=said):
            restore(tmp_path / name, tmp_path / "new", facts=here(), given=OFFLINE)
    with pytest.raises(SmrError, match="has the hash"):
        restore(made.bundle, tmp_path / "new", sha256="0" * 64, facts=here(), given=OFFLINE)
    assert not (tmp_path / "new").exists()


def test_refused_where_it_cannot_work_before_anything_is_written(made: Made, tmp_path: Path) -> None:
    old = here()
    old["system"]["glibc"] = "2.17"
    with pytest.raises(SmrError, match=r"need glibc 2\.28, this system has 2\.17 \[glibc_too_old\]"):
        restore(made.bundle, tmp_path / "new", facts=old, given=OFFLINE)
    assert not (tmp_path / "new").exists()
    lock: dict[str, Any] = {
        "needs": {"os": "linux", "machine": "x86_64", "glibc": "2.28", "cuda": "12.8"},
        "extension": {"cubins": ["sm_80", "sm_90"], "ptx": ["compute_90"]},
        "plan": {"package": "kaolin"},
    }
    facts = json.loads((FACTS / "h200.json").read_text())
    refuse_where_it_cannot_work(lock, facts)
    for change, said in (
        ({"driver": {"version": "470.82.01", "gpus": []}}, r"driver 470\.82\.01 is older"),
        ({"driver": {"version": "580.65", "gpus": [{"capability": "7.5"}]}}, r"this GPU is 7\.5 \[no_kernel_image\]"),
        ({"driver": {"version": "525.60.13", "gpus": [{"capability": "12.0"}]}}, r"this GPU is 12\.0"),
        ({"system": {"os": "linux", "machine": "aarch64", "glibc": "2.39"}}, "packed for x86_64, this is aarch64"),
        ({"system": {"os": "darwin", "machine": "x86_64"}}, "packed for linux, this is darwin"),
    ):
        with pytest.raises(SmrError, match=said):
            refuse_where_it_cannot_work(lock, {**facts, **change})
    refuse_where_it_cannot_work(lock, {**facts, "driver": {"version": "580.65", "gpus": [{"capability": "12.0"}]}})
    refuse_where_it_cannot_work(lock, {**facts, "driver": {"gpus": []}})  # a login node


def test_the_second_track(made: Made, tmp_path: Path) -> None:
    prefix = Prefix(tmp_path / "p")
    claim_prefix(prefix.folder)
    shutil.copytree(made.track.folder, prefix.folder / "tracks" / made.track.name, symlinks=True)
    current = prefix.track(made.track.name)
    prefix.switch(current)
    with pytest.raises(SmrError, match="nothing was in use"):
        tracks.rollback(prefix)
    with pytest.raises(SmrError, match="no finished track waits"):
        tracks.promote(prefix, "")
    planned = tracks.plan_next(RECIPE, "1.1", current.plan)
    assert planned.possible
    assert planned.plan is not None
    assert replace(planned.plan, wishes={}) == replace(plan_of_version("1.1"), wishes={})
    os.environ.update(PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull)
    try:
        options = Options(find_links=(str(made.wheels),))
        command = "python -c 'print(sum(range(10**6)))'"
        before, after = tracks.try_plan(prefix, current, planned.plan, options, command)
    finally:
        del os.environ["PIP_NO_INDEX"], os.environ["PIP_CONFIG_FILE"]
    assert before.healthy
    assert after.healthy
    assert before.command["output_sha256"] == after.command["output_sha256"]
    assert "same output" in tracks.verdict(before, after)
    linked = prefix.linked()
    assert linked is not None
    assert linked.name == current.name  # nothing was switched
    assert tracks.promote(prefix, "1.1").name == planned.plan.track
    assert os.readlink(prefix.folder / "current").endswith(planned.plan.track)
    assert tracks.rollback(prefix).name == current.name
    assert tracks.rollback(prefix).name == planned.plan.track
    worse = replace(after, command={**after.command, "exit_code": 1})
    assert tracks.verdict(before, worse).startswith("stay")


def test_check_tells_what_was_changed_by_hand(made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(made.prefix)]) == 0
    capsys.readouterr()
    copy = tmp_path / "copy"
    shutil.copytree(made.track.folder, copy, symlinks=True)
    site = next((copy / "env" / "lib").glob("python3*/site-packages"))
    (site / "tiny_ext" / "_C.so").unlink()
    (site / "tiny_ext" / "__init__.py").write_text("raise ImportError('broken')")
    os.rename(site / "torch-2.13.0.dist-info", site / "torch-2.12.0.dist-info")
    (site / "torch-2.12.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.12.0\n")
    assert main(["check", str(copy)]) == 1
    shown = capsys.readouterr().out
    assert "has no compiled extension" in shown
    assert "broken" in shown
    with pytest.raises(SmrError, match=r"torch 2\.12\.0 is installed, the wheel of this environment is 2\.13\.0"):
        make_lock(Track(copy))


def test_folders_that_are_not_ours(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    (tmp_path / "file").write_text("x")
    (tmp_path / "newer").mkdir()
    (tmp_path / "newer" / "smr-env.json").write_text('{"version": 9}')
    for name, said in (("mine", "was not made by"), ("file", "is a file"), ("newer", "made by a newer smr")):
        with pytest.raises(SmrError, match=said):
            claim_prefix(tmp_path / name)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.tex"]
    with pytest.raises(SmrError, match="was not made by"):
        open_prefix(tmp_path / "mine")
    empty = claim_prefix(tmp_path / "empty")
    with pytest.raises(SmrError, match="no environment was finished"):
        open_prefix(tmp_path / "empty")
    with only_one(empty), pytest.raises(SmrError, match="another `smr env` is at work"), only_one(empty):
        pass
    with pytest.raises(SmrError, match=r"needs about 1000000\.0 GB"):
        need_disk(tmp_path / "not" / "there", 1e6, "this")


def test_steps_after_one_that_is_done_anew_are_forgotten(tmp_path: Path) -> None:
    track = Track(tmp_path)
    for step in ("environment", "wheels", "installed"):
        track.record(step, "a")
    track.record("wheels", "b")
    assert track.steps() == {"environment": "a", "wheels": "b"}
    (tmp_path / "steps.json").write_text("[half")  # as no write of ours leaves it
    assert track.steps() == {}


def test_a_failed_step_is_explained_and_the_current_environment_stays(made: Made, tmp_path: Path) -> None:
    plan = replace(plan_of_version("1.1"), requires=("does-not-exist-anywhere",))
    with pytest.raises(SmrError, match="no wheels could be had"):
        build(plan, made.prefix, Options(find_links=(str(made.wheels),)), given=OFFLINE)
    track = Prefix(made.prefix).linked()
    assert track is not None
    assert track.name == made.track.name
    log = tmp_path / "build.log"
    log.write_text("nvcc fatal   : Unsupported gpu architecture 'compute_89'\nerror: command 'nvcc' failed\n")
    error = failed("kaolin could not be built (exit code 1)", log, {"nvcc": "11.3", "gpu": "RTX 4090"})
    assert "nvcc_unsupported_arch" in error.cause
    assert "compute_89" in error.cause
    assert "goes on from here" in error.cure
    log.write_text(f"{'x' * 80}\ntwo.cpp:1:10: fatal error: no_such.h: No such file or directory\nnoise\n")
    assert "two.cpp:1:10: fatal error: no_such.h" in failed("x", log, {}).cause
    log.write_text("something unheard of\n")
    assert "something unheard of" in failed("x", log, {}).cause


def test_preflight_speaks_the_doctors_words() -> None:
    facts = json.loads((FACTS / "h200.json").read_text())
    plan = replace(plan_of_version("1.0"), build="cu130", method="source", gcc=("9.3", "15"), architectures=("9.0",))
    notes = list(preflight(plan, facts))
    assert all(note.startswith("note: ") for note in notes)
    root = facts["toolkits"]["build"]["root"]
    other = json.loads(json.dumps(facts).replace('"version": "13.0', '"version": "12.4'))
    assert root
    for changed, said in (
        (other, "cuda_build_mismatch"),
        ({**facts, "compilers": {**facts["compilers"], "python_h": False}}, "python_h_missing"),
        ({**facts, "compilers": {}}, "no C\\+\\+ compiler"),
        ({**facts, "compilers": {**facts["compilers"], "g++": {"version": "8.4"}}}, "gcc 8.4 is too old"),
        ({**facts, "compilers": {**facts["compilers"], "g++": {"version": "19.1"}}}, "host_compiler_unsupported"),
    ):
        with pytest.raises(SmrError, match=said):
            list(preflight(plan, changed))
    assert fitting_jobs(Facts({"system": {"cores": 64, "memory_gb": 16}}), 4.0) == 4
    assert fitting_jobs(Facts({"system": {"cores": 2, "memory_gb": 1}}), 4.0) == 1


def test_headers_that_a_bare_toolkit_lacks_come_from_torchs_wheels(tmp_path: Path) -> None:
    root = tmp_path / "cuda-13.0"
    (root / "include").mkdir(parents=True)
    absent = {"cusparse.h": False, "cublas_v2.h": False, "cusolverDn.h": False}
    facts = json.loads((FACTS / "h200.json").read_text())
    toolkit = {**facts["toolkits"]["build"], "root": str(root), "headers": absent, "nvcc": True, "version": "13.0.88"}
    facts["toolkits"] = {"build": toolkit, "found": [toolkit]}
    plan = replace(plan_of_version("1.0"), build="cu130", method="source", gcc=("9.3", "15"), architectures=("9.0",))
    track = Track(tmp_path / "track")
    include = track.env / "lib" / "python3.11" / "site-packages" / "nvidia" / "cu13" / "include"
    include.mkdir(parents=True)

    def settings() -> Settings:
        return build_settings(plan, facts, track, Options(compiler_cache="none"), tmp_path / "cache", "/usr/bin")

    for name in ("cusparse.h", "cublas_v2.h"):  # one is missing there, too: nothing is lent
        (include / name).write_text("")
    assert "CPATH" not in settings().variables
    with pytest.raises(SmrError, match="missing_cuda_headers"):
        list(preflight(plan, facts))

    (include / "cusolverDn.h").write_text("")
    assert settings().variables["CPATH"] == str(include)
    assert settings().headers_of_wheels
    notes = list(preflight(plan, facts, lent_headers=True))
    assert any("those of torch's own wheels are used" in note for note in notes)

    for name in absent:  # a whole toolkit needs none
        (root / "include" / name).write_text("")
    assert "CPATH" not in settings().variables


def ends(process: int, within_s: float = 10.0) -> bool:
    """Whether a killed process is gone, or a zombie, before long."""
    stat = Path(f"/proc/{process}/stat")
    for _ in range(int(within_s / 0.05)):
        try:
            if stat.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_what_a_killed_call_left_running_is_ended(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    inside = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path / "inside", start_new_session=True)
    outside = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path.parent, start_new_session=True)
    children = Path(f"/proc/{inside.pid}/task/{inside.pid}/children")
    while not children.read_text().strip():
        assert inside.poll() is None
    child = int(children.read_text())
    for name, process in (("build", inside), ("other", outside)):
        (tmp_path / f"{name}.pid").write_text(str(process.pid))
    (tmp_path / "odd.pid").write_text("no number")
    try:
        assert end_leftovers(tmp_path, tmp_path / "inside") == 2
        assert inside.wait(10) == -signal.SIGKILL
        assert ends(child)
        assert outside.poll() is None
        assert not list(tmp_path.glob("*.pid"))
    finally:
        os.killpg(outside.pid, signal.SIGKILL)
        outside.wait()


def test_interpreters() -> None:
    assert find_python(PYTHON, "", os.environ)
    with pytest.raises(SmrError, match=r"there is no Python 3\.6 here"):
        find_python("3.6", "", {"PATH": ""})
    with pytest.raises(SmrError, match=r"the plan needs 3\.6"):
        find_python("3.6", sys.executable, os.environ)


def test_what_the_loader_gets(made: Made, tmp_path: Path) -> None:
    for name, files in {
        "driver": ["libcuda.so.1"],
        "cuda": ["libcuda.so.1", "libcudart.so.12"],
        "x": ["liba.so"],
    }.items():
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / file).touch()
    given = ":".join(str(tmp_path / name) for name in ("x", "driver", "cuda", "absent", "driver"))
    assert loader_path(given) == [str(tmp_path / "driver")]
    environ = environment(made.track, {"PATH": "/bin", "LD_LIBRARY_PATH": given, "PYTHONPATH": "/x", "OTHER": "1"})
    assert environ["PATH"] == f"{made.track.env}/bin:/bin"
    assert environ["LD_LIBRARY_PATH"] == str(tmp_path / "driver")
    assert "PYTHONPATH" not in environ
    assert environ["OTHER"] == "1"
    assert "LD_LIBRARY_PATH" not in environment(made.track, {"LD_LIBRARY_PATH": "/opt/cuda/lib64"})


def exported(made: Made, **changes: Any) -> export.Exported:
    lock = json.loads(made.track.lock_file.read_text())
    plan = replace(made.track.plan, **changes)
    return export.Exported(plan, lock, "/srv/my envs/it's $HOME %n", "/usr/lib/wsl/lib")


def test_exports_are_what_their_tools_read(made: Made, tmp_path: Path) -> None:
    one = exported(made, build="cu126", torch_index="https://example.org/whl")
    texts = {name: function(one) for name, (_, function) in export.FORMATS.items()}
    (tmp_path / "job.sh").write_text(texts["slurm"])
    subprocess.run(["bash", "-n", tmp_path / "job.sh"], check=True)
    assert "#SBATCH --gres=gpu:1" in texts["slurm"]
    kernel = json.loads(texts["jupyter"])
    assert kernel["argv"][0] == f"{one.env}/bin/python"
    assert kernel["argv"][-1] == "{connection_file}"
    assert kernel["env"]["LD_LIBRARY_PATH"] == "/usr/lib/wsl/lib"
    packaging = pytest.importorskip("packaging.requirements")
    lines = [line for line in texts["requirements"].splitlines() if line[0] not in "#-"]
    assert {packaging.Requirement(line.split(" --hash")[0]).name for line in lines} == {"torch", "tiny-ext"}
    for name in ("conda", "github-actions", "gitlab-ci", "systemd", "dockerfile", "apptainer"):
        assert texts[name].strip()


def test_exported_yaml(made: Made) -> None:
    yaml = pytest.importorskip("yaml")
    one = exported(made)
    conda = yaml.safe_load(export.conda(one))
    assert f"python={PYTHON}.*" in conda["dependencies"]
    assert "torch==2.13.0" in conda["dependencies"][-1]["pip"]
    job = yaml.safe_load(export.gitlab_ci(one))
    assert job["tiny-ext-1-0"]["script"][0] == "pip install smr3d"
    steps = yaml.safe_load(export.github_actions(one))["jobs"]["test"]["steps"]
    assert steps[1]["with"]["python-version"] == PYTHON
    assert steps[-2]["run"] == "smr env check .environment"


def test_exported_dockerfile(made: Made, tmp_path: Path) -> None:
    parser = pytest.importorskip("dockerfile_parse")
    found = parser.DockerfileParser(path=str(tmp_path))
    found.content = export.dockerfile(exported(made))
    assert next(row["instruction"] for row in found.structure if row["instruction"] != "COMMENT") == "FROM"
    assert found.baseimage == f"python:{PYTHON}-slim"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze here")
def test_exported_service(made: Made, tmp_path: Path) -> None:
    one = replace(exported(made), prefix=str(made.prefix))
    unit = tmp_path / "tiny.service"
    unit.write_text(export.systemd(one))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert "tiny.service" not in done.stderr, done.stderr
    assert '"/srv/my envs/it\'s $$HOME %%n/current/env/bin/python"' in export.systemd(exported(made))


def test_export_from_the_command_line(made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(made.prefix), "--slurm", "--out", str(tmp_path / "job.sh")]) == 0
    done = subprocess.run(
        ["bash", tmp_path / "job.sh", "python", "-c", "import tiny_ext; print(tiny_ext.answer())"],
        capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": "/nowhere"},
    )  # fmt: skip
    assert done.stdout.strip() == "42", done.stderr
    assert main(["export", str(made.prefix), "--requirements"]) == 0
    assert "--hash=sha256:" in capsys.readouterr().out
    assert main(["export", str(made.prefix)]) == 2


def _tar(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as file:
        for info, data in members:
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    return path


def _member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ([(_member("../out"), b"x")], "leads out of it"),
        ([(_member("/etc/out"), b"x")], "leads out of it"),
        ([(_member("a/../../out"), b"x")], "leads out of it"),
        ([(_member("a/link", tarfile.SYMTYPE, "../../out"), b"")], "leads out of it"),
        ([(_member("link", tarfile.SYMTYPE, "/etc"), b"")], "leads out of it"),
        ([(_member("d", tarfile.SYMTYPE, "."), b""), (_member("d/x"), b"x")], "through its own link"),
        ([(_member("pipe", tarfile.FIFOTYPE), b"")], "neither a file"),
        ([(_member("hard", tarfile.LNKTYPE, "../out"), b"")], "neither a file|leads out"),
        ([(_member("a"), b"x"), (_member("a"), b"y")], "cannot be unpacked"),
    ],
)
def test_archives_that_lead_out_are_refused(tmp_path: Path, members: Any, said: str) -> None:
    archive = _tar(tmp_path / "bad.tar.gz", *members)
    with pytest.raises(SmrError, match=said):
        unpack.unpack(archive, tmp_path / "inside" / "folder")
    assert not (tmp_path / "inside" / "folder").exists()
    assert not (tmp_path / "inside" / "out").exists()


def test_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = _tar(
        tmp_path / "good.tar.gz", (_member("p-1/setup.py"), b"x"), (_member("p-1/l", tarfile.SYMTYPE, "setup.py"), b"")
    )
    assert (unpack.unpack(good, tmp_path / "good") / "l").read_text() == "x"
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as file:
        info = zipfile.ZipInfo("link")
        info.external_attr = 0o120777 << 16
        file.writestr(info, "/etc/passwd")
    with pytest.raises(SmrError, match="holds the link"):
        unpack.unpack(tmp_path / "link.zip", tmp_path / "zip")
    (tmp_path / "cut.tar.gz").write_bytes(good.read_bytes()[:40])
    with pytest.raises(SmrError, match="cannot be unpacked"):
        unpack.unpack(tmp_path / "cut.tar.gz", tmp_path / "cut")
    monkeypatch.setattr(unpack, "MAX_BYTES", 10)
    big = _tar(tmp_path / "big.tar.gz", (_member("a"), b"x" * 11))
    with pytest.raises(SmrError, match="more than"):
        unpack.unpack(big, tmp_path / "big")


def test_sources(tmp_path: Path) -> None:
    plan = replace(plan_of_version("1.0"), method="source", submodules=("third_party/cub",))
    mine = tmp_path / "mine"
    (mine / "build").mkdir(parents=True)
    (mine / "third_party" / "cub").mkdir(parents=True)
    for name in ("setup.py", "a.cpp", "old.o", "_C.so", "build/x.o"):
        (mine / name).write_text(name)
    before = {path: path.read_text() for path in mine.rglob("*") if path.is_file()}
    there = tmp_path / "there"
    log, quiet = tmp_path / "log", lambda text: None
    assert bring(plan, str(mine), there, log, os.environ, quiet) == ""
    assert sorted(path.name for path in there.iterdir()) == ["a.cpp", "setup.py", "third_party"]
    assert {path: path.read_text() for path in mine.rglob("*") if path.is_file()} == before
    with pytest.raises(SmrError, match="submodule third_party/cub is empty"):
        describe(there, plan, "")
    (there / "third_party" / "cub" / "x").touch()
    first = describe(there, plan, "").tree
    (there / "a.cpp").write_text("other")
    assert describe(there, plan, "").tree != first
    (there / "setup.py").unlink()
    with pytest.raises(SmrError, match=r"neither setup\.py nor"):
        describe(there, plan, "")
    for given, said in (
        ("", "names no repository"),
        ("ext::sh", "there is no source at"),
        ("file:///nowhere", "git could not"),
    ):
        with pytest.raises(SmrError, match=said):
            bring(plan, given, tmp_path / "other", log, os.environ, quiet)


def test_long_programs(tmp_path: Path) -> None:
    assert progress(b"[1/23] c++ x\n[7/28] c++ y\n", 70.0) == "1:10, 7 of 28, about 3:30 left"
    assert progress(b"", 70.0, 2.0) == "1:10 of about 2:00"
    log = tmp_path / "log"
    said: list[str] = []
    code = "import time; print('[1/2]', flush=True); time.sleep(1.8); raise SystemExit(3)"
    argv = [sys.executable, "-c", code]
    assert run_logged(argv, log=log, environ=os.environ, cwd=tmp_path, say=said.append, what="it") == 3
    assert said
    assert "1 of 2" in said[0]
    assert run_logged([sys.executable, "-c", ""], log=log, environ={}, cwd=tmp_path, say=said.append, what="it") == 0
    assert (tmp_path / "log.1").is_file()
    with pytest.raises(SmrError, match="cannot be started"):
        run_logged(["/nowhere/x"], log=log, environ={}, cwd=tmp_path, say=said.append, what="it")


def test_hash_of_a_bundle_is_of_its_lock(made: Made) -> None:
    with zipfile.ZipFile(made.bundle) as file:
        assert file.namelist()[0] == "lock.json"
        assert hashlib.sha256(file.read("lock.json")).hexdigest() == made.sha256
    assert bundles.MAX_WHEELS >= 1000
