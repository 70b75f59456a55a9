from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from format_samples import textured_mesh
from smr.atomic import atomic_path, write_bytes_atomic
from smr.errors import SmrError
from smr.formats import FORMATS, write_mesh

ENDINGS = [form.endings[0] for form in FORMATS]


def test_file_appears_with_its_content(tmp_path: Path) -> None:
    write_bytes_atomic(tmp_path / "new" / "a.bin", b"abc")
    write_bytes_atomic(tmp_path / "new" / "a.bin", b"abcd")
    assert (tmp_path / "new" / "a.bin").read_bytes() == b"abcd"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.bin"]


def test_nothing_is_there_until_the_end(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "a.obj") as temporary:
        temporary.write_text("x")
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".obj"
        assert not (tmp_path / "a.obj").exists()
    assert (tmp_path / "a.obj").read_text() == "x"


def test_failure_in_the_block_leaves_the_old_file(tmp_path: Path) -> None:
    write_bytes_atomic(tmp_path / "a", b"old")

    def fail_halfway() -> None:
        with atomic_path(tmp_path / "a") as temporary:
            temporary.write_bytes(b"half")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail_halfway()
    assert (tmp_path / "a").read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1


def test_files_are_renamed_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: (seen.append(Path(b).name), replace(a, b)))
    write_mesh(textured_mesh(1), tmp_path / "a.obj")
    assert seen == ["a_texture.png", "a.mtl", "a.obj"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "a")
    write_bytes_atomic(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "a").read_bytes() == b"new"


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_bytes_atomic(tmp_path / "a", b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_folder_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "a.ply").mkdir()
    with pytest.raises(SmrError, match=r"a\.ply is a folder, where a file is to be written"):
        write_mesh(textured_mesh(1), tmp_path / "a.ply")


def test_file_in_the_way_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    with pytest.raises(SmrError, match=r"cannot be written: (not a directory|file exists)"):
        write_bytes_atomic(tmp_path / "a" / "b", b"x")


@pytest.mark.parametrize(
    ("code", "said", "cure"),
    [
        (errno.ENOSPC, "no space left on device", "Free some space"),
        (errno.EROFS, "read-only file system", "mounted read-only"),
        (errno.EACCES, "permission denied", "Make that folder writable"),
    ],
)
@pytest.mark.parametrize("ending", ENDINGS)
def test_refused_renames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, code: int, said: str, cure: str
) -> None:
    def refuse(a: Any, b: Any) -> None:
        raise OSError(code, os.strerror(code), str(a))

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(SmrError) as caught:
        write_mesh(textured_mesh(1), tmp_path / f"chair{ending}")
    assert "chair" in caught.value.cause
    assert said in caught.value.cause
    assert cure in caught.value.cure
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", ENDINGS)
def test_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    """The disk fills up when the files are flushed, before any of them has its final name."""

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SmrError, match="no space left on device"):
        write_mesh(textured_mesh(1), tmp_path / f"a{ending}")
    assert list(tmp_path.iterdir()) == []


def test_a_really_full_device(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")

    def fill() -> None:
        with atomic_path(tmp_path / "a") as temporary:
            temporary.symlink_to("/dev/full")
            temporary.write_bytes(b"x" * 100_000)

    with pytest.raises(SmrError, match="a cannot be written: no space left on device"):
        fill()
    assert list(tmp_path.iterdir()) == []
