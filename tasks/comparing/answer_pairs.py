"""Answers of a baseline or of another model that criteria of the method `preference` compare a run's outputs with."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.methods import BASELINE
from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.prompts.preference import preference_method
from gradebook.tasks.comparing.baseline import paired_groups
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, model_name, read_rows
from gradebook.tasks.lake.sql import file_list, open_database, query, quoted
from gradebook.tasks.planning.preferences import PAIR_SCHEMA, preference_criteria
from gradebook.tasks.system.files import write_parquet
from gradebook.tasks.workspace.folder import RunFolder

MOST_NAMED = 10
_COLUMNS = "output_id, case_id, model, checkpoint, sample_index"
_GROUPS = "select distinct model, checkpoint from read_parquet({files}) order by all"
_OF_BASELINE = """
select outputs.output, scores.output_id, scores.case_id, scores.model, scores.checkpoint, scores.sample_index
from output_scores as scores
inner join outputs on scores.output_id = outputs.output_id
where scores.run_id = '{run_id}'
"""
_GROUP_SCHEMA = pa.schema(
    [pa.field(name, pa.string()) for name in ("model", "checkpoint", "other_model", "other_checkpoint")]
)


def write_pairs(lake: Lake, folder: RunFolder, rubric: Rubric, shards: Sequence[str], baseline: str | None) -> None:
    """Write the pairs of each criterion that prefers to the run's folder, as `PAIR_SCHEMA`, a file a shard.

    As in a comparison, an output is paired with the one answer to its case and sample of the model that it is held
    against. Raises `InputError` for a model that the outputs lack.
    """
    for criterion in preference_criteria(rubric):
        against = preference_method(criterion).against
        if against == BASELINE and baseline is None:
            raise InputError(f"{criterion.id}: method.against", BASELINE, "a run with --baseline")
        if against == BASELINE and baseline is not None:
            with connect_up_to_date(lake) as connection, _views(connection, _OF_BASELINE, run_id=quoted(baseline)):
                groups = [_group(own, other) for other, own in paired_groups(lake, folder.run_id, baseline, shards)]
                _write(connection, folder, criterion.id, shards, groups, f"the run {baseline}")
        else:
            select = f"select output, {_COLUMNS} from read_parquet({{files}})"
            with open_database() as connection, _views(connection, select, files=file_list(shards)):
                groups = _groups_of(connection, criterion.id, against, shards)
                _write(connection, folder, criterion.id, shards, groups, against)


@contextmanager
def _views(connection: duckdb.DuckDBPyConnection, select: str, **words: str) -> Iterator[None]:
    connection.execute(f"create or replace temp view other_outputs as {select.format(**words)}")
    try:
        yield
    finally:
        connection.execute("drop view if exists other_outputs")


def _groups_of(
    connection: duckdb.DuckDBPyConnection, criterion_id: str, against: str, shards: Sequence[str]
) -> list[Row]:
    """Every model and checkpoint of the outputs, each with those of the model that is held against them."""
    found = read_rows(connection, _GROUPS.format(files=file_list(shards)))
    others = [each for each in found if against in (each["model"], model_name(each))]
    if not others:
        names = [model_name(each) for each in found]
        more = ", ..." if len(names) > MOST_NAMED else ""
        expected = f"{BASELINE}, or a model of the outputs: {', '.join(names[:MOST_NAMED])}{more}"
        raise InputError(f"{criterion_id}: method.against", against, expected)
    return [_group(own, other) for own in found for other in others]


def _group(own: Row, other: Row) -> Row:
    return {**own, "other_model": other["model"], "other_checkpoint": other["checkpoint"]}


def _write(
    connection: duckdb.DuckDBPyConnection,
    folder: RunFolder,
    criterion_id: str,
    shards: Sequence[str],
    groups: Sequence[Row],
    name: str,
) -> None:
    connection.register("answer_groups", pa.Table.from_pylist(list(groups), _GROUP_SCHEMA))
    for index, shard in enumerate(shards):
        own = (
            f"select file_row_number as place, {_COLUMNS} from read_parquet('{quoted(shard)}', file_row_number = true)"
        )
        connection.execute(f"create or replace temp view own_outputs as {own}")
        found = connection.execute(query("comparing/answer_pairs")).to_arrow_table()
        reasons = [_reason(count, name) for count in found.column("other_count").to_pylist()]
        columns = [*found.columns[:3], pa.array(reasons, pa.string())]
        write_parquet(folder.pairs_file(criterion_id, index), pa.table(columns, schema=PAIR_SCHEMA))
    connection.execute("drop view if exists own_outputs")
    connection.unregister("answer_groups")


def _reason(other_count: int, name: str) -> str | None:
    if other_count == 1:
        return None
    found = f"{other_count} answers" if other_count else "no answer"
    return f"no_pair: found {found} of {name} to the case and sample, expected one"
