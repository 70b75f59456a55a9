"""One file with a lock and every wheel; restored anywhere without a network, and refused before anything is written.

A bundle is a zip file without compression (wheels are compressed already): `lock.json` first, then `wheels/NAME.whl`.
Names are checked against a pattern and against the lock; every wheel is bounded by the size that the lock says, and
its hash is compared while it is copied. The lock's own hash is printed by `pack` and can be asked for by `restore`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from smr.atomic import atomic_path
from smr.environment.envs.build import failed, find_python, make_environment
from smr.environment.envs.check import Row, check, passed
from smr.environment.envs.fits import refuse_where_it_cannot_work
from smr.environment.envs.lock import VERSION
from smr.environment.envs.pip import Wheel, install_command, offline, pip_environment, wheels_in
from smr.environment.envs.plan import Plan, plan_of
from smr.environment.envs.prefix import Track, claim_prefix, need_disk, only_one
from smr.environment.envs.processes import run_logged
from smr.environment.envs.sources import file_hash
from smr.errors import SmrError

Say = Callable[[str], None]
MAX_LOCK, MAX_WHEELS, MAX_BYTES = 16 << 20, 2000, 64 << 30
_WHEEL = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.+!-]{0,250}\.whl$")
_WRONG = "do not use this file; get the bundle again from where it was made"
_CHUNK = 1 << 20


def pack(track: Track, lock: Mapping[str, Any], out: Path, *, say: Say = lambda text: None) -> str:
    """Write a bundle; returns the SHA-256 of its lock, for `restore --sha256`.

    Raises:
        SmrError: The disk is full, or a wheel is not the one that was locked.
    """
    over = lock["plan"].get("over")
    if over:
        what = f"this environment stands over {over}, and its torch is not among the wheels: it cannot be packed"
        raise SmrError(what, "plan and build without --over, then pack")
    data = json.dumps(lock, indent=1, sort_keys=True).encode()
    need_disk(out.absolute().parent, sum(row["size"] for row in lock["packages"]) / 2**30, "the bundle")
    with atomic_path(out) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as file:
        _add(file, "lock.json", data)
        for row in lock["packages"]:
            say(f"packing {row['file']}")
            path = track.wheels / row["file"]
            if not path.is_file() or file_hash(path) != row["sha256"]:
                raise SmrError(f"{path} is not the wheel that was locked", "smr env build again, then pack")
            with path.open("rb") as wheel, file.open(_info(f"wheels/{row['file']}", row["size"]), "w") as target:
                shutil.copyfileobj(wheel, target, _CHUNK)
    return hashlib.sha256(data).hexdigest()


def restore(
    bundle: Path,
    prefix: Path,
    *,
    python: str = "",
    sha256: str = "",
    facts: Mapping[str, Any],
    given: Mapping[str, str] | None = None,
    say: Say = lambda text: None,
) -> tuple[Track, list[Row]]:
    """Make the environment of a bundle, without a network; it becomes the current one of the prefix.

    Args:
        bundle: The file.
        prefix: Folder of the environment.
        python: Interpreter to use.
        sha256: What the hash of its lock has to be; empty: not compared.
        facts: The doctor's facts of this machine.
        given: Environment variables, those of this process by default.
        say: Told what is going on.

    Raises:
        SmrError: The bundle is damaged or cannot work here (nothing was written), or a step failed.
    """
    environ = dict(os.environ if given is None else given)
    with _opened(bundle) as file:
        lock, plan, wheels = read_lock(file, bundle, sha256)
        refuse_where_it_cannot_work(lock, facts)
        interpreter = find_python(plan.python, python, environ)
        need_disk(prefix.absolute(), 3.5 * sum(wheel.size for wheel in wheels) / 2**30, "this environment")
        home = claim_prefix(prefix)
        with only_one(home):
            track = home.track(f"{plan.track}-restored")
            _unpack(file, bundle, track, plan, wheels, say)
            _install(track, plan, interpreter, wheels, environ, home.folder / "cache", say)
            rows = check(track, environ, say=say)
            if not passed(rows):
                row = next(row for row in rows if row.status == "fails")
                raise SmrError(f"it is restored, but {row.name} fails: {row.says}", f"smr env check {track.folder}")
            (track.folder / "lock.json").write_bytes(json.dumps(lock, indent=1).encode() + b"\n")
            track.record("finished", plan.digest)
            home.switch(track)
    return track, rows


def read_lock(file: zipfile.ZipFile, bundle: Path, sha256: str) -> tuple[dict[str, Any], Plan, list[Wheel]]:
    """The lock of a bundle, with every name and size in it checked.

    Raises:
        SmrError: Something is not as it must be.
    """
    members = {info.filename: info for info in file.infolist()}
    if len(members) != len(file.infolist()) or len(members) > MAX_WHEELS + 1:
        raise SmrError(f"{bundle} names a file twice, or too many files", _WRONG)
    if "lock.json" not in members or members["lock.json"].file_size > MAX_LOCK:
        raise SmrError(f"{bundle} is not a bundle of `smr env pack`: it has no lock.json", _WRONG)
    data = file.read("lock.json")
    found = hashlib.sha256(data).hexdigest()
    if sha256 and found != sha256.lower():
        raise SmrError(f"the lock of {bundle} has the hash {found}, not {sha256}", _WRONG)
    try:
        lock = json.loads(data)
        if int(lock["version"]) > VERSION:
            raise SmrError(f"{bundle} was packed by a newer smr (version {lock['version']})", "pip install -U smr3d")
        plan = plan_of(lock["plan"], str(bundle))
        wheels = [
            Wheel(*(row[key] for key in ("name", "version", "file", "sha256", "size"))) for row in lock["packages"]
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise SmrError(f"the lock of {bundle} cannot be read: {type(error).__name__}: {error}", _WRONG) from error
    for wheel in wheels:
        _check_wheel(wheel, members, bundle)
    extra = set(members) - {"lock.json", *(f"wheels/{wheel.file}" for wheel in wheels)}
    if extra:
        raise SmrError(f"{bundle} holds {sorted(extra)[0]!r}, which its lock does not name", _WRONG)
    if sum(wheel.size for wheel in wheels) > MAX_BYTES:
        raise SmrError(f"{bundle} unpacks to more than {MAX_BYTES >> 30} GB", _WRONG)
    return lock, plan, wheels


def _check_wheel(wheel: Wheel, members: Mapping[str, zipfile.ZipInfo], bundle: Path) -> None:
    texts = (wheel.name, wheel.version, wheel.file, wheel.sha256)
    good = all(isinstance(text, str) for text in texts) and isinstance(wheel.size, int) and wheel.size >= 0
    good = good and bool(_WHEEL.match(wheel.file) and re.match(r"^[0-9a-f]{64}$", wheel.sha256))
    good = good and bool(re.match(r"^[a-z0-9][a-z0-9-]*$", wheel.name) and re.match(r"^[\w.!+]+$", wheel.version))
    if not good:
        raise SmrError(f"the lock of {bundle} names {wheel.file!r}, which is no wheel", _WRONG)
    info = members.get(f"wheels/{wheel.file}")
    if info is None or info.file_size != wheel.size or info.compress_type != zipfile.ZIP_STORED:
        raise SmrError(f"{bundle} does not hold {wheel.file} as its lock says", _WRONG)


def _unpack(file: zipfile.ZipFile, bundle: Path, track: Track, plan: Plan, wheels: list[Wheel], say: Say) -> None:
    """Copy every wheel and compare its hash on the way; a wheel that is there already is kept."""
    track.start(plan)
    names = {wheel.file for wheel in wheels}
    for path in track.wheels.iterdir():
        if path.name not in names:
            path.unlink()
    for wheel in wheels:
        target = track.wheels / wheel.file
        if target.is_file() and target.stat().st_size == wheel.size and file_hash(target) == wheel.sha256:
            continue
        say(f"unpacking {wheel.file}")
        whole, left = hashlib.sha256(), wheel.size
        try:
            with (
                file.open(f"wheels/{wheel.file}") as data,
                atomic_path(target) as temporary,
                temporary.open("wb") as out,
            ):
                while left >= 0 and (chunk := data.read(_CHUNK)):
                    left -= len(chunk)
                    whole.update(chunk)
                    out.write(chunk)
                if left or whole.hexdigest() != wheel.sha256:
                    raise SmrError(f"{wheel.file} in {bundle} is not what its lock says (hash)", _WRONG)
        except zipfile.BadZipFile as error:
            raise SmrError(f"{wheel.file} in {bundle} is damaged: {error}", _WRONG) from error


def _install(
    track: Track, plan: Plan, interpreter: str, wheels: list[Wheel], given: Mapping[str, str], cache: Path, say: Say
) -> None:
    digest = hashlib.sha256("".join(wheel.sha256 for wheel in wheels).encode()).hexdigest()[:16]
    if track.done("installed", digest):
        say("installed: done already")
        return
    shutil.rmtree(track.env, ignore_errors=True)
    make_environment(track, plan.python, interpreter, "venv", given, say)
    log = track.logs / "install.log"
    environ = offline(pip_environment(track, given, cache))
    argv = install_command(track, wheels, track.wheels)
    if run_logged(argv, log=log, environ=environ, cwd=track.folder, say=say, what="installing"):
        raise failed("the wheels could not be installed", log, {})
    if [wheel.sha256 for wheel in wheels_in(track.wheels)] != sorted_hashes(wheels):
        raise SmrError(f"a wheel in {track.wheels} changed while it was installed", "restore again")
    track.record("installed", digest)


def sorted_hashes(wheels: list[Wheel]) -> list[str]:
    """Hashes in the order of the files' names."""
    return [wheel.sha256 for wheel in sorted(wheels, key=lambda wheel: wheel.file)]


def _opened(bundle: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(bundle)
    except OSError as error:
        raise SmrError(f"cannot read {bundle}: {error.strerror or error}", "name a file of `smr env pack`") from error
    except zipfile.BadZipFile as error:
        raise SmrError(f"{bundle} is not a bundle, or it is cut short: {error}", _WRONG) from error


def _add(file: zipfile.ZipFile, name: str, data: bytes) -> None:
    with file.open(_info(name, len(data)), "w") as target:
        target.write(data)


def _info(name: str, size: int) -> zipfile.ZipInfo:
    """A member without a time of day: the same environment gives the same bundle."""
    info = zipfile.ZipInfo(name)
    info.file_size = size
    info.external_attr = 0o644 << 16
    return info
