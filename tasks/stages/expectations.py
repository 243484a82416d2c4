"""Expectation suites of great-expectations, over tables of a run.

great-expectations takes seconds to import, so it is imported where a suite runs, and nowhere else.
"""

import json
import logging
import os
import threading
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from gradebook.rubrics.model.errors import ExpectationsError, Fault, FaultList
from gradebook.rubrics.text.plain_words import place_text, shown, unknown_word
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.lake.sql import file_list, open_database, read_sql
from gradebook.tasks.runs.quality_suites import REFUSED, Expectation, ExpectationSuite
from gradebook.tasks.runs.run import Run

BATCH_ROWS = 1_000_000  # of a table, in pandas at a time
SEVERITIES = {"critical": "error", "warning": "warning", "info": "warning"}  # in gradebook's words
_MOST_OBSERVED = 200
_TURN = threading.RLock()  # great-expectations' context is one for all threads


def shipped_suites(table: str) -> tuple[ExpectationSuite, ...]:
    """The suite of sql/expectations about a table."""
    return (ExpectationSuite.model_validate(json.loads(read_sql(f"expectations/{table}.json"))),)


def refuse_bad_expectations(suites: Sequence[ExpectationSuite], path: Path) -> None:
    """Raise `ExpectationsError` with every expectation that great-expectations does not know or take."""
    faults = FaultList(ExpectationsError)
    for suite in suites:
        for index, expectation in enumerate(suite.expectations):
            found = (f"{suite.about(index)}: {message}" for message in _faults(expectation))
            faults.add(Fault(str(path), None, message) for message in found)
    faults.raise_any()


def check_suites(
    run: Run, table: str, suites: Sequence[ExpectationSuite], files: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Check a table against suites about it, in batches of `BATCH_ROWS`.

    files: Parquet files of the table, unless it is `judgments`. Yields for each batch, suite and expectation `subject`,
    `expectation`, `is_met`, `severity` (error or warning), `unexpected_count` and `observed`, both None where there is
    none.
    """
    columns = tuple(dict.fromkeys(name for suite in suites for name in suite.columns))
    for index, rows in enumerate(_batches(run, table, columns, files)):
        frame = rows.to_pandas()
        for suite in suites:
            subject = f"{suite.name} · batch {index + 1}" if index else suite.name
            yield from ({"subject": subject} | outcome for outcome in check_frame(suite, frame))


def check_frame(suite: ExpectationSuite, frame: Any) -> list[dict[str, Any]]:
    """Check a pandas frame against a suite; outcomes as of `check_suites`, without subject."""
    with _TURN:
        library = _library()
        expectations = [_configured(expectation) for expectation in suite.expectations]
        wanted = library.ExpectationSuite(name=suite.name, expectations=expectations)
        outcomes = _batch().get_batch({"dataframe": frame}).validate(wanted, result_format="BASIC").results
    return [_outcome_row(outcome) for outcome in outcomes]


def _batches(run: Run, table: str, columns: tuple[str, ...], files: Sequence[str]) -> Iterator[pa.Table]:
    """Columns of a table, at most `BATCH_ROWS` rows at a time; one batch without rows if it has none."""
    names = ", ".join(f'"{name}"' for name in columns) or "1 as row"  # of suites about the number of rows
    if table == "judgments":
        with connect(run.lake, read_only=True) as connection:
            found = connection.execute(f"select {names} from judgments where run_id = ?", [run.run_id])
            yield from _tables(found.to_arrow_reader(BATCH_ROWS))
    else:
        with open_database() as connection:
            found = connection.execute(f"select {names} from read_parquet({file_list(files)})")
            yield from _tables(found.to_arrow_reader(BATCH_ROWS))


def _tables(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    is_empty = True
    for batch in reader:
        is_empty = False
        yield pa.Table.from_batches([batch])
    if is_empty:
        yield reader.schema.empty_table()


@cache
def _library() -> Any:
    """great-expectations, which asks nothing of a network and prints nothing."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "False")  # read at import
    # Under PYTHONWARNINGS=error they would end the run: of its import, and of pandas about a pattern with groups.
    warnings.filterwarnings("ignore", "module 'sre_", DeprecationWarning)
    warnings.filterwarnings("ignore", "This pattern is interpreted as a regular expression", UserWarning)
    import great_expectations

    # This module sets its own level to INFO and reports a folder that nobody asked for.
    logging.getLogger("great_expectations.data_context.types.base").setLevel(logging.WARNING)
    return great_expectations


@cache
def _batch() -> Any:
    """Definition of a batch that is a pandas frame: no other engine, so no SQL."""
    context = _library().get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    return (
        context.data_sources.add_pandas("run").add_dataframe_asset("rows").add_batch_definition_whole_dataframe("all")
    )


def _configured(expectation: Expectation) -> Any:
    """Expectation of great-expectations. Raises its errors."""
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    given = {"type": expectation.type, "kwargs": dict(expectation.kwargs), "severity": expectation.severity}
    return ExpectationConfiguration(**given).to_domain_obj()


def _faults(expectation: Expectation) -> Iterator[str]:
    with _TURN:
        _library()
        from great_expectations.compatibility.pydantic import ValidationError
        from great_expectations.exceptions import ExpectationNotFoundError, GreatExpectationsError
        from great_expectations.expectations.registry import list_registered_expectation_implementations

        try:
            _configured(expectation)
        except ExpectationNotFoundError:
            known = [name for name in list_registered_expectation_implementations() if name not in REFUSED]
            yield f"type: found {shown(expectation.type)}, expected {unknown_word(expectation.type, known)}"
        except ValidationError as error:
            yield from _kwargs_faults(error, expectation.kwargs)
        except (GreatExpectationsError, ValueError, TypeError) as error:
            yield f"kwargs: {error}"


def _kwargs_faults(error: Any, kwargs: dict[str, Any]) -> Iterator[str]:
    """Faults of an expectation's arguments, each once: of a union, pydantic names every type."""
    messages: dict[str, list[str]] = {}
    for fault in error.errors():
        place = "" if fault["loc"][0] == "__root__" else place_text(fault["loc"][:1])
        messages.setdefault(place, []).append(str(fault["msg"]))
    own = {place: words for place, words in messages.items() if place}
    for place, words in (own or messages).items():  # a fault of the whole follows from those of its parts
        found = f"found {shown(kwargs[place])}" if place in kwargs else "found none"
        yield f"kwargs.{place}: {found}, {words[0]}" if place else f"kwargs: {words[0]}"


def _outcome_row(outcome: Any) -> dict[str, Any]:
    outcome_json = outcome.to_json_dict()
    config, seen = outcome_json["expectation_config"], outcome_json["result"]
    arguments = {key: value for key, value in config["kwargs"].items() if key != "batch_id"}
    words = ", ".join(f"{key}={_words(value)}" for key, value in arguments.items())
    failure = _failure(outcome_json.get("exception_info") or {})
    observed = failure or seen.get("observed_value", seen.get("partial_unexpected_list") or None)
    return {
        "expectation": f"{config['type']}({words})",
        "is_met": bool(outcome_json["success"]),
        "severity": SEVERITIES[config["severity"]],
        "unexpected_count": seen.get("unexpected_count"),
        "observed": None if observed is None else str(observed)[:_MOST_OBSERVED],
    }


def _failure(found: dict[str, Any]) -> str | None:
    """Why an expectation could not be computed; None if it was. found: for the whole, or for each of its metrics."""
    for each in (found, *found.values()):
        if isinstance(each, dict) and (message := each.get("exception_message")):
            return f"not computed: {message}"
    return None


def _words(argument: Any) -> str:
    """An argument as a person would write it; a row condition is a tree."""
    if isinstance(argument, dict) and {"column", "operator", "parameter"} <= argument.keys():
        return f"{argument['column']['name']} {argument['operator']} {argument['parameter']}"
    return str(argument)
