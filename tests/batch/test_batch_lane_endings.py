"""Every ending of a batch job and of its lines: what came is kept once, the rest goes again or is set aside."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.batch.batch_lane import cancel, follow, sweep
from core.errors import EngineError, Misconfigured
from core.model.batch import JobState
from core.model.memory import Draft
from tests.batch.batch_engine import Lane
from tests.openai_server import Fault, Request, error_body

FATES = ["fine", "twice", "missing", "batch_expired", "500", "429", "400", "401", "zeros", "short"]


def numbers(count: int) -> list[str]:
    return [f"m{number}" for number in range(count)]


def test_of_ten_lines_six_come_in_another_order_three_fail_and_one_is_missing(lane: Lane) -> None:
    """Six are stored by custom id, four sent again; twice over it changes nothing."""
    lane.remember(*numbers(10))
    lane.submit()
    ends = ["fine", "500", "fine", "missing", "fine", "429", "fine", "500", "fine", "fine"]
    lane.provider.finish(fate=lambda number, text: ends[number])
    (job,) = lane.jobs()
    (followed,) = lane.follow()
    assert (followed.state, followed.kept) == (JobState.INGESTED, 6)
    assert (lane.job().kept, lane.job().again, lane.job().refused) == (6, 4, 0)
    assert follow(lane.engine.batch_work(), job).postponed  # it has ended: nothing is read again
    again = lane.submit()
    assert (again.texts, again.reused) == (4, 6)
    first = lane.provider.texts[:10]
    assert sorted(lane.provider.texts[10:]) == sorted(first[number] for number in (1, 3, 5, 7))
    lane.provider.finish()
    lane.follow()
    lane.drain()
    lane.assert_in_step()
    assert lane.online() == []


def test_results_downloaded_twice_are_kept_and_counted_once(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first time everything was kept, and the end of the job was not noted."""
    lane.remember(*numbers(10))
    lane.submit()
    lane.provider.finish()
    with monkeypatch.context() as patched:
        patched.setattr(lane.engine._jobs, "end", lambda *given, **named: (_ for _ in ()).throw(Misconfigured("no")))
        with pytest.raises(Misconfigured):
            lane.follow()
    lane.drain()
    (followed,) = lane.follow()
    assert (followed.state, followed.kept, lane.job().kept) == (JobState.INGESTED, 0, 10)
    (day,) = lane.engine.uses(1)
    assert (day.use.texts, day.use.batch_tokens) == (10, day.use.tokens)
    lane.assert_in_step()


def test_a_refused_line_is_set_aside_with_the_providers_words_and_none_of_the_texts(lane: Lane) -> None:
    lane.remember(*numbers(5))
    lane.submit()
    lane.provider.finish(fate=lambda number, text: "400" if number == 2 else "fine")
    lane.follow()
    assert lane.drain().embedded == 4
    (aside,) = lane.engine.set_aside("t")
    assert "HTTP 400" in aside.reason
    assert "SECRET-INPUT" not in aside.reason
    assert lane.job().refused == 1
    lane.engine.retry("t")
    lane.drain()
    lane.assert_in_step()


def test_a_job_that_expires_in_part_keeps_what_it_has(lane: Lane) -> None:
    lane.remember(*numbers(10))
    lane.submit()
    lane.provider.finish("expired", fate=lambda number, text: "fine" if number < 3 else "batch_expired")
    (followed,) = lane.follow()
    assert (followed.state, lane.job().kept, lane.job().again) == (JobState.EXPIRED, 3, 7)
    assert lane.submit().texts == 7
    lane.provider.finish()
    lane.follow()
    lane.drain()
    lane.assert_in_step()


def test_a_job_that_fails_validation_three_times_goes_the_normal_way(lane: Lane) -> None:
    lane.remember(*numbers(3))
    for _ in range(3):
        assert lane.submit().texts == 3
        lane.provider.finish("failed", code="invalid_json_line")
        (followed,) = lane.follow()
        assert followed.state is JobState.FAILED
    assert {job.note for job in lane.jobs()} == {"the provider refused the job (invalid_json_line)"}
    assert lane.submit().texts == 0
    assert lane.drain().embedded == 3
    assert len(lane.online()) == 3
    lane.assert_in_step()


def test_an_output_file_that_breaks_off_is_read_again_and_nothing_is_called_missing(lane: Lane) -> None:
    lane.remember(*numbers(8))
    lane.submit()
    lane.provider.finish()
    lane.provider.truncate = 700
    (followed,) = lane.follow()
    assert followed.postponed
    assert lane.job().state is not JobState.INGESTED
    lane.provider.truncate = None
    (followed,) = lane.follow()
    assert (followed.state, lane.job().kept, lane.job().again) == (JobState.INGESTED, 8, 0)


def test_a_last_line_that_is_cut_is_missing_and_the_others_are_not(lane: Lane) -> None:
    lane.remember(*numbers(5))
    lane.submit()
    lane.provider.finish()
    (output,) = [file for file, (name, _) in lane.provider.names.items() if name.startswith("output")]
    lane.provider.files[output] = lane.provider.files[output][:-50]
    lane.follow()
    assert (lane.job().kept, lane.job().again) == (4, 1)


def test_an_output_file_that_is_gone_frees_everything(lane: Lane) -> None:
    lane.remember(*numbers(5))
    lane.submit()
    lane.provider.finish()
    for file in [file for file, (name, _) in lane.provider.names.items() if name.startswith("output")]:
        del lane.provider.files[file]
    (followed,) = lane.follow()
    assert (followed.state, lane.job().again) == (JobState.INGESTED, 5)
    assert "file-" in (lane.job().note or "")
    lane.drain()
    lane.assert_in_step()


def test_a_record_changed_meanwhile_goes_the_normal_way_and_its_late_result_is_dropped(lane: Lane) -> None:
    lane.remember("same", "changed", "deleted", "payload")
    lane.submit()
    lane.engine.write("t", Draft(id="changed", content="quite other words"))
    lane.engine.delete("t", "deleted")
    lane.engine.update("t", "payload", {"importance": 0.9}, 1)
    assert lane.drain().embedded == 2  # the changed text at once; the payload's, too, for its entry is new
    lane.provider.finish()
    lane.follow()
    assert lane.drain().embedded == 1
    lane.assert_in_step()
    assert lane.waiting() == (0, 0, 0)
    for _ in range(2):
        sweep(lane.engine.batch_work(), "t")
    assert lane.run("SELECT count(*) FROM batch_item") == [(0,)]


def test_a_cancelled_job_frees_its_entries_at_once_and_what_was_ready_is_not_paid_for_again(lane: Lane) -> None:
    lane.remember(*numbers(6))
    lane.submit()
    assert lane.drain().worked == 0
    assert cancel(lane.engine.batch_work(), lane.job())
    assert lane.waiting() == (6, 0, 0)
    assert [batch["status"] for batch in lane.provider.batches.values()] == ["cancelling"]
    lane.provider.finish("cancelled", fate=lambda number, text: "fine" if number < 2 else "batch_cancelled")
    (followed,) = lane.follow()
    assert (followed.state, followed.kept) == (JobState.CANCELLED, 2)
    assert not cancel(lane.engine.batch_work(), lane.job())
    assert lane.drain().embedded == 6
    assert len(lane.online()) == 4
    lane.assert_in_step()


def test_a_job_cancelled_while_the_provider_is_away_is_cancelled_there_later(lane: Lane) -> None:
    lane.remember(*numbers(2))
    lane.submit()
    lane.provider.told = lambda request: Fault(status=503, body=error_body())
    assert cancel(lane.engine.batch_work(), lane.job())
    assert lane.drain().embedded == 2
    lane.provider.told = lambda request: None
    lane.follow()
    assert [batch["status"] for batch in lane.provider.batches.values()] == ["cancelling"]


def test_past_its_deadline_everything_goes_the_normal_way_and_the_job_is_cancelled(lane: Lane) -> None:
    lane.remember(*numbers(4))
    lane.submit()
    lane.the_deadline_passes()
    assert lane.submit().texts == 0
    assert lane.drain().embedded == 4
    assert len(lane.online()) == 4
    (followed,) = lane.follow()
    assert followed.state is JobState.CANCELLING
    assert [batch["status"] for batch in lane.provider.batches.values()] == ["cancelling"]
    lane.provider.finish("cancelled", fate=lambda number, text: "batch_cancelled")
    lane.follow()
    assert lane.job().state is JobState.CANCELLED
    lane.assert_in_step()


def test_a_job_nobody_knows_any_more_ends_with_its_deadline(lane: Lane) -> None:
    lane.remember(*numbers(2))
    lane.submit()
    lane.provider.batches.clear()
    (followed,) = lane.follow()
    assert "knows no" in (followed.postponed or "")
    lane.the_deadline_passes()
    (followed,) = lane.follow()
    assert followed.state is JobState.FAILED
    lane.drain()
    lane.assert_in_step()


def test_files_are_deleted_at_the_provider_once_they_were_kept(lane: Lane) -> None:
    lane.remember(*numbers(3))
    lane.submit()
    lane.provider.finish(fate=lambda number, text: "500" if number else "fine")
    assert len(lane.provider.files) == 3
    lane.follow()
    assert lane.provider.files == {}


ENDPOINTS = [("POST", "/v1/files"), ("POST", "/v1/batches"), ("GET", "/v1/batches/"), ("GET", "/v1/files/")]
FAULTS: list[Callable[[], Fault]] = [
    lambda: Fault(status=429, headers={"retry-after": "1"}, body=error_body("rate_limit_exceeded")),
    lambda: Fault(status=500, body=error_body()),
    lambda: Fault(status=500),  # it happened all the same
    lambda: Fault(reset=True),
]


@pytest.mark.parametrize("fault", FAULTS, ids=["429", "500", "500 after it happened", "reset after it happened"])
@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
def test_a_failure_at_any_endpoint_is_got_over_and_nothing_is_sent_twice(
    lane: Lane, method: str, path: str, fault: Callable[[], Fault]
) -> None:
    left = [2]

    def once(request: Request) -> Fault | None:
        if request.method == method and request.path.startswith(path) and left[0]:
            left[0] -= 1
            return fault()
        return None

    lane.remember(*numbers(4))
    lane.provider.told = once
    for _ in range(6):
        lane.submit()
        lane.leases_run_out()
        lane.follow()
        lane.provider.finish()
    lane.drain()
    assert lane.waiting() == (0, 0, 0)
    lane.assert_in_step()
    assert lane.online() == []
    assert len(lane.provider.texts) == 4
    assert left[0] < 2


@pytest.mark.parametrize("code", ["invalid_api_key", "insufficient_quota"])
def test_what_a_person_has_to_mend_stops_and_holds_nothing(lane: Lane, code: str) -> None:
    lane.remember(*numbers(3))
    status = 401 if code == "invalid_api_key" else 429
    lane.provider.told = lambda request: Fault(status=status, body=error_body(code, code))
    with pytest.raises(Misconfigured):
        lane.submit()
    assert lane.waiting() == (3, 0, 0)
    lane.provider.told = lambda request: None
    assert lane.submit().texts == 3


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_the_endings_everything_arrives_or_is_set_aside(lane: Lane, data: st.DataObject) -> None:
    """Any mix of endings, rounds and looks; in the end point and row agree, and no vector is wrong."""
    round_name = data.draw(st.integers(0, 10**9))
    lane.engine.retry("t")
    lane.drain()
    names = [f"r{round_name}-{number}" for number in range(6)]
    lane.remember(*names)
    for _ in range(data.draw(st.integers(1, 3))):
        lane.submit()
        fates = data.draw(st.lists(st.sampled_from(FATES), min_size=6, max_size=6))
        ending = data.draw(st.sampled_from(["completed", "expired", "cancelled", "failed"]))
        lane.provider.finish(ending, fate=lambda number, text, fates=fates: fates[number % 6])
        try:
            lane.follow()
        except EngineError as problem:
            raise AssertionError(problem.message) from None
    lane.drain()
    aside = [one.memory_id for one in lane.engine.set_aside("t")]
    assert lane.waiting()[0] == 0
    lane.assert_in_step(without=aside)
