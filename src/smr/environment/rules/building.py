"""Rules about building extensions here: toolkit, compiler, headers, tools, memory."""

from __future__ import annotations

from collections.abc import Iterator

from smr.environment import tables, versions
from smr.environment.rules.finding import BLOCKS, DEGRADES, Facts, Finding

_BUILD = ("build",)
LIBRARY_HEADERS = ("cusparse.h", "cublas_v2.h", "cusolverDn.h")
_GB_A_JOB = 4.0


def toolkit(facts: Facts) -> Iterator[Finding]:
    """No nvcc, or one of another CUDA than torch's."""
    cuda = facts.text("torch.cuda")
    chosen = chosen_toolkit(facts)
    if not facts.text("torch.version") or not cuda:
        return
    if chosen is None or not chosen.flag("nvcc"):
        conda = facts.text("python.kind") == "conda"
        kind = "conda_cudatoolkit_without_nvcc" if conda and facts.version("cudatoolkit") else "nvcc_missing"
        why = facts.text("toolkits.build.why")
        what = f"no nvcc to build with ({why}); torch needs that of CUDA {cuda}"
        yield Finding(kind, BLOCKS, what, _toolkit_list(facts), _BUILD, values=facts.values)
        return
    version = versions.minor(chosen.text("version"))
    if version and version != versions.minor(cuda):
        why = facts.text("toolkits.build.why")
        what = f"a build would take CUDA {version} ({why}), torch is built with {cuda}"
        level = BLOCKS if versions.parse(version)[0] != versions.parse(cuda)[0] else DEGRADES
        yield Finding("cuda_build_mismatch", level, what, _toolkit_list(facts), _BUILD, values=facts.values)


def headers(facts: Facts) -> Iterator[Finding]:
    """Nvcc without the headers of the CUDA libraries."""
    chosen = chosen_toolkit(facts)
    if chosen is None or not chosen.flag("nvcc") or not facts.text("torch.cuda"):
        return
    absent = [name for name in LIBRARY_HEADERS if chosen.group("headers").get(name) is False]
    if absent:
        what = f"the toolkit {chosen.text('root')} has no {', '.join(absent)}"
        values = {**facts.values, "torch_cuda": facts.text("torch.cuda")}
        yield Finding("missing_cuda_headers", BLOCKS, what, (chosen.text("root"),), _BUILD, values=values)


def host_compiler(facts: Facts) -> Iterator[Finding]:
    """Gcc newer than nvcc accepts, or older than torch's headers need."""
    chosen = chosen_toolkit(facts)
    gcc = facts.text("compilers.g++.version") or facts.text("compilers.gcc.version")
    newest = (chosen.number("newest_gcc") if chosen else None) or 0
    if facts.text("compilers.chosen") not in ("", "g++", "gcc"):
        return
    if gcc and newest and versions.parse(gcc)[0] > newest:
        what = f"gcc {gcc} is newer than CUDA {chosen.text('version') if chosen else ''} accepts (up to {newest:.0f})"
        values = {**facts.values, "newest_gcc": f"{newest:.0f}"}
        yield Finding(
            "host_compiler_unsupported", BLOCKS, what, (facts.text("compilers.g++.path"),), _BUILD, values=values
        )
    if versions.below(gcc, "9") and versions.at_least(facts.text("torch.version"), "2.2"):
        what = f"gcc {gcc} is too old for the headers of torch {facts.text('torch.version')} (9.3 and newer)"
        yield Finding("compiler_too_old_for_conda_flags", BLOCKS, what, (facts.text("compilers.g++.path"),), _BUILD)


def architectures(facts: Facts) -> Iterator[Finding]:
    """GPUs that the toolkit does not know yet, or no longer; no GPU and no list."""
    chosen = chosen_toolkit(facts)
    lowest, highest = tables.toolkit_archs(chosen.text("version")) if chosen else (0, 0)
    for capability in sorted(set(facts.capabilities)):
        arch = int(capability.replace(".", "")) if capability.replace(".", "").isdigit() else 0
        version = chosen.text("version") if chosen else ""
        if highest and arch > highest and not (arch // 10 == highest // 10 and arch % 10 > highest % 10):
            what = f"nvcc {version} knows architectures up to sm_{highest}, the GPU is sm_{arch}"
            yield Finding(
                "nvcc_unsupported_arch",
                BLOCKS,
                what,
                (f"compute capability {capability}",),
                _BUILD,
                values=facts.values,
            )
        elif lowest and arch < lowest:
            what = f"nvcc {version} knows architectures from sm_{lowest} on, the GPU is sm_{arch}"
            yield Finding(
                "nvcc_removed_arch", BLOCKS, what, (f"compute capability {capability}",), _BUILD, values=facts.values
            )
    if (
        not facts.capabilities
        and not facts.text("compilers.arch_list")
        and chosen is not None
        and facts.text("torch.cuda")
    ):
        what = "no GPU is visible, and TORCH_CUDA_ARCH_LIST does not say what to build for"
        yield Finding(
            "arch_list_empty_no_gpu", DEGRADES, what, ("TORCH_CUDA_ARCH_LIST is not set",), _BUILD, values=facts.values
        )


def tools(facts: Facts) -> Iterator[Finding]:
    """ninja, Python's headers, Visual C++."""
    if facts.flag("compilers.ninja") is False:
        yield Finding("ninja_missing", DEGRADES, "ninja is not on PATH", (), _BUILD, values=facts.values)
    if facts.flag("compilers.python_h") is False:
        what = f"Python.h of Python {facts.text('python.version')} is not here"
        yield Finding("python_h_missing", BLOCKS, what, (), _BUILD, values=facts.values)
    if facts.text("system.os") == "win32" and facts.flag("compilers.cl") is False:
        yield Finding("msvc_missing", BLOCKS, "cl.exe is not on PATH", (), _BUILD)


def setuptools(facts: Facts) -> Iterator[Finding]:
    """Setuptools without the pkg_resources that this torch's build rules import."""
    torch, version = facts.text("torch.version"), facts.version("setuptools")
    gone = versions.at_least(version, "82") or (versions.at_least(version, "70") and versions.below(torch, "2.1"))
    if torch and versions.below(torch, "2.2") and gone:
        what = f"setuptools {version} has no pkg_resources as torch {torch} imports it to build extensions"
        yield Finding("pkg_resources_removed", BLOCKS, what, (f"setuptools {version}",), _BUILD, values=facts.values)


def memory(facts: Facts) -> Iterator[Finding]:
    """As many compiler jobs as cores, and too little memory for them."""
    cores, memory_gb = facts.number("system.cores"), facts.number("system.memory_gb")
    if not cores or not memory_gb:
        return
    set_to = facts.text("compilers.max_jobs")
    jobs = int(set_to) if set_to.isdigit() else int(cores)
    if jobs * _GB_A_JOB > memory_gb + 1 and jobs > 1:
        fitting = max(1, int(memory_gb / _GB_A_JOB))
        what = f"{jobs} compiler jobs of about {_GB_A_JOB:.0f} GB each do not fit into {memory_gb:.0f} GB"
        values = {**facts.values, "jobs": str(fitting)}
        yield Finding("oom_build", DEGRADES, what, (f"MAX_JOBS is {set_to or 'not set'}",), _BUILD, "likely", values)


def cub(facts: Facts) -> Iterator[Finding]:
    """CUB_HOME set though the toolkit brings CUB."""
    chosen = chosen_toolkit(facts)
    if facts.text("compilers.cub_home") and chosen is not None and versions.at_least(chosen.text("version"), "11"):
        what = f"CUB_HOME={facts.text('compilers.cub_home')} puts another CUB before the toolkit's own"
        yield Finding("cub_conflict", DEGRADES, what, ("environment variable CUB_HOME",), _BUILD)


def chosen_toolkit(facts: Facts) -> Facts | None:
    """The toolkit that a build would take."""
    root = facts.text("toolkits.build.root")
    found = facts.groups("toolkits.found")
    if not root:
        return None
    why = facts.text("toolkits.build.why").split(" ")[0]
    for one in found:
        how = one.items("how")
        if (
            one.text("root") == root
            or why in how
            or (why == "nvcc" and "PATH" in how)
            or (why == "default" and root in one.text("root"))
        ):
            return one
    return None


def _toolkit_list(facts: Facts) -> tuple[str, ...]:
    return tuple(f"{one.text('root')}: CUDA {one.text('version')}" for one in facts.groups("toolkits.found"))[:4] or (
        "no toolkit found",
    )


RULES = (toolkit, headers, host_compiler, architectures, tools, setuptools, memory, cub)
