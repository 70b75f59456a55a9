"""Builds an environment from a plan, step by step; finished steps are kept, and the same call goes on from there."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from smr.atomic import write_bytes_atomic, write_error
from smr.environment.commands import run
from smr.environment.envs.check import Row, check, passed
from smr.environment.envs.inside import facts_inside
from smr.environment.envs.options import Options
from smr.environment.envs.over import missing, missing_command, only, stand_over
from smr.environment.envs.pip import (
    build_command,
    collect_command,
    install_command,
    offline,
    pip_environment,
    wheels_in,
)
from smr.environment.envs.plan import Plan
from smr.environment.envs.prefix import Prefix, Track, claim_prefix, need_disk, only_one
from smr.environment.envs.preflight import build_settings, preflight
from smr.environment.envs.processes import end_leftovers, run_logged
from smr.environment.envs.sources import bring, describe
from smr.environment.explain import context_of, explain, read_log
from smr.errors import SmrError

Say = Callable[[str], None]
_NOT_HERE = ("pip_build_isolation",)
"""Causes that cannot be: builds are never isolated."""
_ERROR = re.compile(r"\b(fatal|fatal error|error|ERROR|[A-Z]\w*Error)\s*:|^ld: ")
_DISK_GB = {"cpu": 3.0, "cuda": 16.0}


def build(
    plan: Plan, prefix: Path, options: Options, *, given: Mapping[str, str] | None = None, say: Say = lambda text: None
) -> tuple[Track, list[Row]]:
    """Build, check, and make it the current environment of the prefix; what is done already is not done again.

    Raises:
        SmrError: A step could not be done; the current environment of the prefix stays as it was.
    """
    if os.name != "posix":
        raise SmrError("environments are built on Linux and macOS", "use WSL 2 on Windows")
    home = claim_prefix(prefix)
    environ = dict(os.environ if given is None else given)
    with only_one(home):
        track = build_track(home, plan, options, environ, say)
        rows = check(track, environ, say=say)
        if not passed(rows):
            row = next(row for row in rows if row.status == "fails")
            cure = f"smr env check {track.folder} shows all; `smr doctor explain` takes a longer error text"
            raise SmrError(f"it is built, but {row.name} fails: {row.says}", cure)
        track.record("finished", plan.digest)
        home.switch(track)
    return track, rows


def build_track(home: Prefix, plan: Plan, options: Options, environ: dict[str, str], say: Say) -> Track:
    """Do the steps of a plan in its track, without a check; nothing is switched.

    Raises:
        SmrError: A step could not be done.
    """
    track = home.track(plan.track)
    if not track.finished:
        need_disk(home.folder, _DISK_GB["cuda" if plan.cuda else "cpu"], f"an environment with {plan.title}")
    track.start(plan)
    ended = end_leftovers(track.logs, track.folder)
    if ended:
        say(f"ended {ended} processes that an earlier call left behind")
    _Build(home, track, plan, options, environ, say).steps()
    return track


class _Build:
    """One build."""

    def __init__(
        self, prefix: Prefix, track: Track, plan: Plan, options: Options, given: dict[str, str], say: Say
    ) -> None:
        self.track, self.plan, self.options, self.given, self.say = track, plan, options, given, say
        self.cache = (options.cache or prefix.folder / "cache").absolute()
        self._earlier = ""

    def steps(self) -> None:
        """All steps, in order."""
        plan = self.plan
        self._step("environment", [plan.python, self.options.tool, self.options.python], self._environment)
        self._step("wheels", [plan.digest, *self.options.find_links], self._collect)
        self._step("installed", [], self._install)
        if plan.method == "source":
            self._step("source", [self.options.source, _changed(self.options.source)], self._source)
            self._step("compiled", [], self._compile)
            self._step("built", [], self._install_built)

    def _step(self, name: str, inputs: list[str], work: Callable[[], None]) -> None:
        """Do a step unless it was done with the same input after the same earlier steps."""
        text = json.dumps([self._earlier, name, *inputs])
        self._earlier = hashlib.sha256(text.encode()).hexdigest()[:16]
        if self.track.done(name, self._earlier):
            self.say(f"{name}: done already")
            return
        self.say(f"{name} ...")
        try:
            work()
        except OSError as error:
            raise write_error(Path(error.filename or self.track.folder), error) from error
        self.track.record(name, self._earlier)

    def _environment(self) -> None:
        shutil.rmtree(self.track.env, ignore_errors=True)
        python = self.options.python or self.plan.over
        make_environment(self.track, self.plan.python, python, self.options.tool, self.given, self.say)
        if self.plan.over:
            stand_over(self.track, self.plan, self.given)

    def _collect(self) -> None:
        shutil.rmtree(self.track.wheels, ignore_errors=True)
        self.track.wheels.mkdir()
        argv = collect_command(self.track, self.plan, self.track.wheels, self.options.find_links)
        if self.plan.over:
            report = self.track.folder / "missing.json"
            self._run(missing_command(argv, report), "missing", self._pip(), "not everything could be found")
            argv = only(argv, missing(report, self.plan))
        self._run(argv, "wheels", self._pip(), "no wheels could be had")

    def _install(self) -> None:
        wheels = wheels_in(self.track.wheels)
        if not wheels:  # over an interpreter that has everything
            return
        argv = install_command(self.track, wheels, self.track.wheels)
        self._run(argv, "install", offline(self._pip()), "the wheels could not be installed")

    def _source(self) -> None:
        root, given = self.track.source, self.options.source
        objects, kept = root / self.plan.source_folder / "build", self.track.folder / "objects"
        if Path(given).expanduser().is_dir() and given and objects.is_dir():  # the same plan: what did not change stays
            shutil.rmtree(kept, ignore_errors=True)
            os.replace(objects, kept)
        commit = bring(self.plan, given, root, self.track.logs / "source.log", self.given, self.say)
        source = describe(root, self.plan, commit)
        if kept.is_dir():
            os.replace(kept, objects)
        facts = {"commit": source.commit, "tree": source.tree, "given": self.options.source or self.plan.source_git}
        write_bytes_atomic(self.track.folder / "source.json", json.dumps(facts, indent=1).encode())

    def _compile(self) -> None:
        source = describe(self.track.source, self.plan, "")
        built = self.track.folder / "built"
        shutil.rmtree(built, ignore_errors=True)
        facts = facts_inside(self.track, self.plan.imports[0].split(".")[0], self.given, scan=False)
        base = self._pip()
        settings = build_settings(self.plan, facts, self.track, self.options, self.cache, base["PATH"])
        environ = offline({**base, **settings.variables})
        for name in settings.removed:
            environ.pop(name, None)
        facts = facts_inside(self.track, "", environ, scan=False)
        for note in preflight(self.plan, facts, lent_headers=settings.headers_of_wheels):
            self.say(note)
        self.say(f"compiling with {settings.words}")
        minutes = self.plan.cpu_minutes / settings.jobs
        argv = build_command(self.track, source.folder, built)
        self._run(argv, "build", environ, f"{self.plan.package} could not be built", facts, minutes)
        if len(wheels_in(built)) != 1:
            what = f"the build of {self.plan.package} ended well and left no wheel"
            raise SmrError(what, f"see {self.track.logs / 'build.log'}")
        self._remember(settings.variables, facts, settings.compiler_cache)

    def _remember(self, variables: Mapping[str, str], facts: Mapping[str, Any], cached: str) -> None:
        """What the binary was made with, for the lock."""
        shown = {name: variables[name] for name in (*self.plan.switches, "MAX_JOBS", "CUDA_HOME") if name in variables}
        known: Any = facts
        made = {
            "switches": shown,
            "compiler": known.get("compilers", {}).get("g++", {}),
            "toolkit": known.get("toolkits", {}).get("build", {}) if self.plan.cuda else {},
            "compiler_cache": cached,
            "system": known.get("system", {}),
            "driver": known.get("driver", {}).get("version", ""),
        }
        write_bytes_atomic(self.track.folder / "made.json", json.dumps(made, indent=1).encode())

    def _install_built(self) -> None:
        built = self.track.folder / "built"
        wheel = wheels_in(built)[0]
        for old in self.track.wheels.glob("*.whl"):
            if old.name.split("-")[0] == wheel.file.split("-")[0]:
                old.unlink()
        shutil.copy2(built / wheel.file, self.track.wheels / wheel.file)
        argv = install_command(self.track, [wheel], built)
        self._run(argv, "install-built", offline(self._pip()), "the built wheel could not be installed")

    def _pip(self) -> dict[str, str]:
        return pip_environment(self.track, self.given, self.cache)

    def _run(
        self,
        argv: list[str],
        name: str,
        environ: Mapping[str, str],
        failure: str,
        facts: Mapping[str, Any] | None = None,
        minutes: float = 0.0,
    ) -> None:
        log = self.track.logs / f"{name}.log"
        code = run_logged(
            argv, log=log, environ=environ, cwd=self.track.folder, say=self.say, what=name, minutes=minutes
        )
        if code:
            raise failed(f"{failure} (exit code {code})", log, context_of(facts or {}))


def failed(what: str, log: Path, context: Mapping[str, Any]) -> SmrError:
    """A failed program, in the doctor's words, with the first error of its log."""
    with log.open("rb") as file:
        text = read_log(file)
    causes = [cause for cause in explain(text, context) if cause.kind not in _NOT_HERE]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = next((line for line in lines if _ERROR.search(line)), lines[-1] if lines else "")[:400]
    again = f"then the same command goes on from here. The whole log: {log}"
    if not causes:
        return SmrError(f"{what}: {first}", again)
    cause = causes[0]
    return SmrError(f"{what}: {cause.kind}. {cause.why}\n  {first}", "\n       ".join((*cause.cure, again)))


def make_environment(track: Track, python: str, given: str, tool: str, environ: Mapping[str, str], say: Say) -> None:
    """A new, empty environment with pip.

    Raises:
        SmrError: There is no such interpreter or tool, or it fails.
    """
    log = track.logs / "environment.log"
    env = str(track.env)
    if tool in ("conda", "micromamba"):
        argv = [_program(tool, environ), "create", "--yes", "--prefix", env, f"python={python}", "pip"]
    elif tool == "uv":
        argv = [_program("uv", environ), "venv", "--seed", "--python", given or python, env]
    else:
        argv = [find_python(python, given, environ), "-m", "venv", env]
    clean = {k: v for k, v in environ.items() if k not in ("PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV")}
    if run_logged(argv, log=log, environ=clean, cwd=track.folder, say=say, what="environment"):
        raise failed("no environment could be made", log, {})


def find_python(version: str, given: str, environ: Mapping[str, str]) -> str:
    """An interpreter of a version: the one that is named, this one, or one on PATH.

    Raises:
        SmrError: There is none.
    """
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    path = environ.get("PATH")
    named = [given] if given else [sys.executable, f"python{version}", "python3", "python"]
    for name in named:
        program = shutil.which(name, path=path)
        outcome = run([program, "-I", "-c", code]) if program else None
        if program and outcome and outcome.ok and outcome.stdout.strip() == version:
            return program
        if given:
            said = outcome.stdout.strip() if outcome and outcome.ok else "no Python"
            raise SmrError(f"--python {given} is {said}, the plan needs {version}", f"name a Python {version}")
    cure = f"install Python {version} and name it (--python PATH), or let a tool fetch it: --tool uv, --tool conda"
    raise SmrError(f"there is no Python {version} here", cure)


def _program(name: str, environ: Mapping[str, str]) -> str:
    program = shutil.which(name, path=environ.get("PATH"))
    if program is None:
        raise SmrError(f"there is no {name} on PATH", f"install {name}, or use --tool venv")
    return program


def _changed(source: str) -> str:
    """Tells whether a source folder changed since the last call: its newest file."""
    path = Path(source).expanduser()
    if not source or not path.exists():
        return ""
    from smr.environment.envs.sources import file_hash, tree_hash

    return tree_hash(path) if path.is_dir() else file_hash(path)
