"""Small files, small functions, small fakes, and names that say something."""

from __future__ import annotations

import re

from tests.house.source import PRODUCT, ROOT, functions_of, name_of, python_files

FILE_LINES = 400
FUNCTION_LINES = 70
FAKE_LINES = 60
EMPTY_NAMES = re.compile(r"(^|_)(utils?|helpers?|manager|misc|common)(_|\.|$)|_v\d+(\.|$)|(^|_)(new|old|tmp)\.")


def test_files_are_small() -> None:
    paths = python_files(*PRODUCT, "tests")
    assert len(paths) >= 40
    lines = {name_of(path): len(path.read_text().splitlines()) for path in paths}
    assert {name: count for name, count in lines.items() if count > FILE_LINES} == {}


def test_functions_are_small() -> None:
    sizes = {
        f"{name_of(path)}:{function.lineno} {function.name}": (function.end_lineno or 0) - function.lineno + 1
        for path in python_files(*PRODUCT, "tests")
        for function in functions_of(path)
    }
    assert len(sizes) >= 200
    assert {name: size for name, size in sizes.items() if size > FUNCTION_LINES} == {}


def test_fakes_are_small() -> None:
    """A fake that needs more says that its port is too wide."""
    lines = {path.name: len(path.read_text().splitlines()) for path in ROOT.glob("tests/**/fake_*.py")}
    assert len(lines) >= 2
    assert {name: count for name, count in lines.items() if count > FAKE_LINES} == {}


def test_names_say_something() -> None:
    files = python_files(*PRODUCT, "tests")
    names = [name_of(path) for path in files] + [name_of(path.parent) for path in files]
    assert len(names) >= 80
    assert [name for name in names if EMPTY_NAMES.search(name.rpartition("/")[2])] == []


def test_the_rule_on_names_bites() -> None:
    for bad in ("utils.py", "helpers.py", "cache_manager.py", "text_utils.py", "search_v2.py", "common"):
        assert EMPTY_NAMES.search(bad), bad
    for good in ("utility_bill.py", "manage.py", "renewal.py", "version.py", "v1_migration.py"):
        assert not EMPTY_NAMES.search(good), good
