"""The mart `agreement`: raters with raters, judges with raters, and judges with judges, for each criterion."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.statistics.agreement import (
    Agreement,
    Measure,
    confusion_matrix,
    measure_raters,
    measure_sides,
    scale_of,
)
from gradebook.rubrics.statistics.judge_beside_people import agreement_with_gaps, alpha_over_people
from gradebook.tasks.agreement.statements import JUDGE, MEMBER, RATER, SETTLED, add_statements_of_files
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.sql import query
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
    50  # raters; beyond that, one row for each says little, and the time grows with the square of their number
)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Group:
    """Two sides to compare. judge, rater: None for all of them; as the judge, None also means the run's verdict.

    settled: positions of the decisions that count instead of the others' opinions, where there are some.
    """

    kind: str
    judge: str | None
    rater: str | None
    first: tuple[int, ...]  # positions in `Voices`; empty: compare all others with each other
    others: tuple[int, ...]
    settled: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Voices:
    """Statements about one criterion. names: side and name of each voice. levels, scores: (voice, output), NaN if
    missing.

    If every score is that of its level, both are the same array. Voices of a side are adjacent. scale: (level,), scores
    of the criterion's levels, ascending; empty if unknown. cases: (output,), number of its cluster or case. gaps:
    (output,), whether the judge left its verdict unscored.
    """

    criterion_id: str
    names: tuple[tuple[str, str], ...]
    levels: Floats
    scores: Floats
    scale: Floats
    cases: NDArray[np.int64]
    gaps: NDArray[np.bool_]

    def chosen(self, *sides: str) -> list[int]:
        """Positions of the voices of these sides, by name."""
        return [place for place, (side, _) in enumerate(self.names) if side in sides]

    def said(self, group: Group) -> tuple[Floats, Floats, Floats, NDArray[np.int64]]:
        """Arguments of `measure_raters` and `measure_sides`; of one against others, only the paired scores."""
        if not group.first:
            side = slice(group.others[0], group.others[-1] + 1)
            return self.levels[side], self.scores[side], self.scale, self.cases
        levels, scores = self.beside(group)
        outputs = np.flatnonzero(~np.isnan(scores[0]))
        has_pair = ~np.isnan(scores[1:, outputs]).all(axis=1)
        paired = np.ix_(np.append(0, 1 + np.flatnonzero(has_pair)), outputs)
        found = scores[paired]
        return found if levels is scores else levels[paired], found, self.scale, self.cases[outputs]

    def beside(self, group: Group) -> tuple[Floats, Floats]:
        """Levels and scores of one voice and of the others, (voice, output); decisions replace the others' opinions."""
        places = [*group.first, *group.others, *group.settled]
        levels, scores = self.levels[places], self.scores[places]
        if group.settled:
            is_opinion = np.zeros(scores.shape, dtype=np.bool_)
            is_opinion[1 : 1 + len(group.others)] = ~np.isnan(scores[-1])
            levels, scores = (np.where(is_opinion, np.nan, each) for each in (levels, scores))
        return scores if self.levels is self.scores else levels, scores


def add_agreement_source(connection: duckdb.DuckDBPyConnection, lake: Lake, folder: RunFolder, rubric: Rubric) -> None:
    """Make the source of the mart `agreement`; empty without ratings and without a second judge."""
    table = AGREEMENT_SCHEMA.empty_table()
    if add_statements_of_files(connection, lake, folder, rubric):
        table = agreement_table(connection)
    connection.register("source_agreement", table)


def agreement_table(connection: duckdb.DuckDBPyConnection, criterion_id: str | None = None) -> pa.Table:
    """A row a criterion, kind, judge, rater and statistic, as `AGREEMENT_SCHEMA`. connection: has `statements`."""
    every = read_voices(connection, criterion_id)
    rows = [row for voices in every for group in groups_of(voices) for row in _rows(voices, group)]
    return pa.Table.from_pylist(rows, schema=AGREEMENT_SCHEMA)


def read_voices(connection: duckdb.DuckDBPyConnection, criterion_id: str | None = None) -> Iterator[Voices]:
    """Statements by criterion, for criteria with at least two outputs that have two voices."""
    wanted = {"criterion_id": criterion_id, "least_count": LEAST_OUTPUTS}
    ids = [row[0] for row in connection.execute(query("agreement/compared_criteria"), wanted).fetchall()]
    for each in ids:
        # In an order: cases are grouped by position, and the same run must come to the same intervals.
        said = (
            connection.execute(
                "select output_id, side, who, level_score, score, shared from statements where criterion_id = ? "
                "order by output_id, side, who",
                [each],
            )
            .to_arrow_table()
            .combine_chunks()
        )
        scale = connection.execute(
            "select distinct score from agreed_levels where criterion_id = ? order by score", [each]
        ).fetchnumpy()["score"]
        yield _voices(each, said, np.asarray(scale, dtype=np.float64))


def groups_of(voices: Voices) -> Iterator[Group]:
    """Groups to compare on a criterion: all together, then each rater unless there are too many, then each judge."""
    raters, members, judge = voices.chosen(RATER), voices.chosen(MEMBER), voices.chosen(JUDGE)
    settled = tuple(voices.chosen(SETTLED))
    yield from _among(voices, RATERS, raters)
    if judge and raters:
        yield Group(JUDGE_RATERS, None, None, (judge[0],), tuple(raters), settled)
        for rater in _one_by_one(raters):
            yield Group(JUDGE_RATERS, None, voices.names[rater][1], (judge[0],), (rater,))
    for member in members if raters else ():
        yield Group(JUDGE_RATERS, voices.names[member][1], None, (member,), tuple(raters), settled)
    yield from _among(voices, JUDGES, members)


def is_crowded(voices: Voices) -> bool:
    """Whether there are too many raters for one row each."""
    return len(voices.chosen(RATER)) > MOST_ONE_BY_ONE


def measure_group(voices: Voices, group: Group) -> Agreement | None:
    """Statistics of a group; None if fewer than two outputs have a pair."""
    said = voices.said(group)
    if len(said[0]) < 2:
        return None
    found = (measure_sides if group.first else measure_raters)(*said)
    if found.n < LEAST_OUTPUTS:
        return None
    is_verdict = group.kind == JUDGE_RATERS and group.judge is None and group.rater is None
    return replace(found, measures=(*found.measures, *_of_judge(voices, group))) if is_verdict else found


def _of_judge(voices: Voices, group: Group) -> tuple[Measure, Measure]:
    places = [*group.first, *group.others]  # with people's own opinions, settled or not
    levels, _ = voices.beside(group)
    gaps = agreement_with_gaps(levels, voices.gaps, voices.cases)
    if scale_of(levels, voices.scale) is None:
        gaps = Measure(gaps.statistic, None, None, None, "the scores are not levels", gaps.n)
    return gaps, alpha_over_people(voices.scores[places], voices.cases)


def level_table(voices: Voices, group: Group) -> tuple[Floats, NDArray[np.int64]]:
    """Levels, and their confusion matrix between the two sides; empty if scores are not levels."""
    levels, _, scale, _ = voices.said(group)
    every = scale_of(levels, scale)
    if every is None:
        return np.empty(0), np.empty((0, 0), dtype=np.int64)
    return every, confusion_matrix(levels, every)


def _among(voices: Voices, kind: str, places: list[int]) -> Iterator[Group]:
    """Voices of one side compared with each other, then each against the others."""
    if len(places) < 2:
        return
    yield Group(kind, None, None, (), tuple(places))
    for place in _one_by_one(places):
        name = voices.names[place][1]
        others = tuple(other for other in places if other != place)
        yield Group(kind, name if kind == JUDGES else None, name if kind == RATERS else None, (place,), others)


def _one_by_one(places: list[int]) -> list[int]:
    return places if len(places) <= MOST_ONE_BY_ONE else []


def _rows(voices: Voices, group: Group) -> Iterator[dict[str, object]]:
    found = measure_group(voices, group)
    if found is None:
        return
    head = {"criterion_id": voices.criterion_id, "kind": group.kind, "judge": group.judge, "rater": group.rater}
    for measure in found.measures:
        yield {**head, "pair_count": found.pair_count, **asdict(measure)}


def _voices(criterion_id: str, said: pa.Table, scale: Floats) -> Voices:
    outputs = said.column("output_id").dictionary_encode().combine_chunks()
    keys = pc.binary_join_element_wise(said.column("side"), said.column("who"), "\n").combine_chunks()
    names = sorted(pc.unique(keys).to_pylist())
    rows = pc.index_in(keys, pa.array(names)).to_numpy()
    shape = (len(names), len(outputs.dictionary))
    places, scores = outputs.indices.to_numpy(), np.full(shape, np.nan)
    scores[rows, places] = said.column("score").to_numpy()
    levels = scores
    if not said.column("level_score").equals(said.column("score")):
        levels = np.full(shape, np.nan)
        levels[rows, places] = said.column("level_score").to_numpy()
    cases, gaps = np.zeros(shape[1], dtype=np.int64), np.zeros(shape[1], dtype=np.bool_)
    cases[places] = said.column("shared").combine_chunks().dictionary_encode().indices.to_numpy()
    gaps[places[said.column("score").is_null().to_numpy()]] = True
    pairs = [name.split("\n", 1) for name in names]
    return Voices(criterion_id, tuple((side, who) for side, who in pairs), levels, scores, scale, cases, gaps)
