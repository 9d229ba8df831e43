"""Aliases of the Qdrant adapter beside other hands: strangers' aliases, taken names, other processes, dead ones."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client import QdrantClient, models

from core.adapters.qdrant_aliases import Assign, MarkedAliases, Remove, Rename, swap
from core.adapters.qdrant_requests import QdrantOptions
from core.adapters.qdrant_server import QdrantIndex
from core.errors import Conflict, NotFound, Refused
from core.model.names import alias_name, collection_name, index_group
from tests.contract.fake_qdrant_names import QdrantNames
from tests.contract.qdrant_engines import NO_SERVER, URL, OneAtATime, connected
from tests.contract.vector_index import HOSTILE_TENANTS, refused

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant")


@dataclass
class Shared:
    """One server, two adapters on it as two processes have them, and names nobody else uses."""

    client: Any
    one: QdrantIndex
    other: QdrantIndex
    alias: str
    names: list[str]

    def by_hand(self, alias: str, collection: str) -> None:
        made = models.CreateAlias(collection_name=collection, alias_name=alias)
        self.client.update_collection_aliases([models.CreateAliasOperation(create_alias=made)])

    def markers(self) -> dict[str, str]:
        """The collections markers name, by marker."""
        named = {one.alias_name: one.collection_name for one in self.client.get_aliases().aliases}
        return {name: target for name, target in named.items() if name.startswith(f"{self.alias}@")}


@pytest.fixture(params=["local_mode", pytest.param("server", marks=pytest.mark.skipif(not URL, reason=NO_SERVER))])
def shared(request: pytest.FixtureRequest) -> Iterator[Shared]:
    client: Any = OneAtATime(QdrantClient(":memory:")) if request.param == "local_mode" else connected()
    group = f"contract-{uuid.uuid4().hex[:8]}"
    names = [f"{group}.g{number}" for number in (1, 2, 3)]
    options = QdrantOptions(url=URL)
    made = Shared(client, QdrantIndex(options, client), QdrantIndex(options, client), f"{group}.live", names)
    for name in names:
        made.one.create(name, 4)
    yield made
    for name in names:
        client.delete_collection(name)


def test_a_name_that_is_taken_is_taken(shared: Shared) -> None:
    shared.one.point_alias(shared.alias, shared.names[0], None)
    with pytest.raises(Conflict):
        shared.one.create(shared.alias, 4)
    with pytest.raises(Conflict):
        shared.one.point_alias(shared.names[1], shared.names[0], None)
    with pytest.raises(Conflict):
        shared.one.drop(shared.alias)
    assert shared.one.alias(shared.alias) == shared.names[0]
    assert shared.one.alias(shared.names[1]) is None


@pytest.mark.parametrize("name", ["stranger", "stranger@elsewhere"])
def test_a_strangers_alias_keeps_a_collection(shared: Shared, name: str) -> None:
    stranger = f"{shared.alias.removesuffix('.live')}-{name}"
    shared.by_hand(stranger, shared.names[0])
    with pytest.raises(Conflict) as refusal:
        shared.one.drop(shared.names[0])
    assert refusal.value.details["current"] == stranger


def test_a_marker_alone_keeps_nothing(shared: Shared) -> None:
    shared.by_hand(f"{shared.alias}@{uuid.uuid4().hex}", shared.names[1])
    shared.one.drop(shared.names[1])
    assert shared.names[1] not in shared.one.collections()
    assert shared.markers() == {}


def test_an_alias_made_by_hand_is_swapped_by_one_of_two(shared: Shared) -> None:
    for _ in range(20):
        shared.client.update_collection_aliases(
            [
                models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=name))
                for name in [shared.alias, *shared.markers()]
            ]
        )
        shared.by_hand(shared.alias, shared.names[0])
        lost = refused(
            lambda: shared.one.point_alias(shared.alias, shared.names[1], shared.names[0]),
            lambda: shared.other.point_alias(shared.alias, shared.names[2], shared.names[0]),
        )
        assert any(lost)
        winner = shared.names[0] if all(lost) else shared.names[1:][lost.index(False)]
        assert shared.one.alias(shared.alias) == winner


def test_of_two_processes_that_swap_exactly_one_wins(shared: Shared) -> None:
    shared.one.point_alias(shared.alias, shared.names[0], None)
    current = shared.names[0]
    for _ in range(50):
        left, right = (name for name in shared.names if name != current)
        lost = refused(
            lambda target=left, was=current: shared.one.point_alias(shared.alias, target, was),
            lambda target=right, was=current: shared.other.point_alias(shared.alias, target, was),
        )
        assert sorted(lost) == [False, True]
        current = (left, right)[lost.index(False)]
        assert shared.one.alias(shared.alias) == current
        assert list(shared.markers().values()) == [current]


def test_two_first_pointers_leave_one_of_both_and_the_next_swap_cleans_up(shared: Shared) -> None:
    refused(
        lambda: shared.one.point_alias(shared.alias, shared.names[0], None),
        lambda: shared.other.point_alias(shared.alias, shared.names[1], None),
    )
    current = shared.one.alias(shared.alias)
    assert current in shared.names[:2]
    shared.other.point_alias(shared.alias, shared.names[2], current)
    assert list(shared.markers().values()) == [shared.names[2]]


def test_the_actions_of_each_state() -> None:
    assign = [Assign("a@f", "n"), Assign("a", "n")]
    assert swap("a", "n", [], "f") == assign
    assert swap("a", "n", ["o"], "f") == [Rename("a@o", "a@f"), *assign]
    assert swap("a", "n", ["o", "p", "q"], "f") == [Rename("a@o", "a@f"), *assign, Remove("a@p"), Remove("a@q")]


def test_a_request_that_stalls_is_refused_also_after_a_swap_and_its_rollback() -> None:
    """Two generations go by, and the alias names the first again: the late request still changes nothing."""
    server = QdrantNames()
    first, late = on(server), on(server)
    first.point("a", "c.g1", None)
    send, stalled = late._change, []
    late._change = stalled.append
    with pytest.raises(Conflict):
        late.point("a", "c.g2", "c.g1")  # prepared and not sent
    first.point("a", "c.g3", "c.g1")
    first.point("a", "c.g1", "c.g3")
    with pytest.raises(NotFound):
        send(stalled[0])
    assert server.aliases["a"] == "c.g1"
    late._change = send
    late.point("a", "c.g2", "c.g1")
    assert server.aliases["a"] == "c.g2"


def on(server: QdrantNames) -> MarkedAliases:
    """The protocol on a server's names."""

    def change(actions: Any) -> None:
        words = {Rename: "rename_alias", Assign: "create_alias", Remove: "delete_alias"}
        keys = {
            "old": "old_alias_name",
            "new": "new_alias_name",
            "alias": "alias_name",
            "collection": "collection_name",
        }
        sent = [{words[type(one)]: {keys[name]: getattr(one, name) for name in one.__slots__}} for one in actions]
        if server.change(sent):
            raise NotFound("not there")

    return MarkedAliases(
        lambda: dict(server.aliases), lambda: frozenset(server.names), change, lambda: uuid.uuid4().hex
    )


STEPS = st.lists(
    st.tuples(st.sampled_from(["c.g1", "c.g2", "c.g3"]), st.sampled_from([0, 1, 2, 3, 4, None])), max_size=12
)


@given(STEPS)
def test_wherever_the_server_dies_the_alias_names_something_and_can_be_moved(
    steps: list[tuple[str, int | None]],
) -> None:
    server = QdrantNames()

    aliases = on(server)
    named = None
    for target, dies_after in steps:
        server.dies_after = dies_after
        try:
            aliases.point("a", target, named)
        except Conflict:
            assert dies_after is not None
        now = server.aliases.get("a")
        assert now in {named, target}
        assert dies_after is not None or now == target
        named = now
    server.dies_after = None
    aliases.point("a", "c.g1", named)
    aliases.point("a", "c.g2", "c.g1")
    assert server.aliases.pop("a") == "c.g2"
    assert list(server.aliases.values()) == ["c.g2"]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30), max_size=10))
def test_names_of_tenants_are_short_and_their_own(tenants: list[str]) -> None:
    groups: set[str] = set()
    known = set()
    for tenant in {*tenants, *HOSTILE_TENANTS}:
        try:
            groups.add(index_group(tenant))
        except Refused:
            continue
        known.add(tenant)
    assert len({group.casefold() for group in groups}) == len(known)
    assert known.issuperset(HOSTILE_TENANTS)
    names = [name for group in groups for name in (alias_name(group), collection_name(group, 10**8))]
    assert len({name.casefold() for name in names}) == 2 * len(known)
    assert max(map(len, names)) <= 100
    assert not any("@" in name for name in names)
