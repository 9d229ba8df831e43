"""Who imports whom: the contracts hold, heavy libraries stay out, each client library has its one place."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import PurePosixPath

import pytest

from tests.house.source import PRODUCT, ROOT, imports_of, name_of, python_files

HEAVY = ("prefect", "pandas", "great_expectations", "wordllama", "prometheus_client", "structlog")
LIGHT = ("core.assembly", "core.batch.quality", "core.read", "core.write", "core.index", "core.batch")

# Where a client library may be imported. Elsewhere its types and errors must not be known.
PLACES = {
    "psycopg": "core/record/*.py",
    "psycopg_pool": "core/record/*.py",
    "redis": "core/adapters/redis_*.py",
    "qdrant_client": "core/adapters/qdrant_*.py",
    "qdrant_edge": "core/adapters/*edge*.py",
    "openai": "core/adapters/openai_*.py",
    "httpx2": "core/adapters/openai_*.py",
    "fsspec": "core/adapters/*blob*.py",
    "s3fs": "core/adapters/blob_s3.py",
    "obstore": "core/adapters/*s3*.py",
    "botocore": "core/adapters/*s3*.py",
    "aiohttp": "core/adapters/*s3*.py",
    "tokenizers": "core/adapters/wordllama_*.py",
    "safetensors": "core/adapters/wordllama_*.py",
    "pyarrow": "core/index/snapshots/parquet.py",
    "psutil": "core/adapters/server_*.py",
    "pydantic_settings": "core/settings.py",
    "typer": "deployments/*.py",
    "rich": "deployments/*.py",
    "zstandard": "core/model/compression.py",
    "cryptography": "core/model/*ing.py",
    "watchfiles": "deployments/commands_watch.py",
    "prometheus_client": "core/a*/*.py",
    "structlog": "core/assembly/logs.py",
    "prefect_dask": "tasks/runner.py",
    "great_expectations": "core/adapters/data_docs.py",
    "polars": "core/[ai]*/d*.py",
}
ONE_FILE = (
    "qdrant_edge",
    "openai",
    "fsspec",
    "s3fs",
    "great_expectations",
    "markdown_it",
    "ulid",
)


def importers() -> dict[str, set[str]]:
    """For each library, the product files that import it."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in python_files(*PRODUCT):
        for module, _ in imports_of(path):
            found[module.partition(".")[0]].add(name_of(path))
    return found


def test_import_contracts_hold() -> None:
    command = [f"{sys.prefix}/bin/lint-imports", "--no-cache", "--no-logo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 broken" in done.stdout
    assert done.stdout.count(" KEPT") >= 9


@pytest.mark.parametrize("module", LIGHT)
def test_heavy_libraries_stay_out(module: str) -> None:
    """A command that only searches must not wait seconds for the orchestrator or the data checks."""
    source = f"import {module}, sys; print(*sorted({set(HEAVY)} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_client_libraries_have_their_places() -> None:
    found = importers()
    assert len(found) >= 15
    assert found["psycopg"]
    assert found["redis"]
    strays = {
        library: [name for name in found[library] if not PurePosixPath(name).match(place)]
        for library, place in PLACES.items()
    }
    assert {library: names for library, names in strays.items() if names} == {}


def test_some_libraries_are_known_to_one_file() -> None:
    found = importers()
    assert {library: found[library] for library in ONE_FILE if len(found[library]) > 1} == {}


def test_the_orchestrator_is_known_above_core_only() -> None:
    assert [name for name in importers()["prefect"] if name.startswith("core/")] == []
