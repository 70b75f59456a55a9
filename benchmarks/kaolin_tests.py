"""Kaolin's own tests on smr.kaolin: what passes, per directory.

    python benchmarks/kaolin_tests.py CHECKOUT [--device cpu|cuda] [--jobs N] [--only io rep/test_surface_mesh.py]

CHECKOUT is a clone of Kaolin; it is only read: the tests run in a copy, with `import kaolin` meaning smr.kaolin. On a
GPU they run as they are; for the CPU the copy has every device `cuda` replaced by `cpu`. Each file runs in a process
of its own with a time limit; a crash costs the test that crashed.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kaolin_tests_reasons import REASONS

HERE = Path(__file__).resolve().parent
TESTS = Path("tests/python/kaolin")
OUT_OF_SCOPE = (
    "experimental", "io/test_gaussians.py", "io/usd/test_gaussians.py", "io/usd/test_physics_materials.py",
    "non_commercial", "ops/conversions/test_gaussians.py", "ops/gaussians",
    "ops/spc", "physics", "render/spc", "rep/test_gaussians.py", "rep/test_rep_spc.py",
)  # fmt: skip
COLUMNS = ("passed", "failed", "error", "skipped", "not in scope", "absent", "CPU refused", "old pytest")
MEANING = """\
not in scope: structured point clouds, Gaussians, physics: smr.kaolin does not have them and says so.
absent: needs files or packages that are not on this machine. old pytest: written for a pytest before 9.
CPU refused: asserts that a CPU tensor is refused; smr.kaolin works on it. skipped: skips itself.
rate: passed of passed, failed and error."""


def rewrite_for_cpu(text: str) -> str:
    """A test file with CPU devices for CUDA ones; names of rasterizer backends and wrong devices stay."""
    blocks = re.split(r"(?m)^(?=[ \t]*def )", text)
    return "".join(block if "should be cuda" in block else _block_for_cpu(block) for block in blocks)


def _block_for_cpu(block: str) -> str:
    lines = block.split("\n")
    for i, line in enumerate(lines):
        if "backend" in line or "wrong_device" in line:
            continue
        line = re.sub(r"(['\"])cuda(:0)?\1", r"\1cpu\1", line)
        line = line.replace(".cuda(", ".cpu(").replace("torch.cuda.FloatTensor", "torch.FloatTensor")
        lines[i] = line.replace("torch.cuda.synchronize()", "None")
    return "\n".join(lines)


def copy_tests(checkout: Path, into: Path, device: str) -> None:
    shutil.copytree(checkout / "tests", into / "tests")
    for name in ("sample_data", "examples"):
        if (checkout / name).exists():
            (into / name).symlink_to((checkout / name).resolve())
    if device == "cpu":
        for path in (into / "tests/python").rglob("*.py"):
            path.write_text(rewrite_for_cpu(path.read_text(encoding="utf-8")), encoding="utf-8")


def run_file(path: Path, copy: Path, options: argparse.Namespace) -> dict:
    """The results of one test file."""
    inside = path.relative_to(copy / TESTS).as_posix()
    results = copy / "results" / (inside.replace("/", "+") + ".jsonl")
    results.parent.mkdir(exist_ok=True)
    in_scope = not inside.startswith(OUT_OF_SCOPE)
    command = [sys.executable, "-m", "smr.kaolin", "-m", "pytest", "--import-mode=importlib", "-q", "--no-header"]
    command += ["-p", "no:cacheprovider", "-p", "kaolin_tests_plugin", "-o", "addopts=", "-o", "log_cli=false"]
    command += ["-W", "ignore", str(path.relative_to(copy))] + ([] if in_scope else ["--collect-only"])
    search = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH", "")]))
    env = {**os.environ, "KAOLIN_RESULTS": str(results), "KAOLIN_DEVICE": options.device, "PYTHONPATH": search}
    env["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // options.jobs))
    if options.device == "cpu":
        env["CUDA_VISIBLE_DEVICES"] = ""
    start, output = time.perf_counter(), ""
    deadline = start + options.limit_s
    for _ in range(20):
        left = deadline - time.perf_counter()
        output, code = run_once(command, copy, env, max(left, 1))
        running = unfinished(results)
        if running is None:
            break
        ending = "time limit of the file" if code is None else f"the process ended with code {code}"
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"what": "end", "id": running, "outcome": "error", "message": ending}) + "\n")
        if code is None:
            break
    tests = gather(results, inside, in_scope, options.device)
    if not tests and in_scope and code not in (0, 5):
        tests = [{"id": inside, "outcome": "error", "message": output[-600:]}]
    return {"file": inside, "seconds": round(time.perf_counter() - start, 1), "tests": tests}


def run_once(command: list[str], folder: Path, env: dict, limit_s: float) -> tuple[str, int | None]:
    """Output and exit code of one run of pytest; None where it was stopped at the limit."""
    try:
        done = subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, errors="replace", timeout=limit_s
        )
    except subprocess.TimeoutExpired as stopped:
        return str(stopped.stdout or ""), None
    return done.stdout + done.stderr, done.returncode


def lines_of(results: Path) -> list[dict]:
    text = results.read_text(encoding="utf-8") if results.exists() else ""
    return [json.loads(line) for line in text.splitlines() if line.endswith("}")]


def unfinished(results: Path) -> str | None:
    """The test that was started last and did not end."""
    lines = lines_of(results)
    ended = {line["id"] for line in lines if line["what"] == "end"}
    started = [line["id"] for line in lines if line["what"] == "start" and line["id"] not in ended]
    return started[-1] if started else None


def gather(results: Path, inside: str, in_scope: bool, device: str) -> list[dict]:
    """Each test of a file once, with its outcome and message."""
    found: dict[str, dict] = {}
    for line in lines_of(results):
        if line["what"] == "collected":
            for name in line["ids"]:
                found.setdefault(name, {"id": name, "outcome": "error", "message": "not run: time limit of the file"})
        elif line["what"] == "end":
            known = found.get(line["id"], {})
            if known.get("outcome") not in ("failed", "error") or known.get("message", "").startswith("not run"):
                found[line["id"]] = {"id": line["id"], "outcome": line["outcome"], "message": line["message"]}
    for test in found.values():
        test["outcome"] = "not in scope" if not in_scope else classify(test, device)
    return list(found.values())


def classify(test: dict, device: str) -> str:
    """The column of a test."""
    outcome, message = test["outcome"], test["message"]
    if outcome not in ("failed", "error"):
        return outcome
    if "NotInSmrError" in message or "is not part of smr" in message:
        return "not in scope"
    if "pytest.approx" in message or "approx() does not support" in message or "relative tolerance" in message:
        return "old pytest"
    if re.search(r"ModuleNotFoundError|FileNotFoundError|No such file or directory|No module named", message):
        return "absent" if "smr.kaolin" not in message and "'kaolin" not in message else outcome
    if "DID NOT RAISE" in message and re.search(r"test_cpu_fail|cpu", test["id"].split("[")[0]):
        return "CPU refused"
    return outcome


def table(files: list[dict]) -> str:
    """Counts per directory."""
    counts: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for file in files:
        for test in file["tests"]:
            counts[str(Path(file["file"]).parent)][test["outcome"]] += 1
    head = f"{'directory':28}" + "".join(f"{name:>14}" for name in COLUMNS) + f"{'rate':>9}"
    rows = [head, "-" * len(head)]
    for name, count in sorted(counts.items()):
        total = count["passed"] + count["failed"] + count["error"]
        rate = f"{100 * count['passed'] / total:.1f} %" if total else ""
        rows.append(f"{name:28}" + "".join(f"{count[column]:14}" for column in COLUMNS) + f"{rate:>9}")
    return "\n".join(rows)


def failures(files: list[dict]) -> str:
    """The tests that failed, one line for each function, with the reason where one is known."""
    groups: dict[str, list[str]] = collections.defaultdict(list)
    for file in files:
        for test in file["tests"]:
            if test["outcome"] in ("failed", "error"):
                name = re.sub(r"\[.*", "", test["id"].removeprefix(f"{TESTS.as_posix()}/"), flags=re.S)
                groups[name].append(" ".join(test["message"].split())[:200])
    lines = []
    for name, messages in sorted(groups.items()):
        reason = next((reason for pattern, reason in REASONS.items() if re.search(pattern, name)), None)
        lines.append(f"{len(messages):5} {name}\n      {reason or messages[0]}")
    return "\n".join(lines)


def versions() -> dict:
    code = (
        "import json, torch, smr.kaolin, smr, warp, pytest; print(json.dumps({'smr': smr.__version__, "
        "'follows': smr.kaolin.FOLLOWS, 'torch': torch.__version__, 'warp': warp.__version__, 'pytest': "
        "pytest.__version__, 'gpu': torch.cuda.get_device_name() if torch.cuda.is_available() else None}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {"machine": platform.platform(), "cores": os.cpu_count(), **json.loads(done.stdout.splitlines()[-1])}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="a clone of Kaolin")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="default: cpu")
    parser.add_argument("--jobs", type=int, default=1, help="files at a time")
    parser.add_argument("--limit-s", type=float, default=900, help="time limit of a file, seconds")
    parser.add_argument("--only", nargs="+", default=[""], help="directories or files below tests/python/kaolin")
    parser.add_argument("--json", type=Path, help="write all results here")
    options = parser.parse_args()
    if not (options.checkout / TESTS).is_dir():
        parser.error(f"{options.checkout} has no {TESTS}: name a clone of Kaolin")
    with tempfile.TemporaryDirectory(prefix="kaolin_tests_") as folder:
        copy = Path(folder)
        copy_tests(options.checkout, copy, options.device)
        wanted = tuple((copy / TESTS / name.rstrip("/")).as_posix() for name in options.only)
        paths = [p for p in sorted((copy / TESTS).rglob("test_*.py")) if p.as_posix().startswith(wanted)]
        with ThreadPoolExecutor(options.jobs) as pool:
            files = list(pool.map(lambda path: progress(run_file(path, copy, options)), paths))
    about = {"command": sys.argv, "device": options.device, **versions()}
    print(json.dumps(about), table(files), MEANING, failures(files), sep="\n\n")
    if options.json:
        options.json.write_text(json.dumps({**about, "files": files}, indent=1), encoding="utf-8")
    return 0


def progress(result: dict) -> dict:
    count = collections.Counter(test["outcome"] for test in result["tests"])
    print(f"{result['file']:60} {result['seconds']:7.1f} s  {dict(count)}", file=sys.stderr, flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main())
