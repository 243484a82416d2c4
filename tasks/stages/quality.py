"""Data quality at each stage: rules of tables, checked in SQL, and expectation suites of great-expectations.

Findings are lines of the run's folder, and later rows of `quality_results`. great-expectations takes seconds to
import, so it is imported where a suite runs, and nowhere else.
"""

import json
import logging
import os
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from gradebook.rubrics.model.errors import ExpectationsError, Fault, FaultList, QualityNotMet
from gradebook.rubrics.text.plain_words import place_text, quote_value, unknown_word
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.lake.sql import file_list, open_database, read_sql
from gradebook.tasks.ledger.ledger import run_judgments
from gradebook.tasks.marts.checks import CheckFinding, check_rows
from gradebook.tasks.runs.quality_suites import OUTPUTS, REFUSED, SCORES, Expectation, ExpectationSuite
from gradebook.tasks.runs.run import Run
from gradebook.tasks.system.events import log_finding
from gradebook.tasks.system.files import append_lines
from gradebook.tasks.system.processes import COMPUTING
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.timings import timed

Engine = Literal["sql", "great_expectations"]
QUALITY_SCHEMA = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("stage", pa.string(), nullable=False),
        pa.field("subject", pa.string(), nullable=False),  # which shard, batch, check or suite
        pa.field("expectation", pa.string(), nullable=False),
        pa.field("is_met", pa.bool_(), nullable=False),
        pa.field("severity", pa.string(), nullable=False),  # error | warning
        pa.field("unexpected_count", pa.int64()),
        pa.field("observed", pa.string()),
        pa.field("engine", pa.string()),  # null in rows of gradebooks before 0.2
    ]
)
_STAGES = {"outputs": "ingest", "verdicts": "verdicts", "judgments": "judgments"}  # other tables: marts
_MOST_OBSERVED = 200


@dataclass(frozen=True, slots=True)
class QualityFinding:
    """Outcome of one check or expectation."""

    run_id: str
    stage: str
    subject: str
    expectation: str
    is_met: bool
    severity: str
    unexpected_count: int | None
    observed: str | None
    engine: Engine

    def __str__(self) -> str:
        count = "" if self.unexpected_count is None else f", {self.unexpected_count} unexpected"
        observed = f": {self.observed}" if self.observed else ""
        return f"{self.subject}: {self.expectation.rstrip('.')}{count}{observed}"


def check_outputs(run: Run, shard: str, shard_index: int) -> None:
    """Check one shard of outputs in SQL. Raises `QualityNotMet`."""
    with COMPUTING, timed(run.folder, "quality", shard_index=shard_index):
        store_findings(run.folder, outputs_findings(run.run_id, Path(shard), shard_index))


def outputs_findings(run_id: str, shard: Path, shard_index: int) -> list[QualityFinding]:
    return sql_findings(run_id, "ingest", check_rows("outputs", shard), f"shard {shard_index}")


def check_verdicts(run: Run, shard_index: int) -> None:
    """Check the collected verdicts of one shard in SQL. Raises `QualityNotMet`."""
    with COMPUTING, timed(run.folder, "quality", shard_index=shard_index):
        store_findings(run.folder, verdict_findings(run.folder, shard_index))


def verdict_findings(folder: RunFolder, shard_index: int) -> list[QualityFinding]:
    checks = check_rows("verdicts", folder.collected_file(shard_index))
    return sql_findings(folder.run_id, "verdicts", checks, f"shard {shard_index}")


def check_judgments(run: Run, has_suites: bool) -> None:
    """Check the judgments that this run paid for in SQL; has_suites: also with the shipped suite.

    Raises `QualityNotMet`.
    """
    with timed(run.folder, "quality"):
        store_findings(run.folder, judgment_findings(run.lake, run.run_id))
    if has_suites:
        check_expectations(run, ("judgments",), (), has_suites)


def judgment_findings(lake: Lake, run_id: str) -> list[QualityFinding]:
    return [
        finding
        for index, judgments in enumerate(run_judgments(lake, run_id))
        for finding in sql_findings(run_id, "judgments", check_rows("judgments", judgments), f"batch {index}")
    ]


def check_output_suites(run: Run, shards: Sequence[str], has_suites: bool) -> None:
    """Check the outputs with the team's suites; has_suites: also with the shipped one. Raises `QualityNotMet`."""
    check_expectations(run, OUTPUTS, shards, has_suites)


def check_score_suites(run: Run, shard_count: int) -> None:
    """Check verdicts and marts with the team's suites, before they are published. Raises `QualityNotMet`."""
    check_expectations(run, SCORES, [str(run.folder.collected_file(index)) for index in range(shard_count)], False)


def check_expectations(run: Run, tables: Iterable[str], files: Sequence[str], has_suites: bool) -> None:
    """Check tables with the team's suites; has_suites: also with the shipped ones. Raises `QualityNotMet`.

    files: of the outputs or the verdicts.
    """
    findings = []
    for table in tables:
        suites = [
            *(shipped_suites(table) if has_suites else ()),
            *(suite for suite in run.suites if suite.table == table),
        ]
        if not suites:
            continue
        with COMPUTING, timed(run.folder, "quality"):
            table_files = files if table in ("outputs", "verdicts") else [str(run.folder.mart_file(table))]
            stage = _STAGES.get(table, "marts")
            outcomes = check_suites(run, table, suites, table_files)
            findings += [
                QualityFinding(run.run_id, stage, engine="great_expectations", **outcome) for outcome in outcomes
            ]
    store_findings(run.folder, findings)


def sql_findings(run_id: str, stage: str, checks: Iterable[CheckFinding], subject: str = "") -> list[QualityFinding]:
    """Findings of checks in SQL. subject: of all findings; empty: the name of each check."""
    return [
        QualityFinding(
            run_id=run_id,
            stage=stage,
            subject=subject or check.name,
            expectation=check.rule,
            is_met=check.broken_count == 0,
            severity=check.severity,
            unexpected_count=check.broken_count,
            observed=check.example[:_MOST_OBSERVED] if check.example else None,
            engine="sql",
        )
        for check in checks
    ]


def store_findings(folder: RunFolder, findings: Sequence[QualityFinding]) -> None:
    """Append findings to the run's folder. Raises as `refuse_broken`."""
    append_lines(folder.quality_file, "".join(json.dumps(asdict(finding)) + "\n" for finding in findings).encode())
    for finding in findings:
        log_finding(finding)
    refuse_broken(findings)


def refuse_broken(findings: Iterable[QualityFinding]) -> None:
    """Raise `QualityNotMet` if one of severity `error` is not met."""
    broken = [finding for finding in findings if not finding.is_met and finding.severity == "error"]
    if broken:
        raise QualityNotMet("data quality: " + "; ".join(map(str, broken)))


def forget_findings(folder: RunFolder) -> None:
    """Delete the findings of an earlier attempt at the run: all stages are checked again."""
    folder.quality_file.unlink(missing_ok=True)


def read_findings(folder: RunFolder) -> pa.Table:
    """All findings of the run as `QUALITY_SCHEMA`."""
    return pa.Table.from_pylist(_stored_rows(folder), schema=QUALITY_SCHEMA)


def expectation_notes(folder: RunFolder) -> list[str]:
    """A sentence for each expectation of severity `warning` that is not met."""
    return [
        f"expectation not met: {QualityFinding(**row)}"
        for row in _stored_rows(folder)
        if row["engine"] == "great_expectations" and not row["is_met"] and row["severity"] == "warning"
    ]


def _stored_rows(folder: RunFolder) -> list[dict[str, Any]]:
    if not folder.quality_file.exists():
        return []
    return [json.loads(line) for line in folder.quality_file.read_text(encoding="utf-8").splitlines()]


BATCH_ROWS = 1_000_000  # most rows of a table in pandas at a time
SEVERITIES = {"critical": "error", "warning": "warning", "info": "warning"}  # in gradebook's words
_CONTEXT_LOCK = threading.RLock()  # all threads share the context of great-expectations


def shipped_suites(table: str) -> tuple[ExpectationSuite, ...]:
    """The suite of sql/expectations about a table."""
    return (ExpectationSuite.model_validate(json.loads(read_sql(f"expectations/{table}.json"))),)


def refuse_bad_expectations(suites: Sequence[ExpectationSuite], path: Path) -> None:
    """Raise `ExpectationsError` with every expectation that great-expectations does not know or take."""
    faults = FaultList(ExpectationsError)
    for suite in suites:
        for index, expectation in enumerate(suite.expectations):
            messages = (f"{suite.about(index)}: {message}" for message in _expectation_faults(expectation))
            faults.add(Fault(str(path), None, message) for message in messages)
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
    with _CONTEXT_LOCK:
        library = _great_expectations()
        expectations = [_gx_expectation(expectation) for expectation in suite.expectations]
        gx_suite = library.ExpectationSuite(name=suite.name, expectations=expectations)
        outcomes = _frame_batch().get_batch({"dataframe": frame}).validate(gx_suite, result_format="BASIC").results
    return [_outcome_row(outcome) for outcome in outcomes]


def _batches(run: Run, table: str, columns: tuple[str, ...], files: Sequence[str]) -> Iterator[pa.Table]:
    """Columns of a table, at most `BATCH_ROWS` rows at a time; one batch without rows if it has none."""
    names = ", ".join(f'"{name}"' for name in columns) or "1 as row"  # a suite about the number of rows names no column
    if table == "judgments":
        with connect(run.lake, read_only=True) as connection:
            cursor = connection.execute(f"select {names} from judgments where run_id = ?", [run.run_id])
            yield from _batch_tables(cursor.to_arrow_reader(BATCH_ROWS))
    else:
        with open_database() as connection:
            cursor = connection.execute(f"select {names} from read_parquet({file_list(files)})")
            yield from _batch_tables(cursor.to_arrow_reader(BATCH_ROWS))


def _batch_tables(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    is_empty = True
    for batch in reader:
        is_empty = False
        yield pa.Table.from_batches([batch])
    if is_empty:
        yield reader.schema.empty_table()


@cache
def _great_expectations() -> Any:
    """great-expectations, set up without network access and output."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "False")  # read at import
    # Under PYTHONWARNINGS=error, warnings of its import, and of pandas about patterns with groups, would end the run.
    warnings.filterwarnings("ignore", "module 'sre_", DeprecationWarning)
    warnings.filterwarnings("ignore", "This pattern is interpreted as a regular expression", UserWarning)
    import great_expectations

    # This module sets its own level to INFO and logs the folder of its context.
    logging.getLogger("great_expectations.data_context.types.base").setLevel(logging.WARNING)
    return great_expectations


@cache
def _frame_batch() -> Any:
    """Definition of a batch that is a pandas frame; no other engine is set up, so none runs SQL."""
    context = _great_expectations().get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    return (
        context.data_sources.add_pandas("run").add_dataframe_asset("rows").add_batch_definition_whole_dataframe("all")
    )


def _gx_expectation(expectation: Expectation) -> Any:
    """Expectation of great-expectations. Raises its errors."""
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    configuration = {"type": expectation.type, "kwargs": dict(expectation.kwargs), "severity": expectation.severity}
    return ExpectationConfiguration(**configuration).to_domain_obj()


def _expectation_faults(expectation: Expectation) -> Iterator[str]:
    with _CONTEXT_LOCK:
        _great_expectations()
        from great_expectations.compatibility.pydantic import ValidationError
        from great_expectations.exceptions import ExpectationNotFoundError, GreatExpectationsError
        from great_expectations.expectations.registry import list_registered_expectation_implementations

        try:
            _gx_expectation(expectation)
        except ExpectationNotFoundError:
            names = [name for name in list_registered_expectation_implementations() if name not in REFUSED]
            yield f"type: found {quote_value(expectation.type)}, expected {unknown_word(expectation.type, names)}"
        except ValidationError as error:
            yield from _kwargs_faults(error, expectation.kwargs)
        except (GreatExpectationsError, ValueError, TypeError) as error:
            yield f"kwargs: {error}"


def _kwargs_faults(error: Any, kwargs: dict[str, Any]) -> Iterator[str]:
    """Faults of an expectation's arguments, one for each argument: for a union, pydantic reports every type."""
    messages: dict[str, list[str]] = {}
    for fault in error.errors():
        argument = "" if fault["loc"][0] == "__root__" else place_text(fault["loc"][:1])
        messages.setdefault(argument, []).append(str(fault["msg"]))
    own_messages = {argument: texts for argument, texts in messages.items() if argument}
    for argument, texts in (
        own_messages or messages
    ).items():  # a fault of a whole argument follows from faults of its parts
        observed = f"found {quote_value(kwargs[argument])}" if argument in kwargs else "found none"
        yield f"kwargs.{argument}: {observed}, {texts[0]}" if argument else f"kwargs: {texts[0]}"


def _outcome_row(outcome: Any) -> dict[str, Any]:
    outcome_json = outcome.to_json_dict()
    config, result = outcome_json["expectation_config"], outcome_json["result"]
    arguments = {key: value for key, value in config["kwargs"].items() if key != "batch_id"}
    argument_list = ", ".join(f"{key}={_argument_words(value)}" for key, value in arguments.items())
    failure = _failure_words(outcome_json.get("exception_info") or {})
    observed = failure or result.get("observed_value", result.get("partial_unexpected_list") or None)
    return {
        "expectation": f"{config['type']}({argument_list})",
        "is_met": bool(outcome_json["success"]),
        "severity": SEVERITIES[config["severity"]],
        "unexpected_count": result.get("unexpected_count"),
        "observed": None if observed is None else str(observed)[:_MOST_OBSERVED],
    }


def _failure_words(exceptions: dict[str, Any]) -> str | None:
    """Why an expectation could not be computed; None if it was. exceptions: of the expectation, or by metric."""
    for exception in (exceptions, *exceptions.values()):
        if isinstance(exception, dict) and (message := exception.get("exception_message")):
            return f"not computed: {message}"
    return None


def _argument_words(argument: Any) -> str:
    """An argument as a person would write it; a row condition is a tree."""
    if isinstance(argument, dict) and {"column", "operator", "parameter"} <= argument.keys():
        return f"{argument['column']['name']} {argument['operator']} {argument['parameter']}"
    return str(argument)
