"""Publication of a run: its files are placed in the tables' folders and added in one transaction."""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gradebook.rubrics.model.errors import GradebookError, InputError
from gradebook.rubrics.model.methods import PreferenceMethod
from gradebook.tasks.comparing.sides import read_epoch
from gradebook.tasks.datasets.case_criteria import case_criteria_files
from gradebook.tasks.datasets.ingest import Ingested
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.commits import CommitUnknown
from gradebook.tasks.lake.connections import commit, connect, connect_up_to_date
from gradebook.tasks.lake.object_store import BucketLocation, open_store, translate_storage_errors
from gradebook.tasks.lake.schema import copy_small_tables
from gradebook.tasks.lake.sql import quoted
from gradebook.tasks.ledger.recordings import write_recording
from gradebook.tasks.marts.models import mart_names
from gradebook.tasks.marts.sources import run_costs
from gradebook.tasks.published.summary import OF_SUMMARY, RunSummary, read_summary
from gradebook.tasks.ratings.pairs import current_preferences, insert_preferences, preferences_of_runs
from gradebook.tasks.ratings.tables import insert_ratings
from gradebook.tasks.rubric_store.versions import store_rubric
from gradebook.tasks.runs.run import Run
from gradebook.tasks.stages.open_run import insert_row, is_published, remove_row, replace_findings, run_row
from gradebook.tasks.stages.quality import read_findings
from gradebook.tasks.system.events import Piece, piece_span
from gradebook.tasks.system.files import write_parquet, write_text
from gradebook.tasks.system.progress import reporter
from gradebook.tasks.workspace.folder import DETAIL_TABLES, RunFolder
from gradebook.tasks.workspace.lock import created_at
from gradebook.tasks.workspace.timings import append_other, process_cpu_s

CHUNK_BYTES = 8 * 2**20  # size of an upload's parts: object storage requires at least 5 MB


class RunFiles:
    """Files that a publication may add to tables; each is placed once, even if its transaction is retried."""

    def __init__(self, lake: Lake, folder: RunFolder) -> None:
        self._lake = lake
        # Two machines may use one run id: neither may overwrite the files that the other one published.
        begun = created_at(folder).isoformat().encode()
        self._name = f"{folder.run_id}-{hashlib.blake2b(begun, digest_size=4).hexdigest()}"
        self._locations: dict[tuple[str, Path], str] = {}

    def put(self, table: str, file: Path, partition: str = "") -> str:
        """Place a file in the table's folder and return its place; no table refers to it yet.

        Raises `LakeError` and `StorageUnavailable` as `translate_storage_errors` does.
        """
        if (table, file) not in self._locations:
            folder = f"{table}/{partition}" if partition else table
            location = f"{self._lake.data_path}/main/{folder}/{self._name}-{file.name}"
            self._locations[table, file] = location  # before the write, so that a partial file is removed too
            if self._lake.bucket is None:
                _link(file, Path(location))
            else:
                _upload(file, location, self._lake.bucket)
        return self._locations[table, file]

    def remove(self, added: Collection[str] = ()) -> None:
        """Remove placed files, except files added to tables; a file that can't be removed is a harmless orphan."""
        for location in set(self._locations.values()) - set(added):
            if self._lake.bucket is None:
                Path(location).unlink(missing_ok=True)
                continue
            with suppress(OSError, GradebookError):
                open_store().delete_file(location.removeprefix("s3://"))


def _link(file: Path, location: Path) -> None:
    location.parent.mkdir(parents=True, exist_ok=True)
    location.unlink(missing_ok=True)  # left by a failed transaction
    try:
        os.link(file, location)
    except OSError:  # another file system
        shutil.copyfile(file, location)


def _upload(file: Path, location: str, bucket: BucketLocation) -> None:
    with (
        translate_storage_errors(bucket),
        file.open("rb") as source,
        open_store().open_output_stream(location.removeprefix("s3://")) as target,
    ):
        shutil.copyfileobj(source, target, CHUNK_BYTES)


def publish_run(run: Run, ingested: Ingested, notes: list[str]) -> int:
    """Publish the run in one transaction and return its version.

    Raises `RubricError` if another run has published the rubric's version with another text in the meantime,
    `StorageUnavailable` if the lake's object storage does not answer.
    """
    reporter().begin("publish", None)
    with piece_span(Piece(run.run_id, "publish")):
        version = _publish(run, ingested, notes)
    reporter().end("publish")
    return version


def _publish(run: Run, ingested: Ingested, notes: list[str]) -> int:
    folder = run.folder
    append_other(folder)
    clock = time.perf_counter(), process_cpu_s()
    findings = read_findings(folder)
    costs = run_costs(run)
    write_parquet(folder.mart_file("stage_costs"), costs)
    totals = {"output_count": ingested.output_count, "cost_usd": _billed_usd(costs), "notes": notes}
    shard_bytes = sum(Path(shard).stat().st_size for shard in ingested.shards)

    files, added = RunFiles(run.lake, folder), set[str]()

    def body(connection: duckdb.DuckDBPyConnection, version: int) -> None:
        _remove_unfinished(connection, run.run_id)
        added.clear()  # the transaction may be retried
        store_rubric(connection, run.rubric, run.created_at)
        for index, shard in enumerate(ingested.shards):
            if _has_new_outputs_only(connection, shard):
                added.add(_add_file(connection, "outputs", files.put("outputs", Path(shard))))
            else:
                added.update(_insert_rows(connection, folder, files, "outputs", {"file": shard}))
            added.add(_add_file(connection, "verdicts", _put_verdicts(run, files, index)))
        for table in _marts(folder):
            _insert_parquet(connection, table, folder.mart_file(table))
        replace_findings(connection, run.run_id, findings)
        _insert_parquet(connection, "quarantine", folder.quarantine_file)
        added.update(_insert_case_criteria(connection, folder, files))
        for table in DETAIL_TABLES:
            for file in folder.detail_files(table):
                _insert_parquet(connection, table, file)
        if folder.feedback_file.exists():
            _insert_parquet(connection, "written_feedback", folder.feedback_file)
        _insert_ratings(connection, folder)
        _insert_cost(connection, run, "publish", ingested.output_count, *clock)
        epoch = read_epoch(connection, run.judge)
        row = {**run_row(run, "published", None), **totals, "version": version, "judge_epoch": epoch}
        insert_row(connection, row)
        _insert_preferences(connection, run, folder)

    extra = json.dumps({"run_id": run.run_id, "rubric": f"{run.rubric.id} {run.rubric.version}"})
    try:
        _upload_ahead(run, files, ingested.shards)
        version = commit(run.lake, f"publish run {run.run_id}", body, extra=extra, other_bytes=shard_bytes)
    except CommitUnknown:  # the files may belong to a published run
        raise
    except BaseException:
        _remove_unpublished(run, files, added)
        raise
    files.remove(added)  # another run may have added the same outputs during the upload
    return version


def _upload_ahead(run: Run, files: RunFiles, shards: Iterable[str]) -> None:
    """Upload files to object storage before the transaction, because other writers wait during it."""
    if run.lake.bucket is None:
        return
    with connect(run.lake, read_only=True) as connection:
        new_shards = [shard for shard in shards if _has_new_outputs_only(connection, shard)]
    for shard in new_shards:
        files.put("outputs", Path(shard))
    for index, _ in enumerate(shards):
        _put_verdicts(run, files, index)


def _put_verdicts(run: Run, files: RunFiles, index: int) -> str:
    return files.put("verdicts", run.folder.collected_file(index), f"run_id={run.run_id}")


def _remove_unpublished(run: Run, files: RunFiles, added: Collection[str]) -> None:
    """Remove the files of a failed transaction."""
    with suppress(GradebookError, duckdb.Error):  # if the lake does not answer, the files stay as harmless orphans
        # published: the process was interrupted just after the commit
        files.remove(added if is_published(run) else ())


def _remove_unfinished(connection: duckdb.DuckDBPyConnection, run_id: str) -> None:
    """Delete the row of the unfinished run; `InputError` if another process has published the run meanwhile.

    Publishing it again would store its verdicts twice.
    """
    if not remove_row(connection, run_id):
        raise InputError("--run-id", f"{run_id}, which another process has published meanwhile", "a new id")


def conclude_run(run: Run) -> RunSummary:
    """Write the report and the recording of a published run, and mark it as finished; returns its summary.

    Reviews and runs from Python get no page, as its charts would take longer than the run; `gradebook report` makes it.
    """
    with concluded_run(run) as (summary, _):
        return summary


@contextmanager
def concluded_run(run: Run) -> Iterator[tuple[RunSummary, duckdb.DuckDBPyConnection]]:
    """Conclude a run as `conclude_run`; yields its summary, and a connection with the lake's small tables in memory."""
    folder = run.folder
    clock = time.perf_counter(), process_cpu_s()
    if run.request.record is not None:
        write_recording(run.lake, folder, run.rubric, Path(run.request.record))
    with connect_up_to_date(
        run.lake, is_pinned=run.request.has_page
    ) as connection:  # without a page few queries read the lake
        if run.request.has_page:
            copy_small_tables(connection)
        else:
            copy_small_tables(connection, OF_SUMMARY, stays_open=True)
        summary = read_summary(connection, run.lake, run.run_id)
        if run.request.has_page:
            from gradebook.tasks.reporting.page import write_own_report

            summary = write_own_report(connection, run.lake, summary, folder.report_file)
        yield summary, connection
    if run.request.has_page:
        _store_report_cost(run, *clock)
    write_text(folder.published_file, json.dumps(summary.as_json(), default=str))


def _store_report_cost(run: Run, wall_s: float, cpu_s: float) -> None:
    """Add the row of the report to the costs of a published run, unless an earlier command did."""

    def body(connection: duckdb.DuckDBPyConnection, _version: int) -> None:
        query = "select 1 from stage_costs where run_id = ? and stage = 'report'"
        if not connection.execute(query, [run.run_id]).fetchall():
            _insert_cost(connection, run, "report", 0, wall_s, cpu_s)

    with suppress(GradebookError, duckdb.Error, OSError):  # the run is published, and its report is written
        commit(run.lake, f"report of {run.run_id}", body)


def _billed_usd(costs: pa.Table) -> float | None:
    """Cost of the run; None if a price is unknown."""
    billed = costs.column("cost_usd")
    total: float | None = None if billed.null_count else pc.sum(billed).as_py()
    return total


def _insert_cost(
    connection: duckdb.DuckDBPyConnection, run: Run, stage: str, row_count: int, wall_s: float, cpu_s: float
) -> None:
    """Insert the row of a stage, whose times run from the clock readings wall_s and cpu_s to the commit."""
    connection.execute(
        "insert into stage_costs by name "
        "select ? as run_id, ? as stage, ? as wall_s, ? as cpu_s, ? as row_count, "
        "0 as request_count, 0 as replayed_count, 0 as prompt_tokens, 0 as cached_tokens, 0 as completion_tokens, "
        "0.0 as cost_usd, 0.0 as saved_usd",
        [run.run_id, stage, time.perf_counter() - wall_s, process_cpu_s() - cpu_s, row_count],
    )


def _marts(folder: RunFolder) -> list[str]:
    return [name for name in mart_names() if folder.mart_file(name).exists()]


def _has_new_outputs_only(connection: duckdb.DuckDBPyConnection, shard: str) -> bool:
    """Whether all outputs of a shard are new; each output is stored once for all runs."""
    stored_row = connection.execute(
        "select count(*) from read_parquet(?) where output_id in (select output_id from outputs)", [shard]
    ).fetchone()
    return stored_row == (0,)


def _insert_case_criteria(connection: duckdb.DuckDBPyConnection, folder: RunFolder, files: RunFiles) -> Iterator[str]:
    for path in case_criteria_files(folder):
        values = {"file": str(path), "run_id": folder.run_id}
        yield from _insert_rows(connection, folder, files, "case_criteria", values)


_NEW_OUTPUTS = "from read_parquet($file) anti join outputs using (output_id)"
_CASE_CRITERIA = "select $run_id as run_id, * exclude (row_index, gate_threshold) from read_parquet($file)"
_NESTED = {  # table -> (select of its new rows, its columns with lists)
    "outputs": (_NEW_OUTPUTS, "{context: context, steps: steps}"),
    "case_criteria": (_CASE_CRITERIA, "levels"),
}


def _insert_rows(
    connection: duckdb.DuckDBPyConnection,
    folder: RunFolder,
    files: RunFiles,
    table: str,
    values: Mapping[str, str],
) -> set[str]:
    """Insert the rows of `_NESTED`; returns the data files that hold them, if any.

    DuckLake keeps few rows in the catalog and can't write a NUL in a list there (1.5.5): such rows are added as a file.
    """
    select, lists = _NESTED[table]
    connection.execute(f"create or replace temp table new_rows as {select}", values)
    if connection.execute("select count(*) from new_rows").fetchone() == (0,):
        return set()  # outputs of a run that is scored again have no texts
    has_nul = f"select count(*) from new_rows where contains(to_json({lists})::varchar, '\\u0000')"
    if connection.execute(has_nul).fetchone() == (0,):
        connection.execute(f"insert into {table} by name from new_rows")
        return set()
    path = folder.mart_file(f"{table}-{uuid4().hex}")  # a retried transaction may have other rows
    path.parent.mkdir(exist_ok=True)
    connection.execute(f"copy new_rows to '{quoted(str(path))}' (format parquet)")
    return {_add_file(connection, table, files.put(table, path))}


def _add_file(connection: duckdb.DuckDBPyConnection, table: str, location: str) -> str:
    """Add a placed file to a table without rewriting it; returns its place."""
    connection.execute("call ducklake_add_data_files('lake', ?, ?)", [table, location])
    return location


def _insert_parquet(connection: duckdb.DuckDBPyConnection, table: str, file: Path) -> None:
    if pq.read_metadata(file).num_rows:  # planning an empty insertion takes longer than this check
        connection.execute(f"insert into {table} by name from read_parquet(?)", [str(file)])


def _insert_preferences(connection: duckdb.DuckDBPyConnection, run: Run, folder: RunFolder) -> None:
    """Store ratings on criteria by preference as choices between two outputs.

    The run gets those of all current ratings, and earlier runs of the same outputs those of the run's ratings file.
    """
    if not any(isinstance(each.method, PreferenceMethod) for each in run.rubric.criteria):
        return
    if folder.ratings_file.exists():
        ratings = pq.read_table(folder.ratings_file, filters=[("is_from_file", "=", True)])
        for preferences in preferences_of_runs(connection, ratings):
            insert_preferences(connection, preferences)
    insert_preferences(connection, current_preferences(connection, run.rubric, run.run_id))


def _insert_ratings(connection: duckdb.DuckDBPyConnection, folder: RunFolder) -> None:
    """Store the new ratings of the run's ratings file."""
    if folder.ratings_file.exists():
        file = quoted(str(folder.ratings_file))
        insert_ratings(connection, f"(select * exclude (is_from_file) from read_parquet('{file}') where is_from_file)")
