"""What every object store does: the fake, a folder, and a real S3 server through both clients."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.adapters.fsspec_blobs import open_folder, open_s3
from core.adapters.s3_options import S3Options
from core.errors import BadAnswer, Conflict, EngineError, NotFound, Refused
from core.ports import BlobStore
from tests.contract.fake_blobs import FakeBlobs
from tests.seaweed import S3Server

ENGINES = ["fake", "folder", "s3fs", "obstore"]
LASTING = [name for name in ENGINES if name != "fake"]
ROOT = Path(__file__).parents[2]
OPEN_AGAIN = """
from pathlib import Path, PosixPath
from core.adapters.s3_options import S3Options
from core.adapters.fsspec_blobs import open_folder, open_s3
import datetime, os, sys
{opening}
"""


@pytest.fixture(params=ENGINES)
def blobs(request: pytest.FixtureRequest) -> Iterator[BlobStore]:
    opened = opened_store(request.param, request)
    yield opened
    opened.close()


@pytest.fixture(params=LASTING)
def opening(request: pytest.FixtureRequest) -> str:
    """The Python that opens a store which several processes share."""
    if request.param == "folder":
        return f"open_folder(Path({str(request.getfixturevalue('tmp_path'))!r}))"
    options = s3_options(request.param, request)
    return f"open_s3({options!r})".replace("bucket=", f"secret={options.secret!r}, bucket=")


def opened_store(name: str, request: pytest.FixtureRequest) -> BlobStore:
    if name == "fake":
        return FakeBlobs()
    if name == "folder":
        return open_folder(request.getfixturevalue("tmp_path"))
    return open_s3(s3_options(name, request))


@pytest.fixture(scope="module")
def bucket(s3_server: S3Server) -> str:
    """One for all tests here: the first object in a bucket takes the server 200 ms."""
    s3_server.other_client().mkdir("blob-stores")
    return "blob-stores"


@pytest.fixture
def prefix() -> str:
    """The test's own part of the bucket."""
    return f"inner/{uuid.uuid4().hex}"


def s3_options(client: str, request: pytest.FixtureRequest) -> S3Options:
    server: S3Server = request.getfixturevalue("s3_server")
    bucket, prefix = request.getfixturevalue("bucket"), request.getfixturevalue("prefix")
    return server.options(bucket, prefix=prefix, client=client)


def keys_in(blobs: BlobStore, prefix: str = "") -> list[str]:
    return sorted(info.key for info in blobs.list(prefix))


def start(opening: str, work: str) -> subprocess.Popen[str]:
    """Another process that has the same store open as `blobs`, and does some work."""
    source = OPEN_AGAIN.format(opening=f"blobs = {opening}\n{work}")
    return subprocess.Popen(
        [sys.executable, "-c", source], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 40, b"\r\n"])
def test_gives_back_what_was_put(blobs: BlobStore, data: bytes) -> None:
    before = datetime.now(UTC) - timedelta(seconds=2)
    blobs.put("a/b/c.zst", data)
    assert blobs.get("a/b/c.zst") == data
    found = blobs.stat("a/b/c.zst")
    assert found is not None
    assert (found.key, found.size) == ("a/b/c.zst", len(data))
    assert before < found.modified < datetime.now(UTC) + timedelta(seconds=2)
    assert list(blobs.list("")) == [replace(found, modified=next(blobs.list("")).modified)]


def test_twelve_megabytes(blobs: BlobStore) -> None:
    """More than the size from which obstore would send parts, without asking whether there is one already."""
    data = os.urandom(12 << 20)
    blobs.put("large", data)
    assert blobs.get("large") == data
    with pytest.raises(Conflict):
        blobs.put("large", data[:-1])


def test_what_is_not_there(blobs: BlobStore) -> None:
    blobs.put("folder/a", b"1")
    for key in ("b", "folder", "folder/b", "folder/a/b"):
        assert blobs.stat(key) is None
        with pytest.raises(NotFound):
            blobs.get(key)
        blobs.delete(key)
    assert list(blobs.list("nothing/")) == []
    assert keys_in(blobs) == ["folder/a"]


def test_the_same_again_is_fine_and_other_bytes_are_refused(blobs: BlobStore) -> None:
    blobs.put("a", b"first")
    blobs.put("a", b"first")
    for other in (b"other", b"firs", b"first ", b""):
        with pytest.raises(Conflict, match="a"):
            blobs.put("a", other)
    assert blobs.get("a") == b"first"
    blobs.delete("a")
    blobs.put("a", b"other")
    assert blobs.get("a") == b"other"


def test_delete_may_be_repeated_and_takes_one_object(blobs: BlobStore) -> None:
    for key in ("a", "ab", "b/a", "b/ab"):
        blobs.put(key, b"1")
    for key in ("a", "a", "b/a", "b/a", "never", "b/never"):
        blobs.delete(key)
    assert keys_in(blobs) == ["ab", "b/ab"]


def test_a_prefix_is_a_folder_and_does_not_widen(blobs: BlobStore) -> None:
    keys = ["a/1", "a/b/2", "ab/3", "a.x/4", "a-/5", "aé/6", "b/a/7", "x"]
    assert blobs.put_many(dict.fromkeys(keys, b"1")) == {}
    assert keys_in(blobs) == sorted(keys)
    assert keys_in(blobs, "a/") == ["a/1", "a/b/2"]
    assert keys_in(blobs, "a/b/") == ["a/b/2"]
    assert keys_in(blobs, "x/") == []
    for prefix in ("a", "/", "a//", "../", "a/../", "/a/", ".uploads/"):
        with pytest.raises(Refused):
            blobs.list(prefix)


def test_objects_and_folders_of_one_name_never_harm_each_other(blobs: BlobStore) -> None:
    """A store may refuse the second, as folders do, or keep both, as S3 does."""
    blobs.put("a/b", b"inner")
    try:
        blobs.put("a", b"outer")
    except Conflict:
        assert blobs.stat("a") is None
    blobs.delete("a")
    assert blobs.get("a/b") == b"inner"
    blobs.put("c", b"outer")
    try:
        blobs.put("c/d", b"inner")
    except Conflict:
        assert blobs.stat("c/d") is None
    blobs.delete("c/d")
    assert blobs.get("c") == b"outer"
    assert keys_in(blobs) == ["a/b", "c"]


BAD_KEYS = [
    "", "/", "a/", "/a", "a//b", ".", "..", "a/.", "a/..", "../a", "a/../b", "./a", "/etc/passwd", "a\\b", "..\\a",
    "a\0b", "a\nb", "a\x7fb", "a\x85b", "a\ud800", "k" * 256, "é" * 128, "k" * 300 + "/a", "/".join("k" * 500),
    ".uploads", "a/.uploads/b",
]  # fmt: skip


def test_keys_that_are_no_paths_are_refused_by_every_call(blobs: BlobStore) -> None:
    calls = [blobs.get, blobs.stat, blobs.delete, lambda key: blobs.put(key, b"1")]
    bulk_calls = [blobs.get_many, blobs.delete_many]
    blobs.put("fine", b"1")
    for key in BAD_KEYS:
        for call in calls:
            with pytest.raises(Refused):
                call(key)
        for bulk_call in bulk_calls:
            with pytest.raises(Refused):
                bulk_call(["fine", key])
    failed = blobs.put_many({"fine": b"1"} | dict.fromkeys(BAD_KEYS, b"2"))
    assert {key: type(error) for key, error in failed.items()} == dict.fromkeys(BAD_KEYS, Refused)
    assert keys_in(blobs) == ["fine"]


ODD_KEYS = [
    "a b", " ", "a%2Fb", "%2F", "%", "%25", "q?x=1", "h#y", "?", "#?", "n?versionId=3", "n", "é", "e\u0301", "日本",
    "A-B", "a-b", "a_b", "+", "&amp;<x>", "~", "*", "[a]", "{a}", "a:b", "s3://x".replace("//", "/"), "'\"`$(x)",
    ".hidden", "...", "a..b", "..a", "-rf", "k" * 255, "k" * 254 + "j", "é" * 127, "\U0001f600", "\u200b", "\u2028",
]  # fmt: skip


def test_odd_keys_each_mean_an_object_of_their_own(blobs: BlobStore) -> None:
    """Also as folders: one tenant's objects are never listed, or deleted, with another's."""
    objects = {key: key.encode() for key in ODD_KEYS} | {f"folder/{key}/{key}": key.encode() for key in ODD_KEYS}
    assert blobs.put_many(objects) == {}
    assert blobs.get_many(list(objects)) == objects
    assert keys_in(blobs) == sorted(objects)
    for key in ODD_KEYS:
        assert blobs.get(key) == key.encode()
        assert keys_in(blobs, f"folder/{key}/") == [f"folder/{key}/{key}"]
    blobs.delete_many(ODD_KEYS[::2])
    assert blobs.get_many(ODD_KEYS).keys() == set(ODD_KEYS[1::2])
    assert len(keys_in(blobs, "folder/")) == len(ODD_KEYS)


def test_more_objects_than_one_answer_of_a_store_holds(blobs: BlobStore) -> None:
    objects = {f"many/{number % 7}/{number:05}": b"%d" % number for number in range(1205)}
    assert blobs.put_many(objects | {"manyfold": b"1"}) == {}
    assert keys_in(blobs, "many/") == sorted(objects)
    some = dict(list(objects.items())[:300])
    assert blobs.get_many([*some, "many/none"]) == some
    left = blobs.list("many/")
    next(left)
    del left  # nobody has to read to the end
    blobs.delete_many([*objects, "many/none"])
    assert keys_in(blobs) == ["manyfold"]


def test_nothing_to_do_in_bulk(blobs: BlobStore) -> None:
    assert blobs.put_many({}) == {}
    assert blobs.get_many([]) == {}
    blobs.delete_many([])


def test_one_bad_object_never_fails_the_others(blobs: BlobStore) -> None:
    blobs.put("taken", b"old")
    objects = {f"good/{number}": b"1" for number in range(40)}
    failed = blobs.put_many({"taken": b"new", **objects, "a//b": b"1"})
    assert {key: type(error) for key, error in failed.items()} == {"taken": Conflict, "a//b": Refused}
    assert keys_in(blobs, "good/") == sorted(objects)
    assert blobs.get("taken") == b"old"


def test_one_of_several_threads_wins(blobs: BlobStore) -> None:
    def put(number: int) -> EngineError | None:
        return blobs.put_many({"contested": b"%d" % number * 1000}).get("contested")

    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(put, range(4)))
    won = [number for number, error in enumerate(outcomes) if error is None]
    assert len(won) == 1
    assert all(isinstance(error, Conflict) for error in outcomes if error is not None)
    assert blobs.get("contested") == b"%d" % won[0] * 1000


@pytest.mark.parametrize("name", ENGINES)
def test_threads_share_a_store(name: str, request: pytest.FixtureRequest) -> None:
    blobs = opened_store(name, request)

    def work(number: int) -> bytes:
        key = f"{number % 3}/{number}"
        blobs.put(key, b"%d" % number)
        found = blobs.get(key)
        if number % 2:
            blobs.delete(key)
        return found

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(80))) == [b"%d" % number for number in range(80)]
    assert len(keys_in(blobs)) == 40
    blobs.close()


def test_one_of_two_processes_wins(opening: str) -> None:
    work = """
blobs.stat("warm")
print("ready", flush=True)
sys.stdin.readline()
print(sorted(blobs.put_many({f"contested/{n}": b"%d" % os.getpid() * 500 for n in range(15)})))
"""
    processes = [start(opening, work) for _ in range(2)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    lost = [set(eval(process.communicate(timeout=50)[0])) for process in processes]
    assert lost[0] | lost[1] == {f"contested/{number}" for number in range(15)}
    assert lost[0] & lost[1] == set()


def test_a_killed_writer_leaves_no_object(opening: str) -> None:
    work = """
blobs.stat("warm")
print("ready", flush=True)
for number in range(1000):
    blobs.put(f"large/{number}", bytes([number % 256]) * (24 << 20))
"""
    process = start(opening, work)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    process.kill()
    process.communicate()
    namespace: dict[str, object] = {}
    exec(OPEN_AGAIN.format(opening=f"blobs = {opening}"), namespace)
    blobs: BlobStore = namespace["blobs"]  # type: ignore[assignment]
    assert {info.size for info in blobs.list("")} <= {24 << 20}
    for number in range(len(keys_in(blobs)) + 1):  # what was whole is right, what was not can be put
        blobs.put(f"large/{number}", bytes([number % 256]) * (24 << 20))
    blobs.close()


@pytest.mark.parametrize("name", LASTING)
def test_what_another_client_changes_is_seen_at_once(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """And an object somebody wrote over is told by its bytes: a put of the right ones says Conflict."""
    blobs = opened_store(name, request)
    blobs.put("a/1", b"whole")
    blobs.put("a/2", b"whole")
    assert len(keys_in(blobs)) == 2
    assert blobs.stat("a/3") is None
    tamper(name, request, {"a/1": b"whol", "a/3": b"foreign", "a/2": None})
    assert blobs.get("a/1") == b"whol"
    found = blobs.stat("a/1")
    assert found is not None
    assert found.size == 4
    with pytest.raises(Conflict):
        blobs.put("a/1", b"whole")
    assert blobs.stat("a/2") is None
    assert keys_in(blobs) == ["a/1", "a/3"]
    blobs.put("a/2", b"again")
    assert blobs.get_many(["a/1", "a/2", "a/3"]) == {"a/1": b"whol", "a/2": b"again", "a/3": b"foreign"}
    blobs.close()


def tamper(name: str, request: pytest.FixtureRequest, changes: dict[str, bytes | None]) -> None:
    """Write over and remove objects through something that is not our client."""
    if name == "folder":
        root: Path = request.getfixturevalue("tmp_path")
        for key, data in changes.items():
            (root / key).unlink() if data is None else (root / key).write_bytes(data)
        return
    files = request.getfixturevalue("s3_server").other_client()
    for key, data in changes.items():
        path = f"blob-stores/{request.getfixturevalue('prefix')}/{key}"
        files.rm_file(path) if data is None else files.pipe_file(path, data)


KEYS = st.lists(st.sampled_from(["a", "b", "é", "e\u0301", "%", ".a"]), min_size=1, max_size=3).map("/".join)
STEPS = st.lists(st.tuples(st.sampled_from(["put", "put", "delete", "list"]), KEYS, st.binary(max_size=2)), max_size=25)


@settings(max_examples=40, deadline=None)
@given(steps=STEPS)
def test_a_folder_does_what_the_model_does(steps: list[tuple[str, str, bytes]]) -> None:
    """But for objects below an object's own key, which a folder refuses; the model skips those."""
    with tempfile.TemporaryDirectory() as folder:
        blobs, model = open_folder(Path(folder)), FakeBlobs()
        for step, key, data in steps:
            if step == "delete":
                blobs.delete(key)
                model.delete(key)
            elif step == "list":
                assert keys_in(blobs, f"{key}/") == keys_in(model, f"{key}/")
            else:
                blocked = any(key.startswith(f"{other}/") or other.startswith(f"{key}/") for other in model.objects)
                failed = blobs.put_many({key: data})
                expected = {key: Conflict("")} if blocked else model.put_many({key: data})
                assert {key: type(error) for key, error in failed.items()} == {
                    key: type(error) for key, error in expected.items()
                }
        assert {key: blobs.get(key) for key in keys_in(blobs)} == {
            key: data for key, (data, _) in model.objects.items()
        }


def test_the_fake_can_fail() -> None:
    fake = FakeBlobs()
    fake.failures["b"] = BadAnswer("spoilt")
    assert fake.put_many({"a": b"1", "b": b"2"}) == {"b": fake.failures["b"]}
    fake.failures[""] = BadAnswer("all spoilt")
    with pytest.raises(BadAnswer, match="all"):
        fake.get("a")
