"""Faults of compiled extensions that do not fit the torch, the loader or the GPU they meet. Pages 1, 3, 9 and 10."""

from __future__ import annotations

from smr.environment.faults.model import Fault, Step

_REBUILD = Step(
    "pip install --no-build-isolation --no-cache-dir --no-binary {package} --force-reinstall --no-deps {package}",
    "minutes of compiling, needs nvcc of CUDA {torch_cuda}",
)
_CLEAN = Step("rm -rf build/ *.egg-info ~/.cache/torch_extensions", "seconds; only caches and build products")
_EMPTY_PATH = Step(
    "env -u LD_LIBRARY_PATH python -c 'import torch, {package}'",
    "seconds; if this works, take LD_LIBRARY_PATH out of ~/.bashrc",
)

FAULTS = (
    Fault(
        "torch_abi_mismatch",
        1,
        "undefined symbol: _ZN3c10... / _ZN2at... when an extension is imported",
        "A compiled extension is bound to the torch it was built with; C++ functions of torch change "
        "between minor versions.",
        (
            _CLEAN,
            Step(
                "pip install --no-deps --force-reinstall {package}  (a wheel made for torch {torch} and CUDA "
                "{torch_cuda})",
                "seconds, if such a wheel exists",
            ),
            Step(
                "pip install 'torch=={built_for}.*' --index-url https://download.pytorch.org/whl/{cu}  "
                "(the torch that the extension was built for)",
                "3 GB, minutes",
            ),
            _REBUILD,
        ),
        "symbols of 19 torch wheels read (torch_symbols.json)",
    ),
    Fault(
        "cxx11_abi_mismatch",
        1,
        "undefined symbol: ...NSt7__cxx1112basic_string... (or ...RKSs)",
        "The extension and torch spell std::string differently: wheels of the index have the old C++ ABI "
        "up to torch 2.6 and the new one from 2.7 on (aarch64: from 2.6).",
        (
            Step(
                "python -c 'import torch; print(torch._C._GLIBCXX_USE_CXX11_ABI)'",
                "seconds: True means take wheels marked cxx11abiTRUE",
            ),
            Step(
                "pip install --no-deps --force-reinstall {package}  (the wheel with torch's C++ ABI)",
                "seconds, if such a wheel exists",
            ),
            _REBUILD,
        ),
        "nm of libc10.so of the torch wheels 1.4 to 2.15",
    ),
    Fault(
        "stale_build_dir",
        1,
        "undefined symbol although it was just rebuilt",
        "setup.py reuses objects in build/ that were compiled for the torch before.",
        (
            _CLEAN,
            Step(
                "pip install --no-build-isolation --no-cache-dir --force-reinstall --no-deps .", "minutes of compiling"
            ),
        ),
    ),
    Fault(
        "stale_jit_cache",
        1,
        "~/.cache/torch_extensions/.../plugin.so: undefined symbol",
        "Plugins compiled at run time are kept in a cache that does not notice a new package or torch version.",
        (Step("rm -rf ~/.cache/torch_extensions", "seconds; they are compiled again when needed"),),
    ),
    Fault(
        "mixed_pip_conda",
        1,
        "undefined symbol in an environment with packages of pip and of conda",
        "torch of conda and torch of pip are different builds (C++ ABI, MKL, CUDA libraries); an "
        "extension fits one of them.",
        (
            Step("conda list | grep -iE 'torch|{package}|cuda|mkl'", "seconds: the last column says who brought it"),
            Step("pip uninstall -y {package} torch  (then both from one source)", "2-3 GB, minutes"),
            Step(
                "python -m venv ~/smr-env && ~/smr-env/bin/pip install torch {package}",
                "3 GB, minutes: a new environment, pip only",
            ),
        ),
    ),
    Fault(
        "torch_lib_layout",
        1,
        "libtorch_cpu.so / libtorch_cuda_cu.so: cannot open shared object file",
        "torch cut its libraries differently: one libtorch.so up to 1.4, libtorch_cpu and libtorch_cuda "
        "since 1.5, and two halves _cu and _cpp in some builds of 1.8 to 1.13.",
        (Step("pip install --no-deps --force-reinstall {package}  (the wheel for torch {torch})", "seconds"), _REBUILD),
        "library names read from torch wheels",
    ),
    Fault(
        "torch_not_imported_first",
        9,
        "libc10.so: cannot open shared object file",
        "An extension finds torch's libraries only because torch has loaded them before.",
        (Step("python -c 'import torch; import {package}'", "seconds: if this works, import torch first"), _REBUILD),
    ),
    Fault(
        "device_link_missing",
        1,
        "undefined symbol: __cudaRegisterLinkedBinary...",
        "Objects compiled with relocatable device code (-rdc=true) were linked without nvcc's device link step.",
        (
            Step(
                "# add dlink=True and dlink_libraries to the CUDAExtension, or compile without -rdc=true; then "
                "build again",
                "minutes of compiling",
            ),
        ),
    ),
    Fault(
        "no_kernel_image",
        3,
        "no kernel image is available for execution on the device",
        "A compiled file holds machine code for some GPU generations; without code for this one, and "
        "without PTX to translate, nothing can run.",
        (
            Step(
                "TORCH_CUDA_ARCH_LIST='{arch}+PTX' pip install --no-build-isolation --no-cache-dir --no-binary "
                "{package} --force-reinstall --no-deps {package}",
                "minutes of compiling",
            ),
        ),
        "fatbin entries of the file against the GPU's compute capability",
    ),
    Fault(
        "torch_arch_dropped",
        3,
        "GPU with CUDA capability sm_XX is not compatible with the current PyTorch installation",
        "Newer torch builds leave out old GPU generations: cu128 and cu130 builds start at 7.0 or 7.5; "
        "the cu126 builds still have 5.0 to 9.0.",
        (
            Step(
                "pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cu126",
                "3 GB, minutes",
            ),
        ),
        "build scripts and wheels of torch 2.9 to 2.15",
    ),
    Fault(
        "cudart_missing",
        9,
        "libcudart.so.XX.X: cannot open shared object file",
        "The file was linked to the CUDA runtime of one major version, and torch brings another (or none).",
        (
            Step(
                "python -c 'import torch; print(torch.version.cuda)'",
                "seconds: must be the CUDA the file was built for",
            ),
            Step("pip install --no-deps --force-reinstall {package}  (the wheel for CUDA {torch_cuda})", "seconds"),
            Step("pip install {pip}", "up to 1 GB: the library itself, where only it is missing"),
        ),
        "sonames read from NVIDIA's wheels",
    ),
    Fault(
        "cudnn_missing",
        9,
        "libcudnn.so.8: cannot open shared object file",
        "cuDNN 8 and 9 are different libraries: torch 2.4 and newer bring 9, older ones 8.",
        (
            Step(
                "pip install 'nvidia-cudnn-cu12<9'  (for libcudnn.so.8 with CUDA 12; nvidia-cudnn-cu11 with 11)",
                "0.7 GB",
            ),
            _REBUILD,
        ),
        "requirements of the torch wheels",
    ),
    Fault(
        "nvrtc_unversioned_missing",
        9,
        "libnvrtc.so: cannot open shared object file",
        "cuDNN opens libnvrtc.so by its name without a version, which only a full toolkit has; pip wheels "
        "carry libnvrtc.so.12.",
        (
            Step(
                "ln -s libnvrtc.so.12 \"$(python -c 'import nvidia.cuda_nvrtc as m; "
                "print(m.__path__[0])')/lib/libnvrtc.so\"",
                "seconds",
            ),
            Step("pip install --upgrade torch", "3 GB, minutes: newer ones load it themselves"),
        ),
    ),
    Fault(
        "ld_library_path_shadows_wheel",
        9,
        "undefined symbol: __nvJitLink... / libcudnn...: undefined symbol",
        "LD_LIBRARY_PATH (from ~/.bashrc or `module load`) puts another version of a CUDA library before "
        "the one of torch's wheels.",
        (_EMPTY_PATH, Step("unset LD_LIBRARY_PATH", "seconds, this shell only")),
    ),
    Fault(
        "libcuda_link_path",
        9,
        "ld: cannot find -lcuda / undefined symbol: cuCtxGetCurrent",
        "The linker searches LIBRARY_PATH, not LD_LIBRARY_PATH; the driver's libcuda.so (or the toolkit's "
        "stub) is not in reach.",
        (
            Step("export LIBRARY_PATH=$CUDA_HOME/lib64/stubs:$LIBRARY_PATH", "seconds, for building only"),
            Step("sudo ldconfig", "root, seconds: when /etc/ld.so.conf.d names the right CUDA"),
        ),
    ),
    Fault(
        "wsl_libcuda",
        9,
        "libcuda.so: cannot open shared object file (WSL)",
        "Under WSL the driver comes from Windows and lies in /usr/lib/wsl/lib, which is not always searched.",
        (
            Step(
                "export LD_LIBRARY_PATH=/usr/lib/wsl/lib:$LD_LIBRARY_PATH LIBRARY_PATH=/usr/lib/wsl/lib:$LIBRARY_PATH",
                "seconds, this shell only",
            ),
            Step("sudo ldconfig /usr/lib/wsl/lib", "root, seconds"),
        ),
    ),
    Fault(
        "glibc_too_old",
        10,
        "version `GLIBC_2.XX' not found",
        "The file was built on a newer Linux; glibc cannot be replaced under a running system.",
        (
            Step("pip install --no-binary {package} --no-build-isolation {package}", "minutes: build it here"),
            Step("pip install '{package}<NEWER'  (a release whose wheels carry an older manylinux tag)", "seconds"),
            Step("# run it in a container with a newer Linux, or update the system", "gigabytes"),
        ),
        "manylinux policies of auditwheel",
    ),
    Fault(
        "libstdcxx_too_old",
        10,
        "/usr/lib/.../libstdc++.so.6: version `GLIBCXX_3.4.XX' (CXXABI_...) not found",
        "The system's libstdc++ is older than the compiler that built the file.",
        (
            Step("conda install -c conda-forge 'libstdcxx-ng>=13'", "50 MB; in a conda environment"),
            Step(
                "sudo add-apt-repository ppa:ubuntu-toolchain-r/test && sudo apt install --only-upgrade libstdc++6",
                "root, minutes; Ubuntu",
            ),
            _REBUILD,
        ),
    ),
    Fault(
        "conda_libstdcxx_shadows_system",
        10,
        ".../envs/.../libstdc++.so.6: version `GLIBCXX_3.4.XX' not found",
        "conda's python finds its own, older libstdc++ before the system's newer one.",
        (Step("conda install -c conda-forge 'libstdcxx-ng>=13'", "50 MB"),),
    ),
    Fault(
        "import_order_libstdcxx",
        10,
        "site-packages/.../libstdc++.so.6: version `CXXABI_...' not found",
        "A package brings its own old libstdc++; the first copy loaded serves the whole process.",
        (
            Step("# import the package that needs the newer libstdc++ first (torch, matplotlib, ...)", "seconds"),
            Step("LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libstdc++.so.6 python SCRIPT", "seconds"),
        ),
    ),
    Fault(
        "extension_built_cpu_only",
        11,
        "Not compiled with GPU support",
        "No GPU or no nvcc was visible when the extension was built, so its CUDA half was left out.",
        (
            Step(
                "FORCE_CUDA=1 TORCH_CUDA_ARCH_LIST='{arch}+PTX' pip install --no-build-isolation --no-cache-dir "
                "--no-binary {package} --force-reinstall --no-deps {package}",
                "minutes of compiling, needs nvcc",
            ),
        ),
    ),
    Fault(
        "crash_on_import",
        1,
        "Segmentation fault when a package is imported",
        "Loading the compiled part ends the process: two copies of a library, another C++ ABI, or "
        "instructions that this CPU has not.",
        (
            Step("python -X faulthandler -c 'import {package}'", "seconds: names the module that dies"),
            Step("env -u LD_LIBRARY_PATH -u LD_PRELOAD python -c 'import {package}'", "seconds"),
            _REBUILD,
        ),
    ),
    Fault(
        "damaged_file",
        1,
        "file too short / invalid ELF header",
        "The compiled file is cut short or is not what its name says (an interrupted download, a full "
        "disk, a Git LFS pointer).",
        (Step("pip install --no-cache-dir --force-reinstall --no-deps {package}", "seconds to minutes"),),
    ),
    Fault(
        "torch_missing",
        9,
        "an extension needs torch's libraries, and torch is not installed here",
        "The extension was installed beside a torch that is gone, or in another environment.",
        (
            Step(
                "pip install torch --index-url https://download.pytorch.org/whl/{cu}  (the version it was built for)",
                "3 GB, minutes",
            ),
        ),
    ),
    Fault(
        "library_missing",
        9,
        "a library that an extension needs is not here",
        "A part of a package is linked to a library of the system that is not installed; often an optional part.",
        (
            Step("python -c 'import {package}'", "seconds: whether it matters"),
            Step("apt-file search LIBRARY", "seconds: which system package has it"),
        ),
    ),
    Fault(
        "import_fails",
        1,
        "a package cannot be imported",
        "Importing it in a process of its own ends with an error.",
        (Step("python -c 'import {package}' 2>&1 | smr doctor explain - --here", "seconds: the cause of its message"),),
    ),
    Fault(
        "vital_sign_fails",
        11,
        "a small job with a known answer fails on this machine",
        "What it needs is installed, and does not do what it should here.",
        (Step("smr doctor --run --markdown > report.md", "a minute: attach it to a bug report"),),
        "smr doctor --run",
    ),
    Fault(
        "runs_by_ptx",
        3,
        "the first call takes seconds to minutes, later ones do not",
        "The file holds PTX but no machine code for this GPU; the driver translates it once and keeps the result.",
        (
            Step(
                "TORCH_CUDA_ARCH_LIST='{arch}' pip install --no-build-isolation --no-cache-dir --no-binary {package} "
                "--force-reinstall --no-deps {package}",
                "minutes of compiling; only if the wait matters",
            ),
        ),
        "fatbin entries of the file against the GPU's compute capability",
    ),
)
