"""Replies that no ledger holds yet: what runs that were killed left in their journals."""

import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.judgments import JUDGMENT_SCHEMA
from gradebook.tasks.judging.journal import read_journal, settled_journals
from gradebook.tasks.lake import Lake

BATCH_ROWS = 50_000
# What a plan reads of a judgment: no raw replies.
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
    """The scored judgments in the journals that no living process writes, as `HELD_SCHEMA`; the journals stay.

    One may be in the ledger too, if its run was killed between the two. Raises `LakeError` for a broken journal.
    """
    tables = [HELD_SCHEMA.empty_table()]
    for path in settled_journals(lake.journal_folder):
        for judgments in read_journal(path, BATCH_ROWS):
            held = judgments.select(list(HELD_COLUMNS))
            tables.append(held.filter(pc.equal(held.column("status"), "scored")))
    return pa.concat_tables(tables)
