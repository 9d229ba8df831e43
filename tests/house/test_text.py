"""What no file of the project says: package registries, unfinished business, this machine's folders."""

from __future__ import annotations

import re
from pathlib import Path

from tests.house.source import ROOT, name_of, text_files

# Put together here, so that this file does not find itself.
HOSTS = [
    ".".join(parts)
    for parts in [
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("yarnpkg", "com"),
        ("jsr", "io"),
        ("crates", "io"),
        ("rubygems", "org"),
        ("proxy", "golang", "org"),
        ("anaconda", "org"),
        ("maven", "org"),
        ("deb", "debian", "org"),
        ("docker", "io"),
        ("ghcr", "io"),
        ("quay", "io"),
        ("gcr", "io"),
    ]
] + ["--index-" + "url", "--extra-index-" + "url", "--find-" + "links"]
UNFINISHED = re.compile(
    r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" * 3, "HA" + "CK", "lorem " + "ipsum"]) + r")\b"
)
WORKSHOP = [f"/{folder}/" for folder in ("work/" + "main", "work/" + "shared", "ro" + "ot")]


def lines_with(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    """Where a pattern occurs, as path:line."""
    return [
        f"{name_of(path)}:{number}"
        for path in paths
        for number, line in enumerate(path.read_text(errors="replace").split("\n"), start=1)
        if pattern.search(line)
    ]


def any_of(words: list[str]) -> re.Pattern[str]:
    """A pattern for any of these words, as they stand."""
    return re.compile("|".join(map(re.escape, words)), re.IGNORECASE)


def test_no_registry_is_named() -> None:
    """A lock file or a comment that names one sends people past the mirror they have to use."""
    paths = text_files()
    assert len(paths) >= 60
    assert ROOT / "requirements.lock" in paths
    assert lines_with(any_of(HOSTS), paths) == []


def test_nothing_is_left_unfinished() -> None:
    assert lines_with(UNFINISHED, [path for path in text_files() if path.suffix in {".py", ".sql", ".toml"}]) == []


def test_no_folder_of_one_machine_is_named() -> None:
    assert lines_with(any_of(WORKSHOP), text_files()) == []


def test_text_is_utf8_and_ends_with_a_newline() -> None:
    for path in text_files():
        if path.suffix in {".py", ".sql", ".md", ".toml", ".yaml", ".yml"} and path.stat().st_size:
            assert path.read_text(encoding="utf-8").endswith("\n"), path


def test_the_patterns_bite() -> None:
    assert any_of(HOSTS).search("see https://" + "pypi." + "org/simple")
    assert any_of(WORKSHOP).search("in /ro" + "ot/somewhere")
    assert UNFINISHED.search("# TO" + "DO: later")
    assert not UNFINISHED.search("autodoctor")
