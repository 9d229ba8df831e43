"""The archive chore: content leaves the record only when a whole copy lies in the object store."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import zstandard

from core.batch import archive
from core.batch.archive import Portion, plan
from core.errors import BadAnswer, Conflict, Unavailable
from core.model.archive import snippet
from core.model.compression import dictionary_bytes
from core.model.memory import Draft, embedding_id
from core.model.names import parse_archive_key
from core.model.query import Filters
from core.record.memories import Place
from core.write.restore import Became
from tests.batch.lifecycle_parts import Lifecycle, lifecycle_of
from tests.contract.fake_blobs import FakeBlobs
from tests.contract.fake_locks import FakeLocks

TEXT = "Ana told us at length why she prefers green tea in the mornings, and what she drinks when there is none left."


def written(life: Lifecycle, *ids: str, tenant: str = "t") -> None:
    drafts = [Draft(id=one, content=f"{TEXT} ({one})", title=f"about {one}", tags=("tea",)) for one in ids]
    list(life.writer.write_many(tenant, drafts))
    life.parts.drain(tenant)


def damaged(life: Lifecycle, key: str, data: bytes) -> None:
    life.blobs.delete(key)
    life.blobs.put(key, data)


def test_a_memory_that_rests_leaves_a_stub_and_one_whole_object(life: Lifecycle) -> None:
    written(life, "a", "b")
    life.age(ids=["a"])
    report = life.archive()
    assert (report.archived, report.failed) == (1, {})
    assert report.bytes_before > 2 * report.bytes_after > 0
    stub = life.row("a")
    assert (stub["tier"], stub["title"], stub["tags"]) == ("archive", "about a", ["tea"])
    assert stub["content"]
    assert TEXT.startswith(stub["content"])
    assert len(stub["content"]) <= len(TEXT) // 2
    (key,) = life.objects()
    assert parse_archive_key(key) == ("t", "a", 1)
    assert [one["memory_id"] for one in life.sql("SELECT * FROM event WHERE kind = 'memory.archived'")] == ["a"]
    versions = life.sql("SELECT record FROM memory_version WHERE id = 'a'")
    assert not [one for one in versions if TEXT in str(one)]  # no copy of the content stays beside the stub
    life.parts.drain()
    life.parts.assert_in_step()
    assert len(life.parts.stamps()) == 1
    assert life.archive().archived == 0


def test_an_object_can_be_read_without_the_engine(life: Lifecycle) -> None:
    """Plain zstandard with the dictionary that lies beside, and plain JSON with a format number."""
    written(life, "a")
    life.age()
    life.archive()
    kept = life.blobs.get("@archive/dictionary-1.zdict")
    assert kept == dictionary_bytes(1)
    data = zstandard.ZstdDecompressor(zstandard.ZstdCompressionDict(kept)).decompress(life.blobs.get(life.objects()[0]))
    found = json.loads(data)
    assert (found["format"], found["record"]["content"]) == (1, f"{TEXT} (a)")


def test_reading_an_archived_memory_gives_all_of_it_and_listing_its_beginning(life: Lifecycle) -> None:
    written(life, "a")
    life.age()
    life.archive()
    memory = life.get("a")
    assert (memory.content, memory.tier, memory.stored) == (f"{TEXT} (a)", "archive", None)
    (listed,) = life.reader.page("t", Place(), 10)
    assert listed.stored is not None
    assert TEXT.startswith(listed.content)


def test_a_stub_is_found_by_every_word_of_its_text_and_answered_whole(life: Lifecycle) -> None:
    long = " ".join(f"w{number}" for number in range(500)) + " marmalade"
    life.writer.write("t", Draft(id="a", content=long, title="of breakfast", tags=("food",), session="s", position=1))
    life.writer.write("t", Draft(id="b", content="toast", session="s", position=2))
    life.parts.drain()
    life.age(ids=["a"])
    life.archive()
    life.parts.drain()
    (hit,) = [one for one in life.reader.search("t", "marmalade", 5, Filters()).found if one.memory.id == "a"]
    assert (hit.memory.content, hit.memory.tier, hit.memory.tags) == (long, "archive", ("food",))
    archived_only = Filters(tier="archive")
    assert [one.memory.id for one in life.reader.search("t", "marmalade", 5, archived_only).found] == ["a"]
    life.blobs.delete(life.objects()[0])
    answer = life.reader.search("t", "marmalade", 5, archived_only)
    assert [one.memory.content for one in answer.found] == [snippet(long)]
    assert answer.degraded is not None
    assert "not whole" in answer.degraded
    life.writer.delete("t", "a")
    assert life.reader.search("t", "marmalade", 5, archived_only).found == ()


def test_restore_makes_it_warm_and_found_again(life: Lifecycle) -> None:
    written(life, "a")
    life.age()
    life.archive()
    life.parts.drain()
    assert life.parts.stamps() == {}
    assert [one.became for one in life.restore("a", "nobody")] == [Became.RESTORED, Became.GONE]
    assert [one.became for one in life.restore("a")] == [Became.WARM]
    life.parts.drain()
    life.parts.assert_in_step()
    row = life.row("a")
    assert (row["content"], row["tier"], row["archive_uri"]) == (f"{TEXT} (a)", "warm", None)
    assert life.archive().archived == 0  # its rest begins anew


def test_an_archived_memory_can_be_updated_and_the_new_version_lives_in_the_record(life: Lifecycle) -> None:
    written(life, "a")
    life.age()
    life.archive()
    stub = life.get("a")
    life.writer.update("t", "a", {"importance": 0.7}, stub.version)
    row = life.row("a")
    assert (row["content"], row["tier"], row["importance"]) == (f"{TEXT} (a)", "warm", 0.7)


def test_importing_the_same_again_leaves_the_archive_alone(life: Lifecycle) -> None:
    written(life, "a")
    life.age()
    life.archive()
    version = life.row("a")["version"]
    written(life, "a")
    assert (life.row("a")["version"], life.row("a")["tier"]) == (version, "archive")


def test_what_changes_between_put_and_commit_keeps_its_row(life: Lifecycle, monkeypatch: pytest.MonkeyPatch) -> None:
    written(life, "changed", "deleted", "kept", "read", "same")
    life.age()
    original = life.archive_work.blobs.put_many

    def meanwhile(objects: dict[str, bytes]) -> dict[str, Exception]:
        result = original(objects)
        life.writer.update("t", "changed", {"content": "newer words"}, 1)
        life.writer.delete("t", "deleted")
        life.sql("UPDATE memory SET keep = true WHERE id = 'kept'")
        life.sql("UPDATE memory SET accessed_at = now() WHERE id = 'read'")
        return result  # type: ignore[return-value]

    monkeypatch.setattr(life.archive_work.blobs, "put_many", meanwhile)
    report = life.archive()
    assert (report.archived, report.moved_on) == (1, 4)
    assert {one["id"] for one in life.sql("SELECT id FROM memory WHERE tier = 'archive'")} == {"same"}
    assert life.get("changed").content == "newer words"
    assert life.get("read").content == f"{TEXT} (read)"


@pytest.mark.parametrize("cut", [lambda data: data[:-1], lambda data: b"", lambda data: b"x" + data[1:]])
def test_a_damaged_object_is_refused_and_nothing_is_overwritten(life: Lifecycle, cut: object) -> None:
    written(life, "a", "b")
    life.age()
    life.archive()
    key = life.row("a")["archive_uri"]
    assert callable(cut)
    damaged(life, key, cut(life.blobs.get(key)))
    before = life.row("a")
    with pytest.raises(BadAnswer):
        life.get("a")
    assert [one.became for one in life.restore("a", "b")] == [Became.DAMAGED, Became.RESTORED]
    assert life.row("a") == before
    with pytest.raises(BadAnswer):
        life.writer.update("t", "a", {"importance": 0.9}, before["version"])
    _, said = life.reader._rehydrate.hits({"a": life.reader.page("t", Place(), 9)[-1]})  # type: ignore[union-attr]
    assert said is not None


def test_of_an_archived_memory_deleted_or_updated_the_newer_state_wins(life: Lifecycle) -> None:
    written(life, "deleted", "updated")
    life.age()
    life.archive()
    original = life.contents.fetch

    def meanwhile(keys: list[str]) -> dict[str, bytes]:
        objects = original(keys)
        life.writer.delete("t", "deleted")
        life.writer.write("t", Draft(id="updated", content="newer words"))
        return objects

    life.contents.fetch = meanwhile  # type: ignore[method-assign, assignment]
    found = life.restore("deleted", "updated")
    assert [one.became for one in found] == [Became.NEWER, Became.NEWER]
    assert all("newer state stays" in (one.reason or "") for one in found)
    assert life.row("deleted")["deleted_at"] is not None
    assert life.row("updated")["content"] == "newer words"


def test_a_store_that_fails_costs_nothing_but_time(database_url: str, tmp_path: Path) -> None:
    blobs = FakeBlobs()
    life = lifecycle_of(database_url, tmp_path, blobs=blobs)
    written(life, "a", "b")
    life.age()
    blobs.failures[""] = Unavailable("away")
    report = life.archive()
    assert (report.archived, report.postponed) == (0, "away")
    assert life.get("a").content == f"{TEXT} (a)"
    del blobs.failures[""]
    blobs.put("@archive/dictionary-1.zdict", dictionary_bytes(1))
    original = blobs.put

    def one_truncated(key: str, data: bytes) -> None:
        if "/a." in key:
            raise BadAnswer("reads back as other bytes")
        original(key, data)

    blobs.put = one_truncated  # type: ignore[method-assign]
    report = life.archive()
    assert (report.archived, list(report.failed)) == (1, ["a"])  # one bad object fails no neighbour
    assert (life.row("a")["tier"], life.row("b")["tier"]) == ("warm", "archive")
    blobs.failures[""] = Unavailable("away")
    with pytest.raises(Unavailable):
        life.get("b")
    with pytest.raises(Unavailable):
        life.restore("b")
    life.close()


def test_other_bytes_of_the_same_record_under_the_key_are_taken_as_they_are(life: Lifecycle) -> None:
    """A run that died after its put, made by another release, say: the copy that is there is the copy."""
    written(life, "a", "b")
    life.age()
    life.archive()
    key_a, key_b = life.row("a")["archive_uri"], life.row("b")["archive_uri"]
    plain = zstandard.ZstdDecompressor(zstandard.ZstdCompressionDict(dictionary_bytes(1)))
    again = zstandard.ZstdCompressor(level=1).compress(plain.decompress(life.blobs.get(key_a)))
    damaged(life, key_a, again)
    damaged(life, key_b, b"not an archived memory")
    for one in ("a", "b"):
        life.sql(
            "UPDATE memory SET version = 1, tier = 'warm', archive_uri = NULL, archive_sha256 = NULL,"
            " content_sha256 = NULL, content = %s WHERE id = %s",
            f"{TEXT} ({one})",
            one,
        )
    report = life.archive()
    assert (report.archived, list(report.failed)) == (1, ["b"])
    assert life.get("a").content == f"{TEXT} (a)"
    assert life.row("b")["content"] == f"{TEXT} (b)"
    with pytest.raises(Conflict):
        life.blobs.put(key_a, b"anything else")


@pytest.mark.parametrize("pair", [("..", "."), ("acme", "acme/x"), ("a-b", "a_b"), ("A-B", "a-b"), ("ü", "u\u0308")])
def test_tenants_keep_to_their_own_prefix(life: Lifecycle, tmp_path: Path, pair: tuple[str, str]) -> None:
    for tenant in pair:
        written(life, "../../x", "a/b.v9", tenant=tenant)
    life.age()
    for tenant in pair:
        assert life.archive(tenant).archived == 2
    parsed = [parse_archive_key(key) for key in life.objects()]
    assert sorted(one[:2] for one in parsed if one) == sorted((t, i) for t in pair for i in ("../../x", "a/b.v9"))
    life.writer.delete_many(pair[0], ["../../x", "a/b.v9"])
    assert (life.reap(pair[0]).waiting, len(life.objects())) == (2, 4)  # a put of them may still arrive
    life.arrived()
    life.reap(pair[0])
    assert {one[0] for key in life.objects() if (one := parse_archive_key(key))} == {pair[1]}
    assert life.get("../../x", pair[1]).content == f"{TEXT} (../../x)"
    assert {path.name for path in tmp_path.iterdir()} == {"vectors", "objects"}


def test_of_two_archivers_of_one_tenant_one_works_and_the_other_says_so(life: Lifecycle) -> None:
    locks = FakeLocks()
    life.archive_work = replace(life.archive_work, locks=locks)
    written(life, "a")
    life.age()
    locks.take("archive:t", "another", timedelta(seconds=60))
    report = life.archive()
    assert (report.archived, report.next) == (0, None)
    assert "under way elsewhere" in (report.postponed or "")
    locks.out_of_reach = True  # the lock only spares work: without it the same comes out
    assert life.archive().archived == 1


def test_two_at_once_without_locks_leave_one_complete_copy_each(life: Lifecycle) -> None:
    from concurrent.futures import ThreadPoolExecutor

    names = [f"m{number:02}" for number in range(40)]
    written(life, *names)
    life.age()
    with ThreadPoolExecutor(2) as threads:
        reports = list(threads.map(lambda _: life.archive(), range(2)))
    assert sum(report.archived for report in reports) == 40
    assert not any(report.failed for report in reports)
    assert [life.get(name).content for name in names] == [f"{TEXT} ({name})" for name in names]
    assert len(life.objects()) == 40


def test_warm_turns_cold_and_comes_back_when_it_is_read(life: Lifecycle) -> None:
    written(life, "a", "vip")
    life.sql("UPDATE memory SET importance = 0.95 WHERE id = 'vip'")
    life.age(40)
    report = life.archive()
    assert (report.cooled, life.row("a")["tier"], life.row("vip")["tier"]) == (1, "cold", "warm")
    assert life.row("a")["version"] == 1  # a tier is no change of the memory
    life.get("a")
    life.reader._rehydrate._access.flush()  # type: ignore[union-attr]
    assert (life.archive().warmed, life.row("a")["tier"]) == (1, "warm")


def test_what_is_kept_is_neither_moved_nor_reaped(life: Lifecycle) -> None:
    written(life, "a")
    life.age()
    life.sql("UPDATE memory SET keep = true")
    assert life.archive().archived == 0
    life.sql("UPDATE memory SET expires_at = now() - interval '1 day'")
    assert life.reap().expired == 0


def test_a_large_text_lives_in_an_object_and_is_still_indexed_found_and_read_whole(life: Lifecycle) -> None:
    long = "x" * 3000 + " marmalade"
    life.writer.write("t", Draft(id="big", content=long))
    life.writer.write("t", Draft(id="small", content="toast"))
    life.parts.drain()
    life.archive_work = replace(life.archive_work, large=2000)
    before = life.parts.stamps()
    report = life.archive()
    assert (report.large, report.archived) == (1, 0)
    embedded = len(life.parts.embedder.texts)
    life.parts.drain()
    life.parts.assert_in_step()
    assert len(life.parts.embedder.texts) == embedded  # the text is the same: only the payload is written
    point = embedding_id("t", "big")
    assert life.parts.stamps()[point].text_hash == before[point].text_hash
    assert (life.row("big")["tier"], life.row("big")["content"]) == ("warm", snippet(long))
    assert life.get("big").content == long
    assert life.reader.search("t", "marmalade", 1, Filters()).found[0].memory.content == long
    assert life.writer.write("t", Draft(id="big", content=long)).version is None
    life.age(ids=["big"])
    assert life.archive().archived == 1
    life.parts.drain()
    assert point not in life.parts.stamps()
    assert life.get("big").content == long
    assert [one.became for one in life.restore("big")] == [Became.RESTORED]
    assert life.row("big")["content"] == long


def test_a_large_text_whose_object_is_damaged_is_set_aside_and_fails_no_neighbour(life: Lifecycle) -> None:
    life.writer.write("t", Draft(id="big", content="y" * 3000))
    life.archive_work = replace(life.archive_work, large=2000)
    life.archive()
    (key,) = life.objects()
    life.blobs.delete(key)
    life.writer.write("t", Draft(id="small", content="toast"))
    report = life.parts.drain()
    assert set(report.set_aside) == {"big"}
    assert set(life.parts.stamps()) == {embedding_id("t", "small")}


def test_plan_gives_each_tenant_its_beginning() -> None:
    assert plan(["a", "b"]) == [Portion(tenant="a"), Portion(tenant="b")]
    assert archive.total("a", []) == archive.Report(tenant="a")
