"""`smr env plan`: the choice, its reasons, and machines that are not here."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from smr.cli.env import main
from smr.environment import tables, versions
from smr.environment.envs import toml
from smr.environment.envs.candidates import builds_of, candidates, torch_archs
from smr.environment.envs.choose import choose
from smr.environment.envs.demands import Wishes, build_arch, demands_of
from smr.environment.envs.machine import Machine, covers, machine_of, with_distribution, with_gpus
from smr.environment.envs.plan import Plan, plan_of, read_plan, write_plan
from smr.environment.envs.planning import make_plan
from smr.environment.envs.recipes import BUNDLED, find_recipe, read_recipe, recipe_of
from smr.errors import SmrError

FACTS = Path(__file__).parent / "environment"
KAOLIN = find_recipe("kaolin")
WHEELS = [
    (version, torch, build)
    for version, row in tables.table("kaolin").items()
    if version != "HEAD"
    for torch, builds in row.get("wheels", {}).items()
    if isinstance(builds, list)
    for build in builds
]


def planned(gpu: str = "", distribution: str = "", wishes: Wishes | None = None, **machine: str):
    here = with_gpus(Machine(**machine), (gpu,)) if gpu else Machine(**machine)
    if distribution:
        here = with_distribution(here, distribution)
    return make_plan(KAOLIN, wishes or Wishes(), here)


@pytest.mark.parametrize(("version", "torch", "build"), WHEELS[::8])
def test_wheels_that_kaolin_documents_are_found(version: str, torch: str, build: str) -> None:
    find_wheel(version, torch, build)


@pytest.mark.slow
@pytest.mark.parametrize(("version", "torch", "build"), WHEELS)
def test_each_wheel_that_kaolin_documents_is_found(version: str, torch: str, build: str) -> None:
    find_wheel(version, torch, build)


def find_wheel(version: str, torch: str, build: str) -> None:
    wishes = Wishes(version, torch, versions.cuda_of_tag(build))
    plan = planned(wishes=wishes).plan
    assert plan is not None
    assert (plan.method, plan.package_version, plan.torch, plan.build) == ("wheel", version, torch, build)
    name = f"{torch}_{build}" if version == "0.13.0" else f"torch-{torch}_{build}"
    assert plan.wheel_page.endswith(f"/{name}.html")
    assert any("not known to have" in note for note in plan.notes) == (build not in builds_of(torch))


# Machine, what the plan is (version, how, torch's build), or the demands that exclude each other.
MACHINES = [
    # Pascal: every wheel up to CUDA 12.6 has 6.0, which a 6.1 runs; 470 runs 11.x
    ("GTX 1080 Ti", "470.82.01", "ubuntu-20.04", ("0.18.0", "wheel", "cu118")),
    ("GTX 1080 Ti", "550.54.14", "ubuntu-22.04", ("0.18.0", "wheel", "cu126")),
    ("GTX 1080 Ti", "580.65.06", "ubuntu-24.04", ("0.18.0", "wheel", "cu126")),
    ("TITAN X (Pascal)", "418.39", "ubuntu-18.04", ("0.15.0", "source", "cu101")),
    ("V100", "450.80.02", "centos-7", ("0.18.0", "wheel", "cu118")),
    ("V100", "535.104.05", "rocky-8", ("0.18.0", "wheel", "cu126")),
    ("T4", "470.57.02", "ubuntu-18.04", ("0.18.0", "wheel", "cu118")),
    ("RTX 2080 Ti", "525.60.13", "ubuntu-22.04", ("0.18.0", "wheel", "cu126")),
    ("RTX 3090", "470.57.02", "ubuntu-20.04", ("0.18.0", "wheel", "cu118")),
    ("RTX 3090", "560.35.03", "debian-12", ("0.18.0", "wheel", "cu126")),
    ("A100", "450.80.02", "ubuntu-20.04", ("0.18.0", "wheel", "cu118")),
    ("A100", "570.124.06", "ubuntu-22.04", ("0.18.0", "wheel", "cu128")),
    ("RTX 4090", "525.60.13", "ubuntu-22.04", ("0.18.0", "wheel", "cu126")),
    ("RTX 4090", "580.65.06", "ubuntu-24.04", ("0.18.0", "wheel", "cu128")),
    ("L40S", "550.54.14", "centos-7", ("0.18.0", "wheel", "cu124")),
    ("H100", "535.54.03", "ubuntu-22.04", ("0.18.0", "wheel", "cu126")),
    ("H200", "580.65.06", "ubuntu-24.04", ("0.18.0", "wheel", "cu128")),
    # no wheel of 0.18.0 has 10.0: built from source, for which CUDA 12.8 takes gcc up to 14
    ("B200", "570.124.06", "ubuntu-24.04", ("0.18.0", "source", "cu128")),
    ("RTX 5090", "570.124.06", "ubuntu-24.04", ("0.18.0", "wheel", "cu128")),
    ("RTX 5090", "580.65.06", "fedora-42", ("0.18.0", "wheel", "cu128")),
    ("RTX 5090", "550.54.14", "centos-7", {"glibc 2.17 of centos-7", "GPU RTX 5090 (12.0)"}),
    ("RTX 5090", "470.82.01", "ubuntu-22.04", {"driver 470.82.01", "GPU RTX 5090 (12.0)"}),
    ("RTX 4090", "418.39", "ubuntu-22.04", {"driver 418.39", "GPU RTX 4090 (8.9)"}),
    ("H100", "440.33", "ubuntu-18.04", {"driver 440.33", "GPU H100 (9.0)"}),
    ("B300", "470.82.01", "ubuntu-24.04", {"driver 470.82.01", "GPU B300 (10.3)"}),
]


@pytest.mark.parametrize(("gpu", "driver", "distribution", "expected"), MACHINES)
def test_machines(gpu: str, driver: str, distribution: str, expected: tuple[str, str, str] | set[str]) -> None:
    found = planned(gpu, distribution, driver=driver)
    plan = found.plan
    assert plan is not None
    if isinstance(expected, set):
        assert not found.possible
        assert set(found.choice.conflict) == expected
        assert found.choice.given_up
        return
    assert found.possible, found.choice.conflict
    assert (plan.package_version, plan.method, plan.build) == expected
    capability = with_gpus(Machine(), (gpu,)).gpus[0]
    assert covers(torch_archs(plan.torch, plan.cuda), capability) or not torch_archs(plan.torch, plan.cuda)
    assert versions.at_least(driver, tables.oldest_driver(plan.cuda))
    if plan.method == "source":
        assert covers(plan.switches["TORCH_CUDA_ARCH_LIST"], capability) == "cubin"


@pytest.mark.parametrize("gpu", ["Jetson Nano", "Jetson TX2", "Jetson AGX Xavier", "Jetson AGX Orin"])
def test_small_computers_are_refused(gpu: str) -> None:
    found = planned(gpu, architecture="aarch64")
    assert not found.possible
    assert set(found.choice.conflict) == {f"GPU {gpu} ({with_gpus(Machine(), (gpu,)).gpus[0]})", "aarch64"}


def test_impossible_wishes_get_the_smallest_conflict_and_a_plan_that_works() -> None:
    demands = demands_of(
        Wishes("0.15.0", "2.5.1", "12.1", "3.12"), with_gpus(Machine(driver="470.82", gcc="13"), ("RTX 5090",))
    )
    choice = choose(KAOLIN, demands, Machine())
    assert len(choice.conflict) == 2
    named = [demand for demand in demands if demand.name in choice.conflict]
    everything = candidates(KAOLIN)
    assert not any(all(not demand.test(one) for demand in named) for one in everything)
    for one in named:  # smallest: without any of them, something is left
        others = [demand for demand in named if demand is not one]
        assert any(all(not demand.test(c) for demand in others) for c in everything)
    assert choice.candidate is not None
    broken = {demand.name for demand in demands if demand.test(choice.candidate)}
    assert broken == {name for name, _ in choice.given_up}


def test_the_choice_is_sound_and_the_same_each_time() -> None:
    for gpu, driver, cuda in itertools.product(("8.6", "9.0"), ("470.82",), ("", "cpu")):
        machine = replace(with_gpus(Machine(), (gpu,)), driver=driver)
        demands = demands_of(Wishes(cuda=cuda), machine)
        first, second = (choose(KAOLIN, demands, machine) for _ in range(2))
        assert (first.candidate, first.conflict, first.rejected) == (second.candidate, second.conflict, second.rejected)
        assert first.candidate is not None
        assert bool(first.conflict) == any(demand.test(first.candidate) for demand in demands)


def test_everything_not_chosen_has_its_rule() -> None:
    found = planned("RTX 4090", driver="550.54.14", wishes=Wishes(torch="2.5"))
    rules = {(r.variable, r.value): r.rule for r in found.choice.rejected}
    assert rules["torch", "2.13.0"] == "kaolin 0.18.0 accepts torch up to 2.8.0 (v0.18.0:setup.py)"
    assert rules["build", "cpu"] == "GPU RTX 4090 (8.9): a CPU build does not use it"
    assert rules["python", "3.13"].endswith("ends at Python 3.12")
    assert rules["torch", "2.8.0"] == "--torch 2.5: another was asked for"
    assert rules["package", "0.17.0"] == ""
    plan = found.plan
    assert plan is not None
    domains = {"package": len(KAOLIN.releases), "method": 2, "python": 10}
    for variable, size in domains.items():
        assert sum(key[0] == variable for key in rules) == size - 1


def test_known_obstacles_are_handled_or_refused() -> None:
    found = planned(wishes=Wishes("HEAD", "2.13.0", "cpu"))
    assert not found.possible  # torch 2.13 is out of range
    eager = make_plan(KAOLIN, Wishes("HEAD", "2.13.0", "cpu"), Machine(), ignore_range=True)
    assert not eager.possible
    rules = {(r.variable, r.value): r.rule for r in eager.choice.rejected}
    assert "at::zeros" in rules["torch", "2.13.0"]
    head = planned(wishes=Wishes("HEAD", "2.12.1", "cpu")).plan
    assert head is not None
    assert head.build_requires[0] == "setuptools==80.9.0"
    assert head.companions == ("torchvision==0.27.*",)
    assert "FORCE_CUDA" not in head.switches
    beyond = make_plan(KAOLIN, Wishes("0.18.0", "2.9.1", "12.8"), Machine(), ignore_range=True).plan
    assert beyond is not None
    assert beyond.switches["IGNORE_TORCH_VER"] == "1"
    old = planned(wishes=Wishes("0.15.0", "2.1.2", "cpu", method="source"))
    assert old.choice.conflict  # 0.15.0 accepts up to 2.1.1
    numpy = planned(wishes=Wishes("0.15.0", "2.1.1", "cpu")).plan
    assert numpy is not None
    assert "numpy<2" in numpy.requires
    assert "setuptools==69.5.1" in numpy.build_requires


@pytest.mark.parametrize("name", BUNDLED)
def test_every_recipe_plans(name: str) -> None:
    recipe = find_recipe(name)
    machine = with_gpus(Machine(driver="580.65.06", gcc="12.2"), ("RTX 4090",))
    found = make_plan(recipe, Wishes(), machine)
    assert found.possible
    assert found.plan is not None
    assert plan_of(found.plan.document(), "plan") == found.plan
    assert all("KAOLIN_BUILD" not in switch for switch in found.plan.switches)
    if found.plan.method == "source":
        assert found.plan.switches["TORCH_CUDA_ARCH_LIST"] == "8.9"


def test_facts_of_other_machines() -> None:
    h200 = machine_of(json.loads((FACTS / "h200.json").read_text()), "h200.json")
    assert h200.gpus == ("9.0",)
    found = make_plan(KAOLIN, Wishes("HEAD"), h200)
    assert found.possible
    assert found.plan is not None
    assert (found.plan.method, found.plan.cuda) == ("source", "13.0")  # the toolkit that is there
    assert found.plan.python == h200.python


def test_cubins_and_ptx() -> None:
    assert covers("8.6", "8.9") == covers("8.0", "8.6") == covers("10.0", "10.3") == "cubin"
    assert covers("8.6+PTX", "9.0") == "ptx"
    assert covers("8.6+PTX", "9.0", ptx=False) == covers("8.6", "9.0") == covers("8.6", "8.0") == ""
    assert covers("8.0;8.6", "8.7") == covers("7.0", "7.2") == covers("6.0", "6.2") == covers("5.2", "5.3") == ""
    assert covers("8.7", "8.7") == "cubin"
    assert (build_arch("8.9", "11.8"), build_arch("8.9", "11.7"), build_arch("9.0", "11.7")) == ("8.9", "8.6", "")
    assert (build_arch("6.1", "13.0"), build_arch("12.1", "12.8"), build_arch("8.6", "10.1")) == ("", "12.0", "")


def test_plans_survive_writing(tmp_path: Path) -> None:
    plan = planned("B200", driver="570.124.06").plan
    assert plan is not None
    write_plan(plan, tmp_path / "plan.toml")
    assert read_plan(tmp_path / "plan.toml") == plan
    assert not [path for path in tmp_path.iterdir() if path.name != "plan.toml"]
    nasty = {"text": 'a"b\\c\nd\x7f\u2028é🙂', "list": ["", "x"], "number": 1.5, "yes": True, "table": {"a b": "c"}}
    assert toml.loads(toml.dumps(nasty)) == nasty


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 2}, "version 2, this smr knows plans up to 1"),
        ({"version": "x"}, "has no version"),
        ({"requires": ["--index-url=x"]}, "requires"),
        ({"requires": ["x @ file:///etc"]}, "requires"),
        ({"switches": {"LD_PRELOAD": 3}}, "switches"),
        ({"switches": {"a b": "x"}}, "switches"),
        ({"source_tag": "--upload-pack=x"}, "source_tag"),
        ({"source_folder": "../.."}, "source_folder"),
        ({"source_git": "ext::sh -c x"}, "source_git"),
        ({"submodules": ["/etc"]}, "submodules"),
        ({"python": "3.11; rm"}, "python"),
        ({"gb_a_job": True}, "gb_a_job"),
        ({"package": "../up"}, "package"),
    ],
)
def test_a_plan_that_was_tampered_with_is_refused(change: dict[str, object], said: str) -> None:
    plan = planned("B200", driver="570.124.06").plan
    assert plan is not None
    with pytest.raises(SmrError, match=said):
        plan_of({**plan.document(), **change}, "plan.toml")


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "plan.toml"
    assert main(["plan", "kaolin", "--gpu", "RTX 4090", "--driver", "550.54", "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "a wheel" in shown
    assert "accepts torch up to 2.8.0" in shown
    assert read_plan(out).package == "kaolin"
    assert main(["plan", "kaolin==0.15.0", "--gpu", "RTX 5090", "--out", str(tmp_path / "no.toml")]) == 1
    shown = capsys.readouterr().out
    assert "exclude each other:\n  version 0.15.0\n  GPU RTX 5090 (12.0)" in shown
    assert not (tmp_path / "no.toml").exists()
    assert main(["plan", "kaolin", "--facts", str(FACTS / "h200.json"), "--json", "--out", str(out)]) == 0
    assert json.loads(capsys.readouterr().out)["plan"]["architectures"] == ["9.0"]
    assert (main([]), main(["nonsense"]), main(["--help"]), main(["plan"])) == (2, 2, 0, 2)
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["kaolni"], "there is no recipe for 'kaolni'"),
        (["kaolin", "--gpu", "RTX 9999"], "no GPU is known by the name 'RTX 9999'"),
        (["kaolin", "--torch", "new"], "--torch 'new' is not a version"),
        (["kaolin", "--cuda", "gpu"], "neither a version nor cpu"),
        (["kaolin", "--distribution", "beos-5"], "no distribution is known by the name 'beos-5'"),
        (["kaolin", "--facts", "absent.json"], "cannot read absent.json"),
        (["mine", "--recipe", "absent.json"], "cannot read absent.json"),
    ],
)
def test_wrong_wishes(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *arguments]) == 1
    shown = capsys.readouterr().err
    assert said in shown
    assert "fix:" in shown


def test_files_that_are_no_plans_or_recipes(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("{]")
    (tmp_path / "b").write_text('{"version": 9, "name": "x", "imports": [], "releases": []}')
    (tmp_path / "c").write_text("[]")
    (tmp_path / "d").write_bytes(b" " * (2 << 20))
    for name, said in (("a", "not a recipe"), ("b", "version 9"), ("c", "not a recipe"), ("d", "larger")):
        with pytest.raises(SmrError, match=said):
            read_recipe(tmp_path / name)
    for name, said in (("a", "not a plan"), ("d", "larger"), ("absent", "cannot read")):
        with pytest.raises(SmrError, match=said):
            read_plan(tmp_path / name)
    with pytest.raises(SmrError, match="lacks package"):
        plan_of({"version": 1}, "x")
    empty = recipe_of({"version": 1, "name": "x", "imports": [], "releases": []})
    assert make_plan(empty, Wishes(), Machine()).plan is None


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; from smr.cli.env import main; main(['plan', 'kaolin', '--gpu', '8.9', '--out', '/dev/null/x']);"
        "heavy = {'numpy', 'torch', 'warp', 'tyro', 'rich'} & set(sys.modules); sys.exit(repr(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_plan_type_is_a_record() -> None:
    plan = planned("B200", driver="570.124.06").plan
    assert isinstance(plan, Plan)
    assert plan.digest == replace(plan, notes=("other",), wishes={}).digest
    assert plan.digest != replace(plan, torch="2.7.1").digest
