"""Recordings: the replies that a run used, in a file for `replay:FILE`."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import duckdb
import orjson

from gradebook.rubrics.model.errors import InputError, JudgeSettingsError, UnfinishedError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.datasets.case_criteria import judged_names
from gradebook.tasks.judging.replies.recorded_judge import NO_REPLY, RecordedStatus, check_recording
from gradebook.tasks.judging.settings.judge import Judge
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.lake.sql import query
from gradebook.tasks.system.files import replaced_file
from gradebook.tasks.workspace.folder import RunFolder

BATCH_ROWS = 2_000
SLOT_FIELDS = ("case_id", "model", "checkpoint", "sample_index", "criterion_id", "output_id", "replicate")

Row = dict[str, Any]


def refuse_record(path: Path, judge: Judge | None) -> None:
    """Raise `InputError` if a run's replies cannot be written to a file, or would replace something else."""
    if judge is None:
        raise InputError("--record", "no --judge", "one whose replies are to be kept")
    if len(judge.members) > 1:  # lines of a recording do not name their judge
        raise InputError("--record", judge.judge, "a single judge")
    if any(recording.path.resolve() == path.resolve() for recording in judge.recordings):
        raise InputError("--record", f"{path}, which --judge reads", "another file")
    try:
        folder = next(parent for parent in path.absolute().parents if parent.exists())
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            raise InputError(f"--record: {folder} can't be written, expected a folder that can")
        kind = path.stat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(f"--record: can't write {path}: {error.strerror}") from None
    if not stat.S_ISREG(kind):
        raise InputError("--record", f"{path}, which is no file", "a recording or a new file")
    try:
        check_recording(path)
    except JudgeSettingsError as error:
        raise InputError(f"--record: expected a recording or a new file; {error}") from None


def write_recording(lake: Lake, folder: RunFolder, rubric: Rubric, path: Path) -> int:
    """Write the replies of a run: all replies behind the verdicts if published, otherwise the replies so far.

    Returns their number; a run without questions yet leaves the file unchanged. Raises `UnfinishedError` if the file
    cannot be written.
    """
    with connect(lake, read_only=True) as connection:
        if not _make_question_table(connection, folder, rubric):
            return 0
        further = f"insert into asked by name {query('ledger/further_replicates')}"
        connection.execute(further, {"run_id": folder.run_id})
        try:
            with replaced_file(path) as temporary, temporary.open("wb") as file:
                count = 0
                for line in _lines(connection, folder.run_id):
                    file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
                    count += 1
        except OSError as error:
            raise UnfinishedError(f"--record: can't write {path}: {error.strerror or error}") from None
    return count


def _make_question_table(connection: duckdb.DuckDBPyConnection, folder: RunFolder, rubric: Rubric) -> bool:
    """Create the table of questions; returns False if the run has no questions yet."""
    published_count = "select count(*) from runs where run_id = ? and status = 'published'"
    if connection.execute(published_count, [folder.run_id]).fetchone() != (0,):
        of_run = {"run_id": folder.run_id}
        connection.execute(f"create temp table asked as {query('ledger/questions_of_published')}", of_run)
        return True
    plans = [str(file) for file in folder.plan_files(judged_names(rubric))]
    shards = [str(file) for file in sorted((folder.path / "shards").glob("*.parquet"))]
    if plans and shards:
        of_files = {"plans": plans, "shards": shards}
        connection.execute(f"create temp table asked as {query('ledger/questions_of_unfinished')}", of_files)
    return bool(plans and shards)


def _lines(connection: duckdb.DuckDBPyConnection, run_id: str) -> Iterator[Row]:
    for batch in connection.execute(query("ledger/recorded_replies"), {"run_id": run_id}).to_arrow_reader(BATCH_ROWS):
        for row in batch.to_pylist():
            reply = _scored(row) if row["is_scored"] else _row_without_level(row)
            if reply is not None:
                yield {name: row[name] for name in SLOT_FIELDS} | reply


def _scored(row: Row) -> Row:
    distribution = {"distribution": orjson.loads(row["distribution"])} if row["distribution"] else {}
    return {"level": row["level_id"]} | distribution | _reasons(row)


def _row_without_level(row: Row) -> Row | None:
    """Status of a question without a level; None if it was not asked."""
    useless = row["useless"] or {}
    status, _, reply = (row["reason"] or useless.get("status") or "").partition(": ")
    if status not in get_args(RecordedStatus):
        return None
    if status == NO_REPLY:
        return {"status": status, "reply": reply}
    reasons = _reasons(row if row["reason"] else useless)
    return {"status": status, "reply": useless.get("reply")} | reasons


def _reasons(row: Row) -> Row:
    return {"evidence": orjson.loads(row["evidence"] or "[]"), "rationale": row["rationale"]}
