"""Pairing of outputs by case, and the scores of each pair as arrays."""

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gradebook.tasks.comparing.model_pairs import Groups, Wanted
from gradebook.tasks.lake.sql import CLUSTER

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

PART_ROWS = 1_000_000  # verdicts paired at once: memory beyond the scores does not grow with the run

_SIDE = """
select '{side}' as side, output_id, case_id, sample_index, cluster, score, uniform_score, is_passed
from output_scores
where run_id = $run_{side} and model = $model_{side} and checkpoint is not distinct from $checkpoint_{side}
"""
# An output is paired with itself if both sides have it. Otherwise it is paired by case and sample_index, if each side
# has exactly one; with several on a side the pairing would be arbitrary.
_OUTPUTS = """
create or replace temp table compared_outputs as
with twins as (
    select *, if(count(*) over (partition by output_id) = 2, output_id, '') as twin_id
    from ({side_a} union all {side_b})
),

counted as (
    select
        * exclude (twin_id, cluster),
        (dense_rank() over (order by case_id, sample_index, twin_id) - 1)::integer as place,
        max({cluster}) over same_place as bond,
        count(*) filter (side = 'a') over same_place as count_a,
        count(*) filter (side = 'b') over same_place as count_b,
    from twins
    window same_place as (partition by case_id, sample_index, twin_id)
)

select
    * exclude (bond, count_a, count_b),
    (dense_rank() over (order by bond) - 1)::integer as case_number,
    count_a = 1 and count_b = 1 as has_partner,
    count_a > 0 and count_b > 0 and not has_partner as is_ambiguous,
from counted
"""
# part: 0-based; its criteria have about `PART_ROWS` verdicts together, or it is a single criterion.
_CRITERIA = """
create or replace temp table compared_criteria as
select criterion_id, ((sum(n) over (order by criterion_id) - n) // {part_rows})::integer as part
from (
    select criterion_id, count(*) as n
    from verdicts
    where run_id in ($run_a, $run_b)
    group by criterion_id
)
"""
_PART_COUNT = "select coalesce(max(part) + 1, 0) from compared_criteria"
# held_to: the per-case criteria that bear on the score.
_VERDICTS = """
select
    outputs.side, outputs.place, outputs.case_number, outputs.has_partner, outputs.is_ambiguous,
    verdicts.criterion_id, verdicts.score, coalesce(own.body, '') as held_to, own.weight as own_weight,
from compared_outputs as outputs
inner join verdicts on outputs.output_id = verdicts.output_id
left join case_criteria as own
    on own.run_id = $run_{side}
    and verdicts.output_id = own.output_id
    and verdicts.criterion_id = own.criterion_id
where
    outputs.side = '{side}'
    and verdicts.run_id = $run_{side}
    and verdicts.criterion_id in (select criterion_id from compared_criteria where part = $part)
"""
_OVERALL = """
select
    outputs.side, outputs.place, outputs.case_number, outputs.has_partner, outputs.is_ambiguous,
    '' as criterion_id, outputs.score, coalesce(own.bodies, '') as held_to, null::double as own_weight,
from compared_outputs as outputs
left join (
    select output_id, string_agg(body, chr(10) order by body) as bodies
    from case_criteria
    where run_id = $run_{side}
    group by output_id
) as own
    on outputs.output_id = own.output_id
where outputs.side = '{side}'
"""
_PAIRS = """
create or replace temp table compared_pairs as
select
    criterion_id,
    place,
    case_number,
    has_partner,
    is_ambiguous,
    has_partner and count(*) = 2 as is_pair,
    count(*) as output_count,
    max(score) filter (side = 'a' and has_partner) as score_a,
    max(score) filter (side = 'b' and has_partner) as score_b,
    max(own_weight) as own_weight,
from ({scores})
group by criterion_id, place, case_number, held_to, has_partner, is_ambiguous
"""
_COUNTS = """
select
    criterion_id,
    count(*) filter (is_pair) as pair_count,
    coalesce(sum(output_count) filter (not is_pair and not is_ambiguous), 0)::bigint as unpaired_count,
    count(*) filter (has_partner and not is_pair) as held_otherwise_count,
    coalesce(sum(output_count) filter (is_ambiguous), 0)::bigint as ambiguous_count,
    count(*) filter (is_pair and (score_a is null or score_b is null)) as unscored_count,
from compared_pairs
group by criterion_id
order by criterion_id
"""
_SCORES = """
select place, case_number, score_a, score_b, own_weight
from compared_pairs
where is_pair
order by criterion_id, place
"""
_OTHER_SCORES = """
select
    place,
    max(uniform_score) filter (side = 'a') as uniform_a,
    max(uniform_score) filter (side = 'b') as uniform_b,
    max(is_passed::integer) filter (side = 'a') as passed_a,
    max(is_passed::integer) filter (side = 'b') as passed_b,
from compared_outputs
where has_partner
group by place
order by place
"""
_NAMES = """
select
    place,
    any_value(case_id) as case_id,
    any_value(sample_index) as sample_index,
    max(output_id) filter (side = 'a') as output_a,
    max(output_id) filter (side = 'b') as output_b,
from compared_outputs
where list_contains($places, place)
group by place
"""


@dataclass(frozen=True, slots=True)
class PairCounts:
    """Counts of outputs and pairs of a criterion, or of the overall score.

    n and unscored_count count pairs of two outputs each; unpaired_count and ambiguous_count count outputs. Ambiguous:
    a side has several outputs of that case and sample_index. held_otherwise_count: unpaired outputs whose partner has
    other per-case criteria, or none.
    """

    unpaired_count: int
    held_otherwise_count: int
    ambiguous_count: int
    unscored_count: int


@dataclass(frozen=True, slots=True)
class ScorePairs:
    """Pairs of one criterion; all arrays (pair,), ordered by place.

    places: number of the pair within the comparison. cases: number of its case, or of its named cluster.
    scores_a, scores_b: NaN if unscored. own_weights: NaN if the criterion is the rubric's. Arrays may be shared by
    several criteria: do not write to them.
    """

    counts: PairCounts
    places: Integers
    cases: Integers
    scores_a: Floats
    scores_b: Floats
    own_weights: Floats

    @property
    def is_scored(self) -> NDArray[np.bool_]:
        """Mask of the pairs with a score on both sides."""
        return ~(np.isnan(self.scores_a) | np.isnan(self.scores_b))


@dataclass(frozen=True, slots=True)
class OutputPairs:
    """Other scores of each pair's outputs; all (pair,), NaN if unknown."""

    places: Integers
    uniform_a: Floats
    uniform_b: Floats
    passed_a: Floats
    passed_b: Floats


@dataclass(frozen=True, slots=True)
class PairedSides:
    """Two models paired by case. overall: pairs of the overall score; by_criterion: pairs by criterion id."""

    overall: ScorePairs
    by_criterion: dict[str, ScorePairs]
    outputs: OutputPairs


def pair_sides(connection: duckdb.DuckDBPyConnection, wanted: Wanted, groups: Groups) -> PairedSides:
    """Pair the outputs of two models, and read the scores of the pairs.

    Leaves the temporary table `compared_outputs`.
    """
    runs = {"run_a": wanted.run_a, "run_b": wanted.run_b}
    values = dict(runs)
    for side, group in zip("ab", groups, strict=True):
        values |= {f"model_{side}": group["model"], f"checkpoint_{side}": group["checkpoint"]}
    sides = {f"side_{side}": _SIDE.format(side=side) for side in "ab"}
    connection.execute(_OUTPUTS.format(**sides, cluster=CLUSTER), values)
    overall, *criteria = _read_scores(connection, runs)
    return PairedSides(overall[1], dict(criteria), _read_outputs(connection))


def name_places(connection: duckdb.DuckDBPyConnection, places: list[int]) -> dict[int, dict[str, object]]:
    """Case, sample and outputs of some places, by place."""
    found = connection.execute(_NAMES, {"places": places}).to_arrow_table().to_pylist()
    return {row.pop("place"): row for row in found}


def _read_scores(connection: duckdb.DuckDBPyConnection, runs: dict[str, str]) -> Iterator[tuple[str, ScorePairs]]:
    """Overall scores, with an empty id, then each criterion, by id."""
    connection.execute(_CRITERIA.format(part_rows=PART_ROWS), runs)
    ((part_count,),) = connection.execute(_PART_COUNT).fetchall()
    overall: ScorePairs | None = None
    for part in range(max(part_count, 1)):
        parts = (_OVERALL, _VERDICTS) if part == 0 else (_VERDICTS,)
        scores = " union all ".join(each.format(side=side) for each in parts for side in "ab")
        connection.execute(_PAIRS.format(scores=scores), runs | {"part": part})
        for criterion_id, pairs in _read_pairs(connection, overall):
            overall = overall or pairs
            yield criterion_id, pairs
    connection.execute("drop table compared_pairs; drop table compared_criteria")


def _read_pairs(connection: duckdb.DuckDBPyConnection, overall: ScorePairs | None) -> Iterator[tuple[str, ScorePairs]]:
    """Rows of `compared_pairs`, by criterion."""
    counts = connection.execute(_COUNTS).fetchall()
    table = connection.execute(_SCORES).to_arrow_table()
    start = 0
    for criterion_id, pair_count, *others in counts:
        rows = table.slice(start, pair_count)
        start += pair_count
        places, cases = (_integers(rows, name) for name in ("place", "case_number"))
        if overall is not None and np.array_equal(places, overall.places):
            places, cases = overall.places, overall.cases
        scores = _floats(rows, "score_a"), _floats(rows, "score_b")
        found = ScorePairs(PairCounts(*others), places, cases, *scores, _floats(rows, "own_weight"))
        overall = overall or found
        yield criterion_id, found


def _read_outputs(connection: duckdb.DuckDBPyConnection) -> OutputPairs:
    table = connection.execute(_OTHER_SCORES).to_arrow_table()
    places, *others = table.column_names
    return OutputPairs(_integers(table, places), *(_floats(table, name) for name in others))


def _integers(table: pa.Table, name: str) -> Integers:
    return np.asarray(table.column(name).combine_chunks(), np.int64)


def _floats(table: pa.Table, name: str) -> Floats:
    """Column as floats, NaN for null; an all-null column becomes a broadcast view without memory of its own."""
    column = table.column(name)
    if column.null_count == len(column):
        return np.broadcast_to(np.float64(np.nan), len(column))
    found: Floats = column.cast(pa.float64()).combine_chunks().to_numpy(zero_copy_only=False)
    return found
