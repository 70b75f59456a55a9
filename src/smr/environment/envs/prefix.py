"""Folders of environments: a prefix holds tracks (one environment each), and `current` is a link to one of them.

DIR/smr-env.json          says that the folder is ours
DIR/current               link to the track in use; changed atomically
DIR/tracks/NAME/          plan.toml, env (the environment), wheels, source, logs, steps.json, lock.json
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from smr.atomic import write_bytes_atomic, write_error
from smr.environment.envs.plan import Plan, read_plan, write_plan
from smr.errors import SmrError

VERSION = 1
MARK = "smr-env.json"


class Track:
    """One environment with everything that it was made from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = folder / "env"
        self.wheels = folder / "wheels"
        self.source = folder / "source"
        self.logs = folder / "logs"
        self.lock_file = folder / "lock.json"
        self._steps = folder / "steps.json"

    @property
    def name(self) -> str:
        """The track's name."""
        return self.folder.name

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.env / "bin" / "python"

    @property
    def plan(self) -> Plan:
        """What it was made from."""
        return read_plan(self.folder / "plan.toml")

    def start(self, plan: Plan) -> None:
        """Make the folder and put the plan there."""
        try:
            for folder in (self.wheels, self.logs):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise write_error(self.folder, error) from error
        write_plan(plan, self.folder / "plan.toml")

    def steps(self) -> dict[str, Any]:
        """Finished steps: name to fingerprint of what they were made from."""
        try:
            found = json.loads(self._steps.read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def done(self, step: str, fingerprint: str) -> bool:
        """Whether a step was finished with the same input."""
        return bool(self.steps().get(step) == fingerprint)

    def record(self, step: str, fingerprint: str) -> None:
        """Remember a finished step; those that came after an older one of it are forgotten."""
        steps = self.steps()
        if step in steps:
            names = list(steps)
            steps = {name: steps[name] for name in names[: names.index(step)]}
        write_bytes_atomic(self._steps, json.dumps({**steps, step: fingerprint}, indent=1).encode())

    @property
    def finished(self) -> bool:
        """Whether it was built to the end."""
        return "finished" in self.steps()


class Prefix:
    """A folder of environments."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(os.path.abspath(folder))

    def track(self, name: str) -> Track:
        """A track by its name."""
        return Track(self.folder / "tracks" / name)

    def tracks(self) -> list[Track]:
        """Finished tracks, by name."""
        root = self.folder / "tracks"
        found = [Track(path) for path in sorted(root.iterdir())] if root.is_dir() else []
        return [track for track in found if track.finished]

    def linked(self, link: str = "current") -> Track | None:
        """The track that `current` or `previous` names."""
        path = self.folder / link
        if not path.is_symlink():
            return None
        track = self.track(Path(os.readlink(path)).name)
        return track if track.folder.is_dir() else None

    def switch(self, track: Track) -> None:
        """Make a track the one in use; the one before is `previous`. Each link changes at once."""
        before = self.linked()
        if before is not None and before.name != track.name:
            self._link("previous", before)
        self._link("current", track)

    def _link(self, name: str, track: Track) -> None:
        temporary = self.folder / f".{name}.{os.getpid()}"
        try:
            with suppress(FileNotFoundError):
                temporary.unlink()
            temporary.symlink_to(Path("tracks") / track.name)
            os.replace(temporary, self.folder / name)
        except OSError as error:
            raise write_error(self.folder / name, error) from error


def open_prefix(folder: Path) -> tuple[Prefix, Track]:
    """A prefix that is there, and its current track.

    Raises:
        SmrError: It is not one, is of a newer smr, or nothing was finished in it.
    """
    prefix = Prefix(folder)
    _check_mark(prefix.folder)
    track = prefix.linked()
    if track is None:
        raise SmrError(f"no environment was finished in {folder}", f"smr env build PLAN --prefix {folder}")
    return prefix, track


def claim_prefix(folder: Path) -> Prefix:
    """A prefix to build in: new, empty, or ours already.

    Raises:
        SmrError: The folder holds something else, or cannot be written.
    """
    prefix = Prefix(folder)
    if prefix.folder.exists() and not prefix.folder.is_dir():
        raise SmrError(f"{folder} is a file", "name a folder that does not exist yet")
    if prefix.folder.is_dir() and not (prefix.folder / MARK).exists() and any(prefix.folder.iterdir()):
        cure = "name a folder that does not exist yet; nothing in this one was touched"
        raise SmrError(f"{folder} exists and was not made by `smr env`", cure)
    if (prefix.folder / MARK).exists():
        _check_mark(prefix.folder)
    try:
        prefix.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(prefix.folder, error) from error
    write_bytes_atomic(prefix.folder / MARK, json.dumps({"version": VERSION}).encode() + b"\n")
    return prefix


@contextmanager
def only_one(prefix: Prefix) -> Iterator[None]:
    """Keep a second build or restore out of the same prefix while this one runs.

    Raises:
        SmrError: Another one is running.
    """
    import fcntl

    with open(prefix.folder / ".lock", "a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            what = f"another `smr env` is at work in {prefix.folder}"
            raise SmrError(what, "wait until it has ended, or take another --prefix") from error
        yield


def need_disk(folder: Path, gigabytes: float, what: str) -> None:
    """Refuse to start what the disk cannot hold.

    Raises:
        SmrError: There is less free.
    """
    here = folder
    while not here.exists():
        here = here.parent
    free = shutil.disk_usage(here).free / 2**30
    if free < gigabytes:
        cure = "free some space, or name a --prefix on another disk"
        raise SmrError(f"{what} needs about {gigabytes:.1f} GB, {here} has {free:.1f} GB free", cure)


def _check_mark(folder: Path) -> None:
    try:
        mark = json.loads((folder / MARK).read_text())
        version = int(mark["version"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SmrError(
            f"{folder} was not made by `smr env build`", "name the folder that was given as --prefix"
        ) from error
    if version > VERSION:
        raise SmrError(f"{folder} was made by a newer smr (version {version})", "pip install -U smr3d")
