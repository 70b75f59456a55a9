"""The source of a package, brought into the track: a folder of the user's is copied and never changed."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from smr.atomic import write_error
from smr.environment.commands import run
from smr.environment.envs.plan import Plan
from smr.environment.envs.processes import run_logged
from smr.environment.envs.unpack import MAX_BYTES, unpack
from smr.errors import SmrError

_STALE = re.compile(
    r"^(build|dist|__pycache__|\.git|\.ninja_(log|deps)|.*\.egg-info|.*\.(o|obj|pyc)|.*\.cpython-[^.]+\.so|_C\.so)$"
)
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Source:
    """What was built from."""

    folder: Path
    """Where setup.py or pyproject.toml lies."""
    commit: str
    """Commit of its repository; empty where it has none."""
    tree: str
    """SHA-256 over the names and contents of all files."""


def bring(
    plan: Plan, given: str, folder: Path, log: Path, environ: Mapping[str, str], say: Callable[[str], None]
) -> str:
    """Bring the source into `folder`, without products of an older build; returns its commit, empty where unknown.

    Args:
        plan: Names the repository and the tag, where nothing is given.
        given: A folder, an archive, or a URL of a repository or an archive; empty: the plan's repository.
        folder: Where to put it; replaced where it is there.
        log: Log of git.
        environ: Environment of git.
        say: Told what is going on.

    Raises:
        SmrError: It cannot be had.
    """
    shutil.rmtree(folder, ignore_errors=True)
    where = given or plan.source_git
    if not where:
        raise SmrError(f"the recipe of {plan.package} names no repository", "name the source: --source FOLDER")
    path = Path(where).expanduser()
    try:
        if path.is_dir():
            commit = commit_of(path)
            shutil.copytree(path, folder, symlinks=True, ignore=_stale)
            return commit
        if path.is_file():
            _archive(path, folder)
            return ""
        if re.match(r"^https?://\S+\.(tar\.gz|tgz|zip)$", where):
            _archive(_download(where, folder.with_name("download"), say), folder)
            return ""
    except (OSError, shutil.Error) as error:
        if isinstance(error, OSError) and error.errno:
            raise write_error(folder, error) from error
        raise SmrError(f"{where} cannot be copied: {error}", "see whether every file in it can be read") from error
    if not re.match(r"^(https?|ssh|git|file)://\S+$", where):
        raise SmrError(f"there is no source at {where}", "name a folder, a .tar.gz or .zip, or a URL")
    return _clone(plan, where, folder, log, environ, say)


def describe(root: Path, plan: Plan, commit: str) -> Source:
    """The source as it lies there.

    Raises:
        SmrError: It holds no setup.py, or a submodule that the build needs is empty.
    """
    folder = root / plan.source_folder if plan.source_folder else root
    if not any((folder / name).is_file() for name in ("setup.py", "pyproject.toml")):
        raise SmrError(f"{folder} has neither setup.py nor pyproject.toml", "name the folder that has: --source FOLDER")
    for name in plan.submodules:
        if not (root / name).is_dir() or not any((root / name).iterdir()):
            cure = "in your copy: git submodule update --init --recursive"
            raise SmrError(f"the submodule {name} is empty", cure)
    return Source(folder, commit, tree_hash(root))


def commit_of(folder: Path) -> str:
    """Commit of a working copy, with `+changes` where files differ from it; empty where it is none."""
    head = run(["git", "-C", str(folder), "rev-parse", "HEAD"])
    if not head.ok:
        return ""
    status = run(["git", "-C", str(folder), "status", "--porcelain", "--untracked-files=no"])
    return head.stdout.strip() + ("+changes" if status.stdout.strip() else "")


def tree_hash(folder: Path) -> str:
    """SHA-256 over all files, by name; products of a build apart."""
    whole = hashlib.sha256()
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not _STALE.match(name))
        for name in sorted(name for name in files if not _STALE.match(name)):
            path = Path(here) / name
            whole.update(f"{path.relative_to(folder).as_posix()}\0".encode("utf-8", "surrogateescape"))
            whole.update(os.readlink(path).encode() if path.is_symlink() else _digest(path))
    return whole.hexdigest()


def _stale(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if _STALE.match(name)}


def _digest(path: Path) -> bytes:
    return bytes.fromhex(file_hash(path))


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    whole = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            whole.update(chunk)
    return whole.hexdigest()


def _archive(path: Path, folder: Path) -> None:
    inside = folder.with_name(f"{folder.name}-unpacked")
    shutil.rmtree(inside, ignore_errors=True)
    os.replace(unpack(path, inside), folder)
    shutil.rmtree(inside, ignore_errors=True)


def _download(url: str, folder: Path, say: Callable[[str], None]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / Path(url).name
    say(f"fetching {url}")
    try:
        with urllib.request.urlopen(url, timeout=60) as answer, path.open("wb") as file:
            left = MAX_BYTES
            while chunk := answer.read(_CHUNK):
                left -= len(chunk)
                if left < 0:
                    raise SmrError(f"{url} is larger than {MAX_BYTES >> 30} GB", "name a source of your own: --source")
                file.write(chunk)
    except OSError as error:
        cure = "fetch it yourself, and name the file: --source FILE"
        raise SmrError(f"{url} cannot be fetched: {error}", cure) from error
    return path


def _clone(
    plan: Plan, url: str, folder: Path, log: Path, environ: Mapping[str, str], say: Callable[[str], None]
) -> str:
    git = {**environ, "GIT_TERMINAL_PROMPT": "0"}
    tag = plan.source_tag or "HEAD"
    fetch = ["git", "clone", "--no-checkout", "--", url, str(folder)]
    inside = ["git", "-C", str(folder)]
    steps = [fetch, [*inside, "checkout", "--detach", tag]]
    if plan.submodules or not plan.source_git:
        steps.append([*inside, "submodule", "update", "--init", "--recursive"])
    for argv in steps:
        if run_logged(argv, log=log, environ=git, cwd=folder.parent, say=say, what=f"git {url}"):
            last = log.read_text(errors="replace").strip().splitlines()[-1:]
            cure = f"clone it yourself (git clone --recursive), and name the folder: --source FOLDER; log: {log}"
            raise SmrError(f"git could not bring {tag} of {url}: {last[0] if last else ''}", cure)
    return commit_of(folder)
