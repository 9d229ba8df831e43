"""What the folder of objects adds: nothing leaves it, nothing in it is followed, nothing is left behind."""

from __future__ import annotations

import fcntl
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from core.adapters.fsspec_blobs import open_folder
from core.errors import EngineError, Misconfigured, NotFound

ROOT = Path(__file__).parents[2]


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_keys_are_paths_for_nobody_else_to_read(tmp_path: Path) -> None:
    root = tmp_path / "made" / "here"
    blobs = open_folder(root)
    blobs.put("a b/é/c%2F.zst", b"1")
    assert files_in(root) == [".uploads", "a b", "a b/é", "a b/é/c%2F.zst"]
    assert (root / "a b/é/c%2F.zst").read_bytes() == b"1"
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in [root, *root.rglob("*")])


def test_empty_folders_do_not_stay(tmp_path: Path) -> None:
    blobs = open_folder(tmp_path)
    blobs.put_many({"tenant/2026/a": b"1", "tenant/2026/b": b"1"})
    blobs.delete("tenant/2026/a")
    assert files_in(tmp_path) == [".uploads", "tenant", "tenant/2026", "tenant/2026/b"]
    blobs.delete("tenant/2026/b")
    assert files_in(tmp_path) == [".uploads"]


def test_symbolic_links_are_not_followed(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    blobs = open_folder(root)
    blobs.put("real/a", b"1")
    (root / "folder").symlink_to(outside)
    (root / "file").symlink_to(outside / "secret")
    (root / "gone").symlink_to(outside / "nothing")
    for key in ("folder/secret", "file", "gone", "folder/new/deep"):
        calls = [blobs.get, blobs.stat, blobs.delete, lambda key: blobs.put(key, b"x")]
        for call in calls:
            with pytest.raises(Misconfigured, match="symbolic link"):
                call(key)
    for prefix in ("", "folder/"):
        with pytest.raises(Misconfigured, match="symbolic link"):
            list(blobs.list(prefix))
    assert files_in(outside) == ["secret"]
    assert blobs.get("real/a") == b"1"
    assert [info.key for info in blobs.list("real/")] == ["real/a"]


def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    open_folder(tmp_path / "link").put("a", b"1")
    assert (tmp_path / "real" / "a").read_bytes() == b"1"


def test_what_dead_writers_left_is_swept_and_what_living_ones_write_is_not(tmp_path: Path) -> None:
    open_folder(tmp_path)
    (tmp_path / ".uploads" / "dead").write_bytes(b"half")
    with (tmp_path / ".uploads" / "living").open("wb") as living:
        fcntl.flock(living, fcntl.LOCK_EX)
        assert list(open_folder(tmp_path).list("")) == []
        assert files_in(tmp_path) == [".uploads", ".uploads/living"]
    blobs = open_folder(tmp_path)
    blobs.put("a", b"1")
    assert files_in(tmp_path) == [".uploads", "a"]


def test_a_folder_that_went_away_is_not_an_empty_one(tmp_path: Path) -> None:
    root = tmp_path / "mounted"
    blobs = open_folder(root)
    blobs.put("a", b"1")
    root.rename(tmp_path / "elsewhere")
    calls = [
        lambda: blobs.get("a"),
        lambda: blobs.stat("a"),
        lambda: blobs.put("b", b"1"),
        lambda: blobs.delete("a"),
        lambda: list(blobs.list("")),
        lambda: list(blobs.list("a/")),
    ]
    for call in calls:
        with pytest.raises(Misconfigured, match="gone"):
            call()
    (tmp_path / "elsewhere").rename(root)
    assert blobs.get("a") == b"1"


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Misconfigured, match="object folder"):
        open_folder(tmp_path / "file" / "folder")


def test_a_full_disk_leaves_no_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno
    import os

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    blobs = open_folder(tmp_path)
    monkeypatch.setattr(os, "fsync", full)
    failed = blobs.put_many({"a/b": b"1"})
    monkeypatch.undo()
    assert isinstance(failed["a/b"], EngineError)
    assert "No space left" in str(failed["a/b"])
    with pytest.raises(NotFound):
        blobs.get("a/b")
    assert files_in(tmp_path) == [".uploads"]


def test_a_store_opened_before_a_fork_says_so_instead_of_waiting_for_ever(tmp_path: Path) -> None:
    source = f"""
import os
from pathlib import Path
from core.adapters.fsspec_blobs import open_folder
from core.errors import Misconfigured
blobs = open_folder(Path({str(tmp_path)!r}))
blobs.put("a", b"1")
if os.fork() == 0:
    try:
        blobs.get("a")
    except Misconfigured:
        os._exit(3)
    os._exit(4)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    command = [sys.executable, "-c", source]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, cwd=ROOT, check=False)
    assert done.stdout == "3\n", done.stderr
