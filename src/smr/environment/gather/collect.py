"""All facts in one document, without names or secrets of the person whose machine it is."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smr.environment.commands import Runner, run
from smr.environment.gather import driver, extensions, interpreter, system, toolkits, usd

VERSION = 1


def collect(
    *, package: str = "", scan: bool = True, environ: Mapping[str, str] | None = None, run: Runner = run
) -> dict[str, Any]:
    """Gather the facts of this machine and this interpreter; nothing examined is imported.

    Args:
        package: Look at the extensions of this package alone.
        scan: Look into compiled extensions (seconds); otherwise only the quick facts.
        environ: Environment variables, those of this process by default.
        run: How other programs are run.
    """
    from smr import __version__

    environ = dict(os.environ if environ is None else environ)
    sites = interpreter.site_folders()
    torch = interpreter.torch_facts(sites)
    loader = extensions.loader(environ)
    facts: dict[str, Any] = {
        "version": VERSION,
        "doctor": __version__,
        "asked": {"package": package, "scan": scan},
        "system": system.system(),
        "place": system.place(environ),
        "driver": driver.driver(run=run),
        "toolkits": toolkits.toolkits(environ, run=run, sites=sites),
        "compilers": toolkits.compilers(environ, run=run),
        "python": interpreter.interpreter(environ),
        "packages": interpreter.packages(sites),
        "torch": torch and {**torch, "abi": extensions.torch_abi(torch)},
        "loader": loader,
        "usd": usd.usd(sys.path),
    }
    if scan:
        facts["extensions"] = extensions.extensions(sites, extensions.search_of(loader), torch, package)
    cleaned = anonymous(facts, environ)
    assert isinstance(cleaned, dict)
    return cleaned


def anonymous(value: Any, environ: Mapping[str, str]) -> Any:
    """The same facts with the home folder as `~` and without the user's and the machine's names."""
    rules = []
    home = environ.get("HOME") or str(Path.home())
    if len(home) > 1:
        rules.append((re.compile(re.escape(home) + r"(?=/|$|[:;\s'\"])"), "~"))
    rules.append((re.compile(r"(?<=/home/)[^/\s:]+|(?<=/Users/)[^/\s:]+|(?<=\\Users\\)[^\\\s:]+"), "USER"))
    for name in {environ.get("USER", ""), environ.get("LOGNAME", ""), environ.get("USERNAME", "")} - {"", "root"}:
        rules.append((re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])"), "USER"))
    host = platform.node()
    if len(host) > 2 and host != "localhost":
        rules.append((re.compile(rf"(?<![\w-]){re.escape(host)}(?![\w-])"), "HOST"))
    rules.append((re.compile(r"(?<=://)[^/\s@]+@"), ""))
    return _replaced(value, rules)


def _replaced(value: Any, rules: list[tuple[re.Pattern[str], str]]) -> Any:
    if isinstance(value, str):
        for pattern, new in rules:
            value = pattern.sub(new, value)
        return value
    if isinstance(value, dict):
        return {key: _replaced(item, rules) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, rules) for item in value]
    return value
