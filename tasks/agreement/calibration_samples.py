"""Samples for calibration: the judge's scores and people's ratings by criterion, model and checkpoint."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gradebook.rubrics.model.counts import counted
from gradebook.rubrics.statistics.calibration import MOST_SHIFT, Rated, selection_shift, suspicious_shift
from gradebook.tasks.agreement.statements import add_decisions_of_run, add_ratings_of_run
from gradebook.tasks.lake.rows import make_table
from gradebook.tasks.lake.sql import query
from gradebook.tasks.ratings.rating_queue import page_source

_ELSEWHERE_COLUMNS = "criterion_id varchar, output_id varchar, score double"
_LEVELS = "select score from agreed_levels where criterion_id = ? order by score"
_CHOSEN = {
    "uncertain": "uncertain",
    "disputed": "disputed",
    "gates": "gate-failing",
    "weak": "weak",
    "gold": "gold",
}  # by selection of the rating page

_WEIGHTED = "select 1 from runs where run_id = ? and (settings ->> '$.stratify') is not null"
_UNWEIGHTED = "the run's cases were drawn by stratum: its means are weighted, these are not"

Group = tuple[str, str, str | None]  # criterion, model, checkpoint


@dataclass(frozen=True, slots=True)
class Judged:
    """Outputs that the judge scored: one row per output and criterion, sorted by criterion, model and checkpoint.

    table: criterion_id, model, checkpoint, case_id, shared (cluster or case), sample_index, output_id, score,
    rating (null if unrated), is_drawn.
    unjudged: number of outputs without a judge's score because people score them instead, if not 0. left_out: number of
    ratings of outputs that a rule chose for rating, by the rule.
    """

    table: pa.Table
    unjudged: dict[Group, int]
    left_out: dict[Group, dict[str, int]]
    is_weighted: bool = False  # the run's cases were drawn by stratum, so its means are weighted, and these are not

    def where(self, is_chosen: pa.ChunkedArray) -> "Judged":
        """Only some of the outputs. is_chosen: of each row."""
        return replace(self, table=self.table.filter(is_chosen).combine_chunks())

    @property
    def unjudged_words(self) -> str | None:
        """Explanation of `unjudged` for the whole run."""
        if not self.unjudged:
            return None
        return (
            f"people score {counted(sum(self.unjudged.values()), 'verdict')} in the judge's place (prefer: human): "
            "evaluate the outputs with a rubric without `prefer` too, and the judge's scores there count"
        )


@dataclass(frozen=True, slots=True)
class Sample:
    """One model and checkpoint on one criterion, with at least one rating.

    levels: scores of the criterion's levels, ascending. selection: why the rated outputs are not a random sample, by
    the judge's scores or by what people gave no score; None if nothing shows it. excused_count: outputs of the random
    sample that people gave no score, as the criterion does not apply, or as they took it back. left_out: which ratings
    are not in the sample because a rule chose their outputs; None if there are none. note: why its estimates may be
    biased.
    """

    criterion_id: str
    model: str
    checkpoint: str | None
    rated: Rated
    levels: tuple[float, ...]
    selection: str | None
    left_out: str | None
    note: str | None
    excused_count: int = 0

    @property
    def two_levels(self) -> tuple[float, float] | None:
        """Scores of both levels if the criterion has exactly two; else None."""
        return (self.levels[0], self.levels[1]) if len(self.levels) == 2 and self.levels[0] < self.levels[1] else None


def read_judged(connection: duckdb.DuckDBPyConnection, run_id: str, criteria: Sequence[str] | None = None) -> Judged:
    """Read the judge's scores of a published run, and all ratings of the run's outputs that exist now.

    connection: to the lake; gets the tables of `tasks.agreement.statements`. criteria: these criteria, which may be a
    check's too; None: the judge's criteria.
    """
    add_ratings_of_run(connection, run_id)
    add_decisions_of_run(connection)
    make_table(connection, "agreement/preferred", run_id=run_id)
    connection.execute(f"create or replace temp table scores_elsewhere ({_ELSEWHERE_COLUMNS})")
    if connection.execute("select 1 from preferred limit 1").fetchall():
        make_table(connection, "agreement/questions_alike", run_id=run_id)
        connection.execute(f"insert into scores_elsewhere {query('agreement/scores_elsewhere')}")
    chosen = {"run_id": run_id, "criteria": None if criteria is None else list(criteria)}
    of_page = chosen | {"page_source": page_source(run_id)}
    table = connection.execute(query("agreement/calibration_samples"), of_page).to_arrow_table().combine_chunks()
    unjudged = connection.execute(query("agreement/unjudged_counts"), chosen).fetchall()
    left_out: dict[Group, dict[str, int]] = {}
    for *group, selection, count in connection.execute(query("agreement/left_out_counts"), chosen).fetchall():
        criterion, model, checkpoint = group
        left_out.setdefault((criterion, model, checkpoint), {})[selection] = count
    is_weighted = bool(connection.execute(_WEIGHTED, [run_id]).fetchall())
    return Judged(
        table,
        {(criterion, model, checkpoint): count for criterion, model, checkpoint, count in unjudged},
        left_out,
        is_weighted,
    )


def samples_of(
    connection: duckdb.DuckDBPyConnection, judged: Judged, codes: Mapping[str, int] | None = None
) -> Iterator[Sample]:
    """Samples for each criterion, model and checkpoint with at least one rating.

    codes: numbers of the cases, by `shared`; None: a numbering of each sample, or none if no case has several outputs.
    """
    for places in _slices(judged.table, ("criterion_id", "model", "checkpoint")):
        part = judged.table.slice(places.start, len(places))
        criterion_id, model, checkpoint = (part.column(name)[0].as_py() for name in part.column_names[:3])
        left_out = judged.left_out.get((criterion_id, model, checkpoint))
        if part.column("rating").null_count == part.num_rows and left_out is None:
            continue
        levels = tuple(row[0] for row in connection.execute(_LEVELS, [criterion_id]).fetchall())
        rated = _rated(part, codes)
        unjudged = _unjudged_note(judged.unjudged.get((criterion_id, model, checkpoint), 0))
        note = "; ".join(filter(None, (unjudged, _UNWEIGHTED if judged.is_weighted else None))) or None
        is_drawn, is_rated = part.column("is_drawn"), pc.is_valid(part.column("rating"))
        excused_count = pc.sum(pc.and_not(is_drawn, is_rated)).as_py() or 0
        # A sample that is one by design has to be off by more.
        bound = MOST_SHIFT if pc.all(pc.filter(is_drawn, is_rated)).as_py() else suspicious_shift(rated)
        selection = _excused_note(excused_count, rated.n) or _selection_note(rated, bound)
        left_out_words = _left_out_words(left_out, rated.n)
        named = criterion_id, model, checkpoint
        yield Sample(*named, rated, levels, selection if rated.n else None, left_out_words, note, excused_count)


def _rated(part: pa.Table, codes: Mapping[str, int] | None) -> Rated:
    ratings, scores = (part.column(name).to_numpy() for name in ("rating", "score"))
    cases = part.column("shared").combine_chunks().dictionary_encode().indices.to_numpy()
    if codes is not None:
        cases = np.array([codes[name] for name in part.column("shared").to_pylist()], dtype=np.int64)
    is_rated = ~np.isnan(ratings)
    has_clusters = codes is not None or np.unique(cases).size < cases.size
    return Rated(
        ratings[is_rated],
        scores[is_rated],
        scores[~is_rated],
        cases[is_rated] if has_clusters else None,
        cases[~is_rated] if has_clusters else None,
    )


def _unjudged_note(count: int) -> str | None:
    if not count:
        return None
    whom = f"{counted(count, 'output')} that people score in the judge's place"
    return f"these means are without {whom} (prefer: human), which the judge did not score"


def _left_out_words(counts: dict[str, int] | None, n: int) -> str | None:
    if not counts:
        return None
    ratings = counted(sum(counts.values()), "rating")
    of = " and ".join(_CHOSEN[selection] for selection in counts)
    return f"left out: {ratings} of {of} outputs, which a rule chose; {counted(n, 'rated output')} of a sample"


def _excused_note(excused_count: int, rated_count: int) -> str | None:
    if not excused_count:
        return None
    drawn = counted(excused_count + rated_count, "output")
    return (
        f"people gave {excused_count:,} of {drawn} of the random sample no score, as the criterion does not apply or "
        "they took it back: what such outputs are worth is unknown, and the others are not a random sample"
    )


def _selection_note(rated: Rated, bound: float) -> str | None:
    shift = selection_shift(rated)
    if shift is None or abs(shift) <= bound:
        return None
    return (
        f"the rated outputs are not a random sample: the judge gave them {rated.judged.mean():.3f} on average, "
        f"the others {rated.unrated.mean():.3f}, {abs(shift):.1f} standard errors apart"
    )


def _slices(table: pa.Table, keys: tuple[str, ...]) -> Iterator[range]:
    """Ranges of consecutive rows with equal keys, in a table sorted by them."""
    if not table.num_rows:
        return
    is_new: NDArray[np.bool_] = np.zeros(table.num_rows, dtype=np.bool_)
    is_new[0] = True
    for key in keys:
        codes = table.column(key).combine_chunks().dictionary_encode().indices.fill_null(-1).to_numpy()
        is_new[1:] |= np.diff(codes) != 0
    starts = [*np.flatnonzero(is_new).tolist(), table.num_rows]
    yield from (range(start, stop) for start, stop in itertools.pairwise(starts))
