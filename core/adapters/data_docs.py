"""Great Expectations: judges frames, and writes the results as pages to read. Its import takes seconds: only then."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.errors import Unavailable
from core.model.quality import Ask, Checked, Frame, Rule, SuiteVerdict, rules_of

KEPT = 14
SHOWN = 5
SITE = "docs"
_ONE_AT_A_TIME = threading.Lock()  # the library keeps its context in the process


class DataDocs:
    """Judges by Great Expectations. The pages of the last runs are below `folder`, one folder a run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def judge(self, frames: Sequence[Frame], now: datetime) -> tuple[list[SuiteVerdict], str]:
        """See `Checker`. The pages are there whole or not at all."""
        name = f"{now.astimezone(UTC):%Y%m%dT%H%M%S%f}Z"
        half, whole = self._folder / f".{name}", self._folder / name
        with _ONE_AT_A_TIME:
            try:
                half.mkdir(parents=True)
                verdicts = _judged(frames, half, name)
                half.rename(whole)
                self._prune()
            except OSError as error:
                raise Unavailable(f"data docs cannot be written to {self._folder}: {error.strerror}") from None
            finally:
                shutil.rmtree(half, ignore_errors=True)
        return verdicts, str((whole / "index.html").resolve())

    def newest(self) -> Path | None:
        """The first page of the last run; None: there was none."""
        runs = self._runs()
        return runs[-1] / "index.html" if runs else None

    def _runs(self) -> list[Path]:
        found = self._folder.glob("*/index.html")
        return sorted(page.parent for page in found if not page.parent.name.startswith("."))

    def _prune(self) -> None:
        for run in self._runs()[:-KEPT]:
            shutil.rmtree(run, ignore_errors=True)


def _judged(frames: Sequence[Frame], folder: Path, name: str) -> list[SuiteVerdict]:
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")  # nothing is sent anywhere
    import great_expectations as gx

    context: Any = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    for site, config in dict(context.variables.data_docs_sites or {}).items():
        context.delete_data_docs_site(site)
        shutil.rmtree(config["store_backend"]["base_directory"], ignore_errors=True)
    store = {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(folder)}
    index = {"class_name": "DefaultSiteIndexBuilder"}
    site = {"class_name": "SiteBuilder", "store_backend": store, "site_index_builder": index}
    context.add_data_docs_site(SITE, site)
    source = context.data_sources.add_pandas("samples")
    verdicts = [_verdict(gx, context, source, frame, name) for frame in frames]
    context.build_data_docs()
    return verdicts


def _verdict(gx: Any, context: Any, source: Any, frame: Frame, name: str) -> SuiteVerdict:
    import polars as pl

    rules = rules_of(frame)
    table = pl.DataFrame(dict(frame.columns), schema=_types(frame), strict=False).to_pandas()
    suite = context.suites.add(gx.ExpectationSuite(str(frame.suite)))
    for rule in rules:
        suite.add_expectation(_expectation(gx.expectations, rule))
    whole = source.add_dataframe_asset(str(frame.suite)).add_batch_definition_whole_dataframe("sample")
    definition = gx.ValidationDefinition(name=str(frame.suite), data=whole, suite=suite)
    run = gx.RunIdentifier(run_name=name)
    found = context.validation_definitions.add(definition).run(
        batch_parameters={"dataframe": table}, result_format="SUMMARY", run_id=run
    )
    results = [(one.expectation_config.meta or {}, one) for one in found.results]
    checks = tuple(_checked(str(meta["rule"]), one, frame) for meta, one in results if "rule" in meta)
    asked = tuple(rule.name for rule in rules)
    return SuiteVerdict(suite=frame.suite, rows=frame.rows, asked=asked, checks=checks, problems=frame.problems)


def _expectation(kinds: Any, rule: Rule) -> Any:
    column: Mapping[str, Any] = {"column": rule.column, "meta": {"rule": rule.name}}
    if rule.ask is Ask.ROWS:
        return kinds.ExpectTableRowCountToBeBetween(min_value=rule.low, meta=column["meta"])
    if rule.ask is Ask.TENANTS:
        return kinds.ExpectColumnDistinctValuesToContainSet(value_set=list(rule.values), **column)
    if rule.ask is Ask.FILLED:
        return kinds.ExpectColumnValuesToNotBeNull(**column)
    if rule.ask is Ask.UNIQUE:
        return kinds.ExpectColumnValuesToBeUnique(**column)
    if rule.ask is Ask.AMONG:
        return kinds.ExpectColumnValuesToBeInSet(value_set=list(rule.values), **column)
    return kinds.ExpectColumnValuesToBeBetween(min_value=rule.low, max_value=rule.high, **column)


def _checked(name: str, found: Any, frame: Frame) -> Checked:
    rows = found.result.get("partial_unexpected_index_list") or []
    whose = dict.fromkeys(frame.columns["tenant"][row] for row in rows)
    lacking = dict.fromkeys(found.result.get("partial_missing_list") or [])
    return Checked(
        name=name,
        passed=bool(found.success),
        failed=int(found.result.get("unexpected_count") or 0),
        tenants=tuple(str(one) for one in [*whose, *lacking][:SHOWN]),
    )


def _types(frame: Frame) -> dict[str, Any]:
    """Types by what is asked of a column, so that a frame without rows has them too."""
    import polars as pl

    types: dict[str, Any] = dict.fromkeys(frame.columns, pl.String)
    for rule in rules_of(frame):
        if rule.ask is Ask.BETWEEN:
            types[rule.column] = pl.Float64
        elif rule.ask is Ask.AMONG and rule.values == (True,):
            types[rule.column] = pl.Boolean
    return types
