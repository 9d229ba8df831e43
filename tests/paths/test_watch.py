"""`memory watch`: a folder of notes is in step with the record whatever editors do to its files."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core.assembly import Engine, open_engine
from core.batch.embed import Portion, step
from core.model.memory import Memory
from core.record.memories import Place
from core.settings import load_settings
from deployments.commands_watch import Due, hidden

PATIENCE = 60


@pytest.fixture
def engine(database_url: str, valkey_url: str, tmp_path: Path) -> Iterator[Engine]:
    chosen = {"home": tmp_path / "home", "postgres_url": database_url, "redis_url": valkey_url}
    with open_engine(load_settings(**chosen)) as opened:
        yield opened


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    root = tmp_path / "notes"
    (root / "deep").mkdir(parents=True)
    (root / "tea.md").write_text("# Tea\n\ngreen tea")
    (root / "deep" / "boat.md").write_text("# Boat\n\nred boat")
    return root


def kept(engine: Engine) -> dict[str, Memory]:
    return {memory.content.splitlines()[-1]: memory for memory in engine.list("t", Place(), 1000)}


def import_all(engine: Engine, root: Path) -> Any:
    return list(engine.import_notes("t", root))[-1]


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Watching:
    """The command in a process of its own; what it says, line by line."""

    def __init__(self, root: Path, chosen: dict[str, str]) -> None:
        here = Path(__file__).parents[2]
        command = [sys.executable, "-m", "deployments.cli", "watch", str(root), "--tenant", "t", "--json"]
        environment = {**os.environ, **chosen}
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=here,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def told(self) -> dict[str, Any]:
        return dict(json.loads(self._lines.get(timeout=PATIENCE)))

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)


@pytest.fixture
def watching(engine: Engine, notes: Path, database_url: str, valkey_url: str, tmp_path: Path) -> Iterator[Watching]:
    chosen = {"POSTGRES_URL": database_url, "REDIS_URL": valkey_url, "HOME": str(tmp_path / "home")}
    watching = Watching(notes, {f"MEMORY_{name}": value for name, value in chosen.items()})
    assert watching.told()["items"] == {"stored": 2}
    yield watching
    watching.process.kill()
    watching.process.wait(PATIENCE)


def saved_as_vim_does(path: Path, text: str) -> None:
    """The old file is renamed away, a new one written, the old one removed."""
    (path.parent / "4913").write_text("")
    (path.parent / "4913").unlink()
    backup = path.with_name(f"{path.name}~")
    path.rename(backup)
    path.write_text(text)
    backup.unlink()


def saved_by_replacing(path: Path, text: str) -> None:
    """A file beside it is written and put in its place."""
    beside = path.with_name(f".{path.name}.tmp")
    beside.write_text(text)
    beside.replace(path)


@pytest.mark.parametrize("save", [Path.write_text, saved_as_vim_does, saved_by_replacing])
def test_a_note_that_is_saved_is_imported_whatever_the_editor_does(
    engine: Engine, notes: Path, watching: Watching, save: Callable[[Path, str], object]
) -> None:
    save(notes / "tea.md", "# Tea\n\nblack tea")
    until(lambda: set(kept(engine)) == {"black tea", "red boat"})
    assert watching.end() == 130


def test_notes_and_folders_that_come_move_and_go_are_followed(
    engine: Engine, notes: Path, watching: Watching, tmp_path: Path
) -> None:
    (notes / "new.v1").mkdir()
    (notes / "new.v1" / "car.md").write_text("# Car\n\nblue car")
    until(lambda: set(kept(engine)) == {"green tea", "red boat", "blue car"})
    before = kept(engine)["blue car"]
    (notes / "new.v1").rename(notes / "old.v1")
    until(lambda: "old.v1" in str(kept(engine).get("blue car", before).source) and len(kept(engine)) == 3)
    assert kept(engine)["blue car"].created_at == before.created_at
    (notes / "old.v1").rename(tmp_path / "elsewhere")
    until(lambda: set(kept(engine)) == {"green tea", "red boat"})
    (notes / "tea.md").unlink()
    until(lambda: set(kept(engine)) == {"red boat"})
    assert watching.process.poll() is None


def test_a_note_that_is_missing_for_a_moment_is_not_gone(notes: Path) -> None:
    due = Due(notes, everything=False)
    path = notes / "tea.md"
    text = path.read_text()
    path.unlink()
    threading.Timer(0.2, lambda: path.write_text(text)).start()
    due.add([path])
    assert (due.everything, due.paths) == (False, {path})


def test_hidden_files_and_those_that_are_no_notes_are_of_no_interest(notes: Path) -> None:
    due = Due(notes, everything=False)
    due.add([notes / ".git" / "HEAD", notes / ".tea.md.swp", notes / "picture.png", notes / "4913"])
    assert not due
    assert hidden(notes / ".obsidian" / "x.md", notes)


def test_importing_again_forgets_what_is_gone_and_keeps_what_moved(engine: Engine, notes: Path) -> None:
    import_all(engine, notes)
    before = kept(engine)
    step(engine.embed_work(), Portion(tenant="t", records=100))
    (notes / "tea.md").rename(notes / "deep" / "drink.md")
    (notes / "deep" / "boat.md").unlink()
    done = import_all(engine, notes)
    assert (done.items["stored"], done.removed) == (1, 2)
    (tea,) = engine.list("t", Place())
    assert tea.source is not None
    assert tea.source.path == "notes/deep/drink.md"
    assert tea.created_at == before["green tea"].created_at
    spent = sum(day.use.tokens for day in engine.uses(1))
    step(engine.embed_work(), Portion(tenant="t", records=100))
    assert sum(day.use.tokens for day in engine.uses(1)) == spent  # the vector moved with it
    assert not import_all(engine, notes).changed


def test_a_folder_that_is_suddenly_empty_forgets_nothing_and_says_so(engine: Engine, notes: Path) -> None:
    import_all(engine, notes)
    for path in notes.rglob("*.md"):
        path.unlink()
    done = import_all(engine, notes)
    assert (done.removed, len(done.warnings), set(kept(engine))) == (0, 1, {"green tea", "red boat"})


def test_what_a_folder_that_cannot_be_listed_held_is_kept(
    engine: Engine, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_all(engine, notes)
    scan = os.scandir

    def refuse(path: Any) -> Any:
        if Path(path).name == "deep":
            raise PermissionError(13, "Permission denied")
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    done = import_all(engine, notes)
    assert (done.removed, done.problem_count) == (0, 1)
    assert set(kept(engine)) == {"green tea", "red boat"}
