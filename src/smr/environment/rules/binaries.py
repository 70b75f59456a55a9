"""Rules about compiled extensions: libraries, symbols, C++ ABI, system versions, GPU architectures."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from smr.environment import tables, versions
from smr.environment.explain import context_of, explain
from smr.environment.explain.loading import foreign_symbol, library_family
from smr.environment.rules.finding import BLOCKS, DEGRADES, NOTE, Facts, Finding

_BELIEVED = 0.7
"""Confidence from which the explanation of an import's error is taken for its cause."""
_PTX_OF_CUDA = {"6.5": "10.2", "8.5": "12.6", "8.6": "12.7", "8.7": "12.8", "8.8": "12.9"}


def damaged(facts: Facts) -> Iterator[Finding]:
    """A compiled file that cannot be read."""
    for extension in facts.groups("extensions"):
        error = extension.text("error")
        if error:
            what = f"{_name(extension)} is damaged: {error}"
            yield _finding("damaged_file", BLOCKS, what, extension, facts)


def torch_abi(facts: Facts) -> Iterator[Finding]:
    """Torch symbols that the installed torch does not define: another version, or another C++ ABI."""
    installed, abi = facts.text("torch.version"), facts.text("torch.abi")
    for extension in facts.groups("extensions"):
        absent = _absent_symbols(extension, facts)
        if not absent or not installed:
            continue
        low, high, built = (extension.text(f"torch.{key}") for key in ("low", "high", "abi"))
        other_abi = built and abi and built != abi
        minor = versions.minor(installed)
        in_range = low and versions.at_least(minor, low) and not versions.below(high, minor)
        made = f"was built for torch {_range(low, high)}" + (f" with the {built} C++ ABI" if built else "")
        if extension.flag("torch.stable"):
            made = "uses functions of torch's stable interface that came later"
        runs = f"you run {installed}" + (f" ({abi} ABI)" if abi else "")
        count = max(extension.number("torch.absent_count") or 0, len(absent))
        evidence = (
            f"{count:.0f} symbols that this torch lacks, such as {absent[0]}",
            *extension.items("torch.evidence")[:2],
        )
        kind = "cxx11_abi_mismatch" if other_abi and (in_range or not low) else "torch_abi_mismatch"
        what = f"{_name(extension)} {made}; {runs}"
        yield _finding(kind, BLOCKS, what, extension, facts, evidence, values=_torch_it_was_built_for(high, facts))


def _absent_symbols(extension: Facts, facts: Facts) -> list[str]:
    """Torch symbols that nothing defines; a CPU torch lacks those of its CUDA half for another reason."""
    absent = list(map(str, extension.items("torch.absent")))
    needs_cuda = any(re.match(r"lib(c10|torch)_cuda", m.text("soname")) for m in extension.groups("missing"))
    return [name for name in absent if "cuda" not in name] if needs_cuda else absent


def missing_libraries(facts: Facts) -> Iterator[Finding]:
    """Libraries that no search path holds, one finding a library, with all that need it."""
    needing: dict[str, list[Facts]] = defaultdict(list)
    for extension in facts.groups("extensions"):
        for missing in extension.groups("missing"):
            needing[missing.text("soname")].append(extension)
    for soname, extensions in sorted(needing.items()):
        first = extensions[0]
        kind = _kind_of_missing(soname, facts)
        if kind is None:
            yield _finding(
                "library_missing",
                NOTE,
                f"{_name(first)} needs {soname}, which is not here",
                first,
                facts,
                (),
                "certain",
            )
            continue
        driver_only = soname.startswith("libcuda.so") and not facts.items("driver.gpus")
        level = DEGRADES if driver_only else BLOCKS
        names = ", ".join(sorted({_name(extension) for extension in extensions})[:4])
        what = f"{soname} is not found; needed by {names}"
        package = tables.package_of(soname)
        evidence = tuple(
            f"{m.text('by')} needs {soname}"
            for e in extensions[:3]
            for m in e.groups("missing")
            if m.text("soname") == soname
        )
        values = {"pip": package.split(" / ")[0].split(" ")[0]}
        yield _finding(kind, level, what, first, facts, evidence, values=values)


def unresolved_symbols(facts: Facts) -> Iterator[Finding]:
    """Symbols of other libraries, or of the extension itself, that nothing in reach defines."""
    for extension in facts.groups("extensions"):
        names = extension.items("torch.unresolved")
        if not names or extension.items("missing"):
            continue
        kind, because = foreign_symbol(str(names[0])) or ("stale_build_dir", "belongs to the extension itself")
        what = f"{_name(extension)}: nothing defines {names[0]}, which {because}"
        yield _finding(kind, BLOCKS, what, extension, facts, tuple(map(str, names[:3])), "likely")


def shadowed(facts: Facts) -> Iterator[Finding]:
    """LD_LIBRARY_PATH puts a CUDA library before the copy that torch's wheels bring."""
    pairs = []
    for extension in facts.groups("extensions"):
        for need in extension.groups("needed"):
            wheel = [other for other in need.items("others") if "/nvidia/" in str(other) or "/torch/lib/" in str(other)]
            if need.text("why") == "LD_LIBRARY_PATH" and wheel and library_family(need.text("soname")):
                pairs.append((need.text("soname"), need.text("path"), str(wheel[0])))
    if pairs:
        soname, winner, loser = pairs[0]
        what = f"LD_LIBRARY_PATH makes {winner} win over torch's own {soname}"
        evidence = tuple(f"{path} wins over {other}" for _, path, other in dict.fromkeys(pairs))[:4]
        yield Finding(
            "ld_library_path_shadows_wheel",
            DEGRADES,
            what,
            (*evidence, f"loses: {loser}"),
            ("kaolin", "build"),
            values=facts.values,
        )


def system_versions(facts: Facts) -> Iterator[Finding]:
    """Glibc and libstdc++ older than a file was built on."""
    glibc = facts.text("system.glibc")
    for extension in facts.groups("extensions"):
        floor = extension.text("floors.GLIBC")
        if floor and versions.below(glibc, floor):
            what = f"{_name(extension)} needs glibc {floor}, this system has {glibc}"
            yield _finding("glibc_too_old", BLOCKS, what, extension, facts, (f"highest version needed: GLIBC_{floor}",))
        path = extension.text("libstdcxx.path")
        for family in ("GLIBCXX", "CXXABI"):
            floor, offered = extension.text(f"floors.{family}"), extension.text(f"libstdcxx.{family}")
            if floor and offered and versions.below(offered, floor):
                what = f"{_name(extension)} needs {family}_{floor}; {path}, which wins, offers {offered}"
                yield _finding(
                    _owner_of_libstdcxx(path), BLOCKS, what, extension, facts, (f"{path}: {family} up to {offered}",)
                )
                break


def architectures(facts: Facts) -> Iterator[Finding]:
    """Device code against the GPUs: native, by PTX, or none."""
    driver = facts.text("driver.version")
    for extension in facts.groups("extensions"):
        cubins, ptx = extension.items("code.cubins"), extension.items("code.ptx")
        if not cubins and not ptx:
            continue
        for capability in sorted(set(facts.capabilities)):
            held = ", ".join(map(str, [*cubins, *ptx]))
            if any(runs_on(str(cubin), capability) for cubin in cubins):
                continue
            if not any(translates_to(str(code), capability) for code in ptx):
                kind = "torch_arch_dropped" if extension.text("package") == "torch" else "no_kernel_image"
                what = f"{_name(extension)} holds no code for compute capability {capability}"
                yield _finding(kind, BLOCKS, what, extension, facts, (f"it holds {held}",), values={"arch": capability})
                continue
            cuda = cuda_of_ptx(extension.text("code.ptx_isa"))
            if driver and tables.toolkit_driver(cuda) and versions.below(driver, tables.toolkit_driver(cuda)):
                what = (
                    f"{_name(extension)} has only PTX of CUDA {cuda} for this GPU; driver {driver} cannot translate it"
                )
                values = {"arch": capability, "toolkit_driver": tables.toolkit_driver(cuda)}
                yield _finding("ptx_toolchain", BLOCKS, what, extension, facts, (f"it holds {held}",), values=values)
            else:
                what = f"{_name(extension)} runs on compute capability {capability} by PTX: the first call compiles it"
                values = {"arch": capability}
                yield _finding("runs_by_ptx", NOTE, what, extension, facts, (f"it holds {held}",), values=values)


def crashes(facts: Facts) -> Iterator[Finding]:
    """An import that ended the process, hung, or raised."""
    for tried in facts.groups("imports"):
        module, status = tried.text("module"), tried.text("status")
        values = {**facts.values, "package": module.split(".")[0]}
        last = tried.text("says").splitlines()[-1:] or [""]
        if status in ("signal", "timeout"):
            what = f"{tried.text('sentence')} while importing {module}"
            yield Finding(
                "crash_on_import", BLOCKS, what, tuple(tried.text("says").splitlines()[:4]), ("kaolin",), values=values
            )
        elif status == "exit":
            causes = explain(tried.text("says"), context_of(facts.document))
            sure = bool(causes) and causes[0].confidence >= _BELIEVED
            kind = causes[0].kind if sure else "import_fails"
            evidence = (causes[0].why,) if sure else ()
            what = f"import {module}: {last[0]}"
            yield Finding(kind, BLOCKS, what, evidence, ("kaolin",), "likely" if sure else "certain", values)


def vital_signs(facts: Facts) -> Iterator[Finding]:
    """A small job that failed, crashed or hung."""
    for sign in facts.groups("vitals"):
        if sign.text("status") != "ok":
            concerns = ("kaolin",) if sign.text("package") == "kaolin" else ("reconstruct",)
            what = f"{sign.text('name')}: {sign.text('sentence')}"
            yield Finding("vital_sign_fails", BLOCKS, what, (sign.text("says"),), concerns, values=facts.values)


def runs_on(cubin: str, capability: str) -> bool:
    """Whether machine code for one architecture runs on a GPU: same major, minor not below; `a` that one alone."""
    match = re.match(r"sm_(\d+)(\d)([af]?)$", cubin)
    major, minor = versions.parse(capability)[:2]
    if not match:
        return False
    own = (int(match.group(1)), int(match.group(2)))
    alone = own in ((5, 3), (6, 2), (7, 2), (8, 7)) or match.group(3) == "a"
    return own == (major, minor) if alone else own[0] == major and own[1] <= minor


def translates_to(code: str, capability: str) -> bool:
    """Whether PTX can be translated for a GPU: any that is not older; with a suffix, its own kind only."""
    match = re.match(r"compute_(\d+)(\d)([af]?)$", code)
    major, minor = versions.parse(capability)[:2]
    if not match:
        return False
    own = (int(match.group(1)), int(match.group(2)))
    return own == (major, minor) if match.group(3) else own <= (major, minor)


def cuda_of_ptx(isa: str) -> str:
    """CUDA toolkit that speaks a PTX version: 7.x is CUDA 11.x, 9.x is 13.x, 8.0 to 8.5 are 12.0 to 12.5."""
    if isa in _PTX_OF_CUDA:
        return _PTX_OF_CUDA[isa]
    parts = versions.parse(isa)
    base = {6: 10, 7: 11, 8: 12, 9: 13}.get(parts[0] if parts else 0)
    if base is None or len(parts) < 2:
        return ""
    return f"10.{parts[1] - 3}" if base == 10 else f"{base}.{parts[1]}"


def _torch_it_was_built_for(torch: str, facts: Facts) -> dict[str, str]:
    default = str(tables.torch_release(torch).get("default_cuda", "")) if torch else ""
    return {"built_for": torch, "torch_cuda": facts.text("torch.cuda") or default}


def _kind_of_missing(soname: str, facts: Facts) -> str | None:
    family = library_family(soname)
    if family is None:
        return None
    if re.match(r"lib(c10|torch|caffe2|shm)", soname):
        if not facts.text("torch.version"):
            return "torch_missing"
        cuda = re.match(r"lib(c10|torch)_cuda", soname)
        return "torch_cpu_only" if cuda and not facts.text("torch.cuda") else "torch_lib_layout"
    if soname.startswith("libcuda.so"):
        return "wsl_libcuda" if facts.flag("place.wsl") else "driver_missing"
    return family


def _owner_of_libstdcxx(path: str) -> str:
    if re.match(r"/(usr/)?(local/)?lib", path):
        return "libstdcxx_too_old"
    if "site-packages" in path:
        return "import_order_libstdcxx"
    return "conda_libstdcxx_shadows_system"


def _finding(
    kind: str,
    level: str,
    what: str,
    extension: Facts,
    facts: Facts,
    evidence: tuple[str, ...] = (),
    sure: str = "certain",
    values: dict[str, str] | None = None,
) -> Finding:
    package = extension.text("package")
    concerns = ("reconstruct", "kaolin") if package in ("warp", "pxr", "numpy", "scipy") else ("kaolin",)
    filled_in = {**facts.values, "package": package.replace("_", "-"), **(values or {})}
    return Finding(kind, level, what, evidence or (extension.text("path"),), concerns, sure, filled_in)


def _name(extension: Facts) -> str:
    path = extension.text("path")
    return f"{extension.text('package')}/{path.rsplit('/', 1)[-1]}" if extension.text("package") else path


def _range(low: str, high: str) -> str:
    return (low if low == high else f"{low} to {high}") or "another version"


RULES = (
    damaged,
    torch_abi,
    missing_libraries,
    unresolved_symbols,
    shadowed,
    system_versions,
    architectures,
    crashes,
    vital_signs,
)
