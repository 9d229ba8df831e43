"""An S3 store that is slow, broken off or gone, and the proxy that makes it so."""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest

from core.adapters.fsspec_blobs import FsspecBlobs, open_s3
from core.errors import Unavailable
from tests.seaweed import S3Server
from tests.tcp_proxy import TcpProxy, tcp_proxy

READ_SECONDS = 1.0
TRIES = 2  # aiohttp, below s3fs, sends a request again when a connection it had kept turns out to be dead
LARGE = os.urandom(2 << 20)


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[TcpProxy]:
    with tcp_proxy(s3_server.port) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def bucket(s3_server: S3Server) -> str:
    """One for all tests here; each has its own prefix."""
    files = s3_server.other_client()
    files.mkdir("blob-faults")
    files.pipe_file("blob-faults/first", b"1")  # which takes the server longer than our timeouts here
    return "blob-faults"


@pytest.fixture(params=["s3fs", "obstore"])
def blobs(request: pytest.FixtureRequest, s3_server: S3Server, bucket: str, proxy: TcpProxy) -> Iterator[FsspecBlobs]:
    """A store behind the proxy, with short timeouts."""
    options = s3_server.options(
        bucket,
        prefix=uuid.uuid4().hex,
        client=request.param,
        endpoint=f"http://127.0.0.1:{proxy.port}",
        connect_timeout=timedelta(seconds=READ_SECONDS),
        read_timeout=timedelta(seconds=READ_SECONDS),
        request_timeout=timedelta(seconds=2),
    )
    with closing(open_s3(options)) as opened:
        opened.put("before", b"1")
        yield opened


def every_call_fails(blobs: FsspecBlobs) -> None:
    calls = [
        lambda: blobs.put("new", b"1"),
        lambda: blobs.get("before"),
        lambda: list(blobs.list("")),
        lambda: blobs.delete_many(["other", "another"]),
    ]
    for call in calls:
        started = time.monotonic()
        with pytest.raises(Unavailable):
            call()
        assert time.monotonic() - started < 5
    failed = blobs.put_many({"new": b"1", "newer": b"2"})
    assert {key: type(error) for key, error in failed.items()} == {"new": Unavailable, "newer": Unavailable}


def all_is_well(blobs: FsspecBlobs) -> None:
    blobs.put("new", b"1")
    assert blobs.get("before") == b"1"
    assert blobs.put_many({"new": b"1", "newer": b"2"}) == {}
    assert sorted(info.key for info in blobs.list("")) == ["before", "new", "newer"]


def test_a_slow_store_is_unavailable_within_the_bound_and_works_afterwards(blobs: FsspecBlobs, proxy: TcpProxy) -> None:
    proxy.delay(READ_SECONDS * 2)
    every_call_fails(blobs)  # SeaweedFS once kept an empty object of such a put: now it is told the digest
    proxy.delay(0)
    all_is_well(blobs)


def test_gone_and_back_again(blobs: FsspecBlobs, proxy: TcpProxy) -> None:
    proxy.refuse()
    every_call_fails(blobs)
    proxy.restore()
    all_is_well(blobs)


def test_a_store_that_drips_is_bounded_too(blobs: FsspecBlobs, proxy: TcpProxy) -> None:
    """Every single piece comes in time, the whole never would: request_timeout is for that."""
    blobs.put("large", LARGE)
    proxy.delay(READ_SECONDS * 0.5)
    started = time.monotonic()
    with pytest.raises(Unavailable):
        blobs.get("large")
    assert time.monotonic() - started < 6
    proxy.delay(0)
    assert blobs.get("large") == LARGE


@pytest.mark.parametrize("at", [0, 100, 1 << 20, (2 << 20) - 1])
def test_cut_in_the_middle_of_a_put(blobs: FsspecBlobs, proxy: TcpProxy, at: int) -> None:
    proxy.cut_after(at, of="request", times=TRIES)
    failed = blobs.put_many({"large": LARGE})
    proxy.restore()
    assert isinstance(failed["large"], Unavailable)
    assert blobs.stat("large") is None
    blobs.put("large", LARGE)
    assert blobs.get("large") == LARGE


@pytest.mark.parametrize("at", [10, 1 << 20, (2 << 20) - 1])
def test_cut_in_the_middle_of_a_get(blobs: FsspecBlobs, proxy: TcpProxy, at: int) -> None:
    blobs.put("large", LARGE)
    proxy.cut_after(at, times=TRIES)
    with pytest.raises(Unavailable):
        blobs.get("large")
    proxy.restore()
    assert blobs.get("large") == LARGE


def test_the_answer_to_a_put_is_lost(blobs: FsspecBlobs, proxy: TcpProxy) -> None:
    """The object may be there, whole; the same put again is fine."""
    proxy.cut_after(5, times=TRIES)
    assert isinstance(blobs.put_many({"a": b"12345"})["a"], Unavailable)
    proxy.restore()
    assert blobs.put_many({"a": b"12345"}) == {}
    assert blobs.get("a") == b"12345"


def test_connections_that_broke_while_nobody_looked(blobs: FsspecBlobs, proxy: TcpProxy) -> None:
    """At most one call in vain for each: then everything works again."""
    blobs.get_many(["before"] * 20)
    proxy.cut()
    time.sleep(0.2)
    for _ in range(5):
        try:
            assert blobs.get("before") == b"1"
            break
        except Unavailable:
            continue
    all_is_well(blobs)


@pytest.fixture
def echo() -> Iterator[int]:
    """Port of a server that says everything back."""

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=say_back, args=(connection,), daemon=True).start()

    def say_back(connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(65536):
                    connection.sendall(data)
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def ask(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    found = b""
    while len(found) < len(data) and (more := connection.recv(65536)):
        found += more
    return found


def test_the_proxy_forwards_delays_cuts_and_refuses(echo: int) -> None:
    before = threading.active_count()
    with tcp_proxy(echo) as proxy:
        address = ("127.0.0.1", proxy.port)
        with socket.create_connection(address, 5) as first, socket.create_connection(address, 5) as second:
            assert ask(first, b"x" * 300_000) == b"x" * 300_000
            proxy.delay(0.2)
            started = time.monotonic()
            assert ask(second, b"slow") == b"slow"
            assert time.monotonic() - started >= 0.4
            proxy.delay(0)
            proxy.cut_after(3)
            first.sendall(b"12345")
            assert first.recv(10) == b"123"
            with pytest.raises(ConnectionResetError):
                first.recv(10)
            assert ask(second, b"lives") == b"lives"
            proxy.cut()
            with pytest.raises(ConnectionResetError):
                second.recv(1)
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, 5)
        proxy.restore()
        with socket.create_connection(address, 5) as third:
            proxy.cut_after(2, of="request")
            with pytest.raises(ConnectionResetError):
                ask(third, b"12345")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, 5)
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert threading.active_count() <= before
