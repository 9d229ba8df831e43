"""The embedded servers: one a home, found again, outliving the command that started it, stopped on demand."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
import redis

from core.adapters.embedded_postgres import start_postgres, stop_postgres
from core.adapters.embedded_valkey import start_valkey, stop_valkey
from core.adapters.postgres_account import let_in, let_read
from core.adapters.server_process import only_one, pid_in, private_folder, serves, wait_until
from core.errors import Busy, Misconfigured, Unavailable
from tests.servers import temporary_home

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Kind:
    name: str
    start: Callable[[Path], str]
    stop: Callable[[Path], bool]
    identity: Callable[[str], object]
    pid_file: str
    program: str

    def pid(self, home: Path) -> int:
        pid = pid_in(home / self.name / self.pid_file)
        assert pid is not None
        return pid

    def runs(self, pid: int, home: Path) -> bool:
        return serves(pid, self.program, home / self.name)


def postgres_identity(url: str) -> object:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT pg_postmaster_start_time(), current_database()").fetchone()


def valkey_identity(url: str) -> object:
    with redis.Redis.from_url(url) as client:
        return client.info("server")["run_id"]


KINDS = [
    Kind("postgres", start_postgres, stop_postgres, postgres_identity, "postmaster.pid", "postgres"),
    Kind("valkey", start_valkey, stop_valkey, valkey_identity, "pid", "valkey-server"),
]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


@pytest.fixture
def home() -> Iterator[Path]:
    with temporary_home() as folder:
        yield folder


def command(kind: Kind, home: Path, after: str = "") -> list[str]:
    """A process of its own that starts the server and prints its URL."""
    source = f"""
        import sys, time
        from pathlib import Path
        from core.adapters.embedded_{kind.name} import start_{kind.name}
        print(start_{kind.name}(Path({str(home)!r})), flush=True)
    """
    return [sys.executable, "-c", textwrap.dedent(source) + after]


def test_started_once_and_found_again(kind: Kind, home: Path) -> None:
    url = kind.start(home)
    first = kind.identity(url)
    assert kind.start(home) == url
    assert kind.identity(url) == first


def test_stop_says_whether_there_was_one(kind: Kind, home: Path) -> None:
    assert not kind.stop(home)
    kind.start(home)
    pid = kind.pid(home)
    assert kind.stop(home)
    assert not kind.runs(pid, home)
    assert not kind.stop(home)


def test_outlives_the_command_that_started_it(kind: Kind, home: Path) -> None:
    done = subprocess.run(command(kind, home), cwd=ROOT, check=True, capture_output=True, text=True)
    url = done.stdout.strip()
    first = kind.identity(url)
    assert kind.start(home) == url
    assert kind.identity(url) == first


def test_ctrl_c_in_the_terminal_does_not_reach_it(kind: Kind, home: Path) -> None:
    sleeping = command(kind, home, after="time.sleep(60)")
    process = subprocess.Popen(
        sleeping,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    first = kind.identity(url)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=20)
    time.sleep(0.3)
    assert kind.identity(url) == first


def test_commands_that_start_together_share_one(kind: Kind, home: Path) -> None:
    identity = f"""
from tests.contract import test_embedded_servers as t
print(t.{kind.name}_identity(start_{kind.name}(Path({str(home)!r}))))
"""
    processes = [
        subprocess.Popen(command(kind, home, after=identity), cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    said = {process.communicate(timeout=60)[0] for process in processes}
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len(said) == 1


def test_killed_server_is_started_again(kind: Kind, home: Path) -> None:
    url = kind.start(home)
    first, pid = kind.identity(url), kind.pid(home)
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: not kind.runs(pid, home), 10)
    assert not kind.stop(home)
    assert kind.start(home) == url
    assert kind.identity(url) != first


def test_server_whose_socket_was_removed_is_replaced(kind: Kind, home: Path) -> None:
    url = kind.start(home)
    first = kind.identity(url)
    for path in (home / kind.name).iterdir():
        if path.is_socket():
            path.unlink()
    assert kind.identity(kind.start(home)) != first


def test_number_of_a_process_that_ended_is_not_trusted(kind: Kind, home: Path) -> None:
    """After a reboot the number in the file may be anybody's: here it is ours."""
    kind.start(home)
    pid_file = home / kind.name / kind.pid_file
    kept = pid_file.read_text()
    kind.stop(home)
    pid_file.write_text(f"{os.getpid()}\n" + kept.partition("\n")[2])
    assert not kind.stop(home)
    kind.identity(kind.start(home))


def test_long_and_odd_folder_names(kind: Kind, home: Path) -> None:
    odd = home / ("x" * 100) / "a b;'$HOME`id`é?#%,"
    url = kind.start(odd)
    try:
        first = kind.identity(url)
        assert kind.start(odd) == url
        assert kind.identity(url) == first
    finally:
        assert kind.stop(odd)


def test_symlinked_home_is_the_same_home(kind: Kind, home: Path) -> None:
    real, link = home / "real", home / "link"
    real.mkdir()
    link.symlink_to(real)
    url = kind.start(link)
    assert kind.start(real) == url
    assert kind.stop(link)


@pytest.mark.parametrize("kind", KINDS[:1], ids=["postgres"], indirect=True)
def test_postgres_folder_of_another_version_is_named(kind: Kind, home: Path) -> None:
    kind.start(home)
    kind.stop(home)
    (home / "postgres" / "PG_VERSION").write_text("12\n")
    with pytest.raises(Misconfigured, match="PostgreSQL 12"):
        kind.start(home)


@pytest.mark.parametrize("kind", KINDS[:1], ids=["postgres"], indirect=True)
def test_failed_start_shows_the_log(kind: Kind, home: Path) -> None:
    kind.start(home)
    kind.stop(home)
    (home / "postgres" / "postgresql.conf").write_text("no_such_setting = 1\n")
    with pytest.raises(Unavailable, match="no_such_setting"):
        kind.start(home)


@pytest.mark.parametrize("kind", KINDS[:1], ids=["postgres"], indirect=True)
def test_creation_that_was_cut_off_is_done_again(kind: Kind, home: Path) -> None:
    cut_off = home / "postgres.new-1"
    cut_off.mkdir(mode=0o700)
    (cut_off / "PG_VERSION").write_text("18\n")
    kind.identity(kind.start(home))
    assert [path.name for path in home.iterdir() if path.is_dir()] == ["postgres"]


@pytest.mark.parametrize("seconds", [0.2, 0.35, 0.5, 0.7])
def test_a_command_killed_while_it_starts_leaves_nothing_in_the_way(kind: Kind, home: Path, seconds: float) -> None:
    process = subprocess.Popen(command(kind, home), cwd=ROOT, stdout=subprocess.DEVNULL)
    time.sleep(seconds)
    process.kill()
    process.wait()
    kind.identity(kind.start(home))


def test_lock_names_its_holder(tmp_path: Path) -> None:
    held, again = only_one(tmp_path, "thing"), only_one(tmp_path, "thing", 0.05)
    with held, pytest.raises(Busy, match=str(os.getpid())), again:
        pass
    with only_one(tmp_path, "thing", 0.05):
        pass


def test_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    private_folder(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    with pytest.raises(Misconfigured, match="belongs to"):
        private_folder(folder, (os.geteuid() + 1, 0))
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(Misconfigured):
        private_folder(tmp_path / "link")


def test_folders_above_may_be_entered_but_not_listed(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    (closed / "data").mkdir(parents=True)
    closed.chmod(0o700)
    let_in(closed / "data", (os.geteuid() + 1, os.getegid() + 1))
    assert closed.stat().st_mode & 0o777 == 0o701


def test_programs_installed_under_a_strict_umask_can_be_run(tmp_path: Path) -> None:
    program, library = tmp_path / "bin" / "postgres", tmp_path / "lib" / "some.so"
    for path, mode in ((program, 0o700), (library, 0o600)):
        path.parent.mkdir(mode=0o700)
        path.touch(mode=mode)
    let_read(tmp_path)
    assert program.stat().st_mode & 0o007 == 0o005
    assert library.stat().st_mode & 0o007 == 0o004
    assert library.parent.stat().st_mode & 0o007 == 0o005
