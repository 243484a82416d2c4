"""The table `checkpoints`: one final decision for each model, checkpoint, rubric version and content of outputs."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import duckdb

from gradebook.rubrics.model.errors import Fault, OutputsError
from gradebook.tasks.datasets.discovery import read_rows as read_output_rows
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit, connect_up_to_date
from gradebook.tasks.lake.errors import NoLakeThere
from gradebook.tasks.lake.rows import Row, read_rows
from gradebook.tasks.lake.sql import query

APPROVED, NEEDS_REVISION = "approved", "needs_revision"

_DECIDED = """
select * from checkpoints
where model = ? and checkpoint = ? and rubric_id = ? and rubric_version = ? and dataset_digest = ?
"""
_ALL = "select * from checkpoints where ? is null or model = ? order by decided_at desc, model, checkpoint, rubric_id"
_KEYS = "select model, checkpoint, dataset_digest from checkpoints where rubric_id = ? and rubric_version = ?"


@dataclass(frozen=True, slots=True)
class CheckpointKey:
    """Key of a decision. dataset_digest: of the content of the outputs' files."""

    model: str
    checkpoint: str
    rubric_id: str
    rubric_version: str
    dataset_digest: str

    @property
    def values(self) -> tuple[str, ...]:
        """All fields, in order."""
        return self.model, self.checkpoint, self.rubric_id, self.rubric_version, self.dataset_digest


def decide(lake: Lake, row: Row) -> Row:
    """Insert the decision unless one exists; returns the stored decision. row: all columns, by name."""
    stored: list[Row] = []

    def body(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        earlier = read_rows(connection, _DECIDED, *key_of(row).values)
        if not earlier:
            names, marks = ", ".join(row), ", ".join("?" for _ in row)
            connection.execute(f"insert into checkpoints ({names}) values ({marks})", list(row.values()))
        stored[:] = earlier or [row]

    commit(lake, f"checkpoint {row['model']} @ {row['checkpoint']} {row['status']} by {row['run_id']}", body)
    return stored[0]


def key_of(row: Row) -> CheckpointKey:
    """Key of a row of the table."""
    return CheckpointKey(*(row[name] for name in CheckpointKey.__dataclass_fields__))


def find_decided(lake: Lake, key: CheckpointKey) -> Row | None:
    """Stored decision of a key; None if there is none."""
    return _first(lake, _DECIDED, *key.values)


def approved_checkpoints(lake: Lake, key: CheckpointKey, before: datetime | None = None) -> tuple[Row, ...]:
    """Approved checkpoints of the model, except this one, under the same rubric version, highest mean first.

    before: only those decided before this time.
    """
    named = {name: getattr(key, name) for name in ("model", "checkpoint", "rubric_id", "rubric_version")}
    with suppress(NoLakeThere), connect_up_to_date(lake) as connection:
        return read_rows(connection, query("operations/approved_checkpoints"), before=before, **named)
    return ()


def list_checkpoints(lake: Lake, model: str | None = None) -> tuple[Row, ...]:
    """List all decisions, or one model's, newest first. Raises `LakeError` if there is no lake."""
    with connect_up_to_date(lake) as connection:
        return read_rows(connection, _ALL, model, model)


def decided_keys(lake: Lake, rubric_id: str, rubric_version: str) -> frozenset[tuple[str, str, str]]:
    """Model, checkpoint and digest of the outputs of each decision by a rubric version."""
    with suppress(NoLakeThere), connect_up_to_date(lake) as connection:
        rows = read_rows(connection, _KEYS, rubric_id, rubric_version)
        return frozenset((row["model"], row["checkpoint"], row["dataset_digest"]) for row in rows)
    return frozenset()


def name_checkpoint(
    files: Sequence[Path], column_map: Mapping[str, str], checkpoint: str | None = None, step: int | None = None
) -> str:
    """Name of a checkpoint: the given name, otherwise the one in its outputs, otherwise its step.

    Raises `OutputsError` if there is none of the three.
    """
    if checkpoint:
        return checkpoint
    source = column_map.get("checkpoint", "checkpoint")
    with closing(read_output_rows(files, column_map)) as rows:  # type: ignore[type-var]  # a generator
        named = next((row.content.get(source) for row in rows if isinstance(row.content, dict)), None)
    if named not in (None, ""):
        return str(named)
    if step is not None:
        return str(step)
    name = str(files[0]) if files else "outputs"
    message = "found no column `checkpoint`, no --checkpoint and no --step, expected one of them"
    raise OutputsError((Fault(name, None, message),))


def _first(lake: Lake, select: str, *parameters: object) -> Row | None:
    rows: Iterable[Row] = ()
    with suppress(NoLakeThere), connect_up_to_date(lake) as connection:
        rows = read_rows(connection, select, *parameters)
    return next(iter(rows), None)
