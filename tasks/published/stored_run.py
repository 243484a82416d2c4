"""A published run, written out as the working files of a run, so that marts can be built from them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from gradebook.rubrics.files.versions import rubric_from_body
from gradebook.rubrics.model.errors import LakeError
from gradebook.rubrics.model.json_values import digest_of
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.rows import Row, read_published_run
from gradebook.tasks.lake.sql import query, quoted
from gradebook.tasks.system.files import replaced_file
from gradebook.tasks.workspace.folder import DETAIL_TABLES, DetailTable, RunFolder

_DRAWN = "and inclusion_rate is not null order by case_id"
_ALL_CRITERIA = "kept"  # takes the place of the criterion's id in file names


@dataclass(frozen=True, slots=True)
class StoredRun:
    """Published run. row: its row of `runs`."""

    row: Row
    rubric: Rubric

    @property
    def run_id(self) -> str:
        """The run's id."""
        return str(self.row["run_id"])

    @property
    def name(self) -> str:
        """Rubric id and version."""
        return f"{self.rubric.id} {self.rubric.version}"

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the run that are not columns."""
        settings: dict[str, Any] = json.loads(self.row["settings"] or "{}")
        return settings


def read_stored_run(connection: duckdb.DuckDBPyConnection, lake: Lake, run_id: str) -> StoredRun:
    """Read a published run. Raises `InputError` if there is none, `LakeError` if its rubric is missing or changed."""
    row = dict(read_published_run(connection, lake, run_id, query("published/run_with_rubric")))
    name, body = f"{row['rubric_id']} {row['rubric_version']}", row.pop("body")
    if body is None:
        raise LakeError(lake.name, f"no rubric {name}", f"the one that run {run_id} used")
    # Digest of the stored text: a later gradebook may serialise the same rubric differently.
    if digest_of(body) != row["rubric_digest"]:
        raise LakeError(lake.name, f"another text of {name} than run {run_id} used", "the same")
    return StoredRun(row, rubric_from_body(body))


def write_run_outputs(connection: duckdb.DuckDBPyConnection, run: StoredRun, folder: RunFolder) -> tuple[str, int]:
    """Write the outputs of a run, without their texts, as one shard, and the weights of its cases, if they have any.

    Returns the file's path and the count of outputs.
    """
    weights = "select distinct case_id, stratum, inclusion_rate from output_scores where run_id = $run_id "
    if not copy_rows(connection, weights + _DRAWN, folder.case_weights_file, run_id=run.run_id):
        folder.case_weights_file.unlink()
    path = folder.path / "shards" / "shard-00000.parquet"
    of_run = {"run_id": run.run_id, "has_no_criteria": not run.rubric.criteria}
    return str(path), copy_rows(connection, query("published/run_outputs"), path, **of_run)


def write_run_case_criteria(connection: duckdb.DuckDBPyConnection, run: StoredRun, folder: RunFolder) -> None:
    """Write the per-case criteria of a run; no file if there are none."""
    path = folder.case_criteria_file(0)
    # Levels are ordered worst first: a gate without a threshold passes at the last level's score.
    select = (
        "select * exclude (run_id), coalesce(threshold, levels[-1].score) as gate_threshold, 0::bigint as row_index "
        "from case_criteria where run_id = $run_id"
    )
    if not copy_rows(connection, select, path, run_id=run.run_id):
        path.unlink()


def write_run_verdicts(
    connection: duckdb.DuckDBPyConnection, select: str, folder: RunFolder, **parameters: object
) -> int:
    """Write the verdicts of all criteria to one file; returns their count."""
    return copy_rows(connection, select, folder.collected_file(0), **parameters)


def write_run_details(
    connection: duckdb.DuckDBPyConnection,
    run: StoredRun,
    folder: RunFolder,
    tables: Sequence[DetailTable] = DETAIL_TABLES,
    dropped: Sequence[str] = (),
) -> None:
    """Write the detail tables of a run's verdicts under the id of the folder's run; no file for a table without rows.

    dropped: ids of criteria that are left out.
    """
    parameters = {"run_id": folder.run_id, "source_run_id": run.run_id, "dropped": [*dropped]}
    for table in tables:
        path = folder.detail_file(table, _ALL_CRITERIA, 0)
        select = (
            f"select $run_id as run_id, * exclude (run_id) from {table} "
            "where run_id = $source_run_id and not list_contains($dropped::varchar[], criterion_id)"
        )
        if not copy_rows(connection, select, path, **parameters):
            path.unlink()


def copy_rows(connection: duckdb.DuckDBPyConnection, select: str, path: Path, **parameters: object) -> int:
    """Write the rows of a select to a Parquet file, completely or not at all; returns their count."""
    with replaced_file(path) as temporary:
        target = f"'{quoted(str(temporary))}' (format parquet, compression zstd)"
        row = connection.execute(f"copy ({select}) to {target}", parameters).fetchone()
    return int(row[0]) if row else 0
