"""`smr`: finds the command, runs it, prints its answer or its error. Imports nothing heavy."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from .. import __version__
from ..atomic import write_error
from ..errors import SmrError
from .command import Answer

SUMMARY = "A capture in, a clean textured mesh out."


def entry() -> None:
    """Entry point of the `smr` script."""
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)


def main(argv: list[str] | None = None) -> int:
    """Run one command line and return its exit code: 0 done, 1 could not, 2 wrong call, 130 stopped."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments[:1] == ["--version"]:
        print(f"smr {__version__}")
        return 0
    if arguments[:1] == ["doctor"]:
        from .doctor import main as doctor

        return doctor(arguments[1:])
    if arguments[:1] == ["env"]:
        from .env import main as environments

        return environments(arguments[1:])
    command = parse(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite kill cleans up as Ctrl-C does
    logging.basicConfig(level=logging.INFO if command.verbose else logging.WARNING, format="%(message)s")
    try:
        answer = _run(command)
    except KeyboardInterrupt:
        print("stopped; finished stages are kept, and the same command continues", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 1
    except SmrError as error:
        return _fail(command, error, error)
    except MemoryError as error:
        cure = "Close other programs, or ask for less: a larger --voxel-size, a smaller --texture-size, --every 2."
        return _fail(command, SmrError("The memory of this machine is used up.", cure), error)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT, errno.EMFILE):
            raise
        where = f" ({error.filename})" if error.filename else ""
        cure = "Free some space, or name another place with --out and --work; then the same command continues."
        said = SmrError(f"{error.strerror}{where}.", cure)
        return _fail(command, write_error(Path(error.filename), error) if error.filename else said, error)
    except Exception:  # noqa: BLE001  (the last place that can still say what to do)
        traceback.print_exc()
        print("This is a fault of smr, or of this machine. `smr doctor` tells which.", file=sys.stderr)
        if command.json:
            wrong = {"cause": repr(sys.exc_info()[1]), "cure": "Run `smr doctor`."}
            print(json.dumps(_versioned(command, {"error": wrong}), ensure_ascii=False))
        return 1
    print(
        json.dumps(_versioned(command, answer.document), indent=1, ensure_ascii=False) if command.json else answer.text
    )
    return 0


def parse(arguments: list[str]) -> Any:
    """The command record of a command line; leaves the program with 2 where the call is wrong."""
    import tyro

    from .commands import COMMANDS

    command = tyro.extras.subcommand_cli_from_dict(
        COMMANDS,
        prog="smr",
        description=SUMMARY,
        args=arguments or ["--help"],
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff),
    )
    if getattr(command, "out", True) == ():
        print(
            f"smr {arguments[0]}: --out FILE is missing: name the file to write, such as --out model.usdz",
            file=sys.stderr,
        )
        raise SystemExit(2)
    return command


def _run(command: Any) -> Answer:
    from .progress import open_progress

    with open_progress() as progress:
        answer: Answer = command.run(progress)
    return answer


def _versioned(command: Any, document: dict[str, Any]) -> dict[str, Any]:
    return {"version": 1, "command": type(command).__name__.lower(), **document}


def _fail(command: Any, said: SmrError, error: BaseException) -> int:
    if command.verbose:
        traceback.print_exception(error)
    print(f"error: {said.cause}\n  fix: {said.cure}", file=sys.stderr)
    if command.json:
        print(json.dumps(_versioned(command, {"error": {"cause": said.cause, "cure": said.cure}}), ensure_ascii=False))
    return 1
