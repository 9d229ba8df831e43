"""What the house tests look at: the project's own files, and their syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("core", "tasks", "flows", "deployments")
NOT_OURS = {"__pycache__", "build", "node_modules"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def python_files(*folders: str) -> list[Path]:
    """Every Python file below these folders of the project."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py") if ours(path))


def text_files() -> list[Path]:
    """Every file of the project that is text, leaving out what is generated or hidden (but for .ci)."""
    return sorted(path for path in ROOT.rglob("*") if path.is_file() and ours(path) and is_text(path))


def ours(path: Path) -> bool:
    """Whether a path is part of the project rather than of an environment, a cache or a home."""
    parts = path.relative_to(ROOT).parts
    return not any(
        part in NOT_OURS or part.endswith(".egg-info") or (part.startswith(".") and part not in {".ci", ".gitignore"})
        for part in parts
    )


def is_text(path: Path) -> bool:
    """Whether a file is text: its beginning holds no zero byte."""
    with path.open("rb") as file:
        return b"\0" not in file.read(4096)


def name_of(path: Path) -> str:
    """A path as people write it, from the root of the project."""
    return path.relative_to(ROOT).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def functions_of(path: Path) -> Iterator[Function]:
    """Every function and method in a file, nested ones too."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, Function):
            yield node


def imports_of(path: Path) -> Iterator[tuple[str, int]]:
    """The module names a file imports, wherever it does, with the line."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node.lineno


def dotted(node: ast.AST) -> str:
    """`a.b.c` of an expression made of names and attributes; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (left := dotted(node.value)):
        return f"{left}.{node.attr}"
    return ""
