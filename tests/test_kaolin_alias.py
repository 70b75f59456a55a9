"""`import kaolin` means smr.kaolin: the same modules, in scripts, modules and the processes that they start."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

import smr.kaolin as kal
from smr import SmrError
from smr.kaolin._absent import ABSENT_MODULES, NotInSmrError
from smr.kaolin._alias import SUBPROCESS_PATH


@pytest.fixture
def alias() -> Iterator[None]:
    kal.install()
    yield
    kal.uninstall()


def run(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "smr.kaolin", *args]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)


def test_every_way_to_import_gives_the_same_module(alias: None) -> None:
    import kaolin
    import kaolin.ops.batch as batch
    from kaolin.math import quat
    from kaolin.math.quat.quaternion import quat_mul

    assert kaolin is kal
    assert batch is kal.ops.batch is importlib.import_module("kaolin.ops.batch") is sys.modules["smr.kaolin.ops.batch"]
    assert quat is kal.math.quat
    assert quat_mul is kal.math.quat.quat_mul
    assert batch.__name__ == batch.__spec__.name == "smr.kaolin.ops.batch"


def test_a_module_that_is_not_there(alias: None) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'kaolin\.nothing'"):
        importlib.import_module("kaolin.nothing")
    with pytest.raises(AttributeError, match=r"module 'smr\.kaolin\.ops' has no attribute 'nothing'"):
        _ = kal.ops.nothing
    assert importlib.util.find_spec("kaolin.nothing") is None
    assert importlib.util.find_spec("kaolin.ops.batch") is not None


def test_without_the_alias_there_is_no_kaolin() -> None:
    kal.install()
    importlib.import_module("kaolin.ops.batch")
    kal.uninstall()
    assert not [name for name in sys.modules if name.split(".")[0] == "kaolin"]
    assert "smr.kaolin.ops.batch" in sys.modules


def test_another_kaolin_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kaolin", types.ModuleType("kaolin"))
    with pytest.raises(SmrError, match=r"Another kaolin is already imported, from .*\n.*before the first `import"):
        kal.install()


def test_installing_twice_is_once(alias: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "before")
    monkeypatch.setattr(sys, "path", list(sys.path))
    finders = len(sys.meta_path)
    kal.install(subprocesses=True)
    kal.install(subprocesses=True)
    assert len(sys.meta_path) == finders
    path = os.environ["PYTHONPATH"].split(os.pathsep)
    assert path[1:] == ["before"]
    assert (Path(path[0]) / "kaolin.py").exists()
    assert sys.path.count(path[0]) == 1


def test_the_version_is_kaolins_and_ours() -> None:
    assert kal.__version__.startswith("0.18.0+smr.")
    assert "0.18.0" in kal.FOLLOWS


def test_packages_list_what_they_have() -> None:
    assert {"ops", "rep", "utils", "math", "install"} <= set(dir(kal))
    assert {"batch", "gcn", "mesh", "random"} <= set(dir(kal.ops))
    assert "SurfaceMesh" in dir(kal.rep)
    assert "_layout" not in dir(kal.rep)
    names: dict[str, object] = {}
    exec("from smr.kaolin.math.quat import *", names)
    assert names["quat_mul"] is kal.math.quat.quaternion.quat_mul


def test_a_function_named_as_its_module_stays_the_function() -> None:
    importlib.import_module("smr.kaolin.ops.mesh.check_sign")
    assert callable(kal.ops.mesh.check_sign)
    assert isinstance(sys.modules["smr.kaolin.ops.mesh.check_sign"], types.ModuleType)


SCRIPT = """
import multiprocessing, subprocess, sys
import kaolin
import kaolin.ops.mesh

def name(_):
    import kaolin.math.quat
    return kaolin.math.quat.__name__

if __name__ == "__main__":
    print(kaolin.__name__, sys.argv[1:], "torch" in sys.modules)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(name, [0]))
    code = "import kaolin.ops as o, kaolin; print(o.__name__, kaolin.__name__)"
    print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    sys.exit(7)
"""


def test_a_script_its_workers_and_its_processes(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("raise RuntimeError")
    (tmp_path / "script.py").write_text(SCRIPT)
    done = run("script.py", "--flag", "3", cwd=tmp_path)
    assert done.stdout.split("\n")[:3] == [
        "smr.kaolin ['--flag', '3'] False",  # and nothing heavy was imported for it
        "['smr.kaolin.math.quat']",
        "smr.kaolin.ops smr.kaolin",
    ]
    assert done.returncode == 7


def test_a_module_sees_the_current_folder_and_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "tool.py").write_text("import kaolin, sys\nprint(kaolin.__name__, sys.argv[1:], __name__)")
    done = run("-m", "tool", "a", "-m", cwd=tmp_path)
    assert done.stdout == "smr.kaolin ['a', '-m'] __main__\n"
    assert done.returncode == 0


def test_a_process_of_a_python_without_smr_finds_its_own_kaolin(tmp_path: Path) -> None:
    (tmp_path / "kaolin.py").write_text("mine = 5")
    search = os.pathsep.join([str(SUBPROCESS_PATH), str(tmp_path)])
    code = "import kaolin; print(kaolin.mine)"
    command = [sys.executable, "-S", "-c", code]  # without site-packages
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": search}, capture_output=True, text=True, timeout=60)
    assert done.stdout == "5\n", done.stderr


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("nothing.py",), "error: There is no script nothing.py.\n  fix: Check the path; a module is started with -m"),
        (("-m", "not_there"), "error: There is no module not_there.\n  fix: Check the name; `pip install`"),
        (("-m", "not_there.part"), "error: There is no module not_there.part."),
        (("folder",), "error: folder is a folder without __main__.py."),
        ((), "usage: python -m smr.kaolin SCRIPT"),
        (("-m",), "usage: python -m smr.kaolin SCRIPT"),
    ],
)
def test_nothing_to_run(
    args: tuple[str, ...],
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from smr.kaolin.__main__ import main

    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setenv("PYTHONPATH", "")
    assert main(list(args)) == 2
    kal.uninstall()
    assert text in capsys.readouterr().err


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    from smr.kaolin.__main__ import main

    assert main(["--help"]) == 0
    assert main(["--version"]) == 0
    out = capsys.readouterr().out
    assert "usage" in out
    assert kal.FOLLOWS in out


# What is not there


def test_names_that_are_not_there_can_be_imported_but_not_used() -> None:
    from smr.kaolin.physics.simplicits import SimplicitsObject

    assert not isinstance(3, SimplicitsObject)

    class Mine(SimplicitsObject):
        pass

    uses = [lambda: SimplicitsObject(), lambda: SimplicitsObject.create_rigid(1), lambda: Mine(), lambda: Mine.bake]
    for use in uses:
        with pytest.raises(NotInSmrError, match=r"kaolin\.physics\.simplicits\.SimplicitsObject is not part of smr"):
            use()


@pytest.mark.parametrize("name", sorted(ABSENT_MODULES))
def test_each_absent_part_says_what_to_do(name: str) -> None:
    module = importlib.import_module(f"smr.kaolin.{name}" if name != "_C" else "smr.kaolin._C.ops")
    with pytest.raises(NotInSmrError, match="is not part of smr") as caught:
        module.something_there(1)
    assert isinstance(caught.value, NotImplementedError)
    assert caught.value.cure.endswith(".")
    with pytest.raises(AttributeError):
        _ = module.__wrapped__


@pytest.mark.parametrize("name", ["Spc", "GaussianSplatModel", "PointSamples"])
def test_absent_containers(name: str) -> None:
    assert name in dir(kal.rep) or name in kal.rep.__all__
    with pytest.raises(NotInSmrError, match=rf"kaolin\.rep\.{name} is not part of smr"):
        getattr(kal.rep, name)()


def test_files_are_found_before_stand_ins() -> None:
    import torch

    from smr.kaolin.ops.spc.uint8 import bits_to_uint8

    assert kal.ops.spc.bits_to_uint8 is bits_to_uint8
    assert int(kal.ops.spc.uint8_bits_sum(torch.tensor([7], dtype=torch.uint8))) == 3
    with pytest.raises(NotInSmrError, match="voxel grid"):
        kal.ops.spc.scan_octrees(1)


def test_data_sets_are_not_loaded_from_the_network() -> None:
    from smr.kaolin.utils import bundled_data

    with pytest.raises(NotInSmrError, match="does not download the scanned toys"):
        bundled_data.download_scanned_toys_dataset()
    with pytest.raises(NotInSmrError, match="KAOLIN_TENSOR_IR_PATH"):
        bundled_data.download_tensor_ir_dataset()
