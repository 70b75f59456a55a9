"""`smr env`: environments for packages that are compiled against torch. Standard library alone; imports late."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from smr.errors import SmrError

DESCRIPTION = """Environments for packages that are compiled against torch (Kaolin and its kind).

  smr env plan kaolin --gpu "RTX 4090"        what fits together on this machine or another, and why; writes plan.toml
  smr env build plan.toml --prefix DIR        makes that environment: wheels, or a build from source
  smr env check DIR                           versions, ABI, GPU code and vital signs, seen from inside it
  smr env lock DIR                            everything in it with version and hash
  smr env pack DIR --out kaolin.smr-env       lock and wheels in one file
  smr env restore FILE --prefix DIR           the same environment again, without a network
  smr env run DIR -- CMD...                   a program with the loader environment it needs
  smr env export DIR --slurm                  a job script, container file, kernel, CI job ... that carries it
  smr env try DIR kaolin==NEXT                the next version beside the current one; then `promote`, `rollback`

Exit code: 0 done, 1 could not (with cause and cure), 2 wrong call.
"""


def main(argv: Sequence[str]) -> int:
    """Run one verb; returns the exit code."""
    arguments = list(argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(DESCRIPTION, end="")
        return 0 if arguments else 2
    verb, rest = _VERBS.get(arguments[0]), arguments[1:]
    if verb is None:
        print(f"smr env: there is no {arguments[0]!r}; one of {', '.join(_VERBS)}", file=sys.stderr)
        return 2
    try:
        return verb(rest)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 2
    except KeyboardInterrupt:
        print("stopped; finished steps are kept, and the same command continues", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `smr env plan | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except SmrError as error:
        print(f"error: {error.cause}\n  fix: {error.cure}", file=sys.stderr)
        if "--json" in rest:
            print(json.dumps({"version": 1, "error": {"cause": error.cause, "cure": error.cure}}))
        return 1


def _plan(argv: list[str]) -> int:
    from smr.cli.env_words import planned_text
    from smr.environment.envs.plan import write_plan
    from smr.environment.envs.planning import make_plan

    options = _plan_parser().parse_args(argv)
    recipe, version = _recipe(options.package, options.recipe)
    over = _keep_torch(options) if options.over else ""
    wishes = _wishes(options, version)
    ignore = options.ignore_torch_range
    planned = make_plan(recipe, wishes, _machine(options), ignore_range=ignore, own_index=options.own_index, over=over)
    if options.json:
        print(json.dumps(planned.document(), indent=1))
    else:
        print(planned_text(planned, recipe, everything=options.all))
    if not planned.possible:
        return 1
    assert planned.plan is not None
    write_plan(planned.plan, options.out)
    print(f"written: {options.out}", file=sys.stderr)
    return 0


def _plan_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="smr env plan", description="What fits together, and why.")
    parser.add_argument("package", help="kaolin, kaolin==0.17.0, kaolin==HEAD, torch-scatter, ...")
    parser.add_argument("--python", default="", help="Python version, 3.11")
    parser.add_argument("--torch", default="", help="torch version, 2.5 or 2.5.1")
    parser.add_argument("--cuda", default="", help="CUDA version, 12.1; or cpu")
    parser.add_argument("--gpu", nargs="+", action="extend", help="GPU names or compute capabilities; none")
    parser.add_argument("--driver", default="", help="NVIDIA driver version, 550.54")
    parser.add_argument("--distribution", default="", help="Linux distribution: ubuntu-22.04, centos-7, ...")
    parser.add_argument("--glibc", default="")
    parser.add_argument("--gcc", default="")
    parser.add_argument("--architecture", default="", help="x86_64 or aarch64")
    parser.add_argument(
        "--facts", type=Path, metavar="FILE", help="a machine that is not here (smr doctor --save-facts)"
    )
    parser.add_argument("--elsewhere", action="store_true", help="take nothing from this machine: the options alone")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--wheel", action="store_true", help="wheels only")
    kind.add_argument("--source", action="store_true", help="build from source")
    parser.add_argument("--ignore-torch-range", action="store_true", help="try a torch beyond the accepted range")
    parser.add_argument("--own-index", action="store_true", help="take torch from the index that pip is set to")
    parser.add_argument(
        "--over", default="", metavar="PYTHON", help="keep the torch of that interpreter and build over it"
    )
    parser.add_argument("--recipe", type=Path, metavar="FILE", help="recipe of a package of yours")
    parser.add_argument("--out", type=Path, default=Path("plan.toml"), metavar="FILE")
    parser.add_argument("--all", action="store_true", help="print every rejected value on a line of its own")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    return parser


def _recipe(package: str, path: Path | None) -> tuple[Any, str]:
    from smr.environment.envs.recipes import find_recipe, normal, read_recipe

    name, _, version = package.partition("==")
    if path is None:
        return find_recipe(name), version.strip()
    recipe = read_recipe(path)
    if normal(recipe.name) != normal(name):
        raise SmrError(f"{path} is the recipe of {recipe.name}, not of {name}", f"smr env plan {recipe.name} ...")
    return recipe, version.strip()


def _keep_torch(options: argparse.Namespace) -> str:
    """Let the torch of an interpreter that is there be the wish; returns the interpreter's path."""
    from smr.environment.envs.over import look_at

    base = look_at(options.over, os.environ)
    for name, found in (("python", base.python), ("torch", base.torch), ("cuda", base.cuda or "cpu")):
        given = getattr(options, name)
        if given and given != found:
            raise SmrError(
                f"{base.program} has {name} {found}, not {given}", f"leave --{name} out, or leave --over out"
            )
        setattr(options, name, found)
    return os.path.abspath(base.program)


def _wishes(options: argparse.Namespace, version: str) -> Any:
    from smr.environment import versions
    from smr.environment.envs.demands import Wishes

    for name in ("python", "torch", "driver", "glibc", "gcc"):
        value = getattr(options, name)
        if value and not versions.parse(value):
            raise SmrError(f"--{name} {value!r} is not a version", f"give numbers, such as --{name} 3.11")
    if options.cuda and options.cuda != "cpu" and not versions.parse(options.cuda):
        raise SmrError(f"--cuda {options.cuda!r} is neither a version nor cpu", "give --cuda 12.1, or --cuda cpu")
    method = "wheel" if options.wheel else "source" if options.source else ""
    return Wishes(version, options.torch, options.cuda, versions.minor(options.python), method)


def _machine(options: argparse.Namespace) -> Any:
    """The machine of a facts file, or this one, or none; options win."""
    from dataclasses import replace

    from smr.environment import documents
    from smr.environment.envs.machine import Machine, machine_of, with_distribution, with_gpus
    from smr.environment.gather.collect import collect

    described = options.gpu or options.driver or options.distribution or options.glibc or options.architecture
    if options.facts:
        machine = machine_of(documents.read_facts(options.facts), options.facts.name)
    elif options.elsewhere or described:
        machine = Machine()
    else:
        machine = machine_of(collect(scan=False), "this machine")
    if options.gpu:
        machine = with_gpus(machine, tuple(options.gpu))
    if options.distribution:
        machine = with_distribution(machine, options.distribution)
    given = {name: getattr(options, name) for name in ("driver", "glibc", "gcc", "architecture")}
    return replace(machine, **{name: value for name, value in given.items() if value})


def _build(argv: list[str]) -> int:
    from smr.cli.env_words import rows_text
    from smr.environment.envs.build import build
    from smr.environment.envs.check import as_json
    from smr.environment.envs.options import TOOLS, Options
    from smr.environment.envs.plan import read_plan

    parser = argparse.ArgumentParser(prog="smr env build", description="Make the environment of a plan.")
    parser.add_argument("plan", type=Path)
    parser.add_argument("--prefix", type=Path, required=True, help="folder of the environment; new, or made by this")
    parser.add_argument("--source", default="", help="folder, archive or URL to build from, instead of the plan's")
    parser.add_argument("--python", default="", help="interpreter to use")
    parser.add_argument("--tool", choices=TOOLS, default="venv", help="what makes the environment")
    parser.add_argument("--cache", type=Path, help="folder for pip's and the compiler's caches (PREFIX/cache)")
    parser.add_argument("--compiler-cache", choices=("auto", "ccache", "sccache", "none"), default="auto")
    parser.add_argument("--cache-size", default="5G", help="largest size of the compiler's cache")
    parser.add_argument("--jobs", type=int, default=0, help="compilers at once (as memory and cores allow)")
    parser.add_argument("--find-links", action="append", default=[], help="a further page or folder with wheels")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(argv)
    names = ("source", "python", "tool", "cache", "compiler_cache", "cache_size", "jobs")
    options = Options(**{name: getattr(given, name) for name in names}, find_links=tuple(given.find_links))
    with _progress() as say:
        track, rows = build(read_plan(given.plan), given.prefix, options, say=say)
    if given.json:
        print(json.dumps({**as_json(rows), "track": track.name}, indent=1))
    else:
        print(rows_text(rows) + f"\n\nIn use in {given.prefix}: {track.name}")
    return 0


def _check(argv: list[str]) -> int:
    from smr.cli.env_words import rows_text
    from smr.environment.envs.check import as_json, check, passed

    parser = argparse.ArgumentParser(prog="smr env check", description="The environment against its plan.")
    parser.add_argument("prefix", type=Path, metavar="DIR")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    with _progress() as say:
        rows = check(_track(options.prefix), say=say)
    print(json.dumps(as_json(rows), indent=1) if options.json else rows_text(rows))
    return 0 if passed(rows) else 1


def _run(argv: list[str]) -> int:
    from smr.environment.envs.launch import launch

    parser = argparse.ArgumentParser(prog="smr env run", usage="smr env run DIR -- CMD...", description=_run.__doc__)
    parser.add_argument("prefix", type=Path, metavar="DIR")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="CMD")
    options = parser.parse_args(argv)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        parser.error("name a program: smr env run DIR -- python my_job.py")
    return launch(_track(options.prefix), command, os.environ)


def _lock(argv: list[str]) -> int:
    from smr.environment.envs.lock import make_lock

    parser = argparse.ArgumentParser(prog="smr env lock", description="Everything in it with version and hash.")
    parser.add_argument("prefix", type=Path, metavar="DIR")
    parser.add_argument("--json", action="store_true", help="the lock itself on standard output")
    options = parser.parse_args(argv)
    track = _track(options.prefix)
    lock = make_lock(track)
    if options.json:
        print(json.dumps(lock, indent=1))
    else:
        print(f"{len(lock['packages'])} packages locked in {track.lock_file}")
    return 0


def _pack(argv: list[str]) -> int:
    from smr.environment.envs.bundle import pack
    from smr.environment.envs.lock import make_lock

    parser = argparse.ArgumentParser(prog="smr env pack", description="Lock and wheels in one file.")
    parser.add_argument("prefix", type=Path, metavar="DIR")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    track = _track(options.prefix)
    with _progress() as say:
        say("locking")
        digest = pack(track, make_lock(track), options.out, say=say)
    size = options.out.stat().st_size
    if options.json:
        print(json.dumps({"version": 1, "bundle": str(options.out), "size": size, "lock_sha256": digest}))
    else:
        print(f"{options.out}: {size / 1e6:.0f} MB; restore it with --sha256 {digest} to be sure that it is this one")
    return 0


def _restore(argv: list[str]) -> int:
    from smr.cli.env_words import rows_text
    from smr.environment import documents
    from smr.environment.envs.bundle import restore
    from smr.environment.envs.check import as_json
    from smr.environment.gather.collect import collect

    parser = argparse.ArgumentParser(prog="smr env restore", description="The environment of a bundle, offline.")
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--prefix", type=Path, required=True, metavar="DIR")
    parser.add_argument("--python", default="", help="interpreter to use")
    parser.add_argument("--sha256", default="", help="what `smr env pack` printed")
    parser.add_argument("--facts", type=Path, metavar="FILE", help="judge by these facts instead of this machine's")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    facts = documents.read_facts(options.facts) if options.facts else collect(scan=False)
    with _progress() as say:
        track, rows = restore(
            options.bundle, options.prefix, python=options.python, sha256=options.sha256, facts=facts, say=say
        )
    if options.json:
        print(json.dumps({**as_json(rows), "track": track.name}, indent=1))
    else:
        print(rows_text(rows) + f"\n\nIn use in {options.prefix}: {track.name}")
    return 0


def _export(argv: list[str]) -> int:
    from smr.atomic import write_bytes_atomic
    from smr.environment.envs.export import FORMATS, Exported
    from smr.environment.envs.launch import loader_path
    from smr.environment.envs.lock import make_lock

    parser = argparse.ArgumentParser(prog="smr env export", description="A file that carries it elsewhere.")
    parser.add_argument("prefix", type=Path, metavar="DIR")
    kind = parser.add_mutually_exclusive_group(required=True)
    for name, (file, _) in FORMATS.items():
        kind.add_argument(f"--{name}", dest="format", action="store_const", const=name, help=file)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write it there; standard output otherwise")
    options = parser.parse_args(argv)
    track = _track(options.prefix)
    path = ":".join(loader_path(os.environ.get("LD_LIBRARY_PATH", "")))
    text = FORMATS[options.format][1](Exported(track.plan, make_lock(track), str(options.prefix.absolute()), path))
    if options.out:
        write_bytes_atomic(options.out, text.encode())
    else:
        print(text, end="")
    return 0


def _try(argv: list[str]) -> int:
    from dataclasses import asdict

    from smr.cli.env_words import planned_text, trials_text
    from smr.environment.envs.options import Options
    from smr.environment.envs.prefix import open_prefix
    from smr.environment.envs.tracks import plan_next, try_plan, verdict

    parser = argparse.ArgumentParser(prog="smr env try", description="The next version beside the current one.")
    parser.add_argument("prefix", type=Path, metavar="DIR")
    parser.add_argument("package", help="kaolin==0.18.0")
    parser.add_argument("--with", dest="command", default="", help="a command of yours to run in both")
    parser.add_argument("--source", default="", help="folder, archive or URL to build from")
    parser.add_argument("--recipe", type=Path, metavar="FILE")
    parser.add_argument("--find-links", action="append", default=[])
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(argv)
    prefix, current = open_prefix(given.prefix)
    recipe, version = _recipe(given.package, given.recipe)
    planned = plan_next(recipe, version, current.plan)
    if not planned.possible or planned.plan is None:
        print(planned_text(planned, recipe))
        return 1
    options = Options(source=given.source, find_links=tuple(given.find_links))
    with _progress() as say:
        before, after = try_plan(prefix, current, planned.plan, options, given.command, say=say)
    words = verdict(before, after)
    if given.json:
        print(
            json.dumps(
                {"version": 1, "current": asdict(before), "candidate": asdict(after), "verdict": words}, indent=1
            )
        )
    else:
        print(trials_text(before, after, words, str(given.prefix)))
    return 0 if after.healthy else 1


def _promote(argv: list[str]) -> int:
    from smr.environment.envs.prefix import open_prefix
    from smr.environment.envs.tracks import promote

    parser = argparse.ArgumentParser(prog="smr env promote", description="Make another track the current one.")
    parser.add_argument("prefix", type=Path, metavar="DIR")
    parser.add_argument("track", nargs="?", default="", help="a part of its name; needed where more than one waits")
    options = parser.parse_args(argv)
    print(f"in use now: {promote(open_prefix(options.prefix)[0], options.track).name}")
    return 0


def _rollback(argv: list[str]) -> int:
    from smr.environment.envs.prefix import open_prefix
    from smr.environment.envs.tracks import rollback

    parser = argparse.ArgumentParser(prog="smr env rollback", description="Back to the track before.")
    parser.add_argument("prefix", type=Path, metavar="DIR")
    print(f"in use now: {rollback(open_prefix(parser.parse_args(argv).prefix)[0]).name}")
    return 0


def _track(folder: Path) -> Any:
    """The track in use in a prefix, or the track that a folder itself is."""
    from smr.environment.envs.prefix import Track, open_prefix

    if (folder / "plan.toml").is_file() and (folder / "env").is_dir():
        return Track(folder.absolute())
    return open_prefix(folder)[1]


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """One line that renews itself on a terminal, else a line for each thing said."""
    on_terminal = sys.stderr.isatty()

    def say(text: str) -> None:
        print(
            f"\r\x1b[2K{text[:160]}" if on_terminal else text,
            end="" if on_terminal else "\n",
            file=sys.stderr,
            flush=True,
        )

    try:
        yield say
    finally:
        if on_terminal:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)


_VERBS = {
    **{"plan": _plan, "build": _build, "check": _check, "lock": _lock, "pack": _pack, "restore": _restore},
    **{"run": _run, "export": _export, "try": _try, "promote": _promote, "rollback": _rollback},
}
