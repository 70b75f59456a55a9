"""Rules about the driver, the GPUs and the place that they are seen from."""

from __future__ import annotations

from collections.abc import Iterator

from smr.environment import tables, versions
from smr.environment.rules.finding import BLOCKS, DEGRADES, NOTE, Facts, Finding

_CUDA_ONLY = ("kaolin", "build")


def driver_hangs(facts: Facts) -> Iterator[Finding]:
    """nvidia-smi or cuInit does not come back."""
    for name, path in (("nvidia-smi", "driver.nvidia_smi"), ("cuInit", "driver.cuda_probe")):
        if facts.text(path) == "timeout":
            yield Finding(
                "driver_hangs", BLOCKS, f"{name} does not answer within its time limit", (f"{path}: timeout",)
            )
            return


def library_mismatch(facts: Facts) -> Iterator[Finding]:
    """The kernel runs another driver version than the libraries on disk."""
    says, code = facts.text("driver.nvidia_smi_says"), facts.number("driver.cuinit")
    module, version = facts.text("driver.kernel_module"), facts.text("driver.version")
    evidence = []
    if "version mismatch" in says.lower():
        evidence.append(f"nvidia-smi: {says.splitlines()[0]}")
    if code == 803:
        evidence.append("cuInit answers 803 (system driver mismatch)")
    if code == 804 and not _compat_in_reach(facts):
        evidence.append("cuInit answers 804, and no cuda-compat library is in reach")
    if not evidence and module and version and versions.parse(module) != versions.parse(version):
        evidence.append(f"kernel module {module}, nvidia-smi {version}")
    if evidence:
        what = f"the kernel runs driver {module or '?'}, its libraries are of another version"
        yield Finding("driver_library_mismatch", BLOCKS, what, tuple(evidence), _CUDA_ONLY)


def compat_library(facts: Facts) -> Iterator[Finding]:
    """Error 804 with a cuda-compat libcuda in front."""
    if facts.number("driver.cuinit") == 804 and _compat_in_reach(facts):
        path = facts.text("driver.libcuda_path") or "LD_LIBRARY_PATH"
        what = f"a libcuda of cuda-compat is found first ({path}); this GPU does not support it"
        yield Finding("cuda_compat_forward", BLOCKS, what, ("cuInit answers 804",), _CUDA_ONLY)


def fabric_manager(facts: Facts) -> Iterator[Finding]:
    """Error 802: NVSwitch without its manager."""
    if facts.number("driver.cuinit") == 802:
        what = "the GPUs are joined by NVSwitch and wait for nvidia-fabricmanager"
        yield Finding("fabric_manager_missing", BLOCKS, what, ("cuInit answers 802",), _CUDA_ONLY, values=facts.values)


def no_driver(facts: Facts) -> Iterator[Finding]:
    """A GPU on the bus that no driver serves: not installed, or a container started without it."""
    on_bus = facts.number("place.pci_nvidia") or 0
    if facts.items("driver.gpus") or not on_bus or facts.text("driver.nvidia_smi") in ("timeout", "exit", "signal"):
        return
    evidence = (
        f"{on_bus:.0f} NVIDIA display devices on the bus, libcuda "
        f"{'found' if facts.flag('driver.libcuda') else 'absent'}",
    )
    if facts.text("place.container"):
        what = f"the host has an NVIDIA GPU, this container ({facts.text('place.container')}) was started without it"
        yield Finding("container_no_gpu_flag", DEGRADES, what, evidence)
    elif not facts.flag("place.wsl"):
        yield Finding("driver_missing", DEGRADES, "this machine has an NVIDIA GPU, and no driver answers", evidence)


def container_start(facts: Facts) -> Iterator[Finding]:
    """CuInit fails in a container for another reason than those with a code of their own."""
    code = facts.number("driver.cuinit")
    if facts.text("place.container") and code not in (None, 0, 100, 802, 803, 804) and not _hidden(facts):
        devices = ", ".join(facts.items("place.device_files")) or "none"
        what = f"CUDA does not start in this container (cuInit answers {code:.0f})"
        yield Finding("container_cuinit", BLOCKS, what, (f"device files: {devices}",), _CUDA_ONLY, "likely")


def hidden_gpus(facts: Facts) -> Iterator[Finding]:
    """CUDA_VISIBLE_DEVICES hides every GPU."""
    if _hidden(facts) and facts.items("driver.gpus"):
        value = facts.text("place.cuda_visible_devices")
        what = f"CUDA_VISIBLE_DEVICES={value!r} hides all {len(facts.items('driver.gpus'))} GPUs"
        yield Finding("gpus_hidden", DEGRADES, what, ("environment variable CUDA_VISIBLE_DEVICES",))


def mig(facts: Facts) -> Iterator[Finding]:
    """MIG is on, and no slice is named."""
    gpus = [gpu for gpu in facts.groups("driver.gpus") if gpu.flag("mig")]
    named = facts.text("place.cuda_visible_devices").startswith("MIG-")
    if gpus and not named and not facts.items("driver.visible"):
        what = f"MIG is on ({gpus[0].text('name')}), and CUDA_VISIBLE_DEVICES names no slice"
        yield Finding("mig_visible_devices", BLOCKS, what, ("nvidia-smi: mig.mode.current Enabled",), _CUDA_ONLY)


def wsl_library(facts: Facts) -> Iterator[Finding]:
    """WSL has the driver's library, and the loader does not find it."""
    if facts.flag("place.wsl") and facts.flag("place.wsl_libcuda") and facts.flag("driver.libcuda") is False:
        what = "libcuda.so.1 lies in /usr/lib/wsl/lib, and the loader does not look there"
        yield Finding("wsl_libcuda", DEGRADES, what, ("dlopen of libcuda.so.1 fails",))


def driver_too_old(facts: Facts) -> Iterator[Finding]:
    """Torch's CUDA needs a newer driver than this one."""
    cuda, driver = facts.text("torch.cuda"), facts.text("driver.version")
    floor = tables.oldest_driver(cuda)
    if cuda and driver and floor and versions.below(driver, floor):
        what = f"driver {driver} is older than torch's CUDA {cuda} needs ({floor})"
        ceiling = tables.driver_cuda(driver)
        evidence = (f"this driver runs CUDA up to {ceiling}",) if ceiling else ()
        values = {**facts.values, "torch_cuda": ceiling, "toolkit_driver": tables.toolkit_driver(cuda)}
        yield Finding("driver_too_old", BLOCKS, what, evidence, _CUDA_ONLY, values=values)


def job_without_gpu(facts: Facts) -> Iterator[Finding]:
    """A batch job that asked for no GPU, with a torch that is built for one."""
    job = facts.group("place.slurm")
    if job and not job.get("gpus") and not facts.items("driver.gpus") and facts.text("torch.cuda"):
        what = "this batch job was given no GPU"
        yield Finding("slurm_env", NOTE, what, ("SLURM_JOB_GPUS and SLURM_GPUS_ON_NODE are not set",), sure="likely")


def _compat_in_reach(facts: Facts) -> bool:
    paths = [facts.text("driver.libcuda_path"), *map(str, facts.items("loader.library_path"))]
    return any("compat" in path for path in paths) or bool(facts.text("place.container"))


def _hidden(facts: Facts) -> bool:
    value = facts.group("place").get("cuda_visible_devices")
    return isinstance(value, str) and value.strip() in ("", "-1", "NoDevFiles")


RULES = (
    driver_hangs,
    library_mismatch,
    compat_library,
    fabric_manager,
    no_driver,
    container_start,
    hidden_gpus,
    mig,
    wsl_library,
    driver_too_old,
    job_without_gpu,
)
