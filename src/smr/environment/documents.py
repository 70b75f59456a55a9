"""Facts and findings as files and texts: JSON, JUnit, Markdown; and what differs between two facts documents."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from smr.environment.gather.collect import VERSION
from smr.environment.rules.finding import BLOCKS, Facts, Finding
from smr.errors import SmrError

MAX_FACTS = 64 << 20
_MATTERS = (
    "driver.version",
    "driver.cuinit",
    "driver.gpus",
    "driver.visible",
    "driver.libcuda",
    "place",
    "loader",
    "torch",
    "python.version",
    "python.prefix",
    "python.executable",
    "python.kind",
    "python.pythonpath",
    "packages.watched",
    "usd",
    "toolkits.build",
    "compilers",
    "system.glibc",
    "system.machine",
    "extensions",
)
_EXPECTED = ("system.kernel", "doctor", "asked", "packages.count")


def read_facts(path: Path) -> dict[str, Any]:
    """Read a facts document.

    Raises:
        SmrError: The file cannot be read, or holds no facts. A newer version is read as far as it is known.
    """
    try:
        if path.stat().st_size > MAX_FACTS:
            raise SmrError(
                f"{path} is larger than any facts file ({MAX_FACTS >> 20} MB)", "name a file of --save-facts"
            )
        document = json.loads(path.read_bytes().decode("utf-8", "replace"))
    except OSError as error:
        raise SmrError(f"cannot read {path}: {error.strerror}", "name a file of `smr doctor --save-facts`") from error
    except (ValueError, RecursionError) as error:
        raise SmrError(
            f"{path} is not a facts file: {error}", "make one with `smr doctor --save-facts FILE`"
        ) from error
    if not isinstance(document, dict) or not isinstance(document.get("version"), int):
        raise SmrError(f"{path} is not a facts file: it has no version", "make one with `smr doctor --save-facts FILE`")
    return document


def is_newer(document: Mapping[str, Any]) -> bool:
    """Whether a facts document was written by a newer doctor, whose facts may not all be known here."""
    return int(document["version"]) > VERSION


def write_text(path: Path, text: str) -> None:
    """Write a file that appears whole or not at all.

    Raises:
        SmrError: The folder cannot be written to.
    """
    try:
        with tempfile.NamedTemporaryFile(
            "w", dir=str(path.parent), suffix=".part", delete=False, encoding="utf-8"
        ) as file:
            file.write(text)
        os.replace(file.name, path)
    except OSError as error:
        raise SmrError(
            f"cannot write {path}: {error.strerror}", "name a file in a folder that may be written to"
        ) from error


def as_json(document: Mapping[str, Any], findings: Sequence[Finding], purpose: str) -> dict[str, Any]:
    """The documented JSON answer of `smr doctor --json`."""
    return {
        "version": 1,
        "healthy": not any(finding.level == BLOCKS for finding in findings),
        "purpose": purpose,
        "findings": [finding.as_json() for finding in findings],
        "facts": dict(document),
    }


def as_junit(findings: Sequence[Finding]) -> str:
    """One test case a finding; what blocks is a failure. GitLab and GitHub show it."""
    failures = sum(finding.level == BLOCKS for finding in findings)
    suite = ElementTree.Element(
        "testsuite", name="smr doctor", tests=str(max(1, len(findings))), failures=str(failures)
    )
    if not findings:
        ElementTree.SubElement(suite, "testcase", classname="smr.doctor", name="healthy")
    for finding in findings:
        case = ElementTree.SubElement(suite, "testcase", classname=f"smr.doctor.{finding.level}", name=finding.kind)
        text = "\n".join([finding.what, *finding.evidence, finding.fault.why, "cure:", *finding.cure])
        name, attributes = ("failure", {"message": finding.what}) if finding.level == BLOCKS else ("system-out", {})
        ElementTree.SubElement(case, name, attributes).text = _printable(text)
    return ElementTree.tostring(suite, encoding="unicode") + "\n"


def as_markdown(document: Mapping[str, Any], findings: Sequence[Finding]) -> str:
    """A summary and the findings, for a bug report."""
    lines = ["### smr doctor", "", "| what | found |", "|---|---|"]
    lines += [f"| {name} | {value or 'unknown'} |" for name, value in summary(Facts(document))]
    if Facts(document).text("asked.package"):
        lines += ["", "```", *extension_lines(Facts(document)), "```"]
    for finding in findings:
        lines += ["", f"**{finding.level}: {finding.what}** (`{finding.kind}`, {finding.sure})", "", finding.fault.why]
        lines += [f"- {line}" for line in finding.evidence]
        lines += ["```sh", *finding.cure, "```"]
    return "\n".join([*lines, "" if findings else "\nNothing wrong found.", ""])


def summary(facts: Facts) -> list[tuple[str, str]]:
    """The machine in a few lines."""
    gpus = [f"{gpu.text('name')} ({gpu.text('capability') or '?'})" for gpu in facts.groups("driver.gpus")]
    version, cuda = facts.text("driver.version"), facts.text("driver.cuda")
    ceiling = f", runs CUDA up to {cuda} (the driver's ceiling, not a toolkit)" if cuda else ""
    toolkits = [f"{one.text('version')} in {one.text('root')}" for one in facts.groups("toolkits.found")]
    build = facts.text("toolkits.build.root") + f" ({facts.text('toolkits.build.why')})"
    torch, torch_cuda = facts.text("torch.version"), facts.text("torch.cuda")
    torch_text = (
        f"{torch} ({'CUDA ' + torch_cuda if torch_cuda else 'CPU build'}, {facts.text('torch.abi') or '?'} C++ ABI)"
    )
    place = facts.text("place.container") or ("WSL" if facts.flag("place.wsl") else "plain machine")
    return [
        (
            "system",
            f"{facts.text('system.distribution')}, glibc {facts.text('system.glibc')}, {facts.text('system.machine')}",
        ),
        ("place", place + (", batch job" if facts.group("place.slurm") else "")),
        ("python", f"{facts.text('python.version')} ({facts.text('python.kind')}) {facts.text('python.executable')}"),
        ("driver", f"{version}{ceiling}" if version else "none"),
        ("GPUs", ", ".join(gpus) or "none"),
        (
            "toolkits",
            ("; ".join(toolkits) or "none") + (f"; a build takes {build}" if facts.text("toolkits.build.root") else ""),
        ),
        ("torch", torch_text if torch else "not installed"),
        (
            "extensions",
            f"{len(facts.items('extensions'))} that need torch or CUDA"
            if "extensions" in facts.document
            else "not looked at",
        ),
    ]


def extension_lines(facts: Facts) -> list[str]:
    """Every extension looked at: which copy of each library it gets and why, what it was built for, its GPU code."""
    lines = []
    for one in facts.groups("extensions"):
        lines.append(one.text("path") + (f": {one.text('error')}" if one.text("error") else ""))
        low, high, abi = (one.text(f"torch.{key}") for key in ("low", "high", "abi"))
        if low:
            lines.append(
                f"  built for torch {low if low == high else f'{low} to {high}'}" + (f", {abi} C++ ABI" if abi else "")
            )
        if one.group("code"):
            lines.append(f"  GPU code: {', '.join(map(str, [*one.items('code.cubins'), *one.items('code.ptx')]))}")
        floors = one.group("floors")
        if floors:
            lines.append("  needs " + ", ".join(f"{family}_{version}" for family, version in floors.items()))
        for need in one.groups("needed"):
            others = "".join(f"; loses: {other}" for other in need.items("others"))
            lines.append(f"  {need.text('soname')} => {need.text('path') or 'not found'} ({need.text('why')}){others}")
    return lines


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What differs between two facts documents; what matters comes first."""
    found = []
    for path, left, right in _walk(one, other, ""):
        if any(_under(path, name) for name in _EXPECTED):
            continue
        found.append({"fact": path, "a": left, "b": right, "matters": any(_under(path, name) for name in _MATTERS)})
    return sorted(found, key=lambda row: not row["matters"])


def _walk(one: Any, other: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}, key=str):
            yield from _walk(one.get(key), other.get(key), f"{path}.{key}" if path else str(key))
    elif path == "extensions" and isinstance(one, list) and isinstance(other, list):
        by_path = [{item.get("path"): item for item in side if isinstance(item, dict)} for side in (one, other)]
        yield from _walk(by_path[0], by_path[1], path)
    elif one != other:
        yield path, one, other


def _under(path: str, name: str) -> bool:
    return path == name or path.startswith(name + ".")


def _printable(text: str) -> str:
    return "".join(char for char in text if char in "\n\t" or ord(char) >= 32)
