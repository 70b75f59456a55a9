"""A plugin of pytest for kaolin_tests.py: writes each result at once, so that a crash loses one test only.

KAOLIN_RESULTS names the file of JSON lines; tests that are in it already are left out.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

RESULTS = Path(os.environ["KAOLIN_RESULTS"])


def write(**fields: object) -> None:
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(fields) + "\n")


def read() -> list[dict]:
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()] if RESULTS.exists() else []


def pytest_configure(config):
    if os.environ.get("KAOLIN_DEVICE") == "cpu":  # files that were written from CUDA tensors
        import torch

        load = torch.load
        torch.load = lambda *args, **kwargs: load(*args, **{"map_location": "cpu", **kwargs})


def pytest_collection_modifyitems(config, items):
    done = {result["id"] for result in read() if result["what"] in ("end", "start")}
    write(what="collected", id="", count=len(items), ids=[item.nodeid for item in items])
    if config.option.collectonly:
        return
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in done])
    items[:] = [item for item in items if item.nodeid not in done]


def pytest_collectreport(report):
    if report.failed:
        write(what="end", id=report.nodeid, outcome="error", message=message_of(report))


def pytest_runtest_logstart(nodeid, location):
    write(what="start", id=nodeid)


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        outcome = "error" if report.when != "call" and report.failed else report.outcome
        write(what="end", id=report.nodeid, outcome=outcome, message=message_of(report))


def message_of(report) -> str:
    """The error in a few words."""
    if report.passed:
        return ""
    if report.skipped:
        return str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)[:300]
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return crash.message[:600]
    lines = str(report.longrepr).splitlines()
    marked = [line for line in lines if line.startswith("E ")]
    return "\n".join((marked or lines)[-3:])[:600]
