"""`smr doctor` from the command line, its files, and the one-file doctor."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from smr.cli.doctor import main
from smr.environment import documents, vitals
from smr.environment.commands import MAX_OUTPUT, Outcome, run
from smr.environment.explain import context_of
from smr.environment.faults.page import faults_page
from smr.environment.gather import driver, imports, interpreter, system, toolkits
from smr.environment.gather.collect import collect
from smr.environment.rules import Facts, diagnose
from smr.errors import SmrError

ROOT = Path(__file__).parents[1]
HEALTHY = ROOT / "tests" / "environment" / "healthy.json"


@pytest.fixture
def sick(tmp_path: Path) -> Path:
    facts = json.loads(HEALTHY.read_text())
    facts["extensions"][0]["torch"].update(absent=["_ZN3c104cuda9SetDeviceEi"], low="2.1", high="2.2")
    (tmp_path / "sick.json").write_text(json.dumps(facts))
    return tmp_path / "sick.json"


def test_exit_codes(sick: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["--facts", str(HEALTHY)]) == 0
    assert "Nothing blocks." in capsys.readouterr().out
    assert main(["--facts", str(sick)]) == 1
    assert "was built for torch 2.1 to 2.2" in capsys.readouterr().out
    assert main(["--facts", str(sick), "--for", "reconstruct"]) == 0
    assert main(["--nonsense"]) == 2
    assert main(["--help"]) == 0
    assert main(["explain"]) == 2
    assert main(["--facts", str(tmp_path / "absent.json")]) == 1
    assert "fix:" in capsys.readouterr().err


def test_json_junit_and_markdown(sick: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--facts", str(sick), "--json", "--junit", str(tmp_path / "j.xml")]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["version"] == 1
    assert document["healthy"] is False
    assert [f["kind"] for f in document["findings"]] == ["torch_abi_mismatch"]
    suite = ElementTree.parse(tmp_path / "j.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    assert main(["--facts", str(sick), "--markdown"]) == 1
    assert "```sh" in capsys.readouterr().out
    assert main(["--facts", str(HEALTHY), "--junit", str(tmp_path / "h.xml")]) == 0
    assert ElementTree.parse(tmp_path / "h.xml").getroot().get("failures") == "0"


def test_facts_give_the_same_findings_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--json", "--save-facts", str(tmp_path / "f.json")])
    here = json.loads(capsys.readouterr().out)
    assert main(["--json", "--facts", str(tmp_path / "f.json")]) == code
    assert json.loads(capsys.readouterr().out)["findings"] == here["findings"]


def test_diff_says_what_matters(sick: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", str(HEALTHY), str(sick)]) == 0
    out = capsys.readouterr().out
    assert "matters  extensions" in out
    assert "only in" in out
    assert main(["diff", str(HEALTHY), str(HEALTHY)]) == 0
    assert "The two are the same" in capsys.readouterr().out
    rows = documents.differences(
        {"loader": {"library_path": ["/a"]}, "system": {"kernel": "1", "cores": 1}},
        {"loader": {"library_path": []}, "system": {"kernel": "2", "cores": 2}},
    )
    assert [(row["fact"], row["matters"]) for row in rows] == [("loader.library_path", True), ("system.cores", False)]


def test_explain_from_a_file_with_facts(sick: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log").write_text("RuntimeError: CUDA error: no kernel image is available for execution on the device")
    assert main(["explain", str(tmp_path / "log"), "--facts", str(sick), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["version"] == 1
    assert document["causes"][0]["kind"] == "no_kernel_image"
    assert "8.6" in document["causes"][0]["why"]
    (tmp_path / "log").write_text("all is well")
    assert main(["explain", str(tmp_path / "log")]) == 1
    assert main(["explain", str(tmp_path / "absent")]) == 1
    assert "cannot read" in capsys.readouterr().err


def test_context_from_facts() -> None:
    context = context_of(json.loads(HEALTHY.read_text()))
    assert context["torch"] == "2.6.0+cu124"
    assert context["nvcc"] == "12.4.1"
    assert context["conda"] is False


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "is not a facts file"), ("[]", "no version"), ("{}", "no version"), ("[" * 100_000, "is not a facts file")],
)
def test_facts_files_that_are_none(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "f.json").write_text(text)
    with pytest.raises(SmrError, match=words):
        documents.read_facts(tmp_path / "f.json")


def test_facts_of_a_newer_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f.json").write_text(json.dumps({"version": 99, "driver": "another form", "extensions": 3}))
    assert main(["--facts", str(tmp_path / "f.json")]) == 0
    assert "newer smr" in capsys.readouterr().err


def test_this_machine_gets_no_false_alarm() -> None:
    document = collect()
    assert [f.what for f in diagnose(document) if f.level == "blocks"] == []
    text = json.dumps(document)
    assert str(Path.home()) + "/" not in text or str(Path.home()) == "/"


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; from smr.cli.doctor import main; main(['--quick']); "
        "print(sorted({m.split('.')[0] for m in sys.modules}))"
    )
    outcome = run([sys.executable, "-c", code], limit_s=60.0)
    loaded = set(ast.literal_eval(outcome.stdout.strip().splitlines()[-1]))
    assert not loaded & {"numpy", "torch", "warp", "tyro", "jaxtyping", "scipy", "trimesh", "pxr", "PIL"}


def test_a_program_that_hangs_crashes_or_talks_too_much() -> None:
    assert run([sys.executable, "-c", "import time; time.sleep(60)"], limit_s=0.5).status == "timeout"
    crash = run([sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"])
    assert crash.sentence() == "died with SIGSEGV"
    assert len(run([sys.executable, "-c", "print('x' * 10**7)"]).stdout) == MAX_OUTPUT
    assert run(["/no/such/program"]).status == "missing"
    assert run([sys.executable, "-c", "raise SystemExit(3)"]).sentence() == "ended with exit code 3"


def answers(**given: Outcome) -> Any:
    """A runner that answers by the program's name."""

    def runner(argv: Any, *, limit_s: float = 10.0, text: str = "") -> Outcome:
        return given.get(Path(argv[0]).name.split("3")[0].split(".")[0], Outcome("missing", "no such file", "", ""))

    return runner


def test_driver_facts(tmp_path: Path) -> None:
    smi = Outcome("ok", "0", "NVIDIA H200, 580.65.06, 9.0, 143771, Disabled\n", "")
    probe = Outcome(
        "ok",
        "0",
        json.dumps(
            {"libcuda": True, "cuda": "13.0", "cuinit": 0, "devices": [{"name": "NVIDIA H200", "capability": "9.0"}]}
        ),
        "",
    )
    facts = driver.driver(run=answers(**{"nvidia-smi": smi, "python": probe}), root=tmp_path)
    assert facts["version"] == "580.65.06"
    assert facts["gpus"] == [{"name": "NVIDIA H200", "capability": "9.0", "memory_mib": 143771, "mig": False}]
    assert facts["cuda"] == "13.0"
    old = Outcome("exit", "2", 'Field "compute_cap" is not a valid field to query.', "")
    calls: list[Any] = []

    def runner(argv: Any, *, limit_s: float = 10.0, text: str = "") -> Outcome:
        calls.append(argv)
        if argv[0] != "nvidia-smi":
            return Outcome("timeout", "10", "", "")
        return old if "compute_cap" in argv[1] else Outcome("ok", "0", "Tesla T4, 418.39\n", "")

    facts = driver.driver(run=runner, root=tmp_path)
    assert facts["gpus"][0]["capability"] == "7.5"
    assert facts["cuda_probe"] == "timeout"


def test_a_driver_that_hangs_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "nvidia-smi"
    script.write_text("#!/bin/sh\nsleep 100\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    facts = driver.driver(root=tmp_path, limit_s=1.0)
    assert facts["nvidia_smi"] == "timeout"
    assert [finding.kind for finding in diagnose({"driver": facts})] == ["driver_hangs"]


def test_a_package_that_crashes_on_import_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, code in (
        ("crashing", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"),
        ("raising", "1 / 0"),
        ("fine", ""),
    ):
        (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = diagnose({"imports": imports.imports(("crashing", "raising", "fine"))})
    assert [(finding.kind, finding.what) for finding in found] == [
        ("crash_on_import", "died with SIGSEGV while importing crashing"),
        ("import_fails", "import raising: ZeroDivisionError: division by zero"),
    ]


def test_the_error_of_an_import_is_explained() -> None:
    says = "ImportError: libGL.so.1: cannot open shared object file: No such file or directory"
    found = diagnose({"imports": [{"module": "open3d", "status": "exit", "sentence": "", "says": says}]})
    assert [(finding.kind, finding.sure) for finding in found] == [("gl_egl_missing", "likely")]


def test_what_an_extension_gets_is_listed() -> None:
    lines = documents.extension_lines(Facts(json.loads(HEALTHY.read_text())))
    assert "  built for torch 2.6, old C++ ABI" in lines
    assert "  libstdc++.so.6 => /usr/lib/x86_64-linux-gnu/libstdc++.so.6 (ld.so.cache)" in lines
    assert any(line.startswith("  GPU code: sm_70") for line in lines)


def test_toolkit_of_a_build(tmp_path: Path) -> None:
    for version in ("11.8", "12.4"):
        folder = tmp_path / f"cuda-{version}"
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "nvcc").touch(mode=0o755)
        (folder / "version.json").write_text(json.dumps({"cuda": {"version": version + ".1"}}))
    environ = {"PATH": str(tmp_path / "cuda-11.8" / "bin")}
    facts = toolkits.toolkits(environ)
    assert facts["build"]["root"].endswith("cuda-11.8")
    assert facts["build"]["why"].startswith("nvcc on PATH")
    facts = toolkits.toolkits({**environ, "CUDA_HOME": str(tmp_path / "cuda-12.4")})
    assert facts["build"]["why"] == "CUDA_HOME"
    assert {one["version"] for one in facts["found"]} >= {"11.8.1", "12.4.1"}
    assert next(one for one in facts["found"] if one["version"] == "11.8.1")["newest_gcc"] == 11


def test_places(tmp_path: Path) -> None:
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/osrelease").write_text("5.15.90.1-microsoft-standard-WSL2")
    device = tmp_path / "sys/bus/pci/devices/0000:01:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x10de\n")
    (device / "class").write_text("0x030000\n")
    facts = system.place({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0", "HOME": str(tmp_path)}, tmp_path)
    assert facts["wsl"]
    assert facts["pci_nvidia"] == 1
    assert facts["slurm"]["gpus"] == "0"
    kernel = tmp_path / ".local/share/jupyter/kernels/old"
    kernel.mkdir(parents=True)
    (kernel / "kernel.json").write_text(json.dumps({"argv": ["/gone/bin/python", "-m", "ipykernel_launcher"]}))
    facts = system.place({"HOME": str(tmp_path)}, tmp_path)
    assert (
        facts["jupyter"]["kernels"][-1]["python"] == "/gone/bin/python"
        or facts["jupyter"]["kernels"][0]["python"] == "/gone/bin/python"
    )


def test_packages_and_duplicates(tmp_path: Path) -> None:
    for folder, version in (("a", "2.4.0"), ("b", "2.6.0")):
        info = tmp_path / folder / f"torch-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "INSTALLER").write_text("conda\n")
    (tmp_path / "a" / "torch").mkdir()
    (tmp_path / "a" / "torch" / "version.py").write_text(
        "__version__ = '2.4.0+cu121'\ncuda: Optional[str] = '12.1'\nhip = None\n"
    )
    sites = (tmp_path / "a", tmp_path / "b", tmp_path / "absent")
    facts = interpreter.packages(sites)
    assert facts["watched"]["torch"]["version"] == "2.4.0"
    assert facts["watched"]["torch"]["installer"] == "conda"
    assert list(facts["duplicates"]) == ["torch"]
    assert len(facts["unreadable"]) == 1
    assert interpreter.torch_facts(sites) == {
        "version": "2.4.0+cu121",
        "cuda": "12.1",
        "hip": "",
        "folder": str(tmp_path / "a" / "torch"),
    }


def test_vital_signs_that_are_not_installed_are_left_out() -> None:
    def runner(argv: Any, *, limit_s: float = 10.0, text: str = "") -> Outcome:
        return Outcome("exit", "77", "", "")

    assert list(vitals.vital_signs(run=runner)) == []


def test_the_vital_signs_of_smr_are_these() -> None:
    assert [vital.name for vital in vitals.VITALS if vital.package == "smr"] == [
        "CUDA allocation and kernel (Warp)",
        "Warp kernel",
        "rasterize",
        "Poisson surface",
        "Laplacian smoothing",
        "inside test",
        "USDZ written and read back",
    ]


def test_every_vital_sign_has_a_process_and_a_time_limit_of_its_own() -> None:
    limits = []

    def runner(argv: Any, *, limit_s: float = 10.0, text: str = "") -> Outcome:
        compile(Path(argv[1]).read_text(encoding="utf-8"), argv[1], "exec")
        limits.append(limit_s)
        return Outcome("timeout", f"{limit_s:g}", "", "") if len(limits) == 1 else Outcome("ok", "0", "3 of 3\n", "")

    signs = list(vitals.vital_signs(run=runner, limit_s=7.0))
    assert limits == [7.0] * len(vitals.VITALS)
    assert signs[0]["sentence"] == "did not answer within 7 s"
    assert {sign["says"] for sign in signs[1:]} == {"3 of 3"}


@pytest.mark.parametrize("name", ["Poisson surface", "inside test"])
def test_these_vital_signs_are_well(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vitals, "VITALS", [vital for vital in vitals.VITALS if vital.name == name])
    (sign,) = vitals.vital_signs()
    assert sign["status"] == "ok", sign


@pytest.mark.slow
def test_all_vital_signs_of_smr_are_well() -> None:
    signs = {sign["name"]: sign for sign in vitals.vital_signs() if sign["package"] == "smr"}
    assert {sign["status"] for sign in signs.values()} == {"ok"}, signs
    assert len(signs) >= 6  # all but CUDA's


def test_what_warming_says(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def runner(argv: Any, *, limit_s: float = 10.0, text: str = "") -> Outcome:
        compile(argv[2], "warm", "exec")
        return Outcome("ok", "0", "Warp 1.19\n27 modules ready on cpu\n", "a warning\n")

    assert vitals.warm(run=runner) == {"status": "ok", "sentence": "ended well", "says": "27 modules ready on cpu"}
    failed = vitals.warm(run=lambda *_, **__: Outcome("exit", "1", "", "Traceback\nImportError: no warp\n"))
    assert failed["says"] == "ImportError: no warp"
    monkeypatch.setattr("smr.cli.doctor.warm", lambda: failed)
    assert main(["--warm", "--facts", str(HEALTHY)]) == 1
    assert "kernels: ImportError: no warp" in capsys.readouterr().err


@pytest.mark.slow
def test_after_warming_a_reconstruction_compiles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from smr.demo import make_capture

    monkeypatch.setenv("WARP_CACHE_PATH", str(tmp_path / "kernels"))
    make_capture(tmp_path / "capture", views=6, width=96, height=72)
    warmed = vitals.warm()
    assert warmed["status"] == "ok", warmed
    built = sorted((tmp_path / "kernels").rglob("*.o"))
    assert len(built) > 20
    command = [sys.executable, "-m", "smr", "reconstruct", str(tmp_path / "capture"), "--out", str(tmp_path / "a.usdz")]
    outcome = run([*command, "--device", "cpu", "--vertices", "1000"], limit_s=200.0)
    assert outcome.ok, outcome.stderr
    assert sorted((tmp_path / "kernels").rglob("*.o")) == built


def test_shipped_tables_and_pages_are_what_their_sources_give() -> None:
    assert (ROOT / "docs" / "faults.md").read_text(encoding="utf-8") == faults_page(), (
        "run python tools/build_faults_page.py"
    )
    if sys.version_info >= (3, 11):
        subprocess.run([sys.executable, str(ROOT / "tools" / "build_environment_tables.py"), "--check"], check=True)


def pythons() -> list[Any]:
    """This interpreter, the oldest that the one-file doctor runs on, and (slow) all between, where they are."""
    found = [pytest.param(sys.executable, id="this")]
    for minor in range(8, 15):
        name = f"python3.{minor}"
        choices = [*Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/{name}"), shutil.which(name)]
        marks = [] if minor == 8 else [pytest.mark.slow]
        found += [pytest.param(str(choice), id=name, marks=marks) for choice in choices[:1] if choice]
    return found


@pytest.mark.parametrize("python", pythons())
def test_one_file_doctor(tmp_path: Path, python: str) -> None:
    pyz = tmp_path / "smr-doctor.pyz"
    subprocess.run(
        [sys.executable, str(ROOT / "tools" / "build_doctor_pyz.py"), "--out", str(pyz)],
        check=True,
        capture_output=True,
    )
    bare = {"PATH": "/usr/bin:/bin"}
    outcome = subprocess.run(
        [python, "-I", "-S", str(pyz), "--facts", str(HEALTHY), "--json"],
        capture_output=True,
        text=True,
        env=bare,
        cwd=tmp_path,
    )
    assert outcome.returncode == 0, outcome.stderr
    assert json.loads(outcome.stdout)["healthy"]
    text = "ImportError: libcudart.so.11.0: cannot open shared object file"
    outcome = subprocess.run(
        [python, "-I", "-S", str(pyz), "explain", "-", "--json"],
        input=text,
        capture_output=True,
        text=True,
        env=bare,
        cwd=tmp_path,
    )
    assert json.loads(outcome.stdout)["causes"][0]["kind"] == "cudart_missing"
    outcome = subprocess.run([python, "-I", str(pyz), "--json"], capture_output=True, text=True, env=bare, cwd=tmp_path)
    assert outcome.returncode in (0, 1), outcome.stderr
    assert json.loads(outcome.stdout)["facts"]["python"]["implementation"] == "cpython"


def test_sources_of_the_one_file_doctor_are_python_3_8() -> None:
    files = [
        *(path for path in (ROOT / "src/smr/environment").rglob("*.py") if "envs" not in path.parts),
        ROOT / "src/smr/cli/doctor.py",
        ROOT / "src/smr/errors.py",
        ROOT / "src/smr/__init__.py",
    ]
    for path in files:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text, feature_version=(3, 8))
        assert "from __future__ import annotations" in text or len(tree.body) <= 1, path
        called = {
            node.func.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        }
        assert not called & {"removeprefix", "removesuffix", "is_relative_to", "with_stem", "hardlink_to"}, path
        imported = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for alias in node.names
        }
        assert not imported & {"tomllib", "zoneinfo", "pairwise", "cache", "numpy", "torch", "warp"}, path
