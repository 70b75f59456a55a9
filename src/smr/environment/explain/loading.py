"""Clues of the dynamic loader: undefined symbols, missing libraries, missing symbol versions."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from re import Match

from smr.environment import versions
from smr.environment.explain.clues import Clue, Verdict, clue, means
from smr.environment.explain.situation import Situation
from smr.environment.torch_symbols import NEW_ABI_FROM, defined_in, is_torch, releases_with, string_abi

_FOREIGN_SYMBOLS = (
    (r"^__cudaRegisterLinkedBinary|__fatbinwrap", "device_link_missing", "comes from nvcc's device link step"),
    (
        r"^_*nvJitLink|^_ZN5cudnn|^cudnn|^cublas|^cusparse|^cusolver|^cufft|^curand|^nccl|^nvrtc|^cudart|"
        r"^cuda[A-Z]|^__cuda",
        "ld_library_path_shadows_wheel",
        "belongs to a CUDA library of which another version was found first",
    ),
    (r"^cu[A-Z]\w+", "libcuda_link_path", "belongs to the driver's libcuda"),
    (r"^(egl|gl|glX|wgl|GLEW|glew|OSMesa)[A-Z_]\w*", "gl_egl_missing", "belongs to OpenGL or EGL"),
    (r"boost|pxrInternal|^_ZN\w*pxr", "usd_boost_conflict", "belongs to Boost or USD: two builds of it meet here"),
    (r"google8protobuf", "protobuf_conflict", "belongs to protobuf"),
    (r"^(Py|_Py)[A-Z]|^_ZN8pybind11", "stale_build_dir", "belongs to another Python than the one that runs"),
    (r"^(PyArray|npy_|NPY_)|ARRAY_API", "numpy2_abi", "belongs to NumPy"),
    (r"^_ZT?[VI]?N?K?St|^__cxa_|^_ZNKSt|^_ZTVN10__cxxabi|^_ZSt", "libstdcxx_too_old", "belongs to libstdc++"),
    (
        r"^iJIT_|^mkl_|^MKL_|^__kmp|^omp_|^GOMP_",
        "mixed_pip_conda",
        "belongs to MKL or OpenMP, of which two providers meet",
    ),
)
_FOREIGN_WEIGHTS = {"stale_build_dir": 0.6, "mixed_pip_conda": 0.6, "libstdcxx_too_old": 0.8, "gl_egl_missing": 0.9}


def _undefined_symbol(match: Match[str], situation: Situation) -> Iterable[Verdict]:
    name, version = match.group("name"), match.group("version") or ""
    name = name[1:] if name.startswith("__Z") else name
    if re.search(r"lib(cu|nv|nccl)", version):
        because = f"{name} is asked of {version}, and an older copy of that library was found first"
        yield Verdict("ld_library_path_shadows_wheel", 0.9, because)
        return
    if is_torch(name):
        yield from _torch_symbol(name, situation)
        return
    foreign = foreign_symbol(name)
    if foreign is None:
        yield from _own_symbol(name, situation)
        return
    kind, because = foreign
    weight = _FOREIGN_WEIGHTS.get(kind, 0.85)
    if kind == "libstdcxx_too_old" and situation.conda and not situation.says(r"/usr/lib|/lib(64|/x86)"):
        yield Verdict("conda_libstdcxx_shadows_system", weight - 0.1, f"{name} {because}")
    yield Verdict(kind, weight, f"{name} {because}")


def foreign_symbol(name: str) -> tuple[str, str] | None:
    """The fault behind a symbol of neither torch nor the extension, and whose it is; None for other symbols."""
    return next(((kind, because) for pattern, kind, because in _FOREIGN_SYMBOLS if re.search(pattern, name)), None)


def _own_symbol(name: str, situation: Situation) -> Iterable[Verdict]:
    because = f"{name} is a function of the extension itself, so parts of different ages meet"
    cached = situation.says(r"torch_extensions")
    yield Verdict(
        "stale_jit_cache", 0.85 if cached else 0.45, because + (" in the cache of compiled plugins" if cached else "")
    )
    yield Verdict("stale_build_dir", 0.4 if cached else 0.6, because)


def _torch_symbol(name: str, situation: Situation) -> Iterable[Verdict]:
    """Reason from the releases that define a symbol, its C++ ABI, and the torch that is installed."""
    having = releases_with(name)
    abi = string_abi(name)
    torch = versions.minor(situation.torch)
    where = _where(having)
    if situation.says(r"torch_extensions"):
        yield Verdict(
            "stale_jit_cache", 0.91, f"{name} is {where}, and the plugin comes from the cache of compiled plugins"
        )
    everywhere = bool(having) and having == releases_with("_ZTIN3c105ErrorE") and not abi
    if everywhere and not versions.below(situation.torch, "1.4"):
        because = f"every torch has {name}: its libraries were not in the process yet when the extension was loaded"
        yield Verdict("torch_not_imported_first", 0.85, because)
        yield Verdict("torch_abi_mismatch", 0.5, f"{name} is a symbol of torch")
        return
    if defined_in(name, torch) and _was_built_as(torch, abi, situation):
        yield from _same_version_other_build(name, torch, abi, situation)
    elif abi:
        yield from _string_symbol(name, abi, torch, having, situation)
    else:
        against = f", installed is {torch}" if torch else ""
        yield Verdict("torch_abi_mismatch", 0.88, f"{name} is {where}{against}")
        yield Verdict("cxx11_abi_mismatch", 0.35, f"{name} is a symbol of torch")
    yield Verdict("stale_build_dir", 0.36, "objects of an earlier build may have been linked in again")
    if situation.conda:
        yield Verdict("mixed_pip_conda", 0.34, "torch and the extension may come from pip and conda")


def _same_version_other_build(name: str, torch: str, abi: str, situation: Situation) -> Iterable[Verdict]:
    because = f"torch {torch} of the index defines {name}, so the installed torch {torch} is another build"
    if situation.conda:
        yield Verdict("mixed_pip_conda", 0.8, because + " (conda's and pip's differ)")
    yield Verdict("cxx11_abi_mismatch" if abi else "torch_abi_mismatch", 0.7, because)
    yield Verdict("torch_abi_mismatch" if abi else "stale_build_dir", 0.45, because)


def _string_symbol(
    name: str, abi: str, torch: str, having: list[str] | None, situation: Situation
) -> Iterable[Verdict]:
    """A symbol with std::string in it: another C++ ABI, or a function that came and went."""
    twin = _twin_exists(name, abi, having)
    where = _where(having)
    if abi == "old" and having and versions.below(having[-1], "2.0"):
        yield Verdict("torch_abi_mismatch", 0.86, f"{name} is {where}: the function itself is gone since")
        yield Verdict("cxx11_abi_mismatch", 0.5, f"{name} spells std::string of the old ABI")
        return
    because = f"{name} spells std::string of the {abi} C++ ABI" + (
        f", and torch {torch} is built with the other" if torch else ""
    )
    yield Verdict("cxx11_abi_mismatch", 0.88 if twin or not torch else 0.8, because)
    yield Verdict("torch_abi_mismatch", 0.62, f"{name} is {where}")


def _twin_exists(name: str, abi: str, having: list[str] | None) -> bool:
    """Whether torch has the same function in the other ABI (all c10 error functions do)."""
    return (
        bool(re.search(r"c105Error|torchCheckFail|AssertFail|c107Warning|fromQualString|Library", name))
        or having is None
    )


def _was_built_as(torch: str, abi: str, situation: Situation) -> bool:
    """Whether the index's wheel of this torch has this ABI (so a miss means another build)."""
    machine = "aarch64" if situation.says(r"aarch64|jetson|arm64") else "x86_64"
    new = versions.at_least(torch, NEW_ABI_FROM[machine])
    return not abi or (abi == "new") == new


def _where(having: list[str] | None) -> str:
    if having is None:
        return "a symbol of torch, in none of the releases known here"
    if not having:
        return "in no torch from 1.4 on"
    return f"in torch {having[0]} to {having[-1]} only" if having[0] != having[-1] else f"in torch {having[0]} only"


_FAMILIES = (
    (r"^libcuda\.", "libcuda_link_path", "the driver's library"),
    (
        r"^libnvrtc(\.so$|-builtins)",
        "nvrtc_unversioned_missing",
        "the name without a version, which only a full toolkit has",
    ),
    (r"^(lib)?cudnn", "cudnn_missing", "the neural network library of one CUDA and one major version"),
    (
        r"^(lib)?(cudart|cublas(Lt)?|cusparse(Lt)?|cufft|curand|cusolver|nvToolsExt|nvJitLink|nvrtc|npp\w+|cupti|nccl|"
        r"nvshmem\w*)",
        "cudart_missing",
        "the file was linked to another CUDA than the one in reach",
    ),
    (
        r"^lib(c10|torch|shm|caffe2|ATen)(_(cpu|cuda|python|hip|xpu|cu|cpp|linalg|global_deps))*\.",
        "torch_not_imported_first",
        "part of torch",
    ),
    (
        r"^lib(GL|EGL|GLX|OpenGL|GLU|GLESv?\w*|glut|glfw|OSMesa|X11|Xrender|Xext|Xi|SM|ICE|gthread|"
        r"GLdispatch|GLEW|gbm)\b",
        "gl_egl_missing",
        "a graphics library of the system",
    ),
    (r"^libboost|^libusd|^libpxr", "usd_boost_conflict", "a part of a USD build, or of Boost"),
    (r"^libnvidia-ml", "container_no_gpu_flag", "the driver's libraries are not in this place"),
    (r"^libmkl|^libiomp", "mixed_pip_conda", "a library that conda's packages share"),
    (r"^lib(stdc\+\+|gcc_s|gomp)", "libstdcxx_too_old", "a library of the compiler"),
)
_FAMILY_WEIGHTS = {
    "usd_boost_conflict": 0.75,
    "container_no_gpu_flag": 0.7,
    "mixed_pip_conda": 0.6,
    "libstdcxx_too_old": 0.5,
}


def library_family(soname: str) -> str | None:
    """The fault behind a library of this name that is not found; None for libraries that are not known here."""
    return next((kind for pattern, kind, _ in _FAMILIES if re.search(pattern, soname)), None)


def _missing_library(match: Match[str], situation: Situation) -> Iterable[Verdict]:
    soname = re.split(r"[/\\]", match.group("library"))[-1]
    if "torch_extensions" in match.group("library"):
        yield Verdict("stale_jit_cache", 0.86, f"{soname} should be in the cache of compiled plugins, and is not")
        return
    if "undefined symbol" in match.string[match.end() :].split("\n", 1)[0]:
        return  # the library is there: the symbol is what is missing
    found = next((row for row in _FAMILIES if re.search(row[0], soname)), None)
    if found is None:
        return
    _, kind, whose = found
    because = f"{soname} is not found: {whose}"
    if kind == "libcuda_link_path":
        yield from _missing_driver(soname, bool(re.search(r"\.so\.\d", soname)), situation)
    elif kind == "torch_not_imported_first":
        yield from _missing_torch_library(soname.split(".", 1)[0], soname, situation)
    else:
        yield Verdict(kind, _FAMILY_WEIGHTS.get(kind, 0.9), because)
    if kind == "cudart_missing":
        yield Verdict("nvrtc_unversioned_missing", 0.6 if "nvrtc" in soname else 0.0, because)
        yield Verdict("torch_abi_mismatch", 0.3, f"{soname} is not found: it was built for another torch and CUDA")
    elif kind == "nvrtc_unversioned_missing":
        yield Verdict("cudart_missing", 0.4, because)
    elif kind == "cudnn_missing":
        yield Verdict("ld_library_path_shadows_wheel", 0.35, because)


def _missing_driver(soname: str, versioned: bool, situation: Situation) -> Iterable[Verdict]:
    because = f"the driver's {soname} is not found"
    if situation.wsl:
        yield Verdict("wsl_libcuda", 0.93, f"{because}: under WSL it lies in /usr/lib/wsl/lib")
    elif versioned and situation.container:
        yield Verdict("container_no_gpu_flag", 0.85, f"{because}: the container was started without the GPU")
    elif versioned and situation.slurm:
        yield Verdict("slurm_env", 0.7, f"{because}: a node without a GPU")
    yield Verdict("wsl_libcuda", 0.5 if versioned else 0.65, because)
    yield Verdict("libcuda_link_path", 0.55, because)
    yield Verdict("container_no_gpu_flag", 0.58 if versioned else 0.4, because)


def _missing_torch_library(name: str, soname: str, situation: Situation) -> Iterable[Verdict]:
    because = f"{soname} is part of torch"
    old = versions.below(situation.torch, "1.5")
    cuda = name in ("libc10_cuda", "libtorch_cuda")
    if cuda and (situation.torch_is_cpu_build or not situation.torch_cuda):
        yield Verdict(
            "torch_cpu_only",
            0.8 if situation.torch_is_cpu_build else 0.66,
            f"{because} with CUDA, which a CPU build lacks",
        )
    if (
        name.endswith(("_cu", "_cpp"))
        or name in ("libATen", "libcaffe2")
        or (name == "libtorch_cpu" and (old or not situation.torch))
    ):
        yield Verdict("torch_lib_layout", 0.88, f"{because} of other versions: names of torch's libraries changed")
    elif name.startswith("libtorch_"):
        yield Verdict("torch_lib_layout", 0.6, f"{because}; its libraries were cut differently in other versions")
    yield Verdict(
        "torch_not_imported_first",
        0.7 if name.startswith("libtorch_") or cuda else 0.86,
        f"{because}: found only once torch is imported",
    )
    yield Verdict("torch_abi_mismatch", 0.4, because)


def _is_the_environments(path: str) -> bool:
    """Whether a library lies in the lib folder of a conda environment (and not in that of a package in it)."""
    if "torch/lib/.." in path:
        return True
    real = posixpath.normpath(path)
    return bool(re.search(r"\b(\w*conda\d?|\w*mamba|\w*forge\d?|envs)\b/", real)) and "site-packages" not in real


def _missing_version(match: Match[str], situation: Situation) -> Iterable[Verdict]:
    path, wanted = match.group("path") or "", match.group("wanted")
    because = f"{path or 'the library'} has no {wanted}"
    if wanted.startswith("GLIBC_"):
        yield Verdict("glibc_too_old", 0.93, f"{because}: built on a newer Linux than this one")
        return
    if _is_the_environments(path):
        yield Verdict("conda_libstdcxx_shadows_system", 0.92, f"{because}, and that copy is conda's")
    elif re.match(r"/(usr/)?(local/)?lib", path):
        yield Verdict("libstdcxx_too_old", 0.92, f"{because}, and that copy is the system's")
    elif "/" in path:
        yield Verdict(
            "import_order_libstdcxx", 0.88, f"{because}, and that copy belongs to another package, loaded first"
        )
    elif situation.conda:
        yield Verdict("conda_libstdcxx_shadows_system", 0.8, f"{because}; conda environments bring their own copy")
    yield Verdict("libstdcxx_too_old", 0.6, because)
    yield Verdict("conda_libstdcxx_shadows_system", 0.45, because)
    yield Verdict("import_order_libstdcxx", 0.25, because)


CLUES: tuple[Clue, ...] = (
    clue(
        r"(?:undefined symbol|symbol not found in flat namespace|undefined reference to)"
        r"\s*:?[\s`'\"(*]*(?P<name>[A-Za-z_][\w$]*(?:\.\w+)*)(?:[^\n]{0,8}?version (?P<version>[\w.+-]+))?",
        _undefined_symbol,
    ),
    clue(
        r"symbol (?P<name>\w+),? version (?P<version>[\w.+-]+) not defined in file",
        _undefined_symbol,
    ),
    clue(
        r"(?<![\w./+\\-])(?P<library>[\w./~+\\-]*[\w+-]+\.(?:so|dylib)[\w.]*)['\"]?\s*"
        r"(?::\s*cannot open shared object|=>\s*not found|(?:was |is )?not (?:found|included in)|cannot (?:be )?found|"
        r"(?:is )?missing|: No such file)",
        _missing_library,
    ),
    clue(
        r"(?:cannot find|could not (?:find|load)(?: dynamic)? library|(?:unable|failed) to (?:load|open|find)|"
        r"can'?t find|no)\s+['\"]?(?P<library>lib(?!cudnn_cnn)[\w+-]+\.so[\w.]*)['\"]?(?!\.? *Error: )",
        _missing_library,
    ),
    clue(
        r"(?P<library>\b(?:cudart|cublas|cusparse|cudnn|cusolver|cufft|curand)\w*64_\w+\.dll)\b"
        r"[^\n]*(?:not found|could not|missing)",
        _missing_library,
    ),
    clue(
        r"(?:(?<![\w./+~-])(?P<path>[\w./+~-]*lib[\w+-]+\.so[\w.]*):?\s*)?version\s*[`'\"‘]?"
        r"(?P<wanted>(?:GLIBC|GLIBCXX|CXXABI|GCC)_[\w.]+)['\"’]?\s*not\s*found",
        _missing_version,
    ),
    means(r"Error relocating|ld-musl|\bmusl\b", "glibc_too_old", 0.6, "this system has musl instead of glibc"),
    means(
        r"DLL load failed[^\n]*procedure could not be found",
        "torch_abi_mismatch",
        0.75,
        "the extension asks torch for a function that it has not",
    ),
    means(
        r"DLL load failed[^\n]*module could not be found",
        "cudart_missing",
        0.55,
        "a library that the extension needs is not in reach",
    ),
    means(
        r"import torch (first|before)|torch (must|should|has to) be imported (first|before)",
        "torch_not_imported_first",
        0.6,
        "the text says so",
    ),
    means(
        r"libmkl|Intel MKL FATAL|OMP: Error #15|libiomp5",
        "mixed_pip_conda",
        0.55,
        "two OpenMP or MKL runtimes meet: packages of pip and conda mixed",
    ),
)
