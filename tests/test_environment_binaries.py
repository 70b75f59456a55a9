"""ELF files as compilers make them (gcc and nvcc, where they are), and damaged ones: what is read from them."""

from __future__ import annotations

import _ctypes
import contextlib
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smr.environment import fatbin, ldso, torch_symbols
from smr.environment.elf import ElfError, ElfFile, read_elf
from smr.environment.fatbin import device_code
from smr.environment.gather import extensions
from smr.environment.gather.collect import anonymous
from smr.environment.rules import diagnose

GXX = shutil.which("g++")
NVCC = shutil.which("nvcc")
needs_gcc = pytest.mark.skipif(GXX is None, reason="no g++ here")
needs_nvcc = pytest.mark.skipif(NVCC is None or GXX is None, reason="no nvcc here")
Build = Callable[..., Path]
TORCH_OLD = "namespace c10 { struct SourceLocation{}; struct Error { Error(SourceLocation, std::string); }; }"


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Compile C++ text to a shared library."""

    def compile_library(name: str, text: str, *flags: str) -> Path:
        source, target = tmp_path / f"{name}.cpp", tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(text)
        command = [str(GXX), "-shared", "-fPIC", "-o", str(target), str(source), *flags]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        return target

    return compile_library


def scan(tmp_path: Path, *, torch: Path | None = None, search: ldso.Search | None = None) -> list[dict[str, Any]]:
    site = tmp_path / "site-packages"
    facts = {"folder": str(torch)} if torch else None
    return extensions.extensions((site,), search or ldso.Search(), facts)


def findings(found: list[dict[str, Any]], **facts: Any) -> list[str]:
    return [f.kind for f in diagnose({"extensions": found, **facts})]


@needs_gcc
def test_headers_symbols_and_versions(build: Build) -> None:
    library = build("libother.so", 'extern "C" int other(){return 1;}', "-Wl,-soname,libother.so.3")
    text = (
        '#include <string>\nextern "C" '
        "{ int other(); int maybe() __attribute__((weak)); int mine(){return other()+(maybe?1:0);} }"
    )
    folder = str(library.parent)
    elf = read_elf(build("ext.so", text, f"-L{folder}", "-l:libother.so", f"-Wl,-rpath,$ORIGIN/x:{folder}"))
    assert read_elf(library).soname == "libother.so.3"
    assert "libother.so.3" in elf.needed
    assert elf.runpath == ("$ORIGIN/x", folder) or elf.rpath == ("$ORIGIN/x", folder)
    undefined = {symbol.name: symbol.weak for symbol in elf.undefined()}
    assert undefined["other"] is False
    assert undefined["maybe"] is True
    assert elf.defines({"mine", "other", "nothing"}) == {"mine"}
    assert read_elf(library).defines({"mine", "other"}) == {"other"}
    assert "GCC" in elf.comment() or "clang" in elf.comment()


@needs_gcc
@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
def test_every_hash_style_answers_alike(build: Build, style: str) -> None:
    text = (
        "".join(f'extern "C" int f{i}(){{return {i};}}\n' for i in range(200))
        + 'extern "C" int gone(); int g(){return gone();}'
    )
    elf = read_elf(build("many.so", text, f"-Wl,--hash-style={style}"))
    names = {f"f{i}" for i in range(0, 400, 7)} | {"gone"}
    assert elf.defines(names) == {f"f{i}" for i in range(0, 200, 7)}
    assert "gone" in {symbol.name for symbol in elf.undefined()}


@needs_gcc
def test_readelf_and_we_see_the_same(build: Build) -> None:
    readelf = shutil.which("readelf")
    if readelf is None:
        pytest.skip("no readelf here")
    elf = read_elf(build("x.so", "#include <iostream>\nvoid f(){std::cout << 1;}"))
    said = subprocess.run(
        [readelf, "-W", "--dyn-syms", str(elf.path)], capture_output=True, text=True, check=True
    ).stdout
    theirs = {line.split()[7].split("@")[0] for line in said.splitlines() if " UND " in line and len(line.split()) > 7}
    assert {symbol.name for symbol in elf.undefined()} == theirs


@needs_gcc
def test_missing_library_and_missing_symbol(build: Build, tmp_path: Path) -> None:
    folder = tmp_path / "cuda"
    build("cuda/libcudart.so.11.0", 'extern "C" int cudaMalloc(){return 0;}', "-Wl,-soname,libcudart.so.11.0")
    text = 'extern "C" { int cudaMalloc(); int f(){return cudaMalloc();} }'
    build("site-packages/pkg/_C.so", text, f"-L{folder}", "-l:libcudart.so.11.0")
    assert findings(scan(tmp_path)) == ["cudart_missing"]
    here = ldso.Search(library_path=(str(folder),))
    assert findings(scan(tmp_path, search=here)) == []
    build("cuda/libcudart.so.11.0", "", "-Wl,-soname,libcudart.so.11.0")
    assert findings(scan(tmp_path, search=here)) == ["ld_library_path_shadows_wheel"]


@needs_gcc
def test_old_and_new_string_abi(build: Build, tmp_path: Path) -> None:
    uses = "#include <string>\n" + TORCH_OLD + "\nvoid f(){ throw c10::Error(c10::SourceLocation{}, std::string()); }"
    defines = "#include <string>\n" + TORCH_OLD + "\nc10::Error::Error(SourceLocation, std::string) {}"
    for abi in ("0", "1"):
        flag = f"-D_GLIBCXX_USE_CXX11_ABI={abi}"
        build(f"{abi}/torch/lib/libtorch_cpu.so", defines, flag, "-Wl,-soname,libtorch_cpu.so")
    torch = tmp_path / "1" / "torch"
    link = ["-Wl,--no-as-needed", f"-L{torch}/lib", "-l:libtorch_cpu.so"]
    build("site-packages/good/_C.so", uses, "-D_GLIBCXX_USE_CXX11_ABI=1", *link)
    build("site-packages/bad/_C.so", uses, "-D_GLIBCXX_USE_CXX11_ABI=0", *link)
    found = {f["package"]: f for f in scan(tmp_path, torch=torch)}
    assert found["good"]["torch"]["abi"] == "new"
    assert found["bad"]["torch"]["abi"] == "old"
    assert found["good"]["torch"]["absent"] == []
    assert found["bad"]["torch"]["absent"] == ["_ZN3c105ErrorC1ENS_14SourceLocationESs"]
    facts = {"version": "2.7.0", "abi": "new"}
    assert findings([found["good"]], torch=facts) == []
    assert set(findings([found["bad"]], torch=facts)) <= {"cxx11_abi_mismatch", "torch_abi_mismatch"} != set()


@needs_gcc
def test_symbols_of_sibling_libraries_do_not_count(build: Build, tmp_path: Path) -> None:
    sibling = "namespace c10 { void ours(){} }"
    build("site-packages/pkg/libpkg.so", sibling, "-Wl,-soname,libpkg.so")
    folder = tmp_path / "site-packages" / "pkg"
    torch = tmp_path / "torch"
    build("torch/lib/libtorch_cpu.so", "void t(){}", "-Wl,-soname,libtorch_cpu.so")
    text = "namespace c10 { void ours(); } void t(); void f(){ c10::ours(); t(); }"
    flags = [f"-L{folder}", "-l:libpkg.so", f"-L{torch}/lib", "-l:libtorch_cpu.so", "-Wl,-rpath,$ORIGIN"]
    build("site-packages/pkg/_C.so", text, *flags)
    (found,) = [f for f in scan(tmp_path, torch=torch) if f["path"].endswith("_C.so")]
    assert found["torch"]["symbols"] == 0
    assert found["torch"]["absent"] == []


@needs_gcc
@pytest.mark.parametrize(("tags", "winner"), [("--disable-new-dtags", "rpath"), ("--enable-new-dtags", "env")])
def test_rpath_wins_over_ld_library_path_and_runpath_does_not(
    build: Build, tmp_path: Path, tags: str, winner: str
) -> None:
    for folder in ("rpath", "env"):
        build(f"{folder}/libdep.so", "int d(){return 1;}", "-Wl,-soname,libdep.so")
    rpath = tmp_path / "rpath"
    elf = read_elf(
        build("ext.so", "int d(); int f(){return d();}", f"-L{rpath}", "-ldep", f"-Wl,-rpath,{rpath}", f"-Wl,{tags}")
    )
    choice = ldso.find("libdep.so", elf, ldso.Search(library_path=(str(tmp_path / "env"),), cache={}), {})
    assert choice.path == tmp_path / winner / "libdep.so"
    assert [path.parent.name for path in choice.others] == [{"rpath": "env", "env": "rpath"}[winner]]
    program = tmp_path / "main.c"
    program.write_text(
        f'#include <dlfcn.h>\n#include <stdio.h>\nint main(){{ void*h=dlopen("{elf.path}",RTLD_NOW); '
        "if(!h) return puts(dlerror()),1; "
        'char l[999]; FILE*m=fopen("/proc/self/maps","r"); while(fgets(l,999,m)) fputs(l,stdout); return 0; }'
    )
    subprocess.run([str(GXX), "-o", str(tmp_path / "main"), str(program), "-ldl"], check=True, timeout=60)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path / "env")}
    maps = subprocess.run([tmp_path / "main"], capture_output=True, text=True, env=environment, check=True).stdout
    assert f"/{winner}/libdep.so" in maps, "the loader itself decides otherwise"


@needs_gcc
def test_a_library_that_is_loaded_already_wins(build: Build, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        build(f"{folder}/libdep.so", "int d(){return 1;}", "-Wl,-soname,libdep.so")
    elf = read_elf(
        build("ext.so", "int d(); int f(){return d();}", f"-L{tmp_path}/one", "-ldep", f"-Wl,-rpath,{tmp_path}/one")
    )
    loaded = {"libdep.so": tmp_path / "two" / "libdep.so"}
    assert ldso.find("libdep.so", elf, ldso.Search(cache={}), loaded).why == "loaded already"
    assert ldso.find("libnot.so", elf, ldso.Search(cache={}), loaded).path is None


@needs_gcc
def test_glibcxx_newer_than_the_library_that_wins(build: Build, tmp_path: Path) -> None:
    script = tmp_path / "old.map"
    script.write_text("GLIBCXX_3.4 { global: *; };\nGLIBCXX_3.4.20 { } GLIBCXX_3.4;\n")
    build(
        "conda/lib/libstdc++.so.6", "int x(){return 1;}", "-Wl,-soname,libstdc++.so.6", f"-Wl,--version-script={script}"
    )
    text = (
        "#include <string>\n#include <filesystem>\nbool f(const char* "
        "p){ return std::filesystem::exists(p); }\nint cudart(); int g(){return cudart();}"
    )
    build("cuda/libcudart.so.12", "int cudart(){return 1;}", "-Wl,-soname,libcudart.so.12")
    build(
        "site-packages/pkg/_C.so",
        text,
        "-std=c++17",
        f"-L{tmp_path}/cuda",
        "-l:libcudart.so.12",
        f"-Wl,-rpath,{tmp_path}/cuda",
    )
    found = scan(tmp_path, search=ldso.Search(library_path=(str(tmp_path / "conda/lib"),)))
    assert found[0]["libstdcxx"]["GLIBCXX"] == "3.4.20"
    assert "conda_libstdcxx_shadows_system" in findings(found)
    assert findings(scan(tmp_path)) == []


@needs_gcc
def test_glibc_newer_than_the_system(build: Build, tmp_path: Path) -> None:
    build("cuda/libcudart.so.12", "int cudart(){return 1;}", "-Wl,-soname,libcudart.so.12")
    build(
        "site-packages/pkg/_C.so",
        '#include <cstdio>\nint cudart(); int g(){return puts("x")+cudart();}',
        f"-L{tmp_path}/cuda",
        "-l:libcudart.so.12",
        f"-Wl,-rpath,{tmp_path}/cuda",
    )
    found = scan(tmp_path)
    assert findings(found, system={"glibc": "2.1"}) == ["glibc_too_old"]
    assert findings(found, system={"glibc": "9.9"}) == []


@needs_nvcc
@pytest.mark.parametrize(
    ("targets", "cubins", "ptx"),
    [
        (["-gencode=arch=compute_75,code=sm_75"], ("sm_75",), ()),
        (["-gencode=arch=compute_80,code=compute_80"], (), ("compute_80",)),
        (
            [
                "-gencode=arch=compute_75,code=sm_75",
                "-gencode=arch=compute_90a,code=sm_90a",
                "-gencode=arch=compute_90,code=compute_90",
            ],
            ("sm_75", "sm_90a"),
            ("compute_90",),
        ),
    ],
)
def test_device_code_of_nvcc(tmp_path: Path, targets: list[str], cubins: tuple[str, ...], ptx: tuple[str, ...]) -> None:
    source = tmp_path / "k.cu"
    source.write_text('__global__ void k(float*x){x[0]=1;} extern "C" void go(float*x){k<<<1,1>>>(x);}')
    target = tmp_path / "site-packages" / "pkg" / "_C.so"
    target.parent.mkdir(parents=True)
    subprocess.run(
        [str(NVCC), "-shared", "-Xcompiler", "-fPIC", "-cudart", "none", *targets, "-o", str(target), str(source)],
        check=True,
        capture_output=True,
        timeout=300,
    )
    code = device_code(read_elf(target))
    assert code is not None
    assert code.cubins == cubins
    assert code.ptx == ptx
    found = [
        {
            "package": "pkg",
            "path": str(target),
            "code": {"cubins": list(cubins), "ptx": list(ptx), "ptx_isa": code.ptx_isa},
        }
    ]
    for capability, kind in (
        ("7.5", "no_kernel_image" if "sm_75" not in cubins else ""),
        ("8.6", "runs_by_ptx" if "compute_80" in ptx else "no_kernel_image"),
    ):
        driver = {
            "gpus": [{"name": "x", "capability": capability}],
            "version": "580.65.06",
            "kernel_module": "580.65.06",
        }
        assert findings(found, driver=driver) == ([kind] if kind else [])
    if ptx:
        assert code.ptx_isa
        driver = {"gpus": [{"name": "x", "capability": "9.0"}], "version": "470.57.02", "kernel_module": "470.57.02"}
        assert "ptx_toolchain" in findings(
            [{**found[0], "code": {"cubins": [], "ptx": ["compute_80"], "ptx_isa": code.ptx_isa}}], driver=driver
        )


def fatbin_bytes(*entries: tuple[int, int, int]) -> bytes:
    """A fatbin as nvcc lays it out: entries of (kind, architecture, flags)."""
    body = b""
    for kind, arch, flags in entries:
        body += struct.pack("<HHIQIIHHIIIQQQ", kind, 0x101, 64, 8, 0, 0, 4, 8, arch, 0, 0, flags, 0, 0) + b"payload!"
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


@needs_gcc
def test_device_code_without_nvcc(build: Build, tmp_path: Path) -> None:
    data = fatbin_bytes((2, 75, 0), (2, 90, 1 << 20), (1, 80, 0)) + bytes(8) + fatbin_bytes((2, 86, 0))
    (tmp_path / "blob").write_bytes(data)
    assembly = f'__asm__(".section .nv_fatbin,\\"a\\"\\n.incbin \\"{tmp_path}/blob\\"\\n.previous");'
    code = device_code(read_elf(build("x.so", assembly)))
    assert code == fatbin.DeviceCode(("sm_75", "sm_86", "sm_90a"), ("compute_80",), "8.4")
    (tmp_path / "blob").write_bytes(b"garbage that is no fatbin at all")
    with pytest.raises(ElfError, match="no fatbin header"):
        device_code(read_elf(build("y.so", assembly)))
    assert device_code(read_elf(build("z.so", "int f(){return 1;}"))) is None


def read_everything(path: Path) -> None:
    elf = read_elf(path)
    elf.undefined()
    elf.versions_needed()
    elf.versions_defined()
    elf.defines({"main", "_ZN3c10a"})
    elf.sections()
    elf.comment()
    device_code(elf)


SAMPLE = Path(_ctypes.__file__).read_bytes()


@settings(max_examples=60, deadline=None)
@given(
    edits=st.lists(st.tuples(st.integers(0, 1 << 30), st.booleans(), st.integers(0, 255)), min_size=1, max_size=6),
    kept=st.none() | st.integers(0, 1 << 30),
)
def test_damaged_files_end_in_an_error_soon(
    tmp_path_factory: pytest.TempPathFactory,
    edits: list[tuple[int, bool, int]],
    kept: int | None,
) -> None:
    damaged = bytearray(SAMPLE)
    for place, near_the_start, value in edits:
        damaged[place % (2000 if near_the_start else len(damaged))] = value
    size = len(damaged) if kept is None else kept % len(damaged)
    path = tmp_path_factory.mktemp("elf") / "x.so"
    path.write_bytes(bytes(damaged[:size]))
    started = time.process_time()
    with contextlib.suppress(ElfError):
        read_everything(path)
    assert time.process_time() - started < 20


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x7fELF",
        b"MZ" + bytes(200),
        b"\x7fELF\x01\x01" + bytes(100),
        b"version https://git-lfs.github.com/spec/v1",
    ],
)
def test_what_is_no_library_is_said_so(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.so").write_bytes(data)
    with pytest.raises(ElfError, match=r"not a|cut short"):
        read_elf(tmp_path / "x.so")


def test_pipes_folders_and_dangling_links_do_not_stop_a_scan(tmp_path: Path) -> None:
    site = tmp_path / "site-packages" / "pkg"
    (site / "folder.so").mkdir(parents=True)
    os.mkfifo(site / "pipe.so")
    (site / "dangling.so").symlink_to(tmp_path / "nowhere")
    (site / "loop").symlink_to(site)
    assert scan(tmp_path) == []


def test_a_header_that_promises_much_costs_little(tmp_path: Path) -> None:
    head = (
        b"\x7fELF\x02\x01\x01"
        + bytes(9)
        + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 64, 0, 64, 56, 0xFFFF, 64, 0xFFFF, 0xFFFF)
    )
    (tmp_path / "x.so").write_bytes(head + b"\xff" * 100_000)
    started = time.process_time()
    with pytest.raises(ElfError):
        read_everything(tmp_path / "x.so")
    assert time.process_time() - started < 5


def test_damaged_module_of_a_package_is_a_finding(tmp_path: Path) -> None:
    folder = tmp_path / "site-packages" / "pkg"
    folder.mkdir(parents=True)
    (folder / "_C.cpython-311-x86_64-linux-gnu.so").write_bytes(b"\x7fELF" + bytes(10))
    (folder / "data.so").write_bytes(b"no library")
    assert findings(scan(tmp_path)) == ["damaged_file"]


def test_ld_so_cache_is_read_and_garbage_is_not(tmp_path: Path) -> None:
    strings = b"libfoo.so.1\0/opt/libfoo.so.1\0"
    entry = struct.pack("<iIIIQ", 3, 48 + 24, 48 + 24 + 12, 0, 0)
    data = b"glibc-ld.so.cache1.1" + struct.pack("<II", 1, len(strings)) + bytes(20) + entry + strings
    (tmp_path / "cache").write_bytes(data)
    assert ldso.read_cache(tmp_path / "cache") == {"libfoo.so.1": ("/opt/libfoo.so.1",)}
    (tmp_path / "garbage").write_bytes(b"\xff" * 1000)
    assert ldso.read_cache(tmp_path / "garbage") == {}
    assert ldso.read_cache(tmp_path / "absent") == {}


@pytest.mark.parametrize(
    ("name", "abi"),
    [
        ("_ZN3c105ErrorC2ENS_14SourceLocationESs", "old"),
        ("_ZN3c106detail14torchCheckFailEPKcS2_jRKSs", "old"),
        ("_ZN3c106detail14torchCheckFailEPKcS2_jS2_", ""),
        ("_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", "new"),
        ("_ZN2at7SsThing3fooEv", ""),
        ("printf", ""),
    ],
)
def test_string_abi_of_a_symbol(name: str, abi: str) -> None:
    assert torch_symbols.string_abi(name) == abi


def test_range_from_symbols() -> None:
    names = [
        "_ZN3c104cuda9SetDeviceEi",
        "_Z16THPVariable_WrapN2at10TensorBaseE",
        "_ZN3c106SymInt19promote_to_negativeEv",
        "_ZTHN3c104impl26raw_local_dispatch_key_setE",
    ]
    answer = torch_symbols.built_for(names)
    assert (answer.low, answer.high, answer.misses) == ("2.1", "2.2", 0)
    assert torch_symbols.built_for(["aoti_torch_empty_strided"]).stable
    assert torch_symbols.built_for([]).low == ""
    assert torch_symbols.built_for(["_ZN3c103newEv"]).known == 0


def test_names_and_secrets_are_taken_out() -> None:
    environ = {"HOME": "/data/alice", "USER": "alice"}
    facts = {
        "a": ["/data/alice/env", "/scratch/alice/x", "/home/bob/y", "https://user:token@host.org/x", "malice"],
        "n": 3,
    }
    assert anonymous(facts, environ)["a"] == [
        "~/env",
        "/scratch/USER/x",
        "/home/USER/y",
        "https://host.org/x",
        "malice",
    ]


def test_undefined_symbols_of_a_stripped_file(tmp_path: Path) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(SAMPLE[:40] + bytes(8) + SAMPLE[48:60] + bytes(4) + SAMPLE[64:])  # no section table
    elf = read_elf(path)
    assert elf.sections() == []
    assert isinstance(elf, ElfFile)
    assert elf.needed
