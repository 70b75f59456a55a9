"""Faults met while building: toolkits, compilers, headers, memory. Pages 2, 4, 8 and 11."""

from __future__ import annotations

from smr.environment.faults.model import Fault, Step

_TOOLKIT = Step(
    "conda install -c nvidia/label/cuda-{torch_cuda}.0 cuda-toolkit", "3 GB, minutes; into the environment, no root"
)
_HOME = Step(
    "export CUDA_HOME=/usr/local/cuda-{torch_cuda} PATH=/usr/local/cuda-{torch_cuda}/bin:$PATH",
    "seconds, for the build only, where that toolkit is installed",
)

FAULTS = (
    Fault(
        "cuda_build_mismatch",
        2,
        "The detected CUDA version (X) mismatches the version that was used to compile PyTorch (Y)",
        'The first nvcc found is not of the CUDA that torch was built with; nvidia-smi\'s "CUDA Version" '
        "says what the driver can run, not what is installed.",
        (
            _HOME,
            _TOOLKIT,
            Step(
                "pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cuXYZ  (the "
                "toolkit's CUDA)",
                "3 GB, minutes",
            ),
        ),
        "torch/utils/cpp_extension.py",
    ),
    Fault(
        "nvcc_missing",
        2,
        "CUDA_HOME environment variable is not set / nvcc: command not found",
        "Building needs the full toolkit with nvcc; torch's wheels bring only the libraries to run.",
        (
            _HOME,
            _TOOLKIT,
            Step(
                "sudo apt install cuda-toolkit-{torch_cuda}  (from NVIDIA's repository; dashes for dots)", "root, 5 GB"
            ),
        ),
        "torch/utils/cpp_extension.py; contents of NVIDIA's wheels",
    ),
    Fault(
        "conda_cudatoolkit_without_nvcc",
        2,
        "CUDA_HOME is not set although conda installed cudatoolkit",
        "conda's `cudatoolkit` holds the libraries to run; the compiler is another package.",
        (
            _TOOLKIT,
            Step(
                "conda install -c conda-forge cuda-nvcc cuda-cudart-dev libcusparse-dev libcublas-dev libcusolver-dev",
                "1 GB",
            ),
        ),
    ),
    Fault(
        "nvcc_unsupported_arch",
        4,
        "nvcc fatal: Unsupported gpu architecture 'compute_XX'",
        "This nvcc is older than the GPU architecture it is asked for (8.9 needs CUDA 11.8, 9.0 needs "
        "11.8, 12.0 needs 12.8).",
        (
            Step(
                "which -a nvcc; nvcc --version",
                "seconds: an older one may stand first on PATH (Ubuntu's nvidia-cuda-toolkit)",
            ),
            Step(
                "export TORCH_CUDA_ARCH_LIST='8.0+PTX'  (the newest this nvcc knows, with PTX)",
                "seconds; first call on a newer GPU is slow",
            ),
            _HOME,
            _TOOLKIT,
        ),
        "nvcc --list-gpu-code of the toolkits 11.7 to 13.5",
    ),
    Fault(
        "nvcc_removed_arch",
        4,
        "nvcc fatal: Unsupported gpu architecture 'compute_30' (or 35, 50, 70)",
        "This nvcc no longer knows so old an architecture: 3.0 went with CUDA 11, 3.5 and 3.7 with 12, "
        "5.0 to 7.2 with 13.",
        (
            Step(
                "export TORCH_CUDA_ARCH_LIST='7.5;8.0;8.6;9.0+PTX'  (only what you have; also in setup.py or "
                "CMake flags)",
                "seconds",
            ),
            Step(
                "# use an older toolkit (12.9 for 5.0 to 7.2, 11.8 for 3.5 and 3.7), if such a GPU is the target",
                "3 GB",
            ),
        ),
        "nvcc --list-gpu-code of the toolkits 11.7 to 13.5",
    ),
    Fault(
        "host_compiler_unsupported",
        4,
        "#error -- unsupported GNU version! gcc versions later than N are not supported!",
        "Each toolkit accepts gcc up to one version; switching the check off moves the failure into the headers.",
        (
            Step("conda install -c conda-forge gxx={newest_gcc}  (sets CC and CXX in the environment)", "300 MB"),
            Step(
                "sudo apt install g++-{newest_gcc} && export CC=gcc-{newest_gcc} CXX=g++-{newest_gcc} "
                "NVCC_PREPEND_FLAGS='-ccbin g++-{newest_gcc}'",
                "root, 100 MB",
            ),
        ),
        "crt/host_config.h of the toolkits 11.7 to 13.5",
    ),
    Fault(
        "compiler_too_old_for_conda_flags",
        4,
        "gcc: error: unrecognized command line option '-fno-plt'",
        "conda's Python hands on the flags it was compiled with, which an old system gcc does not know.",
        (
            Step("conda install -c conda-forge gxx", "300 MB: the compiler of these flags"),
            Step("unset CFLAGS CXXFLAGS CPPFLAGS", "seconds"),
        ),
    ),
    Fault(
        "arch_list_empty_no_gpu",
        4,
        "IndexError: list index out of range (arch_list[-1] += '+PTX')",
        "torch asks the visible GPUs what to build for; where none is visible (docker build, login node, "
        "CPU torch) the list is empty.",
        (Step("export TORCH_CUDA_ARCH_LIST='{arch}+PTX'  (of the GPUs it will run on)", "seconds"),),
        "torch/utils/cpp_extension.py",
    ),
    Fault(
        "pip_build_isolation",
        8,
        "ModuleNotFoundError: No module named 'torch' while building",
        "pip builds in a fresh environment in which torch is not installed.",
        (
            Step(
                "pip install 'setuptools<80' wheel ninja && pip install --no-build-isolation {package}",
                "minutes of compiling",
            ),
        ),
    ),
    Fault(
        "pkg_resources_removed",
        8,
        "No module named 'pkg_resources'",
        "setuptools 82 (February 2026) no longer has pkg_resources, and 70 dropped names in it that torch "
        "up to 2.1 imports.",
        (Step("pip install 'setuptools<70' && pip install --no-build-isolation {package}", "seconds, then the build"),),
        "torch/utils/cpp_extension.py of 1.10 to 2.2; setuptools' changes",
    ),
    Fault(
        "egg_install",
        8,
        "NotADirectoryError: ...egg/...",
        "`python setup.py install` packs a zipped egg; sources that are compiled at run time cannot be read from it.",
        (Step("pip uninstall -y {package} && pip install --no-build-isolation .", "minutes"),),
    ),
    Fault(
        "missing_cuda_headers",
        11,
        "fatal error: cusparse.h: No such file or directory",
        "nvcc is there, headers of the CUDA libraries are not: conda and the index split the toolkit into packages.",
        (
            Step("conda install -c nvidia/label/cuda-{torch_cuda}.0 cuda-libraries-dev cuda-cudart-dev", "2 GB"),
            _TOOLKIT,
            _HOME,
        ),
    ),
    Fault(
        "missing_torch_headers",
        11,
        "fatal error: torch/extension.h: No such file or directory",
        "The compiler is not given torch's include folders: built with a plain setup.py or another Python "
        "than the one with torch.",
        (
            Step(
                "python -c 'import torch.utils.cpp_extension as c; print(c.include_paths())'",
                "seconds: must exist; use CUDAExtension and this python",
            ),
        ),
    ),
    Fault(
        "submodules_missing",
        11,
        "fatal error: glm/glm.hpp (cub/cub.cuh, pybind11/...): No such file or directory",
        "The repository was cloned or downloaded without its submodules.",
        (
            Step("git submodule update --init --recursive", "seconds to minutes"),
            Step("git clone --recursive URL", "minutes; a downloaded zip never has them"),
        ),
    ),
    Fault(
        "python_h_missing",
        11,
        "fatal error: Python.h: No such file or directory",
        "The headers of this Python are a separate package.",
        (
            Step("sudo apt install python{python}-dev", "root, 50 MB"),
            Step("conda install python={python}  (conda's and uv's Pythons bring them)", "100 MB"),
        ),
    ),
    Fault(
        "oom_build",
        11,
        "Killed (program cc1plus) / nvcc died due to signal 9",
        "Each nvcc job takes 3 to 5 GB; ninja starts one a core.",
        (
            Step("export MAX_JOBS={jobs}", "seconds; slower build"),
            Step("export TORCH_CUDA_ARCH_LIST='{arch}'  (one GPU only)", "seconds"),
        ),
    ),
    Fault(
        "ninja_missing",
        11,
        "Ninja is required to load C++ extensions",
        "ninja is not on PATH: not installed, or the environment is not activated (IDEs and cron start "
        "python directly).",
        (
            Step("pip install ninja", "seconds"),
            Step(
                'export PATH="$(python -c \'import sysconfig; print(sysconfig.get_path("scripts"))\'):$PATH"',
                "seconds: when it is installed",
            ),
        ),
    ),
    Fault(
        "msvc_missing",
        11,
        "Could not locate a supported Microsoft Visual C++ installation",
        "Extensions are compiled with Visual C++ on Windows, and cl.exe is on PATH only in its own prompt.",
        (
            Step(
                '"C:\\Program Files\\Microsoft Visual Studio\\2022\\BuildTools\\VC\\Auxiliary\\Build\\vcvars64.bat"',
                "seconds, in the shell that builds",
            ),
            Step("winget install Microsoft.VisualStudio.2022.BuildTools", "7 GB, administrator"),
        ),
    ),
    Fault(
        "cub_conflict",
        11,
        'namespace "cub" has no member / the version of CUB in your include path is not compatible with Thrust',
        "CUDA 11 and newer bring CUB; another checkout of it (CUB_HOME) comes first.",
        (
            Step("unset CUB_HOME", "seconds"),
            Step(
                "git submodule update --init --recursive  (a release of the package that fits this toolkit)", "minutes"
            ),
            _TOOLKIT,
        ),
    ),
    Fault(
        "source_incompatible_cuda12",
        11,
        'error: namespace "thrust" has no member "device"',
        "The source relies on headers that CUDA 12 no longer includes by the way, or on functions that it removed.",
        (
            Step(
                "# use a newer commit of the package, or add #include <thrust/execution_policy.h> (and the header "
                "of each name missed)",
                "minutes",
            ),
            Step("# build with CUDA 11.8 and a torch for it", "6 GB"),
        ),
    ),
    Fault(
        "removed_torch_api",
        11,
        "fatal error: THC/THC.h: No such file or directory",
        "The source is written for an older torch: THC went in 1.11, AT_CHECK in 1.5; torch 2.1 needs C++17.",
        (
            Step(
                "# use a newer commit of the package (or delete the THC lines and write TORCH_CHECK for AT_CHECK)",
                "minutes",
            ),
            Step("# install the torch that the package names", "3 GB"),
        ),
    ),
    Fault(
        "gl_egl_missing",
        11,
        "libGL.so.1 / EGL/egl.h / eglInitialize() failed",
        "OpenGL and EGL come with the system and the driver, not from pip; containers leave them out.",
        (
            Step("sudo apt install libgl1 libegl1 libglib2.0-0 libegl1-mesa-dev libgles2-mesa-dev", "root, 50 MB"),
            Step(
                "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=all IMAGE",
                "seconds: with the driver's graphics half",
            ),
            Step(
                "# use the package's CUDA rasterizer (nvdiffrast: RasterizeCudaContext; Open3D, pyrender: EGL or "
                "OSMesa)",
                "a line of code",
            ),
        ),
    ),
)
