"""`smr env` from plan to a restored environment with the real torch: a source build, its failure, its cure, its cache.

Takes minutes and several hundred megabytes from the package index: `pytest -m slow tests/test_env_source.py`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYTHON = f"3.{sys.version_info[1]}"
TORCH = "2.13.0"
RECIPE = {
    "version": 1,
    "name": "tiny-ext",
    "imports": ["tiny_ext"],
    "releases": [{"version": "1.0", "torch_min": "2.5.0", "python": ["3.10", "3.14"], "source": "the tests"}],
    "source": {},
    "switches": {"cpu": {}},
    "gb_a_job": 2.0,
    "signs_code": {"doubles": "import torch, tiny_ext\nassert tiny_ext.double(torch.ones(2)).tolist() == [2.0, 2.0]"},
}
SETUP = """
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension
setup(name="tiny-ext", version="1.0", packages=["tiny_ext"],
      ext_modules=[CppExtension("tiny_ext._C", ["one.cpp", "two.cpp"])], cmdclass={"build_ext": BuildExtension})
"""
ONE = """
#include <torch/extension.h>
torch::Tensor twice(torch::Tensor x);
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("double", &twice); }
"""
TWO = "#include <torch/extension.h>\ntorch::Tensor twice(torch::Tensor x) { return x * 2; }\n"


def smr(*arguments: object, environ: dict[str, str] | None = None, wrap: tuple[str, ...] = ()) -> tuple[int, str]:
    code = "import sys; from smr.cli.env import main; sys.exit(main(sys.argv[1:]))"
    argv = [*wrap, sys.executable, "-c", code, *map(str, arguments)]
    given = {**os.environ, **(environ or {}), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(argv, capture_output=True, text=True, env=given)
    return done.returncode, done.stdout + done.stderr


def offline() -> tuple[str, ...]:
    """A shell without any network, where the system lets us have one."""
    alone = shutil.which("unshare")
    if alone and subprocess.run([alone, "-rn", "true"], capture_output=True).returncode == 0:
        return (alone, "-rn")
    return ()


def kill_while_it_compiles(prefix: Path, *arguments: object) -> None:
    """kill -9 of smr alone, as the kernel does it when memory is short."""
    code = "import sys; from smr.cli.env import main; sys.exit(main(sys.argv[1:]))"
    given = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    argv = [sys.executable, "-c", code, *map(str, arguments)]
    build = subprocess.Popen(argv, env=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while build.poll() is None and not list(prefix.glob("tracks/*/logs/build.log")):
        time.sleep(0.2)
    time.sleep(5.0)
    assert build.poll() is None
    build.kill()
    build.wait()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_from_a_plan_to_a_restored_environment(tmp_path: Path) -> None:
    source, prefix, cache = tmp_path / "source", tmp_path / "prefix", tmp_path / "cache"
    (source / "tiny_ext").mkdir(parents=True)
    (source / "tiny_ext" / "__init__.py").write_text("import torch\nfrom tiny_ext._C import double\n")
    (source / "setup.py").write_text(SETUP)
    (source / "one.cpp").write_text(ONE)
    (source / "two.cpp").write_text('#include "no_such_header.h"\n' + TWO)
    (tmp_path / "recipe.json").write_text(json.dumps(RECIPE))
    plan = tmp_path / "plan.toml"
    wish = ("--torch", TORCH, "--cuda", "cpu", "--python", PYTHON, "--own-index")
    code, said = smr("plan", "tiny-ext", "--recipe", tmp_path / "recipe.json", *wish, "--out", plan)
    assert code == 0, said

    build = ("build", plan, "--prefix", prefix, "--source", source, "--cache", cache)
    kill_while_it_compiles(prefix, *build)
    assert not (prefix / "current").exists()
    code, said = smr(*build)
    assert code == 1
    assert "installed: done already" in said
    assert "no_such_header.h" in said
    assert "goes on from here" in said
    track = next((prefix / "tracks").iterdir())
    first_object = next(track.rglob("one.o"))
    made = first_object.stat().st_mtime_ns
    assert not (prefix / "current").exists()

    (source / "two.cpp").write_text(TWO)  # the cure
    code, said = smr(*build)
    assert code == 0, said
    assert "installed: done already" in said
    assert next(track.rglob("one.o")).stat().st_mtime_ns == made  # what was compiled is kept
    code, said = smr(*build)
    assert code == 0
    assert said.count("done already") == 6
    assert smr("check", prefix)[0] == 0
    lock = json.loads(smr("lock", prefix, "--json")[1])
    assert lock["extension"]["made"]["switches"]["MAX_JOBS"]
    assert lock["extension"]["source"]["tree"]

    code, said = smr("pack", prefix, "--out", tmp_path / "tiny.smr-env")
    assert code == 0, said
    sha256 = re.findall(r"[0-9a-f]{64}", said)[-1]
    dead = {"HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9"}
    restored = tmp_path / "restored"
    call = ("restore", tmp_path / "tiny.smr-env", "--prefix", restored, "--sha256", sha256)
    code, said = smr(*call, environ=dead, wrap=offline())
    assert code == 0, said
    job = "import torch, tiny_ext; print(tiny_ext.double(torch.arange(3)).tolist())"
    code, said = smr("run", restored, "--", "python", "-W", "ignore", "-c", job)
    assert "[0, 2, 4]" in said, said

    if shutil.which("ccache"):  # the same source into another prefix: nothing is compiled a second time
        code, said = smr("build", plan, "--prefix", tmp_path / "second", "--source", source, "--cache", cache)
        assert code == 0, said
        environ = {**os.environ, "CCACHE_DIR": str(cache / "ccache")}
        stats = subprocess.run(["ccache", "--print-stats"], capture_output=True, text=True, env=environ).stdout
        counts = {row[0]: int(row[1]) for row in map(str.split, stats.splitlines()) if len(row) == 2}
        assert counts["direct_cache_hit"] + counts["preprocessed_cache_hit"] >= 2, stats
