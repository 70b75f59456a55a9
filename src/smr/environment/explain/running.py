"""Clues of the CUDA runtime, the driver, the place that code runs in, graphics and Python packages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from re import Match

from smr.environment import tables, versions
from smr.environment.explain.clues import Clue, Verdict, clue, means
from smr.environment.explain.situation import Situation


def _capability(match: Match[str], situation: Situation) -> Iterable[Verdict]:
    """Torch says that the GPU is not among the architectures it was built for: too old for it, or too new."""
    own = int(match.group("sm"))
    built = [int(arch) for arch in re.findall(r"sm_(\d+)", match.string[match.end() : match.end() + 400])]
    if built and own > max(built):
        yield Verdict("no_kernel_image", 0.8, f"the GPU is sm_{own}, torch was built up to sm_{max(built)}")
        yield Verdict("torch_arch_dropped", 0.72, f"torch holds no code for sm_{own}")
    else:
        since = f" (its lowest is sm_{min(built)})" if built else ""
        yield Verdict("torch_arch_dropped", 0.95, f"this torch holds no code for sm_{own}{since}")
        yield Verdict("no_kernel_image", 0.55, f"no code for sm_{own}")


def _no_kernel(match: Match[str], situation: Situation) -> Iterable[Verdict]:
    gpu = tables.capability(situation.fact("gpu"))
    yield Verdict(
        "no_kernel_image", 0.9, "the file holds no code for this GPU" + (f" (compute capability {gpu})" if gpu else "")
    )
    if gpu and versions.below(gpu, "7.5") and versions.at_least(situation.torch, "2.8"):
        yield Verdict("torch_arch_dropped", 0.6, f"newer torch builds hold no code for compute capability {gpu}")
    else:
        yield Verdict("torch_arch_dropped", 0.4, "torch itself may lack code for this GPU")


def _forward_compatibility(match: Match[str], situation: Situation) -> Iterable[Verdict]:
    """Error 804: a libcuda newer than the kernel driver: a compat package, or an update without a reboot."""
    updated = situation.says(
        r"after (an? )?\w* ?(update|upgrade|reboot)|(updated?|upgraded?) (the )?(nvidia|driver|system|"
        r"ubuntu)|apt(-get)? (up|dist-up)grade|unattended"
    )
    if updated and not situation.container:
        yield Verdict(
            "driver_library_mismatch", 0.85, "the driver was updated, and its kernel part is still the old one"
        )
    because = "a libcuda newer than the driver (cuda-compat) is found first; it works on data-centre GPUs only"
    yield Verdict("cuda_compat_forward", 0.8, because)
    yield Verdict("driver_library_mismatch", 0.5, "the driver's kernel and user parts differ")
    yield Verdict("driver_too_old", 0.4, "the driver is older than this CUDA")


def _system_driver_mismatch(match: Match[str], situation: Situation) -> Iterable[Verdict]:
    yield Verdict(
        "driver_library_mismatch", 0.85, "libcuda and the kernel driver are of different versions (error 803)"
    )
    yield Verdict(
        "cuda_compat_forward", 0.6 if situation.container else 0.45, "a cuda-compat libcuda may be found first"
    )


def _no_gpu(match: Match[str], situation: Situation) -> Iterable[Verdict]:
    """No GPU is seen: by torch alone, or in this place at all."""
    on_the_host = situation.container and situation.says(r"host\b[^\n]{0,20}nvidia-smi|nvidia-smi[^\n]{0,40}\bhost")
    smi_works = not on_the_host and situation.says(
        r"nvidia-smi\b[^\n]{0,40}\b(works|fine|ok|shows|sees|output|correct|normal|lists|recogni)"
    )
    if situation.torch_is_cpu_build or smi_works:
        because = "torch is a CPU build" if situation.torch_is_cpu_build else "nvidia-smi sees the GPU, torch does not"
        yield Verdict("torch_cpu_only", 0.85, because)
    if situation.says(r"\bMIG\b|MIG-"):
        yield Verdict("mig_visible_devices", 0.82, "a MIG slice has to be named to be seen")
    if situation.slurm:
        yield Verdict("slurm_env", 0.78, "the job got no GPU, or another environment than the terminal's")
    if situation.container:
        yield Verdict("container_no_gpu_flag", 0.8, "a container sees the GPU only when it was started with it")
        yield Verdict("container_cuinit", 0.5, "CUDA does not start in the container")
    yield Verdict("torch_cpu_only", 0.6, "a CPU build of torch sees no GPU")
    yield Verdict("container_no_gpu_flag", 0.35, "no GPU is visible in this place")
    yield Verdict("driver_library_mismatch", 0.3, "the driver does not answer")


def _cuda_does_not_start(match: Match[str], situation: Situation) -> Iterable[Verdict]:
    if situation.says(r"\b80[234]\b|no CUDA-capable|too old|insufficient"):
        return  # the error has a code with a cause of its own
    yield Verdict("container_cuinit", 0.85 if situation.container else 0.55, "cuInit fails though the driver is there")
    yield Verdict("driver_library_mismatch", 0.5, "the driver's parts may not fit each other")
    if situation.container:
        yield Verdict("container_no_gpu_flag", 0.45, "the container may lack the GPU's devices")


def _built_without_cuda(match: Match[str], situation: Situation) -> Iterable[Verdict]:
    if situation.slurm and not situation.says(r"FORCE_CUDA"):
        yield Verdict(
            "slurm_env", 0.88, "on the batch node another build is found, or it was built on a node without a GPU"
        )
    yield Verdict("extension_built_cpu_only", 0.86, "the extension was built without CUDA")
    yield Verdict("torch_cpu_only", 0.4, "an extension built beside a CPU torch has no CUDA code")


def _mig(match: Match[str], situation: Situation) -> Iterable[Verdict]:
    yield Verdict(
        "mig_visible_devices",
        0.88 if situation.says(r"\bMIG\b") else 0.6,
        "a process can use one MIG slice, named in CUDA_VISIBLE_DEVICES",
    )


def _no_torch(match: Match[str], situation: Situation) -> Iterable[Verdict]:
    """Not seen while building (isolation), or not there for the interpreter that runs."""
    if situation.jupyter:
        yield Verdict("jupyter_wrong_env", 0.9, "the notebook's kernel is another interpreter than the one with torch")
    if situation.slurm:
        yield Verdict("slurm_env", 0.8, "the batch job runs another interpreter")
    if situation.building or situation.fact("install") or situation.torch:
        yield Verdict("pip_build_isolation", 0.88, "the build runs in an isolated environment without torch")
        yield Verdict("jupyter_wrong_env", 0.45, "another interpreter than the one with torch")
    else:
        yield Verdict(
            "jupyter_wrong_env", 0.62, "nothing is being built: the interpreter that runs is not the one with torch"
        )
        yield Verdict("pip_build_isolation", 0.55, "builds run in an isolated environment without torch")


def _no_wheel(match: Match[str], situation: Situation) -> Iterable[Verdict]:
    package = match.group("package").lower()
    version = versions.parse(match.group("version") or "")
    if re.match(r"usd[-_]core|pxr", package):
        yield Verdict("usd_core_python", 0.9, "usd-core has no wheel for this Python or machine")
        return
    _, newest = tables.kaolin_python(".".join(map(str, version))) if package == "kaolin" else ("", "")
    python = versions.minor(situation.fact("python"))
    if newest and python and versions.below(newest, python):
        yield Verdict("no_wheel_for_python", 0.93, f"{package} has wheels up to Python {newest}, this is {python}")
        yield Verdict("no_wheel_for_torch_cuda", 0.6, "no wheel for this torch and CUDA")
        return
    new_python = versions.at_least(python, "3.13") or versions.below(python, "3.9")
    yield Verdict(
        "no_wheel_for_torch_cuda", 0.75, f"no page of {package} wheels for this torch and CUDA (or its name is wrong)"
    )
    yield Verdict(
        "no_wheel_for_python",
        0.8 if (new_python and package != "kaolin") or package == "torch" else 0.6,
        "no wheel for this Python",
    )
    yield Verdict("kaolin_torch_range", 0.3, "the release may not accept this torch")


def _missing_module(match: Match[str], situation: Situation) -> Iterable[Verdict]:
    """A module that is installed elsewhere: in a notebook, a job, a build."""
    name = match.group("module")
    if re.match(r"(setuptools|wheel|Cython|numpy|pybind11|packaging|torch\w*)$", name, re.I) and situation.building:
        yield Verdict("pip_build_isolation", 0.6, f"the isolated build does not see {name}")
    if situation.jupyter:
        yield Verdict("jupyter_wrong_env", 0.75, f"the notebook's interpreter has no {name}")
    if situation.slurm:
        yield Verdict("slurm_env", 0.72, f"the job's interpreter has no {name}")


CLUES: tuple[Clue, ...] = (
    clue(
        r"no kernel image|invalid device function|cudaErrorNoKernelImage|CUDA_ERROR_NO_BINARY_FOR_GPU|"
        r"device kernel image is invalid|cudaErrorInvalidDeviceFunction",
        _no_kernel,
    ),
    clue(r"CUDA capability sm_(?P<sm>\d+) is not compatible", _capability),
    means(
        r"too old[^\n]*no longer support|is no longer supported[^\n]*torch|minimum cuda capability supported",
        "torch_arch_dropped",
        0.9,
        "this torch no longer holds code for so old a GPU",
    ),
    means(
        r"PTX was compiled with an unsupported toolchain|UNSUPPORTED_PTX_VERSION|unsupported PTX version|"
        r"unsupported \.version|PTX JIT compil\w+ fail",
        "ptx_toolchain",
        0.92,
        "the PTX is of a newer CUDA than the driver can compile",
    ),
    means(
        r"driver on your system is too old|driver version is insufficient|cudaErrorInsufficientDriver|"
        r"unsatisfied condition: cuda|requires? (a )?(newer )?(nvidia )?driver (version )?(>=|\d)|"
        r"update your (GPU|nvidia) driver|driver[^\n]{0,30}too old",
        "driver_too_old",
        0.92,
        "the driver is older than this CUDA runtime needs",
    ),
    clue(r"error\W{0,2}804\b|forward compatibility was attempted|\(804\)", _forward_compatibility),
    clue(r"error\W{0,2}803\b|unsupported display driver|cudaErrorSystemDriverMismatch", _system_driver_mismatch),
    means(
        r"driver/library version mismatch|NVML library version|kernel module version \S+ does not match|API mismatch",
        "driver_library_mismatch",
        0.93,
        "the loaded kernel module and the driver's libraries are of different versions: not rebooted since an update",
    ),
    means(
        r"error\W{0,2}802\b|system not yet initialized|fabric ?manager|cudaErrorSystemNotReady",
        "fabric_manager_missing",
        0.95,
        "NVSwitch machines need nvidia-fabricmanager of the driver's version",
    ),
    clue(
        r"No CUDA GPUs are available|no CUDA-capable device|Found no NVIDIA driver|"
        r"is_available\(\)[^\n]{0,40}\bFalse|(returns?|is|:) False[^\n]*cuda|cudaErrorNoDevice|"
        r"could not select device driver|nvidia-smi['\"]?:? (command )?not found|failed to initialize NVML|"
        r"couldn'?t communicate with the NVIDIA driver|no (nvidia )?GPU(s)? (is |are |was |were )?(found|"
        r"detected|visible|available)",
        _no_gpu,
    ),
    means(
        r"could not select device driver|(without|add|missing|need|forgot|use)[^\n]{0,30}(--gpus|--nv\b)|"
        r"nvidia-container-(toolkit|runtime)[^\n]*(not|missing|install)|"
        r"unknown or invalid runtime name: nvidia|runtime ?= ?nvidia",
        "container_no_gpu_flag",
        0.7,
        "the container was started without the GPU or its toolkit",
    ),
    clue(
        r"CUDA driver initialization failed|CUDA unknown error|CUDA_ERROR_UNKNOWN|cuInit[^\n]*(fail|error|"
        r"return)|Failed to initialize NVML: Unknown Error|CUDA_ERROR_NOT_INITIALIZED|"
        r"initialization error|cudaGetDeviceCount(\(\))?[^\n]{0,20}(return|fail|error)|"
        r"named symbol not found|Unexpected error from cudaGetDeviceCount",
        _cuda_does_not_start,
    ),
    means(
        r"not compiled with CUDA enabled|\b\d\.\d+\.\d+\+cpu\b|CPU[- ]only (build|version|torch|pytorch|"
        r"wheel)|CPU (build|version|wheel) of (py)?torch|cpuonly|torch\.version\.cuda[^\n]{0,12}None|"
        r"py\d+_cpu\b|installs?( the)? cpu",
        "torch_cpu_only",
        0.82,
        "the installed torch is a CPU build",
    ),
    clue(
        r"not compiled with GPU support|compiled without (GPU|CUDA)|not (been )?(compiled|"
        r"built) with CUDA (support|backend)|from the '?CUDA'? backend|built without CUDA|CUDA (support|"
        r"extension|ops?) (is |are |was )?not (available|enabled|compiled|built)|no CUDA (kernels?|ops?|"
        r"implementation)",
        _built_without_cuda,
    ),
    clue(
        r"device >= 0 && device < num_gpus|\bMIG-|\bMIG (mode|slice|instance|device)s?\b|"
        r"NVIDIA_VISIBLE_DEVICES[^\n]*MIG|invalid device ordinal",
        _mig,
    ),
    clue(
        r"no module named ['\"]?torch['\"]?(?![\w.])|torch (is|was) not (found|installed)|"
        r"(please )?install (py)?torch (first|before)|requires (py)?torch to be installed|no torch in|"
        r"torch (must|should|has to|needs to) be (pre-?)?installed",
        _no_torch,
    ),
    clue(r"no module named ['\"]?(?P<module>(?!torch\b|pxr\b|pkg_resources\b|ninja\b)\w+)", _missing_module),
    means(
        r"no module named ['\"]?pkg_resources|import name ['\"]?packaging['\"]? from ['\"]?pkg_resources|"
        r"pkg_resources[^\n]*(removed|missing|not found|has no attribute|Error)|"
        r"pkgutil[^\n]*ImpImporter",
        "pkg_resources_removed",
        0.92,
        "setuptools no longer has pkg_resources, which this build still imports",
    ),
    means(
        r"not a directory[^\n]*\.egg\b|\.egg[\\/][^\n]*not a directory|\.egg/[^\n]*(no such file|"
        r"not found)|zip(ped|_safe)? ?egg|\.egg['\"]? (is a|file)",
        "egg_install",
        0.92,
        "it was installed as a zipped egg, whose sources cannot be compiled",
    ),
    clue(
        r"(?:no matching distribution found for|could not find a version that satisfies the requirement|"
        r"has no wheels? (?:for|with)|no (?:compatible |matching )?wheels? (?:for|found for)|"
        r"no solution found[^\n]*)\s*['\"]?(?P<package>[A-Za-z][\w-]*)(?:\s*[=<>~!]+\s*(?P<version>[\w.+]+))?",
        _no_wheel,
    ),
    means(
        r"\bcp31[3-9]\b|is not a supported wheel on this platform|requires-python|requires (a different )?python",
        "no_wheel_for_python",
        0.6,
        "the wheels are for other Pythons",
    ),
    means(
        r"torch-[\d.]+(\+\w+)?_cu\d+\.html|from versions: 0\.[01]\b|kaolin 0\.1\b|no wheels?[^\n]*(torch|cuda|cu1)",
        "no_wheel_for_torch_cuda",
        0.66,
        "pip saw only the placeholder: no wheel for this torch and CUDA",
    ),
    means(
        r"searching for torch[<>=]|torch ?[<>]=?[\d.]+, ?[<>]=?[\d.]+|kaolin (requires|needs|"
        r"supports)[^\n]*torch|IGNORE_TORCH_VER|torch[^\n]{0,40}(refused|not supported by kaolin)|"
        r"incompatible torch|requires torch[<>=]",
        "kaolin_torch_range",
        0.85,
        "this release does not accept the installed torch",
    ),
    means(
        r"__cuda\b[^\n]*(missing|not|absent|==?|>=|candidates|for which)|requires __cuda|"
        r"nothing provides __cuda|CONDA_OVERRIDE_CUDA|virtual package",
        "conda_virtual_package_missing",
        0.9,
        "the solver sees no __cuda where no GPU is visible",
    ),
    means(
        r"compiled using NumPy 1|_ARRAY_API not found|numpy\.core\.(_?multiarray\w*|umath)[^\n]*fail|"
        r"numpy\.dtype size changed|numpy is not available|compiled against (ABI version|API version|"
        r"NumPy)|downgrade to 'numpy<2'|(pin|downgrade|need|use|works with|install)\w*[^\n]{0,20}numpy ?< ?2\b|"
        r"numpy ?2(\.\d)?[^\n]*(incompatib|crash|ABI)",
        "numpy2_abi",
        0.92,
        "compiled for NumPy 1, NumPy 2 is installed",
    ),
    means(
        r"descriptors cannot (not )?be created|protoc >= |PROTOCOL_BUFFERS_PYTHON|protobuf[^\n]*("
        r"conflict|incompatib|downgrade|mismatch)|google\.protobuf[^\n]*(error|import|attribute)|_pb2\.py",
        "protobuf_conflict",
        0.92,
        "generated code and the installed protobuf are of different times",
    ),
    means(
        r"no module named ['\"]?(pxr|usd)|usd-core[^\n]*\b(can ?not|can't|no|not|fail\w*|unable|unavail\w*)\b|"
        r"\b(no|not)\b[^\n]*\busd-core\b|import pxr[^\n]*fail",
        "usd_core_python",
        0.88,
        "usd-core is not there, or has no wheel for this Python or machine",
    ),
    means(
        r"boost[^\n]*\b(fail\w*|errors?|conflict\w*|mismatch\w*)\b|pxrInternal|TF_FATAL|(two|multiple|"
        r"another)[^\n]*\b(usd|pxr)\b|TypeError: No to_python|pxr[\\/]\w+[\\/]_\w+\.so",
        "usd_boost_conflict",
        0.72,
        "two builds of USD or Boost meet",
    ),
    means(
        r"eglInitialize|eglGetDisplay|eglQuery\w*|\bEGL\b[^\n]*(fail|error|not|cannot|unable|invalid|"
        r"missing|no )|(fail|cannot|could not|unable)[^\n]*\b(EGL|GL|OpenGL|GLX|GLFW)\b|"
        r"pyglet[^\n]*(Error|Exception)|_create_shadow_window|OpenGL\.error|GLFW ?error|GLEW[^\n]*(fail|"
        r"error|init)|(connect|"
        r"open)[^\n]*(display|X server)|PYOPENGL_PLATFORM|"
        r"osmesa[^\n]*(fail|error|not|cannot|unable)|(fail|error|not|cannot|unable)[^\n]*osmesa|"
        r"glutil\.cpp|libGL error|MESA-LOADER|swrast|libgl1[^\n]*(missing|not|need|require)|"
        r"DISPLAY (environment )?(variable )?(is )?(not set|missing)|NoSuchDisplay",
        "gl_egl_missing",
        0.82,
        "OpenGL or EGL of the system is not there or cannot start",
    ),
    means(
        r"sys\.executable|kernel\.json|kernelspec|\b(jupyter\w*|notebook|(notebook|selected|wrong|conda|"
        r"python|ipython) kernel|"
        r"kernel (uses|runs|is))\b[^\n]*(different|wrong|other|"
        r"another|not the same|base|fail|not found|no module|can'?t|cannot|doesn'?t)",
        "jupyter_wrong_env",
        0.84,
        "the notebook's kernel is another interpreter than the terminal's",
    ),
    means(
        r"\b(works?|imports?|fine|ok|success\w*|runs?)\b[^\n]*\b(terminal|shell|command line|console|python|ssh)\b"
        r"[^\n]*\b(jupyter\w*|notebook|kernel|lab)\b",
        "jupyter_wrong_env",
        0.94,
        "the same import works in the terminal: what differs is the notebook's interpreter",
    ),
    means(
        r"(sbatch|srun|slurm|batch (job|script|node)|compute node)[^\n]*(fail|not|cannot|error|different|missing|"
        r"lost|reset|empty|no )",
        "slurm_env",
        0.8,
        "the batch job has another environment than the terminal",
    ),
    means(
        r"\b(works?|fine|ok|runs?|imports?)\b[^\n]*\b(login|interactive\w*|terminal|salloc|head node)\b"
        r"[^\n]*\b(sbatch|srun|slurm|batch|jobs?|qsub|compute)\b",
        "slurm_env",
        0.94,
        "the same works outside the batch system: what differs is the job's environment",
    ),
    means(
        r"FileBaton|waiting for lock|lock file[^\n]*torch_extensions|torch_extensions[^\n]*(stale|lock|old|"
        r"stuck|hang|cache)|(clear|delete|remove|rm)[^\n]*torch_extensions|No module named '?\w+_plugin",
        "stale_jit_cache",
        0.8,
        "the cache of compiled plugins holds something old or locked",
    ),
    means(
        r"(remove|delete|clean|rm)[^\n]*\bbuild/?\b[^\n]*(director|folder|again|rebuild)|stale build|"
        r"old build (dir|folder|files)|python setup\.py clean",
        "stale_build_dir",
        0.6,
        "old objects in the build folder",
    ),
    means(
        r"(conda|pip)[^\n]*(and|with|mixed|then|but)[^\n]*(pip|conda)[^\n]*(torch|mix|install|conflict)",
        "mixed_pip_conda",
        0.5,
        "packages of pip and conda are mixed",
    ),
)
