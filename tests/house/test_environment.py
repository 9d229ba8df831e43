"""What the operator chose comes in at one door, and secrets do not go out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.house.source import PRODUCT, dotted, imports_of, name_of, python_files, tree_of

SETTINGS = "core/settings.py"
ENVIRONMENT = {"os.environ", "os.environb", "os.getenv", "os.getenvb", "environ", "getenv"}
SECRET_ENDINGS = ("key", "password", "secret", "token", "credentials")
OPENERS = {SETTINGS, "core/assembly/models.py", "core/assembly/stores.py"}


def reads_environment(tree: ast.AST) -> Iterator[int]:
    """Lines that look at the environment. Setting a variable for a library is not reading."""
    written = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del)
    } | {
        id(node.func.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"setdefault", "update"}
    }
    for node in ast.walk(tree):
        if dotted(node) in ENVIRONMENT and id(node) not in written:
            yield node.lineno  # type: ignore[attr-defined]


def offenders(*exempt: str) -> list[Path]:
    """Product files, but for some."""
    paths = python_files(*PRODUCT)
    assert len(paths) >= 30
    return [path for path in paths if name_of(path) not in exempt]


def test_only_settings_read_the_environment() -> None:
    found = [f"{name_of(path)}:{line}" for path in offenders(SETTINGS) for line in reads_environment(tree_of(path))]
    assert found == []


def test_only_settings_are_settings() -> None:
    found = [name_of(path) for path in offenders(SETTINGS) if "pydantic_settings" in dict(imports_of(path))]
    assert found == []


def test_it_knows_reading_from_writing() -> None:
    for read in ("os.environ['A']", "x = os.getenv('A')", "os.environ.get('A')", "{**os.environ}"):
        assert list(reads_environment(ast.parse(read))), read
    for write in ("os.environ['A'] = 'b'", "os.environ.setdefault('A', 'b')", "del os.environ['A']"):
        assert not list(reads_environment(ast.parse(write))), write


def test_secrets_are_declared_as_such() -> None:
    """A SecretStr shows as stars in every print, log and error."""
    (settings,) = [path for path in python_files("core") if name_of(path) == SETTINGS]
    fields = [
        node
        for node in ast.walk(tree_of(settings))
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]
    assert len(fields) >= 10
    bare = [
        field.target.id  # type: ignore[union-attr]
        for field in fields
        if field.target.id.endswith(SECRET_ENDINGS)  # type: ignore[union-attr]
        and "Secret" not in ast.unparse(field.annotation)
    ]
    assert bare == []


def test_secrets_are_opened_only_where_clients_are_made() -> None:
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in offenders(*OPENERS)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute) and node.attr == "get_secret_value"
    ]
    assert found == []


def test_only_the_command_line_prints() -> None:
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in offenders()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and dotted(node.func) == "print"
    ]
    assert [place for place in found if not place.startswith("deployments/")] == []
