"""`smr doctor`: what is wrong with this machine, and what to type. Standard library alone; runs on Python 3.8."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from smr.environment.explain import Cause, explain, read_context, read_log
from smr.errors import SmrError


def main(argv: list[str]) -> int:
    """Run the doctor; 0: healthy or explained, 1: something blocks or nothing is known, 2: wrong call."""
    verbs = {"explain": _explain}
    try:
        if argv and argv[0] in verbs:
            return verbs[argv[0]](argv[1:])
        return 2
    except SmrError as error:
        print(f"error: {error.cause}\n  fix: {error.cure}", file=sys.stderr)
        return 1


def _explain(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="smr doctor explain", description="Root causes and cures of an error text.")
    parser.add_argument("log", help="a file with a traceback, build log or `ldd` output; - for standard input")
    parser.add_argument("--context", type=Path, help="facts of the machine: a flat JSON object, or lines `key: value`")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    options = parser.parse_args(argv)
    context = read_context(options.context) if options.context else {}
    causes = explain(_log(options.log), context)
    if options.json:
        print(json.dumps({"version": 1, "causes": [cause.as_json() for cause in causes]}, indent=1))
    else:
        print("\n\n".join(map(_cause_text, causes)) or "No error that the doctor knows is in this text.")
    return 0 if causes else 1


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
