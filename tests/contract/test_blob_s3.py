"""What S3 adds: rights, buckets, certificates, encryption, servers that lack something; and no secret told."""

from __future__ import annotations

import logging
import re
import threading
import time
import traceback
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from core.adapters.fsspec_blobs import FsspecBlobs, open_s3
from core.adapters.s3_options import S3Options
from core.errors import BadAnswer, Conflict, EngineError, Misconfigured, NotFound, Overloaded, Refused, Unavailable
from tests.seaweed import S3Server

SECRET = "Very/Secret+" + uuid.uuid4().hex


@pytest.fixture(params=["s3fs", "obstore"])
def client(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def bucket(s3_server: S3Server) -> str:
    s3_server.other_client().mkdir("blob-s3")
    return "blob-s3"


def errors_of_every_call(blobs: FsspecBlobs) -> list[EngineError]:
    """What each call raises; all of them must."""
    calls = [
        lambda: blobs.put("a", b"1"),
        lambda: blobs.get("a"),
        lambda: blobs.get_many(["a", "b"]),
        lambda: blobs.stat("a"),
        lambda: list(blobs.list("")),
        lambda: blobs.delete("a"),
        lambda: blobs.delete_many(["a", "b"]),
    ]
    found: list[EngineError] = list(blobs.put_many({"a": b"1"}).values())
    for call in calls:
        with pytest.raises(EngineError) as raised:
            call()
        found.append(raised.value)
    assert len(found) == len(calls) + 1
    return found


@pytest.mark.parametrize("changed", [{"secret": SECRET}, {"key_id": "nobody", "secret": SECRET}, {"bucket": "absent"}])
def test_wrong_keys_and_a_missing_bucket_are_for_a_person(
    client: str, s3_server: S3Server, bucket: str, changed: dict[str, str]
) -> None:
    with closing(open_s3(s3_server.options(**{"bucket": bucket, "client": client, **changed}))) as blobs:
        for error in errors_of_every_call(blobs):
            assert isinstance(error, Misconfigured), error
            told = "".join(traceback.format_exception(error)) + repr(error) + repr(error.details) + repr(blobs)
            assert SECRET not in told


def test_nobody_there_is_unavailable(client: str, s3_server: S3Server, bucket: str) -> None:
    options = s3_server.options(bucket, client=client, endpoint="http://127.0.0.1:9", secret=SECRET)
    with closing(open_s3(options)) as blobs:
        for error in errors_of_every_call(blobs):
            assert isinstance(error, Unavailable), error
            assert SECRET not in "".join(traceback.format_exception(error))


def test_a_server_under_its_own_ca(client: str, s3_server: S3Server, bucket: str) -> None:
    usual = {"client": client, "endpoint": s3_server.https_endpoint, "prefix": uuid.uuid4().hex}
    with closing(open_s3(s3_server.options(bucket, ca_file=s3_server.ca_file, **usual))) as blobs:
        blobs.put("a", b"1")
        assert blobs.get("a") == b"1"
    with closing(open_s3(s3_server.options(bucket, **usual))) as blobs:
        for error in errors_of_every_call(blobs):
            assert isinstance(error, Misconfigured), error
            assert "certificate" in error.message


def test_prefixes_keep_apart(client: str, s3_server: S3Server, s3_bucket: str) -> None:
    """Also one that begins like another, and one written with slashes around."""
    one, two = (open_s3(s3_server.options(s3_bucket, client=client, prefix=f"top/{end}")) for end in ("a", "ab"))
    one.put("x", b"1")
    assert two.stat("x") is None
    two.delete("x")
    assert list(two.list("")) == []
    again = open_s3(s3_server.options(s3_bucket, client=client, prefix="/top/a/"))
    assert [info.key for info in again.list("")] == ["x"]
    whole = open_s3(s3_server.options(s3_bucket, client=client))
    assert [info.key for info in whole.list("")] == ["top/a/x"]
    for blobs in (one, two, again, whole):
        blobs.close()


@pytest.mark.parametrize(
    "changed",
    [
        {"bucket": ""},
        {"bucket": "a/b"},
        {"endpoint": "s3.example.org"},
        {"endpoint": "ftp://s3.example.org"},
        {"endpoint": f"https://me:{SECRET}@s3.example.org"},
        {"endpoint": f"https://s3.example.org/?secret={SECRET}"},
        {"endpoint": "http://[::1"},
        {"key_id": None},
        {"secret": None},
        {"ca_file": Path("/nowhere/ca.pem")},
        {"ca_file": Path(__file__)},
        {"concurrency": 0},
        {"read_timeout": timedelta(0)},
        {"prefix": "a//b"},
        {"prefix": "../a"},
        {"prefix": "p" * 130},
    ],
)
def test_options_that_cannot_be_meant(client: str, changed: dict[str, Any]) -> None:
    usual = {"bucket": "b", "endpoint": "http://127.0.0.1:9", "key_id": "k", "secret": SECRET, "client": client}
    options = S3Options(**{**usual, **changed})
    assert SECRET not in repr(options).replace(str(changed.get("endpoint")), "")
    with pytest.raises(Misconfigured) as raised:
        open_s3(options)
    assert SECRET not in "".join(traceback.format_exception(raised.value))


class OddServer(BaseHTTPRequestHandler):
    """Keeps objects and does as it is told, for what SeaweedFS never says."""

    protocol_version = "HTTP/1.1"
    objects: ClassVar[dict[str, bytes]]
    seen: ClassVar[list[dict[str, str]]]  # headers of every put
    mood: ClassVar[str]

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append({name.lower(): value for name, value in self.headers.items()})
        conditional = "If-None-Match" in self.headers
        if self.mood[:3].isdecimal():
            status, _, code = self.mood.partition(" ")
            self.say(int(status), b"<Error><Code>%s</Code></Error>" % code.encode(), {"Retry-After": "7"})
        elif self.mood == "unconditional" and conditional:
            self.say(501, b"<Error><Code>NotImplemented</Code><Message>no</Message></Error>")
        else:
            self.objects[self.path] = data[:-1] if self.mood == "spoils" else data
            self.say(200, b"", {"ETag": '"1"'})

    def do_GET(self) -> None:
        if self.path in self.objects:
            self.say(200, self.objects[self.path], {"Last-Modified": "Tue, 01 Dec 2026 03:00:00 GMT", "ETag": '"1"'})
        elif self.command == "GET" and "list-type" not in self.path:
            self.say(404, b"<Error><Code>NoSuchKey</Code><Message>no</Message></Error>")
        elif self.mood == "garbled":
            self.say(200, b"<html><p>Welcome to the proxy")
        elif "list-type" in self.path or self.path.rstrip("/") == "/odd":
            self.say(200, b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
        else:
            self.say(404, b"")

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        self.objects.pop(self.path, None)
        self.say(204, b"")

    def do_POST(self) -> None:
        keys = re.findall(rb"<Key>(.*?)</Key>", self.rfile.read(int(self.headers["Content-Length"])))
        for key in keys:
            self.objects.pop(f"/odd/{key.decode()}", None)
        deleted = b"".join(b"<Deleted><Key>%s</Key></Deleted>" % key for key in keys)
        self.say(200, b"<DeleteResult>%s</DeleteResult>" % deleted)

    def say(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def odd_store(mood: str, **changed: Any) -> Iterator[tuple[type[OddServer], FsspecBlobs]]:
    """Our client before a server in some mood."""
    handler = type("Odd", (OddServer,), {"objects": {}, "seen": [], "mood": mood})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        endpoint = f"http://127.0.0.1:{server.server_port}"
        options = S3Options(bucket="odd", endpoint=endpoint, key_id="k", secret=SECRET, region="us-east-1", **changed)
        with closing(open_s3(options)) as blobs:
            yield handler, blobs
        server.shutdown()
        server.daemon_threads = True
        server.block_on_close = False
    thread.join(5)


def test_the_encryption_key_is_named_with_every_put(client: str) -> None:
    with odd_store("fine", client=client, kms_key="arn:aws:kms:x:1:key/2") as (server, blobs):
        blobs.put("a", b"1")
        puts = server.seen
    assert [
        (put["x-amz-server-side-encryption"], put["x-amz-server-side-encryption-aws-kms-key-id"], put["if-none-match"])
        for put in puts
    ] == [("aws:kms", "arn:aws:kms:x:1:key/2", "*")]
    assert "x-amz-server-side-encryption-customer-key" not in puts[0]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("503 SlowDown", Overloaded),
        ("429 TooManyRequests", Overloaded),
        ("500 InternalError", Unavailable),
        ("409 ConditionalRequestConflict", Unavailable),
        ("400 IncompleteBody", Unavailable),
        ("400 ExpiredToken", Misconfigured),
        ("400 KMS.DisabledException", Misconfigured),
        ("301 PermanentRedirect", Misconfigured),
        ("403 RequestTimeTooSkewed", Misconfigured),
        ("400 KeyTooLongError", Refused),
    ],
)
def test_what_an_answer_means(client: str, answer: str, expected: type[EngineError]) -> None:
    """And the library below does not ask again by itself."""
    with odd_store(answer, client=client) as (server, blobs):
        with pytest.raises(expected) as raised:
            blobs.put("a", b"1")
        assert len(server.seen) == 1
    assert type(raised.value) is expected
    if isinstance(raised.value, Overloaded):
        assert raised.value.retry_after == (7.0 if client == "s3fs" else None)  # obstore does not show headers


def test_an_answer_that_cannot_be_read(client: str) -> None:
    with odd_store("garbled", client=client) as (_, blobs), pytest.raises(Unavailable):
        list(blobs.list(""))


def test_without_conditional_writes_put_looks_first(client: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), odd_store("unconditional", client=client) as (server, blobs):
        blobs.put("a", b"1")
        blobs.put("a", b"1")
        with pytest.raises(Conflict):
            blobs.put("a", b"2")
        assert blobs.get("a") == b"1"
        assert sum("if-none-match" in headers for headers in server.seen) == 1
    assert caplog.text.count("no conditional write") == 1


def test_a_server_that_ignores_the_condition_can_be_named(client: str) -> None:
    with odd_store("ignores", client=client, conditional=False) as (_, blobs):
        blobs.put("a", b"1")
        with pytest.raises(Conflict):
            blobs.put("a", b"2")
        assert blobs.get("a") == b"1"


def test_what_reads_back_as_other_bytes_is_a_bad_answer_and_does_not_stay(client: str) -> None:
    with odd_store("spoils", client=client) as (_, blobs):
        with pytest.raises(BadAnswer, match="a"):
            blobs.put("a", b"12")
        with pytest.raises(NotFound):
            blobs.get("a")
    with odd_store("spoils", client=client, conditional=False) as (server, blobs):
        with pytest.raises(BadAnswer, match="a"):
            blobs.put("a", b"12")
        assert server.objects == {"/odd/a": b"1"}  # without the condition it may be another writer's


def test_a_server_that_says_nothing_costs_the_timeout_once(client: str) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        options = S3Options(
            bucket="b",
            endpoint=f"http://127.0.0.1:{silent.getsockname()[1]}",
            key_id="k",
            secret=SECRET,
            client=client,  # type: ignore[arg-type]
            read_timeout=timedelta(seconds=0.3),
        )
        with closing(open_s3(options)) as blobs:
            started = time.monotonic()
            with pytest.raises(Unavailable):
                blobs.get("a")
            assert time.monotonic() - started < 5
