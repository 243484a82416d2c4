"""Two runs beside each other: case by case, on the criteria whose text is the same in both."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import duckdb

from rubrics.errors import InputError
from rubrics.model import Criterion, Rubric
from rubrics.versions import rubric_from_body
from tasks.lake import Lake, connect, upgrade_lake
from tasks.requirements import Row, model_name, read_rows

_RUN = """
select runs.run_id, runs.status, runs.version, runs.rubric_id, runs.rubric_version, runs.rubric_digest, rubrics.body
from runs
left join rubrics on runs.rubric_id = rubrics.rubric_id and runs.rubric_version = rubrics.rubric_version
where runs.run_id = ?
"""
_GROUPS = "select model, checkpoint from run_scores where run_id = ? order by model, checkpoint"
_OUTPUTS = """
select '{side}' as side, output_id, case_id, sample_index, score
from output_scores
where run_id = $run_{side} and model = $model_{side} and checkpoint is not distinct from $checkpoint_{side}
"""
# held_to: the criteria that the row brought along, where they bear on the score.
_VERDICTS = """
select outputs.*, verdicts.criterion_id, verdicts.score, coalesce(own.body, '') as held_to
from outputs
inner join verdicts on outputs.output_id = verdicts.output_id
left join case_criteria as own
    on own.run_id = $run_{side}
    and verdicts.output_id = own.output_id
    and verdicts.criterion_id = own.criterion_id
where outputs.side = '{side}' and verdicts.run_id = $run_{side}
"""
_OVERALL = """
select outputs.*, '' as criterion_id, outputs.output_score as score, coalesce(own.bodies, '') as held_to
from outputs
left join (
    select output_id, string_agg(body, chr(10) order by body) as bodies
    from case_criteria
    where run_id = $run_{side}
    group by output_id
) as own
    on outputs.output_id = own.output_id
where outputs.side = '{side}'
"""
# The same output stands beside itself. Any other stands beside that of its case and sample_index, where each side has
# one: of several, nothing says which belongs to which.
_COMPARISON = """
with twins as (
    select *, if(count(*) over (partition by output_id) = 2, output_id, '') as twin_id
    from ({outputs_a} union all {outputs_b})
),

counted as (
    select
        * exclude (score),
        score as output_score,
        count(*) filter (side = 'a') over place as count_a,
        count(*) filter (side = 'b') over place as count_b,
    from twins
    window place as (partition by case_id, sample_index, twin_id)
),

outputs as (
    select
        side,
        output_id,
        case_id,
        sample_index,
        twin_id,
        output_score,
        count_a = 1 and count_b = 1 as has_partner,
        count_a > 0 and count_b > 0 and not has_partner as is_ambiguous,
    from counted
),

scores as ({scores_a} union all {scores_b}),

pairs as (
    select
        criterion_id,
        has_partner,
        is_ambiguous,
        has_partner and count(*) = 2 as is_pair,
        count(*) as output_count,
        max(score) filter (side = 'a' and has_partner) as score_a,
        max(score) filter (side = 'b' and has_partner) as score_b,
    from scores
    group by criterion_id, case_id, sample_index, twin_id, held_to, has_partner, is_ambiguous
)

select
    criterion_id,
    count(*) filter (score_a is not null and score_b is not null) as n,
    avg(score_a) filter (score_b is not null) as mean_a,
    avg(score_b) filter (score_a is not null) as mean_b,
    avg(score_b - score_a) as mean_diff,
    count(*) filter (score_b > score_a + 1e-9) as better_count,
    count(*) filter (score_b < score_a - 1e-9) as worse_count,
    count(*) filter (abs(score_b - score_a) <= 1e-9) as tied_count,
    coalesce(sum(output_count) filter (not is_pair and not is_ambiguous), 0)::bigint as unpaired_count,
    count(*) filter (has_partner and not is_pair) as held_otherwise_count,
    coalesce(sum(output_count) filter (is_ambiguous), 0)::bigint as ambiguous_count,
    count(*) filter (is_pair and (score_a is null or score_b is null)) as unscored_count,
from pairs
group by criterion_id
"""


@dataclass(frozen=True, slots=True)
class CriterionComparison:
    """One criterion over the cases that both sides have scored; means in 0..1, differences B - A.

    Each output of both runs is in one of four counts: n and unscored_count count pairs, two outputs each;
    unpaired_count and ambiguous_count count outputs. Ambiguous: its case and sample_index have several on a side.
    held_otherwise_count: those of the unpaired whose partner was held to other criteria of its own, or to none.
    """

    model_a: str
    model_b: str
    criterion_id: str  # empty: the overall score
    n: int
    mean_a: float | None
    mean_b: float | None
    mean_diff: float | None
    better_count: int
    worse_count: int
    tied_count: int
    unpaired_count: int
    held_otherwise_count: int
    ambiguous_count: int
    unscored_count: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs beside each other, a pair of models after the other, each in the order of the rubric.

    overall: only where both are of one rubric version. not_compared: criteria, models and outputs that stand beside
    nothing, each with why.
    """

    run_a: Row
    run_b: Row
    banner: str | None
    overall: tuple[CriterionComparison, ...]
    criteria: tuple[CriterionComparison, ...]
    not_compared: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """One JSON object: what `--json` prints."""
        return {
            "run_a": self.run_a,
            "run_b": self.run_b,
            "banner": self.banner,
            "overall": [asdict(row) for row in self.overall],
            "criteria": [asdict(row) for row in self.criteria],
            "not_compared": list(self.not_compared),
        }


def compare_runs(lake: Lake, run_a: str, run_b: str) -> Comparison:
    """Compare two published runs. Raises `InputError` where there is no such run, or nothing to pair."""
    upgrade_lake(lake)
    with connect(lake, read_only=True) as connection:
        a, b = _read_run(connection, lake, run_a), _read_run(connection, lake, run_b)
        rubric_a, rubric_b = (rubric_from_body(run.pop("body")) for run in (a, b))
        pairs, alone = _pair_groups(connection, run_a, run_b)
        rows = [tuple(_compare(connection, run_a, run_b, pair, _VERDICTS)) for pair in pairs]
        overall = [row for pair in pairs for row in _compare(connection, run_a, run_b, pair, _OVERALL)]
    same, others = _same_criteria(rubric_a, rubric_b)
    own_ids = {row.criterion_id for of_pair in rows for row in of_pair}
    own_ids -= {criterion.id for criterion in (*rubric_a.criteria, *rubric_b.criteria)}
    criteria = [row for of_pair in rows for row in _in_order(of_pair, [*same, *sorted(own_ids)])]
    is_one_version = a["rubric_digest"] == b["rubric_digest"] and rubric_a.id == rubric_b.id
    compared_ids = {*same, *(row.criterion_id for row in criteria if row.n + row.unscored_count)}
    return Comparison(
        run_a=a,
        run_b=b,
        banner=None if is_one_version else _banner(a, b, len(compared_ids)),
        overall=tuple(overall) if is_one_version else (),
        criteria=tuple(criteria),
        not_compared=(*others, *alone, *_left_out(overall, is_one_version=is_one_version)),
    )


def is_same_question(old: Criterion, new: Criterion) -> bool:
    """Whether two criteria ask and score alike: description, levels and method; weight, gate and threshold aside."""
    return (old.description, old.method, old.ranked_levels) == (new.description, new.method, new.ranked_levels)


def _read_run(connection: duckdb.DuckDBPyConnection, lake: Lake, run_id: str) -> Row:
    found = read_rows(connection, _RUN, run_id)
    if not found:
        raise InputError(f"run: found no {run_id!r} in {lake.name}, expected one of those that `gradebook runs` lists")
    if found[0]["status"] != "published":
        raise InputError(f"run: {run_id} is {found[0]['status']}, expected a published run")
    return dict(found[0])


def _same_criteria(old: Rubric, new: Rubric) -> tuple[list[str], list[str]]:
    """The ids of the criteria that ask alike, in the order of the newer rubric; and the others, with why."""
    olds, news = ({criterion.id: criterion for criterion in rubric.criteria} for rubric in (old, new))
    same = [name for name in news if name in olds and is_same_question(olds[name], news[name])]
    others = [f"{name}: its text differs" for name in news if name in olds and name not in same]
    others += [f"{name}: only in {new.id} {new.version}" for name in news if name not in olds]
    others += [f"{name}: only in {old.id} {old.version}" for name in olds if name not in news]
    return same, others


def _in_order(rows: tuple[CriterionComparison, ...], criterion_ids: list[str]) -> list[CriterionComparison]:
    places = {criterion_id: place for place, criterion_id in enumerate(criterion_ids)}
    return sorted((row for row in rows if row.criterion_id in places), key=lambda row: places[row.criterion_id])


def _left_out(overall: list[CriterionComparison], *, is_one_version: bool) -> Iterator[str]:
    """The outputs that both sides have and that are not compared, in words."""
    for row in overall:
        names = " and ".join(dict.fromkeys((row.model_a, row.model_b)))
        if is_one_version and row.held_otherwise_count:
            cases = _counted(row.held_otherwise_count // 2, "case")  # both outputs of a case are counted
            yield f"{names}: the overall score of {cases}, held to other criteria in run A than in run B"
        if row.ambiguous_count:
            outputs = _counted(row.ambiguous_count, "output")
            yield f"{names}: {outputs}, as a run has several of one case and sample_index"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _banner(a: Row, b: Row, compared_count: int) -> str:
    names = [f"{run['rubric_id']} {run['rubric_version']}" for run in (a, b)]
    match compared_count:
        case 0:
            compared = "no criterion has the same text in both, so nothing is compared"
        case 1:
            compared = "1 criterion has the same text in both and is compared"
        case _:
            compared = f"{compared_count} criteria have the same text in both and are compared"
    return f"different rubrics: {names[0]} and {names[1]}. Their overall scores are not comparable; {compared}."


def _pair_groups(
    connection: duckdb.DuckDBPyConnection, run_a: str, run_b: str
) -> tuple[list[tuple[Row, Row]], list[str]]:
    """Which model of A stands beside which of B: the only ones, or those of one name and checkpoint; and the others."""
    of_a, of_b = read_rows(connection, _GROUPS, run_a), read_rows(connection, _GROUPS, run_b)
    if len(of_a) == len(of_b) == 1:
        return [(of_a[0], of_b[0])], []
    pairs = [(group, group) for group in of_a if group in of_b]
    if not pairs:
        names = [", ".join(model_name(row) for row in rows) for rows in (of_a, of_b)]
        raise InputError(f"compare: found the models {names[0]} and {names[1]}, expected one each or a common one")
    alone = [f"{model_name(group)}: only in run A" for group in of_a if group not in of_b]
    alone += [f"{model_name(group)}: only in run B" for group in of_b if group not in of_a]
    return pairs, alone


def _compare(
    connection: duckdb.DuckDBPyConnection, run_a: str, run_b: str, pair: tuple[Row, Row], scores: str
) -> Iterator[CriterionComparison]:
    parts = {"outputs": _OUTPUTS, "scores": scores}
    sides = {f"{name}_{side}": part.format(side=side) for name, part in parts.items() for side in "ab"}
    values = {"run_a": run_a, "run_b": run_b}
    for side, group in zip("ab", pair, strict=True):
        values |= {f"model_{side}": group["model"], f"checkpoint_{side}": group["checkpoint"]}
    found = connection.execute(_COMPARISON.format(**sides), values)
    names = [column[0] for column in found.description or ()]
    for row in found.fetchall():
        yield CriterionComparison(model_name(pair[0]), model_name(pair[1]), **dict(zip(names, row, strict=True)))
