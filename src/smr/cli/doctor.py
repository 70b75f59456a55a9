"""`smr doctor`: what is wrong with this machine, and what to type. Standard library alone; runs on Python 3.8."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from smr.environment import documents
from smr.environment.explain import Cause, context_of, explain, read_context, read_log
from smr.environment.gather.collect import anonymous, collect
from smr.environment.gather.imports import imports
from smr.environment.rules import PURPOSES, Facts, Finding, blocks, diagnose
from smr.environment.vitals import vital_signs, warm
from smr.errors import SmrError

DESCRIPTION = """What is wrong with this machine's CUDA, torch and 3D packages, and what to type.
Changes nothing, imports nothing of what it looks at. Exit code: 0 healthy, 1 something blocks, 2 wrong call.

  smr doctor explain LOG     root causes and cures of an error text, offline (- for standard input)
  smr doctor diff A B        what differs between two facts files, and which difference matters
"""
_COLOURS = {"blocks": "\x1b[31m", "degrades": "\x1b[33m", "note": "\x1b[36m"}


def main(argv: Sequence[str]) -> int:
    """Run the doctor; 0: healthy or explained, 1: something blocks or nothing is known, 2: wrong call."""
    verbs = {"explain": _explain, "diff": _diff}
    try:
        if argv and argv[0] in verbs:
            return verbs[argv[0]](list(argv[1:]))
        return _examine(list(argv))
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 2
    except BrokenPipeError:  # `smr doctor | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except SmrError as error:
        print(f"error: {error.cause}\n  fix: {error.cure}", file=sys.stderr)
        return 1


def entry() -> None:
    """Entry point of smr-doctor.pyz."""
    sys.exit(main(sys.argv[1:]))


def _examine(argv: list[str]) -> int:
    options = _parser().parse_args(argv)
    if options.warm:
        print("kernels: compiling, once for each version of smr; 10 to 60 s on two cores", file=sys.stderr, flush=True)
        warmed = warm()
        print(f"kernels: {warmed['says'] or warmed['sentence']}", file=sys.stderr)
        if warmed["status"] != "ok" and not options.run:
            return 1
    document = _facts(options)
    if options.save_facts:
        documents.write_text(options.save_facts, json.dumps(document, indent=1) + "\n")
    findings = diagnose(document, options.purpose)
    if options.junit:
        documents.write_text(options.junit, documents.as_junit(findings))
    if options.json:
        print(json.dumps(documents.as_json(document, findings, options.purpose), indent=1))
    elif options.markdown:
        print(documents.as_markdown(document, findings))
    else:
        _show(document, findings, options.purpose)
    return 1 if blocks(findings) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="smr doctor", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--package", default="", help="look at the extensions of this package alone, and import it")
    parser.add_argument("--for", dest="purpose", choices=PURPOSES, default="", help="what has to work here")
    parser.add_argument("--quick", action="store_true", help="do not look into compiled extensions")
    parser.add_argument("--save-facts", type=Path, metavar="FILE", help="write the facts, for --facts elsewhere")
    parser.add_argument("--facts", type=Path, metavar="FILE", help="judge these facts instead of this machine's")
    parser.add_argument("--run", action="store_true", help="run small jobs with known answers as well")
    parser.add_argument("--warm", action="store_true", help="compile the kernels of smr now")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    parser.add_argument("--markdown", action="store_true", help="Markdown for a bug report on standard output")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write a JUnit file for CI")
    return parser


def _facts(options: argparse.Namespace) -> dict[str, Any]:
    if options.facts:
        document = documents.read_facts(options.facts)
        if documents.is_newer(document):
            print("note: these facts are of a newer smr; what is not known here is left out", file=sys.stderr)
        return document
    document = collect(package=options.package, scan=not options.quick)
    if options.package:
        document["imports"] = imports((options.package.replace("-", "_"),))
    if options.run:
        document["vitals"] = []
        for sign in vital_signs():
            document["vitals"].append(sign)
            print(f"{sign['name']}: {sign['says'] or sign['sentence']} ({sign['seconds']} s)", file=sys.stderr)
    cleaned: dict[str, Any] = anonymous(document, os.environ)
    return cleaned


def _show(document: dict[str, Any], findings: list[Finding], purpose: str) -> None:
    facts = Facts(document)
    rows = documents.summary(facts)
    if not (sys.stdout.isatty() and _show_table(rows)):
        width = max(len(name) for name, _ in rows)
        print("\n".join(f"{name:<{width}}  {value or 'unknown'}" for name, value in rows) + "\n")
    if facts.text("asked.package"):
        print("\n".join(documents.extension_lines(facts)) + "\n")
    for finding in findings:
        print(_finding_text(finding) + "\n")
    what = f" for {purpose}" if purpose else ""
    print(f"Something blocks{what}: see above." if blocks(findings) else f"Nothing blocks{what}.")


def _show_table(rows: list[tuple[str, str]]) -> bool:
    """The machine as a table of rich's, where rich is installed."""
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        return False
    table = Table(show_header=False, title="smr doctor", title_justify="left")
    for name, value in rows:
        table.add_row(f"[bold]{name}[/bold]", (value or "unknown").replace("[", "\\["))
    Console().print(table)
    return True


def _finding_text(finding: Finding) -> str:
    lines = [f"{_painted(finding.level)}  {finding.what}  [{finding.kind}, {finding.sure}]"]
    lines += [f"  {line}" for line in (*finding.evidence, f"why: {finding.fault.why}")]
    lines += ["  cure, smallest first:", *(f"    {line}" for line in finding.cure)]
    for consequence in finding.consequences:
        lines.append(f"  follows from it: {consequence.what}  [{consequence.kind}]")
    return "\n".join(lines)


def _painted(level: str) -> str:
    """The level in colour on a terminal."""
    if not sys.stdout.isatty() or "NO_COLOR" in os.environ:
        return level.upper()
    return f"{_COLOURS[level]}{level.upper()}\x1b[0m"


def _explain(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="smr doctor explain", description="Root causes and cures of an error text.")
    parser.add_argument("log", help="a file with a traceback, build log or `ldd` output; - for standard input")
    parser.add_argument("--context", type=Path, help="facts of the machine: a flat JSON object, or lines `key: value`")
    parser.add_argument("--facts", type=Path, help="a facts file of the machine (smr doctor --save-facts)")
    parser.add_argument("--here", action="store_true", help="the text is of this machine: take its facts")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    options = parser.parse_args(argv)
    context = context_of(collect(scan=False)) if options.here else {}
    if options.facts:
        context.update(context_of(documents.read_facts(options.facts)))
    if options.context:
        context.update(read_context(options.context))
    causes = explain(_log(options.log), context)
    if options.json:
        print(json.dumps({"version": 1, "causes": [cause.as_json() for cause in causes]}, indent=1))
    else:
        print("\n\n".join(map(_cause_text, causes)) or "No error that the doctor knows is in this text.")
    return 0 if causes else 1


def _diff(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="smr doctor diff", description="What differs between two facts files.")
    parser.add_argument("a", type=Path)
    parser.add_argument("b", type=Path)
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    options = parser.parse_args(argv)
    one, other = documents.read_facts(options.a), documents.read_facts(options.b)
    rows = documents.differences(one, other)
    only = _only_findings(one, other)
    if options.json:
        print(json.dumps({"version": 1, "differences": rows, **only}, indent=1))
        return 0
    for row in rows:
        print(
            f"{'matters' if row['matters'] else '       '}  {row['fact']}\n    a: {_short(row['a'])}\n    b: "
            f"{_short(row['b'])}"
        )
    for key, name in (("only_a", options.a), ("only_b", options.b)):
        for what in only[key]:
            print(f"only in {name}: {what}")
    if not rows:
        print("The two are the same in everything that the doctor looks at.")
    return 0


def _only_findings(one: dict[str, Any], other: dict[str, Any]) -> dict[str, list[str]]:
    """Findings that one side has and the other has not."""
    sides = [{(f.kind, f.what): f"{f.what} [{f.kind}]" for f in diagnose(document)} for document in (one, other)]
    a, b = sides
    return {"only_a": [a[key] for key in a if key not in b], "only_b": [b[key] for key in b if key not in a]}


def _short(value: Any) -> str:
    text = "absent" if value is None else json.dumps(value)
    return text if len(text) <= 200 else f"{text[:197]}..."


def _log(name: str) -> str:
    if name == "-":
        return read_log(sys.stdin.buffer)
    try:
        with open(name, "rb") as file:
            return read_log(file)
    except OSError as error:
        raise SmrError(
            f"cannot read {name}: {error.strerror}", "give a readable file, or - for standard input"
        ) from error


def _cause_text(cause: Cause) -> str:
    lines = [f"{cause.kind}  (confidence {cause.confidence:.0%})", f"  {cause.why}"]
    lines += [f"  evidence: {line}" for line in cause.evidence]
    return "\n".join([*lines, "  cure, smallest first:", *(f"    {line}" for line in cause.cure)])
