"""Everything public in the product says what it is for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.house.source import PRODUCT, Function, name_of, python_files, tree_of

Definition = ast.ClassDef | Function


def public_definitions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, Definition]]:
    """Public classes and functions and the public members of such classes; nothing inside functions."""
    for node in body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node.body, f"{prefix}{node.name}.")


def undocumented(path: Path) -> list[str]:
    """What in a file has no docstring: the file itself (unless empty) or something public."""
    tree = tree_of(path)
    missing = [name_of(path)] if tree.body and not ast.get_docstring(tree) else []
    return missing + [
        f"{name_of(path)}:{node.lineno} {name}"
        for name, node in public_definitions(tree.body)
        if not ast.get_docstring(node)
    ]


def test_everything_public_is_documented() -> None:
    paths = python_files(*PRODUCT)
    assert len(paths) >= 30
    assert sum(len(list(public_definitions(tree_of(path).body))) for path in paths) >= 100
    assert [entry for path in paths for entry in undocumented(path)] == []


def test_it_finds_what_is_missing() -> None:
    source = "def good():\n  'said'\nclass Bad:\n  def worse(self): pass\n  def _hidden(self): pass\n"
    found = [name for name, node in public_definitions(ast.parse(source).body) if not ast.get_docstring(node)]
    assert found == ["Bad", "Bad.worse"]
