"""The mart `agreement`: raters with raters, judges with raters, and judges with judges, for each criterion.

It is measured on the table `statements`: scores by raters and judges of a run's outputs, on one scale.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gradebook.rubrics.files.tables import LEVELS_SCHEMA, levels_table
from gradebook.rubrics.model.rubric import OVERALL, Rubric
from gradebook.rubrics.statistics.agreement import (
    Agreement,
    Measure,
    confusion_matrix,
    measure_raters,
    measure_sides,
    scale_of,
)
from gradebook.rubrics.statistics.rater_comparison import agreement_with_gaps, alpha_over_people
from gradebook.rubrics.text.reasons import asdict_in_words
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.lake.rows import make_table
from gradebook.tasks.lake.sql import query, quoted
from gradebook.tasks.rubric_store.questions import add_questions, add_questions_of_run
from gradebook.tasks.workspace.folder import RunFolder

RATERS, JUDGE_RATERS, JUDGES = "raters", "judge_raters", "judges"  # kinds of pairs
AGREEMENT_SCHEMA = pa.schema(
    [
        pa.field("criterion_id", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("judge", pa.string()),
        pa.field("rater", pa.string()),
        pa.field("n", pa.int64()),
        pa.field("pair_count", pa.int64()),
        pa.field("statistic", pa.string()),
        pa.field("value", pa.float64()),
        pa.field("ci_low", pa.float64()),
        pa.field("ci_high", pa.float64()),
        pa.field("reason", pa.string()),
    ]
)
LEAST_OUTPUTS = 2  # one output is too few for any statistic
MOST_ONE_BY_ONE = (
    50  # raters: with more, a row for each rater says little, and the time grows with the square of their number
)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Group:
    """Two sides to compare. judge, rater: None: all of them; for the judge, None may also be the run's verdict.

    settled: positions of decisions, which replace the others' opinions on their outputs.
    """

    kind: str
    judge: str | None
    rater: str | None
    first: tuple[int, ...]  # row positions in `ScoreMatrix`; empty: compare all others with each other
    others: tuple[int, ...]
    settled: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ScoreMatrix:
    """Levels and scores on one criterion by raters and judges. levels, scores: (scorer, output), NaN if missing.

    names: (scorer,), side and name of each rater or judge; rows of a side are adjacent. levels and scores are the same
    array if every score is that of its level. scale: (level,), scores of the criterion's levels, ascending; empty if
    unknown. cases: (output,), number of its cluster or case. gaps: (output,), whether the judge's verdict is unscored.
    """

    criterion_id: str
    names: tuple[tuple[str, str], ...]
    levels: Floats
    scores: Floats
    scale: Floats
    cases: NDArray[np.int64]
    gaps: NDArray[np.bool_]

    def rows_of(self, *sides: str) -> list[int]:
        """Rows of these sides, by name."""
        return [position for position, (side, _) in enumerate(self.names) if side in sides]

    def arguments(self, group: Group) -> tuple[Floats, Floats, Floats, NDArray[np.int64]]:
        """Arguments of `measure_raters` or, with only the paired scores, of `measure_sides`."""
        if not group.first:
            other_rows = slice(group.others[0], group.others[-1] + 1)
            return self.levels[other_rows], self.scores[other_rows], self.scale, self.cases
        levels, scores = self.levels_and_scores(group)
        outputs = np.flatnonzero(~np.isnan(scores[0]))
        has_pair = ~np.isnan(scores[1:, outputs]).all(axis=1)
        paired = np.ix_(np.append(0, 1 + np.flatnonzero(has_pair)), outputs)
        paired_scores = scores[paired]
        return paired_scores if levels is scores else levels[paired], paired_scores, self.scale, self.cases[outputs]

    def levels_and_scores(self, group: Group) -> tuple[Floats, Floats]:
        """Levels and scores of one scorer and the others, (scorer, output); decisions replace the others' scores."""
        positions = [*group.first, *group.others, *group.settled]
        levels, scores = self.levels[positions], self.scores[positions]
        if group.settled:
            is_opinion = np.zeros(scores.shape, dtype=np.bool_)
            is_opinion[1 : 1 + len(group.others)] = ~np.isnan(scores[-1])
            levels, scores = (np.where(is_opinion, np.nan, opinions) for opinions in (levels, scores))
        return scores if self.levels is self.scores else levels, scores


def add_agreement_source(connection: duckdb.DuckDBPyConnection, lake: Lake, folder: RunFolder, rubric: Rubric) -> None:
    """Make the source of the mart `agreement`; empty without ratings and without a second judge."""
    table = AGREEMENT_SCHEMA.empty_table()
    if add_statements_of_files(connection, lake, folder, rubric):
        table = agreement_table(connection)
    connection.register("source_agreement", table)


def agreement_table(connection: duckdb.DuckDBPyConnection, criterion_id: str | None = None) -> pa.Table:
    """One row per criterion, kind, judge, rater and statistic, as `AGREEMENT_SCHEMA`. connection: has `statements`."""
    matrices = read_score_matrices(connection, criterion_id)
    rows = [row for matrix in matrices for group in groups_of(matrix) for row in _rows(matrix, group)]
    return pa.Table.from_pylist(rows, schema=AGREEMENT_SCHEMA)


def read_score_matrices(
    connection: duckdb.DuckDBPyConnection, criterion_id: str | None = None
) -> Iterator[ScoreMatrix]:
    """Scores by criterion, for criteria with at least two outputs that have two scorers."""
    parameters = {"criterion_id": criterion_id, "least_count": LEAST_OUTPUTS}
    ids = [row[0] for row in connection.execute(query("agreement/compared_criteria"), parameters).fetchall()]
    for compared_id in ids:
        # Ordered, so that the same run gets the same intervals: cases are grouped by position.
        statements = (
            connection.execute(
                "select output_id, side, who, level_score, score, shared from statements where criterion_id = ? "
                "order by output_id, side, who",
                [compared_id],
            )
            .to_arrow_table()
            .combine_chunks()
        )
        scale = connection.execute(
            "select distinct score from agreed_levels where criterion_id = ? order by score", [compared_id]
        ).fetchnumpy()["score"]
        yield _score_matrix(compared_id, statements, np.asarray(scale, dtype=np.float64))


def groups_of(matrix: ScoreMatrix) -> Iterator[Group]:
    """Groups to compare on a criterion: all together, then each rater unless there are too many, then each judge."""
    raters, members, judge = matrix.rows_of(RATER), matrix.rows_of(MEMBER), matrix.rows_of(JUDGE)
    settled = tuple(matrix.rows_of(SETTLED))
    yield from _one_side(matrix, RATERS, raters)
    if judge and raters:
        yield Group(JUDGE_RATERS, None, None, (judge[0],), tuple(raters), settled)
        for rater in _one_by_one(raters):
            yield Group(JUDGE_RATERS, None, matrix.names[rater][1], (judge[0],), (rater,))
    for member in members if raters else ():
        yield Group(JUDGE_RATERS, matrix.names[member][1], None, (member,), tuple(raters), settled)
    yield from _one_side(matrix, JUDGES, members)


def is_crowded(matrix: ScoreMatrix) -> bool:
    """Whether there are too many raters for one row each."""
    return len(matrix.rows_of(RATER)) > MOST_ONE_BY_ONE


def measure_group(matrix: ScoreMatrix, group: Group) -> Agreement | None:
    """Statistics of a group; None if fewer than two outputs have a pair."""
    arguments = matrix.arguments(group)
    if len(arguments[0]) < 2:
        return None
    agreement = (measure_sides if group.first else measure_raters)(*arguments)
    if agreement.n < LEAST_OUTPUTS:
        return None
    is_verdict = group.kind == JUDGE_RATERS and group.judge is None and group.rater is None
    return (
        replace(agreement, measures=(*agreement.measures, *_judge_measures(matrix, group))) if is_verdict else agreement
    )


def _judge_measures(matrix: ScoreMatrix, group: Group) -> tuple[Measure, Measure]:
    positions = [*group.first, *group.others]  # with people's own opinions, settled or not
    levels, _ = matrix.levels_and_scores(group)
    gaps = agreement_with_gaps(levels, matrix.gaps, matrix.cases)
    if scale_of(levels, matrix.scale) is None:
        gaps = Measure(gaps.statistic, None, None, None, "the scores are not levels", gaps.n)
    return gaps, alpha_over_people(matrix.scores[positions], matrix.cases)


def level_table(matrix: ScoreMatrix, group: Group) -> tuple[Floats, NDArray[np.int64]]:
    """Scores of the levels, and the confusion matrix of the two sides; both empty if scores are not levels."""
    levels, _, scale, _ = matrix.arguments(group)
    levels_of_scale = scale_of(levels, scale)
    if levels_of_scale is None:
        return np.empty(0), np.empty((0, 0), dtype=np.int64)
    return levels_of_scale, confusion_matrix(levels, levels_of_scale)


def _one_side(matrix: ScoreMatrix, kind: str, positions: list[int]) -> Iterator[Group]:
    """Groups of one side: all scorers with each other, then each scorer with the others."""
    if len(positions) < 2:
        return
    yield Group(kind, None, None, (), tuple(positions))
    for position in _one_by_one(positions):
        name = matrix.names[position][1]
        others = tuple(other for other in positions if other != position)
        yield Group(kind, name if kind == JUDGES else None, name if kind == RATERS else None, (position,), others)


def _one_by_one(positions: list[int]) -> list[int]:
    return positions if len(positions) <= MOST_ONE_BY_ONE else []


def _rows(matrix: ScoreMatrix, group: Group) -> Iterator[dict[str, object]]:
    agreement = measure_group(matrix, group)
    if agreement is None:
        return
    head = {"criterion_id": matrix.criterion_id, "kind": group.kind, "judge": group.judge, "rater": group.rater}
    for measure in agreement.measures:
        yield {**head, "pair_count": agreement.pair_count, **asdict_in_words(measure)}


def _score_matrix(criterion_id: str, statements: pa.Table, scale: Floats) -> ScoreMatrix:
    outputs = statements.column("output_id").dictionary_encode().combine_chunks()
    keys = pc.binary_join_element_wise(statements.column("side"), statements.column("who"), "\n").combine_chunks()
    names = sorted(pc.unique(keys).to_pylist())
    rows = pc.index_in(keys, pa.array(names)).to_numpy()
    shape = (len(names), len(outputs.dictionary))
    columns, scores = outputs.indices.to_numpy(), np.full(shape, np.nan)
    scores[rows, columns] = statements.column("score").to_numpy()
    levels = scores
    if not statements.column("level_score").equals(statements.column("score")):
        levels = np.full(shape, np.nan)
        levels[rows, columns] = statements.column("level_score").to_numpy()
    cases, gaps = np.zeros(shape[1], dtype=np.int64), np.zeros(shape[1], dtype=np.bool_)
    cases[columns] = statements.column("shared").combine_chunks().dictionary_encode().indices.to_numpy()
    gaps[columns[statements.column("score").is_null().to_numpy()]] = True
    pairs = [name.split("\n", 1) for name in names]
    return ScoreMatrix(criterion_id, tuple((side, who) for side, who in pairs), levels, scores, scale, cases, gaps)


RATER, JUDGE, MEMBER, SETTLED = "rater", "judge", "member", "settled"  # sides of statements.sql

_NEWER = (
    "null::varchar as selection, null::double as inclusion_rate, null::double as spent_s, "
    "null::double as gold_score, null::varchar as question_digest"
)
_WITH_NEWER = f"union all by name select {_NEWER} where false"  # older tables lack these columns
_OF_LAKE = (
    "select *, false as is_from_file, rowid as line from ratings "
    f"where output_id in (select output_id from run_outputs) {_WITH_NEWER}"
)
_DECISIONS = "select *, rowid as line from adjudications where output_id in (select output_id from run_outputs)"
_DECISIONS_OF_FILE = (
    "select output_id, criterion_id, rater as adjudicator, level_id, score, rated_at as decided_at, question_digest, "
    "line from given_ratings where source = 'adjudication'"
)
NO_DECISIONS = (  # replaces the table in lakes of earlier versions
    "select null::varchar as output_id, null::varchar as criterion_id, null::varchar as adjudicator, "
    "null::varchar as level_id, null::double as score, null::timestamptz as decided_at, 0 as line where false"
)
_OF_RUBRIC = "semi join (from runs {of_run}) as run using (rubric_id, rubric_version)"
_SHARED = "output_id, coalesce('cluster ' || cluster, 'case ' || case_id) as shared"
_LEVELS_SCHEMA = pa.schema([LEVELS_SCHEMA.field(name) for name in ("criterion_id", "level_id", "score")])
_HAS_SEVERAL = "select count(distinct judge) > 1 from agreed_opinions"


def add_statements_of_files(
    connection: duckdb.DuckDBPyConnection, lake: Lake, folder: RunFolder, rubric: Rubric
) -> bool:
    """Add `statements` from the files of a run that is not published yet; returns whether there is anything to compare.

    Ratings come from the run's ratings file, which includes those of the lake, or else from the lake.
    """
    if folder.ratings_file.exists():
        connection.execute(
            "create or replace temp view given_ratings as "
            f"from read_parquet('{quoted(str(folder.ratings_file))}') {_WITH_NEWER}"
        )
        decisions = _DECISIONS_OF_FILE
    else:
        ratings, lake_decisions = _lake_ratings(connection, lake)
        if not ratings.num_rows and not folder.detail_files("opinions"):
            return False
        connection.register("given_ratings", ratings)
        connection.register("given_decisions", lake_decisions)
        decisions = "from given_decisions"
    connection.execute("create or replace temp view agreed_verdicts as from source_verdicts")
    connection.execute("create or replace temp view agreed_opinions as from source_opinions")
    connection.execute(f"create or replace temp view agreed_outputs as select {_SHARED} from source_outputs")
    levels = levels_table(rubric).select(_LEVELS_SCHEMA.names)
    connection.register("agreed_levels", pa.concat_tables([levels, _overall_levels(rubric)]))
    add_questions(connection, rubric, "source_case_criteria")
    for name, relation in (("ratings", "given_ratings"), ("decisions", f"({decisions})")):
        answers = query("rubric_store/answers", given=relation)
        connection.execute(f"create or replace temp view agreed_{name} as {answers}")
    return add_statements(connection)


def add_statements_of_run(connection: duckdb.DuckDBPyConnection, run_id: str) -> bool:
    """Make `statements` from a published run in the lake, and all current ratings of its outputs.

    connection: to the lake. Returns whether there is anything to compare.
    """
    add_ratings_of_run(connection, run_id)
    add_decisions_of_run(connection)
    return _add_statements(connection)


def add_ratings_of_run(connection: duckdb.DuckDBPyConnection, run_id: str) -> None:
    """Make latest_ratings from all current ratings of a published run's outputs, and the run's relations.

    connection: to the lake. The relations are agreed_verdicts, agreed_opinions, agreed_outputs, agreed_levels and
    asked_questions.
    """
    add_criteria_of_run(connection, run_id)
    of_run = f"where run_id = '{quoted(run_id)}'"
    for table in ("verdicts", "opinions"):
        connection.execute(f"create or replace temp view agreed_{table} as from lake.{table} {of_run}")
    connection.execute(f"create or replace temp view run_outputs as select output_id from output_scores {of_run}")
    connection.execute(f"create or replace temp view agreed_outputs as select {_SHARED} from output_scores {of_run}")
    answers = query("rubric_store/answers", given=f"({_OF_LAKE})")
    connection.execute(f"create or replace temp view agreed_ratings as {answers}")
    make_table(connection, "agreement/latest_ratings")


def add_decisions_of_run(connection: duckdb.DuckDBPyConnection) -> None:
    """Make latest_decisions, empty for a lake version without a table of decisions. Needs `add_ratings_of_run`."""
    for decisions in (_DECISIONS, NO_DECISIONS):
        with suppress(duckdb.CatalogException):
            answers = query("rubric_store/answers", given=f"({decisions})")
            connection.execute(f"create or replace temp view agreed_decisions as {answers}")
            break
    make_table(connection, "agreement/latest_decisions")


def add_criteria_of_run(connection: duckdb.DuckDBPyConnection, run_id: str) -> None:
    """Make agreed_levels and asked_questions, of the criteria that apply to a published run's outputs.

    connection: to the lake.
    """
    of_rubric = _OF_RUBRIC.format(of_run=f"where run_id = '{quoted(run_id)}'")
    rubric = add_questions_of_run(connection, run_id)
    connection.register("overall_levels", _LEVELS_SCHEMA.empty_table() if rubric is None else _overall_levels(rubric))
    connection.execute(
        f"create or replace temp table agreed_levels as "
        f"select {', '.join(_LEVELS_SCHEMA.names)} from levels {of_rubric} union all by name from overall_levels"
    )
    connection.unregister("overall_levels")


def add_statements(connection: duckdb.DuckDBPyConnection) -> bool:
    """Make `statements` from agreed_ratings, _decisions, _verdicts, _opinions, _outputs, _levels and asked_questions.

    Returns whether there is anything to compare.
    """
    make_table(connection, "agreement/latest_ratings")
    make_table(connection, "agreement/latest_decisions")
    return _add_statements(connection)


def _add_statements(connection: duckdb.DuckDBPyConnection) -> bool:
    ((rating_count,),) = connection.execute("select count(*) from latest_ratings").fetchall()
    ((has_several_judges,),) = connection.execute(_HAS_SEVERAL).fetchall()
    if not rating_count and not has_several_judges:
        return False
    make_table(connection, "agreement/statements")
    return True


def _overall_levels(rubric: Rubric) -> pa.Table:
    """Levels of the overall row, if the rubric has one."""
    levels = rubric.overall.ranked_levels if rubric.overall else ()
    rows = [{"criterion_id": OVERALL, "level_id": level.id, "score": level.score} for level in levels]
    return pa.Table.from_pylist(rows, schema=_LEVELS_SCHEMA)


def _lake_ratings(connection: duckdb.DuckDBPyConnection, lake: Lake) -> tuple[pa.Table, pa.Table]:
    """Ratings in the lake of the run's outputs, and decisions; reads no outputs if the lake has no ratings."""
    with connect(lake, read_only=True) as reader:
        has_ratings = bool(reader.execute("select 1 from ratings limit 1").fetchall())
        select = f"select output_id from source_outputs {'' if has_ratings else 'limit 0'}"
        reader.register("run_outputs", connection.execute(select).to_arrow_table())
        return reader.execute(_OF_LAKE).to_arrow_table(), reader.execute(_DECISIONS).to_arrow_table()
