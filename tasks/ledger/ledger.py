"""Ledger: every paid reply, moved from the journals into the lake's table `judgments`."""

import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.verdicts import JUDGMENT_SCHEMA
from gradebook.tasks.judging.replies.journal import BrokenLine, read_journal, settled_journals
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit, connect, connect_up_to_date
from gradebook.tasks.lake.sql import query
from gradebook.tasks.system.files import write_bytes
from gradebook.tasks.workspace.folder import RunFolder

BATCH_ROWS = 50_000
BROKEN_SUFFIX = ".broken"
SETTLE_TRIES, SETTLE_WAIT_S = 50, 0.1


def settle_journals(lake: Lake, notes: list[str] | None = None) -> int:
    """Move the journals that no living process writes into the ledger. Returns the number of new judgments.

    A journal is deleted after its last commit; after a kill in between, the repeated commit adds nothing. Broken lines
    are set aside in a file next to it, with a sentence in `notes`: they must not block the replies of others.
    """
    settled_count = 0
    for path in settled_journals(lake.journal_folder):
        broken: list[BrokenLine] = []
        for judgments in read_journal(path, BATCH_ROWS, broken.append):
            settled_count += _insert(lake, judgments, path) if judgments.num_rows else 0
        if broken:
            note = _set_aside(path, broken)
            if notes is not None:
                notes.append(note)
        path.unlink(missing_ok=True)
    return settled_count


def broken_journals(lake: Lake) -> list[Path]:
    """Files of journal lines that were set aside because they do not read."""
    return sorted(lake.journal_folder.glob(f"*{BROKEN_SUFFIX}"))


def _set_aside(path: Path, broken: list[BrokenLine]) -> str:
    """Copy the broken lines of a journal to a file next to it; returns a sentence about it."""
    aside = path.with_name(path.name + BROKEN_SUFFIX)
    text = b"".join(line for _, line in broken)  # a run of short lines is one broken line
    write_bytes(aside, text, is_synced=True)
    line_count = text.count(b"\n")
    lines = "1 line of a journal is" if line_count == 1 else f"{line_count:,} lines of a journal are"
    return f"{lines} no judgment and set aside in {aside}: {broken[0][0]}"


def settle_run(lake: Lake, folder: RunFolder) -> None:
    """Settle the journals of a run that has finished asking, and any others; notes go to the run's folder.

    Another process may briefly lock one of them to inspect it; settling is retried for some seconds.
    """
    notes: list[str] = []
    try:
        _settle_run(lake, folder.run_id, notes)
    finally:
        folder.add_notes(notes)


def _settle_run(lake: Lake, run_id: str, notes: list[str]) -> None:
    settle_journals(lake, notes)
    for _ in range(SETTLE_TRIES):
        if not any(lake.journal_folder.glob(f"{run_id}.*.jsonl")):
            return
        time.sleep(SETTLE_WAIT_S)
        settle_journals(lake, notes)


def run_judgments(lake: Lake, run_id: str) -> Iterator[pa.Table]:
    """Judgments that a run paid for, in batches of rows, as `JUDGMENT_SCHEMA`."""
    with connect(lake, read_only=True) as connection:
        names = ", ".join(JUDGMENT_SCHEMA.names)
        cursor = connection.execute(f"select {names} from judgments where run_id = ?", [run_id])
        for batch in cursor.to_arrow_reader(BATCH_ROWS):
            yield pa.Table.from_batches([batch]).cast(JUDGMENT_SCHEMA)


def held_judgments(lake: Lake, keys: list[str]) -> dict[str, dict[str, Any]]:
    """Valid judgment of each key, with all columns of `JUDGMENT_SCHEMA`: the earliest scored one."""
    with connect(lake, read_only=True) as connection:
        connection.register("wanted_keys", pa.table({"request_key": pa.array(keys, pa.string())}))
        firsts = query("ledger/first_judgments", columns=", ".join(JUDGMENT_SCHEMA.names))
        judgments = connection.execute(firsts).to_arrow_table()
    return {row["request_key"]: row for row in judgments.cast(JUDGMENT_SCHEMA).to_pylist()}


def answering_models(lake: Lake, run_id: str) -> list[tuple[str, str]]:
    """Pairs (judge, model name in its replies) of the judges that a run paid, sorted."""
    with connect(lake, read_only=True) as connection:
        return connection.execute(
            "select distinct judge, model_returned from judgments "
            "where run_id = ? and model_returned != '' order by all",
            [run_id],
        ).fetchall()


def unreadable_replies(lake: Lake, run_id: str, statuses: Collection[str]) -> list[dict[str, Any]]:
    """One row per judge of a run with unreadable replies, or with scored replies that are not JSON.

    Columns: the count of all replies and of both kinds, and the first unreadable reply. statuses: statuses that count
    as unreadable.
    """
    with connect(lake, read_only=True) as connection:
        cursor = connection.execute(query("ledger/unreadable_replies"), {"run_id": run_id, "statuses": [*statuses]})
        rows: list[dict[str, Any]] = cursor.to_arrow_table().to_pylist()
    return rows


def find_judgments(lake: Lake, name: str) -> list[dict[str, Any]]:
    """Judgments of a request key or of an output, earliest first. Raises `InputError` if there are none."""
    names = ", ".join(JUDGMENT_SCHEMA.names)
    with connect_up_to_date(lake) as connection:
        table = connection.execute(
            f"select {names} from judgments where request_key = $name or output_id = $name "
            "order by criterion_id, asked_at, judgment_id",
            {"name": name},
        ).to_arrow_table()
    judgments: list[dict[str, Any]] = table.to_pylist()
    if not judgments:
        raise InputError(name, f"no judgment of it in {lake.name}", "a request key or an output's id")
    return judgments


def _insert(lake: Lake, judgments: pa.Table, path: Path) -> int:
    count = 0

    def insert_new(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        nonlocal count
        connection.register("journal", judgments)
        row = connection.execute(
            "insert into judgments by name select distinct on (judgment_id) * from journal "
            "anti join judgments using (judgment_id)"  # `not in` finds nothing new if there is a null
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

    A judgment may also be in the ledger, if its run was killed in between. Broken lines are left out.
    """
    tables = [HELD_SCHEMA.empty_table()]
    for path in settled_journals(lake.journal_folder):
        for judgments in read_journal(path, BATCH_ROWS, lambda _: None):
            planned = judgments.select(list(HELD_COLUMNS))
            tables.append(planned.filter(pc.equal(planned.column("status"), "scored")))
    return pa.concat_tables(tables)
