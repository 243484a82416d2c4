"""Verification of the ledger: keys recomputed, replies read again, verdicts looked up."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import orjson

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.outputs import OUTPUT_COLUMNS
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.sql import quoted
from gradebook.tasks.ledger.rereading import asked_judges
from gradebook.tasks.ledger.verify_sources import Finding, PayingRun, RubricCache, Verification, Verifier

BATCH_ROWS = 2_000
MEMORY_LIMIT = "1GB"

Row = dict[str, Any]
Advance = Callable[[int], None]

_CHOSEN = """
create temp table chosen as
select judgment_id from judgments
where $run is null or run_id = $run or request_key in (select request_key from verdicts where run_id = $run)
or request_key in (select request_key from opinions where run_id = $run)
"""
_JUDGMENTS = f"""
select
    judgments.judgment_id, judgments.run_id, judgments.request_key, judgments.output_id, judgments.criterion_id,
    judgments.replicate, judgments.status, judgments.level_id, judgments.distribution, judgments.prompt_digest,
    judgments.reply, own.body as own_body, {", ".join(f"outputs.{name}" for name in OUTPUT_COLUMNS)}
from judgments
left join outputs on judgments.output_id = outputs.output_id
left join case_criteria as own
    on judgments.run_id = own.run_id
    and judgments.output_id = own.output_id
    and judgments.criterion_id = own.criterion_id
where judgments.judgment_id in (select judgment_id from chosen)
"""
# A run that judged at the same time as another holds its own judgment, whichever of the two came first.
_VERDICTS = """
with recursive scored as (
    select request_key, run_id, level_id, asked_at, judgment_id from judgments where status = 'scored'
),

earliest as (
    select request_key, arg_min(level_id, (asked_at, judgment_id)) as level_id,
        arg_min(judgment_id, (asked_at, judgment_id)) as judgment_id
    from scored group by request_key
),

of_the_run as (
    select request_key, run_id, arg_min(level_id, (asked_at, judgment_id)) as level_id
    from scored group by request_key, run_id
),

-- What several opinions come to is no one judgment's level: each of them is held against the ledger.
said as (
    select run_id, output_id, criterion_id, level_id, request_key from verdicts where method = 'judge'
        and status = 'scored' and run_id not in (select run_id from opinions)
    union all
    select run_id, output_id, criterion_id, level_id, request_key from opinions where status = 'scored'
),

-- A run that was rescored passes its verdicts on: those that judged are its own run and all before it.
origins as (
    select run_id, run_id as judged_run_id from runs
    union
    select origins.run_id, runs.settings::json ->> '$.rescored_from' as judged_run_id
    from origins
    inner join runs on origins.judged_run_id = runs.run_id
    where runs.settings::json ->> '$.rescored_from' is not null
),

passed_on as (
    select origins.run_id, of_the_run.request_key, list(of_the_run.level_id) as level_ids
    from origins
    inner join of_the_run on origins.judged_run_id = of_the_run.run_id
    group by origins.run_id, of_the_run.request_key
)

select verdicts.run_id, verdicts.output_id, verdicts.criterion_id, verdicts.level_id as found,
    earliest.level_id as expected, earliest.judgment_id, verdicts.request_key
from said as verdicts
left join earliest on verdicts.request_key = earliest.request_key
left join passed_on on verdicts.request_key = passed_on.request_key and verdicts.run_id = passed_on.run_id
where ($run is null or verdicts.run_id = $run)
    and verdicts.level_id is distinct from earliest.level_id
    and not coalesce(list_contains(passed_on.level_ids, verdicts.level_id), false)
order by verdicts.run_id, verdicts.output_id, verdicts.criterion_id
"""
_VERDICT_COUNT = (
    "select count(*) from verdicts where method = 'judge' and status = 'scored' and ($run is null or run_id = $run)"
)
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
        connection.execute(_CHOSEN, {"run": run_id})
        begin(_count(connection, "select count(*) from chosen", {}))
        verifier = Verifier(verification, runs, RubricCache(connection.cursor()))
        for batch in connection.execute(_JUDGMENTS).to_arrow_reader(BATCH_ROWS):
            for row in batch.to_pylist():
                verifier.verify(row)
            advance(batch.num_rows)
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


def _count(connection: duckdb.DuckDBPyConnection, query: str, parameters: Row) -> int:
    row = connection.execute(query, parameters).fetchone()
    return int(row[0]) if row else 0


def _verify_verdicts(connection: duckdb.DuckDBPyConnection, run_id: str | None, verification: Verification) -> None:
    verification.verdict_count = _count(connection, _VERDICT_COUNT, {"run": run_id})
    found = connection.execute(_VERDICTS, {"run": run_id})
    while rows := found.fetchmany(BATCH_ROWS):
        for run, output, criterion_id, level_id, expected, judgment_id, key in rows:
            where = f"verdict of {output} on {criterion_id}, key {key}"
            verification.find(Finding(judgment_id, run, where, level_id, expected))
