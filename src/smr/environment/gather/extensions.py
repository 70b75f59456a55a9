"""Compiled extensions that need torch or CUDA: what each asks for, and what it gets here."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from smr.environment import versions
from smr.environment.elf import ElfError, ElfFile, Undefined, read_elf
from smr.environment.fatbin import device_code
from smr.environment.ldso import Choice, Search, expand, find
from smr.environment.torch_symbols import built_for, is_torch

MAX_FILES, MAX_CLOSURE, MAX_LISTED = 30_000, 400, 20
_LINKED = re.compile(
    r"^lib((torch|c10|caffe2|ATen)(_[a-z_]+)?\.|cuda\.|cudart|cublas|cusparse|cusolver|cufft|curand|cudnn|nvrtc|nccl)"
)
_SHARED = re.compile(r"\.so(\.\d+)*$")
_SKIPPED = {"torch", "nvidia", "triton", "warp", "functorch", "torchgen", "__pycache__"}
_TORCH_FILES = ("libtorch_python.so", "libtorch_cuda.so", "libc10_cuda.so", "libtorch_cpu.so")
_ABI_MARKS = {
    "old": "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs",
    "new": "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
}


def loader(environ: Mapping[str, str]) -> dict[str, Any]:
    """Variables and the program's own search path that decide which libraries are loaded."""
    rpath: tuple[str, ...] = ()
    try:
        program = read_elf(Path(sys.executable).resolve())
        rpath = () if program.runpath else expand(program.rpath, program.path.parent)
    except (ElfError, OSError):
        pass
    return {
        "library_path": [part for part in environ.get("LD_LIBRARY_PATH", "").split(":") if part],
        "preload": environ.get("LD_PRELOAD", ""),
        "program_rpath": list(rpath),
    }


def search_of(facts: Mapping[str, Any]) -> Search:
    """The loader's search, from the facts of `loader`."""
    return Search(tuple(facts["library_path"]), tuple(facts["program_rpath"]))


def extensions(
    sites: tuple[Path, ...], search: Search, torch: Mapping[str, Any] | None, package: str = ""
) -> list[dict[str, Any]]:
    """Facts of every extension that links to torch or CUDA, or of one package's."""
    scan = _Scan(search, torch)
    found = []
    for path, site in _files(sites, package, torch):
        try:
            elf = read_elf(path)
        except (ElfError, OSError) as error:
            if package or _looks_like_module(path):
                found.append({"path": str(path), "package": _package(path, site), "error": str(error)[:200]})
            continue
        if package or any(_LINKED.match(name) for name in elf.needed):
            found.append(scan.facts(elf, _package(path, site)))
    return found


def torch_abi(torch: Mapping[str, Any] | None) -> str:
    """C++ ABI of the installed torch (`new`, `old`), read from its libc10.so; empty where it does not say."""
    if not torch:
        return ""
    try:
        defined = read_elf(Path(torch["folder"]) / "lib" / "libc10.so").defines(set(_ABI_MARKS.values()))
    except (ElfError, OSError):
        return ""
    return next((abi for abi, mark in _ABI_MARKS.items() if mark in defined), "")


class _Scan:
    """Looks at extensions one after another; libraries that they share are read once."""

    def __init__(self, search: Search, torch: Mapping[str, Any] | None) -> None:
        self._search = search
        self._read: dict[str, ElfFile | None] = {}
        self._loaded: dict[str, Path] = {}
        self._torch_libraries: list[ElfFile] = []
        if torch:
            self._load_torch(Path(torch["folder"]) / "lib")
        self._program = [elf for elf in (self._elf(Path(sys.executable).resolve()),) if elf]

    def facts(self, elf: ElfFile, package: str) -> dict[str, Any]:
        """All that is asked of one extension."""
        facts: dict[str, Any] = {"path": str(elf.path), "package": package, "machine": elf.machine}
        try:
            closure, needed, missing = self._closure(elf, {} if package == "torch" else self._loaded)
            facts.update(needed=needed, missing=missing, floors=_floors(elf), compiler=elf.comment())
            facts["libstdcxx"] = self._libstdcxx(closure)
            facts["torch"] = self._symbols(elf, closure)
            code = device_code(elf)
        except (ElfError, OSError) as error:
            return {**facts, "error": str(error)[:200]}
        if code:
            facts["code"] = {"cubins": list(code.cubins), "ptx": list(code.ptx), "ptx_isa": code.ptx_isa}
        return facts

    def _load_torch(self, folder: Path) -> None:
        """What is in the process once torch is imported: its libraries and all that they bring."""
        for name in _TORCH_FILES:
            elf = self._elf(folder / name)
            if elf is None:
                continue
            self._torch_libraries.append(elf)
            self._loaded.setdefault(elf.soname or name, elf.path)
            for library in self._closure(elf, self._loaded)[0]:
                self._loaded.setdefault(library.soname or library.path.name, library.path)
                self._torch_libraries.append(library)

    def _closure(
        self, elf: ElfFile, loaded: Mapping[str, Path]
    ) -> tuple[list[ElfFile], list[dict[str, Any]], list[dict[str, str]]]:
        """Everything an object brings along, breadth first; its own needs with the winning copy; what is missing."""
        queue: list[tuple[ElfFile, tuple[ElfFile, ...]]] = [(elf, ())]
        seen = {str(elf.path)}
        libraries, needed, missing = [], [], []
        while queue and len(seen) < MAX_CLOSURE:
            current, loaders = queue.pop(0)
            for soname in current.needed:
                choice = find(soname, current, self._search, loaded, loaders)
                if current is elf:
                    needed.append(_need(soname, choice))
                if choice.path is None:
                    missing.append({"soname": soname, "by": current.path.name})
                    continue
                library = None if str(choice.path) in seen else self._elf(choice.path)
                seen.add(str(choice.path))
                if library is not None:
                    libraries.append(library)
                    queue.append((library, (current, *loaders)))
        return libraries, needed, missing

    def _symbols(self, elf: ElfFile, closure: list[ElfFile]) -> dict[str, Any] | None:
        """Symbols that nothing in reach defines, and the torch that the torch symbols speak of."""
        undefined = [symbol for symbol in elf.undefined() if not symbol.weak]
        wanted = {symbol.name for symbol in undefined}
        torch_names = {name for name in wanted if is_torch(name)}
        own = self._defined(torch_names, [lib for lib in closure if lib not in self._torch_libraries])
        answer = built_for(sorted(torch_names - own))
        absent = wanted - self._defined(wanted, [*self._torch_libraries, *closure, *self._program])
        return {
            "symbols": len(torch_names - own),
            "absent": sorted(name for name in absent if is_torch(name))[:MAX_LISTED] if self._torch_libraries else [],
            "absent_count": sum(map(is_torch, absent)) if self._torch_libraries else 0,
            "unresolved": _unresolved(undefined, absent)[:MAX_LISTED],
            "low": answer.low,
            "high": answer.high,
            "abi": answer.abi,
            "stable": answer.stable,
            "known": answer.known,
            "evidence": list(answer.evidence),
        }

    def _defined(self, names: set[str], libraries: list[ElfFile]) -> set[str]:
        left = set(names)
        for library in libraries:
            if not left:
                break
            try:
                left -= library.defines(left)
            except (ElfError, OSError):
                continue
        return names - left

    def _libstdcxx(self, closure: list[ElfFile]) -> dict[str, str]:
        """The C++ library that wins, and the newest versions that it offers."""
        library = next((lib for lib in closure if lib.soname == "libstdc++.so.6"), None)
        if library is None and "libstdc++.so.6" in self._loaded:
            library = self._elf(self._loaded["libstdc++.so.6"])
        if library is None:
            return {}
        offered = library.versions_defined()
        return {"path": str(library.path), **{name: _newest(offered, name) for name in ("GLIBCXX", "CXXABI")}}

    def _elf(self, path: Path) -> ElfFile | None:
        key = str(path)
        if key not in self._read:
            try:
                self._read[key] = read_elf(path)
            except (ElfError, OSError):
                self._read[key] = None
        return self._read[key]


def _files(sites: tuple[Path, ...], package: str, torch: Mapping[str, Any] | None) -> Iterator[tuple[Path, Path]]:
    """Shared objects of installed packages; torch's own main libraries first."""
    if torch and package in ("", "torch"):
        folder = Path(torch["folder"])
        yield from (
            (folder / "lib" / name, folder.parent) for name in _TORCH_FILES if (folder / "lib" / name).is_file()
        )
    left = MAX_FILES
    wanted = package.replace("-", "_").lower()
    for site in sites:
        for here, folders, files in os.walk(site, onerror=None):
            if Path(here) == site:
                names = {name: re.sub(r"[-.]", "_", name).lower() for name in folders}
                folders[:] = [n for n in folders if (_belongs(n, names[n], wanted) if package else n not in _SKIPPED)]
                files = [name for name in files if not package or name.lower().startswith(wanted)]
            for name in files:
                if _SHARED.search(name):
                    left -= 1
                    yield Path(here) / name, site
            if left < 0:
                return


def _belongs(folder: str, name: str, wanted: str) -> bool:
    """Whether a folder holds a package's own files (and not the libraries that its wheel brings along)."""
    return name.startswith(wanted) and not folder.endswith((".libs", "-info"))


def _looks_like_module(path: Path) -> bool:
    return bool(re.match(r"_?C\b|.*cpython-\d+.*\.so$", path.name))


def _package(path: Path, site: Path) -> str:
    first = path.relative_to(site).parts[0]
    return re.split(r"[.]", first)[0] if len(path.relative_to(site).parts) == 1 else first


def _need(soname: str, choice: Choice) -> dict[str, Any]:
    found = {"soname": soname, "path": str(choice.path or ""), "why": choice.why}
    return {**found, "others": [str(path) for path in choice.others]} if choice.others else found


def _floors(elf: ElfFile) -> dict[str, str]:
    names = [name for found in elf.versions_needed().values() for name in found]
    return {family: _newest(names, family) for family in ("GLIBC", "GLIBCXX", "CXXABI") if _newest(names, family)}


def _newest(names: list[str], family: str) -> str:
    found = [name[len(family) + 1 :] for name in names if re.fullmatch(family + r"_[\d.]+", name)]
    return max(found, key=versions.parse, default="")


def _unresolved(undefined: list[Undefined], absent: set[str]) -> list[str]:
    """Symbols that no library in reach defines, torch's and Python's apart."""
    return [s.name for s in undefined if s.name in absent and not is_torch(s.name) and not re.match(r"_?Py", s.name)]
