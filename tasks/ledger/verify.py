"""Verification of the ledger: keys recomputed, replies read again, verdicts looked up."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import orjson
import pyarrow as pa

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.outputs import OUTPUT_COLUMNS
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import make_table
from gradebook.tasks.lake.sql import query, quoted
from gradebook.tasks.ledger.rereading import asked_judges
from gradebook.tasks.ledger.verify_sources import (
    LedgerMismatch,
    PayingRun,
    RubricCache,
    Verification,
    Verifier,
    preference_keys,
)

BATCH_ROWS = 2_000
MEMORY_LIMIT = "1GB"

Row = dict[str, Any]
Advance = Callable[[int], None]

_VERDICT_COUNT = (
    "select count(*) from verdicts where status = 'scored' and ($run is null or run_id = $run) "
    "and (method = 'judge' or (method = 'preference' and request_key is not null))"
)
KEYS_SCHEMA = pa.schema([pa.field(name, pa.string()) for name in ("run_id", "first_key", "second_key")])
_PREFERENCE_KEYS = "create temp table preference_keys (run_id varchar, first_key varchar, second_key varchar)"
_RUNS = "select run_id, status, rubric_id, rubric_version, settings::json -> '$.judge' as judge from runs"


def verify_ledger(
    lake: Lake, run_id: str | None = None, begin: Advance = lambda _count: None, advance: Advance = lambda _count: None
) -> Verification:
    """Compare each judgment with its judge, criterion, case and raw reply, and each judged verdict with the ledger.

    run_id: only judgments that this run paid for or whose replies its verdicts use. begin is called with the number of
    judgments, advance with the number of further ones done. Memory does not grow with the ledger. Raises `InputError`
    for an unknown run.
    """
    verification = Verification()
    with _opened(lake) as connection:
        runs = _read_runs(connection)
        if run_id is not None and run_id not in runs:
            raise InputError("--run", f"no {run_id!r} in {lake.name}", "one that `gradebook runs` lists")
        make_table(connection, "ledger/chosen", run_id=run_id)
        begin(_count(connection, "select count(*) from chosen", {}))
        output_columns = ", ".join(f"outputs.{name}" for name in OUTPUT_COLUMNS)
        judgments = query("ledger/judgments_to_verify", output_columns=output_columns)
        rubrics = RubricCache(connection.cursor())
        verifier = Verifier(verification, runs, rubrics)
        for batch in connection.execute(judgments).to_arrow_reader(BATCH_ROWS):
            for row in batch.to_pylist():
                verifier.verify(row)
            advance(batch.num_rows)
        _make_preference_keys(connection, run_id, runs, rubrics)
        _verify_verdicts(connection, run_id, verification)
    return verification


@contextmanager
def _opened(lake: Lake) -> Iterator[duckdb.DuckDBPyConnection]:
    """Connection to the lake, with a memory limit and a temporary folder for spilling."""
    with (
        connect_up_to_date(lake, is_unshared=True) as connection,
        TemporaryDirectory(prefix="gradebook-verify-") as folder,
    ):
        connection.execute(f"set memory_limit = '{MEMORY_LIMIT}'")
        connection.execute(f"set temp_directory = '{quoted(folder)}'")
        yield connection


def _read_runs(connection: duckdb.DuckDBPyConnection) -> dict[str, PayingRun]:
    runs = {}
    for run_id, status, rubric_id, version, text in connection.execute(_RUNS).fetchall():
        judge = orjson.loads(text) if text else None
        judges = asked_judges(judge) if isinstance(judge, dict) else ()
        runs[run_id] = PayingRun(status == "published", (rubric_id, version), judges)
    return runs


def _count(connection: duckdb.DuckDBPyConnection, select: str, parameters: Row) -> int:
    row = connection.execute(select, parameters).fetchone()
    return int(row[0]) if row else 0


def _make_preference_keys(
    connection: duckdb.DuckDBPyConnection, run_id: str | None, runs: dict[str, PayingRun], rubrics: RubricCache
) -> None:
    """Make the table of both keys of the judged preferences, as far as they can be recomputed."""
    connection.execute(_PREFERENCE_KEYS)
    output_columns = ", ".join(f"outputs.{name}" for name in OUTPUT_COLUMNS)
    preferences = query("ledger/preferences_to_verify", output_columns=output_columns)
    with closing(connection.cursor()) as reading:
        reading.execute("use lake")
        for batch in reading.execute(preferences, {"run_id": run_id}).to_arrow_reader(BATCH_ROWS):
            keys = [
                {"run_id": row["run_id"], "first_key": first, "second_key": second}
                for row in batch.to_pylist()
                for first, second in preference_keys(row, runs, rubrics)
            ]
            connection.register("found_keys", pa.Table.from_pylist(keys, KEYS_SCHEMA))
            connection.execute("insert into preference_keys by name from found_keys")
            connection.unregister("found_keys")


def _verify_verdicts(connection: duckdb.DuckDBPyConnection, run_id: str | None, verification: Verification) -> None:
    verification.verdict_count = _count(connection, _VERDICT_COUNT, {"run": run_id})
    make_table(connection, "ledger/looked_up", run_id=run_id)
    make_table(connection, "ledger/passed_on")
    found = connection.execute(query("ledger/wrong_verdicts"))
    while rows := found.fetchmany(BATCH_ROWS):
        for run, output, criterion_id, level_id, expected, judgment_id, key in rows:
            where = f"verdict of {output} on {criterion_id}, key {key}"
            verification.find(LedgerMismatch(judgment_id, run, where, level_id, expected))
