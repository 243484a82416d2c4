"""The ledger: every reply that was paid for, moved from the journals into the lake's table `judgments`."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa

from rubrics.judgments import JUDGMENT_SCHEMA
from tasks.judging.journal import read_journal, settled_journals
from tasks.lake import Lake, commit, connect

BATCH_ROWS = 50_000


def settle_journals(lake: Lake) -> int:
    """Move the journals that no living process writes into the ledger. Returns how many judgments came.

    A journal is deleted after its last commit; what was committed and not deleted adds nothing the second time.
    """
    settled_count = 0
    for path in settled_journals(lake.journal_folder):
        for judgments in read_journal(path, BATCH_ROWS):
            settled_count += _insert(lake, judgments, path)
        path.unlink(missing_ok=True)
    return settled_count


def run_judgments(lake: Lake, run_id: str) -> Iterator[pa.Table]:
    """The judgments that a run paid for, a batch of rows at a time, as `JUDGMENT_SCHEMA`."""
    with connect(lake, read_only=True) as connection:
        names = ", ".join(JUDGMENT_SCHEMA.names)
        found = connection.execute(f"select {names} from judgments where run_id = ?", [run_id])
        for batch in found.to_arrow_reader(BATCH_ROWS):
            yield pa.Table.from_batches([batch]).cast(JUDGMENT_SCHEMA)


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
