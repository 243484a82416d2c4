"""Samples for calibration: the judge's scores and people's ratings by criterion, model and checkpoint."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gradebook.rubrics.statistics.calibration import Rated, selection_shift
from gradebook.tasks.agreement.statements import add_ratings_of_run
from gradebook.tasks.lake.sql import CLUSTER
from gradebook.tasks.system.number_format import counted

SUSPICIOUS_SHIFT = 3.0  # standard errors

# If a criterion prefers people, the judge was not asked about the outputs they rated. Its score from another run counts
# instead, if that run asked the same judge the same question with the same scores of levels.
_RUNS_ALIKE = """
create or replace temp table questions_alike as
with asked as (
    select
        r.run_id,
        r.judge,
        r.settings::json -> 'judge' as identity,
        r.version,
        c.criterion_id,
        c.digest,
        c.method,
        (
            select list(l.level_id || '=' || l.score order by l.level_id)
            from levels as l
            where
                l.rubric_id = c.rubric_id
                and l.rubric_version = c.rubric_version
                and l.criterion_id = c.criterion_id
        ) as levels,
        (select max(replicate) from opinions as o where o.run_id = r.run_id) as last_replicate,
    from runs as r
    inner join criteria as c on r.rubric_id = c.rubric_id and r.rubric_version = c.rubric_version
    where r.status = 'published' and r.judge = (select judge from runs where run_id = $1)
)

select other.run_id, other.version, own.criterion_id
from asked as own
inner join asked as other
    on own.criterion_id = other.criterion_id
    and own.digest = other.digest
    and own.identity is not distinct from other.identity
    and own.levels is not distinct from other.levels
    and own.last_replicate is not distinct from other.last_replicate
where own.run_id = $1 and other.run_id <> $1 and own.method = 'judge' and other.method = 'judge'
"""
_SAID_ELSEWHERE = """
create or replace temp table said_elsewhere as
select v.criterion_id, v.output_id, v.score
from lake.verdicts as v
inner join questions_alike as alike on v.run_id = alike.run_id and v.criterion_id = alike.criterion_id
where
    v.run_id in (select run_id from questions_alike)
    and v.status = 'scored'
    and v.method = 'judge'
    and (v.criterion_id, v.output_id) in (select (criterion_id, output_id) from preferred)
qualify row_number() over (partition by v.criterion_id, v.output_id order by alike.version desc) = 1
"""
_PREFERRED = """
create or replace temp table preferred as
select v.criterion_id, v.output_id
from agreed_verdicts as v
inner join criteria as c on v.criterion_id = c.criterion_id
inner join runs as r on c.rubric_id = r.rubric_id and c.rubric_version = r.rubric_version
where r.run_id = $1 and v.method = 'ratings' and c.method = 'judge'
"""
_NOTHING_SAID = """
create or replace temp table said_elsewhere (criterion_id varchar, output_id varchar, score double)
"""
_JUDGED = f"""
with said as (
    select criterion_id, output_id, method, score from agreed_verdicts where status = 'scored' and method <> 'ratings'
    union all
    select criterion_id, output_id, 'judge' as method, score from said_elsewhere
)

select
    v.criterion_id,
    o.model,
    o.checkpoint,
    o.case_id,
    o.shared,
    o.sample_index,
    v.output_id,
    v.score,
    r.rating,
from said as v
inner join (select *, {CLUSTER} as shared from output_scores where run_id = $1) as o on v.output_id = o.output_id
left join (
    select criterion_id, output_id, avg(score) as rating from latest_ratings group by criterion_id, output_id
) as r
    on v.criterion_id = r.criterion_id and v.output_id = r.output_id
where case when $2::varchar[] is null then v.method = 'judge' else list_contains($2, v.criterion_id) end
order by v.criterion_id, o.model, o.checkpoint, v.output_id
"""
_UNJUDGED = """
select p.criterion_id, o.model, o.checkpoint, count(*)
from preferred as p
inner join (from output_scores where run_id = $1) as o on p.output_id = o.output_id
anti join said_elsewhere as s on p.criterion_id = s.criterion_id and p.output_id = s.output_id
where $2::varchar[] is null or list_contains($2, p.criterion_id)
group by p.criterion_id, o.model, o.checkpoint
"""
_LEVELS = "select score from agreed_levels where criterion_id = ? order by score"

Group = tuple[str, str, str | None]  # criterion, model, checkpoint


@dataclass(frozen=True, slots=True)
class Judged:
    """Outputs that the judge scored: one row per output and criterion, sorted by criterion, model and checkpoint.

    table: criterion_id, model, checkpoint, case_id, shared (cluster or case), sample_index, output_id, score,
    rating (null if unrated).
    unjudged: number of outputs without a judge's score because people score them instead, if not 0.
    """

    table: pa.Table
    unjudged: dict[Group, int]

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
    """One model and checkpoint on one criterion, with at least one rated output.

    levels: scores of the criterion's levels, ascending. note: why its estimates may be biased.
    """

    criterion_id: str
    model: str
    checkpoint: str | None
    rated: Rated
    levels: tuple[float, ...]
    note: str | None

    @property
    def two_levels(self) -> tuple[float, float] | None:
        """Scores of both levels if the criterion has exactly two; else None."""
        return (self.levels[0], self.levels[1]) if len(self.levels) == 2 and self.levels[0] < self.levels[1] else None


def read_judged(connection: duckdb.DuckDBPyConnection, run_id: str, criteria: Sequence[str] | None = None) -> Judged:
    """Read the judge's scores of a published run, and all current ratings of its outputs.

    connection: to the lake; receives the tables of `agreement.statements`. criteria: only these, which may be a
    check's;
    None: those of the judge.
    """
    add_ratings_of_run(connection, run_id)
    connection.execute(_PREFERRED, [run_id])
    connection.execute(_NOTHING_SAID)
    if connection.execute("select 1 from preferred limit 1").fetchall():
        connection.execute(_RUNS_ALIKE, [run_id])
        connection.execute(_SAID_ELSEWHERE)
    chosen = [run_id, None if criteria is None else list(criteria)]
    table = connection.execute(_JUDGED, chosen).to_arrow_table().combine_chunks()
    counts = connection.execute(_UNJUDGED, chosen).fetchall()
    return Judged(table, {(criterion, model, checkpoint): count for criterion, model, checkpoint, count in counts})


def samples_of(connection: duckdb.DuckDBPyConnection, judged: Judged) -> Iterator[Sample]:
    """Samples for each criterion, model and checkpoint with at least one rated output."""
    for places in _slices(judged.table, ("criterion_id", "model", "checkpoint")):
        part = judged.table.slice(places.start, len(places))
        if part.column("rating").null_count == part.num_rows:
            continue
        criterion_id, model, checkpoint = (part.column(name)[0].as_py() for name in part.column_names[:3])
        levels = tuple(row[0] for row in connection.execute(_LEVELS, [criterion_id]).fetchall())
        rated = _rated(part)
        notes = (_unjudged_note(judged.unjudged.get((criterion_id, model, checkpoint), 0)), _shift_note(rated))
        yield Sample(criterion_id, model, checkpoint, rated, levels, "; ".join(filter(None, notes)) or None)


def _rated(part: pa.Table) -> Rated:
    ratings, scores = (part.column(name).to_numpy() for name in ("rating", "score"))
    cases = part.column("shared").combine_chunks().dictionary_encode().indices.to_numpy()
    is_rated = ~np.isnan(ratings)
    has_clusters = np.unique(cases).size < cases.size
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


def _shift_note(rated: Rated) -> str | None:
    shift = selection_shift(rated)
    if shift is None or abs(shift) < SUSPICIOUS_SHIFT:
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
