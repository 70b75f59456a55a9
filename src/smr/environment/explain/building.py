"""Clues of compilers: nvcc, gcc, headers, linkers, memory."""

from __future__ import annotations

import re
from collections.abc import Iterable
from re import Match

from smr.environment import tables, versions
from smr.environment.explain.clues import Clue, Verdict, clue, means
from smr.environment.explain.situation import Situation

_HEADERS = (
    (
        r"^(python\d?(\.\d+)?/)?(Python|pyconfig|patchlevel)\.h",
        "python_h_missing",
        "a header of Python's development package",
    ),
    (r"^THC?/|^THC\w*\.h", "removed_torch_api", "a header that torch removed in 1.11"),
    (r"^(torch|ATen|c10|caffe2)/", "missing_torch_headers", "a header that comes with torch"),
    (
        r"^(EGL|GL|GLES\d?|GLFW|GLUT|X11|KHR|osmesa)/|^(glew|glut|egl)\.h",
        "gl_egl_missing",
        "a header of OpenGL, EGL or X11",
    ),
    (
        r"^(cublas|cusparse|cusolver|cudnn|curand|cufft|cuda|nvToolsExt|nvtx3|nvrtc|nvml|npp|nccl|"
        r"driver_types|device_launch|"
        r"cooperative_groups|crt/|vector_types|builtin_types|library_types|thrust/|cupti|nvjpeg|"
        r"host_(config|defines)|texture_)",
        "missing_cuda_headers",
        "a header of the CUDA toolkit's libraries",
    ),
    (r"^boost/", "usd_boost_conflict", "a header of Boost"),
    (r"^pxr/", "usd_core_python", "a header of USD"),
    (r"^numpy/", "pip_build_isolation", "a header of NumPy, which the build cannot see"),
    (
        r"^(basetsd|io|corecrt\w*|float|stddef|windows|vcruntime|crtdefs|ucrt)\b\.?h?|^c(stddef|stdint|assert|math)$",
        "msvc_missing",
        "a header of the C++ compiler itself",
    ),
)
_BUNDLED = (
    r"^(glm|cutlass|cute|pybind11|json|nlohmann|fmt|Eigen|tinylogger|args|filesystem|stb\w*|tiny\w*|"
    r"spdlog|dlpack|zstr|rapidjson)\b|third[_-]?party|submodule"
)


def _missing_header(match: Match[str], situation: Situation) -> Iterable[Verdict]:
    header = next(group for group in match.groups() if group).replace("\\", "/")
    because = f"{header} is not found"
    if re.match(r"cub/", header):
        yield from _missing_cub(header, situation)
        return
    for pattern, kind, words in _HEADERS:
        if re.search(pattern, header, re.IGNORECASE if kind != "removed_torch_api" else 0):
            if kind == "msvc_missing" and not situation.windows:
                continue
            yield Verdict(kind, 0.92, f"{because}: {words}")
            if kind == "missing_cuda_headers" and situation.conda:
                yield Verdict("conda_cudatoolkit_without_nvcc", 0.4, "conda splits the toolkit into packages")
            return
    bundled = re.search(_BUNDLED, header, re.I)
    yield Verdict("submodules_missing", 0.92 if bundled else 0.55, f"{because}: sources that come as a git submodule")


def _missing_cub(header: str, situation: Situation) -> Iterable[Verdict]:
    """CUDA 11 brought CUB into the toolkit; before, packages carried it as a submodule."""
    if versions.at_least(situation.nvcc, "11"):
        because = f"{header} is not found, though CUDA {situation.nvcc} has it: the toolkit is not whole"
        yield Verdict("missing_cuda_headers", 0.75, because)
        yield Verdict("submodules_missing", 0.6, f"{header} may also come as a submodule")
    else:
        yield Verdict("submodules_missing", 0.9, f"{header} is not found: before CUDA 11 it comes as a git submodule")
        yield Verdict("missing_cuda_headers", 0.5, f"{header} is in the toolkit from CUDA 11 on")
    yield Verdict("cub_conflict", 0.35, "CUB is involved")


def _architecture(match: Match[str], situation: Situation) -> Iterable[Verdict]:
    arch = int(match.group("arch") or match.group("other"))
    first, last = tables.arch_lifetime(arch)
    nvcc = situation.nvcc
    if last and not (nvcc and versions.below(nvcc, first)):
        known = f"nvcc is {nvcc}" if nvcc else "nvcc is newer"
        yield Verdict(
            "nvcc_removed_arch",
            0.88 if nvcc or arch < 50 else 0.75,
            f"compute_{arch} was dropped after CUDA {last}, and {known}",
        )
        yield Verdict("nvcc_unsupported_arch", 0.5, f"nvcc does not know compute_{arch}")
        return
    because = f"compute_{arch} is known from CUDA {first} on" if first else f"nvcc does not know compute_{arch}"
    if nvcc and first and versions.at_least(nvcc, first) and not last:
        because += f"; nvcc {nvcc} would know it, so another nvcc runs"
    yield Verdict("nvcc_unsupported_arch", 0.92, because + (f", nvcc is {nvcc}" if nvcc else ""))
    yield Verdict("nvcc_removed_arch", 0.3, f"nvcc does not know compute_{arch}")


def _cuda_mismatch(match: Match[str], situation: Situation) -> Iterable[Verdict]:
    yield Verdict(
        "cuda_build_mismatch", 0.9, "the nvcc that the build found is not of the CUDA that torch was built with"
    )
    if situation.says(r"fatal error:"):
        yield Verdict("cuda_build_mismatch", 0.0, "a missing header stops this build, not the version check")


def _no_nvcc(match: Match[str], situation: Situation) -> Iterable[Verdict]:
    """Not found at all, or conda's runtime-only `cudatoolkit` is all there is."""
    if situation.torch_is_cpu_build:
        yield Verdict("torch_cpu_only", 0.6, "torch is a CPU build, so it names no CUDA")
    conda_only = (
        situation.conda
        and (situation.nvcc_is_absent or situation.fact("nvcc").startswith("none"))
        and not situation.windows
    )
    if conda_only or situation.says(r"cudatoolkit(?!-dev)"):
        because = "conda's cudatoolkit holds the libraries to run, not the compiler"
        yield Verdict("conda_cudatoolkit_without_nvcc", 0.9, because)
        yield Verdict("nvcc_missing", 0.7, "no nvcc is found")
        return
    yield Verdict("nvcc_missing", 0.86, "no nvcc is found: CUDA_HOME is not set and no toolkit is on PATH")
    yield Verdict(
        "conda_cudatoolkit_without_nvcc", 0.62 if situation.conda else 0.4, "conda's cudatoolkit holds no compiler"
    )


def _link_missing(match: Match[str], situation: Situation) -> Iterable[Verdict]:
    library = (match.group("lib") or match.group("lib2")).lower()
    because = f"the linker does not find -l{library}"
    if library == "cuda":
        yield Verdict(
            "wsl_libcuda",
            0.92 if situation.wsl else 0.5,
            because + (": under WSL it is /usr/lib/wsl/lib" if situation.wsl else ""),
        )
        yield Verdict(
            "libcuda_link_path", 0.85, because + ": LIBRARY_PATH has to name the driver's or the stubs' folder"
        )
    elif re.match(r"cu|nv", library):
        yield Verdict("libcuda_link_path", 0.75, because)
        yield Verdict("missing_cuda_headers", 0.4, because)
    elif library.startswith("python"):
        yield Verdict("python_h_missing", 0.8, because)
    elif re.match(r"(open)?gl|egl|glu|x11|glfw|osmesa", library):
        yield Verdict("gl_egl_missing", 0.88, because)
    elif re.match(r"c10|torch", library):
        yield Verdict("missing_torch_headers", 0.5, because)
        yield Verdict("torch_lib_layout", 0.5, because)
    elif library.startswith("boost"):
        yield Verdict("usd_boost_conflict", 0.7, because)


def _killed(match: Match[str], situation: Situation) -> Iterable[Verdict]:
    compiling = situation.says(
        r"cc1plus|nvcc|cicc|ptxas|compil|ninja|building|build_ext|wheel|c\+\+|MAX_JOBS|setup\.py"
    )
    if not situation.says(r"CUDA out of memory|torch\.(cuda\.)?OutOfMemory|CUDA error: out of memory|OUT_OF_MEMORY"):
        yield Verdict("oom_build", 0.9 if compiling else 0.5, "the system ended a compiler for lack of memory")


def _index_error(match: Match[str], situation: Situation) -> Iterable[Verdict]:
    """An IndexError says something only where GPUs or a build are spoken of."""
    if situation.container or situation.says(r"arch|cpp_extension|device.?count|setup\.py|CUDA_HOME|nvcc|capabilit"):
        yield Verdict("arch_list_empty_no_gpu", 0.62, "a list of architectures is empty where no GPU is visible")


def _thrust_or_cub(match: Match[str], situation: Situation) -> Iterable[Verdict]:
    """An error about namespace thrust in the package's own sources, or inside the toolkit's CUB and Thrust headers."""
    name = match.group("ns")
    if "cub" in name:
        yield Verdict("cub_conflict", 0.88, f"namespace {name} comes from two different CUB versions")
    else:
        yield Verdict(
            "source_incompatible_cuda12",
            0.88,
            f"from CUDA 12 on {name} headers no longer include each other: the source must name them",
        )
        yield Verdict("cub_conflict", 0.4, "Thrust and CUB belong together")


CLUES: tuple[Clue, ...] = (
    clue(r"fatal error:?\s*['\"‘]?([\w./+-]+\.(?:h|hpp|hh|cuh|inl))\b", _missing_header),
    clue(
        r"(?<![\w./+-])([\w./+-]+\.(?:h|hpp|cuh))['\"’]?\s*(?:: no such file|file not found|doesn'?t exist|"
        r"does not exist|(?:is|was) (?:missing|not found)|not found)",
        _missing_header,
    ),
    clue(r"cannot open (?:include|source) file:?\s*['\"]([\w./\\+-]+)['\"]", _missing_header),
    clue(
        r"unsupported gpu architecture\s*['\"]?(?:compute|sm)_(?P<arch>\d+)|value\s*['\"](?:compute|"
        r"sm)_(?P<other>\d+)\w?['\"]\s*is not defined",
        _architecture,
    ),
    means(
        r"unknown CUDA arch|GPU not supported|arch(itecture)? \S+ is not supported by (this|your) (nvcc|toolkit)",
        "nvcc_unsupported_arch",
        0.7,
        "the architecture asked for is not one that torch's build rules or the toolkit know",
    ),
    means(
        r"unsupported GNU version|gcc versions later than|unsupported clang version|"
        r"unsupported Microsoft Visual Studio version|only the versions between 20\d\d|"
        r"greater than the maximum required version|allow-unsupported-compiler",
        "host_compiler_unsupported",
        0.92,
        "this C++ compiler is newer than the toolkit accepts",
    ),
    means(
        r"parameter packs not expanded|std_function\.h[^\n]*error|_Float(32|64|128)\w*[^\n]*undefined|"
        r"__builtin_\w+[^\n]*is undefined|include/(c\+\+/1\d|bits)/[^\n]*: error",
        "host_compiler_unsupported",
        0.75,
        "nvcc cannot read the headers of this newer compiler",
    ),
    means(
        r"unrecognized (command[- ]line )?(argument|option)|less than the minimum required version|"
        r"requires (gcc|g\+\+|GCC) (version )?\d[\d.]* or (later|newer|higher)|unknown (type name|"
        r"option) '?-?f(no-plt|stack-clash)",
        "compiler_too_old_for_conda_flags",
        0.85,
        "the compiler is older than the flags it was given",
    ),
    clue(
        r"CUDA version \([\d.]+\) mismatch|does not match the version used to compile|"
        r"mismatches the version that was used|cuda extensions are being compiled with a version",
        _cuda_mismatch,
    ),
    clue(
        r"CUDA_HOME (environment variable )?(is not set|not set|does not exist|undefined)|"
        r"CUDA_HOME environment|nvcc(\.exe)?['\"]?:? (command )?not (found|recognized)|"
        r"no such file[^\n]*\bnvcc\b|\bnvcc(\.exe)?['\" ][^\n]*(no such file|cannot find|not found)|"
        r"(could not|failed to|unable to|cannot|can't) (find|"
        r"locate)[^\n]{0,30}\bnvcc|nvcc (was|is) not (found|installed|available)|could ?n[o']t find CUDA\b|"
        r"CUDA_TOOLKIT_ROOT_DIR|no CMAKE_CUDA_COMPILER|failed to find nvcc|CUDA toolkit (was )?not found|"
        r"bin/nvcc['\"]?: no such|specify CUDA_HOME|without nvcc",
        _no_nvcc,
    ),
    means(
        r"arch_list\[-1\]|_get_cuda_arch_flags[^\n]*\n?[^\n]*\n?[^\n]*IndexError",
        "arch_list_empty_no_gpu",
        0.92,
        "torch found no GPU to build for and no list was given",
    ),
    clue(r"IndexError: list index out of range", _index_error),
    means(
        r"no CUDA runtime is found, using CUDA_HOME",
        "arch_list_empty_no_gpu",
        0.5,
        "the toolkit is there, a GPU or its driver is not visible",
    ),
    means(
        r"TORCH_CUDA_ARCH_LIST[^\n]*(not set|empty|unset|must be set)|(specify|"
        r"set)[^\n]*TORCH_CUDA_ARCH_LIST|no GPU (is )?(visible|available|found|detected)[^\n]*(build|"
        r"compil)",
        "arch_list_empty_no_gpu",
        0.55,
        "no list of architectures was given",
    ),
    clue(
        r"killed \(program|killed signal terminated|died due to signal 9|(?:^|[\s:(])killed\b(?! by user)|"
        r"virtual memory exhausted|std::bad_alloc|LLVM ERROR: out of memory|exit(?:ed)?(?: with)? (?:code|"
        r"status):? ?-?(?:137|9)\b|signal: 9|cannot allocate memory|OOM[- ]kill\w*|(?:memory (?:overload|"
        r"exhausted|overflow)|out of (?:memory|RAM)|(?:ran|run|runs) out of memory|(?:machine|"
        r"computer|system|pc|server|laptop|desktop|workstation|box) (?:completely )?(?:freezes|hangs|"
        r"crash\w*|froze|locks up|becomes unresponsive))",
        _killed,
    ),
    clue(
        r"(?:ld|ld\.lld|collect2)[^\n]*(?:cannot|unable to) find (?:library )?-l(?P<lib>\w+)|"
        r"cannot find -l(?P<lib2>\w+)",
        _link_missing,
    ),
    means(
        r"(LNK1181|LNK1104)[^\n]*(cuda|cudart|cublas)\w*\.lib",
        "libcuda_link_path",
        0.75,
        "the linker does not find the CUDA libraries",
    ),
    means(
        r"(LNK1181|LNK1104)[^\n]*python\d+\.lib", "python_h_missing", 0.75, "the linker does not find Python's library"
    ),
    means(
        r"version of CUB in your include path|CUB_HOME|DebugSyncStream|CUB_NS|THRUST_CUB_WRAPPED|"
        r"\"?cub::\w[^\n]*(ambiguous|has no member)|namespace \"?cub\"? has no",
        "cub_conflict",
        0.88,
        "two versions of CUB meet",
    ),
    means(
        r"(include[\\/]+)?cub[\\/][\w\\/.]+\(\d+\): (fatal )?error",
        "cub_conflict",
        0.85,
        "the error is inside the CUB headers that were found",
    ),
    means(
        r"thrust[\\/]system[\\/][\w\\/.]+\(\d+\): (fatal )?error",
        "cub_conflict",
        0.5,
        "the error is inside Thrust's headers, which use CUB",
    ),
    clue(r"namespace [\"'](?P<ns>thrust(?:::\w+)*|cub(?:::\w+)*)[\"'] has no member", _thrust_or_cub),
    means(
        r"[\"']?(thrust)::\w+[\"']?[^\n]*(is not a member|undeclared|was not declared)|"
        r"'?\w+'? is not a member of '?thrust",
        "source_incompatible_cuda12",
        0.85,
        "the source relies on Thrust headers including each other",
    ),
    means(
        r"texture<|cudaBindTexture|cudaUnbindTexture|tex1Dfetch|texture is not a template|cusparse(Scsr|"
        r"Dcsr)\w+|CUSPARSE_\w+_DEFAULT\b[^\n]*undefined|CUDA::nvToolsExt|cudaThread\w+|cub::(FpLimits|"
        r"Mutex|\w*IteratorBase)",
        "source_incompatible_cuda12",
        0.75,
        "the source uses what CUDA 12 removed",
    ),
    means(
        r"\bTHC/|\bTHC\w*(State|\.h|Check|Ceil)|\bTHAssert|AT_CHECK|DeprecatedTypeProperties|torch\._six|"
        r"torch\.utils\.ffi|c10::optional[^\n]*(no member|not declared)|"
        r"C\+\+1[47] (or later )?(compatible )?(compiler )?(is required|to (use|compile))|"
        r"has no member[^\n]*\bTensor\b|Tensor[\"'’]? has no member|no suitable (conversion|"
        r"user-defined)[^\n]*at::|module '?torch[\w.]*'? has no attribute",
        "removed_torch_api",
        0.85,
        "the source uses what this torch no longer has",
    ),
    means(
        r"ninja is required|could not find ninja|ninja: (command )?not found|"
        r"ninja'?\"? (is )?not (installed|found|available)|no module named '?ninja|(no such file|"
        r"not found)[^\n]*['\"/ ]ninja['\"]|unable to find (a build program corresponding to )?\"?ninja|"
        r"verify_ninja_availability",
        "ninja_missing",
        0.92,
        "ninja is not on PATH of this process",
    ),
    means(
        r"could not locate a supported Microsoft|"
        r"Microsoft Visual C\+\+ \d+(\.\d+)? (or greater )?is required|checking compiler version for cl|"
        r"cannot find compiler '?cl|\bcl(\.exe)?['\"]? ?(is |was )?(not found|not recognized|"
        r"command not found|is not in)|where['\", ]+cl|vcvars|could not find[^\n]*cl\.exe|"
        r"Visual Studio[^\n]*not (found|installed)|unable to find vcvarsall|"
        r"distutils\.errors\.DistutilsPlatformError",
        "msvc_missing",
        0.9,
        "no Visual C++ compiler is in reach",
    ),
    means(
        r"submodules?\b[^\n]*(update|init|missing|empty|not)|clone[^\n]*--recurs|--recurs(e|ive)|"
        r"does not contain a CMakeLists|third[_-]?party[\\/][^\n]*(no such file|does not exist|not found)|"
        r"(no such file|not found|cannot find)[^\n]*(third[_-]?party|extern(al)?s?[\\/]|dependencies[\\/])",
        "submodules_missing",
        0.8,
        "the sources of a git submodule are not there",
    ),
    means(
        r"std::\w+[^\n]*undefined[^\n]*nvcc",
        "host_compiler_unsupported",
        0.4,
        "nvcc and the compiler's headers disagree",
    ),
    means(
        r"python3?(\.\d+)?-dev\b|python3?-devel|Development\.Module|PYTHON_INCLUDE_DIR|"
        r"Could NOT find Python[^\n]*Development",
        "python_h_missing",
        0.7,
        "Python's development files are not there",
    ),
)
