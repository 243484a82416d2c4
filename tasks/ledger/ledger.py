"""Ledger: every paid reply, moved from the journals into the lake's table `judgments`."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.judgments import JUDGMENT_SCHEMA
from gradebook.tasks.judging.replies.journal import read_journal, settled_journals
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit, connect, connect_up_to_date
from gradebook.tasks.lake.sql import query

BATCH_ROWS = 50_000
SETTLE_TRIES, SETTLE_WAIT_S = 50, 0.1


def settle_journals(lake: Lake) -> int:
    """Move the journals that no living process writes into the ledger. Returns the number of new judgments.

    A journal is deleted after its last commit; after a kill in between, the repeated commit adds nothing.
    """
    settled_count = 0
    for path in settled_journals(lake.journal_folder):
        for judgments in read_journal(path, BATCH_ROWS):
            settled_count += _insert(lake, judgments, path)
        path.unlink(missing_ok=True)
    return settled_count


def settle_run(lake: Lake, run_id: str) -> None:
    """Settle the journals of a run that has finished asking, and any others.

    Another process may briefly lock one of them to inspect it; settling is retried for some seconds.
    """
    settle_journals(lake)
    for _ in range(SETTLE_TRIES):
        if not any(lake.journal_folder.glob(f"{run_id}.*.jsonl")):
            return
        time.sleep(SETTLE_WAIT_S)
        settle_journals(lake)


def run_judgments(lake: Lake, run_id: str) -> Iterator[pa.Table]:
    """Judgments that a run paid for, in batches of rows, as `JUDGMENT_SCHEMA`."""
    with connect(lake, read_only=True) as connection:
        names = ", ".join(JUDGMENT_SCHEMA.names)
        found = connection.execute(f"select {names} from judgments where run_id = ?", [run_id])
        for batch in found.to_arrow_reader(BATCH_ROWS):
            yield pa.Table.from_batches([batch]).cast(JUDGMENT_SCHEMA)


def held_judgments(lake: Lake, keys: list[str]) -> dict[str, dict[str, Any]]:
    """Valid judgment of each key, with all columns of `JUDGMENT_SCHEMA`: the earliest scored one."""
    with connect(lake, read_only=True) as connection:
        connection.register("wanted_keys", pa.table({"request_key": pa.array(keys, pa.string())}))
        firsts = query("ledger/first_judgments", columns=", ".join(JUDGMENT_SCHEMA.names))
        found = connection.execute(firsts).to_arrow_table()
    return {row["request_key"]: row for row in found.cast(JUDGMENT_SCHEMA).to_pylist()}


def find_judgments(lake: Lake, name: str) -> list[dict[str, Any]]:
    """Judgments of a request key or of an output, earliest first. Raises `InputError` if there are none."""
    names = ", ".join(JUDGMENT_SCHEMA.names)
    with connect_up_to_date(lake) as connection:
        found = connection.execute(
            f"select {names} from judgments where request_key = $name or output_id = $name "
            "order by criterion_id, asked_at, judgment_id",
            {"name": name},
        ).to_arrow_table()
    judgments: list[dict[str, Any]] = found.to_pylist()
    if not judgments:
        raise InputError(name, f"no judgment of it in {lake.name}", "a request key or an output's id")
    return judgments


def _insert(lake: Lake, judgments: pa.Table, path: Path) -> int:
    count = 0

    def insert_new(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        nonlocal count
        connection.register("journal", judgments)
        row = connection.execute(
            "insert into judgments by name select * from journal "
            "where judgment_id not in (select judgment_id from judgments)"
        ).fetchone()
        count = int(row[0]) if row else 0

    commit(lake, f"judgments of {path.stem.partition('.')[0]}", insert_new)
    return count


# Columns of a judgment that a plan reads; without the raw reply.
HELD_COLUMNS = (
    "judgment_id",
    "run_id",
    "request_key",
    "status",
    "level_id",
    "distribution",
    "rationale",
    "evidence",
    "cost_usd",
    "asked_at",
)
HELD_SCHEMA = pa.schema([JUDGMENT_SCHEMA.field(name) for name in HELD_COLUMNS])


def journaled_judgments(lake: Lake) -> pa.Table:
    """Scored judgments in the journals that no living process writes, as `HELD_SCHEMA`; the journals stay.

    A judgment may also be in the ledger, if its run was killed in between. Raises `LakeError` for a broken journal.
    """
    tables = [HELD_SCHEMA.empty_table()]
    for path in settled_journals(lake.journal_folder):
        for judgments in read_journal(path, BATCH_ROWS):
            held = judgments.select(list(HELD_COLUMNS))
            tables.append(held.filter(pc.equal(held.column("status"), "scored")))
    return pa.concat_tables(tables)
