"""What the throttle promises, in one process and shared through Valkey alike."""

from __future__ import annotations

import heapq
import itertools
import multiprocessing
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.adapters.local_throttle import LocalThrottle
from core.adapters.redis_server import RedisServer
from core.adapters.redis_throttle import RedisThrottle
from core.errors import Misconfigured
from core.model.quota import Grant, Lane, Quota, Wait, provider_key
from tests.tcp_proxy import tcp_proxy
from tests.valkeys import cluster_of_one, tcp_valkey

SECONDS = 2.0  # a short minute, so that real servers can be waited for
MINUTE = timedelta(seconds=SECONDS)
LEASE = timedelta(seconds=0.5)
TIMEOUT = timedelta(seconds=2)
SENDING = 0.05
LANES: st.SearchStrategy[Lane] = st.sampled_from(("query", "bulk"))
Throttle = LocalThrottle | RedisThrottle


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(0.0, seconds)


@dataclass
class Engine:
    """A throttle as two workers see it, and its time."""

    one: Throttle
    other: Throttle
    now: Callable[[], float]
    sleep: Callable[[float], None]

    def grants(self, lane: Lane, quota: Quota, tokens: int = 1, owner: str = "w", most: int = 1000) -> list[Grant]:
        """What is granted in a row until something has to wait."""
        found: list[Grant] = []
        while len(found) < most and isinstance(answer := self.one.take("k", tokens, lane, quota, owner), Grant):
            found.append(answer)
        return found

    def wait(self, lane: Lane, quota: Quota, tokens: int = 1, owner: str = "w", tenant: str | None = None) -> float:
        answer = self.other.take("k", tokens, lane, quota, owner, tenant)
        assert isinstance(answer, Wait)
        return answer.seconds


@pytest.fixture(params=["local", "redis"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    if request.param == "local":
        clock = Clock()
        throttle = LocalThrottle(window=MINUTE, lease=LEASE, clock=clock)
        yield Engine(throttle, throttle, clock, clock.sleep)
        return
    servers = [RedisServer(request.getfixturevalue("valkey_url"), timeout=TIMEOUT) for _ in range(2)]
    one, other = (RedisThrottle(server, prefix="t:", share=0.25, window=MINUTE, lease=LEASE) for server in servers)
    yield Engine(one, other, time.monotonic, lambda seconds: time.sleep(max(0.0, seconds)))
    for server in servers:
        assert server.failures == 0
        server.close()


def test_requests_are_limited_and_the_wait_told_is_enough(engine: Engine) -> None:
    quota = Quota(requests_per_minute=5)
    assert len(engine.grants("query", quota)) == 5
    wait = engine.wait("query", quota)
    assert 0.9 * SECONDS < wait <= 1.02 * SECONDS
    assert isinstance(engine.one.take("another key", 1, "query", quota, "w"), Grant)
    engine.sleep(wait)
    assert engine.grants("query", quota, most=1)


def test_tokens_are_weighed(engine: Engine) -> None:
    quota = Quota(tokens_per_minute=100)
    assert len(engine.grants("query", quota, tokens=30)) == 3
    assert len(engine.grants("query", quota, tokens=10, owner="small")) == 0  # who waits goes first
    assert len(engine.grants("query", quota, tokens=10)) == 1
    engine.sleep(engine.wait("query", quota, tokens=100))
    assert len(engine.grants("query", quota, tokens=100)) == 1


def test_what_the_tokens_refuse_counts_as_no_request(engine: Engine) -> None:
    quota = Quota(requests_per_minute=3, tokens_per_minute=100, at_once=3)
    assert len(engine.grants("query", quota, tokens=90)) == 1
    for _ in range(5):
        engine.wait("query", quota, tokens=20)
    assert len(engine.grants("query", quota, tokens=1)) == 2


def test_without_limits_everything_passes(engine: Engine) -> None:
    assert len(engine.grants("bulk", Quota(), tokens=10**9, most=50)) == 50


def test_slots_are_freed(engine: Engine) -> None:
    quota = Quota(at_once=2)
    first, _ = engine.grants("bulk", quota)
    engine.wait("bulk", quota)
    engine.other.give_back("k", first)
    engine.other.give_back("k", first)
    assert len(engine.grants("bulk", quota)) == 1


def test_slots_of_the_dead_run_out(engine: Engine) -> None:
    quota = Quota(at_once=2)
    assert len(engine.grants("bulk", quota)) == 2
    engine.sleep(LEASE.total_seconds() + 0.01)
    assert len(engine.grants("bulk", quota)) == 2


def test_more_tokens_than_the_limit_pass_alone_and_cost_their_time(engine: Engine) -> None:
    quota = Quota(tokens_per_minute=100)
    assert len(engine.grants("bulk", quota, tokens=10, most=1)) == 1
    wait = engine.wait("bulk", quota, tokens=150, owner="big")
    assert wait > 0.9 * SECONDS
    engine.sleep(wait / 2)
    engine.wait("bulk", quota, tokens=10)  # nobody slips in before it
    engine.sleep(wait / 2)
    assert len(engine.grants("bulk", quota, tokens=150, owner="big")) == 1
    assert 1.4 * SECONDS < engine.wait("query", quota, tokens=10) < 1.6 * SECONDS


@pytest.mark.parametrize(("used", "left"), [(1, 99), (20, 80), (90, 10), (None, 50)])
def test_the_estimate_is_put_right(engine: Engine, used: int | None, left: int) -> None:
    quota = Quota(tokens_per_minute=100)
    [grant] = engine.grants("bulk", quota, tokens=50, most=1)
    engine.other.give_back("k", grant, used)
    engine.wait("query", quota, tokens=left + 1)
    assert len(engine.grants("query", quota, tokens=left)) == 1


def test_a_cool_down_is_everybodys_and_the_longest_wins(engine: Engine) -> None:
    engine.one.cool_down("k", 0.4)
    engine.one.cool_down("k", 0.1)
    engine.one.cool_down("k", -1)
    assert engine.other.cooling(["k", "l"]) == {"k"}
    for lane in ("query", "bulk"):
        assert 0.3 < engine.wait(lane, Quota()) <= 0.401
    engine.other.cool_down("k", 0.6)
    wait = engine.wait("bulk", Quota())
    assert 0.5 < wait <= 0.601
    engine.sleep(wait)
    assert engine.one.cooling(["k"]) == engine.other.cooling(["k"]) == frozenset()
    assert len(engine.grants("bulk", Quota(), most=1)) == 1


def test_queries_pass_while_bulk_work_fills_everything(engine: Engine) -> None:
    quota = Quota(requests_per_minute=20, tokens_per_minute=2000, at_once=30, kept_for_queries=0.1)
    until, bulk = engine.now() + 0.98 * SECONDS, 0
    while engine.now() < until:
        answer = engine.one.take("k", 100, "bulk", quota, "w")
        if isinstance(answer, Grant):
            bulk += 1
        else:
            engine.sleep(min(answer.seconds, until - engine.now()))
    assert bulk == 18
    assert len(engine.grants("query", quota, tokens=100, owner="q")) == 2


def test_slots_are_kept_for_queries(engine: Engine) -> None:
    quota = Quota(at_once=5, kept_for_queries=0.1)
    assert len(engine.grants("bulk", quota)) == 4
    assert len(engine.grants("query", quota, owner="q")) == 1
    assert len(engine.grants("bulk", Quota(at_once=1, kept_for_queries=0.5))) == 0


def test_those_that_wait_are_told_different_moments_and_need_not_ask_twice(engine: Engine) -> None:
    quota = Quota(requests_per_minute=20)
    engine.grants("bulk", quota)
    told = [(engine.now() + engine.wait("bulk", quota, owner=str(worker)), str(worker)) for worker in range(4)]
    assert told == sorted(told)
    assert told[-1][0] - told[0][0] > 2.5 * SECONDS / 20 / 1.2
    for moment, owner in told:
        engine.sleep(moment - engine.now())
        assert engine.grants("bulk", quota, owner=owner, most=1), owner


def test_who_gives_up_keeps_nobody_waiting(engine: Engine) -> None:
    quota = Quota(requests_per_minute=2)
    assert len(engine.grants("query", quota)) == 2
    for gone in range(4):
        engine.wait("query", quota, owner=f"gone{gone}")
        engine.one.leave("k", f"gone{gone}")
    assert engine.wait("query", quota) <= 1.02 * SECONDS


def drive(engine: Engine, quota: Quota, pauses: dict[str, float], seconds: float) -> dict[str, list[float]]:
    """Grants of nine workers that send for 50 ms, pause as their tenant does, and ask when they were told to."""
    workers = {**{f"storm{number}": "storm" for number in range(8)}, "calm": "calm"}
    found: dict[str, list[float]] = {tenant: [] for tenant in pauses}
    start = engine.now()
    events: list[tuple[float, int, str, Grant | None]] = []
    ticket = itertools.count()
    for number, owner in enumerate(workers):
        heapq.heappush(events, (start + number * 1e-3, next(ticket), owner, None))
    while events[0][0] < start + seconds:
        moment, _, owner, grant = heapq.heappop(events)
        engine.sleep(moment - engine.now())
        tenant = workers[owner]
        if grant is not None:
            engine.one.give_back("k", grant)
            heapq.heappush(events, (engine.now() + pauses[tenant], next(ticket), owner, None))
            continue
        answer = engine.one.take("k", 10, "bulk", quota, owner, tenant)
        if isinstance(answer, Grant):
            found[tenant].append(engine.now() - start)
            heapq.heappush(events, (engine.now() + SENDING, next(ticket), owner, answer))
        else:
            heapq.heappush(events, (engine.now() + answer.seconds, next(ticket), owner, None))
    return found


@pytest.mark.parametrize(
    ("quota", "possible"),
    [
        (Quota(requests_per_minute=60), 60),
        (Quota(tokens_per_minute=600), 60),
        (Quota(at_once=2, requests_per_minute=6000), 2 * SECONDS / SENDING),
    ],
)
def test_of_two_tenants_that_storm_the_one_with_fewer_workers_gets_its_turns(
    engine: Engine, quota: Quota, possible: float
) -> None:
    found = drive(engine, quota, {"storm": 0.0, "calm": 0.0}, 1.5 * SECONDS)
    calm, storm = len(found["calm"]), len(found["storm"])
    assert calm >= 0.3 * storm  # by the number of workers it would have an eighth
    assert calm + storm >= 0.8 * 1.5 * possible


def test_who_asks_now_and_then_waits_for_a_turn_and_not_for_a_storm(engine: Engine) -> None:
    quota, pause = Quota(requests_per_minute=60), 0.2
    found = drive(engine, quota, {"storm": 0.0, "calm": pause}, 1.5 * SECONDS)["calm"]
    waits = sorted(after - before - pause - SENDING for before, after in itertools.pairwise(found))
    interval = SECONDS / 60
    assert len(found) >= 6
    assert waits[len(waits) // 2] < 3 * interval  # behind eight others it would be eight
    assert waits[-1] < SECONDS / 5  # the minute was used up a little before its end


def test_redis_gone_each_takes_its_share_and_back_they_share_again(tmp_path: Path) -> None:
    clock = Clock()
    quota = Quota(requests_per_minute=8, at_once=4)
    with tcp_valkey(tmp_path) as port, tcp_proxy(port) as proxy:
        server = RedisServer(f"redis://127.0.0.1:{proxy.port}", timeout=timedelta(milliseconds=300), clock=clock)
        throttle = RedisThrottle(server, prefix="t:", share=0.25, window=timedelta(minutes=1), clock=clock)
        shared = throttle.take("k", 1, "query", quota, "w")
        assert isinstance(shared, Grant)
        proxy.refuse()
        alone = throttle.take("k", 1, "query", quota, "w")
        assert isinstance(alone, Grant)
        assert isinstance(throttle.take("k", 1, "query", quota, "w"), Wait)  # a quarter of 4 slots
        throttle.give_back("k", shared)  # is lost: its lease will run out
        throttle.give_back("k", alone, 5)
        second = throttle.take("k", 1, "query", quota, "w")
        assert isinstance(second, Grant)
        throttle.give_back("k", second)
        assert isinstance(throttle.take("k", 1, "query", quota, "w"), Wait)  # a quarter of 8 requests
        throttle.cool_down("other", 60)
        assert throttle.cooling(["k", "other"]) == {"other"}
        proxy.restore()
        clock.now += 31
        assert isinstance(throttle.take("k", 1, "query", quota, "w"), Grant)
        assert isinstance(throttle.take("other", 1, "query", quota, "w"), Wait)  # told it, and now tells it to all
        other_server = RedisServer(f"redis://127.0.0.1:{port}", timeout=TIMEOUT)
        newcomer = RedisThrottle(other_server, prefix="t:", share=0.25)
        assert newcomer.cooling(["k", "other"]) == {"other"}
        assert [isinstance(newcomer.take("k", 1, "query", quota, "n"), Grant) for _ in range(3)] == [True, True, False]
        other_server.close()
        server.close()


def test_it_works_on_a_cluster(tmp_path: Path) -> None:
    with cluster_of_one(tmp_path) as url:
        server = RedisServer(url, timeout=TIMEOUT)
        throttle = RedisThrottle(server, prefix="t:", share=0.25)
        assert isinstance(throttle.take("k", 1, "bulk", Quota(at_once=1), "w"), Grant)
        assert isinstance(throttle.take("k", 1, "bulk", Quota(at_once=1), "w"), Wait)
        throttle.cool_down("l", 60)
        assert throttle.cooling(["k", "l"]) == {"l"}
        assert server.failures == 0
        server.close()


def test_a_key_tells_neither_endpoint_nor_secret() -> None:
    name = provider_key("https://api.example/v1", "sk-secret")
    assert name == provider_key("https://api.example/v1", "sk-secret")
    assert set(name) <= set("0123456789abcdef")
    assert name != provider_key("https://api.example/v1s", "k-secret")


@pytest.mark.parametrize("wrong", [{"at_once": 0}, {"tokens_per_minute": -1}, {"kept_for_queries": 1.0}])
def test_a_quota_that_allows_nothing_is_a_mistake(wrong: dict[str, int]) -> None:
    with pytest.raises(Misconfigured):
        Quota(**wrong)


def most_in_a_window(grants: list[tuple[float, int]], window: float) -> int:
    """The largest sum of any half-open window, of grants in the order of time."""
    most, start, total = 0, 0, 0
    for moment, amount in grants:
        total += amount
        while grants[start][0] <= moment - window:
            total -= grants[start][1]
            start += 1
        most = max(most, total)
    return most


@settings(max_examples=60, deadline=None)
@given(
    requests=st.integers(1, 300),
    tokens=st.integers(1, 50_000),
    kept=st.sampled_from([0.0, 0.05, 0.3]),
    asks=st.lists(st.tuples(LANES, st.integers(0, 3), st.integers(1, 5000), st.floats(0, 20)), min_size=50),
)
def test_no_window_passes_the_limit(
    requests: int, tokens: int, kept: float, asks: list[tuple[Lane, int, int, float]]
) -> None:
    clock = Clock()
    throttle = LocalThrottle(clock=clock)
    quota = Quota(requests_per_minute=requests, tokens_per_minute=tokens, kept_for_queries=kept)
    grants: list[tuple[float, int]] = []
    for lane, worker, wanted, pause in asks:
        amount = min(wanted, max(1, int(tokens * (1 - kept))))  # larger ones pass alone: another test
        for _ in range(3):  # asking again as told, now and then
            answer = throttle.take("k", amount, lane, quota, f"{lane}{worker}")
            if isinstance(answer, Grant):
                grants.append((clock.now, amount))
                break
            clock.now += answer.seconds if pause < 10 else 0.01
        clock.now += pause if pause < 1 else 0
    assert most_in_a_window([(moment, 1) for moment, _ in grants], 60) <= 1.02 * requests
    assert most_in_a_window(grants, 60) <= 1.02 * tokens


SHORT_MINUTE = timedelta(seconds=4)
MINUTES = 2
FULL = Quota(requests_per_minute=120, tokens_per_minute=2400, at_once=16)


def work(url: str, prefix: str, worker: int, until: float) -> list[tuple[float, int, bool]]:
    """Ask, send, ask again when told to, as a worker does: moment, tokens and success of every question."""
    server = RedisServer(url, timeout=TIMEOUT)
    throttle = RedisThrottle(server, prefix=prefix, share=0.25, window=SHORT_MINUTE)
    asked: list[tuple[float, int, bool]] = []
    sizes = itertools.cycle([5, 40, 10, 30, 25, 10])
    tokens = next(sizes)
    while (now := time.monotonic()) < until:
        answer = throttle.take("k", tokens, "bulk", FULL, f"w{worker}")
        asked.append((now, tokens, isinstance(answer, Grant)))
        if isinstance(answer, Wait):
            time.sleep(answer.seconds)
            continue
        time.sleep(0.005)
        throttle.give_back("k", answer, tokens)
        tokens = next(sizes)
    assert server.failures == 0
    server.close()
    return asked


def test_four_processes_use_the_whole_limit_and_never_pass_it(valkey_url: str) -> None:
    assert any(used_by_four(valkey_url, f"four{attempt}:") >= 0.95 for attempt in range(3))  # a busy machine is late


def used_by_four(valkey_url: str, prefix: str) -> float:
    window = SHORT_MINUTE.total_seconds()
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        pool.starmap(time.sleep, [(0.5,)] * 4, chunksize=1)  # all four are up
        until = time.monotonic() + MINUTES * window + 1
        results = pool.starmap(work, [(valkey_url, prefix, worker, until) for worker in range(4)], chunksize=1)
    grants = sorted((moment, tokens) for result in results for moment, tokens, granted in result if granted)
    most = most_in_a_window([(moment, 1) for moment, _ in grants], window), most_in_a_window(grants, window)
    whole = [tokens for moment, tokens in grants if moment < grants[0][0] + MINUTES * window]
    after_wait = [two[2] for result in results for one, two in itertools.pairwise(result) if not one[2]]
    assert max(most[0] / 120, most[1] / 2400) <= 1.02
    assert sum(after_wait) >= 0.9 * len(after_wait)
    assert all(sum(granted for _, _, granted in result) >= len(grants) / 8 for result in results)
    return max(len(whole) / 120, sum(whole) / 2400) / MINUTES
