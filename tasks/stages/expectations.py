"""Great-expectations suites: what each stage's rows must meet.

great-expectations takes seconds to import, so this module imports it where a suite is first made. A command has the
suites checked in a process of their own, see `suite_process`.
"""

import logging
import os
import threading
import warnings
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    import pandas as pd

# Severities of great-expectations in gradebook's words.
SEVERITIES = {"critical": "error", "warning": "warning"}
_IMPORT = threading.Lock()
_TURN = threading.RLock()  # great-expectations' context is one for all threads


def check_suite(suite: str, table: pa.Table) -> list[dict[str, Any]]:
    """Check a table against a suite of `SUITES`.

    Returns a row per expectation with `expectation`, `is_met`, `severity` (error or warning), `unexpected_count` and
    `observed`, both None where there is none.
    """
    return [_outcome_row(outcome) for outcome in _validator(SUITES[suite])(table).results]


def _ingest_expectations() -> list[Any]:
    expect = import_great_expectations().expectations
    return [
        expect.ExpectTableRowCountToBeBetween(min_value=1, severity="critical"),
        *(
            expect.ExpectColumnValuesToNotBeNull(column=name, severity="critical")
            for name in ("case_id", "model", "output_characters")
        ),
        expect.ExpectColumnValuesToBeUnique(column="output_id", severity="critical"),
        expect.ExpectColumnValuesToBeBetween(column="sample_index", min_value=0, severity="critical"),
        expect.ExpectCompoundColumnsToBeUnique(
            column_list=["case_id", "model", "checkpoint", "sample_index"], severity="warning"
        ),
        expect.ExpectColumnValuesToBeBetween(column="output_characters", min_value=1, mostly=0.99, severity="warning"),
    ]


def _verdict_expectations() -> list[Any]:
    expect = import_great_expectations().expectations
    from great_expectations.expectations.row_conditions import Column

    status = Column("status")
    return [
        expect.ExpectColumnValuesToNotBeNull(column="output_id", severity="critical"),
        expect.ExpectColumnValuesToBeInSet(column="status", value_set=["scored", "unscored"], severity="critical"),
        expect.ExpectColumnValuesToBeBetween(column="score", min_value=0, max_value=1, severity="critical"),
        expect.ExpectColumnValuesToNotBeNull(
            column="score",
            row_condition=status == "scored",
            severity="critical",
        ),
        expect.ExpectColumnValuesToNotBeNull(
            column="reason",
            row_condition=status == "unscored",
            severity="critical",
        ),
        expect.ExpectCompoundColumnsToBeUnique(column_list=["output_id", "criterion_id"], severity="critical"),
    ]


def _judgment_expectations() -> list[Any]:
    expect = import_great_expectations().expectations
    return [
        expect.ExpectColumnValuesToBeUnique(column="judgment_id", severity="critical"),
        expect.ExpectColumnValuesToNotBeNull(column="request_key", severity="critical"),
        expect.ExpectColumnValuesToBeBetween(column="cost_usd", min_value=0, severity="critical"),
        expect.ExpectColumnValuesToNotBeNull(column="cost_usd", severity="warning"),
        expect.ExpectColumnValuesToBeBetween(column="completion_tokens", min_value=0, severity="critical"),
        expect.ExpectColumnValuesToBeInSet(column="status", value_set=["scored"], mostly=0.95, severity="warning"),
    ]


def _mart_expectations(grain: list[str], score: str, least: float | None = 0.0) -> Callable[[], list[Any]]:
    def expectations() -> list[Any]:
        expect = import_great_expectations().expectations
        unique = (
            expect.ExpectColumnValuesToBeUnique(column=grain[0], severity="critical")
            if len(grain) == 1
            else expect.ExpectCompoundColumnsToBeUnique(column_list=grain, severity="critical")
        )
        return [
            expect.ExpectTableRowCountToBeBetween(min_value=1, severity="critical"),
            unique,
            expect.ExpectColumnValuesToBeBetween(column=score, min_value=least, max_value=1, severity="critical"),
        ]

    return expectations


SUITES: dict[str, Callable[[], list[Any]]] = {
    "ingest": _ingest_expectations,
    "verdicts": _verdict_expectations,
    "judgments": _judgment_expectations,
    # Penalties take an output below 0; sql/checks knows how far.
    "marts.output_scores": _mart_expectations(["output_id"], "score", None),
    "marts.criterion_scores": _mart_expectations(["model", "checkpoint", "criterion_id"], "mean"),
    "marts.run_scores": _mart_expectations(["model", "checkpoint"], "mean"),
}


def import_great_expectations() -> Any:
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "False")  # read at import
    # Under PYTHONWARNINGS=error the import would end the run. The filter stays: other threads import at the same time.
    warnings.filterwarnings("ignore", "module 'sre_", DeprecationWarning)
    # gradebook uses neither the statistics nor the charts that need these.
    with _IMPORT:
        import great_expectations
    # This module sets its own level to INFO and reports a folder that nobody asked for.
    logging.getLogger("great_expectations.data_context.types.base").setLevel(logging.WARNING)
    return great_expectations


@cache
def _context() -> Any:
    context = import_great_expectations().get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    return context


def _validator(expectations: Callable[[], list[Any]]) -> Callable[[pa.Table], Any]:
    with _TURN:  # `cache` alone would let two threads make the same suite
        return _make_validator(expectations)


@cache
def _make_validator(expectations: Callable[[], list[Any]]) -> Callable[[pa.Table], Any]:
    """Make a suite and its batch, once a process. Its runs take turns, since all threads share the context."""
    name = f"suite-{id(expectations)}"
    context = _context()
    suite = context.suites.add(import_great_expectations().ExpectationSuite(name=name, expectations=expectations()))
    asset = context.data_sources.add_pandas(name).add_dataframe_asset(name)
    batch = asset.add_batch_definition_whole_dataframe(name)
    columns = _columns_read(suite.expectations)

    def run(table: pa.Table) -> Any:
        frame = _frame(table, columns)
        with _TURN:
            return batch.get_batch({"dataframe": frame}).validate(suite, result_format="BASIC")

    return run


def _columns_read(expectations: list[Any]) -> set[str]:
    """Columns that a suite reads; no other is converted to pandas."""
    columns: set[str] = set()
    for expectation in expectations:
        columns.update(getattr(expectation, "column_list", []) or [])
        columns.update(filter(None, [getattr(expectation, "column", None)]))
        condition = getattr(expectation, "row_condition", None)
        columns.update([condition.column.name] if condition is not None else [])
    return columns


def _frame(table: pa.Table, columns: set[str]) -> "pd.DataFrame":
    frame: pd.DataFrame = table.select([name for name in table.column_names if name in columns]).to_pandas()
    return frame


def _outcome_row(outcome: Any) -> dict[str, Any]:
    outcome_json = outcome.to_json_dict()
    config, seen = outcome_json["expectation_config"], outcome_json["result"]
    arguments = {key: value for key, value in config["kwargs"].items() if key != "batch_id"}
    words = ", ".join(f"{key}={_words(value)}" for key, value in arguments.items())
    exception = outcome_json["exception_info"].get("exception_message") if outcome_json.get("exception_info") else None
    observed = exception or seen.get("observed_value", seen.get("partial_unexpected_list") or None)
    return {
        "expectation": f"{config['type']}({words})",
        "is_met": bool(outcome_json["success"]),
        "severity": SEVERITIES[config["severity"]],
        "unexpected_count": seen.get("unexpected_count"),
        "observed": None if observed is None else str(observed)[:200],
    }


def _words(argument: Any) -> str:
    """An argument as a person would write it; a row condition is a tree."""
    if isinstance(argument, dict) and {"column", "operator", "parameter"} <= argument.keys():
        return f"{argument['column']['name']} {argument['operator']} {argument['parameter']}"
    return str(argument)
