"""The error tree: it crosses process borders whole, and nobody swallows what he does not know."""

from __future__ import annotations

import ast
import copy
import pickle
from collections.abc import Iterator

import pytest

from core import errors
from core.errors import EngineError, Misconfigured, Permanent, Transient
from tests.house.source import PRODUCT, name_of, python_files, tree_of

BROAD = {"Exception", "BaseException"}


def family(kind: type[EngineError]) -> Iterator[type[EngineError]]:
    """A class and everything derived from it, wherever it is defined."""
    yield kind
    for child in kind.__subclasses__():
        yield from family(child)


KINDS = sorted(set(family(EngineError)), key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("travel", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy])
def test_errors_arrive_whole(kind: type[EngineError], travel: object) -> None:
    sent = kind("what happened", where="metadata.a[2]", retry_after=2.5, current=7)
    assert callable(travel)
    found = travel(sent)
    assert type(found) is kind
    assert (str(found), found.message, found.details) == (str(sent), sent.message, sent.details)


def test_every_error_says_whether_to_try_again() -> None:
    assert len(KINDS) >= 12
    branches = (Transient, Permanent, Misconfigured)
    for kind in KINDS:
        if kind is not EngineError:
            assert sum(issubclass(kind, branch) for branch in branches) == 1, kind


def test_errors_are_defined_in_one_place() -> None:
    assert [kind for kind in KINDS if kind.__module__ != errors.__name__] == []


def swallows_all(handler: ast.ExceptHandler) -> bool:
    """Whether a handler takes every exception there is, and does not end by raising it again."""
    last = handler.body[-1]
    if isinstance(last, ast.Raise) and last.exc is None:
        return False
    if handler.type is None:
        return True
    named = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(name, ast.Name) and name.id in BROAD for name in named)


def test_only_tasks_swallow_everything() -> None:
    handlers = [
        (name_of(path), node)
        for path in python_files(*PRODUCT)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ExceptHandler)
    ]
    assert len(handlers) >= 20
    broad = [f"{name}:{node.lineno}" for name, node in handlers if swallows_all(node)]
    assert [place for place in broad if not place.startswith("tasks/")] == []


def test_it_knows_a_broad_handler() -> None:
    source = "try: pass\nexcept {}: pass"
    for what in ("Exception", "(OSError, Exception)", "BaseException"):
        handler = ast.parse(source.format(what)).body[0].handlers[0]  # type: ignore[attr-defined]
        assert swallows_all(handler)
    for harmless in ("try: pass\nexcept OSError: pass", "try: pass\nexcept BaseException:\n  x = 1\n  raise"):
        assert not swallows_all(ast.parse(harmless).body[0].handlers[0])  # type: ignore[attr-defined]
