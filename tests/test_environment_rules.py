"""Every rule: one machine that it must find sick, and one almost like it that it must leave alone."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from smr.environment.faults import FAULTS, filled
from smr.environment.rules import Facts, blocks, diagnose
from smr.environment.rules.binaries import cuda_of_ptx, runs_on, translates_to
from smr.environment.rules.diagnosis import RULES
from smr.errors import SmrError

HEALTHY = json.loads((Path(__file__).parent / "environment" / "healthy.json").read_text())
EXT = "extensions.0."


def machine(changes: dict[str, Any]) -> dict[str, Any]:
    """The healthy machine with some facts changed; keys are paths with dots."""
    facts = copy.deepcopy(HEALTHY)
    for path, value in changes.items():
        place: Any = facts
        *folders, last = path.split(".")
        for key in folders:
            place = place[int(key)] if key.isdigit() else place[key]
        place[last] = value
    return facts


def kinds(facts: dict[str, Any], purpose: str = "") -> set[str]:
    found = diagnose(facts, purpose)
    return {f.kind for f in found} | {c.kind for f in found for c in f.consequences}


NO_GPU = {
    "driver.gpus": [],
    "driver.visible": None,
    "driver.version": "",
    "driver.kernel_module": "",
    "driver.cuda": "",
    "driver.cuinit": None,
}
NO_DRIVER = {**NO_GPU, "driver.libcuda": False, "driver.nvidia_smi": "missing", "place.device_files": []}
CPU_TORCH = {"torch.version": "2.6.0+cpu", "torch.cuda": ""}
TOOLKIT = "toolkits.found.0."


def missing(soname: str) -> list[dict[str, str]]:
    return [{"soname": soname, "by": "_C.so"}]


# kind, purpose, facts that must give it, facts that must not
CASES: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("driver_hangs", "", {"driver.nvidia_smi": "timeout"}, {"driver.nvidia_smi": "missing"}),
    (
        "driver_library_mismatch",
        "",
        {
            "driver.nvidia_smi": "exit",
            "driver.nvidia_smi_says": "Failed to initialize NVML: Driver/library version mismatch",
        },
        {"driver.nvidia_smi": "exit", "driver.nvidia_smi_says": "No devices were found"},
    ),
    ("driver_library_mismatch", "", {"driver.cuinit": 803}, {"driver.cuinit": 100}),
    ("driver_library_mismatch", "", {"driver.kernel_module": "565.57.01"}, {"driver.kernel_module": ""}),
    (
        "cuda_compat_forward",
        "",
        {"driver.cuinit": 804, "loader.library_path": ["/usr/local/cuda/compat"]},
        {"driver.cuinit": 804},
    ),
    ("fabric_manager_missing", "", {"driver.cuinit": 802}, {"driver.cuinit": 0}),
    ("driver_missing", "", NO_DRIVER, {**NO_DRIVER, "place.pci_nvidia": 0, **CPU_TORCH, "extensions": []}),
    (
        "container_no_gpu_flag",
        "",
        {**NO_DRIVER, "place.container": "docker"},
        {**NO_DRIVER, "place.container": "docker", "place.pci_nvidia": 0},
    ),
    (
        "container_cuinit",
        "",
        {"place.container": "docker", "driver.cuinit": 999},
        {"place.container": "docker", "driver.cuinit": 0},
    ),
    ("gpus_hidden", "", {"place.cuda_visible_devices": ""}, {"place.cuda_visible_devices": "0"}),
    (
        "mig_visible_devices",
        "",
        {"driver.gpus": [{"name": "A100", "capability": "8.0", "mig": True}], "driver.visible": []},
        {
            "driver.gpus": [{"name": "A100", "capability": "8.0", "mig": True}],
            "driver.visible": [],
            "place.cuda_visible_devices": "MIG-4f",
        },
    ),
    (
        "wsl_libcuda",
        "",
        {**NO_DRIVER, "place.wsl": True, "place.wsl_libcuda": True},
        {"place.wsl": True, "place.wsl_libcuda": True},
    ),
    (
        "driver_too_old",
        "",
        {"driver.version": "470.82.01", "driver.kernel_module": "470.82.01"},
        {"driver.version": "525.60.13", "driver.kernel_module": "525.60.13"},
    ),
    (
        "slurm_env",
        "",
        {**NO_GPU, "place.pci_nvidia": 0, "place.slurm": {"job": True, "gpus": ""}},
        {"place.slurm": {"job": True, "gpus": "1"}},
    ),
    ("damaged_file", "", {EXT + "error": "cut short in its string table"}, {EXT + "error": ""}),
    (
        "torch_abi_mismatch",
        "",
        {EXT + "torch.absent": ["_ZN3c104cuda9SetDeviceEi"], EXT + "torch.low": "2.1", EXT + "torch.high": "2.2"},
        {EXT + "torch.low": "2.1"},
    ),
    (
        "cxx11_abi_mismatch",
        "",
        {
            EXT + "torch.absent": ["_ZN3c105ErrorC2E"],
            EXT + "torch.abi": "new",
            EXT + "torch.low": "2.6",
            EXT + "torch.high": "2.7",
        },
        {EXT + "torch.abi": "new"},
    ),
    ("cudart_missing", "", {EXT + "missing": missing("libcudart.so.11.0")}, {EXT + "missing": missing("libsox.so")}),
    ("cudnn_missing", "", {EXT + "missing": missing("libcudnn.so.8")}, {}),
    ("library_missing", "", {EXT + "missing": missing("libsox.so")}, {}),
    ("gl_egl_missing", "", {EXT + "missing": missing("libGL.so.1")}, {}),
    ("torch_lib_layout", "", {EXT + "missing": missing("libtorch_cuda_cu.so")}, {}),
    ("torch_missing", "", {"torch": None, EXT + "missing": missing("libc10.so")}, {EXT + "missing": []}),
    (
        "torch_cpu_only",
        "",
        {**CPU_TORCH, EXT + "missing": missing("libc10_cuda.so")},
        {**CPU_TORCH, **NO_DRIVER, "place.pci_nvidia": 0},
    ),
    ("libcuda_link_path", "", {EXT + "torch.unresolved": ["cuCtxGetCurrent"]}, {EXT + "torch.unresolved": []}),
    (
        "device_link_missing",
        "",
        {EXT + "torch.unresolved": ["__cudaRegisterLinkedBinary_12_x_cu"]},
        {EXT + "torch.unresolved": [], EXT + "torch.evidence": ["x"]},
    ),
    (
        "stale_build_dir",
        "",
        {EXT + "torch.unresolved": ["_Z9my_kernelv"]},
        {EXT + "torch.unresolved": ["_Z9my_kernelv"], EXT + "missing": missing("libmine.so")},
    ),
    (
        "ld_library_path_shadows_wheel",
        "",
        {
            EXT + "needed": [
                {
                    "soname": "libcudart.so.12",
                    "path": "/usr/local/cuda/lib64/libcudart.so.12",
                    "why": "LD_LIBRARY_PATH",
                    "others": ["~/env/lib/python3.11/site-packages/nvidia/cuda_runtime/lib/libcudart.so.12"],
                }
            ]
        },
        {
            EXT + "needed": [
                {
                    "soname": "libm.so.6",
                    "path": "/opt/lib/libm.so.6",
                    "why": "LD_LIBRARY_PATH",
                    "others": ["/lib/libm.so.6"],
                }
            ]
        },
    ),
    ("glibc_too_old", "", {EXT + "floors.GLIBC": "2.38"}, {EXT + "floors.GLIBC": "2.35"}),
    ("libstdcxx_too_old", "", {EXT + "floors.GLIBCXX": "3.4.32"}, {EXT + "floors.GLIBCXX": "3.4.30"}),
    (
        "conda_libstdcxx_shadows_system",
        "",
        {
            EXT + "floors.GLIBCXX": "3.4.30",
            EXT + "libstdcxx": {
                "path": "~/miniconda3/envs/x/lib/libstdc++.so.6",
                "GLIBCXX": "3.4.28",
                "CXXABI": "1.3.12",
            },
        },
        {
            EXT + "libstdcxx": {
                "path": "~/miniconda3/envs/x/lib/libstdc++.so.6",
                "GLIBCXX": "3.4.28",
                "CXXABI": "1.3.12",
            }
        },
    ),
    (
        "import_order_libstdcxx",
        "",
        {
            EXT + "libstdcxx": {
                "path": "~/env/lib/python3.11/site-packages/x/libstdc++.so.6",
                "GLIBCXX": "3.4.20",
                "CXXABI": "1.3.8",
            }
        },
        {
            EXT + "libstdcxx": {
                "path": "~/env/lib/python3.11/site-packages/x/libstdc++.so.6",
                "GLIBCXX": "3.4.33",
                "CXXABI": "1.3.15",
            }
        },
    ),
    (
        "no_kernel_image",
        "",
        {EXT + "code": {"cubins": ["sm_70", "sm_75"], "ptx": []}},
        {EXT + "code": {"cubins": ["sm_80"], "ptx": []}},
    ),
    (
        "torch_arch_dropped",
        "",
        {EXT + "package": "torch", EXT + "code": {"cubins": ["sm_90"], "ptx": []}},
        {EXT + "package": "torch", EXT + "code": {"cubins": ["sm_80", "sm_90"], "ptx": []}},
    ),
    (
        "ptx_toolchain",
        "",
        {EXT + "code": {"cubins": ["sm_70"], "ptx": ["compute_70"], "ptx_isa": "9.0"}},
        {EXT + "code": {"cubins": ["sm_70"], "ptx": ["compute_70"], "ptx_isa": "8.7"}},
    ),
    (
        "runs_by_ptx",
        "",
        {EXT + "code": {"cubins": ["sm_70"], "ptx": ["compute_70"], "ptx_isa": "8.4"}},
        {EXT + "code": {"cubins": ["sm_80"], "ptx": ["compute_80"], "ptx_isa": "8.4"}},
    ),
    (
        "crash_on_import",
        "",
        {
            "imports": [
                {"module": "kaolin", "status": "signal", "sentence": "died with SIGSEGV", "says": "Fatal Python error"}
            ]
        },
        {"imports": [{"module": "kaolin", "status": "ok", "sentence": "ended well", "says": ""}]},
    ),
    (
        "import_fails",
        "",
        {"imports": [{"module": "kaolin", "status": "exit", "sentence": "", "says": "ImportError: x"}]},
        {"imports": []},
    ),
    (
        "vital_sign_fails",
        "",
        {
            "vitals": [
                {
                    "name": "rasterize",
                    "package": "smr",
                    "status": "exit",
                    "sentence": "ended with exit code 1",
                    "says": "AssertionError: 4",
                }
            ]
        },
        {"vitals": [{"name": "rasterize", "package": "smr", "status": "ok", "sentence": "ended well", "says": ""}]},
    ),
    (
        "nvcc_missing",
        "build",
        {"toolkits": {"found": [], "build": {"root": "", "why": "none found"}}},
        {"toolkits": {"found": [], "build": {"root": "", "why": "none found"}}, **CPU_TORCH, **NO_DRIVER},
    ),
    (
        "conda_cudatoolkit_without_nvcc",
        "build",
        {
            "toolkits": {"found": [], "build": {"root": "", "why": "none found"}},
            "python.kind": "conda",
            "packages.watched.cudatoolkit": {"version": "11.3.1"},
        },
        {"python.kind": "conda"},
    ),
    ("cuda_build_mismatch", "build", {TOOLKIT + "version": "13.0"}, {TOOLKIT + "version": "12.4.0"}),
    (
        "missing_cuda_headers",
        "build",
        {TOOLKIT + "headers": {"cusparse.h": False}},
        {TOOLKIT + "headers": {"curand.h": False}},
    ),
    ("host_compiler_unsupported", "build", {"compilers.g++.version": "14.2.0"}, {"compilers.g++.version": "13.2.0"}),
    (
        "compiler_too_old_for_conda_flags",
        "build",
        {"compilers.g++.version": "7.5.0"},
        {"compilers.g++.version": "9.4.0"},
    ),
    (
        "nvcc_unsupported_arch",
        "build",
        {"driver.gpus": [{"name": "RTX 5090", "capability": "12.0"}]},
        {"driver.gpus": [{"name": "H100", "capability": "9.0"}]},
    ),
    (
        "nvcc_removed_arch",
        "build",
        {"driver.gpus": [{"name": "V100", "capability": "7.0"}], TOOLKIT + "version": "13.0"},
        {"driver.gpus": [{"name": "V100", "capability": "7.0"}]},
    ),
    ("arch_list_empty_no_gpu", "build", NO_GPU, {**NO_GPU, "compilers.arch_list": "8.6"}),
    ("ninja_missing", "build", {"compilers.ninja": False}, {"compilers.ninja": True}),
    ("python_h_missing", "build", {"compilers.python_h": False}, {"compilers.python_h": None}),
    ("msvc_missing", "build", {"system.os": "win32"}, {"system.os": "win32", "compilers.cl": True}),
    (
        "pkg_resources_removed",
        "build",
        {"packages.watched.setuptools.version": "82.0.0", "torch.version": "2.1.2"},
        {"packages.watched.setuptools.version": "82.0.0"},
    ),
    ("oom_build", "build", {"system.memory_gb": 16.0}, {"system.memory_gb": 16.0, "compilers.max_jobs": "3"}),
    (
        "cub_conflict",
        "build",
        {"compilers.cub_home": "/opt/cub"},
        {"compilers.cub_home": "/opt/cub", TOOLKIT + "version": "10.2"},
    ),
    ("torch_cpu_only", "kaolin", CPU_TORCH, {**CPU_TORCH, **NO_DRIVER, "place.pci_nvidia": 0}),
    ("wrong_interpreter", "", {"python.active": "~/other"}, {"python.active": "~/env/"}),
    (
        "duplicate_packages",
        "",
        {"packages.duplicates": {"numpy": ["1.26 in a", "2.0 in b"]}},
        {"packages.duplicates": {}},
    ),
    ("unreadable_folder", "", {"packages.unreadable": ["/opt/x: Permission denied"]}, {"packages.unreadable": []}),
    (
        "mixed_pip_conda",
        "",
        {"packages.watched.torch.installer": "conda", "python.kind": "conda"},
        {"packages.watched.torch.installer": "uv", "python.kind": "conda"},
    ),
    ("numpy2_abi", "", {"torch.version": "2.2.2"}, {"torch.version": "2.3.0"}),
    ("usd_core_python", "", {"usd.copies": []}, {"usd.copies": [], "packages.watched.smr3d": {}}),
    ("usd_boost_conflict", "", {"usd.copies": [{"folder": "a/pxr"}, {"folder": "b/pxr"}]}, {}),
    (
        "jupyter_wrong_env",
        "",
        {"place.jupyter": {"inside": True, "kernels": [{"name": "python3", "python": "/usr/bin/python3"}]}},
        {"place.jupyter": {"inside": False, "kernels": [{"name": "python3", "python": "/usr/bin/python3"}]}},
    ),
    ("no_wheel_for_torch_cuda", "", {"packages.watched.kaolin.version": "0.1"}, {}),
    ("kaolin_torch_range", "", {"torch.version": "2.9.1+cu126"}, {"torch.version": "2.8.0+cu126"}),
    (
        "no_wheel_for_python",
        "kaolin",
        {"packages.watched.kaolin": {}, "python.version": "3.13.1"},
        {"packages.watched.kaolin": {}},
    ),
    ("kaolin_missing", "kaolin", {"packages.watched.kaolin": {}}, {}),
]


@pytest.mark.parametrize(
    ("kind", "purpose", "sick", "near_miss"), CASES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)]
)
def test_rule(kind: str, purpose: str, sick: dict[str, Any], near_miss: dict[str, Any]) -> None:
    assert kind in kinds(machine(sick), purpose)
    assert kind not in kinds(machine(near_miss), purpose)


def test_every_rule_has_a_case() -> None:
    untouched = set(RULES)
    for _, _, sick, _ in CASES:
        facts = Facts(machine(sick))
        untouched -= {rule for rule in untouched if list(rule(facts))}
    assert not untouched, [rule.__name__ for rule in untouched]


@pytest.mark.parametrize("purpose", ["", "reconstruct", "kaolin", "build"])
def test_healthy_machine_gets_no_finding(purpose: str) -> None:
    assert diagnose(HEALTHY, purpose) == []


@pytest.mark.parametrize("purpose", ["", "reconstruct", "build"])
def test_a_real_gpu_machine_gets_no_finding(purpose: str) -> None:
    """Facts taken on a machine with an H200, torch 2.11+cu130, torchvision, torchaudio, JAX and CuPy."""
    assert diagnose(json.loads((Path(__file__).parent / "environment" / "h200.json").read_text()), purpose) == []


@pytest.mark.parametrize("purpose", ["", "reconstruct", "kaolin", "build"])
@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"version": 99, "torch": "new form", "extensions": {"a": 1}, "driver": [1], "usd": 3},
        {"extensions": [1, None, {"torch": 5}]},
    ],
)
def test_facts_that_are_absent_or_of_another_form_are_unknown(facts: dict[str, Any], purpose: str) -> None:
    diagnose(facts, purpose)


def test_one_root_cause_with_its_consequences_under_it() -> None:
    failed = {"module": "kaolin", "status": "exit", "sentence": "", "says": "ImportError: undefined symbol"}
    sick = machine(
        {
            EXT + "torch.absent": ["_ZN3c10a"],
            EXT + "torch.low": "2.4",
            EXT + "torch.high": "2.4",
            "imports": [failed],
            EXT + "missing": missing("libcudart.so.11.0"),
        }
    )
    (root,) = diagnose(sick)
    assert root.kind == "torch_abi_mismatch"
    assert {finding.kind for finding in root.consequences} == {"import_fails", "cudart_missing"}
    assert "was built for torch 2.4" in root.what
    assert "you run 2.6.0+cu124" in root.what
    assert any("'torch==2.4.*'" in line for line in root.cure)


def test_symbols_of_the_cuda_half_are_not_missed_in_a_cpu_torch() -> None:
    sick = {**CPU_TORCH, EXT + "torch.absent": ["aoti_torch_get_current_cuda_stream"], EXT + "torch.stable": True}
    (finding,) = diagnose(
        machine({**sick, **NO_DRIVER, "place.pci_nvidia": 0, EXT + "missing": missing("libc10_cuda.so")})
    )
    assert finding.kind == "torch_cpu_only"
    (finding,) = diagnose(machine({EXT + "torch.absent": ["torch_new_thing"], EXT + "torch.stable": True}))
    assert "stable interface" in finding.what


def test_much_evidence_is_cut() -> None:
    many = [{**HEALTHY["extensions"][0], "missing": missing(f"libx{i}.so")} for i in range(20)]
    (finding,) = diagnose({**HEALTHY, "extensions": many})
    assert finding.evidence[-1].startswith("and ")
    assert len(finding.evidence) <= 7


def test_libraries_of_other_packages_are_not_torch() -> None:
    (finding,) = diagnose(machine({EXT + "missing": missing("libtorchcodec_core4.so")}))
    assert finding.kind == "library_missing"


def test_what_blocks_comes_first_and_depends_on_the_purpose() -> None:
    sick = machine(
        {"compilers.g++.version": "14.2.0", "compilers.ninja": False, EXT + "code": {"cubins": ["sm_75"], "ptx": []}}
    )
    assert [f.kind for f in diagnose(sick, "build")] == ["host_compiler_unsupported", "ninja_missing"]
    assert [f.kind for f in diagnose(sick)] == ["no_kernel_image"]
    assert not blocks(diagnose(sick, "reconstruct"))


def test_cures_are_filled_in() -> None:
    (finding,) = diagnose(machine({"driver.version": "470.82.01", "driver.kernel_module": "470.82.01"}))
    assert "older than torch's CUDA 12.4 needs (525.60.13)" in finding.what
    assert "/cu114" in finding.cure[0]


@pytest.mark.parametrize("fault", FAULTS.values(), ids=list(FAULTS))
def test_every_fault_says_why_and_what_to_type(fault: Any) -> None:
    assert fault.why.endswith(".")
    assert 1 <= fault.page <= 12
    lines = filled(fault, {})
    assert lines
    assert all("  # " in line for line in lines)
    assert not [line for line in lines if "{" in line.replace("{print", "")]


@pytest.mark.parametrize("goal", [{"faces": 1}, {"vertices": 1}, {"max_error": 1e9}])
def test_what_the_page_says_of_meshes_without_faces_is_true(goal: dict[str, Any]) -> None:
    """Simplification never empties a mesh, however thin; no valid triangle is an error that says so."""
    import numpy as np
    import trimesh

    from smr import CleanConfig, clean
    from smr.mesh.simplify import simplify
    from smr.records import Mesh

    pipe = trimesh.creation.cylinder(radius=0.001, height=2.0, sections=12)
    closed = Mesh(np.asarray(pipe.vertices, np.float32), np.asarray(pipe.faces, np.int32))
    open_ = Mesh(np.float32([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]]), np.int32([[0, 1, 2], [1, 3, 2]]))
    assert len(simplify(closed, **goal).faces) == 4
    assert len(simplify(open_, **goal).faces) >= 1
    with pytest.raises(SmrError, match="no valid face"):
        clean(Mesh(open_.vertices, np.int32([[0, 0, 1], [2, 9, 9]])), CleanConfig(), device="cpu")


@pytest.mark.parametrize(
    ("cubin", "capability", "runs"),
    [
        ("sm_80", "8.6", True),
        ("sm_86", "8.0", False),
        ("sm_75", "8.6", False),
        ("sm_90a", "9.0", True),
        ("sm_90a", "10.0", False),
        ("sm_87", "8.9", False),
        ("sm_120", "12.1", True),
        ("sm_100f", "10.3", True),
        ("nonsense", "8.6", False),
    ],
)
def test_machine_code_runs_on_its_major_version_upwards(cubin: str, capability: str, runs: bool) -> None:
    assert runs_on(cubin, capability) is runs


@pytest.mark.parametrize(
    ("code", "capability", "works"),
    [
        ("compute_70", "8.6", True),
        ("compute_90", "8.6", False),
        ("compute_90a", "10.0", False),
        ("compute_100", "12.0", True),
    ],
)
def test_ptx_is_translated_upwards(code: str, capability: str, works: bool) -> None:
    assert translates_to(code, capability) is works


@pytest.mark.parametrize(
    ("isa", "cuda"),
    [
        ("7.0", "11.0"),
        ("7.8", "11.8"),
        ("8.0", "12.0"),
        ("8.4", "12.4"),
        ("8.7", "12.8"),
        ("9.0", "13.0"),
        ("6.4", "10.1"),
        ("", ""),
    ],
)
def test_ptx_versions_name_their_toolkit(isa: str, cuda: str) -> None:
    assert cuda_of_ptx(isa) == cuda
