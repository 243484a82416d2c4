"""Recordings: the replies of a run in a file for `replay:FILE`, whichever run paid for them."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import duckdb
import orjson

from gradebook.rubrics.model.errors import InputError, JudgeSettingsError, UnfinishedError
from gradebook.tasks.judging.replies.recorded_judge import NO_REPLY, RecordedStatus, check_recording
from gradebook.tasks.judging.settings.judge import JudgeSettings, ReplaySettings
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.lake.sql import file_list
from gradebook.tasks.system.files import replaced_file
from gradebook.tasks.workspace.folder import RunFolder

BATCH_ROWS = 2_000
SLOT_FIELDS = ("case_id", "model", "checkpoint", "sample_index", "criterion_id", "output_id", "replicate")

Row = dict[str, Any]

# is_scored: what the verdict says, null where there is none yet and the ledger has to say it.
_ASKED_OF_PUBLISHED = """
create temp table asked as
select
    outputs.case_id, outputs.model, outputs.checkpoint, outputs.sample_index, verdicts.output_id,
    verdicts.criterion_id, verdicts.request_key, 0 as replicate, verdicts.status = 'scored' as is_scored,
    verdicts.level_id, verdicts.reason, verdicts.evidence, verdicts.rationale
from verdicts
inner join outputs on verdicts.output_id = outputs.output_id
where verdicts.run_id = $run and verdicts.method = 'judge' and verdicts.request_key is not null
    and not exists (from opinions where opinions.run_id = $run)
union all by name
select
    outputs.case_id, outputs.model, outputs.checkpoint, outputs.sample_index, opinions.output_id,
    opinions.criterion_id, opinions.request_key, opinions.replicate, null::boolean as is_scored, opinions.reason
from opinions
inner join outputs on opinions.output_id = outputs.output_id
where opinions.run_id = $run and not opinions.is_swapped
"""
_ASKED_OF_UNFINISHED = """
create temp table asked as
select
    shards.case_id, shards.model, shards.checkpoint, shards.sample_index, plans.output_id,
    plans.criterion_id, plans.request_key, plans.replicate, null::boolean as is_scored,
    null::varchar as level_id, null::varchar as reason, null::varchar as evidence, null::varchar as rationale
from read_parquet({plans}) as plans
inner join read_parquet({shards}) as shards on plans.output_id = shards.output_id
where not plans.is_swapped
"""
_ADD_REPLICATES = """
insert into asked by name
select distinct
    asked.case_id, asked.model, asked.checkpoint, asked.sample_index, asked.output_id, asked.criterion_id,
    judgments.request_key, judgments.replicate
from judgments
inner join asked on judgments.output_id = asked.output_id and judgments.criterion_id = asked.criterion_id
where judgments.run_id = ? and judgments.replicate > 0 and asked.replicate = 0
    and judgments.request_key not in (select request_key from asked)
"""
_REPLIES = """
with scored as (
    select
        request_key,
        arg_min(struct_pack(level_id, distribution, evidence, rationale), (asked_at, judgment_id)) as reply
    from judgments
    where status = 'scored' and request_key in (select request_key from asked)
    group by request_key
),

useless as (
    select
        request_key,
        arg_max(struct_pack(status, reply, evidence, rationale), (asked_at, judgment_id)) as reply
    from judgments
    where status <> 'scored' and run_id = ? and request_key in (select request_key from asked)
    group by request_key
)

select
    asked.* exclude (is_scored, level_id, evidence, rationale),
    coalesce(asked.is_scored, scored.reply is not null) as is_scored,
    coalesce(asked.level_id, scored.reply.level_id) as level_id,
    scored.reply.distribution as distribution,
    coalesce(asked.evidence, if(asked.is_scored is null, scored.reply.evidence, null)) as evidence,
    coalesce(asked.rationale, if(asked.is_scored is null, scored.reply.rationale, null)) as rationale,
    useless.reply as useless
from asked
left join scored on asked.request_key = scored.request_key
left join useless on asked.request_key = useless.request_key
order by case_id, model, checkpoint nulls first, sample_index, output_id, criterion_id, replicate
"""


def refuse_record(path: Path, judge: JudgeSettings | ReplaySettings | None) -> None:
    """Raise `InputError` if a run's replies cannot be written to a file, or would replace something else."""
    if judge is None:
        raise InputError("--record", "no --judge", "one whose replies are to be kept")
    if isinstance(judge, ReplaySettings) and judge.path.resolve() == path.resolve():
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


def write_recording(lake: Lake, folder: RunFolder, path: Path) -> int:
    """Write the replies of a run: all replies behind the verdicts if published, otherwise the replies so far.

    Returns their number; a run without questions yet leaves the file unchanged. Raises `UnfinishedError` if the file
    cannot be written.
    """
    with connect(lake, read_only=True) as connection:
        if not _find_asked(connection, folder):
            return 0
        connection.execute(_ADD_REPLICATES, [folder.run_id])
        try:
            with replaced_file(path) as temporary, temporary.open("wb") as file:
                count = 0
                for line in _lines(connection, folder.run_id):
                    file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
                    count += 1
        except OSError as error:
            raise UnfinishedError(f"--record: can't write {path}: {error.strerror or error}") from None
    return count


def _find_asked(connection: duckdb.DuckDBPyConnection, folder: RunFolder) -> bool:
    """Create the table of questions; False if the run has none yet."""
    query = "select count(*) from runs where run_id = ? and status = 'published'"
    if connection.execute(query, [folder.run_id]).fetchone() != (0,):
        connection.execute(_ASKED_OF_PUBLISHED, {"run": folder.run_id})
        return True
    plans = [str(file) for file in sorted((folder.path / "plan").glob("*/*.parquet"))]
    shards = [str(file) for file in sorted((folder.path / "shards").glob("*.parquet"))]
    if plans and shards:
        connection.execute(_ASKED_OF_UNFINISHED.format(plans=file_list(plans), shards=file_list(shards)))
    return bool(plans and shards)


def _lines(connection: duckdb.DuckDBPyConnection, run_id: str) -> Iterator[Row]:
    for batch in connection.execute(_REPLIES, [run_id]).to_arrow_reader(BATCH_ROWS):
        for row in batch.to_pylist():
            reply = _scored(row) if row["is_scored"] else _useless(row)
            if reply is not None:
                yield {name: row[name] for name in SLOT_FIELDS} | reply


def _scored(row: Row) -> Row:
    distribution = {"distribution": orjson.loads(row["distribution"])} if row["distribution"] else {}
    return {"level": row["level_id"]} | distribution | _reasons(row)


def _useless(row: Row) -> Row | None:
    """Status of a question without a level; None if it was not asked."""
    useless = row["useless"] or {}
    status, _, words = (row["reason"] or useless.get("status") or "").partition(": ")
    if status not in get_args(RecordedStatus):
        return None
    if status == NO_REPLY:
        return {"status": status, "reply": words}
    reasons = _reasons(row if row["reason"] else useless)
    return {"status": status, "reply": useless.get("reply")} | reasons


def _reasons(row: Row) -> Row:
    return {"evidence": orjson.loads(row["evidence"] or "[]"), "rationale": row["rationale"]}
