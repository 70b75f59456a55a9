"""The doctor's figures: reports explained, torchvision wheels dated, cost of a scan. One JSON line a figure.

python benchmarks/doctor.py reports --file REPORTS.jsonl     # 140 public failure reports
python benchmarks/doctor.py unseen                           # tests/environment/unseen_reports.jsonl
python benchmarks/doctor.py torchvision --cache DIR          # downloads some twenty wheels (150 MB), no torch
python benchmarks/doctor.py cost                             # CPU seconds of `smr doctor`, quick and full
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from smr.environment.elf import read_elf
from smr.environment.explain import explain
from smr.environment.torch_symbols import built_for, is_torch
from smr.environment.versions import parse

UNSEEN = Path(__file__).parents[1] / "tests" / "environment" / "unseen_reports.jsonl"
# torchvision release, torch that it was built for, and a Python that it has wheels for
WHEELS = [
    *(("0.11.3", "1.10", "39"), ("0.12.0", "1.11", "39"), ("0.13.1", "1.12", "39"), ("0.14.1", "1.13", "310")),
    *(("0.15.2", "2.0", "310"), ("0.16.2", "2.1", "310"), ("0.17.2", "2.2", "310"), ("0.18.1", "2.3", "311")),
    *(("0.19.1", "2.4", "311"), ("0.20.1", "2.5", "311"), ("0.21.0", "2.6", "311"), ("0.22.1", "2.7", "311")),
    *(("0.23.0", "2.8", "311"), ("0.24.1", "2.9", "311"), ("0.25.0", "2.10", "311"), ("0.26.0", "2.11", "311")),
    *(("0.27.0", "2.12", "311"), ("0.28.0", "2.13", "311"), ("0.29.0", "2.14", "312")),
]
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux1_x86_64")


def reports(path: Path) -> dict[str, Any]:
    """How often the right kind comes first, and among the first three."""
    rows = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    first = three = 0
    missed = []
    for row in rows:
        text = row["text"] if "text" in row else "\n".join(row["symptom"])
        truth = row.get("kind") or row["root_cause_kind"]
        kinds = [cause.kind for cause in explain(text, row.get("context") or row.get("env"))]
        first += kinds[:1] == [truth]
        three += truth in kinds[:3]
        if kinds[:1] != [truth]:
            missed.append({"id": row.get("id", text[:60]), "truth": truth, "said": kinds[:3]})
    count = len(rows)
    return {"reports": count, "first": first / count, "in_first_three": three / count, "missed": missed}


def torchvision(cache: Path) -> Iterator[dict[str, Any]]:
    """The torch range inferred from each wheel's `_C.so`, against the torch it was built for."""
    cache.mkdir(parents=True, exist_ok=True)
    right = narrow = read = 0
    for release, torch, python in WHEELS:
        wheel = _download(release, python, cache)
        if wheel is None:
            yield {"torchvision": release, "torch": torch, "error": "no such wheel on the index"}
            continue
        names: set[str] = set()
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                if member.startswith("torchvision/") and member.endswith(".so"):
                    elf = read_elf(Path(archive.extract(member, folder)))
                    names |= {symbol.name for symbol in elf.undefined() if not symbol.weak and is_torch(symbol.name)}
        answer = built_for(sorted(names))
        read += 1
        if answer.stable:
            right, narrow = right + 1, narrow + 1
            yield {"torchvision": release, "torch": torch, "inferred": "stable C interface: any", "symbols": len(names)}
            continue
        inside = parse(answer.low)[:2] <= parse(torch)[:2] <= parse(answer.high)[:2]
        order = [row[1] for row in WHEELS]
        wide = order.index(answer.high) - order.index(answer.low) + 1 if {answer.low, answer.high} <= set(order) else 99
        right, narrow = right + inside, narrow + (wide <= 2)
        row = {"torchvision": release, "torch": torch, "low": answer.low, "high": answer.high, "abi": answer.abi}
        yield {**row, "right": inside, "minors": wide, "symbols": len(names), "misses": answer.misses}
    yield {"wheels": read, "right": right / read, "at_most_two_minors": narrow / read}


def cost(repeat: int = 3) -> Iterator[dict[str, Any]]:
    """CPU seconds of the command with everything that it starts."""
    for name, arguments in (("quick", ["--quick"]), ("full", [])):
        times = []
        for _ in range(repeat):
            before = os.times()
            subprocess.run([sys.executable, "-m", "smr", "doctor", *arguments], stdout=subprocess.DEVNULL, check=False)
            after = os.times()
            times.append(after.children_user + after.children_system - before.children_user - before.children_system)
        yield {"smr doctor": name, "cpu_seconds": round(sorted(times)[repeat // 2], 2), "runs": repeat}


def _download(release: str, python: str, cache: Path) -> Path | None:
    pattern = f"torchvision-{release}-*.whl"
    if not list(cache.glob(pattern)):
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", str(cache)]
        command += ["--python-version", python, "--implementation", "cp"]
        for tag in PLATFORMS:
            command += ["--platform", tag]
        subprocess.run([*command, f"torchvision=={release}"], check=False, stderr=subprocess.DEVNULL)
    return next(iter(sorted(cache.glob(pattern))), None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", choices=["reports", "unseen", "torchvision", "cost"])
    parser.add_argument("--file", type=Path, default=UNSEEN)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "torchvision-wheels")
    options = parser.parse_args()
    print(
        json.dumps(
            {
                "machine": platform.machine(),
                "cores": os.cpu_count(),
                "command": " ".join(sys.argv),
                "date": time.strftime("%F"),
            }
        )
    )
    if options.figure in ("reports", "unseen"):
        print(json.dumps(reports(options.file)))
    else:
        for row in torchvision(options.cache) if options.figure == "torchvision" else cost():
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
